# SPDX-License-Identifier: Apache-2.0
"""A report of each command: what it says is its answer, and what verify makes of it."""

from __future__ import annotations

import html
import json
import math
import re
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from sottovoce.cli import main
from sottovoce.documents import RunDocument, claimed, read_report
from sottovoce.interval import rounded_up
from sottovoce.report import says_what_it_carries
from sottovoce.report.first_pages import SHEET_END, SHEET_START
from sottovoce.report.runs import run_answer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PROVED = {"account", "calibrate", "certify", "train"}
KINDS = ["account", "calibrate", "coalition", "audit", "certify", "verify", "rate", "summary", "train"]


def words(text: str) -> str:
    """What a reader of markup sees."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


def first(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    assert text.count(SHEET_START) == 1
    return words(text[text.index(SHEET_START) : text.index(SHEET_END)])


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_has_a_page_to_sign_and_verify_says_what_is_proved(
    kind: str, reports: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    file = reports[kind]
    assert says_what_it_carries(read_report(file))
    said = first(file)
    for part in (
        "What was asked",
        "To be checked before signing",
        "Name Date Signature",
        f"sottovoce {kind}",
        "numpy",
    ):
        assert part in said, part
    assert "<pre" not in file.read_text(encoding="utf-8").partition("<script>")[0]
    capsys.readouterr()
    code = main(["verify", str(file), "--graph", "ring:n=5"])
    shown = capsys.readouterr()
    assert code == (0 if kind in PROVED else 3)
    if kind not in PROVED:
        assert "not verified: on trust are every number" in shown.err
        assert "Verified" not in shown.out
    # Whatever follows from nothing that the file carries is found.
    text = file.read_text(encoding="utf-8")
    forged = file.with_name(f"forged-{kind}.html")
    forged.write_text(
        text.replace("<h2>What was asked</h2>", "<h2>What was asked</h2><p>ε ≤ 0.01</p>", 1), "utf-8"
    )
    assert main(["verify", str(forged), "--graph", "ring:n=5"]) == 3
    assert "the page is not, to the letter" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in {"account", "calibrate"}])
def test_the_numbers_are_those_of_the_json(kind: str, reports: dict[str, Path]) -> None:
    read = read_report(reports[kind])
    assert read.result is not None
    document: Any = read.result.document
    found: dict[str, Callable[[], tuple[str, ...]]] = {
        "coalition": lambda: (f"ε ≤ {rounded_up(document.epsilon_upper_bound)}",),
        "audit": lambda: (f"ε ≤ {rounded_up(document.certified_epsilon_upper)}", f"{document.trials} runs"),
        "certify": lambda: (f"Δ² ≤ {rounded_up(document.sensitivity_squared.upper)}", document.hash),
        "verify": lambda: ("Pass", f"ε ≤ {rounded_up(document.epsilon)}"),
        "rate": lambda: (f"{rounded_up(max(pair.rate.upper for pair in document.pairs))} a round",),
        "summary": lambda: (
            "Fail : ε ≤ 0.5 is not certified",
            f"ε ≤ {rounded_up(document.worst.epsilon.upper)}",
        ),
        "train": lambda: (
            "Pass : the budget ε ≤ 4 is kept under the assumption smooth. Without it, it is not.",
            f"ε ≤ {rounded_up(document.unconditional.epsilon.upper)} without any assumption",
        ),
    }
    for part in found[kind]():
        assert part in first(reports[kind])


def test_every_command_says_what_it_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["rate", "ring:n=4", "--view", "secure-sum", "--json", "--report", "r.html"]) == 0
    shown = capsys.readouterr()
    assert shown.err == "sottovoce: wrote r.html\n"
    document = read_report("r.html").result
    assert document is not None
    assert json.loads(shown.out)["pairs"][0]["rate"]["upper"] == document.document.pairs[0].rate.upper  # type: ignore[union-attr, index]
    assert main(["rate", "ring:n=4", "--view", "secure-sum", "--report", "r.txt"]) == 2
    assert "a report is written to a file that ends in .html" in capsys.readouterr().err


def test_the_curves_of_a_run_come_first_with_what_they_are_compared_with(reports: dict[str, Path]) -> None:
    text = reports["train"].read_text(encoding="utf-8")
    assert text.index(SHEET_END) < text.index('class="lead"') < text.index('<main id="main"')
    read = read_report(reports["train"]).result
    assert read is not None
    run = read.document
    assert isinstance(run, RunDocument)
    assert run.history["rounds"] == list(range(1, 9))
    assert [each.name for each in run.compared] == ["central", "no noise"]  # type: ignore[union-attr]
    labels = re.findall(r'<svg class="chart"[^>]*aria-label="([^"]*)"', text)
    assert [label.partition(":")[0] for label in labels[:3]] == [
        "Accuracy on held-out records",
        "Loss of the mean model",
        "Distance of models from their mean",
    ]
    assert f"this run ends at {run.accuracy:.4g}" in labels[0]
    for column, label in (("accuracy", labels[0]), ("loss", labels[1])):
        for each in run.compared:  # type: ignore[union-attr]
            assert f"ends at {getattr(each, column)[-1]:.4g}" in label
    # The exact line: a corner for every round.
    line = re.findall(r'<path class="line local"[^>]* d="(M[^"]*)"', text)[0]
    assert line.count("H") == 8
    assert not re.search(
        '(stroke|fill)="#', "".join(re.findall(r"<svg class=.chart.*?</svg>", text, re.DOTALL))
    )


def test_a_bound_that_is_read_out_is_rounded_up(reports: dict[str, Path]) -> None:
    read = read_report(reports["train"]).result
    assert read is not None
    run: Any = read.document
    history = {**run.history, "epsilon": [1.0] * 7 + [5.43801], "unconditional": [1.0] * 7 + [None]}
    (curves,) = run_answer(replace(run, history=history), read.occasion).lead
    assert "assuming smooth ends at 5.439, local DP, without any assumption ends at ∞" in curves.charts[3]


@pytest.mark.parametrize("kind", ["coalition", "audit", "summary", "train"])
def test_how_often_a_guess_is_right_follows_from_what_is_known_of_the_gaussian(
    kind: str, reports: dict[str, Path]
) -> None:
    read = read_report(reports[kind]).result
    assert read is not None
    document: Any = read.document
    mu = {
        "coalition": lambda: document.mu_upper_bound,
        "audit": lambda: document.certified_mu_upper,
        "summary": lambda: document.worst.mu.upper,
        "train": lambda: document.account.mu.upper,
    }[kind]()
    right = 50 * (1 + math.erf(mu / 2 / math.sqrt(2)))
    assert f"The best guess is right at most {rounded_up(right, 3)} % of the time".replace(
        " %", "%"
    ) in first(reports[kind])


FORGERIES: list[tuple[str, str, str]] = [
    ("account.mu.upper", "0.01", "μ of its view must be at least"),
    ("pairs_computed", "3", "the number of pairs of its run must be that of its pairs"),
    ("account.epsilon.upper", "0.5", "ε of its view must be at least"),
    ("unconditional.epsilon.upper", "0.5", "ε of local DP must be at least"),
    ("history.unconditional.3", "0.01", "ε of local DP after 4 rounds must be at least"),
    ("history.epsilon.7", "0.01", "ε of its view after all rounds must be at least"),
    ("noise_multiplier", "99.0", "the noise multiplier of its run must be that of its pairs"),
    ("rounds", "800", "the rounds of its run must be that of its pairs"),
    ("delta", "0.5", "the δ of its run must be that of its pairs"),
    ("account.assumption", '"none"', "the assumption of its run must be that of its pairs"),
    ("account.sensitivity_squared.upper", "0.1", "Δ² of its view must be at least"),
    ("unconditional.sensitivity_squared.upper", "0.1", "Δ² of local DP must be at least"),
    ("program", '"nothing is sent"', "the program of its run must be that of its pairs"),
    # A last entry that is of fewer rounds would leave ε of all rounds to whoever writes the file.
    ("history.rounds", "[2, 3, 4, 5, 6, 7, 8, 1]", "for whole rounds that grow up to 8"),
    ("history.rounds", "[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 8]", "for whole rounds that grow up to 8"),
    ("history.rounds", "[1, 2, 3, 4, 5, 6, 7, 9]", "for whole rounds that grow up to 8"),
    ("history.epsilon", "[4.0]", "got lengths [8, 8, 8, 8, 1, 8]"),
    ("history", "{}", "got lengths [0, 0, 0, 0, 0, 0]"),
]


@pytest.mark.parametrize(("place", "value", "reason"), FORGERIES)
def test_a_run_that_claims_less_than_its_pairs_is_refused(
    place: str,
    value: str,
    reason: str,
    reports: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The whole page is written again from what is forged, so that it agrees with itself."""

    def forge(result: Any) -> None:
        *steps, last = (int(step) if step.isdigit() else step for step in place.split("."))
        held = result["document"]
        for step in steps:
            held = held[step]
        held[last] = json.loads(value)
        if last == "upper":
            held["lower"] = 0.0

    file = again(reports["train"], tmp_path, forge)
    capsys.readouterr()
    assert main(["verify", str(file), "--graph", "ring:n=5"]) == 2
    assert reason in capsys.readouterr().err


