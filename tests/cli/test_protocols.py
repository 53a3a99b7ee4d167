"""`--protocol`: programs on the command line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sottovoce import View, account, calibrate, graphs
from sottovoce.protocols import momentum

Run = Callable[..., Any]
RING = ("ring:n=6", "--rounds", "4", "--view", "secure-sum", "--observer", "0")
MOMENTUM = momentum(graphs.metropolis_weights("ring:n=6"), rounds=4, beta="9/10")


def test_accounts_say_the_program_and_its_hash(sottovoce: Run) -> None:
    words = ("account", *RING, "--noise-multiplier", "2", "--protocol", "momentum:beta=0.9")
    code, out, err = sottovoce(*words)
    assert (code, err) == (0, "")
    assert "protocol       momentum: v = 0.9·v + contribution + u; message = model + v;" in out
    assert f"protocol hash  {MOMENTUM.hash}" in out
    assert "local DP" not in out
    document = json.loads(sottovoce(*words, "--json").out)
    assert document["protocol"] == "momentum"
    assert document["protocol_hash"] == MOMENTUM.hash
    table = account(MOMENTUM, View.secure_sum(0), noise_multiplier=2.0, delta=1e-5)
    assert [pair["epsilon"]["upper"] for pair in document["pairs"]] == table.epsilon_upper.tolist()


def test_plain_gossip_says_what_it_said(sottovoce: Run) -> None:
    words = ("account", *RING, "--noise-multiplier", "2")
    assert sottovoce(*words).out == sottovoce(*words, "--protocol", "gossip").out
    assert "protocol" not in json.loads(sottovoce(*words, "--json").out)


def test_reports_and_plots_of_programs(sottovoce: Run, tmp_path: Path) -> None:
    words = ("account", *RING, "--noise-multiplier", "2", "--protocol", "repeated:steps=2")
    code, _, err = sottovoce(*words, "--report", "r.html", "--plot", "p.svg", "--output", "p.csv")
    assert (code, err) == (0, "")
    assert {path.name for path in tmp_path.iterdir()} >= {"r.html", "p.svg", "p.csv"}


def test_calibration(sottovoce: Run) -> None:
    words = ("calibrate", *RING, "--target-epsilon", "1", "--target-delta", "1e-5")
    document = json.loads(sottovoce(*words, "--protocol", "momentum:beta=0.9", "--json").out)
    noise = calibrate(MOMENTUM, View.secure_sum(0), target_epsilon=1.0, target_delta=1e-5)
    assert document["noise_multiplier"] == noise
    code, out, err = sottovoce(
        *("calibrate", "ring:n=6", "--rounds", "4", "--view", "everyone", "--target-epsilon", "1"),
        *("--protocol", "pairwise-noise:local=0,shared=1"),
    )
    assert (code, out) == (3, "")
    assert "no noise multiplier hides node 0 in the everyone view" in err


def test_energy(sottovoce: Run) -> None:
    words = ("account", *RING, "--noise-multiplier", "2", "--contribution", "energy", "--json")
    document = json.loads(sottovoce(*words).out)
    assert document["contribution"] == "energy"
    assert max(pair["sensitivity_squared"]["upper"] for pair in document["pairs"]) <= 1


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--protocol", "adam"), "--protocol must be one of gossip, repeated"),
        (("--protocol", "momentum"), "the protocol momentum needs beta"),
        (("--protocol", "none.toml"), "none.toml: cannot be read"),
        (("--protocol", "momentum:beta=1", "--damping", "0.5"), "damping must be left out with the protocol"),
    ],
)
def test_bad_protocols_are_refused(sottovoce: Run, words: tuple[str, ...], complaint: str) -> None:
    code, out, err = sottovoce("account", *RING, "--noise-multiplier", "2", *words)
    assert (code, out) == (2, "")
    assert complaint in err


def test_certificates_say_the_program_and_its_hash(sottovoce: Run) -> None:
    words = ("certify", *RING, "--target", "2", "--output", "claim.json")
    code, out, err = sottovoce(*words, "--protocol", "momentum:beta=0.9", "--contribution", "energy")
    assert (code, err) == (0, "")
    assert "program       v = 0.9·v + contribution + u; message = model + v;" in out
    assert MOMENTUM.hash in out
    assert max(map(len, out.splitlines())) <= 80
    for named in (("--protocol", "momentum:beta=0.9"), ()):
        code, out, err = sottovoce("verify", "claim.json", "--graph", "ring:n=6", *named)
        assert (code, err) == (0, "")
        assert MOMENTUM.hash in out
        assert ("that the nodes run the program in the file" in out) == (not named)
    document = json.loads(sottovoce("verify", "claim.json", "--graph", "ring:n=6", "--json").out)
    assert document["protocol_hash"] == MOMENTUM.hash
    assert document["program"] == MOMENTUM.sentence.replace("0.9", "9/10")


def test_a_certificate_of_another_protocol_is_refused(sottovoce: Run) -> None:
    words = ("certify", *RING, "--target", "2", "--output", "claim.json", "--protocol", "momentum:beta=0.9")
    assert sottovoce(*words).code == 0
    for other in ("gossip", "momentum:beta=0.5", "gradient-tracking"):
        code, out, err = sottovoce("verify", "claim.json", "--graph", "ring:n=6", "--protocol", other)
        assert code == 3
        assert "Not verified" in out
        assert err.startswith(
            "sottovoce: not verified: this certificate speaks of another protocol: v = 9/10·v"
        )
    assert sottovoce("verify", "claim.json", "--graph", "ring:n=7").code == 3
    code, out, err = sottovoce("verify", "claim.json", "--protocol", "gossip")
    assert (code, out) == (2, "")
    assert "--protocol gossip needs a graph to run on" in err


def test_an_infinite_sensitivity_is_not_certified(sottovoce: Run, tmp_path: Path) -> None:
    words = (
        "certify",
        "ring:n=6",
        "--rounds",
        "4",
        "--view",
        "everyone",
        "--target",
        "2",
        "--output",
        "c.json",
    )
    code, out, err = sottovoce(*words, "--protocol", "pairwise-noise:local=0,shared=1")
    assert (code, out) == (3, "")
    assert "Δ is infinite, so there is nothing to certify" in err
    assert not (tmp_path / "c.json").exists()
