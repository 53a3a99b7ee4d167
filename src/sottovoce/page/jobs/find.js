// SPDX-License-Identifier: Apache-2.0
// "Find": the noise that keeps what is chosen within a budget. The server calibrates; a report without one computes it
// from its pairs, if it holds them all.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.find = (() => {
  const { state, model, dom, gaussian, asking, jobs, verdict } = sottovoce;
  const { byId } = dom;
  const DIGITS = 6;
  let redraw = () => {};

  /** Whose pairs are meant: all, a coalition's, or those of the chosen observer alone; and about whom. */
  function meant() {
    const { pooled, targets } = state.question;
    const about = targets === null ? "" : ` about ${targets.join(", ")}`;
    const rest = targets === null ? "" : " Other nodes may give away more.";
    if (pooled !== null) return { observers: pooled, words: `what ${model.names(pooled)} can learn${about}`, more: ` Other coalitions may learn more.${rest}` };
    if (asking.wholeViews() && byId("find-scope").value === "one") return { observers: model.chosen, words: `what ${model.names(model.chosen)} can learn${about}`, more: ` This observer only: others may learn more.${rest}` };
    return { observers: null, words: targets === null ? "every pair of the network" : `what anyone can learn${about}`, more: rest };
  }

  async function find() {
    const target = Number(byId("target-epsilon").value);
    if (!(target > 0 && Number.isFinite(target))) return tell("ε must be a finite number above 0.");
    if (model.document === null) return undefined;
    try {
      const found = state.live ? await asked(target) : computed(target);
      const most = found.reduce((best, each) => (each.noise > best.noise ? each : best));
      state.noise = most.noise;
      for (const { view, point } of found) if (point) model.anchor(view, point);
      model.measure();
      return tell(sentence(found, most, target));
    } catch (error) {
      return error instanceof jobs.Superseded ? undefined : tell(error.message);
    }
  }

  /** The noise for each view, as `sottovoce calibrate` answers. */
  async function asked(target) {
    const { observers } = meant();
    const from = state.inputs();
    const { question } = state;
    const views = state.viewsOf();
    tell("Asking the server…");
    const requests = views.map((view) => ["api/calibrate", { ...asking.request(question, view, observers), target_epsilon: target, target_delta: state.delta }]);
    const found = await jobs.run("find", () => state.inputs() === from, requests, ({ done, total }) => total && tell(`${done} of ${total} pairs…`));
    return found.map(({ noise_multiplier, worst, target_delta }, k) => ({
      view: views[k],
      noise: Number(gaussian.roundUp(noise_multiplier, DIGITS)),
      point: { squared: worst.sensitivity_squared.upper, noise: noise_multiplier, delta: target_delta, epsilon: target },
    }));
  }

  /** The same from the pairs of a report that holds them all. */
  function computed(target) {
    return state.viewsOf().map((view) => {
      const noise = gaussian.noiseFor(model.worst(view).squared.upper, model.document.factor, target, state.delta);
      if (noise === null) throw new Error("No noise is certified to reach this ε.");
      return { view, noise };
    });
  }

  function sentence(found, most, target) {
    const { words, more } = meant();
    const seen = found.length > 1 ? ` with ${verdict.title(most.view)}` : "";
    const others = found.filter((each) => each !== most).map(({ view, noise }) => ` With ${verdict.title(view)} ${noise} would do.`).join("");
    return `A noise multiplier of ${most.noise} keeps ${words} within ε = ${gaussian.given(target)} at δ = ${gaussian.given(state.delta)}${seen}.${others}${more}`;
  }

  function tell(text) {
    state.claim("find", text);
    redraw();
  }

  function draw() {
    const absent = !state.live && !(model.coverage()?.complete ?? false);
    for (const part of document.querySelectorAll(".find")) part.hidden = absent;
    byId("find-scope").hidden = !state.live || !asking.wholeViews();
    dom.say(byId("find-answer"), absent ? reason() : state.standing("find")?.text ?? "");
  }

  function reason() {
    if (model.document === null) return "";
    return `The noise for a budget is found from all pairs, and this report does not hold them: run ${asking.command("calibrate")} --target-epsilon ${byId("target-epsilon").value || "1"}`;
  }

  function begin(onRedraw) {
    redraw = onRedraw;
    byId("find-noise").addEventListener("click", find);
    for (const id of ["target-epsilon", "find-scope"]) byId(id).addEventListener("input", redraw);
    byId("target-epsilon").addEventListener("keydown", (event) => event.key === "Enter" && (event.preventDefault(), find()));
  }

  return { begin, draw };
})();
