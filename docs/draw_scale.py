# SPDX-License-Identifier: Apache-2.0
"""Draw docs/scale.svg from docs/scale.json: what one observer and all its targets cost, against rounds and nodes.

Measure again with `python -m benchmarks.scale --json docs/scale.json`, then run `python docs/draw_scale.py`, which also
prints the table of docs/scale.md.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from sottovoce.report.figures import figure_bytes
from sottovoce.report.figures.style import BLUE, GREEN, GREY, RED, looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HERE = Path(__file__).parent
NAMES = {
    ("random-regular", "ordinary"): ("8-regular", BLUE, "o"),
    ("preferential", "ordinary"): ("preferential, ordinary node", RED, "s"),
    ("preferential", "hub"): ("preferential, best-connected node", GREEN, "^"),
}
GOAL = 30


def measured() -> list[dict[str, Any]]:
    """One row a network, an observer and a number of rounds, as the benchmark wrote them."""
    rows: list[dict[str, Any]] = json.loads((HERE / "scale.json").read_text(encoding="utf-8"))["rows"]
    return rows


def picture() -> bytes:
    """The whole SVG file."""
    rows = measured()
    with looks():
        figure = Figure(figsize=(9, 3.9), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        _panel(left, rows, along="rounds", at=("nodes", max(row["nodes"] for row in rows)))
        _panel(right, rows, along="nodes", at=("rounds", 10_000))
        left.set(xlabel="rounds T", ylabel="processor seconds", title="a million nodes")
        right.set(xlabel="nodes n", title="ten thousand rounds")
        right.legend(loc="upper left", fontsize="small")
    return figure_bytes(figure, "svg")


def table() -> list[str]:
    """The rows of a million nodes as lines of Markdown."""
    rows = measured()
    most = max(row["nodes"] for row in rows)
    return [
        f"| {NAMES[row['graph'].split(':')[0], row['observer']][0]} | {row['rounds']:,} | {row['seconds']:.0f} "
        f"| {row['ratio']:.1f} | {100 * row['neighbour gap']:.1f} % | {100 * row['median gap']:.0f} % "
        f"| {row['memory GiB']:.1f} |"
        for row in rows
        if row["nodes"] == most
    ]


def _panel(axes: Axes, rows: list[dict[str, Any]], *, along: str, at: tuple[str, int]) -> None:
    """One line a network and observer, and the cost of 30 times 100 products W·v as a dotted one."""
    chosen = [row for row in rows if row[at[0]] == at[1]]
    for (family, observer), (name, colour, mark) in NAMES.items():
        line = [row for row in chosen if row["graph"].startswith(family) and row["observer"] == observer]
        sizes = [row[along] for row in line]
        axes.loglog(sizes, [row["seconds"] for row in line], color=colour, marker=mark, label=name)
        if observer == "ordinary":
            products = [GOAL * row["products"] for row in line]
            axes.loglog(sizes, products, color=colour, linestyle=":", linewidth=1)
    axes.plot([], [], color=GREY, linestyle=":", label=f"{GOAL} × 100 products W·v")
    axes.grid(visible=True, which="major", linewidth=0.4)


if __name__ == "__main__":
    (HERE / "scale.svg").write_bytes(picture())
    sys.stdout.write("\n".join([*table(), ""]))
