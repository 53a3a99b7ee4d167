# SPDX-License-Identifier: Apache-2.0
"""What the machines of a sum ask their node to do, and how they end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from sottovoce.peers import masks

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sottovoce.peers.groups import Group

__all__ = ["Effect", "Effects", "Failed", "Given", "Phase", "Remember", "Send", "Summed", "slot"]

Phase: TypeAlias = Literal[
    "new",
    "roster",
    "deals",
    "values",
    "survivors",
    "agreement",
    "keys",
    "shares",
    "masked",
    "agreed",
    "opened",
    "done",
]


@dataclass(frozen=True, kw_only=True)
class Remember:
    """Store this slot, flushed to disk, before anything that follows is carried out."""

    slot: bytes


@dataclass(frozen=True, kw_only=True)
class Send:
    """Hand a frame to a peer."""

    to: str
    frame: bytes


@dataclass(frozen=True, kw_only=True)
class Given:
    """The end of a sender: its term can be opened within the sum over `survivors`, and in no other.

    `receipt` holds frames of `Agreed`, at least as many as the threshold: who signed that this was the list.
    """

    survivors: tuple[str, ...]
    receipt: tuple[bytes, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Summed:
    """The end of a receiver: Σ weight · values over `survivors`, as signed words, and who signed that list."""

    values: NDArray[np.int64]
    survivors: tuple[str, ...]
    receipt: tuple[bytes, ...]


@dataclass(frozen=True, kw_only=True)
class Failed:
    """The end of a machine without a sum; `phase` is what it had waited for.

    It has shown no share, and never will. By its own word alone, a sender whose masked message had gone out must count
    its term as given in a sum over some list of at least as many `dealers` as the threshold: it cannot know whether the
    others opened one. Without dealers nothing was given.
    """

    phase: Phase
    reason: str
    dealers: tuple[str, ...] = ()


Effect: TypeAlias = Remember | Send | Given | Summed | Failed
Effects: TypeAlias = tuple[Effect, ...]


def slot(group: Group) -> bytes:
    """What a sender remembers of a sum: its place in the run, whatever its other terms."""
    return masks.digest("slot", [group.run, str(group.round), str(group.exchange), group.receiver])
