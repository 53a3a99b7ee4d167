# SPDX-License-Identifier: Apache-2.0
"""What a search for the worst coalition returns: the coalition, what it learns, and what is proved about all others."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from sottovoce.accounting import Account
from sottovoce.interval import Interval
from sottovoce.protocols import missing_noise
from sottovoce.scenarios import Answer
from sottovoce.views import rests_on

if TYPE_CHECKING:
    from collections.abc import Hashable

    from sottovoce.scenarios import Relation, Scenario

__all__ = ["COALITION_VIEWS", "CoalitionSearch", "CoalitionView", "Improvement", "ObserverView", "Stopped"]

CoalitionView = Literal["coalition-sums", "coalition-messages"]
ObserverView = Literal["secure-sum", "neighbourhood"]
Stopped = Literal["closed", "time limit", "interrupted"]

COALITION_VIEWS: tuple[CoalitionView, ...] = ("coalition-sums", "coalition-messages")


class Improvement(NamedTuple):
    """A coalition that was better than all before it, and after how many computed views it was found."""

    evaluated: int
    coalition: tuple[Hashable, ...]
    squared: Interval


@dataclass(frozen=True, kw_only=True, eq=False)
class CoalitionSearch(Answer):
    """The coalition of `size` nodes that was found to learn most about a target, and how far others are ruled out.

    `scenario` is what was asked: a view by name, of no coalition in particular, and one target. `sensitivity` is Δ² of
    the found coalition and `method` the bound behind its upper end. `upper_bound` is what Δ² of none of the
    `coalitions` of this size exceeds. `evaluated` counts the views that were computed, `trace` holds the improvements
    in order, and `stopped` says why the search ended: it was closed, it ran out of time, or it was interrupted.

    Guarantee: sensitivity.lower ≤ max over coalitions of Δ² ≤ upper_bound, rounding included, whenever it stopped.
    """

    scenario: Scenario
    size: int
    coalition: tuple[Hashable, ...]
    sensitivity: Interval
    method: str
    upper_bound: float
    coalitions: int
    evaluated: int
    stopped: Stopped
    trace: tuple[Improvement, ...]

    @property
    def target(self) -> Hashable:
        """The node to protect."""
        return self.scenario.one_target

    @property
    def view(self) -> str:
        """What each member sees."""
        return self.scenario.view_name

    @property
    def largest(self) -> Interval:
        """Where the largest Δ² of any coalition of this size lies.

        Guarantee: holds max over all coalitions of `size` candidates of Δ²: the found one reaches the lower end, and
        `upper_bound` holds for each.
        """
        return Interval(self.sensitivity.lower, self.upper_bound)

    @property
    def bare(self) -> str | None:
        """Which noise is missing where the found coalition's Δ is infinite; None where it is finite.

        Where it is not None no noise multiplier makes ε finite; another draw has to be added to the protocol.
        """
        if self.method != "infinite":
            return None
        return missing_noise(self.protocol, self.protocol.index(self.target))

    @property
    def gap(self) -> float:
        """upper_bound / sensitivity.lower − 1: by how much, at most, another coalition may learn more (in Δ²).

        Guarantee: that of both numbers, up to one rounding of the quotient: it is shown, and nothing is proved by it.
        """
        if self.upper_bound == self.sensitivity.lower:
            return 0.0
        return self.upper_bound / self.sensitivity.lower - 1 if self.sensitivity.lower > 0 else math.inf

    @property
    def exact(self) -> bool:
        """Whether no coalition exceeds the found one's upper end: best, up to the width of its interval.

        Guarantee: True only if it is proved; False says that the search ended before it was, not that there is a
        worse one.
        """
        return self.upper_bound <= self.sensitivity.upper

    def account(self, *, noise_multiplier: float, delta: float, relation: Relation | None = None) -> Account:
        """What the found coalition can learn about the target, with noise of σ/clip = `noise_multiplier`.

        The relation is that of the scenario if None.

        Guarantee: both ends hold for the found coalition, under the assumption that its method needs.
        Source: `Account.of`, and `sottovoce.sensitivity` for Δ².
        """
        return self._account(
            self.sensitivity, self.method, noise_multiplier, delta, relation, observers=self.coalition
        )

    def guarantee(
        self, *, noise_multiplier: float, delta: float, relation: Relation | None = None
    ) -> Account:
        """What any coalition of this size can learn about the target: the upper ends hold for each of them.

        Guarantee: upper ends hold for every coalition of this size among the candidates, whenever the search stopped;
        lower ends are reached by the found one. It rests on the strongest assumption that a method of this view may
        need.
        Source: `largest`; docs/proofs/coalitions.md for coalitions that are ruled out together.
        """
        return self._account(self.largest, "search", noise_multiplier, delta, relation)

    def _account(
        self,
        squared: Interval,
        method: str,
        noise_multiplier: float,
        delta: float,
        relation: Relation | None,
        *,
        observers: tuple[Hashable, ...] = (),
    ) -> Account:
        return Account.of(
            squared,
            method=method,
            relation=self.scenario.relation if relation is None else relation,
            noise_multiplier=noise_multiplier,
            delta=delta,
            contribution=self.contribution,
            assumption=rests_on(self.protocol, self.view, None if method == "search" else [method]),
            view=self.view,
            observers=observers,
            target=self.target,
            participation=str(self.participation),
        )
