# SPDX-License-Identifier: Apache-2.0
"""The queue: turns between clients, one place for what several wait for, and shares."""

from __future__ import annotations

from sottovoce.web.queues import FairQueue


def test_what_two_wait_for_is_given_once() -> None:
    queue = FairQueue[str](20)
    assert queue.push("a", "own")
    assert queue.push("a", "shared")
    assert queue.push("b", "shared")
    assert queue.push("b", "shared")
    assert len(queue) == 2
    assert [queue.pop(), queue.pop(), queue.pop()] == ["own", "shared", None]


def test_a_removed_item_leaves_room() -> None:
    queue = FairQueue[int](2)
    assert queue.push("a", 1)
    assert not queue.push("a", 2)
    assert queue.push("b", 1)
    queue.remove(1)
    queue.remove(1)
    assert len(queue) == 0
    assert queue.push("a", 2)
    assert queue.pop() == 2
