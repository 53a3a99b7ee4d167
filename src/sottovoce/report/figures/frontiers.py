# SPDX-License-Identifier: Apache-2.0
"""The drawing of a frontier: accuracy against ε, a panel for each network, colours for views, dashes for protocols."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce.report.figures.style import (
    BLUE,
    GREEN,
    GREY,
    MARKS,
    ORANGE,
    PURPLE,
    RED,
    label_axes,
    panels,
    plain_ticks,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from sottovoce.frontiers import Arm, Frontier

__all__ = ["draw_frontier"]

COLOURS = (BLUE, RED, GREEN, PURPLE)
DASHES = ("-", "--", ":", "-.")
WIDE = 3


def draw_frontier(found: Frontier, axes: Sequence[Axes] | None = None) -> Sequence[Axes]:
    """Accuracy of the mean model against ε: means with bars of one standard deviation over the runs.

    Beside them, as bands of one standard deviation, a trusted server at the same ε and the same gossip without noise.
    """
    networks, asked = found.networks, found.settings
    rows = -(-len(networks) // WIDE)
    chosen = panels(axes, rows * min(len(networks), WIDE), rows=rows)
    low, high = min(asked["epsilons"]), max(asked["epsilons"])
    for ax, network in zip(chosen, networks, strict=False):
        ax.set_xscale("log")
        ax.set_xlim(low / 1.25, high * 1.25)
        for arm in (arm for arm in found.no_noise if arm.network == network):
            point = arm.points[0]
            dashes = DASHES[asked["protocols"].index(arm.protocol) % len(DASHES)]
            ax.axhspan(
                point.accuracy - point.deviation,
                point.accuracy + point.deviation,
                color=GREY,
                alpha=0.15,
                lw=0,
            )
            ax.axhline(
                point.accuracy,
                color=GREY,
                linestyle=dashes,
                linewidth=1,
                label=_named(found, "no noise", arm),
            )
        for arm in (arm for arm in found.central if arm.network == network):
            x, y, spread = _columns(arm)
            ax.fill_between(
                x,
                [a - b for a, b in zip(y, spread, strict=True)],
                [a + b for a, b in zip(y, spread, strict=True)],
                color=ORANGE,
                alpha=0.25,
                linewidth=0,
            )
            ax.plot(x, y, color=ORANGE, linewidth=1, label="trusted server (central DP)")
        drawn = [arm for arm in found.arms if arm.network == network]
        for k, arm in enumerate(drawn):
            view, protocol = asked["views"].index(arm.view), asked["protocols"].index(arm.protocol)
            x, y, spread = _columns(arm)
            # A little apart, so that no bar hides another.
            ax.errorbar(
                [value * 1.03 ** (k - (len(drawn) - 1) / 2) for value in x],
                y,
                yerr=spread,
                color=COLOURS[view % len(COLOURS)],
                linestyle=DASHES[protocol % len(DASHES)],
                marker=MARKS[view % len(MARKS)],
                capsize=2,
                elinewidth=0.8,
                label=_named(found, str(arm.view), arm),
            )
        plain_ticks(ax, x=asked["epsilons"])
        label_axes(ax, x=f"ε at δ = {asked['delta']:g}", y="accuracy", title=network)
    for ax in chosen[len(networks) :]:
        ax.set_axis_off()
    _share_heights(chosen[: len(networks)])
    handles, labels = chosen[0].get_legend_handles_labels()
    if axes is None:
        chosen[0].figure.legend(handles, labels, loc="outside lower center", ncols=3)
    else:
        chosen[0].legend(handles, labels, loc="lower right")
    return chosen


def _named(found: Frontier, name: str, arm: Arm) -> str:
    """The name of a line, with its protocol where there are several."""
    return name if len(found.settings["protocols"]) == 1 else f"{name}, {arm.protocol}"


def _columns(arm: Arm) -> tuple[list[float], list[float], list[float]]:
    """ε, accuracies and their deviations of an arm, by ε."""
    points = sorted(arm.points, key=lambda point: point.epsilon or 0.0)
    return (
        [point.epsilon or 0.0 for point in points],
        [point.accuracy for point in points],
        [point.deviation for point in points],
    )


def _share_heights(axes: Sequence[Axes]) -> None:
    """The same accuracies at the same height in all panels."""
    ends = [ax.get_ylim() for ax in axes]
    for ax in axes:
        ax.set_ylim(max(0.0, min(low for low, _ in ends)), min(1.0, max(high for _, high in ends)))
