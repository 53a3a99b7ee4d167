# SPDX-License-Identifier: Apache-2.0
"""`sottovoce coalition`: the nodes that together learn most about a target."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from sottovoce.cli.options import (
    AS_TEXT,
    GOSSIP,
    Course,
    Delta,
    Doing,
    Shown,
    Sight,
    Source,
    network,
    scenario_of,
    whole_number,
)
from sottovoce.cli.printing import as_given, complain, progress, result_page, write_result
from sottovoce.cli.reporting import check_report, files_of, report_answer
from sottovoce.errors import InputError, at_least, positive, probability

__all__ = ["EXAMPLE", "USAGE", "coalition"]

EXAMPLE = "sottovoce coalition karate --target 11 --size 2 --rounds 20 --view coalition-sums"
USAGE = "sottovoce coalition GRAPH --target STR --size INT --rounds INT --view VIEW [OPTIONS]"


def coalition(
    graph: Source,
    /,
    *,
    target: Annotated[str, Parameter(help="Name of the node to protect; it is never a member.")],
    size: Annotated[
        int, Parameter(help="How many nodes pool what they see; 1 for an observer.", converter=whole_number)
    ],
    view: Annotated[
        Literal["coalition-sums", "coalition-messages"],
        Parameter(help="What members see: the weighted sums that they receive, or each message."),
    ],
    noise_multiplier: Annotated[
        float | None,
        Parameter(
            help="Standard deviation of each node's noise, in units of the clipping norm. Without it no ε "
            "is given.",
            show_default=False,
        ),
    ] = None,
    delta: Delta = 1e-5,
    doing: Doing = GOSSIP,
    course: Course,
    time_limit: Annotated[
        float,
        Parameter(
            help="Seconds after which the best coalition so far is shown, with what is proved by then; inf "
            "for no limit."
        ),
    ] = 60.0,
    shown: Shown = AS_TEXT,
) -> int:
    """Find the coalition that learns most about a target, and bound what any coalition of its size learns.

    Ctrl-C ends the search like the time limit: what is found and proved by then is shown, with exit code 130.
    """
    at_least(1, **{"--size": size})
    probability(delta=delta)
    if noise_multiplier is not None:
        positive(noise_multiplier=noise_multiplier)
    if not time_limit >= 0:
        raise InputError(
            f"--time-limit must be a number of seconds of at least 0; got {as_given(time_limit)} "
            "(inf for no limit)"
        )
    check_report(shown.report)
    chosen = network(graph, doing.weights, doing.protocol)

    from sottovoce.coalitions import worst_coalition

    asked = scenario_of(chosen, Sight(view=view, target=(target,), doing=doing), course, searched=True)
    effort = course.spending.effort_of()
    with progress("coalitions") as callback:
        found = worst_coalition(asked, size=size, time_limit=time_limit, effort=effort, progress=callback)
    from sottovoce.documents import as_json, coalition_document

    document = coalition_document(
        found,
        chosen,
        noise_multiplier=noise_multiplier,
        delta=delta,
        relation=course.relation,
    )
    if shown.json:
        write_result(as_json(document))
    else:
        from sottovoce.cli.coalition_tables import coalition_text

        with result_page() as console:
            coalition_text(console, found, document, time_limit)
    report_answer(
        shown.report,
        document,
        title=f"Worst coalition of {size} on {Path(graph).name}",
        inputs=(graph, *files_of(doing)),
    )
    if found.stopped == "interrupted":
        complain("interrupted: the best coalition so far is shown, and what is proved by now")
        return 130
    return 0
