# SPDX-License-Identifier: Apache-2.0
"""What rounding does, from above: every allowance that a proof of this room needs.

docs/proofs/index.md says which page derives each. Nothing here is speed but what is marked so. Bounds are
themselves computed in floats; `ROOM` covers that, since a handful of roundings is far below a per cent.

Source: Higham, *Accuracy and Stability of Numerical Algorithms*, Sections 3.1 and 3.5: a sum of k products errs by
at most γ_k = ku/(1 − ku) times the sum of their sizes, in whatever order it is taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from scipy.linalg import lapack

from sottovoce.filtering.lines import entries, size_sums
from sottovoce.interval import UNIT_ROUNDOFF
from sottovoce.rounding import FINE_ROOM, GAMMA, ROOM, TINY

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from sottovoce.filtering.impulses import Impulses
    from sottovoce.filtering.kalman import Gains

__all__ = [
    "FINE_GAMMA",
    "LEAST_EXPONENT",
    "SECOND_ORDER",
    "SKEWED",
    "SMALLEST",
    "UNDERFLOWN",
    "Step",
    "built_up",
    "chebyshev_factor",
    "chebyshev_points",
    "eigenvalue_ends",
    "fine_gamma",
    "gram_error",
    "is_above",
    "norm_above",
    "power_sum",
    "product_error",
    "row_errors",
    "spectral_norm",
    "spread",
    "terms",
    "top_eigenvalue",
    "transform_error",
    "transform_units",
    "turned_rows",
]

# Needed by every proof of programs: γ_k ≤ this, times k, for k below 8·10⁹: closer than `GAMMA`.
FINE_GAMMA = UNIT_ROUNDOFF * (1 + 1e-6)
# Needed by products in doubled precision (docs/proofs/programs.md): units are no smaller than two to this and some
# bits, so that products of two of them do not underflow; and what underflow may take off a sum of products.
LEAST_EXPONENT, UNDERFLOWN = -400, 1e-290
# Needed by the same products: smaller entries of a program, and those larger than its inverse, are refused, so that
# nothing underflows unseen.
SMALLEST = 1e-100
# Needed by forms in blocks (docs/proofs/blocks.md): beyond this V is not known to be as good as orthonormal.
SKEWED = 1e-3
# Needed by distortions (docs/proofs/filter.md, "What a distortion is"), added to first order: what products of
# them would add.
SECOND_ORDER = 1.01
# Needed by what loops build up (docs/proofs/gram.md, "How long states and rows are"): the root of what P may lack.
BUILT, MOST_MISSING = 1.05, 0.035
# Needed by norms of tiny matrices: what is added so that one below the least normal number is not rounded down.
LEAST_NORMAL = 2.0**-1022
# Speed alone: XᵀX is squared so often, and a norm is at most n^(2^−(SQUARES + 2)) times too large.
SQUARES = 6


Size = TypeVar("Size", float, np.ndarray)


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """How far a step of the filter enlarges rows or states X at most, and what rounding adds, in proportion to ‖X‖.

    `FilteredResponse.before` makes XA, then subtracts ((XA)K)C. Entry by entry that errs by γ_{k+1}|X||A| +
    γ_{k+r+m+1}|X||A||K||C| at most, k being the entries of the longest row or column of A; so does `after` with
    states. With α ≥ ‖|A|‖ and ν ≥ ‖|K||C|‖, `stretch` is α(1 + ν) and `error` is κ = α(γ_{k+1} + γ_{k+r+m+1}ν).
    """

    stretch: float
    error: float

    @classmethod
    def of(cls, transition: np.ndarray | csr_array, rows: np.ndarray, gains: np.ndarray) -> Step:
        """The largest over all the gains.

        Guarantee: upper bounds for every round whose gains were given.
        Source: docs/proofs/filter.md, "A step".
        """
        count = max(int(entries(transition, axis).max(initial=0)) for axis in (0, 1)) + 1
        norm = spread(transition)
        gain = spread(rows) * float(np.linalg.norm(gains, axis=(1, 2)).max(initial=0))
        error = GAMMA * norm * (count + (count + sum(rows.shape)) * gain)
        return cls(stretch=ROOM * norm * (1 + gain), error=ROOM * error)


def fine_gamma(count: Size) -> Size:
    """γ_k from above as programs count it, to six digits: their allowances stand beside numbers of that size.

    Guarantee: an upper bound of γ_k for k below 8·10⁹.
    Source: docs/proofs/units.md.

    >>> UNIT_ROUNDOFF < fine_gamma(1) < 1.00001 * UNIT_ROUNDOFF
    True
    """
    return FINE_GAMMA * count


def product_error(count: int, left: np.ndarray, right: np.ndarray) -> float:
    """γ_k‖X‖_F‖Y‖_F: a bound of the error of a product that sums `count` terms an entry.

    Guarantee: upper bound in the Frobenius norm, underflow included.
    Source: Higham, *Accuracy and Stability*, Section 3.5.
    """
    sizes = (float(np.linalg.norm(left)) + TINY) * (float(np.linalg.norm(right)) + TINY)
    return GAMMA * count * sizes + TINY**2


def spread(matrix: np.ndarray | csr_array) -> float:
    """‖|X|‖₂ ≤ √(‖X‖₁‖X‖_∞), |X| being X with absolute values for entries.

    Guarantee: upper bound but for the rounding of the sums, which `ROOM` covers wherever it is used.

    >>> spread(np.ones((2, 2)))
    2.0
    """
    if 0 in matrix.shape:
        return 0.0
    return float(np.sqrt(size_sums(matrix, 0).max() * size_sums(matrix, 1).max()))


def terms(matrix: np.ndarray | csr_array) -> int:
    """How many terms an entry of a product X·Y sums at most: what a row of X holds. A zero adds no error.

    Guarantee: exact for the matrix as stored, an entry in several parts being as many terms; k of them make an entry
    off by γ_k of the sum of their sizes, in any order.

    >>> terms(np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 3.0]]))
    2
    """
    return int(entries(matrix, 1).max()) if min(matrix.shape) else 0


def is_above(matrix: np.ndarray, bound: float) -> bool:
    """Whether X ⪰ `bound`·I is proved, by a Cholesky factor, for a symmetric or Hermitian X as stored.

    If the floats Y = X − (`bound` + c)I have a Cholesky factor in floats, then λ_min(Y) ≥ −γ_{n+1}/(1 − γ_{n+1})·tr
    Y.

    Guarantee: True is a proof; c covers that share of the trace, and the rounding of Y's diagonal.
    Source: Rump, *Verification of positive definiteness*, BIT 46 (2006); Higham, *Accuracy and Stability*, Theorem
    10.3; a complex product errs by at most √2·γ₂.

    >>> is_above(np.diag([1.0, 2.0]), 1 - 1e-12), is_above(np.diag([1.0, 2.0]), 1.0)
    (True, False)
    """
    if not matrix.size:
        return True
    shifted = matrix.copy()
    shifted.flat[:: len(matrix) + 1] -= bound + _definite_room(matrix, bound)
    # LAPACK need not see that something is no number.
    if not np.isfinite(shifted).all():
        return False
    factor = lapack.zpotrf if np.iscomplexobj(shifted) else lapack.dpotrf
    _, failed = factor(shifted, lower=1, overwrite_a=1)
    return not failed


def eigenvalue_ends(matrix: np.ndarray) -> tuple[float, float]:
    """Numbers between which all eigenvalues of a symmetric or Hermitian matrix lie.

    LAPACK's are guesses, and moved out until a Cholesky factor proves them.

    Guarantee: λ_min ≥ the first and λ_max ≤ the second, both by `is_above`, or by ‖X‖_∞ where that proves nothing.
    """
    if not np.isfinite(matrix).all():
        return -np.inf, np.inf
    values = np.linalg.eigvalsh(matrix)
    return -_top(-matrix, -float(values[0])), _top(matrix, float(values[-1]))


def top_eigenvalue(matrix: np.ndarray) -> float:
    """A number that no eigenvalue of a symmetric or Hermitian matrix exceeds: the second of `eigenvalue_ends`.

    Guarantee: λ_max is at most that.
    """
    if not np.isfinite(matrix).all():
        return np.inf
    return _top(matrix, float(np.linalg.eigvalsh(matrix)[-1]))


def _top(matrix: np.ndarray, guess: float) -> float:
    """An upper bound of λ_max next to a guess of it.

    The room around the guess grows fourfold until a factorisation proves it; if none does, row and column sums bound
    λ_max.

    Guarantee: an upper bound of the largest eigenvalue of the symmetric matrix as stored.
    """
    room = 2 * _definite_room(matrix, guess)
    for _ in range(12):
        if is_above(-matrix, -(guess + room)):
            return guess + room
        room *= 4
    return ROOM * spread(matrix)


def _definite_room(matrix: np.ndarray, bound: float) -> float:
    """What λ_min of a shifted matrix may lack of what its Cholesky factor says."""
    units = (4 if np.iscomplexobj(matrix) else 1) * (len(matrix) + 3)
    return ROOM * GAMMA * units * float(np.abs(matrix.diagonal()).sum() + len(matrix) * abs(bound))


def spectral_norm(matrix: np.ndarray) -> float:
    """‖X‖₂ from above: √λ_max(X*X), or ‖X‖_F if that is smaller.

    Guarantee: upper bound; X*X as computed errs by at most γ_n‖X‖²_F, four times that for complex X.
    """
    if not matrix.size:
        return 0.0
    frobenius = ROOM * float(np.linalg.norm(matrix)) + TINY
    if not np.isfinite(frobenius):
        return np.inf
    gram = matrix.conj().T @ matrix
    gram = (gram + gram.conj().T) / 2
    units = (4 if np.iscomplexobj(matrix) else 1) * (len(matrix) + 2)
    top = top_eigenvalue(gram) + GAMMA * units * frobenius**2
    return min(frobenius, float(np.sqrt(top)) * (1 + 4 * UNIT_ROUNDOFF) + TINY)


def norm_above(matrices: np.ndarray) -> np.ndarray:
    """‖X‖₂ from above for each matrix X of a stack, (…, m, n): ‖(XᵀX)^64‖_F^(1/128).

    ‖Y‖₂ ≤ ‖Y‖_F, and ‖(XᵀX)^64‖₂ = ‖X‖₂^128.

    Guarantee: upper bounds, at most n^(1/256) times ‖X‖₂ but for rounding, whatever the size of its entries; no number
    where an entry is none.
    Source: docs/proofs/spectra.md, "Norms of many matrices".

    >>> norm_above(np.array([[[3.0, 0.0], [0.0, 4.0]]])).round(6).tolist()
    [4.0]
    """
    scale = np.abs(matrices).max(axis=(-2, -1))
    safe = np.where(scale > 0, scale, 1.0)
    power = matrices / safe[..., None, None]
    power = np.swapaxes(power, -1, -2) @ power
    exponent, squared = 1.0, np.ones_like(scale)
    for _ in range(SQUARES + 1):
        # squared·‖power‖^exponent is what is known of ‖X‖² in units of the square of `scale`.
        size = np.linalg.norm(power, axis=(-2, -1))
        squared = squared * size**exponent
        power = power / np.where(size > 0, size, 1.0)[..., None, None]
        power = power @ power
        exponent /= 2
    room = 1 + ROOM * GAMMA * 64 * (max(matrices.shape[-2:]) + 8) * matrices.shape[-1]
    return np.asarray((np.sqrt(squared) * safe * room + LEAST_NORMAL) * (scale > 0))


def power_sum(loop: np.ndarray, off: float, count: float = np.inf) -> float:
    """A bound of Σ ‖Φᵏ‖ over k < count for every Φ within `off` of `loop`: Π (1 + ‖Φ^(2^i)‖) over i, 2^i < count.

    Guarantee: upper bound, rounding included. Once a power is below ½ in norm the rest is a geometric series; a sum
    over all k is infinite where powers do not fade.
    Source: Higham, *Accuracy and Stability*, Section 3.5: X² errs by at most γ_n‖X‖²_F, and by p(2‖X‖ + p) if X by
    p.

    >>> round(power_sum(np.eye(1), 0.0, 8) / ROOM, 6), round(power_sum(np.eye(1) / 4, 0.0) / ROOM, 6)
    (8.0, 1.333333)
    """
    power, error, total = loop, off, 1.0
    # Speed alone: powers that have not faded by then do not fade.
    for i in range(40):
        wide = ROOM * float(np.linalg.norm(power))
        if 2**i >= count or not np.isfinite(total * wide):
            break
        size = min(spectral_norm(power), wide)
        if size + error < 0.5:
            return ROOM * total / (1 - size - error)
        total *= 1 + size + error
        error = error * (2 * size + error) + GAMMA * (len(power) + 4) * wide**2
        power = power @ power
    return ROOM * total if 2**i >= count and np.isfinite(total) else np.inf


def transform_error(points: int) -> float:
    """τ: a discrete Fourier transform of so many points errs by at most τ times its norm, in norm.

    A stage of radix p sums p products an entry, and ‖|F_p|‖ = √p·‖F_p‖: so τ = Σ √p·γ_{p+4} over the prime factors.

    Guarantee: upper bound for transforms in stages with roots of unity to two units, for points without a prime
    factor above 11 (SciPy's and NumPy's go other ways beyond).
    Source: Higham, *Accuracy and Stability*, Theorem 24.2, for any radix.

    >>> round(transform_error(8) / UNIT_ROUNDOFF, 1)
    25.5
    """
    return GAMMA * sum(math.sqrt(p) * (p + 4) for p in _prime_factors(points))


def transform_units(points: int) -> float:
    """How far each entry of such a transform is off at most, as a share of the sum of sizes of what is transformed.

    Guarantee: that of `transform_error`; every entry is a sum of products along paths of Σ (p + 4) roundings.
    """
    return ROOM * GAMMA * sum(p + 4 for p in _prime_factors(points))


def _prime_factors(points: int) -> list[int]:
    """The prime factors of a number, each as often as it divides; infinite costs if one is above 11."""
    factors = []
    for p in (2, 3, 5, 7, 11):
        while points % p == 0:
            factors.append(p)
            points //= p
    if points != 1:
        raise ValueError(f"a transform has points without prime factors above 11; {points} is left over")
    return factors


def built_up(gains: Gains, count: float = 1.0) -> float:
    """1.05√p for each of `count` loops: p ≥ ‖P‖ of the last P as computed bounds how long B^k and Φ ⋯ Φ can be.

    Noise of covariance I enters every state in every round, so that P has room for all that has become of it. With e
    and g of `gain_distortion`, e/2 + g ≤ 0.0099, and gains that are kept where P moves by up to 0.035, P falls short by
    a factor of (1 + e)/((1 − e)(1 − e − g² − 0.035)) at most, which is below 1.05².

    Guarantee: upper bound wherever `gain_distortion` is finite; infinite where more than 0.035 of the noise is missing.
    Source: docs/proofs/gram.md, "How long states and rows are".
    """
    if not gains.missing <= MOST_MISSING:
        return math.inf
    return float(BUILT * count * gains.covariance_norm**0.5)


def chebyshev_points(degree: int, low: float, high: float) -> np.ndarray:
    """2d Chebyshev points of an interval.

    Guarantee: floats; what they miss is counted in `chebyshev_factor`.
    Source: docs/proofs/growth.md.

    >>> chebyshev_points(1, -1.0, 1.0).round(6).tolist()
    [0.707107, -0.707107]
    """
    angles = np.pi * (2 * np.arange(2 * degree) + 1) / (4 * degree)
    return np.asarray((low + high) / 2 + (high - low) / 2 * np.cos(angles))


def chebyshev_factor(degree: int, low: float, high: float) -> float:
    """By how much the largest size of a polynomial on `chebyshev_points` is below that on all of the interval.

        1/cos(π/4 + x),   x = 10du + 24d²u·max(|low|, |high|)/half,   half = (high − low)/2

    for points as floats have them, and the rounding of up to 4·10⁹ operations on their values, none of them negative.

    Guarantee: upper bound for degrees up to d; infinite where x is above 0.1.
    Source: docs/proofs/growth.md; Ehlich & Zeller, Math. Z. 86 (1964).

    >>> round(chebyshev_factor(10, 0.0, 1.0), 6)
    1.414215
    """
    half = (high - low) / 2
    if not half > 0:
        return math.inf
    off = 10 * degree + 24 * degree * degree * max(abs(low), abs(high)) / half
    moved = ROOM * UNIT_ROUNDOFF * off
    return math.sqrt(2) * (1 + max(FINE_ROOM, 2.4 * moved)) if moved <= 0.1 else math.inf


def row_errors(rows: np.ndarray, step: float) -> np.ndarray:
    """How far rows X_ℓ, each the one before times B, are from their true values, in norm: `step`·Σ_{j<ℓ} ‖X_j‖.

    Guarantee: upper bounds, if a product errs by κ of the norm of the rows and `step` is κ times a bound of all powers.
    Source: docs/proofs/gram.md.
    """
    norms = np.sqrt((rows**2).sum(axis=(1, 2))) + TINY
    return np.asarray(ROOM * step * np.concatenate([[0.0], np.cumsum(norms)[:-1]]))


def gram_error(impulses: Impulses, diagonals: np.ndarray, norms: np.ndarray | None = None) -> np.ndarray:
    """How far rounding moves cᵀMc at most, |c_t| ≤ 1, for the M of `gram_matrices`, one number a target.

    Sums of k products err by γ_k‖F_s‖‖F_t‖, and ‖F_s‖² = M_ss, of which `diagonals` has a row for each target. Where
    rounds are alike, Oy_s is known as Ry_s up to η‖y_s‖ and a rotation that is off by `skew`, and g_k up to what the
    recursion for it adds in L steps:

        γ(Σ_t ‖F_t‖)² + `skew`·V² + 2ηYV + η²Y² + 2Y·Σ_k (‖δg_k‖ + γ_r‖g_k‖),   V = Σ_{s<c} ‖F_s‖,   Y = Σ ‖y_s‖

    `norms` are the sums of the sizes ‖g'_k‖ that the recursion went through, and ‖g_k‖ ≤ ‖g'_k‖ + ‖Λ_L‖‖λ_{L−k}‖.

    Guarantee: upper bounds.
    Source: docs/proofs/gram.md; Higham, *Accuracy and Stability*, Section 3.5.
    """
    late, (lags, m), last = impulses.late, impulses.settled.shape[1:], impulses.last.shape[2]
    height = impulses.early.shape[2] + impulses.states.shape[2] + lags * (m + 1) + last
    lengths = np.sqrt(np.maximum(diagonals, 0.0)) + TINY
    found = GAMMA * (height + 4) * lengths.sum(axis=1) ** 2
    if late is None or norms is None:
        return np.asarray(ROOM * found)
    size, first = len(late.root), lengths[:, : impulses.early.shape[1]].sum(axis=1)
    built = np.sqrt(np.einsum("jsr,jsr->js", impulses.states, impulses.states)).sum(axis=1) + TINY
    offset = late.off + late.beside + GAMMA * size * float(np.linalg.norm(late.root))
    found += late.skew * first**2 + 2 * offset * built * first + (offset * built) ** 2
    shown = (np.sqrt(np.einsum("jlm,jlm->j", part, part)) for part in (impulses.settled, impulses.last))
    answer = np.sum(list(shown), axis=0) + TINY
    # What δg_0, the step from one to the next, and the term of the last lag are off by.
    begun = (GAMMA * lags * m * float(np.linalg.norm(late.settled[:-1])) + late.off) * answer
    final = float(np.linalg.norm(late.settled[-1])) + float(np.linalg.norm(late.last[-1])) + TINY
    shift = final * answer * (lags + 1) ** 0.5
    ended = GAMMA * (max(m, last) + 2) * shift + late.final * answer * (lags + 1) ** 0.5
    stepped = (late.step + 2 * GAMMA) * norms + ended
    off = lags * late.growth * (begun + stepped) + ended + GAMMA * (size + 2) * (norms + shift)
    return np.asarray(ROOM * (found + 2 * built * off))


def turned_rows(rows: np.ndarray, basis: np.ndarray, units: float) -> float:
    """A bound of ‖Q − C‖ for floats Q and some C that spans what the exact rows do.

    Those are `rows`, R, within `units` units of roundoff a row of norm 1. Whatever T is, the rows C = Q + T⁻¹E span
    the same for E = R − TQ, and ‖T⁻¹E‖ ≤ ‖E‖‖X‖/(1 − ‖I − XT‖) for every X.

    Guarantee: upper bound, T = RQᵀ and X = T⁻¹ being floats and E measured; infinite unless QQᵀ is I to a per
    mille.
    Source: docs/proofs/filter.md, "Exact weights and rows".
    """
    rank = len(rows)
    across = rows @ basis.T
    try:
        inverse = np.linalg.inv(across)
    except np.linalg.LinAlgError:
        return np.inf
    sizes = float(np.linalg.norm(rows) + np.linalg.norm(np.abs(across) @ np.abs(basis)))
    beside = float(np.linalg.norm(rows - across @ basis)) + GAMMA * (rank + 2) * sizes
    missed = float(np.linalg.norm(inverse @ across - np.eye(rank)))
    missed += GAMMA * (rank + 3) * float(np.linalg.norm(inverse) * np.linalg.norm(across))
    skew = float(np.linalg.norm(basis @ basis.T - np.eye(rank)))
    if not missed + skew < 1e-3:
        return np.inf
    return ROOM * (beside + units * UNIT_ROUNDOFF * math.sqrt(rank)) * float(np.linalg.norm(inverse))
