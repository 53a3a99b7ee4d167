// SPDX-License-Identifier: Apache-2.0
// The headline: the worst pair of the network that was asked for, how much of it is known, and what it rests on.
// It is drawn anew from what is known each time, so that nothing outlives what it was derived from.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.verdict = (() => {
  const { state, model, dom, gaussian, asking } = sottovoce;
  const { byId } = dom;
  const METHODS = {
    abs: "sum of absolute entries",
    dual: "dual certificate",
    spectral: "largest eigenvalue",
    horizon: "bounded-real recursion",
    cap: "number of contributing rounds",
    enumeration: "all sign patterns",
    exact: "closed form",
    unreached: "nothing arrives within T rounds",
    infinite: "no noise hides a contribution",
  };
  const PLACES = ["epsilon", "least", "who", "guess", "otherwise", "observer", "terms", "assumption"];

  const title = (view) => state.byView.get(view)?.title ?? view;
  const atMost = ({ upper }) => `ε ≤ ${gaussian.roundUp(upper)}`;
  const atLeast = ({ lower }) => `at least ${gaussian.roundDown(lower)}`;

  function draw() {
    const worst = model.worst();
    const covered = model.coverage();
    const whole = covered !== null && covered.complete;
    // Colour and weight belong to an answer; a number that may grow has neither.
    byId("verdict").classList.toggle("answer", whole);
    byId("verdict").classList.toggle("partial", !whole);
    const texts = worst === null ? waiting() : words(worst, covered);
    for (const place of PLACES) dom.say(byId(`headline-${place}`), texts[place] ?? "");
    sides(worst);
    coverage(covered);
    for (const id of ["copy-link", "save-csv", "save-json", "save-png"]) byId(id).disabled = worst === null;
  }

  const waiting = () => ({ epsilon: "…", who: state.whyNot().length ? "There is no answer to what is set; the notice says why." : "Nothing is computed yet for what is asked." });

  function words(worst, covered) {
    const { document } = model;
    const guess = gaussian.roundUp(gaussian.guessing(worst.mu.upper), 3);
    const part = document.exchanges ? `, exchanges [${document.exchanges.join(", ")}] of a round alone` : "";
    const own = `${part}${document.view === "everyone" ? "" : `, own noise ${document.own_noise}`}`;
    const bare = worst.squared.lower === Infinity;
    const chosen = state.question.targets === null ? "" : state.question.targets.length === 1 ? " with the chosen target" : " with the chosen targets";
    const rank = covered.complete ? `the worst of ${covered.possible} pairs${chosen}` : `the worst of the ${covered.done} pairs that are computed`;
    return {
      epsilon: `${bare ? "ε is infinite" : bounds(worst.epsilon)}${covered.complete ? "" : state.live ? " so far" : " in part"}`,
      least: bare ? "" : atLeast(worst.epsilon),
      who: bare ? `for what ${model.names(worst.members)} can learn about ${model.name(worst.target)}, ${rank}.` : `is what ${model.names(worst.members)} can learn about ${model.name(worst.target)}, ${rank}.`,
      guess: bare ? `No noise hides some of what it contributes: ${document.infinite}.` : `Even the best guess is right at most ${guess}% of the time, a coin 50%.`,
      otherwise: otherwise(worst.view),
      observer: looked(worst),
      terms: [
        `δ = ${gaussian.given(state.delta)}`, `noise multiplier ${gaussian.inShort(state.noise)}`, `${document.rounds} rounds`, `${document.view}${own}`,
        `weights: ${document.graph.origin}`, `method ${worst.method}: ${METHODS[worst.method] ?? "see the guide"}`,
      ].join(" · "),
      assumption: `Assumption ${document.assumption}: ${document.assumption_text}.`,
    };
  }

  /** ε of the view; where it rests on what is known of losses, ε that assumes nothing stands beside it, as large. */
  function bounds(epsilon) {
    const { assumption, local_squared } = model.document;
    if (assumption !== "smooth" || local_squared === null) return atMost(epsilon);
    const unassumed = atMost({ upper: model.upperOf(local_squared.upper) });
    if (atMost(epsilon) === unassumed) return `${unassumed} assuming nothing`;
    return `${atMost(epsilon)} assuming ${assumption}, ${unassumed} assuming nothing`;
  }

  /** What the view that was not chosen would give. */
  function otherwise(view) {
    return state.viewsOf().filter((other) => other !== view).map((other) => {
      const worst = model.worst(other);
      return worst === null ? "" : `That is for ${title(view)}; ${title(other)} would give ${atMost(worst.epsilon)}.`;
    }).join("");
  }

  /** The second line: who is looked at. */
  function looked(worst) {
    const found = model.looked();
    if (state.question.pooled !== null || !model.chosen.length) {
      const picked = found !== null && model.target !== null && found.target === model.target;
      return picked ? `Chosen target ${model.name(found.target)}: ${atMost(found.epsilon)}, ${atLeast(found.epsilon)}.` : "";
    }
    const who = model.names(model.chosen);
    if (found === null) return `Chosen observer ${who}: not computed yet.`;
    const picked = model.target !== null && found.target === model.target;
    const same = model.keyOf(worst.members) === model.keyOf(found.members) && worst.target === found.target;
    return `Chosen observer ${who}: ${atMost(found.epsilon)}, ${atLeast(found.epsilon)}, about ${model.name(found.target)}${same ? ": the pair above" : picked ? "" : ", its most exposed target"}.`;
  }

  /** Both views side by side where none was chosen. */
  function sides(worst) {
    const host = byId("sides");
    const views = state.viewsOf();
    host.hidden = worst === null || views.length < 2;
    host.replaceChildren(...(host.hidden ? [] : views).flatMap((view) => {
      const found = model.worst(view);
      const number = found === null ? "…" : `${atMost(found.epsilon)}, ${atLeast(found.epsilon)}`;
      return [dom.el("dt", { textContent: title(view) }), dom.say(dom.el("dd", { className: found !== null && found.view === worst.view ? "strong" : "" }), number)];
    }));
  }

  /** How many pairs are known, beside the number; nothing if all are. */
  function coverage(covered) {
    const partial = covered !== null && !covered.complete;
    byId("coverage").hidden = !partial;
    if (!partial) return;
    const { done, possible } = covered;
    const { ahead, error, stopped } = asking.progress();
    const each = state.viewsOf().length > 1 ? " in each view" : "";
    dom.say(byId("coverage-text"), `${done} of ${possible} pairs computed${each}; the worst may be higher.${reason(error)}`);
    const running = state.live && !stopped;
    byId("coverage-progress").hidden = !running;
    byId("coverage-progress").max = possible;
    byId("coverage-progress").value = done + ahead;
    byId("coverage-action").hidden = !state.live || asking.tooLarge();
    byId("coverage-action").textContent = running ? "Stop" : "Compute the rest";
  }

  function reason(error) {
    if (!state.live) return " This report holds no more; write it for all observers and targets to know the worst.";
    if (asking.tooLarge()) return ` This server answers for at most ${state.limits.pairs} pairs: for all of them run ${asking.command()}`;
    return error ? ` ${error}` : "";
  }

  function begin() {
    byId("coverage-action").addEventListener("click", () => (asking.progress().stopped ? asking.fill() : asking.stop()));
  }

  return { begin, draw, title };
})();
