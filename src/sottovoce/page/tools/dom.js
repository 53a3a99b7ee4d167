// SPDX-License-Identifier: Apache-2.0
// Small tools for building the page. Text is always set as text, never as markup.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.dom = (() => {
  const byId = (id) => document.getElementById(id);

  /** An element with properties, attributes (names with a dash, or role) and children. */
  function el(name, settings = {}, ...children) {
    const made = document.createElement(name);
    assign(made, settings);
    made.append(...children.filter((child) => child !== null && child !== undefined));
    return made;
  }

  /** A number after its symbol, one with an exponent or a date, a negative one, and one with a unit. */
  const WHOLE = /((?:Δ²|[εδμσ]) [=≤≥] [-−]?\d[\d.]*(?:e[-+]?\d+)?|(?<![\p{L}\p{N}_.])[-−]?\d[\d.]*(?:e?[-+]\d+){1,2}|(?<![\p{L}\p{N}_.)])[-−]\d[\d.]*|(?<![\p{L}\p{N}_.])\d[\d.]* (?:%|ms|s|MB|GB)(?![\p{L}\p{N}_])|(?<![\p{L}\p{N}_-])--[a-z][a-z-]*)/u;

  /** Set the text of an element so that no line breaks a number in two, as browsers do after the hyphen of 1e-5. */
  function say(host, text) {
    host.replaceChildren(...text.split(WHOLE).map((part, k) => (k % 2 ? el("span", { className: "whole", textContent: part }) : part)));
    return host;
  }

  function svg(name, settings = {}, ...children) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(settings)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  function assign(made, settings) {
    for (const [key, value] of Object.entries(settings)) {
      if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
      else if (key.includes("-") || key === "role" || key === "for" || key === "scope") made.setAttribute(key, value);
      else made[key] = value;
    }
  }

  /** A segmented control: radio buttons in a row. `choices` are [value, text]; `chosen` is called with a value. */
  function segments(host, choices, value, chosen) {
    const name = `${host.id}-choice`;
    host.replaceChildren(
      ...choices.map(([choice, text]) => {
        const input = el("input", { type: "radio", name, value: choice, checked: choice === value });
        input.addEventListener("change", () => input.checked && chosen(choice));
        return el("label", {}, input, el("span", { textContent: text }));
      }),
    );
  }

  function pick(host, value) {
    for (const input of host.querySelectorAll("input")) input.checked = input.value === value;
  }

  /** A function that runs once, some time after its last call. */
  function later(action, wait) {
    let timer = 0;
    return (...words) => {
      clearTimeout(timer);
      timer = setTimeout(() => action(...words), wait);
    };
  }

  /** Follow the size of an element without a loop of changes. */
  function onResize(element, action) {
    const soon = later(action, 60);
    let width = 0;
    new ResizeObserver(() => {
      if (Math.abs(element.clientWidth - width) < 1) return;
      width = element.clientWidth;
      // What is hidden has no width, and is drawn when it is seen again.
      if (width > 0) soon();
    }).observe(element);
  }

  const tip = {
    show(text, x, y, within) {
      const node = byId("tip");
      node.textContent = text;
      node.hidden = false;
      within.append(node);
      const left = Math.min(Math.max(4, x + 14), within.clientWidth - node.offsetWidth - 4);
      const top = y + 18 + node.offsetHeight > within.clientHeight ? y - node.offsetHeight - 10 : y + 18;
      node.style.left = `${Math.max(4, left)}px`;
      node.style.top = `${Math.max(0, top)}px`;
    },
    hide() {
      byId("tip").hidden = true;
    },
  };

  return { byId, el, say, svg, segments, pick, later, onResize, tip };
})();
