# SPDX-License-Identifier: Apache-2.0
"""Riccati recursions by doubling: step k is step 2^k of the plain recursion.

    H ← H₀ + A₀ᵀ H (I + G₀ H)⁻¹ A₀,      from H = 0.

What comes out is a candidate. Whoever needs a proof of it measures how far one plain step moves it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["doublings"]


def doublings(
    step: np.ndarray, seen: np.ndarray, weight: np.ndarray, *, most: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """H_1, H_2, … up to `most`, each with what it adds to the one before.

    A₀ = `step`, G₀ = `seen` and H₀ = `weight` are square and of one size, G₀ and H₀ positive semidefinite.

        H_{k+1} = H_k + A_kᵀ H_k (I + G_k H_k)⁻¹ A_k,
        G_{k+1} = G_k + A_k (I + G_k H_k)⁻¹ G_k A_kᵀ,      A_{k+1} = A_k (I + G_k H_k)⁻¹ A_k.

    Guarantee: none; H_k tends to the least solution where there is one, quadratically if its loop is stable.
    Source: Chu, Fan, Lin & Wang, Int. J. Control 77 (2004).

    >>> for found, added in doublings(np.eye(1) / 2, np.eye(1), np.eye(1), most=9):
    ...     pass
    >>> round(float(found[0, 0]), 12), round((1 + 65**0.5) / 8, 12)
    (1.132782218537, 1.132782218537)
    """
    size = len(step)
    for _ in range(most):
        # (I + G_k H_k)⁻¹[A_k, G_k]
        solved = np.linalg.solve(np.eye(size) + seen @ weight, np.hstack([step, seen]))
        added = step.T @ weight @ solved[:, :size]
        added = (added + added.T) / 2
        seen = seen + step @ solved[:, size:] @ step.T
        seen = (seen + seen.T) / 2
        step = step @ solved[:, :size]
        weight = weight + added
        yield weight, added
