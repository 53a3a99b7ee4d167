# SPDX-License-Identifier: Apache-2.0
"""The drawing of what utility is left: measured excess risk, and the terms of Theorem 17 beside it."""

from __future__ import annotations

from itertools import chain, zip_longest
from typing import TYPE_CHECKING

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
    rounds_axis,
)
from sottovoce.studies import METHODS, RULES, TERMS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from sottovoce.studies import Row, utility

__all__ = ["draw_utility"]

COLOURS = dict(zip(METHODS, (BLUE, RED, PURPLE, GREEN, GREY), strict=True))
LABELS = {
    "constant contribution": "noise for constant contributions (no guarantee)",
    "network": "noise certified for secure sums",
    "everyone": "noise for everyone's view",
    "central": "central DP",
}
# All but the leading one.
OTHERS = TERMS[1:]
TERM_LOOKS = dict(zip(OTHERS, ((ORANGE, "-."), (ORANGE, ":"), (SKY, "-."), (SKY, ":")), strict=True))
# Terms that have died out are cut off so many times below the leading one.
DEPTH = 1e3


def draw_utility(result: utility.Result, axes: Sequence[Axes] | None = None) -> Sequence[Axes]:
    """Excess risk against T under both rules, with baselines, and the terms of Theorem 17 beside it.

    One row of panels for each of two networks, that with the largest gap and that with the smallest.
    """
    gaps = {row.graph: row.gap for row in result.rows}
    shown = list(
        dict.fromkeys((max(gaps, key=lambda name: gaps[name]), min(gaps, key=lambda name: gaps[name])))
    )
    chosen = panels(axes, 3 * len(shown), width=4.1, height=3.2, rows=len(shown))
    for place, graph in enumerate(shown):
        rows = [row for row in result.rows if row.graph == graph]
        constant, tuned, beside = chosen[3 * place : 3 * place + 3]
        name = f"{graph}, γ = {gaps[graph]:.2g}"
        for ax, rule in ((constant, RULES[0]), (tuned, RULES[1])):
            _draw_risks(ax, [row for row in rows if row.rule == rule], result.config.rounds)
            label_axes(ax, x="rounds T", y="excess risk ± 4 standard errors", title=f"{name}\n{rule}")
        _draw_terms(beside, rows, result.config.rounds)
        label_axes(
            beside, x="rounds T", y="excess risk", title=f"{name}\nterms of Theorem 17, constants set to 1"
        )
        low = min(constant.get_ylim()[0], tuned.get_ylim()[0])
        high = max(constant.get_ylim()[1], tuned.get_ylim()[1])
        constant.set_ylim(low, high)
        tuned.set_ylim(low, high)
    measured = zip(*chosen[0].get_legend_handles_labels(), strict=True)
    terms = [
        pair for pair in zip(*chosen[2].get_legend_handles_labels(), strict=True) if pair[1] in _term_labels()
    ]
    # Legends are filled column by column, so that curves and terms in turn make a row of each.
    entries = [entry for entry in chain(*zip_longest(measured, terms)) if entry is not None]
    chosen[0].figure.legend(
        *zip(*entries, strict=True), loc="outside lower center", ncols=5, columnspacing=1.4
    )
    return chosen


def _draw_risks(ax: Axes, rows: Sequence[Row], rounds: Sequence[int]) -> None:
    """Means over runs with their standard errors, one curve a method, and the leading term of the theorem."""
    for method, mark in zip(METHODS, MARKS, strict=False):
        there = [row for row in rows if row.method == method]
        ax.errorbar(
            rounds,
            [row.excess_risk for row in there],
            yerr=[4 * row.standard_error for row in there],
            color=COLOURS[method],
            marker=mark,
            capsize=2,
            # Where constant contributions are the worst, the certified noise is the same and lies on them.
            fillstyle="none" if method == METHODS[0] else "full",
            markersize=8 if method == METHODS[0] else 4.5,
            label=LABELS.get(method, method),
        )
    ax.plot(rounds, [row.terms.privacy for row in there], **CLAIM, label="leading term of Theorem 17")
    rounds_axis(ax, rounds)
    ax.set_yscale("log")


def _draw_terms(ax: Axes, rows: Sequence[Row], rounds: Sequence[int]) -> None:
    """The five terms over T; the leading one looks as beside the measurements."""
    there = {row.rounds: row.terms for row in rows}
    ax.plot(rounds, [there[T].privacy for T in rounds], **CLAIM, label="leading term of Theorem 17")
    for name, label in zip(OTHERS, _term_labels(), strict=True):
        colour, style = TERM_LOOKS[name]
        ax.plot(rounds, [getattr(there[T], name) for T in rounds], color=colour, linestyle=style, label=label)
    rounds_axis(ax, rounds)
    ax.set_yscale("log")
    ax.set_ylim(bottom=max(ax.get_ylim()[0], there[rounds[0]].privacy / DEPTH))


def _term_labels() -> tuple[str, ...]:
    """The other terms, as they depend on γ and T."""
    return ("∝ 1/(γ²√T)", "∝ 1/(γ⁴T)", "heterogeneity ∝ 1/(γ²T²)", "start ∝ exp(−γμT/L)/γ")
