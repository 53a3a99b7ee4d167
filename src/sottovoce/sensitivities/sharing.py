# SPDX-License-Identifier: Apache-2.0
"""Views of many observers: one of each orbit is looked at, and what it sees is carried to the others.

A relabelling π that keeps the protocol carries the view of observer r to that of π(r), law for law: Δ² of target k in
the one is Δ² of π(k) in the other, and so is every stream. Ends that hold for the one hold for the other. In training π
keeps the slopes too, so that it carries update maps of the ball onto update maps of the ball.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.sensitivities.policy import bounds_together, sensitivity
from sottovoce.sensitivities.training import solves_each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sottovoce.scenarios import Effort, Scenario
    from sottovoce.sensitivities.results import Sensitivities

__all__ = ["SharedQuestions", "carried", "carried_views", "portion_of"]


def carried(
    found: Sensitivities, question: Scenario, images: np.ndarray | None, targets: np.ndarray
) -> Sensitivities:
    """What was found of one view as the answer about the view that a relabelling carries it to.

    `images[k]` is where node k is carried, nowhere else if None; `targets` are the indices that are asked for, in
    ascending order, all of them images of targets of `found`.

    Guarantee: exact: each end is that of the target which is carried there, and holds for it if the relabelling keeps
    the protocol and carries the view of `found` to that of the question. A target that is no image is refused.
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


class SharedQuestions:
    """Questions about one observer each, which of them are looked at, and how answers are carried to the others.

    `looked_at` has one question of each orbit, with the targets that are carried to those of the others in it;
    `source[k]` is the place there of what answers question k.
    """

    def __init__(self, questions: Sequence[Scenario]) -> None:
        """Find the orbits of the observers that are asked about; a question that is alone may be about any view."""
        self.questions = questions
        self.looked_at, self.source = list(questions), [0]
        self._images: list[np.ndarray | None] = [None]
        if len(questions) > 1:
            self._share(questions)

    def _share(self, questions: Sequence[Scenario]) -> None:
        """Let each orbit have one question.

        Observers of one orbit see the same up to a relabelling, which carries the targets of the one to those of the
        first: these are asked for in the first's question, and answers are carried back by `answer`.

        Guarantee: exact: a relabelling keeps weights and program, hence every Δ².
        """
        protocol = questions[0].protocol
        nodes = [protocol.index(one.one_view.observers[0]) for one in questions]
        orbits = protocol.symmetries.orbits(nodes)
        self._images = [orbits.images(node) for node in nodes]
        firsts = {first: place for place, first in enumerate(dict.fromkeys(map(orbits.first, nodes)))}
        self.source = [firsts[orbits.first(node)] for node in nodes]
        own = dict(zip(nodes, questions, strict=True))
        self.looked_at = [own[first] for first in firsts]
        if questions[0].targets is not None:
            asked: list[set[int]] = [set() for _ in firsts]
            for place, images, one in zip(self.source, self._images, questions, strict=True):
                origins = one.target_indices if images is None else np.argsort(images)[one.target_indices]
                asked[place].update(origins.tolist())
            self.looked_at = [
                one.of(one.one_view, [protocol.labels[k] for k in sorted(some)]) if some else one
                for one, some in zip(self.looked_at, asked, strict=True)
            ]

    def answer(self, number: int, found: Sensitivities) -> Sensitivities:
        """What was found for the question that is looked at in its place, as the answer to a question.

        Guarantee: that of `found`, by `carried`.
        """
        one = self.questions[number]
        return carried(found, one, self._images[number], one.target_indices)


def carried_views(
    questions: Sequence[Scenario],
    effort: Effort,
    progress: Callable[[int], Callable[[int, int], None] | None],
) -> Iterator[Sensitivities]:
    """The answers to questions of one scenario about one observer each, in order; each orbit is looked at once.

    `progress(k)` is the callback of question k.

    Guarantee: as for `sensitivity`.
    """
    shared = SharedQuestions(questions)
    left = Counter(shared.source)
    found: dict[int, Sensitivities] = {}
    for number, (source, one) in enumerate(zip(shared.source, questions, strict=True)):
        if source not in found:
            whole = shared.looked_at[source]
            spent = _no_less(effort, one, whole)
            found[source] = sensitivity(whole, effort=spent, progress=progress(number))
        yield shared.answer(number, found[source])
        left[source] -= 1
        if not left[source]:
            del found[source]


def _no_less(effort: Effort, source: Scenario, whole: Scenario) -> Effort:
    """The effort that targets of one observer would have had, for all that are looked at in its place.

    Guarantee: a pair is never worked on less because another observer's answer is carried to it.
    """
    if source.protocol.updates is None:
        less = bounds_together(whole, effort) and not bounds_together(source, effort)
    else:
        less = solves_each(effort.depth, source.pairs) and not solves_each(effort.depth, whole.pairs)
    return replace(effort, depth="fine") if less else effort


def portion_of(
    progress: Callable[[int, int], None] | None, done: int, size: int, total: int
) -> Callable[[int, int], None] | None:
    """The callback of one view of `size` pairs, which counts on from the `done` pairs of the views before it."""
    if progress is None:
        return None
    return lambda part, whole: progress(done + size * part // whole, total)
