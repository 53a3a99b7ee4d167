# SPDX-License-Identifier: Apache-2.0
"""What rounding does to rates, from above: every allowance that a proof of this room needs.

docs/proofs/index.md says which page derives each. Those of matrix products, of spectra and of transforms are
`filtering.rounding`'s.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering import (
    eigenvalue_ends,
    spectral_norm,
    spread,
    terms,
    transform_error,
    transform_units,
)
from sottovoce.interval import UNIT_ROUNDOFF
from sottovoce.rounding import GAMMA, ROOM

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = [
    "AVERAGE_HELD",
    "FLOATED",
    "LEAST_COVARIANCE",
    "OVERLAP",
    "form_units",
    "inverse_norm",
    "off_average",
    "peak_error",
    "range_beside_average",
    "series_error",
    "sign_error",
    "solve_residual",
]

# Needed by proofs (docs/proofs/frequencies.md): a handful of operations on a number, each rounded: roots,
# quotients, squares.
FLOATED = 16 * UNIT_ROUNDOFF
# Needed by a steady state (docs/proofs/filter.md, gains): P ⪰ I in exact arithmetic; so much of it is proved of the
# floats, and the room of `gain_distortion` covers the rest.
LEAST_COVARIANCE = 0.999
# Needed by the average (docs/proofs/cut.md, "where no noise is known"): it counts as an eigenvector in a space to this
# accuracy; what is lacking is counted.
AVERAGE_HELD = 1e-6
# Needed by Taylor pieces (docs/proofs/frequencies.md): a part of each piece that the next one covers too, far above
# what rounding moves an edge by.
OVERLAP = 1e-8
# Speed alone: up to this size the norm of an inverse is worth an eigenvalue.
EXACT_NORM = 128


def inverse_norm(matrix: np.ndarray) -> float:
    """‖M⁻¹‖₂ from above: ‖X‖/(1 − ‖I − XM‖) for floats X next to M⁻¹; infinite where that proves nothing.

    Guarantee: upper bound for a real or complex M as stored, the rounding of XM included.
    Source: Rump, *Verification methods*, Acta Numerica 19 (2010), Section 10; Higham, Section 3.6.

    >>> round(inverse_norm(np.array([[2.0, 0.0], [0.0, 0.5]])), 9)
    2.0
    """
    size = len(matrix)
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            inverse = np.linalg.inv(matrix)
        except np.linalg.LinAlgError:
            return math.inf
        missed = np.linalg.norm(np.eye(size) - inverse @ matrix)
        missed += 4 * GAMMA * (size + 4) * (np.linalg.norm(np.abs(inverse) @ np.abs(matrix)) + size**0.5)
    if not missed < 0.5:
        return math.inf
    norm = ROOM * spread(inverse) if size > EXACT_NORM else spectral_norm(inverse)
    return float(norm / (1 - ROOM * missed))


def solve_residual(matrix: np.ndarray, right: np.ndarray, found: np.ndarray) -> np.ndarray:
    """‖right − matrix · found‖ from above, as measured and with what rounding may hide of it; one for each of a stack.

    Guarantee: upper bounds; a sum of k complex products errs by at most 2γ_{k+4} of their sizes.
    Source: Higham, *Accuracy and Stability of Numerical Algorithms*, Sections 3.1 and 3.6.
    """
    counts = (matrix != 0).sum(axis=1)[:, None]
    unsure = 2 * GAMMA * (counts + 4) * (np.abs(matrix) @ np.abs(found) + np.abs(right))
    measured = np.linalg.norm(right - matrix @ found, axis=(-2, -1))
    return np.asarray(ROOM * (measured + np.linalg.norm(unsure, axis=(-2, -1))))


def form_units(count: int, rows: int) -> float:
    """How far ‖Σ_k g_k τ^k‖² as computed is off at most, |τ| ≤ 1, as a share of (Σ_k ‖g_k‖)².

    Whether as a sum of `count` terms of so many `rows`, squared, or by Horner's rule from 2·`count` − 1
    coefficients, each of them a sum of at most `count`·`rows` products.

    Guarantee: upper bound of both.
    Source: Higham, *Accuracy and Stability of Numerical Algorithms*, Sections 3.1, 3.6 and 5.1.
    """
    return ROOM * GAMMA * (5 * count + 2 * rows + 16)


def range_beside_average(matrix: csr_array) -> tuple[float, float]:
    """Numbers between which xᵀAx lies for unit vectors x whose entries sum to 0, A being symmetric.

    On these x the form is that of A − 11ᵀ/n, whose entries are rounded twice.

    Guarantee: a lower and an upper bound, by `eigenvalue_ends`.
    Source: docs/proofs/cut.md, "where no noise is known".
    """
    n = matrix.shape[0]
    low, high = eigenvalue_ends(matrix.toarray() - 1 / n)
    rounded = 4 * UNIT_ROUNDOFF * (n**0.5 + 1)
    return low - rounded, high + rounded


def off_average(matrix: csr_array, vectors: np.ndarray, following: np.ndarray) -> tuple[float, float, float]:
    """How far v = 1/√n is from an eigenvector of A, from span(Q), and from orthogonal to Q₊.

    That is ‖Av − v‖, ‖v − QQᵀv‖ and ‖Q₊ᵀv‖.

    Guarantee: upper bounds; sums of n terms are taken exactly and rounded once.
    Source: docs/proofs/cut.md, "where no noise is known".
    """
    n = matrix.shape[0]
    sums = np.asarray(matrix.sum(axis=1)).ravel()
    moved = float(np.abs(sums - 1).max()) + GAMMA * (terms(matrix) + 2) * float(np.abs(sums).max())
    across = np.array([math.fsum(column) for column in vectors.T]) / math.sqrt(n)
    beside = float(np.linalg.norm(1 / math.sqrt(n) - vectors @ across))
    beside += GAMMA * (vectors.shape[1] + 4) * float(np.linalg.norm(vectors) + 1)
    met = np.array([math.fsum(column) for column in following.T]) / math.sqrt(n)
    return moved, beside, float(np.linalg.norm(met)) * ROOM


def sign_error(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """How far `weights` · `values` is above Σ_ν |ĉ_ν|² φ_ν at most, for streams c of signs.

    A row of `weights` is |ĉ|² of one stream. A transform that is off by τ in norm moves Σ |ĉ_ν|², which is 1, by 2τ
    + τ² at most.

    Guarantee: upper bounds, one for each column of `values` ≥ 0.
    Source: docs/proofs/transforms.md, peaks and signs.
    """
    count, period = weights.shape[1], 2 * (weights.shape[1] - 1)
    share = 2 * transform_error(period) + GAMMA * (count + 8)
    return np.asarray(ROOM * share * values.max(axis=0))


def peak_error(lags: np.ndarray, points: int) -> float:
    """How far Σ_rows |F f|² as computed by a transform is off at most at any of its points; `lags` is (lags, rows).

    Guarantee: upper bound: every entry is within a share s of Σ|f_ℓ|, and squares to at most (Σ|f_ℓ|)².
    Source: docs/proofs/transforms.md, peaks and signs.
    """
    share = transform_units(points)
    sums = np.abs(lags).sum(axis=0)
    return float(ROOM * (3 * share + GAMMA * (lags.shape[1] + 4)) * (sums**2).sum())


def series_error(series: np.ndarray, lags: np.ndarray, largest: float, points: int) -> float:
    """How far a value of the `series` r₀ + Σ 2r_k cos kω is off at most.

    It is the transform of Σ_rows |F f|² ≤ `largest`. That power is off by 2τ√(`largest`·Σf²) in root mean square,
    and the transform of it by half as much more; Σ|r_k| by √count times that. An angle kω is off by 4k units, and
    the sum by γ.

    Guarantee: upper bound.
    Source: docs/proofs/transforms.md, peaks and signs.
    """
    count, sizes = len(series), np.abs(series)
    middle = math.sqrt(largest) * float(np.linalg.norm(lags))
    found = 6 * math.sqrt(count) * transform_error(points) * middle
    rounded = (count + 4) * float(sizes.sum()) + 8 * float(np.arange(count) @ sizes)
    return ROOM * (found + GAMMA * rounded)
