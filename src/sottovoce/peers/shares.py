# SPDX-License-Identifier: Apache-2.0
"""Secrets of 256 bits, shared so that any t of m holders can tell them and fewer know nothing; sealed for each holder.

A secret s is the constant term of a polynomial of degree t − 1 with uniform coefficients modulo the prime
p = 2²⁵⁶ + 297; holder k gets its value at k.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from sottovoce.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PRIME", "SHARE_BYTES", "joined", "opened", "sealed", "split"]

PRIME = 2**256 + 297
# A value modulo p may need a bit more than a secret has.
SHARE_BYTES = 33


def split(secret: bytes, *, threshold: int, holders: int) -> tuple[bytes, ...]:
    """Shares of a secret for holders 1, 2, …, `holders`: any `threshold` of them tell it.

    **Guarantee**: fewer than `threshold` shares have a law that does not depend on the secret. **Source**: Shamir 1979.
    """
    if len(secret) != 32:
        raise InputError(f"a secret must have 32 bytes; got {len(secret)}")
    if not 1 <= threshold <= holders:
        raise InputError(
            f"a threshold must lie between 1 and the number of holders, {holders}; got {threshold}"
        )
    coefficients = [secrets.randbelow(PRIME) for _ in range(threshold - 1)]
    shares = []
    for place in range(1, holders + 1):
        value = 0
        for coefficient in coefficients:
            value = (value + coefficient) * place % PRIME
        shares.append(((value + int.from_bytes(secret, "big")) % PRIME).to_bytes(SHARE_BYTES, "big"))
    return tuple(shares)


def joined(shares: Mapping[int, bytes], *, threshold: int) -> bytes:
    """The secret that shares tell, by holder; all of them must lie on one polynomial of degree below `threshold`.

    >>> dealt = split(bytes(range(32)), threshold=2, holders=3)
    >>> joined({1: dealt[0], 3: dealt[2]}, threshold=2) == bytes(range(32))
    True
    """
    if len(shares) < threshold:
        raise InputError(f"a secret needs {threshold} shares; got {len(shares)}")
    values = {place: _value(share) for place, share in sorted(shares.items())}
    first = dict(list(values.items())[:threshold])
    for place, value in list(values.items())[threshold:]:
        if _interpolated(first, place) != value:
            raise InputError(f"shares must be of one secret; that of holder {place} is not of the others'")
    secret = _interpolated(first, 0)
    if secret >= 2**256:
        raise InputError("shares must be of a secret of 256 bits; these tell a larger number")
    return secret.to_bytes(32, "big")


def _value(share: bytes) -> int:
    value = int.from_bytes(share, "big")
    if len(share) != SHARE_BYTES or value >= PRIME:
        raise InputError(
            f"a share must be a number below 2^256 + 297 in {SHARE_BYTES} bytes; got {share.hex()}"
        )
    return value


def _interpolated(points: Mapping[int, int], at: int) -> int:
    """The value at a place of the polynomial of least degree through points (Lagrange)."""
    total = 0
    for place, value in points.items():
        above = below = 1
        for other in points:
            if other != place:
                above = above * (at - other) % PRIME
                below = below * (place - other) % PRIME
        total = (total + value * above * pow(below, -1, PRIME)) % PRIME
    return total


def sealed(key: bytes, text: bytes, *, context: bytes) -> bytes:
    """A text for the holder of a key, who can tell whether text or context were altered; the key serves once."""
    return ChaCha20Poly1305(key).encrypt(bytes(12), text, context)


def opened(key: bytes, text: bytes, *, context: bytes) -> bytes:
    """What was sealed with a key in a context; anything else is refused."""
    try:
        return ChaCha20Poly1305(key).decrypt(bytes(12), text, context)
    except InvalidTag as error:
        raise InputError(
            "a sealed share must come from its dealer unaltered; this one does not open"
        ) from error
