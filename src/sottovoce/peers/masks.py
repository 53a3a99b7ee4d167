# SPDX-License-Identifier: Apache-2.0
"""Masks: streams of words modulo 2⁶⁴ that two senders share, or that one keeps to itself.

A secret has 256 bits, serves one sum, and is stretched to one word of mask for every word of the message:

    X25519 (or a fresh seed) → HKDF-SHA256, bound to its purpose and to all that the sum is about → ChaCha20.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from sottovoce.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

__all__ = ["MOST_WORDS", "Words", "add_mask", "bound_key", "digest", "shared_secret", "word"]

Words: TypeAlias = NDArray[np.uint64]

# ChaCha20 counts blocks of 64 bytes in 32 bits: beyond 2³² blocks a stream would come round again.
MOST_WORDS = 2**34
# Words that are masked at a time: a stream and its sum stay within the cache of a core.
_CHUNK = 2**15
_ZEROS = bytes(8 * _CHUNK)


def word(name: str | bytes) -> bytes:
    """A name with its length before it, so that names in a row can be read in one way alone."""
    raw = name.encode() if isinstance(name, str) else name
    return len(raw).to_bytes(4, "big") + raw


def digest(purpose: str, parts: Iterable[str | bytes | memoryview]) -> bytes:
    """SHA-256 of a purpose and of parts that cannot be shifted into one another.

    >>> digest("list", ["ab", "c"]) == digest("list", ["a", "bc"])
    False
    """
    found = hashlib.sha256(word("sottovoce 1 " + purpose))
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        found.update(len(raw).to_bytes(8, "big"))
        found.update(raw)
    return found.digest()


def bound_key(secret: bytes, *, purpose: str, context: bytes) -> bytes:
    """A key of 256 bits from a secret, of use for one purpose in one context alone (HKDF-SHA256)."""
    if len(secret) != 32:
        raise InputError(f"a secret must have 32 bytes; got {len(secret)}")
    return HKDF(SHA256(), 32, salt=context, info=word("sottovoce 1 " + purpose)).derive(secret)


def shared_secret(mine: X25519PrivateKey, theirs: bytes) -> bytes:
    """What the holders of two X25519 keys share: my private key, and their public key as 32 bytes."""
    try:
        return mine.exchange(X25519PublicKey.from_public_bytes(theirs))
    except ValueError as error:
        raise InputError(
            f"a key must be a point of X25519 that is not of small order; got {theirs.hex()}"
        ) from error


def add_mask(total: Words, key: bytes, sign: Literal[1, -1]) -> None:
    """Add to `total`, in place, ± the stream of a key: words modulo 2⁶⁴, a fresh one for each word of the message.

    **Guarantee**: a key must serve one stream only (`bound_key` of a secret that serves one sum); then the stream
    cannot be told from uniform words without the key. **Source**: RFC 8439.

    >>> total = np.zeros(3, dtype=np.uint64)
    >>> add_mask(total, bytes(range(32)), 1)
    >>> add_mask(total, bytes(range(32)), -1)
    >>> total.tolist()
    [0, 0, 0]
    """
    if total.size > MOST_WORDS:
        raise InputError(f"a message must have at most {MOST_WORDS} words; got {total.size}")
    stream = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()
    drawn = np.empty(min(_CHUNK, total.size), dtype="<u8")
    combine = np.add if sign == 1 else np.subtract
    for start in range(0, total.size, _CHUNK):
        part = total[start : start + _CHUNK]
        stream.update_into(memoryview(_ZEROS)[: 8 * part.size], drawn[: part.size].view(np.uint8).data)
        combine(part, drawn[: part.size], out=part)
