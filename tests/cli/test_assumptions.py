"""One assumption for one number, whichever command shows it and in whatever form."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sottovoce import certificates

Run = Callable[..., Any]
EVERYONE = ("ring:n=5", "--rounds", "6", "--view", "everyone")
NOISE = ("--noise-multiplier", "4")


@pytest.mark.parametrize(
    "command",
    [
        ("account", *EVERYONE, *NOISE),
        ("account", *EVERYONE, *NOISE, "--damping", "0.5"),
        ("audit", *EVERYONE, *NOISE, "--target", "2", "--trials", "200", "--seed", "1"),
        ("rate", "ring:n=5", "--view", "everyone"),
        ("train", "synthetic", "--graph", *EVERYONE, *NOISE, "--seed", "1"),
    ],
)
def test_whoever_sees_everything_assumes_nothing(sottovoce: Run, command: tuple[str, ...]) -> None:
    said = sottovoce(*command)
    assert said.code == 0, said.err
    assert "none: every message is seen" in " ".join(said.out.split())
    assert "oblivious" not in said.out
    written = json.loads(sottovoce(*command, "--json").out)
    assert written.get("assumption", written.get("account", {}).get("assumption")) == "none"


def test_a_certificate_of_everyone_assumes_nothing(sottovoce: Run, tmp_path: Path) -> None:
    done = sottovoce("certify", *EVERYONE, "--target", "2", "--output", "proof.json", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["assumption"] == "none"
    assert certificates.load(tmp_path / "proof.json").assumption == "none"


def test_other_views_name_theirs(sottovoce: Run) -> None:
    for damping, assumption in (((), "oblivious"), (("--damping", "0.5"), "quadratic")):
        words = ("account", "ring:n=5", "--rounds", "6", "--view", "secure-sum", *NOISE, *damping)
        assert json.loads(sottovoce(*words, "--json").out)["assumption"] == assumption
        assert f"{assumption}: contributions" in " ".join(sottovoce(*words).out.split())
