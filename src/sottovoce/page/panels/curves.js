// SPDX-License-Identifier: Apache-2.0
// ε against rounds for the worst, the median and the best target, and ε of the worst pair against the noise; both
// beside local DP, central aggregation and the budget. Every point is an interval.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.curves = (() => {
  const { state, model, dom, gaussian, chart } = sottovoce;
  const { byId } = dom;
  /** So many noises are drawn, from an eighth of the present one to eight times as much. */
  const [STEPS, SPAN] = [13, 8];

  function draw() {
    if (model.document === null) return;
    againstRounds();
    againstNoise();
  }

  const ends = ({ lower, upper }) => model.epsilonOf(lower ?? Infinity, upper ?? Infinity);
  const budgets = () => {
    const line = state.line();
    return line === null ? [] : [{ ...line, colour: "--line-best" }];
  };

  function againstRounds() {
    const curve = model.curves.get(model.keyOf(model.chosen));
    const host = byId("curves");
    // A report without curves has no panel for them.
    host.parentElement.hidden = !state.live && model.curves.size === 0;
    if (curve === undefined || curve.rounds.length === 0) {
      host.replaceChildren(dom.el("p", { className: "empty", textContent: absent() }));
      dom.say(byId("curves-note"), state.standing("curve")?.text ?? "");
      return;
    }
    const lines = series(curve);
    const last = curve.rounds[curve.rounds.length - 1];
    const rules = budgets();
    const finite = lines.flatMap(({ points }) => points.map((point) => point.upper)).filter(Number.isFinite);
    const most = finite.length ? Math.max(...finite) : 1;
    // A budget far above all that is shown would press it flat.
    const top = Math.max(most, ...rules.map(({ value }) => (value <= 3 * most ? value : 0)));
    const picture = chart.plot({
      width: host.clientWidth,
      x: { ...chart.logarithmic(1, last, curve.rounds), name: "rounds (logarithmic)" },
      y: { ...chart.linear(top), name: "ε" },
      lines, rules,
      label: `ε against rounds, up to ${last} rounds; the table after it holds the numbers`,
    });
    host.replaceChildren(picture, chart.table("rounds", curve.rounds, lines, "Table of ε against rounds"));
    const beside = curve.counts.length ? " Local DP: every message is seen. Central: only each round's total is seen." : "";
    dom.say(byId("curves-note"), `What ${model.names(model.chosen)} can learn. Every point is a certified upper end, the bar below it ends at what is attained; lines only join them.${beside}${outside(rules, top)}`);
  }

  const outside = (rules, top) => rules.filter(({ value }) => value > top).map(({ name }) => ` The line of ${name} lies above what is shown.`).join("");

  function absent() {
    if (state.live) return state.standing("curve") === null ? "The curve of this observer is being computed." : "";
    const held = [...model.curves.values()].map((curve) => model.names(curve.observers));
    return held.length ? `The report holds the curves of ${held.slice(0, 4).join("; ")}${held.length > 4 ? ` and ${held.length - 4} more` : ""}.` : "The report holds no curves.";
  }

  /** The lines that there are numbers for. */
  function series(curve) {
    const n = model.labels.length;
    const line = (name, colour, dash, values, strong = false) => ({ name, colour, dash, strong, points: values.map((value, k) => ({ x: curve.rounds[k], ...ends(value) })) });
    const counted = (share) => curve.counts.map((count) => ({ lower: (count / share) * (1 - 1e-15), upper: (count / share) * (1 + 1e-15) }));
    return [
      // A program has no count of rounds to be compared with.
      ...(curve.counts.length ? [line("local DP", "--line-local", "6 4", counted(1))] : []),
      line("worst target", "--line-worst", "", curve.worst, true),
      line("median target", "--line-median", "", curve.median),
      line("best target", "--line-best", "", curve.best),
      ...(curve.counts.length ? [line("central", "--line-central", "2 3", counted(n))] : []),
    ];
  }

  /** ε of one Δ² at some noise multipliers. */
  const swept = (squared, factor, noises) => noises.map((noise) => ({ x: noise, ...(squared.lower === Infinity || squared.lower === null ? { lower: Infinity, upper: Infinity } : gaussian.pairEnds(squared.lower, squared.upper ?? Infinity, factor, noise, state.delta)) }));

  function againstNoise() {
    const worst = model.worst();
    const { factor, local_squared, central_squared } = model.document;
    const host = byId("noises");
    if (worst.squared.lower === Infinity) {
      host.replaceChildren(dom.el("p", { className: "empty", textContent: "ε is infinite whatever the noise." }));
      byId("noises-note").textContent = "";
      return;
    }
    const noises = Array.from({ length: STEPS }, (_, k) => Number((state.noise * SPAN ** ((2 * k) / (STEPS - 1) - 1)).toPrecision(4)));
    const line = (name, colour, dash, squared, strong = false) => (squared === null ? [] : [{ name, colour, dash, strong, points: swept(squared, factor, noises) }]);
    const lines = [
      ...line("local DP", "--line-local", "6 4", local_squared),
      ...line("worst pair", "--line-worst", "", worst.squared, true),
      ...line("central", "--line-central", "2 3", central_squared),
    ];
    const tops = lines.flatMap(({ points }) => points.map((point) => point.upper)).filter((value) => Number.isFinite(value) && value > 0);
    const [low, high] = tops.length ? [Math.min(...tops), Math.max(...tops)] : [0.1, 10];
    const rules = [...budgets(), { name: `σ/clip ${gaussian.inShort(state.noise)}`, value: state.noise, colour: "--mark", across: false }];
    const picture = chart.plot({
      width: host.clientWidth,
      x: { ...chart.logarithmic(noises[0], noises[STEPS - 1]), name: "noise multiplier (logarithmic)" },
      y: { ...chart.logarithmic(low / 1.3, high * 1.3), name: "ε (logarithmic)" },
      lines, rules,
      label: "ε of the worst pair against the noise multiplier; the table after it holds the numbers",
    });
    host.replaceChildren(picture, chart.table("noise multiplier", noises, lines, "Table of ε against noise"));
    const part = model.coverage().complete ? "" : ", the worst of the pairs that are computed; others may give away more";
    dom.say(byId("noises-note"), `What ${model.names(worst.members)} can learn about ${model.name(worst.target)}${part}, at δ = ${gaussian.given(state.delta)}. Every point is a certified upper end, the bar below it ends at what is attained.`);
  }

  function begin() {
    dom.onResize(byId("curves"), draw);
  }

  return { begin, draw };
})();
