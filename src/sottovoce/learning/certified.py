# SPDX-License-Identifier: Apache-2.0
"""Δ² of training that holds for every loss in the ball of its update maps, all pairs of a view's name at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from sottovoce.accounting import AccountTable
from sottovoce.feedback import training, training_pairs, training_sensitivity
from sottovoce.feedback.closed import cap, twins
from sottovoce.sensitivities.bulk import METHOD_NAMES
from sottovoce.views import observe, target_indices

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from numpy.typing import NDArray

    from sottovoce.accounting import Assumption, Relation
    from sottovoce.learning.reactions import Reaction
    from sottovoce.protocols import Protocol
    from sottovoce.views import View

    Array: TypeAlias = NDArray[np.float64]
    Ball: TypeAlias = tuple[float, float] | Literal["any"]

__all__ = ["certified_table", "worst_share"]

# Methods that hold for maps of any kind.
UNASSUMED = {"cap", "twins", "unreached"}
# Up to so many rounds each gets a step of its own, which is where that pays.
SHORT = 8


class _Ends(NamedTuple):
    """Upper ends of Δ² and methods for the targets of some views, one after the other."""

    upper: Array
    method: NDArray[np.str_]


def certified_table(
    protocol: Protocol,
    views: Sequence[View],
    reaction: Reaction,
    *,
    noise_multiplier: float,
    delta: float,
    relation: Relation,
    progress: Callable[[int, int], None] | None = None,
) -> AccountTable:
    """The accounts of all targets of these views, under the assumption `smooth`, or none where nothing is known.

    Where slopes vary from round to round, the first few rounds count as seen by everyone and one ball holds the rest:

        Δ² ≤ k + Δ²(rounds k + 1 … T, hull of the balls of rounds k + 2 … T).

    Guarantee: upper ends hold for every family of losses in the balls, and none exceeds the number of rounds. The lower
    end of the worst pair is attained by a linear loop in its ball; other pairs have none.
    Source: Theorem 1 of docs/training.md with Π_t = 0 up to round k; Corollary 3 where nothing is known.
    """
    skipped = _skipped(protocol, views[0], reaction) if reaction.varies else 0
    ball = _ball(reaction, skipped, protocol.rounds)
    rounds = protocol.rounds - skipped
    indices = [target_indices(protocol, view, observe(protocol, view).known, None) for view in views]
    found = _bounded(protocol, views, indices, rounds, ball, progress)
    upper = np.minimum(found.upper + skipped, protocol.rounds)
    method = np.where(upper >= protocol.rounds, "cap", found.method).astype(METHOD_NAMES)
    observer_of = np.repeat(np.arange(len(views)), [len(each) for each in indices])
    lower = np.zeros(len(upper))
    if skipped == 0 and not reaction.varies and ball != "any":
        worst = int(upper.argmax())
        target = protocol.labels[int(np.concatenate(indices)[worst])]
        attained = training_sensitivity(
            protocol.weights,
            views[int(observer_of[worst])],
            target,
            rounds=rounds,
            updates=ball,
            effort="quick",
        )
        lower[worst] = min(attained.squared.lower, upper[worst])
    assumption: Assumption = "none" if set(method.tolist()) <= UNASSUMED else "smooth"
    return AccountTable(
        protocol=protocol,
        view=views[0].name,
        own_noise=views[0].own_noise,
        relation=relation,
        contribution="vector",
        noise_multiplier=noise_multiplier,
        delta=delta,
        observers=tuple(view.observers for view in views),
        observer_of=observer_of,
        target_indices=np.concatenate(indices),
        squared_lower=lower,
        squared_upper=upper,
        method=method,
        assumption=assumption,
    )


def worst_share(protocol: Protocol, view: View, reaction: Reaction) -> float:
    """The largest Δ²/T over the targets of one view, quickly."""
    ball = _ball(reaction, 0, protocol.rounds)
    indices = target_indices(protocol, view, observe(protocol, view).known, None)
    found = _bounded(protocol, [view], [indices], protocol.rounds, ball, None, quick=True)
    return min(float(found.upper.max()) / protocol.rounds, 1.0)


def _ball(reaction: Reaction, skipped: int, rounds: int) -> Ball:
    """One ball for the later rounds, or nothing known."""
    hull = reaction.hull(skipped, rounds)
    return "any" if hull is None else hull


def _skipped(protocol: Protocol, view: View, reaction: Reaction) -> int:
    """How many rounds at the start to count as seen: what is best for one view. Any number of them is sound."""
    indices = target_indices(protocol, view, observe(protocol, view).known, None)
    tried = [0, *(2**k for k in range(protocol.rounds.bit_length()) if 2 ** (k + 1) < protocol.rounds)]
    costs: dict[int, float] = {}
    for count in tried:
        ball = _ball(reaction, count, protocol.rounds)
        rounds = protocol.rounds - count
        found = _bounded(protocol, [view], [indices], rounds, ball, None, quick=True)
        costs[count] = count + float(found.upper.max())
    return min(costs, key=lambda count: costs[count])


def _bounded(
    protocol: Protocol,
    views: Sequence[View],
    indices: Sequence[NDArray[np.int64]],
    rounds: int,
    ball: Ball,
    progress: Callable[[int, int], None] | None,
    *,
    quick: bool = False,
) -> _Ends:
    """Proved bounds for every target of every view, as sharp as the worst one needs."""
    if isinstance(ball, str):
        return _of_any_kind(protocol, views, indices, rounds, progress)
    watched: dict[Hashable, View] = {view.observers[0]: view for view in views}
    pairs = training_pairs(
        protocol.weights,
        rounds=rounds,
        updates=ball,
        view=watched.__getitem__,
        observers=watched,
        pairs="all",
        effort="quick" if quick or rounds > SHORT else "auto",
        progress=progress,
    )
    place = {
        (view.observers[0], int(index)): at
        for at, (view, index) in enumerate(
            (view, index) for view, some in zip(views, indices, strict=True) for index in some
        )
    }
    upper, method = np.zeros(len(place)), np.full(len(place), "cap", dtype=METHOD_NAMES)
    for k, (observer, target, squared) in enumerate(pairs):
        at = place[observer, protocol.index(target)]
        upper[at], method[at] = squared, pairs.method[k]
    return _Ends(upper, method)


def _of_any_kind(
    protocol: Protocol,
    views: Sequence[View],
    indices: Sequence[NDArray[np.int64]],
    rounds: int,
    progress: Callable[[int, int], None] | None,
) -> _Ends:
    """What holds for maps of any kind: nodes that nobody can tell apart, or else the number of rounds."""
    upper, method = [], []
    for number, (view, some) in enumerate(zip(views, indices, strict=True), start=1):
        case = training(protocol.weights, view, rounds=rounds, updates="any")
        for index in some.tolist():
            place = case.loop.position(index)
            proofs = [cap(case, place)]
            if case.loop.rows and case.count and (alike := twins(case, place)) is not None:
                proofs.append(alike)
            best = min(proofs, key=lambda one: one.squared_upper)
            upper.append(best.squared_upper)
            method.append(best.proof.method)
        if progress is not None:
            progress(number, len(views))
    return _Ends(np.array(upper), np.array(method, dtype=METHOD_NAMES))
