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
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg.lapack import dtrtri

from sottovoce.errors import NotCertified
from sottovoce.filtering.stages import UNIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.filtering.stages import Stage

__all__ = ["Step", "innovations"]

# Gains are kept from the round on in which P moves by no more than this share of the largest entry of P or B Bᵀ.
SETTLED = 2.0**-49
# What states may hold is followed until a round adds no more than this share.
GROWN = 0.01


@dataclass(frozen=True, kw_only=True, eq=False)
class Filtered:
    """K and X of a round, and entries that bound its defects: each is a sum of products of what is stored here.

    `covariance` is |P|, `seen` |R|, `unwhite` |X R Xᵀ − I| and `cross` |Γ| as computed; `moved` is |P_{t+1} − P_t|
    where P_t was kept in its place. Where K = A K⁺, with K⁺ what an innovation adds to the state after injection,
    `update` is K⁺.
    """

    stage: Stage
    gain: np.ndarray
    whitener: np.ndarray
    covariance: np.ndarray
    seen: np.ndarray
    unwhite: np.ndarray
    cross: np.ndarray
    moved: np.ndarray | None
    update: np.ndarray | None = None

    def whiteness(self) -> np.ndarray:
        """Row sums of a bound of |X R' Xᵀ − I|."""
        X, m = np.abs(self.whitener), self.stage.count
        sums = X.T @ np.ones(m)
        inner = self.observed(sums) + UNIT * (2 * m + 2) * (self.seen @ sums)
        return np.asarray(self.unwhite.sum(axis=1) + X @ inner)

    def observed(self, v: np.ndarray) -> np.ndarray:
        """A bound of |R' − R| times v ≥ 0."""
        C, in_C = self.stage.sizes[1], self.stage.terms[1]
        kept = C @ (self.covariance @ (C.T @ v))
        return np.asarray(UNIT * (2 * in_C + 4) * kept + self.stage.noise.seen_error @ v)

    def crossed(self, v: np.ndarray) -> np.ndarray:
        """A bound of |Γ| times v ≥ 0."""
        A, C = self.stage.sizes
        in_A, in_C, _ = self.stage.terms
        K = np.abs(self.gain)
        kept = A @ (self.covariance @ (C.T @ v))
        drawn = self.stage.noise.shared_error @ v
        answered = K @ (UNIT * (self.stage.count + 2) * (self.seen @ v) + self.observed(v))
        return np.asarray(self.cross @ v + UNIT * (in_A + in_C + 5) * kept + drawn + answered)

    def crossed_back(self, v: np.ndarray) -> np.ndarray:
        """A bound of |Γ|ᵀ times v ≥ 0."""
        A, C = self.stage.sizes
        in_A, in_C, _ = self.stage.terms
        held = np.abs(self.gain).T @ v
        kept = C @ (self.covariance @ (A.T @ v))
        drawn = self.stage.noise.shared_error.T @ v
        answered = UNIT * (self.stage.count + 2) * (self.seen @ held) + self.observed(held)
        return np.asarray(self.cross.T @ v + UNIT * (in_A + in_C + 5) * kept + drawn + answered)

    def drift(self, v: np.ndarray) -> np.ndarray:
        """A bound of |Δ| times v ≥ 0."""
        A, in_A = self.stage.sizes[0], self.stage.terms[0]
        K, m = np.abs(self.gain), self.stage.count
        held = K.T @ v
        total = UNIT * (2 * in_A + 6) * (A @ (self.covariance @ (A.T @ v)))
        total = total + 1.5 * (self.stage.noise.process_error @ v)
        total = total + K @ (UNIT * (2 * m + 4) * (self.seen @ held) + self.observed(held))
        total = total + self.crossed(held) + K @ self.crossed_back(v)
        return np.asarray(total if self.moved is None else total + self.moved @ v)


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """A round of the filter, and what the state may be before it.

    Entry i of the state that contributions with Σ‖c_t‖² ≤ 1 have made, less the filter's estimate of it, is at most
    `held[i, 0]` in size, and of what a `factor` has let into it, likewise, `held[i, 1]`; what unit disturbances of all
    earlier rounds together make of it has norm at most `reach`.
    """

    filtered: Filtered
    held: np.ndarray
    reach: float

    @property
    def stage(self) -> Stage:
        """The matrices of the round."""
        return self.filtered.stage


