# SPDX-License-Identifier: Apache-2.0
"""What laws are held against: one of every protocol, of every view and of every engine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sottovoce.graphs import matrix_weights, metropolis_weights
from sottovoce.protocols import (
    Protocol,
    chebyshev,
    clean_state,
    exact_diffusion,
    gossip,
    gradient_tracking,
    momentum,
    once,
    pairwise_noise,
    push_sum,
    repeated,
    scheduled,
)
from sottovoce.views import View

if TYPE_CHECKING:
    from sottovoce.filtering import Engine

PATH, RING, STAR = (metropolis_weights(name) for name in ("path:n=4", "ring:n=5", "star:n=4"))
DIRECTED = np.array([[0.5, 0, 0.25, 0], [0.5, 0.5, 0, 0], [0, 0.5, 0.5, 0.5], [0, 0, 0.25, 0.5]])
PAIRS = [
    np.kron(np.eye(2), np.full((2, 2), 0.5)),
    np.roll(np.roll(np.kron(np.eye(2), np.full((2, 2), 0.5)), 1, 0), 1, 1),
]

PROTOCOLS: list[Protocol] = [
    gossip(PATH, rounds=4),
    gossip(STAR, rounds=3, damping=[1, 0.5, 0, -0.25]),
    gossip(PATH, rounds=4, noise_levels=("1/2", 2, 1, "1/3")),
    gossip(STAR, rounds=3, encoder=(1, "1/2", "3/8")),
    repeated(PATH, rounds=3, steps=2),
    repeated(STAR, rounds=2, steps=3),
    chebyshev(PATH, rounds=3, steps=3, gamma="6/5"),
    momentum(PATH, rounds=4, beta="9/10"),
    momentum(STAR, rounds=4, beta="1/2", noise="message"),
    gradient_tracking(PATH, rounds=4),
    gradient_tracking(STAR, rounds=4, noise="messages"),
    exact_diffusion(PATH, rounds=4),
    exact_diffusion(STAR, rounds=3, noise="messages"),
    pairwise_noise(RING, rounds=3, local=1, shared=2),
    pairwise_noise(STAR, rounds=3, local=("1/2", 0, 1, 1), shared=1),
    once(PATH, steps=4),
    clean_state(PATH, rounds=4, keep="1/2"),
    push_sum(DIRECTED, rounds=4),
    scheduled(PAIRS, rounds=5),
    replace(pairwise_noise(PATH, rounds=3, local=1, shared=2), encoder=(1, 1, 1)),
    scheduled(PAIRS, rounds=4, encoder=(1, "1/2", "3/8")),
]
"""One of every builder, small enough for rationals."""

VIEWS: list[View] = [
    View.everyone,
    View.neighbourhood(1),
    View.neighbourhood(0, own_noise="hidden"),
    View.secure_sum(0),
    View.secure_sum(2, own_noise="hidden"),
    View.single_node(1),
    View.single_node(0, own_noise="hidden"),
    View.coalition_sums([0, 2]),
    View.coalition_messages([1, 3]),
    View.neighbourhood(1, exchanges=[1]),
]
"""Every view of up to five nodes, with its observers' noise known and hidden, and of one exchange alone."""

# Twentieths, so that the weights .6, .05, .4 and .2 are exact.
SHARES = np.array([[7.0, 12, 1, 0], [12, 0, 8, 0], [1, 8, 7, 4], [0, 0, 4, 16]])
WEIGHTED = matrix_weights(SHARES, normalise=True)
TRAPPED = View(observation=SHARES[:1], known_noise=[0, 1])
"""The sums of node 0, by someone who knows what node 1 drew but is not shown what it received."""
LAZY = matrix_weights(SHARES + np.diag([20.0] * 4), normalise=True)

TRAPS: list[Protocol] = [
    gossip(WEIGHTED, rounds=30, noise_levels=2),
    gossip(WEIGHTED, rounds=30, noise_levels=(1, 2, 1, "1/2")),
    gossip(WEIGHTED, rounds=24, noise_levels=(1, 1, 2, 1), encoder=(1, "1/2", "3/8")),
    momentum(WEIGHTED, rounds=30, beta="1/2"),
    clean_state(WEIGHTED, rounds=30, keep="1/2"),
    momentum(WEIGHTED, rounds=30, beta="9/10", noise="message"),
    repeated(WEIGHTED, rounds=20, steps=2),
    chebyshev(WEIGHTED, rounds=20, steps=2, gamma="6/5"),
    gradient_tracking(WEIGHTED, rounds=16),
    gradient_tracking(WEIGHTED, rounds=16, noise="messages"),
    exact_diffusion(WEIGHTED, rounds=24),
    exact_diffusion(WEIGHTED, rounds=24, noise="messages"),
    pairwise_noise(WEIGHTED, rounds=20, local=1, shared=2),
    scheduled([WEIGHTED, LAZY], rounds=24),
]
"""Protocols in which that observer works out a mode that grows from round to round and that nothing excites."""

ENGINES: tuple[Engine, ...] = ("filter", "reduced")
"""How Δ² is computed, in words of the option; "auto" is one of them."""

CHOICES: tuple[Engine, ...] = ("auto", *ENGINES)

HEARD: list[View] = [
    View.secure_sum(0),
    View.single_node(0),
    View.single_node(0, own_noise="hidden"),
    View.neighbourhood(0),
    View.coalition_sums([0, 1]),
    View.coalition_sums([0, 1], own_noise="hidden"),
    View.coalition_messages([0, 1]),
]
"""What node 0, alone or with node 1, hears of all others."""


def label(protocol: Protocol) -> str:
    """What a test of a protocol is called."""
    return f"{protocol.name}-{protocol.n}-{protocol.rounds}"


EVERY_PROTOCOL = pytest.mark.parametrize("protocol", PROTOCOLS, ids=label)
EVERY_CHOICE = pytest.mark.parametrize("engine", CHOICES)
EVERY_ENGINE = pytest.mark.parametrize("engine", ENGINES)
