# SPDX-License-Identifier: Apache-2.0
"""Δ² of training that holds for every loss in the ball of its update maps, all targets of some views at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.feedback import program_costs
from sottovoce.protocols import gossip
from sottovoce.scenarios import Scenario
from sottovoce.sensitivities import largest_training_bound
from sottovoce.views import METHOD_NAMES, training_assumption

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sottovoce.accounting import AccountTable, Relation
    from sottovoce.learning.reactions import Reaction
    from sottovoce.participation import Participation
    from sottovoce.protocols import Protocol
    from sottovoce.scenarios import Depth, Effort
    from sottovoce.sensitivities import Sensitivities
    from sottovoce.views import View

__all__ = ["SHORT", "certified_table", "depth_of", "remembered", "worst_share"]

# Up to so many rounds each gets a step of its own, which is where that pays.
SHORT = 8


def certified_table(
    protocol: Protocol,
    view: View,
    reaction: Reaction,
    relation: Relation,
    participation: Participation,
    accounted: Callable[[Protocol], AccountTable],
) -> AccountTable:
    """The accounts of training under the assumption `smooth`, or none where nothing is known, as `accounted` has them.

    Where slopes vary from round to round, the first few rounds count as seen by everyone and one ball holds the rest:

        Δ² ≤ k + Δ²(rounds k + 1 … T, hull of the balls of rounds k + 2 … T).

    k is what is best for `view`; any is sound, and 0 where records take part in some rounds alone.

    Guarantee: upper ends hold for every family of losses in the balls, and none exceeds the count of rounds.
    Lower ends are attained by linear loops in the ball; where slopes vary there are none.
    Source: Theorem 1 of docs/training.md with Π_t = 0 up to round k; Corollary 3 where nothing is known.
    """
    whole = participation.kind == "full"
    skipped = _skipped(protocol, view, reaction) if reaction.varies and whole else 0
    most = participation.largest_count(protocol.rounds)
    later = _training(protocol, reaction, skipped)
    found = accounted(later)
    upper = np.minimum(found.squared_upper + skipped, most)
    # Where the first rounds count as seen, nobody is out of reach.
    counted = (upper >= most) | ((found.method == "unreached") & (upper > 0))
    method = np.where(counted, "cap", found.method).astype(found.method.dtype)
    return replace(
        found,
        # Without its data a node makes the step of the public part alone, which lies in the ball: see `reaction_of`.
        scenario=replace(
            found.scenario,
            relation=relation,
            protocol=_training(protocol, reaction, 0) if skipped else later,
        ),
        squared_lower=np.zeros_like(upper) if reaction.varies else np.minimum(found.squared_lower, upper),
        squared_upper=upper,
        method=method,
        assumption=training_assumption(method.tolist()),
    )


def depth_of(effort: Effort, rounds: int) -> Depth:
    """How far training over some rounds is solved where nothing else is asked for: the shortest alone pair by pair."""
    if effort.depth != "auto":
        return effort.depth
    return "auto" if rounds <= SHORT else "bulk"


def remembered(
    found: Sequence[Sensitivities],
    scenario: Scenario,
    reaction: Reaction,
    progress: Callable[[int, int], None] | None = None,
) -> list[Sensitivities]:
    """Views of a program, `found` as if each observer heard every message, with what is hidden from it counted.

    For programs with memory that are worked out (momentum, several exchanges a round) and losses of known slopes

        Δ² ≤ k·y,   y what the general inequality proves of one contribution, k how often the record takes part.

    Where that is smaller the method is `shift`, which rests on `smooth`; else it stays what whoever hears every message
    learns, `cap`. Without anything smaller the views are returned as they are.

    Guarantee: upper ends hold for training, under `smooth` where the method is `shift`, and elsewhere without it.
    Source: Theorem 2 of docs/training.md; where every message is seen, there too.
    """
    ball = reaction.hull(0, scenario.protocol.rounds)
    costs = None
    if ball is not None and not reaction.varies:
        costs = program_costs(scenario.protocol, scenario.views, ball, progress)
    if costs is None:
        return list(found)
    # Contributions of norm 1 in all, however many, cost what one of that norm does.
    energy = scenario.contribution == "energy"
    count = 1 if energy else scenario.participation.largest_count(scenario.protocol.rounds)
    kept = []
    for one, cost in zip(found, costs, strict=True):
        upper = np.nextafter(count * cost[one.indices], np.inf)
        better = upper < one.squared_upper
        method = np.where(better, "shift", "cap").astype(METHOD_NAMES)
        kept.append(replace(one, squared_upper=np.where(better, upper, one.squared_upper), method=method))
    return kept if any((one.method == "shift").any() for one in kept) else list(found)


def worst_share(protocol: Protocol, view: View, reaction: Reaction, skipped: int = 0) -> float:
    """The largest Δ²/T over the targets of one view, quickly; its first rounds may count as seen by everyone.

    Guarantee: the bound is an upper one; its share of T is rounded to nearest and only chooses how many rounds to
    skip.
    """
    question = Scenario(protocol=_training(protocol, reaction, skipped), view=view)
    bound = largest_training_bound(question)
    return min((skipped + bound) / protocol.rounds, 1.0)


def _skipped(protocol: Protocol, view: View, reaction: Reaction) -> int:
    """How many rounds at the start to count as seen: what is best for one view. Any number of them is sound."""
    tried = [0, *(1 << k for k in range(protocol.rounds.bit_length()) if 2 << k < protocol.rounds)]
    return min(tried, key=lambda count: worst_share(protocol, view, reaction, count))


def _training(protocol: Protocol, reaction: Reaction, skipped: int) -> Protocol:
    """The rounds after the first few as a protocol whose maps lie in one ball, or of which nothing is known."""
    hull = reaction.hull(skipped, protocol.rounds)
    return gossip(protocol.weights, rounds=protocol.rounds - skipped, updates="any" if hull is None else hull)
