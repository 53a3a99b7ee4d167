# SPDX-License-Identifier: Apache-2.0
"""Levels and encoders by the filter of plain gossip, held against that of the compiled program."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.pairings import each_pair

from sottovoce import View, sensitivity
from sottovoce.errors import NotCertified
from sottovoce.filtering import hidden_system, whitened_response
from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import gossip, momentum
from sottovoce.sensitivities import encoded, policy
from sottovoce.views import observe

if TYPE_CHECKING:
    from sottovoce.filtering import FilteredResponse
    from sottovoce.protocols import Contribution

WEIGHTS, ROUNDS = metropolis_weights("random-regular:n=24,d=4,seed=3"), 34
CODES: list[dict[str, Any]] = [
    {"noise_levels": "3/7"},
    {"encoder": (1,) * ROUNDS},
    {"encoder": (2, "-1/2", "3/8"), "noise_levels": "1/3"},
    {"encoder": (1, 0, 0, -1), "damping": 0.5},
]


@pytest.mark.parametrize(
    ("code", "view", "contribution"),
    each_pair(CODES, [View.secure_sum(0), View.neighbourhood(0, own_noise="hidden")], ["vector", "scalar"]),
    ids=str,
)
def test_the_filter_of_plain_gossip_and_that_of_the_program_agree(
    code: dict[str, Any], view: View, contribution: Contribution, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol, targets = gossip(WEIGHTS, rounds=ROUNDS, **code), [3, int(WEIGHTS.neighbours(0)[0])]
    asked: list[dict[str, Any]] = [
        {"participation": each, "contribution": contribution} for each in ("full", "at-most:3")
    ]
    quick = [sensitivity(protocol, view, targets, **words) for words in asked]
    monkeypatch.setattr(policy, "FEWEST_ROUNDS", ROUNDS)
    monkeypatch.setattr(encoded, "FEW", 0)
    quick.append(sensitivity(protocol, view, targets, effort="bulk", contribution=contribution))
    monkeypatch.setattr(policy, "_by_kernel", lambda *_: None)
    slow = [sensitivity(protocol, view, targets, **words) for words in asked]
    for found, other in zip(quick, [*slow, slow[0]], strict=True):
        assert (found.squared_lower <= other.squared_upper).all()
        assert (other.squared_lower <= found.squared_upper).all()
        assert (found.squared_lower > 0).all()


def test_what_a_witness_attains_is_the_lower_end(monkeypatch: pytest.MonkeyPatch) -> None:
    protocol = gossip(WEIGHTS, rounds=64, encoder=(1, "1/2", "3/8"))
    monkeypatch.setattr(encoded, "FEW", 8)
    found = sensitivity(protocol, View.neighbourhood(0), effort="bulk")
    kernel, _ = protocol.kernel or (None, None)
    assert kernel is not None
    assert kernel.plain
    code = np.eye(64) + np.eye(64, k=-1) / 2 + np.eye(64, k=-2) * 3 / 8
    response = whitened_response(hidden_system(kernel, observe(kernel, View.neighbourhood(0))))
    for place in (0, 1, 10, 20):
        sent = code @ found.witness_of(place).reshape(64, -1)
        position = int(np.searchsorted(np.setdiff1d(np.arange(24), [0]), found.indices[place]))
        attained = float((response.respond(position, sent) ** 2).sum())
        assert attained >= found.squared_lower[place] * (1 - 1e-6)


def test_levels_scale_what_plain_gossip_finds() -> None:
    plain = sensitivity(gossip(WEIGHTS, rounds=9), View.neighbourhood(0))
    halved = sensitivity(gossip(WEIGHTS, rounds=9, noise_levels=(2,) * 24), View.neighbourhood(0))
    assert halved.squared_upper == pytest.approx(plain.squared_upper / 4, rel=1e-15)
    assert (halved.squared_upper >= plain.squared_upper / 4).all()
    assert (halved.squared_lower <= plain.squared_lower / 4).all()
    everyone = sensitivity(gossip(WEIGHTS, rounds=9, noise_levels="1/2"), View.everyone, [4])
    assert everyone.squared_lower[0] <= 36 <= everyone.squared_upper[0]


def test_a_kernel_is_plain_gossip_but_for_a_level_and_an_encoder() -> None:
    protocol = gossip(WEIGHTS, rounds=5, noise_levels="1/3", encoder=(1, 2), damping=0.5)
    plain, level = protocol.kernel or (None, None)
    assert plain is not None
    assert (plain.hash, level) == (gossip(WEIGHTS, rounds=5, damping=0.5).hash, Fraction(1, 3))
    assert gossip(WEIGHTS, rounds=5, noise_levels=(1,) * 23 + (2,)).kernel is None
    assert gossip(WEIGHTS, rounds=5, noise_levels=0).kernel is None
    assert replace(momentum(WEIGHTS, rounds=5, beta=0.5), encoder=(1, 2)).kernel is None


@pytest.mark.parametrize("contribution", ["vector", "energy"])
@pytest.mark.parametrize("view", [View.secure_sum(0), View.everyone], ids=str)
@pytest.mark.parametrize(
    "first", [Fraction(1, 10**300), Fraction(10**400), Fraction(1, 10**400)], ids=["small", "large", "tiny"]
)
def test_encoders_beyond_floats_are_refused(first: Fraction, view: View, contribution: Contribution) -> None:
    # As floats they vanish, and Δ² would be said to be 0.
    protocol = gossip(WEIGHTS, rounds=5, encoder=(first, first))
    with pytest.raises(NotCertified, match=r"must be between 1e-100 and 1e\+100 \(scale it"):
        sensitivity(protocol, view, [3], contribution=contribution)


def test_encoders_that_are_looked_at_in_turn_share_one_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    def counted(*args: Any, **words: Any) -> FilteredResponse:
        made.append(args)
        return whitened_response(*args, **words)

    monkeypatch.setattr(encoded, "whitened_response", counted)
    view, codes = View.neighbourhood(0), ((1, "1/2"), (1,) * 6, (1, "1/3", "1/9"))
    shared = [sensitivity(gossip(WEIGHTS, rounds=6, encoder=code), view, [3, 17]) for code in codes]
    assert len(made) == 1
    for asked in (
        (gossip(WEIGHTS, rounds=7, encoder=(1, "1/2")), view),
        (gossip(WEIGHTS, rounds=7, encoder=(1, "1/2"), damping=0.5), view),
        (gossip(WEIGHTS, rounds=7, encoder=(1, "1/2"), damping=0.5), View.neighbourhood(1)),
    ):
        sensitivity(*asked, [3, 17])
    assert len(made) == 4
    encoded._filter_of.cache_clear()
    for code, found in zip(codes, shared, strict=True):
        alone = sensitivity(gossip(WEIGHTS, rounds=6, encoder=code), View.neighbourhood(0), [3, 17])
        assert (alone.squared_upper == found.squared_upper).all()
        assert (alone.squared_lower == found.squared_lower).all()