def test_words_of_a_run_that_nothing_proves_are_named(
    reports: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["verify", str(reports["train"]), "--graph", "ring:n=5", "--json"]) == 0
    trusted = " ".join(json.loads(capsys.readouterr().out)["trusted"])
    for word in (
        "whether records or nodes are protected",
        "clipping",
        "shard size",
        "a seed",
        "title",
        "command",
    ):
        assert word in trusted


@pytest.mark.parametrize(
    ("sentence", "plain"),
    [
        (", 2 weight matrices in turn", True),
        ("; each node also contributes the step of its model by a map with slopes in [0.5, 0.9]", True),
        ("; noise encoded by 1, 1/2", False),
    ],
)
def test_local_dp_is_counted_by_rounds_in_plain_gossip_alone(sentence: str, plain: bool) -> None:
    gossip = "message = model + contribution + u; exchange message → model"
    assert bool(claimed._PLAIN_GOSSIP.fullmatch(f"{gossip}; 8 rounds{sentence}")) == plain
    assert not claimed._PLAIN_GOSSIP.fullmatch(f"{gossip}, the first of 2 programs in turn; 8 rounds")


def test_a_certificate_cannot_be_shown_as_another_claim(
    reports: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def forge(result: Any) -> None:
        result["document"]["sensitivity_squared"] |= {"lower": 0.0, "upper": 0.01}

    file = again(reports["certify"], tmp_path, forge)
    assert main(["verify", str(file), "--graph", "ring:n=5"]) == 2
    assert "what it says must be what its certificate claims" in capsys.readouterr().err


def again(report: Path, folder: Path, forge: Callable[[Any], None]) -> Path:
    """A report of another answer with the same pairs and certificates."""
    text = report.read_text(encoding="utf-8")
    found = re.search(r'(<script type="application/json" id="result">)([^<]*)(</script>)', text)
    assert found is not None
    result = json.loads(found[2])
    forge(result)
    file = folder / "forged.html"
    file.write_text(text.replace(found[0], f"{found[1]}{json.dumps(result)}{found[3]}", 1), encoding="utf-8")
    return file
