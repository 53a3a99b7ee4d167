// SPDX-License-Identifier: Apache-2.0
// Files out (CSV, JSON, PNG, in the forms of the command line) and graph files in.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.files = (() => {
  const { state, model, dom, network, tabs } = sottovoce;
  const COLUMNS = ["view", "observer", "target", "sensitivity_squared_lower", "sensitivity_squared_upper", "method", "mu_lower", "mu_upper", "epsilon_lower", "epsilon_upper", "weights"];
  const FORMATS = { edgelist: "edgelist", edges: "edgelist", txt: "edgelist", tsv: "tsv", csv: "csv", graphml: "graphml", gml: "gml", mtx: "mtx" };

  function save(content, name, type) {
    const blob = content instanceof Blob ? content : new Blob([content], { type });
    const link = dom.el("a", { href: URL.createObjectURL(blob), download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  const quoted = (field) => (/[",\n\r]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field);
  const number = (value) => (Number.isFinite(value) ? String(value) : "inf");

  /** A name or text that a spreadsheet would run as a formula gets an apostrophe in front, which readers take away again. */
  const harmless = (label) => (typeof label === "string" && /^'*[=+\-@\t\r\n]/.test(label) ? `'${label}` : String(label));

  /** A file that does not hold all pairs says so in its name. */
  function called(name, ending) {
    const { done } = model.coverage();
    const { pairs_possible } = model.document;
    return done === pairs_possible ? `${name}.${ending}` : `${name}-${done}-of-${pairs_possible}.${ending}`;
  }

  function csv() {
    const lines = [COLUMNS.join(",")];
    const { labels, origin } = model.document.graph;
    for (const { view, ...pair } of model.tables().flatMap(({ pairs }) => pairs)) {
      const observer = pair.members.map((node) => harmless(labels[node]).replace(/[;\\]/g, "\\$&")).join(";");
      const ends = [pair.squared, pair.mu, pair.epsilon].map(({ lower, upper }) => [lower, upper].map(number));
      lines.push([view, quoted(observer), quoted(harmless(labels[pair.target])), ...ends[0], pair.method, ...ends[1], ...ends[2], quoted(harmless(origin))].join(","));
    }
    return `${lines.join("\n")}\n`;
  }

  /** The JSON object of each view, the one that leads with those beside it. */
  function json() {
    const [first, ...others] = model.tables().map(account);
    return `${JSON.stringify(others.length ? { ...first, other_views: others } : first, null, 2)}\n`;
  }

  function account({ part, document, pairs: found }) {
    const { labels } = document.graph;
    const ends = ({ lower, upper }) => ({ lower: finite(lower), upper: finite(upper) });
    const finite = (value) => (Number.isFinite(value) ? value : null);
    const { nodes, edges, gap, hash, rule, origin } = document.graph;
    const pairs = found.map((pair) => ({
      observer: pair.members.map((node) => labels[node]),
      target: labels[pair.target],
      sensitivity_squared: { ...ends(pair.squared), method: pair.method },
      mu: ends(pair.mu),
      epsilon: ends(pair.epsilon),
    }));
    const worst = pairs[found.reduce((most, pair, place) => (pair.squared.upper > found[most].squared.upper ? place : most), 0)];
    const beside = (squared) => (squared === null ? null : ends(model.epsilonOf(squared.lower ?? Infinity, squared.upper ?? Infinity, part)));
    const baselines = { local: beside(document.local_squared), central: beside(document.central_squared) };
    const { schema, version, rounds, relation, view, own_noise, exchanges, contribution, participation, assumption, damping, protocol, program, protocol_hash, updates, infinite, pairs_possible } = document;
    // What is undefined is left out.
    return { kind: "account", schema, version, view, own_noise, exchanges, contribution, assumption, damping, protocol, program, protocol_hash, updates, rounds, relation, participation, graph: { nodes, edges, gap, hash, rule, origin }, noise_multiplier: state.noise, delta: state.delta, infinite, pairs_computed: pairs.length, pairs_possible, worst, baselines, pairs };
  }

  /** The format and the text of a graph file, or an error for the person. */
  async function read(file, most) {
    const format = FORMATS[file.name.split(".").pop().toLowerCase()];
    if (!format) throw new Error(`${file.name}: the ending must be one of ${Object.keys(FORMATS).map((end) => `.${end}`).join(", ")} (rename the file after its format)`);
    if (file.size > most) throw new Error(`${file.name}: the file has ${file.size} bytes, and this server takes ${most} (use the command line for large graphs)`);
    const text = await file.text();
    if (!text.trim()) throw new Error(`${file.name}: the file is empty (write one edge per line, as in: a b)`);
    return { text, format };
  }

  function begin(opened) {
    dom.byId("save-csv").addEventListener("click", () => save(csv(), called("sottovoce-pairs", "csv"), "text/csv"));
    dom.byId("save-json").addEventListener("click", () => save(json(), called("sottovoce-account", "json"), "application/json"));
    dom.byId("save-png").addEventListener("click", async () => {
      tabs.show("network");
      save(await network.picture(), "sottovoce-network.png", "image/png");
    });
    dom.byId("open-file").addEventListener("click", () => dom.byId("file").click());
    dom.byId("file").addEventListener("change", (event) => {
      if (event.target.files.length) opened(event.target.files[0]);
      event.target.value = "";
    });
    let depth = 0;
    const overlay = dom.byId("drop");
    const carriesFile = (event) => event.dataTransfer && [...event.dataTransfer.types].includes("Files");
    addEventListener("dragenter", (event) => {
      if (!carriesFile(event)) return;
      depth += 1;
      overlay.hidden = false;
    });
    addEventListener("dragleave", (event) => {
      if (carriesFile(event) && (depth -= 1) <= 0) overlay.hidden = true;
    });
    addEventListener("dragover", (event) => carriesFile(event) && event.preventDefault());
    addEventListener("drop", (event) => {
      if (!carriesFile(event)) return;
      event.preventDefault();
      depth = 0;
      overlay.hidden = true;
      if (event.dataTransfer.files.length) opened(event.dataTransfer.files[0]);
    });
  }

  return { begin, read, save, csv, json };
})();
