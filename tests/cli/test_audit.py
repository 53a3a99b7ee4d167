"""`sottovoce audit`: the verdict, the JSON object, the exit codes."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sottovoce import View, audit, gossip, graphs

Run = Callable[..., Any]
LOOSE = ("audit", "star:n=4", "--rounds", "3", "--noise-multiplier", "1", "--seed", "1", "--trials", "4000")
STAR = (*LOOSE, "--view", "secure-sum")


def test_an_honest_number_stands(sottovoce: Run) -> None:
    code, out, err = sottovoce(*STAR)
    assert (code, err) == (0, "")
    assert out.startswith(
        "The certified ε ≤ 8.176 at δ = 1e-05 stands: no attack did better.\n"
        "Attacking what node 1 sees of node 0 shows ε ≥ "
    )
    for phrase in (
        "certified      ε ≤ 8.176, μ ≤ 1.697",
        "witness        ε ≥ 8.175 is what the simulated stream must leak",
        "whatever the mechanism",
        "if Gaussian    μ ≥ 1.",
        "4000 runs with numbers, half to choose thresholds",
        "seed 1",
        "observer       1",
        "secure-sum, own noise known",
        "oblivious: contributions are fixed in advance",
    ):
        assert phrase in out
    assert max(map(len, out.splitlines())) <= 80


def test_the_json_object_is_what_the_library_finds(sottovoce: Run) -> None:
    code, out, err = sottovoce(*STAR, "--json")
    document = json.loads(out)
    assert (code, err) == (0, "")
    protocol = gossip(graphs.metropolis_weights("star:n=4"), rounds=3)
    found = audit(
        protocol,
        View.secure_sum(1),
        0,
        noise_multiplier=1,
        delta=1e-5,
        trials=4000,
        rng=np.random.default_rng(1),
    )
    expected = {
        "certified_epsilon_upper": found.certified_epsilon_upper,
        "claimed_epsilon": found.claimed_epsilon,
        "claimed_mu": found.claimed_mu,
        "witness_epsilon": found.witness_epsilon,
        "attack_mu": found.attack_mu,
        "empirical_epsilon_lower": found.empirical_epsilon_lower,
        "certified_mu_upper": found.account.mu.upper,
        "empirical_mu_lower": found.empirical_mu_lower,
        "gaussian_epsilon_lower": found.gaussian_epsilon_lower,
        "confidence": 0.999,
        "trials": 4000,
        "dimension": 1,
        "seed": 1,
        "observer": [1],
        "target": 0,
        "view": "secure-sum",
        "own_noise": "known",
        "contribution": "vector",
        "participation": "full",
        "relation": "add-remove",
        "assumption": "oblivious",
        "protocol": "gossip",
        "program": protocol.sentence,
        "protocol_hash": protocol.hash,
        "rounds": 3,
        "noise_multiplier": 1.0,
        "delta": 1e-5,
        "method": "abs",
        "refuted": False,
    }
    assert {name: document[name] for name in expected} == expected
    assert set(document) - set(expected) == {"kind", "schema", "version", "graph", "rates"}
    assert document["rates"]["mu"]["hits"] == found.found.mu_rates.hits
    assert document["rates"]["epsilon"]["runs"] == 1000


def test_a_number_that_is_too_small_is_refuted(sottovoce: Run) -> None:
    code, out, err = sottovoce(*STAR, "--claimed-epsilon", "1")
    assert code == 3
    assert out.startswith("The claimed ε ≤ 1 at δ = 1e-05 does not stand: an attack did better.\n")
    assert "claimed        ε ≤ 1" in out
    assert "certified      ε ≤ 8.176" in out
    assert err.startswith("sottovoce: refuted: the attack shows ε ≥ ")
    assert "above the claimed 1, with confidence 0.999" in err
    document = json.loads(sottovoce(*STAR, "--claimed-epsilon", "1", "--json").out)
    assert (document["refuted"], document["claimed_mu"], document["claimed_epsilon"]) == (True, None, 1.0)


def test_the_same_seed_gives_the_same_output(sottovoce: Run) -> None:
    assert sottovoce(*STAR).out == sottovoce(*STAR).out
    unseeded = (*LOOSE[: LOOSE.index("--seed")], "--trials", "400", "--view", "secure-sum")
    assert "system entropy" in sottovoce(*unseeded).out


@pytest.mark.parametrize(
    ("words", "phrase"),
    [
        (("--view", "everyone"), "whoever sees every message"),
        (("--view", "coalition-sums", "--observer", "1", "--observer", "2"), "observer       1, 2"),
        (("--view", "neighbourhood", "--observer", "0", "--target", "2"), "target         2"),
        (("--relation", "replace-one"), "replace-one: a record is replaced"),
        (("--participation", "at-most:1"), "at-most:1: a target contributes in at most 1 round"),
        (("--damping", "0.5"), "quadratic: contributions depend on hidden states"),
    ],
)
def test_every_term_of_an_account_can_be_audited(sottovoce: Run, words: tuple[str, ...], phrase: str) -> None:
    code, out, err = sottovoce(*(LOOSE if "--view" in words else STAR), *words)
    assert (code, err) == (0, "")
    assert phrase in out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--trials", "3"), "--trials must be a whole number of at least 16; got 3"),
        (("--confidence", "1"), "confidence must lie strictly between 0 and 1; got 1.0"),
        (("--claimed-epsilon", "0"), "--claimed-epsilon must be a finite number above 0; got 0.0"),
        (("--seed", "-1"), "--seed must be a whole number of at least 0; got -1"),
        (("--target", "zoe"), "no node is called 'zoe'"),
    ],
)
def test_bad_settings_are_refused(sottovoce: Run, words: tuple[str, ...], complaint: str) -> None:
    start = ("audit", "star:n=4", "--rounds", "3", "--noise-multiplier", "1", "--view", "secure-sum")
    code, out, err = sottovoce(*start, *words)
    assert (code, out) == (2, "")
    assert complaint in err
