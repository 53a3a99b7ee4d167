"""check_weights: what is refused, with its sentence, and what is let through."""

from typing import Any

import numpy as np
import pytest
import scipy

from sottovoce.errors import GraphError
from sottovoce.graphs import check_weights, generate_graph
from sottovoce.graphs.validation import matrix_period

HALF = 0.5


def cycle(n: int) -> Any:
    return np.roll(np.eye(n), 1, axis=0)


REFUSED = [
    (np.zeros((0, 0)), r"gossip needs at least 2 nodes; got an empty graph \(add nodes and edges\)"),
    (np.ones((1, 1)), r"gossip needs at least 2 nodes; got a graph of one node"),
    (
        [[HALF, HALF], [np.nan, 1]],
        r"gossip weights must be finite numbers; row 1, column 0 is nan \(replace it by a number, or by 0",
    ),
    ([[HALF, HALF], [np.inf, 1]], r"gossip weights must be finite numbers; row 1, column 0 is inf"),
    (
        [[1.5, -HALF], [HALF, HALF]],
        r"gossip weights must be at least 0; row 0, column 1 is -0.5 \(take absolute values, or drop",
    ),
    (
        [[HALF, HALF, 0, 0], [HALF, 0, HALF, 0], [0, HALF, 0, HALF], [0, 0, HALF, 0.47]],
        r"^gossip weights must have rows that sum to 1; row 3 sums to 0.97 \(build them with "
        r"metropolis_weights\(graph\), or pass normalise=True\)$",
    ),
    (
        scipy.linalg.block_diag(np.full((3, 3), 1 / 3), np.full((2, 2), HALF)),
        r"every node must be able to reach every other; the graph falls into 2 components, the largest "
        r"with 3 of 5 nodes; 3 is in another than 0 \(join the components or keep the largest; for a random graph take "
        r"another seed or more edges\)",
    ),
    (
        [[1, 0, 0], [HALF, HALF, 0], [0, HALF, HALF]],
        r"falls into 3 strongly connected components, the largest with 1 of 3 nodes; 0 is in another than 1 \(add ",
    ),
    (
        cycle(2),
        r"gossip weights must not be periodic; these have period 2, so values swap for ever and never settle "
        r"\(let nodes keep a part of their own value: lazy_weights\)",
    ),
    (cycle(5), r"these have period 5"),
]


@pytest.mark.parametrize(("matrix", "sentence"), REFUSED)
def test_what_is_refused(matrix: Any, sentence: str) -> None:
    sparse = scipy.sparse.csr_array(np.array(matrix, dtype=float))
    with pytest.raises(GraphError, match=sentence):
        check_weights(sparse, range(sparse.shape[0]))


def test_rows_are_called_by_their_labels() -> None:
    with pytest.raises(GraphError, match=r"row 'ben' sums to 0\.9 "):
        check_weights(scipy.sparse.csr_array([[HALF, HALF], [HALF, 0.4]]), ["anna", "ben"])


@pytest.mark.parametrize(
    "matrix",
    [
        [[0.5, 0.5], [1, 0]],
        [[0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]],
        [[0.5 + 5e-10, 0.5], [0.5, 0.5]],
        0.5 * (np.eye(7) + cycle(7)),
    ],
)
def test_what_is_accepted(matrix: Any) -> None:
    sparse = scipy.sparse.csr_array(np.array(matrix, dtype=float))
    check_weights(sparse, range(sparse.shape[0]))


@pytest.mark.parametrize(
    ("spec", "period"),
    [
        ("ring:n=8", 2),
        ("ring:n=9", 1),
        ("grid:rows=4,cols=5", 2),
        ("complete:n=4", 1),
        ("hypercube:dim=4", 2),
    ],
)
def test_the_period_of_a_graph_without_self_weights(spec: str, period: int) -> None:
    assert matrix_period(generate_graph(spec).adjacency) == period


def test_the_period_of_joined_directed_cycles_is_their_common_divisor() -> None:
    matrix = np.zeros((9, 9))
    for nodes in ([0, 1, 2, 3], [0, 4, 5, 6, 7, 8]):
        matrix[np.roll(nodes, -1), nodes] = 1
    assert matrix_period(scipy.sparse.csr_array(matrix)) == 2
