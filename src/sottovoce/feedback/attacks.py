# SPDX-License-Identifier: Apache-2.0
"""Lower ends: linear loops inside the ball whose Δ² is known exactly, made as bad as a search can make them.

Where every hidden node's map is linear with slope d_t^k between its ends,

    s_t = D_t A s_{t−1} + b δ_t + u_t,     y_t = C s_t,

a statistic Σ_t ⟨w_t, y_t⟩ moves by Σ_t δ_t (λ_t)_j against noise of variance Σ_t λ_tᵀ Q λ_t, where

    λ_t = Cᵀ w_t + Aᵀ D_{t+1} λ_{t+1}.

So Δ² ≥ (Σ δ_t (λ_t)_j)² / Σ λ_tᵀ Q λ_t for any slopes in the ball and any w. Contributions and weights are complex
numbers, which stand for vectors in the plane: what turns from round to round can tell more than what stays.

Why: y_t holds Σ_{s ≤ t} C (D_t A) ⋯ (D_{s+1} A) (b δ_s + u_s), so λ_s is what the statistic makes of whatever
enters in round s, contribution and noise alike. A linear map with its slope in the ball is one of the maps that the
upper end speaks of, and a Gaussian statistic that moves by m against a variance σ²v has μ = m/(σ√v), so no upper
end is below.

Two kinds of loops are tried: slopes that stay the same for all T rounds (`_lasting`), with a stream that turns by
an angle θ from round to round, where λ settles; and slopes that may differ in each of the first few (`_changing`).

The choice of slopes, streams and w is search: a bad one makes a small lower end. What counts is the value in the
end, which `sottovoce.verification.attacks` evaluates with rounding counted, for a certificate and for those without
one alike; docs/training.md, "Rounding in the check".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.certificates import LoopAttack
from sottovoce.verification import attained_by_each, rates_by_each

if TYPE_CHECKING:
    from sottovoce.feedback.problem import TrainingView

__all__ = ["Attack", "best_attack", "lasting_rates", "plain_attacks", "rate_attack", "statistic_value"]

# Slopes to what they attain, which flips help, and the statistic.
Rate = Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray]]
# Slopes that change from round to round are searched over so many rounds and numbers; else they stay the same.
MOST_ROUNDS, MOST_NUMBERS = 24, 400_000
MOST_FLIPS = 60
# Maps of which nothing is known may have any slopes; these are tried.
STEEP = 4.0
# Above so many hidden nodes slopes that stay the same are tried, not searched for.
MOST_DENSE = 400
# Few enough slopes are also started at random.
RANDOM_BELOW, RANDOM = 48, 16
# Rounds that are gone through one by one before λ has settled, for one target and for all of a large view.
LONGEST, LONGEST_OF_MANY = 4096, 256
# So many attacks on small networks stay.
MOST_ATTACKS = 256
# What is so small beside the largest singular value counts as 0 where a statistic is solved for.
NEGLIGIBLE = math.ulp(1.0)
# θ and −θ tell the same: half a turn is enough.
ANGLES = np.pi * np.arange(9) / 8


@dataclass(frozen=True, kw_only=True, eq=False)
class Attack:
    """Slopes and a statistic whose power is `squared`: what Δ² is at least.

    `slopes` has a row for each round that is used and a column for each hidden node, or one row if they stay the same;
    `statistic` and `contributions` are complex, with a row for each such round; if there is one row, both turn by
    `angle` from round to round. `squared` is in units in which σ is 1, `statistic` has a column for each row of
    `TrainingView.rows`, `contributions` have modulus 1 or 0, `angle` is in radians.
    """

    squared: float
    slopes: np.ndarray
    statistic: np.ndarray
    contributions: np.ndarray
    angle: float = 0.0

    def stream(self, rounds: int) -> np.ndarray:
        """The contributions of all rounds as points of the plane, (rounds, 2); none after those that are used.

        Guarantee: every row has norm at most 1, so it is a stream that a record may send.
        """
        turned = np.zeros(rounds, dtype=complex)
        if len(self.contributions) == 1 and self.squared > 0:
            turned[:] = self.contributions[0] * np.exp(1j * self.angle * np.arange(rounds))
        else:
            turned[: len(self.contributions)] = self.contributions[:rounds]
        return _points(turned)

    def stored(self, case: TrainingView) -> LoopAttack:
        """The attack as a certificate holds it, by the pivots of the rows that are seen.

        `statistic` has a row a round in the basis of `case.rows`; rows in reduced echelon form have 1 in their own
        pivot and 0 in those of others, so that the entries of any combination at the pivots are its coefficients in
        that basis, which the verifier can make exactly. `angle` is kept where one row of slopes serves several rounds.
        """
        shown = np.asarray((case.rows.T @ self.statistic.T).T)[:, case.anyone.seen.pivots]
        angle = self.angle if len(self.slopes) == 1 and case.charged > 1 else None
        slopes = np.array(self.slopes)
        if angle is None:
            # Nothing was sent before the first round.
            slopes[0] = 0.0
        return LoopAttack(
            slopes=slopes, statistic=_points(shown), contributions=_points(self.contributions), angle=angle
        )


def _points(numbers: np.ndarray) -> np.ndarray:
    """Complex numbers as points of the plane: a last axis of length 2, since files hold real numbers alone."""
    values = np.asarray(numbers, dtype=complex)
    return np.stack([values.real, values.imag], axis=-1)


def best_attack(case: TrainingView, target: int) -> Attack:
    """The most telling linear loop that was found in the ball of a `case`, against the node at position `target`.

    Slopes are at the ends of the ball, one choice for every node (and for every round, if these are few); those whose
    flip promises most by the gradient are flipped while that helps.

    0 for views that do not determine what flows into the nodes whose noise they know.

    Guarantee: `squared` is at most the power of an actual statistic against an actual loop in the ball, rounding
    counted as for a certificate.
    Source: Neyman–Pearson for a shift of a Gaussian statistic.
    """
    return (_kept if case.is_kept else _searched)(case, target)


def _searched(case: TrainingView, target: int) -> Attack:
    """`best_attack`, worked out."""
    pattern = _pattern(case)
    rounds = case.charged
    C = case.rows.shape
    window = min(rounds, MOST_ROUNDS, max(2, math.isqrt(8 * MOST_NUMBERS // max(1, C[0] * C[1]))))
    found = []
    if not rounds or not C[0] or not pattern.size or case.over_informed:
        return Attack(
            squared=0.0, slopes=np.zeros((1, C[1])), statistic=np.zeros((1, C[0])), contributions=np.zeros(1)
        )
    # Streams that last need a target that takes part in every round.
    constant = pattern.size == rounds
    if constant:
        found.append((_lasting if C[1] <= MOST_DENSE else _tried)(case, target))
    delta = np.zeros(window, dtype=complex)
    delta[pattern[pattern < window]] = 1.0
    found.append(_changing(case, target, delta, found))
    best = max(found, key=lambda attack: attack.squared)
    return replace(best, squared=float(attained_by_each(best.stored(case), case.anyone)[target]))


@lru_cache(maxsize=MOST_ATTACKS)
def _kept(case: TrainingView, target: int) -> Attack:
    """`best_attack`, which stays and cannot be changed."""
    found = _searched(case, target)
    for part in (found.slopes, found.statistic, found.contributions):
        part.flags.writeable = False
    return found


def statistic_value(
    case: TrainingView, target: int, slopes: np.ndarray, statistic: np.ndarray, contributions: np.ndarray
) -> float:
    """(Σ δ_t (λ_t)_j)² / Σ λ_tᵀ Q λ_t over the first rounds, for slopes and weights of each of them.

    Args:
        case: the view of training.
        target: j, a position among the hidden nodes.
        slopes: D, one row a round, one column a hidden node.
        statistic: w, one row a round, one column a row of `case.rows`.
        contributions: δ, one number a round, of modulus at most 1.

    Guarantee: a lower bound on Δ² if the slopes lie in the ball, up to rounding, which is not counted here.
    Source: Neyman–Pearson for a shift of a Gaussian statistic.

    >>> from sottovoce.feedback.problem import training
    >>> from sottovoce import graphs, View
    >>> star = training(graphs.metropolis_weights("star:n=3"), View.secure_sum(0), rounds=1, updates=(0, 1))
    >>> round(statistic_value(star, 0, np.ones((1, 2)), np.ones((1, 1)), np.ones(1)), 3)
    0.5
    """
    shown, back = case.rows.T, case.loop.transition.T
    levels = case.levels[case.loop.unknown]
    state = np.zeros(len(levels), dtype=complex)
    signal = variance = 0.0
    # Backwards: λ_t = Cᵀ w_t + Aᵀ D_{t+1} λ_{t+1}; after its round λ_t is prepared as the second term of the next.
    for t in range(len(contributions) - 1, -1, -1):
        state = np.asarray(shown @ statistic[t] + state)
        signal += float((np.conj(contributions[t]) * state[target]).real)
        variance += float(levels @ np.abs(state) ** 2)
        state = np.asarray(back @ (slopes[t] * state))
    return float(signal**2 / variance) if variance > 0 else 0.0


def _pattern(case: TrainingView) -> np.ndarray:
    """Rounds in which the target may contribute, early ones if there is a choice.

    Any pattern of the family makes a lower end. What is sent early is seen in more rounds.
    """
    family, rounds = case.participation, case.protocol.rounds
    match family.kind:
        case "at-most":
            pattern = np.arange(min(family.size, rounds))
        case "separated" | "epochs":
            pattern = np.arange(0, rounds, family.size)[: family.limit]
        case _:
            pattern = next(family.patterns(rounds))
    return pattern[pattern < case.charged]


def _ends(case: TrainingView) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the slopes of the hidden nodes; steep ones where nothing is known of the maps."""
    U = case.loop.unknown
    if case.slopes is None:
        return np.full(U.size, -STEEP), np.full(U.size, STEEP)
    return case.slopes.lower[U], case.slopes.upper[U]


