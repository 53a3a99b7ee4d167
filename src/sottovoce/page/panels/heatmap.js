// SPDX-License-Identifier: Apache-2.0
// Observers down, targets across, both by cluster, ε as colour. Where pairs outnumber what can be drawn, a tile shows its largest.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.heatmap = (() => {
  const { model, scale, dom, gaussian, messages, clusters, legend } = sottovoce;
  const TILES = 60;
  let rows = [];
  /** The nodes in the order of the columns, and the column of each. */
  let order = { of: null, by: null, nodes: [], place: [] };
  let by = "cluster";
  let part = null;
  let frame = null;
  let cursor = null;
  let choose = () => {};

  function draw() {
    if (model.document === null) return;
    arrange();
    const { place } = order;
    rows = [...model.rows.values()].sort((a, b) => (place[a.members[0]] ?? 0) - (place[b.members[0]] ?? 0) || a.members.length - b.members.length);
    const whole = { top: 0, bottom: rows.length, left: 0, right: model.labels.length };
    if (part === null || part.bottom > rows.length || part.right > model.labels.length || part.of !== model.document.graph.hash) {
      part = { ...whole, of: model.document.graph.hash };
    }
    if (!part.zoomed) Object.assign(part, whole);
    dom.byId("main").classList.toggle("one-row", rows.length === 1);
    paint();
    dom.byId("heat-back").hidden = !part.zoomed;
  }

  /** Put the nodes in order, once for a network. */
  function arrange() {
    if (!dom.byId("heat-order").childElementCount) {
      dom.segments(dom.byId("heat-order"), [["cluster", "By cluster"], ["given", "As given"]], by, (value) => {
        by = value;
        cursor = null;
        draw();
      });
    }
    if (order.of === model.known() && order.by === by) return;
    const nodes = by === "cluster" ? clusters.order(model.neighbours) : model.labels.map((_, node) => node);
    order = { of: model.known(), by, nodes, place: [] };
    nodes.forEach((node, k) => (order.place[node] = k));
  }

  /** How many observers and targets share a tile. */
  const tiling = () => ({
    down: Math.max(1, Math.ceil((part.bottom - part.top) / TILES)),
    across: Math.max(1, Math.ceil((part.right - part.left) / TILES)),
  });

  function paint() {
    const canvas = dom.byId("heat");
    const { down, across } = tiling();
    const lines = Math.ceil((part.bottom - part.top) / down);
    const columns = Math.ceil((part.right - part.left) / across);
    const width = canvas.parentElement.clientWidth - 2 * parseFloat(getComputedStyle(canvas.parentElement).paddingLeft);
    const context = canvas.getContext("2d");
    context.font = "11px system-ui, sans-serif";
    const named = down === 1 && lines <= 40;
    const margin = named ? Math.min(110, 10 + Math.max(...rows.slice(part.top, part.bottom).map((row) => context.measureText(rowName(row)).width))) : 18;
    const cell = Math.max(2, (width - margin - 2) / columns);
    const tall = lines === 1 ? 34 : Math.max(lines > 40 ? 5 : 9, Math.min(cell, 24, 520 / lines));
    const foot = across === 1 && columns <= 40 ? footHeight(context) : 18;
    const height = lines * tall + foot + 2;
    const ratio = devicePixelRatio || 1;
    canvas.style.height = `${height}px`;
    canvas.style.width = `${width}px`;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    frame = { margin, cell, tall, down, across, lines, columns };
    const values = tiles(lines, columns, down, across);
    const table = lookup();
    for (let line = 0; line < lines; line++) {
      for (let column = 0; column < columns; column++) {
        const squared = values[line * columns + column];
        context.fillStyle = squared < 0 ? scale.theme("--hole") : scale.css(table(squared));
        context.fillRect(margin + column * cell, line * tall, cell + 0.4, tall + 0.4);
      }
    }
    axes(context, foot, named);
    marks(context);
    note();
    legend.draw(dom.byId("heat-legend"));
  }

  /** The largest Δ² of each tile, −1 where there is none. */
  function tiles(lines, columns, down, across) {
    const values = new Float64Array(lines * columns).fill(-1);
    for (let r = part.top; r < part.bottom; r++) {
      const line = Math.floor((r - part.top) / down);
      const { targets, upper } = rows[r];
      for (let k = 0; k < targets.length; k++) {
        const at = order.place[targets[k]];
        const column = Math.floor((at - part.left) / across);
        if (column < 0 || at >= part.right) continue;
        const place = line * columns + column;
        if (upper[k] > values[place]) values[place] = upper[k];
      }
    }
    return values;
  }

  /** Colour positions of Δ², from a table of 400 steps, each taken at its upper end. */
  function lookup() {
    const top = Math.sqrt(model.largest) || 1;
    const steps = Array.from({ length: 401 }, (_, k) => scale.position(model.upperOf((top * k * top * k) / 160000), model.most));
    return (squared) => (squared === Infinity ? 1 : steps[Math.min(400, Math.ceil((400 * Math.sqrt(squared)) / top))]);
  }

  const rowName = (row) => (row.members.length ? row.members.map(model.name).join("+") : "everyone");
  const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

  function footHeight(context) {
    const longest = Math.max(...order.nodes.slice(part.left, part.right).map((node) => context.measureText(cut(model.name(node), 14)).width));
    return Math.min(84, longest + 12);
  }

  function axes(context, foot, named) {
    const { margin, cell, tall, lines, columns, across } = frame;
    context.fillStyle = scale.theme("--quiet");
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    if (named) {
      context.textAlign = "right";
      const every = Math.ceil(12 / tall);
      rows.slice(part.top, part.bottom).forEach((row, line) => {
        if (line % every === 0) context.fillText(cut(rowName(row), 16), margin - 5, (line + 0.5) * tall);
      });
    } else {
      context.save();
      context.translate(8, (lines * tall) / 2);
      context.rotate(-Math.PI / 2);
      context.textAlign = "center";
      context.fillText("observers", 0, 0);
      context.restore();
    }
    if (across === 1 && columns <= 40) {
      context.textAlign = "right";
      const every = Math.ceil(12 / cell);
      for (let column = 0; column < columns; column += every) {
        context.save();
        context.translate(margin + (column + 0.5) * cell, lines * tall + 6);
        context.rotate(-Math.PI / 2);
        context.fillText(cut(model.name(order.nodes[part.left + column]), 14), 0, 0);
        context.restore();
      }
    } else {
      context.textAlign = "center";
      context.fillText("targets", margin + (columns * cell) / 2, lines * tall + foot / 2 + 2);
    }
  }

  /** Outline the chosen observer's line, the chosen target and the cursor. */
  function marks(context) {
    const { margin, cell, tall, down, across, columns } = frame;
    const line = lineOf(model.keyOf(model.chosen));
    context.lineWidth = 2;
    if (line !== null) {
      context.strokeStyle = scale.theme("--mark");
      context.strokeRect(margin + 0.5, line * tall + 0.5, columns * cell - 1, tall - 0.5);
      const target = model.target === null ? -1 : order.place[model.target];
      if (target >= part.left && target < part.right) {
        context.strokeRect(margin + Math.floor((target - part.left) / across) * cell, line * tall, cell, tall);
      }
    }
    if (cursor !== null) {
      context.strokeStyle = scale.theme("--focus");
      context.strokeRect(margin + cursor.column * cell, cursor.line * tall, cell, tall);
    }
  }

  function lineOf(key) {
    const place = rows.findIndex((row) => model.keyOf(row.members) === key);
    return place < part.top || place >= part.bottom ? null : Math.floor((place - part.top) / frame.down);
  }

  function note() {
    const { down, across } = frame;
    const left = model.document.observers_left_out;
    const text = [];
    if (down > 1 || across > 1) text.push(`Each tile shows the largest ε of up to ${down} × ${across} pairs. Click one to look inside.`);
    else text.push("Rows observe, columns are observed. Click a row to choose its observer.");
    if (left) text.push(`${left} more observers are left out; they learn less than the worst that are shown.`);
    dom.say(dom.byId("heat-note"), text.join(" "));
  }

  /** Line and column under a point of the canvas, or null. */
  function at(x, y) {
    const { margin, cell, tall, lines, columns } = frame;
    const [line, column] = [Math.floor(y / tall), Math.floor((x - margin) / cell)];
    if (line < 0 || line >= lines || column >= columns) return null;
    return { line, column: Math.max(0, column), named: column < 0 };
  }

  /** What a cell says, in words. */
  function describe({ line, column }) {
    const { down, across } = frame;
    if (down > 1 || across > 1) {
      let most = -1;
      for (let r = part.top + line * down; r < Math.min(part.bottom, part.top + (line + 1) * down); r++) {
        rows[r].targets.forEach((node, k) => {
          if (Math.floor((order.place[node] - part.left) / across) === column) most = Math.max(most, rows[r].upper[k]);
        });
      }
      return most < 0 ? "no pair here" : `largest ε ≤ ${gaussian.roundUp(model.upperOf(most))}`;
    }
    const row = rows[part.top + line];
    const node = order.nodes[part.left + column];
    const place = row.targets.indexOf(node);
    const name = model.name(node);
    if (place < 0) return `${rowName(row)} knows the noise of ${name}`;
    const { epsilon, method } = model.pair(row, place);
    return `${rowName(row)} about ${name}: ε ≤ ${gaussian.roundUp(epsilon.upper)}, at least ${gaussian.roundDown(epsilon.lower)} (${method})`;
  }

  function pressed(cell) {
    const { down, across } = frame;
    if ((down > 1 || across > 1) && !cell.named) {
      const top = part.top + cell.line * down;
      const left = part.left + cell.column * across;
      const high = Math.max(down, Math.min(24, rows.length));
      const wide = Math.max(across, Math.min(40, model.labels.length));
      part = {
        of: part.of,
        zoomed: true,
        top: Math.max(0, Math.min(top, rows.length - high)),
        left: Math.max(0, Math.min(left, model.labels.length - wide)),
      };
      part.bottom = Math.min(rows.length, part.top + high);
      part.right = Math.min(model.labels.length, part.left + wide);
      cursor = null;
      draw();
      return;
    }
    const row = rows[part.top + cell.line * down];
    const target = order.nodes[part.left + cell.column];
    choose(row.members, cell.named || down > 1 || across > 1 || !row.targets.includes(target) ? null : target);
  }

  function begin(onChoose) {
    choose = onChoose;
    const canvas = dom.byId("heat");
    const place = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener("click", (event) => {
      const cell = frame && at(...place(event));
      if (cell) pressed(cell);
    });
    canvas.addEventListener("mousemove", (event) => {
      const [x, y] = place(event);
      const cell = frame && at(x, y);
      if (cell && !cell.named) dom.tip.show(describe(cell), x + canvas.offsetLeft, y + canvas.offsetTop, canvas.parentElement);
      else dom.tip.hide();
    });
    canvas.addEventListener("mouseleave", dom.tip.hide);
    canvas.addEventListener("keydown", (event) => {
      const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
      if (!frame) return;
      if (moves[event.key]) {
        const from = cursor ?? { line: lineOf(model.keyOf(model.chosen)) ?? 0, column: 0 };
        const [dl, dc] = cursor === null ? [0, 0] : moves[event.key];
        cursor = {
          line: Math.min(frame.lines - 1, Math.max(0, from.line + dl)),
          column: Math.min(frame.columns - 1, Math.max(0, from.column + dc)),
        };
        paint();
        messages.announce(describe(cursor));
      } else if (event.key === "Enter" && cursor !== null) pressed(cursor);
      else if (event.key === "Escape" && part.zoomed) back();
      else return;
      event.preventDefault();
    });
    canvas.addEventListener("blur", () => {
      cursor = null;
      if (frame) paint();
    });
    dom.byId("heat-back").addEventListener("click", back);
    dom.onResize(canvas.parentElement, draw);
  }

  function back() {
    part.zoomed = false;
    cursor = null;
    draw();
  }

  /** Where the pair of two nodes is on the canvas, for those who drive the page from outside. */
  function cellOf(observer, target) {
    const [line, column] = [lineOf(String(observer)), Math.floor((order.place[target] - part.left) / frame.across)];
    return { line, column, x: frame.margin + (column + 0.5) * frame.cell, y: (line + 0.5) * frame.tall, margin: frame.margin };
  }

  return { begin, draw, cellOf, orderedNodes: () => order.nodes };
})();
