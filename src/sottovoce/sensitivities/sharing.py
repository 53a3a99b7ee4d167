# SPDX-License-Identifier: Apache-2.0
"""Views of many observers: one of each orbit is looked at, and what it sees is carried to the others.

A relabelling π that keeps the protocol carries the view of observer r to that of π(r), law for law: Δ² of target k in
the one is Δ² of π(k) in the other, and so is every stream. Ends that hold for the one hold for the other.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.sensitivities.policy import bounds_together, sensitivity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sottovoce.scenarios import Effort, Scenario
    from sottovoce.sensitivities.results import Sensitivities

__all__ = ["carried", "carried_views", "is_shared"]


def is_shared(scenario: Scenario) -> bool:
    """Whether observers of a scenario may share answers: each has the view of one name, and training is left out."""
    return scenario.takes_turns and scenario.protocol.updates is None


def carried(
    found: Sensitivities, question: Scenario, images: np.ndarray | None, targets: np.ndarray
) -> Sensitivities:
    """What was found of one view as the answer about the view that a relabelling carries it to.

    `images[k]` is where node k is carried, nowhere else if None; `targets` are the indices that are asked for, in
    ascending order, all of them images of targets of `found`.
    """
    place_of = np.full(question.protocol.n, -1)
    place_of[found.indices if images is None else images[found.indices]] = np.arange(len(found))
    places = place_of[targets]
    if (places < 0).any():
        raise AssertionError("a target was asked for that is no image of one that was looked at")
    return replace(
        found,
        scenario=question,
        indices=targets,
        squared_lower=found.squared_lower[places],
        squared_upper=found.squared_upper[places],
        method=found.method[places],
        witness_of=lambda place: found.witness_of(int(places[place])),
    )


def carried_views(
    questions: Sequence[Scenario],
    effort: Effort,
    progress: Callable[[int], Callable[[int, int], None] | None],
) -> Iterator[Sensitivities]:
    """The answers to questions of one scenario about one observer each, in order; each orbit is looked at once.

    `progress(k)` is the callback of question k.

    Guarantee: as for `sensitivity`.
    """
    protocol = questions[0].protocol
    source_of = {protocol.index(one.one_view.observers[0]): one for one in questions}
    orbits = protocol.symmetries.orbits(source_of)
    left = Counter(map(orbits.first, source_of))
    asked: dict[int, set[int]] = {first: set() for first in left}
    for node, one in source_of.items() if questions[0].targets is not None else ():
        images = orbits.images(node)
        origins = one.target_indices if images is None else np.argsort(images)[one.target_indices]
        asked[orbits.first(node)].update(origins.tolist())
    found: dict[int, Sensitivities] = {}
    for number, (node, one) in enumerate(source_of.items()):
        first = orbits.first(node)
        if first not in found:
            whole = source = source_of[first]
            if asked[first]:
                whole = source.of(source.one_view, [protocol.labels[k] for k in sorted(asked[first])])
            spent = _no_less(effort, source, whole)
            found[first] = sensitivity(whole, effort=spent, progress=progress(number))
        yield carried(found[first], one, orbits.images(node), one.target_indices)
        left[first] -= 1
        if not left[first]:
            del found[first]


def _no_less(effort: Effort, source: Scenario, whole: Scenario) -> Effort:
    """The effort that targets of one observer would have had, for all that are looked at in its place."""
    if bounds_together(whole, effort) and not bounds_together(source, effort):
        return replace(effort, depth="fine")
    return effort
