"""Numbers shown to a person are never below what is certified, and nothing shown can steer a terminal."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.cli.printing import interval, readable, rounded_down, rounded_up
from sottovoce.interval import Interval

NUMBERS = st.floats(min_value=0, allow_nan=False, allow_infinity=False)


@given(NUMBERS, st.integers(1, 8))
def test_rounding_goes_outward_and_not_far(value: float, digits: int) -> None:
    lower, upper = Fraction(rounded_down(value, digits)), Fraction(rounded_up(value, digits))
    assert lower <= Fraction(value) <= upper
    # One unit in the last shown digit is at most 10^(1 − digits) of the number.
    assert upper - lower <= Fraction(value) * Fraction(10) ** (1 - digits)


@pytest.mark.parametrize(
    ("value", "up", "down"),
    [
        (0.0, "0", "0"),
        (1.0, "1", "1"),
        (3.0000000000000004, "3.001", "3"),
        (9.9999, "10", "9.999"),
        (0.000123456, "0.0001235", "0.0001234"),
        (1.23456e-7, "1.235e-7", "1.234e-7"),
        (123456.0, "123500", "123400"),
        (1.5e12, "1.5e+12", "1.5e+12"),
        (math.inf, "∞", "∞"),
        (math.nan, "undefined", "undefined"),
    ],
)
def test_how_numbers_look(value: float, up: str, down: str) -> None:
    assert rounded_up(value) == up
    assert rounded_down(value) == down


def test_an_interval_shows_both_ends_unless_they_are_one() -> None:
    assert interval(Interval(1.23456, 2.34567)) == "1.234–2.346"
    assert interval(Interval.exactly(20.0)) == "20"
    assert interval(Interval(0.5, math.inf)) == "0.5–∞"


def test_names_cannot_steer_the_terminal() -> None:
    assert readable("\x1b[31mred\r\n") == "\\x1b[31mred\\r\\n"
    assert readable("Žižek ε") == "Žižek ε"
