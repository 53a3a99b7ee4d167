"""Graph and GossipWeights: counting, naming, exact rows and the hash."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy

from sottovoce.errors import GraphError
from sottovoce.graphs import GossipWeights, Graph, as_graph, lazy_weights, matrix_weights, metropolis_weights
from sottovoce.graphs.model import canonical_matrix, is_symmetric, tidy_labels

TRIANGLE_WITH_LOOP = np.array([[1.0, 1, 1], [1, 0, 1], [1, 1, 0]])


def graph_of(matrix: Any, labels: Any = None, *, directed: bool = False) -> Any:
    sparse = scipy.sparse.csr_array(matrix)
    return Graph(
        adjacency=sparse, labels=tidy_labels(labels, sparse.shape[0]), directed=directed, weighted=False
    )


def test_undirected_edges_count_once_and_loops_do_not() -> None:
    graph = graph_of(TRIANGLE_WITH_LOOP)
    assert (graph.n, graph.edges, graph.degrees.tolist()) == (3, 3, [2, 2, 2])


def test_directed_degrees_count_what_a_node_receives() -> None:
    graph = graph_of([[0, 1, 1], [0, 0, 0], [0, 1, 0]], directed=True)
    assert (graph.edges, graph.degrees.tolist()) == (3, [2, 0, 1])


def test_values_compare_by_identity() -> None:
    assert graph_of(TRIANGLE_WITH_LOOP) != graph_of(TRIANGLE_WITH_LOOP)
    assert metropolis_weights("ring:n=4") != metropolis_weights("ring:n=4")


def test_integer_labels_in_order_become_a_range_and_build_no_table() -> None:
    graph = as_graph("ring:n=1000000")
    assert graph.labels == range(1_000_000)
    assert graph.index(999_999) == 999_999
    assert "_positions" not in vars(graph)


@pytest.mark.parametrize(
    ("labels", "label", "position"),
    [
        (None, 2, 2),
        (None, "2", 2),
        (None, np.int64(1), 1),
        ([5, 6, 7], 6, 1),
        ([30, 10, 20], "10", 1),
        (["a", "b", "c"], "c", 2),
        (["1", 1, "x"], "1", 0),
        ([("x", 0), ("x", 1), None], ("x", 1), 1),
    ],
)
def test_index_finds_labels(labels: Any, label: Any, position: int) -> None:
    assert graph_of(TRIANGLE_WITH_LOOP, labels).index(label) == position
    weights = metropolis_weights(graph_of(TRIANGLE_WITH_LOOP, labels))
    assert weights.index(label) == position


@pytest.mark.parametrize(
    ("labels", "label", "sentence"),
    [
        (None, 3, r"no node is called 3; the nodes are called 0 to 2 \(name one of them\)"),
        (None, -1, r"no node is called -1; the nodes are called 0 to 2"),
        (None, "anna", r"no node is called 'anna'; the nodes are called 0 to 2"),
        (None, 1.5, r"no node is called 1.5"),
        (
            ["Medici", "Pazzi", "Strozzi"],
            "Pazi",
            r"no node is called 'Pazi'; the closest names are 'Pazzi'.* \(name one of the 3 nodes\)",
        ),
        ([10, 20, 40], 21, r"no node is called 21; the closest names are 20"),
        (["a", "b", "c"], ["a"], r"no node is called \['a'\]"),
    ],
)
def test_index_names_the_closest_labels(labels: Any, label: Any, sentence: str) -> None:
    with pytest.raises(GraphError, match=f"^{sentence}"):
        graph_of(TRIANGLE_WITH_LOOP, labels).index(label)


def test_a_written_name_finds_the_label_that_reads_the_same() -> None:
    weights = metropolis_weights(graph_of(TRIANGLE_WITH_LOOP, [(0, 1), 2.5, "c"]))
    assert [weights.written(name) for name in ("(0, 1)", "2.5", "c")] == [(0, 1), 2.5, "c"]
    assert metropolis_weights("ring:n=4").written("3") == 3
    with pytest.raises(GraphError, match=r"^no node is called 'd'; the closest names are"):
        weights.written("d")


def test_an_empty_graph_has_no_node_to_name() -> None:
    with pytest.raises(GraphError, match=r"no node is called 0; the graph has no nodes \(add some\)"):
        graph_of(np.zeros((0, 0))).index(0)


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: graph_of([[0, 1]]), r"must be square; got 1 x 2 \(one row and column per node\)"),
        (lambda: graph_of([[0, 1], [0, 0]]), r"must have a symmetric adjacency .* \(pass directed=True\)"),
        (lambda: graph_of(TRIANGLE_WITH_LOOP, ["a", "b"]), r"3 nodes needs 3 labels; got 2"),
        (
            lambda: graph_of(TRIANGLE_WITH_LOOP, ["a", "b", "a"]),
            r"must be distinct; 'a' occurs twice \(rename",
        ),
        (lambda: graph_of(TRIANGLE_WITH_LOOP, [1, 1, 2]), r"must be distinct; 1 occurs twice"),
    ],
)
def test_contradictions_are_refused(build: Any, sentence: str) -> None:
    with pytest.raises(GraphError, match=sentence):
        build()


def test_labels_keep_steps_and_lose_numpy_types() -> None:
    assert tidy_labels(range(0, 6, 2), 3) == (0, 2, 4)
    assert tidy_labels(np.array([4, 5, 6]), 3) == range(4, 7)
    assert [type(label) for label in tidy_labels(np.array(["x", "y"]), 2)] == [str, str]


def test_the_callers_matrix_is_left_alone() -> None:
    given = scipy.sparse.csr_array(([1.0, 0.0, 1.0, 1.0], [1, 1, 1, 0], [0, 3, 4]), shape=(2, 2))
    result = canonical_matrix(given)
    assert given.nnz == 4
    assert result.toarray().tolist() == [[0, 2], [1, 0]]
    assert not is_symmetric(result)


def test_neighbours_leave_the_node_out() -> None:
    weights = metropolis_weights("star:n=4")
    assert weights.neighbours(0).tolist() == [1, 2, 3]
    assert weights.neighbours(2).tolist() == [0]


def test_exact_rows_of_given_floats_are_those_floats() -> None:
    weights = matrix_weights(np.array([[0.9, 0.1], [0.3, 0.7]]))
    assert weights.exact_row(0) == {0: Fraction(0.9), 1: Fraction(0.1)}
    lazy = lazy_weights(weights)
    assert lazy.exact_row(1) == {0: Fraction(0.15), 1: Fraction(0.85)}


def test_exact_rows_of_shares_are_their_quotients() -> None:
    weights = matrix_weights(np.array([[0, 1, 2], [4, 1, 2], [1, 1, 1]]), normalise=True)
    third = Fraction(1, 3)
    assert weights.exact_row(0) == {1: third, 2: 2 * third}
    assert lazy_weights(weights).exact_row(0) == {0: Fraction(1, 2), 1: third / 2, 2: third}


def test_exact_rows_survive_large_degrees() -> None:
    weights = metropolis_weights("star:n=300001")
    assert weights.exact_row(7) == {0: Fraction(1, 300_001), 7: Fraction(300_000, 300_001)}
    assert lazy_weights(weights).exact_row(7)[0] == Fraction(1, 600_002)


def test_the_hash_is_the_same_everywhere() -> None:
    assert metropolis_weights("ring:n=4").hash == (
        "dafe8b00cfab8dc9bb164c50650374eb8ae5b771988d5b4a0db7041087e06ce4"
    )


def test_the_hash_sees_weights_and_labels_but_not_how_they_are_held() -> None:
    ring = metropolis_weights("ring:n=4")
    listed = GossipWeights(matrix=ring.matrix.toarray(), labels=[0, 1, 2, 3], rule="x", symmetric=True)
    named = GossipWeights(matrix=ring.matrix, labels=["0", "1", "2", "3"], rule="x", symmetric=True)
    assert listed.hash == ring.hash
    assert named.hash != ring.hash
    assert lazy_weights(ring).hash != ring.hash


def test_weights_that_are_called_symmetric_are_looked_at() -> None:
    uneven = np.array([[0.5, 0.5], [0.25, 0.75]])
    with pytest.raises(GraphError, match=r"must equal their transpose to the last bit.*symmetric=False"):
        GossipWeights(matrix=uneven, labels=range(2), rule="x", symmetric=True)
    assert not GossipWeights(matrix=uneven, labels=range(2), rule="x", symmetric=False).symmetric
