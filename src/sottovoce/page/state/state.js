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

  /** What a question says beside graph, rounds and view: as a request names it, as the command line and a link do, and what is meant if nothing is said. */
  const TERMS = [
    { term: "weights", option: "weights", usual: "auto" },
    { term: "targets", option: "targets", usual: null },
    { term: "own_noise", option: "own-noise", usual: "known" },
    { term: "protocol", option: "protocol", usual: "gossip" },
    { term: "program", option: "program", usual: null },
    { term: "damping", option: "damping", usual: null },
    { term: "updates", option: "updates", usual: null },
    { term: "step_smoothness", option: "step-smoothness", usual: null },
    { term: "losses", option: "losses", usual: null },
    { term: "contribution", option: "contribution", usual: "vector" },
    { term: "participation", option: "participation", usual: "full" },
    { term: "relation", option: "relation", usual: "add-remove" },
    { term: "engine", option: "engine", usual: "auto" },
    { term: "effort", option: "effort", usual: "auto" },
    { term: "tolerance", option: "tolerance", usual: null },
  ];
  const usual = Object.fromEntries(TERMS.map(({ term, usual: value }) => [term, value]));

  const state = {
    TABS: ["network", "ranking", "compare", "curves"],
    tab: "network",
    live: document.getElementById("data") === null,
    limits: { body: 1000000, pairs: 100000, rounds: 10000 },
    question: Object.freeze({ ...usual, source: Object.freeze({ name: "florentine" }), rounds: 20, sight: BOTH, pooled: null }),
    noise: 4,
    delta: 1e-5,
    /** The budget that a report was held against. */
    allowed: null,
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
    JSON.stringify([networkKey(question), question.rounds, question.sight, ...TERMS.map(({ term }) => question[term]), question.pooled && [...question.pooled].sort((a, b) => a - b)]);

  /** The targets that a text names, separated by commas; null where it names none, and all are meant. A name in quotes may hold commas. */
  function targetsOf(text) {
    const written = [...text.matchAll(/\s*(?:"((?:[^"]|"")*)"\s*(?=,|$)|([^,]*))(?:,|$)/g)];
    const names = [...new Set(written.map(([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain.trim()).filter((name) => name !== ""))];
    return names.length ? Object.freeze(names) : null;
  }

  /** The same names as a text. */
  const targetsText = (names) => (names ?? []).map((name) => (/[",]|^\s|\s$/.test(name) ? `"${name.replaceAll('"', '""')}"` : name)).join(", ");

  /** The views that answer a question, as the server calls them; the first is the one that is shown if they tie. */
  function viewsOf({ sight, pooled } = state.question) {
    const kind = pooled === null ? "alone" : "pooled";
    return sight === BOTH ? ["messages", "sums"].map((each) => sights.get(each)[kind]) : [sights.get(sight)[kind]];
  }

  // What is set and cannot be asked, by the place where it is set, and the question that the server refused.
  const amiss = new Map();
  let denied = { key: null, why: "" };

  /** Take down what was said at a place and why it cannot be asked: until it is mended nothing is asked, and no answer stands. */
  const refuse = (place, said, why) => amiss.set(place, { said, why });

  /** Forget what was amiss at some places; whether anything was. */
  const amend = (...places) => places.map((place) => amiss.delete(place)).includes(true);

  /** What stands in the field of a place: what was said there, if it is amiss, or else the value that is asked. */
  const saidAt = (place, value) => amiss.get(place)?.said ?? value;

  /** Take down why the server refuses the question that is asked, or null while it is asked anew. */
  const deny = (why) => (denied = { key: why === null ? null : key(), why });

  /** Why there is no answer to what is set. */
  const whyNot = () => [...[...amiss.values()].map(({ why }) => why), ...(denied.key === key() ? [denied.why] : [])];

  /** Everything that a sentence on the page may rest on. */
  const inputs = () =>
    JSON.stringify([key(), [...amiss], state.noise, state.delta, sottovoce.model.chosen, sottovoce.model.target, ...["target-epsilon", "find-scope"].map((id) => document.getElementById(id).value)]);

  /** The ε that is allowed, or null if none is said. */
  function budget() {
    const value = Number(document.getElementById("target-epsilon").value);
    return value > 0 && Number.isFinite(value) ? value : null;
  }

  /** The line that a plot draws at an ε: the budget of a report, if one was set; where one asks live, ε to look up noise for. */
  function line() {
    const value = state.live ? budget() : state.allowed;
    return value === null ? null : { name: `${state.live ? "reference" : "budget"} ε = ${sottovoce.gaussian.given(value)}`, value };
  }

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

  return Object.assign(state, { BOTH, SIGHTS, TERMS, byView, budget, line, ownGraph, change, networkKey, key, viewsOf, targetsOf, targetsText, amiss, refuse, amend, saidAt, deny, whyNot, inputs, claim, forget, standing });
})();
