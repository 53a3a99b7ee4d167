# SPDX-License-Identifier: Apache-2.0
"""Encoders written out as registers say what C⁻¹ says, also where rounds differ."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.interpreter import exact_view, knowing, largest_over_signs
from tests.pairings import each_pair
from tests.scenes import PAIRS, PATH, PROTOCOLS, RING, VIEWS

from sottovoce import View, certify, sensitivity, verify
from sottovoce.errors import InputError, NotCertified
from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import Combine, Draw, Exchange, Program, Protocol, gossip, pairwise_noise, scheduled
from sottovoce.protocols.encoding import recursion_of, unencoded

ENCODED = [protocol for protocol in PROTOCOLS if protocol.encoded]
CODES = [(1, 1, 1, 1), (1, "1/2", "1/4", "1/8"), (1, "1/2", "3/8", "5/16"), (2, -1), (3,), (1, 0, 0, "1/2")]


def louder(level: Any, other: str = "v") -> Program:
    """Gossip with a draw that changes its level, and a register beside it."""
    return Program(
        keeps=("model",),
        draws=(Draw("u", level),),
        instructions=(
            Combine(other, {"u": "1/2"}),
            Combine("message", {"model": 1, "contribution": 1, "u": 1, other: 1}),
            Exchange("message", "model"),
        ),
    )


VARYING = Protocol(
    weights=PATH, program=(louder(1), louder((2, 1, "1/3", 1), "u_1")), rounds=5, encoder=(1, "1/2", "3/8")
)


@pytest.mark.parametrize("code", CODES)
def test_the_recursion_is_the_inverse(code: Any) -> None:
    rounds = 7
    column = [Fraction(x) for x in code] + [Fraction(0)] * (rounds - len(code))
    recursion = recursion_of([Fraction(x) for x in code], rounds)
    # The response to ξ = (1, 0, 0, …), convolved with C, is ξ again.
    fresh, made = [Fraction(k == 0) for k in range(rounds)], list[Fraction]()
    for t in range(rounds):
        held = fresh if recursion.of_fresh else made
        past = sum((x * held[t - k] for k, x in enumerate(recursion.past, 1) if k <= t), Fraction(0))
        made.append(recursion.first * fresh[t] + past)
    again = [sum((column[k] * made[t - k] for k in range(t + 1)), Fraction(0)) for t in range(rounds)]
    assert again == fresh


def test_the_shorter_memory_is_chosen() -> None:
    anti, banded = recursion_of([Fraction(1)] * 300, 300), recursion_of([Fraction(1), Fraction(1, 2)], 300)
    assert (anti.of_fresh, len(anti.past)) == (True, 1)
    assert (banded.of_fresh, len(banded.past)) == (False, 1)


@pytest.mark.parametrize("protocol", [*ENCODED, VARYING], ids=lambda each: f"{each.name}-{each.n}")
def test_written_out_it_shows_the_same(protocol: Protocol) -> None:
    plain = unencoded(protocol)
    assert not plain.encoded
    for view in VIEWS:
        for target in set(range(protocol.n)) - knowing(view):
            assert exact_view(protocol, view, target).form() == exact_view(plain, view, target).form()


def test_without_an_encoder_nothing_changes() -> None:
    protocol = gossip(PATH, rounds=3)
    assert unencoded(protocol) is protocol


@pytest.mark.parametrize("view", VIEWS[:5], ids=repr)
def test_levels_may_change_under_an_encoder(view: Any) -> None:
    for target in set(range(4)) - knowing(view):
        M = exact_view(VARYING, view, target).form()
        assert M is not None
        value = largest_over_signs(M)
        found = sensitivity(VARYING, view, [target], contribution="scalar")
        assert found.squared_lower[0] <= value <= found.squared_upper[0] <= float(value) * (1 + 1e-6)
        if value:
            certificate = certify(VARYING, view, target, contribution="scalar")
            assert verify(certificate, VARYING).verdict == "verified"
            assert certificate.squared_lower <= value <= certificate.squared_upper


def test_streams_that_break_off_are_refused() -> None:
    with pytest.raises(
        InputError, match=r"same draws; got \[\('u', 'node'\)\] and \[\('w', 'node'\)\] \(a draw"
    ):
        Protocol(
            weights=PATH,
            program=(louder(1), replace_draw(louder(1), "w")),
            rounds=3,
            encoder=(1, 1),
        )
    decor = pairwise_noise(RING, rounds=4, local=1, shared=1)
    apart = np.eye(5)
    with pytest.raises(InputError, match="2 different sets of edges"):
        replace(decor, weights=(RING, scheduled([apart], rounds=1).weights), encoder=(1, 1))
    again = replace(decor, weights=(RING, RING), encoder=(1, 1))
    alike = replace(decor, encoder=(1, 1))
    view = VIEWS[1]
    assert exact_view(again, view, 2).form() == exact_view(alike, view, 2).form()
    one, two = (sensitivity(each, view, [2]).squared_upper[0] for each in (again, alike))
    assert one == pytest.approx(two, rel=1e-9)
    assert scheduled(PAIRS, rounds=3, encoder=(1,)).encoded is False


def replace_draw(program: Program, name: str) -> Program:
    """The program with its draw under another name."""
    return Program.from_json(
        {
            **program.to_json(),
            "draws": [{"name": name}],
            "instructions": [
                {**entry, "terms": {name if key == "u" else key: x for key, x in entry["terms"].items()}}
                if "terms" in entry
                else entry
                for entry in program.to_json()["instructions"]
            ],
        }
    )


@pytest.mark.parametrize("weights", [RING, (RING, RING)], ids=["alike", "schedule"])
def test_draws_of_level_0_are_no_noise_and_no_error(weights: Any) -> None:
    shared = pairwise_noise(RING, rounds=1, local=0, shared=1).program
    protocol = Protocol(weights=weights, program=shared, rounds=3, encoder=(1, "1/2"))
    M = exact_view(protocol, VIEWS[0], 1).form()
    found = sensitivity(protocol, VIEWS[0], [1], contribution="scalar")[1].squared
    if M is None:
        assert found.lower == np.inf
    else:
        assert found.lower <= largest_over_signs(M) <= found.upper
    silent = gossip(RING, rounds=1, noise_levels=0).program
    bare = Protocol(weights=weights, program=silent, rounds=3, encoder=(1, "1/2"))
    assert sensitivity(bare, VIEWS[0], [1])[1].squared.lower == np.inf


@pytest.mark.parametrize(
    ("pattern", "levels", "view"),
    each_pair(
        ["fixed:1", "fixed:2", "fixed:4", "every:2", "at-most:1"],
        [0, (0, 0, 1, 1, 1), (1, 0, 1, 0, 1)],
        [View.everyone, View.secure_sum(2), View.neighbourhood(2)],
    ),
)
def test_what_no_noise_hides_is_infinite_in_every_pattern_that_meets_it(
    pattern: str, levels: Any, view: View
) -> None:
    """An encoder carries a contribution into later rounds: rows with the encoder written out decide."""
    rounds, ring = 4, metropolis_weights("ring:n=5")
    protocol = gossip(ring, rounds=rounds, noise_levels=levels, encoder=(1, "1/2"))
    spread_out = replace(protocol, weights=(ring, ring))
    alike, written = (
        sensitivity(each, view, [1], participation=pattern)[1].squared for each in (protocol, spread_out)
    )
    assert math.isinf(alike.lower) == math.isinf(written.lower) == math.isinf(alike.upper)
    if not math.isinf(alike.lower):
        assert alike.lower <= written.upper
        assert written.lower <= alike.upper


def test_numbers_that_no_certificate_holds_are_refused_before_anything_is_proved() -> None:
    long = gossip(RING, rounds=2, noise_levels=Fraction(10**450 + 1, 3 * 10**450))
    with pytest.raises(NotCertified, match=r"at most 400 digits on each side; .* has one of 451"):
        certify(long, VIEWS[0], 1)
