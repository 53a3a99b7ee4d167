# SPDX-License-Identifier: Apache-2.0
"""The matrix inequality of one target: set up, solved, and turned into a proof that a machine has checked.

A step of a proof holds Π_t = X_t X_tᵀ (what differences of round t may be let pass unseen, C X_t = 0), β_t and κ_t.
It is paid for if, with M = A Π_{t−1} Aᵀ,

    F_t = [ Q + Π_t − β_t − κ_t b bᵀ − c M c      − c M r  ]
          [           − r M c                     β_t − r M r ]  ⪰ 0,

so an inequality ties two steps that follow each other, and Δ² ≤ Σ δ_t²/κ_t. Π_0 = 0: before the first contribution
nothing differs. In the last round Π may be infinite on what is not seen: no round comes after it that could show
it. The forms differ in which steps are free:

    recurring step    Π = Π_{t−1} = Π_t            one step, T/κ
    round by round    Π_0 = 0, Π_1, …, Π_T = ∞     T steps, the best there is
    layered           a few steps from 0 to Π, Π as often as need be, a few from Π to ∞
    periodic          Π_1, …, Π_k, Π_1, …          κ in the first of k only

Π = basis P basisᵀ with P = L Lᵀ is looked for in the span of the columns of `basis` (m × q, m hidden nodes), and
nodes of a group share one β/q. Both only restrict the search. The basis, the groups, the gap and the start are
speed; soundness is `proved` alone, where `sottovoce.verification.shift` checks every pair of steps with rounding
counted.

Theorem 1 of docs/training.md is the proof; "How it is solved and proved" there says what the check does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.certificates import ShiftProof, ShiftStep
from sottovoce.feedback.barrier import minimise
from sottovoce.feedback.phases import Phase, Rows, Solution
from sottovoce.feedback.subspaces import MOST_COLUMNS, groups_by, unseen_basis
from sottovoce.verification import check_shift

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.feedback.problem import TrainingView

__all__ = [
    "Proved",
    "Setting",
    "layered",
    "periodic",
    "proved",
    "recurring_step",
    "round_by_round",
    "setting",
    "steps_of",
]

# The last round lets pass what it does not show: in the search the factor of P is this large there, P its square.
OPEN = 1e3
# How much of (Π, β, κ) is given up for (0, q/2, q/4), at most, to make up for rounding.
REPAIRS = (0.0, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
# A β/q that many nodes share stays below this. The check needs a column of its own for each node where q − β is
# below q/1000, and a group may have a hundred thousand nodes.
SHARED_AT_MOST = 0.998
# Periods up to this many rounds have a step for each; in longer ones a contribution is forgotten after so many.
MOST_PERIOD = 12
# Multipliers that the steps of a period may hold.
MOST_NUMBERS = 2_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Proved:
    """A proof that was checked, and the bound on Δ² that the check came to.

    `squared_upper` is for all rounds of the question, in units in which a contribution has norm 1 and σ is 1.
    """

    proof: ShiftProof
    squared_upper: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Setting:
    """A basis of what is not seen, groups of nodes that share a β, and the rows of the inequality in these terms.

    `target` is a position among the m hidden nodes of `case`, `basis` is m × q with orthonormal columns in the
    kernel of C (to rounding), `groups` are arrays of positions that cover all m, and `rows` holds [B₁ B₂ b] over
    them, divided by the deviation of each node's noise.
    """

    case: TrainingView
    target: int
    basis: np.ndarray
    groups: tuple[np.ndarray, ...]
    rows: Rows

    def step(self, factor: np.ndarray, beta: np.ndarray, kappa: float, *, last: bool = False) -> ShiftStep:
        """A solution of one phase over all nodes: X = basis L, β q for every hidden node, 0 for the others.

        Args:
            factor: L, q × q, with P = L Lᵀ.
            beta: one number for each group, in units of the noise level of a node.
            kappa: κ; 0 where the target does not contribute.
            last: whether all that the last round does not show may pass, so that there is no factor.

        Guarantee: none yet, a step is a claim. `proved` turns claims into bounds.
        """
        case, loop = self.case, self.case.loop
        multipliers = np.zeros(case.protocol.n)
        for g, nodes in enumerate(self.groups):
            value = min(beta[g], SHARED_AT_MOST) if nodes.size > 1 else beta[g]
            multipliers[loop.unknown[nodes]] = value * case.levels[loop.unknown[nodes]]
        support = self.support
        X = np.zeros((0, 0)) if last else (self.basis @ factor)[support]
        return ShiftStep(factor=X, multipliers=multipliers, kappa=float(kappa), last=last)

    @property
    def unknowns(self) -> int:
        """How many numbers one phase of a chain asks for: those of P, a β for each group, and κ."""
        q = int(self.basis.shape[1])
        return q * (q + 1) // 2 + len(self.groups) + 1

    @property
    def support(self) -> np.ndarray:
        """The positions at which the basis is not 0: the proof stores rows of factors for these alone."""
        return np.flatnonzero(np.any(self.basis != 0, axis=1))


def setting(
    case: TrainingView,
    target: int,
    *,
    columns: int = MOST_COLUMNS,
    basis: np.ndarray | None = None,
    influence: np.ndarray | None = None,
) -> Setting:
    """The inequality for the hidden node at position `target`, in a basis of so many columns and in groups.

    Its rows are [X, c A X, b] above and [0, r A X, 0] below, each divided by √q_k of its node, so that Q becomes 1.

    Args:
        case: the view of training, with slopes.
        target: a position among the hidden nodes.
        columns: how many columns `unseen_basis` may take, if no basis is given.
        basis: columns that are not seen.
        influence: how much a node matters, which decides who has a β of its own; what the basis says if None.

    Guarantee: a restriction of Theorem 1's inequality, so what is feasible here is feasible there, up to rounding.
    Source: Theorem 1 of docs/training.md.
    """
    assert case.slopes is not None
    loop = case.loop
    X = unseen_basis(case, target, most=columns) if basis is None else basis
    moved = np.asarray(loop.transition @ X)
    c, r = case.slopes.centre[loop.unknown], case.slopes.radius[loop.unknown]
    noise = np.sqrt(case.levels[loop.unknown])
    b = np.zeros((loop.unknown.size, 1))
    b[target] = 1.0
    upper = np.hstack([X, c[:, None] * moved, b]) / noise[:, None]
    lower = np.hstack([np.zeros_like(X), r[:, None] * moved, np.zeros_like(b)]) / noise[:, None]
    if influence is None:
        influence = (moved**2).sum(axis=1) + (X**2).sum(axis=1)
        influence[target] = np.inf
    groups = tuple(groups_by(influence))
    return Setting(case=case, target=target, basis=X, groups=groups, rows=Rows.grouped(upper, lower, groups))


def recurring_step(
    case: TrainingView, target: int, *, gap: float = 1e-5, columns: int = MOST_COLUMNS
) -> tuple[Setting, Solution]:
    """One Π, β and κ for all rounds: the best rate 1/κ that the basis allows.

    With more nodes than groups it is solved twice: the first solution says which nodes matter.

    Guarantee: a search; 1/κ is the cost of a round once `proved` has had the step. The same step serves every
    number of rounds, because Π_0 = 0 ⪯ Π: the first round has even more room.
    Source: Theorem 1 of docs/training.md with Π_t = Π for all t.

    >>> from sottovoce import View, graphs
    >>> from sottovoce.feedback.problem import training
    >>> star = training(graphs.metropolis_weights("star:n=3"), View.secure_sum(0), rounds=9, updates=(0, 1))
    >>> here, found = recurring_step(star, 0)
    >>> here.basis.shape, round(1 / float(found.kappas[0]), 4)  # 9/10 is attained
    ((2, 1), 0.9)
    """
    first = setting(case, target, columns=columns)
    chain = [Phase(previous=0, weight=1.0)]
    if len(first.groups) == case.loop.unknown.size:
        return first, minimise(first.rows, chain, gap=gap)
    # What flows into a node, (A Π Aᵀ)_kk, is what its β has to cover; its own part Π_kk counts for little.
    rough = minimise(first.rows, chain, gap=1e-2)
    X = first.basis @ rough.factors[0]
    influence = ((case.loop.transition @ X) ** 2).sum(axis=1) + 1e-3 * (X**2).sum(axis=1)
    influence[target] = np.inf
    second = setting(case, target, basis=first.basis, influence=influence)
    return second, minimise(second.rows, chain, gap=gap)


def proved(
    place: Setting,
    *,
    start: Sequence[ShiftStep] = (),
    recurring: Sequence[ShiftStep] = (),
    end: Sequence[ShiftStep] = (),
) -> Proved | None:
    """The proof by these steps, repaired as little as need be to stand a check that counts rounding; None if it fails.

    (0, q/2, q_min/4) is strictly feasible, so a blend (1 − τ)(Π, β, κ) + τ(0, q/2, q_min/4) makes up for a small
    violation, at the cost of a part τ of κ. F is linear in all of them, so blending every step by the same τ blends
    every F.

    Args:
        place: the basis and the target that the steps speak of.
        start: the steps of the first rounds.
        recurring: steps that recur after these.
        end: the steps of the last rounds.

    Guarantee: an upper bound on Δ², rounding counted, for all update maps in the ball: what `check_shift` says,
    which takes nothing from the search but these numbers.
    Source: Theorem 1 of docs/training.md; "Rounding in the check" there.
    """
    case = place.case
    asked = case.about(int(case.loop.unknown[place.target]))
    for share in REPAIRS:
        first, repeated, last = (
            tuple(_blend(case, step, share) for step in steps) for steps in (start, recurring, end)
        )
        proof = ShiftProof(
            method="shift",
            support=case.loop.unknown[place.support],
            start=first,
            recurring=repeated,
            end=last,
        )
        check = check_shift(proof, asked)
        if check.holds:
            return Proved(proof=proof, squared_upper=check.squared_upper)
    return None


def _blend(case: TrainingView, step: ShiftStep, share: float) -> ShiftStep:
    """A step moved towards the feasible one that lets nothing pass.

    Nodes without a radius need no β, and get none. A step without κ keeps none: it is not charged.
    """
    hidden = np.zeros(case.protocol.n)
    hidden[case.loop.unknown] = 1.0
    assert case.slopes is not None
    middle = np.where(case.slopes.radius > 0, case.levels / 2, 0.0) * hidden
    kappa = (1 - share) * step.kappa + (share * float(case.levels.min()) / 4 if step.kappa else 0.0)
    return ShiftStep(
        factor=step.factor * np.sqrt(1 - share),
        multipliers=(1 - share) * step.multipliers + share * middle,
        kappa=kappa,
        last=step.last,
    )


def round_by_round(place: Setting, weights: np.ndarray, *, gap: float = 1e-5) -> Proved | None:
    """A step of its own for each round: the least Σ w_t/κ_t that the basis allows.

    Args:
        place: basis, groups and rows.
        weights: δ_t² of each round, 1 or 0; a round of weight 0 has no κ, and only carries differences on.
        gap: how close to the optimum the search goes, as a part of it.

    Guarantee: that of `proved`; None where the check fails.
    Source: Theorem 1 of docs/training.md, round by round.

    >>> from sottovoce import View, graphs
    >>> from sottovoce.feedback.problem import training
    >>> star = training(graphs.metropolis_weights("star:n=3"), View.secure_sum(0), rounds=2, updates=(0, 1))
    >>> round(round_by_round(setting(star, 0), np.ones(2)).squared_upper, 4)  # 13/10; averaging would say 1
    1.3
    """
    # Phase t follows phase t − 1, the first follows nothing, and the last one may let everything pass.
    q, last = place.basis.shape[1], len(weights) - 1
    chain = [
        Phase(previous=t - 1 if t else None, weight=float(w), given=OPEN * np.eye(q) if t == last else None)
        for t, w in enumerate(weights)
    ]
    found = minimise(place.rows, chain, gap=gap)
    return proved(place, end=steps_of(place, found, last=True))


def periodic(place: Setting, period: int, *, gap: float = 1e-5) -> Proved | None:
    """Steps that recur every `period` rounds, the target contributing in the first of them only.

    In a long period what is left of a contribution after some rounds is cancelled whole, and nothing is let pass until
    the next one. None where the steps of a period would be too many numbers.

    Guarantee: that of `proved`; each contribution costs 1/κ of the first step, however many periods follow.
    Source: Theorem 1 of docs/training.md, round by round, with Π_{t+k} = Π_t.
    """
    if period > MOST_PERIOD:
        return _forgetting(place, period, gap=gap)
    # A ring of phases: the first follows the last, and it alone is charged.
    chain = [Phase(previous=(p - 1) % period, weight=float(p == 0)) for p in range(period)]
    found = minimise(place.rows, chain, gap=gap)
    return proved(place, recurring=steps_of(place, found, last=False))


def _forgetting(place: Setting, period: int, *, gap: float) -> Proved | None:
    """Steps after a contribution that end with Π = 0, which then stays.

    With Π = 0 the noise cancels what is left of the difference in that round, and (0, 0, −) holds in every round
    after it without cost, since nothing differs any more. So a period of any length has `MOST_PERIOD` steps to
    solve for.
    """
    if period * place.case.protocol.n > MOST_NUMBERS:
        return None
    last, q = MOST_PERIOD - 1, place.basis.shape[1]
    chain = [
        Phase(
            previous=p - 1 if p else None,
            weight=float(p == 0),
            given=np.zeros((q, q)) if p == last else None,
        )
        for p in range(MOST_PERIOD)
    ]
    found = minimise(place.rows, chain, gap=gap)
    nothing = ShiftStep(
        factor=np.zeros((place.support.size, 0)), multipliers=np.zeros(place.case.protocol.n), kappa=0.0
    )
    idle = (nothing,) * (period - MOST_PERIOD)
    return proved(place, recurring=(*steps_of(place, found, last=False), *idle))


def layered(place: Setting, recurring: Solution, length: int, *, gap: float = 1e-4) -> Proved | None:
    """A start that grows to the recurring Π, the recurring step in between, and an end: the work does not depend on T.

    Δ² ≤ Σ_{start} 1/κ_t + (T − 2h)/κ + Σ_{end} 1/κ_t, h the `length` of either end. The rate stays 1/κ; what is
    gained is a constant, worth having as long as T is not much longer than differences live.

    Guarantee: that of `proved`; None where the check fails.
    Source: Theorem 1 of docs/training.md, round by round, with Π_t = Π in the middle.
    """
    Pi, q = recurring.factors[0], place.basis.shape[1]
    wide = np.linalg.cholesky(Pi @ Pi.T + OPEN**2 * np.eye(q))
    growing = [
        Phase(previous=t - 1 if t else None, weight=1.0, given=Pi if t == length - 1 else None)
        for t in range(length)
    ]
    # The first phase of the end stands for the recurring step before it and is not used.
    ending = [Phase(previous=None, weight=0.0, given=Pi)] + [
        Phase(previous=t, weight=1.0, given=wide if t == length - 1 else None) for t in range(length)
    ]
    # The recurring solution is feasible for both: at the start less stands before it, at the end more may pass.
    start = minimise(place.rows, growing, gap=gap, start=_repeated(recurring, [1.0] * length))
    end = minimise(place.rows, ending, gap=gap, start=_repeated(recurring, [0.0, *[1.0] * length]))
    return proved(
        place,
        start=steps_of(place, start, last=False),
        recurring=steps_of(place, recurring, last=False),
        end=steps_of(place, end, last=True)[1:],
    )


def _repeated(recurring: Solution, weights: Sequence[float]) -> Solution:
    """The recurring solution in every phase of a chain, a feasible point to start from; no κ without a weight."""
    return Solution(
        factors=recurring.factors * len(weights),
        multipliers=recurring.multipliers * len(weights),
        kappas=recurring.kappas[0] * np.array(weights),
        steps=0,
        closed=False,
    )


def steps_of(place: Setting, found: Solution, *, last: bool) -> tuple[ShiftStep, ...]:
    """The phases of a solution as steps, the last one open if it is that of the last round.

    Guarantee: none yet, steps are claims; see `proved`.
    """
    count = len(found.factors)
    return tuple(
        place.step(found.factors[p], found.multipliers[p], found.kappas[p], last=last and p == count - 1)
        for p in range(count)
    )
