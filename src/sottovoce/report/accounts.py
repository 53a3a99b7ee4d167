# SPDX-License-Identifier: Apache-2.0
"""Figures of accounts: what each target gives away, and who learns about whom."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.accounting import Account, compared
from sottovoce.documents import check_path
from sottovoce.errors import FileError, at_least, needs

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

    from sottovoce.accounting import AccountTable

__all__ = ["check_plot_path", "draw_pairs", "draw_targets", "needs_matplotlib", "plot_account", "save_figure"]

PLOT_SUFFIXES = (".svg", ".png", ".pdf")
_BARS = 40
_TARGETS, _MAP = (7.0, 5.0), (6.4, 5.6)
_TILES = 400
_RAMP = ("#f4efdf", "#efd9a3", "#e9b366", "#dc8145", "#bd4f45", "#8a2b4f", "#521649", "#260a33")


def check_plot_path(path: str | os.PathLike[str]) -> Path:
    """The path, if a figure can be put there and drawn at all."""
    needs_matplotlib()
    return check_path(path, PLOT_SUFFIXES, "a figure")


def draw_targets(table: AccountTable, ax: Axes | None = None, *, count: int = _BARS) -> Axes:
    """ε of the most exposed targets as intervals, worst first, beside local DP and central aggregation.

    A dot is the certified upper end; the line ends at what is attained.
    """
    at_least(1, count=count)
    ax = _axes(ax, _TARGETS)
    exposed = table.most_exposed(count)
    places = np.arange(len(exposed))
    ends = [account.epsilon(table.delta) for _, account in exposed]
    ax.hlines(places, [each.lower for each in ends], [each.upper for each in ends], color="#8a2b4f", lw=2)
    ax.plot(
        [each.upper for each in ends],
        places,
        "o",
        color="#521649",
        ms=4,
        label="certified upper end",
    )
    beside = compared(table)
    for key, name, style in (("local", "local DP", "--"), ("central", "central", ":")):
        found = beside[key]
        # Not every program has such a number; those that are drawn are true.
        if isinstance(found, Account):
            ax.axvline(found.epsilon().upper, color="#5d5867", ls=style, lw=1.2, label=name)
    ax.set_yticks(places, [str(target) for target, _ in exposed], fontsize=8)
    ax.invert_yaxis()
    ax.set_xlim(left=0)
    ax.set_xlabel(f"ε at δ = {table.delta:g}")
    ax.set_title(_title(table))
    ax.legend(frameon=False, fontsize=8)
    return ax


def draw_pairs(table: AccountTable, ax: Axes | None = None) -> Axes:
    """ε of every pair as a heat map, observers down and targets across; a tile shows its largest pair."""
    ax = _axes(ax, _MAP)
    rows, n = len(table.observers), table.protocol.n
    down, across = -(-rows // _TILES), -(-n // _TILES)
    grid = np.full((-(-rows // down), -(-n // across)), -np.inf)
    np.maximum.at(grid, (table.observer_of // down, table.target_indices // across), table.epsilon_upper)
    shown = ax.imshow(
        np.ma.masked_invalid(grid), cmap=_colours(), vmin=0, aspect="auto", interpolation="nearest"
    )
    ax.figure.colorbar(shown, ax=ax, label=f"ε at most, δ = {table.delta:g}")
    if n <= _BARS and rows <= _BARS:
        names = [str(label) for label in table.protocol.labels]
        ax.set_xticks(range(n), names, rotation=90, fontsize=7)
        ax.set_yticks(
            range(rows), ["+".join(map(str, names)) or "everyone" for names in table.observers], fontsize=7
        )
    tiles = f" (tiles of {down} × {across})" if down > 1 or across > 1 else ""
    ax.set_xlabel(f"target{tiles}")
    ax.set_ylabel("observer")
    ax.set_title(_title(table))
    return ax


def plot_account(table: AccountTable, path: str | os.PathLike[str]) -> Path:
    """Draw a table to a file: the targets of one observer, or the map of many."""
    file = check_plot_path(path)
    from matplotlib.figure import Figure

    one = len(table.observers) == 1
    figure = Figure(figsize=_TARGETS if one else _MAP, layout="constrained")
    (draw_targets if one else draw_pairs)(table, figure.subplots())
    return save_figure(figure, file)


def save_figure(figure: Figure, file: Path) -> Path:
    """Write a figure, whose file depends on what is drawn alone."""
    from matplotlib import rc_context

    from sottovoce.report.figures.letters import find_fonts

    find_fonts(figure)
    # Neither date nor chance, so that the same account gives the same file.
    dated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(file.suffix.lower())
    try:
        with rc_context({"svg.hashsalt": "sottovoce"}):
            figure.savefig(file, metadata=dated, dpi=150)
    except OSError as error:
        raise FileError(
            f"{file}: the figure cannot be written: {error.strerror} (choose another directory)"
        ) from None
    return file


def _title(table: AccountTable) -> str:
    who = ""
    if len(table.observers) == 1 and table.observers[0]:
        who = f" of {', '.join(map(str, table.observers[0]))}"
    return f"{table.view}{who}, T = {table.protocol.rounds}, noise multiplier {table.noise_multiplier:g}"


def _colours() -> Colormap:
    """The colours of the page: lightness alone carries the order."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("exposure", _RAMP)


def _axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """The axes that were given, or new ones."""
    if ax is not None:
        return ax
    needs_matplotlib()
    import matplotlib.pyplot as plt

    made: Axes = plt.subplots(figsize=size, layout="constrained")[1]
    return made


def needs_matplotlib() -> None:
    """Refuse to draw without the package that draws."""
    if find_spec("matplotlib") is None:
        raise needs("drawing", "matplotlib", "plot")
