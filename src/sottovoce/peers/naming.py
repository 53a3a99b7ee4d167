# SPDX-License-Identifier: Apache-2.0
"""What names a run: the hash of its network, and what every node drew for it from its system's generator.

Two runs of one `network.toml` have different names as long as a single node draws afresh, and a node takes part in no
run whose name lacks what it drew itself. So nothing that was said in one run is understood in another.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING

import msgspec
from cryptography.exceptions import InvalidSignature

from sottovoce.peers.messages import SIGNATURE_BYTES, Refused

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sottovoce.peers.identity import Card, Identity

__all__ = ["PART_BYTES", "RunPart", "drawn_part", "name_of", "read_part"]

_CONTEXT = b"sottovoce part of a run 1\n"
_DRAWN = 32
_MOST_VERSIONS = 2**32
PART_BYTES = 128
"""More than a part takes with its signature."""


class RunPart(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """What one node drew for a run; of two parts of one node the one with the higher version counts."""

    node: int
    version: int
    drawn: bytes


def drawn_part(agreed: bytes, node: int, identity: Identity, *, version: int = 1) -> bytes:
    """A fresh part of a node, signed for the network with this hash."""
    body = msgspec.msgpack.encode(RunPart(node=node, version=version, drawn=secrets.token_bytes(_DRAWN)))
    return identity.signing.sign(_CONTEXT + agreed + body) + body


def read_part(agreed: bytes, cards: Sequence[Card], frame: bytes) -> RunPart:
    """The part in a frame; refused unless the node that it names signed it for this network."""
    signature, body = frame[:SIGNATURE_BYTES], frame[SIGNATURE_BYTES:]
    try:
        part = msgspec.msgpack.decode(body, type=RunPart)
        # One spelling alone, so that a name is of what was drawn and of nothing else.
        whole = msgspec.msgpack.encode(part) == body and len(part.drawn) == _DRAWN
        if not (whole and 0 <= part.node < len(cards) and 0 < part.version < _MOST_VERSIONS):
            raise Refused("a part of a run must name its node and hold 32 bytes; this one does not")
        cards[part.node].signing_key.verify(signature, _CONTEXT + agreed + body)
    except msgspec.DecodeError as error:
        raise Refused(f"a part of a run must say what a node drew: {error}") from None
    except InvalidSignature:
        raise Refused(
            "a part of a run must be signed by its node for this network; this one is not"
        ) from None
    return part


def name_of(agreed: bytes, frames: Iterable[bytes]) -> bytes:
    """The name of the run of these parts, in the order of nodes."""
    found = hashlib.sha256(b"sottovoce run 1\n" + agreed)
    for frame in frames:
        found.update(frame[SIGNATURE_BYTES:])
    return found.digest()
