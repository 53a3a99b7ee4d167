# SPDX-License-Identifier: Apache-2.0
"""The innovations form: Cholesky of the view's covariance is a Kalman filter, one small step a round.

    R_t = C P_t Cᵀ = L_t L_tᵀ;  K_t = P_t Cᵀ R_t⁻¹;  Φ_t = I − K_t C;  P_{t+1} = A Φ_t P_t Aᵀ + I,  P_1 = I.

The rows C are orthonormal and P_t ⪰ I, so R_t ⪰ I: no step is ever close to singular.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg.lapack import dtrtrs

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["Gains", "filter_gains"]

EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, kw_only=True, eq=False)
class Gains:
    """K_t and L_t⁻¹C for rounds 1, 2, … before the last; the final one stored holds for all rounds after it (`at`).

    `last_whitener` is L_T⁻¹C for round T, whose rows may be fewer. The filter is the optimal one for a noise covariance
    between (1 − `missing`)·I and I in every round, up to a two-sided `distortion` from rounding.
    """

    gain: np.ndarray
    whitener: np.ndarray
    last_whitener: np.ndarray
    covariance_norm: float
    frozen: bool
    missing: float
    distortion: float

    def at(self, round_index: int) -> int:
        """Where the gains of the round with this 0-based index stand."""
        return min(round_index, len(self.gain) - 1)

    def steady_from(self, rounds: int) -> int:
        """The 0-based round from which on the gains no longer change (the last round, if they never settle)."""
        return len(self.gain) - 1 if self.frozen else rounds - 1


def filter_gains(
    transition: np.ndarray | csr_array,
    rows: np.ndarray,
    last_rows: np.ndarray,
    rounds: int,
    *,
    steady: float,
    earliest: float = 0,
) -> Gains:
    """Run the filter over `rounds` rounds and keep its gains; freeze them when a round moves P by at most `steady`.

    Guarantee: up to rounding, the form M̂ of these gains obeys (1 − missing)·M̂ ⪯ M ⪯ M̂. Why: any gains give an
    invertible linear map of the observations; with P frozen they are optimal for noise I + E, E = P_t − P_{t+1}, and
    −missing·I ⪯ E ⪯ 0 because P_t increases: freezing takes noise away, never adds it. Rounding in P_{t+1} is such an
    E of either sign, a gain off by δK is process noise of size ‖A δK L‖; both are in `distortion`, with the constants
    of Higham, *Accuracy and Stability*, Sections 3.5, 8.1 and 10.1, rounded up.
    """
    size, m = transition.shape[0], rows.shape[0]
    covariance = np.eye(size)
    gains, whiteners = [], []
    frozen, missing = False, 0.0
    for t in range(rounds - 1):
        gain, whitener, filtered = _measure(covariance, rows)
        gains.append(gain)
        whiteners.append(whitener)
        half = transition @ filtered
        following = transition @ half.T
        following = (following + following.T) / 2
        following.flat[:: size + 1] += 1.0
        moved = following - covariance
        if t >= earliest and np.linalg.norm(moved) <= 8 * steady:
            missing = float(np.linalg.norm(moved, 2))
            if missing <= steady:
                frozen = True
                break
        covariance = following
    # P_t grows with t, because P_2 ⪰ I = P_1 and the recursion is monotone: the last one has the largest norm.
    largest = float(np.linalg.norm(covariance, 2))
    longest, stretch = _products(transition)
    rounding = 32 * EPSILON * (longest + m + 4) * stretch * largest**1.5
    return Gains(
        gain=np.array(gains).reshape(len(gains), size, m),
        whitener=np.array(whiteners).reshape(len(gains), m, size),
        last_whitener=_measure(covariance, last_rows)[1],
        covariance_norm=largest,
        frozen=frozen,
        missing=missing if frozen else 0.0,
        distortion=rounding,
    )


def _products(transition: np.ndarray | csr_array) -> tuple[int, float]:
    """How many terms an entry of A P sums, and a bound of ‖A‖₂² (at least 1)."""
    if isinstance(transition, np.ndarray):
        return len(transition), max(1.0, float(np.linalg.norm(transition, 2)) ** 2)
    # ‖A‖₂² ≤ ‖A‖₁ ‖A‖_∞
    sizes = abs(transition)
    columns, rows = sizes.sum(axis=0).max(), sizes.sum(axis=1).max()
    return int(np.diff(transition.indptr).max(initial=1)), max(1.0, float(columns * rows))


def _measure(covariance: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gain, whitened rows and the covariance after seeing `rows` of the state."""
    if rows.shape[0] == 0:
        return rows.T, rows, covariance
    seen = rows @ covariance
    root = np.linalg.cholesky(seen @ rows.T)
    # S = L⁻¹ C P, so that K = Sᵀ L⁻¹ and Φ P = P − SᵀS.
    whitened = dtrtrs(root, seen, lower=True)[0]
    whitener = dtrtrs(root, rows, lower=True)[0]
    gain = dtrtrs(root, whitened, lower=True, trans=1)[0].T
    return gain, whitener, covariance - whitened.T @ whitened
