// SPDX-License-Identifier: Apache-2.0
// The network: nodes coloured by ε as the chosen observer sees them.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.network = (() => {
  const { state, model, scale, dom, layout, labels, legend, gaussian, messages } = sottovoce;
  const LARGE = 1000;
  const PART = 160;
  const OVERVIEW = 300;
  const pen = document.createElement("canvas").getContext("2d");
  let cy = null;
  let shown = "";
  let drawn = null;
  let cursor = null;
  let spots = [];
  let room = 0;
  let scope = "around";
  let choose = () => {};

  /** Draw what has changed: the graph itself, or only colours and marks. */
  function draw() {
    if (model.document === null) return empty();
    const nodes = part();
    const signature = `${model.document.graph.hash}|${nodes === null ? "all" : nodes.join(",")}`;
    if (signature !== shown) {
      shown = signature;
      build(nodes ?? model.labels.map((_, node) => node));
    } else paint();
    legend.draw(dom.byId("legend"), dom.el("span", { className: "key" }, dom.el("span", { className: "diamond", "aria-hidden": "true" }), "observer"));
    note(nodes);
    return undefined;
  }

  /** Nothing is known yet of what is asked: the shape of the network may stay, its colours may not. */
  function empty() {
    dom.byId("network-note").textContent = "";
    if (cy === null) return;
    if (model.known() === drawn) return paint();
    cy.elements().remove();
    [spots, shown] = [[], ""];
  }

  /** The nodes that are drawn of a large graph, or null for all. */
  function part() {
    const host = dom.byId("scope");
    host.hidden = model.labels.length <= LARGE;
    if (host.hidden) return null;
    if (!host.childElementCount) {
      dom.segments(host, [["around", "Neighbourhood"], ["degrees", "Sample by degree"]], scope, (value) => {
        scope = value;
        draw();
      });
    }
    const centre = model.chosen.length ? model.chosen : [0];
    const nodes = scope === "around" ? layout.around(centre, model.neighbours, PART) : layout.byDegree(model.neighbours, OVERVIEW);
    return [...new Set([...centre, ...nodes])].sort((a, b) => a - b);
  }

  function build(nodes) {
    const index = new Map(nodes.map((node, k) => [node, k]));
    const inner = nodes.map((node) => model.neighbours[node].filter((next) => index.has(next)).map((next) => index.get(next)));
    const places = lying(nodes) ?? layout.circle(inner) ?? layout.positions(inner, sampledAxes(nodes));
    const links = model.links.filter(([a, b]) => index.has(a) && index.has(b));
    const elements = [
      ...nodes.map((node, k) => ({
        data: { id: String(node), node, name: short(model.name(node)) },
      })),
      ...links.map(([a, b]) => ({ data: { id: `${a}-${b}`, source: String(a), target: String(b) } })),
    ];
    drawn = model.known();
    if (cy === null) cy = canvas(dom.byId("network"));
    cursor = null;
    spots = places;
    cy.elements().remove();
    cy.add(elements);
    const shape = model.document.graph.directed ? { "curve-style": "straight", "target-arrow-shape": "triangle", "arrow-scale": 0.8 } : { "curve-style": "haystack" };
    cy.edges().style({ ...shape, width: nodes.length > 200 ? 0.9 : 1.2 });
    fit();
  }

  /** Where nodes lie if the graph says so, north up; null if it does not. */
  const lying = (nodes) => model.positions && nodes.map((node) => [model.positions[node][0], -model.positions[node][1]]);

  /** The shape of the whole network where a sample of it is drawn. */
  const sampledAxes = (nodes) =>
    nodes.length < model.labels.length && scope === "degrees" ? layout.shape(model.neighbours).map((axis) => nodes.map((node) => axis[node])) : null;

  /** Where networks are drawn. One is enough: to destroy it would leave frames behind that look for it. */
  function canvas(container) {
    const made = cytoscape({
      container,
      layout: { name: "null" },
      minZoom: 0.2,
      maxZoom: 6,
      boxSelectionEnabled: false,
      autounselectify: true,
      style: [
        { selector: "node", style: { "overlay-opacity": 0 } },
        { selector: "edge", style: { "overlay-opacity": 0 } },
      ],
    });
    made.on("tap", "node", (event) => choose(event.target.data("node"), event.originalEvent.shiftKey));
    made.on("mouseover", "node", (event) => {
      container.style.cursor = "pointer";
      dom.tip.show(describe(event.target.data("node")), event.renderedPosition.x, event.renderedPosition.y, container);
    });
    made.on("mouseout", "node", () => {
      container.style.cursor = "";
      dom.tip.hide();
    });
    made.on("pan zoom", dom.tip.hide);
    return made;
  }

  const short = (name) => (name.length > 14 ? `${name.slice(0, 13)}…` : name);

  /** Spread the nodes over the panel, so that names and marks keep their size on any screen. */
  function fit() {
    if (cy === null || !spots.length) return;
    cy.resize();
    const [width, height] = [cy.width(), cy.height()];
    const ends = [0, 1].map((axis) => [Math.min(...spots.map((spot) => spot[axis])), Math.max(...spots.map((spot) => spot[axis]))]);
    const spans = ends.map(([low, high]) => high - low || 1);
    const margins = [Math.min(60, width / 8), 38];
    let scales = [(width - 2 * margins[0]) / spans[0], (height - 2 * margins[1]) / spans[1]];
    // A little stretching uses the panel; more would bend the shape.
    scales = scales.map((value) => Math.min(value, 1.7 * Math.min(...scales), 150));
    room = (width * height) / spots.length;
    cy.nodes().forEach((node, k) => {
      node.position({
        x: width / 2 + (spots[k][0] - (ends[0][0] + ends[0][1]) / 2) * scales[0],
        y: height / 2 + (spots[k][1] - (ends[1][0] + ends[1][1]) / 2) * scales[1],
      });
    });
    cy.viewport({ zoom: 1, pan: { x: 0, y: 0 } });
    paint();
  }

  function paint() {
    const seen = model.exposure();
    const observers = new Set(model.chosen);
    const mark = scale.theme("--mark");
    const size = Math.max(9, Math.min(28, 0.34 * Math.sqrt(room)));
    const inside = size >= 17 && cy.nodes().every((node) => node.data("name").length <= 3);
    const named = inside ? null : labelled(seen, observers, size);
    cy.batch(() => {
      cy.edges().style({ "line-color": scale.theme("--edge"), "target-arrow-color": scale.theme("--edge") });
      cy.nodes().forEach((node) => {
        const k = node.data("node");
        const watching = observers.has(k);
        const unknown = (seen[k] ?? null) === null;
        const place = unknown ? 0 : scale.position(seen[k], model.most);
        node.style({
          "background-color": unknown ? scale.theme("--panel") : scale.css(place),
          "border-color": k === cursor ? scale.theme("--focus") : watching ? mark : scale.theme("--outline"),
          "border-width": k === cursor ? 5 : watching ? 4 : k === model.target ? 3.5 : 1.2,
          "border-style": k === model.target && !watching ? "double" : "solid",
          shape: watching ? "diamond" : "ellipse",
          width: watching ? size + 10 : size,
          height: watching ? size + 10 : size,
          label: named === null || named.has(k) ? node.data("name") : "",
          ...sideways(inside ? "center" : named.get(k) ?? "bottom"),
          "font-size": 11,
          "font-family": "system-ui, sans-serif",
          color: inside ? (unknown ? scale.theme("--text") : scale.ink(place)) : scale.theme("--text"),
          "text-outline-width": inside ? 0 : 2,
          "text-outline-color": scale.theme("--panel"),
          "z-index": watching ? 3 : k === cursor ? 4 : 1,
        });
      });
    });
  }

  /** How a name stands at its node. */
  const sideways = (side) => ({
    "text-valign": ["top", "bottom"].includes(side) ? side : "center",
    "text-halign": ["left", "right"].includes(side) ? side : "center",
    "text-margin-x": { left: -3, right: 3 }[side] ?? 0,
    "text-margin-y": { top: -3, bottom: 3 }[side] ?? 0,
  });

  /** The sides of the names that find room: first observers and what is chosen, then the most exposed. */
  function labelled(seen, observers, size) {
    const first = (k) => (k === cursor ? 3 : observers.has(k) ? 2 : k === model.target ? 1 : 0);
    const order = cy.nodes().map((node) => node.data("node")).sort((j, k) => first(k) - first(j) || (seen[k] ?? -1) - (seen[j] ?? -1));
    const nodes = order.map((k) => {
      const node = cy.getElementById(String(k));
      return { ...node.position(), half: (observers.has(k) ? size + 10 : size) / 2 + 1, wide: textWidth(node.data("name")) + 2, must: first(k) > 0 };
    });
    const sides = labels.place(size < 14 ? nodes.map((node) => (node.must ? node : { ...node, wide: Infinity })) : nodes, { width: cy.width(), height: cy.height() });
    return new Map([...sides].map(([place, side]) => [order[place], side]));
  }

  function textWidth(text) {
    pen.font = "11px system-ui, sans-serif";
    return pen.measureText(text).width;
  }

  /** One node in words. */
  function describe(node) {
    const found = model.row();
    const place = found === null ? -1 : found.targets.indexOf(node);
    if (model.chosen.includes(node) && place < 0) return `${model.name(node)} observes; it knows its own noise`;
    if (place < 0) return `${model.name(node)}: not computed`;
    const { epsilon, method } = model.pair(found, place);
    return `${model.name(node)}: ε ≤ ${gaussian.roundUp(epsilon.upper)}, at least ${gaussian.roundDown(epsilon.lower)} (${method})`;
  }

  function note(nodes) {
    const total = model.labels.length;
    const how = nodes === null ? `${total} nodes, ${model.document.graph.edges} edges.` : `${nodes.length} of ${total} nodes are drawn${scope === "around" ? ", those nearest to the observer" : ", spread over all degrees"}.`;
    dom.say(dom.byId("network-note"), `${how} Click a node to let it observe${state.question.pooled !== null ? "; click again to leave the coalition" : ""}. Colours show what ${model.names(model.chosen)} can learn.`);
  }

  /** The next node from the cursor in a direction, as seen on the screen. */
  function step(dx, dy) {
    const from = cy.getElementById(String(cursor ?? model.chosen[0] ?? 0));
    if (from.empty()) return;
    const start = from.position();
    let best = null;
    let least = Infinity;
    cy.nodes().forEach((node) => {
      const x = node.position().x - start.x;
      const y = node.position().y - start.y;
      const ahead = x * dx + y * dy;
      const aside = Math.abs(x * dy - y * dx);
      const cost = ahead + 2 * aside;
      if (ahead > 1e-6 && aside <= 2 * ahead && cost < least) [best, least] = [node, cost];
    });
    if (best !== null) cursor = best.data("node");
    else cursor = from.data("node");
    paint();
    messages.announce(describe(cursor));
  }

  function begin(onChoose) {
    choose = onChoose;
    const container = dom.byId("network");
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    container.addEventListener("keydown", (event) => {
      if (cy === null) return;
      if (moves[event.key]) step(...moves[event.key]);
      else if (event.key === "Enter" || event.key === " ") choose(cursor ?? model.chosen[0], event.shiftKey);
      else if (event.key === "+" || event.key === "-") cy.zoom({ level: cy.zoom() * (event.key === "+" ? 1.25 : 0.8), renderedPosition: { x: cy.width() / 2, y: cy.height() / 2 } });
      else if (event.key === "0") fit();
      else return;
      event.preventDefault();
    });
    container.addEventListener("blur", () => {
      cursor = null;
      if (cy !== null) paint();
    });
    dom.onResize(container, fit);
  }

  const picture = () => cy.png({ output: "blob-promise", full: true, scale: 2, bg: scale.theme("--panel") });

  const sheet = () => cy.png({ output: "base64uri", full: true, scale: 2, bg: scale.theme("--panel") });

  /** Where a node is on the screen, for those who drive the page from outside. */
  const positionOf = (node) => cy.getElementById(String(node)).renderedPosition();

  /** The network was moved on the screen: clicks have to find its nodes again. */
  const moved = () => cy !== null && cy.resize();

  return { begin, draw, fit, moved, picture, sheet, positionOf, nodesDrawn: () => (cy === null ? 0 : cy.nodes().length) };
})();
