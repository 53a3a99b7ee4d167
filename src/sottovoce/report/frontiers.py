# SPDX-License-Identifier: Apache-2.0
"""A frontier drawn and put on a page: accuracy against ε, a panel for each network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce.interval import rounded_up
from sottovoce.report.html import Section
from sottovoce.views import ASSUMPTIONS

if TYPE_CHECKING:
    from sottovoce.frontiers import Arm, Frontier, Point

__all__ = ["frontier_picture", "frontier_sections"]

COLUMNS = (
    "network",
    "protocol",
    "view",
    "ε at most",
    "accuracy",
    "± over the runs",
    "nodes' own",
    "step",
    "noise multiplier",
    "local DP, ε at most",
    "assumption",
)


def frontier_picture(found: Frontier) -> str:
    """The picture as SVG; the same numbers give the same text."""
    from sottovoce.report.figures import draw_frontier, figure_bytes
    from sottovoce.report.figures.style import looks

    with looks():
        figure = draw_frontier(found)[0].figure
    return figure_bytes(figure, "svg").decode()  # type: ignore[arg-type]


def frontier_sections(found: Frontier) -> list[Section]:
    """The parts of a report on a frontier: the picture, and every point with what it rests on."""
    asked = found.settings
    lines = [
        *((arm, arm.protocol, arm.view) for arm in found.arms),
        *((arm, "trusted server", "") for arm in found.central),
        *((arm, arm.protocol, "no noise") for arm in found.no_noise),
    ]
    return [
        Section(
            heading="Accuracy against ε",
            text=f"{found.tuning}\n\nPoints are means over {asked['repeats']} runs, bars and bands one standard "
            "deviation. Accuracies are measured without noise on records that were held out: they are not private.",
            figure=frontier_picture(found),
            figure_text="Accuracy of the mean model against ε for each network, by view and protocol, with bands for a "
            "trusted server and for no noise; the numbers are in the table below.",
        ),
        Section(
            heading="Every point",
            columns=COLUMNS,
            rows=[_row(arm, protocol, view, point) for arm, protocol, view in lines for point in arm.points],
        ),
    ]


def _row(arm: Arm, protocol: str | None, view: str | None, point: Point) -> tuple[object, ...]:
    """One point."""
    rests = "" if point.assumption is None else f"{point.assumption}: {ASSUMPTIONS[point.assumption]}"
    return (
        arm.network,
        protocol,
        view,
        "" if point.epsilon is None else f"{point.epsilon:g}",
        f"{point.accuracy:.4f}",
        f"{point.deviation:.4f}",
        f"{point.node_accuracy:.4f}",
        point.step,
        "" if point.noise_multiplier is None else rounded_up(point.noise_multiplier),
        "" if point.local_epsilon is None else rounded_up(point.local_epsilon),
        rests,
    )
