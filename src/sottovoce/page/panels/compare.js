// SPDX-License-Identifier: Apache-2.0
// Views, weights, topologies or protocols side by side on one scale, at the same noise or at the same ε. What the server
// answered is kept by its question, as Δ²: noise and δ can change without another job.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.compare = (() => {
  const { state, model, dom, gaussian, asking, jobs, server, strips, verdict } = sottovoce;
  const { byId } = dom;
  const KINDS = { views: "Views", weights: "Weights", topologies: "Topologies", protocols: "Protocols" };
  /** What a link may say of a comparison. */
  const CHOICES = { by: Object.keys(KINDS), at: ["noise", "epsilon"] };
  const HINTS = { weights: "laplacian:0.1", topologies: "torus:rows=4,cols=5", protocols: "momentum:beta=0.5" };
  /** Up to so many nodes a comparison is computed without being asked for. */
  const SMALL = 60;
  const picked = { kind: "views", at: "noise", off: new Set(), more: { weights: [], topologies: [], protocols: [] } };
  const known = new Map();
  const inOrder = new WeakMap();
  let running = null;
  let redraw = () => {};

  /** What can be compared, each with its name and how its question differs from the one that is asked. */
  function offered(kind = picked.kind) {
    const { question } = state;
    const n = model.labels.length;
    const more = (picked.more[kind] ?? []).map((name) => ({ name, own: true }));
    const named = {
      views: () => state.SIGHTS.filter((each) => each.alone && each.sight !== "custom" && (question.pooled === null || each.pooled)).map(({ sight, label }) => ({ name: label, change: { sight } })),
      weights: () => [...[...byId("weights").options].map(({ value }) => ({ name: value })).filter(({ name }) => !["auto", "graph"].includes(name)), ...more].map((each) => ({ ...each, change: { weights: each.name } })),
      topologies: () => [{ name: question.source.name ?? question.source.file ?? "this graph", change: {} }, ...[{ name: `ring:n=${n}` }, { name: `star:n=${n}` }, { name: `complete:n=${n}` }, ...more].filter(({ name }) => name !== question.source.name).map((each) => ({ ...each, change: { source: { name: each.name }, weights: question.weights === "graph" ? "auto" : question.weights, pooled: null, targets: null } }))],
      protocols: () => [...[...byId("protocol").options].filter(({ value, dataset }) => value !== "own" && !dataset.rounds).map(({ value, dataset }) => ({ name: dataset.given ? `${value}:${dataset.given}` : value })), ...more].map((each) => ({ ...each, change: { protocol: each.name, program: null, ...(each.name.startsWith("gossip") ? {} : { damping: null }) } })),
    };
    return named[kind]();
  }

  const chosen = () => offered().filter(({ name }) => !picked.off.has(`${picked.kind} ${name}`));

  /** The questions of a comparison: for each contender one a view. */
  const questions = () => chosen().flatMap(({ name, change }) => {
    const question = { ...state.question, ...change };
    return state.viewsOf(question).map((view) => {
      const body = asking.request(question, view, question.pooled);
      // A graph of one's own is told apart by its number, which is shorter than its text.
      return { name, view, body, key: JSON.stringify([state.networkKey(question), { ...body, graph: null }]) };
    });
  });

  /** What is kept of an answer: Δ² of the worst pair and of the median, and what they rest on. */
  function summary({ pairs, methods, factor, local_squared, assumption, participation, pairs_computed, pairs_possible }) {
    const found = pairs.upper.map((upper, k) => ({ lower: pairs.lower[k] ?? Infinity, upper: upper ?? Infinity, method: methods[pairs.method[k]] }));
    if (!found.length) return { refused: "there is no pair of an observer and a target" };
    found.sort((a, b) => b.upper - a.upper);
    return { worst: found[0], median: found[Math.floor((found.length - 1) / 2)], local: local_squared, factor, assumption, participation, whole: pairs_computed === pairs_possible };
  }

  const ends = ({ lower, upper }, factor) => (lower === Infinity ? { lower, upper: Infinity } : gaussian.pairEnds(lower, upper, factor, state.noise, state.delta));

  /** Ask for what is not known, one after the other, and draw each as it comes. */
  async function run() {
    const from = state.key();
    const mine = (running = { from, done: 0, part: 0, total: questions().length });
    try {
      for (const { key, body } of questions()) {
        if (!known.has(key)) {
          redraw();
          try {
            const stands = () => running === mine && state.key() === from;
            const [found] = await jobs.run("compare", stands, [["api/page", body]], ({ done, total }) => {
              mine.part = total ? done / total : 0;
              progress();
            });
            known.set(key, summary(found));
          } catch (error) {
            if (!(error instanceof server.Refused)) throw error;
            known.set(key, { refused: error.message });
          }
        }
        mine.done += 1;
        mine.part = 0;
      }
    } catch (error) {
      if (running === mine) picked.stopped = from;
      if (!(error instanceof jobs.Superseded || error instanceof server.Cancelled)) state.claim("compare", error.message);
    }
    if (running === mine) running = null;
    redraw();
  }

  function progress() {
    byId("compare-progress").hidden = running === null;
    byId("compare-progress").max = running?.total ?? 1;
    byId("compare-progress").value = running === null ? 0 : running.done + running.part;
  }

  const refusal = (name, view, text) => ({ name, under: `${verdict.title(view)} · ${text}`, ends: null, text: "refused", order: -1 });

  /** One contender as a row at the same noise. */
  function atNoise(name, view, { worst, median, local, factor, assumption, whole }) {
    const epsilon = ends(worst, factor);
    const beside = local === null ? undefined : ends({ lower: local.lower ?? Infinity, upper: local.upper ?? Infinity }, factor).upper;
    const under = `${verdict.title(view)} · ${worst.method} · assumes ${assumption}${whole ? "" : " · not all pairs"}`;
    return { name, under, ends: epsilon, median: ends(median, factor).upper, mark: beside, text: gaussian.interval(epsilon), order: epsilon.upper };
  }

  /** One contender as a row at the same ε: the noise that is enough. */
  function atEpsilon(name, view, { worst, factor, assumption, whole }, budget) {
    const noise = worst.upper === Infinity ? null : worst.upper === 0 ? 0 : gaussian.noiseFor(worst.upper, factor, budget, state.delta);
    const under = `${verdict.title(view)} · ${worst.method} · assumes ${assumption}${whole ? "" : " · not all pairs"}`;
    if (noise === null) return { name, under, ends: { lower: Infinity, upper: Infinity }, text: "none", order: Infinity };
    return { name, under, ends: { lower: noise, upper: noise }, text: `${noise} is enough`, order: noise };
  }

  /** What a report holds: the views of its own run, each put in order once. */
  const held = () => model.parts().map((part) => {
    if (!inOrder.has(part)) inOrder.set(part, summary({ ...part.document, pairs: columns(part) }));
    return { name: verdict.title(part.document.view), view: part.document.view, found: inOrder.get(part) };
  });
  function columns(part) {
    const rows = [...part.rows.values()];
    const { methods } = part.document;
    return { lower: rows.flatMap((row) => row.lower), upper: rows.flatMap((row) => row.upper), method: rows.flatMap((row) => row.method.map((name) => methods.indexOf(name))) };
  }

  function draw() {
    byId("compare-panel").hidden = !state.live && state.viewsOf().length < 2;
    if (model.document === null || byId("compare-panel").hidden) return;
    controls();
    const budget = state.budget();
    const same = picked.at === "epsilon" && budget !== null;
    const asked = state.live ? questions().map(({ name, view, key }) => ({ name, view, found: known.get(key) })) : held();
    const rows = asked.filter(({ found }) => found !== undefined).map(({ name, view, found }) => (found.refused ? refusal(name, view, found.refused) : same ? atEpsilon(name, view, found, budget) : atNoise(name, view, found)));
    rows.sort((a, b) => b.order - a.order);
    const missing = asked.length - rows.length;
    byId("compare").replaceChildren(...(rows.length ? strips.table({
      label: "Comparison, worst first",
      heads: ["What", same ? "noise multiplier" : "ε, both ends"],
      unit: same ? `noise multiplier for ε ≤ ${gaussian.given(budget)} at δ = ${gaussian.given(state.delta)}` : `ε of the worst pair at δ = ${gaussian.given(state.delta)}`,
      rows,
      marks: same || state.line() === null ? [] : [{ ...state.line(), colour: "--line-best", dash: "8 3 2 3" }],
    }) : []));
    dom.say(byId("compare-note"), [state.standing("compare")?.text ?? "", missing ? `${missing} of ${asked.length} are not computed yet.` : "", same ? "Enough is an upper end: less noise may do." : "A dot is the certified end of the worst pair, the line from it ends at what is attained; a ring is the certified end of the median pair, a tick that of local DP. Leaks are ordered only where lines do not overlap."].filter(Boolean).join(" "));
    const mayStart = running === null && missing > 0;
    byId("compare-run").hidden = !state.live || !mayStart;
    byId("compare-stop").hidden = running === null;
    progress();
    if (state.live && mayStart && model.labels.length <= SMALL && picked.stopped !== state.key()) run();
  }

  function controls() {
    if (!byId("compare-by").childElementCount) {
      dom.segments(byId("compare-by"), Object.entries(KINDS), picked.kind, (value) => again(() => (picked.kind = value)));
      dom.segments(byId("compare-at"), [["noise", "Same noise"], ["epsilon", "Same ε"]], picked.at, (value) => again(() => (picked.at = value)));
    }
    dom.pick(byId("compare-by"), picked.kind);
    dom.pick(byId("compare-at"), picked.at);
    byId("compare-form").hidden = !state.live;
    if (!state.live) return;
    byId("compare-add").hidden = byId("compare-form").querySelector("[type=submit]").hidden = picked.kind === "views";
    byId("compare-add").placeholder = HINTS[picked.kind] ?? "";
    const list = offered();
    const kind = JSON.stringify([picked.kind, list.map(({ name }) => name)]);
    if (byId("compare-choices").dataset.kind === kind) return;
    byId("compare-choices").dataset.kind = kind;
    byId("compare-choices").replaceChildren(...list.map(({ name }) => {
      const id = `${picked.kind} ${name}`;
      const box = dom.el("input", { type: "checkbox", checked: !picked.off.has(id) });
      box.addEventListener("change", () => again(() => (box.checked ? picked.off.delete(id) : picked.off.add(id))));
      return dom.el("li", {}, dom.el("label", {}, box, ` ${name}`));
    }));
  }

  /** Change what is compared; what runs is for the list before. */
  function again(change) {
    change();
    picked.stopped = null;
    running = null;
    jobs.stop("compare");
    redraw();
  }

  /** What is compared, as a link says it. */
  function write(words) {
    words.set("by", picked.kind);
    words.set("at", picked.at);
    for (const name of picked.more[picked.kind] ?? []) words.append("with", name);
    for (const { name } of offered()) if (picked.off.has(`${picked.kind} ${name}`)) words.append("without", name);
  }

  function read(words) {
    picked.kind = words.get("by") ?? picked.kind;
    picked.at = words.get("at") ?? picked.at;
    if (picked.kind !== "views") picked.more[picked.kind] = [...new Set([...picked.more[picked.kind], ...words.getAll("with")])];
    for (const name of words.getAll("without")) picked.off.add(`${picked.kind} ${name}`);
  }

  function begin(onRedraw) {
    redraw = onRedraw;
    byId("compare-form").addEventListener("submit", (event) => {
      event.preventDefault();
      const name = byId("compare-add").value.trim();
      if (!name || picked.kind === "views" || offered().some((each) => each.name === name)) return;
      byId("compare-add").value = "";
      again(() => picked.more[picked.kind].push(name));
    });
    byId("compare-run").addEventListener("click", () => again(() => {}) ?? run());
    byId("compare-stop").addEventListener("click", () => jobs.cancel("compare"));
  }

  return { CHOICES, begin, draw, write, read };
})();
