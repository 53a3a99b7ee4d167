# SPDX-License-Identifier: Apache-2.0
"""Mills' ratio R(x) = Φ(−x)/φ(x) and its differences, by sums of positive terms whose rounding can be counted.

R is the Laplace transform of exp(−t²/2). With M_k(x) = ∫ t^k exp(−xt − t²/2) dt over t > 0, hence M_0 = R and M_k =
|R⁽ᵏ⁾|, every term of these is positive for c ≥ x and h ≥ 0:

    R(x) = Σ_n M_n(c)/n!·(c − x)ⁿ,
    (R(x − h) − R(x + h))/2h = Σ_{k odd} M_k(x) h^{k−1}/k! = Σ_n M_n(c)/n!·p_n,   p_n = ((τ + h)ⁿ − (τ − h)ⁿ)/2h,

τ = c − x, p_n by (τ + h)^{n+1} = (τ + h)(τ + h)ⁿ, its even and odd powers of h apart. Far out M_k/M_{k−1} =
k/(x + M_{k+1}/M_k), downwards, is a continued fraction of positive terms, too. So nothing cancels, and errors are
relative ones that add up.

Source: docs/proofs/profile.md; Gautschi, *Computational aspects of three-term recurrence relations*, 1967.
"""

from __future__ import annotations

import decimal
import functools
import math
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[np.float64]

__all__ = ["gap", "mills"]

# The proof counts with these: rows of the table lie STEP apart between LEAST and EDGE; series of R and of its
# differences have so many terms, the continued fraction beyond EDGE so many levels.
LEAST, EDGE, STEP = -0.5, 6.0, 0.25
RATIO_TERMS, GAP_TERMS, LEVELS = 18, 23, 25
# Speed alone: so few numbers take their sums one by one, by the same operations and so to the same bits.
FEW = 12
# A number, or several.
Real = TypeVar("Real", float, np.ndarray)
PI = decimal.Decimal(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803"
)


def mills(x: Array) -> Array:
    """R(x) = Φ(−x)/φ(x) for numbers x ≥ −1/2 in a row.

    Guarantee: relative error at most `rounding.MILLS`.
    Source: docs/proofs/profile.md, "Mills' ratio".

    >>> mills(np.array([0.0])).round(9).tolist()  # √(π/2)
    [1.253314137]
    """
    if x.size <= FEW:
        return np.array([_near_ratio(*_row(z)) if z < EDGE else _far_ratio(z) for z in x.tolist()])
    value = np.empty_like(x)
    near = x < EDGE
    if near.any():
        value[near] = _near_ratio(*_rows(x[near]))
    if not near.all():
        value[~near] = _far_ratio(x[~near])
    return value


def gap(x: Array, h: Array) -> Array:
    """(R(x − h) − R(x + h))/2h for numbers x ≥ 0 in a row, each with its 0 ≤ h ≤ max(2, x)/10.

    Guarantee: relative error at most `rounding.GAP`.
    Source: docs/proofs/profile.md, "Differences".

    >>> gap(np.array([0.0]), np.array([0.0])).tolist()  # −R'(0) = 1
    [1.0]
    """
    if x.size <= FEW:
        each = zip(x.tolist(), h.tolist(), strict=True)
        return np.array([_near_gap(*_row(z), width) if z < EDGE else _far_gap(z, width) for z, width in each])
    value = np.empty_like(x)
    near = x < EDGE
    if near.any():
        value[near] = _near_gap(*_rows(x[near]), h[near])
    if not near.all():
        value[~near] = _far_gap(x[~near], h[~near])
    return value


def _near_ratio(terms: Sequence[Real], distance: Real) -> Real:
    """Σ M_n(c)/n!·τⁿ, by Horner's scheme."""
    total = terms[RATIO_TERMS - 1]
    for n in range(RATIO_TERMS - 2, -1, -1):
        total = total * distance + terms[n]
    return total


def _far_ratio(x: Real) -> Real:
    """The continued fraction, downwards."""
    ratio = _last_ratio(x)
    for k in range(LEVELS, 0, -1):
        ratio = k / (x + ratio)
    value: Real = 1 / (x + ratio)
    return value


def _near_gap(terms: Sequence[Real], distance: Real, h: Real) -> Real:
    """Σ M_n(c)/n!·p_n; `odd` is p_n, first p_2, and `even` the even powers of h in (τ + h)ⁿ."""
    square, odd = h * h, distance + distance
    total: Real = terms[1] + terms[2] * odd
    even = distance * distance + square
    for n in range(3, GAP_TERMS):
        odd, even = distance * odd + even, distance * even + square * odd
        total = total + terms[n] * odd
    return total


def _far_gap(x: Real, h: Real) -> Real:
    """The ratios downwards, and the series in h², over its first term, on the way; the first of LEVELS is odd."""
    step = 1 / (x + _last_ratio(x))
    ratio, series = LEVELS * step, h * step
    for k in range(LEVELS - 1, 1, -1):
        step = 1 / (x + ratio)
        ratio = k * step
        series = series * (h * step)
        if k % 2 == 0:
            series = series + 1
    # M_1 = M_0·r_1 with r_1 = 1/(x + r_2) and M_0 = 1/(x + r_1).
    first = 1 / (x + ratio)
    value: Real = series * first / (x + first)
    return value


def _last_ratio(x: Real) -> Real:
    """M_{L+1}/M_L from above, L levels down: (√(x² + 4(L + 1)) − x)/2."""
    square = x * x + 4 * (LEVELS + 1)
    root = math.sqrt(square) if isinstance(square, float) else np.sqrt(square)
    value: Real = 2 * (LEVELS + 1) / (root + x)
    return value


def _row(x: float) -> tuple[Sequence[float], float]:
    """The row of the table at or right of x, and how far it is."""
    steps = math.ceil(x / STEP)
    return _table()[round(steps - LEAST / STEP)], steps * STEP - x


def _rows(x: Array) -> tuple[Sequence[Array], Array]:
    """The same for several x: term after term of their rows, and distances."""
    steps = np.ceil(x / STEP)
    return list(coefficients()[:, (steps - LEAST / STEP).astype(np.intp)]), steps * STEP - x


@functools.cache
def _table() -> list[list[float]]:
    """The rows of `coefficients`, as numbers."""
    rows: list[list[float]] = coefficients().T.tolist()
    return rows


@functools.cache
def coefficients() -> Array:
    """M_n(c)/n! as (n, row), c = LEAST, LEAST + STEP, …, EDGE.

    M_0(c) = exp(c²/2)(√(π/2) − ∫_0^c exp(−t²/2) dt), M_1 = 1 − cM_0 and M_{k+1} = kM_{k−1} − cM_k. That loses fewer
    than 50 digits of 80.

    Guarantee: each within one unit of roundoff.
    """
    rows = []
    with decimal.localcontext(prec=80):
        for place in range(round((EDGE - LEAST) / STEP) + 1):
            c = decimal.Decimal(LEAST) + place * decimal.Decimal(STEP)
            term, integral, k = c, c, 0
            while abs(term) > decimal.Decimal("1e-80"):
                k += 1
                term = -term * c * c / (2 * k)
                integral += term / (2 * k + 1)
            before = (c * c / 2).exp() * ((PI / 2).sqrt() - integral)
            moment, factorial, row = 1 - c * before, decimal.Decimal(1), [float(before)]
            for k in range(1, GAP_TERMS):
                factorial *= k
                row.append(float(moment / factorial))
                before, moment = moment, k * before - c * moment
            rows.append(row)
    return np.ascontiguousarray(np.array(rows).T)
