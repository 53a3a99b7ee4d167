// SPDX-License-Identifier: Apache-2.0
// Tables: exposed pairs, and what the numbers rest on.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.tables = (() => {
  const { model, dom, gaussian } = sottovoce;
  const RELATIONS = {
    "add-remove": "a record is there or is not",
    "replace-one": "a record is replaced by another, which moves a contribution twice as far",
    "zero-out": "a record's contribution is replaced by zero",
  };
  let shown = 10;
  let scope = "all";
  let choose = () => {};

  function draw() {
    if (model.document === null) return;
    exposed();
    facts();
  }

  function exposed() {
    if (!dom.byId("exposed-scope").childElementCount) {
      dom.segments(dom.byId("exposed-scope"), [["all", "All observers"], ["one", "Chosen observer"]], scope, (value) => {
        scope = value;
        exposed();
      });
    }
    const { total, pairs } = model.exposed(shown, scope === "one" ? model.row() : null);
    const head = ["Target", "Observer", "ε at most", "ε at least", "Δ²", "Method"].map((name, k) => dom.el("th", { scope: "col", textContent: name, className: k >= 2 && k <= 4 ? "number" : "" }));
    const rows = pairs.map((pair) => {
      const button = dom.el("button", { type: "button", className: "link", textContent: model.name(pair.target), onclick: () => choose(pair.members, pair.target) });
      button.setAttribute("aria-label", `Show ${model.names(pair.members)} about ${model.name(pair.target)}`);
      const current = model.keyOf(pair.members) === model.keyOf(model.chosen) && pair.target === model.target;
      return dom.el("tr", { className: current ? "current" : "" },
        dom.el("td", {}, button),
        dom.el("td", { textContent: pair.members.length ? pair.members.map(model.name).join(", ") : "everyone" }),
        dom.el("td", { className: "number strong", textContent: gaussian.roundUp(pair.epsilon.upper) }),
        dom.el("td", { className: "number", textContent: gaussian.roundDown(pair.epsilon.lower) }),
        dom.el("td", { className: "number", textContent: gaussian.interval(pair.squared) }),
        dom.el("td", { textContent: pair.method }));
    });
    dom.byId("exposed").replaceChildren(dom.el("thead", {}, dom.el("tr", {}, ...head)), dom.el("tbody", {}, ...rows));
    const more = total > pairs.length ? dom.el("button", { type: "button", id: "more-pairs", textContent: "Show more", onclick: () => { shown += 20; exposed(); } }) : null;
    dom.byId("exposed-note").replaceChildren(`${pairs.length} of ${total} computed pairs, worst first. `, ...(more ? [more] : []));
  }

  /** What local DP and central aggregation give at the same noise, where there is something to compare with. */
  function sameNoise({ local_squared, central_squared }) {
    const said = (squared, name) => (squared === null ? `no ${name} to compare with` : `ε ≤ ${gaussian.roundUp(model.upperOf(squared.upper ?? Infinity))} with ${name}`);
    return `${said(local_squared, "local DP")}, ${said(central_squared, "central aggregation")}`;
  }

  /** What is said of the maps by which nodes train. */
  function updates(found) {
    if (found === undefined) return [];
    if (found.lower === null) return [["Updates", "any: nothing is known of the maps by which nodes update what they received"]];
    const [lower, upper] = [found.lower, found.upper].map((slope) => Number(slope.toFixed(12)));
    const source = found.losses === null ? "" : `, ${found.losses} losses, step times smoothness ${found.step_smoothness}`;
    return [["Updates", `slopes in [${lower}, ${upper}]${source}`], ["Clipping", found.clipping], ["Records", found.records]];
  }

  function facts() {
    const { document } = model;
    const { graph } = document;
    const rows = [
      ["Network", `${graph.nodes} nodes, ${graph.edges} edges`],
      ["Gossip weights", `${graph.rule}: ${graph.origin}`],
      ["Spectral gap", Number(graph.gap.toPrecision(4))],
      ["Same noise", sameNoise(document)],
      ["Relation", `${document.relation}: ${RELATIONS[document.relation]}`],
      ["Contribution", document.contribution],
      ["Participation", document.participation],
      ["Assumption", `${document.assumption}: ${document.assumption_text}`],
      ["Interval", "the lower end is attained by some pair of neighbouring streams; the upper end is proved, rounding included"],
      ["Protocol", `${document.protocol}: ${document.program}`],
      ["Protocol hash", document.protocol_hash],
      ...updates(document.updates),
      ...(document.infinite === undefined ? [] : [["Infinite", `Δ and ε: ${document.infinite}`]]),
      ["Weights hash", graph.hash],
      ["Version", document.version],
    ];
    dom.byId("facts").replaceChildren(...rows.flatMap(([name, value]) => [dom.el("dt", { textContent: name }), dom.say(dom.el("dd"), String(value))]));
  }

  return { begin: (onChoose) => (choose = onChoose), draw };
})();
