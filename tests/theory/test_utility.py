# SPDX-License-Identifier: Apache-2.0
"""Section 5: calibration, contraction and the terms of the utility bound."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sottovoce import gaussian, theory
from sottovoce.errors import InputError
from sottovoce.graphs import metropolis_weights


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-8])
def test_classical_noise_is_enough_below_one_and_not_far_above(delta: float) -> None:
    for epsilon in (0.05, 0.3, 0.99):
        assert gaussian.delta(1 / theory.classical_noise(1, epsilon, delta), epsilon) <= delta
        assert theory.classical_noise(1, epsilon, delta) > theory.analytic_noise(1, epsilon, delta)
    assert gaussian.delta(1 / theory.classical_noise(1, 20, delta), 20) > delta
    assert theory.classical_noise(1, 20, delta) < theory.analytic_noise(1, 20, delta)


def test_analytic_noise_meets_its_target_and_less_does_not() -> None:
    noise = theory.analytic_noise(2.0, 3.0, 1e-6)
    assert gaussian.delta(2.0 / noise, 3.0) <= 1e-6 * (1 + 1e-9)
    assert gaussian.delta(2.0 / (0.999 * noise), 3.0) > 1e-6


@pytest.mark.parametrize("name", ["ring:n=10", "karate", "path:n=6"])
def test_a_gossip_step_leaves_at_most_rho_squared(name: str) -> None:
    weights = metropolis_weights(name)
    parts, rng = theory.decompose(weights), np.random.default_rng(1)
    share = 1 - theory.consensus_parameter(parts.gap)
    assert share == pytest.approx(parts.rho**2)
    for _ in range(20):
        assert theory.contraction(weights, rng.standard_normal((3, weights.n))) <= share * (1 + 1e-12)
    slowest = np.linalg.svd(parts.remainder)[2][0]
    assert theory.contraction(weights, slowest) == pytest.approx(share)
    # What Section 5 prints promises more than that.
    assert theory.contraction(weights, slowest) > 1 - theory.printed_consensus_parameter(parts.gap)


def test_the_consensus_parameter_is_of_the_order_of_the_gap() -> None:
    for gap in (1e-4, 0.1, 0.5, 1.0):
        assert gap <= theory.consensus_parameter(gap) <= 2 * gap


def test_the_five_terms() -> None:
    loss = theory.LossConstants(smoothness=3, convexity=0.5, dimension=7, heterogeneity=4, distance=1.5)
    terms = theory.excess_risk_terms(loss, n=10, rounds=200, gap=0.2, epsilon=2, delta=1e-4)
    a = 7 * math.log(1e4) / 4
    assert terms.privacy == pytest.approx(a / (100 * 0.5))
    assert terms.root == pytest.approx(a / (10 * 0.5) / (0.04 * math.sqrt(200)))
    assert terms.mixing == pytest.approx(a / (10 * 0.5) / (0.0016 * 200))
    assert terms.heterogeneity == pytest.approx(3 * 4 / (0.25 * 0.04 * 40000))
    assert terms.start == pytest.approx(3 * 2.25 / 0.2 * math.exp(-0.2 * 0.5 / 3 * 200))
    assert terms.total == pytest.approx(
        sum((terms.privacy, terms.root, terms.mixing, terms.heterogeneity, terms.start))
    )


def test_the_leading_term_is_the_template_with_the_paper_s_noise() -> None:
    n, T, epsilon, delta = 20, 500, 1.5, 1e-5
    variance = math.log(1 / delta) / epsilon**2 * T / n
    loss = theory.LossConstants(smoothness=4, convexity=1)
    noise, apart, start = theory.template_terms(loss, n=n, rounds=T, consensus=1, variance=variance)
    terms = theory.excess_risk_terms(loss, n=n, rounds=T, gap=1, epsilon=epsilon, delta=delta)
    assert noise == pytest.approx(terms.privacy)
    assert (apart, start) == (0, 0)


def test_errors() -> None:
    with pytest.raises(InputError, match="the nodes' values must differ"):
        theory.contraction(np.full((2, 2), 0.5), [[1.0, 1.0]])
    with pytest.raises(InputError, match="gap must be above 0 and at most 1; got 0"):
        theory.consensus_parameter(0)
    with pytest.raises(InputError, match="epsilon must be a finite number above 0"):
        theory.classical_noise(1, 0, 1e-5)
    with pytest.raises(InputError, match="convexity must be a finite number above 0"):
        theory.LossConstants(smoothness=4, convexity=0)
