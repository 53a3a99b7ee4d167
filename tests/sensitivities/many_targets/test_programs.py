# SPDX-License-Identifier: Apache-2.0
"""Ends of all targets of a program at once, held against those that are solved for one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from sottovoce import sensitivity
from sottovoce.graphs import lazy_weights, metropolis_weights
from sottovoce.protocols import (
    Protocol,
    chebyshev,
    clean_state,
    exact_diffusion,
    gossip,
    gradient_tracking,
    momentum,
    pairwise_noise,
    push_sum,
    repeated,
    scheduled,
)
from sottovoce.views import View

if TYPE_CHECKING:
    from sottovoce.protocols import Contribution

WEIGHTS, ROUNDS = metropolis_weights("random-regular:n=120,d=4,seed=3"), 64
DIRECTED = np.roll(np.eye(120), 1, axis=0) / 2 + np.roll(np.eye(120), 7, axis=0) / 4 + np.eye(120) / 4
PROTOCOLS = [
    gossip(WEIGHTS, rounds=ROUNDS, noise_levels=2),
    gossip(WEIGHTS, rounds=ROUNDS, encoder=(1, "1/2", "3/8")),
    pairwise_noise(WEIGHTS, rounds=ROUNDS, local=1, shared=2),
    clean_state(WEIGHTS, rounds=ROUNDS, keep="1/2"),
    momentum(WEIGHTS, rounds=ROUNDS, beta="9/10"),
    gradient_tracking(WEIGHTS, rounds=ROUNDS),
    exact_diffusion(lazy_weights(WEIGHTS), rounds=ROUNDS),
    repeated(WEIGHTS, rounds=ROUNDS, steps=2),
    chebyshev(WEIGHTS, rounds=ROUNDS, steps=2, gamma="6/5"),
    push_sum(DIRECTED, rounds=ROUNDS),
    scheduled([WEIGHTS, lazy_weights(WEIGHTS)], rounds=ROUNDS),
]
TARGETS = [3, 17, 40, 77, 101]


@pytest.mark.parametrize("view", [View.secure_sum(0), View.neighbourhood(0)], ids=str)
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.name)
def test_ends_in_bulk_and_one_by_one_overlap(protocol: Protocol, view: View) -> None:
    whole = sensitivity(protocol, view, effort="bulk")
    some = np.isin(whole.indices, [*TARGETS, *WEIGHTS.neighbours(0).tolist()])
    fine = sensitivity(protocol, view, whole.targets[some].tolist(), effort="fine")
    assert (whole.squared_lower <= whole.squared_upper).all()
    assert (whole.squared_lower[some] <= fine.squared_upper).all()
    assert (whole.squared_upper[some] >= fine.squared_lower).all()
    assert (whole.squared_upper[some] > 0).all()
    seen = whole.squared_lower > 0
    assert np.median(whole.squared_upper[seen] / whole.squared_lower[seen]) < 2


@pytest.mark.parametrize("contribution", ["vector", "energy"])
@pytest.mark.parametrize("participation", ["full", "every:8", "at-most:5"])
@pytest.mark.parametrize("protocol", [PROTOCOLS[1], PROTOCOLS[4], PROTOCOLS[-1]], ids=lambda each: each.name)
def test_patterns_and_energies_in_bulk_overlap(
    protocol: Protocol, participation: str, contribution: Contribution
) -> None:
    whole, fine = (
        sensitivity(
            protocol,
            View.secure_sum(0),
            TARGETS,
            effort=effort,
            contribution=contribution,
            participation=participation,
        )
        for effort in ("bulk", "fine")
    )
    assert (whole.squared_lower <= fine.squared_upper).all()
    assert (whole.squared_upper >= fine.squared_lower).all()
    assert (whole.squared_upper > 0).all()


@pytest.mark.parametrize("place", [0, 2, 60])
def test_the_stream_behind_a_lower_end_attains_it(place: int) -> None:
    protocol = momentum(WEIGHTS, rounds=ROUNDS, beta="9/10")
    found = sensitivity(protocol, View.secure_sum(0), effort="bulk")
    target = found.targets[place]
    assert found[target].witness.shape[0] == ROUNDS
    assert np.linalg.norm(found[target].witness.reshape(ROUNDS, -1), axis=1).max() <= 1 + 1e-12


def test_large_networks_are_accounted_for() -> None:
    large = momentum(metropolis_weights("random-regular:n=4000,d=6,seed=2"), rounds=64, beta="1/2")
    found = sensitivity(large, View.secure_sum(0), effort="bulk")
    assert found.engine == "reduced"
    assert (found.squared_upper <= 64).all()
    reached = found.squared_lower > 0
    assert reached.sum() > 3000
    assert np.median(found.squared_upper[reached] / found.squared_lower[reached]) < 1.5
