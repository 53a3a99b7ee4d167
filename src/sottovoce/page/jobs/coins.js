// SPDX-License-Identifier: Apache-2.0
// Records that take part by a coin in each round: one upper end for all pairs that are asked about, in each view.
// It stands beside the run that is shown, and goes with what it was asked for.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.coins = (() => {
  const { state, model, dom, gaussian, asking, jobs, server, verdict } = sottovoce;
  const { byId } = dom;
  const BOUNDS = { told: "the coins count as told", amplified: "every message is seen, and the coins are secret" };
  let redraw = () => {};

  const asked = (participation) => participation.startsWith("poisson");

  async function ask(participation) {
    if (model.document === null) return;
    const from = state.inputs();
    const { question } = state;
    const views = state.viewsOf();
    tell(`Asking about ${participation}…`);
    const more = { participation, noise_multiplier: state.noise, delta: state.delta };
    const requests = views.map((view) => ["api/sampled", { ...asking.request(question, view, question.pooled), ...more }]);
    try {
      const found = await jobs.run("coins", () => state.inputs() === from, requests, ({ done, total }) => total && tell(`${participation}: ${done} of ${total} pairs…`));
      const said = found.map(({ epsilon, method, assumption }, k) => `${epsilon === null ? "ε is infinite" : `ε ≤ ${gaussian.roundUp(epsilon)}`} with ${verdict.title(views[k])} (${method}: ${BOUNDS[method]}; assumption ${assumption})`);
      tell(`${participation}, ${meant(found[0], question)}, an upper end: ${said.join("; ")}. What is shown beside it is participation ${question.participation}.`);
    } catch (error) {
      if (error instanceof jobs.Superseded) return;
      // What the server refuses stays in the field, and no answer to another question beside it.
      if (error instanceof server.Refused) {
        state.forget("coins");
        state.refuse("participation", participation, error.message);
        redraw();
      } else tell(error instanceof server.Cancelled ? "Cancelled." : error.message);
    }
  }

  /** Which pairs a number is about. */
  function meant({ pairs_computed, pairs_possible }, { pooled, targets }) {
    const about = targets === null ? "" : ` about ${targets.join(", ")}`;
    const whose = pooled === null ? "" : ` of ${model.names(pooled)}`;
    return pairs_computed === pairs_possible ? `the worst pair${whose}` : `the worst of the ${pairs_computed} pairs${whose}${about}, out of ${pairs_possible}`;
  }

  function tell(text) {
    state.claim("coins", text);
    redraw();
  }

  return { begin: (onRedraw) => (redraw = onRedraw), draw: () => dom.say(byId("coins-answer"), state.standing("coins")?.text ?? ""), ask, asked };
})();
