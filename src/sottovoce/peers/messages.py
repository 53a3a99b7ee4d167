# SPDX-License-Identifier: Apache-2.0
"""What senders and receiver of a sum say to each other: signed, and bound to one sum by its digest.

A frame is a signature of 64 bytes and the message it signs. Lists of frames travel inside other messages, so that what
one sender says reaches another through the receiver unaltered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from sottovoce.errors import SottovoceError
from sottovoce.peers.masks import digest

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from sottovoce.peers.groups import Group

__all__ = [
    "SIGNATURE_BYTES",
    "Agreed",
    "Agreement",
    "Deals",
    "Dealt",
    "Keys",
    "Masked",
    "Message",
    "Opened",
    "Refused",
    "Roster",
    "Shares",
    "Survivors",
    "is_signed",
    "read",
    "read_any",
    "signed",
]


class Refused(SottovoceError):  # noqa: N818 - a verdict on a message, not a mistake of ours
    """A message that breaks the rules of its sum. Nothing was changed by it."""


class Message(
    msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag=True, forbid_unknown_fields=True
):
    """Something said in one sum by one node."""

    group: bytes
    sender: str


class Keys(Message, frozen=True, kw_only=True, array_like=True, tag=True):
    """Sender → all: its two X25519 keys for this sum, one for shares and one for masks."""

    sealing: bytes
    masking: bytes


class Roster(Message, frozen=True, kw_only=True, array_like=True, tag=True):
    """Receiver → senders: the frames of `Keys` that arrived in time."""

    keys: tuple[bytes, ...]


class Dealt(Message, frozen=True, kw_only=True, array_like=True, tag=True):
    """Sender → all: that it dealt shares over a roster, and a digest of the seed of its own mask."""

    roster: bytes
    commitment: bytes


class Shares(Message, frozen=True, kw_only=True, array_like=True, tag=True):
    """Sender → receiver: the frame of its `Dealt`, and shares sealed for each other sender."""

    dealt: bytes
    sealed: dict[str, bytes]


class Deals(Message, frozen=True, kw_only=True, array_like=True, tag=True):
    """Receiver → one sender: the frames of `Dealt` that arrived in time, and the shares sealed for this sender."""

    dealt: tuple[bytes, ...]
    sealed: dict[str, bytes]


class Masked(Message, frozen=True, kw_only=True, array_like=True, tag=True):
    """Sender → receiver: weight · values + all its masks, as little-endian words; and the list that these are for."""

    dealers: bytes
    words: bytes


class Survivors(Message, frozen=True, kw_only=True, array_like=True, tag=True):
    """Receiver → senders: whose masked messages arrived in time."""

    names: tuple[str, ...]


class Agreed(Message, frozen=True, kw_only=True, array_like=True, tag=True):
    """Sender → all: the one list of dealers and the one list of survivors that it will help to open."""

    dealers: bytes
    names: tuple[str, ...]


class Agreement(Message, frozen=True, kw_only=True, array_like=True, tag=True):
    """Receiver → senders: frames of `Agreed`, at least as many as the threshold, all of the same lists."""

    agreed: tuple[bytes, ...]


class Opened(Message, frozen=True, kw_only=True, array_like=True, tag=True):
    """Sender → receiver: shares of the survivors' seeds, and of the keys of those who dealt and did not survive."""

    seeds: dict[str, bytes]
    keys: dict[str, bytes]


Kind = TypeVar("Kind", bound=Message)

SIGNATURE_BYTES = 64
_ANY = Keys | Roster | Dealt | Shares | Deals | Masked | Survivors | Agreed | Agreement | Opened
_DECODER = msgspec.msgpack.Decoder(_ANY)


def signed(message: Message, identity: Ed25519PrivateKey) -> bytes:
    """The frame of a message."""
    body = msgspec.msgpack.encode(message)
    return identity.sign(digest("frame", [body])) + body


def read(frame: bytes, group: Group, kind: type[Kind], *, checked: bool = False) -> Kind:
    """The message of a frame: of this kind and this sum, signed by the pinned key of the node it names."""
    message = read_any(frame, group, checked=checked)
    if not isinstance(message, kind):
        raise Refused(f"expected {kind.__name__} from {message.sender!r}; got {type(message).__name__}")
    return message


def read_any(frame: bytes, group: Group, *, checked: bool = False) -> Message:
    """The message of a frame of this sum, whatever its kind; `checked` says that its signature was checked."""
    body = memoryview(frame)[SIGNATURE_BYTES:]
    try:
        message: Message = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused(f"a frame must hold a message of a sum: {error}") from error
    if message.group != group.digest:
        raise Refused(f"a message of {message.sender!r} belongs to another sum")
    key = group.keys.get(message.sender)
    if key is None:
        raise Refused(f"{message.sender!r} has no part in this sum")
    if not checked and not is_signed(frame, key):
        raise Refused(f"a message must be signed by the pinned key of {message.sender!r}; this one is not")
    return message


def is_signed(frame: bytes, key: bytes) -> bool:
    """Whether the owner of a key signed the message of a frame."""
    signature, body = frame[:SIGNATURE_BYTES], memoryview(frame)[SIGNATURE_BYTES:]
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, digest("frame", [body]))
    except InvalidSignature:
        return False
    return True
