# SPDX-License-Identifier: Apache-2.0
"""No number of rounds at which the way of computing changes is seen in the ends: they move little from T to T + 1.

Δ² never falls with T, because a longer view holds the shorter one, and rises by at most 1: an observer that is told
all messages of the first round knows that contribution up to its own noise, and is then where it began.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from tests.reference import Scene, scenes

from sottovoce.filtering import EXPLICIT_ROUNDS
from sottovoce.graphs import GossipWeights, matrix_weights, metropolis_weights
from sottovoce.protocols import gossip
from sottovoce.sensitivities import Sensitivities, sensitivity
from sottovoce.sensitivities.long_horizons import round_by_round
from sottovoce.sensitivities.many_targets import at_once
from sottovoce.sensitivities.one_form import patterns, witnesses
from sottovoce.views import View


def two_cliques(size: int, coupling: float) -> GossipWeights:
    """Two cliques that average within, joined by one weak link."""
    W = np.kron(np.eye(2), np.full((size, size), 1 / size))
    W[0, size] = W[size, 0] = coupling
    W[0, 0] -= coupling
    W[size, size] -= coupling
    return matrix_weights(W)


PLACES: dict[str, tuple[GossipWeights, View, list[int]]] = {
    "slow, far": (two_cliques(6, 1e-3), View.secure_sum(1), [7]),
    "slow, near": (two_cliques(6, 1e-3), View.secure_sum(0), [6]),
    "slower": (two_cliques(4, 1e-6), View.secure_sum(1), [5]),
    "ring": (metropolis_weights("ring:n=30"), View.single_node(0, own_noise="hidden"), [2]),
    "star": (metropolis_weights("star:n=8"), View.neighbourhood(1), [0]),
}


def ends(place: str, rounds: int, targets: list[int] | None = None, **options: Any) -> Sensitivities:
    weights, view, pair = PLACES[place]
    return sensitivity(gossip(weights, rounds=rounds), view, pair if targets is None else targets, **options)


def moves_little(before: Sensitivities, after: Sensitivities, share: float) -> None:
    """Neither end jumps, beyond the growth that one more round allows."""
    assert (after.squared_lower >= (1 - share) * before.squared_lower).all()
    assert (after.squared_upper <= (1 + share) * before.squared_upper + 1).all()
    # The truth at T + 1 is at least that at T, so an upper end that falls was too high before.
    assert (after.squared_upper >= before.squared_lower).all()
    wide = before.squared_upper - before.squared_lower
    grown = share * before.squared_upper + 1e-5
    assert (after.squared_upper - after.squared_lower <= wide + grown).all()


@given(scenes(most_rounds=6))
def test_one_more_round_adds_no_less_than_nothing_and_no_more_than_one(scene: Scene) -> None:
    longer = Scene(scene.weights, scene.view, scene.target, scene.rounds + 1)
    before = scene.form.scalar_maximum()
    assert before <= longer.form.scalar_maximum() <= before + 1


@pytest.mark.parametrize("contribution", ["vector", "scalar"])
@pytest.mark.parametrize("place", PLACES)
def test_where_the_form_is_no_longer_written_down(place: str, contribution: str) -> None:
    before, after = (ends(place, EXPLICIT_ROUNDS + k, contribution=contribution) for k in (0, 1))
    moves_little(before, after, 0.01)


@pytest.mark.parametrize("place", PLACES)
def test_where_signs_are_no_longer_enumerated(place: str) -> None:
    before, after = (ends(place, witnesses.ENUMERABLE + k, contribution="scalar") for k in (0, 1))
    moves_little(before, after, 0.12)


@pytest.mark.parametrize("place", ["slow, far", "ring"])
def test_where_patterns_are_no_longer_gone_through(place: str) -> None:
    # 496 patterns of two rounds among 32, 528 among 33.
    assert 496 <= patterns.ENUMERABLE_PATTERNS < 528
    before, after = (ends(place, rounds, participation="at-most:2") for rounds in (32, 33))
    moves_little(before, after, 0.03)


@pytest.mark.parametrize("place", ["slow, far", "slow, near", "slower"])
def test_where_rounds_are_no_longer_all_followed(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(round_by_round, "MOST_FOLLOWED", 2500)
    before, after = (ends(place, 2500 + k) for k in (0, 1))
    assert (after.squared_upper <= 1.01 * before.squared_upper + 1).all()
    assert (after.squared_lower >= 0.99 * before.squared_lower).all()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("rounds", [at_once.FEWEST_ROUNDS - 1, EXPLICIT_ROUNDS])
def test_tables_where_targets_are_bounded_together(place: str, rounds: int) -> None:
    weights, _, pair = PLACES[place]
    targets = [*range(2, min(weights.n, 12), 2), *pair]
    before, after = (ends(place, rounds + k, targets, effort="bulk") for k in (0, 1))
    moves_little(before, after, 0.1)


@pytest.mark.parametrize("place", ["slow, far", "slow, near", "ring"])
def test_tables_where_responses_are_no_longer_cut_into_blocks(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(at_once, "MOST_SMOOTH", 2500)
    before, after = (ends(place, 2500 + k, effort="bulk") for k in (0, 1))
    moves_little(before, after, 0.2)
