# SPDX-License-Identifier: Apache-2.0
"""Numbers of a program: rationals, however they are written."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from sottovoce.errors import InputError

__all__ = [
    "Number",
    "PerNode",
    "digits_of",
    "exact",
    "float_above",
    "float_below",
    "plain_number",
    "plain_numbers",
    "spread",
    "written",
]

Number: TypeAlias = int | float | Fraction | str
"""A float counts as the rational that it is; "1/3" and "0.9" are the rationals that they say."""

# Longer numbers take minutes to write out, if they can be written at all; no float comes near.
MOST_DIGITS = 4000

PerNode: TypeAlias = Number | tuple[Number, ...]
"""One number for all nodes, or one a node in index order."""


def plain_number(value: object, name: str) -> Number:
    """`value` as a number of a program; what is no finite number, or has thousands of digits, is refused.

    >>> plain_number("1e999999999", "a level")
    Traceback (most recent call last):
    sottovoce.errors.InputError: a level must have at most 4000 digits; got '1e999999999' (round it)
    """
    number = value.item() if isinstance(value, np.generic) else value
    if isinstance(number, float) and math.isfinite(number):
        return number
    if isinstance(number, int | Fraction | str) and not isinstance(number, bool):
        if _is_long(number):
            shown = repr(value) if isinstance(value, str) and len(value) < 40 else "more"
            raise InputError(f"{name} must have at most {MOST_DIGITS} digits; got {shown} (round it)")
        try:
            Fraction(number)
        except (ValueError, ZeroDivisionError):
            pass
        else:
            return number
    raise InputError(
        f"{name} must be a finite number, or a rational such as '1/3'; got {value!r} (write 0.5 or '1/3', say)"
    )


def _is_long(number: int | Fraction | str) -> bool:
    """Whether a number has, or would have if it were written out, more digits than are taken."""
    if isinstance(number, str):
        exponents = re.findall(r"[eE][+-]?(\d+)", number.replace("_", ""))
        powers = sum(MOST_DIGITS if len(digits) > 4 else int(digits) for digits in exponents)
        return len(number) + powers > MOST_DIGITS
    # log10(2) is below 0.3011.
    return max(number.numerator.bit_length(), number.denominator.bit_length()) * 0.3011 > MOST_DIGITS


def plain_numbers(value: object, name: str) -> PerNode:
    """`value` as one number for all nodes, or as a tuple of one a node."""
    if isinstance(value, tuple | list) or (isinstance(value, np.ndarray) and value.ndim == 1):
        if not len(value):
            raise InputError(
                f"{name} must be a number, or one a node; got none (give one number for all nodes)"
            )
        return tuple(plain_number(each, f"each of {name}") for each in value)
    return plain_number(value, name)


def exact(value: Number) -> Fraction:
    """The rational that a number of a program is.

    >>> exact("1/3"), exact("0.1"), exact(0.5)
    (Fraction(1, 3), Fraction(1, 10), Fraction(1, 2))
    """
    return Fraction(value)


def float_above(value: Fraction) -> float:
    """The least float that is not below a rational; infinite beyond the range of floats.

    >>> float_above(Fraction(1, 3)) > Fraction(1, 3), float_above(Fraction(1, 2)), float_above(Fraction(10) ** 400)
    (True, 0.5, inf)
    """
    try:
        near = float(value)
    except OverflowError:
        near = math.inf if value > 0 else -math.inf
    return near if near >= value else math.nextafter(near, math.inf)


def float_below(value: Fraction) -> float:
    """The largest float that is not above a rational.

    >>> float_below(Fraction(1, 3)) <= Fraction(1, 3), float_below(Fraction(10) ** 400)
    (True, 1.7976931348623157e+308)
    """
    return -float_above(-value)


def spread(value: PerNode, n: int) -> list[Fraction]:
    """One rational for each of n nodes."""
    return [exact(each) for each in value] if isinstance(value, tuple) else [exact(value)] * n


def digits_of(number: Fraction) -> int:
    """How many digits the longer side of a quotient has.

    >>> digits_of(Fraction(-1, 128))
    3
    """
    return max(len(str(abs(number.numerator))), len(str(number.denominator)))


def written(value: PerNode) -> int | float | str | list[int | float | str]:
    """A number, or a tuple of them, as JSON holds it: fractions as text, the rest as it is."""
    if isinstance(value, tuple):
        return [str(each) if isinstance(each, Fraction) else each for each in value]
    return str(value) if isinstance(value, Fraction) else value
