# SPDX-License-Identifier: Apache-2.0
"""What rounding may add to the sums of pieces, and what is taken off before they count as proved.

Source: docs/proofs/coalitions.md.
"""

from __future__ import annotations

import math

import numpy as np

from sottovoce.interval import UNIT_ROUNDOFF

__all__ = ["comparison_room", "definite_room", "norms_above", "piece_error", "product_room", "row_error"]

# 1/(1 − kU) and products of a few of them stay below this for all counts that occur (k below 10⁷).
ROOM = 1.01
# Twice as often is the norm squared, and the bound of a norm of T × T is at most T^(2^−(SQUARINGS + 2)) too large.
SQUARINGS = 6
# What is added to a norm so that one of numbers below the least normal one is not rounded down.
TINY = 2.0**-1022


def row_error(sizes: np.ndarray, terms: int, nodes: int) -> float:
    """How far rows X = C(H − B·H₀), as computed from powers of W in floats, are from the true ones.

        ‖X̂ − X‖_F ≤ ROOM·u·(T(w + 4) + n + 8)·‖|C|(|H| + |B||H₀|)‖_F

    `sizes` is the matrix in the last norm, as computed; w = `terms` the most weights that a column of W holds.

    Guarantee: an upper bound, for C and B as stored and weights that are not negative.
    Source: docs/proofs/coalitions.md, Claim 4.
    """
    return ROOM * UNIT_ROUNDOFF * (len(sizes) * (terms + 4) + nodes + 8) * float(np.linalg.norm(sizes))


def piece_error(rows: np.ndarray, off: float, y: np.ndarray, members: int) -> float:
    """A κ with Q ⪰ Q̂ − κI for every coalition of so many members, Q̂ being the sum of its pieces as computed.

        κ = ROOM·(k + 1)·((2s₂ + 2(d − 1)s_j + dη)η + u·(nT + T + (T + 2)(d − 1) + (k + 8)(d + 1))·s²)

    `rows` are X̂, (p + 1) × T × n × T, columns of the p candidates first, then the target's; η = `off`, d = 1 + max
    1/y_t; s is the largest Frobenius norm of a row, s₂ the largest spectral norm of one without its own column, and s_j
    that of the target's columns.

    Guarantee: an upper bound.
    Source: docs/proofs/coalitions.md, Claim 5.
    """
    p, (T, n) = len(rows) - 1, rows.shape[1:3]
    flat = rows.reshape(p + 1, T, -1)
    grams = flat @ flat.transpose(0, 2, 1)
    own = rows[np.arange(p), :, np.arange(p)]
    grams[:p] -= own @ own.transpose(0, 2, 1)
    s = float(np.linalg.norm(flat, axis=(1, 2)).max())
    d = 1 + float((1 / y).max())
    units = n * T + T + (T + 2) * (d - 1) + (members + 8) * (d + 1)
    s2 = math.sqrt(float(norms_above(grams).max()) + 2 * ROOM * UNIT_ROUNDOFF * n * T * s**2)
    sj = float(norms_above(rows[:, :, p]).max())
    moved = (2 * s2 + 2 * (d - 1) * sj + d * off) * off
    return float(ROOM * (members + 1) * (moved + UNIT_ROUNDOFF * units * s**2))


def definite_room(size: int, diagonal: np.ndarray) -> np.ndarray:
    """What is taken off the diagonal of a q × q matrix before a triangular factorisation proves that it is ⪰ 0.

    `diagonal` is the sum of the sizes of its diagonal.

    Guarantee: if the factorisation of the rest runs to its end with pivots above 0, the matrix as stored is ⪰ 0.
    Source: docs/proofs/spectra.md; Rump, BIT 46 (2006).
    """
    return ROOM * 4 * (size + 3) * UNIT_ROUNDOFF * diagonal


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


def norms_above(stack: np.ndarray) -> np.ndarray:
    """‖X‖₂ from above for each matrix X of a stack: ‖(XᵀX)^64‖_F^(1/128).

    ‖Y‖₂ ≤ ‖Y‖_F, and ‖(XᵀX)^64‖₂ = ‖X‖₂^128.

    Guarantee: upper bounds, at most T^(1/256) times ‖X‖₂ but for rounding.
    Source: docs/proofs/coalitions.md, Claim 6.

    >>> norms_above(np.array([[[3.0, 0.0], [0.0, 4.0]]])).round(6).tolist()
    [4.0]
    """
    size = stack.shape[-1]
    scale = np.abs(stack).max(axis=(-2, -1))
    safe = np.where(scale > 0, scale, 1.0)
    gram = stack / safe[..., None, None]
    gram = np.swapaxes(gram, -1, -2) @ gram
    exponent, bound = 1.0, np.ones_like(scale)
    for _ in range(SQUARINGS + 1):
        norm = np.linalg.norm(gram, axis=(-2, -1))
        # bound·‖gram‖^exponent is what is known of ‖X‖² in units of the square of `scale`.
        bound = bound * norm**exponent
        gram = gram / np.where(norm > 0, norm, 1.0)[..., None, None]
        gram = gram @ gram
        exponent /= 2
    room = 1 + ROOM * UNIT_ROUNDOFF * 64 * (max(stack.shape[-2:]) + 8) * size
    return np.asarray((np.sqrt(bound) * safe * room + TINY) * (scale > 0))
