# SPDX-License-Identifier: Apache-2.0
"""A bound for any number of rounds: a recursion through the start, one inequality for all that follows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from sottovoce.verification.hidden import UNIT_ROUNDOFF

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.certificates import HorizonModel

__all__ = ["HorizonProof", "check_horizon"]

# Every product of matrices here has at most four factors; eight units a dimension cover it with room to
# spare.
_UNITS = 8.0


@dataclass(frozen=True, kw_only=True)
class HorizonProof:
    """Whether diag(y) ⪰ M' is proved, `failure` saying where not; M ⪯ (1 + noise_excess)·M'."""

    holds: bool
    noise_excess: float
    failure: str


@dataclass(frozen=True, kw_only=True, eq=False)
class _Gain:
    """One round of the filter: CᵀR⁻¹C and Φ, with bounds of the norm of the rounding in each."""

    information: NDArray[np.float64]
    keep: NDArray[np.float64]
    error: float
    keep_error: float


def check_horizon(model: HorizonModel) -> HorizonProof:
    """Whether y = (start, rate, rate, …) dominates the model's form for every number of rounds.

        R_t = C P_t Cᵀ,  Φ_t = I − P_t Cᵀ R_t⁻¹ C,  P_{t+1} = A Φ_t P_t Aᵀ + I,  P_1 = I,   t = 1..τ+1
        N_t = Cᵀ R_t⁻¹ C + Φ_tᵀ V_t Φ_t,  s_t = y_t − bᵀ N_t b > 0,
        V_{t−1} = Aᵀ N_t A + (Aᵀ N_t b)(Aᵀ N_t b)ᵀ / s_t,   from V_τ = V down to t = 1.

    After round τ the gains stay those of round τ + 1. There one inequality, V ⪰ (right-hand side at V) with
    s > 0, holds every V_t below V by induction from V_T = 0, because the right-hand side is monotone in V.

    Guarantee: if it holds, Δ² of the model is at most (1 + e)(Σ start + (T − τ)·rate) for every T > τ.
    Gains that are frozen, or rounded, are the exact filter of noise I + E_t with E_t = P_{t+1} − A Φ_t P_t
    Aᵀ − I as computed; noise at most (1 + e) times as large hides at most so much more: M ⪯ (1 + e) M', e =
    max λ_max(E_t). Rounding moves N_t and V_t up and s_t down, by 8·(r + m)·u times the norms of the factors.
    Source: the finite-horizon bounded-real lemma; Green and Limebeer, Linear Robust Control (1995), Ch. 3.
    """
    gains, excess, failure = _filter(model)
    if failure:
        return HorizonProof(holds=False, noise_excess=0.0, failure=failure)
    if not _positive(model.bound, 0.0):
        return _refused(excess, "the stored bound V is not positive definite")
    V, s = _step(model, gains[-1], model.bound, model.rate)
    if s <= 0:
        return _refused(excess, f"the rate {model.rate:.12g} is too small: s = {s:.3g} in the bulk")
    rounding = 4 * UNIT_ROUNDOFF * float(np.linalg.norm(model.bound) + np.linalg.norm(V))
    if not _positive(model.bound - V, rounding):
        least = float(np.linalg.eigvalsh(model.bound - V)[0])
        return _refused(excess, f"V does not cover the bulk: the inequality fails by {-least:.3g}")
    V = model.bound
    for t in range(model.start.size, 0, -1):
        V, s = _step(model, gains[t - 1], V, float(model.start[t - 1]))
        if s <= 0:
            return _refused(excess, f"y is too small in round {t}: s = {s:.3g}")
    return HorizonProof(holds=True, noise_excess=excess, failure="")


def _refused(excess: float, failure: str) -> HorizonProof:
    return HorizonProof(holds=False, noise_excess=excess, failure=failure)


def _filter(model: HorizonModel) -> tuple[list[_Gain], float, str]:
    """The gains of rounds 1..τ+1, and by how much the noise they are exact for may exceed I."""
    A, C = model.transition, model.rows
    m, r = C.shape
    unit = _UNITS * (r + m) * UNIT_ROUNDOFF
    P = np.eye(r)
    gains = []
    excess = 0.0
    for t in range(1, model.start.size + 2):
        R = C @ P @ C.T
        sizes = np.linalg.eigvalsh((R + R.T) / 2)
        if not sizes[0] > 1e3 * unit * sizes[-1]:
            return [], 0.0, f"the rows of the model are dependent: the innovation of round {t} has no noise"
        inverse = linalg.inv(R)
        through = P @ C.T @ inverse
        keep = np.eye(r) - through @ C
        spread = float(sizes[-1] / sizes[0])
        size_C = float(np.linalg.norm(C))
        gains.append(
            _Gain(
                information=C.T @ inverse @ C,
                keep=keep,
                error=unit * spread * size_C**2 * float(np.linalg.norm(inverse)),
                keep_error=unit * spread * (math.sqrt(r) + float(np.linalg.norm(through)) * size_C),
            )
        )
        following = A @ (keep @ P) @ A.T + np.eye(r)
        following = (following + following.T) / 2
        size = float(np.linalg.norm(P))
        rounding = (
            unit
            * spread
            * (
                1
                + float(np.linalg.norm(A)) ** 2
                * size
                * (math.sqrt(r) + float(np.linalg.norm(through)) * size_C)
            )
        )
        frozen = t == model.start.size + 1
        drift = max(0.0, float(np.linalg.eigvalsh(P - following)[-1])) if frozen else 0.0
        excess = max(excess, drift + rounding)
        P = following
    return gains, excess, ""


def _step(
    model: HorizonModel, gain: _Gain, V: NDArray[np.float64], y: float
) -> tuple[NDArray[np.float64], float]:
    """An upper bound of V_{t−1} and a lower bound of s_t; the bound is 0 where s_t is not positive."""
    A, b = model.transition, model.source
    m, r = model.rows.shape
    unit = _UNITS * (r + m) * UNIT_ROUNDOFF
    size_V = float(np.linalg.norm(V))
    size_keep = float(np.linalg.norm(gain.keep))
    error = gain.error + size_V * (unit * size_keep**2 + 2 * gain.keep_error * size_keep + gain.keep_error**2)
    N = gain.information + gain.keep.T @ V @ gain.keep
    N = (N + N.T) / 2 + 2 * error * np.eye(r)
    size_N = float(np.linalg.norm(N))
    size_b = float(np.linalg.norm(b))
    s = y - float(b @ N @ b) - unit * (size_N * size_b**2 + y)
    if s <= 0:
        return np.zeros_like(V), s
    g = A.T @ (N @ b)
    before = A.T @ N @ A + np.outer(g, g) / s
    size_A = float(np.linalg.norm(A))
    allowance = unit * size_A**2 * size_N * (1 + 2 * size_N * size_b**2 / s)
    return (before + before.T) / 2 + 2 * allowance * np.eye(r), s


def _positive(matrix: NDArray[np.float64], margin: float) -> bool:
    """Whether a symmetric matrix is positive definite beyond doubt (Rump 2006)."""
    n = matrix.shape[0]
    size = float(np.abs(np.diag(matrix)).sum())
    shift = margin + 2 * (n + 8) * UNIT_ROUNDOFF * size
    try:
        linalg.cholesky(matrix - shift * np.eye(n), lower=True)
    except linalg.LinAlgError:
        return False
    return True
