# SPDX-License-Identifier: Apache-2.0
"""The allowances of the Gaussian profile: against 256 bits and more, and by a proof for every row of its table."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx
from scipy import special

from sottovoce.gaussian import _bounds, _mills, rounding

UNIT = 2.0**-53
# What `gap` is asked for: h at most this, times x where x is above 2.
CLOSE = 0.1


@pytest.fixture(autouse=True)
def digits() -> Any:
    before, ctx.prec = ctx.prec, 400
    # As the front door of the room does.
    with np.errstate(all="ignore"):
        yield
    ctx.prec = before


def ratio(x: Any) -> Any:
    """R(x) as a ball."""
    x = arb(x)
    return (x * x / 2).exp() * (arb.pi() / 2).sqrt() * (x / arb(2).sqrt()).erfc()


def units(found: float, truth: Any) -> float:
    """The relative error as units of roundoff."""
    return abs(float((arb(found) / truth - 1).mid())) / UNIT


def moments(c: float, count: int) -> list[Any]:
    """M_n(c)/n! as balls."""
    known = [ratio(c), 1 - arb(c) * ratio(c)]
    for k in range(1, count - 1):
        known.append(k * known[k - 1] - arb(c) * known[k])
    return [moment / math.factorial(n) for n, moment in enumerate(known)]


ROWS = np.arange(_mills.LEAST, _mills.EDGE + 0.1, _mills.STEP)


@pytest.mark.parametrize("c", ROWS.tolist())
def test_a_row_of_the_table_is_true_and_its_series_miss_next_to_nothing(c: float) -> None:
    """Every term grows with distance and h, so the largest of both prove the remainder of the whole row."""
    table = _mills.coefficients()[:, round((c - _mills.LEAST) / _mills.STEP)]
    m = moments(c, 60)
    assert all(units(found, truth) <= 1 for found, truth in zip(table, m[: _mills.GAP_TERMS], strict=True))
    far = arb(_mills.STEP)
    missed = sum(m[n] * far**n for n in range(_mills.RATIO_TERMS, 60)) / m[0]
    assert missed < UNIT / 100
    h = arb(max(2, c)) / 10
    powers = [((far + h) ** n - (far - h) ** n) / (2 * h) for n in range(60)]
    if c >= 0:
        assert sum(m[n] * powers[n] for n in range(_mills.GAP_TERMS, 60)) / m[1] < UNIT / 100
        # Σ (n − 1) m_n p_n ≤ 2 m_1 p_1: an error of 4(n − 1) units in p_n is 8 units in the sum.
        assert sum((n - 1) * m[n] * powers[n] for n in range(1, 60)) / m[1] < 2
    # Beyond 60 terms each is less than half of the one before, as M_{n+1}/M_n ≤ √(n + 1) + 1/2 says.
    assert (math.sqrt(61) + 0.5) / 61 * float((far + h).mid()) * 61 / 60 < 0.5


def test_the_continued_fraction_has_levels_enough() -> None:
    """What the last level may be off by, 1/L, comes down by (s − x)/(s + x), s = √(x² + 4k), at each level."""
    x, off = _mills.EDGE, 1 / _mills.LEVELS
    weights = []
    for k in range(_mills.LEVELS + 1, 0, -1):
        s = math.sqrt(x * x + 4 * k)
        off *= (s - x) / (s + x)
        weights.append((k, off))
    reached = dict(weights)
    assert reached[1] < UNIT / 10
    # In the series ratio k has a weight of 10^{−(k − 1)} at most.
    assert sum(k * reached[k] * 10.0 ** -(k - 2) for k in range(2, _mills.LEVELS)) < UNIT


def test_ratios_are_covered_and_not_by_a_thousand_times() -> None:
    rng = np.random.default_rng(1)
    x = np.concatenate(
        [rng.uniform(-0.5, 8, 1500), 10 ** rng.uniform(-12, 12, 300), np.nextafter(6.0, [0, 9]), ROWS]
    )
    errors = [units(found, ratio(at)) for found, at in zip(_mills.mills(x), x, strict=True) if at < 1e6]
    assert rounding.MILLS / UNIT / 10 < max(errors) <= rounding.MILLS / UNIT
    far = x[x >= 1e6]
    # 1/(x + 1/x) ≤ R(x) ≤ 1/x, where the definition has no digits left.
    assert np.all(np.abs(_mills.mills(far) * far - 1) <= rounding.MILLS + 1 / far**2)


def test_differences_are_covered_and_not_by_a_thousand_times() -> None:
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.uniform(0, 8, 800), rng.uniform(6, 60, 200), 10 ** rng.uniform(-9, 0, 100)])
    h = rng.uniform(0, 1, x.size) ** 3 * CLOSE * np.maximum(2, x)
    errors = [
        units(found, (ratio(arb(at) - arb(half)) - ratio(arb(at) + arb(half))) / (2 * arb(half)))
        for found, at, half in zip(_mills.gap(x, h), x, h, strict=True)
    ]
    assert rounding.GAP / UNIT / 100 < max(errors) <= rounding.GAP / UNIT


def test_a_few_numbers_have_the_bits_that_they_have_among_many() -> None:
    """What few numbers take one by one is what is measured above."""
    x = np.concatenate(
        [np.geomspace(1e-12, 1e12, 300), ROWS, np.nextafter(ROWS, -1), [5e-324, 1e200, np.inf]]
    )
    half = np.resize([0.0, 1e-200, 0.3, 1.0], x.size) * CLOSE * np.maximum(2, x)
    for size in (1, _mills.FEW):
        parts = np.array_split(np.arange(x.size), math.ceil(x.size / size))
        assert np.array_equal(np.concatenate([_mills.mills(x[some]) for some in parts]), _mills.mills(x))
        differences = _mills.gap(np.abs(x), half)
        found = [_mills.gap(np.abs(x[some]), half[some]) for some in parts]
        assert np.array_equal(np.concatenate(found), differences, equal_nan=True)


def log_delta(mu: float, epsilon: float) -> Any:
    """Log δ as a ball."""
    x, h = arb(epsilon) / arb(mu), arb(mu) / 2
    u, root = x - h, arb(2).sqrt()
    tail = (u / root).erfc() - arb(epsilon).exp() * ((x + h) / root).erfc()
    return (tail / 2).log()


def hard_points() -> tuple[np.ndarray, np.ndarray]:
    """Points of the plane, and points next to every border between two branches."""
    rng = np.random.default_rng(3)
    mu = 10 ** rng.uniform(-10, 2, 400)
    x = np.concatenate([rng.uniform(0, 12, 200), 10 ** rng.uniform(-8, 1.3, 200)])
    for border in (2.0, 6.0, 3.9, 0.25):
        for half in (0.1 * max(2.0, border), 0.5, border):
            mu = np.append(mu, 2 * half * (1 + np.array([-1e-15, 0, 1e-15])))
            x = np.append(x, border * (1 + np.array([1e-15, -1e-15, 0])))
    return mu, mu * x


def test_the_profile_is_covered_and_not_by_a_thousand_times() -> None:
    mu, epsilon = hard_points()
    profile = _bounds._profile(mu, epsilon)
    shares = []
    ctx.prec = 2500
    for i in range(mu.size):
        truth = log_delta(mu[i], epsilon[i])
        if truth > -1e-300:
            continue
        off = abs(arb(profile.square[i]) + arb(profile.rest[i]) - truth)
        assert off < arb(profile.error[i]), (mu[i], epsilon[i])
        shares.append(float((off / arb(profile.error[i])).mid()))
    assert len(shares) > 400
    assert max(shares) > 0.01
    assert np.median(shares) > 0.001


@pytest.mark.parametrize("mu", [1e6, 1e9, 1e12])
def test_the_profile_is_covered_where_epsilon_over_mu_cancels(mu: float) -> None:
    steps = np.linspace(-3, 6, 41)
    epsilon = mu * (mu / 2 + steps)
    profile = _bounds._profile(np.full(41, mu), epsilon)
    ctx.prec = 2000
    for i in range(41):
        u = arb(epsilon[i]) / arb(mu) - arb(mu) / 2
        # R(v) with v above 1e6 is 1/v to 1e-12; R(u) as it is.
        v = u + arb(mu)
        difference = ratio(u) - 1 / (v + 1 / v)
        truth = -u * u / 2 + (difference / (2 * arb.pi()).sqrt()).log()
        off = abs(arb(profile.square[i]) + arb(profile.rest[i]) - truth) - arb(2) / arb(mu) ** 3
        assert off < arb(profile.error[i]), float(steps[i])


@pytest.mark.parametrize(
    ("function", "exact", "low", "high"),
    [
        (np.exp, lambda x: x.exp(), -700, 1),
        (np.expm1, lambda x: x.expm1(), -2, 1e-9),
        (np.log, lambda x: x.log(), 1e-300, 40),
        (np.log1p, lambda x: x.log1p(), -0.85, -1e-300),
    ],
)
def test_elementary_functions_err_by_what_is_assumed_at_most(
    function: Any, exact: Any, low: float, high: float
) -> None:
    """The one assumption of the page, on a grid and next to the points where functions vanish."""
    rng = np.random.default_rng(4)
    points = np.concatenate(
        [rng.uniform(low, high, 1500), low + (high - low) * 10 ** rng.uniform(-16, 0, 500)]
    )
    points = points[(points != 0) & (points != 1)]
    errors = [units(found, exact(arb(at))) for found, at in zip(function(points), points, strict=True)]
    assert max(errors) <= rounding.ELEMENTARY / UNIT


def test_rates_are_covered_and_not_by_a_thousand_times() -> None:
    rng = np.random.default_rng(5)
    mu = np.concatenate([10 ** rng.uniform(-6, 1.5, 200), np.full(10, 37.0)])
    fpr = np.concatenate([10 ** rng.uniform(-250, 0, 100), rng.uniform(0, 1, 100), rng.uniform(0.3, 0.6, 10)])
    hit, miss, error = _bounds._rates(mu, fpr)
    root, shares = arb(2).sqrt(), []
    for i in range(mu.size):
        q = arb(float(special.ndtri(fpr[i])))
        for _ in range(8):
            cdf = (-q / root).erfc() / 2
            q = (q - (cdf - arb(fpr[i])) / ((-q * q / 2).exp() / (2 * arb.pi()).sqrt())).mid()
        w = q + arb(mu[i])
        small, found = (w, hit[i]) if w < 0 else (-w, miss[i])
        truth = (-small / root).erfc() / 2
        shares.append(units(found, truth) * UNIT / error[i])
    assert 0.001 < max(shares) <= 1


def test_a_quantile_is_above_whatever_the_guess_was(monkeypatch: pytest.MonkeyPatch) -> None:
    delta = np.array([5e-324, 1e-300, 1e-5, 0.3, 0.5, 0.69, 0.7, 0.999, 1 - 2**-53])
    true = special.ndtri
    for shift in (0.0, -0.05, 0.05):
        monkeypatch.setattr(special, "ndtri", lambda p, shift=shift: true(p) + shift)
        for z, d in zip(_bounds._upper_quantile(delta), delta, strict=True):
            assert (arb(z) / arb(2).sqrt()).erfc() / 2 <= arb(d)


def test_a_wrong_start_of_a_search_makes_answers_wider_never_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_bounds, "_NEWTON_STEPS", 0)
    for mu, delta in ((0.3, 1e-9), (1.0, 1e-5), (4.0, 0.2)):
        found = _bounds.epsilon_above(np.array([mu]), np.array([delta]))[0]
        assert log_delta(mu, found) <= arb(delta).log()
        most = _bounds.mu_below(np.array([found]), np.array([delta]))[0]
        assert log_delta(most, found) <= arb(delta).log()


def profile_of(mu: float, epsilon: float) -> Any:
    """δ(ε) as a ball."""
    return log_delta(mu, epsilon).exp()


def test_lower_ends_are_below_the_truth_and_close() -> None:
    mu, epsilon = hard_points()
    ctx.prec = 2500
    lower = _bounds.delta_below(mu, epsilon)
    for i in np.flatnonzero(lower > 0):
        truth = profile_of(mu[i], epsilon[i])
        assert arb(lower[i]) <= truth, (mu[i], epsilon[i])
        assert lower[i] >= float(truth.mid()) * (1 - 1e-12)
    delta = np.clip(_bounds.delta_above(mu, epsilon), 1e-300, 0.99)
    roots = _bounds.epsilon_below(mu, delta)
    for i in np.flatnonzero(roots > 0):
        assert profile_of(mu[i], roots[i]) >= arb(delta[i]), (mu[i], delta[i])
    above = _bounds.epsilon_above(mu, delta)
    assert np.all(above - roots <= 5e-12 * (above + mu * np.maximum(mu, 1)))


@pytest.mark.parametrize(
    ("mu", "delta"),
    [
        (2.612994333693948e-231, 1.0398717450456559e-231),
        (1.68250313812058e-292, 6.702108131740624e-293),
        (7.705886963350181e-298, 3.064686807621519e-298),
    ],
)
def test_lower_ends_of_epsilon_hold_where_a_fixed_margin_is_too_small(mu: float, delta: float) -> None:
    """Four parts in 10¹² below the upper end is above the root at each of these."""
    ctx.prec = 4000
    above = float(_bounds.epsilon_above(np.array([mu]), np.array([delta]))[0])
    assert profile_of(mu, above * (1 - 4e-12) - 4e-12 * mu) < arb(delta)
    assert profile_of(mu, float(_bounds.epsilon_below(np.array([mu]), np.array([delta]))[0])) >= arb(delta)


def test_a_lower_end_of_delta_holds_where_a_fixed_margin_is_too_small() -> None:
    mu, epsilon = 4.0866091360220995e18, 8.350187115309645e36
    # The second term, e^ε Φ(−v), is below φ(u)/v: 10⁻¹⁶ of the first.
    truth = ((arb(epsilon) / arb(mu) - arb(mu) / 2) / arb(2).sqrt()).erfc() / 2
    above = float(_bounds.delta_above(np.array([mu]), np.array([epsilon]))[0])
    assert arb(above * (1 - 4e-12)) > truth
    assert 0 < arb(float(_bounds.delta_below(np.array([mu]), np.array([epsilon]))[0])) < truth


def test_lower_ends_at_the_edges() -> None:
    mu = np.array([0.0, 5e-324, 1e160, math.inf])
    delta = np.full(4, 1e-5)
    assert _bounds.epsilon_below(mu, delta)[[0, 1, 3]].tolist() == [0.0, 0.0, math.inf]
    assert 0 < _bounds.epsilon_below(mu, delta)[2] <= _bounds.epsilon_above(mu, delta)[2]
    assert _bounds.delta_below(mu, np.ones(4))[[0, 1, 3]].tolist() == [0.0, 0.0, 1.0]
    # ε/μ is beyond what is followed, and far above μ/2: no δ is left.
    assert _bounds.delta_below(np.array([2.1e150, 1e154]), np.full(2, 1.7e308)).tolist() == [0.0, 0.0]
    rates = _bounds.true_positive_rate_below(mu, np.full(4, 0.3))
    assert rates[:2].tolist() == [0.3, 0.3]
    assert np.all((rates[2:] > 1 - 1e-15) & (rates[2:] <= 1))
    never = _bounds.true_positive_rate_below(np.array([1.0, 1e150, 1e160, math.inf]), np.zeros(4))
    assert never[:3].tolist() == [0.0, 0.0, 0.0]


def test_rates_from_below_are_below_the_truth_and_close() -> None:
    rng = np.random.default_rng(7)
    mu = 10 ** rng.uniform(-6, 1.5, 60)
    w = rng.uniform(-25, 3, 60)
    fpr = special.ndtr(w)
    lower = _bounds.true_positive_rate_below(mu, fpr)
    above = _bounds.true_positive_rate_above(mu, fpr)
    assert np.all(lower <= above)
    assert np.all(above - lower <= 1e-12 * above)
    for i in range(60):
        # Φ⁻¹(lower) − Φ⁻¹(fpr) ≤ μ, by Newton's method on balls of 400 bits.
        assert quantile(lower[i]) - quantile(fpr[i]) <= arb(mu[i]) + arb(2) ** -200


def quantile(probability: float) -> Any:
    """Φ⁻¹ of a float to 300 bits and more, from SciPy's guess."""
    if probability >= 1:
        return arb(-(10**9))
    z = arb(float(special.ndtri(probability)))
    for _ in range(6):
        density = (-(z * z) / 2).exp() / (2 * arb.pi()).sqrt()
        z = (z - ((-z / arb(2).sqrt()).erfc() / 2 - arb(probability)) / density).mid()
    return z


def test_logarithms_of_tails_are_covered_and_need_a_tenth_of_it() -> None:
    rng = np.random.default_rng(6)
    z = np.concatenate([rng.uniform(-0.5, 8, 300), 10 ** rng.uniform(-6, 3, 100)])
    found = np.log(_mills.mills(z) / _bounds._SQRT_TWO_PI)
    allowed = rounding.tail_error(np.abs(found))
    shares = [
        float(abs((ratio(x) / (2 * arb.pi()).sqrt()).log() - arb(each)).mid()) / error
        for x, each, error in zip(z.tolist(), found.tolist(), allowed.tolist(), strict=True)
    ]
    assert 1 / 10 < max(shares) <= 1
