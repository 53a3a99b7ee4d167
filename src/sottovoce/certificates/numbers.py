# SPDX-License-Identifier: Apache-2.0
"""Numbers of a file, exact: a JSON number is the rational it is, "1/3" the one it says; and values that keep them."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import InputError
from sottovoce.forms import MOST_DIGITS

__all__ = ["Floats", "exact", "float_array", "freeze", "whole_array", "written"]

Floats = NDArray[np.float64]
_QUOTIENT = re.compile(r"-?[0-9]+(/[0-9]+)?", re.ASCII)


def exact(name: str, value: object) -> Fraction:
    """The rational that a number of a file means.

    >>> exact("step", "1/3"), exact("step", 0.5)
    (Fraction(1, 3), Fraction(1, 2))
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise InputError(f"{name} must be a number, or a quotient such as '1/3'; got {value!r}")
    if not isinstance(value, str):
        return Fraction(value)
    if len(value) > 2 * MOST_DIGITS + 2 or not _QUOTIENT.fullmatch(value):
        raise InputError(
            f"{name} must be a quotient such as '1/3', of at most {MOST_DIGITS} digits on each side; "
            f"got {value[:40]!r}"
        )
    try:
        return Fraction(value)
    except ZeroDivisionError:
        raise InputError(f"{name} must not be divided by 0; got {value!r}") from None


def written(value: Fraction) -> int | float | str:
    """The form of a rational in a file: a whole number, a float that is exactly it, or a quotient."""
    if value.denominator == 1 and abs(value) < 2**53:
        return int(value)
    nearest = float(value)
    return nearest if Fraction(nearest) == value else f"{value.numerator}/{value.denominator}"


def float_array(name: str, value: object, dimension: int) -> Floats:
    """A finite float array of the given dimension, out of reach of later changes."""
    array = _array(name, value)
    if array.ndim != dimension:
        raise InputError(f"{name} must have {dimension} dimension(s); it has {array.ndim}")
    if array.size and array.dtype.kind not in "fiu":
        raise InputError(f"{name} must be an array of numbers; it holds something else")
    result = np.array(array, dtype=np.float64)
    if not np.isfinite(result).all():
        raise InputError(f"{name} must hold finite numbers only; it holds NaN or infinity")
    result.flags.writeable = False
    return result


def whole_array(name: str, value: object) -> NDArray[np.int64]:
    """A one-dimensional array of whole numbers, out of reach of later changes."""
    array = _array(name, value)
    if array.ndim != 1 or (array.size and array.dtype.kind != "i"):
        raise InputError(f"{name} must be a list of whole numbers below 2**63")
    result = np.array(array, dtype=np.int64)
    result.flags.writeable = False
    return result


def _array(name: str, value: object) -> NDArray[Any]:
    """An array of whatever kind and dimension."""
    try:
        return np.asarray(value)
    except (ValueError, OverflowError):
        raise InputError(f"{name} must be an array of numbers with rows of equal length") from None


def freeze(value: object, **parts: object) -> None:
    """Set fields of a frozen value while it is being built."""
    for name, part in parts.items():
        object.__setattr__(value, name, part)
