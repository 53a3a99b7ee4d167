// SPDX-License-Identifier: Apache-2.0
// The page itself: what is chosen, the link that says so, and what is asked of the server.
"use strict";

(() => {
  const { model, dom, gaussian, network, heatmap, curves, tables, files, messages, server, layout } = sottovoce;
  const { byId } = dom;
  const { say, quiet, busy, advance } = messages;
  const ALL_PAIRS = 60;
  const LINK_TEXT = 1500;
  const VIEWS = [
    ["secure-sum", "Secure sum", "the weighted sum that it receives in each round, and no single message"],
    ["neighbourhood", "Messages", "its own messages and those of all that send to it"],
    ["single-node", "Single node", "the messages that it sends itself; the sum of the last round is not counted"],
    ["everyone", "Everything", "every message of every node: local DP, the same whoever observes"],
  ];
  const POOLED = [
    ["coalition-sums", "Sums", "the weighted sums that all members receive, pooled"],
    ["coalition-messages", "Messages", "the messages of all nodes outside that send to a member, pooled"],
  ];
  const live = byId("data") === null;
  let limits = { body: 1000000, pairs: 100000, rounds: 10000 };
  let task = null;
  let curveTask = null;
  let asked = "";
  let source = { name: "florentine" };
  const wanted = { view: "secure-sum", own_noise: "known", rounds: 20, weights: "metropolis" };

  // What is drawn, and how often: everything after a new result, the rest with the next frame.

  let pending = false;
  function redraw() {
    // Whoever drives the page from outside can wait for this mark.
    document.body.dataset.settled = "no";
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => {
      pending = false;
      if (model.document === null) return;
      document.body.classList.remove("blank");
      network.draw();
      heatmap.draw();
      curves.draw();
      tables.draw();
      controls();
      writeLink();
    });
  }

  /** Let the controls say what is shown. */
  function controls() {
    const { document: shown } = model;
    const pooled = shown.view.startsWith("coalition");
    byId("coalition").checked = pooled || wanted.view.startsWith("coalition");
    views();
    dom.pick(byId("own-noise"), shown.own_noise);
    for (const [id, value] of [["rounds", shown.rounds], ["noise", model.noise], ["delta", model.delta]]) {
      if (document.activeElement !== byId(id)) byId(id).value = gaussian.given(value);
    }
    if (document.activeElement !== byId("noise-slider")) byId("noise-slider").value = String(Math.log10(model.noise));
    const select = byId("observer");
    const key = `${shown.graph.hash}|${live}|${model.rows.size}`;
    if (select.dataset.key !== key) {
      select.dataset.key = key;
      const nodes = live ? model.labels.map((_, node) => node) : [...new Set([...model.rows.values()].flatMap((row) => row.members))];
      select.replaceChildren(...nodes.map((node) => dom.el("option", { value: String(node), textContent: model.name(node) })));
    }
    select.disabled = shown.view === "everyone" || (!live && pooled);
    if (model.chosen.length) select.value = String(model.chosen[model.chosen.length - 1]);
    byId("observer-label").textContent = byId("coalition").checked ? "Add a member" : "Who observes";
    members();
    byId("heat-all").hidden = !live || pooled || shown.view === "everyone" || model.rows.size >= Math.min(model.labels.length, Math.floor(limits.pairs / model.labels.length));
  }

  function views() {
    const choices = byId("coalition").checked ? POOLED : VIEWS;
    const current = model.document === null ? wanted.view : model.document.view;
    const host = byId("view");
    if (host.dataset.kind !== choices[0][0]) {
      host.dataset.kind = choices[0][0];
      dom.segments(host, choices.map(([value, text]) => [value, text]), current, (value) => ask({ view: value }));
    }
    dom.pick(host, current);
    const found = [...VIEWS, ...POOLED].find(([value]) => value === current);
    byId("view-hint").textContent = found ? `Seen: ${found[2]}.` : "";
  }

  function members() {
    const host = byId("members");
    const pooled = byId("coalition").checked;
    host.hidden = !pooled;
    host.replaceChildren(...(pooled ? model.chosen : []).map((node) => {
      const leave = dom.el("button", { type: "button", textContent: "×", onclick: () => choose(node, true) });
      leave.setAttribute("aria-label", `Remove ${model.name(node)} from the coalition`);
      leave.disabled = !live || model.chosen.length < 2;
      return dom.el("li", {}, model.name(node), leave);
    }));
  }

  // Choosing.

  /** Choose a node as observer, or let it join or leave the coalition. */
  function choose(node, join = false) {
    if (node === undefined || node === null) return;
    if (model.document.view === "everyone") return say("Whoever sees every message learns the same about each node; choose another view to set an observer.");
    if (!join && !byId("coalition").checked) return select([node], null);
    if (!live) return say("A coalition is computed by the server: run sottovoce serve.");
    byId("coalition").checked = true;
    const others = model.chosen.filter((other) => other !== node);
    const next = model.chosen.includes(node) ? others : [...model.chosen, node];
    if (!next.length) return undefined;
    const view = wanted.view.startsWith("coalition") ? wanted.view : "coalition-sums";
    return ask({ view }, next);
  }

  /** Show a view that is there, or ask the server for it. */
  function select(members, target) {
    if (!model.rows.has(model.keyOf(members))) {
      if (live) return ask({}, members);
      return say(`The report holds no account of what ${model.names(members)} can learn (run sottovoce serve, or write the report without --observer).`);
    }
    model.chosen = [...members];
    model.target = target;
    redraw();
    return askCurve();
  }

  function setNoise(value) {
    if (!(value > 0 && Number.isFinite(value))) return false;
    model.noise = value;
    model.measure();
    redraw();
    return true;
  }

  function setDelta(value) {
    if (!(value > 0 && value < 1)) return false;
    model.delta = value;
    model.measure();
    redraw();
    return true;
  }

  // The link.

  const writeLink = dom.later(() => {
    const words = new URLSearchParams();
    if (live) {
      if (source.name) words.set("graph", source.name);
      else if (source.text.length <= LINK_TEXT) {
        words.set("text", source.text);
        words.set("format", source.format);
      }
      for (const key of ["view", "own_noise", "rounds"]) words.set(key.replace("_", "-"), String(model.document[key]));
      words.set("weights", wanted.weights);
    }
    for (const node of model.chosen) words.append("observer", model.name(node));
    if (model.target !== null) words.set("target", model.name(model.target));
    words.set("noise", gaussian.given(model.noise));
    words.set("delta", gaussian.given(model.delta));
    history.replaceState(null, "", `#${words}`);
    document.body.dataset.settled = "yes";
  }, 80);

  /** Take the settings of the link; returns the names of observers and target for when the graph is known. */
  function readLink() {
    const words = new URLSearchParams(location.hash.slice(1));
    if (live) {
      if (words.has("graph")) source = { name: words.get("graph") };
      else if (words.has("text")) source = { text: words.get("text"), format: words.get("format") ?? "edgelist" };
      if ([...VIEWS, ...POOLED].some(([view]) => view === words.get("view"))) wanted.view = words.get("view");
      if (["known", "hidden"].includes(words.get("own-noise"))) wanted.own_noise = words.get("own-noise");
      if (Number.isInteger(Number(words.get("rounds"))) && Number(words.get("rounds")) > 0) wanted.rounds = Number(words.get("rounds"));
      if ([...byId("weights").options].some((option) => option.value === words.get("weights"))) wanted.weights = words.get("weights");
    }
    const [noise, delta] = [Number(words.get("noise")), Number(words.get("delta"))];
    if (noise > 0 && Number.isFinite(noise)) model.noise = noise;
    if (delta > 0 && delta < 1) model.delta = delta;
    return { observers: words.getAll("observer"), target: words.get("target") };
  }

  function applyNames({ observers, target }) {
    const nodes = observers.map((name) => model.labels.indexOf(name)).filter((node) => node >= 0);
    if (nodes.length && model.rows.has(model.keyOf(nodes))) model.chosen = nodes;
    model.target = target === null ? null : model.labels.indexOf(target);
    if (model.target < 0) model.target = null;
  }

  // The server's part.

  /** Run a job in the foreground; a newer one takes its place. Null if it was cancelled or failed. */
  async function foreground(path, body, text, again) {
    if (task !== null) task.cancel();
    if (curveTask !== null) curveTask.cancel();
    quiet();
    busy(text);
    const mine = server.run(path, body, (progress) => mine === task && advance(progress));
    task = mine;
    try {
      return await mine.result;
    } catch (error) {
      if (mine === task) {
        if (error instanceof server.Cancelled) say("Cancelled. What is shown is the run before.");
        else say(error.message, error instanceof server.Gone ? again : null);
      }
      return null;
    } finally {
      if (mine === task) {
        task = null;
        busy(null);
      }
    }
  }

  /** A graph as the server reads it. */
  const graphOf = ({ name, text, format }) => (name ? { kind: "name", name } : { kind: "text", text, format });

  /** The settings of the next run as the server reads them. */
  function request(changes, observers) {
    const settings = { ...wanted, ...changes };
    return {
      graph: graphOf(source),
      weights: settings.weights,
      rounds: settings.rounds,
      view: settings.view,
      own_noise: settings.own_noise,
      observers: settings.view === "everyone" ? null : observers,
    };
  }

  /** Which observers to ask for: a coalition, all of a small network, or the chosen one of a large one. */
  function observersFor(view, members) {
    const labels = model.document?.graph.labels ?? [];
    const named = members.map((node) => labels[node]);
    if (view.startsWith("coalition")) return named.length ? named : [labels[0]];
    if (labels.length <= ALL_PAIRS && members.length < 2) return null;
    return named.length ? [named[named.length - 1]] : null;
  }

  async function ask(changes, members = model.chosen, observers = undefined) {
    const settings = { ...wanted, ...changes };
    const single = !settings.view.startsWith("coalition");
    const chosen = single ? members.slice(-1) : members;
    const starting = chosen.length || settings.view === "everyone" ? chosen : hub();
    const body = request(changes, observers === undefined ? observersFor(settings.view, starting) : observers);
    const content = JSON.stringify(body);
    if (task !== null && asked === content) return;
    asked = content;
    const found = await foreground("api/page", body, "Computing…", () => ask(changes, members, observers));
    if (found === null) {
      if (model.document !== null) {
        byId("coalition").checked = model.document.view.startsWith("coalition");
        redraw();
      }
      return;
    }
    Object.assign(wanted, changes);
    model.chosen = settings.view === "everyone" ? [] : starting;
    if (model.target !== null && model.chosen.includes(model.target)) model.target = null;
    model.take(found);
    redraw();
    await askCurve();
  }

  const hub = () => [model.neighbours.reduce((best, list, node) => (list.length > model.neighbours[best].length ? node : best), 0)];

  /** The curve of what is shown, in the background. */
  async function askCurve() {
    if (!live || model.curves.has(model.keyOf(model.chosen))) return;
    if (curveTask !== null) curveTask.cancel();
    const labels = model.document.graph.labels;
    const shown = model.identity(model.document);
    const body = request({}, model.chosen.map((node) => labels[node]));
    const mine = server.run("api/curve", { ...body, view: model.document.view, own_noise: model.document.own_noise, rounds: model.document.rounds }, () => {});
    curveTask = mine;
    try {
      const curve = await mine.result;
      if (shown === model.identity(model.document)) model.takeCurve(curve);
      redraw();
    } catch (error) {
      if (mine === curveTask && !(error instanceof server.Cancelled)) byId("curves-note").textContent = `No curve: ${error.message}`;
    } finally {
      if (mine === curveTask) curveTask = null;
    }
  }

  /** Load a graph, then what can be learnt in it. */
  async function load(next, names = { observers: [], target: null }) {
    const before = source;
    source = next;
    const again = () => load(next, names);
    const graph = await foreground("api/graph", { graph: graphOf(next), weights: wanted.weights }, "Reading the network…", again);
    if (graph === null) {
      source = model.document === null ? next : before;
      return;
    }
    const labels = graph.labels;
    const nodes = names.observers.map((name) => labels.map(String).indexOf(name)).filter((node) => node >= 0);
    const degrees = labels.map(() => 0);
    for (const [a, b] of graph.links) [degrees[a], degrees[b]] = [degrees[a] + 1, degrees[b] + 1];
    const start = nodes.length ? nodes : [degrees.indexOf(Math.max(...degrees))];
    if (!nodes.length && wanted.view.startsWith("coalition")) wanted.view = "secure-sum";
    const pooled = wanted.view.startsWith("coalition");
    const few = labels.length <= ALL_PAIRS;
    const observers = pooled ? start.map((node) => labels[node]) : few ? null : [labels[start[start.length - 1]]];
    const found = await foreground("api/page", request({}, observers), "Computing…", again);
    if (found === null) {
      if (model.document !== null) source = before;
      return;
    }
    model.document = null;
    model.chosen = wanted.view === "everyone" ? [] : nodes.length || !few ? (pooled ? start : start.slice(-1)) : [];
    if (!model.chosen.length && wanted.view !== "everyone") model.chosen = [-1];
    model.take(found);
    applyNames({ observers: [], target: names.target });
    byId("graph").value = next.name ?? next.file ?? "a file of your own";
    redraw();
    await askCurve();
  }

  async function opened(file) {
    if (!live) return say("A report holds one run; load graphs with sottovoce serve.");
    try {
      const read = await files.read(file, limits.body);
      return await load({ ...read, file: file.name });
    } catch (error) {
      return say(error.message);
    }
  }

  /** As many observers as the server allows, spread over all degrees. */
  function moreObservers() {
    const labels = model.document.graph.labels;
    const most = Math.floor(limits.pairs / labels.length);
    if (labels.length <= most) return ask({}, model.chosen, labels);
    const sample = layout.byDegree(model.neighbours, Math.max(1, most - 1)).slice(0, most - 1);
    return ask({}, model.chosen, [...new Set([...model.chosen, ...sample])].map((node) => labels[node]));
  }

  // Wiring.

  function field(id, accept, rule) {
    const input = byId(id);
    const check = () => {
      const good = accept(input.value.trim() === "" ? NaN : Number(input.value));
      input.setAttribute("aria-invalid", String(!good));
      if (!good) say(`${rule}; got ${input.value || "nothing"}`);
      else quiet();
    };
    input.addEventListener("change", check);
    input.addEventListener("keydown", (event) => event.key === "Enter" && (event.preventDefault(), check()));
  }

  function wire() {
    network.begin(choose);
    heatmap.begin((members, target) => select(members, target));
    tables.begin((members, target) => select(members, target));
    curves.begin();
    files.begin(opened);
    messages.begin();
    dom.segments(byId("own-noise"), [["known", "known to it"], ["hidden", "hidden"]], "known", (value) => ask({ own_noise: value }));
    field("noise", setNoise, "the noise multiplier must be a finite number above 0");
    field("delta", setDelta, "δ must lie strictly between 0 and 1");
    field("rounds", (value) => Number.isInteger(value) && value >= 1 && (value === model.document.rounds || (ask({ rounds: value }), true)), "rounds must be a whole number of at least 1");
    byId("noise-slider").addEventListener("input", (event) => setNoise(Number((10 ** Number(event.target.value)).toPrecision(3))));
    byId("find-noise").addEventListener("click", findNoise);
    byId("observer").addEventListener("change", (event) => choose(Number(event.target.value), byId("coalition").checked));
    byId("coalition").addEventListener("change", (event) => ask({ view: event.target.checked ? "coalition-sums" : "secure-sum" }));
    byId("weights").addEventListener("change", (event) => {
      wanted.weights = event.target.value;
      load(source);
    });
    byId("controls").addEventListener("submit", (event) => {
      event.preventDefault();
      const name = byId("graph").value.trim();
      if (name) load({ name });
    });
    byId("heat-all").addEventListener("click", moreObservers);
    byId("cancel").addEventListener("click", () => task !== null && task.cancel());
    byId("copy-link").addEventListener("click", copyLink);
    byId("theme").addEventListener("click", () => {
      document.documentElement.dataset.theme = sottovoce.scale.isDark() ? "light" : "dark";
      redraw();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    printing();
    addEventListener("hashchange", () => {
      const names = readLink();
      model.measure();
      if (live) load(source, names);
      else {
        applyNames(names);
        redraw();
      }
    });
  }

  function findNoise() {
    const target = Number(byId("target-epsilon").value);
    const answer = byId("find-answer");
    const worst = model.worstRow();
    if (!(target > 0 && Number.isFinite(target)) || worst === null) {
      answer.textContent = "ε must be a finite number above 0.";
      return;
    }
    const noise = gaussian.noiseFor(worst.upper[model.peak(worst)], model.factorOf(), target, model.delta);
    if (noise === null) answer.textContent = "No noise is certified to reach this ε.";
    else if (setNoise(noise)) answer.textContent = `A noise multiplier of ${noise} keeps every pair that is shown within ε = ${target}.`;
  }

  async function copyLink() {
    const carried = !live || source.name || source.text.length <= LINK_TEXT;
    if (!carried) return say("The link cannot carry a graph of this size; send the file along.");
    try {
      await navigator.clipboard.writeText(location.href);
      byId("copy-link").textContent = "Copied";
      setTimeout(() => (byId("copy-link").textContent = "Copy link"), 1500);
    } catch {
      say(`The link is in the address bar: ${location.href}`);
    }
    return undefined;
  }

  /** On paper the page is light, and drawn so before it is printed. */
  function printing() {
    let before;
    addEventListener("beforeprint", () => {
      before = document.documentElement.dataset.theme;
      document.documentElement.dataset.theme = "light";
      if (model.document === null) return;
      for (const part of [network, heatmap, curves, tables]) part.draw();
      // Canvases keep the size of the screen; pictures fit the paper.
      byId("network-paper").src = network.sheet();
      byId("heat-paper").src = byId("heat").toDataURL();
    });
    addEventListener("afterprint", () => {
      if (before === undefined) delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = before;
      redraw();
    });
  }

  function still() {
    document.body.classList.add("static");
    for (const part of document.querySelectorAll("[data-live]")) {
      if (part.tagName === "FIELDSET") part.disabled = true;
      for (const input of part.querySelectorAll("input, select, button")) input.disabled = true;
    }
  }

  async function start() {
    wire();
    const names = readLink();
    if (!live) {
      still();
      const content = JSON.parse(byId("data").textContent);
      if (content === null) {
        document.body.classList.add("no-account");
        return;
      }
      const words = new URLSearchParams(location.hash.slice(1));
      if (!words.has("noise")) model.noise = content.noise_multiplier;
      if (!words.has("delta")) model.delta = content.delta;
      model.take(content);
      applyNames(names);
      redraw();
      return;
    }
    views();
    busy("Asking the server…");
    try {
      const about = await server.call("GET", "api/about");
      limits = about.limits;
      byId("graph-names").replaceChildren(...about.examples.map((value) => dom.el("option", { value })));
    } catch (error) {
      busy(null);
      say(error.message, () => location.reload());
      return;
    }
    byId("weights").value = wanted.weights;
    byId("graph").value = source.name ?? "a file of your own";
    for (const [id, value] of [["rounds", wanted.rounds], ["noise", model.noise], ["delta", model.delta]]) byId(id).value = gaussian.given(value);
    byId("noise-slider").value = String(Math.log10(model.noise));
    await load(source, names);
  }

  start();
})();
