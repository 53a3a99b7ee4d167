# SPDX-License-Identifier: Apache-2.0
"""The units of all allowances are at least what they stand for, in rationals, and next to it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sottovoce.filtering.rounding import fine_gamma
from sottovoce.interval import UNIT_ROUNDOFF
from sottovoce.rounding import (
    TINY,
    above,
    barely_above,
    barely_below,
    closely_above,
    finely_above,
    gamma,
    gamma_above,
    roundings,
    slightly_above,
    slightly_below,
    twice_above,
)

UNIT = Fraction(1, 2**53)


def exact_gamma(count: int) -> Fraction:
    """γ_k = ku/(1 − ku)."""
    return count * UNIT / (1 - count * UNIT)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 1000, 10**6 + 1, 8 * 10**9, 8 * 10**12])
def test_gamma_is_above_what_so_many_roundings_do_and_next_to_it(count: int) -> None:
    exact = exact_gamma(count)
    assert exact <= Fraction(gamma(count)) <= Fraction(1002, 1000) * exact
    assert Fraction(gamma(count)) * Fraction(1009, 1000) < Fraction(gamma_above(count))
    assert Fraction(roundings(count)) == count * UNIT
    if count <= 8 * 10**9:
        assert exact <= Fraction(fine_gamma(count)) <= (1 + Fraction(2, 10**6)) * exact


def test_a_sum_that_rounds_one_way_needs_nearly_all_of_gamma() -> None:
    count, total = 1000, 1.0
    for _ in range(count):
        total += UNIT_ROUNDOFF
    exact = 1 + count * UNIT
    assert total == 1.0
    assert exact - Fraction(total) <= Fraction(gamma(count)) * exact
    assert exact - Fraction(total) > Fraction(99, 100) * Fraction(gamma(count)) * exact


def test_room_covers_what_a_bound_loses_while_it_is_computed() -> None:
    # The worst case of 10¹² roundings, one after the other, and of two such numbers.
    lost = (1 - UNIT) ** 2 / (1 + 10**12 * UNIT)
    assert Fraction(closely_above(1.0)) * lost > 1
    assert Fraction(above(1.0)) * lost**20 > 1
    assert Fraction(twice_above(1.0)) * lost**40 > 1
    assert closely_above(1.0) - 1 < (above(1.0) - 1) / 9.9 < (twice_above(1.0) - 1) / 19.8


def test_a_speck_covers_what_thousands_of_roundings_do() -> None:
    exact = exact_gamma(9000)
    assert exact < Fraction(slightly_above(1.0)) - 1 < 2 * exact
    assert exact < 1 - Fraction(slightly_below(1.0)) < 2 * exact


def test_a_million_roundings_and_a_thousand_million_are_covered() -> None:
    few, many = exact_gamma(8_900_000), exact_gamma(9 * 10**9)
    # One unit more for the product with the number that is raised.
    assert few * (1 + 3 * UNIT) + 3 * UNIT < Fraction(barely_above(1.0)) - 1 < 2 * few
    assert few * (1 + 3 * UNIT) + 3 * UNIT < 1 - Fraction(barely_below(1.0)) < 2 * few
    assert many + 3 * UNIT < Fraction(finely_above(1.0)) - 1 < 2 * many


@pytest.mark.parametrize("count", [1, 8_900_000, 8_900_001, 10**8, 8 * 10**12])
def test_more_roundings_than_10_to_the_9th_hides_are_covered_too(count: int) -> None:
    exact = exact_gamma(count)
    found = Fraction(barely_above(1.0, count)) - 1
    assert exact + 3 * UNIT < found
    assert found < max(Fraction(11, 10**10), Fraction(1002, 1000) * exact)


def test_a_norm_of_very_many_numbers_is_above_the_true_one() -> None:
    # Each addition of u to 1 is lost: all that is lost is what the count is for.
    count, lost = 10**9, 10**9 * UNIT
    assert Fraction(barely_above(1.0)) < 1 + lost < Fraction(barely_above(1.0, count))


def test_norms_whose_squares_underflow_are_covered() -> None:
    few = np.full(10**6, 1e-163)
    assert np.linalg.norm(few) == 0.0 < 1e-163 * 1000 <= TINY
    # What is added is seen by nothing that does not underflow.
    assert 1e-133 + TINY == 1e-133
