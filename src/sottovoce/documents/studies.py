# SPDX-License-Identifier: Apache-2.0
"""The files of a study: its table as CSV, and a record of what was run, found and drawn."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sottovoce._version import __version__
from sottovoce.documents.files import check_path, write_whole
from sottovoce.errors import FileError
from sottovoce.studies.results import Finding, Table

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

__all__ = [
    "StudyRecord",
    "read_study_record",
    "read_study_table",
    "reproduction_document",
    "settings_of",
    "write_study_record",
    "write_study_table",
]

SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class StudyRecord:
    """What is kept of a finished study: its settings, findings and files, and whether they are of the quick size."""

    study: str
    title: str
    settings: dict[str, Any]
    findings: tuple[Finding, ...]
    files: tuple[str, ...]
    quick: bool = False
    version: str = __version__


def settings_of(config: object) -> dict[str, Any]:
    """A study's configuration as JSON holds it."""
    settings: dict[str, Any] = json.loads(json.dumps(asdict(config)))  # type: ignore[call-overload]
    return settings


def write_study_table(table: Table, path: str | os.PathLike[str]) -> Path:
    """Write a study's table as CSV, numbers with every digit, whole or not at all."""
    file = check_path(path, (".csv",), "the table of a study")
    return write_whole(_lines(table), file.parent, lambda _: file.name)


def read_study_table(path: str | os.PathLike[str]) -> Table:
    """A study's table from its CSV file; cells that spell numbers are numbers."""
    file = Path(path)
    try:
        with file.open(newline="", encoding="utf-8") as stream:
            columns, *rows = csv.reader(stream)
    except (OSError, UnicodeDecodeError, ValueError, csv.Error) as error:
        raise FileError(f"{file}: cannot be read as a table: {error} (reproduce it again)") from None
    return Table(columns=tuple(columns), rows=tuple(tuple(map(_cell, row)) for row in rows))


def write_study_record(record: StudyRecord, path: str | os.PathLike[str]) -> Path:
    """Write a study's record as JSON, whole or not at all."""
    file = check_path(path, (".json",), "the record of a study")
    text = json.dumps({"schema": SCHEMA, **asdict(record)}, indent=2, ensure_ascii=False)
    return write_whole([text, "\n"], file.parent, lambda _: file.name)


def read_study_record(path: str | os.PathLike[str]) -> StudyRecord | None:
    """The record of a finished study; None where there is none, or one that cannot be used."""
    try:
        facts = json.loads(Path(path).read_text(encoding="utf-8"))
        if facts.pop("schema") != SCHEMA:
            return None
        findings = tuple(Finding(**finding) for finding in facts.pop("findings"))
        return StudyRecord(findings=findings, files=tuple(facts.pop("files")), **facts)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def reproduction_document(
    records: Sequence[StudyRecord], kept: Sequence[str], page: str | os.PathLike[str]
) -> dict[str, Any]:
    """The JSON object of a reproduction: every study with its settings and findings, and where the page is."""
    return {
        "schema": SCHEMA,
        "version": __version__,
        "page": str(page),
        "kept": list(kept),
        "studies": [
            {
                "study": record.study,
                "title": record.title,
                "quick": record.quick,
                "settings": record.settings,
                "findings": [asdict(finding) for finding in record.findings],
                "files": list(record.files),
            }
            for record in records
        ],
    }


def _lines(table: Table) -> Iterator[str]:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.rows)
    yield buffer.getvalue()


def _cell(text: str) -> str | int | float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
