# SPDX-License-Identifier: Apache-2.0
"""How well a protocol averages, against closed forms and against a run."""

from __future__ import annotations

import numpy as np
import pytest

from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import Protocol, gossip, once, push_sum
from sottovoce.protocols.execution import draw_counts, initial_registers, run_round
from sottovoce.studies.averaging import averaging_error
from sottovoce.studies.equal_error import compared

RING = metropolis_weights("ring:n=6")
EVERY = pytest.mark.parametrize("protocol", compared(8, 5).values(), ids=compared(8, 5).keys())


def test_gossip_against_powers_of_its_matrix() -> None:
    W, T = RING.matrix.toarray(), 4
    powers = [np.linalg.matrix_power(W, k) for k in range(1, T + 1)]
    found = averaging_error(gossip(RING, rounds=T))
    mean = np.mean(powers, axis=0)
    assert found.mixing == pytest.approx(((mean - 1 / 6) ** 2).sum() / 6, rel=1e-12)
    assert found.noise == pytest.approx(sum((power**2).sum() for power in powers) / T**2 / 6, rel=1e-12)


def test_one_draw_against_a_power_of_its_matrix() -> None:
    power = np.linalg.matrix_power(RING.matrix.toarray(), 7)
    found = averaging_error(once(RING, steps=7))
    assert found.mixing == pytest.approx(((power - 1 / 6) ** 2).sum() / 6, rel=1e-12)
    assert found.noise == pytest.approx((power**2).sum() / 6, rel=1e-12)


def test_noise_that_is_taken_off_again_adds_up_to_less() -> None:
    """Anti-PGD on W = 1/n: all but the last draw cancel in the sum of the rounds."""
    W = np.full((4, 4), 0.25)
    assert averaging_error(gossip(W, rounds=5, encoder=[1] * 5)).noise == pytest.approx(1 / 4 / 25)
    assert averaging_error(gossip(W, rounds=5)).noise == pytest.approx(5 / 4 / 25)


def test_push_sum_is_unbiased() -> None:
    columns = np.array([[0.5, 0.0, 0.2], [0.5, 0.3, 0.0], [0.0, 0.7, 0.8]])
    assert averaging_error(push_sum(columns, rounds=400)).mixing < 1e-4


@EVERY
def test_the_error_is_what_runs_have(protocol: Protocol) -> None:
    """Every node contributes ±1, the same in every round; the squared error of many runs is the error foretold."""
    runs, sigma, rng = 4000, 1.5, np.random.default_rng(8)
    n, T = protocol.n, protocol.rounds
    given = rng.choice([-1.0, 1.0], size=(n, runs))
    code = np.zeros(T)
    code[: len(protocol.code)] = [float(value) for value in protocol.code]
    toeplitz = np.array([[code[t - s] if t >= s else 0.0 for s in range(T)] for t in range(T)])
    counts = [draw_counts(*protocol.round_of(t)) for t in range(T)]
    drawn = {
        name: np.linalg.solve(toeplitz, sigma * rng.standard_normal((T, counts[0][name] * runs))).reshape(
            T, -1, runs
        )
        for name in counts[0]
    }
    held, ones = initial_registers(protocol, runs), initial_registers(protocol, 1)
    for t in range(T):
        weights, program = protocol.round_of(t)
        silent = {name: np.zeros((count, 1)) for name, count in counts[t].items()}
        ones, _ = run_round(weights, program, ones, np.ones((n, 1)), silent)
        held, _ = run_round(weights, program, held, given, {name: drawn[name][t] for name in counts[t]})
    model = protocol.programs[-1].model
    squared = ((held[model] / ones[model] - given.mean(axis=0)) ** 2).mean(axis=0)
    error = squared.std() / np.sqrt(runs)
    assert abs(squared.mean() - averaging_error(protocol).at(sigma)) < 5 * error


def test_the_multiplier_meets_the_error_or_is_nothing() -> None:
    found = averaging_error(gossip(RING, rounds=3))
    assert found.at(found.multiplier(1.7)) == pytest.approx(1.7)
    assert found.multiplier(found.mixing / 2) == 0.0
