# SPDX-License-Identifier: Apache-2.0
"""Every allowance of the room covers what 256 bits say, and is not a thousand times too large."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from benchmarks.allowances import cut
from flint import acb, ctx
from hypothesis import given
from hypothesis import strategies as st
from scipy import fft, sparse
from tests.sensitivities.test_rounding import barely_indefinite

from sottovoce.filtering import Gains, rounding
from sottovoce.filtering.block_rounding import Formed
from sottovoce.filtering.rounding import (
    Step,
    built_up,
    chebyshev_factor,
    chebyshev_points,
    eigenvalue_ends,
    is_above,
    norm_above,
    product_error,
    row_errors,
    spectral_norm,
    spread,
    terms,
    top_eigenvalue,
    transform_error,
    transform_units,
)
from sottovoce.filtering.rowspace import RowSpace, independent_rows
from sottovoce.interval import UNIT_ROUNDOFF


def precise(matrix: np.ndarray) -> Any:
    """A float matrix as one of 256 bits."""
    return mpmath.matrix([[mpmath.mpmathify(complex(x)) for x in row] for row in np.atleast_2d(matrix)])


def symmetric(seed: int, n: int, scale: float) -> np.ndarray:
    """A random symmetric matrix whose rows differ in size by up to `scale`."""
    rng = np.random.default_rng(seed)
    sizes = scale ** rng.uniform(0, 1, n)
    matrix = rng.standard_normal((n, n)) * np.sqrt(np.outer(sizes, sizes))
    return np.asarray((matrix + matrix.T) / 2)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scale", [1.0, 1e9])
def test_eigenvalues_lie_between_ends_that_are_close(seed: int, scale: float) -> None:
    matrix = symmetric(seed, 8, scale)
    low, high = eigenvalue_ends(matrix)
    with mpmath.workprec(256):
        values = mpmath.eigsy(precise(matrix).apply(mpmath.re), eigvals_only=True)
        least, most = float(min(values)), float(max(values))
        assert low <= min(values)
        assert max(values) <= high
    room = 1000 * UNIT_ROUNDOFF * max(-least, most)
    assert least - low <= room
    assert high - most <= room


def test_eigenvalues_of_hermitian_matrices_lie_between_ends_that_are_close() -> None:
    rng = np.random.default_rng(3)
    matrix = rng.standard_normal((6, 6)) + 1j * rng.standard_normal((6, 6))
    matrix = matrix + matrix.conj().T
    low, high = eigenvalue_ends(matrix)
    with mpmath.workprec(256):
        values = mpmath.eighe(precise(matrix), eigvals_only=True)
        assert low <= min(values)
        assert max(values) <= high <= max(values) + 3000 * UNIT_ROUNDOFF * max(abs(x) for x in values)


def test_what_is_not_finite_has_no_ends() -> None:
    assert eigenvalue_ends(np.array([[np.inf, 0.0], [0.0, 1.0]])) == (-np.inf, np.inf)
    assert spectral_norm(np.array([[np.nan]])) == np.inf


def test_nothing_has_no_norm() -> None:
    assert spectral_norm(np.zeros((3, 0))) == spectral_norm(np.zeros((0, 3))) == 0


def test_terms_are_what_the_fullest_row_holds_and_the_spread_is_above_the_norm() -> None:
    dense = np.zeros((3, 50))
    dense[0, 7], dense[1, 5:42] = -2.0, -1.0
    stored = sparse.csr_array(np.where(dense, dense, 1.0))
    stored.data[stored.data > 0] = 0.0
    for matrix in (dense, sparse.csr_array(dense), stored):
        assert terms(matrix) == 37
        assert terms(matrix.T) == 2
        assert spread(matrix) == pytest.approx((37 * 3) ** 0.5, rel=1e-12)
    assert np.linalg.norm(dense, 2) <= (37 * 3) ** 0.5
    assert terms(np.zeros((0, 3))) == terms(np.zeros((3, 0))) == terms(np.zeros((3, 3))) == 0


@pytest.mark.parametrize("short", [0.0, 1e-15, 1e-6])
def test_no_factor_proves_what_is_false(short: float) -> None:
    # vvᵀ has the eigenvalue 0 in all directions but one: nothing above it is proved, whatever floats do.
    for seed in range(20):
        v = np.random.default_rng(seed).integers(-8, 9, 12).astype(float)
        assert not is_above(np.outer(v, v), short)
        assert is_above(np.outer(v, v), -1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_a_spectral_norm_is_covered_and_close(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for matrix in (
        rng.standard_normal((5, 7)),
        rng.standard_normal((6, 6)) + 1j * rng.standard_normal((6, 6)),
    ):
        with mpmath.workprec(256):
            truth = max(mpmath.svd(precise(matrix), compute_uv=False))
        assert truth <= spectral_norm(matrix) <= truth * (1 + 1e-12)


def shares_of_transforms(points: int, units: bool) -> list[float]:
    """What transforms of random numbers are off by, as shares of what is allowed for."""
    rng, shares = np.random.default_rng(points), []
    for _ in range(3):
        given = rng.standard_normal(points)
        found = np.fft.fft(given), fft.fft(given), np.concatenate([np.fft.rfft(given), [0] * (points // 2)])
        with ctx.workprec(256):
            truth = acb.dft(given.tolist())
            for each, count in zip(found, (points, points, points // 2 + 1), strict=True):
                errors = [float(abs(truth[k] - complex(each[k]))) for k in range(count)]
                if units:
                    shares.append(max(errors) / (transform_units(points) * np.abs(given).sum()))
                else:
                    allowed = transform_error(points) * np.sqrt(points) * np.linalg.norm(given)
                    shares.append(float(np.linalg.norm(errors)) / allowed)
    return shares


@pytest.mark.parametrize("units", [False, True])
def test_transforms_are_within_their_error_and_it_is_not_a_thousand_times_too_large(units: bool) -> None:
    shares = [
        share
        for points in (2, 3, 8, 11, 12, 33, 60, 77, 128)
        for share in shares_of_transforms(points, units)
    ]
    assert max(shares) <= 1
    assert max(shares) >= 1e-3


def test_transforms_with_large_prime_factors_have_no_error() -> None:
    with pytest.raises(ValueError, match="without prime factors above 11; 13 is left over"):
        transform_error(26)


def test_rows_are_turned_by_no_more_than_is_said_and_not_by_a_thousandth_of_it() -> None:
    shares = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        rows = [
            {
                int(j): Fraction(int(a), int(b))
                for j, a, b in rng.integers(1, 30, (5, 3)) % (12, 100, 100) + (0, 1, 1)
            }
            for _ in range(1 + seed % 4)
        ]
        space = RowSpace.spanned_by(rows)
        basis, error = independent_rows(space, 12)
        with mpmath.workprec(256):
            exact = mpmath.matrix(space.rank, 12)
            for k, line in enumerate(space.pivots.values()):
                for j, x in line.items():
                    exact[k, j] = mpmath.mpf(x.numerator) / x.denominator
            within = exact.T * ((exact * exact.T) ** -1) * exact
            off = precise(basis) - precise(basis) * within
            shares.append(float(max(mpmath.svd(off, compute_uv=False))) / error)
    assert max(shares) <= 1
    assert max(shares) >= 1e-3


def test_unit_rows_are_not_turned_at_all() -> None:
    space = RowSpace.spanned_by([{3: Fraction(1, 3)}, {1: Fraction(2)}])
    assert independent_rows(space, 5)[1] == 0


@given(st.integers(0, 10**6), st.integers(1, 30))
def test_norms_lie_above_and_close(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    stack = rng.normal(size=(3, size, size)) * 10.0 ** rng.integers(-12, 12, size=(3, 1, 1))
    stack[1] = np.eye(size)
    bounds, norms = norm_above(stack), np.linalg.norm(stack, 2, axis=(1, 2))
    assert (bounds >= norms * (1 - 1e-14)).all()
    assert (bounds <= norms * size ** (1 / 256) * (1 + 1e-9)).all()


@pytest.mark.parametrize("exponent", [-1074, -1060, -600, -540, -520, 510, 530, 600, 1020])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_norms_lie_above_at_the_ends_of_the_range(exponent: int, size: int) -> None:
    """Where squares of entries underflow or overflow."""
    stack = np.zeros((2, size, size))
    stack[1] = np.diag(np.full(size, 2.0**exponent)) + np.diag(np.full(size - 1, 2.0**exponent), 1)
    bounds = norm_above(stack)
    assert bounds[0] == 0.0
    norm = np.linalg.norm(stack[1] / 2.0**exponent, 2)
    assert bounds[1] / 2.0**exponent >= norm * (1 - 1e-15)
    assert bounds[1] <= norm * 2.0**exponent * (1 + 0.01) + 2.0**-1021


def test_products_are_within_what_is_allowed_and_need_some_of_it() -> None:
    rng, shares = np.random.default_rng(11), []
    for _ in range(40):
        rows, terms, columns = (int(k) for k in rng.integers(1, 5, 3))
        left = rng.uniform(-1, 1, (rows, terms)) * 10.0 ** rng.integers(-3, 4)
        right = rng.uniform(-1, 1, (terms, columns))
        with mpmath.workprec(256):
            off = mpmath.norm(precise(left) * precise(right) - precise(left @ right), 2)
            shares.append(off / product_error(terms, left, right))
    assert max(shares) <= 1
    assert max(shares) > 1 / 10


def test_products_that_underflow_are_within_what_is_allowed() -> None:
    assert product_error(1, np.full((1, 1), 1e-170), np.full((1, 1), 1e-170)) >= 1e-320


@pytest.mark.parametrize("seed", range(4))
def test_no_eigenvalue_is_above_the_top_one_which_is_close(seed: int) -> None:
    matrix = symmetric(seed, 6, 1e3)
    with mpmath.workprec(256):
        most = max(mpmath.eigsy(precise(matrix).apply(mpmath.re), eigvals_only=True))
        found = top_eigenvalue(matrix)
        assert most <= found <= most + 1000 * UNIT_ROUNDOFF * float(np.abs(matrix).sum())
    assert top_eigenvalue(np.full((2, 2), np.nan)) == np.inf


def test_rows_that_are_carried_on_are_within_what_is_allowed_and_need_some_of_it() -> None:
    rng, shares = np.random.default_rng(5), []
    for _ in range(20):
        loop = rng.uniform(-0.5, 0.5, (2, 2))
        rows = [rng.uniform(-1, 1, (1, 2))]
        for _ in range(6):
            rows.append(rows[-1] @ loop)
        powers = max(float(np.linalg.norm(np.linalg.matrix_power(loop, k), 2)) for k in range(7))
        step = 2 * UNIT_ROUNDOFF * float(np.linalg.norm(np.abs(loop))) * 1.01 * powers
        allowed, true = row_errors(np.array(rows), step), precise(rows[0])
        with mpmath.workprec(256):
            for k in range(1, 7):
                true = true * precise(loop)
                shares.append(mpmath.norm(true - precise(rows[k]), 2) / allowed[k])
        assert allowed[0] == 0
    assert max(shares) <= 1
    assert max(shares) > 1 / 10


def chebyshev(degree: int, x: Fraction) -> Fraction:
    """T_d(x), the polynomial that is largest in the interval for what it is on its points."""
    before, value = Fraction(1), x
    for _ in range(degree - 1):
        before, value = value, 2 * x * value - before
    return value


def lost_between_points(degree: int, low: float, high: float) -> Fraction:
    """By how much T_d of an interval, at most 1 there, is below 1 on points as floats have them."""
    middle, half = (Fraction(low) + Fraction(high)) / 2, (Fraction(high) - Fraction(low)) / 2
    points = chebyshev_points(degree, low, high).tolist()
    return 1 / max(abs(chebyshev(degree, (Fraction(x) - middle) / half)) for x in points)


@pytest.mark.parametrize("apart", [1.0, 1e-6, 1e-9, 1e-11])
def test_polynomials_are_no_larger_than_their_points_say_and_points_next_to_each_other_need_room(
    apart: float,
) -> None:
    rng, needed = np.random.default_rng(3), []
    for _ in range(200):
        degree, low = int(rng.integers(1, 5)), float(rng.uniform(-1, 1))
        high = low + apart * float(rng.uniform(0.5, 2))
        lost, factor = lost_between_points(degree, low, high), chebyshev_factor(degree, low, high)
        assert lost <= Fraction(factor) <= 2 * lost
        needed.append(float((lost**2 - 2) / 2) / 2 / (factor / np.sqrt(2) - 1))
    # Without any room some points would say too little, where the interval is short by much.
    assert max(needed) > 0
    assert apart > 1e-9 or max(needed) > 1 / 100


def test_points_that_floats_cannot_tell_apart_say_nothing() -> None:
    assert chebyshev_factor(3, 1.0, 1.0) == np.inf
    assert chebyshev_factor(3, 1.0, 1 + 1e-15) == np.inf
    assert chebyshev_factor(10**8, -1.0, 1.0) == np.inf


def test_what_loops_build_up_is_covered_where_the_filter_is_off_by_all_that_is_let_through() -> None:
    # The proof at its worst: e and g of `gain_distortion` are at its limit, and gains are kept early.
    limit, most = Fraction(1, 100) / (Fraction(101, 100) ** 2), Fraction(0)
    for k in range(101):
        e = 2 * limit * k / 100
        g = limit - e / 2
        most = max(most, (1 + e) / ((1 - e) * (1 - e - g * g - Fraction(35, 1000))))
    assert most < Fraction(built_up(gains_with(1.0, missing=0.035))) ** 2 < Fraction(11, 10) * most
    assert built_up(gains_with(9.0), 2) == 2 * built_up(gains_with(9.0)) == 2 * 3 * built_up(gains_with(1.0))
    for missing in (0.04, np.nan):
        assert built_up(gains_with(1.0, missing=missing)) == np.inf


def gains_with(covariance_norm: float, missing: float = 0.0) -> Gains:
    """Gains of no rounds with such a bound of ‖P‖."""
    return Gains(
        gain=np.zeros((0, 1, 1)),
        whitener=np.zeros((0, 1, 1)),
        last_whitener=np.zeros((1, 1)),
        covariance_norm=covariance_norm,
        frozen=True,
        missing=missing,
        distortion=0.0,
    )


def test_a_step_errs_by_no_more_than_is_said_and_needs_some_of_it() -> None:
    rng, shares, stretched = np.random.default_rng(17), [], []
    for _ in range(300):
        size, count = int(rng.integers(1, 4)), int(rng.integers(1, 3))
        A, C, K = (rng.uniform(-1, 1, shape) for shape in ((size, size), (count, size), (size, count)))
        rows = rng.uniform(-1, 1, (1, size))
        step, moved = Step.of(A, C, K[None]), rows @ A
        found = moved - (moved @ K) @ C
        with mpmath.workprec(256):
            true = precise(rows) * precise(A)
            true = true - true * precise(K) * precise(C)
            length = mpmath.norm(precise(rows), 2)
            shares.append(mpmath.norm(true - precise(found), 2) / length / step.error)
            stretched.append(mpmath.norm(true, 2) / length / step.stretch)
    assert max(shares) <= 1
    assert max(stretched) <= 1
    # A hundredth of either would be too little.
    assert max(shares) > 1 / 20
    assert max(stretched) > 1 / 2


@pytest.mark.parametrize("energy", [False, True])
def test_a_form_is_valued_within_what_is_said_and_needs_some_of_it(energy: bool) -> None:
    rng, shares = np.random.default_rng(23), []
    for _ in range(400):
        rounds = int(rng.integers(1, 4))
        form = rng.uniform(-1, 1, (rounds, rounds))
        form = form + form.T
        formed = Formed(matrices=form[None], tails=np.zeros((1, rounds)), edges=[0, rounds])
        stream = rng.uniform(-1, 1, rounds)
        if energy:
            stream /= np.linalg.norm(stream) * (1 + 1e-15)
        value = 0.0
        for s in range(rounds):
            row = 0.0
            for t in range(rounds):
                row += float(form[s, t]) * float(stream[t])
            value += float(stream[s]) * row
        exact = sum(
            Fraction(form[s, t]) * Fraction(stream[s]) * Fraction(stream[t])
            for s in range(rounds)
            for t in range(rounds)
        )
        (allowed,) = formed.valued(formed.matrices, energy=energy)
        shares.append(float(abs(exact - Fraction(value))) / allowed)
    assert max(shares) <= 1
    assert max(shares) > 1 / 20


def test_nothing_indefinite_is_proved_to_be_above_0_and_a_hundredth_of_the_room_is_too_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cases = [np.diag(y) - form for form, y in barely_indefinite(2000)]
    assert not any(is_above(matrix, 0.0) for matrix in cases)
    assert all(eigenvalue_ends(matrix)[0] < 0 for matrix in cases)
    assert all(top_eigenvalue(-matrix) > 0 for matrix in cases)
    whole = rounding._definite_room
    monkeypatch.setattr(rounding, "_definite_room", lambda *given: whole(*given) / 100)
    assert any(is_above(matrix, 0.0) for matrix in cases)
    assert any(eigenvalue_ends(matrix)[0] >= 0 for matrix in cases)


def test_a_step_sums_along_columns_as_well_as_along_rows() -> None:
    """Nine states that hear one: products with rows sum nine terms, and products with states one."""
    long = np.zeros((9, 9))
    long[:, 0] = 1.0
    for matrix in (long, long.T, sparse.csr_array(long), sparse.csr_array(long.T)):
        step = Step.of(matrix, np.zeros((1, 9)), np.zeros((1, 9, 1)))
        assert 10 * UNIT_ROUNDOFF * 3 <= step.error <= 1.1 * 10 * UNIT_ROUNDOFF * 3


@pytest.mark.parametrize("kind", [float, complex])
def test_nothing_is_proved_of_what_is_no_number(kind: Any) -> None:
    for beyond in (np.nan, np.inf):
        matrix = np.eye(3, dtype=kind)
        matrix[2, 0] = matrix[0, 2] = beyond
        assert not is_above(matrix, 0.0)
    assert is_above(np.eye(3, dtype=kind), 0.0)


def vectors(count: int) -> list[tuple[np.ndarray, Fraction]]:
    """Columns of two or three numbers, and the squares of their norms, which are rationals."""
    rng = np.random.default_rng(31)
    found = [rng.uniform(-1, 1, (2 + k % 2, 1)) for k in range(count)]
    return [(X, sum((Fraction(x) ** 2 for x in X[:, 0].tolist()), Fraction(0))) for X in found]


def test_spectral_norms_of_vectors_are_covered_and_a_hundredth_of_the_room_is_too_little() -> None:
    cases = vectors(300)
    assert all(Fraction(spectral_norm(X)) ** 2 >= squared for X, squared in cases)
    assert any(Fraction(cut(spectral_norm)(X)) ** 2 < squared for X, squared in cases)


def test_norms_of_vectors_of_a_stack_are_covered_and_next_to_the_truth() -> None:
    """Powers of one number are no larger than it is: all that is left is rounding, and a thousand units of room."""
    for X, squared in vectors(300):
        found = Fraction(float(norm_above(X[None])[0])) ** 2
        assert squared <= found <= squared * (1 + 1000 * Fraction(UNIT_ROUNDOFF)) ** 2
