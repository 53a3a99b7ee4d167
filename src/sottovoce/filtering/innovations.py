# SPDX-License-Identifier: Apache-2.0
"""The Kalman filter of a view of a program, and what rounding did to it, bounded after the fact.

    R_t = C P_t Cᵀ + D Dᵀ;  K_t = (A P_t Cᵀ + B Dᵀ) R_t⁻¹;  P_{t+1} = A P_t Aᵀ + B Bᵀ − K_t R_t K_tᵀ,  P_1 = 0.

Whatever floats K_t, X_t and P_t come out, e_t = y_t − C ẑ_t, ẑ_{t+1} = A ẑ_t + K_t e_t, ν_t = X_t e_t is an invertible
map of what is seen. With Φ_t = A − K_t C and O_ts = X_t C Φ_{t−1} ⋯ Φ_{s+1} the noise in ν has covariance I + E,

    E = diag(X_t R'_t X_tᵀ − I) + 𝒪 diag(Δ_t) 𝒪ᵀ + 𝒪 diag(Γ_t X_tᵀ) + (𝒪 diag(Γ_t X_tᵀ))ᵀ,

exactly, where R'_t = C P_t Cᵀ + D Dᵀ, Γ_t = A P_t Cᵀ + B Dᵀ − K_t R'_t and Δ_t = A P_t Aᵀ + B Bᵀ − K_t R'_t K_tᵀ −
Γ_t K_tᵀ − K_t Γ_tᵀ − P_{t+1} are defects of one step each: 0 but for rounding. So (1 + η)⁻¹ M̃ ⪯ M ⪯ (1 − η)⁻¹ M̃ for
any η ≥ ‖E‖, M̃ being the form of ν. Nothing else is asked of the filter, neither stability nor optimality.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy.linalg.lapack import dtrtri

from sottovoce.errors import NotCertified
from sottovoce.filtering.stages import EPSILON

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scipy.sparse import csr_array

    from sottovoce.filtering.stages import Stage

    Matrix: TypeAlias = np.ndarray | csr_array

__all__ = ["Step", "innovations"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """One round of the filter: gain K, whitener X, and bounds of its defects.

    `unwhite` bounds ‖X R' Xᵀ − I‖, `crossed` ‖Γ Xᵀ‖, `drift` ‖Δ‖; `stretch` bounds ‖|A|‖ + 2‖|K|‖ ‖|C|‖, and `reach`
    the norm of what unit disturbances of all earlier rounds together make of the state.
    """

    stage: Stage
    gain: np.ndarray
    whitener: np.ndarray
    gain_size: float
    unwhite: float
    crossed: float
    drift: float
    stretch: float
    reach: float


def innovations(stages: Sequence[Stage]) -> list[Step]:
    """Run the filter over all rounds.

    Guarantee: the bounds of each `Step` hold for the exact matrices behind the stages, rounding included.
    Source: Higham, *Accuracy and Stability*, Section 3.5, for products; the module for the rest.
    """
    size = stages[0].size
    covariance, spread = np.zeros((size, size)), np.zeros((size, size))
    steps = []
    for stage in stages:
        step, covariance, spread = _step(stage, covariance, spread)
        steps.append(step)
    return steps


def _step(stage: Stage, P: np.ndarray, Y: np.ndarray) -> tuple[Step, np.ndarray, np.ndarray]:
    """One step, the next covariance, and a matrix that is no less than the next Σ_s (Φ_t ⋯ Φ_{s+1})(…)ᵀ."""
    A, C = stage.transition, stage.rows
    absA, absC, absB, absD = stage.sizes
    in_A, in_C, in_B = stage.terms
    PC = np.asarray((C @ P).T)
    R = np.asarray(C @ PC) + stage.noise
    X = _inverse_root(R)
    APC = np.asarray(A @ PC) + stage.shared
    K = (APC @ X.T) @ X
    KR = K @ R
    AP = np.asarray(A @ P)
    following = np.asarray(A @ AP.T) + stage.process - KR @ K.T
    following = (following + following.T) / 2

    absP, absK, absX, absR = np.abs(P), np.abs(K), np.abs(X), np.abs(R)
    m = stage.count
    # Each error matrix below is a sum of products of matrices without negative entries, never formed.
    rounded_R = [(EPSILON * (2 * in_C + 5), (absC, absP, absC.T)), (EPSILON * (in_B + 4), (absD, absD.T))]
    unwhite = _size(np.abs(X @ R @ X.T - np.eye(m))) + _total(
        [(c, (absX, *f, absX.T)) for c, f in rounded_R] + [(EPSILON * (2 * m + 4), (absX, absR, absX.T))]
    )
    rounded_cross = [
        (EPSILON * (in_A + in_C + 6), (absA, absP, absC.T)),
        (EPSILON * (in_B + 4), (absB, absD.T)),
        (EPSILON * (m + 3), (absK, absR)),
        *((c, (absK, *f)) for c, f in rounded_R),
    ]
    cross = APC - KR
    crossed = _size(np.abs(cross @ X.T)) + _total(
        [(c, (*f, absX.T)) for c, f in rounded_cross] + [(EPSILON * (m + 2), (np.abs(cross), absX.T))]
    )
    drift = _total(
        [
            (EPSILON * (2 * in_A + 6), (absA, absP, absA.T)),
            (EPSILON * (in_B + 4), (absB, absB.T)),
            (EPSILON * (2 * m + 6), (absK, absR, absK.T)),
            *((c, (absK, *f, absK.T)) for c, f in rounded_R),
            (2.0, (np.abs(cross), absK.T)),
            *((2 * c, (*f, absK.T)) for c, f in rounded_cross),
        ]
    )
    gain_size = _size(absK)
    stretch = _size(absA) + 2 * gain_size * _size(absC)
    step = Step(
        stage=stage,
        gain=K,
        whitener=X,
        gain_size=gain_size,
        unwhite=unwhite,
        crossed=crossed,
        drift=drift,
        stretch=stretch,
        reach=float(np.sqrt(min(_size(np.abs(Y)), float(np.trace(Y)) * (1 + EPSILON * len(Y))))),
    )
    return step, following, _spread(stage, K, Y)


def _spread(stage: Stage, K: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Φ Y Φᵀ + I and as much of I on top as rounding may have taken off."""
    absA, absC = stage.sizes[:2]
    size, m = stage.size, stage.count
    closed = np.asarray(stage.transition - np.asarray(K @ stage.rows))
    following = closed @ Y @ closed.T
    following = (following + following.T) / 2
    absY = np.abs(Y)
    wide = np.asarray(absA + np.abs(K) @ absC)
    room = EPSILON * (2 * size + 4 * m + 16) * _size(wide, absY, wide.T)
    following.flat[:: size + 1] += 1 + room
    return np.asarray(following)


def _inverse_root(R: np.ndarray) -> np.ndarray:
    """X with X R Xᵀ ≈ I."""
    if R.shape[0] == 0:
        return R
    try:
        root = np.linalg.cholesky(R)
    except np.linalg.LinAlgError:
        raise NotCertified(
            "rounding has eaten the noise of this view, so that nothing can be certified about it "
            "(take fewer rounds, or weights and coefficients of less different sizes)"
        ) from None
    return np.asarray(dtrtri(root, lower=1)[0])


def _size(*factors: Matrix) -> float:
    """√(row sum · column sum), the largest of each: a bound of the norm of a product of entries of at least 0."""
    right = np.ones(factors[-1].shape[1])
    left = np.ones(factors[0].shape[0])
    for factor in reversed(factors):
        right = factor @ right
    for factor in factors:
        left = factor.T @ left
    return float(np.sqrt(right.max(initial=0.0) * left.max(initial=0.0)))


def _total(terms: Sequence[tuple[float, tuple[Matrix, ...]]]) -> float:
    """Σ factor · bound of the norm of a product."""
    return sum(factor * _size(*factors) for factor, factors in terms)
