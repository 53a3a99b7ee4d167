// SPDX-License-Identifier: Apache-2.0
// Where nodes are drawn: distances from a few pivots give the shape, springs then make room. No chance involved.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.layout = (() => {
  function distances(from, neighbours) {
    const far = new Array(neighbours.length).fill(-1);
    far[from] = 0;
    const queue = [from];
    for (let head = 0; head < queue.length; head++) {
      for (const next of neighbours[queue[head]]) {
        if (far[next] < 0) {
          far[next] = far[queue[head]] + 1;
          queue.push(next);
        }
      }
    }
    const limit = far[queue[queue.length - 1]] + 1;
    return far.map((d) => (d < 0 ? limit : d));
  }

  /** Pivot multidimensional scaling: the two strongest directions of the centred squared distances. */
  function shape(neighbours) {
    const n = neighbours.length;
    const columns = [];
    const [pivots, rounds] = n > 3000 ? [12, 25] : [40, 60];
    const nearest = new Array(n).fill(Infinity);
    let pivot = neighbours.reduce((best, list, node) => (list.length > neighbours[best].length ? node : best), 0);
    for (let k = 0; k < Math.min(n, pivots); k++) {
      const column = distances(pivot, neighbours);
      columns.push(column.map((d) => d * d));
      column.forEach((d, node) => (nearest[node] = Math.min(nearest[node], d)));
      pivot = nearest.reduce((best, d, node) => (d > nearest[best] ? node : best), 0);
    }
    const rowMeans = nearest.map((_, i) => columns.reduce((sum, c) => sum + c[i], 0) / columns.length);
    const grand = rowMeans.reduce((a, b) => a + b, 0) / n;
    for (const column of columns) {
      const mean = column.reduce((a, b) => a + b, 0) / n;
      for (let i = 0; i < n; i++) column[i] = -0.5 * (column[i] - rowMeans[i] - mean + grand);
    }
    const axes = [];
    for (let axis = 0; axis < 2; axis++) {
      let x = Array.from({ length: n }, (_, i) => Math.sin(1 + i * (axis + 1.7)));
      for (let step = 0; step < rounds; step++) {
        const weights = columns.map((c) => c.reduce((sum, value, i) => sum + value * x[i], 0));
        let next = x.map((_, i) => columns.reduce((sum, c, k) => sum + c[i] * weights[k], 0));
        for (const other of axes) {
          const overlap = next.reduce((sum, value, i) => sum + value * other[i], 0);
          next = next.map((value, i) => value - overlap * other[i]);
        }
        const size = Math.sqrt(next.reduce((sum, value) => sum + value * value, 0)) || 1;
        x = next.map((value) => value / size);
      }
      axes.push(x);
    }
    return axes;
  }

  /** The places of a ring on a circle, in the order in which it is gone round; null if the network is no ring. */
  function circle(neighbours) {
    const n = neighbours.length;
    if (n < 3 || neighbours.some((list) => new Set(list).size !== 2)) return null;
    const round = [0];
    for (let [before, node] = [0, Math.min(...neighbours[0])]; node !== 0; ) {
      round.push(node);
      [before, node] = [node, neighbours[node].find((next) => next !== before)];
    }
    if (round.length !== n) return null;
    const places = [];
    round.forEach((node, k) => (places[node] = [Math.sin((2 * Math.PI * k) / n), -Math.cos((2 * Math.PI * k) / n)]));
    return places;
  }

  /**
   * Positions as [x, y] for each node. `axes` are the shape of a larger network that these nodes are a part of,
   * so that nodes far apart there stay apart.
   */
  function positions(neighbours, axes = null) {
    const n = neighbours.length;
    if (n === 1) return [[0, 0]];
    const [xs, ys] = axes ?? shape(neighbours);
    const side = Math.sqrt(n);
    const spread = (axis) => {
      const mean = axis.reduce((a, b) => a + b, 0) / n;
      return Math.sqrt(axis.reduce((sum, v) => sum + (v - mean) ** 2, 0)) / side || 1;
    };
    const [wide, high] = [spread(xs), spread(ys)];
    // Nodes with the same distances would coincide; a small spiral parts them.
    const place = xs.map((x, i) => [
      (x / wide) * side * 0.5 + 0.05 * Math.cos(2.4 * i) * Math.sqrt(i + 1),
      (ys[i] / Math.max(high, 0.15 * wide)) * side * 0.5 + 0.05 * Math.sin(2.4 * i) * Math.sqrt(i + 1),
    ]);
    springs(place, neighbours, axes !== null ? 40 : n <= 150 ? 200 : n <= 500 ? 80 : 30);
    return place;
  }

  function springs(place, neighbours, steps) {
    const n = place.length;
    const push = new Float64Array(2 * n);
    for (let step = 0; step < steps; step++) {
      const reach = 0.6 * (1 - step / steps) ** 1.5 + 0.01;
      push.fill(0);
      for (let i = 0; i < n; i++) {
        for (let j = 0; j < i; j++) {
          const dx = place[i][0] - place[j][0];
          const dy = place[i][1] - place[j][1];
          const force = 1.1 / (dx * dx + dy * dy + 1e-4);
          push[2 * i] += dx * force;
          push[2 * i + 1] += dy * force;
          push[2 * j] -= dx * force;
          push[2 * j + 1] -= dy * force;
        }
        for (const j of neighbours[i]) {
          if (j >= i) continue;
          const dx = place[i][0] - place[j][0];
          const dy = place[i][1] - place[j][1];
          // Hubs pull less on each of their many neighbours, which leaves room between them.
          const force = (1.6 * Math.hypot(dx, dy)) / (1 + Math.sqrt(Math.min(neighbours[i].length, neighbours[j].length)));
          push[2 * i] -= dx * force;
          push[2 * i + 1] -= dy * force;
          push[2 * j] += dx * force;
          push[2 * j + 1] += dy * force;
        }
      }
      for (let i = 0; i < n; i++) {
        // A weak pull to the middle keeps separate pieces in sight.
        const dx = push[2 * i] - 0.02 * place[i][0];
        const dy = push[2 * i + 1] - 0.02 * place[i][1];
        const size = Math.hypot(dx, dy) || 1;
        const move = Math.min(size, reach) / size;
        place[i][0] += dx * move;
        place[i][1] += dy * move;
      }
    }
  }

  /** The nodes around `centre`, nearest first, at most `count`. */
  function around(centre, neighbours, count) {
    const found = [...centre];
    const seen = new Set(found);
    for (let head = 0; head < found.length && found.length < count; head++) {
      for (const next of neighbours[found[head]]) {
        if (!seen.has(next) && found.length < count) {
          seen.add(next);
          found.push(next);
        }
      }
    }
    return found;
  }

  /** About `count` nodes spread evenly over all degrees, the largest degree included. */
  function byDegree(neighbours, count) {
    const order = neighbours.map((_, node) => node).sort((a, b) => neighbours[b].length - neighbours[a].length || a - b);
    const step = Math.max(1, order.length / count);
    const kept = [];
    for (let k = 0; Math.floor(k * step) < order.length; k++) kept.push(order[Math.floor(k * step)]);
    return kept;
  }

  return { circle, positions, shape, around, byDegree };
})();
