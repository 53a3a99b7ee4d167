# SPDX-License-Identifier: Apache-2.0
"""That no other pair is worse: an upper end for every pair of an observer, found and proved here.

A report names its worst pair and proves that one. Whether another is worse is asked of each pair in turn, cheap
arguments first: the number of rounds, the sums of |M|, then better and better y. The y are made here, so no hint of
the report is needed, and each is proved by `forms.dominating` as that of a certificate would be. A stream that
attains more than the limit refutes the report; a pair for which neither is found stays open, and the verdict says
how many do.

    M V with V of unit rows:   ⟨M, V Vᵀ⟩ rises with V_t ← (M V)_t/‖(M V)_t‖,   and   y_t = ‖(M V)_t‖

tends to the best y of the semidefinite relaxation (its dual at a fixed point).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import NotCertified
from sottovoce.verification.backwards import Budget
from sottovoce.verification.ends import joint_rounds, taking_part
from sottovoce.verification.forms import dense_form, dominating, seen_blocks
from sottovoce.verification.fresh import fresh_rows
from sottovoce.verification.hidden import hidden_nodes
from sottovoce.verification.programs import own_cap, require_affordable, seen_form
from sottovoce.verification.rounding import SHORTER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sottovoce.certificates import Certificate
    from sottovoce.participation import Participation
    from sottovoce.verification.forms import ComputedForm
    from sottovoce.verification.meaning import AveragingQuestion, ProgramQuestion

__all__ = ["MOST_WORK", "Limit", "Others", "ProgramPair", "Worse", "no_worse", "no_worse_in_programs"]

# Multiplications, a pair counted as ten million at least; this many take about a minute.
MOST_WORK = 100_000_000_000
_PER_PAIR = 10_000_000
# Views beyond these are left out: M of one pair alone would take more than its share of the work.
_MOST_ROUNDS = 1024
_MOST_ROWS = 4000
# Steps of the power method from one attempt to the next; 0 is y_t = Σ_s |M_st|. Few pairs need more than the first.
_STEPS = (0, 60, 600, 6000)


@dataclass(frozen=True, kw_only=True)
class Limit:
    """What no pair may exceed: Δ² of `squared`, for contributions as `participation` has them.

    With `attained` a pair that exceeds it is sought too, for contributions that are vectors.
    """

    participation: Participation
    squared: float
    attained: bool


@dataclass(frozen=True, kw_only=True)
class Worse:
    """A pair that attains more than the limit: its observers and target by index, and what is attained."""

    observers: tuple[int, ...]
    target: int
    squared: float


@dataclass(frozen=True, kw_only=True, eq=False)
class ProgramPair:
    """A pair of a view of a program, by index, and what is asked about it."""

    observers: tuple[int, ...]
    target: int
    question: ProgramQuestion


@dataclass(frozen=True, kw_only=True)
class Others:
    """How many pairs were proved to stay within the limit, how many are open, and one that surely does not.

    `open` is of the report's word: neither proved nor refuted, for lack of work or because a proof failed.
    """

    proved: int
    open: int
    worse: Worse | None = None


def no_worse(
    asked: Sequence[tuple[AveragingQuestion, Sequence[int]]],
    limit: Limit,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Others:
    """Which pairs stay within the limit: for each question about an observer, each of its targets.

    Observers are taken in the order given, as long as the work lasts.

    Guarantee: a pair counts as proved only if diag(y) ⪰ M was proved for a y that sums to at most `limit` over
    every pattern, or if the number of rounds is within it; `worse` attains what it says. M ⪯ I gives the number of
    rounds. A pair that cannot be checked (NotCertified) is open, never proved.
    Source: weak duality, as for `sottovoce.verification.ends.upper_end`.
    """
    total = sum(len(targets) for _, targets in asked)
    proved = done = 0
    left = float(MOST_WORK)
    for question, targets in asked:
        if limit.participation.largest_count(question.rounds) <= limit.squared:
            proved += len(targets)
        elif _work(question, len(targets)) <= left:
            left -= _work(question, len(targets))
            try:
                found = _observer(question, targets, limit)
            except NotCertified:
                found = Others(proved=0, open=len(targets))
            proved += found.proved
            if found.worse is not None:
                return Others(proved=proved, open=total - proved, worse=found.worse)
        done += len(targets)
        if progress is not None:
            progress(done, total)
    return Others(proved=proved, open=total - proved)


def no_worse_in_programs(
    certificate: Certificate,
    pairs: Sequence[ProgramPair],
    limit: Limit,
    *,
    most_work: float = MOST_WORK,
    progress: Callable[[int, int], None] | None = None,
) -> Others:
    """`no_worse` for any program, pair by pair: N and G are rebuilt from its definition for each.

    Guarantee: as for `no_worse`; a contribution that no noise hides is worse than any limit.
    """
    proved, left = 0, most_work
    for done, pair in enumerate(pairs, start=1):
        asked = pair.question
        needed = float(_PER_PAIR + asked.rows**2 * (asked.rows + asked.draws))
        if own_cap(certificate, asked, limit.participation) <= limit.squared:
            proved += 1
        elif needed <= left:
            left -= needed
            try:
                upper, lower = _program_ends(asked, limit)
            except NotCertified:
                upper, lower = np.inf, 0.0
            proved += upper <= limit.squared
            if lower > limit.squared:
                worse = Worse(observers=pair.observers, target=pair.target, squared=lower)
                return Others(proved=proved, open=len(pairs) - proved, worse=worse)
        if progress is not None:
            progress(done, len(pairs))
    return Others(proved=proved, open=len(pairs) - proved)


def _program_ends(asked: ProgramQuestion, limit: Limit) -> tuple[float, float]:
    """Both ends of Δ² of one pair, no better than the limit needs.

    Guarantee: lower ≤ Δ² ≤ upper; both infinite where a contribution is seen beside no noise.
    """
    require_affordable(asked)
    budget = Budget()
    fresh = fresh_rows(asked.rounds, asked.seen, asked.count, budget)
    if fresh.bare.intersection(taking_part(limit.participation, asked.count).tolist()):
        return np.inf, np.inf
    form = seen_form(asked, fresh, budget)
    return _ends(form, asked.count, limit)


def _work(question: AveragingQuestion, targets: int) -> float:
    """How much it takes to rebuild an observer's view and the forms of some of its targets; infinite if too much.

    K of `seen` rows is built and factorised once; each target takes a triangular solve and a few T × T
    factorisations.
    """
    rounds, n = question.rounds, question.weights.n
    seen = len(question.rows) * rounds
    if rounds > _MOST_ROUNDS or seen > _MOST_ROWS:
        return np.inf
    return float(seen**2 * (seen + n) + targets * (_PER_PAIR + seen**2 * rounds + 10 * rounds**3))


def _observer(question: AveragingQuestion, targets: Sequence[int], limit: Limit) -> Others:
    """The targets of one observer, its view rebuilt once.

    The observer is given what its view leaves open about known nodes (`complete`). That only raises M, so upper
    ends stand; a lower end would be one of another view, and is not sought then.
    """
    hidden = hidden_nodes(question, complete=True)
    blocks = seen_blocks(hidden, question.rounds)
    place = {int(node): k for k, node in enumerate(hidden.unknown)}
    proved = 0
    if hidden.completed:
        limit = replace(limit, attained=False)
    for target in targets:
        form = dense_form(replace(hidden, target=place[target]), question.rounds, blocks)
        upper, lower = _ends(form, question.rounds, limit)
        proved += upper <= limit.squared
        if lower > limit.squared:
            worse = Worse(observers=question.observers, target=target, squared=lower)
            return Others(proved=proved, open=len(targets) - proved, worse=worse)
    return Others(proved=proved, open=len(targets) - proved)


def _ends(form: ComputedForm, rounds: int, limit: Limit) -> tuple[float, float]:
    """An upper end of Δ² and a lower one (0 if none is sought), no better than the limit needs.

        y_t = Σ_s |M_st|   at first, then   V ← rows of M V at unit length,   y_t = ‖(M V)_t‖.

    Guarantee: the upper end is proved by `dominating` whatever y is, the lower one by `attains` whatever V is.
    Rows of V are shrunk by 10⁻⁹, far more than their norms can round, so that the stream is one of norm at most 1.
    Source: Nesterov (1998) for y; Burer and Monteiro (2003) for V of about √(2T) columns.
    """
    participation, attained = limit.participation, limit.attained and limit.participation.is_listed
    joint = joint_rounds(participation, rounds)
    upper, lower = np.inf, 0.0
    streams = [_start(len(pattern)) for pattern in joint]
    for steps in _STEPS:
        raised = np.zeros(rounds)
        for k, pattern in enumerate(joint):
            M = form.matrix[np.ix_(pattern, pattern)]
            streams[k], sums = _climbed(M, streams[k], steps)
            y = np.zeros(rounds)
            y[pattern] = sums if steps else np.abs(M).sum(axis=1)
            raised[pattern] = np.maximum(raised[pattern], dominating(form, y, pattern)[0][pattern])
            if attained and steps:
                stream = np.zeros((rounds, streams[k].shape[1]))
                stream[pattern] = streams[k] * SHORTER
                lower = max(lower, form.attains(stream))
        upper = min(upper, participation.largest_sum(raised))
        if upper <= limit.squared or lower > limit.squared:
            break
    return upper, lower


def _start(count: int) -> NDArray[np.float64]:
    """Unit rows in general position, the same in every run, in a dimension that has no false summits."""
    rows = np.random.default_rng(count).standard_normal((count, int(np.sqrt(2 * count)) + 2))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def _climbed(
    M: NDArray[np.float64], V: NDArray[np.float64], steps: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """V after some steps of the power method on unit rows, which never lowers Σ M_st ⟨V_s, V_t⟩; and ‖(M V)_t‖.

        V_t ← (M V)_t/‖(M V)_t‖

    Guarantee: none: a stream that is made of it proves what it is worth by `attains`, and sums are starts of prices.
    """
    for _ in range(steps):
        moved = M @ V
        sizes = np.linalg.norm(moved, axis=1, keepdims=True)
        V = np.where(sizes > 0, moved / np.where(sizes > 0, sizes, 1.0), V)
    return V, np.linalg.norm(M @ V, axis=1)
