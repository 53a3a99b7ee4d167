"""`sottovoce coalition`: what a person sees, what JSON holds, what is refused, and Ctrl-C."""

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from sottovoce import __version__, graphs
from sottovoce.cli.printing import rounded_up
from sottovoce.coalitions import verbs, worst_coalition
from sottovoce.protocols import gossip
from sottovoce.sensitivities import sensitivity

Run = Callable[..., Any]
LOOSE = ("coalition", "ring:n=7", "--target", "0", "--size", "2", "--rounds", "5")
RING = (*LOOSE, "--view", "coalition-sums")
NOISE = ("--noise-multiplier", "3", "--delta", "1e-6", "--relation", "replace-one")


def test_what_a_person_sees(sottovoce: Run) -> None:
    code, out, err = sottovoce(*RING)
    found = worst_coalition(gossip(graphs.metropolis_weights("ring:n=7"), rounds=5), 0, size=2)
    assert (code, err) == (0, "")
    names = ", ".join(map(str, found.coalition))
    headline = f"No coalition of 2 learns more about node 0 than the coalition {names}: Δ² ≤ "
    assert " ".join(out.split()).startswith(f"{headline}{rounded_up(found.upper_bound)}.")
    assert max(map(len, out.splitlines())) <= 80
    for line in (
        f"coalition      {names}",
        "target         0",
        "proved         yes, up to the width of the interval of Δ²",
        f"searched       {found.evaluated} views computed for 15 coalitions",
        "run            5 rounds",
        "view           coalition-sums, own noise known",
    ):
        assert line in out.splitlines()
    assert "ε" not in out


def test_noise_gives_an_epsilon(sottovoce: Run) -> None:
    code, out, _ = sottovoce(*RING, *NOISE)
    found = worst_coalition(gossip(graphs.metropolis_weights("ring:n=7"), rounds=5), 0, size=2)
    epsilon = found.account(noise_multiplier=3, delta=1e-6, relation="replace-one").epsilon().upper
    assert code == 0
    assert f"ε ≤ {rounded_up(epsilon)} at δ = 1e-06." in " ".join(out.split())
    assert "noise multiplier 3" in out
    assert "relation       replace-one: a record is replaced" in out


def test_one_observer(sottovoce: Run) -> None:
    code, out, _ = sottovoce(
        *("coalition", "florentine", "--target", "Pazzi", "--size", "1"),
        *("--rounds", "4", "--view", "coalition-sums"),
    )
    assert code == 0
    assert out.startswith("No node learns more about node Pazzi than node Salviati: Δ² ≤ ")


def test_a_search_that_is_cut_short_says_so(sottovoce: Run) -> None:
    code, out, err = sottovoce(*RING, *NOISE, "--time-limit", "0")
    words = " ".join(out.split())
    assert (code, err) == (0, "")
    assert words.startswith("Of those looked at, the coalition 1, 6 learns most about node 0: ε ≤ ")
    assert "Whether another coalition of 2 learns more is open; none learns more than ε ≤ " in words
    assert "proved no, the search ended after 0 s" in words
    assert "any other Δ² ≤ 5, a gap of at most " in words


