// SPDX-License-Identifier: Apache-2.0
// Intervals one under the other on one scale, worst first: a table whose middle column is drawn. A dot is the certified
// end, the line from it ends at what is attained.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.strips = (() => {
  const { dom, scale, chart } = sottovoce;
  /** A mark further out than so many times what is shown is named, and not drawn. */
  const REACH = 3;

  /**
   * `rows` have name (text or a node), under (small print), ends { lower, upper } or null, text (the numbers), and
   * perhaps median, mark and current; `marks` { name, value, colour, dash } stand in all rows; `heads` are the headings.
   */
  function table({ label, heads, unit, rows, marks }) {
    const shown = rows.flatMap(({ ends, mark }) => [ends?.upper, mark]).filter(Number.isFinite);
    const most = shown.length ? Math.max(...shown) : 0;
    const drawn = marks.filter(({ value }) => value <= REACH * most || (most === 0 && Number.isFinite(value)));
    const axis = chart.linear(Math.max(most, ...drawn.map(({ value }) => value)));
    const at = (value) => `${100 * axis.part(value)}%`;
    const ticks = dom.el("span", { className: "ticks" }, ...axis.ticks.filter((_, k) => axis.ticks.length <= 4 || k % 2 === 0).map((value) => {
      const tick = dom.el("span", { textContent: chart.plain(value) });
      tick.style.left = at(value);
      return tick;
    }));
    const head = dom.el("tr", {},
      dom.el("th", { scope: "col", textContent: heads[0] }),
      dom.el("th", { scope: "col", className: "axis" }, dom.say(dom.el("span"), unit), ticks),
      dom.el("th", { scope: "col", className: "number", textContent: heads[1] }));
    const body = rows.map((row) => dom.el("tr", { className: row.current ? "current" : "" },
      dom.el("th", { scope: "row" }, row.name, row.under ? dom.el("span", { className: "under", textContent: row.under }) : null),
      dom.el("td", { className: "strip" }, row.ends === null ? null : strip(row, drawn, axis, at)),
      dom.el("td", { className: "number strong", textContent: row.text })));
    const made = dom.el("table", { className: "strips", "aria-label": label }, dom.el("thead", {}, head), dom.el("tbody", {}, ...body));
    return [made, legend(marks, drawn)];
  }

  function strip({ ends, median, mark }, marks, axis, at) {
    const picture = dom.svg("svg", { width: "100%", height: 22, "aria-hidden": "true" });
    for (const value of axis.ticks) picture.append(dom.svg("line", { x1: at(value), x2: at(value), y1: 0, y2: 22, class: "grid" }));
    for (const { value, colour, dash } of marks) picture.append(dom.svg("line", { x1: at(value), x2: at(value), y1: 0, y2: 22, stroke: scale.theme(colour), "stroke-width": 1.5, "stroke-dasharray": dash }));
    const colour = scale.theme("--line-worst");
    if (mark !== undefined && Number.isFinite(mark)) picture.append(dom.svg("line", { x1: at(mark), x2: at(mark), y1: 4, y2: 18, stroke: scale.theme("--line-local"), "stroke-width": 2.5 }));
    if (Number.isFinite(ends.upper)) {
      picture.append(dom.svg("line", { x1: at(ends.lower), x2: at(ends.upper), y1: 11, y2: 11, stroke: colour, "stroke-width": 2.5, class: "attained" }));
      if (median !== undefined && Number.isFinite(median)) picture.append(dom.svg("circle", { cx: at(median), cy: 11, r: 3.6, fill: scale.theme("--panel"), stroke: colour, "stroke-width": 1.5 }));
      picture.append(dom.svg("circle", { cx: at(ends.upper), cy: 11, r: 4.6, fill: colour, class: "certified" }));
    } else picture.append(infinite());
    return picture;
  }

  function infinite() {
    const made = dom.svg("text", { x: "100%", y: 15, "text-anchor": "end", class: "infinite" });
    made.textContent = "∞ →";
    return made;
  }

  /** What the lines mean, each with its number; one that is too far out to be drawn says so. */
  function legend(marks, drawn) {
    return dom.el("ul", { className: "marks" }, ...marks.map((mark) => {
      const line = dom.svg("svg", { width: 18, height: 12, "aria-hidden": "true" }, dom.svg("line", { x1: 0, x2: 18, y1: 6, y2: 6, stroke: scale.theme(mark.colour), "stroke-width": 2, "stroke-dasharray": mark.dash }));
      return dom.el("li", {}, line, ` ${mark.name}${drawn.includes(mark) ? "" : ", beyond the scale"}`);
    }));
  }

  return { table };
})();
