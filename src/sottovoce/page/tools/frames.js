// SPDX-License-Identifier: Apache-2.0
// Frames of the network: asked for when something changed, and for a while after it. The loop of the library asks for
// one after the other for ever, which keeps a processor busy while nobody does anything.
"use strict";
var sottovoce = globalThis.sottovoce || (globalThis.sottovoce = {});

sottovoce.frames = (() => {
  // Speed alone: between frames the library refines its pictures of nodes, and asks to draw what it refined.
  const LINGER = 1000;
  const painter = cytoscape("renderer", "canvas").prototype;
  const { redraw } = painter;
  /** Until when each network has frames, for those that have. */
  const awake = new Map();

  /** One frame, as the library makes it: what was to happen before it, and the drawing if something changed. */
  function frame(renderer, now) {
    const drawing = renderer.requestedFrame && !renderer.skipFrame;
    for (const { fn } of renderer.beforeRenderCallbacks) fn(drawing, now);
    renderer.skipFrame = false;
    if (!drawing) return;
    const began = performance.now();
    renderer.render(renderer.renderOptions);
    renderer.lastDrawTime = performance.now();
    const took = renderer.lastDrawTime - began;
    renderer.redrawCount = (renderer.redrawCount ?? 0) + 1;
    renderer.redrawTotalTime = (renderer.redrawTotalTime ?? 0) + took;
    renderer.averageRedrawTime = ((renderer.averageRedrawTime ?? took) + took) / 2;
    renderer.lastRedrawTime = took;
    renderer.requestedFrame = false;
  }

  function step(renderer, now) {
    if (!renderer.destroyed && !renderer.cy.batching()) frame(renderer, now);
    if (!renderer.destroyed && (renderer.requestedFrame || performance.now() < awake.get(renderer))) requestAnimationFrame((next) => step(renderer, next));
    else awake.delete(renderer);
  }

  painter.startRenderLoop = function startRenderLoop() {
    const asleep = !awake.has(this);
    awake.set(this, performance.now() + LINGER);
    if (asleep) requestAnimationFrame((now) => step(this, now));
  };

  painter.redraw = function redrawn(options) {
    redraw.call(this, options);
    this.startRenderLoop();
  };

  return { awake: () => awake.size > 0 };
})();
