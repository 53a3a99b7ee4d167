# SPDX-License-Identifier: Apache-2.0
"""A certificate of kind shift, about training: its upper end by its proof, its lower end by its attack.

The upper end says: whatever maps in the ball the nodes apply, and whatever the observers send, the view is μ-GDP
with μ² = Δ²/σ². It is proved step by step (`shift`). The lower end says: some linear maps in the ball, and some
statistic of the view, tell the two runs apart this well (`attacks`). Both start from the same `TrainingQuestion`,
which is rebuilt from graph and view; `verify_training` takes either arithmetic (`Deciders`), so floats and balls
share the reading and not a number.

`simple_bound` needs no certificate at all. Reports of many pairs use it to show that most of them cannot be the
worst.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sottovoce.certificates import ShiftProof, ShiftStep
from sottovoce.errors import InputError, NotCertified
from sottovoce.protocols import exact_span
from sottovoce.verification.asked import training_question
from sottovoce.verification.attacks import attack_failure, attained
from sottovoce.verification.ends import Check, no_lower_end
from sottovoce.verification.shift import check_shift, stored_form

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from sottovoce.certificates import Certificate, LoopAttack
    from sottovoce.participation import Participation
    from sottovoce.verification.asked import TrainingQuestion
    from sottovoce.verification.meaning import AveragingQuestion
    from sottovoce.verification.shift import ShiftCheck

__all__ = ["Deciders", "no_worse_in_training", "relation_checks", "simple_bound", "verify_training"]

# Pairs that are looked at one by one, and numbers of a view that is solved densely.
MOST_PAIRS = 20_000
MOST_NUMBERS = 10_000_000
# Parts of the unseen direction that are tried; each of them is a proof, and the best one is taken.
_SHARES = np.linspace(0, 1, 21)[1:]


class Deciders(NamedTuple):
    """An arithmetic: what decides a proof from above, and an attack from below."""

    check: Callable[[ShiftProof, TrainingQuestion], ShiftCheck]
    attain: Callable[[LoopAttack, TrainingQuestion], float]


_FLOATS = Deciders(check_shift, attained)


def verify_training(
    certificate: Certificate,
    asked: AveragingQuestion,
    participation: Participation,
    checks: list[Check],
    arithmetic: Deciders = _FLOATS,
) -> tuple[float, float]:
    """What the attack and the proof of a certificate prove of Δ², from below and from above; `checks` takes each step.

    Guarantee: that of `arithmetic.check` for the upper end and of `arithmetic.attain` for the lower; an infinite upper
    end proves nothing.
    """
    proof = certificate.proof
    assert isinstance(proof, ShiftProof)
    claim = training_question(certificate, asked, participation)
    _check_fit(proof, claim)
    rows, hidden = claim.seen.pivots.size, claim.loop.unknown.size
    checks += relation_checks(certificate, claim)
    found = f"what is seen of {hidden} hidden nodes has rank {rows}, decided exactly"
    checks.append(Check("rationals", True, found))
    proved = arithmetic.check(proof, claim)
    upper, claimed = proved.squared_upper, certificate.squared_upper
    told = (
        f"{proof.method} proves Δ² ≤ {upper!r}; claimed {claimed!r}"
        if proved.holds
        else f"the proof does not hold: {proved.failure}"
    )
    checks.append(Check("upper end", upper <= claimed, told))
    if proof.attack is None:
        checks.append(no_lower_end(certificate))
        return 0.0, upper
    failure = attack_failure(proof.attack, claim)
    lower = 0.0 if failure else arithmetic.attain(proof.attack, claim)
    holds = not failure and lower >= certificate.squared_lower
    told = f"the attack attains at least {lower!r}; claimed {certificate.squared_lower!r}"
    checks.append(Check("lower end", holds, f"the attack is none: {failure}" if failure else told))
    return lower, upper


def _check_fit(proof: ShiftProof, claim: TrainingQuestion) -> None:
    """Refuse a proof that does not speak of these nodes.

    Everything here is about form: sizes, indices, and numbers that no inequality would read. Those must be 0, so
    that a file has no place in which something could stand unread.
    """
    n = claim.levels.size
    if any(step.multipliers.size != n for step in proof.steps):
        raise InputError(f"multipliers must have an entry for each of the {n} nodes")
    if not np.isin(proof.support, claim.loop.unknown).all():
        raise InputError(f"the support must hold hidden nodes only, by indices below {n}")
    known = np.setdiff1d(np.arange(n), claim.loop.unknown)
    if any(step.multipliers[known].any() for step in proof.steps):
        raise InputError("multipliers must be 0 at nodes that are not hidden: nothing is asked of them")
    if proof.method == "cap" and (proof.support.size or proof.steps):
        raise InputError("a proof by cap needs neither support nor steps; this one has some")
    if proof.method in {"memory-one", "twins"} and any(
        step.kappa or step.multipliers.any() for step in proof.steps
    ):
        raise InputError(f"a proof by {proof.method} holds one vector, and no kappa or multipliers beside it")
    if stored_form(proof, claim.loop) is not proof:
        raise InputError(
            "a factor must be 0 at the pivots of what is seen: what it has there follows from the rest"
        )


def relation_checks(certificate: Certificate, claim: TrainingQuestion) -> list[Check]:
    """Where a node is zeroed out, it sends on what it received: the identity has to lie in its ball.

    H4 asks for one map in the ball from which both runs differ by at most 1; for a whole node that map is h(z) = z.
    A proof that uses no slopes (cap, twins) does not need it.

    Guarantee: a check that holds proves what H4 asks of the relation; an empty list says that the relation, or the
    proof, asks nothing. Slopes are compared as the floats that the certificate states.
    Source: H4 of docs/training.md.
    """
    relation = None if certificate.mechanism is None else certificate.mechanism.relation
    if relation != "zero-out" or certificate.assumption != "smooth" or claim.slopes is None:
        return []
    low, high = (float(end[claim.target]) for end in (claim.slopes.lower, claim.slopes.upper))
    holds = low <= 1 <= high
    slopes = f"the slopes {exact_span(low, high)} of the target {'hold' if holds else 'do not hold'} 1"
    return [Check("relation", holds, f"{slopes}, as zero-out asks")]


def no_worse_in_training(
    certificate: Certificate,
    asked: Sequence[tuple[AveragingQuestion, Sequence[int]]],
    certified: Collection[tuple[tuple[int, ...], int]],
    participation: Participation,
    limit: float,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """How many targets, of each question about an observer, have Δ² ≤ `limit`: certified, or proved by a simple bound.

    `certified` are pairs that certificates of their own have proved. More pairs than MOST_PAIRS are not gone
    through, and stay open.

    Guarantee: every pair that is counted was proved.
    Source: `simple_bound`.
    """
    total = sum(len(targets) for _, targets in asked)
    proved = done = 0
    for question, targets in asked:
        open_ = [node for node in targets if (tuple(sorted(question.observers)), node) not in certified]
        proved += len(targets) - len(open_)
        if total <= MOST_PAIRS and open_:
            claim = training_question(certificate, question, participation)
            proved += sum(simple_bound(replace(claim, target=node)) <= limit for node in open_)
        done += len(targets)
        if progress is not None:
            progress(done, total)
    return proved


def simple_bound(asked: TrainingQuestion) -> float:
    """A bound on Δ² that needs no search: the cap, or one round of memory along the part of b that is not seen.

    b less its projection on what is seen is x; a share of x is let pass for one round. x is computed in floats and
    only a hint: `check_shift` solves its pivots again and evaluates it from above.

    Guarantee: an upper bound, proved by `check_shift`.
    Source: Corollary 2 of docs/training.md.
    """
    upper = check_shift(ShiftProof(method="cap", support=np.zeros(0, dtype=np.int64)), asked).squared_upper
    loop, m = asked.loop, asked.loop.unknown.size
    if asked.slopes is None or m * asked.seen.pivots.size > MOST_NUMBERS or not upper:
        return upper
    C = asked.seen.rows()
    b = np.zeros(m)
    b[loop.position(asked.target)] = 1.0
    x = b - C.T @ np.linalg.lstsq(C @ C.T, C @ b)[0]
    reach, levels = asked.slopes.reach[loop.unknown], asked.levels[loop.unknown]
    moved = reach * np.abs(loop.transition @ x)
    costs = [float(((np.abs(b - share * x) + share * moved) ** 2 / levels).sum()) for share in _SHARES]
    support = np.flatnonzero(x)
    factor = (_SHARES[int(np.argmin(costs))] * x)[support][:, None]
    step = ShiftStep(factor=factor, multipliers=np.zeros(asked.levels.size), kappa=0.0)
    proof = ShiftProof(method="memory-one", support=loop.unknown[support], recurring=(step,))
    try:
        return min(upper, check_shift(proof, asked).squared_upper)
    except NotCertified:
        return upper
