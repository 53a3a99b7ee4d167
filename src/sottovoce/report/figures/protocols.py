# SPDX-License-Identifier: Apache-2.0
"""Drawings of protocols other than plain gossip: at equal error, by distance, and their surprises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from matplotlib.ticker import MaxNLocator

from sottovoce.report.figures.style import (
    BLACK,
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
)
from sottovoce.studies import ENCODERS, OBSERVERS, SUMS, SURPRISES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from sottovoce.studies import encoders, equal_error, shared_noise, surprises

__all__ = ["draw_encoders", "draw_equal_error", "draw_shared_noise", "draw_surprises"]

COLOURS = (BLUE, RED, GREEN, ORANGE, PURPLE, SKY)
LEVELS = (0.0625, 0.125, 0.25, 0.5, 1, 2, 4, 8, 16)
EPSILONS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)


def draw_equal_error(result: equal_error.Result, axes: Sequence[Axes] | None = None) -> Sequence[Axes]:
    """One line a protocol: ε of everyone's view, of a neighbour and of a far node; dashes mark plain gossip."""
    chosen = panels(axes, 1, width=8.2, height=5.6)
    (ax,) = chosen
    places = np.arange(len(result.rows))
    ax.hlines(
        places,
        [min(row.epsilon[:3]) for row in result.rows],
        [max(row.epsilon[:3]) for row in result.rows],
        color="#c8c8c8",
        linewidth=1,
    )
    for k, (name, colour) in enumerate((("everyone", GREY), ("a neighbour", RED), ("a far node", BLUE))):
        ax.plot(
            [row.epsilon[k] for row in result.rows],
            places,
            color=colour,
            marker=MARKS[k],
            markersize=6,
            linestyle="none",
            label="any node, to everyone" if k == 0 else f"{name}, to one node",
        )
        ax.axvline(result.rows[0].epsilon[k], color=colour, linestyle=(0, (2, 3)), linewidth=1)
    ax.set_xscale("log")
    ax.set_yticks(places, [f"{row.name} (noise {row.noise:.3g})" for row in result.rows])
    ax.invert_yaxis()
    ax.grid(visible=False, axis="y")
    plain_ticks(ax, x=EPSILONS)
    config = result.config
    label_axes(
        ax,
        x=f"ε at δ = {config.delta:g} (dotted: that of plain gossip)",
        y="",
        title=f"equal averaging error after T = {config.rounds} rounds on a ring of {config.nodes}",
    )
    ax.figure.legend(loc="outside lower center", ncols=3)
    return chosen


def draw_encoders(result: encoders.Result, axes: Sequence[Axes] | None = None) -> Sequence[Axes]:
    """The largest ε at each distance from the observer, one curve an encoder, one panel a size."""
    count = len(result.cases)
    chosen = panels(axes, count, width=4.6, height=3.2, rows=1 if count < 3 else 2)
    colours = (BLACK, GREEN, ORANGE, BLUE, RED)
    for case, ax in zip(result.cases, chosen, strict=False):
        distances, largest = case.largest()
        for e, name in enumerate(ENCODERS):
            ax.plot(distances, largest[e], color=colours[e], marker=MARKS[e], label=name)
        ax.axhline(result.config.local_epsilon, **CLAIM, label="everyone's view")
        ax.set_yscale("log")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        label_axes(ax, x="hops from the observer", y="largest ε", title=case.name)
    chosen[0].figure.legend(*chosen[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    for ax in chosen[count:]:
        ax.set_visible(False)
    return chosen


def draw_shared_noise(result: shared_noise.Result, axes: Sequence[Axes] | None = None) -> Sequence[Axes]:
    """ε of a neighbour for each observer, over the level of shared noise and over that of local noise."""
    left, right = chosen = panels(axes, 2, width=4.6, height=3.6)
    config = result.config
    for ax, levels, squared in (
        (left, config.shared, result.over_shared),
        (right, config.local, result.over_local),
    ):
        shown = np.array(levels) > 0
        epsilon = result.epsilon(squared)
        for k, name in enumerate(OBSERVERS):
            ax.plot(
                np.array(levels)[shown],
                epsilon[k, shown],
                color=(GREY, RED, ORANGE, BLUE)[k],
                marker=MARKS[k],
                label=name,
            )
        ax.set_xscale("log")
        ax.set_yscale("log")
        plain_ticks(ax, x=LEVELS, y=(0.2, 0.5, 1, 2, 5, 10, 20, 50))
    label_axes(
        left,
        x="level of shared noise",
        y=f"ε at δ = {config.delta:g}",
        title=f"beside local noise of level {config.beside[0]:g}",
    )
    label_axes(
        right,
        x="level of local noise",
        y=f"ε at δ = {config.delta:g}",
        title=f"beside shared noise of level {config.beside[1]:g}",
    )
    left.figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return chosen


def draw_surprises(result: surprises.Result, axes: Sequence[Axes] | None = None) -> Sequence[Axes]:
    """One panel a surprise."""
    chosen = panels(axes, len(SURPRISES), width=3.7, height=3.1, rows=2)
    config = result.config
    looks: Sequence[
        tuple[str, str, Literal["log", "linear"], Literal["upper left", "lower left", "lower right"]]
    ] = (
        (
            "hops from the observer",
            f"acceleration leaks farther (ring of {config.ring})",
            "log",
            "lower left",
        ),
        ("node", f"a sum of two hides nothing (n = {config.peers})", "linear", "upper left"),
        ("rounds T", "everyone: noise on messages, 4T − 3", "linear", "upper left"),
        ("rounds T", f"everyone: momentum, β = {config.beta}", "linear", "upper left"),
        ("hops from the observer", "edge draws are known to both ends", "log", "lower left"),
        ("exchanges", f"one draw, averaged (ring of {config.averaged})", "linear", "lower right"),
    )
    for surprise, (x, title, scale, place), ax in zip(SURPRISES, looks, chosen, strict=True):
        for k, curve in enumerate(result.of(surprise)):
            ax.plot(
                curve.at,
                curve.upper,
                color=COLOURS[k],
                marker=MARKS[k],
                # Curves that lie on each other are told apart by marks of two sizes.
                markersize=8 if k % 2 == 0 else 4.5,
                fillstyle="none" if k % 2 == 0 else "full",
                label=curve.name,
            )
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        ax.set_yscale(scale)
        values = np.concatenate([curve.upper for curve in result.of(surprise)])
        # Room for the legend above or below the curves.
        if place == "upper left":
            ax.set_ylim(0, 1.6 * values.max())
        if scale == "log":
            least = values[values > 0].min()
            ax.set_ylim(least * (least / values.max()) ** 0.7, 1.6 * values.max())
        if scale == "log":
            plain_ticks(ax, y=(0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10))
        label_axes(ax, x=x, y="Δ²", title=title)
        ax.legend(loc=place, ncols=2 if surprise == SUMS else 1, columnspacing=0.8)
    return chosen
