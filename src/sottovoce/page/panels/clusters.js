// SPDX-License-Identifier: Apache-2.0
// An order of the nodes in which those that belong together stand together: average linkage of the distances in the
// network, the sides of every merger turned so that near ends meet. No chance involved: ties go to the first.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.clusters = (() => {
  /** Above so many nodes distances of all pairs take too long; neighbours of neighbours then follow each other. */
  const MOST = 1500;

  /** Steps between all nodes, less the share of neighbours that two have in common; pieces are far apart. */
  function distances(neighbours) {
    const n = neighbours.length;
    const far = new Float32Array(n * n).fill(n + 1);
    const near = neighbours.map((list, node) => new Set([node, ...list]));
    for (let from = 0; from < n; from++) {
      far[from * n + from] = 0;
      const queue = [from];
      for (let head = 0; head < queue.length; head++) {
        const step = far[from * n + queue[head]] + 1;
        for (const next of neighbours[queue[head]]) {
          if (far[from * n + next] <= n) continue;
          far[from * n + next] = step;
          queue.push(next);
        }
      }
    }
    for (let a = 0; a < n; a++) {
      for (const b of near[a]) {
        if (b === a) continue;
        let common = 0;
        for (const each of near[a]) if (near[b].has(each)) common += 1;
        far[a * n + b] = far[b * n + a] = Math.min(far[a * n + b], far[b * n + a]) - common / (near[a].size + near[b].size - common);
      }
    }
    return far;
  }

  /** The nodes in breadth from the first of least degree, piece by piece. */
  function breadth(neighbours) {
    const byDegree = neighbours.map((_, node) => node).sort((a, b) => neighbours[a].length - neighbours[b].length || a - b);
    const found = [];
    const seen = new Set();
    for (const start of byDegree) {
      if (seen.has(start)) continue;
      seen.add(start);
      for (let head = found.push(start) - 1; head < found.length; head++) {
        for (const next of neighbours[found[head]]) if (!seen.has(next)) found.push(seen.add(next) && next);
      }
    }
    return found;
  }

  /** The nodes in their order. */
  function order(neighbours) {
    const n = neighbours.length;
    if (n > MOST) return breadth(neighbours);
    const ends = distances(neighbours);
    const far = ends.slice();
    const groups = neighbours.map((_, node) => [node]);
    const chain = [];
    for (let left = n; left > 1; ) {
      if (!chain.length) chain.push(groups.findIndex((group) => group !== null));
      const last = chain[chain.length - 1];
      const before = chain[chain.length - 2] ?? -1;
      // The one before is preferred among equals, so that the chain ends.
      let best = before;
      for (let k = 0; k < n; k++) if (k !== last && groups[k] !== null && (best < 0 || far[last * n + k] < far[last * n + best])) best = k;
      if (best !== before) {
        chain.push(best);
        continue;
      }
      chain.length -= 2;
      const [keep, gone] = last < best ? [last, best] : [best, last];
      const [a, b] = [groups[keep].length, groups[gone].length];
      for (let k = 0; k < n; k++) {
        if (groups[k] === null || k === keep || k === gone) continue;
        far[keep * n + k] = far[k * n + keep] = (a * far[keep * n + k] + b * far[gone * n + k]) / (a + b);
      }
      groups[keep] = joined(groups[keep], groups[gone], ends, n);
      groups[gone] = null;
      left -= 1;
    }
    return groups.find((group) => group !== null) ?? [];
  }

  /** Two lists one after the other, turned so that their nearest ends meet. */
  function joined(first, second, ends, n) {
    const turned = (list) => [...list].reverse();
    const ways = [[first, second], [turned(first), second], [first, turned(second)], [turned(first), turned(second)]];
    const gap = ([a, b]) => ends[a[a.length - 1] * n + b[0]];
    return ways.reduce((best, way) => (gap(way) < gap(best) ? way : best)).flat();
  }

  return { order };
})();
