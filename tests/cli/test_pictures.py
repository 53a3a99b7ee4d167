# SPDX-License-Identifier: Apache-2.0
"""`sottovoce account --report` and `--plot`."""

import html
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
ACCOUNT = ("account", "ring:n=5", "--rounds", "4", "--noise-multiplier", "3")


def test_a_report_holds_the_number_that_is_printed_and_the_pairs(sottovoce: Run, tmp_path: Path) -> None:
    code, out, err = sottovoce(*ACCOUNT, "--report", "r.html", "--plot", "p.svg")
    assert (code, err) == (0, "sottovoce: wrote p.svg\nsottovoce: wrote r.html\n")
    assert out == sottovoce(*ACCOUNT).out
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    bound = " ".join(out.split()[:3])
    assert bound in html.unescape(text)
    assert (tmp_path / "p.svg").read_text(encoding="utf-8").startswith("<?xml")


@pytest.mark.parametrize(
    ("option", "name", "rule"),
    [("--report", "r.txt", "ends in .html"), ("--plot", "p.gif", "ends in .svg or .png or .pdf")],
)
def test_a_picture_that_cannot_be_written_is_refused_before_the_work(
    option: str, name: str, rule: str, sottovoce: Run
) -> None:
    code, out, err = sottovoce(
        "account", "ring:n=1000", "--rounds", "100000", "--noise-multiplier", "1", option, name
    )
    assert (code, out) == (2, "")
    assert rule in err


def test_letters_that_no_font_has_are_told_once(sottovoce: Run, tmp_path: Path) -> None:
    names = [chr(0x10FFF0 + k) for k in range(3)]
    (tmp_path / "g.csv").write_text("source,target\n" + "".join(f"{name}x,a\n" for name in names))
    asked = ("account", "g.csv", "--rounds", "2", "--noise-multiplier", "3", "--plot", "p.svg")
    code, _, err = sottovoce(*asked)
    assert code == 0
    told = [line for line in err.splitlines() if "no installed font has" in line]
    assert len(told) == 1
    assert "Glyph" not in err
    assert "figures show boxes in their place (install a font" in told[0]
