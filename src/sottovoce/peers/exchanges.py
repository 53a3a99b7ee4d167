# SPDX-License-Identifier: Apache-2.0
"""One exchange of a node: what it sends to whom, whom it still waits for, and what it received in the end.

In the clear every sender's message comes as it is. Masked, messages come as sums of whole numbers that hide their
terms; a receiver with a single sender has nothing to hide them in, and gets them in the clear.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy import sparse

from sottovoce.peers import notes
from sottovoce.peers.effects import Failed, Given, Send, Summed
from sottovoce.peers.grid import mixed
from sottovoce.peers.groups import Group, Member
from sottovoce.peers.messages import Refused
from sottovoce.peers.sums import Receiver, Sender

if TYPE_CHECKING:
    from collections.abc import Callable

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from numpy.typing import NDArray

    from sottovoce.peers.effects import Effects
    from sottovoce.peers.letters import Kind, Letter
    from sottovoce.peers.network import Network
    from sottovoce.peers.notes import AnyNote

    Array: TypeAlias = NDArray[np.float64]
    Opening: TypeAlias = Callable[["Network", int, int, int, Array], "Exchanging"]

__all__ = ["Clear", "Exchanging", "Masking", "Post", "group_of", "in_the_clear", "masked_by", "receipt"]


@dataclass(frozen=True, kw_only=True)
class Post:
    """Send a body to a peer; what is `lasting` is kept, and sent again until its receipt comes."""

    receiver: int
    kind: Kind
    round: int
    exchange: int
    body: bytes
    lasting: bool = False


def receipt(letter: Letter, *, used: bool) -> Post:
    """That a letter came, and whether it is in what the node received."""
    header = letter.header
    return Post(
        receiver=header.sender,
        kind="receipt",
        round=header.round,
        exchange=header.exchange,
        body=header.digest + (b"\x01" if used else b"\x00"),
    )


class Clear:
    """An exchange in the clear, and what all exchanges share."""

    def __init__(self, network: Network, me: int, round_: int, number: int, message: Array) -> None:
        """The exchange with this number in a round, in which the node sends `message`, one row."""
        self.network, self.me, self.round, self.number = network, me, round_, number
        self.message = message
        self.notes: list[AnyNote] = []
        self.given: dict[int, tuple[str, ...]] = {}
        self._heard: dict[int, Letter] = {}

    @property
    def awaited(self) -> set[int]:
        """Whose message is missing."""
        return set(self.network.senders(self.me)) - set(self._heard)

    @property
    def over(self) -> bool:
        """Whether nothing more is waited for."""
        return not self.awaited

    @property
    def busy(self) -> bool:
        """Whether others still need an answer of this node."""
        return False

    @property
    def survivors(self) -> tuple[int, ...]:
        """Whose messages are in what was received, itself left out."""
        return tuple(sorted(self._heard))

    @property
    def letters(self) -> tuple[Letter, ...]:
        """The letters whose values were used."""
        return tuple(self._heard.values())

    def begin(self) -> list[Post]:
        """Send the message to all that receive from this node."""
        return [self._clear(receiver) for receiver in self.network.receivers(self.me)]

    def take(self, letter: Letter) -> list[Post]:
        """Take a letter of this exchange; one that breaks the rules is refused and changes nothing."""
        header = letter.header
        if header.kind != "values" or header.sender not in self.network.senders(self.me):
            raise Refused(f"node {header.sender} sends no {header.kind!r} in this exchange")
        if len(letter.body) != 8 * self.message.size:
            raise Refused(
                f"values must be {self.message.size} numbers of 8 bytes; got {len(letter.body)} bytes"
            )
        if not np.isfinite(_values(letter)).all():
            raise Refused(f"node {header.sender} sent values that are not finite")
        known = self._heard.get(header.sender)
        if known is not None and known.header.digest != header.digest:
            raise Refused(f"node {header.sender} sent a second, different message in one exchange")
        self._heard[header.sender] = letter
        return []

    def expire(self) -> list[Post]:
        """Wait no longer for what is missing."""
        return []

    def end(self, receiver: int | None = None) -> list[Post]:
        """Give up what a receiver waits for, or all of them."""
        del receiver
        return []

    def received(self) -> Array:
        """The weighted sum of what came; the weight of what did not goes where the network says.

        Terms are added in the order of the nodes, as the simulator adds them.
        """
        if self.awaited:
            whole = self.network.row(self.me, self._heard)
            row = {j: weight / sum(whole.values()) for j, weight in whole.items()}
        else:
            weights = self.network.run.round_of(self.round)[0].matrix
            span = slice(weights.indptr[self.me], weights.indptr[self.me + 1])
            row = dict(zip(weights.indices[span].tolist(), weights.data[span].tolist(), strict=True))
        columns = sorted(row)
        stacked = np.vstack([self.message[0] if j == self.me else _values(self._heard[j]) for j in columns])
        numbers = sparse.csr_array(
            (np.array([row[j] for j in columns]), np.arange(len(columns)), [0, len(columns)])
        )
        return np.asarray(numbers @ stacked)

    def _clear(self, receiver: int) -> Post:
        body = self.message.astype("<f8").tobytes()
        return self._post(receiver, "values", body, lasting=True)

    def _post(self, receiver: int, kind: Kind, body: bytes, *, lasting: bool = False) -> Post:
        return Post(
            receiver=receiver, kind=kind, round=self.round, exchange=self.number, body=body, lasting=lasting
        )


Exchanging: TypeAlias = Clear


class Masking(Clear):
    """An exchange in which each receiver learns the sum of what it is sent, and no term of it."""

    def __init__(
        self,
        network: Network,
        me: int,
        round_: int,
        number: int,
        message: Array,
        *,
        identity: Ed25519PrivateKey,
    ) -> None:
        """One machine for what this node receives, and one for each sum that it sends to."""
        super().__init__(network, me, round_, number, message)
        groups = {node: group_of(network, node, round_, number) for node in (me, *network.receivers(me))}
        name = network.names[me]
        self._senders = {
            node: Sender(group, name, identity)
            for node, group in groups.items()
            if group is not None and node != me
        }
        mine = groups[me]
        self._receiver = None if mine is None else Receiver(mine, identity)
        self._summed: Summed | None = None

    @property
    def awaited(self) -> set[int]:
        """Who has not said what the sum waits for now."""
        if self._receiver is None:
            return super().awaited
        return set() if self._receiver.phase == "done" else {*map(self.network.index, self._receiver.awaited)}

    @property
    def over(self) -> bool:
        """Whether the sum is there, or has failed."""
        return super().over if self._receiver is None else self._receiver.phase == "done"

    @property
    def busy(self) -> bool:
        """Whether sums of others still need this node."""
        return bool(self._answering)

    @property
    def _answering(self) -> dict[int, Sender]:
        """Sums that still need this node; after a restart none does, and what was given before is not known here."""
        return {node: each for node, each in self._senders.items() if each.phase not in {"new", "done"}}

    @property
    def survivors(self) -> tuple[int, ...]:
        """Whose messages are in the sum."""
        if self._receiver is None:
            return super().survivors
        return () if self._summed is None else tuple(sorted(map(self.network.index, self._summed.survivors)))

    def begin(self) -> list[Post]:
        """Offer the message to every sum; in the clear where there is none to hide in."""
        whole = self.network.grid.units(self.message[0])
        posts = []
        for node in self.network.receivers(self.me):
            if node in self._senders:
                effects = (*self._senders[node].start(), *self._senders[node].contribute(whole))
                posts += self._carried(effects, "to-sum", node)
            else:
                posts.append(self._clear(node))
        return posts

    def take(self, letter: Letter) -> list[Post]:
        """Hand a frame to the machine that it is for."""
        kind, sender = letter.header.kind, letter.header.sender
        if kind == "to-sum" and self._receiver is not None:
            return self._carried(
                self._receiver.receive(letter.body, vouched=self.network.names[sender]), "of-sum", self.me
            )
        if kind == "of-sum" and sender in self._senders:
            return self._carried(self._senders[sender].receive(letter.body, vouched=True), "to-sum", sender)
        if self._receiver is not None:
            raise Refused(f"node {sender} sends no {kind!r} in a masked exchange")
        return super().take(letter)

    def expire(self) -> list[Post]:
        """Go on with those who are there."""
        if self._receiver is None:
            return []
        return self._carried(self._receiver.expire(self._receiver.phase), "of-sum", self.me)

    def end(self, receiver: int | None = None) -> list[Post]:
        """Answer a receiver, or anybody, no more."""
        return [
            post
            for node, sender in self._answering.items()
            if receiver in {None, node}
            for post in self._carried(sender.expire(sender.phase), "to-sum", node)
        ]

    def received(self) -> Array:
        """The sum of what came and of the node's own, over the sum of their weights, rounded to the grid."""
        network, row = self.network, self.network.row(self.me, self.survivors)
        whole = network.grid.units(self.message[0])
        if self._receiver is None:
            total = sum((row[j] * _on_grid(network, each) for j, each in self._heard.items()), np.int64(0))
        else:
            total = np.int64(0) if self._summed is None else self._summed.values
        found = np.asarray(total + row.get(self.me, 0) * whole)
        return network.grid.real(mixed(found, sum(row.values())))[None, :]

    def _carried(self, effects: Effects, kind: Kind, receiver: int) -> list[Post]:
        """What the machine of a receiver's sum asks for; that a slot is remembered is seen to by the node."""
        posts, whose = [], self.network.names[receiver]
        for effect in effects:
            match effect:
                case Send(to=to, frame=frame):
                    node = self.network.index(to)
                    posts.append(self._post(node, kind, frame))
                case Summed(survivors=names, receipt=receipt):
                    self._summed = effect
                    self._note(notes.Summed, receiver=whose, survivors=names, receipt=receipt)
                case Given(survivors=names, receipt=receipt):
                    self.given[receiver] = names
                    self._note(notes.Given, receiver=whose, survivors=names, receipt=receipt)
                case Failed(phase=phase, reason=reason, dealers=names):
                    self._note(notes.Failed, receiver=whose, phase=phase, reason=reason, dealers=names)
        return posts

    def _note(self, kind: Callable[..., AnyNote], **facts: object) -> None:
        self.notes.append(kind(round=self.round, exchange=self.number, **facts))


