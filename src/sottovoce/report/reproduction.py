# SPDX-License-Identifier: Apache-2.0
"""The studies of a reproduction as parts of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from sottovoce.report.html import Judged, Linked, Section
from sottovoce.report.page import MARKS, PAPER

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sottovoce.documents.studies import StudyRecord
    from sottovoce.studies import Finding

__all__ = ["reproduction_sections"]


def reproduction_sections(records: Sequence[StudyRecord], folder: Path) -> list[Section]:
    """The parts of a report on studies in a folder: an overview that leads to each, with its picture and findings."""
    findings = [finding for record in records for finding in record.findings]
    studies = "1 study" if len(records) == 1 else f"{len(records)} studies"
    overview = Section(
        heading="Overview",
        text=f"{PAPER}.\n\nClaims of the paper, with what was measured about each. "
        f"{len(findings)} findings in {studies}; statement numbers are those of the compiled paper. "
        "Studies of other protocols name their sources.",
        columns=("study", "findings", "verdicts"),
        rows=[
            *(
                (
                    Linked(record.title, f"study-{record.study}"),
                    len(record.findings),
                    _verdicts(record.findings),
                )
                for record in records
            ),
            ("all", len(findings), _verdicts(findings)),
        ],
    )
    return [overview, *(_study(record, folder) for record in records)]


def _study(record: StudyRecord, folder: Path) -> Section:
    """One study with its picture and its findings."""
    return Section(
        heading=record.title,
        anchor=f"study-{record.study}",
        text="In the quick size." if record.quick else "",
        figure=(folder / f"{record.study}.svg").read_text(encoding="utf-8"),
        figure_text=f"{record.title}: the numbers are in the table {record.study}.csv.",
        columns=("statement", "claim", "measured", "verdict"),
        rows=[(each.statement, each.claim, each.measured, _judged(each.verdict)) for each in record.findings],
    )


def _judged(verdict: str, count: int | None = None) -> Judged:
    """A verdict in words with its mark and colour, and how often it was given."""
    kinds: dict[str, Literal["holds", "in-part"]] = {"holds": "holds", "holds in part": "in-part"}
    words = f"{MARKS[verdict]} {verdict}" if count is None else f"{MARKS[verdict]} {count} × {verdict}"
    return Judged(words, kinds.get(verdict, "fails"))


def _verdicts(findings: Sequence[Finding]) -> list[Judged]:
    """How many findings have which verdict."""
    given = [finding.verdict for finding in findings]
    return [_judged(verdict, given.count(verdict)) for verdict in MARKS if verdict in given]