def test_json_holds_exactly_the_schema(sottovoce: Run) -> None:
    options = ("--view", "coalition-messages", "--participation", "at-most:3", "--contribution", "scalar")
    code, out, err = sottovoce(*LOOSE, *NOISE, *options, "--weights", "lazy", "--json")
    weights = graphs.lazy_weights("ring:n=7")
    protocol = gossip(weights, rounds=5)
    found = worst_coalition(
        protocol,
        0,
        size=2,
        view="coalition-messages",
        contribution="scalar",
        participation="at-most:3",
    )
    account = found.account(noise_multiplier=3, delta=1e-6, relation="replace-one")
    anyone = found.guarantee(noise_multiplier=3, delta=1e-6, relation="replace-one")
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "kind": "coalition",
        "schema": 2,
        "version": __version__,
        "graph": {
            "nodes": 7,
            "edges": 7,
            "gap": graphs.spectrum(weights).gap,
            "hash": weights.hash,
            "rule": "lazy metropolis",
            "origin": "lazy metropolis rule on the graph of ring:n=7",
        },
        "protocol": "gossip",
        "program": protocol.sentence,
        "protocol_hash": protocol.hash,
        "rounds": 5,
        "noise_multiplier": 3.0,
        "delta": 1e-6,
        "relation": "replace-one",
        "view": "coalition-messages",
        "own_noise": "known",
        "contribution": "scalar",
        "participation": "at-most:3",
        "assumption": "oblivious",
        "target": 0,
        "size": 2,
        "coalition": list(found.coalition),
        "sensitivity_squared": {
            "lower": found.sensitivity.lower,
            "upper": found.sensitivity.upper,
            "method": found.method,
        },
        "upper_bound": found.upper_bound,
        "gap": found.gap,
        "exact": True,
        "stopped": "closed",
        "evaluated": found.evaluated,
        "coalitions": 15,
        "epsilon": {"lower": account.epsilon().lower, "upper": account.epsilon().upper},
        "epsilon_upper_bound": anyone.epsilon().upper,
        "mu_upper_bound": anyone.mu.upper,
        "trace": [
            {
                "evaluated": step.evaluated,
                "coalition": list(step.coalition),
                "sensitivity_squared": {"lower": step.squared.lower, "upper": step.squared.upper},
            }
            for step in found.trace
        ],
    }


def test_json_without_noise_has_no_epsilon(sottovoce: Run) -> None:
    document = json.loads(sottovoce(*RING, "--json").out)
    assert [
        document[key] for key in ("noise_multiplier", "epsilon", "epsilon_upper_bound", "mu_upper_bound")
    ] == [None] * 4


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_an_interrupt_shows_the_best_so_far(
    form: tuple[str, ...], sottovoce: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = itertools.count()

    def measured(*arguments: Any, **options: Any) -> Any:
        if next(calls) == 1:
            raise KeyboardInterrupt
        return sensitivity(*arguments, **options)

    monkeypatch.setattr(verbs, "sensitivity", measured)
    code, out, err = sottovoce(*RING, *form)
    assert code == 130
    assert err == "sottovoce: interrupted: the best coalition so far is shown, and what is proved by now\n"
    if form:
        document = json.loads(out)
        assert (document["stopped"], document["evaluated"], document["exact"]) == ("interrupted", 1, False)
    else:
        assert "proved         no, the search was interrupted" in out.splitlines()


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (("--size", "0"), "--size must be a whole number of at least 1; got 0"),
        (("--size", "two"), "whole number"),
        (("--size", "7"), "a coalition of 7 needs as many nodes besides the target; there are 6"),
        (("--target", "9"), "no node is called '9'; the nodes are called 0 to 6 (name one of them)"),
        (("--view", "secure-sum"), "coalition-sums"),
        (("--rounds", "0"), "--rounds must be a whole number of at least 1; got 0"),
        (("--delta", "2"), "--delta must lie strictly between 0 and 1; got 2.0"),
        (("--noise-multiplier", "0"), "--noise-multiplier must be a finite number above 0; got 0.0"),
        (("--time-limit", "-1"), "--time-limit must be a number of seconds of at least 0; got -1"),
        (("--time-limit", "nan"), "--time-limit must be a number of seconds of at least 0; got nan"),
        (("--participation", "often"), "--participation must be spelled like one of"),
    ],
)
def test_bad_input_is_one_line_and_code_2(changed: tuple[str, str], sentence: str, sottovoce: Run) -> None:
    words = list(RING)
    if changed[0] in words:
        words[words.index(changed[0]) + 1] = changed[1]
    else:
        words += changed
    code, out, err = sottovoce(*words)
    assert (code, out) == (2, "")
    assert err.startswith("sottovoce: error: ")
    assert err.count("\n") == 1
    assert sentence in err
