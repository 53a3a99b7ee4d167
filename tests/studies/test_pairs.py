# SPDX-License-Identifier: Apache-2.0
"""Random pairs are what they are called."""

from __future__ import annotations

import numpy as np

from sottovoce.graphs import metropolis_weights
from sottovoce.studies.pairs import NETWORKS, draw_pair, network_weights, spread


def test_pairs_are_neighbours_and_strangers() -> None:
    seen = set()
    for seed in range(20):
        weights = network_weights(NETWORKS[seed % 2], 60, seed)
        pair = draw_pair(weights, seed)
        assert pair.neighbour in weights.neighbours(pair.observer)
        assert pair.stranger not in weights.neighbours(pair.observer)
        assert pair.stranger != pair.observer
        assert draw_pair(weights, seed) == pair
        seen.add(pair.observer)
    assert len(seen) > 10


def test_the_graphs_are_those_of_the_paper() -> None:
    random = network_weights(NETWORKS[0], 100, 1)
    assert random.n == 100
    assert random.matrix.nnz / 100 - 1 == np.clip(random.matrix.nnz / 100 - 1, 12, 18)
    grown = network_weights(NETWORKS[1], 100, 1)
    # A core of 5 has 10 edges, each of 95 further nodes 3.
    assert (grown.matrix.nnz - 100) // 2 == 10 + 3 * 95


def test_an_observer_that_knows_everyone_is_drawn_again() -> None:
    star = metropolis_weights("star:n=6")
    assert all(draw_pair(star, seed).observer != 0 for seed in range(30))


def test_spread_nodes_reach_from_end_to_end() -> None:
    nodes = np.arange(10, 30)
    assert spread(nodes, 3).tolist() == [10, 20, 29]
    assert spread(nodes, 99).tolist() == nodes.tolist()
    assert spread(nodes[:0], 4).size == 0
