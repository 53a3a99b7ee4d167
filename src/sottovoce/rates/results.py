# SPDX-License-Identifier: Apache-2.0
"""What a computation of rates returns: intervals for many targets as arrays, or one of them.

All numbers are rates, Δ² a round for a noise of standard deviation 1 and contributions that differ by at most 1.
They are asymptotic: at a finite number T of rounds Δ²/T can be larger.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sottovoce.interval import Interval
from sottovoce.views import place_among

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    import numpy as np

    from sottovoce.protocols import Contribution, Protocol
    from sottovoce.views import View

__all__ = ["Rate", "Rates"]


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
class Rates:
    """The limits of Δ²/T of one view for many targets, arrays in index order; `rates[label]` is one `Rate`.

    `targets` holds node names and `indices` their positions in the protocol. `method` says on which system
    the filter was solved. Targets whose noise the observer knows are left out. `bare` holds the indices of nodes of
    which a contribution is seen beside no noise: their Δ² is infinite, not only their rate.

    Guarantee: lower ≤ limit ≤ upper, entry by entry; an upper end may be infinite for programs other than plain
    gossip. `frequency` and `constant` are those of `Rate`.
    """

    protocol: Protocol
    view: View
    contribution: Contribution
    method: str
    targets: np.ndarray
    indices: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    frequency: np.ndarray
    constant: np.ndarray
    bare: frozenset[int] = frozenset()

    def __len__(self) -> int:
        """How many targets there are."""
        return len(self.indices)

    def __iter__(self) -> Iterator[Rate]:
        """The targets one by one."""
        return (self[label] for label in self.targets)

    def __getitem__(self, label: Hashable) -> Rate:
        """The rate of the target called `label`."""
        place = place_among(self.protocol, self.view, self.indices, label)
        return Rate(
            target=label,
            limit=Interval(float(self.lower[place]), float(self.upper[place])),
            frequency=float(self.frequency[place]),
            constant=float(self.constant[place]),
            contribution=self.contribution,
        )
