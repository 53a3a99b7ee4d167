# SPDX-License-Identifier: Apache-2.0
"""A comparison drawn and put on a page: one line a question, all on one scale."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sottovoce.accounting import Account, compared
from sottovoce.interval import rounded_up
from sottovoce.report.accounts import check_plot_path, save_figure
from sottovoce.report.first_pages import origin_rows
from sottovoce.report.html import Section
from sottovoce.views import ASSUMPTIONS

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.figure import Figure

    from sottovoce.accounting import Contender
    from sottovoce.documents import Occasion

__all__ = ["comparison_sections", "plot_comparison"]


def plot_comparison(
    found: Sequence[Contender], path: str | os.PathLike[str], *, target_epsilon: float | None = None
) -> Path:
    """Draw what is certified of the worst pair of each question (ε, or the noise it takes), beside local DP.

    A filled dot is the certified end, a line goes to what is attained, and an open dot is the median pair.
    """
    file = check_plot_path(path)
    return save_figure(_figure(found, target_epsilon), file)


def comparison_sections(
    found: Sequence[Contender], occasion: Occasion, *, target_epsilon: float | None = None
) -> list[Section]:
    """The parts of a report on a comparison: the figure, each question with its worst pair, and what all rest on."""
    from sottovoce.report.figures import figure_bytes

    delta = found[0].table.delta
    asked = (
        f"What each is certified to at noise multiplier {found[0].table.noise_multiplier:g} and δ = {delta:g}."
        if target_epsilon is None
        else f"The noise multiplier that keeps each within ε = {target_epsilon:g} at δ = {delta:g}."
    )
    why = [f"{one.name}: {one.refused or one.table.bare}." for one in found if one.refused or one.table.bare]
    return [
        Section(
            heading="Side by side",
            text="\n\n".join((asked, *why)),
            figure=figure_bytes(_figure(found, target_epsilon), "svg").decode(),
            figure_text="The worst pair of each question on one scale; the numbers are in the table below.",
        ),
        Section(
            heading="Every question",
            columns=(
                "question",
                "ε at most",
                "noise multiplier",
                "Δ² at most",
                "observer",
                "target",
                "assumption",
            ),
            rows=[_row(one) for one in found],
        ),
        Section(heading="What they rest on", columns=("", ""), rows=_facts(found, occasion)),
    ]


def _facts(found: Sequence[Contender], occasion: Occasion) -> list[tuple[str, str]]:
    """What all questions share, their assumptions, and where the numbers come from."""
    words = found[0].table.scenario.sentences()
    assumptions = dict.fromkeys(one.table.assumption for one in found)
    return [
        ("rounds", str(found[0].table.protocol.rounds)),
        *((name, words[name]) for name in ("relation", "contribution", "participation")),
        *dict.fromkeys(_protocol(one) for one in found),
        *(("assumption", f"{name}: {ASSUMPTIONS[name]}") for name in assumptions),
        *origin_rows(occasion, {}, "ask again: no certificate is carried here").items(),
    ]


def _protocol(one: Contender) -> tuple[str, str]:
    """What nodes do in one question, on which weights, and its hash."""
    protocol = one.table.protocol
    on = protocol.schedule[0].origin
    return "protocol", f"{protocol.name} on {on}: {protocol.sentence}; hash {protocol.hash}"


def _row(one: Contender) -> tuple[object, ...]:
    """One question; without numbers where no noise is enough."""
    table, worst = one.table, one.table.worst()
    squared = worst.sensitivity_squared
    able = one.refused is None
    return (
        one.name,
        rounded_up(worst.epsilon(table.delta).upper) if able else "none",
        rounded_up(table.noise_multiplier) if able else "none",
        "" if squared is None else rounded_up(squared.upper),
        ", ".join(map(str, worst.observers)),
        worst.target,
        table.assumption,
    )


def _figure(found: Sequence[Contender], target_epsilon: float | None) -> Figure:
    """The figure of a comparison."""
    from matplotlib.figure import Figure

    from sottovoce.report.figures.letters import find_fonts, widened
    from sottovoce.report.figures.style import GREY, RED

    figure = Figure(figsize=(7.0, 1.6 + 0.42 * len(found)), layout="constrained")
    ax = figure.subplots()
    for place, one in enumerate(found):
        table = one.table
        if target_epsilon is None:
            worst, median = (each.epsilon(table.delta) for each in (table.worst(), table.median()))
            upper = worst.upper
            if math.isfinite(upper):
                ax.hlines(place, worst.lower, upper, color=RED, lw=2)
            if math.isfinite(median.upper):
                ax.plot(median.upper, place, "o", mfc="none", color=RED, ms=5)
            local = compared(table)["local"]
            if isinstance(local, Account) and math.isfinite(local.epsilon().upper):
                ax.plot(local.epsilon().upper, place, "|", color=GREY, ms=14, mew=1.5)
        else:
            upper = math.inf if one.refused else table.noise_multiplier
        if math.isfinite(upper):
            ax.plot(upper, place, "o", color=RED, ms=6)
        else:
            ax.annotate(
                "none" if one.refused else "∞", (0.98, place), xycoords=("axes fraction", "data"), ha="right"
            )
    ax.set_yticks(range(len(found)), [one.name for one in found])
    ax.set_ylim(len(found) - 0.5, -0.5)
    ax.set_xlim(left=0)
    ax.margins(x=0.08)
    table = found[0].table
    if target_epsilon is None:
        ax.set_xlabel(f"ε at δ = {table.delta:g}: worst pair ●, median ○, local DP |")
        ax.set_title(f"T = {table.protocol.rounds}, noise multiplier {table.noise_multiplier:g}")
    else:
        ax.set_xlabel(f"noise multiplier for ε = {target_epsilon:g} at δ = {table.delta:g}")
        ax.set_title(f"T = {table.protocol.rounds}")
    ax.spines[["top", "right"]].set_visible(False)
    find_fonts(figure)
    widened(figure, ax)
    return figure
