# SPDX-License-Identifier: Apache-2.0
"""What rounding may add to the sums of pieces, and what is taken off before they count as proved.

Source: docs/proofs/coalitions.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering import UNDERFLOWN, norm_above
from sottovoce.interval import UNIT_ROUNDOFF
from sottovoce.rounding import ROOM, TINY, closely_above, roundings

if TYPE_CHECKING:
    from sottovoce.filtering import Doubled

__all__ = ["LARGEST", "comparison_room", "piece_error", "power_error", "product_room", "row_error"]

# Needed by rows in doubled precision: entries of a whitener are below this, so that products with what underflow takes,
# 10⁻²⁹⁰, stay below every allowance.
LARGEST = 1e100


def power_error(power: Doubled, exponent: int) -> np.ndarray:
    """How far the entries of W^k in doubled precision are from those of exact weights, each the sum of two floats.

        error + 2ku²·|Ŵᵏ|, and room for what underflows

    Guarantee: an upper bound for weights that are not negative, as two floats hold each of them up to u² of itself.
    Source: docs/proofs/coalitions.md, Claim 5.
    """
    made = 0.0 if power.error is None else power.error
    return np.asarray(made + roundings(2 * exponent * roundings(power.sizes())) + UNDERFLOWN)


def row_error(row: Doubled) -> float:
    """How far a row in doubled precision, once it is rounded, is from the true one, in the Frobenius norm.

        ‖error + u|X̂|‖_F

    Guarantee: an upper bound of ‖fl(high + low) − X‖_F.
    Source: docs/proofs/coalitions.md, Claim 5.
    """
    return closely_above(float(np.linalg.norm(row.error + roundings(np.abs(row.rounded())))) + TINY)


def piece_error(rows: np.ndarray, target: int, off: float, y: np.ndarray, members: int) -> float:
    """A κ with Q ⪰ Q̂ − κI for every coalition of so many members, Q̂ being the sum of its pieces as computed.

        κ = ROOM·(k + 1)·((2s₂ + 2(d − 1)s_j + dη)η + u·((nT + T + 2k + 16)·s² + (T + k + 10)(d − 1)·f²))

    `rows` are X̂, of the p candidates, and of the mean if it is told, × T × n × T, columns of the candidates first, then
    those at place p = `target`; η = `off`, d = 1 + max 1/y_t; s is the largest Frobenius norm of a row, s₂ the largest
    spectral norm of one without its own column, s_j that of the target's columns, and f their Frobenius norm.

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
    f = float(np.linalg.norm(rows[:, :, p], axis=(1, 2)).max())
    added = roundings((n * T + T + 2 * (members + 8)) * s**2 + (T + members + 10) * (d - 1) * f**2)
    s2 = math.sqrt(float(norm_above(grams).max()) + 2 * ROOM * UNIT_ROUNDOFF * n * T * s**2)
    sj = float(norm_above(rows[:, :, p]).max())
    moved = (2 * s2 + 2 * (d - 1) * sj + d * off) * off
    return float(ROOM * (members + 1) * (moved + added))


def comparison_room(members: int) -> float:
    """By how much, relatively, a share of a norm plus a sum of so many products of norms is off as computed.

    Guarantee: an upper bound: none of the numbers is negative.
    Source: docs/proofs/coalitions.md, Claim 8.
    """
    return ROOM * UNIT_ROUNDOFF * (members + 8)


def product_room(left: np.ndarray, stack: np.ndarray, right: np.ndarray | None = None) -> np.ndarray:
    """How far C X, or C X C'ᵀ, is off as computed, in the Frobenius norm, for each T × T matrix X of a stack.

    Guarantee: an upper bound: γ_{2T}, and two units more for the norms, of the product of all norms.
    Source: docs/proofs/coalitions.md, Claim 7; Higham, *Accuracy and Stability*, Section 3.5.
    """
    sizes = np.linalg.norm(left) * np.linalg.norm(stack, axis=(-2, -1))
    if right is not None:
        sizes = sizes * np.linalg.norm(right, axis=(-2, -1))
    return np.asarray(ROOM * UNIT_ROUNDOFF * (2 * left.shape[-1] + 2) * sizes)
