# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sottovoce import View, account_all, gossip, graphs, sensitivity
from sottovoce.accounting import sampling
from sottovoce.accounting.mixtures import binomial_above, mixed_epsilon
from sottovoce.accounting.sampling import SampledAccount, calibrate_sampled, sampled_account
from sottovoce.errors import InputError, NotCertified
from sottovoce.protocols import Protocol, momentum

if TYPE_CHECKING:
    from pathlib import Path

PAIR = graphs.metropolis_weights("path:n=2")
RING = graphs.metropolis_weights("ring:n=6")
FINE, COARSE = np.linspace(-12, 14, 200_001), np.linspace(-12, 14, 2401)


def hockey_stick(p: Any, q: Any, epsilon: float) -> float:
    """∫ (p − e^ε q)₊ over a grid of one or two dimensions."""
    found = p - np.exp(epsilon) * q
    np.maximum(found, 0, out=found)
    axis = FINE if found.ndim == 1 else COARSE
    for _ in range(found.ndim):
        found = found @ simpson_weights(axis)
    return float(found)


def simpson_weights(axis: Any) -> Any:
    """What values at evenly spaced points, an odd number of them, count for in an integral: a step/3 · 1 4 2 4 … 1."""
    weights = np.full(axis.size, 2.0)
    weights[1::2] = 4.0
    weights[[0, -1]] = 1.0
    return weights * (axis[1] - axis[0]) / 3


def normal_density(axis: Any) -> Any:
    return np.exp(-(axis**2) / 2) / np.sqrt(2 * np.pi)


def sampled_density(axis: Any, mu: float, rate: float) -> Any:
    return (1 - rate) * normal_density(axis) + rate * normal_density(axis - mu)


@pytest.mark.parametrize("away", [False, True])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.5])
@pytest.mark.parametrize("rounds", [1, 2])
def test_both_bounds_hold_for_two_nodes_by_quadrature(rounds: int, epsilon: float, away: bool) -> None:
    rate, noise = 0.3, 0.8
    # Node 0 knows all that it sent, so that node 1's fresh contribution and draw are what it learns in a round.
    found = sampled_account(
        gossip(PAIR, rounds=rounds),
        View.neighbourhood(0),
        noise_multiplier=noise,
        delta=1e-5,
        participation=f"poisson:{rate}",
    )
    axis = FINE if rounds == 1 else COARSE
    there, gone = sampled_density(axis, 1 / noise, rate), normal_density(axis)
    if rounds == 2:
        there, gone = np.multiply.outer(there, there), np.multiply.outer(gone, gone)
    truth = hockey_stick(gone, there, epsilon) if away else hockey_stick(there, gone, epsilon)
    told = replace(found, own_level=None).delta(epsilon)
    assert truth <= found.delta(epsilon) * (1 + 1e-5)
    assert truth <= told * (1 + 1e-7)
    if not away and epsilon > 0:
        # Secret coins hide more than those that are told, and the larger order is met closely.
        assert found.delta(epsilon) == pytest.approx(truth, rel=2e-3)
        assert told > 1.2 * truth


def test_a_round_that_does_not_arrive_costs_nothing_but_the_bound_holds() -> None:
    # Of two rounds only the first reaches the end of a path, so one coin matters, and any single round may be that one.
    path = gossip(graphs.metropolis_weights("path:n=3"), rounds=2)
    view, rate = View.secure_sum(0), 0.4
    mu = float(np.sqrt(sensitivity(path, view, targets=[2]).squared_lower[0])) / 0.3
    found = sampled_account(
        path, view, noise_multiplier=0.3, delta=1e-5, targets=[2], participation=f"poisson:{rate}"
    )
    truth = hockey_stick(sampled_density(FINE, mu, rate), normal_density(FINE), 0.5)
    assert truth <= replace(found, own_level=None).delta(0.5)


@pytest.mark.parametrize(("noise", "rate", "rounds"), [(1.0, 0.05, 40), (2.0, 0.2, 100)])
def test_amplified_is_what_dp_accounting_says_of_who_sees_everything(
    noise: float, rate: float, rounds: int
) -> None:
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
    from dp_accounting.pld import PLDAccountant

    found = sampled_account(
        gossip(RING, rounds=rounds),
        "everyone",
        noise_multiplier=noise,
        delta=1e-5,
        participation=f"poisson:{rate}",
    )
    known = PLDAccountant()
    known.compose(SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)), rounds))
    assert found.method() == "amplified"
    assert found.assumption == "none"
    assert found.epsilon() == pytest.approx(known.get_epsilon(1e-5), rel=1e-4)
    assert found.epsilon() >= known.get_epsilon(1e-5)
    # Coins that are told cost what each count of rounds costs, on average.
    counted = mixed_epsilon(np.sqrt(np.arange(rounds + 1.0)) / noise, binomial_above(rounds, rate), 1e-5)
    assert counted <= found.bounds()["told"] <= counted * (1 + 1e-6) + 1e-9


