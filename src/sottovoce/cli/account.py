# SPDX-License-Identifier: Apache-2.0
"""`sottovoce account`: how much every observer can learn about every target."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sottovoce.cli.options import (
    Config,
    Delta,
    Json,
    MaxEpsilon,
    NoiseMultiplier,
    Output,
    ReportOption,
    Scenario,
    Source,
    account_scenario,
    network,
)
from sottovoce.cli.printing import plain_text, progress, result_page, within_budget, write_result
from sottovoce.errors import FileError, positive

if TYPE_CHECKING:
    from sottovoce.accounting import AccountTable
    from sottovoce.cli.options import Network
    from sottovoce.graphs import Spectrum

__all__ = ["EXAMPLE", "USAGE", "account"]

EXAMPLE = "sottovoce account karate --rounds 100 --noise-multiplier 4 --observer 3"
USAGE = "sottovoce account GRAPH --rounds INT --noise-multiplier FLOAT [OPTIONS]"


def account(
    graph: Source,
    /,
    *,
    scenario: Scenario,
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
    """Say what each observer can learn about each target, as a certified (ε, δ)."""
    from sottovoce.documents import check_csv_path
    from sottovoce.graphs import spectrum

    if max_epsilon is not None:
        positive(max_epsilon=max_epsilon)
    if output is not None:
        check_csv_path(output)
    _check_pictures(report, plot)
    chosen = network(graph, scenario.sight.weights)
    table = account_scenario(scenario, chosen, noise_multiplier=noise_multiplier, delta=delta)
    written, failure = _written(table, output, json=json)
    found = spectrum(chosen.weights)
    _print(table, chosen, found, written, json=json)
    try:
        _draw(table, chosen, found, Path(graph).name, report, plot)
    except FileError as error:
        failure = failure or error
    if failure is not None:
        raise failure
    return 0 if max_epsilon is None else within_budget(float(table.epsilon_upper.max()), max_epsilon)


def _written(table: AccountTable, output: Path | None, *, json: bool) -> tuple[Path | None, FileError | None]:
    """The file that now holds every pair, if there is one; a failure waits until the result is shown."""
    from sottovoce import documents

    try:
        if output is not None:
            return documents.write_account_csv(table, output), None
        if json and not documents.fits_json(table):
            return documents.write_named_account_csv(table), None
    except FileError as failure:
        return None, failure
    return None, None


def _print(
    table: AccountTable, chosen: Network, found: Spectrum, written: Path | None, *, json: bool
) -> None:
    """Show the table as JSON or as text."""
    from sottovoce import documents

    if not json:
        from sottovoce.cli.tables import account_text

        with result_page() as console:
            account_text(console, table, found, chosen.graph, written)
        return
    pairs_file = None if written is None else str(written)
    document = documents.account_document(table, chosen.graph, found, pairs_file=pairs_file)
    write_result(documents.as_json(document))


def _check_pictures(report: Path | None, plot: Path | None) -> None:
    """Refuse paths that could not be written, before any work."""
    if report is not None:
        from sottovoce.report.html import check_report_path

        check_report_path(report)
    if plot is not None:
        from sottovoce.report.accounts import check_plot_path

        check_plot_path(plot)


def _draw(
    table: AccountTable, chosen: Network, found: Spectrum, name: str, report: Path | None, plot: Path | None
) -> None:
    """Write the report and the figure that were asked for."""
    if plot is not None:
        from sottovoce.report.accounts import plot_account

        plot_account(table, plot)
    if report is not None:
        from sottovoce.documents import page_document
        from sottovoce.report.curves import table_curves
        from sottovoce.report.html import Section, write_report

        with progress("curves") as callback:
            curves = table_curves(table, progress=callback)
        write_report(
            report,
            title=f"Account of {name}",
            account=page_document(table, chosen.graph, found, curves=curves),
            sections=[Section(heading="Summary", printed=_summary(table, chosen, found))],
        )


def _summary(table: AccountTable, chosen: Network, found: Spectrum) -> str:
    """What the command prints, as plain text."""
    from sottovoce.cli.tables import account_text

    return plain_text(lambda console: account_text(console, table, found, chosen.graph, None))
