// SPDX-License-Identifier: Apache-2.0
// What runs on the server, by lanes: in each lane a newer job takes the place of the older. Whatever answers a question
// that is no longer asked is cancelled, and its answer, if it still comes, is not given to anyone.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.jobs = (() => {
  const { server } = sottovoce;
  const lanes = new Map();

  /** Another job, or another question, took the place of this one: no one waits for it. */
  class Superseded extends Error {}

  /** The results of requests, [path, body] each, that run side by side; `stands` says whether they are still asked for. */
  async function run(lane, stands, requests, progress = () => {}) {
    stop(lane);
    const moved = requests.map(() => ({ done: 0, total: 0 }));
    const mine = { stands, tasks: [] };
    const ahead = () => progress(moved.reduce((sum, { done, total }) => ({ done: sum.done + done, total: sum.total + total })));
    lanes.set(lane, mine);
    mine.tasks = requests.map(([path, body], k) =>
      server.run(path, body, (step) => {
        if (step === null || lanes.get(lane) !== mine || !stands()) return;
        moved[k] = step;
        ahead();
      }));
    try {
      const found = await Promise.all(mine.tasks.map((task) => task.result));
      if (lanes.get(lane) !== mine || !stands()) throw new Superseded("superseded");
      return found;
    } catch (error) {
      for (const task of mine.tasks) task.cancel();
      throw lanes.get(lane) === mine && stands() ? error : new Superseded("superseded");
    } finally {
      if (lanes.get(lane) === mine) lanes.delete(lane);
    }
  }

  /** End what runs in a lane without a word. */
  function stop(lane) {
    const { tasks } = lanes.get(lane) ?? { tasks: [] };
    lanes.delete(lane);
    for (const task of tasks) task.cancel();
  }

  /** End what runs in a lane; whoever waits for it is told. */
  const cancel = (lane) => lanes.get(lane)?.tasks.forEach((task) => task.cancel());

  /** End whatever is no longer asked for. */
  function sweep() {
    for (const [lane, { stands }] of [...lanes]) if (!stands()) stop(lane);
  }

  return { run, stop, cancel, sweep, running: (lane) => lanes.has(lane), Superseded };
})();
