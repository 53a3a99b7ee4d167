# SPDX-License-Identifier: Apache-2.0
"""Composition, projected Gaussians and the decomposition of W."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from sottovoce import gaussian, theory
from sottovoce.errors import GraphError, InputError
from sottovoce.graphs import metropolis_weights, uniform_weights


def test_composition_is_the_formula_of_lemma_4() -> None:
    sensitivity, noise, rounds, epsilon = 0.7, 5.0, 30, 1.3
    spread = math.sqrt(rounds) * sensitivity / noise
    written = norm.cdf(-epsilon / spread + spread / 2) - math.exp(epsilon) * norm.cdf(
        -epsilon / spread - spread / 2
    )
    assert gaussian.delta(theory.composed_mu(sensitivity, noise, rounds), epsilon) == pytest.approx(
        written, rel=1e-9
    )


def test_an_invertible_map_is_inverted() -> None:
    rng = np.random.default_rng(1)
    A, v = rng.standard_normal((4, 4)), rng.standard_normal(4)
    assert theory.projected_sensitivity(v, A) == pytest.approx(np.linalg.norm(np.linalg.solve(A, v)))


def test_a_wide_map_spends_the_least_noise() -> None:
    rng = np.random.default_rng(2)
    A, v = rng.standard_normal((3, 6)), rng.standard_normal(3)
    # Every z with Az = v is an explanation; the sensitivity is the shortest, vᵀ(AAᵀ)⁻¹v.
    assert theory.projected_sensitivity(v, A) ** 2 == pytest.approx(v @ np.linalg.solve(A @ A.T, v))


def test_what_no_noise_hides_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"must lie in the range of the noise map.*the privacy loss is infinite"
    ):
        theory.projected_sensitivity([1.0, 0.0], [[1.0], [1.0]])


@pytest.mark.parametrize("name", ["ring:n=7", "karate", "complete:n=4", "path:n=5"])
def test_the_remainder_shrinks_as_powers_of_rho(name: str) -> None:
    weights = metropolis_weights(name)
    parts = theory.decompose(weights)
    others = np.sort(np.abs(np.linalg.eigvalsh(weights.matrix.toarray())))[:-1]
    assert parts.rho == pytest.approx(others.max(initial=0.0), abs=1e-12)
    assert np.abs(parts.remainder.sum(axis=0)).max() < 1e-12
    assert np.abs(parts.mean @ parts.remainder).max() < 1e-12
    for t in (1, 2, 5):
        power = np.linalg.matrix_power(parts.remainder, t)
        assert np.linalg.norm(power, 2) == pytest.approx(parts.rho**t, abs=1e-12)
        assert np.allclose(np.linalg.matrix_power(weights.matrix.toarray(), t), parts.mean + power)


def test_only_symmetric_weights_decompose() -> None:
    with pytest.raises(GraphError, match=r"must be symmetric.*use metropolis_weights"):
        theory.decompose(uniform_weights("path:n=4"))
