# SPDX-License-Identifier: Apache-2.0
"""The two lists of a sum, roster and dealers, as both sides read them, and the keys that are bound to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeVar

from sottovoce.errors import InputError
from sottovoce.peers import masks
from sottovoce.peers.messages import Dealt, Keys, Message, Refused, read

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    from sottovoce.peers.groups import Group

__all__ = [
    "KEY_BYTES",
    "DealerList",
    "RosterList",
    "by_sender",
    "check_survivors",
    "commitment_of",
    "own_key",
    "pair_key",
    "pair_sign",
    "public_key",
    "refusing",
    "share_key",
]

Kind = TypeVar("Kind", bound=Message)
Found = TypeVar("Found")
Taken = ParamSpec("Taken")

KEY_BYTES = 32


def by_sender(
    group: Group, frames: Iterable[bytes], kind: type[Kind], *, known: Collection[bytes] = ()
) -> dict[str, tuple[bytes, Kind]]:
    """Frames of one kind with what they say, in the order of names; refused if too few, doubled or not by senders.

    Signatures of frames that are `known` were checked before, or are the reader's own.
    """
    said: dict[str, tuple[bytes, Kind]] = {}
    for frame in frames:
        message = read(frame, group, kind, checked=frame in known)
        if message.sender not in group.names or message.sender in said:
            raise Refused(
                f"a list must hold one {kind.__name__} a sender; {message.sender!r} is out of place in it"
            )
        said[message.sender] = frame, message
    if len(said) < group.threshold:
        raise Refused(f"a list of {kind.__name__} needs {group.threshold} senders; got {len(said)}")
    return dict(sorted(said.items()))


@dataclass(frozen=True, kw_only=True)
class RosterList:
    """Whose keys take part, and what names that list."""

    keys: Mapping[str, Keys]
    digest: bytes

    @classmethod
    def of(cls, group: Group, frames: Iterable[bytes], *, known: Collection[bytes] = ()) -> RosterList:
        """Read frames of `Keys`."""
        said = by_sender(group, frames, Keys, known=known)
        keys = {name: message for name, (_, message) in said.items()}
        drawn = [key for message in keys.values() for key in (message.sealing, message.masking)]
        if len(set(drawn)) < len(drawn) or any(len(key) != KEY_BYTES for key in drawn):
            raise Refused(
                f"every sender must advertise two keys of {KEY_BYTES} bytes that nobody else advertises"
            )
        return cls(
            keys=keys, digest=masks.digest("roster", [group.digest, *(frame for frame, _ in said.values())])
        )


@dataclass(frozen=True, kw_only=True)
class DealerList:
    """Who dealt shares over a roster, by which frames, with the digests of their seeds, and what names that list."""

    frames: Mapping[str, bytes]
    commitments: Mapping[str, bytes]
    digest: bytes

    @classmethod
    def of(
        cls, group: Group, roster: RosterList, frames: Iterable[bytes], *, known: Collection[bytes] = ()
    ) -> DealerList:
        """Read frames of `Dealt`, all over this roster."""
        said = by_sender(group, frames, Dealt, known=known)
        for name, (_, message) in said.items():
            if message.roster != roster.digest or name not in roster.keys:
                raise Refused(f"{name!r} dealt shares over another roster")
        return cls(
            frames={name: frame for name, (frame, _) in said.items()},
            commitments={name: message.commitment for name, (_, message) in said.items()},
            digest=masks.digest("dealers", [roster.digest, *(frame for frame, _ in said.values())]),
        )


def share_key(shared: bytes, roster: RosterList, dealer: str, holder: str) -> bytes:
    """The key that seals a dealer's shares for a holder, from the secret that they share."""
    context = masks.digest("share", [roster.digest, dealer, holder])
    return masks.bound_key(shared, purpose="share", context=context)


def pair_key(shared: bytes, dealers: DealerList) -> bytes:
    """The key of the mask that one of two senders adds and the other takes off, from the secret that they share."""
    return masks.bound_key(shared, purpose="mask of a pair", context=dealers.digest)


def own_key(seed: bytes, dealers: DealerList) -> bytes:
    """The key of the mask that a sender adds for itself."""
    return masks.bound_key(seed, purpose="mask of one", context=dealers.digest)


def pair_sign(name: str, other: str) -> Literal[1, -1]:
    """Of a pair the first by name adds the mask, and the other takes it off."""
    return 1 if name < other else -1


def commitment_of(group: Group, name: str, seed: bytes) -> bytes:
    """What a sender says of its seed beforehand, so that wrong shares of it are noticed."""
    return masks.digest("seed", [group.digest, name, seed])


def check_survivors(group: Group, names: tuple[str, ...], dealers: DealerList) -> None:
    """Refuse a list of survivors that no honest receiver would send."""
    if list(names) != sorted(set(names)) or not set(names) <= set(dealers.commitments):
        raise Refused(
            f"survivors must be dealers, each once and in the order of names; got {', '.join(names)}"
        )
    if len(names) < group.threshold:
        raise Refused(f"a sum needs {group.threshold} survivors; got {len(names)} ({', '.join(names)})")


def refusing(function: Callable[Taken, Found], *args: Taken.args, **kwargs: Taken.kwargs) -> Found:
    """What a function finds; a value that it does not take came with a message, which is refused."""
    try:
        return function(*args, **kwargs)
    except InputError as error:
        raise Refused(str(error)) from error


def public_key(private: X25519PrivateKey) -> bytes:
    """The X25519 key that others see."""
    return private.public_key().public_bytes_raw()
