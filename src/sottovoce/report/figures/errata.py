# SPDX-License-Identifier: Apache-2.0
"""Drawings of the errata about rates: what the paper claims is always the black dashed line."""

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
from sottovoce.studies import neighbours, short

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from sottovoce.studies import counterexamples, observed_targets, removed_noise, vectors

__all__ = [
    "draw_counterexamples",
    "draw_neighbours",
    "draw_observed_targets",
    "draw_removed_noise",
    "draw_vectors",
]


def draw_counterexamples(
    result: counterexamples.Result, axes: Sequence[Axes] | None = None
) -> Sequence[Axes]:
    """Claimed limit, constant contributions and certified limit of each small network, as rows of points."""
    chosen = panels(axes, 1, width=7.6, height=3.2)
    (ax,) = chosen
    places = np.arange(len(result.cases))[::-1]
    names = [f"{case.name}\n({case.statement})" for case in result.cases]
    ax.hlines(
        places,
        [case.claimed for case in result.cases],
        [case.limit.upper for case in result.cases],
        color="#c8c8c8",
        linewidth=3,
    )
    for values, colour, mark, label in (
        ([case.claimed for case in result.cases], "black", "|", "claimed limit"),
        ([case.constant for case in result.cases], BLUE, "o", "constant contributions"),
        ([case.signs for case in result.cases], ORANGE, "^", "signs, at least"),
        ([case.limit.lower for case in result.cases], RED, "D", "vectors, certified"),
    ):
        size = 13 if mark == "|" else 6
        ax.plot(values, places, linestyle="none", marker=mark, color=colour, label=label, markersize=size,
                markeredgewidth=2.2 if mark == "|" else 0.6, fillstyle="none" if mark == "D" else "full")  # fmt: skip
    ax.set_yticks(places, names)
    ax.set_xlim(0, 1.02)
    ax.set_ylim(-0.6, len(places) - 0.4)
    label_axes(ax, x="limit of Δ²/T", y="", title="")
    ax.legend(loc="lower center", bbox_to_anchor=(0.35, 1.0), ncols=4, columnspacing=1.2, handletextpad=0.3)
    return chosen


def draw_neighbours(result: neighbours.Result, axes: Sequence[Axes] | None = None) -> Sequence[Axes]:
    """Δ²/T of constant, alternating and best streams and the certified bound against T, 1/n and sup φ."""
    chosen = panels(axes, len(result.networks), width=3.9)
    T = result.config.rounds
    colours = (BLUE, SKY, ORANGE, RED, PURPLE)
    for ax, network in zip(chosen, result.networks, strict=True):
        for k, name in enumerate(neighbours.CURVES):
            shown = np.where(network.growth[k] > 0, network.growth[k], np.nan)
            style = ":" if k == 4 else "-"
            ax.plot(T, shown, color=colours[k], marker=MARKS[k] if k < 4 else "", linestyle=style, label=name)
        ax.axhline(network.limit.upper, color=GREEN, linewidth=1.2, label="sup φ (the limit)")
        ax.axhline(1 / network.n, **CLAIM, label="1/n (Theorem 13)")
        rounds_axis(ax, T)
        ax.set_yscale("log")
        ax.set_ylim(0.5 / network.n, 0.45)
        label_axes(ax, x="rounds T", y="Δ²/T", title=f"{short(network.name)}, a neighbour")
    chosen[0].figure.legend(
        *chosen[0].get_legend_handles_labels(), loc="outside lower center", ncols=7, columnspacing=1.2
    )
    return chosen