def innovations(
    stages: Sequence[Stage], *, settled_at: float = SETTLED, factor: np.ndarray | None = None
) -> list[Step]:
    """Run the filter over all rounds; gains are kept once a round moves P by no more than a share `settled_at`.

    Guarantee: the bounds of each `Step` hold for the exact matrices behind the stages, rounding included.
    Source: Higham, *Accuracy and Stability*, Section 3.5, for products; the module for the rest.
    """
    size = stages[0].size
    covariance = np.zeros((size, size))
    # What contributions, what is let in by the `factor`, and unit disturbances make of the state.
    adding = [None, *([] if factor is None else [factor.T @ factor]), np.eye(size)]
    followed = [np.zeros((size, size)) for _ in adding]
    steps: list[Step] = []
    settled: Filtered | None = None
    kept: Filtered | None = None
    for stage in stages:
        if settled is None or settled.stage is not stage:
            settled = None
            filtered, following = _filtered(stage, covariance, settled_at)
            if steps and steps[-1].stage is stage and filtered.moved is not None:
                settled, following = filtered, covariance
        else:
            filtered, following = settled, covariance
        reach = float(np.sqrt(np.abs(followed[-1]).sum(axis=1).max(initial=0.0)))
        diagonals = np.array([np.diagonal(each) for each in followed[:-1]]).T
        held = np.sqrt(np.maximum(diagonals, 0.0)) * (1 + 4 * UNIT)
        steps.append(Step(filtered=filtered, held=held, reach=reach))
        if kept is not filtered:
            kept = None
            before = followed
            followed = [_followed(filtered, each, more) for each, more in zip(before, adding, strict=True)]
            if filtered is settled and len(steps) > 1 and steps[-2].filtered is filtered:
                bounded = _bounded(before, followed)
                if bounded is not None:
                    followed, kept = bounded, filtered
        covariance = following
    return steps


def _filtered(stage: Stage, P: np.ndarray, settled_at: float) -> tuple[Filtered, np.ndarray]:
    """One step of the filter, and the next covariance; `moved` is set where that is the old one but for rounding."""
    A, C, m = stage.transition, stage.rows, stage.count
    PC = np.asarray((C @ P).T)
    R = np.asarray(C @ PC) + stage.noise.seen
    X = _inverse_root(R)
    APC = np.asarray(A @ PC) + stage.noise.shared
    K = (APC @ X.T) @ X
    update = None
    if stage.noise.injected is not None:
        update = ((PC + stage.noise.injected @ np.asarray(C.T)) @ X.T) @ X
        K = np.asarray(A @ update)
    KR = K @ R
    following = np.asarray(A @ np.asarray(A @ P).T) + stage.noise.process - KR @ K.T
    following = (following + following.T) / 2
    moved = np.abs(following - P)
    scale = max(np.abs(P).max(initial=0.0), stage.noise.process.max(initial=0.0))
    still = moved.max(initial=0.0) <= settled_at * scale
    filtered = Filtered(
        stage=stage,
        gain=K,
        whitener=X,
        covariance=np.abs(P),
        seen=np.abs(R),
        unwhite=np.abs(X @ R @ X.T - np.eye(m)),
        cross=np.abs(APC - KR),
        moved=moved if still else None,
        update=update,
    )
    return filtered, following


def _bounded(before: list[np.ndarray], after: list[np.ndarray]) -> list[np.ndarray] | None:
    """Bounds for all later rounds of a filter that has settled; None while they still grow by much.

    With U ↦ Φ U Φᵀ + J one round on, and U' ⪰ Φ U Φᵀ + J the bound that followed U: if U' ⪯ U + ε I then V = U + ε S
    obeys Φ V Φᵀ + J ⪯ V for every S ⪰ Φ S Φᵀ + I, so that V bounds all that is to come. Of the last, J is I, and
    U/(1 − ε) is such an S.
    """
    moved = [float(np.abs(b - a).sum(axis=1).max(initial=0.0)) for a, b in zip(before, after, strict=True)]
    if moved[-1] > GROWN:
        return None
    limit = before[-1] / (1 - moved[-1]) * (1 + 4 * UNIT)
    largest = np.diagonal(limit).max(initial=0.0)
    for each, by in zip(before[:-1], moved[:-1], strict=True):
        if by * largest > GROWN * np.diagonal(each).max(initial=0.0):
            return None
    return [*(each + by * limit for each, by in zip(before[:-1], moved[:-1], strict=True)), limit]


def _followed(filtered: Filtered, Y: np.ndarray, added: np.ndarray | None) -> np.ndarray:
    """Φ Y Φᵀ + what is added, None for contributions, and as much of I on top as rounding may have taken off."""
    stage, K = filtered.stage, filtered.gain
    A, C = stage.transition, stage.rows
    absA, absC = stage.sizes
    size, m = stage.size, stage.count
    absK = np.abs(K)
    half = (np.asarray(A @ Y) - K @ np.asarray(C @ Y)).T
    following = np.asarray(A @ half) - K @ np.asarray(C @ half)
    following = (following + following.T) / 2
    wide = absA.T @ np.ones(size) + absC.T @ (absK.T @ np.ones(size))
    across = np.abs(Y) @ wide
    room = (
        4 * UNIT * (stage.terms[0] + stage.terms[1] + m + 8) * (absA @ across + absK @ (absC @ across)).max()
    )
    if added is None:
        taken = np.hstack([np.eye(size), -K])
        sizes, several = np.abs(taken), len(stage.direct)
        for gram, absolute in stage.contributed:
            following += several * (taken @ gram @ taken.T)
            summed = sizes @ (absolute @ sizes.sum(axis=0))
            room += several * 4 * UNIT * (stage.entering.shape[1] + size + m + 4) * summed.max(initial=0.0)
    else:
        following += added
        room += 4 * UNIT * (size + 4) * float(np.abs(added).sum(axis=1).max(initial=0.0))
    following.flat[:: size + 1] += room
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
