# SPDX-License-Identifier: Apache-2.0
"""The report as a file: complete in itself, closed to everything else, whole or not there."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from sottovoce.errors import FileError, InputError
from sottovoce.page import FOLDER, INDEX, SCRIPTS, STYLE
from sottovoce.report.html import Section, check_report_path, report_html, write_report

if TYPE_CHECKING:
    from pathlib import Path


def test_all_that_the_page_needs_is_inside() -> None:
    text = report_html(title="t")
    for name in (STYLE, *SCRIPTS):
        assert FOLDER.joinpath(name).read_text(encoding="utf-8") in text
    assert not re.search(
        r"""(src|href)=["'](?!data:|#)""", re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    )
    assert "@import" not in text
    assert "url(" not in FOLDER.joinpath(STYLE).read_text(encoding="utf-8")


def test_the_policy_lets_exactly_the_scripts_and_the_style_in() -> None:
    text = report_html(title="t")
    found = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert found is not None
    rules = dict(rule.strip().split(" ", 1) for rule in found[1].split(";"))
    assert rules["default-src"] == "'none'"
    scripts = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    style = re.findall(r"<style[^>]*>(.*?)</style>", text, flags=re.DOTALL)
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(each.encode()).digest()).decode()}'"
        for each in scripts + style
    ]
    assert len(scripts) == len(SCRIPTS)
    assert rules["script-src"].split() + rules["style-src"].split() == hashes
    assert "unsafe" not in found[1]
    assert "connect-src" not in rules


def test_text_is_escaped_wherever_it_goes() -> None:
    evil = "</script><script>alert(1)</script>"
    section = Section(heading=evil, text=evil, columns=(evil,), rows=[(evil,)], anchor=evil)
    page: Any = {"name": evil}
    text = report_html(title=evil, account=page, sections=[section])
    assert "<script>alert(1)" not in text
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, flags=re.DOTALL)
    assert data is not None
    assert json.loads(data[1]) == {"name": evil}


def test_a_report_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = write_report(tmp_path / "r.html", title="first")
    page: Any = {"x": float("nan")}
    with pytest.raises(ValueError, match="Out of range float"):
        write_report(path, title="second", account=page)
    assert "<title>first</title>" in path.read_text(encoding="utf-8")
    assert [each.name for each in tmp_path.iterdir()] == ["r.html"]


def test_a_path_that_cannot_hold_a_report_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"a report is written to a file that ends in \.html \(rename it\)"):
        check_report_path(tmp_path / "r.txt")
    with pytest.raises(FileError, match="there is no directory"):
        write_report(tmp_path / "nowhere" / "r.html", title="t")


def test_a_figure_without_words_and_a_short_row_are_refused() -> None:
    with pytest.raises(InputError, match="a figure needs figure_text, which says what it shows"):
        Section(heading="x", figure="<svg/>")
    with pytest.raises(InputError, match="has 2 columns and a row of 1"):
        Section(heading="x", columns=("a", "b"), rows=[(1,)])


def test_the_page_names_files_that_are_there() -> None:
    names = {INDEX, STYLE, *SCRIPTS}
    assert all(FOLDER.joinpath(name).is_file() for name in names)
    kept = {each.name for each in FOLDER.iterdir() if each.name.endswith((".js", ".css", ".html"))}
    assert kept == {name for name in names if "/" not in name}
    assert "MIT" in FOLDER.joinpath(
        "vendor/cytoscape.LICENSE.txt"
    ).read_text() or "Permission is hereby granted" in (
        FOLDER.joinpath("vendor/cytoscape.LICENSE.txt").read_text()
    )
