# SPDX-License-Identifier: Apache-2.0
"""`sottovoce compare`: graphs, views, weights and protocols side by side."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path  # noqa: TC003 - the parser reads the annotations
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sottovoce.cli.options import (
    NO_MAPS,
    USUAL_VIEWS,
    Config,
    Contribution,
    Course,
    Delta,
    Doing,
    Json,
    Maps,
    OwnNoise,
    ReportOption,
    Sight,
    ViewName,
    network,
    scenario_of,
)
from sottovoce.cli.printing import progress, result_page, typed_command, write_result
from sottovoce.cli.reporting import check_report, say_written
from sottovoce.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["EXAMPLE", "USAGE", "compare"]

EXAMPLE = "sottovoce compare ring:n=12 complete:n=12 --view secure-sum --rounds 20 --target-epsilon 1"
USAGE = "sottovoce compare GRAPH [GRAPH ...] --rounds INT (--noise-multiplier FLOAT | --target-epsilon FLOAT) [OPTIONS]"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Sides:
    """What stands side by side on each graph, and what all sides have in common."""

    view: Annotated[
        tuple[ViewName, ...],
        Parameter(help="What an observer sees; repeat it for several.", negative_iterable=()),
    ] = USUAL_VIEWS
    protocol: Annotated[
        tuple[str, ...],
        Parameter(
            help="What nodes do each round, as for account; repeat it for several.", negative_iterable=()
        ),
    ] = ("gossip",)
    weights: Annotated[
        tuple[str, ...],
        Parameter(help="Gossip weights, as for account; repeat it for several.", negative_iterable=()),
    ] = ("auto",)
    maps: Maps = NO_MAPS
    contribution: Contribution = "vector"
    own_noise: OwnNoise = "known"

    def on(self, graphs: tuple[str, ...]) -> Iterator[tuple[str, str, Sight]]:
        """Every combination: what tells it apart from the others, its graph, and who sees what there."""
        for graph, rule, does, sees in product(graphs, self.weights, self.protocol, self.view):
            # What all have in common does not tell them apart.
            choices = ((graph, graphs), (rule, self.weights), (does, self.protocol), (sees, self.view))
            told = [part for part, every in choices if len(set(every)) > 1]
            doing = Doing(weights=rule, protocol=does, maps=self.maps, contribution=self.contribution)
            yield ", ".join(told) or graph, graph, Sight(view=sees, doing=doing, own_noise=self.own_noise)


USUAL_SIDES = Sides()


def compare(
    *graphs: Annotated[str, Parameter(help="Graphs, each a file or a name, as for account.")],
    sides: Sides = USUAL_SIDES,
    course: Course,
    noise_multiplier: Annotated[
        float | None,
        Parameter(help="Compare at this noise: what ε it gives to each.", show_default=False),
    ] = None,
    target_epsilon: Annotated[
        float | None,
        Parameter(help="Compare at this ε: what noise it takes for each.", show_default=False),
    ] = None,
    delta: Delta = 1e-5,
    json: Json = False,
    report: ReportOption = None,
    plot: Annotated[
        Path | None,
        Parameter(help="Draw the comparison to this .svg, .png or .pdf file.", show_default=False),
    ] = None,
    config: Config = None,  # noqa: ARG001 - the defaults are read before the command runs
) -> int:
    """Compare graphs, views, weights and protocols at the same noise, or at the same ε.

    Every combination of what is given stands in a line of its own, with its worst pair; --plot draws all on one scale.
    """
    from sottovoce.accounting import compare as compared
    from sottovoce.documents import as_json, comparison_document

    if report is not None:
        from sottovoce.report import needs_matplotlib

        check_report(report)
        needs_matplotlib()
    if plot is not None:
        from sottovoce.report import check_plot_path

        check_plot_path(plot)
    if not graphs:
        raise InputError("a comparison needs a graph (name one, such as ring:n=20)")
    asked = {
        name: scenario_of(network(graph, sight.doing.weights, sight.doing.protocol), sight, course)
        for name, graph, sight in sides.on(graphs)
    }
    with progress("comparing") as callback:
        found = compared(
            asked,
            noise_multiplier=noise_multiplier,
            target_epsilon=target_epsilon,
            delta=delta,
            effort=course.spending.effort_of(),
            progress=callback,
        )
    if json:
        write_result(
            as_json(comparison_document(found, target_epsilon=target_epsilon, command=typed_command()))
        )
    else:
        from sottovoce.cli.comparison_tables import comparison_text

        with result_page() as console:
            comparison_text(console, found, target_epsilon)
    if plot is not None:
        from sottovoce.report import plot_comparison

        say_written(plot_comparison(found, plot, target_epsilon=target_epsilon))
    if report is not None:
        from sottovoce.documents import occasion
        from sottovoce.report import comparison_sections, write_report

        said = occasion(typed_command(), (*graphs, *sides.weights, *sides.protocol), None)
        sections = comparison_sections(found, said, target_epsilon=target_epsilon)
        say_written(write_report(report, title="Side by side", sections=sections))
    return 0
