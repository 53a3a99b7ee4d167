# SPDX-License-Identifier: Apache-2.0
"""A claim about training in balls: both ends, and what that takes.

`sottovoce.verification.training.verify_training` reads proof and attack and makes the checks of form; what decides
them is put in here, `steps` for the upper end and `attacks` for the lower.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flint import arb_mat, fmpq_mat

from sottovoce.verification.asked import noise_of, training_question
from sottovoce.verification.balls.attacks import attained_in_balls
from sottovoce.verification.balls.loops import exact_loop
from sottovoce.verification.balls.numbers import decided, positive, rational
from sottovoce.verification.balls.steps import check_in_balls
from sottovoce.verification.memory import verify_memory
from sottovoce.verification.training import Deciders, verify_training

if TYPE_CHECKING:
    from sottovoce.certificates import Certificate, MovesProof, ShiftProof
    from sottovoce.graphs import GossipWeights
    from sottovoce.participation import Participation
    from sottovoce.verification.ends import Check
    from sottovoce.verification.meaning import AveragingQuestion
    from sottovoce.verification.moves import Exact

__all__ = ["memory_ends", "memory_work", "training_ends", "training_work"]


def training_ends(
    certificate: Certificate, asked: AveragingQuestion, participation: Participation, checks: list[Check]
) -> tuple[float, float]:
    """What the attack and the proof of a certificate prove of Δ², from below and from above; `checks` takes each step.

    Guarantee: both ends are proved; an upper end that is infinite, and a lower one of 0, prove nothing.
    Source: Theorem 1 of docs/training.md.
    """
    claim = training_question(certificate, asked, participation)
    loop = exact_loop(claim, noise_of(certificate, asked.weights.n))
    balls = Deciders(
        check=lambda proof, _: check_in_balls(proof, loop),
        attain=lambda attack, _: attained_in_balls(attack, loop),
    )
    return verify_training(certificate, asked, participation, checks, balls)


def memory_ends(
    certificate: Certificate,
    proof: MovesProof,
    schedule: tuple[GossipWeights, ...],
    participation: Participation,
    checks: list[Check],
) -> tuple[float, float]:
    """The same for training with memory, whose inequality is made of rationals in either arithmetic.

    Guarantee: as for `training_ends`.
    Source: Theorem 2 of docs/training.md.
    """
    return verify_memory(
        certificate,
        proof,
        schedule,
        participation,
        checks,
        positive=lambda F: bool(decided(lambda: _positive(F))),
    )


def _positive(F: Exact) -> bool | None:
    """Whether a symmetric matrix of rationals is positive semidefinite; None where the balls do not decide.

    Guarantee: True and False are proved.
    """
    return positive(arb_mat(fmpq_mat([[rational(x) for x in row] for row in F.tolist()])))


def memory_work(proof: MovesProof) -> float:
    """About how many operations it takes to check a claim of kind moves: products and elimination of its matrices.

    Guarantee: none about Δ²; an estimate for the choice of arithmetic.
    """
    return float(sum(100 * (len(factor) + factor.shape[1]) ** 3 for factor in proof.factors))


def training_work(proof: ShiftProof, n: int, rounds: int) -> float:
    """About how many operations it takes to check a claim of so many nodes and rounds.

    Elimination of a 2m × 2m matrix for each step, and m² a round for the attack.

    Guarantee: none about Δ²; an estimate for the choice of arithmetic.
    """
    columns = max((step.factor.shape[1] for step in proof.steps), default=0)
    attacked = (
        0 if proof.attack is None else rounds if proof.attack.angle is not None else len(proof.attack.slopes)
    )
    return float(2 * (len(proof.steps) + 1) * n**2 * (n + columns) + attacked * n**2)
