"""`sottovoce frontier`: text, JSON, picture, report, folder and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.interrupts import interrupted_after

Run = Callable[..., Any]
NETWORKS = ("--graphs", "star:n=3", "complete:n=3")
SMALL = ("--rounds", "4", "--epsilons", "1,8", "--steps", "0.5,2")
FRONTIER = ("frontier", "breast-cancer", *NETWORKS, *SMALL, "--repeats", "2")
ALONE = ("frontier", "breast-cancer", "--graph", "star:n=3", *SMALL, "--step", "1", "--repeats", "1")


def test_text_json_picture_and_report_say_the_same(sottovoce: Run) -> None:
    code, out, err = sottovoce(
        *FRONTIER, "--folder", "price", "--output", "price.svg", "--report", "price.html"
    )
    assert (code, err) == (0, "")
    assert out.startswith("Accuracy in % on breast-cancer at δ = 1e-05: mean ± standard deviation over 2\n")
    plain = " ".join(out.split())
    tuning = (
        "chosen among 0.5, 2 times 1/L on synthetic records of the same shape, with the noise of that point"
    )
    assert tuning in plain
    assert "not private accuracies, which are measured without noise" in plain
    code, again, err = sottovoce(*FRONTIER, "--folder", "price", "--resume", "--json")
    assert (code, err) == (0, "")
    document = json.loads(again)
    assert document["kind"] == "frontier"
    assert tuning in document["tuning"]
    assert document["not_private"] == ["accuracy", "deviation", "node_accuracy", "accuracies"]
    for arm in (*document["arms"], *document["central"], *document["no_noise"]):
        for point in arm["points"]:
            assert f"{100 * point['accuracy']:.1f} ± {100 * point['deviation']:.1f}" in out
    picture = Path("price.svg").read_text(encoding="utf-8")
    for words in ("star:n=3", "complete:n=3", "trusted server (central DP)", "no noise", "secure-sum"):
        assert f"<!-- {words} -->" in picture
    page = Path("price.html").read_text(encoding="utf-8")
    assert "The price of privacy on breast-cancer" in page
    assert "the records themselves had no say in it" in page
    assert page.count('<svg class="plot"') == 1
    code, out, err = sottovoce("verify", "price.html")
    assert (code, out.splitlines()[0]) == (3, "Nothing in this report can be checked.")
    assert err.startswith(
        "sottovoce: not verified: on trust are every number: it carries no certificate (ask again what it asks, and "
        "compare); its title, "
    )


@pytest.mark.load
def test_an_interrupt_keeps_what_is_finished(tmp_path: Path, sottovoce: Run) -> None:
    words = (*ALONE, "--folder", str(tmp_path / "price"))
    code, err = interrupted_after("sottovoce.frontiers.run:read_form", *words, folder=tmp_path)
    assert code == 130
    assert err == (
        f"sottovoce: interrupted: 1 of 9 parts are finished in {tmp_path / 'price'} (continue with --resume)\n"
    )
    code, out, _ = sottovoce(*words, "--resume")
    assert code == 0
    assert "8 computed, 1 from before" in out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--epsilons", "1,two"), "--epsilons must be numbers with commas between them; got '1,two'"),
        (("--epsilons", "0"), "--epsilons must be a finite number above 0; got 0.0"),
        (("--views", "everyone,nobody"), "--views must be one of everyone, neighbourhood"),
        (("--protocols", "rumour"), "--protocol must be one of gossip"),
        (("--tune-on", "breast-cancer"), "--tune-on must be other records than those to be protected"),
        (("--workers", "0"), "--workers must be a whole number of at least 1; got 0"),
        (("--repeats", "0"), "--repeats must be a whole number of at least 1; got 0"),
        (("--output", "price.txt"), "the picture of a frontier is written to a file that ends in .svg"),
        (("--resume",), "--resume goes on with the frontier in a folder; none was named"),
        (("--delta", "2"), "--delta must lie strictly between 0 and 1; got 2.0"),
    ],
)
def test_bad_input_is_one_line(words: tuple[str, ...], complaint: str, sottovoce: Run) -> None:
    kept = [word for k, word in enumerate(FRONTIER) if not {FRONTIER[k], FRONTIER[k - 1]} & {words[0]}]
    code, out, err = sottovoce(*kept, *words)
    assert (code, out) == (2, "")
    assert complaint in err
    assert err.count("\n") == 1


def test_push_sum_alone_reads_weights_by_columns(sottovoce: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "P.npy", np.array([[0.5, 0.25, 0.0], [0.5, 0.5, 0.5], [0.0, 0.25, 0.5]]))
    words = ("frontier", "breast-cancer", "--graph", "P.npy", *SMALL, "--step", "1", "--repeats", "1")
    for protocols, complaint in (
        (("push-sum",), "the rows of its weights do not sum to 1, so that models are no averages"),
        (("gossip", "push-sum"), "its gossip matrix if every row sums to 1; row 1 sums to 1.5"),
    ):
        code, _, err = sottovoce(*words, "--protocols", *protocols)
        assert (code, complaint in err) == (2, True), protocols


def test_numbers_are_no_classes(sottovoce: Run) -> None:
    code, _, err = sottovoce("frontier", "diabetes", "--graph", "ring:n=3", *SMALL)
    assert code == 2
    assert "diabetes: a frontier shows accuracy, so labels must be classes; these are numbers" in err
