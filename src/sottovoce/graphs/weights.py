# SPDX-License-Identifier: Apache-2.0
"""Gossip weights: rules that build them from a graph, and the check of weights that are given."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from sottovoce.errors import FileError, GraphError
from sottovoce.graphs.matrices import MATRIX_SUFFIXES, parse_matrix, read_matrix, square_matrix
from sottovoce.graphs.model import GossipWeights, Graph, is_symmetric, row_indices, tidy_labels
from sottovoce.graphs.rationals import Quotients, quotients, row_shares
from sottovoce.graphs.reading import as_graph
from sottovoce.graphs.validation import Sums, check_entries, check_weights, uneven_row
from sottovoce.spellings import name_and_rest

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from numpy.typing import NDArray

__all__ = [
    "AUTO",
    "WEIGHT_RULES",
    "as_weights",
    "graph_weights",
    "laplacian_weights",
    "lazy_weights",
    "matrix_weights",
    "maximum_degree_weights",
    "metropolis_weights",
    "parse_weights",
    "uniform_weights",
    "weights_by_rule",
]

AUTO = "auto"
_BUILDING = ("metropolis", "lazy", "maximum-degree", "laplacian:STEP", "uniform")
WEIGHT_RULES = (AUTO, *_BUILDING, "graph")
# Denominators up to here can be doubled without leaving int64.
_LARGEST_DOUBLED = 2**62 - 1


def metropolis_weights(graph: object) -> GossipWeights:
    """Metropolis weights: each edge weighs one over one plus the larger degree of its ends.

        W[i, j] = 1 / (1 + max(d_i, d_j)) for neighbours,   W[i, i] = 1 − Σ_{j ≠ i} W[i, j].

    Guarantee: symmetric and positive on the diagonal; `exact_row` is exact.

    Source: Xiao, Boyd and Kim, Distributed average consensus with least-mean-square deviation (2007).

    >>> metropolis_weights("path:n=3").matrix.toarray().round(3).tolist()
    [[0.667, 0.333, 0.0], [0.333, 0.333, 0.333], [0.0, 0.333, 0.667]]
    """
    value, rows, columns = _undirected(graph, "metropolis_weights")
    d = value.degrees
    return _from_rule(value, rows, columns, quotients(1, 1 + np.maximum(d[rows], d[columns])), "metropolis")


def maximum_degree_weights(graph: object) -> GossipWeights:
    """Maximum-degree weights: the same weight on every edge.

        W = I − L / (1 + d_max),   L the graph's Laplacian.

    Guarantee: symmetric and positive on the diagonal; `exact_row` is exact.

    Source: Xiao and Boyd, Fast linear iterations for distributed averaging (2004), Section 4.1.

    >>> maximum_degree_weights("star:n=4").exact_row(1)
    {0: Fraction(1, 4), 1: Fraction(3, 4)}
    """
    value, rows, columns = _undirected(graph, "maximum_degree_weights")
    everywhere = np.full(rows.size, 1 + int(value.degrees.max(initial=0)))
    return _from_rule(value, rows, columns, quotients(1, everywhere), "maximum-degree")


def laplacian_weights(graph: object, step: float | Fraction) -> GossipWeights:
    """Laplacian weights: a step of size α down the graph's Laplacian.

        W = I − α L,   0 < α ≤ 1 / d_max.

    `step` is α; a Fraction is kept exactly, a float counts as the dyadic number that it is.

    Guarantee: symmetric with no negative entry; `exact_row` is exact.

    Source: Xiao and Boyd, Fast linear iterations for distributed averaging (2004), Section 4.1.

    >>> laplacian_weights("ring:n=5", Fraction(1, 3)).exact_row(0)
    {0: Fraction(1, 3), 1: Fraction(1, 3), 4: Fraction(1, 3)}
    """
    value, rows, columns = _undirected(graph, "laplacian_weights")
    largest = int(value.degrees.max(initial=0))
    if not (np.isfinite(float(step)) and step > 0):
        raise GraphError(f"the step of laplacian_weights must be a finite number above 0; got {step!s}")
    alpha = Fraction(step)
    if alpha * largest > 1:
        raise GraphError(
            f"laplacian_weights must leave no negative weight on the diagonal; a step of {step!s} does at a "
            f"node of degree {largest} (the largest step allowed is 1/{largest})"
        )
    # Degree times α is rounded once, from the exact product, so that a diagonal of 0 is 0 and not 1e-17.
    occurring, which = np.unique(value.degrees, return_inverse=True)
    kept = np.array([float(1 - alpha * int(d)) for d in occurring])[which]
    one = quotients(alpha.numerator, alpha.denominator)
    everywhere = Quotients(*(np.repeat(part, rows.size) for part in one))
    return _from_rule(value, rows, columns, everywhere, f"laplacian:{step!s}", diagonal=kept)


def uniform_weights(graph: object) -> GossipWeights:
    """Uniform weights: each node takes the plain mean of its own value and all it receives.

        W[i, j] = 1 / (1 + d_i) for j = i and every j that i receives from.

    The graph may be directed; d_i counts the nodes that i receives from.

    Guarantee: rows sum to 1 and the diagonal is positive; symmetric only when the graph is regular.

    Source: Jadbabaie, Lin and Morse, Coordination of groups of mobile autonomous agents (2003).

    >>> uniform_weights("star:n=4").exact_row(1)
    {0: Fraction(1, 2), 1: Fraction(1, 2)}
    """
    value = as_graph(graph)
    rows, columns = _off_diagonal(value)
    return _from_rule(value, rows, columns, quotients(1, 1 + value.degrees[rows]), "uniform")


def lazy_weights(source: object) -> GossipWeights:
    """Lazy weights: each node keeps half of its own value.

        W ↦ (I + W) / 2.

    `source` is a GossipWeights, or a graph, whose Metropolis weights are taken first.

    Guarantee: no eigenvalue below 0 when W is symmetric; never periodic.

    Source: Levin, Peres and Wilmer, Markov Chains and Mixing Times, Section 1.3.

    >>> lazy_weights("path:n=3").exact_row(0)
    {0: Fraction(5, 6), 1: Fraction(1, 6)}
    """
    weights = source if isinstance(source, GossipWeights) else metropolis_weights(source)
    return GossipWeights(
        matrix=(scipy.sparse.eye_array(weights.n, format="csr") + weights.matrix) * 0.5,
        labels=weights.labels,
        rule=f"lazy {weights.rule}",
        symmetric=weights.symmetric,
        quotients=_halves(weights),
        origin=f"lazy {weights.origin}",
    )


def _halves(weights: GossipWeights) -> Quotients | None:
    """The quotients of lazy weights; None where they are the floats themselves."""
    if weights.quotients is None:
        return None
    numerators, denominators = weights.quotients
    if denominators.max(initial=0) > _LARGEST_DOUBLED:
        denominators = denominators.astype(object)
    return quotients(numerators, 2 * denominators)


def graph_weights(graph: object, normalise: bool = False) -> GossipWeights:
    """The weights of a weighted graph taken as the gossip matrix itself.

    With `normalise` each row is divided by its sum. Self-loops are the weights nodes give themselves.
    """
    value = as_graph(graph)
    return _given(value.adjacency, value.labels, "graph", normalise, value.name)


def matrix_weights(
    matrix: object, labels: Iterable[Hashable] | None = None, normalise: bool = False
) -> GossipWeights:
    """A gossip matrix given as an array, a sparse matrix or the path of a .npy, .npz or .mtx file.

    Row i receives from column j. With `normalise` each row is divided by its sum.

    >>> matrix_weights([[3, 1], [1, 3]], labels=["anna", "ben"], normalise=True).exact_row(0)
    {0: Fraction(3, 4), 1: Fraction(1, 4)}
    """
    if isinstance(matrix, str | os.PathLike):
        loaded, name = read_matrix(matrix), Path(matrix).name
    else:
        loaded, name = square_matrix(matrix), ""
    return _given(loaded, tidy_labels(labels, loaded.shape[0]), "matrix", normalise, name)


def as_weights(source: object) -> GossipWeights:
    """`source` as gossip weights: GossipWeights as they are, a matrix after `check_weights`.

    A graph is refused, because the choice of a rule belongs to the caller.
    """
    if isinstance(source, GossipWeights):
        return source
    if isinstance(source, np.ndarray) or scipy.sparse.issparse(source):
        return matrix_weights(source)
    found = f"the string {source!r}" if isinstance(source, str) else f"a {type(source).__name__}"
    raise GraphError(
        f"gossip weights must be a GossipWeights or a matrix; got {found} "
        "(choose a rule, as in metropolis_weights(graph))"
    )


def weights_by_rule(graph: object, rule: str = AUTO, sums: Sums = "rows") -> GossipWeights:
    """Gossip weights on `graph` by the name of a rule, or from the path of a matrix file.

    Rules: auto, metropolis, lazy, maximum-degree, laplacian:STEP (as in laplacian:1/3), uniform, graph.

    auto takes the weights that the graph carries, if it carries some, and Metropolis weights otherwise. Weights whose
    rows do not sum to 1 are refused: what else they mean is for the caller to say. Entries that are all 1 only say
    where edges are. Nothing is lost by that: a matrix of zeros and ones whose rows sum to 1 sends each node the value
    of one other, so it swaps values for ever or falls apart, and `check_weights` would refuse it.

    Where nodes divide what they send, as in push-sum, it is columns whose `sums` are 1. Then uniform means that a node
    gives equal parts to itself and to all who receive from it, and auto takes that for a directed graph that carries
    no weights. The other rules have columns that sum to 1 as rows do.

    >>> weights_by_rule("ring:n=4", "laplacian:1/4").exact_row(0)
    {0: Fraction(1, 2), 1: Fraction(1, 4), 3: Fraction(1, 4)}
    >>> weights_by_rule(np.array([[0.5, 0.5], [0.25, 0.75]])).origin
    'as given in a matrix'
    >>> weights_by_rule("ring:n=4").origin
    'metropolis rule on the graph of ring:n=4'
    >>> weights_by_rule("star:n=3", "uniform", "columns").matrix.toarray().round(3).tolist()
    [[0.333, 0.5, 0.5], [0.333, 0.5, 0.0], [0.333, 0.0, 0.5]]
    """
    if sums == "columns":
        value = as_graph(graph)
        carried = _carries_weights(value)
        if rule == "graph" or (rule == AUTO and carried):
            return _given(value.adjacency, value.labels, "graph", False, value.name, sums)
        if rule == "uniform" or (rule == AUTO and value.directed):
            return _divided(value)
    if rule == AUTO:
        value = as_graph(graph)
        return _own_weights(value) if _carries_weights(value) else metropolis_weights(value)
    plain = {
        "metropolis": metropolis_weights,
        "lazy": lazy_weights,
        "maximum-degree": maximum_degree_weights,
        "uniform": uniform_weights,
        "graph": graph_weights,
    }
    if rule in plain:
        return plain[rule](graph)
    name, step = name_and_rest(rule)
    if name == "laplacian":
        return laplacian_weights(graph, _step(step))
    if not rule.lower().endswith(MATRIX_SUFFIXES):
        raise GraphError(
            f"the rule of the weights must be one of {', '.join(WEIGHT_RULES)}, or a matrix file "
            f"({', '.join(MATRIX_SUFFIXES)}); got {rule!r}"
        )
    return _of_graph(as_graph(graph), read_matrix(rule), Path(rule).name, sums)


def parse_weights(graph: object, text: str, name: str, sums: Sums = "rows") -> GossipWeights:
    """The gossip weights of a graph in the text of a Matrix Market file called `name`; nothing is opened."""
    return _of_graph(as_graph(graph), parse_matrix(text, name), name, sums)


def _divided(graph: Graph) -> GossipWeights:
    """Each node gives equal parts to itself and to all who receive from it: P[i, j] = 1 / (1 + receivers of j)."""
    rows, columns = _off_diagonal(graph)
    parts = 1 / (1 + np.bincount(columns, minlength=graph.n))
    off = scipy.sparse.csr_array((parts[columns], (rows, columns)), shape=(graph.n, graph.n))
    matrix = (off + scipy.sparse.dia_array((parts[np.newaxis], [0]), shape=(graph.n, graph.n))).tocsr()
    check_weights(matrix, graph.labels, "columns", name=graph.name)
    return GossipWeights(
        matrix=matrix,
        labels=graph.labels,
        rule="uniform",
        symmetric=is_symmetric(matrix),
        origin=_origin("uniform columns", graph),
    )


def _of_graph(graph: Graph, matrix: Any, name: str, sums: Sums) -> GossipWeights:  # noqa: ANN401
    """A matrix as the weights of a graph with as many nodes."""
    if matrix.shape[0] != graph.n:
        raise FileError(
            f"{name}: a weight matrix must have one row per node; it has {matrix.shape[0]} rows and the graph "
            f"{graph.n} nodes (take the matrix of this graph)"
        )
    return _given(matrix, graph.labels, "matrix", False, name, sums)


def _carries_weights(graph: Graph) -> bool:
    """Whether the entries of a graph say more than where its edges are."""
    return graph.weighted and bool((graph.adjacency.data != 1).any())


def _own_weights(graph: Graph) -> GossipWeights:
    """The weights of a graph as its gossip matrix, or an error that names the rules to choose from."""
    uneven = uneven_row(graph.adjacency)
    if uneven is None:
        return graph_weights(graph)
    row, total = uneven
    label = graph.labels[row]
    missing = (
        ""
        if total > 1 or graph.adjacency[row, row]
        else (f"if node {label!r} keeps the rest, say so by an edge from it to itself; ")
    )
    raise GraphError(
        f"{graph.name or 'the graph'}: the weights that a graph carries are its gossip matrix if every row sums to "
        f"1; row {label!r} sums to {total:.12g} ({missing}scale the rows, or name a rule that builds weights from the "
        f"edges alone: {', '.join(_BUILDING)})"
    )


def _origin(rule: str, graph: Graph) -> str:
    """In words: the rule, the graph that it was applied to, and whether weights of its own were left out."""
    where = f" of {graph.name}" if graph.name else ""
    aside = ", whose own weights are left out" if _carries_weights(graph) else ""
    if graph.unread:
        aside = (
            f", where {', '.join(graph.unread[:3])} at the edges is not read (call it weight if it is meant)"
        )
    return f"{rule} rule on the graph{where}{aside}"


def _step(text: str) -> Fraction:
    """The step of a laplacian:STEP rule, kept as the decimal or quotient that was written."""
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise GraphError(
            f"the rule laplacian:STEP needs a number as its step; got {text!r} (write laplacian:0.1 or "
            "laplacian:1/3)"
        ) from None


def _undirected(source: object, rule: str) -> tuple[Graph, NDArray[np.int64], NDArray[np.int64]]:
    """The graph and the ends of its edges in both directions; a directed graph is refused."""
    graph = as_graph(source)
    if graph.directed:
        raise GraphError(
            f"{rule} needs an undirected graph; this one is directed (use uniform_weights(graph), or make it "
            "undirected)"
        )
    return graph, *_off_diagonal(graph)


def _off_diagonal(graph: Graph) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row and column of every adjacency entry that is no self-loop."""
    rows, columns = row_indices(graph.adjacency), graph.adjacency.indices
    kept = rows != columns
    return rows[kept], columns[kept]


