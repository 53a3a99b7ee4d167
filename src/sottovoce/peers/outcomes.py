# SPDX-License-Identifier: Apache-2.0
"""What a node that runs needs of its links, what it shows while it runs, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sottovoce.peers.actions import Stopped
    from sottovoce.peers.transport import Happening

    Array: TypeAlias = NDArray[np.float64]

__all__ = ["KnownBy", "Links", "Outcome", "Whereabouts"]


class Links(Protocol):
    """What a node needs of a transport."""

    def send(self, receiver: int, wire: bytes) -> None:
        """Hand a letter to the link."""

    def next(self, timeout: float) -> Happening | None:
        """What came next; None if nothing does in time."""


@dataclass(frozen=True, kw_only=True)
class Whereabouts:
    """Where a node stands: for whoever watches."""

    me: str
    phase: str
    round: int
    rounds: int
    late: tuple[str, ...]
    epsilon: float
    deviated: bool


@dataclass(frozen=True, kw_only=True)
class KnownBy:
    """The most ε that one other node has, or nodes that pool what they saw."""

    observers: tuple[str, ...]
    epsilon: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """How a run ended for a node: why, after how many rounds, in how many of which it sent, and what that cost.

    `epsilon` is that of whoever reads every message, and holds whatever others did; `known` is that of single nodes and
    coalitions, from what happened as far as it is known. `earlier_runs` are counted in both. `had_finished` says that
    all rounds were over when the node was started, `accuracy` how well its model tells its own records apart.
    """

    me: str
    reason: Stopped
    rounds: int
    sent: int
    deviated: bool
    epsilon: float
    delta: float
    refused: int
    model: Array
    known: tuple[KnownBy, ...] = ()
    earlier_runs: int = 0
    had_finished: bool = False
    accuracy: float | None = None

    @property
    def epsilon_of_one(self) -> float | None:
        """The most ε that any one other node has; None if nothing was sent, or nobody knows."""
        return max((each.epsilon for each in self.known if len(each.observers) == 1), default=None)
