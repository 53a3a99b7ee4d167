# SPDX-License-Identifier: Apache-2.0
"""Arrays of exact quotients p/q of whole numbers, and their digest.

Whole numbers are int64 where all of them fit, and Python integers otherwise; quotients are always in lowest terms, so
equal quotients are equal arrays.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

__all__ = ["Quotients", "quotients", "row_shares", "sums_to_one"]

_LARGEST = 2**63 - 1
_EXACT_FLOATS = 2**53


class Quotients(NamedTuple):
    """numerators / denominators, entry by entry, in lowest terms."""

    numerators: NDArray[Any]
    denominators: NDArray[Any]

    def rounded(self) -> NDArray[np.float64]:
        """Each quotient as the nearest float."""
        p, q = self
        if p.dtype != object and p.max(initial=0) < _EXACT_FLOATS and q.max(initial=0) < _EXACT_FLOATS:
            return np.asarray(p / q)
        # Python divides whole numbers of any size with one rounding.
        return np.array([a / b for a, b in zip(p.tolist(), q.tolist(), strict=True)], dtype=np.float64)

    def fractions(self, span: slice = slice(None)) -> list[Fraction]:
        """The quotients of a part of the arrays."""
        p, q = self.numerators[span].tolist(), self.denominators[span].tolist()
        return [Fraction(a, b) for a, b in zip(p, q, strict=True)]

    def are_floats(self) -> NDArray[np.bool_]:
        """Which quotients are exactly their floats."""
        p, q = self
        if p.dtype != object and q.dtype != object:
            return np.asarray((q & (q - 1) == 0) & (p < _EXACT_FLOATS))
        nearest = self.rounded().tolist()
        return np.array([Fraction(x) == y for x, y in zip(nearest, self.fractions(), strict=True)])

    def digest(self, chosen: NDArray[np.bool_]) -> Iterable[bytes]:
        """The chosen quotients in a form that is the same on every platform and different for different ones."""
        p, q = quotients(self.numerators[chosen], self.denominators[chosen])
        if p.dtype == object or q.dtype == object:
            yield b"text\n"
            yield "".join(f"{a}/{b}\n" for a, b in zip(p.tolist(), q.tolist(), strict=True)).encode()
        else:
            yield b"int64\n"
            yield p.astype("<i8").tobytes()
            yield q.astype("<i8").tobytes()


def quotients(numerators: Any, denominators: Any) -> Quotients:  # noqa: ANN401
    """Numerators / denominators in lowest terms; each a whole number or an array of them, denominators above 0."""
    p, q = np.broadcast_arrays(_whole(numerators), _whole(denominators))
    common = np.gcd(p, q)
    return Quotients(_narrow(p // common), _narrow(q // common))


def row_shares(data: NDArray[np.float64], rows: NDArray[np.int64]) -> Quotients:
    """Each of the positive floats `data` as its exact part of the sum over all that stand in the same of the `rows`."""
    if (data == np.floor(data)).all() and data.sum() < _EXACT_FLOATS:
        return quotients(data.astype(np.int64), np.bincount(rows, weights=data).astype(np.int64)[rows])
    # A float is a whole number of its last places; with the finest place of all, every share is a whole number.
    parts = [x.as_integer_ratio() for x in data.tolist()]
    finest = max((q for _, q in parts), default=1)
    whole = np.array([p * (finest // q) for p, q in parts], dtype=object)
    totals = np.zeros(int(rows.max(initial=-1)) + 1, dtype=object)
    np.add.at(totals, rows, whole)
    return quotients(whole, totals[rows])


def _whole(values: Any) -> NDArray[Any]:  # noqa: ANN401
    """Whole numbers as an array that holds all of them."""
    if isinstance(values, np.ndarray):
        return values if values.dtype == object else values.astype(np.int64)
    return np.array([values], dtype=np.int64 if abs(values) <= _LARGEST else object)


def _narrow(values: NDArray[Any]) -> NDArray[Any]:
    """The same whole numbers, as int64 if all of them fit, out of reach of later changes."""
    fits = values.dtype != object or all(-_LARGEST <= x <= _LARGEST for x in values.ravel().tolist())
    result = values.astype(np.int64 if fits else object)
    result.flags.writeable = False
    return result


def sums_to_one(values: list[float]) -> bool:
    """Whether floats sum to exactly 1, without rounding."""
    return math.fsum([*values, -1.0]) == 0
