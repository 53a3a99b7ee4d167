# SPDX-License-Identifier: Apache-2.0
"""What a contribution costs in training on programs that remember more than a model, or exchange several times.

A program is recognised by what it does, not by its name: its instructions are compared with those of the builders whose
differences `sottovoce.verification.recursions` has worked out. For each pair of a view and a target the general
inequality is solved and proved; pairs that a relabelling of the network carries onto each other have one proof.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import InputError, NotCertified
from sottovoce.feedback.general import recursion_cost
from sottovoce.feedback.problem import training
from sottovoce.verification import worked_out

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sottovoce.feedback.problem import TrainingView
    from sottovoce.protocols import Protocol
    from sottovoce.views import View

__all__ = ["program_costs"]

# Speed alone: how far above the optimum a bound may stay, and the fifth powers of sizes that are worth two minutes.
GAP = 1e-3
MOST_WORK = 2e7


def program_costs(
    protocol: Protocol,
    views: Sequence[View],
    updates: tuple[float, float],
    progress: Callable[[int, int], None] | None = None,
) -> list[np.ndarray] | None:
    """What one contribution of each node costs at most in each view, infinite where nothing is proved.

    None where the differences of the program are not worked out, or solving for all pairs would take long.

    Args:
        protocol: whose one program is run in every round; the number of rounds does not matter.
        views: who sees what.
        updates: the slopes of θ ↦ θ + contribution, for all nodes.
        progress: called with (pairs done, pairs in all).

    Guarantee: a run in which the record takes part k times has Δ² at most k times this, whatever the maps in the ball.
    Source: Theorem 2 of docs/training.md.

    >>> from sottovoce import View, graphs
    >>> from sottovoce.protocols import momentum
    >>> heavy = momentum(graphs.metropolis_weights("ring:n=6"), rounds=9, beta="1/2")
    >>> program_costs(heavy, [View.secure_sum(0)], (0.9, 1.0))[0].round(2).tolist()
    [inf, 0.54, 0.23, 0.2, 0.23, 0.54]
    """
    maker = worked_out(protocol)
    if maker is None or (protocol.n / 2) ** 5 > MOST_WORK:
        return None
    try:
        cases = [training(protocol.schedule[0], view, rounds=1, updates=updates) for view in views]
        work = [(case, k) for case in cases for k in range(case.loop.unknown.size)]
        groups = _alike(protocol, work)
        sizes = [maker(*work[first]).sizes[0] for first in dict.fromkeys(groups)]
    except InputError:
        # A view that the recursions are not written for: nothing is proved, and nothing is claimed.
        return None
    if sum((size / 2) ** 5 for size in sizes) > MOST_WORK:
        return None
    costs: dict[int, float] = {}
    for done, first in enumerate(groups, start=1):
        if first not in costs:
            try:
                costs[first] = recursion_cost(maker(*work[first]), gap=GAP).squared_upper
            except NotCertified:
                costs[first] = np.inf
        if progress is not None:
            progress(done, len(groups))
    found = [np.full(protocol.n, np.inf) for _ in cases]
    places = {id(case): k for k, case in enumerate(cases)}
    for (case, position), first in zip(work, groups, strict=True):
        found[places[id(case)]][case.loop.unknown[position]] = costs[first]
    return found


def _alike(protocol: Protocol, work: Sequence[tuple[TrainingView, int]]) -> list[int]:
    """For each pair the first one that it is like: views of one name, nodes that a relabelling carries onto others.

    Guarantee: pairs that are put together have the same Δ²: weights are equal after relabelling, slopes and noise are
    the same for all nodes, and a view of that name sees what the relabelled one sees.
    """
    firsts: list[tuple[str, str, tuple[int, ...], int]] = []
    groups: list[int] = []
    for number, (case, position) in enumerate(work):
        # One observer alone: the members of a coalition have no order that a relabelling would keep.
        observers = tuple(protocol.index(label) for label in case.view.observers)
        nodes = (*observers, int(case.loop.unknown[position]))
        alone = len(observers) == 1 and case.view.name != "custom"
        like = next(
            (
                place
                for name, noise, other, place in firsts
                if alone
                and (name, noise) == (case.view.name, case.view.own_noise)
                and protocol.symmetries.carries(other, nodes)
            ),
            number,
        )
        if like == number and alone:
            firsts.append((case.view.name, case.view.own_noise, nodes, number))
        groups.append(like)
    return groups
