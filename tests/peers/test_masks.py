# SPDX-License-Identifier: Apache-2.0
"""Masks: the stream of RFC 8439, for keys that serve one purpose in one context."""

import hashlib
import hmac
import secrets

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from scipy import stats

from sottovoce.errors import InputError
from sottovoce.peers import masks


def stream(key: bytes, count: int) -> np.ndarray:
    words = np.zeros(count, dtype=np.uint64)
    masks.add_mask(words, key, 1)
    return words


def test_the_stream_is_that_of_the_standard() -> None:
    # RFC 8439, appendix A.1, test vectors 1 and 2: a key of zeros, blocks 0 and 1.
    blocks = (
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"
    )
    assert stream(bytes(32), 16).astype("<u8").tobytes().hex() == blocks


@pytest.mark.parametrize("count", [1, 7, 2**15 - 1, 2**15, 2**15 + 1, 100_000])
def test_streams_cancel_at_every_length_and_go_on_across_pieces(count: int) -> None:
    key = secrets.token_bytes(32)
    values = np.arange(count, dtype=np.uint64)
    masked = values.copy()
    masks.add_mask(masked, key, 1)
    assert np.array_equal(masked - values, stream(key, 100_000)[:count])
    masks.add_mask(masked, key, -1)
    assert np.array_equal(masked, values)


def test_a_stream_is_uniform_and_says_nothing_twice() -> None:
    words = stream(secrets.token_bytes(32), 200_000)
    assert len(np.unique(words)) == words.size
    assert stats.chisquare(np.bincount(words.view(np.uint8), minlength=256)).pvalue > 1e-6


def test_a_key_is_that_of_the_standard_and_bound_to_purpose_and_context() -> None:
    secret, context = secrets.token_bytes(32), secrets.token_bytes(32)
    # RFC 5869, written out for one block.
    fixed = hmac.new(context, secret, hashlib.sha256).digest()
    info = masks.word("sottovoce 1 share") + b"\x01"
    assert (
        masks.bound_key(secret, purpose="share", context=context)
        == hmac.new(fixed, info, hashlib.sha256).digest()
    )
    keys = {
        masks.bound_key(secret, purpose=purpose, context=at)
        for purpose in ("share", "mask of one", "mask of a pair")
        for at in (context, bytes(32))
    }
    assert len(keys) == 6
    with pytest.raises(InputError, match="32 bytes; got 4"):
        masks.bound_key(b"seed", purpose="share", context=context)


def test_two_share_a_secret_that_a_third_does_not() -> None:
    private = [X25519PrivateKey.generate() for _ in range(3)]
    mine, theirs, other = private
    public = [key.public_key().public_bytes_raw() for key in private]
    assert masks.shared_secret(mine, public[1]) == masks.shared_secret(theirs, public[0])
    assert masks.shared_secret(mine, public[1]) != masks.shared_secret(other, public[1])
    for weak in (bytes(32), (1).to_bytes(32, "little"), b"short"):
        with pytest.raises(InputError, match="must be a point of X25519"):
            masks.shared_secret(mine, weak)
