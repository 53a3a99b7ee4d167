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

  // Jobs under way, by what was asked to the letter: after a reload the page goes on with them, and can end them. What is
  // too long to be kept is asked again, and shares the work on the server.
  const LONGEST = 20000;
  const PREFIX = "job ";
  const named = (path, body) => {
    const text = `${PREFIX}${path} ${JSON.stringify(body)}`;
    return text.length <= LONGEST ? text : null;
  };
  /** What was under way when the page before this one was left; each is taken up once. */
  const left = new Map(attempt(() => Object.keys(sessionStorage).filter((key) => key.startsWith(PREFIX)).map((key) => [key, sessionStorage.getItem(key)])) ?? []);
  function takeUp(name) {
    const id = left.get(name) ?? null;
    left.delete(name);
    return id;
  }
  const remember = (name, id) => name !== null && attempt(() => sessionStorage.setItem(name, id));
  const forget = (name) => name !== null && attempt(() => sessionStorage.removeItem(name));

  /** A browser may keep nothing at all, or have no room left. */
  function attempt(action) {
    try {
      return action() ?? null;
    } catch {
      return null;
    }
  }

  /** Run one job; `task.cancel()` ends it here at once, and on the server after the question that is under way. */
  function run(path, body, progress) {
    const task = { cancelled: false, id: null, asking: false };
    const name = named(path, body);
    const giveBack = () => call("DELETE", `api/jobs/${task.id}`).catch(() => {});
    const ended = new Promise((_, reject) => {
      task.cancel = () => {
        if (task.cancelled || task.over) return;
        task.cancelled = true;
        forget(name);
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
    /** The job that was under way before a reload, or a new one. */
    const begun = async () => {
      const before = takeUp(name);
      if (before !== null) {
        try {
          const job = await ask("GET", `api/jobs/${encodeURIComponent(before)}`);
          if (["waiting", "running", "done"].includes(job.state)) return job;
        } catch (error) {
          if (!(error instanceof Refused)) throw error;
        }
      }
      return ask("POST", path, body);
    };
    const work = (async () => {
      let job = await begun();
      remember(name, job.id);
      for (let wait = 40; ; wait = Math.min(400, wait * 1.5)) {
        if (job.state === "done") break;
        if (job.state === "failed") throw new Refused(job.error.message);
        progress(job.progress);
        await pause(wait);
        if (task.cancelled) throw new Cancelled("cancelled");
        job = await ask("GET", `api/jobs/${task.id}`);
      }
      forget(name);
      return job.result;
    })().catch((error) => {
      // Whoever leaves the page breaks off what it asks: the job goes on, and is found again.
      if (!(error instanceof Gone)) forget(name);
      throw error;
    }).finally(() => (task.over = true));
    task.result = Promise.race([work, ended]);
    return task;
  }

  return { call, run, Gone, Refused, Cancelled };
})();
