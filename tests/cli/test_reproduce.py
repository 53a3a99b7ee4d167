"""`sottovoce reproduce`: folders, exit codes and what a person sees."""

import contextlib
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.interrupts import interrupted_after

from sottovoce.cli import main
from sottovoce.studies import PARTS, catalogue

Run = Callable[..., Any]
QUICK = ("reproduce", "errata", "--quick", "--output", "paper")
FEW = tuple(study for study in catalogue.STUDIES if study.name in {"errata-e", "errata-g"})


@pytest.fixture
def two_studies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "STUDIES", FEW)


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What both studies said and wrote."""
    folder, said = tmp_path_factory.mktemp("reproduced"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said):
        patch.chdir(folder)
        patch.setattr(catalogue, "STUDIES", FEW)
        assert main(QUICK) == 0
    return said.getvalue(), folder / "paper"


@pytest.mark.usefixtures("two_studies")
def test_verdicts_page_and_what_is_kept(sottovoce: Run, paper: tuple[str, Path]) -> None:
    out, folder = paper
    assert out == (
        "errata-e        6 × does not hold, 1 × holds\n"
        "errata-g        1 × does not hold, 2 × holds\n"
        f"page: {Path('paper') / 'index.html'}\n"
    )
    assert "<!doctype html>" in (folder / "index.html").read_text(encoding="utf-8")
    shutil.copytree(folder, "paper")
    assert sottovoce(*QUICK).out.count("(from before)") == 2


@pytest.mark.usefixtures("two_studies")
def test_json_has_every_finding(sottovoce: Run, paper: tuple[str, Path]) -> None:
    shutil.copytree(paper[1], "paper")
    code, out, err = sottovoce(*QUICK, "--json")
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert [study["study"] for study in document["studies"]] == ["errata-e", "errata-g"]
    assert document["studies"][1]["settings"]["nodes"] == 20
    assert len(document["studies"][0]["findings"]) == 7


def test_bad_input_is_one_line(sottovoce: Run) -> None:
    Path("full").mkdir()
    Path("full/thesis.txt").write_text("mine")
    for words, complaint in (
        (("reproduce", "figure-9"), "figure-9"),
        (("reproduce", "figure-2", "--quick", "--output", "full"), "something else lies there"),
    ):
        code, out, err = sottovoce(*words)
        assert (code, out) == (2, "")
        assert complaint in err
        assert err.count("\n") == 1


@pytest.mark.load
def test_an_interrupt_says_how_to_go_on(tmp_path: Path, sottovoce: Run) -> None:
    write, words = "sottovoce.reproductions:write_study_record", ("reproduce", "figure-2", "--quick")
    code, err = interrupted_after(write, *words, "--output", "paper", folder=tmp_path)
    assert code == 130
    assert (
        err == "sottovoce: interrupted: finished studies are in paper (the same command goes on from there)\n"
    )
    assert "(from before)" in sottovoce(*words, "--output", "paper").out


def test_parts_are_those_of_the_studies(sottovoce: Run) -> None:
    words = " ".join(sottovoce("reproduce", "--help").out.split())
    assert all(part in words for part in (*PARTS, "all"))


@pytest.mark.usefixtures("two_studies")
def test_a_report_holds_pictures_and_findings(
    sottovoce: Run, paper: tuple[str, Path], tmp_path: Path
) -> None:
    shutil.copytree(paper[1], tmp_path / "paper")
    report = tmp_path / "paper.html"
    code, _, err = sottovoce(*QUICK[:-1], str(tmp_path / "paper"), "--report", str(report))
    page = report.read_text(encoding="utf-8")
    assert (code, err) == (0, f"sottovoce: wrote {report}\n")
    assert page.count('<svg class="plot"') == 2
    assert "does not hold" in page
    assert sottovoce("verify", str(report)).code == 3
