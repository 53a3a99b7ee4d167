# SPDX-License-Identifier: Apache-2.0
"""`sottovoce rate`: what every target gives away a round, in the long run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sottovoce.cli.options import (
    PAIRS_AS_TEXT,
    Course,
    ShownPairs,
    Sight,
    Source,
    Spending,
    Tolerance,
    network,
    scenario_of,
)
from sottovoce.cli.printing import progress, result_page, write_result
from sottovoce.cli.reporting import check_report, files_of, report_answer
from sottovoce.errors import FileError

if TYPE_CHECKING:
    from sottovoce.graphs import WeightedGraph
    from sottovoce.rates import RateTable
    from sottovoce.scenarios import Effort

__all__ = ["EXAMPLE", "USAGE", "rate"]

EXAMPLE = "sottovoce rate karate --view secure-sum --observer 3"
USAGE = "sottovoce rate GRAPH --view VIEW [OPTIONS]"


def rate(
    graph: Source,
    /,
    *,
    sight: Sight,
    tolerance: Tolerance = None,
    shown: ShownPairs = PAIRS_AS_TEXT,
) -> int:
    """Say by how much Δ² grows in each round, in the long run, for each observer and target."""
    from sottovoce import documents

    if shown.output is not None:
        documents.check_csv_path(shown.output)
    check_report(shown.report)
    chosen = network(graph, sight.doing.weights, sight.doing.protocol)
    table = _table(sight, chosen, Spending(tolerance=tolerance).effort_of())
    written, failure = _written(table, shown)
    pairs_file = None if written is None else str(written)
    if shown.json:
        document = documents.rate_document(table, chosen, pairs_file=pairs_file)
        write_result(documents.as_json(document))
    else:
        from sottovoce.cli.rate_tables import rate_text

        with result_page() as console:
            rate_text(console, table, chosen, written)
    if shown.report is not None:
        report_answer(
            shown.report,
            documents.rate_document(table, chosen, pairs_file=pairs_file),
            title=f"Rates of {Path(graph).name}",
            inputs=(graph, *files_of(sight.doing)),
        )
    if failure is not None:
        raise failure
    return 0


def _table(sight: Sight, network: WeightedGraph, effort: Effort) -> RateTable:
    """The rates of every view that is asked for."""
    from sottovoce import rates
    from sottovoce.rates import RateTable

    scenario = scenario_of(network, sight, Course(rounds=1))
    asked = [scenario] if len(sight.observer) == 1 else scenario.each()
    alone = len(asked) == 1
    found = []
    with progress("targets" if alone else "observers") as callback:
        for done, one in enumerate(asked, start=1):
            found.append(rates.rate(one, effort=effort, progress=callback if alone else None))
            if callback is not None and not alone:
                callback(done, len(asked))
    return RateTable(found=found)


def _written(table: RateTable, shown: ShownPairs) -> tuple[Path | None, FileError | None]:
    """The file that now holds every pair, if there is one; a failure waits until the result is shown."""
    from sottovoce import documents

    try:
        if shown.output is not None:
            return documents.write_rate_csv(table, shown.output), None
        if shown.json and not documents.fits_json(table):
            return documents.write_named_rate_csv(table), None
    except FileError as failure:
        return None, failure
    return None, None
