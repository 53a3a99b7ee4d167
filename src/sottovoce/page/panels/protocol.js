// SPDX-License-Identifier: Apache-2.0
// What nodes do each round: one of the protocols that have a name, with its parameters, or a program of one's own.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.protocol = (() => {
  const { state, model, dom, asking, rules } = sottovoce;
  const { byId } = dom;
  const OWN = "own";
  const START = `keeps = ["model"]
draws = [{ name = "u", level = 1 }]
instructions = [
  { combine = "message", terms = { model = 1, contribution = 1, u = 1 } },
  { exchange = "message", into = "model" },
]
`;
  /** What was chosen and is not asked yet. */
  let opened = null;

  const nameOf = ({ protocol, program }) => (program === null ? protocol.split(":")[0] : OWN);
  const parametersOf = ({ protocol }) => protocol.split(":").slice(1).join(":");
  const spelled = (name, parameters) => (parameters ? `${name}:${parameters}` : name);

  /** Let the controls say what is asked. */
  function draw() {
    const { question } = state;
    // A report knows the name of its protocol, and says the rest in a sentence.
    const held = state.live ? nameOf(question) : (model.document?.protocol ?? "gossip").replaceAll("_", "-");
    const name = opened ?? ([...byId("protocol").options].some((option) => option.value === held) ? held : OWN);
    const own = state.live && name === OWN;
    byId("protocol").value = name;
    const { possible = "", example = "" } = byId("protocol").selectedOptions[0]?.dataset ?? {};
    byId("parameters-row").hidden = own || !state.live || possible === "";
    byId("parameters").placeholder = example === "" ? "" : `${example}, say`;
    byId("parameters").setAttribute("aria-invalid", String(state.amiss.has("parameters")));
    byId("program-row").hidden = !own;
    byId("use-program").hidden = !own;
    if (opened === null && document.activeElement !== byId("parameters")) byId("parameters").value = state.saidAt("parameters", parametersOf(question));
    if (opened === null && document.activeElement !== byId("program")) byId("program").value = question.program ?? START;
    const found = model.document;
    dom.say(byId("protocol-hint"), own && opened !== null ? "Write the program, then use it." : found === null ? "" : found.program);
  }

  /** Choose a protocol: with the parameters that its entry proposes, and one round where it has no more. */
  function choose(name) {
    if (name === OWN) {
      opened = OWN;
      draw();
      byId("program").focus();
      return undefined;
    }
    opened = null;
    const { given, rounds } = byId("protocol").selectedOptions[0].dataset;
    byId("parameters").value = given ?? "";
    return ask(name, rounds);
  }

  function ask(name, rounds) {
    const text = byId("parameters").value.trim();
    const { possible = "", example = "" } = byId("protocol").selectedOptions[0].dataset;
    const why = rules.parameters(name, text, possible.split(", "), example);
    if (why === null) return asking.set({ protocol: spelled(name, text), program: null, ...(rounds ? { rounds: Number(rounds) } : {}) });
    state.refuse("parameters", text, why);
    return asking.ask({});
  }

  function use() {
    opened = null;
    return asking.set({ protocol: "gossip", program: byId("program").value });
  }

  function begin() {
    byId("protocol").addEventListener("change", (event) => choose(event.target.value));
    byId("parameters").addEventListener("change", () => ask(byId("protocol").value));
    byId("parameters").addEventListener("keydown", (event) => event.key === "Enter" && (event.preventDefault(), event.target.blur()));
    byId("use-program").addEventListener("click", use);
  }

  return { begin, draw };
})();
