// SPDX-License-Identifier: Apache-2.0
// A report: one run that is held in the file, and no server behind it.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.still = (() => {
  const { state, model, dom, gaussian, rules } = sottovoce;
  let parts = [];

  /** Show the account of a report; false if it holds none. */
  function begin() {
    document.body.classList.add("static");
    const content = JSON.parse(dom.byId("data").textContent);
    parts = content === null ? [] : [content, ...(content.beside ?? [])].map((part) => ({ ...part, graph: content.graph }));
    const sights = parts.map((part) => state.byView.get(part.view)?.sight ?? "messages");
    const offered = parts.length > 1 ? [state.BOTH, ...sights] : sights;
    dom.byId("view").dataset.held = offered.join(" ");
    for (const group of document.querySelectorAll("[data-live]")) {
      if (offered.length > 1 && group.querySelector("#view")) {
        delete group.dataset.live;
        continue;
      }
      if (group.tagName === "FIELDSET") group.disabled = true;
      for (const input of group.querySelectorAll("input, select, button, textarea")) input.disabled = true;
    }
    if (content === null) {
      document.body.classList.add("no-account");
      return false;
    }
    state.noise = content.noise_multiplier;
    state.delta = content.delta;
    const answered = dom.byId("result");
    state.allowed = (content.occasion ?? (answered && JSON.parse(answered.textContent).occasion))?.max_epsilon ?? null;
    if (state.allowed !== null) dom.byId("target-epsilon").value = gaussian.given(state.allowed);
    look(offered[0]);
    return true;
  }

  /** Let a view of the report be what is asked, which it answers. */
  function look(sight) {
    const [{ graph, rounds, own_noise, view, observers, contribution, participation, relation }] = parts;
    const pooled = view.startsWith("coalition") ? observers[0] : null;
    state.change({ source: { name: "GRAPH" }, weights: graph.rule, rounds, sight, own_noise, pooled, contribution, participation, relation });
    if (model.known().key === null) model.takeNetwork(state.question, graph);
    const before = model.lastChosen();
    for (const part of parts) {
      if (!state.viewsOf().includes(part.view)) continue;
      model.take(state.question, part, before);
      if (part.epsilon_upper !== null) {
        const squared = part.pairs.upper.reduce((most, each) => Math.max(most, each ?? Infinity), 0);
        model.anchor(part.view, { squared, noise: part.noise_multiplier, delta: part.delta, epsilon: part.epsilon_upper });
      }
    }
    model.settle();
  }

  /** Look at those whom a link names; whom the report does not hold is taken down. */
  function apply({ observers, target }) {
    const nodes = observers.map((name) => model.labels.indexOf(name));
    const held = nodes.length === 0 || model.rows.has(model.keyOf(nodes));
    if (held && nodes.length) model.chosen = nodes;
    const node = model.labels.indexOf(target);
    const paired = target === null || (model.row()?.targets.includes(node) ?? false);
    model.target = paired && target !== null ? node : null;
    const choice = "(choose who observes in the list)";
    if (!held) state.refuse("observer", observers.join(", "), `this report holds no account of what ${rules.shown(observers.join(" and "))} can learn ${choice}`);
    else if (!paired) state.refuse("target", target, `this report holds no pair of ${model.names(model.chosen)} and ${rules.shown(target)} ${choice}`);
  }

  return { begin, look, apply };
})();
