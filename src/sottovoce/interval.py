# SPDX-License-Identifier: Apache-2.0
"""`Interval`: a number known between two ends, rounded outward, and how the ends are written for people."""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from sottovoce.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "DIGITS",
    "UNIT_ROUNDOFF",
    "Interval",
    "as_given",
    "both_ends",
    "in_short",
    "rounded_down",
    "rounded_near",
    "rounded_up",
]

UNIT_ROUNDOFF = 2.0**-53
"""u: a sum, product, quotient or square root of floats is within a factor 1 ± u of the true one, but for underflow."""

DIGITS = 4

# So many digits a person may have typed.
_CHOSEN = 8


@dataclass(frozen=True, slots=True)
class Interval:
    """The truth lies in [lower, upper]; arithmetic rounds both ends outward by one unit in the last place.

    Guarantee: if x lies in `a` and y in `b`, then x + y lies in `a + b`, c·x in `a.scaled(c)` for c ≥ 0,
    and f(x) in `a.mapped(f)` for every non-decreasing f that is itself evaluated to within one ulp.

    >>> Interval(1.0, 2.0) + Interval(0.5, 0.5)
    Interval(lower=1.4999999999999998, upper=2.5000000000000004)
    >>> 1.5 in Interval(1.0, 2.0)
    True
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        """Refuse ends that are not numbers or stand in the wrong order."""
        if not self.lower <= self.upper:
            raise InputError(f"an interval needs lower ≤ upper; got [{self.lower!r}, {self.upper!r}]")

    @classmethod
    def exactly(cls, value: float) -> Interval:
        """The interval that holds one number.

        Guarantee: exact; a later operation moves the ends all the same, as it may round.
        """
        return cls(value, value)

    def __contains__(self, value: float) -> bool:
        """Whether `value` lies between the ends, ends included."""
        return self.lower <= value <= self.upper

    def __add__(self, other: Interval) -> Interval:
        """The sum of two independent quantities, rounded outward."""
        return outward(self.lower + other.lower, self.upper + other.upper)

    def scaled(self, factor: float) -> Interval:
        """The interval of factor·x, for a factor that is not negative, rounded outward.

        Guarantee: holds factor·x for every x of this interval: each product is rounded once and moved by one unit,
        and a product that underflows to 0 is moved away from it.
        """
        if not factor >= 0:
            raise InputError(f"an interval can be scaled by a factor of at least 0; got {factor!r}")
        ends = self.lower * factor, self.upper * factor
        return outward(*ends, below=self.lower < 0 < factor, above=self.upper > 0 and factor > 0)

    def mapped(self, function: Callable[[float], float]) -> Interval:
        """The interval of f(x) for a non-decreasing `function`, rounded outward.

        Guarantee: holds f(x) for every x of this interval, if `function` does not fall between the ends and is off by
        at most one unit in the last place at them. One that is off by more has to widen its own ends first.
        """
        ends = float(function(self.lower)), float(function(self.upper))
        return outward(*ends, below=self.lower < 0, above=self.upper > 0)

    @property
    def width(self) -> float:
        """Upper end minus lower end.

        Guarantee: none of its own: rounded to nearest, for tables and stopping rules; a proof compares the ends.
        """
        return self.upper - self.lower

    @property
    def gap(self) -> float:
        """upper/lower − 1: how far the guarantee may overstate the truth (infinite above a lower end of 0).

        Guarantee: none of its own: rounded to nearest, like `width`.
        """
        if self.upper == self.lower:
            return 0.0
        return self.upper / self.lower - 1 if self.lower > 0 else math.inf


def outward(lower: float, upper: float, *, below: bool = False, above: bool = False) -> Interval:
    """[lower, upper] with each end moved one unit in the last place outward.

    An exact 0 stays. With `below` a lower end of 0 stands for a negative number too small to write down, and with
    `above` an upper end of 0 for a positive one: these are moved like all others.

    Guarantee: holds the true ends where each given one is a true one that was rounded once, to nearest; sums, products
    and quotients of two floats are such.

    >>> outward(0.0, 0.0, above=True)
    Interval(lower=0.0, upper=5e-324)
    """
    return Interval(
        math.nextafter(lower, -math.inf) if lower or below else lower,
        math.nextafter(upper, math.inf) if upper or above else upper,
    )


def rounded_up(value: float, digits: int = DIGITS) -> str:
    """`value` in a few significant digits, never shown below what it is.

    Guarantee: the number shown is at least `value`, which is a decimal number exactly, and is the smallest of so many
    digits that is; so an upper bound stays one on its way to a person.

    >>> rounded_up(1.23401), rounded_up(2.5), rounded_up(0.000123456)
    ('1.235', '2.5', '0.0001235')
    """
    return _rounded(value, digits, decimal.ROUND_CEILING)


def rounded_down(value: float, digits: int = DIGITS) -> str:
    """`value` in a few significant digits, never shown above what it is.

    Guarantee: the number shown is at most `value`, and the largest of so many digits that is: a lower bound stays one.

    >>> rounded_down(1.23499), rounded_down(2.5)
    ('1.234', '2.5')
    """
    return _rounded(value, digits, decimal.ROUND_FLOOR)


def both_ends(value: Interval, digits: int = DIGITS) -> str:
    """An interval with both ends rounded outward; one number where they are shown alike.

    Guarantee: what is shown holds the interval: the lower end is rounded down and the upper one up. Where one number is
    shown, both ends are that number to its last digit.

    >>> both_ends(Interval(1.23456, 1.23457))
    '1.234–1.235'
    """
    lower, upper = rounded_down(value.lower, digits), rounded_up(value.upper, digits)
    return upper if lower == upper else f"{lower}–{upper}"


def rounded_near(value: float, digits: int = DIGITS) -> str:
    """A number that is no bound, rounded to nearest.

    Guarantee: within half a unit of the last digit shown, on either side; so it must not be used for an end.

    >>> rounded_near(2 / 3)
    '0.6667'
    """
    return _rounded(value, digits, decimal.ROUND_HALF_EVEN)


def as_given(value: float) -> str:
    """A number that somebody chose, such as a budget or δ, to its last digit: it must be neither more nor less.

    Guarantee: exact: the shortest decimal number that reads back as the same float.

    >>> as_given(1.0), as_given(1e-5), as_given(1.0000004)
    ('1', '1e-05', '1.0000004')
    """
    return repr(float(value)).removesuffix(".0")


def in_short(value: float) -> str:
    """A noise multiplier in a sentence: as somebody chose it, or six digits, rounded up, of one that was computed.

    Guarantee: at least `value`: what is said to hold at this noise holds at what is shown, too.

    >>> in_short(4.0), in_short(0.1), in_short(4.835102780413383)
    ('4', '0.1', '4.83511')
    """
    exact = as_given(value)
    return exact if len(exact.replace(".", "").lstrip("0")) <= _CHOSEN else rounded_up(value, 6)


def _rounded(value: float, digits: int, direction: str) -> str:
    if not math.isfinite(value):
        return "∞" if value > 0 else "-∞" if value < 0 else "undefined"
    # A float is a decimal number exactly, so this rounds what is certified and not an approximation of it.
    short = decimal.Context(prec=digits, rounding=direction).plus(Decimal(float(value)))
    if short == 0:
        return "0"
    plain = -5 < short.adjusted() < 7
    short = short.normalize()
    return f"{short:f}" if plain else f"{short:e}"