CASES: list[tuple[Protocol, str, dict[str, Any]]] = [
    (gossip(RING, rounds=8), "secure-sum", {}),
    (gossip(RING, rounds=8, damping=np.full(6, 0.5)), "neighbourhood", {"observers": [0]}),
    (gossip(RING, rounds=8, updates=(0.5, 1)), "secure-sum", {"observers": [0]}),
    (
        gossip(graphs.metropolis_weights("complete:n=5"), rounds=8, updates="any"),
        "secure-sum",
        {"observers": [0]},
    ),
    (gossip(RING, rounds=8), "secure-sum", {"relation": "replace-one"}),
    (gossip(RING, rounds=8), "secure-sum", {"contribution": "energy"}),
    (gossip(RING, rounds=8), "secure-sum", {"contribution": "scalar"}),
]


@cache
def by_coins(place: int) -> SampledAccount:
    """The account of a case whose records take part by coins."""
    protocol, view, words = CASES[place]
    asked: Any = {"noise_multiplier": 1.0, "delta": 1e-5, "participation": "poisson:0.3", **words}
    return sampled_account(protocol, view, **asked)


@pytest.mark.parametrize("place", range(len(CASES)))
def test_any_k_rounds_are_bounded(place: int) -> None:
    found, (protocol, view, words) = by_coins(place), CASES[place]
    attained = {
        count: account_all(
            protocol, view, noise_multiplier=1.0, delta=1e-5, participation=f"at-most:{count}", **words
        )
        for count in (1, 3, 8)
    }
    for count, table in attained.items():
        assert found.squared_upper[found.counts.index(count)] >= table.squared_lower.max() * (1 - 1e-12)
    assert found.squared_upper[-1] <= attained[8].squared_upper.max() * (1 + 1e-6)
    assert found.told_assumption == attained[8].assumption


@pytest.mark.parametrize("place", range(5))
def test_coins_never_cost_more_than_taking_part_always(place: int) -> None:
    found, (protocol, view, words) = by_coins(place), CASES[place]
    always = account_all(protocol, view, noise_multiplier=1.0, delta=1e-5, **words).worst().epsilon().upper
    # Of few rounds every count is bounded, so the same bounds serve every rate.
    told = replace(found, own_level=None)
    assert found.counts == tuple(range(1, protocol.rounds + 1))
    rates = [replace(told, rate=rate).bounds()["told"] for rate in (0.05, 0.3, 0.9, 0.9999999)]
    assert rates == sorted(rates)
    assert rates[-1] == pytest.approx(always, rel=1e-4)
    assert rates[-1] <= always * (1 + 1e-8)
    noises = [found.with_noise(noise).epsilon() for noise in (0.5, 1.0, 2.0, 4.0)]
    assert noises == sorted(noises, reverse=True)
    assert noises[1] <= rates[1]


def test_replace_one_and_energy_have_no_amplified_number() -> None:
    some: Any = ({"relation": "replace-one"}, {"contribution": "energy"})
    for words in some:
        found = sampled_account(
            gossip(RING, rounds=5),
            "everyone",
            noise_multiplier=1.0,
            delta=1e-5,
            participation="poisson:0.1",
            **words,
        )
        assert set(found.bounds()) == {"told"}


def test_the_least_noise_of_a_node_counts_where_every_message_is_seen() -> None:
    asked: dict[str, Any] = {"noise_multiplier": 2.0, "delta": 1e-5, "participation": "poisson:0.1"}
    uneven = sampled_account(
        gossip(RING, rounds=10, noise_levels=(1, 1, 0.5, 1, 2, 1), updates=(0.5, 1)), "everyone", **asked
    )
    even = sampled_account(gossip(RING, rounds=10, updates=(0.5, 1)), "everyone", **asked)
    assert uneven.epsilon() == pytest.approx(even.with_noise(1.0).epsilon(), rel=1e-6)


def test_other_programs_are_not_taken_for_subsampled_gaussians() -> None:
    found = sampled_account(
        momentum(RING, rounds=5, beta=0.5),
        "secure-sum",
        noise_multiplier=2.0,
        delta=1e-5,
        observers=[0],
        participation="poisson:0.1",
    )
    assert set(found.bounds()) == {"told"}


