# SPDX-License-Identifier: Apache-2.0
"""`sottovoce calibrate`: the least noise that keeps every pair within a budget."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from sottovoce.cli.options import (
    PAIRS_AS_TEXT,
    Course,
    ShownPairs,
    Sight,
    Source,
    accounted,
    network,
)
from sottovoce.cli.printing import result_page, typed_command, write_result
from sottovoce.cli.reporting import check_report, files_of, report_account
from sottovoce.cli.sampled import asks_coins, sampled, show_sampled
from sottovoce.errors import FileError, positive, probability

__all__ = ["EXAMPLE", "USAGE", "calibrate"]

EXAMPLE = "sottovoce calibrate karate --rounds 100 --view neighbourhood --target-epsilon 1"
USAGE = "sottovoce calibrate GRAPH --rounds INT --view VIEW --target-epsilon FLOAT [OPTIONS]"


def calibrate(
    graph: Source,
    /,
    *,
    sight: Sight,
    course: Course,
    target_epsilon: Annotated[float, Parameter(help="The ε that no pair may exceed.")],
    target_delta: Annotated[float, Parameter(help="The δ at which that ε is meant.")] = 1e-5,
    shown: ShownPairs = PAIRS_AS_TEXT,
) -> int:
    """Find the noise multiplier that keeps every pair within (target ε, target δ)."""
    from sottovoce import documents

    positive(target_epsilon=target_epsilon)
    probability(target_delta=target_delta)
    if shown.output is not None:
        documents.check_csv_path(shown.output)
    check_report(shown.report)
    chosen = network(graph, sight.doing.weights, sight.doing.protocol)
    if asks_coins(course, output=shown.output, report=shown.report):
        from sottovoce.accounting import calibrate_sampled

        once = sampled(course, sight, chosen, noise_multiplier=1.0, delta=target_delta)
        enough = once.with_noise(calibrate_sampled(once, target_epsilon, target_delta))
        show_sampled([enough], chosen, json=shown.json, target_epsilon=target_epsilon)
        return 0
    unit = accounted(course, sight, chosen, noise_multiplier=1.0, delta=target_delta)
    table = unit.with_noise(unit.calibrated_noise(target_epsilon, target_delta))
    failure = None
    try:
        written = documents.write_account_csv([table], shown.output) if shown.output is not None else None
    except FileError as error:
        written, failure = None, error
    if shown.json:
        document = documents.calibration_document(
            table,
            chosen,
            target_epsilon=target_epsilon,
            target_delta=target_delta,
            command=typed_command(),
        )
        write_result(documents.as_json(document))
    else:
        from sottovoce.cli.tables import calibration_text

        with result_page() as console:
            calibration_text(console, table, chosen, written, target_epsilon)
    report_account(
        shown.report,
        [table],
        chosen,
        title=f"Noise that keeps a budget on {Path(graph).name}",
        inputs=(graph, *files_of(sight.doing)),
        max_epsilon=target_epsilon,
    )
    if failure is not None:
        raise failure
    return 0
