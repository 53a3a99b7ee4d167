# SPDX-License-Identifier: Apache-2.0
"""The upper end of a claim about training in balls: the matrix inequality of each step, as it is written.

Theorem 1 of docs/training.md, one inequality for each pair of steps that follow each other, over all m hidden nodes
and 2m × 2m in size. Nothing is factored, reduced or scaled, unlike in `sottovoce.verification.shift`: X, Y = A X
and the diagonals are rationals, their products balls, and elimination says whether the whole is ⪰ 0.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import TYPE_CHECKING

from flint import arb_mat, fmpq_mat

from sottovoce.errors import InputError
from sottovoce.participation import Participation
from sottovoce.protocols import float_above
from sottovoce.verification.balls.loops import ExactLoop, basis, hidden_factor
from sottovoce.verification.balls.numbers import (
    PRECISIONS,
    decided,
    diagonal,
    fraction,
    largest_sum,
    positive,
    rational,
)
from sottovoce.verification.shift import ShiftCheck

if TYPE_CHECKING:
    from sottovoce.certificates import ShiftProof, ShiftStep

__all__ = ["check_in_balls"]


class _Refused(Exception):  # noqa: N818 - a verdict, not a mistake
    """Why a proof proves nothing."""


def check_in_balls(proof: ShiftProof, loop: ExactLoop) -> ShiftCheck:
    """Whether a proof proves a bound on Δ² of training, and which.

    Guarantee: that of `sottovoce.verification.shift.check_shift`.
    Source: Theorem 1 and Corollaries 2 and 3 of docs/training.md.
    """
    asked = loop.asked
    if not asked.loop.rows or not asked.charged:
        return ShiftCheck(holds=True, squared_upper=0.0, failure="")
    try:
        match proof.method:
            case "cap":
                total = asked.count / loop.variances[loop.target]
            case "shift":
                total = _by_steps(proof, loop)
            case _:
                total = asked.count * _by_vector(proof, loop)
    except _Refused as failure:
        return ShiftCheck(holds=False, squared_upper=math.inf, failure=str(failure))
    return ShiftCheck(holds=True, squared_upper=float_above(total), failure="")


def _by_steps(proof: ShiftProof, loop: ExactLoop) -> Fraction:
    """Σ 1/κ over the worst pattern, once every step that follows another satisfies its inequality.

    Guarantee: exact, and refused unless every inequality is proved. Of an unknown phase the first is the worst, for
    the reason that `sottovoce.verification.shift` gives.
    """
    rounds, family = loop.asked.charged, loop.asked.participation
    # Before the first round that takes part there is no difference, so that round counts as the first.
    first = (family.offset or 1) - 1 if family.kind == "every" else 0
    if first >= rounds:
        return Fraction(0)
    try:
        order = proof.order(rounds - first).tolist()
    except InputError as error:
        raise _Refused(str(error)) from None
    if any(proof.steps[k].last for k in order[:-1]):
        raise _Refused("a step of the last round stands before the last round")
    for before, now in sorted({(-1, order[0]), *itertools.pairwise(order)}):
        holds = _holds(proof, loop, None if before < 0 else proof.steps[before], proof.steps[now])
        if not holds:
            why = f"is not decided by balls of {PRECISIONS[-1]} bits" if holds is None else "does not hold"
            raise _Refused(f"step {now + 1} after step {before + 1}: its inequality {why}")
    kappas = [Fraction(proof.steps[k].kappa) for k in order]
    if family.kind == "every":
        kappas, family = kappas[:: family.size], Participation.full()
    elif family.kind == "fixed":
        kappas, family = [kappas[k - 1] for k in family.rounds if k <= rounds], Participation.full()
    if not all(kappas):
        raise _Refused("a round in which the target may contribute has κ = 0")
    return largest_sum(family, [1 / kappa for kappa in kappas]) if kappas else Fraction(0)


def _holds(proof: ShiftProof, loop: ExactLoop, previous: ShiftStep | None, step: ShiftStep) -> bool | None:
    """Whether a step after another satisfies its inequality, with Y = A X of the step before.

        [ S (q − β + X Xᵀ − κ b bᵀ − c Y Yᵀ c) Sᵀ     −S c Y Yᵀ r  ]
        [ −r Y Yᵀ c Sᵀ                                β − r Y Yᵀ r ]  ⪰ 0.

    S is the identity; in the last round, the rows that are seen then. The lower block holds β ≥ 0 as well: a
    negative multiplier makes its diagonal negative.

    Guarantee: True and False are proved; None says that the last precision does not decide.
    Source: the (LMI) of docs/training.md; for the last round S takes what is not seen out of both sides.
    """
    if loop.slopes is None:
        raise _Refused("a proof by steps needs lower and upper slopes")
    m = loop.size
    X = fmpq_mat(m, 0) if step.last else hidden_factor(loop, proof, step.factor)
    Y = fmpq_mat(m, 0) if previous is None else loop.A * hidden_factor(loop, proof, previous.factor)
    S = basis(loop.last) if step.last else diagonal([rational(1)] * m)
    c = diagonal([rational((low + high) / 2) for low, high in loop.slopes])
    r = diagonal([rational((high - low) / 2) for low, high in loop.slopes])
    beta = [rational(step.multipliers[k]) for k in loop.asked.loop.unknown]
    noise = [rational(q) - x for q, x in zip(loop.variances, beta, strict=True)]
    noise[loop.target] -= rational(step.kappa)
    exact = S * diagonal(noise) * S.transpose(), S * X, S * c * Y, r * Y

    def holds() -> bool | None:
        """Exact so far; from here on in balls."""
        left, SX, ScY, rY = (arb_mat(part) for part in exact)
        above = left + SX * SX.transpose() - ScY * ScY.transpose()
        beside = -(ScY * rY.transpose())
        below = arb_mat(diagonal(beta)) - rY * rY.transpose()
        return positive(_blocks(above, beside, below))

    return decided(holds)


def _blocks(above: arb_mat, beside: arb_mat, below: arb_mat) -> arb_mat:
    """The symmetric matrix of three blocks."""
    upper = [one + other for one, other in zip(above.tolist(), beside.tolist(), strict=True)]
    lower = [one + other for one, other in zip(beside.transpose().tolist(), below.tolist(), strict=True)]
    return arb_mat(upper + lower)


def _by_vector(proof: ShiftProof, loop: ExactLoop) -> Fraction:
    """Σ (|b − x| + ℓ|A x|)²/q for the one vector x of a proof; of twins A x = 0, so that the maps do not matter.

    Guarantee: exact; C x = 0 was checked when x was made.
    Source: Corollaries 2 and 3 of docs/training.md.
    """
    step = proof.steps[0] if len(proof.steps) == 1 else None
    if step is None or step.last or (proof.support.size and step.factor.shape[1] != 1):
        raise _Refused(f"a proof by {proof.method} holds one vector")
    if loop.slopes is None and proof.method != "twins":
        raise _Refused("a proof by one round of memory needs lower and upper slopes")
    x = hidden_factor(loop, proof, step.factor) if proof.support.size else fmpq_mat(loop.size, 1)
    moved = loop.A * x
    total = Fraction(0)
    for k, q in enumerate(loop.variances):
        reach = Fraction(0) if loop.slopes is None else max(map(abs, loop.slopes[k]))
        left = abs(int(k == loop.target) - fraction(x[k, 0]))
        total += (left + reach * abs(fraction(moved[k, 0]))) ** 2 / q
    return total
