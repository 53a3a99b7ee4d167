// SPDX-License-Identifier: Apache-2.0
// What each target gives away: its worst pair as an interval, worst first, beside local DP, central and the budget.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.ranking = (() => {
  const { state, model, dom, gaussian, strips } = sottovoce;
  const { byId } = dom;
  const MORE = 40;
  let shown = MORE;
  let scope = "all";
  let choose = () => {};

  /** What the same noise gives otherwise, and what is allowed: lines to compare with. */
  function marks() {
    const { local_squared, central_squared } = model.document;
    const line = state.line();
    const beside = (squared, name, colour, dash) => {
      if (squared === null) return [];
      const value = model.epsilonOf(squared.lower ?? Infinity, squared.upper ?? Infinity).upper;
      return [{ name: `${name}: ε ≤ ${gaussian.roundUp(value)}`, value, colour, dash }];
    };
    return [
      ...beside(local_squared, "local DP", "--line-local", "6 4"),
      ...beside(central_squared, "central", "--line-central", "2 3"),
      ...(line === null ? [] : [{ ...line, colour: "--line-best", dash: "8 3 2 3" }]),
    ];
  }

  function draw() {
    if (model.document === null) return;
    if (!byId("ranking-scope").childElementCount) {
      dom.segments(byId("ranking-scope"), [["all", "Worst observer"], ["one", "Chosen observer"]], scope, (value) => {
        scope = value;
        draw();
      });
    }
    const only = scope === "one" ? model.row() : null;
    if (scope === "one" && only === null) {
      byId("ranking").replaceChildren(dom.el("p", { className: "empty", textContent: "What this observer can learn is not computed yet." }));
      byId("ranking-note").textContent = "";
      return;
    }
    const { total, pairs } = model.ranking(shown, only);
    const rows = pairs.map((pair) => {
      const button = dom.el("button", { type: "button", className: "link", textContent: model.name(pair.target), onclick: () => choose(pair.members, pair.target) });
      button.setAttribute("aria-label", `Show ${model.names(pair.members)} about ${model.name(pair.target)}`);
      return {
        name: button,
        under: `${pair.members.length ? `to ${pair.members.map(model.name).join(", ")}` : "to everyone"} · ${pair.method}`,
        ends: pair.epsilon,
        text: gaussian.interval(pair.epsilon),
        current: model.target === pair.target && model.keyOf(pair.members) === model.keyOf(model.chosen),
      };
    });
    byId("ranking").replaceChildren(...strips.table({ label: "Targets, most exposed first", heads: ["Target", "ε, both ends"], unit: `ε at δ = ${gaussian.given(state.delta)}`, rows, marks: marks() }));
    const more = total > pairs.length ? [dom.el("button", { type: "button", id: "more-targets", textContent: "Show more", onclick: () => { shown += MORE; draw(); } })] : [];
    const covered = model.coverage();
    const part = covered.complete ? "" : " Not all pairs are computed: a target may give away more.";
    byId("ranking-note").replaceChildren(`${pairs.length} of ${total} targets, ${only === null ? "each with the observer that learns most" : `as ${model.names(model.chosen)} can learn about them`}. A dot is the certified end, the line from it ends at what is attained. View: ${state.byView.get(model.document.view)?.title ?? model.document.view}, assumption ${model.document.assumption}.${part} `, ...more);
  }

  return { begin: (onChoose) => (choose = onChoose), draw, marks };
})();
