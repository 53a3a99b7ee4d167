// SPDX-License-Identifier: Apache-2.0
// What the page tells whoever looks at it: notices, and how far the work is.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.messages = (() => {
  const { byId } = sottovoce.dom;
  let retry = null;

  /** Show a notice; with `again` it offers to try once more. */
  function say(text, again = null) {
    byId("notice-text").textContent = text;
    byId("notice-action").hidden = again === null;
    byId("notice").hidden = false;
    retry = again;
  }

  const quiet = () => (byId("notice").hidden = true);

  function busy(text) {
    byId("work").hidden = text === null;
    byId("main").setAttribute("aria-busy", String(text !== null));
    byId("work-text").textContent = text ?? "";
    byId("work-progress").removeAttribute("value");
  }

  function advance(progress) {
    if (progress === null || progress.total === 0) return;
    byId("work-progress").max = progress.total;
    byId("work-progress").value = progress.done;
    byId("work-text").textContent = `${progress.done} of ${progress.total} pairs`;
  }

  function begin() {
    byId("notice-close").addEventListener("click", quiet);
    byId("notice-action").addEventListener("click", () => retry !== null && retry());
  }

  return { begin, say, quiet, busy, advance };
})();
