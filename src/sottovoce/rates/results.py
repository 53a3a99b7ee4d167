# SPDX-License-Identifier: Apache-2.0
"""What a computation of rates returns: intervals for many targets as arrays, or one of them.

All numbers are rates, Δ² a round for a noise of standard deviation 1 and contributions that differ by at most 1.
They are asymptotic: at a finite number T of rounds Δ²/T can be larger.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sottovoce.interval import Interval
from sottovoce.scenarios import Answer
from sottovoce.views import place_among

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    import numpy as np

    from sottovoce.protocols import Contribution
    from sottovoce.scenarios import Scenario
    from sottovoce.views import View

__all__ = ["Rate", "RateEnds", "Rates"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Rate:
    """The limit of Δ²/T for one target.

    `frequency` (radians a round, 0 to π) is that of the stream behind the lower end; `constant` is φ(0), the
    limit for contributions that never change.

    Guarantee: `limit` holds the limit; `constant` is an estimate, at most the upper end.
    """

    target: Hashable
    limit: Interval
    frequency: float
    constant: float
    contribution: Contribution


@dataclass(frozen=True, kw_only=True, eq=False)
class RateEnds:
    """The ends of lim Δ²/T of several targets of one view: arrays, one entry a target, filled in place.

    `frequency` and `constant` are those of `Rate`. `method` says on which system the filter was solved. `bare` holds
    the indices of nodes of which a contribution is seen beside no noise: their Δ² is infinite, not only their rate.

    Guarantee: lower ≤ limit ≤ upper, entry by entry; an upper end may be infinite for programs other than plain
    gossip. Where the observer was `over_informed`, given more than its view says, `upper` alone bounds the rate.
    """

    lower: np.ndarray
    upper: np.ndarray
    frequency: np.ndarray
    constant: np.ndarray
    method: str
    bare: frozenset[int] = frozenset()
    over_informed: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Rates(Answer):
    """The limits of Δ²/T of one view for many targets, arrays in index order; `rates[label]` is one `Rate`.

    `scenario` is what was asked, of one view; the number of its rounds plays no role. `targets` holds node names and
    `indices` their positions in the protocol; those whose noise the observer knows are left out. What was found of
    them stands in `ends`, and can be read here.

    Guarantee: that of `RateEnds`.
    """

    scenario: Scenario
    targets: np.ndarray
    indices: np.ndarray
    ends: RateEnds

    @property
    def view(self) -> View:
        """What the observer sees and whose noise it knows."""
        return self.scenario.one_view

    @property
    def method(self) -> str:
        """On which system the filter was solved."""
        return self.ends.method

    @property
    def lower(self) -> np.ndarray:
        """The lower end of each target.

        Guarantee: at most the limit.
        """
        return self.ends.lower

    @property
    def upper(self) -> np.ndarray:
        """The upper end of each target.

        Guarantee: at least the limit.
        """
        return self.ends.upper

    @property
    def frequency(self) -> np.ndarray:
        """The frequency of the stream behind each lower end, in radians a round.

        Guarantee: none of its own; it says where the lower end was found.
        """
        return self.ends.frequency

    @property
    def constant(self) -> np.ndarray:
        """The limit for contributions that never change.

        Guarantee: an estimate, at most the upper end.
        """
        return self.ends.constant

    @property
    def bare(self) -> frozenset[int]:
        """The indices of nodes of which a contribution is seen beside no noise."""
        return self.ends.bare

    def __len__(self) -> int:
        """How many targets there are."""
        return len(self.indices)

    def __iter__(self) -> Iterator[Rate]:
        """The targets one by one."""
        return (self[label] for label in self.targets)

    def __getitem__(self, label: Hashable) -> Rate:
        """The rate of the target called `label`.

        Guarantee: `limit` holds lim Δ²/T of that target, as `rate` says; `frequency` is where the supremum was found,
        and proves nothing.
        """
        place = place_among(self.protocol, self.view, self.indices, label)
        return Rate(
            target=label,
            limit=Interval(float(self.lower[place]), float(self.upper[place])),
            frequency=float(self.frequency[place]),
            constant=float(self.constant[place]),
            contribution=self.contribution,
        )
