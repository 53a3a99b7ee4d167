// SPDX-License-Identifier: Apache-2.0
// What is known of a local step: nothing is trained, gradient steps of some size, slopes, or damping. One at a time.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.training = (() => {
  const { state, model, dom, asking, rules } = sottovoce;
  const { byId } = dom;
  const NONE = { updates: null, step_smoothness: null, losses: null, damping: null };
  const ROWS = { steps: ["steps-row", "step-smoothness"], updates: ["updates-row", "updates"], damping: ["damping-row", "damping"] };
  /** What was chosen and is not asked yet. */
  let opened = null;

  const kindOf = ({ updates, step_smoothness, damping }) => (step_smoothness !== null ? "steps" : updates !== null ? "updates" : damping !== null ? "damping" : "none");

  /** Let the controls say what is asked. */
  function draw() {
    const { question } = state;
    const kind = opened ?? (state.amiss.has("step-smoothness") ? "steps" : kindOf(question));
    byId("training").value = kind;
    for (const [each, [row]] of Object.entries(ROWS)) byId(row).hidden = each !== kind || !state.live;
    if (opened === null) {
      for (const [id, value] of [["step-smoothness", question.step_smoothness], ["updates", question.updates], ["damping", question.damping]]) {
        if (document.activeElement !== byId(id)) byId(id).value = state.saidAt(id, value) ?? "";
      }
      byId("losses").value = question.losses ?? "";
    }
    byId("step-smoothness").setAttribute("aria-invalid", String(state.amiss.has("step-smoothness")));
    dom.say(byId("training-hint"), !state.live ? "" : opened === null ? said(model.document) : "Give the number, then Enter.");
  }

  /** What training asks of those who train. */
  function said(found) {
    if (found === null) return "";
    if (found.damping !== undefined) return "Nodes take gradient steps on quadratic losses.";
    if (found.updates === undefined) return "Nodes average what they receive. Where they train on it, say what is known of a step.";
    return found.updates.lower === null ? "Nothing is known of the maps by which nodes train." : `Nodes train. Clipping: ${found.updates.clipping}. Records: ${found.updates.records}.`;
  }

  function choose(kind) {
    opened = kind === "none" || kind === kindOf(state.question) ? null : kind;
    if (kind === "none") return asking.set(NONE);
    draw();
    byId(ROWS[kind][1]).focus();
    return undefined;
  }

  /** Ask what the fields say; an empty one asks for nothing. */
  function ask() {
    const kind = byId("training").value;
    if (kind === "none") return undefined;
    const text = byId(ROWS[kind][1]).value.trim();
    if (text === "" && opened !== null) return undefined;
    const { value: step, why } = kind === "steps" && text !== "" ? rules.number("step-smoothness", text) : { value: null, why: null };
    if (why !== null) {
      state.refuse("step-smoothness", text, why);
      return asking.ask({});
    }
    opened = null;
    if (text === "") return asking.set(NONE);
    const told = { steps: () => ({ step_smoothness: step, losses: byId("losses").value || null }), updates: () => ({ updates: text.replace(/\s/g, "") }), damping: () => ({ damping: text }) };
    return asking.set({ ...NONE, ...told[kind]() });
  }

  function begin() {
    byId("training").addEventListener("change", (event) => choose(event.target.value));
    for (const id of ["step-smoothness", "updates", "damping", "losses"]) byId(id).addEventListener("change", ask);
    for (const id of ["step-smoothness", "updates"]) byId(id).addEventListener("keydown", (event) => event.key === "Enter" && (event.preventDefault(), event.target.blur()));
  }

  return { begin, draw };
})();
