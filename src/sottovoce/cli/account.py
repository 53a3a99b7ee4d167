# SPDX-License-Identifier: Apache-2.0
"""`sottovoce account`: how much every observer can learn about every target."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sottovoce.cli.options import (
    AnySight,
    Config,
    Course,
    Delta,
    Json,
    MaxEpsilon,
    NoiseMultiplier,
    Output,
    ReportOption,
    Source,
    accounted,
    network,
)
from sottovoce.cli.outputs import interrupted_name
from sottovoce.cli.printing import (
    complain,
    result_page,
    typed_command,
    within_budget,
    write_result,
)
from sottovoce.cli.reporting import check_report, files_of, report_account, say_written
from sottovoce.cli.sampled import asks_coins, sampled, show_sampled
from sottovoce.errors import FileError, positive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.accounting import AccountTable
    from sottovoce.graphs import WeightedGraph

__all__ = ["EXAMPLE", "USAGE", "Accounted", "account"]

EXAMPLE = "sottovoce account karate --rounds 100 --noise-multiplier 4 --observer 3"
USAGE = "sottovoce account GRAPH --rounds INT --noise-multiplier FLOAT [OPTIONS]"
ANY_SIGHT = AnySight()


@dataclass(frozen=True, kw_only=True, eq=False)
class Accounted:
    """One table for each view, the one with the largest ε first; `reached` says how far an interrupted account got."""

    tables: Sequence[AccountTable]
    reached: str | None = None


def account(
    graph: Source,
    /,
    *,
    sight: AnySight = ANY_SIGHT,
    course: Course,
    noise_multiplier: NoiseMultiplier,
    delta: Delta = 1e-5,
    max_epsilon: MaxEpsilon = None,
    json: Json = False,
    output: Output = None,
    report: ReportOption = None,
    plot: Annotated[
        Path | None,
        Parameter(
            help="Draw the targets of one observer, or the map of many, to this .svg, .png or .pdf file.",
            show_default=False,
        ),
    ] = None,
    config: Config = None,  # noqa: ARG001 - the defaults are read before the command runs
) -> int:
    """Say what each observer can learn about each target, as a certified (ε, δ).

    Without --view the larger ε of secure-sum and neighbourhood leads; a report or a figure shows that view.

    Ctrl-C keeps and shows the observers that are finished, with exit code 130; --output pairs.csv then writes
    pairs.interrupted.csv. With --participation poisson:0.1 there is one number, for the worst of the pairs looked at,
    and the bound that gave it.
    """
    from sottovoce.documents import check_csv_path

    if max_epsilon is not None:
        positive(max_epsilon=max_epsilon)
    if output is not None:
        check_csv_path(output)
    _check_pictures(report, plot)
    chosen = network(graph, sight.doing.weights, sight.doing.protocol)
    if asks_coins(course, output=output, report=report, plot=plot):
        worst = _sampled(course, sight, chosen, noise_multiplier=noise_multiplier, delta=delta, json=json)
        return 0 if max_epsilon is None else within_budget(worst, max_epsilon)
    found = _accounted(course, sight, chosen, noise_multiplier=noise_multiplier, delta=delta)
    written, failure = _written(found, output, json=json)
    _print(found, chosen, written, json=json)
    try:
        if found.reached is None:
            if plot is not None:
                from sottovoce.report import plot_account

                say_written(plot_account(found.tables[0], plot))
            report_account(
                report,
                found.tables,
                chosen,
                title=f"Account of {Path(graph).name}",
                inputs=(graph, *files_of(sight.doing)),
                max_epsilon=max_epsilon,
            )
    except FileError as error:
        failure = failure or error
    if failure is not None:
        raise failure
    largest = float(found.tables[0].epsilon_upper.max())
    code = 0 if max_epsilon is None else within_budget(largest, max_epsilon)
    if found.reached is None:
        return code
    drawn = " and no report or figure is drawn" if report or plot else ""
    complain(
        f"interrupted: what was finished is shown{drawn}; a worse pair may be missing (sottovoce sweep can go on)"
    )
    return 130


def _sampled(
    course: Course,
    sight: AnySight,
    chosen: WeightedGraph,
    *,
    noise_multiplier: float,
    delta: float,
    json: bool,
) -> float:
    """Show the number of each view where records take part by coins; the largest of them."""
    found = [
        sampled(course, each, chosen, noise_multiplier=noise_multiplier, delta=delta)
        for each in sight.sights()
    ]
    found.sort(key=lambda one: (-one.epsilon(), one.view))
    show_sampled(found, chosen, json=json)
    return found[0].epsilon()


def _accounted(
    course: Course, sight: AnySight, chosen: WeightedGraph, *, noise_multiplier: float, delta: float
) -> Accounted:
    """The tables of all views that are asked for, or of what was finished when an interrupt came."""
    from sottovoce.accounting import Interrupted

    sights = sight.sights()
    tables: list[AccountTable] = []
    reached = None
    try:
        # One after the other: an interrupt leaves those that are done.
        tables.extend(
            accounted(course, each, chosen, noise_multiplier=noise_multiplier, delta=delta) for each in sights
        )
    except Interrupted as stop:
        reached = f"Interrupted: {len(stop.table)} of {stop.pairs} pairs of {stop.table.view} are computed"
        tables.append(stop.table)
    except KeyboardInterrupt:
        if not tables:
            raise
        reached = f"Interrupted: no pair of {sights[len(tables)].view} is computed"
    if reached is not None:
        left = [each.view for each in sights[len(tables) :]]
        missing = f", none of {left[0]}" if left and not reached.startswith("Interrupted: no ") else ""
        reached = f"{reached}{missing}; the worst may be higher than what follows."
    # Of equals the view that shows more leads.
    tables.sort(key=lambda table: (-float(table.epsilon_upper.max()), table.view))
    return Accounted(tables=tables, reached=reached)


def _written(found: Accounted, output: Path | None, *, json: bool) -> tuple[Path | None, FileError | None]:
    """The file that now holds every pair, if there is one; a failure waits until the result is shown.

    What an interrupt left gets a name that says so: the file that was asked for is whole, or as it was before.
    """
    from sottovoce import documents

    try:
        if output is not None:
            place = output if found.reached is None else interrupted_name(output)
            return documents.write_account_csv(found.tables, place), None
        if json and not all(map(documents.fits_json, found.tables)):
            return documents.write_named_account_csv(found.tables), None
    except FileError as failure:
        return None, failure
    return None, None


def _print(found: Accounted, chosen: WeightedGraph, written: Path | None, *, json: bool) -> None:
    """Show the tables as JSON or as text."""
    from sottovoce import documents

    if not json:
        from sottovoce.cli.tables import account_text

        with result_page() as console:
            account_text(console, found, chosen, written)
        return
    pairs_file = None if written is None else str(written)
    first, *others = found.tables
    document = documents.account_document(
        first,
        chosen,
        beside=others,
        pairs_file=pairs_file,
        interrupted=found.reached,
        command=typed_command(),
    )
    write_result(documents.as_json(document))


def _check_pictures(report: Path | None, plot: Path | None) -> None:
    """Refuse paths that could not be written, before any work."""
    check_report(report)
    if plot is not None:
        from sottovoce.report import check_plot_path

        check_plot_path(plot)
