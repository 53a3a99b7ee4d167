# SPDX-License-Identifier: Apache-2.0
"""How nodes agree on the name of a run before its first round, without input or output.

Every node draws its part, and tells its neighbours all parts that it knows until everybody knows the parts of all. A
node enters the run when each of its neighbours says the same list, with its own part in it. Nodes that are in a run
answer whoever asks with the list of that run, and with the last letter that they have of the one who asks: a node that
goes on from an old copy of its folder is shown there what it has sent since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from sottovoce.peers.messages import Refused
from sottovoce.peers.naming import drawn_part, read_part

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sottovoce.peers.identity import Identity
    from sottovoce.peers.naming import RunPart
    from sottovoce.peers.network import Network

__all__ = ["Hello", "Lobby", "answer", "read_hello"]


class Hello(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """What neighbours say before and beside a run: the parts that they know, and whether these are of a run that began.

    `heard` is the signed header of the last message that the one who is told has sent; `asks` wants an answer.
    """

    parts: tuple[bytes, ...]
    begun: bool
    asks: bool
    heard: bytes = b""


class Lobby:
    """One node before a run: `received` takes what neighbours say, `ready` tells that all agree."""

    def __init__(self, network: Network, identity: Identity, *, own: bytes | None = None) -> None:
        """`own` is the part that the node drew before it was killed."""
        self.network, self.identity = network, identity
        self.me = network.index(identity.name)
        self.own = drawn_part(network.hash, self.me, identity) if own is None else own
        self._parts: dict[int, tuple[RunPart, bytes]] = {}
        self._said: dict[int, frozenset[bytes]] = {}
        self._elsewhere: set[int] = set()
        self._take(self.own)

    @property
    def parts(self) -> tuple[bytes, ...]:
        """The parts that the node knows, in the order of nodes."""
        return tuple(frame for _, (_, frame) in sorted(self._parts.items()))

    @property
    def missing(self) -> tuple[str, ...]:
        """Neighbours that have not said the list of this node."""
        mine, names = frozenset(self.parts), self.network.names
        return tuple(names[i] for i in self.network.neighbours(self.me) if self._said.get(i) != mine)

    @property
    def ready(self) -> bool:
        """Whether the node knows the parts of all, and each neighbour says the same."""
        return len(self._parts) == self.network.n and not self.missing

    @property
    def apart(self) -> bool:
        """Whether a neighbour is in a run in which this node has another part, or none."""
        return bool(self._elsewhere)

    def hello(self, *, asks: bool) -> bytes:
        """What the node tells its neighbours."""
        return msgspec.msgpack.encode(Hello(parts=self.parts, begun=False, asks=asks))

    def received(self, sender: int, hello: Hello) -> bool:
        """Take what a neighbour says; whether the node has more to tell than before."""
        if len(hello.parts) > self.network.n:
            raise Refused(f"node {sender} tells of more parts than there are nodes")
        before = self.parts
        for frame in hello.parts:
            self._take(frame)
        self._said[sender] = frozenset(hello.parts)
        if hello.begun and self.own not in hello.parts:
            self._elsewhere.add(sender)
        else:
            self._elsewhere.discard(sender)
        return self.parts != before

    def _take(self, frame: bytes) -> None:
        if any(frame == known for _, known in self._parts.values()):
            return
        part = read_part(self.network.hash, self.network.settings.nodes, frame)
        known = self._parts.get(part.node)
        if part.node == self.me and known is not None:
            # Somebody holds a part of this node's from an earlier run, or from a folder that is gone: draw a later one.
            if part.version >= known[0].version:
                self.own = drawn_part(self.network.hash, self.me, self.identity, version=part.version + 1)
                self._parts.pop(self.me)
                self._take(self.own)
        elif known is None or (part.version, part.drawn) > (known[0].version, known[0].drawn):
            self._parts[part.node] = part, frame


def read_hello(body: bytes) -> Hello:
    """What a neighbour says, in the body of a letter."""
    try:
        return msgspec.msgpack.decode(body, type=Hello)
    except msgspec.DecodeError as error:
        raise Refused(f"a hello must hold parts of a run: {error}") from None


def answer(parts: Iterable[bytes], heard: bytes, *, asks: bool) -> bytes:
    """What a node that is in a run tells whoever asks, and asks when it goes on."""
    return msgspec.msgpack.encode(Hello(parts=tuple(parts), begun=True, asks=asks, heard=heard))
