// SPDX-License-Identifier: Apache-2.0
// What the page knows: a network, and the answer to a question: for each view rows of Δ² (one an observer) and curves.
// An answer counts only while its key is that of the question that is asked. ε comes from Δ² at once.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.model = (() => {
  const { gaussian, state } = sottovoce;
  const keyOf = (members) => [...members].sort((a, b) => a - b).join(",");

  const model = { most: 0, largest: 0 };
  const NOTHING = { key: null, labels: [], raw: [], links: [], neighbours: [], positions: null };
  let network = NOTHING;
  let answer = null;
  let ordered = { only: null, rows: null, size: 0, places: [], first: [] };

  /** The answer to the question, or null. */
  const matching = () => (answer !== null && answer.key === state.key() ? answer : null);

  /** The same while all that is set can be asked. */
  const current = () => (state.amiss.size === 0 ? matching() : null);

  /** The network of what is asked, empty until it is known. */
  const known = () => (network.key === state.networkKey() ? network : NOTHING);

  /** Take the network that a question is about. */
  function takeNetwork(question, { labels, links, positions }) {
    const neighbours = labels.map(() => []);
    for (const [a, b] of links) {
      neighbours[a].push(b);
      neighbours[b].push(a);
    }
    network = { key: state.networkKey(question), raw: labels, labels: labels.map(String), links, neighbours, positions: positions ?? null };
  }

  /** Take the pairs of one view; those of an older question are left alone. `chosen` is for the first pairs of an answer. */
  function take(question, document, chosen = []) {
    const key = state.key(question);
    if (key !== state.key()) return false;
    if (answer === null || answer.key !== key) answer = { key, question, network, parts: new Map(), chosen, target: null };
    const part = answer.parts.get(document.view) ?? { document, rows: new Map(), curves: new Map(), anchors: [] };
    answer.parts.set(document.view, part);
    const { observer, target, method, lower, upper } = document.pairs;
    const rows = document.observers.map((members) => ({ members, targets: [], lower: [], upper: [], method: [] }));
    for (let k = 0; k < observer.length; k++) {
      const row = rows[observer[k]];
      row.targets.push(target[k]);
      row.lower.push(lower[k] ?? Infinity);
      row.upper.push(upper[k] ?? Infinity);
      row.method.push(document.methods[method[k]]);
    }
    for (const row of rows) part.rows.set(keyOf(row.members), row);
    for (const curve of document.curves) takeCurve(document.view, curve);
    return true;
  }

  const takeCurve = (view, curve) => current()?.parts.get(view)?.curves.set(keyOf(curve.observers), curve);

  /** Let the first pairs of an answer decide who is looked at, unless that is known. */
  function settle() {
    const found = current();
    if (found !== null && !leading().rows.has(keyOf(found.chosen)) && found.chosen.length === 0) found.chosen = worst().members;
    measure();
  }

  /** Go back to the question that was answered last, if there is one. */
  function goBack() {
    if (answer === null) return;
    state.change(answer.question);
    network = answer.network;
  }

  /** Whom the last answer about the same network looked at. */
  const lastChosen = () => (answer !== null && answer.network === known() ? answer.chosen : []);

  /** The largest Δ² of a row, which is also its largest ε whatever the noise. */
  function peak(row) {
    let place = 0;
    for (let k = 1; k < row.upper.length; k++) if (row.upper[k] > row.upper[place]) place = k;
    return place;
  }

  function worstOf(part) {
    let worst = null;
    for (const row of part.rows.values()) {
      const place = peak(row);
      if (worst === null || row.upper[place] > worst.row.upper[worst.place]) worst = { row, place };
    }
    return worst;
  }

  /** The view with the larger worst pair, which is the one that is shown. */
  function leading() {
    const found = current();
    if (found === null) return null;
    let [best, most] = [null, -1];
    for (const view of state.viewsOf(found.question)) {
      const part = found.parts.get(view);
      if (part === undefined) continue;
      const { row, place } = worstOf(part);
      if (row.upper[place] > most) [best, most] = [part, row.upper[place]];
    }
    return best;
  }

  // ε never falls with Δ² and never grows with the noise or δ: what the library proved at one point holds beyond it,
  // without the margin of the browser.
  const anchor = (view, point) => matching()?.parts.get(view)?.anchors.push(point);

  function epsilonOf(lower, upper, part = leading()) {
    if (lower === Infinity) return { lower, upper: lower };
    const ends = gaussian.pairEnds(lower, upper, part.document.factor, state.noise, state.delta);
    for (const { squared, noise, delta, epsilon } of part.anchors) {
      if (upper <= squared && state.noise >= noise && state.delta >= delta) ends.upper = Math.min(ends.upper, epsilon);
    }
    return { lower: Math.min(ends.lower, ends.upper), upper: ends.upper };
  }
  const upperOf = (upper) => epsilonOf(upper, upper).upper;

  /** Set the end of the colour scale: the largest ε there is, of those that are finite. */
  function measure() {
    const part = leading();
    if (part === null) return;
    let most = 0;
    for (const { upper } of part.rows.values()) for (const each of upper) if (each > most && each < Infinity) most = each;
    model.largest = most;
    model.most = upperOf(most);
  }

  /** One pair of a row with everything that is shown of it. */
  function pair(row, place, part = leading()) {
    const [lower, upper] = [row.lower[place], row.upper[place]];
    return {
      view: part.document.view,
      members: row.members,
      target: row.targets[place],
      method: row.method[place],
      squared: { lower, upper },
      mu: muEnds(lower, upper, part.document.factor),
      epsilon: epsilonOf(lower, upper, part),
    };
  }

  /** μ = factor·Δ/noise, a unit or two in the last place outwards. */
  function muEnds(lower, upper, factor) {
    const [low, high] = [lower, upper].map((squared) => (factor * Math.sqrt(squared)) / state.noise);
    return { lower: low * (1 - 1e-15), upper: high * (1 + 1e-15) };
  }

  /** The worst pair of a view of the answer, of the leading one if none is named. */
  function worst(view = null) {
    const part = view === null ? leading() : current()?.parts.get(view) ?? null;
    if (part === null) return null;
    const { row, place } = worstOf(part);
    return pair(row, place, part);
  }

  const row = () => leading()?.rows.get(keyOf(model.chosen)) ?? null;

  /** What the second line speaks of: the chosen target if there is one, else the worst of the chosen observer. */
  function looked() {
    const found = row();
    if (found === null) return null;
    const place = model.target === null ? -1 : found.targets.indexOf(model.target);
    return pair(found, place >= 0 ? place : peak(found));
  }

  /** The targets that are asked about, by position; null where all are. */
  const asked = ({ targets } = state.question) => (targets === null ? null : targets.map((name) => model.labels.indexOf(name)));

  /** Whether a node is the only target and knows its own noise, so that it has nobody to learn about. */
  const alone = (node, question = state.question) => question.own_noise === "known" && question.targets !== null && asked(question).every((target) => target === node);

  /** How many pairs an answer can have: those of a view, or those among them whose target is asked about. */
  function possibleOf({ question, parts }) {
    const { pairs_possible } = [...parts.values()][0].document;
    const targets = asked(question);
    if (targets === null) return pairs_possible;
    const own = question.own_noise === "known";
    if (question.sight === "everyone") return targets.length;
    if (question.pooled !== null) return targets.filter((target) => !own || !question.pooled.includes(target)).length;
    return (model.labels.length - (own ? 1 : 0)) * targets.length;
  }

  /** How many of how many pairs are known, in the view of which least is known. */
  function coverage() {
    const found = current();
    if (found === null) return null;
    let least = null;
    for (const view of state.viewsOf(found.question)) {
      const part = found.parts.get(view);
      const possible = possibleOf(found);
      let done = 0;
      if (part !== undefined) {
        for (const each of part.rows.values()) done += each.targets.length;
        // A report leaves out whole observers that learn less than those that it holds.
        if (part.document.observers_left_out) done = part.document.pairs_computed;
      }
      if (least === null || done < least.done) least = { done, possible };
    }
    return { ...least, complete: least.done === least.possible };
  }

  /** The nodes that no row of every view is known of yet. */
  function missing() {
    const found = current();
    const parts = state.viewsOf(found.question).map((view) => found.parts.get(view));
    return model.labels.map((_, node) => node).filter((node) => !alone(node, found.question) && parts.some((part) => part === undefined || !part.rows.has(String(node))));
  }

  /** ε above for each node as the chosen observer sees it; null where its noise is known. */
  function exposure() {
    const seen = new Array(model.labels.length).fill(null);
    const found = row();
    if (found !== null) found.targets.forEach((node, k) => (seen[node] = upperOf(found.upper[k])));
    return seen;
  }

  /** The pairs of all rows or of one, worst first, once for each set of rows. Δ² gives the order, whatever the noise. */
  function inOrder(only) {
    const { rows } = leading();
    if (ordered.only !== only || ordered.rows !== rows || ordered.size !== rows.size) {
      const places = [];
      for (const each of only === null ? rows.values() : [only]) {
        each.upper.forEach((upper, place) => places.push([upper, each, place]));
      }
      places.sort((a, b) => b[0] - a[0]);
      const targets = new Set();
      // In this order the first pair of a target is its worst.
      const first = places.filter(([, { targets: nodes }, place]) => !targets.has(nodes[place]) && targets.add(nodes[place]));
      ordered = { only, rows, size: rows.size, places, first };
    }
    return ordered;
  }
  const some = (places, count) => ({ total: places.length, pairs: places.slice(0, count).map(([, each, place]) => pair(each, place)) });

  /** The most exposed pairs of all rows or of one, worst first. */
  const exposed = (count, only = null) => some(inOrder(only).places, count);

  /** The most exposed targets, each with its worst pair. */
  const ranking = (count, only = null) => some(inOrder(only).first, count);

  /** The views that are shown, the one that leads first. */
  function parts() {
    const first = leading();
    return [...current().parts.values()].sort((a, b) => (b === first) - (a === first));
  }

  /** Every pair of every view that is shown. */
  function tables() {
    return parts().map((part) => ({
      part,
      document: part.document,
      pairs: [...part.rows.values()].flatMap((row) => row.upper.map((_, place) => pair(row, place, part))),
    }));
  }

  const name = (node) => model.labels[node];
  function names(members) {
    if (members.length === 0) return "whoever sees every message";
    const last = name(members[members.length - 1]);
    return members.length === 1 ? last : `${members.slice(0, -1).map(name).join(", ")} and ${last} together`;
  }

  const kept = (place, otherwise) => ({
    get: () => current()?.[place] ?? otherwise,
    set: (value) => current() !== null && (answer[place] = value),
  });
  Object.defineProperties(model, {
    chosen: kept("chosen", []),
    target: kept("target", null),
    document: { get: () => leading()?.document ?? null },
    rows: { get: () => leading()?.rows ?? new Map() },
    curves: { get: () => leading()?.curves ?? new Map() },
    ...Object.fromEntries(["labels", "raw", "links", "neighbours", "positions"].map((each) => [each, { get: () => known()[each] }])),
  });
  return Object.assign(model, {
    take, takeCurve, takeNetwork, settle, goBack, lastChosen, known, anchor, keyOf, peak, row, pair, worst, looked, alone, coverage, missing, exposure,
    exposed, ranking, parts, tables, measure, epsilonOf, upperOf, name, names,
  });
})();
