# SPDX-License-Identifier: Apache-2.0
"""What rounding does to the checks of a certificate, from above: every allowance that they count with.

u = 2⁻⁵³ is the unit roundoff. This room shares no code with the rooms whose results it checks, so it has its own words
for the same units: `gamma`, `roundings`, `above`.

Source: docs/proofs/checks.md; Higham, *Accuracy and Stability of Numerical Algorithms*, Sections 3.1, 3.5 and 10.1.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TypeVar

import numpy as np

from sottovoce.interval import UNIT_ROUNDOFF

__all__ = [
    "LARGEST",
    "LEAST_PRICE",
    "LEAST_SCALE",
    "MOST_DEFECT",
    "NEARLY_ONE",
    "ROUNDED",
    "SCALAR",
    "SCALED_UP",
    "SHORTER",
    "UNDERFLOWN",
    "UNDERFLOWN_SCALED",
    "UNSEEN",
    "above",
    "closely_above",
    "contraction_room",
    "definite_room",
    "gamma",
    "has_unit_square",
    "inverted",
    "is_unit",
    "narrowly_above",
    "raised",
    "rational_room",
    "roundings",
    "scaled_error",
    "slightly_raised",
    "underflown",
]

Size = TypeVar("Size", float, np.ndarray)

# Needed by forms of a definition: each entry of N and G is rounded from its rational, and once more when its row is
# brought to norm 1; so many roundings are counted for both.
ROUNDED = 4
# Needed by proofs of training: more roundings than any of their scalars meets (a difference, a root, a quotient, a
# product), and the factor that covers them.
SCALAR = 4
SCALED_UP = 1 + SCALAR * UNIT_ROUNDOFF
# Needed by everything that is computed in floats: a bound falls short of itself by less than a per cent, a chain of
# products and short sums by less than 10⁻⁴, a sum of norms over the rounds by less than 10⁻⁷.
ROOM, CLOSE_ROOM, NARROW_ROOM = 1.01, 1.0001, 1.0000001
# Needed by scalars at the end of a check: more than 8 and than 80 roundings do.
FEW, SOME = 1e-15, 1e-14
# Needed by streams that a file gives: one may be longer than 1 by rounding, and is divided by its length.
UNIT_ROOM = Fraction(1, 10**9)
# Needed by streams that are made of unit rows: times this they are shorter than 1 for certain, rounding included.
SHORTER = 1 - 1e-9
# Needed by norms: squares below the range of floats hide less than this, for up to 10¹³ of them.
UNSEEN = 1e-155
# Needed by factorisations and sums: a number that underflows is off by 2⁻¹⁰⁷⁵, and 10²² of them by less than this.
UNDERFLOWN = 1e-300
# Needed by prices: what they are raised to at least, so that no quotient by one overflows.
LEAST_PRICE = 1e-290
# Needed by scaled forms: a scale is at least the first, so that its square is a float, and what underflowed before a
# division by it is less than the second afterwards.
LEAST_SCALE, UNDERFLOWN_SCALED = 1e-140, 1e-150
# Needed by rows at norm 1, and by rows that were measured to be as good as orthonormal: their least singular value.
NEARLY_ONE = 0.999999
# Needed by bounds to second order: what they are relative to is refused above the first, and below it 1/(1 − ρ) with
# all rounding is less than the second.
MOST_DEFECT, INVERTED = 0.01, 1.02
# Needed by squares and products: numbers beyond this are refused, so that none overflows.
LARGEST = 1e100


def roundings(count: Size) -> Size:
    """ku: what k roundings do to a number, relatively and to first order.

    Guarantee: an upper bound for k = 1; for more where the count, or a factor beside it, has room for the second order.
    Source: docs/proofs/checks.md, "Units".

    >>> roundings(2) == 2 * UNIT_ROUNDOFF
    True
    """
    return UNIT_ROUNDOFF * count


def gamma(count: float) -> float:
    """γ_k = ku/(1 − ku): a sum of k products, in any order, errs by at most γ_k times the sum of their sizes.

    Guarantee: an upper bound of the relative error of a sum of k products, or of k roundings one after the other,
    without underflow and for k below 2⁵³; its own three roundings are relative and are covered by the factors 1.01
    or 2 with which it is used.
    Source: docs/proofs/checks.md, "Units"; Higham, *Accuracy and Stability of Numerical Algorithms*, Lemma 3.1.
    """
    return count * UNIT_ROUNDOFF / (1 - count * UNIT_ROUNDOFF)


def above(bound: Size) -> Size:
    """A bound that was computed in floats from numbers that are not negative, with a per cent for its own rounding.

    Guarantee: at least the true bound, for up to 10¹² roundings.
    Source: docs/proofs/checks.md, "Units".

    >>> above(1.0)
    1.01
    """
    return ROOM * bound


def closely_above(bound: Size) -> Size:
    """The same with a ten-thousandth, where a per cent would be seen: for up to 10¹¹ roundings.

    Guarantee: at least the true bound.
    Source: docs/proofs/checks.md, "Units".

    >>> closely_above(1.0)
    1.0001
    """
    return CLOSE_ROOM * bound


def narrowly_above(bound: float) -> float:
    """The same with 10⁻⁷, for sums of norms over the rounds: for up to 10⁸ roundings.

    Guarantee: at least the true bound.
    Source: docs/proofs/checks.md, "Units".

    >>> narrowly_above(1.0)
    1.0000001
    """
    return NARROW_ROOM * bound


def slightly_raised(value: Size) -> Size:
    """A number that two products and a sum have made, or as few operations, rounded up: by 10⁻¹⁵ = 9u.

    Guarantee: at least the true number.
    Source: docs/proofs/checks.md, "Units".

    >>> slightly_raised(1.0) > 1 + 8 * UNIT_ROUNDOFF
    True
    """
    return value * (1 + FEW)


def raised(value: Size) -> Size:
    """A square of what two roots, three products, a sum, a difference and a quotient have made: 10⁻¹⁴ = 90u more.

    Guarantee: at least the true number.
    Source: docs/proofs/checks.md, "Units".

    >>> raised(1.0) > 1 + 80 * UNIT_ROUNDOFF
    True
    """
    return value * (1 + SOME)


def scaled_error(error: float, size: float) -> float:
    """How far rows that are known up to `error` in norm are off once each is scaled, ‖V‖_F being `size` as computed.

    Guarantee: an upper bound: a scale errs by a root, a quotient and a product, and is rounded up by four units.
    Source: E5 of docs/training.md.

    >>> scaled_error(0.0, 1.0) == 4 * UNIT_ROUNDOFF
    True
    """
    return ROOM * error + 4 * UNIT_ROUNDOFF * size


def definite_room(size: int, diagonal: float, more: float = 0.0) -> float:
    """What is taken off the diagonal of a matrix X, n × n, before a Cholesky factor in floats is to prove X ⪰ `more`·I.

        `more` + 2(n + 8)u(Σ|X_tt| + `more`) + 10⁻³⁰⁰

    Guarantee: if the factorisation of fl(X − room·I) runs to its end, X ⪰ `more`·I for X as stored; `diagonal` is
    Σ|X_tt| as computed.
    Source: docs/proofs/checks.md, "Units"; Rump, BIT 46 (2006); Higham, *Accuracy and Stability*, Theorem 10.7.

    >>> 0 < definite_room(3, 1.0) < 1e-14
    True
    """
    return more + 2 * (size + 8) * UNIT_ROUNDOFF * (diagonal + more) + UNDERFLOWN


def contraction_room(rows: int, columns: int, size: float) -> float:
    """What is taken off 1 before a Cholesky factor of I − VᵀV in floats is to prove ‖V‖ ≤ 1; `size` is ‖V‖²_F.

        1.01(rows + 2)u‖V‖²_F + 2(columns + 10)u(columns + ‖V‖²_F)

    Guarantee: an upper bound of what the product and the factorisation err by together.
    Source: E6 of docs/training.md; Rump, BIT 46 (2006).

    >>> 0 < contraction_room(4, 2, 1.0) < 1e-14
    True
    """
    return ROOM * (rows + 2) * UNIT_ROUNDOFF * size + 2 * (columns + 10) * UNIT_ROUNDOFF * (columns + size)


def rational_room(matrix: np.ndarray) -> float:
    """What is taken off the diagonal of rationals as floats, before a Cholesky factor is to prove them definite.

        1.1(n + 4)u Σ|X_tt| + 1.01u‖X‖_F + 10⁻³⁰⁰

    Guarantee: if the factorisation runs to its end, the rationals are positive semidefinite: an entry is rounded by u,
    the factorisation errs by γ_{n+1} of the trace, and what underflows is below the last term.
    Source: docs/proofs/checks.md, "Units"; Rump, BIT 46 (2006).

    >>> 0 < rational_room(np.eye(3)) < 1e-14
    True
    """
    found = 1.1 * (len(matrix) + 4) * UNIT_ROUNDOFF * float(np.abs(np.diag(matrix)).sum())
    found += ROOM * UNIT_ROUNDOFF * float(np.linalg.norm(matrix)) + UNDERFLOWN
    return found


def underflown(sizes: float = 0.0) -> float:
    """What underflow takes off two sums of products, the factors of one being sums themselves.

    `sizes` is the sum of what those factors are multiplied with.

    Guarantee: an upper bound for up to 10²² products: each is off by 2⁻¹⁰⁷⁵, and so is each part of a factor.
    Source: docs/proofs/checks.md, "Units".

    >>> underflown(1.0)
    3e-300
    """
    return UNDERFLOWN * (2 + sizes)


def inverted(bound: float) -> float:
    """A bound of something times ‖X‖ as one of the same times ‖R⁻¹‖, where ‖I − XR‖ ≤ `MOST_DEFECT` was measured.

    Guarantee: an upper bound: ‖R⁻¹‖ ≤ ‖X‖/(1 − 1/100) < 1.0102‖X‖, and the rest of 1.02 is for 10¹² roundings.
    Source: docs/proofs/checks.md, "Units".

    >>> inverted(1.0)
    1.02
    """
    return INVERTED * bound


def is_unit(length: float) -> bool:
    """Whether a length counts as 1: rounding may have made it longer by 10⁻⁹, not more.

    Guarantee: none is needed: whoever takes such a stream divides it by its length.

    >>> is_unit(1.0), is_unit(1.01)
    (True, False)
    """
    return length <= 1 + float(UNIT_ROOM)


def has_unit_square(squared: Fraction) -> bool:
    """The same by the exact square of a length.

    Guarantee: as in `is_unit`.

    >>> has_unit_square(Fraction(1)), has_unit_square(Fraction(101, 100))
    (True, False)
    """
    return squared <= (1 + UNIT_ROOM) ** 2
