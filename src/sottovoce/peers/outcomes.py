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

__all__ = ["Links", "Moment", "Outcome"]


class Links(Protocol):
    """What a node needs of a transport."""

    def send(self, receiver: int, wire: bytes) -> None:
        """Hand a letter to the link."""

    def next(self, timeout: float) -> Happening | None:
        """What came next; None if nothing does in time."""


@dataclass(frozen=True, kw_only=True)
class Moment:
    """Where a node stands: for whoever watches."""

    me: str
    phase: str
    round: int
    rounds: int
    late: tuple[str, ...]
    epsilon: float
    deviated: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """How a run ended for a node: why, after how many rounds, in how many of which it sent, and what that cost.

    `epsilon` is that of whoever reads every message, and holds whatever others did.
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
