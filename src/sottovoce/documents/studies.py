# SPDX-License-Identifier: Apache-2.0
"""The files of a study: its table as CSV, and a record of what was run, found and drawn."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sottovoce.documents.accounts import HEAD, Document
from sottovoce.documents.files import check_path, write_whole
from sottovoce.errors import FileError, InputError
from sottovoce.forms import json_text, read_form, strict_json
from sottovoce.studies import Finding, Table

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

__all__ = [
    "ReproductionDocument",
    "StudyRecord",
    "read_study_record",
    "read_study_table",
    "reproduction_document",
    "settings_of",
    "write_study_record",
    "write_study_table",
]


class StudyRecord(Document, frozen=True, kw_only=True, tag="study"):
    """What is kept of a finished study: its settings, findings and files, and whether they are of the quick size."""

    study: str
    title: str
    quick: bool = False
    settings: dict[str, Any]
    findings: tuple[Finding, ...]
    files: tuple[str, ...]


class ReproductionDocument(Document, frozen=True, kw_only=True, tag="reproduction"):
    """The studies of a reproduction, the names of those that were kept, and where the page is."""

    page: str
    kept: tuple[str, ...]
    studies: tuple[StudyRecord, ...]


def settings_of(config: object) -> dict[str, Any]:
    """A study's configuration as JSON holds it."""
    return read_form(strict_json(json_text(config), "settings"), dict[str, Any], "settings")


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
    text = json_text(record, indent=2, letters=True)
    return write_whole([text, "\n"], file.parent, lambda _: file.name)


def read_study_record(path: str | os.PathLike[str]) -> StudyRecord | None:
    """The record of a finished study; None where there is none, or one that cannot be used."""
    try:
        value = strict_json(Path(path).read_text(encoding="utf-8"), "the record of a study")
        return read_form(value, StudyRecord, "the record of a study")
    except (OSError, UnicodeDecodeError, InputError):
        return None


def reproduction_document(
    records: Sequence[StudyRecord], kept: Sequence[str], page: str | os.PathLike[str]
) -> ReproductionDocument:
    """The document of a reproduction."""
    return ReproductionDocument(**HEAD, page=str(page), kept=tuple(kept), studies=tuple(records))


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
