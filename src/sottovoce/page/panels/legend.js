// SPDX-License-Identifier: Apache-2.0
// What the colours mean: a linear scale from 0 to the largest ε that is shown, with numbers at it.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.legend = (() => {
  const { model, scale, dom, gaussian, chart } = sottovoce;

  function draw(host, ...more) {
    const bar = dom.el("span", { className: "ramp", role: "img", "aria-label": `Colours from ε = 0 to ε ≤ ${gaussian.roundUp(model.most, 3)}, in proportion` });
    const stops = Array.from({ length: 15 }, (_, k) => scale.css(k / 14));
    bar.style.background = `linear-gradient(to right, ${stops.join(",")})`;
    // The end of the scale has its number; a round one close to it would cover that.
    const round = chart.linear(model.most).ticks.filter((value) => value < 0.84 * model.most);
    const ticks = [...round.map((value) => [value, chart.plain(value)]), [model.most, gaussian.roundUp(model.most, 3)]].map(([value, textContent]) => {
      const tick = dom.el("span", { textContent });
      tick.style.left = `${model.most > 0 ? (100 * value) / model.most : 0}%`;
      return tick;
    });
    host.replaceChildren(
      dom.el("span", { className: "legend-name", textContent: "ε at most" }),
      dom.el("span", { className: "ramp-box" }, bar, dom.el("span", { className: "ticks" }, ...ticks)),
      ...more,
    );
  }

  return { draw };
})();
