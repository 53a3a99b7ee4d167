// SPDX-License-Identifier: Apache-2.0
// What the page tells whoever looks at it: notices, and how far the work is.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.messages = (() => {
  const { state, dom } = sottovoce;
  const { byId } = dom;

  /** Show a notice until something changes; with `again` it offers to try once more. */
  function say(text, more = {}) {
    state.claim("notice", text, more);
    draw();
  }

  function quiet() {
    state.forget("notice");
    draw();
  }

  /** Say in words what the cursor is on, for those who do not see it. */
  function announce(text) {
    state.claim("announce", text);
    draw();
  }

  function draw() {
    byId("announce").textContent = state.standing("announce")?.text ?? "";
    const notice = state.standing("notice");
    const text = notice?.text ?? state.whyNot().join(" · ");
    byId("notice").hidden = text === "";
    dom.say(byId("notice-text"), text);
    // Why there is no answer stays as long as there is none.
    byId("notice-close").hidden = notice === null;
    const leaves = notice === null && state.amiss.size > 0;
    byId("notice-action").hidden = !leaves && (notice?.again ?? null) === null;
    byId("notice-action").textContent = leaves ? "Leave it out" : "Try again";
  }

  function busy(text) {
    byId("work").hidden = text === null;
    byId("main").setAttribute("aria-busy", String(text !== null));
    dom.say(byId("work-text"), text ?? "");
    byId("work-progress").removeAttribute("value");
  }

  function advance({ done, total }, words = "pairs") {
    if (total === 0) return;
    byId("work-progress").max = total;
    byId("work-progress").value = done;
    dom.say(byId("work-text"), `${done} of ${total} ${words}`);
  }

  /** `leave` asks without what cannot be asked. */
  function begin(leave) {
    byId("notice-close").addEventListener("click", quiet);
    byId("notice-action").addEventListener("click", () => (state.standing("notice")?.again ?? leave)());
  }

  return { begin, draw, say, quiet, announce, busy, advance };
})();
