# SPDX-License-Identifier: Apache-2.0
"""The Kalman filter of a view of a program, and what rounding did to it, bounded after the fact.

    R_t = C P_t Cᵀ + D Dᵀ;  K_t = (A P_t Cᵀ + B Dᵀ) R_t⁻¹;  P_{t+1} = A P_t Aᵀ + B Bᵀ − K_t R_t K_tᵀ,  P_1 = 0.

Whatever floats K_t, X_t and P_t come out, e_t = y_t − C ẑ_t, ẑ_{t+1} = A ẑ_t + K_t e_t, ν_t = X_t e_t is an
invertible map of what is seen. With Φ_t = A − K_t C and O_ts = X_t C Φ_{t−1} ⋯ Φ_{s+1} the noise in ν has
covariance I + E,

    E = diag(X_t R'_t X_tᵀ − I) + 𝒪 diag(Δ_t) 𝒪ᵀ + 𝒪 diag(Γ_t X_tᵀ) + (𝒪 diag(Γ_t X_tᵀ))ᵀ,

exactly, where R'_t = C P_t Cᵀ + D Dᵀ, Γ_t = A P_t Cᵀ + B Dᵀ − K_t R'_t and Δ_t = A P_t Aᵀ + B Bᵀ − K_t R'_t K_tᵀ −
Γ_t K_tᵀ − K_t Γ_tᵀ − P_{t+1} are defects of one step each: 0 but for rounding, and found in doubled precision. So
(1 + η)⁻¹ M̃ ⪯ M ⪯ (1 − η)⁻¹ M̃ for any η ≥ ‖E‖, M̃ being the form of ν. Nothing else is asked of the filter,
neither stability nor optimality. docs/proofs/programs.md has the proofs.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy.linalg.lapack import dtrtri

from sottovoce.errors import NotCertified
from sottovoce.filtering.defects import doubled_defect, plain_defect, plain_loop
from sottovoce.filtering.doubled import (
    Doubled,
    Parts,
    from_left,
    from_right,
    multiply,
    remainder,
)
from sottovoce.filtering.reached_states import reached_by_noise
from sottovoce.filtering.rounding import UNDERFLOWN, fine_gamma, is_above, spread
from sottovoce.filtering.slabs import times_columns
from sottovoce.filtering.windows import Floor, noise_of_rounds
from sottovoce.rounding import above, barely_above, closely_above

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sottovoce.filtering.defects import Unsure
    from sottovoce.filtering.stages import Stage

__all__ = ["FilterStep", "Filtered", "innovations", "inverse_root", "run_over", "settled_or"]

# Speed alone: steps recur once P moves, over a period, by no more than this share of the largest entry of P or B Bᵀ.
# What that costs is in the defects, as everything else that makes K differ from the optimal one.
SETTLED = 2.0**-49
# Speed alone: shares of what P rises by in a round that it is proved to fall by at most.
FALLS = (1e-11, 1e-9, 1e-6, 1e-3, 1.0)
# Speed alone: what states may hold is followed until a round adds no more than this share; `_bounded` proves the
# rest.
GROWN = 0.01
# A step of the filter: a stage, P, what P may be set to after it, and the share that settles that.
FilterOf: TypeAlias = "Callable[[Stage, np.ndarray, np.ndarray | None, float], tuple[Filtered, np.ndarray]]"


@dataclass(frozen=True, kw_only=True, eq=False)
class Filtered:
    """K and X of a round, and what they fall short of.

    `defect` bounds |[Δ, ΓXᵀ; XΓᵀ, X R' Xᵀ − I]|, entry by entry; if `unsure` is given, that does instead.
    Where K = A K⁺ but for rounding, with K⁺ what an innovation adds to the state after injection, `update` is K⁺.

    With r states and m rows `gain` is K, (r, m), `whitener` X, (m, m), and `defect` (r + m, r + m). `variances` is the
    diagonal of P before the round, where it is kept.
    """

    stage: Stage
    gain: np.ndarray
    whitener: np.ndarray
    defect: np.ndarray
    update: np.ndarray | None = None
    unsure: Unsure | None = None
    variances: np.ndarray | None = None

    @cached_property
    def gain_sizes(self) -> np.ndarray:
        """|K|, or |A||K⁺| where that is larger."""
        sizes: np.ndarray = np.abs(self.gain)
        if self.update is None:
            return sizes
        return np.asarray(np.maximum(sizes, self.stage.sizes[0] @ np.abs(self.update)))

    @cached_property
    def factors(self) -> tuple[Parts, Parts]:
        """K and X as left factors."""
        count = self.stage.count
        return from_left(Doubled(high=self.gain), count), from_left(Doubled(high=self.whitener), count)

    @cached_property
    def _gain_reader(self) -> Parts:
        """K as a right factor."""
        return from_right(Doubled(high=self.gain), self.stage.widest)

    def before(self, rows: np.ndarray) -> np.ndarray:
        """O Φ for rows O that read the state after the round, with A and C as they are exactly.

        Guarantee: entries err by at most 2u of themselves and `slip` in proportion to ‖o‖₁, o being the row of O.
        Source: docs/proofs/programs.md, "The response of a filter".
        """
        # O Φ = O A − (O K) C; both products are formed in two parts, and like parts are subtracted first.
        widest, (kept, read) = self.stage.widest, self.stage.readers
        factor = from_left(Doubled(high=rows), widest)
        moved = multiply(factor, kept)
        taken = multiply(from_left(multiply(factor, self._gain_reader), widest), read)
        return np.asarray((moved.high - taken.high) + (moved.rest - taken.rest))

    @cached_property
    def loop(self) -> np.ndarray:
        """Φ, with the guarantee of `before`."""
        return self.before(np.eye(self.stage.size))

    @cached_property
    def whitened(self) -> np.ndarray:
        """X C, with the guarantee of `before`."""
        return np.asarray(multiply(self.factors[1], self.stage.readers[1]).rounded())

    def plainly_before(self, rows: np.ndarray) -> np.ndarray:
        """O Φ for rows O that read the state after the round, in plain floats.

        Guarantee: within |O| times what `plain_slip` says of a state that the rows then read.
        """
        return np.asarray(rows @ self.stage.transition - (rows @ self.gain) @ self.stage.rows)

    @cached_property
    def plainly_whitened(self) -> np.ndarray:
        """X C in plain floats: within `plainly_shown` of what it shows of a state."""
        return np.asarray(self.whitener @ self.stage.dense_both[self.stage.size :])

    @cached_property
    def plain_loop(self) -> np.ndarray:
        """Φ in plain floats, with the guarantee of `defects.plain_loop`."""
        return plain_loop(self.stage, self.gain) if self.unsure is None else self.unsure.loop

    @property
    def plain_loop_sizes(self) -> np.ndarray:
        """The same with absolute values for entries."""
        return np.abs(self.plain_loop) if self.unsure is None else self.unsure.loop_sizes

    def plainly_carried(self, rows: np.ndarray, out: np.ndarray) -> None:
        """O Φ for rows O, with `plain_loop`."""
        times_columns(rows, self.plain_loop, self.stage.loop_columns, out)

    @cached_property
    def drift_norm(self) -> float:
        """A bound of ‖Δ‖.

        Guarantee: an upper bound, rounding included.
        """
        if self.unsure is not None:
            return self.unsure.norm
        size = self.stage.size
        return above(float(np.linalg.norm(self.defect[:size, :size])))

    def slip(self, states: np.ndarray) -> np.ndarray:
        """What `before` may miss of O Φ z beyond its roundings, for ‖o‖₁ = 1 and |z| ≤ a column of `states`.

        O A errs by `remainder` in proportion to 1ᵀ|A||z|, and (O K) C, both factors of which do, to
        1ᵀ|K|1·1ᵀ|C||z|.

        Guarantee: upper bounds, one for each column.
        """
        A, C = self.stage.sizes
        summed = (A @ states).sum(axis=0) + np.abs(self.gain).sum() * (C @ states).sum(axis=0)
        return np.asarray(2 * remainder(self.stage.widest) * summed + UNDERFLOWN)

    def plain_slip(self, states: np.ndarray) -> np.ndarray:
        """How far plain floats are from Φ z at most, by K or by A K⁺ in its place, for |z| ≤ `states`.

        Guarantee: upper bounds, (r + m + 6)u(|A| + 2|K||C|)|z|.
        Source: docs/proofs/programs.md, "States that are followed in plain floats".
        """
        A, C = self.stage.sizes
        count = self.stage.size + self.stage.count + 6
        return np.asarray(fine_gamma(count) * (A @ states + 2 * (self.gain_sizes @ (C @ states))))

    def plainly_shown(self, states: np.ndarray) -> np.ndarray:
        """The same for X C z.

        Guarantee: upper bounds, (r + m + 6)u|X||C||z|.
        """
        count = self.stage.size + self.stage.count + 6
        return np.asarray(fine_gamma(count) * (np.abs(self.whitener) @ (self.stage.sizes[1] @ states)))


@dataclass(frozen=True, kw_only=True, eq=False)
class FilterStep:
    """A round of the filter, and what the state may be before it.

    Entry i of the state that contributions with Σ‖c_t‖² ≤ 1 have made, less the filter's estimate of it, is at most
    `held[i, 0]` in size, exactly or followed in floats, and of what a `factor` has let into it, likewise,
    `held[i, 1]`; what unit disturbances of all earlier rounds together make of it has norm at most `reach`. ‖P‖ is at
    most `variance`, and P_{t+1} ⪰ P_t − `fall`·I over the round, infinite where that was not looked at.
    """

    filtered: Filtered
    held: np.ndarray
    reach: float
    variance: float = math.inf
    fall: float = math.inf

    @property
    def stage(self) -> Stage:
        """The matrices of the round."""
        return self.filtered.stage


def innovations(
    stages: Sequence[Stage], *, period: int = 1, settled_at: float = SETTLED, plainly: bool = False
) -> list[FilterStep]:
    """Run the filter over all rounds; steps recur once a `period` moves P by no more than a share `settled_at`.

    P_{t+1} is then set to P_{t+1−p}, which counts as a defect of round t, and rounds t + 1, t + 2, … are those of a
    period before, bit by bit, as long as stages recur. On a Krylov space defects may be found `plainly`, in floats with
    room for their rounding, and what states hold from the noise that is injected, where that reaches all of them.

    Guarantee: the bounds of each `FilterStep` hold for the exact matrices behind the stages, rounding included.
    Source: the module; Higham, *Accuracy and Stability of Numerical Algorithms*, Section 3.5, for products;
    docs/proofs/programs.md.
    """
    # Speed alone: where some direction gets no noise errors never fade, and have to be smaller; so have they where
    # noise takes several rounds to reach it.
    window, least = noise_of_rounds(stages) if plainly else (1, 0.0)
    rising, plainly = plainly, plainly and least > 0
    if window > 1:
        settled_at *= min(1.0, Floor(window=window, least=least).strength)
    run = run_over(
        stages, period, settled_at, step=_filtered_plainly if plainly else _filtered, rising=rising
    )
    if plainly:
        states = reached_by_noise([each.filtered for each in run], [each.covariance for each in run])
        if states is not None:
            made: dict[tuple[int, int], FilterStep] = {}
            for each, (held, reach) in zip(run, states, strict=True):
                made.setdefault((id(each.filtered), id(held)), each.step(held, reach))
            return [made[id(each.filtered), id(held)] for each, (held, _) in zip(run, states, strict=True)]
    return _followed_over(run, stages, period)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Round:
    """A round that was filtered, with P before it: its diagonal and its largest row sum; `again` if it recurs.

    P_{t+1} ⪰ P_t − `fall`·I, which is infinite where it was not looked at.
    """

    filtered: Filtered
    covariance: tuple[np.ndarray, float]
    again: bool
    fall: float = math.inf

    def step(self, held: np.ndarray, reach: float) -> FilterStep:
        """The round with what its states may hold."""
        variance = self.covariance[1]
        return FilterStep(filtered=self.filtered, held=held, reach=reach, variance=variance, fall=self.fall)


def run_over(
    stages: Sequence[Stage], period: int, settled_at: float, *, step: FilterOf, rising: bool = False
) -> list[_Round]:
    """The filter over all rounds.

        P₀ = 0,   P_{t+1} = step(stage_t, P_t)

    Once a covariance recurs after a period, rounds are taken over from one period before instead of being computed
    again.

    Guarantee: none that rounds are exact: the defect of every step says how far it is off. Recurring rounds are the
    same value, so that they have the same defect.
    """
    size = stages[0].size
    covariance = np.zeros((size, size))
    # P before each of the last rounds, this one included, and what is kept of it.
    covariances: deque[np.ndarray] = deque(maxlen=period)
    run: list[_Round] = []
    settled = False
    for t, stage in enumerate(stages):
        covariances.append(covariance)
        recurs = t >= period and stages[t - period] is stage
        again = settled and recurs
        if again:
            run.append(replace(run[t - period], again=True))
            covariance = covariances[0]
            continue
        aim = covariances[0] if recurs else None
        kept = np.diagonal(covariance).copy(), float(np.abs(covariance).sum(axis=1).max(initial=0.0))
        filtered, following = step(stage, covariance, aim, settled_at)
        # Gains are frozen where rounds are alike.
        alike = rising and period == 1 and stage is stages[0]
        fall = (0.0 if following is covariance else _fall(following - covariance)) if alike else math.inf
        covariance, settled = following, following is aim
        run.append(_Round(filtered=filtered, covariance=kept, again=False, fall=fall))
    return run


def _fall(risen: np.ndarray) -> float:
    """An ε with X ⪰ −ε I for what P has risen by in a round, X as stored.

    Guarantee: upper bound of what λ_min lacks of 0, by a Cholesky factor (`is_above`) or ‖X‖, and of the rounding of X.
    """
    size = float(np.abs(risen).max(initial=0.0))
    proved = (share * size for share in FALLS if is_above(risen, -share * size))
    return next(proved, closely_above(spread(risen))) + fine_gamma(len(risen)) * size


def _followed_over(run: Sequence[_Round], stages: Sequence[Stage], period: int) -> list[FilterStep]:
    """The rounds with what their states may hold, followed from round to round until it recurs.

        U_{t+1} = Φ_t U_t Φ_tᵀ + what enters in round t

    for contributions of all nodes and for unit disturbances; from where both recur, a bound that holds for good
    serves all later rounds.

    Guarantee: `held` bounds what states may hold, entry by entry, before each round.
    Source: docs/proofs/programs.md, "The response of a filter".
    """
    size = stages[0].size
    # What contributions and unit disturbances make of the state; a factor f lets in at most ‖f‖ of the latter.
    followed = [np.zeros((size, size)) for _ in range(2)]
    factors = [each.factor for each in stages if each.factor is not None]
    let_in = max((barely_above(float(np.linalg.norm(each)), each.size) for each in factors), default=None)
    # What states may hold before each of the last rounds, this one included.
    states: deque[list[np.ndarray]] = deque(maxlen=period)
    steps: list[FilterStep] = []
    bounded = 0
    for t, each in enumerate(run):
        again = each.again
        states.append(followed)
        # After a period of rounds that have bounds for good everything recurs.
        steps.append(steps[t - period] if again and bounded > period else _step(each, followed, let_in))
        bounded = bounded + 1 if bounded and again else 0
        if not bounded:
            adding = zip(followed, (None, np.eye(size)), strict=True)
            followed = [_followed(each.filtered, before, more) for before, more in adding]
            limits = _bounded(states, followed) if again else None
            if limits is not None:
                states.extend(limits)
                bounded = 1
        if bounded:
            followed = states[0]
    return steps


def _step(each: _Round, followed: list[np.ndarray], let_in: float | None) -> FilterStep:
    """A round, with what its states may hold: the roots of diagonals, and of a norm by row sums."""
    contributed, disturbed = followed
    reach = float(np.sqrt(np.abs(disturbed).sum(axis=1).max(initial=0.0)))
    columns = [contributed] if let_in is None else [contributed, disturbed]
    diagonals = np.array([np.diagonal(column) for column in columns]).T
    held = np.sqrt(np.maximum(diagonals, 0.0)) * (1 + fine_gamma(4))
    if let_in is not None:
        held[:, 1] *= let_in
    return each.step(held, reach)


def _filtered(
    stage: Stage, P: np.ndarray, aim: np.ndarray | None, settled_at: float
) -> tuple[Filtered, np.ndarray]:
    """One step of the filter, and the next covariance: the `aim` where that is no farther off than a share.

    Guarantee: `defect` holds for the K, X and covariances that are returned, however they came about. The covariance
    that is returned is then the very `aim` that was passed in, so that defects recur with the steps.
    """
    A, C = stage.transition, stage.rows
    PC = np.asarray((C @ P).T)
    R = np.asarray(C @ PC) + stage.noise.seen
    X = inverse_root(R)
    APC = np.asarray(A @ PC) + stage.noise.shared
    K = (APC @ X.T) @ X
    update = None
    if stage.noise.injected is not None:
        update = ((PC + stage.noise.injected.high @ np.asarray(C.T)) @ X.T) @ X
        K = np.asarray(A @ update)
    following = np.asarray(A @ np.asarray(A @ P).T) + stage.noise.process - K @ R @ K.T
    following = settled_or(stage, P, (following + following.T) / 2, aim, settled_at)
    defect = doubled_defect(stage, P, K, X, following)
    return Filtered(stage=stage, gain=K, whitener=X, defect=defect, update=update), following


def _filtered_plainly(
    stage: Stage, P: np.ndarray, aim: np.ndarray | None, settled_at: float
) -> tuple[Filtered, np.ndarray]:
    """The same on a Krylov space, where all noise is injected; the products are those of the defect, too.

        S = [A; C](P + G Gᵀ)[A; C]ᵀ,   X R Xᵀ = I,   K = S₁₂ R⁻¹,   P' = S₁₁ − K R Kᵀ,   R = S₂₂

    Guarantee: plain floats; `defect` bounds what they leave of the identities.
    """
    size, both = stage.size, stage.dense_both
    held = P + np.asarray(stage.injected.high)
    moved = both @ held
    seen = moved @ both.T
    X = inverse_root(seen[size:, size:])
    update = (moved[size:].T @ X.T) @ X
    K = both[:size] @ update
    following = seen[:size, :size] - (K @ seen[size:, size:]) @ K.T
    following = settled_or(stage, P, (following + following.T) / 2, aim, settled_at)
    defect = plain_defect(stage, held, seen, K, X, following)
    return Filtered(stage=stage, gain=K, whitener=X, defect=defect, update=update), following


def settled_or(
    stage: Stage, P: np.ndarray, following: np.ndarray, aim: np.ndarray | None, settled_at: float
) -> np.ndarray:
    """The next covariance: the `aim` where it is no farther off than a share. Speed alone."""
    if aim is None:
        return following
    least = settled_at * max(np.diagonal(P).max(initial=0.0), stage.largest_noise)
    if np.abs(np.diagonal(following) - np.diagonal(aim)).max(initial=0.0) > least:
        return following
    return aim if np.abs(following - aim).max(initial=0.0) <= least else following


def _bounded(period: Sequence[list[np.ndarray]], after: list[np.ndarray]) -> list[list[np.ndarray]] | None:
    """Bounds for each round of all later periods of a filter that has settled; None while they still grow by much.

    U_1, …, U_p are what is followed over a period, U_{t+1} ⪰ Φ_t U_t Φ_tᵀ + J_t, and `after` is U_{p+1}. If U_{p+1} ⪯
    U_1 + ε I then V_t = U_t + ε S_t obeys V_{t+1} ⪰ Φ_t V_t Φ_tᵀ + J_t round and round, V_{p+1} being V_1, for every S
    with S_{t+1} ⪰ Φ_t S_t Φ_tᵀ + I round and round, so that V bounds all that is to come. Of the last, J is I, and
    U/(1 − ε) is such an S.

    Guarantee: upper bounds, as positive semidefinite matrices; ε is the largest row sum of |U' − U|.
    """
    first = period[0]
    moved = [
        closely_above(float(np.abs(b - a).sum(axis=1).max(initial=0.0)))
        for a, b in zip(first, after, strict=True)
    ]
    if moved[-1] > GROWN:
        return None
    limits = [each[-1] / (1 - moved[-1]) * (1 + fine_gamma(4)) for each in period]
    largest = np.diagonal(limits[0]).max(initial=0.0)
    for each, by in zip(first[:-1], moved[:-1], strict=True):
        if by * largest > GROWN * np.diagonal(each).max(initial=0.0):
            return None
    return [
        [*(each + by * limit for each, by in zip(states[:-1], moved[:-1], strict=True)), limit]
        for states, limit in zip(period, limits, strict=True)
    ]


def _followed(filtered: Filtered, Y: np.ndarray, added: np.ndarray | None) -> np.ndarray:
    """Φ Y Φᵀ + what is added, None for contributions, and as much of I on top as rounding may have taken off.

    Where contributions of k rounds enter in one, the maps Z_a from them to the state are bounded together:
    (Σ_a Z_a)(Σ_a Z_a)ᵀ ⪯ k·Σ_a Z_a Z_aᵀ.

    Guarantee: upper bound, as a positive semidefinite matrix; room is a bound of row sums, hence of the norm.
    Source: docs/proofs/programs.md, "The response of a filter" and "States that are followed in plain floats".
    """
    stage, K = filtered.stage, filtered.gain
    A, C = stage.transition, stage.rows
    absA, absC = stage.sizes
    size, m = stage.size, stage.count
    absK = filtered.gain_sizes
    half = (np.asarray(A @ Y) - K @ np.asarray(C @ Y)).T
    following = np.asarray(A @ half) - K @ np.asarray(C @ half)
    following = (following + following.T) / 2
    wide = absA.T @ np.ones(size) + absC.T @ (absK.T @ np.ones(size))
    across = np.abs(Y) @ wide
    # Whoever follows states in floats, by A K⁺ instead of K or not, does what a loop within this room does exactly.
    terms = stage.terms[0] + stage.terms[1] + size + m + 8
    room = fine_gamma(8 * terms) * (absA @ across + absK @ (absC @ across)).max(initial=0.0)
    if added is None:
        taken = np.hstack([np.eye(size), -K])
        sizes, several = np.abs(taken), len(stage.contributed)
        for gram, absolute in stage.contributed:
            following += several * (taken @ gram @ taken.T)
            summed = sizes @ (absolute @ sizes.sum(axis=0))
            room += fine_gamma(4 * several * (stage.inputs + 3 * size + m + 4)) * summed.max(initial=0.0)
    else:
        following += added
        room += fine_gamma(4 * (size + 4)) * float(np.abs(added).sum(axis=1).max(initial=0.0))
    following.flat[:: size + 1] += room
    return np.asarray(following)


def inverse_root(R: np.ndarray) -> np.ndarray:
    """X with X R Xᵀ ≈ I: the inverse of a Cholesky factor. How far it is off is in the defect.

    Shape (m, m). A matrix that is not positive definite in floats is refused with NotCertified.
    """
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
