# SPDX-License-Identifier: Apache-2.0
"""A claim about training in balls: both ends, and what that takes.

`sottovoce.verification.training.verify_training` reads proof and attack and makes the checks of form; what decides
them is put in here, `steps` for the upper end and `attacks` for the lower.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce.verification.asked import noise_of, training_question
from sottovoce.verification.balls.attacks import attained_in_balls
from sottovoce.verification.balls.loops import exact_loop
from sottovoce.verification.balls.steps import check_in_balls
from sottovoce.verification.training import verify_training

if TYPE_CHECKING:
    from sottovoce.certificates import Certificate, ShiftProof
    from sottovoce.participation import Participation
    from sottovoce.verification.ends import Check
    from sottovoce.verification.meaning import Question

__all__ = ["training_ends", "training_work"]


def training_ends(
    certificate: Certificate,
    proof: ShiftProof,
    asked: Question,
    participation: Participation,
    checks: list[Check],
) -> tuple[float, float]:
    """What the attack and the proof of a certificate prove of Δ², from below and from above; `checks` takes each step.

    Guarantee: both ends are proved; an upper end that is infinite, and a lower one of 0, prove nothing.
    Source: Theorem 1 of docs/training.md.
    """
    claim = training_question(certificate, asked, participation)
    loop = exact_loop(claim, noise_of(certificate, asked.weights.n))
    return verify_training(
        certificate,
        proof,
        asked,
        participation,
        checks,
        check=lambda proof, _: check_in_balls(proof, loop),
        attain=lambda attack, _: attained_in_balls(attack, loop),
    )


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
