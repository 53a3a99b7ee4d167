"""Letters: genuine ones are opened, and nothing else is."""

import random

import numpy as np
import pytest
from tests.peers.networks import identities, joined, network

from sottovoce.errors import InputError
from sottovoce.peers import create_identity
from sottovoce.peers.letters import PostOffice, checked_header
from sottovoce.peers.messages import Refused

RUN = joined(network(4))
OFFICES = [PostOffice(RUN, each) for each in identities(4)]
BODY = np.arange(RUN.dimension, dtype="<f8").tobytes()
WIRE = OFFICES[1].sealed(0, "values", 3, 0, BODY)


def test_a_letter_says_who_wrote_what_when_to_whom() -> None:
    letter = OFFICES[0].opened(1, WIRE)
    header = letter.header
    assert (header.kind, header.round, header.exchange, header.sender, header.receiver) == (
        "values",
        3,
        0,
        1,
        0,
    )
    assert letter.body == BODY
    assert checked_header(letter.signed, identities(4)[1].card.signing_key) == header
    with pytest.raises(Refused, match="must be signed by who sends it"):
        checked_header(letter.signed, identities(4)[2].card.signing_key)


def test_the_same_letter_looks_different_each_time_and_tells_nothing() -> None:
    other = OFFICES[1].sealed(0, "values", 3, 0, BODY)
    assert other != WIRE
    assert BODY not in WIRE
    bits = np.unpackbits(
        np.frombuffer(b"".join(OFFICES[1].sealed(0, "values", 3, 0, BODY) for _ in range(50)), "u1")
    )
    assert abs(bits.mean() - 0.5) < 5 * 0.5 / np.sqrt(bits.size)


@pytest.mark.parametrize(
    ("opener", "sender", "sentence"),
    [
        (0, 3, "was not sealed by it"),
        (2, 1, "was not sealed by it"),
        (0, 2, "is no neighbour"),
        (1, 0, "not sealed"),
    ],
)
def test_a_letter_for_somebody_else_or_of_somebody_else_is_refused(
    opener: int, sender: int, sentence: str
) -> None:
    with pytest.raises(Refused, match=sentence):
        OFFICES[opener].opened(sender, WIRE)


def test_a_letter_of_another_run_is_refused() -> None:
    for another in (joined(network(4, rounds=6)), joined(network(4)), network(4)):
        later = PostOffice(another, identities(4)[0])
        with pytest.raises(Refused, match="not sealed by it for this run"):
            later.opened(1, WIRE)


def test_before_a_run_nodes_say_hello_and_in_it_they_do_not() -> None:
    lobby = [PostOffice(network(4), each) for each in identities(4)[:2]]
    hello = lobby[1].sealed(0, "hello", 0, 0, b"")
    assert lobby[0].opened(1, hello).header.kind == "hello"
    with pytest.raises(Refused, match="'values' is written before a run has a name"):
        lobby[1].sealed(0, "values", 0, 0, BODY)
    with pytest.raises(Refused, match="'hello' is written in a run"):
        OFFICES[1].sealed(0, "hello", 0, 0, b"")


def test_a_thousand_changed_letters_are_refused() -> None:
    rng = random.Random(1)
    for _ in range(1000):
        wire = bytearray(WIRE)
        match rng.randrange(4):
            case 0:
                wire[rng.randrange(len(wire))] ^= 1 << rng.randrange(8)
            case 1:
                del wire[rng.randrange(len(wire)) :]
            case 2:
                wire[rng.randrange(len(wire)) : 0] = rng.randbytes(rng.randrange(1, 40))
            case 3:
                wire = bytearray(rng.randbytes(rng.randrange(2 * len(wire))))
        with pytest.raises(Refused):
            OFFICES[0].opened(1, bytes(wire))


def test_a_letter_that_is_too_long_is_refused_before_it_is_opened() -> None:
    with pytest.raises(Refused, match="must have at most"):
        OFFICES[0].opened(1, OFFICES[1].sealed(0, "values", 0, 0, bytes(100_000)))


def test_keys_that_the_network_does_not_pin_are_refused() -> None:
    with pytest.raises(InputError, match="must be those that the network pins"):
        PostOffice(RUN, create_identity("site-0", "127.0.0.1:18000"))
