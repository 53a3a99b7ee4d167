// SPDX-License-Identifier: Apache-2.0
// What the page knows: a network, rows of Δ² (one a view), curves, and what is chosen. ε comes from Δ² at once.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.model = (() => {
  const { gaussian } = sottovoce;
  const keyOf = (members) => [...members].sort((a, b) => a - b).join(",");

  const model = {
    document: null,
    labels: [],
    links: [],
    neighbours: [],
    rows: new Map(),
    curves: new Map(),
    noise: 4,
    delta: 1e-5,
    chosen: [],
    target: null,
    most: 0,
    largest: 0,
  };
  let ordered = { only: null, rows: null, size: 0, places: [] };

  /** Take the pairs of a document; rows of the same run are kept, others dropped. */
  function take(document) {
    const same = model.document !== null && identity(model.document) === identity(document);
    if (!same) {
      model.rows = new Map();
      model.curves = new Map();
      if (model.document === null || model.document.graph.hash !== document.graph.hash) takeNetwork(document.graph);
    }
    model.document = document;
    model.largest = document.pairs.upper.reduce((most, each) => Math.max(most, each ?? Infinity), 0);
    const { observer, target, method, lower, upper } = document.pairs;
    const rows = document.observers.map((members) => ({ members, targets: [], lower: [], upper: [], method: [] }));
    for (let k = 0; k < observer.length; k++) {
      const row = rows[observer[k]];
      row.targets.push(target[k]);
      row.lower.push(lower[k] ?? Infinity);
      row.upper.push(upper[k] ?? Infinity);
      row.method.push(document.methods[method[k]]);
    }
    for (const row of rows) model.rows.set(keyOf(row.members), row);
    document.curves.forEach(takeCurve);
    if (!model.rows.has(keyOf(model.chosen))) model.chosen = worstRow().members;
    measure();
  }

  const identity = (document) =>
    JSON.stringify([document.graph.hash, ...["rounds", "view", "own_noise", "relation", "contribution", "participation", "assumption"].map((key) => document[key])]);

  function takeNetwork(graph) {
    model.labels = graph.labels.map(String);
    model.links = graph.links;
    model.neighbours = model.labels.map(() => []);
    for (const [a, b] of graph.links) {
      model.neighbours[a].push(b);
      model.neighbours[b].push(a);
    }
    model.target = null;
  }

  const takeCurve = (curve) => model.curves.set(keyOf(curve.observers), curve);

  /** The largest Δ² of a row, which is also its largest ε whatever the noise. */
  function peak(row) {
    let place = 0;
    for (let k = 1; k < row.upper.length; k++) if (row.upper[k] > row.upper[place]) place = k;
    return place;
  }

  function worstRow() {
    let worst = null;
    for (const row of model.rows.values()) {
      if (worst === null || row.upper[peak(row)] > worst.upper[peak(worst)]) worst = row;
    }
    return worst;
  }

  const factor = () => (model.document ? model.document.factor : 1);
  // What the library proved of the worst pair holds for all below it, without the margin of the browser.
  function epsilonOf(lower, upper) {
    const ends = gaussian.pairEnds(lower, upper, factor(), model.noise, model.delta);
    const { epsilon_upper: proved, noise_multiplier: noise, delta } = model.document;
    if (proved === null || model.noise !== noise || model.delta !== delta || upper > model.largest) return ends;
    const least = Math.min(ends.upper, proved);
    return { lower: Math.min(ends.lower, least), upper: least };
  }
  const upperOf = (upper) => epsilonOf(upper, upper).upper;

  /** Set the end of the colour scale: the largest ε there is. */
  function measure() {
    const worst = worstRow();
    model.most = worst === null ? 0 : upperOf(worst.upper[peak(worst)]);
  }

  const row = () => model.rows.get(keyOf(model.chosen)) ?? null;

  /** One pair of a row with everything that is shown of it. */
  function pair(row, place) {
    const [lower, upper] = [row.lower[place], row.upper[place]];
    return {
      members: row.members,
      target: row.targets[place],
      method: row.method[place],
      squared: { lower, upper },
      mu: muEnds(lower, upper),
      epsilon: epsilonOf(lower, upper),
    };
  }

  /** μ = factor·Δ/noise, a unit or two in the last place outwards. */
  function muEnds(lower, upper) {
    const [low, high] = [lower, upper].map((squared) => (factor() * Math.sqrt(squared)) / model.noise);
    return { lower: low * (1 - 1e-15), upper: high * (1 + 1e-15) };
  }

  /** The pair the headline speaks of: the chosen target if there is one, else the observer's worst. */
  function headline() {
    const found = row();
    if (found === null) return null;
    const place = model.target === null ? -1 : found.targets.indexOf(model.target);
    return pair(found, place >= 0 ? place : peak(found));
  }

  /** ε above for each node as the chosen observer sees it; null where its noise is known. */
  function exposure() {
    const seen = new Array(model.labels.length).fill(null);
    const found = row();
    if (found !== null) found.targets.forEach((node, k) => (seen[node] = upperOf(found.upper[k])));
    return seen;
  }

  /** The most exposed pairs of all rows or of one, worst first. Δ² gives the order, whatever the noise. */
  function exposed(count, only = null) {
    if (ordered.only !== only || ordered.rows !== model.rows || ordered.size !== model.rows.size) {
      const places = [];
      for (const each of only === null ? model.rows.values() : [only]) {
        each.upper.forEach((upper, place) => places.push([upper, each, place]));
      }
      places.sort((a, b) => b[0] - a[0]);
      ordered = { only, rows: model.rows, size: model.rows.size, places };
    }
    const { places } = ordered;
    return { total: places.length, pairs: places.slice(0, count).map(([, each, place]) => pair(each, place)) };
  }

  function* pairs() {
    for (const each of model.rows.values()) for (let k = 0; k < each.upper.length; k++) yield pair(each, k);
  }

  const name = (node) => model.labels[node];
  function names(members) {
    if (members.length === 0) return "whoever sees every message";
    const last = name(members[members.length - 1]);
    return members.length === 1 ? last : `${members.slice(0, -1).map(name).join(", ")} and ${last} together`;
  }

  return Object.assign(model, {
    take, takeCurve, keyOf, peak, row, pair, headline, exposure, exposed, pairs, measure, worstRow,
    upperOf, epsilonOf, identity, factorOf: factor, name, names,
  });
})();
