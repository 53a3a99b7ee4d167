# SPDX-License-Identifier: Apache-2.0
"""No number of rounds at which the way of computing changes is seen in the ends: they move little from T to T + 1.

Δ² never falls with T, because a longer view holds the shorter one, and rises by at most 1: an observer that is told
all messages of the first round knows that contribution up to its own noise, and is then where it began.
"""

from __future__ import annotations

import sys
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
    "ring": (metropolis_weights("ring:n=12"), View.single_node(0, own_noise="hidden"), [1]),
    "star": (metropolis_weights("star:n=8"), View.neighbourhood(1), [0]),
}


FEWER = 256
"""Where forms are no longer written down here: what changes there is the same, and forms are 64 times as small.

The ring has a third as many nodes as one for 2048 rounds would, and so has come as far by then.
"""


@pytest.fixture
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the change from forms to long horizons come early."""
    write_fewer(monkeypatch)


def write_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the change from forms to long horizons come at `FEWER` rounds, wherever the package asks."""
    holders = [
        module
        for name, module in sys.modules.items()
        if name.startswith("sottovoce.") and hasattr(module, "EXPLICIT_ROUNDS")
    ]
    assert len(holders) > 5
    for module in holders:
        monkeypatch.setattr(module, "EXPLICIT_ROUNDS", FEWER)


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


EVERY_CONTRIBUTION = pytest.mark.parametrize("contribution", ["vector", "scalar"])


@EVERY_CONTRIBUTION
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.usefixtures("early")
def test_where_the_form_is_no_longer_written_down(place: str, contribution: str) -> None:
    before, after = (ends(place, FEWER + k, contribution=contribution) for k in (0, 1))
    moves_little(before, after, 0.01)


def test_where_that_is_in_earnest() -> None:
    before, after = (ends("slow, far", EXPLICIT_ROUNDS + k) for k in (0, 1))
    assert before.method[0] == "abs"
    assert after.method[0] == "horizon"
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
@pytest.mark.usefixtures("early")
def test_where_rounds_are_no_longer_all_followed(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(round_by_round, "MOST_FOLLOWED", 320)
    before, after = (ends(place, 320 + k) for k in (0, 1))
    assert (after.squared_upper <= 1.01 * before.squared_upper + 1).all()
    assert (after.squared_lower >= 0.99 * before.squared_lower).all()


def tables_move_little(place: str, rounds: int) -> None:
    """Neither end of a table of several targets jumps from so many rounds to one more."""
    weights, _, pair = PLACES[place]
    targets = [*range(2, min(weights.n, 12), 2), *pair]
    before, after = (ends(place, rounds + k, targets, effort="bulk") for k in (0, 1))
    moves_little(before, after, 0.1)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("rounds", [at_once.FEWEST_ROUNDS - 1, FEWER])
@pytest.mark.usefixtures("early")
def test_tables_where_targets_are_bounded_together(place: str, rounds: int) -> None:
    tables_move_little(place, rounds)


def test_tables_where_that_is_in_earnest() -> None:
    tables_move_little("star", EXPLICIT_ROUNDS)


@pytest.mark.parametrize("place", ["slow, far", "slow, near", "ring"])
@pytest.mark.usefixtures("early")
def test_tables_where_responses_are_no_longer_cut_into_blocks(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(at_once, "MOST_SMOOTH", 320)
    before, after = (ends(place, 320 + k, effort="bulk") for k in (0, 1))
    moves_little(before, after, 0.2)
