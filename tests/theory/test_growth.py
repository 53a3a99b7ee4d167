# SPDX-License-Identifier: Apache-2.0
"""The closed forms of Section 4: what they say, what they are the mean of, and the part that holds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sottovoce import theory
from sottovoce.errors import InputError
from sottovoce.graphs import metropolis_weights, uniform_weights
from sottovoce.rates import rate, response_spectrum
from sottovoce.views import View


@pytest.mark.parametrize("frequency", [0.3, 1.1, 2.9])
@pytest.mark.parametrize("own_noise", ["hidden", "known"])
def test_the_limits_are_means_over_targets(frequency: float, own_noise: str) -> None:
    weights = metropolis_weights("karate")
    known = own_noise == "known"
    view = View.single_node(3) if known else View.single_node(3, own_noise="hidden")
    targets = [k for k in range(weights.n) if not (known and k == 3)]
    shares = [response_spectrum(weights, view, k, np.array([frequency]))[0] for k in targets]
    claimed = theory.removed_noise_limit(weights.n, 1) if known else theory.single_node_limit(weights.n)
    assert np.mean(shares) == pytest.approx(claimed, rel=1e-8)
    assert max(shares) > 2 * claimed


def test_two_rows_share_two() -> None:
    weights, view = metropolis_weights("karate"), View(observation=np.eye(34)[[0, 5]])
    shares = [response_spectrum(weights, view, k, np.array([1.0]))[0] for k in range(34)]
    assert np.mean(shares) == pytest.approx(theory.multiple_node_limit(34, 2), rel=1e-8)


@pytest.mark.parametrize("name", ["path:n=5", "star:n=6"])
def test_constant_contributions_see_the_stationary_share(name: str) -> None:
    for weights in (metropolis_weights(name), uniform_weights(name)):
        view = View.single_node(0)
        for target, found in zip(range(1, weights.n), rate(weights, view), strict=True):
            assert theory.constant_limit(weights, target, known=[0]) == pytest.approx(
                found.constant, rel=1e-8
            )
    assert theory.constant_limit(metropolis_weights(name), 1) == pytest.approx(
        theory.single_node_limit(metropolis_weights(name).n)
    )


def test_the_finite_bounds_are_as_printed() -> None:
    n, m, rho, T = 50, 3, 0.8, 700
    printed = m / n * T + 2 / (1 - rho) ** 2 * math.sqrt(m / n * T) + 2 / (1 - rho) ** 4
    assert theory.multiple_node_bound(n, m, rho, T) == pytest.approx(printed)
    gap = 1 - rho
    single = T / n + 2 / gap**2 * math.sqrt(T / n) + 2 / gap**4
    assert theory.single_node_bound(n, gap, T) == pytest.approx(single)
    assert theory.transient_constant(rho, m) == pytest.approx(math.pi**2 / 6 * m / (1 - rho) ** 4)


def test_the_transient_form_is_its_definition() -> None:
    weights, rng = metropolis_weights("path:n=4"), np.random.default_rng(3)
    c = rng.choice([-1.0, 1.0], 9)
    W = weights.matrix.toarray()
    R = W - 1 / 4
    H = theory.system_matrix(weights, np.eye(4)[[1]], 9)
    powers = [np.linalg.matrix_power(R, m)[1, 2] for m in range(9)]
    b = np.array([sum(powers[m] * c[t - m] for m in range(1, t + 1)) for t in range(9)])
    for T in (1, 4, 9):
        K = (H @ H.T)[:T, :T]
        assert theory.transient_form(weights, 1, 2, c)[T - 1] == pytest.approx(
            b[:T] @ np.linalg.solve(K, b[:T])
        )


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: theory.multiple_node_limit(3, 4), "observed must be at most n; got 4 of 3"),
        (lambda: theory.removed_noise_limit(3, 3), "observed must be below n; got 3 of 3"),
        (lambda: theory.transient_constant(1.0), "rho must be at least 0 and below 1; got 1.0"),
        (lambda: theory.constant_limit(np.full((2, 2), 0.5), 0, known=[0]), "node 0 cannot be a target"),
        (lambda: theory.single_node_limit(0), "n must be a whole number of at least 1"),
    ],
)
def test_errors(call: object, sentence: str) -> None:
    assert callable(call)
    with pytest.raises(InputError, match=sentence):
        call()
