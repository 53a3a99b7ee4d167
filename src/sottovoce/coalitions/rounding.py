# SPDX-License-Identifier: Apache-2.0
"""What rounding may add to the sums of pieces, and what is taken off before they count as proved.

Source: docs/proofs/coalitions.md.
"""

from __future__ import annotations

import math

import numpy as np

from sottovoce.filtering import norm_above
from sottovoce.interval import UNIT_ROUNDOFF
from sottovoce.rounding import ROOM

__all__ = ["LARGEST", "comparison_room", "piece_error", "product_room", "row_error"]

# Needed by `row_error`: entries of a whitener are below this, so that products with numbers of 2⁻¹⁰⁷⁴, which underflow
# loses, stay below every allowance.
LARGEST = 1e100


def row_error(sizes: np.ndarray, terms: int, nodes: int) -> float:
    """How far rows X = C(H − B·H₀), as computed from powers of W in floats, are from the true ones.

        ‖X̂ − X‖_F ≤ ROOM·u·(T(w + 4) + n + 8)·‖|C|(|H| + |B||H₀|)‖_F

    `sizes` is the matrix in the last norm, as computed; w = `terms` the most weights that a column of W holds.

    Guarantee: an upper bound, for C and B as stored and weights that are not negative.
    Source: docs/proofs/coalitions.md, Claim 5.
    """
    return ROOM * UNIT_ROUNDOFF * (len(sizes) * (terms + 4) + nodes + 8) * float(np.linalg.norm(sizes))


def piece_error(rows: np.ndarray, target: int, off: float, y: np.ndarray, members: int) -> float:
    """A κ with Q ⪰ Q̂ − κI for every coalition of so many members, Q̂ being the sum of its pieces as computed.

        κ = ROOM·(k + 1)·((2s₂ + 2(d − 1)s_j + dη)η + u·(nT + T + (T + 2)(d − 1) + (k + 8)(d + 1))·s²)

    `rows` are X̂, of the p candidates, and of the mean if it is told, × T × n × T, columns of the candidates first, then
    those at place p = `target`; η = `off`, d = 1 + max 1/y_t; s is the largest Frobenius norm of a row, s₂ the largest
    spectral norm of one without its own column, and s_j that of the target's columns.

    Guarantee: an upper bound.
    Source: docs/proofs/coalitions.md, Claim 6.
    """
    p, (T, n) = target, rows.shape[1:3]
    flat = rows.reshape(len(rows), T, -1)
    grams = flat @ flat.transpose(0, 2, 1)
    own = rows[np.arange(p), :, np.arange(p)]
    grams[:p] -= own @ own.transpose(0, 2, 1)
    s = float(np.linalg.norm(flat, axis=(1, 2)).max())
    d = 1 + float((1 / y).max())
    units = n * T + T + (T + 2) * (d - 1) + (members + 8) * (d + 1)
    s2 = math.sqrt(float(norm_above(grams).max()) + 2 * ROOM * UNIT_ROUNDOFF * n * T * s**2)
    sj = float(norm_above(rows[:, :, p]).max())
    moved = (2 * s2 + 2 * (d - 1) * sj + d * off) * off
    return float(ROOM * (members + 1) * (moved + UNIT_ROUNDOFF * units * s**2))


def comparison_room(members: int) -> float:
    """By how much, relatively, a share of a norm plus a sum of so many products of norms is off as computed.

    Guarantee: an upper bound: none of the numbers is negative.
    """
    return ROOM * UNIT_ROUNDOFF * (members + 8)


def product_room(left: np.ndarray, stack: np.ndarray, right: np.ndarray | None = None) -> np.ndarray:
    """How far C X, or C X C'ᵀ, is off as computed, in the Frobenius norm, for each T × T matrix X of a stack.

    Guarantee: an upper bound: γ_{2T + 1} of the product of all norms.
    Source: Higham, *Accuracy and Stability*, Section 3.5.
    """
    sizes = np.linalg.norm(left) * np.linalg.norm(stack, axis=(-2, -1))
    if right is not None:
        sizes = sizes * np.linalg.norm(right, axis=(-2, -1))
    return np.asarray(ROOM * UNIT_ROUNDOFF * (2 * left.shape[-1] + 2) * sizes)
