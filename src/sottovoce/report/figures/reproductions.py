# SPDX-License-Identifier: Apache-2.0
"""Drawings of the paper's two figures and of where it is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sottovoce.report.figures.style import (
    BLUE,
    CLAIM,
    GREEN,
    GREY,
    MARKS,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    label_axes,
    panels,
    plain_ticks,
    rounds_axis,
)
from sottovoce.studies import NETWORKS, RELATIONS, growth, short

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from sottovoce.studies import agreement, figure_1, figure_2

__all__ = ["draw_agreement", "draw_figure_1", "draw_figure_2", "draw_growth"]

COLOURS = (RED, BLUE)


def draw_figure_1(result: figure_1.Result, axes: Sequence[Axes] | None = None) -> Sequence[Axes]:
    """Δ²/T against T: the median over pairs with its band, neighbours and others, and the line 1/n."""
    chosen = panels(axes, len(NETWORKS))
    T = result.config.rounds
    for a, ax in enumerate(chosen):
        for b, relation in enumerate(RELATIONS):
            upper, lower = result.upper[a, b], result.lower[a, b]
            ax.fill_between(
                T, lower.min(axis=0), upper.max(axis=0), color=COLOURS[b], alpha=0.18, linewidth=0
            )
            middle = np.median(upper, axis=0)
            ax.plot(T, middle, color=COLOURS[b], marker=MARKS[b], label=f"{relation}: median, range")
        ax.axhline(result.claimed, **CLAIM, label="1/n (Theorem 13)")
        rounds_axis(ax, T)
        ax.set_yscale("log")
        ax.set_ylim(bottom=result.claimed / 30)
        label_axes(ax, x="rounds T", y="Δ²/T (certified)", title=f"{NETWORKS[a]}, n = {result.config.nodes}")
    # Bands go wherever pairs do: no corner is free of them for sure.
    chosen[0].figure.legend(*chosen[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return chosen


def draw_figure_2(result: figure_2.Result, axes: Sequence[Axes] | None = None) -> Sequence[Axes]:
    """The spectral bound, the constant-sign value and the certified interval, for the pair where they differ most."""
    chosen = panels(axes, 2 * len(NETWORKS), height=3.1, rows=2)
    T = result.config.rounds
    for k, ax in enumerate(chosen):
        a, b = divmod(k, 2)
        # The seed whose bound is loosest tells most.
        c = int(np.argmax(result.excess[a, b, :, -1]))
        spectral, constant, lower, upper = result.growth[a, b, c].T
        ax.plot(T, spectral, color=ORANGE, marker="^", label="spectral bound")
        ax.plot(T, constant, color=BLUE, marker="o", label="constant signs")
        ax.plot(T, 1.1 * constant, **CLAIM, label="10 percent above it")
        ax.fill_between(T, lower, upper, color=GREEN, alpha=0.9, linewidth=2.5, label="certified interval")
        ax.set_xscale("log")
        ax.set_ylim(bottom=0, top=1.4 * float(spectral.max()))
        plain_ticks(ax, x=T)
        label_axes(ax, x="rounds T", y="Δ²/T", title=f"{NETWORKS[a]}, {RELATIONS[b]}")
        ax.legend(loc="upper left", ncols=2, columnspacing=1.0)
    return chosen


def draw_agreement(result: agreement.Result, axes: Sequence[Axes] | None = None) -> Sequence[Axes]:
    """The largest n·sup φ at each distance from the observer, on each network, and the claimed 1."""
    chosen = panels(axes, 1, width=6.4, height=4.2)
    (ax,) = chosen
    colours = (GREEN, BLUE, SKY, PURPLE, ORANGE, RED)
    for k, network in enumerate(result.networks):
        distances, largest = network.largest()
        name = f"{short(network.name)}, γ = {network.gap:.2g}"
        ax.plot(distances, largest, color=colours[k % 6], marker=MARKS[k % 6], label=name)
    ax.axhline(1, **CLAIM, label="1 (Theorem 13)")
    ax.set_xscale("log")
    ax.set_yscale("log")
    plain_ticks(ax, x=(1, 2, 3, 5, 10, 20, 50), y=(1, 2, 3, 5, 10, 20))
    label_axes(
        ax,
        x="hops from the observer",
        y="n · sup φ, largest at that distance",
        title="Far targets: 1/n holds",
    )
    ax.legend(loc="upper right")
    return chosen


def draw_growth(result: growth.Result, axes: Sequence[Axes] | None = None) -> Sequence[Axes]:
    """Δ² and ε against T for the five analyses."""
    chosen = panels(axes, 2, width=4.9)
    T = result.config.rounds
    colours = (RED, GREY, ORANGE, BLUE, GREEN)
    for ax, values, y in zip(
        chosen, (result.squared, result.epsilon), ("Δ² (κ for Muffliato)", "ε"), strict=True
    ):
        for k, name in enumerate(growth.CURVES):
            shown = np.where(values[k] > 0, values[k], np.nan)
            ax.plot(T, shown, color=colours[k], marker=MARKS[k], label=name)
        rounds_axis(ax, T)
        ax.set_yscale("log")
        what = (
            "sensitivity"
            if y != "ε"
            else f"δ = {result.config.delta:g}, σ/clip = {result.config.noise_multiplier:g}"
        )
        label_axes(ax, x="rounds T", y=y, title=what)
    chosen[0].legend(loc="upper left")
    return chosen
