# SPDX-License-Identifier: Apache-2.0
"""The bound for long horizons against streams that are followed round by round."""

from __future__ import annotations

import numpy as np
import pytest
from tests.sensitivities.test_smooth import dense, response_of

from sottovoce.filtering import EXPLICIT_ROUNDS
from sottovoce.sensitivities.dual import solve_dual
from sottovoce.sensitivities.steady import steady_bound, steady_tables
from sottovoce.views import View

ROUNDS = EXPLICIT_ROUNDS + 300


@pytest.mark.parametrize("graph", ["erdos-renyi:n=20,p=0.3,seed=2", "star:n=7", "path:n=5"])
@pytest.mark.parametrize("view", [View.secure_sum(0), View.single_node(1, own_noise="hidden")])
def test_no_stream_exceeds_the_bound(graph: str, view: View) -> None:
    rng = np.random.default_rng(1)
    system, response = response_of(graph, view, rounds=ROUNDS)
    positions = np.arange(min(4, system.unknown.size))
    bounds = steady_bound(steady_tables(response), response.columns(positions))
    streams = np.column_stack(
        [np.ones(ROUNDS), (-1.0) ** np.arange(ROUNDS), np.sign(rng.standard_normal(ROUNDS))]
    )
    for position, bound in zip(positions, bounds, strict=True):
        values = (response.respond(int(position), streams) ** 2).sum(axis=0)
        assert values.max() <= bound


def test_far_targets_of_a_mixing_graph_are_close() -> None:
    system, response = response_of("erdos-renyi:n=60,p=0.2,seed=3", View.secure_sum(0), rounds=50_000)
    far = np.flatnonzero(system.hops() == 1)[:4]
    bounds = steady_bound(steady_tables(response), response.columns(far))
    assert np.all(bounds <= 1.1 * 50_000 / 59)
    assert np.all(bounds >= 0.99 * 50_000 / 59)


@pytest.mark.parametrize("rounds", [64, 100, 333])
@pytest.mark.parametrize(
    "graph", ["erdos-renyi:n=60,p=0.2,seed=3", "random-regular:n=40,d=6,seed=1", "star:n=7"]
)
def test_short_horizons_are_bounded_too(graph: str, rounds: int) -> None:
    system, response = response_of(graph, View.secure_sum(0), rounds=rounds)
    positions = np.arange(0, system.unknown.size, 7)
    bounds = steady_bound(steady_tables(response), response.columns(positions))
    for position, bound in zip(positions, bounds, strict=True):
        F = dense(response, int(position))
        attained = solve_dual(F.T @ F, tolerance=1e-4).attained
        assert attained <= bound
        assert system.hops()[position] == 0 or bound <= (1 + 30 / rounds) * attained
