// SPDX-License-Identifier: Apache-2.0
// The settings: they say what is asked, and ask for what is set.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.controls = (() => {
  const { state, model, dom, gaussian, asking, find, files, kept, link, messages, protocol, training, coins, rules } = sottovoce;
  const { byId } = dom;
  const { say } = messages;
  const CHOICES = ["contribution", "relation", "effort", "engine"];
  let redraw = () => {};
  let turn = 0;

  /** Let the controls say what is asked. */
  function draw() {
    const { question } = state;
    const pooled = question.pooled !== null;
    byId("coalition").checked = pooled;
    views();
    dom.pick(byId("own-noise"), state.saidAt("own-noise", question.own_noise));
    byId("weights").value = state.saidAt("weights", question.weights);
    dom.say(byId("weights-hint"), model.document === null ? "" : `Used: ${model.document.graph.origin}.`);
    if (document.activeElement !== byId("graph")) byId("graph").value = state.saidAt("graph", state.saidAt("file", question.source.name ?? question.source.file ?? "a file of your own"));
    for (const [id, value] of [["rounds", question.rounds], ["noise", state.noise], ["delta", state.delta], ["tolerance", question.tolerance]]) {
      byId(id).setAttribute("aria-invalid", String(state.amiss.has(id)));
      if (document.activeElement !== byId(id)) byId(id).value = state.saidAt(id, value === null ? "" : gaussian.given(value));
    }
    if (document.activeElement !== byId("noise-slider")) byId("noise-slider").value = String(Math.log10(state.noise));
    observers(pooled);
    members();
    protocol.draw();
    training.draw();
    coins.draw();
    for (const id of CHOICES) byId(id).value = state.saidAt(id, question[id]);
    for (const [id, value] of [["targets", state.targetsText(question.targets)], ["participation", question.participation]]) {
      byId(id).setAttribute("aria-invalid", String(state.amiss.has(id)));
      if (document.activeElement !== byId(id)) byId(id).value = state.saidAt(id, value);
    }
    find.draw();
    byId("heat-all").hidden = !state.live || !asking.wholeViews() || !asking.tooLarge() || model.rows.size >= Math.floor(state.limits.pairs / model.labels.length);
  }

  function observers(pooled) {
    const select = byId("observer");
    const key = `${model.known().key}|${state.live}|${model.rows.size}`;
    if (select.dataset.key !== key) {
      select.dataset.key = key;
      const nodes = state.live ? model.labels.map((_, node) => node) : [...new Set([...model.rows.values()].flatMap((row) => row.members))];
      select.replaceChildren(...nodes.map((node) => dom.el("option", { value: String(node), textContent: model.name(node) })));
    }
    select.disabled = state.question.sight === "everyone" || (!state.live && pooled);
    if (state.amiss.has("observer") || state.amiss.has("target")) select.selectedIndex = -1;
    else if (model.chosen.length) select.value = String(model.chosen[model.chosen.length - 1]);
    byId("observer-label").textContent = pooled ? "Add a member" : "Who observes";
  }

  /** The views to choose from: all that one observer or a coalition may have, in a report those that it holds. */
  function views() {
    const { sight, pooled } = state.question;
    const held = state.live ? null : byId("view").dataset.held?.split(" ") ?? [];
    const askable = (each) => each.sight !== "custom" && (pooled === null || each.pooled || each.sight === state.BOTH);
    const offered = state.SIGHTS.filter((each) => (held === null ? askable(each) : held.includes(each.sight)));
    const host = byId("view");
    const kind = offered.map((each) => each.sight).join(" ");
    if (host.dataset.kind !== kind) {
      host.dataset.kind = kind;
      dom.segments(host, offered.map((each) => [each.sight, each.label]), sight, (value) => (state.live ? asking.set({ sight: value }) : heldView(value)));
    }
    dom.pick(host, state.saidAt("view", sight));
    const found = state.SIGHTS.find((each) => each.sight === sight);
    const panels = sight === state.BOTH && model.document !== null ? ` The panels show ${state.byView.get(model.document.view).title}.` : "";
    dom.say(byId("view-hint"), `Seen: ${found.words}.${panels}`);
  }

  /** Another view of those that a report holds. */
  function heldView(sight) {
    sottovoce.still.look(sight);
    redraw();
  }

  function members() {
    const host = byId("members");
    const { pooled } = state.question;
    host.hidden = pooled === null;
    host.replaceChildren(...(pooled ?? []).map((node) => {
      const leave = dom.el("button", { type: "button", textContent: "×", onclick: () => choose(node, true) });
      leave.setAttribute("aria-label", `Remove ${model.name(node)} from the coalition`);
      leave.disabled = !state.live || pooled.length < 2;
      return dom.el("li", {}, model.name(node), leave);
    }));
  }

  /** Choose a node as observer, or let it join or leave the coalition. */
  function choose(node, join = false) {
    if (node === undefined || node === null) return undefined;
    const { sight, pooled } = state.question;
    if (sight === "everyone") return say("Whoever sees every message learns the same about each node; choose another view to set an observer.");
    if (state.amend("observer", "target") && state.live && !join && pooled === null) return asking.look(node);
    if (!join && pooled === null) return select([node], null);
    if (!state.live) return say("A coalition is computed by the server: run sottovoce serve.");
    const before = pooled ?? model.chosen;
    const next = before.includes(node) ? before.filter((other) => other !== node) : [...before, node];
    return next.length ? asking.set({ pooled: next }) : undefined;
  }

  /** Look at a row that is there, or ask the server for it. */
  function select(nodes, target) {
    if (model.document === null) return undefined;
    if (model.rows.has(model.keyOf(nodes))) {
      model.chosen = [...nodes];
      model.target = target;
      redraw();
      return asking.curve();
    }
    if (state.live) return asking.observe(nodes[0], target);
    return say(`The report holds no account of what ${model.names(nodes)} can learn (run sottovoce serve, or write the report without --observer).`);
  }

  /** Read the answer at another noise or δ; what could not be asked before is asked now. */
  function read(name, value) {
    const amended = state.amend(name);
    state[name] = value;
    model.settle();
    redraw();
    if (amended && state.live) asking.set({});
  }

  /** A field that is read when it is left or with Enter, and says what is wrong; `empty` is what it asks with nothing in it. */
  function field(id, accept, empty = undefined) {
    const input = byId(id);
    const check = () => {
      const { value, why } = input.value.trim() === "" && empty !== undefined ? { value: empty, why: null } : rules.number(id, input.value);
      if (why === null) return accept(value);
      state.refuse(id, input.value, why);
      messages.quiet();
      return redraw();
    };
    input.addEventListener("change", check);
    input.addEventListener("keydown", (event) => event.key === "Enter" && (event.preventDefault(), check()));
  }

  /** Load another graph; who was looked at, pooled and protected belongs to the one before. */
  function load(source) {
    turn += 1;
    return asking.set({ source, pooled: null, targets: null });
  }

  async function opened(file) {
    if (!state.live) return say("A report holds one run; load graphs with sottovoce serve.");
    const mine = (turn += 1);
    try {
      const read = { ...(await files.read(file, state.limits.body)), file: file.name };
      const id = link.carried(read) ? null : await kept.put(read);
      // Another graph was asked for while this one was read.
      if (mine !== turn) return undefined;
      const source = state.ownGraph({ ...read, id });
      await load(source);
      if (!link.carried(read) && id === null && state.question.source === source) {
        say(`This browser keeps nothing for this page: after a reload ${file.name} has to be dropped again.`);
      }
    } catch (error) {
      say(error.message);
    }
    return undefined;
  }

  function begin(onRedraw) {
    redraw = onRedraw;
    files.begin(opened);
    find.begin(onRedraw);
    protocol.begin();
    training.begin();
    coins.begin(onRedraw);
    for (const id of CHOICES) byId(id).addEventListener("change", (event) => asking.set({ [id]: event.target.value }));
    byId("participation").addEventListener("change", async (event) => {
      const participation = event.target.value.replace(/\s/g, "") || "full";
      if (!coins.asked(participation)) return asking.set({ participation });
      // Coins have one number beside a run, which there has to be.
      if (model.document === null) await asking.set({ participation: "full" });
      return coins.ask(participation);
    });
    byId("targets").addEventListener("change", (event) => asking.set({ targets: state.targetsOf(event.target.value) }));
    for (const id of ["participation", "targets"]) byId(id).addEventListener("keydown", (event) => event.key === "Enter" && (event.preventDefault(), event.target.blur()));
    dom.segments(byId("own-noise"), [["known", "known to it"], ["hidden", "hidden"]], "known", (value) => asking.set({ own_noise: value }));
    for (const id of ["noise", "delta"]) field(id, (value) => read(id, value));
    field("tolerance", (tolerance) => asking.set({ tolerance }), null);
    field("rounds", (rounds) => asking.set({ rounds }));
    byId("noise-slider").addEventListener("input", (event) => read("noise", Number((10 ** Number(event.target.value)).toPrecision(3))));
    byId("observer").addEventListener("change", (event) => choose(Number(event.target.value), state.question.pooled !== null));
    byId("coalition").addEventListener("change", (event) => {
      const start = model.chosen.length ? model.chosen : [0];
      asking.set({ pooled: event.target.checked ? start : null });
    });
    byId("weights").addEventListener("change", (event) => asking.set({ weights: event.target.value }));
    byId("controls").addEventListener("submit", (event) => {
      event.preventDefault();
      const name = byId("graph").value.trim();
      if (name) load({ name });
    });
    byId("heat-all").addEventListener("click", asking.more);
  }

  return { begin, draw, choose, select };
})();
