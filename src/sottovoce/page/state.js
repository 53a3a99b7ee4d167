// SPDX-License-Identifier: Apache-2.0
// What is asked: one question, the noise and δ at which its answer is read, and a key for each. Whatever the page
// derives carries the key of what it was derived from, and is shown only while that key is the present one.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.state = (() => {
  const BOTH = "both";
  /** What an observer may see: a name here, what one observer's view is called, what a coalition's is, and words. */
  const SIGHTS = [
    { sight: BOTH, label: "Both", words: "not chosen yet, so messages in the clear stand beside secure sums" },
    { sight: "messages", label: "Messages", alone: "neighbourhood", pooled: "coalition-messages", title: "messages in the clear", words: "the messages of all that send to it, in the clear" },
    { sight: "sums", label: "Secure sum", alone: "secure-sum", pooled: "coalition-sums", title: "secure sums", words: "the weighted sum that it receives in each round, and no single message; this needs a secure aggregation" },
    { sight: "single-node", label: "Single node", alone: "single-node", title: "single node", words: "the messages that it sends itself; the sum of the last round is not counted" },
    { sight: "custom", label: "Custom", alone: "custom", title: "a view of one's own", words: "what the rows of a matrix of one's own say" },
    { sight: "everyone", label: "Everything", alone: "everyone", title: "every message", words: "every message of every node: local DP, the same whoever observes" },
  ];
  const sights = new Map(SIGHTS.map((each) => [each.sight, each]));
  const byView = new Map(SIGHTS.flatMap((each) => [[each.alone, each], [each.pooled, each]]).filter(([view]) => view));

  const state = {
    live: document.getElementById("data") === null,
    limits: { body: 1000000, pairs: 100000, rounds: 10000 },
    question: Object.freeze({ source: Object.freeze({ name: "florentine" }), weights: "auto", rounds: 20, sight: BOTH, own_noise: "known", pooled: null, protocol: "gossip", program: null }),
    noise: 4,
    delta: 1e-5,
  };
  let files = 0;

  /** A graph of one's own as part of a question; each has a number, so that no two are taken for each other. */
  const ownGraph = (source) => Object.freeze({ ...source, number: (files += 1) });

  /** Ask something else; what is not named stays. */
  function change(changes) {
    const next = { ...state.question, ...changes };
    if (next.pooled !== null && !sights.get(next.sight).pooled) next.sight = BOTH;
    state.question = Object.freeze(next);
    return state.question;
  }

  const networkKey = ({ source, weights } = state.question) => JSON.stringify([source.name ?? source.number, weights]);
  const key = (question = state.question) =>
    JSON.stringify([networkKey(question), question.rounds, question.protocol, question.program, question.sight, question.own_noise, question.pooled && [...question.pooled].sort((a, b) => a - b)]);

  /** The views that answer a question, as the server calls them; the first is the one that is shown if they tie. */
  function viewsOf({ sight, pooled } = state.question) {
    const kind = pooled === null ? "alone" : "pooled";
    return sight === BOTH ? ["messages", "sums"].map((each) => sights.get(each)[kind]) : [sights.get(sight)[kind]];
  }

  /** Everything that a sentence on the page may rest on. */
  const inputs = () =>
    JSON.stringify([key(), state.noise, state.delta, sottovoce.model.chosen, sottovoce.model.target, ...["target-epsilon", "find-scope"].map((id) => document.getElementById(id).value)]);

  // Sentences that were derived once, by the place where they stand.
  const claims = new Map();

  const claim = (place, text, more = {}) => claims.set(place, { ...more, text, from: inputs() });
  const forget = (place) => claims.delete(place);

  /** The sentence at a place, unless something that it rests on has changed since. */
  function standing(place) {
    const found = claims.get(place);
    if (found !== undefined && found.from === inputs()) return found;
    claims.delete(place);
    return null;
  }

  return Object.assign(state, { BOTH, SIGHTS, byView, ownGraph, change, networkKey, key, viewsOf, inputs, claim, forget, standing });
})();
