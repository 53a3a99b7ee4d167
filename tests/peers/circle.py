# SPDX-License-Identifier: Apache-2.0
"""A sum among machines in one process: a queue for a network, and deaths wherever one likes."""

import functools
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from sottovoce.peers.groups import Group, Member
from sottovoce.peers.sums import Effect, Failed, Receiver, Remember, Send, Sender, Summed

Values = Mapping[str, NDArray[np.int64]]


@functools.cache
def identity(_name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


def public(name: str) -> bytes:
    return identity(name).public_key().public_bytes_raw()


def group_of(weights: Sequence[int], **changes: Any) -> Group:
    names = [f"site-{k}" for k in range(len(weights))]
    usual: dict[str, Any] = {
        "run": bytes(range(32)),
        "round": 3,
        "exchange": 0,
        "receiver": "hub",
        "receiver_key": public("hub"),
        "members": tuple(
            Member(name=name, weight=weight, key=public(name))
            for name, weight in zip(names, weights, strict=True)
        ),
        "denominator": 12,
        "threshold": len(weights) // 2 + 1,
        "length": 5,
        "largest": 2**40,
    }
    return Group(**usual | changes)


def random_values(group: Group, rng: np.random.Generator) -> Values:
    reach = group.largest
    return {name: rng.integers(-reach, reach, group.length, endpoint=True) for name in group.names}


def weighted(group: Group, values: Values, names: Iterable[str]) -> NDArray[np.int64]:
    """The sum as Python's whole numbers have it."""
    total = [0] * group.length
    for name in names:
        weight = group.member(name).weight
        total = [before + weight * int(value) for before, value in zip(total, values[name], strict=True)]
    return np.array(total, dtype=np.int64)


class Circle:
    """All machines of one sum; `dies` says after how many frames a sender falls silent."""

    def __init__(self, group: Group, values: Values, *, dies: Mapping[str, int] | None = None) -> None:
        self.group = group
        self.receiver = Receiver(group, identity(group.receiver))
        self.senders = {name: Sender(group, name, identity(name)) for name in group.names}
        self.left = {name: (dies or {}).get(name, 100) for name in group.names}
        self.queue: deque[tuple[str, str, bytes]] = deque()
        self.sent: list[tuple[str, str, bytes]] = []
        self.ends: dict[str, Effect] = {}
        for name, sender in self.senders.items():
            self.carry_out(name, sender.start())
            self.carry_out(name, sender.contribute(values[name]))

    def carry_out(self, who: str, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                if who in self.left:
                    if self.left[who] <= 0:
                        continue
                    self.left[who] -= 1
                self.queue.append((who, effect.to, effect.frame))
                self.sent.append((who, effect.to, effect.frame))
            elif not isinstance(effect, Remember):
                self.ends[who] = effect

    def deliver(self, to: str, frame: bytes) -> None:
        if to == self.group.receiver:
            self.carry_out(to, self.receiver.receive(frame))
        elif self.left[to] > 0:
            self.carry_out(to, self.senders[to].receive(frame))

    def run(self) -> Summed | Failed:
        """Deliver all that was sent, then let time run out wherever somebody waits, until the receiver ends."""
        for _ in range(6):
            while self.queue:
                _, to, frame = self.queue.popleft()
                self.deliver(to, frame)
            end = self.ends.get(self.group.receiver)
            if isinstance(end, Summed | Failed):
                for name, sender in self.senders.items():
                    self.carry_out(name, sender.expire(sender.phase))
                return end
            self.carry_out(self.group.receiver, self.receiver.expire(self.receiver.phase))
        raise AssertionError("the receiver waits for ever")
