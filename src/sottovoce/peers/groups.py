# SPDX-License-Identifier: Apache-2.0
"""The terms of one sum: who sends with which weight to whom, how many must survive, and what the sum then hides."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from sottovoce.errors import InputError, at_least, at_most
from sottovoce.peers.masks import MOST_WORDS, digest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

__all__ = ["Group", "Hiding", "Member", "hiding", "least_threshold"]

# Sums are read as numbers between −2⁶³ and 2⁶³.
_LARGEST = 2**63


@dataclass(frozen=True, kw_only=True)
class Member:
    """A sender: its name, its weight as a whole number, and its pinned Ed25519 key."""

    name: str
    weight: int
    key: bytes


@dataclass(frozen=True, kw_only=True)
class Group:
    """All that senders and receiver of one sum agree on beforehand; its digest is bound into every key and signature.

    The sum is Σ weight · values modulo 2⁶⁴ over the members that survive; `denominator` is what the weights are divided
    by (the receiver does it), `largest` bounds every value, and `run` is 32 bytes that no other run has.
    """

    run: bytes
    round: int
    exchange: int
    receiver: str
    receiver_key: bytes
    members: tuple[Member, ...]
    denominator: int
    threshold: int
    length: int
    largest: int

    def __post_init__(self) -> None:
        """Refuse terms on which a sum would hide less than it says, or overflow."""
        object.__setattr__(self, "members", tuple(sorted(self.members, key=lambda member: member.name)))
        at_least(0, round=self.round, exchange=self.exchange)
        at_least(1, denominator=self.denominator, length=self.length, largest=self.largest)
        at_most(_LARGEST, round=self.round, exchange=self.exchange, denominator=self.denominator)
        if len(self.run) != 32:
            raise InputError(f"a run must be named by 32 bytes; got {len(self.run)}")
        if self.length > MOST_WORDS:
            raise InputError(f"a message must have at most {MOST_WORDS} words; got {self.length}")
        self._check_members()
        size = len(self.members)
        if not size // 2 < self.threshold <= size:
            raise InputError(
                f"the threshold of a sum must be more than half of its {size} senders and at most all of them; "
                f"got {self.threshold} (least_threshold({size}) is {least_threshold(size)})"
            )
        reach = sum(abs(member.weight) for member in self.members) * self.largest
        if reach >= _LARGEST:
            raise InputError(
                f"a sum must stay below 2^63; weights times {self.largest} reach {reach} (use a coarser grid, or a "
                "smaller denominator)"
            )

    def _check_members(self) -> None:
        if len(self.members) < 2:
            raise InputError(
                f"a sum needs at least two senders; {self.receiver!r} has {len(self.members)} (a sum of one is its "
                "message in the clear: send and account for it as such)"
            )
        if len({*self.names, self.receiver}) <= len(self.members):
            raise InputError(
                f"senders and receiver must be different nodes; got {self.names} for {self.receiver!r}"
            )
        keys = [member.key for member in self.members] + [self.receiver_key]
        if len(set(keys)) < len(keys) or any(len(key) != 32 for key in keys):
            raise InputError("every node of a sum must have an Ed25519 key of 32 bytes that no other has")
        if any(member.weight == 0 for member in self.members):
            raise InputError("weights of a sum must not be 0; leave such a sender out")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The senders, in the order of their names: sender k holds share k + 1."""
        return tuple(member.name for member in self.members)

    @cached_property
    def keys(self) -> dict[str, bytes]:
        """Every node's pinned key, the receiver's too."""
        return {self.receiver: self.receiver_key} | {member.name: member.key for member in self.members}

    @cached_property
    def digest(self) -> bytes:
        """What names this sum and no other: 32 bytes of all its terms."""
        terms = [
            [self.run, self.round, self.exchange, self.receiver, self.receiver_key],
            [[member.name, member.weight, member.key] for member in self.members],
            [self.denominator, self.threshold, self.length, self.largest],
        ]
        return digest("group", [msgspec.msgpack.encode(terms)])

    def member(self, name: str) -> Member:
        """The sender of a name."""
        for member in self.members:
            if member.name == name:
                return member
        raise InputError(f"{name!r} sends nothing in this sum; its senders are {', '.join(self.names)}")

    def place(self, name: str) -> int:
        """At which place a sender's shares are taken: 1, 2, … in the order of names."""
        return self.names.index(self.member(name).name) + 1


@dataclass(frozen=True, kw_only=True)
class Hiding:
    """Whose terms a sum shows only together, whose it shows one by one, and why."""

    together: tuple[str, ...]
    clear: tuple[str, ...]
    reason: str


def least_threshold(senders: int, *, colluders: int = 0) -> int:
    """How many senders must survive so that no receiver with so many colluding senders can open a sum over two lists.

        2t > m + colluders

    **Guarantee**: each of two lists needs t senders that agree. Honest ones agree once, so both together need
    2(t − colluders) ≤ m − colluders of them, which is excluded. **Source**: Bonawitz et al. 2017, Section 6.2.

    >>> least_threshold(8), least_threshold(8, colluders=3)
    (5, 6)
    """
    at_least(1, senders=senders)
    at_least(0, colluders=colluders)
    if colluders > senders - 2:
        raise InputError(
            f"colluders must be at most two fewer than the {senders} senders; got {colluders} (a sum with fewer than "
            "two honest terms hides nothing: account for its messages in the clear)"
        )
    return (senders + colluders) // 2 + 1


def hiding(
    group: Group, *, survivors: Iterable[str] | None = None, colluders: Collection[str] = ()
) -> Hiding:
    """What the sum over `survivors` (default: all) hides from its receiver and the senders that work with it.

    **Guarantee**: the receiver and `colluders` learn of the messages of `together` their weighted sum alone, and each
    message of `clear` must be accounted for as seen. Two things are needed: two honest survivors, for a sum of one is
    that one; and fewer colluders than 2t − m, or two lists could be opened and their difference taken.
    """
    heard = group.names if survivors is None else tuple(sorted(survivors))
    for name in (*heard, *(set(colluders) - {group.receiver})):
        group.keys.get(name) or group.member(name)
    honest = tuple(name for name in heard if name not in colluders)
    fallen = [name for name in group.names if name in colluders]
    spare = 2 * group.threshold - len(group.members)
    if len(fallen) >= spare:
        reason = f"{len(fallen)} colluding senders can open two lists; threshold {group.threshold} bears {spare - 1}"
        return Hiding(together=(), clear=honest, reason=reason)
    if len(heard) < group.threshold:
        raise InputError(f"a sum needs {group.threshold} survivors; got {len(heard)} ({', '.join(heard)})")
    if len(honest) < 2:
        return Hiding(together=(), clear=honest, reason="a sum with one honest term shows that term")
    return Hiding(together=honest, clear=(), reason=f"{len(honest)} honest terms are seen in sum alone")
