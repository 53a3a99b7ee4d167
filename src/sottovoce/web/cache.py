# SPDX-License-Identifier: Apache-2.0
"""Results by content hash, the most recently used ones, within a number of bytes."""

from __future__ import annotations

from collections import OrderedDict

__all__ = ["Cache"]


class Cache:
    """Keeps what fits; what has not been asked for the longest goes first.

    >>> cache = Cache(10)
    >>> cache.put("a", b"12345"); cache.put("b", b"12345")
    >>> cache.find("a"); cache.put("c", b"123"); cache.find("b") is None
    b'12345'
    True
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        self._kept: OrderedDict[str, bytes] = OrderedDict()

    def __len__(self) -> int:
        """How many results there are."""
        return len(self._kept)

    def find(self, key: str) -> bytes | None:
        """The result under `key`, if it is still there."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def put(self, key: str, content: bytes) -> None:
        """Keep a result; one that is larger than everything together still replaces all others."""
        self._drop(key)
        self._kept[key] = content
        self.bytes += len(content)
        while self.bytes > self.most_bytes and len(self._kept) > 1:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: str) -> None:
        self.bytes -= len(self._kept.pop(key, b""))
