# SPDX-License-Identifier: Apache-2.0
"""`reproduce`: what it writes, what it keeps, what it refuses."""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path
from typing import Any

import pytest
from tests.studies.small import TINY

from sottovoce import report, reproductions
from sottovoce.documents.studies import read_study_record, read_study_table
from sottovoce.errors import FileError, InputError
from sottovoce.report import figures, report_html
from sottovoce.report.page import MARKS, PAPER
from sottovoce.studies import STUDIES, Study, catalogue

NAMES = ("errata-e", "errata-g")
EMPTY = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"></svg>'


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two studies in the smallest size, which note that they were run."""
    runs: list[str] = []

    def noting(study: Study) -> Study:
        def run(config: Any, progress: Any) -> Any:
            runs.append(study.name)
            return study.run(config, progress)

        return dataclasses.replace(study, quick=TINY[study.name], run=run)

    few = tuple(noting(study) for study in STUDIES if study.name in NAMES)
    monkeypatch.setattr(catalogue, "STUDIES", few)
    monkeypatch.setattr(reproductions, "STUDIES", few)
    return runs


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures that are there, and take no time."""
    monkeypatch.setattr(figures, "drawn", lambda *_: None)
    monkeypatch.setattr(figures, "figure_bytes", lambda _, form: EMPTY if form == "svg" else b"\x89PNG")


def test_everything_is_written(small: list[str], tmp_path: Path) -> None:
    heard: list[tuple[int, int]] = []
    done = reproductions.reproduce(tmp_path / "paper", quick=True, progress=lambda *step: heard.append(step))
    assert small == list(NAMES)
    assert done.kept == ()
    for name in NAMES:
        for ending in ("svg", "png", "csv"):
            assert (done.folder / f"{name}.{ending}").stat().st_size > 100
        record = read_study_record(done.folder / "records" / f"{name}.json")
        assert record is not None
        assert record.findings == next(x for x in done.records if x.study == name).findings
    assert read_study_table(done.folder / "errata-g.csv").columns[0] == "rule"
    page = done.page.read_text(encoding="utf-8")
    assert all(f'id="{name}"' in page for name in NAMES)
    assert heard[-1] == (200, 200)
    assert heard == sorted(heard)
    assert not [path for path in done.folder.iterdir() if path.name.startswith(".")]


@pytest.mark.usefixtures("undrawn")
def test_finished_studies_are_kept_and_others_run_again(small: list[str], tmp_path: Path) -> None:
    reproductions.reproduce(tmp_path / "paper", quick=True)
    small.clear()
    assert reproductions.reproduce(tmp_path / "paper", quick=True).kept == NAMES
    assert small == []
    (tmp_path / "paper" / "errata-g.png").unlink()
    assert reproductions.reproduce(tmp_path / "paper", quick=True).kept == ("errata-e",)
    assert small == ["errata-g"]


@pytest.mark.usefixtures("undrawn")
def test_other_settings_run_again(small: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reproductions.reproduce(tmp_path / "paper", quick=True)
    changed = tuple(
        dataclasses.replace(study, quick=dataclasses.replace(study.quick, rounds=60))
        if study.name == "errata-e"
        else study
        for study in catalogue.STUDIES
    )
    monkeypatch.setattr(catalogue, "STUDIES", changed)
    small.clear()
    assert reproductions.reproduce(tmp_path / "paper", quick=True).kept == ("errata-g",)
    assert small == ["errata-e"]


@pytest.mark.usefixtures("undrawn")
def test_an_interrupted_run_goes_on(
    small: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = catalogue.STUDIES

    def interrupted(*_: object) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(catalogue, "STUDIES", (whole[0], dataclasses.replace(whole[1], run=interrupted)))
    with pytest.raises(KeyboardInterrupt):
        reproductions.reproduce(tmp_path / "paper", quick=True)
    assert 'id="errata-e"' in (tmp_path / "paper" / "index.html").read_text(encoding="utf-8")
    monkeypatch.setattr(catalogue, "STUDIES", whole)
    small.clear()
    assert reproductions.reproduce(tmp_path / "paper", quick=True).kept == ("errata-e",)
    assert small == ["errata-g"]


@pytest.mark.usefixtures("undrawn")
def test_a_damaged_record_is_no_record(small: list[str], tmp_path: Path) -> None:
    reproductions.reproduce(tmp_path / "paper", quick=True)
    small.clear()
    for text in ("{", '{"schema": 9}', '{"schema": 1, "findings": [{}], "files": []}', "[]"):
        (tmp_path / "paper" / "records" / "errata-e.json").write_text(text)
        assert reproductions.reproduce(tmp_path / "paper", quick=True).kept == ("errata-g",)
    assert small == ["errata-e"] * 4


@pytest.mark.usefixtures("small")
def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(FileError, match=r"something else lies there \(choose a new or an empty folder\)"):
        reproductions.reproduce(tmp_path, quick=True)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    with pytest.raises(FileError, match="cannot be used"):
        reproductions.reproduce(tmp_path / "thesis.txt", quick=True)


def test_without_matplotlib_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "matplotlib" else find(name, *rest)
    )
    with pytest.raises(InputError, match=r"drawing needs the package matplotlib.*pip install '\.\[plot\]'"):
        reproductions.reproduce(tmp_path / "paper")
    assert not (tmp_path / "paper").exists()


@pytest.mark.usefixtures("small", "undrawn")
def test_a_full_disk_leaves_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(FileError, match="No space left on device"):
        reproductions.reproduce(tmp_path / "paper", quick=True)
    assert [path.name for path in (tmp_path / "paper").iterdir()] == ["records"]


@pytest.mark.usefixtures("undrawn")
def test_a_report_has_an_overview_of_verdicts_that_leads_to_each_study(
    small: list[str], tmp_path: Path
) -> None:
    done = reproductions.reproduce(tmp_path / "paper", quick=True)
    assert small == list(NAMES)
    text = report_html(title="The paper", sections=report.reproduction_sections(done.records, done.folder))
    assert PAPER in text
    assert PAPER in done.page.read_text(encoding="utf-8")
    overview = text[text.index("<h2>Overview</h2>") : text.index('<section class="panel" id="study-')]
    for record in done.records:
        assert f'<a href="#study-{record.study}">' in overview
        assert text.count(f' id="study-{record.study}"') == 1
        given = [finding.verdict for finding in record.findings]
        for verdict in set(given):
            kind = {"holds": "holds", "holds in part": "in-part"}.get(verdict, "fails")
            assert (
                f'<span class="{kind}">{MARKS[verdict]} {given.count(verdict)} × {verdict}</span>' in overview
            )
