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
from sottovoce.report.first_pages import SHEET_END, SHEET_START
from sottovoce.views import VIEW_NAMES

RING = "0 1\n1 2\n2 3\n3 4\n4 0\n"
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
    noise = f"{rounded_up(enough, 5)} in the view secure-sum"
    assert f"For ε ≤ 0.5 it takes a noise multiplier of {noise}." in said
    assert main([*ACCOUNT, "--view", "secure-sum", "--report", "r.html"]) == 0
    assert "No budget was set ( --max-epsilon ). For ε ≤ 1 it takes a noise multiplier of" in sheet(
        here / "r.html"
    )


def test_a_part_of_the_pairs_and_an_infinite_number_are_said(here: Path) -> None:
    assert (
        main(
            [*ACCOUNT, "--view", "secure-sum", "--observer", "0", "--max-epsilon", "9", "--report", "r.html"]
        )
        == 0
    )
    assert (
        "assumption oblivious, for the 4 pairs that were computed, out of 20. Without it, too. For ε ≤ 9 it takes"
    ) in sheet(here / "r.html")
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
    (lambda text: text.replace("is not certified", "is certified", 1), 3, "the page is not, to the letter"),
    (
        lambda text: text.replace(SHEET_START, f"{SHEET_START}</section>{SHEET_START}", 1),
        3,
        "the page is not, to the letter",
    ),
    (
        lambda text: re.sub(r'"max_epsilon":[\d.]+', '"max_epsilon":99.0', text),
        3,
        "the page is not, to the letter",
    ),
    (
        lambda text: re.sub(
            r'"local_squared":\{"lower":6.0,"upper":6.0\}', '"local_squared":{"lower":1.0,"upper":1.0}', text
        ),
        2,
        "its Δ² of local DP must be at least 6",
    ),
    (lambda text: text.replace('"sha256":"', '"sha255":"'), 2, "sha255"),
    # What is true stands in the file, and something else is shown.
    (
        lambda text: text.replace(SHEET_START, f"<!--{SHEET_START}").replace(
            SHEET_END, f"{SHEET_END}--><section id='sheet'>Pass: ε ≤ 0.01</section>"
        ),
        3,
        "the page is not, to the letter",
    ),
    (
        lambda text: text.replace("</main>", "</main><p>ε ≤ 0.01</p>", 1),
        3,
        "the page is not, to the letter",
    ),
    (
        lambda text: text.replace("<h2>Proof</h2>", "<h2>Proof</h2><img>", 1),
        3,
        "the page is not, to the letter",
    ),
    (
        lambda text: re.sub("<h2>Proof</h2><p>[^<]*", "<h2>Proof</h2><p>Proved is ε ≤ 0.01", text),
        3,
        "the page is not, to the letter",
    ),
    # What contradicts the rest of the page.
    (lambda text: text.replace('"nodes":5,', '"nodes":5000,', 1), 2, "as many nodes and edges as it draws"),
    (
        lambda text: re.sub(r'"lower":\[[^]]*\],"upper":\[', '"lower":[9.0],"upper":[', text, count=1),
        2,
        "the columns of its pairs must have the same length",
    ),
    (
        lambda text: re.sub(
            r'(?<="lower":\[)[^]]*', lambda ends: re.sub("[^,]+", "9.0", ends[0]), text, count=1
        ),
        2,
        "a lower end of Δ² must not be above",
    ),
    (
        lambda text: re.sub(
            r'"worst":\[[^]]*\]',
            '"worst":[' + '{"lower":0,"upper":0.01},' * 5 + '{"lower":0,"upper":0.01}]',
            text,
        ),
        2,
        "a curve must end near Δ² of its observer",
    ),
    (
        lambda text: text.replace('"rounds":6,', '"rounds":6,"infinite":"ε is 0.01",', 1),
        2,
        "beside a finite ε",
    ),
    # Words that nothing binds would let averaging pass for training, and one protocol for another.
    (
        lambda text: text.replace('"rounds":6,', '"rounds":6,"updates":{"lower":0.9,"upper":1.0},', 1),
        2,
        "slopes stand beside a program that trains, and beside no other",
    ),
    (
        lambda text: re.sub('"assumption_text":"[^"]*"', '"assumption_text":"nothing at all"', text),
        2,
        "its words on the assumption 'oblivious'",
    ),
]


def test_a_budget_is_told_to_its_last_digit(here: Path) -> None:
    """Of 1.0000004 to six digits, a reader would take it that ε ≤ 1 is kept."""
    assert main([*ACCOUNT, "--view", "secure-sum", "--max-epsilon", "9.0000004", "--report", "r.html"]) == 0
    assert "the budget ε ≤ 9.0000004 is kept" in sheet(here / "r.html")
    assert main([*ACCOUNT, "--delta", "1.0000004e-5", "--report", "r.html"]) == 0
    assert "at δ = 1.0000004e-05" in sheet(here / "r.html")


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A report of an account beyond its budget, which is verified as it is."""
    folder = tmp_path_factory.mktemp("honest")
    words = ["account", "ring.edgelist", *ACCOUNT[2:], "--view", "secure-sum", "--max-epsilon", "0.5"]
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        Path("ring.edgelist").write_text(RING, encoding="utf-8")
        assert main([*words, "--report", "r.html"]) == 3
        assert main(["verify", "r.html", "--graph", "ring.edgelist"]) == 0
    assert says_what_it_carries(read_report(folder / "r.html"))
    return (folder / "r.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(("forge", "code", "reason"), FORGERIES)
def test_a_page_that_does_not_follow_from_what_it_carries_is_not_verified(
    forge: Callable[[str], str],
    code: int,
    reason: str,
    honest: str,
    here: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    forged = forge(honest)
    assert forged != honest
    (here / "ring.edgelist").write_text(RING, encoding="utf-8")
    (here / "r.html").write_text(forged, encoding="utf-8")
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


def test_levels_of_noise_stand_on_the_page_and_are_those_of_the_certificate(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loud = [*ACCOUNT, "--view", "secure-sum", "--protocol", "gossip:noise_levels=100", "--report", "r.html"]
    assert main(loud) == 0
    assert "u of level 100" in sheet(here / "r.html")
    assert main(["verify", "r.html", "--graph", "ring:n=5"]) == 0
    text = (here / "r.html").read_text(encoding="utf-8")
    (here / "r.html").write_text(text.replace("; u of level 100", ""), encoding="utf-8")
    capsys.readouterr()
    assert main(["verify", "r.html", "--graph", "ring:n=5"]) == 2
    assert "its program must be that of its certificate" in capsys.readouterr().err


@pytest.fixture(scope="module")
def momentous(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A report whose words have a number of the protocol, which is verified as it is."""
    file = tmp_path_factory.mktemp("momentous") / "r.html"
    words = ["--view", "secure-sum", "--protocol", "momentum:beta=0.5", "--report", str(file)]
    assert main([*ACCOUNT, *words]) == 0
    assert main(["verify", str(file), "--graph", "ring:n=5"]) == 0
    return file.read_text(encoding="utf-8")


@pytest.mark.parametrize("number", ["1/0", "1e999999999", "9" * 5000])
def test_numbers_in_the_words_of_a_page_do_no_harm(number: str, momentous: str, here: Path) -> None:
    forged = momentous.replace("= 0.5\\u00b7v", f"= {number}\\u00b7v")
    assert forged != momentous
    (here / "r.html").write_text(forged, encoding="utf-8")
    assert main(["verify", "r.html", "--graph", "ring:n=5"]) == 2
