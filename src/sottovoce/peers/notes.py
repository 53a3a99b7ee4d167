# SPDX-License-Identifier: Apache-2.0
"""What a node notes while it runs, one form for each kind of line of a transcript.

A transcript holds each note with the digest of the line before it and a signature. It is the word of its author, and a
note says no more than that; what neighbours signed stands in it as they signed it, in bytes.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from sottovoce.forms import Form
from sottovoce.peers.effects import Phase

__all__ = [
    "AnyNote",
    "Begun",
    "Closed",
    "Failed",
    "Farewell",
    "Given",
    "InExchange",
    "Note",
    "Reason",
    "Receipt",
    "Refusal",
    "Resumed",
    "Sent",
    "Skipped",
    "Stopped",
    "Summed",
    "Told",
    "Written",
]

Count = Annotated[int, Meta(ge=0)]
Reason: TypeAlias = Literal["finished", "policy", "alone", "apart", "interrupted"]


class Note(Form, frozen=True, kw_only=True, tag_field="what"):
    """A line: its number, from 1; `before` and `signature` are there once it is written."""

    number: Count = 0
    before: str | UnsetType = UNSET
    signature: bytes | UnsetType = UNSET


class InExchange(Note, frozen=True, kw_only=True):
    """Something that belongs to one exchange of a round, both from 0."""

    round: Count
    exchange: Count


class Written(Note, frozen=True, kw_only=True):
    """A letter of a neighbour: its header behind the signature, and its body."""

    peer: str
    signed: bytes
    body: bytes


class Begun(Note, frozen=True, kw_only=True, tag="begun"):
    """The first line: the name of the run, who writes, and what every node drew for the run."""

    run: bytes
    me: str
    parts: tuple[bytes, ...]


class Resumed(Note, frozen=True, kw_only=True, tag="resumed"):
    """It goes on in this round, from what it kept."""

    round: Count


class Sent(InExchange, frozen=True, kw_only=True, tag="sent"):
    """Its message is about to go out."""

    receivers: tuple[int, ...]


class Closed(InExchange, frozen=True, kw_only=True, tag="closed"):
    """Whose messages it took up, whose are missing, and its row: whole weights over their sum."""

    survivors: tuple[str, ...]
    missing: tuple[str, ...]
    denominator: int
    weights: dict[str, int]


class Summed(InExchange, frozen=True, kw_only=True, tag="summed"):
    """It opened a sum of its own, over a list that its senders signed."""

    receiver: str
    survivors: tuple[str, ...]
    receipt: tuple[bytes, ...]


class Given(InExchange, frozen=True, kw_only=True, tag="given"):
    """It showed its shares in the sum of a receiver, over a list that its senders signed."""

    receiver: str
    survivors: tuple[str, ...]
    receipt: tuple[bytes, ...]


class Failed(InExchange, frozen=True, kw_only=True, tag="failed"):
    """It showed no share in the sum of a receiver, and never will."""

    receiver: str
    phase: Phase
    reason: str
    dealers: tuple[str, ...]


class Receipt(Written, frozen=True, kw_only=True, tag="receipt"):
    """A neighbour has its message."""


class Told(Written, frozen=True, kw_only=True, tag="told"):
    """A neighbour says whose messages it took up."""


class Farewell(Written, frozen=True, kw_only=True, tag="farewell"):
    """A neighbour says from which round on it takes no part."""


class Refusal(Note, frozen=True, kw_only=True, tag="refused"):
    """A letter that came early broke a rule."""

    peer: str
    reason: str


class Skipped(Note, frozen=True, kw_only=True, tag="skipped"):
    """Rounds that others had without it."""

    first: Count
    last: Count


class Stopped(Note, frozen=True, kw_only=True, tag="stopped"):
    """It takes part no more."""

    reason: Reason
    round: Count


AnyNote: TypeAlias = (
    Begun
    | Resumed
    | Sent
    | Closed
    | Summed
    | Given
    | Failed
    | Receipt
    | Told
    | Farewell
    | Refusal
    | Skipped
    | Stopped
)
"""A line of a transcript, told apart by `what`."""
