# SPDX-License-Identifier: Apache-2.0
"""Sensitivities of known protocols against their closed forms."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sottovoce import sensitivity
from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import (
    Combine,
    Draw,
    Exchange,
    Program,
    Protocol,
    clean_state,
    exact_diffusion,
    gossip,
    gradient_tracking,
    momentum,
    once,
    pairwise_noise,
    repeated,
    round_weights,
    scheduled,
)
from sottovoce.studies.encoders import encoder
from sottovoce.studies.equal_error import one_peer
from sottovoce.studies.surprises import heavy_ball
from sottovoce.views import View

RING = metropolis_weights("ring:n=6")


def squared(protocol: Protocol, view: View, target: int, **more: Any) -> float:
    """Δ², whose two ends must all but meet."""
    found = sensitivity(protocol, view, [target], **{"contribution": "scalar", **more})
    lower, upper = float(found.squared_lower[0]), float(found.squared_upper[0])
    assert lower <= upper <= lower * (1 + 1e-8) + 1e-12
    return upper


@pytest.mark.parametrize("rounds", [1, 4, 10])
def test_anti_pgd(rounds: int) -> None:
    protocol = gossip(RING, rounds=rounds, encoder=[1] * rounds)
    everything = rounds * (rounds + 1) * (2 * rounds + 1) / 6
    assert squared(protocol, View.everyone, 2) == pytest.approx(everything, rel=1e-9)
    assert squared(protocol, View.everyone, 2, participation="at-most:1") == pytest.approx(rounds, rel=1e-9)


@pytest.mark.parametrize(
    ("column", "one", "every"),
    [
        (encoder("square root", 10, bands=4, decay="1/2"), 1.7913439416, 66.97153),
        (tuple(Fraction(1, 2**k) for k in range(10)), 1.3333320618, 33.3411445618),
    ],
)
def test_encoders_of_matrix_mechanisms(column: tuple[Fraction, ...], one: float, every: float) -> None:
    protocol = gossip(RING, rounds=10, encoder=column)
    assert squared(protocol, View.everyone, 0, participation="at-most:1") == pytest.approx(one, rel=1e-9)
    assert squared(protocol, View.everyone, 0) == pytest.approx(every, rel=1e-6)


def test_clean_state_with_noise_that_dies_out() -> None:
    """Nozari et al.: q²/(c²(q² − (1 − s)²)) for noise c·q^t and s = 0.8, q = 0.9, c = 1."""
    levels = [Fraction(1)] + [Fraction(9, 10) ** t for t in range(15)]
    programs = tuple(
        clean_state(RING, rounds=1, keep="1/5", noise_levels=level).programs[0] for level in levels
    )
    protocol = Protocol(weights=RING, program=programs, rounds=len(programs))
    value = squared(protocol, View.everyone, 1, participation="fixed:1")
    assert value == pytest.approx(1.0519480519, rel=1e-9)


def test_noise_that_cancels_between_neighbours() -> None:
    protocol = pairwise_noise(metropolis_weights("ring:n=8"), rounds=6, local=1, shared=2)
    assert squared(protocol, View.everyone, 1) == pytest.approx(1.5118047219, rel=1e-9)
    assert squared(protocol, View.neighbourhood(0), 1) == pytest.approx(1.8984, abs=1e-4)
    assert squared(protocol, View.secure_sum(0), 1) == pytest.approx(0.96307, abs=1e-5)


def test_the_last_message_of_a_node_that_contracts() -> None:
    """Bok, Su & Altschuler 2024: (1 − c^T)(1 + c)/((1 + c^T)(1 − c)), one node that nobody hears before the end."""
    rounds, c = 10, Fraction(9, 10)
    send = (
        Combine("message", {"model": c, "contribution": 1, "u": 1}),
        Exchange("message", "model"),
    )
    quiet = Program(keeps=("model",), draws=(Draw("u"),), instructions=send)
    loud = Program(keeps=("model",), draws=(Draw("u"),), instructions=(*send, Exchange("model", "seen")))
    protocol = Protocol(
        weights=round_weights(np.eye(2)), program=(*[quiet] * (rounds - 1), loud), rounds=rounds
    )
    exact = (1 - 0.9**10) * 1.9 / ((1 + 0.9**10) * 0.1)
    assert exact == pytest.approx(9.1757303077)
    view = View(name="everyone", exchanges=(2,))
    assert squared(protocol, view, 0) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize(
    ("gamma", "expected"),
    [(Fraction(6, 5), (2.3642, 1.0643, 0.6644)), (Fraction(1), (2.3702, 0.9865, 0.5318))],
)
def test_acceleration_leaks_more_to_far_nodes(gamma: Fraction, expected: tuple[float, ...]) -> None:
    protocol = heavy_ball(6, 6, gamma)
    for distance, value in enumerate(expected, start=1):
        assert math.sqrt(squared(protocol, View.neighbourhood(0), distance)) == pytest.approx(value, abs=1e-4)


@pytest.mark.parametrize("view", [View.secure_sum(0), View.neighbourhood(0)])
def test_a_sum_of_two_hides_nothing(view: View) -> None:
    protocol = scheduled(one_peer(8), rounds=6)
    expected = {1: 2.6803, 2: 3.15069, 4: 3.38763, 3: 0.65853, 7: 0.32104}
    for target, value in expected.items():
        assert squared(protocol, view, target) == pytest.approx(value, abs=1e-4)


@pytest.mark.parametrize("rounds", [1, 2, 7])
def test_gradient_tracking_with_noise_on_messages_costs_more(rounds: int) -> None:
    assert squared(gradient_tracking(RING, rounds=rounds), View.everyone, 3) == pytest.approx(rounds)
    for late in (gradient_tracking, exact_diffusion):
        protocol = late(RING, rounds=rounds, noise="messages")
        assert squared(protocol, View.everyone, 3) == pytest.approx(4 * rounds - 3, rel=1e-9)


def test_momentum_with_noise_on_the_message() -> None:
    beta, rounds = 0.5, 6
    exact = sum(((1 - beta**t) / (1 - beta)) ** 2 for t in range(1, rounds + 1))
    late = momentum(RING, rounds=rounds, beta="1/2", noise="message")
    assert squared(late, View.everyone, 3) == pytest.approx(exact, rel=1e-9)
    assert squared(momentum(RING, rounds=rounds, beta="1/2"), View.everyone, 3) == pytest.approx(rounds)


def test_one_step_is_plain_gossip() -> None:
    plain = sensitivity(gossip(RING, rounds=5), View.secure_sum(0), contribution="scalar")
    for other in (repeated(RING, rounds=5, steps=1), momentum(RING, rounds=5, beta=0)):
        found = sensitivity(other, View.secure_sum(0), contribution="scalar")
        assert found.squared_upper == pytest.approx(plain.squared_upper, rel=1e-9)


def test_once_shows_everything_at_the_first_exchange() -> None:
    assert squared(once(RING, steps=4), View.everyone, 0) == pytest.approx(1.0)
