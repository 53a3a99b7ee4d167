"""Weight rules: their defining identities, their exact rows and what they refuse."""

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy

from sottovoce.errors import FileError, GraphError
from sottovoce.graphs import (
    as_graph,
    as_weights,
    graph_weights,
    laplacian_weights,
    lazy_weights,
    matrix_weights,
    maximum_degree_weights,
    metropolis_weights,
    spectrum,
    uniform_weights,
    weights_by_rule,
)

GRAPHS = ["path:n=2", "star:n=6", "ring:n=7", "karate", "florentine", "erdos-renyi:n=40,p=0.2,seed=2"]
RULES = {
    "metropolis": metropolis_weights,
    "lazy metropolis": lazy_weights,
    "maximum-degree": maximum_degree_weights,
    "laplacian:1/60": lambda graph: laplacian_weights(graph, Fraction(1, 60)),
    "laplacian:0.01": lambda graph: laplacian_weights(graph, 0.01),
    "uniform": uniform_weights,
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("spec", GRAPHS)
def test_every_rule_gives_stochastic_weights_on_the_edges(spec: str, rule: str) -> None:
    graph = as_graph(spec)
    weights = RULES[rule](graph)
    W = weights.matrix.toarray()
    assert weights.rule == rule
    assert np.abs(W.sum(axis=1) - 1).max() <= 1e-15
    assert (W >= 0).all()
    assert weights.symmetric == np.array_equal(W, W.T)
    assert weights.symmetric or rule == "uniform"
    assert np.array_equal(W - np.diag(np.diag(W)) > 0, graph.adjacency.toarray() > 0)
    assert weights.labels == graph.labels


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("spec", GRAPHS)
def test_exact_rows_sum_to_one_and_agree_with_the_matrix(spec: str, rule: str) -> None:
    weights = RULES[rule](spec)
    W = weights.matrix.toarray()
    for i in range(weights.n):
        row = weights.exact_row(i)
        assert sum(row.values()) == 1
        dense = np.zeros(weights.n)
        dense[list(row)] = [float(w) for w in row.values()]
        assert np.abs(dense - W[i]).max() <= 1e-15


def test_the_formulas() -> None:
    graph = nx.karate_club_graph()
    d = np.array([graph.degree[k] for k in graph])
    A = nx.to_numpy_array(graph, weight=None)
    L = np.diag(d) - A
    edges = A > 0
    W = metropolis_weights("karate").matrix.toarray()
    assert np.array_equal(W[edges], (1 / (1 + np.maximum.outer(d, d)))[edges])
    assert np.allclose(maximum_degree_weights("karate").matrix.toarray(), np.eye(34) - L / (1 + d.max()))
    assert np.allclose(laplacian_weights("karate", 0.02).matrix.toarray(), np.eye(34) - 0.02 * L)
    assert np.allclose(lazy_weights("karate").matrix.toarray(), (np.eye(34) + W) / 2)
    assert np.allclose(uniform_weights("karate").matrix.toarray(), (np.eye(34) + A) / (1 + d)[:, None])


def test_equal_rows_of_the_complete_graph_are_recognised() -> None:
    weights = metropolis_weights("complete:n=7")
    assert weights.exact_row(0) == weights.exact_row(6) == {j: Fraction(1, 7) for j in range(7)}


def test_self_loops_and_edge_weights_do_not_change_a_rule() -> None:
    plain = nx.path_graph(4)
    loud = nx.path_graph(4)
    loud.add_edge(1, 1)
    nx.set_edge_attributes(loud, 3.5, "weight")
    for rule in RULES.values():
        assert np.array_equal(rule(plain).matrix.toarray(), rule(loud).matrix.toarray())


def test_the_largest_laplacian_step_leaves_an_exact_zero() -> None:
    weights = laplacian_weights("complete:n=4", Fraction(1, 3))
    assert weights.matrix.diagonal().tolist() == [0, 0, 0, 0]
    assert 0 not in weights.exact_row(0)


def test_lazy_weights_have_no_negative_eigenvalue_and_cure_periods() -> None:
    ring = nx.to_numpy_array(nx.cycle_graph(6)) / 2
    with pytest.raises(GraphError, match="period 2"):
        matrix_weights(ring)
    assert spectrum(lazy_weights("star:n=9")).smallest >= 0
    assert lazy_weights(lazy_weights("ring:n=5")).exact_row(0)[1] == Fraction(1, 12)


def test_uniform_weights_average_what_a_node_receives() -> None:
    directed = nx.DiGraph([("a", "b"), ("b", "c"), ("c", "a"), ("a", "c")])
    weights = uniform_weights(directed)
    third = Fraction(1, 3)
    assert weights.exact_row(weights.index("c")) == {0: third, 1: third, 2: third}
    assert weights.exact_row(weights.index("b")) == {0: Fraction(1, 2), 1: Fraction(1, 2)}
    assert not weights.symmetric


def test_graph_weights_take_the_graphs_numbers() -> None:
    graph = nx.Graph()
    graph.add_weighted_edges_from([("a", "b", 0.25), ("a", "a", 0.75), ("b", "b", 0.75)])
    weights = graph_weights(graph)
    assert weights.matrix.toarray().tolist() == [[0.75, 0.25], [0.25, 0.75]]
    assert (weights.rule, weights.symmetric, weights.labels) == ("graph", True, ("a", "b"))
    scaled = graph_weights(as_graph(np.array([[3.0, 1], [1, 2]])), normalise=True)
    assert scaled.exact_row(1) == {0: Fraction(1, 3), 1: Fraction(2, 3)}


def test_matrix_weights_from_every_kind_of_source(tmp_path: Path) -> None:
    W = np.array([[0.5, 0.5], [0.25, 0.75]])
    np.save(tmp_path / "w.npy", W)
    for source in (W, scipy.sparse.coo_array(W), W.tolist(), tmp_path / "w.npy", str(tmp_path / "w.npy")):
        weights = matrix_weights(source, labels=["x", "y"])
        assert np.array_equal(weights.matrix.toarray(), W)
        assert (weights.labels, weights.rule, weights.symmetric) == (("x", "y"), "matrix", False)


def test_changing_the_callers_matrix_later_changes_nothing() -> None:
    W = scipy.sparse.csr_array(np.full((2, 2), 0.5))
    weights = matrix_weights(W)
    W.data[:] = 7
    assert weights.matrix.toarray().tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_as_weights_keeps_weights_and_checks_matrices() -> None:
    weights = metropolis_weights("ring:n=3")
    assert as_weights(weights) is weights
    assert as_weights(np.full((2, 2), 0.5)).rule == "matrix"
    assert as_weights(scipy.sparse.csr_array(np.full((2, 2), 0.5))).n == 2


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        ("metropolis", "metropolis"),
        ("lazy", "lazy metropolis"),
        ("maximum-degree", "maximum-degree"),
        ("laplacian:0.1", "laplacian:1/10"),
        ("laplacian:1/4", "laplacian:1/4"),
        ("uniform", "uniform"),
    ],
)
def test_rules_by_name(rule: str, name: str) -> None:
    assert weights_by_rule("ring:n=6", rule).rule == name


