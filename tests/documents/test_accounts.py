# SPDX-License-Identifier: Apache-2.0
"""What documents say of a protocol is a claim: its sentence is read as such, however long it is."""

from __future__ import annotations

from typing import Any

import pytest

from sottovoce import Combine, Draw, Exchange, Program, Protocol, gossip, graphs
from sottovoce.documents import claimed
from sottovoce.documents.accounts import Sight
from sottovoce.protocols import momentum, pairwise_noise, repeated

RING = graphs.metropolis_weights("ring:n=5")


def sight(sentence: str) -> Sight:
    """A document that says nothing but a sentence."""
    words: dict[str, Any] = dict.fromkeys(
        ("version", "view", "own_noise", "contribution", "assumption", "protocol"), ""
    )
    return Sight(schema=2, **words, program=sentence)


def only(draw: Draw) -> Protocol:
    """Gossip with one draw."""
    steps = (
        Combine("message", {"model": 1, "contribution": 1, draw.name: 1}),
        Exchange("message", "model"),
    )
    return Protocol(
        weights=RING, program=Program(keeps=("model",), draws=(draw,), instructions=steps), rounds=3
    )


@pytest.mark.parametrize(
    ("protocol", "gossips"),
    [
        (gossip(RING, rounds=1), True),
        (gossip(RING, rounds=3, damping=0.5), True),
        (gossip(RING, rounds=3, damping=[0.1, 0.2, 0.3, 0.4, 0.5]), True),
        (gossip(RING, rounds=3, noise_levels=2), False),
        (only(Draw("w")), True),
        (only(Draw("w", 1, "edge")), False),
        (pairwise_noise(RING, rounds=3, local=1, shared=1), False),
        (momentum(RING, rounds=3, beta="1/2"), False),
        (repeated(RING, rounds=3, steps=2), False),
    ],
    ids=lambda each: each.sentence if isinstance(each, Protocol) else "",
)
def test_gossip_is_known_by_its_sentence(protocol: Protocol, gossips: bool) -> None:
    assert sight(protocol.sentence).gossips is gossips


def test_a_sentence_of_any_length_is_read_once() -> None:
    """Tried at every place, the model would be looked for for hours."""
    many = 10**6
    long = f"message = {'·' * 2 * many} + contribution + u; exchange message → {'·' * many}b; 5 rounds"
    assert not sight(long).gossips
    assert not sight(f"message = {' + '.join('u' * many)}; exchange message → model; 5 rounds").gossips


def test_noise_of_edges_that_is_called_as_that_of_nodes_is_another_sentence() -> None:
    """Whoever sees all messages adds them up, and no draw of an edge is left: local DP of that is no finite number."""
    own, shared = only(Draw("u")).sentence, only(Draw("u", 1, "edge")).sentence
    assert claimed._PLAIN_GOSSIP.fullmatch(own)
    assert not claimed._PLAIN_GOSSIP.fullmatch(shared)
    assert shared.replace("; u on each edge", "") == own
