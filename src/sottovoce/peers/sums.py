# SPDX-License-Identifier: Apache-2.0
"""A sum that hides its terms, as two state machines without input or output: `Sender` and `Receiver`.

The protocol is that of Bonawitz et al. 2017 against an active receiver, with fresh secrets for each sum. What is said:

    sender → receiver        receiver → senders
    Keys                     Roster      whose keys arrived
    Shares                   Deals       whose shares arrived, and the shares sealed for you
    Masked                   Survivors   whose masked messages arrived
    Agreed                   Agreement   that enough senders signed this one list of survivors
    Opened

A machine takes events (`start`, `contribute`, `receive`, `expire`) and returns effects, to be carried out in order:

* `Remember` must be on disk, flushed, before any later effect is carried out. It is the first effect of a sender,
  before its first frame. A node that restarts builds no sender for a slot that it remembers: it is dead for that sum.
  So nobody answers twice in one sum, and shares of a peer's seed and of its key never leave the same node.
* `Send` hands a frame to a peer; the transport may lose, repeat or reorder frames.
* `Given`, `Summed` and `Failed` end a machine.

Every wait has an end: the machine says in `phase` what it waits for, and the node calls `expire(phase)` when the time
for it is over. A frame that breaks a rule raises `Refused` and changes nothing, so that a forger cannot stop a sum.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import msgspec
import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from sottovoce.errors import InputError
from sottovoce.peers import masks, shares
from sottovoce.peers.effects import Effect, Effects, Failed, Given, Phase, Remember, Send, Summed, slot
from sottovoce.peers.lists import (
    KEY_BYTES,
    DealerList,
    RosterList,
    by_sender,
    check_survivors,
    commitment_of,
    own_key,
    pair_key,
    pair_sign,
    public_key,
    refusing,
    share_key,
)
from sottovoce.peers.messages import (
    SIGNATURE_BYTES,
    Agreed,
    Agreement,
    Deals,
    Dealt,
    Keys,
    Masked,
    Message,
    Opened,
    Refused,
    Roster,
    Shares,
    Survivors,
    read,
    read_any,
    signed,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from numpy.typing import NDArray

    from sottovoce.peers.groups import Group

__all__ = [
    "Effect",
    "Effects",
    "Failed",
    "Given",
    "Phase",
    "Receiver",
    "Remember",
    "Send",
    "Sender",
    "Summed",
    "slot",
]


@dataclass(frozen=True, kw_only=True)
class _Secrets:
    """What a sender draws for one sum and never stores: its private keys and the seed of its own mask."""

    sealing: X25519PrivateKey
    masking: X25519PrivateKey
    seed: bytes


def _fresh_key() -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(secrets.token_bytes(KEY_BYTES))


class Sender:
    """One sender in one sum: `start`, then `receive` what comes and `contribute` the values when they are known.

    Waits for `roster`, `deals`, `survivors` and `agreement` in turn; for `values` it waits on its own node.
    """

    def __init__(
        self, group: Group, me: str, identity: Ed25519PrivateKey, *, remembered: Collection[bytes] = ()
    ) -> None:
        """Refuses a slot that this node remembers: it may have answered in that sum before it restarted."""
        member = group.member(me)
        if identity.public_key().public_bytes_raw() != member.key:
            raise InputError(f"the identity of {me!r} must be the one that is pinned for it; it is another")
        if slot(group) in remembered:
            raise InputError(
                f"{me!r} took part in round {group.round}, exchange {group.exchange} to {group.receiver!r} before; "
                "nobody takes part in a sum twice (sit this one out)"
            )
        self.group, self.me = group, me
        self.phase: Phase = "new"
        self._identity = identity
        self._secrets: _Secrets | None = _Secrets(
            sealing=_fresh_key(),
            masking=_fresh_key(),
            seed=secrets.token_bytes(KEY_BYTES),
        )
        self._accepted: dict[type[Message], bytes] = {}
        self._values: masks.Words | None = None
        self._held: dict[str, bytes] = {}
        self._pairs: dict[str, bytes] = {}
        self._sealing: dict[str, bytes] = {}
        self._masked = False

    def start(self) -> Effects:
        """Advertise fresh keys, after the slot is remembered."""
        if self.phase != "new":
            raise InputError(f"a sender starts once; this one is in phase {self.phase!r}")
        drawn = self._drawn
        self._keys = self._frame(Keys, sealing=public_key(drawn.sealing), masking=public_key(drawn.masking))
        self.phase = "roster"
        return Remember(slot=slot(self.group)), Send(to=self.group.receiver, frame=self._keys)

    def contribute(self, values: NDArray[np.int64]) -> Effects:
        """Give the values of this sum, whole numbers of at most `largest` in size; once."""
        if self._values is not None:
            raise InputError(f"{self.me!r} gave its values for this sum before; values are given once")
        if values.shape != (self.group.length,) or values.dtype != np.int64:
            raise InputError(
                f"values must be {self.group.length} whole numbers of 64 bits; got {values.shape} of {values.dtype}"
            )
        if max(int(values.max()), -int(values.min())) > self.group.largest:
            raise InputError(f"values must be at most {self.group.largest} in size (use a coarser grid)")
        weight = np.int64(self.group.member(self.me).weight)
        self._values = (values * weight).view(np.uint64)
        return self._send_masked() if self.phase == "values" else ()

    def expire(self, phase: Phase) -> Effects:
        """The time to wait for `phase` is over."""
        if phase != self.phase or phase == "done":
            return ()
        return self._fail(f"nothing came from {self.group.receiver!r} in time")

    def receive(self, frame: bytes, *, vouched: bool = False) -> Effects:
        """Take a frame of the receiver's; one that was taken before changes nothing.

        `vouched` says that it came in a letter that the receiver signed, whose signature stands for that of the frame.
        """
        message = read_any(frame, self.group, checked=vouched)
        if message.sender != self.group.receiver:
            raise Refused(f"a sender listens to the receiver alone; got a frame of {message.sender!r}")
        taken = self._accepted.get(type(message))
        if taken is not None:
            if taken != frame:
                raise Refused(f"{message.sender!r} sent a second, different {type(message).__name__}")
            return ()
        effects = self._take(message)
        self._accepted[type(message)] = frame
        return effects

    def _take(self, message: Message) -> Effects:
        match message, self.phase:
            case Roster(), "roster":
                return self._deal(message)
            case Deals(), "deals":
                return self._hold(message)
            case Survivors(), "survivors":
                return self._agree(message)
            case Agreement(), "agreement":
                return self._open(message)
        raise Refused(f"{type(message).__name__} came while waiting for {self.phase!r}")

    def _deal(self, message: Roster) -> Effects:
        roster = RosterList.of(self.group, message.keys, known=(self._keys,))
        if self._keys not in message.keys:
            raise Refused(f"the roster must hold the keys of {self.me!r} as they were sent")
        drawn, size = self._drawn, len(self.group.names)
        others = {name: keys for name, keys in roster.keys.items() if name != self.me}
        pairs = {
            name: refusing(masks.shared_secret, drawn.masking, keys.masking) for name, keys in others.items()
        }
        sealing = {
            name: refusing(masks.shared_secret, drawn.sealing, keys.sealing) for name, keys in others.items()
        }
        commitment = commitment_of(self.group, self.me, drawn.seed)
        dealt = self._frame(Dealt, roster=roster.digest, commitment=commitment)
        of_seed = shares.split(drawn.seed, threshold=self.group.threshold, holders=size)
        of_key = shares.split(drawn.masking.private_bytes_raw(), threshold=self.group.threshold, holders=size)
        both = {name: of_seed[place] + of_key[place] for place, name in enumerate(self.group.names)}
        sealed = {}
        for holder in others:
            key = share_key(sealing[holder], roster, self.me, holder)
            sealed[holder] = shares.sealed(key, both[holder], context=masks.digest("dealt", [dealt]))
        self._held, self._pairs, self._sealing = {self.me: both[self.me]}, pairs, sealing
        self._roster, self._dealt, self.phase = roster, dealt, "deals"
        return (Send(to=self.group.receiver, frame=self._frame(Shares, dealt=dealt, sealed=sealed)),)

    def _hold(self, message: Deals) -> Effects:
        dealers = DealerList.of(self.group, self._roster, message.dealt, known=(self._dealt,))
        if self._dealt not in message.dealt:
            raise Refused(f"the list of dealers must hold what {self.me!r} dealt as it was sent")
        if set(message.sealed) != set(dealers.commitments) - {self.me}:
            raise Refused("there must be a sealed share of every dealer, and of nobody else")
        held = {}
        for dealer, text in message.sealed.items():
            key = share_key(self._sealing[dealer], self._roster, dealer, self.me)
            held[dealer] = refusing(
                shares.opened, key, text, context=masks.digest("dealt", [dealers.frames[dealer]])
            )
            if len(held[dealer]) != 2 * shares.SHARE_BYTES:
                raise Refused(f"{dealer!r} dealt shares of a wrong length")
        self._held |= held
        self._dealers, self.phase = dealers, "values"
        return self._send_masked() if self._values is not None else ()

    def _send_masked(self) -> Effects:
        assert self._values is not None
        total, drawn = self._values, self._drawn
        masks.add_mask(total, own_key(drawn.seed, self._dealers), 1)
        for other in self._dealers.commitments:
            if other != self.me:
                masks.add_mask(total, pair_key(self._pairs[other], self._dealers), pair_sign(self.me, other))
        self._masked, self.phase = True, "survivors"
        frame = self._frame(
            Masked, dealers=self._dealers.digest, words=total.astype("<u8", copy=False).tobytes()
        )
        return (Send(to=self.group.receiver, frame=frame),)

    def _agree(self, message: Survivors) -> Effects:
        check_survivors(self.group, message.names, self._dealers)
        if self.me not in message.names:
            return self._fail(f"{self.group.receiver!r} says that the masked message did not arrive in time")
        self._survivors, self.phase = message.names, "agreement"
        self._agreed = self._frame(Agreed, dealers=self._dealers.digest, names=message.names)
        return (Send(to=self.group.receiver, frame=self._agreed),)

    def _open(self, message: Agreement) -> Effects:
        said = by_sender(self.group, message.agreed, Agreed, known=(self._agreed,))
        for name, (_, agreed) in said.items():
            if name not in self._survivors or (agreed.dealers, agreed.names) != (
                self._dealers.digest,
                self._survivors,
            ):
                raise Refused(f"{name!r} agreed to other lists than {self.me!r}: no sum is opened over two")
        alive = set(self._survivors)
        seeds = {name: both[: shares.SHARE_BYTES] for name, both in self._held.items() if name in alive}
        keys = {name: both[shares.SHARE_BYTES :] for name, both in self._held.items() if name not in alive}
        frame = self._frame(Opened, seeds=seeds, keys=keys)
        self._end()
        return (
            Send(to=self.group.receiver, frame=frame),
            Given(survivors=self._survivors, receipt=message.agreed),
        )

    @property
    def _drawn(self) -> _Secrets:
        if self._secrets is None:
            raise InputError(f"this sum is over for {self.me!r}; its secrets are gone")
        return self._secrets

    def _frame(self, kind: type[Message], **fields: object) -> bytes:
        return signed(kind(group=self.group.digest, sender=self.me, **fields), self._identity)

    def _fail(self, reason: str) -> Effects:
        dealers = tuple(self._dealers.commitments) if self._masked else ()
        failed = Failed(phase=self.phase, reason=reason, dealers=dealers)
        self._end()
        return (failed,)

    def _end(self) -> None:
        """Forget all secrets: from here on this sender can answer nothing."""
        self.phase, self._secrets, self._values, self._held = "done", None, None, {}
        self._pairs, self._sealing = {}, {}


class Receiver:
    """The receiver of one sum: `receive` what comes; `expire` what did not come in time.

    Waits for `keys`, `shares`, `masked`, `agreed` and `opened` in turn. It goes on as soon as all that can come has
    come, or, where the threshold is all it needs (`agreed`, `opened`), as soon as that is there.
    """

    def __init__(self, group: Group, identity: Ed25519PrivateKey) -> None:
        if identity.public_key().public_bytes_raw() != group.receiver_key:
            raise InputError(
                f"the identity of {group.receiver!r} must be the one that is pinned for it; it is another"
            )
        self.group = group
        self.phase: Phase = "keys"
        self._identity = identity
        self._expected: tuple[str, ...] = group.names
        self._heard: dict[str, tuple[bytes, Message]] = {}
        self._earlier: dict[tuple[str, type[Message]], bytes] = {}
        self._advertised: set[bytes] = set()
        self._probe = _fresh_key()
        self._total: masks.Words = np.zeros(group.length, dtype=np.uint64)

    @property
    def awaited(self) -> tuple[str, ...]:
        """Who has not yet said what this phase waits for."""
        return tuple(name for name in self._expected if name not in self._heard)

    def receive(self, frame: bytes, *, vouched: str | None = None) -> Effects:
        """Take a frame of a sender's; what comes late, or was taken before, changes nothing.

        `vouched` is who signed the letter in which it came. That stands for the signature of a frame which nobody else
        will have to believe; `Keys`, `Dealt` and `Agreed` are handed on, and theirs are looked at.
        """
        message = read_any(frame, self.group, checked=vouched is not None)
        if vouched is not None:
            if message.sender != vouched:
                raise Refused(f"a frame of {message.sender!r} came from {vouched!r}")
            if isinstance(message, Keys | Agreed):
                message = read_any(frame, self.group)
        name, said = message.sender, (message.sender, type(message))
        if said in self._earlier:
            if self._earlier[said] != frame[:SIGNATURE_BYTES]:
                raise Refused(f"{name!r} sent a second, different {type(message).__name__}")
            return ()
        wanted = _WANTED.get(self.phase)
        if type(message) in _ORDER[: _ORDER.index(wanted) if wanted else None]:
            return ()
        if wanted is None or not isinstance(message, wanted) or name not in self._expected:
            raise Refused(f"{type(message).__name__} of {name!r} came while waiting for {self.phase!r}")
        self._check(message)
        self._earlier[said] = frame[:SIGNATURE_BYTES]
        if isinstance(message, Masked):
            # Added up as they come, and let go of.
            self._total += np.frombuffer(message.words, dtype="<u8")
            frame, message = b"", msgspec.structs.replace(message, words=b"")
        self._heard[name] = frame, message
        needed = self.group.threshold if self.phase in {"agreed", "opened"} else len(self._expected)
        return self._go_on() if len(self._heard) >= needed else ()

    def expire(self, phase: Phase) -> Effects:
        """The time to wait for `phase` is over: go on with those who are there, or end if they are too few."""
        if phase != self.phase or phase == "done":
            return ()
        if len(self._heard) < self.group.threshold:
            return self._fail(f"{len(self._heard)} of {self.group.threshold} that are needed came in time")
        return self._go_on()

    def _check(self, message: Message) -> None:
        """Refuse what cannot be part of this sum before it is taken."""
        match message:
            case Keys():
                drawn = {message.sealing, message.masking} - self._advertised
                if len(drawn) < 2:
                    raise Refused(f"{message.sender!r} advertises a key that is not its own")
                for key in drawn:
                    refusing(masks.shared_secret, self._probe, key)
                self._advertised |= drawn
            case Shares():
                dealt = read(message.dealt, self.group, Dealt)
                if dealt.sender != message.sender or dealt.roster != self._roster.digest:
                    raise Refused(f"{message.sender!r} dealt shares over another roster")
                if set(message.sealed) != set(self._roster.keys) - {message.sender}:
                    raise Refused(
                        f"{message.sender!r} must seal a share for every other sender of the roster"
                    )
            case Masked():
                if message.dealers != self._dealers.digest:
                    raise Refused(f"{message.sender!r} masked its message for another list of dealers")
                if len(message.words) != 8 * self.group.length:
                    raise Refused(f"a masked message must have {self.group.length} words of 8 bytes")
            case Agreed():
                if (message.dealers, message.names) != (self._dealers.digest, self._survivors):
                    raise Refused(f"{message.sender!r} agreed to other lists")
            case Opened():
                fallen = set(self._dealers.commitments) - set(self._survivors)
                if set(message.seeds) != set(self._survivors) or set(message.keys) != fallen:
                    raise Refused(
                        f"{message.sender!r} must open a seed of every survivor and a key of everyone else"
                    )

    def _go_on(self) -> Effects:
        heard, self._heard = dict(sorted(self._heard.items())), {}
        frames = tuple(frame for frame, _ in heard.values())
        self._expected = tuple(heard)
        match self.phase:
            case "keys":
                self._roster, self.phase = RosterList.of(self.group, frames, known=frames), "shares"
                return self._tell(Roster, keys=frames)
            case "shares":
                return self._forward({name: cast("Shares", said) for name, (_, said) in heard.items()})
            case "masked":
                self._survivors, self.phase = tuple(heard), "agreed"
                return self._tell(Survivors, names=tuple(heard))
            case "agreed":
                self._receipt, self._expected, self.phase = frames, self._survivors, "opened"
                return self._tell(Agreement, agreed=frames)
        return self._unmask({name: cast("Opened", said) for name, (_, said) in heard.items()})

    def _forward(self, said: Mapping[str, Shares]) -> Effects:
        dealt = tuple(message.dealt for message in said.values())
        self._dealers = DealerList.of(self.group, self._roster, dealt, known=dealt)
        self.phase = "masked"
        return tuple(
            effect
            for holder in said
            for effect in self._tell(
                Deals,
                to=(holder,),
                dealt=dealt,
                sealed={
                    dealer: message.sealed[holder] for dealer, message in said.items() if dealer != holder
                },
            )
        )

    def _unmask(self, said: Mapping[str, Opened]) -> Effects:
        """Take the survivors' own masks off, and the masks that survivors shared with those who fell."""
        try:
            for name in self._survivors:
                seed = self._joined({opener: message.seeds[name] for opener, message in said.items()})
                if commitment_of(self.group, name, seed) != self._dealers.commitments[name]:
                    return self._fail(f"the shares of the seed of {name!r} do not tell what it committed to")
                masks.add_mask(self._total, own_key(seed, self._dealers), -1)
            for name in self._dealers.commitments.keys() - set(self._survivors):
                key = self._joined({opener: message.keys[name] for opener, message in said.items()})
                private = X25519PrivateKey.from_private_bytes(key)
                if public_key(private) != self._roster.keys[name].masking:
                    return self._fail(
                        f"the shares of the key of {name!r} do not tell the key that it advertised"
                    )
                for other in self._survivors:
                    shared = masks.shared_secret(private, self._roster.keys[other].masking)
                    masks.add_mask(self._total, pair_key(shared, self._dealers), pair_sign(name, other))
        except InputError as error:
            return self._fail(str(error))
        values = self._total.view(np.int64)
        reach = self.group.largest * sum(abs(self.group.member(name).weight) for name in self._survivors)
        if max(int(values.max()), -int(values.min())) > reach:
            return self._fail(f"the sum is beyond {reach}: a sender's values were larger than all agreed on")
        self.phase = "done"
        return (Summed(values=values, survivors=self._survivors, receipt=self._receipt),)

    def _joined(self, by_opener: Mapping[str, bytes]) -> bytes:
        places = {self.group.place(name): share for name, share in by_opener.items()}
        return shares.joined(places, threshold=self.group.threshold)

    def _tell(self, kind: type[Message], *, to: tuple[str, ...] | None = None, **fields: object) -> Effects:
        frame = signed(kind(group=self.group.digest, sender=self.group.receiver, **fields), self._identity)
        return tuple(Send(to=name, frame=frame) for name in (self._expected if to is None else to))

    def _fail(self, reason: str) -> Effects:
        failed = Failed(phase=self.phase, reason=reason)
        self.phase = "done"
        return (failed,)


# What each phase of a receiver waits for, in order.
_WANTED: dict[Phase, type[Message]] = {
    "keys": Keys,
    "shares": Shares,
    "masked": Masked,
    "agreed": Agreed,
    "opened": Opened,
}
_ORDER = list(_WANTED.values())
