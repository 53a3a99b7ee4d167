# SPDX-License-Identifier: Apache-2.0
"""How every figure looks: colours that colour-blind readers tell apart, with markers and dashes beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes

__all__ = [
    "BLACK",
    "BLUE",
    "CLAIM",
    "GREEN",
    "GREY",
    "MARKS",
    "ORANGE",
    "PURPLE",
    "RED",
    "SKY",
    "label_axes",
    "looks",
    "panels",
    "plain_ticks",
    "rounds_axis",
]

# Okabe & Ito, Color universal design (2008).
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, RED, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#6b6b6b"
MARKS = ("o", "s", "^", "D", "v", "P")
# What the paper claims is drawn the same way in every figure.
CLAIM: dict[str, Any] = {"color": BLACK, "linestyle": (0, (5, 3)), "linewidth": 1.3}

_LOOKS: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    # Nothing stands above an axes that its title would have to evade: it need not be looked for.
    "axes.titley": 1.0,
    "axes.labelsize": 9,
    "legend.fontsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "svg.hashsalt": "sottovoce",
}


def looks() -> Any:  # noqa: ANN401 - a context manager without a public type
    """A context in which figures are made and saved with these looks; nothing global stays changed."""
    return rc_context(_LOOKS)


def panels(
    axes: Sequence[Axes] | None, count: int, *, width: float = 4.6, height: float = 3.7, rows: int = 1
) -> Sequence[Axes]:
    """The axes given, or those of a new figure with `count` panels in some rows."""
    if axes is not None:
        return axes
    columns = -(-count // rows)
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    made = figure.subplots(rows, columns, squeeze=False).ravel()
    return list(_typed(made))


def plain_ticks(ax: Axes, *, x: Sequence[float] = (), y: Sequence[float] = ()) -> None:
    """Ticks of logarithmic axes written out, those that are in sight; an axis without any is left as it is."""
    for values, axis, (low, high) in ((x, ax.xaxis, ax.get_xlim()), (y, ax.yaxis, ax.get_ylim())):
        shown = [value for value in values if low <= value <= high]
        if shown:
            axis.set_ticks(shown, [f"{value:g}" for value in shown], minor=False)
            axis.set_ticks([], minor=True)


def rounds_axis(ax: Axes, rounds: Sequence[int]) -> None:
    """A logarithmic axis of rounds; its ticks are powers of 10, or 1, 2, 5, … where there are few of them."""
    ax.set_xscale("log")
    ax.set_xlim(rounds[0] / 1.2, rounds[-1] * 1.2)
    powers = [10**k for k in range(8)]
    shown = sum(rounds[0] <= power <= rounds[-1] for power in powers)
    if shown < 3:
        plain_ticks(ax, x=[m * power for power in powers for m in (1, 2, 5)])
    else:
        ax.xaxis.set_minor_formatter(NullFormatter())


def label_axes(ax: Axes, *, x: str, y: str, title: str) -> None:
    """Words at both axes and above."""
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.set_title(title, loc="left")


def _typed(made: Any) -> Iterator[Axes]:  # noqa: ANN401 - matplotlib returns an untyped array
    yield from made
