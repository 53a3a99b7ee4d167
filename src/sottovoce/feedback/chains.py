# SPDX-License-Identifier: Apache-2.0
"""The matrix inequality of one target: set up, solved, and turned into a proof that a machine has checked."""

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

    from sottovoce.feedback.problem import Training

__all__ = [
    "Proved",
    "Setting",
    "layered",
    "periodic",
    "proved",
    "round_by_round",
    "setting",
    "steady",
    "steps_of",
]

# The last round lets pass what it does not show: in the search P is this large there.
OPEN = 1e3
# How much of (Π, β, κ) is given up for (0, q/2, q/4), at most, to make up for rounding.
REPAIRS = (0.0, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
SHARED_AT_MOST = 0.998
# Periods up to this many rounds have a step for each; in longer ones a contribution is forgotten after so many.
MOST_PERIOD = 12
# Multipliers that the steps of a period may hold.
MOST_NUMBERS = 2_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Proved:
    """A proof that was checked, and the bound on Δ² that the check came to."""

    proof: ShiftProof
    squared_upper: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Setting:
    """A basis of what is not seen, groups of nodes that share a β, and the rows of the inequality in these terms."""

    case: Training
    target: int
    basis: np.ndarray
    groups: tuple[np.ndarray, ...]
    rows: Rows

    def step(self, factor: np.ndarray, beta: np.ndarray, kappa: float, *, last: bool = False) -> ShiftStep:
        """A solution of one phase over all nodes."""
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
        """How many numbers one phase of a chain asks for."""
        q = int(self.basis.shape[1])
        return q * (q + 1) // 2 + len(self.groups) + 1

    @property
    def support(self) -> np.ndarray:
        """The positions at which the basis is not 0."""
        return np.flatnonzero(np.any(self.basis != 0, axis=1))


def setting(
    case: Training,
    target: int,
    *,
    columns: int = MOST_COLUMNS,
    basis: np.ndarray | None = None,
    influence: np.ndarray | None = None,
) -> Setting:
    """The inequality for the hidden node at position `target`, in a basis of so many columns and in groups."""
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


def steady(
    case: Training, target: int, *, gap: float = 1e-5, columns: int = MOST_COLUMNS
) -> tuple[Setting, Solution]:
    """One Π, β and κ for all rounds: the best rate 1/κ that the basis allows.

    With more nodes than groups it is solved twice: the first solution says which nodes matter.
    """
    first = setting(case, target, columns=columns)
    chain = [Phase(previous=0, weight=1.0)]
    if len(first.groups) == case.loop.unknown.size:
        return first, minimise(first.rows, chain, gap=gap)
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
    bulk: Sequence[ShiftStep] = (),
    end: Sequence[ShiftStep] = (),
) -> Proved | None:
    """The proof by these steps, repaired as little as need be to stand a check that counts rounding; None if it fails.

    (0, q/2, q_min/4) is strictly feasible, so a blend (1 − τ)(Π, β, κ) + τ(0, q/2, q_min/4) makes up for a small
    violation, at the cost of a part τ of κ.
    """
    case = place.case
    asked = case.about(int(case.loop.unknown[place.target]))
    for share in REPAIRS:
        first, recurring, last = (
            tuple(_blend(case, step, share) for step in steps) for steps in (start, bulk, end)
        )
        proof = ShiftProof(
            method="shift",
            support=case.loop.unknown[place.support],
            start=first,
            bulk=recurring,
            end=last,
        )
        check = check_shift(proof, asked)
        if check.holds:
            return Proved(proof=proof, squared_upper=check.squared_upper)
    return None


def _blend(case: Training, step: ShiftStep, share: float) -> ShiftStep:
    """A step moved towards the feasible one that lets nothing pass."""
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
    """A step of its own for each round: the least Σ w_t/κ_t that the basis allows."""
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
    """
    if period > MOST_PERIOD:
        return _forgetting(place, period, gap=gap)
    chain = [Phase(previous=(p - 1) % period, weight=float(p == 0)) for p in range(period)]
    found = minimise(place.rows, chain, gap=gap)
    return proved(place, bulk=steps_of(place, found, last=False))


def _forgetting(place: Setting, period: int, *, gap: float) -> Proved | None:
    """Steps after a contribution that end with Π = 0, which then stays."""
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
    return proved(place, bulk=(*steps_of(place, found, last=False), *idle))


def layered(place: Setting, bulk: Solution, length: int, *, gap: float = 1e-4) -> Proved | None:
    """A start that grows to the steady Π, the steady step in between, and an end: the cost does not depend on T."""
    Pi, q = bulk.factors[0], place.basis.shape[1]
    wide = np.linalg.cholesky(Pi @ Pi.T + OPEN**2 * np.eye(q))
    growing = [
        Phase(previous=t - 1 if t else None, weight=1.0, given=Pi if t == length - 1 else None)
        for t in range(length)
    ]
    # The first phase of the end stands for the steady step before it and is not used.
    ending = [Phase(previous=None, weight=0.0, given=Pi)] + [
        Phase(previous=t, weight=1.0, given=wide if t == length - 1 else None) for t in range(length)
    ]
    start = minimise(place.rows, growing, gap=gap, start=_repeated(bulk, [1.0] * length))
    end = minimise(place.rows, ending, gap=gap, start=_repeated(bulk, [0.0, *[1.0] * length]))
    return proved(
        place,
        start=steps_of(place, start, last=False),
        bulk=steps_of(place, bulk, last=False),
        end=steps_of(place, end, last=True)[1:],
    )


def _repeated(bulk: Solution, weights: Sequence[float]) -> Solution:
    """The steady solution in every phase of a chain: a feasible point to start from."""
    return Solution(
        factors=bulk.factors * len(weights),
        multipliers=bulk.multipliers * len(weights),
        kappas=bulk.kappas[0] * np.array(weights),
        steps=0,
        closed=False,
    )


def steps_of(place: Setting, found: Solution, *, last: bool) -> tuple[ShiftStep, ...]:
    """The phases of a solution as steps, the last one open if it is that of the last round."""
    count = len(found.factors)
    return tuple(
        place.step(found.factors[p], found.multipliers[p], found.kappas[p], last=last and p == count - 1)
        for p in range(count)
    )
