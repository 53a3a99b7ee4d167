# SPDX-License-Identifier: Apache-2.0
"""`StatedAccount`: what a published account says of one view, before anything of it is checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["StatedAccount"]


@dataclass(frozen=True, kw_only=True, eq=False)
class StatedAccount:
    """What a published account says of one view: its run, and an upper end of Δ² for each pair.

    Nodes are positions in `labels`; pair k is that of `observers[observer_of[k]]` and `targets[k]`, with the upper
    end `squared_upper[k]`.

    `weights_hash`, `protocol_hash` and `damping_hash` name network, program and factors on the model; the last is
    None unless the program is gossip that is damped. `exchanges` are those of a round that the view is restricted to,
    None if it sees all. `view`, `own_noise`, `contribution`, `participation` and `assumption` are words as a
    certificate spells them. `relation`, `factor`, `noise_multiplier` and `delta` make μ of Δ, and `epsilon_upper`
    is the ε that is shown. `pairs_computed` and `pairs_possible` are what the page says of its own completeness,
    and `observers_left_out` how many observers it does not list although they were computed.
    """

    weights_hash: str
    labels: Sequence[int | str]
    rounds: int
    view: str
    own_noise: str
    exchanges: tuple[int, ...] | None
    contribution: str
    participation: str
    assumption: str
    damping_hash: str | None
    protocol_hash: str
    relation: str
    factor: float
    noise_multiplier: float
    delta: float
    epsilon_upper: float
    observers: Sequence[tuple[int, ...]]
    observer_of: NDArray[np.int64]
    targets: NDArray[np.int64]
    squared_upper: NDArray[np.float64]
    pairs_computed: int
    pairs_possible: int
    observers_left_out: int

    def __post_init__(self) -> None:
        """Refuse columns that do not fit each other or the nodes.

        After this every index is in range and no upper end is negative or NaN; an infinite one is allowed.
        """
        sizes = {self.observer_of.size, self.targets.size, self.squared_upper.size}
        if len(sizes) > 1 or 0 in sizes:
            raise InputError("the columns of its pairs must have the same length, and hold a pair")
        n, rows = len(self.labels), len(self.observers)
        named = (self.targets, np.array([node for each in self.observers for node in each], dtype=np.int64))
        if any(((nodes < 0) | (nodes >= n)).any() for nodes in named):
            raise InputError(f"its pairs must name nodes between 0 and {n - 1}")
        if ((self.observer_of < 0) | (self.observer_of >= rows)).any():
            raise InputError(f"its pairs must name observers between 0 and {rows - 1}")
        if not (self.squared_upper >= 0).all():
            raise InputError("its upper ends of Δ² must not be negative")

    @property
    def squared(self) -> float:
        """The largest upper end of Δ²: that of the worst pair.

        Guarantee: the page's word for every pair; it is proved by `verify_account` or not at all.
        """
        return float(self.squared_upper.max())

    def pair(self, place: int) -> tuple[tuple[int, ...], int]:
        """The observers and the target of a pair."""
        return tuple(sorted(self.observers[self.observer_of[place]])), int(self.targets[place])
