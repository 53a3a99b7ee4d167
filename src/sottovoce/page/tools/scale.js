// SPDX-License-Identifier: Apache-2.0
// The colours of ε: the hue changes, and lightness runs one way all along, so that they can be read without colour.
// More exposed is further from the background, in the light theme darker and in the dark theme brighter.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.scale = (() => {
  const LIGHT = ["#f4efdf", "#efd9a3", "#e9b366", "#dc8145", "#bd4f45", "#8a2b4f", "#521649", "#260a33"];
  const DARK = ["#272138", "#43275a", "#6d2f6d", "#9c3d6d", "#ca565f", "#e88150", "#f5b463", "#fdeeb0"];

  const isDark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const channels = (text) => [1, 3, 5].map((k) => parseInt(text.slice(k, k + 2), 16));

  /** Position from 0 to 1 of ε on a linear scale that ends at `most`. */
  const position = (epsilon, most) => (epsilon === Infinity ? 1 : most > 0 ? Math.min(1, Math.max(0, epsilon / most)) : 0);

  function rgb(place) {
    const stops = isDark() ? DARK : LIGHT;
    const k = Math.min(stops.length - 2, Math.floor(place * (stops.length - 1)));
    const part = place * (stops.length - 1) - k;
    const [low, high] = [channels(stops[k]), channels(stops[k + 1])];
    return low.map((value, c) => Math.round(value + part * (high[c] - value)));
  }

  const css = (place) => `rgb(${rgb(place).join(",")})`;

  /** Black or white, whichever can be read on the colour. */
  function ink(place) {
    const linear = rgb(place).map((v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] > 0.18 ? "#16131c" : "#ffffff";
  }

  /** A value of the theme's style sheet. */
  const theme = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  return { position, css, rgb, ink, isDark, theme };
})();
