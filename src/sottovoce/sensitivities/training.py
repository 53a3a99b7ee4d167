# SPDX-License-Identifier: Apache-2.0
"""Δ² of training: views of a protocol whose nodes update what they received by maps of known slopes, or of none.

In training a node's contribution depends on hidden states that carry the target's signal on, and M of the open
loop is no bound (docs/mathematics.md, section 10). What is bounded instead is the worst over all update maps
whose slopes lie in a ball around a public centre: a matrix inequality on the difference of two runs proves it.
The room `feedback` has the mathematics; this module turns its pairs into tables of the same form as any other.

Unless pairs are few, or `fine` is asked for, not every pair is solved: all are bounded quickly, then the one with
the largest bound is sharpened, again and again, until the worst is known. So ends of other pairs are wider, and
each is proved all the same.
Source: Theorem 1 and Corollaries 2 and 3 of docs/training.md; its section All pairs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import InputError
from sottovoce.feedback import (
    Sharpening,
    check_size,
    protocol_levels,
    stages_of,
    training_of,
    training_sensitivities,
)
from sottovoce.protocols import float_above, float_below
from sottovoce.scenarios import Effort
from sottovoce.sensitivities.one_form.patterns import earliest_pattern
from sottovoce.sensitivities.results import Sensitivities
from sottovoce.views import METHOD_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sottovoce.scenarios import Scenario

__all__ = [
    "SharpenedViews",
    "largest_training_bound",
    "sharpened_views",
    "solves_each",
    "training_view_sensitivity",
]

# Speed alone: so few pairs are solved one by one, in a second or a few each.
FEW = 12


def solves_each(effort: str, pairs: int) -> bool:
    """Whether every pair of training is solved for itself; if not, as many as it takes to know the worst.

    Speed alone: both ways prove every end.

    >>> solves_each("auto", 12), solves_each("auto", 13), solves_each("fine", 13), solves_each("bulk", 1)
    (True, False, True, False)
    """
    return effort == "fine" or (effort == "auto" and pairs <= FEW)


def training_view_sensitivity(
    scenario: Scenario, effort: Effort, progress: Callable[[int, int], None] | None = None
) -> Sensitivities:
    """Δ² of a view of training for each target.

    Guarantee: Δ² is at most the upper end for every family of update maps in the ball, vectors of any dimension and
    observers who send what they like; the lower end is what a linear loop in the ball attains.
    Source: `feedback.training_sensitivity`, `feedback.Sharpening`.
    """
    _check_settings(scenario, effort)
    protocol, indices = scenario.protocol, scenario.target_indices
    if scenario.view_name == "everyone":
        return _seen_by_all(scenario, indices)
    if not solves_each(effort.depth, len(indices)):
        work = sharpened_views([scenario], effort)
        work.pairs.run(progress)
        return work.found()[0]
    found = training_sensitivities(
        protocol,
        scenario.one_view,
        indices,
        participation=scenario.participation,
        effort="fine" if effort.depth == "fine" else "auto",
        progress=progress,
    )
    return Sensitivities(
        scenario=scenario,
        engine="shift",
        indices=indices,
        squared_lower=np.array([one.squared.lower for one in found]),
        squared_upper=np.array([one.squared.upper for one in found]),
        method=np.array([one.method for one in found], dtype=METHOD_NAMES),
        witness_of=lambda place: found[place].attack.stream(protocol.rounds),
    )


def _seen_by_all(scenario: Scenario, indices: np.ndarray) -> Sensitivities:
    """Each contribution stands beside its own noise alone, whatever the maps: Δ² counts rounds over that variance.

        Δ² = (rounds of the largest pattern) / level_j²,

    level_j being the standard deviation of the noise of node j in units of the common one, a rational.

    Guarantee: exact, each end rounded outward.
    Source: docs/training.md, Where every message is seen.
    """
    scenario.protocol.require_gossip()
    rounds, participation = scenario.protocol.rounds, scenario.participation
    count = participation.largest_count(rounds)
    levels = protocol_levels(scenario.protocol)
    exact = [count / levels[j] ** 2 for j in indices.tolist()]
    return Sensitivities(
        scenario=scenario,
        engine="shift",
        indices=indices,
        squared_lower=np.array([float_below(each) for each in exact]),
        squared_upper=np.array([float_above(each) for each in exact]),
        method=np.full(len(indices), "cap", dtype=METHOD_NAMES),
        witness_of=lambda _: earliest_pattern(participation, rounds).astype(np.float64),
    )


class SharpenedViews:
    """Several views of training whose pairs are bounded together and sharpened while they may be the worst.

    `pairs` is the work, which can be run, watched and stopped; `asked` has the question and the target indices of
    each view, in the order in which pairs are counted.
    """

    def __init__(self, pairs: Sharpening, asked: Sequence[tuple[Scenario, np.ndarray]]) -> None:
        """Keep the work and what it is about."""
        self.pairs, self.asked = pairs, asked

    def found(self) -> list[Sensitivities]:
        """What is proved by now, of the views that were begun: whole when `pairs.run` has ended.

        Guarantee: the upper ends are proved at any time, so that work that was interrupted is not lost, only wider.
        """
        return [self._found(row) for row in range(self.pairs.begun)]

    def _found(self, row: int) -> Sensitivities:
        # Pairs are counted view by view: those of this view are `span`. Arrays are copied, since the work goes on.
        scenario, indices = self.asked[row]
        start = int(self.pairs.starts[row])
        span = slice(start, start + len(indices))
        return Sensitivities(
            scenario=scenario,
            engine="shift",
            indices=indices,
            squared_lower=self.pairs.lower[span].copy(),
            squared_upper=self.pairs.upper[span].copy(),
            method=self.pairs.method[span].copy(),
            witness_of=lambda place: self.pairs.stream(start + place, scenario.protocol.rounds),
        )


def sharpened_views(
    questions: Sequence[Scenario], effort: Effort, *, attacked: bool = True
) -> SharpenedViews:
    """The work of bounding the targets of all these views of one protocol, none of it done yet.

    Unless they are `attacked`, their lower ends stay 0, which is a lower end too. All questions must be about one
    protocol; what is not worked out for training is refused with an InputError.

    Guarantee: none of its own; once `pairs` has run, and whenever it was stopped, the ends of every pair hold.
    """
    protocol = questions[0].protocol
    protocol.require_gossip()
    _check_settings(questions[0], effort)
    check_size(protocol.n, protocol.weights.matrix.nnz, len(questions))
    cases = [training_of(protocol, one.one_view, one.participation) for one in questions]
    asked = [(one, one.target_indices) for one in questions]
    places = [
        np.searchsorted(case.loop.unknown, indices) for case, (_, indices) in zip(cases, asked, strict=True)
    ]
    stages = stages_of("quick" if effort.depth == "bulk" else "auto")
    work = Sharpening(cases=cases, places=places, efforts=stages, attacked=attacked)
    return SharpenedViews(work, asked)


def largest_training_bound(scenario: Scenario) -> float:
    """The largest upper end of Δ² over the targets of a view of training, bounded in bulk.

    Guarantee: Δ² of every target is at most that; it is the largest end of `training_view_sensitivity` in bulk,
    whose lower ends, which cost most of the work, are not looked for.
    Source: as there.
    """
    if scenario.view_name == "everyone":
        return float(_seen_by_all(scenario, scenario.target_indices).squared_upper.max())
    work = sharpened_views([scenario], Effort(depth="bulk"), attacked=False)
    work.pairs.run()
    return float(work.pairs.upper.max())


def _check_settings(scenario: Scenario, effort: Effort) -> None:
    """Refuse what is not worked out for training.

    Guarantee: what passes has one meaning; bounds for vectors hold for numbers, so that nothing is lost but width.
    """
    if effort.engine != "auto":
        raise InputError(
            f"engine must be auto for training, which has one engine of its own; got {effort.engine!r}"
        )
    if scenario.contribution != "vector":
        raise InputError(
            "contribution must be vector for training, whose bounds hold for numbers too; got "
            f"{scenario.contribution!r}"
        )