def _choices(lower: np.ndarray, upper: np.ndarray, target: int) -> list[np.ndarray]:
    """Slopes to begin with: all at one end, the target at its upper and the others at their lower end, or near 0.

    The third is the worst case of a star, and often near that of others: the target's signal stays, the rest
    forgets.
    """
    alone = lower.copy()
    alone[target] = upper[target]
    return [upper, lower, alone, np.clip(0.0, lower, upper)]


def _lasting(case: TrainingView, target: int) -> Attack:
    """Slopes that stay the same and a stream that turns by θ a round: b·Λ(Λ*QΛ)⁻¹Λ*·b, Λ = (I − e^{iθ}AᵀD)⁻¹Cᵀ.

    That is what a round adds in the long run, for the best weights w; it guides the search. What is handed out is
    the power over the rounds there are. Nine angles and four choices of slopes are looked at; the best three are
    climbed from.
    """
    lower, upper = _ends(case)
    A, C = case.loop.transition.toarray(), case.rows.toarray()
    levels = case.levels[case.loop.unknown]
    m = len(A)
    b = 1.0 * (np.arange(m) == target)

    def rate_at(angle: float) -> Rate:
        turn = np.exp(1j * angle) if 0 < angle < np.pi else np.cos(angle)

        def rate(d: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
            # max over w of 2 Re(b·λ) − λ*Qλ with λ = Λw: at the best w its value is b·λ. With w held fixed there,
            # ∂/∂d_k = 2 Re⟨b − Qλ, (I − e^{iθ}AᵀD)⁻¹ e^{iθ}Aᵀe_k λ_k⟩, for all k by one solve with the adjoint.
            loop = np.eye(m) - turn * A.T * d
            try:
                reach = np.linalg.solve(loop, C.T)
                shown = (reach.conj().T * levels) @ reach
                w = np.linalg.lstsq(shown, reach[target].conj(), rcond=NEGLIGIBLE)[0]
                state = reach @ w
                back = np.linalg.solve(loop.conj().T, b - levels * state)
            except np.linalg.LinAlgError:
                return -1.0, np.zeros(m), np.zeros(len(C))
            return float(state[target].real), 2 * (np.conj(turn) * state.conj() * (A @ back)).real, w

        return rate

    choices = _choices(lower, upper, target)
    tried = [(rate_at(angle)(d)[0], k, i) for k, angle in enumerate(ANGLES) for i, d in enumerate(choices)]
    found = []
    for _, k, i in sorted(tried, reverse=True)[:3]:
        value, d, w = _climbed(rate_at(ANGLES[k]), choices[i], lower, upper)
        found.append((value, k, d, w))
    _, k, d, w = max(found, key=lambda one: one[:2])
    return _valued(case, target, d, w, float(ANGLES[k]))


def _tried(case: TrainingView, target: int) -> Attack:
    """The best of a few slopes, turns and plain sums that stay the same in all rounds."""
    w = np.ones(case.rows.shape[0])
    tries = [(d, float(angle)) for d in _choices(*_ends(case), target) for angle in ANGLES[::4]]
    return max((_valued(case, target, d, w, angle) for d, angle in tries), key=lambda attack: attack.squared)


def plain_attacks(case: TrainingView) -> tuple[np.ndarray, np.ndarray]:
    """What plain sums and slopes that stay the same attain against every hidden node, and the angle of each stream.

    Neither the loop nor the statistic depends on the target, so one pass over the rounds serves all of them.

    Guarantee: as for `best_attack`; 0 where the target does not take part in every round.
    """
    m = case.loop.unknown.size
    best, angles = np.zeros(m), np.zeros(m)
    pattern = _pattern(case)
    if not case.rows.shape[0] or case.over_informed or not pattern.size or pattern.size < case.charged:
        return best, angles
    lower, upper = _ends(case)
    w = np.ones(case.rows.shape[0])
    for d in (upper, lower, np.clip(0.0, lower, upper)):
        for angle in ANGLES[::4]:
            found = attained_by_each(
                _rotating_attack(d, w, float(angle)).stored(case), case.anyone, longest=LONGEST_OF_MANY
            )
            angles[found > best] = angle
            best = np.maximum(best, found)
    return best, angles


def lasting_rates(
    case: TrainingView, choices: Sequence[tuple[np.ndarray, np.ndarray, float]] | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What a round adds in the long run to the power against every hidden node, its angle, and that at angle 0.

        lim Δ²/T ≥ (λ)_j² / λᵀQλ,     λ = Cᵀw + e^{iθ} Aᵀ D λ   where that settles,

    for the slopes, weights and angles in `choices`; the ends of the ball and plain sums if None.

    Args:
        case: the view of training.
        choices: (slopes of all hidden nodes, weights of all rows, angle in radians), one after the other.

    Guarantee: as for `best_attack`, for the limit; 0 for loops that were not seen to settle.
    Source: as for `best_attack`; the first rounds do not matter in the limit.
    """
    best, angles, constant = np.zeros((3, case.loop.unknown.size))
    if not case.rows.shape[0] or case.over_informed:
        return best, angles, constant
    lower, upper = _ends(case)
    if choices is None:
        w = np.ones(case.rows.shape[0])
        slopes = (upper, lower, np.clip(0.0, lower, upper))
        choices = [(d, w, float(angle)) for d in slopes for angle in ANGLES[::4]]
    for d, w, angle in choices:
        found = rates_by_each(_rotating_attack(d, w, angle).stored(case), case.anyone)
        angles[found > best] = angle
        best = np.maximum(best, found)
        if angle == 0:
            constant = np.maximum(constant, found)
    return best, angles, constant


def rate_attack(case: TrainingView, target: int) -> tuple[float, float, float]:
    """The best rate found against one target, its angle, and the best for contributions that never change.

    Guarantee: that of `lasting_rates`, for slopes and weights that were searched for where there are few hidden
    nodes.
    """
    plain = tuple(float(values[target]) for values in lasting_rates(case))
    if case.loop.unknown.size > MOST_DENSE or not case.rows.shape[0] or case.over_informed:
        return plain[0], plain[1], plain[2]
    attack = _lasting(case, target)
    choice = (attack.slopes[0], attack.statistic[0], attack.angle)
    rate, angle, constant = (float(values[target]) for values in lasting_rates(case, [choice]))
    best = (rate, angle) if rate > plain[0] else plain[:2]
    return best[0], best[1], max(constant, plain[2])


def _rotating_attack(d: np.ndarray, w: np.ndarray, angle: float, squared: float = 0.0) -> Attack:
    """Slopes and weights that stay the same, and a stream that turns."""
    return Attack(
        squared=squared,
        slopes=d[None],
        statistic=w[None],
        contributions=np.ones(1, dtype=complex),
        angle=angle,
    )


def _valued(case: TrainingView, target: int, d: np.ndarray, w: np.ndarray, angle: float) -> Attack:
    """Such an attack with its power against one target."""
    longest = LONGEST if case.loop.unknown.size <= MOST_DENSE else LONGEST_OF_MANY
    made = _rotating_attack(d, w, angle)
    values = attained_by_each(made.stored(case), case.anyone, longest=longest)
    return replace(made, squared=float(values[target]))


def _changing(case: TrainingView, target: int, delta: np.ndarray, more: list[Attack]) -> Attack:
    """Slopes and directions that may differ from round to round, with the best statistic for them.

    For fixed slopes and stream δ the best weights solve (S Q Sᵀ) w = S_j δ over all rounds at once: S is what each
    row of each round shows of what entered before it, S_j its columns at the target. The power is δ*S_jᵀw. Then the
    slopes climb, and the stream is turned to where the statistic looks, δ_t = (λ_t)_j/|(λ_t)_j|, which is the best
    for that statistic; three times at most.

    Args:
        case: the view of training.
        target: a position among the hidden nodes.
        delta: 1 in rounds that take part and 0 in others, for as many rounds as are searched.
        more: attacks with slopes that stay the same, to begin from.
    """
    lower, upper = _ends(case)
    T = delta.size
    A, back = case.loop.transition, case.loop.transition.T.tocsr()
    levels = case.levels[case.loop.unknown]
    C = case.rows.toarray()
    p, m = C.shape

    def shown_by(D: np.ndarray) -> np.ndarray:
        """S as (round seen, row, round of entry, node): C in the same round, then (D_{s+1} A) once more a round."""
        shown = np.zeros((T, p, T, m))
        shown[np.arange(T), :, np.arange(T)] = C
        # What round t shows of round s is what it shows of round s + 1, one step back: for all later t at once.
        for s in range(T - 2, -1, -1):
            later = (shown[s + 1 :, :, s + 1] * D[s + 1]).reshape(-1, m)
            shown[s + 1 :, :, s] = np.asarray(back @ later.T).T.reshape(-1, p, m)
        return shown

    def power_of(stream: np.ndarray) -> Rate:
        def power(slopes: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
            D = slopes.reshape(T, m)
            shown = shown_by(D)
            flat = shown.reshape(T * p, T * m)
            signal = shown[:, :, :, target].reshape(T * p, T) @ stream
            w = np.linalg.lstsq((flat * np.tile(levels, T)) @ flat.T, signal, rcond=1e-11)[0]
            states = (w @ flat).reshape(T, m)
            # The derivative with w held at its best: run the loop forwards on what δ is above Qλ,
            # x_t = D_t A x_{t−1} + b δ_t − Q λ_t, and ∂/∂(d_t)_k = 2 Re(conj(λ_t)_k (A x_{t−1})_k).
            state, slope = np.zeros(m, dtype=complex), np.zeros((T, m))
            for t in range(T):
                moved = np.asarray(A @ state)
                slope[t] = 2 * (states[t].conj() * moved).real
                state = D[t] * moved - levels * states[t]
                state[target] += stream[t]
            return float((w.conj() @ signal).real), slope.ravel(), w

        return power

    few = T * T * p * m > MOST_NUMBERS
    ends, rng = _choices(lower, upper, target), np.random.default_rng(0)
    turned = [np.exp(1j * a.angle * np.arange(T)) for a in more] + [np.ones(T)] * len(ends)
    starts = [*zip([np.tile(d, T) for d in (*(a.slopes[0] for a in more), *ends)], turned, strict=True)]
    if T * m <= RANDOM_BELOW:
        for _ in range(RANDOM):
            tossed = np.where(rng.random(T * m) < 0.5, *np.tile([lower, upper], T))
            starts.append((tossed, rng.choice([-1.0, 1.0], T)))
    best: tuple[float, np.ndarray, np.ndarray, np.ndarray] = (-1.0, upper, np.zeros(0), delta)
    for first, turns in starts[: 1 if few else None]:
        stream, slopes = delta * turns, first
        for _ in range(3):
            value, slopes, w = _climbed(
                power_of(stream), slopes, np.tile(lower, T), np.tile(upper, T), most=8 if few else MOST_FLIPS
            )
            if value <= best[0] * (1 + 1e-6):
                break
            best = (value, slopes, w, stream)
            states = np.tensordot(w.reshape(T, p), shown_by(slopes.reshape(T, m))[..., target], 2)
            stream = np.where(delta != 0, states / np.maximum(np.abs(states), 1e-300), 0.0)
    slopes, w, stream = best[1].reshape(T, m), best[2].reshape(T, p), best[3]
    value = statistic_value(case, target, slopes, w, stream)
    return Attack(squared=value, slopes=slopes, statistic=w, contributions=stream)


def _climbed(
    rate: Rate, first: np.ndarray, lower: np.ndarray, upper: np.ndarray, *, most: int = MOST_FLIPS
) -> tuple[float, np.ndarray, np.ndarray]:
    """The value, slopes and weights after flips to the other end that promise most, as many at once as help.

    Flips are taken back unless they help: a third as many are tried then, twice as many after a success. It ends
    where no single flip helps, or after `most` rounds.
    """
    d = first.copy()
    value, slope, w = rate(d)
    share = 1.0
    for _ in range(most):
        other = np.where(slope > 0, upper, lower)
        gain = slope * (other - d)
        ready = np.flatnonzero(gain > 1e-12)
        if not ready.size:
            break
        order = ready[np.argsort(-gain[ready], kind="stable")]
        improved = False
        while True:
            chosen = order[: max(1, int(share * order.size))]
            tried = d.copy()
            tried[chosen] = other[chosen]
            reached, next_slope, next_w = rate(tried)
            if reached > value * (1 + 1e-12):
                d, value, slope, w = tried, reached, next_slope, next_w
                improved = True
                share = min(1.0, 2 * share)
                break
            if chosen.size == 1:
                break
            share /= 3
        if not improved:
            break
    return value, d, w
