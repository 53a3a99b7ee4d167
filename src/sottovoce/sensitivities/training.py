# SPDX-License-Identifier: Apache-2.0
"""Δ² of training: views of a protocol whose nodes update what they received by maps of known slopes, or of none."""

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

# So few pairs are solved one by one, in a second or a few each.
FEW = 12


def solves_each(effort: str, pairs: int) -> bool:
    """Whether every pair of training is solved for itself; if not, as many as it takes to know the worst."""
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

    Guarantee: exact, each end rounded outward.
    """
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
    """Several views of training whose pairs are bounded together and sharpened while they may be the worst."""

    def __init__(self, pairs: Sharpening, asked: Sequence[tuple[Scenario, np.ndarray]]) -> None:
        """Keep the work and what it is about."""
        self.pairs, self.asked = pairs, asked

    def found(self) -> list[Sensitivities]:
        """What is proved by now, of the views that were begun: whole when `pairs.run` has ended."""
        return [self._found(row) for row in range(self.pairs.begun)]

    def _found(self, row: int) -> Sensitivities:
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

    Unless they are `attacked`, their lower ends stay 0.
    """
    protocol = questions[0].protocol
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

    Guarantee: Δ² of every target is at most that; it is the largest end of `training_view_sensitivity` in bulk, whose
    lower ends, which cost most of the work, are not looked for.
    Source: as there.
    """
    if scenario.view_name == "everyone":
        return float(_seen_by_all(scenario, scenario.target_indices).squared_upper.max())
    work = sharpened_views([scenario], Effort(depth="bulk"), attacked=False)
    work.pairs.run()
    return float(work.pairs.upper.max())


def _check_settings(scenario: Scenario, effort: Effort) -> None:
    """Refuse what is not worked out for training."""
    if effort.engine != "auto":
        raise InputError(
            f"engine must be auto for training, which has one engine of its own; got {effort.engine!r}"
        )
    if scenario.contribution != "vector":
        raise InputError(
            "contribution must be vector for training, whose bounds hold for numbers too; got "
            f"{scenario.contribution!r}"
        )
