# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from sottovoce import gaussian
from sottovoce.accounting import mixtures
from sottovoce.accounting.mixtures import binomial_above, mixed_delta, mixed_epsilon
from sottovoce.errors import InputError


@pytest.mark.parametrize(
    ("count", "rate"), [(1, 0.5), (3, 0.1), (40, 0.75), (200, 0.01), (400, 0.999), (7, 1e-12)]
)
def test_probabilities_are_bounded_from_above_and_closely(count: int, rate: float) -> None:
    bounds = binomial_above(count, rate)
    q = Fraction(rate)
    for k in range(count + 1):
        exact = math.comb(count, k) * q**k * (1 - q) ** (count - k)
        assert Fraction(float(bounds[k])) >= exact
        assert bounds[k] <= max(float(exact) * (1 + 30 * (count + 2) * 2**-53), 1e-290)


def test_many_tosses_are_counted_too() -> None:
    bounds = binomial_above(10**6, 0.01)
    assert 1 <= bounds.sum() < 1 + 1e-8
    assert bounds[10_000] == pytest.approx(stats.binom.pmf(10_000, 10**6, 0.01), rel=1e-8)


def test_a_shown_coin_is_what_the_bound_is_about() -> None:
    # The view is the coin and a Gaussian: the divergence is the mean over the coin, exactly.
    shown = 0.3 * gaussian.delta(2.0, 0.7)
    assert shown <= mixed_delta([0.0, 2.0], [0.7, 0.3], 0.7) <= shown * (1 + 1e-12) + 1e-300


def hockey_stick(density_p: Any, density_q: Any, epsilon: float) -> float:
    """∫ (p − e^ε q)₊ by quadrature on a grid."""
    axis = np.linspace(-12, 14, 6001)
    return float(
        integrate.simpson(np.maximum(density_p(axis) - np.exp(epsilon) * density_q(axis), 0), x=axis)
    )


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("rate", [0.1, 0.5])
@pytest.mark.parametrize("away", [False, True])
def test_one_sampled_round_by_quadrature(epsilon: float, rate: float, away: bool) -> None:
    mu = 1.5

    def there(x: Any) -> Any:
        return (1 - rate) * stats.norm.pdf(x) + rate * stats.norm.pdf(x - mu)

    p, q = (stats.norm.pdf, there) if away else (there, stats.norm.pdf)
    truth = hockey_stick(p, q, epsilon)
    bound = mixed_delta([0.0, mu], binomial_above(1, rate), epsilon)
    assert truth <= bound * (1 + 1e-6)
    if epsilon == 0:
        assert bound == pytest.approx(truth, rel=1e-5)


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_two_sampled_rounds_by_quadrature(epsilon: float) -> None:
    mu, rate = 1.2, 0.4

    axis = np.linspace(-12, 14, 1601)
    gone = stats.norm.pdf(axis)
    there = (1 - rate) * gone + rate * stats.norm.pdf(axis - mu)
    over = np.maximum(np.outer(there, there) - np.exp(epsilon) * np.outer(gone, gone), 0)
    # One integral of a row that is another of the columns: Simpson's rule is linear.
    truth = float(integrate.simpson(integrate.simpson(np.eye(axis.size), x=axis) @ over, x=axis))
    bound = mixed_delta(mu * np.sqrt([0, 1, 2]), binomial_above(2, rate), epsilon)
    assert truth <= bound
    assert bound <= 2.5 * truth


def test_epsilon_is_what_delta_falls_to() -> None:
    mus = np.sqrt(np.arange(31.0)) / np.array([[1.0], [3.0], [50.0]])
    weights = binomial_above(30, 0.2)
    found = mixed_epsilon(mus, weights, 1e-5)
    assert isinstance(found, np.ndarray)
    for row, epsilon in zip(mus, found, strict=True):
        assert mixed_delta(row, weights, float(epsilon)) <= 1e-5
        assert epsilon < 1e-8 or mixed_delta(row, weights, float(epsilon) * (1 - 1e-8)) > 1e-5
        assert epsilon <= gaussian.epsilon(row.max(), 1e-5) * (1 + 1e-8) + 1e-11


def test_what_no_epsilon_or_every_one_meets_leaves_its_neighbours_as_alone() -> None:
    weights = [0.9, 0.1]
    found = mixed_epsilon([[0.0, 1e-7], [0.0, 1.0], [0.0, np.inf]], weights, 1e-5)
    assert found.tolist() == [0.0, mixed_epsilon([0.0, 1.0], weights, 1e-5), np.inf]  # type: ignore[union-attr]


@pytest.mark.parametrize("delta", [0.3, 1e-5, 1e-300])
def test_where_secants_do_not_get_there_halves_do(delta: float, monkeypatch: pytest.MonkeyPatch) -> None:
    mus, weights = 0.3 * np.sqrt(np.arange(301.0)), binomial_above(300, 0.2)
    found = mixed_epsilon(mus, weights, delta)
    monkeypatch.setattr(mixtures, "_SECANTS", 0)
    halved = mixed_epsilon(mus, weights, delta)
    assert found == pytest.approx(halved, rel=2e-12)
    assert max(mixed_delta(mus, weights, float(each)) for each in (found, halved)) <= delta


def test_certain_sampling_is_no_sampling() -> None:
    assert mixed_epsilon([0.7], [1.0], 1e-6) == pytest.approx(gaussian.epsilon(0.7, 1e-6), rel=1e-8)


@pytest.mark.parametrize(
    ("mus", "weights", "sentence"),
    [
        ([1.0, 2.0], [1.0], r"one probability for each μ; got shapes \(2,\) and \(1,\)"),
        ([1.0], [1.5], "probabilities must lie between 0 and 1; got .*1.5"),
        ([1.0, 1.0], [0.9, 0.9], "the probabilities must sum to 1 at most; these sum to 1.8"),
    ],
)
def test_what_is_no_draw_is_refused(mus: Any, weights: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        mixed_epsilon(mus, weights, 1e-5)
