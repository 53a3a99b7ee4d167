// SPDX-License-Identifier: Apache-2.0
// What the pictures share: steps that can be read, lines through intervals, labels that make room for each other.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.chart = (() => {
  const { dom, gaussian, scale } = sottovoce;

  /** 1, 2 or 5 times a power of ten, about a fifth of `most`. */
  function niceStep(most) {
    const rough = most / 5;
    const unit = 10 ** Math.floor(Math.log10(rough));
    return [1, 2, 5, 10].find((k) => k * unit >= rough) * unit;
  }

  /** Ticks from 0 up to the first at or above `most`. */
  function ticks(most) {
    const reach = most > 0 && Number.isFinite(most) ? most : 1;
    const step = niceStep(reach);
    const count = Math.max(1, Math.ceil(reach / step - 1e-9));
    return Array.from({ length: count + 1 }, (_, k) => Number((k * step).toPrecision(12)));
  }

  const plain = (value) => (value !== 0 && (value < 1e-3 || value >= 1e6) ? value.toExponential() : String(Number(value.toPrecision(6))));

  /** An axis from 0 that is drawn to scale. */
  function linear(most) {
    const marks = ticks(most);
    const top = marks[marks.length - 1];
    return { ticks: marks, part: (value) => Math.min(value, top) / top, holds: (value) => value <= top };
  }

  /** A logarithmic axis between two numbers above 0. */
  function logarithmic(low, high, marks = null) {
    const span = Math.log(high / low) || 1;
    const between = [];
    for (let k = Math.floor(Math.log10(low)); k <= Math.log10(high); k++) for (const digit of [1, 2, 5]) between.push(Number(`${digit}e${k}`));
    return {
      ticks: marks ?? between.filter((value) => value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9)),
      part: (value) => (low === high ? 0.5 : Math.min(1, Math.max(0, Math.log(value / low) / span))),
      holds: (value) => value >= low && value <= high,
    };
  }

  /**
   * Lines through intervals. `x` and `y` are axes with a name, `lines` have name, colour, dash and points { x, lower,
   * upper }: the line joins the upper ends, and a bar goes from each down to its lower end. `rules` are straight lines
   * { name, value, colour, across } at a height, or at a place if `across` is false.
   */
  function plot({ width, height = 300, x, y, lines, rules, label }) {
    const box = { left: 46, right: 112, top: 20, bottom: 40 };
    const [wide, high] = [Math.max(280, width) - box.left - box.right, height - box.top - box.bottom];
    const px = (value) => box.left + x.part(value) * wide;
    const py = (value) => box.top + (1 - y.part(value)) * high;
    const [right, bottom] = [box.left + wide, box.top + high];
    const picture = dom.svg("svg", { viewBox: `0 0 ${right + box.right} ${height}`, width: right + box.right, height, role: "img", "aria-label": label });
    let before = Infinity;
    for (const value of y.ticks) {
      if (before - py(value) < 13) continue;
      before = py(value);
      picture.append(dom.svg("line", { x1: box.left, x2: right, y1: py(value), y2: py(value), class: "grid" }), text(box.left - 7, py(value) + 4, plain(value), "end"));
    }
    before = -Infinity;
    const last = x.ticks[x.ticks.length - 1];
    for (const value of x.ticks) {
      if (value !== last && (px(value) - before < 26 || px(last) - px(value) < 26)) continue;
      before = px(value);
      picture.append(text(px(value), bottom + 18, plain(value), "middle"));
    }
    picture.append(text((box.left + right) / 2, height - 4, x.name, "middle"), text(4, 11, y.name, "start"));
    const names = [];
    for (const { name, value, colour, across = true } of rules) {
      if (!(across ? y : x).holds(value)) continue;
      const ends = across ? { x1: box.left, x2: right, y1: py(value), y2: py(value) } : { x1: px(value), x2: px(value), y1: box.top, y2: bottom };
      picture.append(dom.svg("line", { ...ends, class: "rule", stroke: scale.theme(colour), "stroke-width": 1.6, "stroke-dasharray": "8 3 2 3" }));
      if (across) names.push({ name, colour: scale.theme(colour), y: py(value) });
      else picture.append(text(px(value), box.top - 5, name, x.part(value) > 0.7 ? "end" : x.part(value) < 0.3 ? "start" : "middle"));
    }
    for (const { name, colour, dash = "", strong = false, points } of lines) {
      const stroke = scale.theme(colour);
      const finite = points.filter((point) => Number.isFinite(point.upper));
      picture.append(dom.svg("polyline", { points: finite.map((point) => `${px(point.x)},${py(point.upper)}`).join(" "), fill: "none", stroke, "stroke-width": strong ? 2.5 : 1.6, "stroke-dasharray": dash }));
      for (const point of finite) {
        if (py(point.lower) - py(point.upper) > 1) {
          const [middle, foot] = [px(point.x), py(point.lower)];
          picture.append(dom.svg("path", { d: `M${middle},${py(point.upper)}V${foot}M${middle - 3.5},${foot}h7`, class: "attained", stroke, "stroke-width": 1.3, fill: "none" }));
        }
        picture.append(dom.svg("circle", { cx: px(point.x), cy: py(point.upper), r: strong ? 3 : 2.2, fill: stroke }));
      }
      if (finite.length) names.push({ name, colour: stroke, y: py(finite[finite.length - 1].upper) });
    }
    spaced(names, 14, box.top + 4, bottom);
    for (const { name, colour, y: place } of names) {
      picture.append(dom.svg("line", { x1: right + 6, x2: right + 16, y1: place, y2: place, stroke: colour, "stroke-width": 3 }), text(right + 20, place + 4, name, "start"));
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

  /** The same numbers for those who do not see the picture; both ends of each, rounded outwards. */
  function table(first, places, lines, label) {
    const head = dom.el("tr", {}, ...[first, ...lines.map(({ name }) => `ε, ${name}`)].map((textContent) => dom.el("th", { scope: "col", textContent })));
    const rows = places.map((place, k) => dom.el("tr", {}, dom.el("th", { scope: "row", textContent: plain(place) }), ...lines.map(({ points }) => dom.el("td", { textContent: gaussian.interval(points[k]) }))));
    const host = dom.el("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": label }, dom.el("table", {}, dom.el("thead", {}, head), dom.el("tbody", {}, ...rows)));
    return dom.el("details", {}, dom.el("summary", { textContent: "As a table" }), host);
  }

  return { linear, logarithmic, plot, table, plain };
})();
