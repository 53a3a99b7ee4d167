# SPDX-License-Identifier: Apache-2.0
"""What a node asks to be done, and what has to be kept of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from sottovoce.peers.exchanges import Post
from sottovoce.peers.notes import AnyNote, Reason

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[np.float64]

__all__ = ["Action", "Actions", "Ask", "Done", "Keep", "Memory", "Phase", "Settle", "Stopped"]

Phase = Literal["joining", "pausing", "asking", "exchanging", "done"]
Stopped = Reason


@dataclass(frozen=True, kw_only=True, eq=False)
class Ask:
    """Find what this node contributes in a round, given its model, and draw the noise: `given` takes both."""

    round: int
    model: Array


@dataclass(frozen=True, kw_only=True)
class Keep:
    """Put `memory` on the disk, with the letters that are about to be sent, before anything that follows."""


@dataclass(frozen=True, kw_only=True)
class Settle:
    """A letter that was to be sent until its receipt comes need not be sent again."""

    receiver: int
    round: int
    exchange: int


@dataclass(frozen=True, kw_only=True)
class Done:
    """The node has ended, and says why."""

    reason: Stopped


Action: TypeAlias = Ask | Keep | Post | Settle | Done
Actions: TypeAlias = list[Action]


class Memory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that a node needs to go on where it was; arrays as bytes."""

    run: bytes
    phase: Phase
    round: int
    place: int
    sent: int
    clean: list[int]
    deviated: bool
    registers: dict[str, bytes]
    sources: dict[str, bytes]
    used: list[tuple[int, int, int]]
    left: dict[int, int]
    noted: int
    notes: list[AnyNote]
