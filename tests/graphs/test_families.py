"""Families without chance, against networkx's own."""

from typing import Any

import networkx as nx
import numpy as np
import pytest

from sottovoce.errors import GraphError
from sottovoce.graphs import families


def circulant(n: int) -> Any:
    return nx.circulant_graph(n, [1 << k for k in range((n - 1).bit_length())])


def renumbered(graph: Any) -> Any:
    return nx.convert_node_labels_to_integers(graph, ordering="sorted")


def blown_up(graph: Any, size: int) -> Any:
    return renumbered(nx.lexicographic_product(graph, nx.complete_graph(size)))


CASES = [
    (families.ring(7), nx.cycle_graph(7)),
    (families.ring(2), nx.path_graph(2)),
    (families.path(6), nx.path_graph(6)),
    (families.star(5), nx.star_graph(4)),
    (families.complete(6), nx.complete_graph(6)),
    (families.grid(3, 4), renumbered(nx.grid_2d_graph(3, 4))),
    (families.grid(1, 4), nx.path_graph(4)),
    (families.torus(3, 5), renumbered(nx.grid_2d_graph(3, 5, periodic=True))),
    (families.hypercube(1), nx.path_graph(2)),
    (families.hypercube(4), renumbered(nx.hypercube_graph(4))),
    (families.exponential(6), circulant(6)),
    (families.exponential(16), circulant(16)),
    (families.exponential(2), nx.path_graph(2)),
    (families.cliques(families.ring(4), 3), blown_up(nx.cycle_graph(4), 3)),
    (families.cliques(families.star(4), 2), blown_up(nx.star_graph(3), 2)),
    (families.cliques(families.path(3), 1), nx.path_graph(3)),
]


@pytest.mark.parametrize(("graph", "expected"), CASES)
def test_against_networkx(graph: Any, expected: Any) -> None:
    wanted = nx.to_numpy_array(expected, nodelist=range(graph.n))
    assert np.array_equal(graph.adjacency.toarray(), wanted)
    assert graph.labels == range(graph.n)
    assert not graph.directed
    assert not graph.weighted


@pytest.mark.parametrize(
    ("graph", "n", "edges", "label"),
    [
        (families.karate(), 34, 78, 33),
        (families.les_miserables(), 77, 254, "Valjean"),
        (families.florentine(), 15, 20, "Medici"),
    ],
)
def test_bundled_graphs_keep_names_and_drop_weights(graph: Any, n: int, edges: Any, label: Any) -> None:
    assert (graph.n, graph.edges) == (n, edges)
    assert graph.labels[graph.index(label)] == label
    assert not graph.weighted
    assert (graph.adjacency.data == 1).all()


def test_graphs_beyond_memory_are_refused() -> None:
    with pytest.raises(
        GraphError, match=r"complete: .* at most 200,000,000 edges; this one would have about 5e\+11 \(take"
    ):
        families.complete(1_000_000)
