# SPDX-License-Identifier: Apache-2.0
"""Every bound there is for one target: cap, twins, one round of memory, and the matrix inequality in several forms.

Which form suits depends on the rounds and on how often the target takes part:

    few rounds                a step of its own for each round, which is the best there is in the basis
    many, in every round      one step that recurs; with a start and an end of a few rounds if these are worth it
    every k-th                k steps that recur, only the first of which is charged
    any others                one step that recurs, charged for the rounds of the worst pattern

Each candidate is proved by itself (Theorem 1 and Corollaries 2 and 3 of docs/training.md), so their minimum is a
bound. Which are tried is speed, and so are all the numbers below: they decide how wide an interval is, never
whether it holds.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from sottovoce.feedback.chains import (
    layered,
    periodic,
    proved,
    recurring_step,
    round_by_round,
    setting,
    steps_of,
)
from sottovoce.feedback.closed import cap, memory_one, twins
from sottovoce.feedback.subspaces import MOST_COLUMNS

if TYPE_CHECKING:
    from sottovoce.feedback.chains import Proved
    from sottovoce.feedback.problem import TrainingView

__all__ = ["GAPS", "SearchEffort", "best_proved", "stages_of"]

SearchEffort = Literal["auto", "quick", "fine"]
# Each round has a step of its own as long as the Newton system has at most so many unknowns.
MOST_UNKNOWNS = 900
# A start and an end of so many rounds each, where the rounds are too many for steps of their own but not so many that
# it makes no difference.
LAYER = 6
# Up to how many rounds that is done, by effort.
LAYERED = {"quick": 0, "auto": 500, "fine": 10**9}
# How close to the optimum the search goes, as a part of it, and in how many columns it looks.
GAPS = {"auto": 1e-4, "quick": 1e-3, "fine": 1e-6}
COLUMNS = {"auto": MOST_COLUMNS, "quick": 14, "fine": MOST_COLUMNS + 8}
# So many proofs for small networks stay.
MOST_PROOFS = 256


def stages_of(effort: SearchEffort) -> tuple[SearchEffort, ...]:
    """What is tried in turn for a pair that may be the worst of many: first a quick bound, then what was asked.

    >>> stages_of("fine")
    ('quick', 'fine')
    """
    return ("quick",) if effort == "quick" else ("quick", effort)


def best_proved(case: TrainingView, place: int, effort: SearchEffort) -> Proved:
    """The smallest bound for the hidden node at position `place`, with its proof.

    Guarantee: an upper bound of Δ² that `sottovoce.verification.shift` has proved; the cap is always among those tried.
    Source: Theorem 1 and Corollaries 2 and 3 of docs/training.md.

    >>> from sottovoce import View, graphs
    >>> from sottovoce.feedback.problem import training
    >>> star = training(graphs.metropolis_weights("star:n=3"), View.secure_sum(0), rounds=2, updates=(0, 1))
    >>> found = best_proved(star, 0, "auto")
    >>> found.proof.method, round(found.squared_upper, 3)
    ('shift', 1.3)
    """
    return (_kept if case.is_kept else _smallest)(case, place, effort)


def _smallest(case: TrainingView, place: int, effort: SearchEffort) -> Proved:
    """`best_proved`, worked out. A proof cannot be changed, so it may be handed out again."""
    return min(_candidates(case, place, effort), key=lambda found: found.squared_upper)


_kept = lru_cache(maxsize=MOST_PROOFS)(_smallest)


def _candidates(case: TrainingView, place: int, effort: SearchEffort) -> list[Proved]:
    """All bounds for one target, those that are cheap first."""
    found: list[Proved] = [cap(case, place)]
    if not case.loop.rows or not case.count or case.shown_whole[place]:
        # Where a message is seen for itself no difference in it stays hidden, and κ ≤ q is the best there is.
        return found
    if (alike := twins(case, place)) is not None:
        found.append(alike)
    if case.slopes is not None and case.rows.shape[0] < case.loop.unknown.size:
        found.append(memory_one(case, place))
        found += [one for one in _inequalities(case, place, effort) if one is not None]
    return found


def _inequalities(case: TrainingView, place: int, effort: SearchEffort) -> list[Proved | None]:
    """The matrix inequality in the forms that suit the rounds and the participation.

    Steps of single rounds need to know which rounds are charged, so they serve full, fixed and periodic
    participation alone. A step that recurs serves every family: all its rounds cost alike, whichever the record
    chooses.
    """
    gap = GAPS[effort]
    rounds, family = case.charged, case.participation
    if effort != "quick" and family.is_listed:
        here = setting(case, place, columns=COLUMNS[effort])
        # Before the first contribution there is no difference; rounds are counted from there.
        first = (family.offset or 1) - 1 if family.kind == "every" else 0
        length = rounds - first
        if length <= 0:
            return []
        if length * here.unknowns <= MOST_UNKNOWNS:
            return [round_by_round(here, _charged(case, length), gap=gap)]
    found: list[Proved | None] = []
    here, solution = recurring_step(case, place, gap=gap, columns=COLUMNS[effort])
    found.append(proved(here, recurring=steps_of(here, solution, last=False)))
    if family.kind == "every" and family.size > 1:
        found.append(periodic(here, family.size, gap=gap))
    elif rounds > 2 * LAYER and LAYER * here.unknowns <= 2 * MOST_UNKNOWNS and rounds <= LAYERED[effort]:
        found.append(layered(here, solution, LAYER, gap=max(gap, 1e-4)))
    return found


def _charged(case: TrainingView, length: int) -> np.ndarray:
    """1 for the rounds in which the target contributes, counted from its first if it takes part every k-th round."""
    weights = np.zeros(length)
    match case.participation.kind:
        case "every":
            weights[:: case.participation.size] = 1.0
        case "fixed":
            weights[[k - 1 for k in case.participation.rounds if k <= length]] = 1.0
        case _:
            weights[:] = 1.0
    return weights
