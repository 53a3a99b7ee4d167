# SPDX-License-Identifier: Apache-2.0
"""Large families of patterns where rounds are inserted: at most k rounds, rounds that are b apart, one of each epoch.

M̃ is written out for a core of T₁ = T₀ + K₁ rounds, and the family is solved there as `one_form.patterns` does it.

* A pattern of few rounds leaves a stretch of the middle empty that is wider than M̃: rounds can be taken out of it, and
  put in, without a change to any entry. If K₁ is so large that every pattern does, Δ² over T rounds is the core's.
* Else rounds are inserted into what the core told: y, or the sizes of rows within patterns, are continued by what they
  are in the middle, where rows are alike, by whole epochs; diag(y) ⪰ M̃ is proved anew, by a factor of the band.
  Patterns are continued by rounds that they have room for, and solved on M̃ at these rounds.

Soundness: `is_dominated`, `sizes_within`, `Participation.largest_sum`. Speed: how long the core is, which y are tried.
Source: docs/proofs/insertion.md, "Families of patterns".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.sensitivities.long_horizons.bands import is_dominated, peak
from sottovoce.sensitivities.one_form.patterns import (
    ENUMERABLE_PATTERNS,
    Places,
    coverings,
    earliest_pattern,
    good_patterns,
    sizes_within,
    solve_participation,
)
from sottovoce.sensitivities.one_form.solution import FormSolution, solve_form

if TYPE_CHECKING:
    from sottovoce.participation import Participation
    from sottovoce.sensitivities.ends import Problem
    from sottovoce.sensitivities.long_horizons.inserted_rounds import Insertion

__all__ = ["Core", "core_of"]

# Speed alone: a core is at least so many widths longer than M⁰, has at most so many rounds if it is to hold every
# pattern, and pays if it has at most this share of all rounds.
WIDTHS, LONGEST, WORTH = 3, 1024, 0.75
# Speed alone: by which multiples of the tolerance y is lifted, and how many patterns are solved over all rounds.
LIFTS, TRIED = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 16.0, 64.0), 2


@dataclass(frozen=True, kw_only=True)
class Core:
    """T₁ rounds of M̃: K₁ = `inserted`, with places for more before round `middle`, `period` rounds at a time.

    `holds_all` says that every pattern of the family stands in it as it does in all rounds.
    """

    plan: Insertion
    inserted: int
    period: int
    holds_all: bool

    @property
    def left(self) -> int:
        """K' = K − K₁, the rounds that are not in the core."""
        return self.plan.inserted - self.inserted

    @property
    def middle(self) -> int:
        """x: rounds from c + w up to c + K₁ have the same row of M̃, and `period` of them stand before round c + K₁."""
        first = self.plan.start + self.plan.width
        half = first + (self.inserted - self.plan.width - self.period) // 2
        return max(-(-first // self.period), half // self.period) * self.period

    def continued(self, values: np.ndarray) -> np.ndarray:
        """Values of the core's rounds with those of the rounds from x on repeated: what the others have in their place.

        Guarantee: of what depends on rows of M̃ alone, and on their place within an epoch, these are all rounds' values.
        """
        x, repeated = self.middle, self.left // self.period
        return np.concatenate([values[:x], np.tile(values[x : x + self.period], repeated), values[x:]])

    def extended(self, participation: Participation, pattern: np.ndarray) -> np.ndarray:
        """A pattern of all rounds that is the one given before round x and after the rounds that are put in.

        Guarantee: it is allowed.
        """
        x, rounds = self.middle, self.plan.rounds
        places = Places(participation, rounds, [t if t < x else t + self.left for t in pattern.tolist()])
        inside = pattern[(pattern >= x) & (pattern < x + self.period)]
        again = (inside + np.arange(0, self.left, self.period)[:, None]).ravel()
        for t in [*again.tolist(), *range(x, x + self.left)]:
            if places.is_open(t):
                places.add(t)
        return places.pattern

    def ends(self, form: np.ndarray, problem: Problem) -> tuple[FormSolution, np.ndarray]:
        """The ends of the family over T rounds for one target, from M⁰, and the pattern of the witness.

        The witness stands on the rounds of the pattern.

        Guarantee: attained ≤ max_π max Σ_{s,t ∈ π} M̃_st⟨c_s, c_t⟩ ≤ bound for M̃ as stored, rounding included.
        Source: docs/proofs/insertion.md, "Families of patterns".
        """
        whole, participation = self.plan.whole(form, self.inserted), problem.participation
        solve = partial(solve_form, contribution=problem.contribution, tolerance=problem.tolerance)
        if self.holds_all:
            return self._moved(
                solve_participation(
                    whole, participation, contribution=problem.contribution, tolerance=problem.tolerance
                )
            )
        y, bound = self._covered(form, whole, problem)
        within = participation.largest_sum(self.continued(sizes_within(whole, participation)))
        patterns = good_patterns(whole, participation, y)
        values = [solve(whole[np.ix_(pattern, pattern)]).attained for pattern in patterns]
        tried = [np.flatnonzero(earliest_pattern(participation, self.plan.rounds))]
        best_first = np.argsort(-np.array(values), kind="stable")[:TRIED]
        tried += [self.extended(participation, patterns[k]) for k in best_first]
        solved = [(solve(self.plan.at(form[None], pattern)[0]), pattern) for pattern in tried]
        best, pattern = max(solved, key=lambda entry: entry[0].attained)
        bound, method = min((bound, "dual"), (within, "abs"))
        found = FormSolution(attained=best.attained, bound=bound, method=method, witness=best.witness, y=None)
        return found, pattern

    def _covered(self, form: np.ndarray, whole: np.ndarray, problem: Problem) -> tuple[np.ndarray, float]:
        """A y for the core, and the largest sum over a pattern of what it is continued to, infinite if none is proved.

        Guarantee: the second is an upper bound; where rounds are put in, y is at least the most that a turning stream
        shows a round, without which nothing could be proved.
        """
        participation, c, w = problem.participation, self.plan.start, self.plan.width
        level = peak(form[c, c : c + w + 1])[1]
        found = []
        for y in coverings(whole, participation, tolerance=problem.tolerance):
            longer = self.continued(y)
            inside = slice(self.middle, self.middle + self.left + self.period)
            longer[inside] = np.maximum(longer[inside], level)
            found.append((participation.largest_sum(longer), y, longer))
        _, y, longer = min(found, key=lambda entry: entry[0])
        band = self.plan.band(form, self.plan.inserted)
        for lift in LIFTS:
            lifted = longer + lift * problem.tolerance * float(longer.mean())
            if is_dominated(band, lifted):
                return y, participation.largest_sum(lifted)
        return y, math.inf

    def _moved(self, found: FormSolution) -> tuple[FormSolution, np.ndarray]:
        """A solution of the core with its stream where it stands in all rounds: moved on after an empty stretch.

        Rounds of the stream that lie after its widest empty stretch are moved on by the rounds that the core leaves
        out. Entries of M̃ that are further apart than w are 0, and others do not change, so that it attains the same.

        Guarantee: a stream of the family, as a gap only grows; its value is that of the core.
        """
        stream = found.witness.reshape(len(found.witness), -1)
        pattern = np.flatnonzero(np.abs(stream).max(axis=1))
        first, last = self.plan.start + self.plan.width, self.plan.start + self.inserted
        inner = pattern[(pattern >= first) & (pattern < last)]
        edges = np.concatenate([[first - 1], inner, [last]])
        widest = int(np.argmax(np.diff(edges)))
        moved = np.where(pattern > edges[widest], pattern + self.left, pattern)
        return (
            FormSolution(
                attained=found.attained,
                bound=found.bound,
                method=found.method,
                witness=found.witness[pattern],
                y=None,
            ),
            moved,
        )


def core_of(plan: Insertion, participation: Participation) -> Core | None:
    """The core that serves a family, or None where M is better written out whole. Speed alone.

    A family of few patterns is solved pattern by pattern; one of few rounds needs a core that holds every pattern
    with its gaps cut short; one without a limit a core that is some widths of the band long.

    Guarantee: ends that are found with any core hold; which one is chosen decides how far apart they are.
    """
    if participation.pattern_count(plan.rounds) <= ENUMERABLE_PATTERNS:
        return None
    longest = min(LONGEST, int(WORTH * plan.rounds))
    room = _holding_all(plan, participation)
    if plan.short + room <= longest and (participation.kind == "at-most" or participation.limit is not None):
        return Core(plan=plan, inserted=room, period=1, holds_all=True)
    if participation.kind == "at-most":
        # Its closest bound goes through sets of rounds, which have to be there.
        return None
    # The worst patterns take the end of one epoch and the beginning of the next.
    period = 2 * participation.size if participation.kind == "epochs" else 1
    inserted = max(WIDTHS * plan.width, plan.width + 3 * max(period, participation.size))
    inserted += (plan.inserted - inserted) % period
    if plan.short + inserted > longest:
        return None
    return Core(plan=plan, inserted=inserted, period=period, holds_all=False)


def _holding_all(plan: Insertion, participation: Participation) -> int:
    """K₁ = w + (n + 1)(ℓ + 1): a core that holds every pattern of at most n rounds.

    Source: docs/proofs/insertion.md, "Families of patterns", the first claim.
    """
    gap = max(plan.width + 1, participation.size if participation.kind == "separated" else 1)
    return plan.width + (participation.largest_count(plan.rounds) + 1) * (gap + 1)
