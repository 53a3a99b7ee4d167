# SPDX-License-Identifier: Apache-2.0
"""Every allowance of the room covers what 256 bits say, and is not a thousand times too large."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from flint import acb, arb, ctx
from numpy.polynomial import polynomial
from scipy import sparse
from tests.filtering.test_rounding import precise

from sottovoce.filtering import ClosedLoop, hidden_system
from sottovoce.graphs import metropolis_weights
from sottovoce.interval import UNIT_ROUNDOFF
from sottovoce.krylov import krylov_bases
from sottovoce.protocols import gossip
from sottovoce.rates import steady_state
from sottovoce.rates.programs import _peak, _values
from sottovoce.rates.rounding import (
    EXACT_NORM,
    form_units,
    inverse_norm,
    off_average,
    peak_error,
    range_beside_average,
    series_error,
    sign_error,
)
from sottovoce.rates.sign_streams import periodic_signs, sign_patterns
from sottovoce.rates.supremum import _first_look, _squared
from sottovoce.views import View, observe


def closed_loop(graph: str, view: View) -> tuple[ClosedLoop, float]:
    """The closed loop of a view, and a bound of its resolvent."""
    protocol = gossip(metropolis_weights(graph), rounds=1)
    state = steady_state(hidden_system(protocol, observe(protocol, view)))
    return state.closed, state.loop_bound


@pytest.mark.parametrize("frequency", [0.0, 0.4, math.pi])
def test_norms_of_inverses_are_covered_and_close(frequency: float) -> None:
    closed, _ = closed_loop("ring:n=9", View.secure_sum(0))
    shifted = closed.shifted(frequency)
    with mpmath.workprec(256):
        truth = max(mpmath.svd(precise(shifted) ** -1, compute_uv=False))
    assert truth <= inverse_norm(shifted) <= truth * (1 + 1e-11)


@pytest.mark.parametrize("size", [EXACT_NORM, EXACT_NORM + 1])
def test_norms_of_inverses_are_covered_whatever_their_size(size: int) -> None:
    assert 1 <= inverse_norm(np.diag(np.linspace(1, 2, size))) <= 1.02


def test_what_has_no_inverse_has_no_norm_of_it() -> None:
    assert inverse_norm(np.zeros((2, 2))) == math.inf
    assert inverse_norm(np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-52]])) == math.inf


@pytest.mark.parametrize("m", [1, 4])
def test_polynomials_are_valued_within_their_units_in_256_bits(m: int) -> None:
    shares, terms = [], 24
    for seed in range(3):
        rng = np.random.default_rng(seed)
        sizes = 2.0 ** -np.arange(terms)
        g = (rng.standard_normal((terms, m, 1)) + 1j * rng.standard_normal((terms, m, 1))) * sizes[
            :, None, None
        ]
        allowed = form_units(terms, m) * float(np.linalg.norm(g[:, :, 0], axis=1).sum()) ** 2
        nodes = np.linspace(-1, 1, 9)
        plain = (np.abs(np.tensordot(nodes[:, None] ** np.arange(terms), g, axes=1)) ** 2).sum(axis=1)[:, 0]
        horner = polynomial.polyval(nodes, _squared(g)[:, 0])
        # The room of the first look is that of the values.
        assert _first_look(g)[0][:, 0] == pytest.approx(np.maximum(plain - allowed, 0), abs=1e-18)
        with mpmath.workprec(256):
            for node, first, second in zip(nodes, plain, horner, strict=True):
                rows = [
                    mpmath.fsum(
                        mpmath.mpc(complex(g[k, i, 0])) * mpmath.mpf(float(node)) ** k for k in range(terms)
                    )
                    for i in range(m)
                ]
                truth = mpmath.fsum(abs(x) ** 2 for x in rows)
                shares += [float(abs(truth - float(x))) / allowed for x in (first, second)]
    assert max(shares) <= 1
    assert max(shares) >= 1e-3


def test_what_is_cut_shows_no_more_than_is_said() -> None:
    closed, resolvent = closed_loop("ring:n=11", View.secure_sum(0))
    for scale in (1.0, 1e-13):
        residual = scale * np.random.default_rng(1).standard_normal((closed.size, 2))
        found, bound = closed.coupling(residual, resolvent)
        shown = [
            np.linalg.norm(closed.whitener @ np.linalg.solve(closed.shifted(angle), residual), 2)
            for angle in np.linspace(0, math.pi, 400)
        ]
        assert max(shown) <= bound <= 20 * max(shown)
        assert found <= bound


def test_rounding_in_what_is_cut_is_covered_where_nothing_is_seen_of_it() -> None:
    # A residual that the view never sees: what is left is rounding, and small.
    closed, resolvent = closed_loop("ring:n=12", View.secure_sum(0))
    turned = np.zeros((closed.size, 1))
    turned[0], turned[-1] = 1.0, -1.0
    found, bound = closed.coupling(turned, resolvent)
    assert found <= bound <= 1e-10
    assert bound >= found


def test_the_range_beside_the_average_holds_the_other_eigenvalues() -> None:
    for graph in ("ring:n=9", "star:n=7", "complete:n=6"):
        matrix = metropolis_weights(graph).matrix
        low, high = range_beside_average(matrix)
        with mpmath.workprec(256):
            n = matrix.shape[0]
            values = sorted(mpmath.eigsy(precise(matrix.toarray()).apply(mpmath.re), eigvals_only=True))
            assert low <= values[0]
            assert values[-2] <= high
            # The average itself counts as 0.
            assert high <= max(values[-2], 0) + 1000 * n * UNIT_ROUNDOFF


def test_how_far_the_average_is_from_what_it_should_be() -> None:
    matrix = metropolis_weights("karate").matrix
    n = matrix.shape[0]
    start = np.column_stack([np.eye(n)[:, 0], np.full(n, 1 / math.sqrt(n))])
    for basis in krylov_bases(matrix, start, largest=8, symmetric=True):
        kept = basis
    moved, beside, met = off_average(matrix, kept.vectors, kept.following)
    with mpmath.workprec(256):
        v = mpmath.matrix([[1 / mpmath.sqrt(n)] for _ in range(n)])
        Q, after = precise(kept.vectors), precise(kept.following)
        truths = (
            mpmath.norm(precise(matrix.toarray()) * v - v),
            mpmath.norm(v - Q * (Q.T * v)),
            mpmath.norm(after.T * v),
        )
    for truth, bound in zip(truths, (moved, beside, met), strict=True):
        assert truth <= bound <= 1000 * n * UNIT_ROUNDOFF


def test_streams_of_signs_reach_what_is_said_in_256_bits() -> None:
    weights, frequencies = sign_patterns()
    values = np.random.default_rng(2).uniform(0, 1, (len(frequencies), 1))
    allowed = sign_error(weights, values)[0]
    shares = []
    with ctx.workprec(256):
        for pattern in (0, 7, 180, 400):
            powers = [abs(x / 720) ** 2 for x in acb.dft([int(c) for c in periodic_signs(pattern)])]
            terms = ((1 if nu in {0, 360} else 2) * powers[nu] * float(values[nu, 0]) for nu in range(361))
            total: arb = sum(terms, arb(0))
            shares.append(float(abs(total - float((weights[pattern] @ values)[0]))) / allowed)
    assert max(shares) <= 1
    assert max(shares) >= 1e-3


def test_the_peak_of_lags_is_covered_in_256_bits_and_not_a_thousand_times_too_high() -> None:
    rng = np.random.default_rng(4)
    lags = rng.standard_normal((20, 2)) * 0.7 ** np.arange(20)[:, None]
    found = _peak(lags, 1e-9)
    points = 512
    power = (np.abs(np.fft.rfft(lags, points, axis=0)) ** 2).sum(axis=1)
    allowed, off, values = peak_error(lags, points), [], []
    with mpmath.workprec(256):

        def truth(angle: mpmath.mpf) -> mpmath.mpf:
            turned = [mpmath.expj(-angle * t) for t in range(20)]
            return mpmath.fsum(
                abs(mpmath.fsum(float(lags[t, i]) * turned[t] for t in range(20))) ** 2 for i in range(2)
            )

        for k in range(0, points // 2 + 1, 16):
            exact = truth(2 * mpmath.pi * k / points)
            off.append(float(abs(exact - float(power[k]))) / allowed)
        for angle in np.linspace(0, math.pi, 60):
            exact = truth(mpmath.mpf(float(angle)))
            values.append(float(abs(exact - float(found.at(np.array([angle]))[0]))) / found.noise)
            assert exact <= found.upper
        assert found.lower <= truth(mpmath.mpf(found.frequency)) <= found.upper
    assert max(off) <= 1
    assert max(off) >= 1e-3
    assert max(values) <= 1
    assert max(values) >= 1e-3


def check(shares: list[float], least: float = 1 / 50) -> None:
    """What rounding did, as shares of what was allowed: never more, and somewhere more than a hundredth."""
    assert max(shares) <= 1
    assert max(shares) > least


def summing_to_1(rng: np.random.Generator, n: int) -> np.ndarray:
    """Symmetric numbers whose rows sum to 1, but for rounding."""
    drawn = rng.uniform(0, 1, (n, n))
    drawn = (drawn + drawn.T) / 2
    return np.asarray(drawn - np.diag(drawn.sum(axis=1) - 1))


def test_the_average_of_few_nodes_is_off_by_no_more_than_is_said_and_needs_some_of_it() -> None:
    rng = np.random.default_rng(5)
    shares: tuple[list[float], ...] = ([], [], [])
    for _ in range(100):
        n = int(rng.integers(2, 6))
        A, v = summing_to_1(rng, n), np.full((n, 1), 1 / math.sqrt(n))
        Q, after = np.hsplit(np.linalg.qr(np.hstack([v, rng.normal(size=(n, 1))]))[0], 2)
        found = off_average(sparse.csr_array(A), Q, after)
        with mpmath.workprec(256):
            average = mpmath.matrix([1 / mpmath.sqrt(n)] * n)
            truths = (
                mpmath.norm(precise(A) * average - average),
                mpmath.norm(average - precise(Q) * (precise(Q).T * average)),
                mpmath.norm(precise(after).T * average),
            )
            for each, truth, bound in zip(shares, truths, found, strict=True):
                assert truth <= bound
                each += [float(truth / bound)] if bound else []
    for each in shares:
        check(each, 1 / 20)


def test_the_range_beside_the_average_of_two_nodes_is_covered_and_not_by_a_thousand_times() -> None:
    """Beside the average of two nodes there is one number, a − b."""
    rng, shares = np.random.default_rng(6), []
    for _ in range(200):
        a, b = float(rng.uniform(0, 1)), float(10 ** rng.uniform(-4, -0.4))
        matrix = np.array([[a, b], [b, a]])
        low, high = range_beside_average(sparse.csr_array(matrix))
        truth, plain = Fraction(a) - Fraction(b), Fraction(float(np.linalg.eigvalsh(matrix - 1 / 2)[1]))
        assert low <= truth <= high
        shares.append(float((truth - plain) / (Fraction(high) - plain)))
    check(shares, 1 / 1000)


def test_series_of_few_lags_are_off_by_no_more_than_is_said_and_need_some_of_it() -> None:
    rng, shares = np.random.default_rng(7), []
    for count, points in [(1, 2), (2, 4), (3, 8)] * 20:
        lags = rng.standard_normal((count, 2))
        power = (np.abs(np.fft.rfft(lags, points, axis=0)) ** 2).sum(axis=1)
        series = np.fft.irfft(power, points)[:count]
        series[1:] *= 2
        allowed = series_error(series, lags, float(power.max()), points)
        pairs = [
            (2 if k else 1) * sum(Fraction(x) * Fraction(y) for x, y in zip(*each, strict=True))
            for k in range(count)
            for each in [(lags[: count - k].ravel().tolist(), lags[k:].ravel().tolist())]
        ]
        with ctx.workprec(256):
            for angle in (0.0, 1.0, 2.5, math.pi):
                terms = (
                    arb(r.numerator) / r.denominator * (k * arb(angle)).cos() for k, r in enumerate(pairs)
                )
                off: arb = sum(terms, arb(0)) - float(_values(series, np.array([angle]))[0])
                shares.append(float(abs(off)) / allowed)
    check(shares)


def test_streams_of_short_periods_reach_what_is_said_and_need_some_of_it() -> None:
    rng, shares = np.random.default_rng(8), []
    for signs in (each for length in (2, 4, 6) for each in itertools.product((1, -1), repeat=length)):
        period = len(signs)
        weights = np.abs(np.fft.rfft(np.array(signs)) / period) ** 2
        weights[1:-1] *= 2
        values = rng.uniform(0, 1, (period // 2 + 1, 1))
        with ctx.workprec(256):
            powers = [abs(x / period) ** 2 for x in acb.dft(signs)]
            terms = (
                (1 if nu in {0, period // 2} else 2) * powers[nu] * float(values[nu, 0])
                for nu in range(period // 2 + 1)
            )
            off: arb = sum(terms, arb(0)) - float((weights @ values)[0])
            shares.append(float(abs(off)) / sign_error(weights[None], values)[0])
    check(shares)
