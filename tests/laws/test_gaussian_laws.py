# SPDX-License-Identifier: Apache-2.0
"""Laws of the Gaussian mechanism, for every mu, ε and δ that hypothesis can find."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.profiles import examples

from sottovoce import gaussian

# Roundings may cross where two exact values are closer than their margins.
CROSS = 1e-12


def powers_of_ten(lowest: float, highest: float) -> st.SearchStrategy[float]:
    return st.floats(lowest, highest).map(lambda exponent: 10.0**exponent)


mus = powers_of_ten(-8, 4)
epsilons = powers_of_ten(-8, 4) | st.just(0.0)
deltas = powers_of_ten(-300, -0.001) | st.floats(0.001, 1 - 1e-9)
rates = powers_of_ten(-300, -0.001) | st.floats(0.001, 0.999)
factors = st.floats(1.0, 10.0)


@examples(80)
@given(mus, factors, epsilons)
def test_more_signal_never_lowers_delta(mu: float, factor: float, epsilon: float) -> None:
    lower, higher = gaussian.log_delta(mu, epsilon), gaussian.log_delta(mu * factor, epsilon)
    assert higher >= lower - CROSS * max(1, abs(lower))
    assert gaussian.delta(mu * factor, epsilon) >= gaussian.delta(mu, epsilon) * (1 - CROSS)


@examples(80)
@given(mus, epsilons, factors)
def test_larger_epsilon_never_raises_delta(mu: float, epsilon: float, factor: float) -> None:
    assert gaussian.delta(mu, epsilon * factor) <= gaussian.delta(mu, epsilon) * (1 + CROSS)


@examples(80)
@given(mus, factors, deltas)
def test_more_noise_never_raises_epsilon(mu: float, factor: float, delta: float) -> None:
    scale = mu * factor * max(1, mu * factor)
    assert gaussian.epsilon(mu, delta) <= gaussian.epsilon(mu * factor, delta) + CROSS * scale


@examples(80)
@given(mus, deltas, factors)
def test_smaller_delta_never_lowers_epsilon(mu: float, delta: float, factor: float) -> None:
    epsilon = gaussian.epsilon(mu, delta)
    assert gaussian.epsilon(mu, delta / factor) >= epsilon - CROSS * mu * max(1, mu) - CROSS * epsilon


@examples(80)
@given(epsilons, deltas, factors)
def test_a_larger_budget_never_lowers_mu(epsilon: float, delta: float, factor: float) -> None:
    mu = gaussian.mu(epsilon, delta)
    assert gaussian.mu(epsilon * factor, delta) >= mu * (1 - CROSS)
    assert gaussian.mu(epsilon, delta / factor) <= mu * (1 + CROSS)


@examples(80)
@given(mus, deltas)
def test_delta_at_epsilon_keeps_the_promise(mu: float, delta: float) -> None:
    assert gaussian.delta(mu, gaussian.epsilon(mu, delta)) <= delta


@examples(80)
@given(mus, epsilons)
def test_epsilon_of_delta_returns_from_above(mu: float, epsilon: float) -> None:
    # delta() is rounded up by less than 2e-13; what it was rounded from has an ε of at least the one put in.
    rounded = gaussian.delta(mu, epsilon)
    lowered = min(rounded * (1 - 3e-13), 1 - 3e-13)
    if lowered > 1e-300 and rounded < 1:
        assert gaussian.epsilon(mu, lowered) >= epsilon


@examples(80)
@given(epsilons, deltas)
def test_calibration_meets_its_target_and_less_noise_does_not(epsilon: float, delta: float) -> None:
    mu = gaussian.mu(epsilon, delta)
    assert gaussian.delta(mu, epsilon) <= delta
    assert gaussian.epsilon(mu, delta) <= epsilon
    assert gaussian.log_delta(mu / 0.999, epsilon) > math.log(delta)


@examples(80)
@given(mus, deltas)
def test_mu_of_epsilon_returns(mu: float, delta: float) -> None:
    epsilon = gaussian.epsilon(mu, delta)
    if epsilon > 0:
        assert gaussian.mu(epsilon, delta) == pytest.approx(mu, rel=CROSS)


@examples(80)
@given(mus, epsilons)
def test_delta_and_its_logarithm_agree(mu: float, epsilon: float) -> None:
    delta, log_delta = gaussian.delta(mu, epsilon), gaussian.log_delta(mu, epsilon)
    if log_delta > -690:
        assert math.log(delta) == pytest.approx(log_delta, rel=CROSS, abs=2e-13)
    else:
        assert 0 < delta < 1e-299


@examples(80)
@given(mus)
def test_advantage_is_delta_at_zero_and_the_widest_gap_of_the_rates(mu: float) -> None:
    advantage = gaussian.advantage(mu)
    assert gaussian.delta(mu, 0.0) == pytest.approx(advantage, rel=CROSS)
    fpr = np.linspace(0, 1, 201)
    assert np.all(gaussian.true_positive_rate(mu, fpr) - fpr <= advantage + CROSS)


@examples(80)
@given(powers_of_ten(-8, 1.3), rates)
def test_trade_off_is_its_own_inverse(mu: float, fpr: float) -> None:
    miss = gaussian.trade_off(mu, fpr)
    # Swapping the two hypotheses mirrors the curve; away from 1, where floats run out of digits.
    if 1e-290 < miss < 0.9 and fpr < 0.9:
        assert gaussian.trade_off(mu, miss) == pytest.approx(fpr, rel=1e-11)


@examples(80)
@given(mus, st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_trade_off_is_convex_and_below_guessing(mu: float, a: float, b: float, weight: float) -> None:
    between = gaussian.trade_off(mu, min(1.0, weight * a + (1 - weight) * b))
    chord = weight * gaussian.trade_off(mu, a) + (1 - weight) * gaussian.trade_off(mu, b)
    assert between <= chord + CROSS
    assert gaussian.trade_off(mu, a) <= 1 - a


@examples(80)
@given(mus, rates)
def test_the_two_rates_enclose_one(mu: float, fpr: float) -> None:
    hit, miss = gaussian.true_positive_rate(mu, fpr), gaussian.trade_off(mu, fpr)
    assert fpr <= hit <= 1
    assert 0 <= 1 - (hit + miss) + CROSS <= 2 * CROSS


@examples(80)
@given(mus, epsilons, rates)
def test_every_point_of_the_profile_supports_the_trade_off(mu: float, epsilon: float, fpr: float) -> None:
    # (ε, δ)-privacy bounds every attack: β ≥ 1 − δ − e^ε α.
    if epsilon < 700:
        bound = 1 - gaussian.delta(mu, epsilon) - math.exp(epsilon) * fpr
        assert gaussian.trade_off(mu, fpr) >= bound - CROSS


@examples(80)
@given(mus, st.floats(1.001, 1e4), deltas)
def test_exact_epsilon_is_below_the_renyi_conversion(mu: float, alpha: float, delta: float) -> None:
    assert gaussian.epsilon(mu, delta) <= gaussian.rdp(mu, alpha) + math.log(1 / delta) / (alpha - 1) + CROSS
    assert gaussian.rdp(mu, alpha) == pytest.approx(alpha * gaussian.zcdp(mu), rel=CROSS)