def test_rules_by_name_reach_weighted_graphs_and_files(tmp_path: Path) -> None:
    W = metropolis_weights("florentine").matrix
    scipy.sparse.save_npz(tmp_path / "w.npz", W)
    weights = weights_by_rule("florentine", str(tmp_path / "w.npz"))
    assert weights.labels == as_graph("florentine").labels
    assert np.array_equal(weights.matrix.toarray(), W.toarray())
    assert weights_by_rule(as_graph(W), "graph").rule == "graph"
    with pytest.raises(
        FileError, match=r"^w.npz: .* it has 15 rows and the graph 6 nodes \(take the matrix of"
    ):
        weights_by_rule("ring:n=6", str(tmp_path / "w.npz"))


DIRECTED = nx.DiGraph([(0, 1), (1, 2), (2, 0)])


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (
            lambda: metropolis_weights(DIRECTED),
            r"metropolis_weights needs an undirected graph; this one is directed "
            r"\(use uniform_weights\(graph\), or",
        ),
        (lambda: maximum_degree_weights(DIRECTED), r"maximum_degree_weights needs an undirected graph"),
        (lambda: laplacian_weights(DIRECTED, 0.1), r"laplacian_weights needs an undirected graph"),
        (
            lambda: laplacian_weights("ring:n=5", 0.6),
            r"no negative weight on the diagonal; a step of 0.6 does at a node of degree 2 "
            r"\(the largest step allowed is 1/2\)",
        ),
        (
            lambda: laplacian_weights("ring:n=5", 0),
            r"step of laplacian_weights must be a finite number above 0",
        ),
        (lambda: laplacian_weights("ring:n=5", np.nan), r"must be a finite number above 0; got nan"),
        (lambda: laplacian_weights("ring:n=4", 0.5), r"period 2"),
        (
            lambda: metropolis_weights("erdos-renyi:n=50,p=0.01,seed=1"),
            r"falls into \d+ components.*another seed",
        ),
        (lambda: metropolis_weights(nx.empty_graph(1)), r"got a graph of one node"),
        (lambda: metropolis_weights(np.zeros((0, 0))), r"got an empty graph"),
        (lambda: graph_weights("ring:n=4"), r"rows that sum to 1; row 0 sums to 2 .*pass normalise=True"),
        (
            lambda: matrix_weights([[0.5, 0.5], [0, 0]], labels="ab", normalise=True),
            r"row 'b' sums to 0 \(give the node an edge or a weight of its own\)",
        ),
        (lambda: matrix_weights([[2, -1], [0.5, 0.5]]), r"must be at least 0; row 0, column 1 is -1"),
        (
            lambda: matrix_weights([[np.nan, 1], [0.5, 0.5]]),
            r"must be finite numbers; row 0, column 0 is nan",
        ),
        (lambda: matrix_weights([[0.5, 0.5]]), r"must be square; got 1 x 2"),
        (lambda: matrix_weights([0.5, 0.5]), r"must be square; got an array of 1 dimensions"),
        (lambda: matrix_weights([["a", "b"]]), r"must hold real numbers; got entries of type <U1"),
        (
            lambda: as_weights("karate"),
            r"must be a GossipWeights or a matrix; got the string 'karate' \(choose a rule, as in "
            r"metropolis_weights\(graph\)\)",
        ),
        (lambda: as_weights(DIRECTED), r"got a DiGraph \(choose a rule"),
        (lambda: as_weights(as_graph("ring:n=3")), r"got a Graph \(choose a rule"),
        (
            lambda: weights_by_rule("ring:n=5", "metroplis"),
            r"must be one of auto, metropolis, lazy, .* or a matrix file \(.npy, .npz, .mtx, .mtx.gz\); got 'metro",
        ),
        (
            lambda: weights_by_rule("ring:n=5", "laplacian"),
            r"laplacian:STEP needs a number as its step; got '' \(write laplacian:0.1 or laplacian:1/3\)",
        ),
        (lambda: weights_by_rule("ring:n=5", "laplacian:1/0"), r"needs a number as its step; got '1/0'"),
    ],
)
def test_what_is_refused(build: Any, sentence: str) -> None:
    with pytest.raises(GraphError, match=re.compile(sentence)):
        build()