def _from_rule(
    graph: Graph,
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    exact: Quotients,
    rule: str,
    *,
    diagonal: NDArray[np.float64] | None = None,
) -> GossipWeights:
    """Checked weights with the given entries off the diagonal and the rest of each row on it."""
    n, data = graph.n, exact.rounded()
    kept = 1.0 - np.bincount(rows, weights=data, minlength=n) if diagonal is None else diagonal
    off = scipy.sparse.csr_array((data, columns, np.searchsorted(rows, np.arange(n + 1))), shape=(n, n))
    matrix = off + scipy.sparse.dia_array((kept[np.newaxis], [0]), shape=(n, n)).tocsr()
    matrix.eliminate_zeros()
    check_weights(matrix, graph.labels, name=graph.name)
    symmetric = rule != "uniform" or is_symmetric(matrix)
    return GossipWeights(
        matrix=matrix,
        labels=graph.labels,
        rule=rule,
        symmetric=symmetric,
        quotients=exact,
        origin=_origin(rule, graph),
    )


def _given(
    matrix: Any,  # noqa: ANN401
    labels: Sequence[Hashable],
    rule: str,
    normalise: bool,
    name: str,
    sums: Sums = "rows",
) -> GossipWeights:
    """Checked weights from a canonical matrix, divided by its row sums when asked; `name` is where it comes from."""
    exact = None
    if normalise:
        check_entries(matrix, labels, "gossip weights")
        rows = row_indices(matrix)
        totals = np.bincount(rows, weights=matrix.data, minlength=matrix.shape[0])
        if not totals.all():
            empty = labels[int(np.argmin(totals))]
            raise GraphError(
                f"rows must hold a weight above 0 to be normalised; row {empty!r} sums to 0 (give the node "
                "an edge or a weight of its own)"
            )
        shares = row_shares(matrix.data, rows)
        matrix = matrix.copy()
        matrix.data = shares.rounded()
        off = rows != matrix.indices
        exact = Quotients(*(part[off] for part in shares))
    check_weights(matrix, labels, sums, name=name)
    return GossipWeights(
        matrix=matrix,
        labels=labels,
        rule=rule,
        symmetric=is_symmetric(matrix),
        quotients=exact,
        origin="as given" + (f" in {name}" if name else "") + (", rows scaled to 1" if normalise else ""),
    )
