# SPDX-License-Identifier: Apache-2.0
"""Shares against a reference that knows nothing of them but the definition: a polynomial through points."""

import itertools
import random
import secrets
from fractions import Fraction

import pytest

from sottovoce.errors import InputError
from sottovoce.peers import shares


def reference(points: dict[int, int], modulus: int) -> int:
    """The constant term of the polynomial through points: Newton's divided differences, as fractions."""
    places, table = list(points), [Fraction(value) for value in points.values()]
    for order in range(1, len(places)):
        for index in range(len(places) - 1, order - 1, -1):
            table[index] = (table[index] - table[index - 1]) / (places[index] - places[index - order])
    value = table[-1]
    for place, coefficient in zip(reversed(places[:-1]), reversed(table[:-1]), strict=True):
        value = coefficient - place * value
    return value.numerator * pow(value.denominator, -1, modulus) % modulus


def test_the_modulus_is_prime_and_above_every_secret() -> None:
    flint = pytest.importorskip("flint")
    assert flint.fmpz(shares.PRIME).is_prime()
    assert shares.PRIME > 2**256


@pytest.mark.parametrize(("threshold", "holders"), [(1, 1), (1, 3), (2, 3), (3, 5), (7, 9)])
def test_any_holders_that_are_enough_tell_the_secret(threshold: int, holders: int) -> None:
    secret = secrets.token_bytes(32)
    dealt = dict(enumerate(shares.split(secret, threshold=threshold, holders=holders), start=1))
    for chosen in itertools.islice(itertools.combinations(dealt, threshold), 12):
        some = {place: dealt[place] for place in chosen}
        assert shares.joined(some, threshold=threshold) == secret
        values = {place: int.from_bytes(share, "big") for place, share in some.items()}
        assert reference(values, shares.PRIME) == int.from_bytes(secret, "big")
    assert shares.joined(dealt, threshold=threshold) == secret


@pytest.mark.parametrize("secret", [bytes(32), b"\xff" * 32])
def test_secrets_at_the_ends_are_told(secret: bytes) -> None:
    dealt = shares.split(secret, threshold=2, holders=2)
    assert shares.joined({1: dealt[0], 2: dealt[1]}, threshold=2) == secret


def test_one_share_too_few_fits_every_secret() -> None:
    """For whatever secret there is one share that the missing holder could have: nothing is excluded."""
    dealt = shares.split(bytes(32), threshold=3, holders=5)
    known = {place: int.from_bytes(dealt[place - 1], "big") for place in (1, 2)}
    for guess in (0, 1, 2**255, 2**256 - 1):
        third = reference({place - 3: value for place, value in ({0: guess} | known).items()}, shares.PRIME)
        told = {
            place: value.to_bytes(shares.SHARE_BYTES, "big") for place, value in (known | {3: third}).items()
        }
        assert shares.joined(told, threshold=3) == guess.to_bytes(32, "big")


def test_a_secret_is_dealt_afresh_each_time() -> None:
    assert shares.split(bytes(32), threshold=2, holders=2) != shares.split(bytes(32), threshold=2, holders=2)


def test_shares_of_two_secrets_are_refused() -> None:
    dealt = dict(enumerate(shares.split(bytes(range(32)), threshold=2, holders=4), start=1))
    wrong = dealt | {4: ((int.from_bytes(dealt[4], "big") + 1) % shares.PRIME).to_bytes(33, "big")}
    with pytest.raises(InputError, match="that of holder 4 is not of the others'"):
        shares.joined(wrong, threshold=2)
    with pytest.raises(InputError, match="needs 2 shares; got 1"):
        shares.joined({1: dealt[1]}, threshold=2)
    for share in (dealt[1][1:], shares.PRIME.to_bytes(33, "big")):
        with pytest.raises(InputError, match="must be a number below"):
            shares.joined(dealt | {1: share}, threshold=2)
    above = {1: (2**256).to_bytes(33, "big")}
    with pytest.raises(InputError, match="tell a larger number"):
        shares.joined(above, threshold=1)


@pytest.mark.parametrize(
    ("secret", "threshold", "sentence"),
    [(bytes(31), 2, "32 bytes; got 31"), (bytes(32), 0, "got 0"), (bytes(32), 4, "holders, 3; got 4")],
)
def test_bad_terms_are_refused(secret: bytes, threshold: int, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        shares.split(secret, threshold=threshold, holders=3)


def test_what_is_sealed_opens_for_its_key_and_its_context_alone() -> None:
    key, text = secrets.token_bytes(32), secrets.token_bytes(66)
    sealed = shares.sealed(key, text, context=b"a")
    assert shares.opened(key, sealed, context=b"a") == text
    rng = random.Random(0)
    for _ in range(50):
        altered = bytearray(sealed)
        altered[rng.randrange(len(altered))] ^= 1 << rng.randrange(8)
        with pytest.raises(InputError, match="does not open"):
            shares.opened(key, bytes(altered), context=b"a")
    with pytest.raises(InputError, match="does not open"):
        shares.opened(key, sealed, context=b"b")
    with pytest.raises(InputError, match="does not open"):
        shares.opened(bytes(32), sealed, context=b"a")
