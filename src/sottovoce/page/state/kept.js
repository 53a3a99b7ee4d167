// SPDX-License-Identifier: Apache-2.0
// Graphs of one's own that a link cannot carry, kept in this browser so that a reload finds them again.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.kept = (() => {
  const MOST = 12;

  const settled = (request) => new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
    request.onblocked = () => reject(new Error("another tab holds the store"));
  });

  async function graphs(mode) {
    const opening = indexedDB.open("sottovoce", 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore("graphs", { keyPath: "id" });
    const store = await settled(opening);
    return store.transaction("graphs", mode).objectStore("graphs");
  }

  /** Keep a graph, and the newest few of those before it; its id, or null if this browser keeps nothing. */
  async function put({ file, text, format }) {
    const id = Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
    try {
      const store = await graphs("readwrite");
      await settled(store.put({ id, file, text, format, at: Date.now() }));
      const all = await settled(store.getAll());
      for (const old of all.sort((a, b) => b.at - a.at).slice(MOST)) store.delete(old.id);
      return id;
    } catch {
      return null;
    }
  }

  /** The graph of an id: `source`, or `why` there is none. */
  async function get(id) {
    try {
      const found = await settled((await graphs("readonly")).get(id));
      return found === undefined ? { source: null, why: "is not kept in this browser" } : { source: { file: found.file, text: found.text, format: found.format, id } };
    } catch {
      return { source: null, why: "is lost, because this browser keeps nothing for this page" };
    }
  }

  return { put, get };
})();