@pytest.mark.parametrize(
    ("protocol", "rate", "method"),
    [
        (gossip(RING, rounds=30), 0.1, "amplified"),
        (gossip(graphs.metropolis_weights("complete:n=30"), rounds=30), 0.5, "told"),
    ],
)
def test_calibrated_noise_meets_its_target_and_a_hundredth_less_does_not(
    protocol: Protocol, rate: float, method: str
) -> None:
    found = sampled_account(
        protocol,
        "secure-sum",
        noise_multiplier=1.0,
        delta=1e-5,
        observers=[0],
        participation=f"poisson:{rate}",
    )
    noise = calibrate_sampled(found, 1.0, 1e-5)
    assert found.with_noise(noise).epsilon() <= 1.0
    assert found.with_noise(0.99 * noise).epsilon() > 1.0
    assert found.with_noise(noise).method() == method


def test_without_dp_accounting_coins_count_as_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "_composed", lambda *_: None)
    found = sampled_account(
        gossip(RING, rounds=10), "secure-sum", noise_multiplier=2.0, delta=1e-5, participation="poisson:0.1"
    )
    assert (found.method(), found.assumption) == ("told", "oblivious")
    assert found.delta(found.epsilon()) <= 1e-5


def test_a_delta_that_transforms_cannot_resolve_is_left_to_coins_that_are_told() -> None:
    found = sampled_account(
        gossip(RING, rounds=10), "everyone", noise_multiplier=2.0, delta=1e-12, participation="poisson:0.1"
    )
    assert found.method() == "told"
    assert found.method(1e-6) == "amplified"


def test_many_rounds_are_counted_in_spans() -> None:
    found = sampled_account(
        gossip(RING, rounds=20_000),
        "everyone",
        noise_multiplier=30.0,
        delta=1e-5,
        participation="poisson:0.01",
    )
    assert len(found.counts) <= sampling.COUNTS + 1
    counted = mixed_epsilon(np.sqrt(np.arange(20_001.0)) / 30, binomial_above(20_000, 0.01), 1e-5)
    assert counted <= found.bounds()["told"] <= counted * 1.01


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"participation": "full"}, r"must be by coins, spelled like poisson:0.1; got full \(ask account\)"),
        ({"participation": "poisson:0.1", "noise_multiplier": 0.0}, "noise_multiplier must be"),
        ({"participation": "poisson:0.1", "delta": 1.0}, "delta must lie strictly between"),
    ],
)
def test_what_is_no_sampled_question_is_refused(words: dict[str, Any], sentence: str) -> None:
    asked: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-5} | words
    with pytest.raises(InputError, match=sentence):
        sampled_account(gossip(RING, rounds=5), "everyone", **asked)


def test_noise_that_nothing_needs_or_reaches_is_refused() -> None:
    found = sampled_account(
        gossip(RING, rounds=5), "everyone", noise_multiplier=1.0, delta=1e-5, participation="poisson:1e-9"
    )
    with pytest.raises(InputError, match=r"5e-09 or more nothing is, so that delta 1e-05 needs no noise"):
        calibrate_sampled(found, 1.0, 1e-5)
    busy = replace(found, rate=0.5)
    with pytest.raises(NotCertified, match=r"no noise multiplier up to .* reaches epsilon 1e-12"):
        calibrate_sampled(replace(busy, own_level=None), 1e-12, 1e-14)


def test_verbs_that_have_no_coins_refuse_them_and_name_the_one_that_has(tmp_path: Path) -> None:
    from sottovoce import audit, calibrate, certify, rate
    from sottovoce.coalitions import worst_coalition
    from sottovoce.sweeps import sweep

    ring, view = gossip(RING, rounds=5), View.secure_sum(0)
    coins: dict[str, Any] = {"participation": "poisson:0.1"}
    told: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-5, **coins}
    asked: list[Any] = [
        lambda: sensitivity(ring, view, **coins),
        lambda: certify(ring, view, 1, **coins),
        lambda: account_all(ring, view, **told),
        lambda: calibrate(ring, view, target_epsilon=1.0, target_delta=1e-5, **coins),
        lambda: audit(ring, view, 1, **told),
        lambda: worst_coalition(ring, 1, size=2, **coins),
        lambda: rate(ring, view, **coins),
        lambda: sweep(ring, "secure-sum", folder=tmp_path / "pairs", **coins),
    ]
    for ask in asked:
        with pytest.raises(
            InputError, match=r"poisson:0.1 is by coins, and Δ² has none.*ask sampled_account"
        ):
            ask()
    assert not (tmp_path / "pairs").exists()
