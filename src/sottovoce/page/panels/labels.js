// SPDX-License-Identifier: Apache-2.0
// Where names stand: below, above, right or left of their node, where they cover neither a node nor another name.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.labels = (() => {
  const HIGH = 13;
  const GAP = 3;
  const SIDES = [
    { name: "bottom", box: ({ x, y, half }, wide) => [x - wide / 2, y + half + GAP, wide, HIGH] },
    { name: "top", box: ({ x, y, half }, wide) => [x - wide / 2, y - half - GAP - HIGH, wide, HIGH] },
    { name: "right", box: ({ x, y, half }, wide) => [x + half + GAP, y - HIGH / 2, wide, HIGH] },
    { name: "left", box: ({ x, y, half }, wide) => [x - half - GAP - wide, y - HIGH / 2, wide, HIGH] },
  ];
  const cover = (a, b) => a[0] < b[0] + b[2] && b[0] < a[0] + a[2] && a[1] < b[1] + b[3] && b[1] < a[1] + a[3];

  /**
   * The side of each name that finds room, by position in `nodes`, which come in the order in which they are served and
   * have x, y, half (of their size), wide (of their name) and must (it is named even where it covers others).
   */
  function place(nodes, { width, height }) {
    const discs = nodes.map(({ x, y, half }) => [x - half, y - half, 2 * half, 2 * half]);
    const taken = [];
    const sides = new Map();
    nodes.forEach((node, k) => {
      const inside = ([x, y, w, h]) => x >= 0 && y >= 0 && x + w <= width && y + h <= height;
      const free = (box) => inside(box) && taken.every((other) => !cover(box, other)) && discs.every((disc, j) => j === k || !cover(box, disc));
      const found = SIDES.find(({ box }) => free(box(node, node.wide))) ?? (node.must ? SIDES[0] : null);
      if (found === null) return;
      taken.push(found.box(node, node.wide));
      sides.set(k, found.name);
    });
    return sides;
  }

  return { place };
})();
