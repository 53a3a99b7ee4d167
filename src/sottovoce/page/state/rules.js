// SPDX-License-Identifier: Apache-2.0
// What can be asked at a place of the page, in a field as in a link: the number, or why there is none.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.rules = (() => {
  /** For each place its rule in words, whether a finite number keeps to it, and a number that does. */
  const NUMBERS = {
    noise: ["the noise multiplier must be a finite number above 0", (value) => value > 0, "4"],
    delta: ["δ must lie strictly between 0 and 1", (value) => value > 0 && value < 1, "1e-5"],
    rounds: ["rounds must be a whole number of at least 1", (value) => Number.isInteger(value) && value >= 1, "20"],
    tolerance: ["the tolerance must be a number above 0 and at most 1, or be left out", (value) => value > 0 && value <= 1, "0.1"],
    "step-smoothness": ["step × smoothness must be a number above 0 and at most 1e300", (value) => value > 0 && value <= 1e300, "0.5"],
  };
  const DECIMAL = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
  const LONGEST = 60;

  /** What was said, in few letters. */
  const shown = (text) => (text === "" ? "nothing" : text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text);

  /** The value of a number that can be asked at a place, or why it cannot. */
  function number(place, text) {
    const [rule, holds, example] = NUMBERS[place];
    const value = DECIMAL.test(text.trim()) ? Number(text) : NaN;
    return Number.isFinite(value) && holds(value) ? { value, why: null } : { value: null, why: `${rule}; got ${shown(text)} (${example}, say)` };
  }

  /** Why a word is none of those that can be asked at a place, or null. */
  const choice = (place, text, words) => (words.includes(text) ? null : `${place} must be one of ${words.join(", ")}; got ${shown(text)}`);

  /** Why a text gives no parameters of a protocol, or null; `keys` are those that it has. */
  function parameters(name, text, keys, example) {
    const good = text.split(",").every((part) => {
      const [key, ...value] = part.split("=");
      return keys.includes(key.trim()) && value.join("=").trim() !== "";
    });
    return text === "" || good ? null : `the parameters of ${name} are written KEY=VALUE, with commas between them; its keys are ${keys.join(", ")}; got ${shown(text)} (${example}, say)`;
  }

  return { number, choice, parameters, shown };
})();
