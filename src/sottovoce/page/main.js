// SPDX-License-Identifier: Apache-2.0
// The page itself: everything is drawn anew from what is asked and what is known, with the next frame.
"use strict";

(() => {
  const { state, model, dom, jobs, server, messages, network, heatmap, tabs, ranking, compare, curves, tables, verdict, controls, asking, link, still, report } = sottovoce;
  const { byId } = dom;

  const VIEWS = { network: [network, heatmap], ranking: [ranking], compare: [compare], curves: [curves] };
  let pending = false;
  let drawn = "";
  let followed = 0;
  function redraw() {
    unsettled();
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => {
      pending = false;
      draw();
    });
  }

  /** Until all is drawn and the link is written. */
  function unsettled() {
    document.body.dataset.settled = "no";
  }

  function draw() {
    unsettled();
    jobs.sweep();
    if (drawn !== state.inputs()) dom.tip.hide();
    drawn = state.inputs();
    document.body.classList.toggle("blank", model.document === null);
    for (const part of [verdict, tabs, ...inSight(), tables, controls, report, messages]) part.draw();
    link.write();
  }

  /** The panels that can be seen; what cannot has no size to be drawn at. */
  const inSight = () => Object.entries(VIEWS).flatMap(([name, parts]) => (tabs.open(name) ? parts : []));

  function wire() {
    asking.begin(redraw);
    network.begin(controls.choose);
    heatmap.begin(controls.select);
    tables.begin(controls.select);
    ranking.begin(controls.select);
    compare.begin(redraw);
    curves.begin();
    tabs.begin(() => {
      draw();
      asking.curve();
    });
    messages.begin(asking.leave);
    verdict.begin();
    controls.begin(redraw);
    report.begin();
    byId("cancel").addEventListener("click", () => ["front", "row", "report"].forEach(jobs.cancel));
    byId("copy-link").addEventListener("click", link.copy);
    byId("theme").addEventListener("click", () => {
      document.documentElement.dataset.theme = sottovoce.scale.isDark() ? "light" : "dark";
      redraw();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    // What stands below the result has to know how tall that is.
    const top = document.querySelector(".top");
    new ResizeObserver(() => {
      document.documentElement.style.setProperty("--top", `${top.offsetHeight}px`);
      network.moved();
    }).observe(top);
    printing();
    // A place on the page is nothing that is asked.
    addEventListener("hashchange", () => {
      if (document.querySelector(":target") === null) follow();
      else if (state.live) redraw();
    });
  }

  /** Show what the link says. */
  async function follow() {
    const mine = (followed += 1);
    const said = await link.read();
    if (mine !== followed) return;
    take(said);
    if (state.live) {
      const asked = asking.ask(said.changes, said.names);
      link.stay();
      await asked;
    }
    redraw();
  }

  /** Take what a link says beside the question, and what of it cannot be asked. */
  function take({ noise, delta, tab, names, amiss }) {
    messages.quiet();
    if (noise !== null) state.noise = noise;
    if (delta !== null) state.delta = delta;
    state.tab = tab;
    state.amend(...state.amiss.keys());
    model.settle();
    if (!state.live) still.apply(names);
    for (const [place, { said, why }] of amiss) state.refuse(place, said, why);
  }

  /** On paper the page is light, and drawn so before it is printed. */
  function printing() {
    let before;
    addEventListener("beforeprint", () => {
      before = document.documentElement.dataset.theme;
      document.documentElement.dataset.theme = "light";
      const papers = ["network-paper", "heat-paper"].map(byId);
      if (model.document === null) return papers.forEach((paper) => paper.removeAttribute("src"));
      tabs.everything(true);
      for (const part of [...inSight(), tables]) part.draw();
      // Canvases keep the size of the screen; pictures fit the paper.
      [papers[0].src, papers[1].src] = [network.sheet(), byId("heat").toDataURL()];
      return undefined;
    });
    addEventListener("afterprint", () => {
      tabs.everything(false);
      if (before === undefined) delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = before;
      redraw();
    });
  }

  async function start() {
    wire();
    if (!state.live) {
      const said = await link.read();
      if (!still.begin()) return;
      take(said);
      redraw();
      return;
    }
    messages.busy("Asking the server…");
    try {
      const about = await server.call("GET", "api/about");
      state.limits = about.limits;
      byId("graph-names").replaceChildren(...about.examples.map((value) => dom.el("option", { value })));
    } catch (error) {
      messages.busy(null);
      messages.say(error.message, { again: () => location.reload() });
      return;
    }
    await follow();
  }

  start();
})();
