# SPDX-License-Identifier: Apache-2.0
"""Drawings of the errata about proofs, hidden states and utility."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sottovoce.report.figures.style import (
    BLUE,
    CLAIM,
    GREEN,
    MARKS,
    ORANGE,
    PURPLE,
    RED,
    label_axes,
    panels,
    plain_ticks,
    rounds_axis,
)
from sottovoce.studies import constant_step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from sottovoce.studies import hidden_states, slips

__all__ = ["draw_constant_step", "draw_hidden_states", "draw_slips"]


def draw_slips(result: slips.Result, axes: Sequence[Axes] | None = None) -> Sequence[Axes]:
    """The transient part of Δ² against its stated bound, and the δ that the classical noise really has."""
    left, right = chosen = panels(axes, 2)
    T = np.arange(1, result.config.rounds + 1)
    left.plot(T, result.transient, color=RED, label="transient part, alternating signs")
    left.axhline(result.transient_bound, **CLAIM, label="bound of Lemma G.2")
    label_axes(left, x="rounds T", y="transient part of Δ²", title="two nodes, W = (¾ ¼; ¼ ¾)")
    left.legend(loc="upper left")
    epsilons = result.config.epsilons
    right.plot(epsilons, result.classical_delta, color=RED, marker="D", label="classical noise (Eq. 5.5)")
    right.axhline(result.config.delta, **CLAIM, label="the δ asked for")
    right.axvspan(
        right.get_xlim()[0], 1, color=GREEN, alpha=0.12, linewidth=0, label="ε < 1, where it is proved"
    )
    right.set_xscale("log")
    right.set_yscale("log")
    right.set_xlim(min(epsilons) * 0.9, max(epsilons) * 1.1)
    plain_ticks(right, x=(0.1, 0.2, 0.5, 1, 2, 5, 10, 20))
    label_axes(right, x="ε asked for", y="δ attained", title="calibration")
    right.legend(loc="upper left")
    return chosen


def draw_hidden_states(result: hidden_states.Result, axes: Sequence[Axes] | None = None) -> Sequence[Axes]:
    """Open and closed loop of the star over T and over leaves, and δ(ε) of a nonlinear neighbour."""
    first, second, third = chosen = panels(axes, 3, width=3.9)
    T, leaves = result.config.rounds, result.config.leaves
    first.plot(T, result.growth[0], color=BLUE, marker="o", label="fixed contributions, certified")
    first.plot(T, result.growth[1], color=RED, marker="D", label="closed loop, constant signs")
    first.axhline(result.limits[1, 0], color=ORANGE, linestyle=":", label="its limit 9/10")
    rounds_axis(first, T)
    first.set_ylim(0, 1.25)
    label_axes(first, x="rounds T", y="Δ²/T", title="star, two leaves")
    first.legend(loc="upper left")
    second.plot(leaves, result.limits[0], color=BLUE, marker="o", label="fixed contributions: 1/k")
    second.plot(leaves, result.limits[1], color=RED, marker="D", label="closed loop")
    second.axhline(1, color=PURPLE, linestyle=":", label="everyone's view")
    second.set_xscale("log")
    plain_ticks(second, x=(2, 4, 8, 16, 32, 64))
    second.set_ylim(0, 1.45)
    label_axes(second, x="leaves k", y="limit of Δ²/T", title="star, more leaves")
    second.legend(loc="upper right")
    epsilons, one = result.config.epsilons, result.config.epsilons.index(1.0)
    third.plot(
        epsilons, result.nonlinear.certified, color=BLUE, marker="o", label="fixed contributions, certified"
    )
    third.plot(
        epsilons, result.nonlinear.delta, color=RED, marker="D", label="nonlinear neighbour, quadrature"
    )
    third.errorbar(
        [epsilons[one]],
        [result.nonlinear.simulated],
        yerr=4 * result.nonlinear.simulated_error,
        color="black",
        capsize=4,
        marker=MARKS[2],
        linestyle="none",
        label="simulated, ± 4 standard errors",
    )
    third.set_ylim(0, 1.35 * float(result.nonlinear.delta.max()))
    label_axes(third, x="ε", y="δ(ε)", title="clipped gradients, T = 2")
    third.legend(loc="upper right")
    return chosen


def draw_constant_step(result: constant_step.Result, axes: Sequence[Axes] | None = None) -> Sequence[Axes]:
    """Excess risk against T for the three rules, simulated points and the claimed leading term."""
    chosen = panels(axes, 1, width=6.2, height=4.0)
    (ax,) = chosen
    T = result.config.rounds
    for k, rule in enumerate(constant_step.RULES):
        ax.plot(T, result.excess[k], color=(RED, ORANGE, GREEN)[k], marker=MARKS[k], label=rule)
    ax.errorbar(
        result.config.simulated_rounds,
        result.simulated,
        yerr=4 * result.simulated_error,
        color="black",
        capsize=4,
        marker="x",
        linestyle="none",
        label="the first, simulated on a ring (± 4 standard errors)",
    )
    ax.axhline(result.claimed, **CLAIM, label="1/(n²μ), leading term of Theorem 17")
    rounds_axis(ax, T)
    ax.set_yscale("log")
    ax.set_ylim(top=30 * float(result.excess.max()))
    title = f"f = ½θ², n = {result.config.nodes}, L = {result.config.smoothness:g}, σ² = T/n"
    label_axes(ax, x="rounds T", y="excess risk", title=title)
    ax.legend(loc="upper left")
    return chosen
