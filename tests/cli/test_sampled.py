"""`account` and `calibrate` where records take part by coins."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from sottovoce import gossip, graphs
from sottovoce.accounting import account_all, sampled_account
from sottovoce.cli.printing import rounded_up

Run = Callable[..., Any]
ACCOUNT = (
    "account",
    "ring:n=5",
    "--rounds",
    "5",
    "--noise-multiplier",
    "2",
    "--participation",
    "poisson:0.2",
)
RING = gossip(graphs.metropolis_weights("ring:n=5"), rounds=5)


def test_the_number_of_the_worst_pair_stands_beside_full_participation(sottovoce: Run) -> None:
    code, out, err = sottovoce(*ACCOUNT, "--view", "secure-sum")
    found = sampled_account(RING, "secure-sum", noise_multiplier=2.0, delta=1e-5, participation="poisson:0.2")
    full = account_all(RING, "secure-sum", noise_multiplier=2.0, delta=1e-5).epsilon_upper.max()
    assert (code, err) == (0, "")
    assert out.startswith(f"ε ≤ {rounded_up(found.epsilon())} at δ = 1e-05 for the worst pair")
    for name, value in [*found.bounds().items(), ("full", float(full))]:
        assert f"{name:<9}  ε ≤ {rounded_up(value)}: " in out
    assert "poisson:0.2: a target contributes in each of 5 rounds by a secret coin" in " ".join(out.split())


def test_json_names_the_bound_and_every_view(sottovoce: Run) -> None:
    code, out, _ = sottovoce(*ACCOUNT, "--json")
    document = json.loads(out)
    assert code == 0
    assert (document["kind"], document["participation"]) == ("sampled-account", "poisson:0.2")
    views = [document, *document["other_views"]]
    assert {view["view"] for view in views} == {"neighbourhood", "secure-sum"}
    for view in views:
        assert view["epsilon"] == min(view["told"], view["amplified"]) == view[view["method"]] < view["full"]


def test_a_budget_is_held_against_the_sampled_number(sottovoce: Run) -> None:
    assert sottovoce(*ACCOUNT, "--max-epsilon", "5").code == 0
    assert sottovoce(*ACCOUNT, "--max-epsilon", "0.1").code == 3


def test_calibrated_noise_is_that_of_coins(sottovoce: Run) -> None:
    words = ("calibrate", "ring:n=5", "--rounds", "5", "--view", "secure-sum", "--target-epsilon", "1")
    code, out, _ = sottovoce(*words, "--participation", "poisson:0.2", "--json")
    document = json.loads(out)
    always = json.loads(sottovoce(*words, "--json").out)
    assert code == 0
    assert document["target_epsilon"] == 1
    assert 0.99 < document["epsilon"] <= 1
    assert document["noise_multiplier"] < always["noise_multiplier"]
    assert sottovoce(*words, "--participation", "poisson:0.2").out.startswith(
        f"A noise multiplier of {rounded_up(document['noise_multiplier'], 6)} keeps every pair within ε = 1"
    )


@pytest.mark.parametrize("option", ["--output", "--report", "--plot"])
def test_files_of_pairs_are_refused(sottovoce: Run, option: str) -> None:
    name = {"--output": "pairs.csv", "--report": "page.html", "--plot": "pairs.svg"}[option]
    code, _, err = sottovoce(*ACCOUNT, option, name)
    assert code == 2
    assert f"{option} must be left out with participation poisson:0.2" in " ".join(err.split())


def test_commands_without_an_epsilon_refuse_coins(sottovoce: Run) -> None:
    code, _, err = sottovoce(
        "sweep",
        "ring:n=5",
        "--output",
        "pairs",
        "--rounds",
        "5",
        "--view",
        "secure-sum",
        "--participation",
        "poisson:0.1",
    )
    assert code == 2
    assert "poisson:0.1 is by coins, and Δ² has none" in " ".join(err.split())


def test_a_number_of_some_pairs_says_which_and_out_of_how_many(sottovoce: Run) -> None:
    words = (*ACCOUNT, "--view", "secure-sum", "--observer", "0")
    some = " ".join(sottovoce(*words).out.split())
    assert "for the worst of the 4 pairs looked at, out of 20, in the secure-sum view." in some
    assert "4 of 20 pairs looked at observers 0 relation" in some
    one = sottovoce(*words, "--target", "2", "--json")
    document = json.loads(one.out)
    assert (document["pairs_computed"], document["pairs_possible"]) == (1, 20)
    assert (document["observers"], document["targets"]) == ([0], [2])
    text = " ".join(sottovoce(*words, "--target", "2").out.split())
    assert text.startswith(
        f"ε ≤ {rounded_up(document['epsilon'])} at δ = 1e-05 for what node 0 can learn about node 2 in the"
    )
    assert "1 of 20 pairs looked at observers 0 targets 2" in text
    for said in (some, text):
        assert "worst pair" not in said
    pooled = ("--view", "coalition-sums", "--observer", "0", "--observer", "2")
    together = " ".join(sottovoce(*ACCOUNT, *pooled).out.split())
    assert "for the worst pair of the coalition 0, 2 in the coalition-sums view." in together
    whole = json.loads(sottovoce(*ACCOUNT, "--view", "secure-sum", "--json").out)
    assert (whole["pairs_computed"], whole["pairs_possible"]) == (20, 20)
    assert not {"observers", "targets"} & set(whole)


@pytest.mark.parametrize("coins", [(), ("--participation", "poisson:0.2")])
@pytest.mark.parametrize(
    ("restricted", "kept"),
    [
        ((), "every pair within"),
        (("--observer", "1"), "the 4 pairs looked at, out of 20, within"),
        (("--observer", "1", "--target", "3"), "what node 1 can learn about node 3 within"),
    ],
)
def test_calibrated_noise_is_said_to_keep_what_was_looked_at(
    sottovoce: Run, coins: tuple[str, ...], restricted: tuple[str, ...], kept: str
) -> None:
    words = ("calibrate", "ring:n=5", "--rounds", "5", "--view", "secure-sum", "--target-epsilon", "0.5")
    said = " ".join(sottovoce(*words, *coins, *restricted).out.split())
    assert said.partition(" ε = 0.5 ")[0].endswith(f"keeps {kept}")
