// SPDX-License-Identifier: Apache-2.0
// The address says what is shown, so that a copied link, or a reload, leads back to it.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.link = (() => {
  const { state, model, dom, gaussian, kept, messages, asking, compare } = sottovoce;
  const { byId } = dom;
  const LINK_TEXT = 1500;
  const POOLED = "coalition";
  /** The largest numbers that the server takes. */
  const MOST = { step_smoothness: 1e300, tolerance: 1 };
  let begun = false;
  const carried = ({ name, text }) => Boolean(name) || text.length <= LINK_TEXT;

  const write = dom.later(() => {
    // What is asked is in the link before it is answered: a reload asks the same, and finds the job that computes it.
    if (begun && (state.live || model.document !== null)) {
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

  /** The settings of the link: changes to the question, names for when the graph is known, and what to say about it. */
  async function read() {
    const words = new URLSearchParams(location.hash.slice(1));
    begun = true;
    const [noise, delta] = [Number(words.get("noise")), Number(words.get("delta"))];
    if (noise > 0 && Number.isFinite(noise)) state.noise = noise;
    if (delta > 0 && delta < 1) state.delta = delta;
    const names = { observers: words.getAll("observer"), target: words.get("target"), pooled: false };
    if (!state.live) return { changes: {}, names, words, notice: null };
    const view = words.get("view");
    const changes = { pooled: null, sight: state.byView.get(view)?.sight ?? state.BOTH };
    names.pooled = view === POOLED || (view ?? "").startsWith("coalition-");
    if (Number.isInteger(Number(words.get("rounds"))) && Number(words.get("rounds")) > 0) changes.rounds = Number(words.get("rounds"));
    for (const { term, option, usual } of state.TERMS) changes[term] = allowed(term, option, words.get(option)) ?? usual;
    state.tab = state.TABS.includes(words.get("tab")) ? words.get("tab") : state.TABS[0];
    compare.read(words);
    const { source, notice } = await sourceOf(words);
    if (source !== null) changes.source = source;
    return { changes, names, words, notice };
  }

  /** What a link says of one term, null where it says nothing that can be asked. */
  function allowed(term, option, said) {
    const control = byId(option);
    const most = MOST[term];
    if (said === null) return null;
    if (most !== undefined) return Number(said) > 0 && Number(said) <= most ? Number(said) : null;
    if (term === "targets") return state.targetsOf(said);
    if (term === "own_noise") return ["known", "hidden"].includes(said) ? said : null;
    return term !== "protocol" && control?.tagName === "SELECT" && ![...control.options].some(({ value }) => value === said) ? null : said;
  }

  async function sourceOf(words) {
    if (words.has("graph")) return { source: { name: words.get("graph") }, notice: null };
    const file = words.get("file");
    if (words.has("text")) return { source: state.ownGraph({ text: words.get("text"), format: words.get("format") ?? "edgelist", file }), notice: null };
    if (file === null) return { source: null, notice: null };
    const { source, why } = words.has("kept") ? await kept.get(words.get("kept")) : { source: null, why: "is lost, because this browser keeps nothing for this page" };
    if (source !== null) return { source: state.ownGraph(source), notice: null };
    return { source: null, notice: `The graph ${file} ${why}. Shown instead is ${state.question.source.name ?? state.question.source.file}: drop ${file} here again.` };
  }

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

  return { write, read, copy, carried };
})();
