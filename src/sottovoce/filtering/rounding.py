# SPDX-License-Identifier: Apache-2.0
"""What rounding does to products of matrices and to a step of the filter, from above.

Source: Higham, *Accuracy and Stability of Numerical Algorithms*, Sections 3.1 and 3.5: a sum of k products errs by at
most γ_k = ku/(1 − ku) times the sum of their sizes, in whatever order it is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.interval import UNIT_ROUNDOFF

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["GAMMA", "ROOM", "TINY", "UNIT_ROUNDOFF", "Step", "product_error", "spread", "terms"]

# γ_k ≤ this, times k; bounds of rounding errors are themselves computed within `ROOM`.
GAMMA, ROOM = 1.001 * UNIT_ROUNDOFF, 1.01
# Squares of numbers below 1e-154 underflow: norms are known up to this much, and so is a product of two.
TINY = 1e-150


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """How far a step of the filter enlarges rows or states X at most, and what rounding adds, in proportion to ‖X‖.

    `FilteredResponse.before` makes XA, then subtracts ((XA)K)C. Entry by entry that errs by γ_{k+1}|X||A| +
    γ_{k+r+m+1}|X||A||K||C| at most, k being the entries of the longest row or column of A; so does `after` with states.
    With α ≥ ‖|A|‖ and ν ≥ ‖|K||C|‖, `stretch` is α(1 + ν) and `error` is κ = α(γ_{k+1} + γ_{k+r+m+1}ν).
    """

    stretch: float
    error: float

    @classmethod
    def of(cls, transition: np.ndarray | csr_array, rows: np.ndarray, gains: np.ndarray) -> Step:
        """The largest over all the gains."""
        count = max(terms(transition), terms(transition.T)) + 1
        norm = spread(abs(transition))
        gain = spread(np.abs(rows)) * float(np.linalg.norm(gains, axis=(1, 2)).max(initial=0))
        error = GAMMA * norm * (count + (count + sum(rows.shape)) * gain)
        return cls(stretch=ROOM * norm * (1 + gain), error=ROOM * error)


def product_error(count: int, left: np.ndarray, right: np.ndarray) -> float:
    """γ_k‖X‖_F‖Y‖_F: a bound of the error of a product that sums `count` terms an entry."""
    sizes = (float(np.linalg.norm(left)) + TINY) * (float(np.linalg.norm(right)) + TINY)
    return GAMMA * count * sizes + TINY**2


def spread(sizes: np.ndarray | csr_array) -> float:
    """‖X‖₂ ≤ √(‖X‖₁‖X‖_∞) for a matrix without negative entries.

    >>> spread(np.ones((2, 2)))
    2.0
    """
    if 0 in sizes.shape:
        return 0.0
    return float(np.sqrt(sizes.sum(axis=0).max() * sizes.sum(axis=1).max()))


def terms(matrix: np.ndarray | csr_array) -> int:
    """How many terms an entry of a product X·Y sums at most: what a row of X holds. A zero adds no error."""
    return int((matrix != 0).sum(axis=1).max()) if min(matrix.shape) else 0
