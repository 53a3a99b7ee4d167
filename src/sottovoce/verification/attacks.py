# SPDX-License-Identifier: Apache-2.0
"""Evaluate an attack on training from below: what a statistic of the view tells about a linear loop in the ball.

Where every hidden node's map is linear with slope d_t^k inside its ball,

    s_t = D_t A s_{t−1} + b δ_t + u_t,     y_t = C s_t,

and a statistic Re Σ_t ⟨w_t, y_t⟩ moves by Re Σ_t conj(δ_t) (λ_t)_j against noise of variance Σ_t λ_t* Q λ_t, where

    λ_t = Cᵀ w_t + Aᵀ D_{t+1} λ_{t+1}.

So Δ² ≥ (Re Σ conj(δ_t) (λ_t)_j)² / Σ λ_t* Q λ_t. Complex numbers are points of the plane, in which models of two
dimensions live. Every λ is computed in floats beside a bound of how far each of its entries is off: products and
sums of k terms by at most (k + 2) units of 2⁻⁵³ of the same with absolute values, whatever their order.

An attack that lasts has the same D in all rounds and turns by an angle: seen in the turning plane λ does not change
once the loop has settled. With ρ = max_k |d_k| Σ_i |A_ki|, two λ that are s apart in the sum of absolute values are
at most ρ s apart one round earlier. So from a round on in which λ moves by s, it stays within s·left·max(1, ρ)^left
for all rounds that are left. Neither the loop nor the statistic knows the target: one pass serves all hidden nodes.

In the long run λ is where λ = Cᵀw + turn(AᵀDλ). With v > 0 and |d_k| Σ_i |A_ki| v_i ≤ ρ v_k, ρ < 1, the norm Σ v_k|x_k|
shrinks by ρ in a round, so that any λ̂ which a round moves by r_k is off by at most Σ v_i r_i / ((1 − ρ) v_k) at node k.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.verification.rounding import above, is_unit, roundings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.certificates import LoopAttack
    from sottovoce.verification.asked import TrainingQuestion

    Floats = NDArray[np.float64]

__all__ = ["attack_failure", "attained", "attained_by_each", "rates_by_each"]

# Rounds that are followed one by one. An attack that lasts longer is summed up once it has settled.
MOST_ROUNDS = 4096
# Products with an entry of A, and with a number of the statistic.
MOST_PRODUCTS = 400_000_000
# Slopes and weights beyond this could overflow in squares.
_LARGEST = 1e100


def attack_failure(attack: LoopAttack, asked: TrainingQuestion) -> str:
    """Why an attack is none in this ball, this view and this participation; empty if it is one.

    In order: its shape; rounds that can be seen; a view that shows what the statistic uses; slopes within the ball,
    to the bit; contributions within norm 1 and within an allowed pattern. Slopes are compared as floats with the
    ends of the ball, which are floats too, so no rounding can let one in.

    Guarantee: if empty, the attack is a pair of neighbouring runs of the protocol and a function of the view.
    """
    U, rows = asked.loop.unknown, asked.seen.pivots.size
    used = len(attack.slopes)
    if attack.slopes.shape[1] != U.size or attack.statistic.shape[1] != rows:
        return (
            f"it needs a slope for each of the {U.size} hidden nodes and a number for each of the {rows} rows "
            "that are seen"
        )
    if used > min(asked.charged, MOST_ROUNDS):
        return f"it uses {used} rounds, of which {min(asked.charged, MOST_ROUNDS)} are looked at"
    if asked.over_informed:
        return "it would use what flows into a node whose inflow the view does not show"
    # Nothing was sent before the first round, so that the slopes of an attack that changes meet nothing there.
    met = attack.slopes if attack.angle is not None else attack.slopes[1:]
    if attack.angle is None and attack.slopes[0].any():
        return "its slopes of the first round, which meet nothing, must be 0"
    if asked.slopes is not None:
        inside = (asked.slopes.lower[U] <= met) & (met <= asked.slopes.upper[U])
        if not inside.all():
            t, k = np.argwhere(~inside)[0]
            return f"its slope {float(met[t, k])!r} of hidden node {k} lies outside the ball"
    if max(np.abs(attack.slopes).max(initial=0), np.abs(attack.statistic).max(initial=0)) > _LARGEST:
        return f"its numbers must stay below {_LARGEST:g}"
    longest = float(np.hypot(*attack.contributions.T).max())
    if not is_unit(longest):
        return f"its contributions must stay within norm 1; one has {longest!r}"
    if attack.angle is not None:
        fits = asked.participation.kind == "full"
    else:
        taken = np.flatnonzero(attack.contributions.any(axis=1))
        fits = asked.participation.allows(taken, asked.rounds)
    return "" if fits else f"it contributes in rounds that {asked.participation} does not allow"


def attained(attack: LoopAttack, asked: TrainingQuestion) -> float:
    """A lower bound of what an attack without `attack_failure` attains.

    Guarantee: at most (Re Σ conj(δ_t) (λ_t)_j)² / Σ λ_t* Q λ_t with contributions brought to norm 1 at most, all
    rounding counted; so Δ² of the linear loop, and the largest Δ² of the ball, is at least this.
    Source: Neyman–Pearson for a shift of a Gaussian statistic.
    """
    return float(attained_by_each(attack, asked)[asked.loop.position(asked.target)])


def attained_by_each(attack: LoopAttack, asked: TrainingQuestion, *, longest: int = MOST_ROUNDS) -> Floats:
    """The same against every hidden node, by position, whatever the target of the question.

    `longest` is how many rounds are followed one by one at most, where an attack turns.

    Guarantee: that of `attained`, for each.
    """
    with np.errstate(all="ignore"):
        values = (
            _lasting(attack, asked, longest) if attack.angle is not None else _changing(attack, asked)
        ) * _shrunk(attack)
    return np.where(np.isfinite(values), values, 0.0)


def rates_by_each(attack: LoopAttack, asked: TrainingQuestion) -> Floats:
    """What each further round adds in the long run to the power of an attack that turns, against every hidden node.

        lim Δ²/T ≥ (Re conj(δ) λ_j)² / λ* Q λ,     λ = Cᵀw + turn(AᵀDλ).

    Guarantee: lower bounds, rounding included; 0 where powers of |D||A| were not seen to fade.
    Source: Neyman–Pearson for a shift of a Gaussian statistic; the first rounds do not matter in the limit.
    """
    assert attack.angle is not None
    slopes, nothing = attack.slopes[0], np.zeros(asked.loop.unknown.size)
    weights, left = _fading(asked, np.abs(slopes))
    if not left > 0:
        return nothing
    shown = _shown(asked, attack.statistic[0])
    state = _settled(asked, attack, shown[0])
    following, off = _earlier(asked, attack, shown, state, nothing)
    moved = np.abs(following - state).sum(axis=1) + off
    # Sums of m numbers, and what is left of 1 − ρ, each rounded to the safe side.
    units = roundings(nothing.size + 16)
    error = float(weights @ moved) * (1 + units) / (left * weights) * (1 + roundings(8))
    signal = np.abs(state @ attack.contributions[0]) * (1 - roundings(8))
    signal -= roundings(8) * np.abs(state).sum(axis=1) + np.abs(attack.contributions[0]).sum() * error
    variance = _energy(asked, state, error)
    rates = np.square(np.maximum(signal, 0.0)) / variance * _shrunk(attack) if variance > 0 else nothing
    return np.where(np.isfinite(rates), rates, 0.0)


def _settled(asked: TrainingQuestion, attack: LoopAttack, shown: Floats) -> Floats:
    """Where λ ← Cᵀw + turn(Aᵀ D λ) goes.

    Guarantee: none; what it still moves by is counted where it is used.
    """
    assert attack.angle is not None
    back, slopes = asked.loop.backwards[0], attack.slopes[0] * np.exp(1j * attack.angle)
    start = state = shown[:, 0] + 1j * shown[:, 1]
    for _ in range(MOST_ROUNDS):
        following = start + back @ (slopes * state)
        moved = float(np.abs(following - state).sum())
        state = following
        if not moved > 1e-15 * float(np.abs(state).sum()):
            break
    return np.column_stack([state.real, state.imag])


def _fading(asked: TrainingQuestion, sizes: Floats) -> tuple[Floats, float]:
    """Weights v with |d_k| Σ_i |A_ki| v_i ≤ ρ v_k, and 1 − ρ from below; not positive where none were found.

    v = Σ_{l < L} (|D||A|)^l 1, until the next term is at most a half, or far too large.
    """
    loop = asked.loop
    term = weights = np.ones(sizes.size)
    for _ in range(MOST_ROUNDS):
        term = sizes * np.asarray(loop.sizes @ term)
        if not 0.5 < float(term.max(initial=0.0)) < _LARGEST:
            break
        weights = weights + term
    terms = int(np.diff(loop.transition.indptr).max(initial=0))
    reached = sizes * np.asarray(loop.sizes @ weights) * (1 + roundings(terms + 8))
    return weights, float((1 - reached / weights).min(initial=1.0)) - roundings(4)


def _shrunk(attack: LoopAttack) -> float:
    """What bringing contributions to norm 1 at most, and a few roundings, leave of a power, from below."""
    longest = max(1.0, float(np.hypot(*attack.contributions.T).max()) * (1 + roundings(8)))
    return (1 - roundings(24)) / longest**2


@dataclass
class _Sums:
    """Signals and variance over `added` rounds, with what each signal may be off by; the variance is rounded up.

        signal_j = Re Σ conj(δ_t)(λ_t)_j,     variance ≥ Σ λ_t* Q λ_t,     |signal − truth| ≤ off,

    and `value` is what these prove of Δ², for each hidden node j.
    """

    signal: Floats
    off: Floats
    variance: float = 0.0
    added: int = 0

    @classmethod
    def of(cls, count: int) -> _Sums:
        """Nothing summed yet, for so many hidden nodes."""
        return cls(np.zeros(count), np.zeros(count))

    def add(self, asked: TrainingQuestion, state: Floats, error: Floats, contribution: Floats) -> None:
        """Take in one round: λ as points of the plane, how far off each may be, and δ.

        Guarantee: `off` grows by |δ|·error_j and by 8u for an inner product of two terms and the running sum.
        """
        sizes = np.abs(contribution)
        self.signal = self.signal + state @ contribution
        self.off = self.off + sizes.sum() * error
        self.off += roundings(8) * (np.abs(state) @ sizes + np.abs(self.signal))
        self.variance += _energy(asked, state, error)
        self.added += 1

    def value(self) -> Floats:
        """What the sums prove; their own rounding grows with the number of rounds that were added up.

        Guarantee: (|signal| − off)²/variance from below; T additions of `off` and `variance` lose at most T·u each,
        and 4(T + 8)u are added.
        """
        units = 1 + roundings(4 * (self.added + 8))
        safe = np.maximum(np.abs(self.signal) - self.off * units, 0.0)
        return safe * safe / (self.variance * units) if self.variance > 0 else np.zeros_like(safe)


def _energy(asked: TrainingQuestion, state: Floats, error: Floats) -> float:
    """Σ q |λ|², rounded up.

    Guarantee: an upper bound. (m + 16)u cover the sum of m terms, hypot (2u) and its square, two products, and 2u
    for the levels, which are squares rounded *down*.
    """
    sizes: Floats = np.hypot(state[:, 0], state[:, 1]) + error
    levels = asked.levels[asked.loop.unknown]
    return float(levels @ np.square(sizes)) * (1 + roundings(sizes.size + 16))


def _shown(asked: TrainingQuestion, weights: Floats) -> tuple[Floats, Floats]:
    """Cᵀw over the hidden nodes, and its rounding: w at the pivots, and what the solved rows make of it elsewhere.

    The rows that w weighs are those of the reduced echelon form [I, S], which span what is seen.

    Guarantee: the error is at most (k + 4)u |S|ᵀ|w|, k the pivots: a sum of k products and the rounding of S (E1).
    """
    seen, m = asked.seen, asked.loop.unknown.size
    back, sizes = seen.backwards
    full, error = np.zeros((m, 2)), np.zeros(m)
    full[seen.pivots] = weights
    full[seen.free] = back @ weights
    units = above(roundings(seen.pivots.size + 4))
    error[seen.free] = units * (sizes @ np.abs(weights).sum(axis=1))
    return full, error


def _back(asked: TrainingQuestion, slopes: Floats, state: Floats, error: Floats) -> tuple[Floats, Floats]:
    """Aᵀ D λ and its rounding, for λ off by `error`.

    Guarantee: |fl − truth| ≤ |A|ᵀ(|D| error + (k + 6 + ρ)u |D λ̂|): k terms of a column of A, ρ units of its
    entries, one product with D, the rest to spare; the bound itself is rounded up by twice as much.
    """
    back, sizes, terms = asked.loop.backwards
    bent = slopes[:, None] * state
    units = above(roundings(terms + 6 + asked.loop.relative))
    carried = (np.abs(slopes) * error) * (1 + 2 * units) + units * np.abs(bent).sum(axis=1)
    return np.asarray(back @ bent), np.asarray(sizes @ carried) * (1 + 2 * units)


def _changing(attack: LoopAttack, asked: TrainingQuestion) -> Floats:
    """The values of an attack whose rounds are stored one by one.

        λ_t = Cᵀw_t + Aᵀ D_{t+1} λ_{t+1},   from the last round back to the first, λ = 0 behind it

    Guarantee: that of `attained`: each step carries a bound of how far its floats are from the truth.
    """
    m = asked.loop.unknown.size
    sums = _Sums.of(m)
    state, error = np.zeros((m, 2)), np.zeros(m)
    rounds = len(attack.slopes)
    for t in range(rounds - 1, -1, -1):
        # λ_t = Cᵀ w_t + Aᵀ D_{t+1} λ_{t+1}
        state, error = _joined(_shown(asked, attack.statistic[t]), (state, error))
        sums.add(asked, state, error, attack.contributions[t])
        state, error = _back(asked, attack.slopes[t], state, error)
    return sums.value()


def _joined(one: tuple[Floats, Floats], other: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """The sum of two vectors of points, and its rounding: u of each coordinate, and 2u stand for both together."""
    sizes = (np.abs(one[0]) + np.abs(other[0])).sum(axis=1)
    return one[0] + other[0], (one[1] + other[1]) * (1 + roundings(4)) + roundings(2) * sizes


def _earlier(
    asked: TrainingQuestion,
    attack: LoopAttack,
    shown: tuple[Floats, Floats],
    state: Floats,
    error: Floats,
) -> tuple[Floats, Floats]:
    """Cᵀw + turn(Aᵀ D λ) and its rounding, for λ off by `error`.

    Guarantee: cosine and sine round by one unit in the last place and a rotation by a few more, for which 8u stand.
    """
    assert attack.angle is not None
    cosine, sine = math.cos(attack.angle), math.sin(attack.angle)
    moved, off = _back(asked, attack.slopes[0], state, error)
    turned = np.column_stack(
        [cosine * moved[:, 0] - sine * moved[:, 1], sine * moved[:, 0] + cosine * moved[:, 1]]
    )
    off = off * (1 + roundings(8)) + roundings(8) * np.abs(moved).sum(axis=1)
    return _joined(shown, (turned, off))


def _lasting(attack: LoopAttack, asked: TrainingQuestion, longest: int) -> Floats:
    """The values of an attack that turns: over all rounds once it has settled, or over the first rounds alone.

    Seen in the turning plane: λ ← Cᵀw + turn(Aᵀ D λ). The rounds at the end of the run come first. Those summed so
    far are an attack by themselves, with nothing contributed before them, so the better of both values counts.

    Guarantee: lower bounds.
    """
    loop, shown = asked.loop, _shown(asked, attack.statistic[0])
    sums = _Sums.of(loop.unknown.size)
    rounds = min(asked.charged, longest, max(1, MOST_PRODUCTS // (loop.transition.nnz + loop.unknown.size)))
    state, error = shown
    while True:
        sums.add(asked, state, error, attack.contributions[0])
        following, following_off = _earlier(asked, attack, shown, state, error)
        step, floor = float(np.abs(following - state).sum()), float((following_off + error).sum())
        if sums.added == rounds or step <= floor:
            apart = above(step + floor + roundings(1) * float(np.abs(following).sum()))
            whole = _all_rounds(attack, asked, sums, (following, following_off), apart)
            return np.maximum(sums.value(), whole)
        state, error = following, following_off


def _all_rounds(
    attack: LoopAttack,
    asked: TrainingQuestion,
    sums: _Sums,
    settled: tuple[Floats, Floats],
    apart: float,
) -> Floats:
    """The values over all rounds where some are summed up and λ then moves by `apart` to `settled`, off by its second.

    λ of each of the `left` rounds is within drift = apart·left·max(1, ρ)^left of that, ρ = `reach`: in the sum
    of Euclidean lengths of its points, which turning does not change and which AᵀD stretches by at most ρ. Where
    ρ^left exceeds e nothing is claimed of all rounds.

    Guarantee: signal from below, variance from above, both with the drift in them; 0 where nothing is proved.
    """
    loop, contribution, (state, error) = asked.loop, attack.contributions[0], settled
    left = asked.charged - sums.added
    rows = np.asarray(loop.sizes.sum(axis=1)).ravel()
    terms = int(np.diff(loop.transition.indptr).max(initial=0))
    reach = float((np.abs(attack.slopes[0]) * rows).max()) * (1 + roundings(terms + 8))
    growth = left * math.log(max(1.0, reach))
    if not growth < 1:
        return np.zeros_like(sums.signal)
    drift = above(apart * left * math.exp(growth))
    each = state @ contribution
    loose = np.abs(contribution).sum() * (error + drift) + roundings(8) * np.abs(state).sum(axis=1)
    largest = math.sqrt(float(asked.levels[loop.unknown].max()))
    energy = (math.sqrt(_energy(asked, state, error)) + largest * drift) ** 2
    whole = _Sums(
        signal=sums.signal + left * each,
        off=sums.off + left * loose + roundings(8) * np.abs(left * each),
        variance=(sums.variance + left * energy) * (1 + roundings(16)),
        added=sums.added,
    )
    return whole.value()
