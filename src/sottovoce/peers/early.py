# SPDX-License-Identifier: Apache-2.0
"""Letters that came before the exchange that they are of: no more of a sender than are worth keeping."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce.peers.messages import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sottovoce.peers.letters import Letter

__all__ = ["Early"]

_MOST = 32


class Early:
    """What a node keeps until it comes to an exchange; places are (round, exchange)."""

    def __init__(self) -> None:
        """Nothing has come."""
        self._kept: dict[tuple[int, int], list[Letter]] = {}

    def __iter__(self) -> Iterator[Letter]:
        """All letters that wait."""
        return (letter for several in self._kept.values() for letter in several)

    def keep(self, letter: Letter) -> None:
        """Keep a letter, once; refused if its sender is too far ahead."""
        header = letter.header
        if sum(each.sender == header.sender for each in self) >= _MOST:
            raise Refused(f"node {header.sender} sends too far ahead")
        waiting = self._kept.setdefault((header.round, header.exchange), [])
        if all(each.header != header for each in waiting):
            waiting.append(letter)

    def taken(self, place: tuple[int, int]) -> list[Letter]:
        """The letters of an exchange, which is open now."""
        return self._kept.pop(place, [])

    def forget_sums(self, peer: int) -> None:
        """Let go of what a peer wrote to sums: it has died since, and its secrets with it."""
        self._kept = {
            place: [each for each in letters if (each.sender, each.header.kind) != (peer, "to-sum")]
            for place, letters in self._kept.items()
        }

    def forget_before(self, round_: int) -> None:
        """Let go of rounds that are over."""
        self._kept = {place: letters for place, letters in self._kept.items() if place[0] >= round_}
