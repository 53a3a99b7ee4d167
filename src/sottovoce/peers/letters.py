# SPDX-License-Identifier: Apache-2.0
"""Letters between peers: signed by who sends, sealed for who receives, bound to run, round, exchange and both ends.

Links are mutual TLS already. A letter does not rely on that: whoever terminates a link, or is let onto one by an
authority that the TLS library trusts besides ours, can neither read nor write one.

    wire = nonce ‖ ChaCha20-Poly1305(key of sender → receiver in this run, signature ‖ header ‖ body)
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import msgspec
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sottovoce.peers.messages import Refused
from sottovoce.peers.naming import PART_BYTES

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from sottovoce.peers.identity import Identity
    from sottovoce.peers.network import Network

__all__ = ["Header", "Kind", "Letter", "PostOffice", "checked_header", "most_bytes"]

Kind = Literal["hello", "values", "to-sum", "of-sum", "receipt", "closed", "farewell"]
_CONTEXT = b"sottovoce letter 1\n"
_NONCE, _TAG, _SIGNATURE = 12, 16, 64
# More than a header takes, and than the keys and shares of a sum do for each of its senders.
_HEADER, _SHARE = 4096, 1024


class Header(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """What a signature vouches for; `digest` is SHA-256 of the body."""

    run: bytes
    kind: Kind
    round: int
    exchange: int
    sender: int
    receiver: int
    digest: bytes


@dataclass(frozen=True, kw_only=True)
class Letter:
    """A letter that was opened and found to be genuine."""

    header: Header
    body: bytes
    signed: bytes
    """The header as it was signed, behind its signature: what a third party needs to check it."""

    @property
    def sender(self) -> int:
        """Who wrote it."""
        return self.header.sender


class PostOffice:
    """Seals and opens the letters of one node in one run."""

    def __init__(self, network: Network, identity: Identity) -> None:
        """Keys with every neighbour, from the pinned ones; before nodes have joined a run all they say is hello."""
        self.me = network.holder(identity.card)
        self._joined, self._identity = bool(network.parts), identity
        self._run = network.run_name if self._joined else network.hash
        self._length = most_bytes(network)
        self._out: dict[int, ChaCha20Poly1305] = {}
        self._in: dict[int, ChaCha20Poly1305] = {}
        self._keys: dict[int, Ed25519PublicKey] = {}
        for other in network.neighbours(self.me):
            card = network.settings.nodes[other]
            shared = identity.sealing.exchange(card.sealing_key)
            self._out[other] = self._cipher(shared, self.me, other)
            self._in[other] = self._cipher(shared, other, self.me)
            self._keys[other] = card.signing_key

    def _cipher(self, shared: bytes, sender: int, receiver: int) -> ChaCha20Poly1305:
        about = _CONTEXT + self._run + sender.to_bytes(4, "big") + receiver.to_bytes(4, "big")
        return ChaCha20Poly1305(HKDF(algorithm=SHA256(), length=32, salt=None, info=about).derive(shared))

    def sealed(self, receiver: int, kind: Kind, round_: int, exchange: int, body: bytes) -> bytes:
        """A letter, ready to be sent."""
        self._check_kind(kind)
        header = msgspec.msgpack.encode(
            Header(
                run=self._run,
                kind=kind,
                round=round_,
                exchange=exchange,
                sender=self.me,
                receiver=receiver,
                digest=hashlib.sha256(body).digest(),
            )
        )
        signature = self._identity.signing.sign(_CONTEXT + header)
        nonce = os.urandom(_NONCE)
        inner = b"".join((signature, len(header).to_bytes(2, "big"), header, body))
        return nonce + self._out[receiver].encrypt(nonce, inner, None)

    def opened(self, sender: int, wire: bytes) -> Letter:
        """The letter in what came from a neighbour; `Refused` says why it is none."""
        if sender not in self._in:
            raise Refused(f"node {sender} is no neighbour")
        if not _NONCE + _TAG + _SIGNATURE + 2 <= len(wire) <= self._length:
            raise Refused(f"a letter must have at most {self._length} bytes; got {len(wire)}")
        try:
            inner = self._in[sender].decrypt(wire[:_NONCE], wire[_NONCE:], None)
        except InvalidTag:
            raise Refused(f"a letter of node {sender} was not sealed by it for this run") from None
        begin = _SIGNATURE + 2
        end = begin + int.from_bytes(inner[_SIGNATURE:begin], "big")
        signed, body = inner[:_SIGNATURE] + inner[begin:end], inner[end:]
        header = checked_header(signed, self._keys[sender])
        if (header.run, header.sender, header.receiver) != (self._run, sender, self.me):
            raise Refused(f"a letter of node {sender} is for another run, or for somebody else")
        if header.digest != hashlib.sha256(body).digest():
            raise Refused(f"a letter of node {sender} does not hold what was signed")
        self._check_kind(header.kind)
        if min(header.round, header.exchange) < 0:
            raise Refused(f"a letter of node {sender} is of round {header.round}, exchange {header.exchange}")
        return Letter(header=header, body=body, signed=signed)

    def _check_kind(self, kind: Kind) -> None:
        """Refuse what is out of place before a run, or in it."""
        if (kind == "hello") == self._joined:
            where = "in a run" if self._joined else "before a run has a name"
            raise Refused(f"no letter of the kind {kind!r} is written {where}")


def checked_header(signed: bytes, key: Ed25519PublicKey | None) -> Header:
    """The header behind a signature; anybody who has the pinned key can check it. None if that was done before.

    The letter itself is not needed: its digest is in the header.
    """
    try:
        if key is not None:
            key.verify(signed[:_SIGNATURE], _CONTEXT + signed[_SIGNATURE:])
        return msgspec.msgpack.decode(signed[_SIGNATURE:], type=Header)
    except InvalidSignature:
        raise Refused("a letter must be signed by who sends it; this signature is none") from None
    except msgspec.DecodeError as error:
        raise Refused(f"a letter must begin with a header; {error}") from None


def most_bytes(network: Network) -> int:
    """The most bytes of a letter: its values, the shares of all senders of a sum, and the parts of a run."""
    widest = max(len(row) for row in network.numerators)
    return 16 * network.dimension + _HEADER + _SHARE * widest + PART_BYTES * network.n
