# SPDX-License-Identifier: Apache-2.0
"""The drawing of training with hidden states: a panel for each network, and one for the clipped neighbour."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sottovoce.report.figures.style import BLUE, CLAIM, GREEN, PURPLE, RED, label_axes, panels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from sottovoce.studies import training

__all__ = ["draw_training"]


def draw_training(result: training.Result, axes: Sequence[Axes] | None = None) -> Sequence[Axes]:
    """Δ²/T against the ball of slopes: certified, attained by the best loop found, averaging's number, local DP."""
    networks, config = result.config.networks, result.config
    rows = 1 if len(networks) < 3 else 2
    chosen = panels(axes, rows * -(-(len(networks) + 1) // rows), width=3.9, height=3.4, rows=rows)
    places = np.arange(len(config.balls))
    names = [f"[{low:g}, {high:g}]" for low, high in config.balls]
    for ax, network in zip(chosen, networks, strict=False):
        cases = result.of(network)
        ax.axhline(1, color=PURPLE, linestyle=":", label="local DP")
        ax.plot(
            places, [c.certified / config.rounds for c in cases], color=BLUE, marker="o", label="certified"
        )
        ax.plot(
            places,
            [c.attained / config.rounds for c in cases],
            color=RED,
            marker="D",
            linestyle="none",
            label="attained by a loop in the ball",
        )
        ax.plot(places, [c.averaging / config.rounds for c in cases], **CLAIM, label="fixed contributions")
        ax.set_xticks(places, names, rotation=30)
        ax.set_ylim(0, 1.08)
        label_axes(ax, x="slopes of the update maps", y="Δ²/T", title=network.partition(",seed")[0])
    last = chosen[len(networks)]
    epsilons = config.epsilons
    last.plot(epsilons, result.certified_delta, color=BLUE, marker="o", label="certified, slopes [0, 1]")
    last.plot(
        epsilons, result.nonlinear.delta, color=GREEN, marker="D", label="clipped neighbour, quadrature"
    )
    last.plot(epsilons, result.nonlinear.certified, **CLAIM, label="fixed contributions")
    label_axes(last, x="ε", y="δ(ε)", title="star:n=3, clipped gradients, T = 2")
    last.legend(loc="upper right")
    for ax in chosen[len(networks) + 1 :]:
        ax.set_axis_off()
    # One legend serves all networks: where an axis is left over, or below all of them.
    handles, labels = chosen[0].get_legend_handles_labels()
    if len(chosen) > len(networks) + 1:
        chosen[-1].legend(handles, labels, loc="center")
    elif axes is None:
        chosen[0].figure.legend(handles, labels, loc="outside lower center", ncols=4)
    else:
        chosen[0].legend(handles, labels)
    return chosen
