# SPDX-License-Identifier: Apache-2.0
"""`sottovoce rate`: what every target gives away a round, in the long run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.cli.options import Config, Json, Output, ReportOption, Sight, Source, network, scenario_of
from sottovoce.cli.printing import progress, result_page, write_result
from sottovoce.cli.reporting import check_report, files_of, report_answer
from sottovoce.errors import FileError

if TYPE_CHECKING:
    from sottovoce.cli.options import Network
    from sottovoce.rates import RateTable

__all__ = ["EXAMPLE", "USAGE", "rate"]

EXAMPLE = "sottovoce rate karate --view secure-sum --observer 3"
USAGE = "sottovoce rate GRAPH --view VIEW [OPTIONS]"


def rate(
    graph: Source,
    /,
    *,
    sight: Sight,
    json: Json = False,
    output: Output = None,
    report: ReportOption = None,
    config: Config = None,  # noqa: ARG001 - the defaults are read before the command runs
) -> int:
    """Say by how much Δ² grows in each round, in the long run, for each observer and target."""
    from sottovoce import documents
    from sottovoce.graphs import spectrum

    if output is not None:
        documents.check_csv_path(output)
    check_report(report)
    chosen = network(graph, sight.doing.weights)
    table = _table(sight, chosen)
    found = spectrum(chosen.weights)
    written, failure = _written(table, output, json=json)
    pairs_file = None if written is None else str(written)
    if json:
        document = documents.rate_document(table, chosen.graph, found, pairs_file=pairs_file)
        write_result(documents.as_json(document))
    else:
        from sottovoce.cli.rate_tables import rate_text

        with result_page() as console:
            rate_text(console, table, found, chosen.graph, written)
    if report is not None:
        report_answer(
            report,
            documents.rate_document(table, chosen.graph, found, pairs_file=pairs_file),
            title=f"Rates of {Path(graph).name}",
            inputs=(graph, *files_of(sight.doing)),
        )
    if failure is not None:
        raise failure
    return 0


def _table(sight: Sight, network: Network) -> RateTable:
    """The rates of every view that is asked for."""
    from sottovoce import rates
    from sottovoce.rates import RateTable

    scenario = scenario_of(network, sight, rounds=1)
    asked = [scenario] if len(sight.observer) == 1 else scenario.each()
    alone = len(asked) == 1
    found = []
    with progress("targets" if alone else "observers") as callback:
        for done, one in enumerate(asked, start=1):
            found.append(rates.rate(one, progress=callback if alone else None))
            if callback is not None and not alone:
                callback(done, len(asked))
    return RateTable(found=found)


def _written(table: RateTable, output: Path | None, *, json: bool) -> tuple[Path | None, FileError | None]:
    """The file that now holds every pair, if there is one; a failure waits until the result is shown."""
    from sottovoce import documents

    try:
        if output is not None:
            return documents.write_rate_csv(table, output), None
        if json and not documents.fits_json(table):
            return documents.write_named_rate_csv(table), None
    except FileError as failure:
        return None, failure
    return None, None
