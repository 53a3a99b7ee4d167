# SPDX-License-Identifier: Apache-2.0
"""Tables and records of studies go to disk and come back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.studies.small import tiny

from sottovoce import __version__
from sottovoce.documents import as_json
from sottovoce.documents.accounts import HEAD
from sottovoce.documents.studies import (
    StudyRecord,
    read_study_record,
    read_study_table,
    reproduction_document,
    settings_of,
    write_study_record,
    write_study_table,
)
from sottovoce.errors import FileError
from sottovoce.studies import STUDIES, Finding, Table

RECORD = StudyRecord(
    **HEAD,
    study="x",
    title="An x, with δ",
    settings={"rounds": [1, 2]},
    findings=(Finding(statement="Theorem 1", claim="a", measured="b", verdict="holds"),),
    files=("x.svg",),
)


@pytest.mark.parametrize("name", [study.name for study in STUDIES])
def test_tables_come_back_with_every_digit(name: str, tmp_path: Path) -> None:
    table = tiny(name).table
    write_study_table(table, tmp_path / "x.csv")
    assert read_study_table(tmp_path / "x.csv") == table


def test_words_with_commas_and_quotes(tmp_path: Path) -> None:
    table = Table(columns=("a", "b"), rows=(('say "x", y', 1), ("Δ² ≤ 3", 0.1)))
    write_study_table(table, tmp_path / "x.csv")
    assert read_study_table(tmp_path / "x.csv") == table


def test_records_come_back(tmp_path: Path) -> None:
    write_study_record(RECORD, tmp_path / "x.json")
    assert read_study_record(tmp_path / "x.json") == RECORD
    assert json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))["version"] == __version__
    assert read_study_record(tmp_path / "y.json") is None


def test_settings_are_those_of_json() -> None:
    for study in STUDIES:
        settings = settings_of(study.full)
        assert json.loads(json.dumps(settings)) == settings


def test_files_need_their_endings(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"the table of a study is written to a file that ends in \.csv"):
        write_study_table(tiny("errata-g").table, tmp_path / "x.txt")
    with pytest.raises(FileError, match=r"ends in \.json"):
        write_study_record(RECORD, tmp_path / "x.txt")
    with pytest.raises(FileError, match=r"cannot be read as a table.*reproduce it again"):
        read_study_table(tmp_path / "none.csv")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(FileError, match="cannot be read as a table"):
        read_study_table(tmp_path / "empty.csv")


def test_the_document_of_a_reproduction() -> None:
    document = json.loads(as_json(reproduction_document([RECORD], ["x"], Path("paper") / "index.html")))
    assert list(document) == ["kind", "schema", "version", "page", "kept", "studies"]
    assert document["studies"][0]["findings"][0]["verdict"] == "holds"
    assert document["page"] == "paper/index.html"
