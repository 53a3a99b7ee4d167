# SPDX-License-Identifier: Apache-2.0
"""Forms over whole numbers as floats, and what these leave out.

Source: docs/proofs/programs.md, "Products in doubled precision", for why no number may be too large or too small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import NotCertified
from sottovoce.filtering.doubled import Doubled, sparse_rows
from sottovoce.filtering.rounding import SMALLEST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sottovoce.protocols import Form

__all__ = ["float_row", "near_float", "rational_matrix"]

# Speed alone: sparse products pay from this size and below this share of entries.
SMALL, SPARSE = 64, 0.2


def float_row(form: Form, scale: int) -> dict[int, float]:
    """A form over a scale, each number rounded once.

    Guarantee: each number is within u of itself; that of `near_float`.
    """
    return {key: near_float(x, scale) for key, x in form.items()}


def near_float(numerator: int, denominator: int) -> float:
    """A quotient of whole numbers, rounded once; one whose square could leave the range of floats is refused.

    Guarantee: the nearest float, within u of the quotient, which is 0 or between `SMALLEST` and its inverse in size.
    """
    try:
        value = numerator / denominator
    except OverflowError:
        value = float("inf")
    if numerator and not SMALLEST < abs(value) < 1 / SMALLEST:
        raise NotCertified(
            f"this program makes numbers that floats do not hold, beyond {SMALLEST} or {1 / SMALLEST} (take fewer "
            "rounds, or levels and coefficients of less different sizes)"
        )
    return value


def rational_matrix(
    rows: Iterable[tuple[Form, int]], width: int, place: Callable[[int], int | None]
) -> Doubled:
    """Rows of forms over their scales, with what floats leave out of them, in the form whose products are quick.

    Guarantee: `high` is rounded once, and so is `low`, which is what `high` misses: together they are within u² of the
    rational numbers, relatively. Sizes outside those of `near_float` are refused.
    """
    ends, columns, values, lows = [0], list[int](), list[float](), list[float]()
    # Speed alone: few numbers differ.
    known: dict[tuple[int, int], tuple[float, float]] = {}
    for form, scale in rows:
        for key, x in form.items():
            column = place(key)
            if column is None:
                continue
            if (parts := known.get((x, scale))) is None:
                value = near_float(x, scale)
                parts = known[x, scale] = value, _left_out(x, scale, value)
            columns.append(column)
            values.append(parts[0])
            lows.append(parts[1])
        ends.append(len(columns))
    height = len(ends) - 1
    if width > SMALL and len(values) < SPARSE * height * width:
        return sparse_rows(values, lows, columns, ends, width)
    high, low = np.zeros((2, height, width))
    lines = np.repeat(np.arange(height), np.diff(ends))
    high[lines, columns], low[lines, columns] = values, lows
    return Doubled(high=high, low=low)


def _left_out(numerator: int, denominator: int, value: float) -> float:
    """A quotient less a float, rounded once: the difference is formed in whole numbers."""
    above, below = value.as_integer_ratio()
    return (numerator * below - above * denominator) / (denominator * below)
