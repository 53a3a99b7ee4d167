# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.profiles import examples

from sottovoce.errors import InputError
from sottovoce.interval import UNIT_ROUNDOFF, Interval

numbers = st.floats(-1e100, 1e100, allow_subnormal=False).filter(lambda x: x == 0 or abs(x) > 1e-100)
pairs = st.tuples(numbers, numbers).map(lambda ends: Interval(min(ends), max(ends)))
factors = st.floats(1e-100, 1e100)


@examples(60)
@given(pairs, pairs, st.floats(0, 1), st.floats(0, 1))
def test_a_sum_of_members_lies_in_the_sum(a: Interval, b: Interval, p: float, q: float) -> None:
    x = Fraction(a.lower) + Fraction(p) * (Fraction(a.upper) - Fraction(a.lower))
    y = Fraction(b.lower) + Fraction(q) * (Fraction(b.upper) - Fraction(b.lower))
    total = a + b
    assert Fraction(total.lower) <= x + y <= Fraction(total.upper)


@examples(60)
@given(pairs, factors)
def test_a_multiple_of_a_member_lies_in_the_multiple(a: Interval, factor: float) -> None:
    scaled = a.scaled(factor)
    for x in (a.lower, a.upper):
        assert Fraction(scaled.lower) <= Fraction(factor) * Fraction(x) <= Fraction(scaled.upper)


@examples(60)
@given(pairs, factors)
def test_rounding_costs_no_more_than_two_units_an_end(a: Interval, factor: float) -> None:
    scaled = a.scaled(factor)
    for end, exact in ((scaled.lower, a.lower), (scaled.upper, a.upper)):
        assert abs(Fraction(end) - Fraction(factor) * Fraction(exact)) <= 2 * Fraction(math.ulp(end))


@examples(60)
@given(st.floats(0, 1e12), st.floats(0, 1e12))
def test_a_square_root_is_held_between_the_mapped_ends(a: float, b: float) -> None:
    x = Interval(min(a, b), max(a, b))
    root = x.mapped(math.sqrt)
    assert Fraction(root.lower) ** 2 <= Fraction(x.lower)
    assert Fraction(x.upper) <= Fraction(root.upper) ** 2


def test_an_end_of_0_stays_0() -> None:
    assert Interval(0.0, 2.0).scaled(3.0).lower == 0.0
    assert Interval(0.0, 0.0) + Interval(0.0, 0.0) == Interval(0.0, 0.0)
    assert Interval(0.0, 4.0).mapped(math.sqrt).lower == 0.0


def test_members_include_the_ends_and_exclude_the_next_float() -> None:
    interval = Interval(1.0, 2.0)
    assert 1.0 in interval
    assert 2.0 in interval
    assert math.nextafter(1.0, 0) not in interval
    assert math.nextafter(2.0, 3) not in interval
    assert math.nan not in interval


@pytest.mark.parametrize(("lower", "upper"), [(2.0, 1.0), (math.nan, 1.0), (0.0, math.nan)])
def test_ends_in_the_wrong_order_are_refused(lower: float, upper: float) -> None:
    with pytest.raises(InputError, match="an interval needs lower ≤ upper"):
        Interval(lower, upper)


@pytest.mark.parametrize("factor", [-1.0, math.nan])
def test_a_negative_factor_is_refused(factor: float) -> None:
    with pytest.raises(InputError, match="factor of at least 0; got"):
        Interval(1.0, 2.0).scaled(factor)


def test_width_and_gap() -> None:
    assert Interval(2.0, 3.0).width == 1.0
    assert Interval(2.0, 3.0).gap == 0.5
    assert Interval.exactly(7.0).gap == 0.0
    assert Interval.exactly(0.0).gap == 0.0
    assert Interval(0.0, 1.0).gap == math.inf


def test_an_interval_is_a_value() -> None:
    assert Interval(1.0, 2.0) == Interval(1.0, 2.0)
    assert hash(Interval(1.0, 2.0)) == hash(Interval(1.0, 2.0))
    with pytest.raises(AttributeError):
        Interval(1.0, 2.0).lower = 0.0  # type: ignore[misc]


def test_a_product_that_underflows_keeps_its_upper_end_above_0() -> None:
    tiny = Interval(1e-200, 1e-200)
    assert tiny.scaled(1e-200).upper > 0
    assert tiny.mapped(lambda x: x * 1e-200).upper > 0
    assert tiny.scaled(0.0) == Interval(0.0, 0.0)


def test_a_product_that_underflows_keeps_its_lower_end_below_0() -> None:
    tiny = Interval(-1e-200, 1.0)
    assert tiny.scaled(1e-200).lower < 0
    assert tiny.mapped(lambda x: x * 1e-200).lower < 0
    assert tiny.scaled(0.0) == Interval(0.0, 0.0)


def test_the_unit_of_rounding_is_defined_once() -> None:
    assert math.ulp(1.0) / 2 == UNIT_ROUNDOFF
    sources = sorted((Path(__file__).parent.parent / "src").rglob("*.py"))
    defined = re.compile(r"finfo|2(\.0)? ?\*\* ?-5[23]|epsilon\b.*float_info|\bEPSILON\b")
    assert [path.name for path in sources if defined.search(path.read_text(encoding="utf-8"))] == [
        "interval.py"
    ]
