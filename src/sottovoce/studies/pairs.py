# SPDX-License-Identifier: Apache-2.0
"""The networks of the paper's figures, random pairs and evenly spread nodes on them, and what a pair comes to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.graphs import metropolis_weights
from sottovoce.rates import response_spectrum
from sottovoce.views import View

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sottovoce.graphs import GossipWeights

__all__ = [
    "NETWORKS",
    "RELATIONS",
    "DrawnPair",
    "draw_pair",
    "drawn_views",
    "network_weights",
    "peak_response",
    "spread",
]

NETWORKS = ("Erdős–Rényi", "preferential attachment")
RELATIONS = ("neighbours", "not neighbours")
FREQUENCIES = np.linspace(0, np.pi, 13)


@dataclass(frozen=True, kw_only=True)
class DrawnPair:
    """A random observer with one of its neighbours and one node that is none."""

    observer: int
    neighbour: int
    stranger: int


def network_weights(network: str, nodes: int, seed: int) -> GossipWeights:
    """Metropolis weights on one of the paper's two random graphs, scaled to `nodes` nodes at the same parameters."""
    if network == NETWORKS[0]:
        return metropolis_weights(f"erdos-renyi:n={nodes},p=0.15,seed={seed}")
    return metropolis_weights(f"preferential:n={nodes},core=5,links=3,seed={seed}")


def spread(nodes: np.ndarray, count: int) -> np.ndarray:
    """At most `count` of `nodes`, evenly spread."""
    places = np.linspace(0, nodes.size - 1, min(count, nodes.size)).round().astype(int)
    return np.asarray(nodes[places])


def peak_response(weights: GossipWeights, view: View, target: int) -> float:
    """φ at its largest among some frequencies: a lower bound of the limit of Δ²/T, as each value of φ is."""
    return float(response_spectrum(weights, view, target, FREQUENCIES).max())


def draw_pair(weights: GossipWeights, seed: int) -> DrawnPair:
    """A random observer, neighbour and stranger; an observer that all others are neighbours of is drawn again."""
    rng = np.random.default_rng(seed)
    while True:
        observer = int(rng.integers(weights.n))
        neighbours = weights.neighbours(observer)
        strangers = np.setdiff1d(np.arange(weights.n), [*neighbours, observer])
        if neighbours.size and strangers.size:
            return DrawnPair(
                observer=observer,
                neighbour=int(rng.choice(neighbours)),
                stranger=int(rng.choice(strangers)),
            )


def drawn_views(
    nodes: int, seeds: Sequence[int]
) -> Iterator[tuple[int, int, GossipWeights, DrawnPair, View]]:
    """A pair on each network for each seed, with the places of both, and the observer's view as the paper has it."""
    for a, network in enumerate(NETWORKS):
        for c, seed in enumerate(seeds):
            weights = network_weights(network, nodes, seed)
            pair = draw_pair(weights, seed)
            yield a, c, weights, pair, View.single_node(pair.observer, own_noise="hidden")
