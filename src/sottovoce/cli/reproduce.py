# SPDX-License-Identifier: Apache-2.0
"""`sottovoce reproduce`: the paper's figures and claims, run, drawn and judged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from sottovoce.cli.options import Config, Json, ReportOption  # noqa: TC001 - the parser reads them
from sottovoce.cli.outputs import refuse_clashes
from sottovoce.cli.printing import complain, progress, readable, write_result
from sottovoce.cli.reporting import check_report, say_written

if TYPE_CHECKING:
    from sottovoce.reproductions import Reproduction

__all__ = ["EXAMPLE", "USAGE", "reproduce"]

EXAMPLE = "sottovoce reproduce figure-2 --quick --output paper"
USAGE = "sottovoce reproduce [PART] [OPTIONS]"


def reproduce(
    part: Annotated[
        Literal["figure-1", "figure-2", "strengths", "errata", "utility", "training", "protocols", "all"],
        Parameter(
            help="Which part: a figure, where the paper is right, where it is not, what utility is left, "
            "what is certified of training, other protocols, or all."
        ),
    ] = "all",
    /,
    *,
    quick: Annotated[
        bool, Parameter(help="Run every study in a small size: seconds instead of minutes.")
    ] = False,
    output: Annotated[
        Path,
        Parameter(
            help="The folder for pictures, tables and the page; studies finished there before are kept."
        ),
    ] = Path("reproduction"),
    report: ReportOption = None,
    json: Json = False,
    config: Config = None,  # noqa: ARG001 - the defaults are read before the command runs
) -> int:
    """Run the paper's claims again and write figures, tables and a page that says where each holds."""
    from sottovoce.reproductions import PAGE
    from sottovoce.reproductions import reproduce as run_studies

    check_report(report)
    if report is not None:
        refuse_clashes([("the page in --output", str(output / PAGE)), ("--report", str(report))], [])
    try:
        with progress("studies") as callback:
            done = run_studies(output, part, quick=quick, progress=callback)
    except KeyboardInterrupt:
        complain(f"interrupted: finished studies are in {output} (the same command goes on from there)")
        return 130
    if json:
        from sottovoce.documents import as_json
        from sottovoce.documents.studies import reproduction_document

        write_result(as_json(reproduction_document(done.records, done.kept, done.page)))
    else:
        write_result(_text(done))
    if report is not None:
        from sottovoce.report import reproduction_sections, write_report

        sections = reproduction_sections(done.records, done.folder)
        write_report(report, title="The paper, claim by claim", sections=sections)
        say_written(report)
    return 0


def _text(done: Reproduction) -> str:
    """One line a study with its verdicts, and where the page is."""
    lines = []
    for record in done.records:
        verdicts = [finding.verdict for finding in record.findings]
        counted = ", ".join(f"{verdicts.count(x)} × {x}" for x in dict.fromkeys(verdicts))
        before = " (from before)" if record.study in done.kept else ""
        lines.append(f"{record.study:<16}{counted}{before}\n")
    return "".join(lines) + f"page: {readable(done.page)}\n"
