// SPDX-License-Identifier: Apache-2.0
// ε against rounds for the worst, the median and the best target, beside local DP and central aggregation.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.curves = (() => {
  const { state, model, scale, dom, gaussian } = sottovoce;
  const LINES = [
    ["local", "local DP", "--line-local", "6 4"],
    ["worst", "worst target", "--line-worst", ""],
    ["median", "median target", "--line-median", ""],
    ["best", "best target", "--line-best", ""],
    ["central", "central", "--line-central", "2 3"],
  ];

  function draw() {
    if (model.document === null) return;
    const curve = model.curves.get(model.keyOf(model.chosen));
    const host = dom.byId("curves");
    // A report without curves has no panel for them.
    host.parentElement.hidden = !state.live && model.curves.size === 0;
    if (curve === undefined || curve.rounds.length === 0) {
      host.replaceChildren(dom.el("p", { className: "empty", textContent: absent() }));
      dom.byId("curves-note").textContent = state.standing("curve")?.text ?? "";
      return;
    }
    const series = values(curve);
    host.replaceChildren(chart(curve, series, host.clientWidth), table(curve, series));
    dom.byId("curves-note").textContent =
      `What ${model.names(model.chosen)} can learn. Every point is a certified upper end; lines only join them.${curve.counts.length ? " Local DP: every message is seen. Central: only each round's total is seen." : ""}`;
  }

  function absent() {
    if (state.live) return state.standing("curve") === null ? "The curve of this observer is being computed." : "";
    const held = [...model.curves.values()].map((curve) => model.names(curve.observers));
    return held.length ? `The report holds the curves of ${held.slice(0, 4).join("; ")}${held.length > 4 ? ` and ${held.length - 4} more` : ""}.` : "The report holds no curves.";
  }

  /** The lines that there are numbers for; what is infinite all along has none. */
  const drawn = (series) => LINES.filter(([key]) => series[key] !== undefined);

  function values(curve) {
    const n = model.labels.length;
    const upper = (squared) => model.upperOf(squared);
    return {
      worst: curve.worst.map((ends) => upper(ends.upper ?? Infinity)),
      median: curve.median.map((ends) => upper(ends.upper ?? Infinity)),
      best: curve.best.map((ends) => upper(ends.upper ?? Infinity)),
      // A program has no count of rounds to be compared with.
      ...(curve.counts.length ? { local: curve.counts.map(upper), central: curve.counts.map((count) => upper((count / n) * (1 + 1e-15))) } : {}),
    };
  }

  function chart(curve, series, given) {
    const [width, height] = [Math.max(280, given), 300];
    const box = { left: 44, right: 104, top: 12, bottom: 40 };
    const last = curve.rounds[curve.rounds.length - 1];
    const finite = Object.values(series).flat().filter(Number.isFinite);
    const most = finite.length ? Math.max(...finite) || 1 : 1;
    const step = niceStep(most);
    const top = Math.ceil(most / step) * step;
    const x = (rounds) => box.left + (last === 1 ? 0.5 : Math.log(rounds) / Math.log(last)) * (width - box.left - box.right);
    const y = (value) => height - box.bottom - (Math.min(value, top) / top) * (height - box.top - box.bottom);
    const picture = dom.svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `ε against rounds, up to ${last} rounds; the table after it holds the numbers` });
    for (let value = 0; value <= top + step / 2; value += step) {
      picture.append(
        dom.svg("line", { x1: box.left, x2: width - box.right, y1: y(value), y2: y(value), class: "grid" }),
        text(box.left - 7, y(value) + 4, String(Number(value.toPrecision(6))), "end"),
      );
    }
    let before = -Infinity;
    for (const rounds of curve.rounds) {
      if (x(rounds) - before < 24 && rounds !== last) continue;
      before = x(rounds);
      picture.append(text(x(rounds), height - box.bottom + 18, String(rounds), "middle"));
    }
    picture.append(text((box.left + width - box.right) / 2, height - 4, "rounds (logarithmic)", "middle"), text(4, 10, "ε", "start"));
    const labels = [];
    for (const [key, name, colour, dash] of drawn(series)) {
      const points = series[key].map((value, k) => [x(curve.rounds[k]), y(value)]);
      const stroke = scale.theme(colour);
      picture.append(dom.svg("polyline", { points: points.map((p) => p.join(",")).join(" "), fill: "none", stroke, "stroke-width": key === "worst" ? 2.5 : 1.8, "stroke-dasharray": dash }));
      for (const [px, py] of points) picture.append(dom.svg("circle", { cx: px, cy: py, r: key === "worst" ? 3 : 2.3, fill: stroke }));
      labels.push({ name, colour: stroke, y: points[points.length - 1][1] });
    }
    spaced(labels, 14, box.top + 4, height - box.bottom);
    for (const { name, colour, y: place } of labels) {
      picture.append(dom.svg("line", { x1: width - box.right + 6, x2: width - box.right + 16, y1: place, y2: place, stroke: colour, "stroke-width": 3 }), text(width - box.right + 20, place + 4, name, "start"));
    }
    return picture;
  }

  function text(x, y, words, anchor) {
    const made = dom.svg("text", { x, y, "text-anchor": anchor });
    made.textContent = words;
    return made;
  }

  /** Part labels that would cover each other, within their limits. */
  function spaced(labels, gap, top, bottom) {
    labels.sort((a, b) => a.y - b.y);
    for (let k = 1; k < labels.length; k++) labels[k].y = Math.max(labels[k].y, labels[k - 1].y + gap);
    let floor = bottom;
    for (let k = labels.length - 1; k >= 0; k--) {
      labels[k].y = Math.max(top, Math.min(labels[k].y, floor));
      floor = labels[k].y - gap;
    }
  }

  function niceStep(most) {
    const rough = most / 5;
    const unit = 10 ** Math.floor(Math.log10(rough));
    return [1, 2, 5, 10].find((k) => k * unit >= rough) * unit;
  }

  /** The same numbers for those who do not see the picture. */
  function table(curve, series) {
    const head = dom.el("tr", {}, dom.el("th", { scope: "col", textContent: "rounds" }), ...drawn(series).map(([, name]) => dom.el("th", { scope: "col", textContent: `ε, ${name}` })));
    const rows = curve.rounds.map((rounds, k) => dom.el("tr", {}, dom.el("th", { scope: "row", textContent: String(rounds) }), ...drawn(series).map(([key]) => dom.el("td", { textContent: gaussian.roundUp(series[key][k]) }))));
    return dom.el("details", {}, dom.el("summary", { textContent: "As a table" }), dom.el("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Table of the curves" }, dom.el("table", {}, dom.el("thead", {}, head), dom.el("tbody", {}, ...rows))));
  }

  function begin() {
    dom.onResize(dom.byId("curves"), draw);
  }

  return { begin, draw };
})();