def draw_observed_targets(
    result: observed_targets.Result, axes: Sequence[Axes] | None = None
) -> Sequence[Axes]:
    """Δ²/T of targets inside and outside a neighbourhood against m/n, and three nodes against the bound for all T."""
    left, right = chosen = panels(axes, 2, width=4.9)
    for k, network in enumerate(result.networks):
        for inside, colour, mark in ((True, RED, "D"), (False, BLUE, "o")):
            values = np.sort(network.growth[network.inside == inside])
            places = k + np.linspace(-0.22, 0.22, len(values)) if len(values) > 1 else np.array([k])
            label = f"target {'inside' if inside else 'outside'} the observed set" if k == 0 else None
            left.plot(places, values, linestyle="none", marker=mark, color=colour, label=label, alpha=0.8)
        claimed = "m/n (Theorem 15)" if k == 0 else ""
        left.hlines(
            network.claimed, k - 0.38, k + 0.38, colors="black", linestyles=(0, (5, 3)), label=claimed
        )
    names = [f"{short(network.name)}\nm = {network.observed}" for network in result.networks]
    left.set_xticks(range(len(names)), names, fontsize=8)
    left.grid(visible=False, axis="x")
    left.set_ylim(-0.03, 1.05)
    label_axes(left, x="", y=f"Δ²/T at T = {result.config.rounds}, at least", title="a neighbourhood is seen")
    left.legend(loc="center", bbox_to_anchor=(0.5, 0.6))
    T = np.array(result.config.small_rounds)
    right.plot(T, result.small, color=RED, marker="D", label="attained by signs")
    right.plot(T, result.small_bound, **CLAIM, label="bound of Theorem 15")
    label_axes(right, x="rounds T", y="Δ²", title="three nodes that average, two seen")
    right.legend(loc="upper left")
    return chosen


def draw_removed_noise(result: removed_noise.Result, axes: Sequence[Axes] | None = None) -> Sequence[Axes]:
    """The limit of every pair against the observer's degree, 1/degree and the claimed 1/(n − 1)."""
    chosen = panels(axes, 1, width=6.2, height=4.0)
    (ax,) = chosen
    colours = (BLUE, PURPLE, ORANGE, RED)
    for k, network in enumerate(result.networks):
        for neighbour in (True, False):
            there = network.neighbour == neighbour
            spread = network.degree[there] * (1 + np.linspace(-0.03, 0.03, max(1, int(there.sum()))))
            label = short(network.name) if neighbour else None
            ax.plot(
                spread,
                network.limit[there],
                linestyle="none",
                marker=MARKS[k] if neighbour else "x",
                color=colours[k % 4],
                label=label,
                alpha=0.8,
            )
    ax.plot([], [], linestyle="none", marker="x", color=GREY, label="not neighbours")
    degrees = np.geomspace(1.7, max(float(x.degree.max()) for x in result.networks) * 1.2, 50)
    ax.plot(degrees, 1 / degrees, color=GREEN, label="1/degree")
    ax.axhline(result.networks[0].claimed, **CLAIM, label="1/(n−1) (Theorem 16)")
    ax.set_xscale("log")
    ax.set_yscale("log")
    plain_ticks(ax, x=(2, 3, 4, 6, 10, 16, 25, 40))
    label_axes(
        ax, x="degree of the observer", y="limit of Δ²/T, at least", title="the observer knows its own noise"
    )
    ax.legend(loc="upper right", ncols=2)
    return chosen


def draw_vectors(result: vectors.Result, axes: Sequence[Axes] | None = None) -> Sequence[Axes]:
    """By how many percent vectors certainly exceed all signs, over T."""
    chosen = panels(axes, 1, width=5.6)
    (ax,) = chosen
    for k, (name, observer, target) in enumerate(result.config.pairs):
        label = f"{short(name)}, node {observer} about node {target}"
        ax.plot(
            result.rounds,
            100 * result.excess[k],
            color=(RED, BLUE, GREEN)[k % 3],
            marker=MARKS[k],
            label=label,
        )
    ax.axhline(0, **CLAIM, label="0 (Section 3.2)")
    ax.set_xticks(result.rounds[1::2])
    label_axes(ax, x="rounds T", y="vectors above all signs, percent", title="secure sums, both sides proved")
    ax.legend(loc="upper left")
    return chosen