def group_of(network: Network, receiver: int, round_: int, exchange: int) -> Group | None:
    """The terms of the sum that a node receives in an exchange; None if it has a single sender."""
    senders = network.senders(receiver)
    if len(senders) < 2:
        return None
    keys = [card.signing_key.public_bytes_raw() for card in network.settings.nodes]
    return Group(
        run=network.run_name,
        round=round_,
        exchange=exchange,
        receiver=network.names[receiver],
        receiver_key=keys[receiver],
        members=tuple(
            Member(name=network.names[j], weight=network.numerators[receiver][j], key=keys[j])
            for j in senders
        ),
        denominator=network.denominator,
        threshold=network.threshold(receiver),
        length=network.dimension,
        largest=network.largest,
    )


def in_the_clear(network: Network, me: int, round_: int, number: int, message: Array) -> Exchanging:
    """An exchange in the clear."""
    return Clear(network, me, round_, number, message)


def masked_by(identity: Ed25519PrivateKey) -> Opening:
    """Masked exchanges of the node with this key."""
    return lambda network, me, round_, number, message: Masking(
        network, me, round_, number, message, identity=identity
    )


def _on_grid(network: Network, letter: Letter) -> NDArray[np.int64]:
    """The numbers in a letter, as whole ones."""
    return network.grid.whole(_values(letter))


def _values(letter: Letter) -> Array:
    """The numbers in a letter."""
    return np.frombuffer(letter.body, dtype="<f8")
