# SPDX-License-Identifier: Apache-2.0
"""Certificates checked in ball arithmetic: exact rationals as far as they go, then numbers with a proved radius.

This is the verifier to read first. It follows the definitions and knows no error analysis and no reduction: a
program is run and what is seen is written down (`seen`), M is solved for and compared with y and witness
(`averaging`), the inequality of each step of a proof for training is set up as it is written (`steps`), and its
attack is run (`attacks`). It needs the package python-flint, and takes longer than floats do.

What there is to read, in order: `numbers` (what a ball is, how a question is decided, when a matrix is positive),
`seen` (N and G of a program), `averaging` (kinds dense and horizon), `loops`, `steps`, `attacks` and `training`
(kind shift). Shared with floats are the reading of words (`meaning`, `asked`), the exact pivots of `loops.kernel`,
which are checked again, and the checks of form (`training`).

Trusted besides Python is FLINT: that its rationals are exact and that its balls hold the numbers they stand for.
Source: Johansson, Arb: efficient arbitrary-precision midpoint-radius interval arithmetic (2017).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sottovoce.certificates import MovesProof, ShiftProof
from sottovoce.errors import NotCertified
from sottovoce.verification.balls.averaging import averaging_ends, averaging_work
from sottovoce.verification.balls.training import memory_ends, memory_work, training_ends, training_work
from sottovoce.verification.meaning import certified_protocol, program_question, question
from sottovoce.verification.memory import as_if_heard

if TYPE_CHECKING:
    from sottovoce.certificates import Certificate
    from sottovoce.graphs import GossipWeights
    from sottovoce.participation import Participation
    from sottovoce.verification.ends import Check

__all__ = ["MOST_WORK", "SMALL", "ends_in_balls", "work"]

# Operations on machine words: so many take some minutes, and so few about a second.
MOST_WORK = 2e10
SMALL = 5e7
# More rounds, or rounds times nodes, than can come to less than that.
MOST_ROUNDS = 10_000
MOST_NUMBERS = 1_000_000


def work(certificate: Certificate, schedule: tuple[GossipWeights, ...]) -> float:
    """About how many operations on machine words it takes to check a claim; infinite where it is far too many.

    Guarantee: none about Δ². It is counted from sizes before any work and chooses between arithmetics.
    """
    n, rounds, proof = schedule[0].n, certificate.rounds, certificate.proof
    if rounds > MOST_ROUNDS or n * rounds > MOST_NUMBERS:
        return math.inf
    if isinstance(proof, ShiftProof):
        return training_work(proof, n, rounds)
    if isinstance(proof, MovesProof):
        return memory_work(proof)
    try:
        if certificate.as_heard:
            certificate = as_if_heard(certificate, schedule)
        return averaging_work(program_question(certificate, certified_protocol(certificate, schedule)))
    except NotCertified:
        return math.inf


def ends_in_balls(
    certificate: Certificate,
    schedule: tuple[GossipWeights, ...],
    participation: Participation,
    checks: list[Check],
) -> tuple[float, float, list[str]]:
    """What a proof proves of Δ² from below and from above, and what was taken on trust; `checks` takes each step.

    A proof of kind horizon is read as the y that it spells, one number a round, and checked like any other y.

    Guarantee: both ends are proved; an upper end that is infinite, and a lower one of 0, prove nothing.
    Source: docs/certificates.md, "Two verifiers".
    """
    if isinstance(certificate.proof, ShiftProof):
        asked = question(certificate, schedule[0])
        return *training_ends(certificate, asked, participation, checks), []
    if isinstance(certificate.proof, MovesProof):
        return *memory_ends(certificate, certificate.proof, schedule, participation, checks), []
    if certificate.as_heard:
        certificate = as_if_heard(certificate, schedule)
    program = program_question(certificate, certified_protocol(certificate, schedule))
    return *averaging_ends(certificate, program, participation, checks), []
