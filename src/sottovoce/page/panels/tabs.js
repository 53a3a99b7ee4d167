// SPDX-License-Identifier: Apache-2.0
// Four ways to look at a run. On the served page one is open at a time; a report and paper show all.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.tabs = (() => {
  const { state, dom } = sottovoce;
  const { byId } = dom;
  let opened = () => {};
  let all = false;

  /** Whether a view is in sight. */
  const open = (name) => !state.live || all || state.tab === name;

  function draw() {
    if (!state.live) return;
    for (const name of state.TABS) {
      const chosen = name === state.tab;
      byId(`tab-${name}`).setAttribute("aria-selected", String(chosen));
      byId(`tab-${name}`).tabIndex = chosen ? 0 : -1;
      byId(`view-${name}`).hidden = !open(name);
    }
  }

  function show(name) {
    if (!state.TABS.includes(name) || name === state.tab) return;
    state.tab = name;
    dom.tip.hide();
    draw();
    opened();
  }

  /** Let all be seen, or the chosen one again. */
  function everything(value) {
    all = value;
    draw();
  }

  function begin(onOpened) {
    opened = onOpened;
    if (!state.live) {
      byId("tabs").remove();
      for (const name of state.TABS) ["role", "aria-labelledby"].forEach((attribute) => byId(`view-${name}`).removeAttribute(attribute));
      return;
    }
    for (const name of state.TABS) byId(`tab-${name}`).addEventListener("click", () => show(name));
    byId("tabs").addEventListener("keydown", (event) => {
      const last = state.TABS.length - 1;
      const place = state.TABS.indexOf(state.tab);
      const next = { ArrowRight: place === last ? 0 : place + 1, ArrowLeft: place === 0 ? last : place - 1, Home: 0, End: last }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      show(state.TABS[next]);
      byId(`tab-${state.tab}`).focus();
    });
    draw();
  }

  return { begin, draw, show, open, everything };
})();
