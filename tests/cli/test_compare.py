# SPDX-License-Identifier: Apache-2.0
"""`sottovoce compare`: several questions side by side."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sottovoce import account_all, calibrate, gossip, graphs
from sottovoce.cli.printing import rounded_up

Run = Callable[..., Any]
VIEWS = ("--view", "neighbourhood", "--view", "secure-sum")


def test_every_combination_has_its_own_account(sottovoce: Run) -> None:
    asked = ("compare", "ring:n=6", "complete:n=6", "--rounds", "5", "--noise-multiplier", "3", *VIEWS)
    code, out, _ = sottovoce(*asked, "--json")
    document = json.loads(out)
    assert code == 0
    assert document["command"].startswith("sottovoce compare ring:n=6")
    found = {each["name"]: each["worst"]["epsilon"]["upper"] for each in document["contenders"]}
    assert found == {
        f"{graph}, {view}": float(
            account_all(
                gossip(graphs.metropolis_weights(graph), rounds=5), view, noise_multiplier=3.0, delta=1e-5
            ).epsilon_upper.max()
        )
        for graph in ("ring:n=6", "complete:n=6")
        for view in ("neighbourhood", "secure-sum")
    }
    shown = sottovoce(*asked).out
    assert all(rounded_up(epsilon) in shown for epsilon in found.values())


def test_at_the_same_epsilon_the_noise_is_what_calibrate_finds(sottovoce: Run) -> None:
    asked = ("compare", "ring:n=6", "--protocol", "gossip", "--protocol", "repeated:steps=2", "--rounds", "4")
    out = sottovoce(*asked, "--view", "secure-sum", "--target-epsilon", "2", "--json").out
    noises = {each["name"]: each["noise_multiplier"] for each in json.loads(out)["contenders"]}
    ring = graphs.metropolis_weights("ring:n=6")
    plain = calibrate(gossip(ring, rounds=4), "secure-sum", target_epsilon=2.0, target_delta=1e-5)
    assert noises["gossip"] == plain
    assert noises["repeated:steps=2"] > 0


def test_a_protocol_that_no_noise_helps_is_said_so_and_does_not_stop_the_rest(sottovoce: Run) -> None:
    bare = "clean-state:keep=0.5,noise_levels=0"
    asked = ("compare", "ring:n=6", "--rounds", "4", "--protocol", bare, "--protocol", "gossip")
    code, out, err = sottovoce(*asked, "--view", "neighbourhood", "--target-epsilon", "1")
    text = " ".join(out.split())
    assert (code, err) == (0, "")
    assert f"{bare}: no noise multiplier hides node" in text
    refused, plain = json.loads(
        sottovoce(*asked, "--view", "neighbourhood", "--target-epsilon", "1", "--json").out
    )["contenders"]
    assert refused["worst"]["epsilon"]["upper"] is None
    assert "the draw 'u' has level 0" in refused["refused"]
    assert "refused" not in plain
    assert plain["worst"]["epsilon"]["upper"] <= 1
    at_noise = sottovoce(*asked, "--view", "neighbourhood", "--noise-multiplier", "2").out
    assert "∞" in at_noise


def test_a_picture_and_a_report_are_drawn(sottovoce: Run, tmp_path: Path) -> None:
    asked = ("compare", "ring:n=6", "--rounds", "3", "--plot", "c.svg", "--report", "c.html", *VIEWS)
    for measure in (("--noise-multiplier", "2"), ("--target-epsilon", "1")):
        code, out, err = sottovoce(*asked, *measure)
        assert (code, err) == (0, "sottovoce: wrote c.svg\nsottovoce: wrote c.html\n")
        text = (tmp_path / "c.svg").read_text(encoding="utf-8")
        assert text.startswith("<?xml")
        page = re.sub('<span class="whole">|</span>', "", (tmp_path / "c.html").read_text(encoding="utf-8"))
        number = re.search(r" (?:ε ≤|of) (\d[\d.]*\d)", out)
        assert number is not None
        assert f"<td>{number[1]}</td>" in page
        assert f"<td>sottovoce {' '.join(asked)} {' '.join(measure)}</td>" in page
    code, out, err = sottovoce("verify", "c.html")
    assert (code, out.splitlines()[0]) == (3, "Nothing in this report can be checked.")
    assert "on trust are every number" in err


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (("--rounds", "3", "--noise-multiplier", "2"), "needs a graph"),
        (
            ("ring:n=6", "--view", "everyone", "--rounds", "3", "--noise-multiplier", "2"),
            "needs two questions or more",
        ),
        (("ring:n=6", "--rounds", "3"), "--noise-multiplier must be given where"),
        (
            ("ring:n=6", "--rounds", "3", "--noise-multiplier", "2", "--target-epsilon", "1"),
            "--noise-multiplier must be left out where",
        ),
        (("ring:n=6", "--rounds", "3", "--target-epsilon", "-1"), "--target-epsilon must be"),
    ],
)
def test_what_cannot_be_compared_is_refused(words: tuple[str, ...], rule: str, sottovoce: Run) -> None:
    code, out, err = sottovoce("compare", *words)
    assert (code, out) == (2, "")
    assert rule in err


def test_each_of_several_hashes_says_what_it_is_of(sottovoce: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    asked = ("--weights", "metropolis", "--weights", "lazy", "--protocol", "repeated:steps=2", *VIEWS)
    out = sottovoce("compare", "ring:n=5", *asked, "--rounds", "3", "--noise-multiplier", "2").out
    hashes = re.findall(r"^protocol hash +([0-9a-f]{64}) \((.*)\)$", out, re.MULTILINE)
    assert [side for _, side in hashes] == ["metropolis", "lazy"]
    out = sottovoce("compare", "ring:n=5", *asked[2:], "--rounds", "3", "--noise-multiplier", "2").out
    assert re.search(r"^protocol hash +[0-9a-f]{64}$", out, re.MULTILINE)
