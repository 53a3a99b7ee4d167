# SPDX-License-Identifier: Apache-2.0
"""The first page of a report, and what becomes of one that was changed."""

import html
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sottovoce import account_all, calibrate, gossip, graphs
from sottovoce.accounting import local_account
from sottovoce.cli import main
from sottovoce.documents import read_report
from sottovoce.explanations import EXPLANATIONS
from sottovoce.interval import rounded_up
from sottovoce.report import says_what_it_carries
from sottovoce.report.drawings import DRAWN, view_drawing
from sottovoce.report.sheet import SHEET_END, SHEET_START
from sottovoce.views import VIEW_NAMES

ACCOUNT = ["account", "ring:n=5", "--rounds", "6", "--noise-multiplier", "4"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sheet(path: Path) -> str:
    """The words of the first page."""
    text = path.read_text(encoding="utf-8")
    assert text.count(SHEET_START) == text.count(SHEET_END) == 1
    start = text.index(SHEET_START)
    words = re.sub(r"<[^>]+>", " ", text[start : text.index(SHEET_END)])
    return " ".join(html.unescape(words).split())


def test_it_answers_what_a_reviewer_asks(here: Path) -> None:
    (here / "net.edgelist").write_text("a b\nb c\nc a\nc d\n", encoding="utf-8")
    words = ["account", "net.edgelist", "--rounds", "6", "--noise-multiplier", "4"]
    assert main([*words, "--max-epsilon", "3", "--report", "r.html"]) == 0
    said = sheet(here / "r.html")
    weights = graphs.metropolis_weights(graphs.as_graph("net.edgelist"))
    protocol = gossip(weights, rounds=6)
    for view in ("neighbourhood", "secure-sum"):
        table = account_all(protocol, view, noise_multiplier=4.0, delta=1e-5)
        assert (
            f"ε ≤ {rounded_up(float(table.epsilon_upper.max()))} assuming oblivious {view}: what node" in said
        )
    local = local_account(protocol, noise_multiplier=4.0, delta=1e-5).epsilon().upper
    assert f"ε ≤ {rounded_up(local)} without any assumption" in said
    assert "Pass : the budget ε ≤ 3 is kept under the assumption oblivious. Without it, too." in said
    assert "command sottovoce account net.edgelist --rounds 6" in said
    assert "file net.edgelist SHA-256 " in said
    assert f"hash {weights.hash}" in said
    assert "Name Date Signature" in said
    assert "to 1, or 1 to" in said


def test_a_budget_that_is_not_kept_says_which_noise_would_do(here: Path) -> None:
    assert main([*ACCOUNT, "--view", "secure-sum", "--max-epsilon", "0.5", "--report", "r.html"]) == 3
    said = sheet(here / "r.html")
    enough = calibrate(
        gossip(graphs.metropolis_weights("ring:n=5"), rounds=6),
        "secure-sum",
        target_epsilon=0.5,
        target_delta=1e-5,
    )
    assert "Fail : ε ≤ 0.5 is not certified under the assumption oblivious." in said
    assert f"A noise multiplier of {rounded_up(enough, 5)} gives ε ≤ 0.5." in said
    assert main([*ACCOUNT, "--view", "secure-sum", "--report", "r.html"]) == 0
    assert "No budget was set (--max-epsilon). A noise multiplier of" in sheet(here / "r.html")


def test_a_part_of_the_pairs_and_an_infinite_number_are_said(here: Path) -> None:
    assert (
        main(
            [*ACCOUNT, "--view", "secure-sum", "--observer", "0", "--max-epsilon", "9", "--report", "r.html"]
        )
        == 0
    )
    assert "assumption oblivious, for the pairs that were computed." in sheet(here / "r.html")
    bare = [
        "--protocol",
        "clean-state:keep=0.5,noise_levels=0",
        "--view",
        "neighbourhood",
        "--max-epsilon",
        "9",
    ]
    assert main([*ACCOUNT, *bare, "--report", "r.html"]) == 3
    said = sheet(here / "r.html")
    assert "ε ≤ ∞ assuming oblivious" in said
    assert "No noise hides some of what is contributed" in said
    assert "without any assumption" not in said


FORGERIES: list[tuple[Callable[[str], str], int, str]] = [
    (lambda text: text.replace("is not certified", "is certified", 1), 3, "the page to be signed is not"),
    (
        lambda text: text.replace(SHEET_START, f"{SHEET_START}</section>{SHEET_START}", 1),
        3,
        "the page to be signed",
    ),
    (
        lambda text: re.sub(r'"max_epsilon":[\d.]+', '"max_epsilon":99.0', text),
        3,
        "the page to be signed is not",
    ),
    (
        lambda text: re.sub(
            r'"local_squared":\{"lower":6.0,"upper":6.0\}', '"local_squared":{"lower":1.0,"upper":1.0}', text
        ),
        2,
        "its Δ² of local DP must be at least 6",
    ),
    (lambda text: text.replace('"sha256":"', '"sha255":"'), 2, "sha255"),
]


@pytest.mark.parametrize(("forge", "code", "reason"), FORGERIES)
def test_a_page_that_does_not_follow_from_what_it_carries_is_not_verified(
    forge: Callable[[str], str], code: int, reason: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "ring.edgelist").write_text("0 1\n1 2\n2 3\n3 4\n4 0\n", encoding="utf-8")
    words = ["account", "ring.edgelist", *ACCOUNT[2:], "--view", "secure-sum", "--max-epsilon", "0.5"]
    assert main([*words, "--report", "r.html"]) == 3
    file = here / "r.html"
    assert main(["verify", "r.html", "--graph", "ring.edgelist"]) == 0
    text = file.read_text(encoding="utf-8")
    assert says_what_it_carries(text, read_report(file).page)
    forged = forge(text)
    assert forged != text
    file.write_text(forged, encoding="utf-8")
    capsys.readouterr()
    assert main(["verify", "r.html", "--graph", "ring.edgelist"]) == code
    assert reason in capsys.readouterr().err


def test_names_cannot_break_out_of_the_page(here: Path) -> None:
    (here / "net.csv").write_text("<b>x</b>,y\ny,z\n", encoding="utf-8")
    assert main(["account", "net.csv", "--rounds", "3", "--noise-multiplier", "4", "--report", "r.html"]) == 0
    text = (here / "r.html").read_text(encoding="utf-8")
    assert "<b>x</b>" not in text


def test_every_view_has_a_drawing_that_is_described() -> None:
    assert set(DRAWN) == set(VIEW_NAMES)
    for view in VIEW_NAMES:
        assert DRAWN[view] in view_drawing(view)
        assert EXPLANATIONS[view].kind == "view"
    assert view_drawing("custom") == ""
