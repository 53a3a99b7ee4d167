# SPDX-License-Identifier: Apache-2.0
"""The figure of a comparison: one line a question, all on one scale."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sottovoce.accounting import Account, compared
from sottovoce.report.accounts import check_plot_path, save_figure

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from pathlib import Path

    from sottovoce.accounting import Contender

__all__ = ["plot_comparison"]


def plot_comparison(
    found: Sequence[Contender], path: str | os.PathLike[str], *, target_epsilon: float | None = None
) -> Path:
    """Draw what is certified of the worst pair of each question (ε, or the noise it takes), beside local DP.

    A filled dot is the certified end, a line goes to what is attained, and an open dot is the median pair.
    """
    file = check_plot_path(path)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 1.6 + 0.42 * len(found)), layout="constrained")
    ax = figure.subplots()
    for place, one in enumerate(found):
        table = one.table
        if target_epsilon is None:
            worst, median = (each.epsilon(table.delta) for each in (table.worst(), table.median()))
            upper = worst.upper
            if math.isfinite(upper):
                ax.hlines(place, worst.lower, upper, color="#8a2b4f", lw=2)
            if math.isfinite(median.upper):
                ax.plot(median.upper, place, "o", mfc="none", color="#8a2b4f", ms=5)
            local = compared(table)["local"]
            if isinstance(local, Account) and math.isfinite(local.epsilon().upper):
                ax.plot(local.epsilon().upper, place, "|", color="#5d5867", ms=14, mew=1.5)
        else:
            upper = math.inf if one.refused else table.noise_multiplier
        if math.isfinite(upper):
            ax.plot(upper, place, "o", color="#521649", ms=6)
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
    return save_figure(figure, file)
