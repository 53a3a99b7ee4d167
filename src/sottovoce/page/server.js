// SPDX-License-Identifier: Apache-2.0
// Talking to the server: one request at a time becomes a job, which is asked for until it is done or cancelled.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.server = (() => {
  const { dom } = sottovoce;
  let token = "";

  class Gone extends Error {}
  class Refused extends Error {}
  class Cancelled extends Error {}

  const pause = (wait) => new Promise((resolve) => setTimeout(resolve, wait));

  /** Ask for the token until the server takes one. */
  function askToken() {
    const dialog = dom.byId("token-dialog");
    return new Promise((resolve) => {
      dialog.addEventListener("close", () => {
        token = dom.byId("token").value.trim();
        dom.byId("token").value = "";
        resolve();
      }, { once: true });
      if (!dialog.open) dialog.showModal();
    });
  }

  async function call(method, path, body) {
    const headers = { Accept: "application/json" };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (token) headers.Authorization = `Bearer ${token}`;
    let answer;
    try {
      answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store" });
    } catch {
      throw new Gone("The server does not answer. What is shown stays right for the settings beside it.");
    }
    if (answer.status === 401) {
      await askToken();
      return call(method, path, body);
    }
    let content;
    try {
      content = answer.status === 204 ? null : await answer.json();
    } catch {
      throw new Gone("The server broke off its answer.");
    }
    if (!answer.ok) throw new Refused(content?.error?.message ?? `the server answered ${answer.status}`);
    return content;
  }

  /** Run one job; `task.cancel()` ends it here at once, and on the server after the question that is under way. */
  function run(path, body, progress) {
    const task = { cancelled: false, id: null, asking: false };
    const giveBack = () => call("DELETE", `api/jobs/${task.id}`).catch(() => {});
    const ended = new Promise((_, reject) => {
      task.cancel = () => {
        if (task.cancelled || task.over) return;
        task.cancelled = true;
        if (task.id !== null && !task.asking) giveBack();
        reject(new Cancelled("cancelled"));
      };
    });
    const ask = async (...words) => {
      task.asking = true;
      const job = await call(...words).finally(() => (task.asking = false));
      task.id = job.id;
      if (task.cancelled) {
        giveBack();
        throw new Cancelled("cancelled");
      }
      return job;
    };
    const work = (async () => {
      let job = await ask("POST", path, body);
      for (let wait = 40; ; wait = Math.min(400, wait * 1.5)) {
        if (job.state === "done") return job.result;
        if (job.state === "failed") throw new Refused(job.error.message);
        progress(job.progress);
        await pause(wait);
        if (task.cancelled) throw new Cancelled("cancelled");
        job = await ask("GET", `api/jobs/${task.id}`);
      }
    })().finally(() => (task.over = true));
    task.result = Promise.race([work, ended]);
    return task;
  }

  return { call, run, Gone, Refused, Cancelled };
})();
