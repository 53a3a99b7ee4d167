# SPDX-License-Identifier: Apache-2.0
"""The page of results: self-contained, well-formed, and nothing of it taken literally."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

from tests.studies.small import pictured, tiny

from sottovoce.documents.accounts import HEAD
from sottovoce.documents.studies import StudyRecord, write_study_table
from sottovoce.report.page import results_page
from sottovoce.studies import Finding, Table

if TYPE_CHECKING:
    from pathlib import Path

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Reader(HTMLParser):
    """Follows the tags and collects ids, links and words."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id" and value:
                self.ids.append(value)
            if name in {"href", "src", "xlink:href"} and value:
                self.links.append(value)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def written(folder: Path, *names: str, findings: tuple[Finding, ...] | None = None) -> Reader:
    records = []
    for name in names:
        result = tiny(name)
        (folder / f"{name}.svg").write_bytes(pictured(name)[1])
        write_study_table(result.table, folder / f"{name}.csv")
        record = StudyRecord(
            **HEAD,
            study=name,
            title=f"Title of {name}",
            settings={"seeds": [1, 2]},
            findings=findings or result.findings,
            files=(f"{name}.svg", f"{name}.csv"),
            quick=name == "errata-g",
        )
        records.append(record)
    page = results_page(records, folder)
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


def test_the_page_is_well_formed_and_needs_nothing_else(tmp_path: Path) -> None:
    reader = written(tmp_path, "errata-smallest", "errata-g", "figure-1")
    assert len(set(reader.ids)) == len(reader.ids)
    inner = [link for link in reader.links if link.startswith("#")]
    assert {link[1:] for link in inner} <= set(reader.ids)
    outer = {link for link in reader.links if not link.startswith("#")}
    assert all((tmp_path / link).is_file() for link in outer)
    text = " ".join(reader.words)
    assert "Title of errata-g" in text
    assert "✗ does not hold" in text
    assert reader.words.count("(quick size)") == 1
    assert re.search(r"1, 2", text)


def test_references_within_a_picture_stay_within_it(tmp_path: Path) -> None:
    written(tmp_path, "errata-e", "errata-g")
    svg = (tmp_path / "errata-e.svg").read_text(encoding="utf-8")
    names = set(re.findall(r"url\(#([\w-]+)\)", svg)) | set(re.findall(r'href="#([\w-]+)"', svg))
    assert names
    reader = written(tmp_path, "errata-e")
    assert {f"errata-e-{name}" for name in names} <= set(reader.ids)


def test_words_are_escaped(tmp_path: Path) -> None:
    finding = Finding(statement="<b>", claim="a < b & c", measured='"x"', verdict="holds in part")
    reader = written(tmp_path, "errata-g", findings=(finding,))
    assert "<b>" in reader.words
    assert "a < b & c" in reader.words


def test_short_tables_are_shown_and_long_ones_linked(tmp_path: Path) -> None:
    reader = written(tmp_path, "errata-g")
    assert "excess risk" in reader.words
    (tmp_path / "errata-g.csv").unlink()
    rows = tuple(("a", k) for k in range(100))
    write_study_table(Table(columns=("long_name", "value"), rows=rows), tmp_path / "errata-g.csv")
    record = StudyRecord(
        **HEAD, study="errata-g", title="t", settings={}, findings=(), files=("errata-g.csv",)
    )
    assert "long name" not in results_page([record], tmp_path)
