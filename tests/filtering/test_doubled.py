# SPDX-License-Identifier: Apache-2.0
"""Products of matrices in doubled precision, held against rationals."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import sparse

from sottovoce.filtering.doubled import (
    Doubled,
    add,
    bits,
    from_left,
    from_right,
    gram,
    multiply,
    product,
    remainder,
)
from sottovoce.filtering.rounding import FINE_GAMMA

if TYPE_CHECKING:
    from collections.abc import Callable

    from sottovoce.filtering.doubled import Matrix

SHAPE, SPREAD = (5, 40, 6), (0, 12)


def drawn(seed: int, spread: int) -> tuple[np.ndarray, np.ndarray]:
    """Two factors whose entries differ in size by up to 10^spread, with cancellation in their product."""
    rng = np.random.default_rng(seed)
    rows, count, columns = SHAPE
    left, right = rng.standard_normal((rows, count)), rng.standard_normal((count, columns))
    left *= 10.0 ** rng.uniform(-spread, 0, (rows, count))
    right[count // 2 :] = -right[: count // 2]
    left[:, count // 2 :] = left[:, : count // 2] * (1 + 1e-9 * rng.standard_normal((rows, count // 2)))
    return left, right


def exact(matrix: np.ndarray) -> list[list[Fraction]]:
    return [[Fraction(float(x)) for x in row] for row in matrix]


def total(found: Doubled, i: int, j: int) -> Fraction:
    assert found.low is not None
    return Fraction(float(found.high[i, j])) + Fraction(float(found.low[i, j]))


def error_of(found: Doubled) -> np.ndarray:
    assert found.error is not None
    return found.error


def exact_product(left: np.ndarray, right: np.ndarray) -> list[list[Fraction]]:
    columns = list(zip(*exact(right), strict=True))
    return [
        [sum((x * y for x, y in zip(row, column, strict=True)), Fraction(0)) for column in columns]
        for row in exact(left)
    ]


@pytest.mark.parametrize("made", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("spread", SPREAD)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_product_is_within_its_bound_and_far_closer_than_floats(
    seed: int, spread: int, made: Callable[[np.ndarray], Matrix]
) -> None:
    left, right = drawn(seed, spread)
    count = left.shape[1]
    factors = from_left(Doubled(high=made(left)), count), from_right(Doubled(high=made(right)), count)
    found, truth = product(*factors, count), exact_product(left, right)
    sizes = np.abs(left) @ np.abs(right)
    for i, row in enumerate(truth):
        for j, value in enumerate(row):
            assert abs(total(found, i, j) - value) <= error_of(found)[i, j]
            rounded = abs(Fraction(float(found.rounded()[i, j])) - value)
            room = remainder(count) * np.abs(left[i]).sum() * np.abs(right[:, j]).sum()
            assert rounded <= FINE_GAMMA * abs(float(value)) + room
    if spread == 0:
        assert (error_of(found) < 1e-4 * FINE_GAMMA * sizes).all()


def test_what_is_coarse_multiplies_without_error() -> None:
    left, right = drawn(4, 3)
    factors = from_left(Doubled(high=left), 40), from_right(Doubled(high=right), 40)
    assert bits(40) == 23
    coarse = multiply(*factors).high
    assert exact(coarse) == exact_product(factors[0].coarse, factors[1].coarse)


def test_low_parts_and_errors_are_carried_on() -> None:
    left, right = drawn(5, 0)
    low, error = 1e-17 * left, np.full_like(left, 1e-25)
    given = Doubled(high=left, low=low, error=error)
    found = product(from_left(given, 40), from_right(Doubled(high=right), 40), 40)
    truth = exact_product(left, right)
    for i, row in enumerate(exact_product(low, right)):
        for j, value in enumerate(row):
            assert abs(total(found, i, j) - truth[i][j] - value) <= error_of(found)[i, j]
    assert (error_of(found) >= 1e-25 * np.abs(right).sum(axis=0)).all()


def test_a_sum_loses_nothing() -> None:
    one, other = Doubled(high=np.array([[1.0, 1e16]])), Doubled(high=np.array([[2.0**-60, 1.0]]))
    for sign in (1, -1):
        found = add(one, other, sign)
        for j in range(2):
            assert total(found, 0, j) == Fraction(float(one.high[0, j])) + sign * Fraction(
                float(other.high[0, j])
            )


GRAMS = {
    "plain": drawn(1, 0)[1],
    "of very different sizes": drawn(2, 12)[0].T,
    "one row": np.array([[1.0, 3.0, 2.0**-60]]),
    "zeros": np.zeros((4, 2)),
    "halves that underflow": np.array([[5e-324, (1 + 2.0**-40) * 1e150]]),
    "columns of all sizes": np.random.default_rng(3).normal(size=(30, 4)) * [1e-320, 1e-310, 1e100, 1e150],
    "orthonormal": np.linalg.qr(np.random.default_rng(4).normal(size=(60, 9)))[0],
}


@pytest.mark.parametrize("matrix", GRAMS.values(), ids=list(GRAMS))
def test_a_gram_matrix_is_within_its_bound_and_symmetric(matrix: np.ndarray) -> None:
    whole = [[Fraction(float(x)) for x in column] for column in matrix.T]
    for found in (gram(matrix), gram(matrix).nearest()):
        assert found.error is not None
        high, low = np.asarray(found.high), np.zeros(found.high.shape) if found.low is None else found.low
        assert (high == high.T).all()
        assert (low == low.T).all()
        for i, one in enumerate(whole):
            for j, other in enumerate(whole):
                true = sum((x * y for x, y in zip(one, other, strict=True)), Fraction(0))
                off = abs(Fraction(float(high[i, j])) + Fraction(float(low[i, j])) - true)
                assert off <= Fraction(float(found.error[i, j])), (i, j)


def test_a_gram_matrix_is_known_far_closer_than_floats_tell() -> None:
    matrix = GRAMS["orthonormal"]
    for found, most in ((gram(matrix), 1e-20), (gram(matrix).nearest(), 1.2e-16)):
        assert found.error is not None
        assert found.error.max() < most


def test_factors_that_were_cut_for_shorter_sums_are_refused() -> None:
    left, right = np.ones((1, 256)), np.ones((256, 1))
    cut = from_left(Doubled(high=left), 256), from_right(Doubled(high=right), 256)
    assert multiply(*cut).high.item() == 256
    with pytest.raises(ValueError, match="sums of 256 products are not exact in factors cut for 256 and 16"):
        multiply(cut[0], from_right(Doubled(high=right), 16))
    left[:, 16:] = 0.0
    short = from_left(Doubled(high=left), 16), from_right(Doubled(high=right), 16)
    assert multiply(*short).high.item() == 16


def test_what_is_too_small_for_the_coarse_part_counts_as_well() -> None:
    """Sums of so many rests err by more than is allowed for sums of two."""
    left = np.full((1, 1000), 2.0**-40 * (1 + 2.0**-52 * np.random.default_rng(0).integers(1, 2**20, 1000)))
    left[0, 0] = 1.0
    factors = from_left(Doubled(high=left), 2), from_right(Doubled(high=np.ones((1000, 1))), 2)
    assert np.count_nonzero(factors[0].coarse) == 1
    with pytest.raises(ValueError, match="sums of 999 products are not exact"):
        multiply(*factors)


def test_factors_that_were_cut_for_as_short_sums_are_refused_where_bits_would_do() -> None:
    """Parts cut for three terms have bits to spare for eight, but low parts are counted for three."""
    assert bits(3) == bits(8)
    left, right = np.ones((1, 4)), np.ones((4, 1))
    with pytest.raises(ValueError, match="sums of 4 products are not exact in factors cut for 3 and 3"):
        multiply(from_left(Doubled(high=left), 3), from_right(Doubled(high=right), 3))
    left[:, 3] = 0.0
    assert multiply(from_left(Doubled(high=left), 3), from_right(Doubled(high=right), 3)).high.item() == 3


@pytest.mark.parametrize("erring", ["left", "right", "both"])
def test_what_either_factor_may_miss_is_in_the_product(erring: str) -> None:
    """At its worst each entry is off by all that it may be, to the same side."""
    rng, off = np.random.default_rng(6), {"left": (3.0, 0.0), "right": (0.0, 2.0), "both": (3.0, 2.0)}[erring]
    left, right = rng.uniform(0, 1, (2, 3)), rng.uniform(0, 1, (3, 4))
    given = (
        Doubled(high=left, error=np.full_like(left, off[0]) if off[0] else None),
        Doubled(high=right, error=np.full_like(right, off[1]) if off[1] else None),
    )
    found = product(from_left(given[0], 3), from_right(given[1], 3), 3)
    worst = (left + off[0]) @ (right + off[1]) - left @ right
    assert (worst * (1 - 1e-12) <= error_of(found)).all()
    assert (error_of(found) <= 1.002 * worst).all()
