"""`--damping`: closed loops on the command line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
STAR = ("star:n=3", "--view", "secure-sum", "--observer", "0", "--target", "1")


@pytest.fixture
def forgetful(tmp_path: Path) -> str:
    """A file by which the second leaf of a star forgets what it receives."""
    Path(tmp_path / "damping.csv").write_text("node,damping\n0,1\n1,1\n2,0\n")
    return "damping.csv"


def test_accounts_of_a_closed_loop(sottovoce: Run, forgetful: str) -> None:
    words = ("account", *STAR, "--rounds", "2", "--noise-multiplier", "1", "--damping", forgetful)
    code, out, err = sottovoce(*words)
    assert (code, err) == (0, "")
    assert "Δ²        1.299–1.301" in out
    assert "damping        0 to 1 (1 - step * curvature of each node's quadratic loss)" in out
    assert "assumption     quadratic: contributions depend on hidden states" in out
    document = json.loads(sottovoce(*words, "--json").out)
    assert document["assumption"] == "quadratic"
    assert (document["damping"]["min"], document["damping"]["max"]) == (0.0, 1.0)


def test_rates_certificates_coalitions_and_sweeps_take_it_too(sottovoce: Run, forgetful: str) -> None:
    document = json.loads(sottovoce("rate", *STAR, "--damping", forgetful, "--json").out)
    assert document["pairs"][0]["rate"]["upper"] == pytest.approx(0.9, abs=1e-9)
    assert document["assumption"] == "quadratic"
    proof = ("certify", *STAR, "--rounds", "2", "--damping", forgetful, "--output", "c.json")
    document = json.loads(sottovoce(*proof, "--json").out)
    assert document["sensitivity_squared"]["upper"] == pytest.approx(1.3, rel=1e-6)
    code, out, _ = sottovoce("verify", "c.json", "--graph", "star:n=3")
    assert code == 0
    assert "program    holds  message = model·(one number a node) + contribution + u;" in out
    document = json.loads(
        sottovoce(
            *("coalition", "star:n=3", "--target", "1", "--size", "1", "--rounds", "2", "--json"),
            *("--view", "coalition-sums"),
            *("--damping", forgetful),
        ).out
    )
    assert document["sensitivity_squared"]["upper"] == pytest.approx(1.3, rel=1e-6)
    assert document["assumption"] == "quadratic"
    swept = ("sweep", "star:n=3", "--rounds", "2", "--view", "secure-sum", "--output", "s")
    assert sottovoce(*swept, "--damping", forgetful).code == 0
    code, out, _ = sottovoce("summary", "s", "--noise-multiplier", "1")
    assert code == 0
    assert "damping        hash" in out
    document = json.loads(sottovoce("summary", "s", "--noise-multiplier", "1", "--json").out)
    assert len(document["damping"]["hash"]) == 64


def test_calibration_asks_for_more_noise_in_the_closed_loop(sottovoce: Run, forgetful: str) -> None:
    words = ("calibrate", *STAR, "--rounds", "2", "--target-epsilon", "1", "--json")
    plain, closed = (
        json.loads(sottovoce(*words, *more).out)["noise_multiplier"]
        for more in ((), ("--damping", forgetful))
    )
    assert closed / plain == pytest.approx(1.3**0.5, rel=1e-6)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("0,1\n1,1\n", "node 2 has no damping (give every node a line; 1 damps nothing)"),
        ("0,1\n1,1\n2,0\n2,1\n", "node '2' stands there twice"),
        ("0,1\n1,much\n2,0\n", "the damping of node '1' must be a number; got 'much'"),
        ("0,1\n1,1\n9,0\n", "no node is called '9'"),
        ("0,1,2\n", "line 1 must hold a node's name and a number; it holds ['0', '1', '2']"),
        ("0,1\n1,1\n2,2\n", "damping must lie between -1 and 1; node 2 has 2.0"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(
    sottovoce: Run, tmp_path: Path, content: str, complaint: str
) -> None:
    Path(tmp_path / "damping.csv").write_text(content)
    words = ("account", *STAR, "--rounds", "2", "--noise-multiplier", "1", "--damping", "damping.csv")
    code, out, err = sottovoce(*words)
    assert (code, out) == (2, "")
    assert complaint in err


def test_what_is_neither_a_number_nor_a_file_is_refused(sottovoce: Run) -> None:
    code, _, err = sottovoce(
        "account", *STAR, "--rounds", "2", "--noise-multiplier", "1", "--damping", "half"
    )
    assert code == 2
    assert "give a number, or a CSV file of names and numbers" in err


def test_names_of_any_kind_are_found(sottovoce: Run, tmp_path: Path) -> None:
    Path(tmp_path / "three.edgelist").write_text("anna ben\nben carl\n")
    Path(tmp_path / "d.csv").write_text("ben, 0.5\ncarl, 1\nanna, 1\n")
    words = ("account", "three.edgelist", "--rounds", "2", "--noise-multiplier", "1", "--damping", "d.csv")
    document = json.loads(sottovoce(*words, "--json").out)
    assert document["damping"]["min"] == 0.5
