# SPDX-License-Identifier: Apache-2.0
"""Blocks of rounds, and polynomials on them: the slow streams that stand for all others.

Source: docs/mathematics.md, section 7, All targets at once.
"""

from __future__ import annotations

import numpy as np

from sottovoce.rounding import gamma

__all__ = ["BLOCKS", "DEGREE", "ROWS_DEGREE", "block_edges", "polynomials", "skew"]

# Speed alone, all of these: any blocks and degrees give a bound. The rounds are cut into so many blocks, with so many
# polynomials on each for streams, and one more for what they show, which has kinks where streams have none.
BLOCKS = 20
DEGREE, ROWS_DEGREE = 3, 4


def block_edges(rounds: int, blocks: int) -> np.ndarray:
    """About `blocks` blocks of at least `ROWS_DEGREE` rounds, alike but for a short first one: 0 = e_0 < … = rounds.

    >>> block_edges(1000, 20).tolist()[:4]
    [0, 13, 60, 107]
    """
    shortest = max(-(-rounds // blocks), ROWS_DEGREE)
    # Speed alone: of a few lengths, none longer than asked for, the one that leaves the least for the first block, in
    # which gains change most.
    lengths = np.arange(max(shortest - shortest // 16, ROWS_DEGREE), shortest + 1)
    first = (rounds - ROWS_DEGREE) % lengths + ROWS_DEGREE
    length, start = int(lengths[first.argmin()]), int(first.min())
    return np.concatenate([[0], np.arange(start, rounds + 1, length)])


def polynomials(length: int, degree: int) -> np.ndarray:
    """Orthonormal polynomials on `length` ≥ `degree` equidistant points, of degree below `degree`, as columns.

    The last point has positive values, so that the first column is constant and positive.
    """
    basis = np.linalg.qr(np.vander(np.linspace(-1, 1, length), degree, increasing=True))[0]
    return np.asarray(basis * np.sign(basis[-1]))


def skew(length: int, degree: int) -> float:
    """‖P̂ᵀP̂ − I‖ for these polynomials, and how far the first is from 1/√length in norm: the larger, from above.

    Guarantee: an upper bound; both are measured, and γ_ℓ‖P̂‖² added for rounding.
    """
    basis = polynomials(length, degree)
    turned = float(np.linalg.norm(basis.T @ basis - np.eye(degree)))
    uneven = float(np.linalg.norm(basis[:, 0] - length**-0.5))
    return max(turned, uneven) + gamma(2 * degree) * (length + 2)
