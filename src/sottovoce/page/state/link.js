// SPDX-License-Identifier: Apache-2.0
// The address says what is shown, so that a copied link, or a reload, leads back to it.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.link = (() => {
  const { state, model, dom, gaussian, kept, messages, asking, compare, rules } = sottovoce;
  const { byId } = dom;
  const LINK_TEXT = 1500;
  const POOLED = "coalition";
  /** What a link may say beside the terms of a question, that of a report, and what it may say more than once. */
  const HELD = ["noise", "delta", "observer", "target"];
  const SERVED = [...HELD, "graph", "file", "text", "format", "kept", "view", "rounds", "tab", "by", "at", "with", "without"];
  const MANY = ["observer", "with", "without"];
  /** What is asked where a link does not say it. */
  const USUAL = { noise: state.noise, delta: state.delta, rounds: state.question.rounds, source: state.question.source };
  let begun = false;
  let given = null;
  const carried = ({ name, text }) => Boolean(name) || text.length <= LINK_TEXT;

  const write = dom.later(() => {
    // What is asked is in the link before it is answered: a reload asks the same, and finds the job that computes it.
    // What cannot be asked, or is refused, stays as it was given.
    if (begun && state.amiss.size === 0 && (model.document !== null || (state.live && state.key() !== given))) {
      const words = new URLSearchParams();
      if (state.live) question(words);
      const { observers, target } = looked();
      for (const name of observers) words.append("observer", name);
      if (target !== null) words.set("target", target);
      words.set("noise", gaussian.given(state.noise));
      words.set("delta", gaussian.given(state.delta));
      history.replaceState(null, "", `#${words}`);
    }
    // Whoever drives the page from outside can wait for this mark.
    document.body.dataset.settled = "yes";
  }, 80);

  /** Who is looked at, by name; until there is an answer, who was to be looked at. */
  function looked() {
    const { pooled } = state.question;
    if (model.document !== null) return { observers: model.chosen.map(model.name), target: model.target === null ? null : model.name(model.target) };
    if (pooled !== null && model.labels.length) return { observers: pooled.map(model.name), target: null };
    return asking.meant();
  }

  function question(words) {
    const asked = state.question;
    const { source, sight, pooled, rounds } = asked;
    if (source.name) words.set("graph", source.name);
    else {
      words.set("file", source.file ?? "a file of your own");
      if (carried(source)) {
        words.set("text", source.text);
        words.set("format", source.format);
      } else if (source.id) words.set("kept", source.id);
    }
    if (sight !== state.BOTH) words.set("view", state.viewsOf()[0]);
    else if (pooled !== null) words.set("view", POOLED);
    words.set("rounds", String(rounds));
    for (const { term, option, usual } of state.TERMS) if (asked[term] !== usual) words.set(option, term === "targets" ? state.targetsText(asked[term]) : String(asked[term]));
    if (state.tab !== state.TABS[0]) words.set("tab", state.tab);
    if (state.tab === "compare") compare.write(words);
  }

  /**
   * What the link says: changes to the question, noise and δ, names for when the graph is known, and by its place
   * whatever cannot be asked. Where it says nothing, what is usual is meant.
   */
  async function read() {
    const words = new URLSearchParams(document.querySelector(":target") === null ? location.hash.slice(1) : "");
    const amiss = new Map();
    const refuse = (place, said, why) => amiss.has(place) || amiss.set(place, { said, why });
    begun = true;
    once(words, refuse);
    const said = (word) => (amiss.has(word) ? null : words.get(word));
    const chosen = (word, choices, usual) => judged(word, said(word), usual, refuse, (text) => ({ value: text, why: rules.choice(word, text, choices) }));
    const number = (word, usual) => judged(word, said(word), usual, refuse, (text) => rules.number(word, text));
    const result = { amiss, words, noise: number("noise", state.live ? USUAL.noise : null), delta: number("delta", state.live ? USUAL.delta : null) };
    if (!state.live) return { ...result, changes: {}, names: who(words, refuse, false), tab: state.tab };
    const view = chosen("view", [POOLED, ...state.byView.keys()].filter((each) => each !== "custom"), null);
    const changes = { pooled: null, sight: state.byView.get(view)?.sight ?? state.BOTH, rounds: number("rounds", USUAL.rounds) };
    const names = who(words, refuse, view !== null && view.startsWith(POOLED));
    if (names.pooled && !words.has("observer")) refuse("view", view, `a coalition has members; got view=${view} without (name each as observer=NAME)`);
    if (changes.sight === "everyone" && names.observers.length) refuse("observer", names.observers.join(", "), "whoever sees every message learns the same, whoever observes; got observer and view=everyone (choose another view)");
    for (const { term, option, usual } of state.TERMS) changes[term] = judged(option, said(option), usual, refuse, (text) => ofTerm(term, option, text));
    const tab = chosen("tab", state.TABS, state.TABS[0]);
    for (const [word, choices] of Object.entries(compare.CHOICES)) chosen(word, choices, null);
    if (amiss.size === 0) compare.read(words);
    changes.source = await sourceOf(words, refuse);
    return { ...result, changes, names, tab };
  }

  /** The value of what a link says at a place; what is usual where it says nothing, or nothing that can be asked. */
  function judged(place, text, usual, refuse, judge) {
    if (text === null) return usual;
    const { value, why } = judge(text);
    if (why === null) return value;
    refuse(place, text, why);
    return usual;
  }

  /** Take down words that no link has, that stand twice, or that have no value. */
  function once(words, refuse) {
    const known = state.live ? [...SERVED, ...state.TERMS.map(({ option }) => option)] : HELD;
    for (const word of new Set(words.keys())) {
      const values = words.getAll(word);
      const written = rules.shown(`${word}=${values[0]}`);
      if (!known.includes(word)) refuse(word, values[0], `a link of this page has no word ${rules.shown(word)}; got ${written} (mend the word, or leave it out)`);
      else if (values.includes("")) refuse(word, "", `${word} must have a value in a link; got ${written} (give it one, or leave it out)`);
      else if (values.length > 1 && !MANY.includes(word)) refuse(word, values.join(", "), `${word} must stand once in a link; got ${rules.shown(values.join(" and "))} (leave one out)`);
    }
  }

  /** Who is to be looked at: one observer, or the members of a coalition, and perhaps a target. */
  function who(words, refuse, pooled) {
    const observers = [...new Set(words.getAll("observer"))].filter((name) => name !== "");
    if (state.live && !pooled && observers.length > 1) refuse("observer", observers.join(", "), `one node observes unless the view is that of a coalition; got ${rules.shown(observers.join(" and "))} (leave one out, or ask for view=${POOLED})`);
    return { observers, target: words.get("target") || null, pooled };
  }

  /** What a link says of one term; the server judges words that have no end. */
  function ofTerm(term, option, text) {
    if (["step_smoothness", "tolerance"].includes(term)) return rules.number(option, text);
    if (term === "targets") {
      const names = state.targetsOf(text);
      return { value: names, why: names === null ? `targets must name a node; got ${rules.shown(text)} (name some, or leave it out)` : null };
    }
    const control = byId(option);
    const choices = term === "own_noise" ? ["known", "hidden"] : term !== "protocol" && control?.tagName === "SELECT" ? [...control.options].map(({ value }) => value).filter(Boolean) : null;
    return { value: text, why: choices === null ? null : rules.choice(option, text, choices) };
  }

  /** The graph of a link; the usual one where it names none, or one that is gone. */
  async function sourceOf(words, refuse) {
    const [name, file, text] = ["graph", "file", "text"].map((word) => words.get(word) || null);
    if (name !== null && (file ?? text) !== null) refuse("graph", name, `a link has one graph; got ${rules.shown(name)} and ${rules.shown(file ?? "a text")} (leave one out)`);
    if (name !== null) return { name };
    if (text !== null) return state.ownGraph({ text, format: words.get("format") ?? "edgelist", file });
    if (file === null && !words.has("kept")) return USUAL.source;
    const { source, why } = words.has("kept") ? await kept.get(words.get("kept")) : { source: null, why: "is lost, because this browser keeps nothing for this page" };
    if (source !== null) return state.ownGraph(source);
    const called = file ?? "of this link";
    refuse("file", called, `The graph ${called} ${why} (drop it here again, or load another).`);
    return USUAL.source;
  }

  /** Leave the address as it was given until there is an answer to what it asks. */
  const stay = () => (given = state.key());

  async function copy() {
    if (state.live && !carried(state.question.source)) return messages.say("The link finds a graph of this size in this browser alone; send the file along.");
    try {
      await navigator.clipboard.writeText(location.href);
      byId("copy-link").textContent = "Copied";
      setTimeout(() => (byId("copy-link").textContent = "Copy link"), 1500);
    } catch {
      messages.say(`The link is in the address bar: ${location.href}`);
    }
    return undefined;
  }

  return { write, read, stay, copy, carried };
})();
