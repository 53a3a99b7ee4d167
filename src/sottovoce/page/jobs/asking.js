// SPDX-License-Identifier: Apache-2.0
// From a question to its answer: first the network, then one observer or all, then in the background whoever is left.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.asking = (() => {
  const { state, model, jobs, server, messages, layout, gaussian } = sottovoce;
  /** So many nodes are asked for at once; of larger networks one observer comes first. */
  const SMALL = 60;
  const FIRST_PAIRS = 1500;
  const MOST_OBSERVERS = 64;
  const RULES = [...document.getElementById("weights").options].map((option) => option.value);
  let redraw = () => {};
  let filling = { key: null };
  let waiting = { key: null };
  /** Who is to be looked at once everything that is set can be asked. */
  let held = null;
  const NOBODY = { observers: [], target: null };
  /** Where something stands that a change takes the place of. */
  const PLACES = { source: ["graph", "file", "text", "format", "kept", "observer", "target"], sight: ["view", "observer"], pooled: ["view", "observer"], protocol: ["protocol", "parameters"] };
  const placesOf = (name) => PLACES[name] ?? [state.TERMS.find(({ term }) => term === name)?.option ?? name];

  /** A graph as the server reads it. */
  const graphOf = ({ name, text, format, file }) => (name ? { kind: "name", name } : { kind: "text", text, format, name: file ?? null });

  /** A question about one view and some observers (positions, or null for all) as the server reads it. */
  const request = (question, view, observers) => ({
    graph: graphOf(question.source), rounds: question.rounds, view,
    ...Object.fromEntries(state.TERMS.map(({ term }) => [term, question[term]])),
    observers: view === "everyone" || observers === null ? null : observers.map((node) => model.raw[node]),
  });
  const pages = (question, observers) => state.viewsOf(question).map((view) => ["api/page", request(question, view, observers)]);
  const whileAsked = (key) => () => state.amiss.size === 0 && state.key() === key;

  /** Run requests while the page says that it works; whoever looks may cancel them. */
  async function openly(lane, text, stands, requests) {
    messages.busy(text);
    try {
      return await jobs.run(lane, stands, requests, messages.advance);
    } finally {
      if (!jobs.running("front") && !jobs.running("row")) messages.busy(null);
    }
  }

  /** Set something: it takes the place of what could not be asked there. */
  function set(changes) {
    state.amend(...Object.keys(changes).flatMap(placesOf));
    if ("source" in changes) held = null;
    return ask(changes, held);
  }

  /** Ask without all that cannot be asked. */
  function leave() {
    state.amend(...state.amiss.keys());
    if (state.live) return ask({}, held ?? NOBODY);
    model.settle();
    return redraw();
  }

  /** Look at a node in the place of an observer, or a target, that there is not. */
  const look = (node) => ask({}, { observers: [model.name(node)], target: null, pooled: false });

  /** Ask a question that differs from the present one by `changes`; `names` says who is looked at, by name. */
  async function ask(changes, names = null) {
    const before = state.key();
    state.change(changes);
    const asked = state.key();
    if (state.amiss.size) {
      held = names ?? held;
      jobs.sweep();
      messages.busy(null);
      return redraw();
    }
    held = null;
    if (asked === before && names === null && (jobs.running("front") || model.document !== null)) return resume();
    state.deny(null);
    waiting = { key: asked, observers: names?.observers ?? [], target: names?.target ?? null };
    jobs.sweep();
    redraw();
    try {
      await answer(names);
      messages.quiet();
    } catch (error) {
      if (error instanceof jobs.Superseded) return redraw();
      if (error instanceof server.Refused) {
        state.deny(error.message);
        messages.quiet();
        return redraw();
      }
      model.goBack();
      redraw();
      if (error instanceof server.Cancelled) messages.say(model.document === null ? "Cancelled." : "Cancelled. What is shown is the run before.");
      else messages.say(error.message, { again: error instanceof server.Gone ? () => ask(changes, names) : null });
      return undefined;
    }
    redraw();
    fill();
    return curve();
  }

  /** Go on with a question that is answered, or computed, already. */
  function resume() {
    redraw();
    if (filling.key === state.key() && !filling.stopped && !jobs.running("back")) fill();
    return curve();
  }

  async function answer(names) {
    const reading = state.key();
    if (model.known().key === null) {
      const { source, weights, protocol, program } = state.question;
      const [graph] = await openly("front", "Reading the network…", whileAsked(reading), [["api/graph", { graph: graphOf(source), weights, protocol: program === null ? protocol : "gossip" }]]);
      model.takeNetwork(state.question, graph);
    }
    who(names);
    const named = (names?.observers ?? []).map((name) => model.labels.indexOf(name));
    if (names?.pooled && named.length) state.change({ pooled: named });
    const { question } = state;
    if (model.document === null) {
      const chosen = starting(question, named);
      const observers = question.pooled ?? (model.labels.length <= SMALL || !chosen.length ? null : chosen);
      const found = await openly("front", "Computing…", whileAsked(state.key()), pages(question, observers));
      for (const document of found) model.take(question, document, chosen);
      model.settle();
    } else if (named.length && question.pooled === null) await observe(named[named.length - 1]);
    const target = model.labels.indexOf(names?.target ?? null);
    if (target >= 0 && model.row()?.targets.includes(target) === false) {
      state.refuse("target", names.target, `there is no pair of ${model.names(model.chosen)} and ${names.target} (choose who observes in the list)`);
    } else if (target >= 0) model.target = target;
  }

  /** Whether there are those who are to be looked at; those who are not are taken down, and nothing is asked. */
  function who(names) {
    const { observers = [], target = null, pooled = false } = names ?? {};
    const named = [...observers.map((name) => ["observer", name]), ...(target === null ? [] : [["target", target]])];
    for (const [place, name] of named) {
      const node = model.labels.indexOf(name);
      if (node < 0) state.refuse(place, name, `no node is called ${sottovoce.rules.shown(name)} (choose who observes in the list)`);
      else if (place === "observer" && !pooled && model.alone(node)) state.refuse(place, name, `${name} is the only one who is protected, and has nobody to learn about (choose who observes in the list)`);
    }
    if (state.amiss.size === 0) return;
    held = { observers: state.amiss.has("observer") ? [] : observers, target: state.amiss.has("target") ? null : target, pooled };
    throw new jobs.Superseded("not to be asked");
  }

  /** Whom to look at first: who is named, who was looked at before, or in a large network the hub of those that have somebody to learn about. */
  function starting({ sight, pooled }, named) {
    if (sight === "everyone") return [];
    if (pooled !== null) return pooled;
    const before = (named.length ? named : model.lastChosen()).filter((node) => !model.alone(node));
    if (before.length || model.labels.length <= SMALL) return before.slice(-1);
    const nodes = model.labels.map((_, node) => node).filter((node) => !model.alone(node));
    return [nodes.reduce((best, node) => (model.neighbours[node].length > model.neighbours[best].length ? node : best))];
  }

  /** Look at an observer; what is not known of it yet is asked for. */
  async function observe(node, target = null) {
    model.chosen = [node];
    model.target = target;
    redraw();
    if (model.row() === null) await rows([node], `Computing what ${model.name(node)} can learn…`);
    return curve();
  }

  async function rows(observers, text) {
    const { question } = state;
    try {
      const found = await openly("row", text, whileAsked(state.key()), pages(question, observers));
      for (const document of found) model.take(question, document);
      model.measure();
    } catch (error) {
      if (error instanceof jobs.Superseded) return;
      messages.say(error instanceof server.Cancelled ? "Cancelled." : error.message);
    }
    redraw();
  }

  /** As many observers as the server answers at once, spread over all degrees. */
  function more() {
    const most = Math.max(1, Math.floor(state.limits.pairs / model.labels.length));
    const sample = layout.byDegree(model.neighbours, most).filter((node) => !model.alone(node) && !model.rows.has(String(node)));
    return rows(sample.slice(0, most), "Computing more observers…");
  }

  /** All observers that are left, some at a time, until all pairs of the network are known. */
  async function fill() {
    const covered = model.coverage();
    if (!state.live || covered === null || covered.complete || tooLarge()) return;
    const { question } = state;
    const key = state.key();
    const mine = (filling = { key, ahead: 0, error: null, stopped: false });
    let size = Math.max(1, Math.floor(FIRST_PAIRS / model.labels.length));
    redraw();
    try {
      for (let rest = model.missing(); rest.length; rest = model.missing()) {
        const began = performance.now();
        const requests = pages(question, rest.slice(0, size));
        const found = [];
        // One after the other: whoever asks something meanwhile finds a worker free.
        for (const each of requests) {
          const ahead = ({ done, total }) => {
            mine.ahead = (found.length * total + done) / requests.length;
            redraw();
          };
          found.push(...(await jobs.run("back", whileAsked(key), [each], ahead)));
        }
        mine.ahead = 0;
        for (const document of found) model.take(question, document);
        model.measure();
        const took = performance.now() - began;
        if (took < 1500) size = Math.min(2 * size, MOST_OBSERVERS);
        else if (took > 5000) size = Math.max(1, Math.floor(size / 2));
        redraw();
      }
    } catch (error) {
      if (error instanceof jobs.Superseded) return;
      mine.stopped = true;
      mine.error = error instanceof server.Cancelled ? null : error.message;
    }
    redraw();
  }

  /** Whom the question that is under way is to look at, by name. */
  const meant = () => (waiting.key === state.key() ? waiting : { observers: [], target: null });

  const tooLarge = () => (model.coverage()?.possible ?? 0) > state.limits.pairs;
  const wholeViews = () => state.question.pooled === null && state.question.sight !== "everyone";

  /** How the background stands: pairs ahead of those that are known, stopped or not, and why. */
  const progress = () => (filling.key === state.key() ? filling : { ahead: 0, error: null, stopped: true });

  /** What the command line is to be asked where the page cannot know. */
  function command(verb = "account") {
    const { question } = state;
    const { source, rounds, sight, program } = question;
    const quoted = (word) => (/^[\w.:=,/+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
    const words = ["sottovoce", verb, quoted(source.name ?? source.file ?? "GRAPH"), "--rounds", String(rounds)];
    words.push(...(verb === "account" ? ["--noise-multiplier", gaussian.given(state.noise), "--delta", gaussian.given(state.delta)] : []));
    if (sight !== state.BOTH || verb !== "account") words.push("--view", model.document.view);
    for (const { term, option, usual } of state.TERMS) {
      // What a report calls the rule of its weights is no option.
      if (term === "targets") words.push(...(question.targets ?? []).flatMap((name) => ["--target", quoted(name)]));
      if (question[term] === usual || ["program", "targets"].includes(term) || (term === "weights" && !RULES.includes(question[term]))) continue;
      words.push(`--${option}`, term === "damping" && String(question[term]).includes(",") ? "damping.csv" : quoted(String(question[term])));
    }
    if (program !== null) words.push("--protocol", "program.toml");
    return words.join(" ");
  }

  /** The curve of what is looked at, in the background. */
  async function curve() {
    const { chosen } = model;
    if (!state.live || state.tab !== "curves" || model.document === null || model.curves.has(model.keyOf(chosen))) return;
    const { question } = state;
    const [key, who] = [state.key(), model.keyOf(chosen)];
    const { view } = model.document;
    try {
      const stands = () => state.key() === key && model.keyOf(model.chosen) === who;
      const [found] = await jobs.run("curve", stands, [["api/curve", request(question, view, chosen)]]);
      model.takeCurve(view, found);
    } catch (error) {
      if (error instanceof jobs.Superseded || error instanceof server.Cancelled) return;
      state.claim("curve", `No curve: ${error.message}`);
    }
    redraw();
  }

  return {
    begin: (onRedraw) => (redraw = onRedraw),
    ask, set, leave, look, observe, more, fill, curve, request, tooLarge, wholeViews, progress, command, meant,
    stop: () => jobs.cancel("back"),
  };
})();
