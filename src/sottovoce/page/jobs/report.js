// SPDX-License-Identifier: Apache-2.0
// "Save report": the server writes the report of what is shown, with its certificates, and the browser keeps the file.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.report = (() => {
  const { state, model, dom, asking, jobs, server, messages, files } = sottovoce;
  const { byId } = dom;

  async function save() {
    if (model.document === null) return;
    const from = state.inputs();
    const { question } = state;
    const [view, other_view] = state.viewsOf();
    const max_epsilon = byId("report-budget").checked ? state.budget() : null;
    const body = { ...asking.request(question, view, question.pooled), other_view: other_view ?? null, noise_multiplier: state.noise, delta: state.delta, max_epsilon };
    messages.busy("Writing the report…");
    try {
      const [{ name, html }] = await jobs.run("report", () => state.inputs() === from, [["api/report", body]], (step) => messages.advance(step, "steps to the report"));
      files.save(html, name, "text/html");
    } catch (error) {
      if (!(error instanceof jobs.Superseded)) messages.say(error instanceof server.Cancelled ? "Cancelled: no report was saved." : error.message);
    } finally {
      if (!jobs.running("front") && !jobs.running("row") && !jobs.running("report")) messages.busy(null);
    }
  }

  function draw() {
    byId("save-report").hidden = !state.live;
    byId("save-report").disabled = model.document === null || jobs.running("report");
  }

  return { begin: () => byId("save-report").addEventListener("click", save), draw };
})();
