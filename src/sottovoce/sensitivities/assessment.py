# SPDX-License-Identifier: Apache-2.0
"""All targets under one hidden system: which storey serves which of them, and the ends that they find.

One observer gives one whitened response F; a target is a column b of its inputs. The way of a target:

1. It is `unreached`, Δ² = 0, if its contributions touch the view only after round T.
2. In bulk, with few enough states, `many_targets` bounds all at once; the worst few go on to 3.
3. Where the filter settles early, M is written out for a few rounds and the rest inserted (`insertion`).
4. Else, up to `EXPLICIT_ROUNDS` rounds, M = FᵀF is written out and `one_form` solves it; beyond, `long_horizons` does.

Whatever storeys find is intersected (`Ends.improve`): each holds Δ², so that which of them is asked, and how
often, cannot make an interval wrong. Decisions here are about time alone, but for step 1, whose hops are exact.
Source: docs/mathematics.md, sections 4 (hops), 5, 6 and 7.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering import EXPLICIT_ROUNDS, whitened_response
from sottovoce.sensitivities.capacity import check_capacity, room_for_forms
from sottovoce.sensitivities.ends import SAME, Ends, HeldStream
from sottovoce.sensitivities.long_horizons.closest import (
    long_ends,
    plain_stream,
    together,
    turning_signs,
    turning_stream,
)
from sottovoce.sensitivities.long_horizons.inserted_patterns import core_of
from sottovoce.sensitivities.long_horizons.inserted_rounds import insertion_of
from sottovoce.sensitivities.long_horizons.insertion import has_room_for, inserted_ends, inserted_stream
from sottovoce.sensitivities.many_targets.at_once import MOST_STATES, NARROW
from sottovoce.sensitivities.one_form.batches import batch_ends, solve_problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from sottovoce.filtering import FilteredResponse, HiddenSystem
    from sottovoce.participation import Participation
    from sottovoce.sensitivities.ends import Problem
    from sottovoce.sensitivities.long_horizons.inserted_rounds import Insertion

__all__ = ["Assessment", "assess"]

# Speed alone, all of these. Targets that the observer hears directly and whose ends stay this far apart
# (relatively) in bulk are solved one by one: the worst, up to so many entries of M, or all in long horizons if
# they are so few; others if they are few and T is not large.
APART = 0.02
SOLVED_ENTRIES, SOLVED_HORIZONS = 2 * 10**8, 8
FEW = 64
# In long horizons far ones are, if their ends stay so far apart; more of either kind where states are this few.
TOO_WIDE, SMALL = 0.05, 100
# Patterns of so few rounds are written out.
WRITTEN_OUT = 64


@dataclass(frozen=True, kw_only=True, eq=False)
class Assessment:
    """The ends of every target's interval under one hidden system.

    `positions[k]` is the place of target k among the unknown nodes of `system`, which is its column in
    `response.inputs`; `ends` has one entry a target, in the same order. `plan` says where rounds were inserted.
    """

    system: HiddenSystem
    response: FilteredResponse
    problem: Problem
    positions: np.ndarray
    ends: Ends
    plan: Insertion | None = None

    @property
    def lower(self) -> np.ndarray:
        """The lower ends of Δ², one a target.

        Guarantee: each is attained by the stream of `witness_of`, what rounding and reduction may hide taken off.
        """
        return self.ends.lower

    @property
    def upper(self) -> np.ndarray:
        """The upper ends of Δ², one a target.

        Guarantee: upper bounds for the view that `system` stands for; where that is
        over-informed, for less as well.
        """
        return self.ends.upper

    @property
    def method(self) -> np.ndarray:
        """The names of the bounds behind the upper ends.

        Guarantee: exact: each name is that of the bound whose number stands in `upper`, or "cap".
        """
        return self.ends.method

    def witness_of(self, place: int) -> np.ndarray:
        """The stream behind the lower end of the target at `place`, found again: shape (T,) or (T, d).

        The searches are deterministic, so that the same stream comes out without being kept, but for rounding: forms
        that were made together may differ from one made alone in their last bits.

        Guarantee: a stream that the family allows. The lower end is what it attains, up to the share `SAME` where
        forms that were made together round otherwise; a certificate computes anew what its own stream attains.
        """
        frequency = float(self.ends.frequency[place])
        if np.isfinite(frequency):
            if self.problem.contribution == "scalar" and frequency not in (0.0, np.pi):
                return turning_signs(self.response, int(self.positions[place]), frequency)
            return turning_stream(frequency, self.system.rounds, self.problem.contribution)
        if place in self.ends.streams:
            stream = self.ends.streams[place]
            early = stream.rows if isinstance(stream, HeldStream) else stream
            return np.concatenate([early, np.zeros((self.system.rounds - len(early), *early.shape[1:]))])
        position = int(self.positions[place])
        if self.plan is not None:
            again, _ = inserted_ends(self.response, self.plan, np.array([position]), self.problem, None)
            if again.lower[0] >= (1 - SAME) * self.ends.lower[place]:
                return inserted_stream(self.response, self.plan, position, self.problem)
        if _is_long(self.response):
            return plain_stream(self.response, position, self.problem)
        (forms,) = self.response.forms(np.array([position]))
        if batch_ends(forms, self.problem)[0][0] < (1 - SAME) * self.ends.lower[place]:
            # The search ended sooner than it did among others: let it go on.
            closer = replace(self.problem, tolerance=self.problem.tolerance / 8)
            return solve_problem(forms.matrices[0], closer).witness
        return solve_problem(forms.matrices[0], self.problem).witness


def assess(
    system: HiddenSystem,
    indices: np.ndarray,
    problem: Problem,
    progress: Callable[[int, int], None] | None,
) -> Assessment:
    """Bounds and witnesses for every target, widened by what rounding and reduction may hide.

    `indices` are nodes of the protocol, none of them with known noise; `progress` hears (targets done, in all).

    Guarantee: lower ≤ Δ² ≤ upper for the hidden system, rounding included. A target that no allowed contribution
    brings into view in time has Δ² = 0 exactly.
    Source: docs/mathematics.md, sections 3 to 7; docs/proofs/widening.md.
    """
    check_capacity(system.rounds, problem.participation)
    tolerance = problem.tolerance if problem.contribution == "vector" else 0.0
    response = whitened_response(system, engine=problem.engine, coarse=problem.in_bulk, tolerance=tolerance)
    positions = np.searchsorted(system.unknown, indices)
    hops = system.hops()[positions]
    in_time = _is_reached(hops, system.rounds, problem.participation)
    reached, direct = np.flatnonzero(in_time), hops == 0
    ends = Ends.unknown(len(indices), problem.cap)
    ends.upper[~in_time], ends.method[~in_time] = 0.0, "unreached"
    plan, left = _insertion(response, problem), reached
    if plan is not None and (not problem.in_bulk or len(reached) * plan.short**2 <= SOLVED_ENTRIES):
        found, told = inserted_ends(response, plan, positions[left], problem, progress)
        ends.improve(left, found)
        left = left[~told]
    if problem.in_bulk and response.size <= MOST_STATES and left.size:
        ends.improve(left, together(response, positions[left], direct[left], problem, progress))
        left, progress = _worth_solving_still(left, direct, ends, response), None
    if left.size:
        ends.improve(left, _one_by_one(response, positions[left], direct[left], problem, progress))
    return Assessment(
        system=system, response=response, problem=problem, positions=positions, ends=ends, plan=plan
    )


def _one_by_one(
    response: FilteredResponse,
    positions: np.ndarray,
    direct: np.ndarray,
    problem: Problem,
    progress: Callable[[int, int], None] | None,
) -> Ends:
    """Certified ends and the names of the winning bounds for targets that are solved one by one.

    Forms are made for as many targets at a time as memory holds, and are forgotten once they are solved.

    Guarantee: that of `batch_ends`, or of `long_ends` where the horizon is too long for forms.
    """
    if _is_long(response):
        return long_ends(response, positions, direct, problem, progress)
    ends, done = Ends.unknown(len(positions), problem.cap), 0
    for forms in response.forms(positions, room_for_forms(response)):
        places = slice(done, done + len(forms.positions))
        ends.lower[places], ends.upper[places], ends.method[places] = batch_ends(forms, problem)
        done += len(forms.positions)
        if progress is not None:
            progress(done, len(positions))
    return ends


def _insertion(response: FilteredResponse, problem: Problem) -> Insertion | None:
    """Where to insert rounds instead of writing M out, if the filter settles early.

    Speed alone; so few rounds of a pattern that contributes every k-th are solved from their own form.
    """
    chosen = problem.participation
    if chosen.kind == "poisson" or (_is_long(response) and problem.in_bulk):
        return None
    period = chosen.size if chosen.kind == "every" and problem.cap > WRITTEN_OUT else 1
    plan = insertion_of(response, problem.tolerance, period)
    if plan is None or plan.short > EXPLICIT_ROUNDS or not has_room_for(plan, problem):
        return None
    return plan if chosen.is_listed or core_of(plan, chosen) is not None else None


def _worth_solving_still(
    reached: np.ndarray, direct: np.ndarray, ends: Ends, response: FilteredResponse
) -> np.ndarray:
    """The places to solve one by one after all: the worst of those heard directly, and all others if they are few.

    Speed alone. Those heard directly have the largest Δ² as a rule, and a view is judged by its worst target.
    """
    ratio = np.divide(ends.upper, ends.lower, out=np.full(len(direct), np.inf), where=ends.lower > 0)
    doubtful = reached[direct[reached] & (ratio[reached] > 1 + APART)]
    if _is_long(response):
        most = FEW if response.size <= SMALL else SOLVED_HORIZONS
        far = reached[~direct[reached] & (ratio[reached] > 1 + TOO_WIDE)]
        return np.union1d(*(some if len(some) <= most else some[:0] for some in (doubtful, far)))
    chosen = doubtful[np.argsort(-ratio[doubtful], kind="stable")[: SOLVED_ENTRIES // response.rounds**2]]
    others = reached[ratio[reached] > 1 + NARROW]
    return np.union1d(chosen, others) if len(others) <= FEW else np.asarray(chosen)


def _is_reached(hops: np.ndarray, rounds: int, participation: Participation) -> np.ndarray:
    """Whether a contribution in some allowed round reaches the view in time: one of round t needs t + hops ≤ T.

    Distances are those of the graph in which a message needs one round a hop, so that many targets have the same and
    each distance is looked at once. What is not reached has Δ² = 0.

    Guarantee: exact; shape (targets,).
    """
    reached = hops < rounds
    if participation.kind != "full":
        for distance in np.unique(hops[reached]):
            in_time = (np.arange(rounds) + distance < rounds).astype(np.float64)
            if participation.largest_sum(in_time) == 0:
                reached &= hops != distance
    return np.asarray(reached)


def _is_long(response: FilteredResponse) -> bool:
    """Whether the horizon is too long for a T × T matrix."""
    return response.rounds > EXPLICIT_ROUNDS
