# SPDX-License-Identifier: Apache-2.0
"""A queue in which clients take turns."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

from sottovoce.web.shares import FairShares

__all__ = ["FairQueue"]

Item = TypeVar("Item")


class FairQueue(Generic[Item]):
    """What each client waits for, in its order; the clients take turns, and each waits for no more than its share.

    >>> queue = FairQueue[str](10)
    >>> [queue.push(client, item) for client, item in (("a", "1"), ("a", "2"), ("a", "3"), ("b", "4"))]
    [True, True, True, True]
    >>> [queue.pop() for _ in range(5)]
    ['1', '4', '2', '3', None]
    """

    def __init__(self, most: int) -> None:
        self._shares = FairShares(most)
        self._lines: OrderedDict[str, dict[Item, None]] = OrderedDict()

    def __len__(self) -> int:
        """How many wait."""
        return len({item for line in self._lines.values() for item in line})

    def push(self, client: str, item: Item) -> bool:
        """Let a client wait for something, also if others do already; False if it waits for too much."""
        line = self._lines.get(client, {})
        if item in line:
            return True
        if not self._shares.take(client):
            return False
        self._lines.setdefault(client, line)[item] = None
        return True

    def pop(self) -> Item | None:
        """What the next client waits for first."""
        if not self._lines:
            return None
        client, line = self._lines.popitem(last=False)
        item = next(iter(line))
        self._lines[client] = line
        self.remove(item)
        return item

    def remove(self, item: Item) -> None:
        """Let no one wait for this any more."""
        for client, line in list(self._lines.items()):
            if item in line:
                del line[item]
                self._shares.give(client)
                if not line:
                    del self._lines[client]
