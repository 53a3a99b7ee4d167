# SPDX-License-Identifier: Apache-2.0
"""Families of graphs without chance: lattices, stars, complete graphs, blow-ups, and three bundled real graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy

from sottovoce.errors import GraphError
from sottovoce.graphs.model import Graph

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "EDGE_LIMIT",
    "check_size",
    "cliques",
    "complete",
    "exponential",
    "florentine",
    "from_pairs",
    "grid",
    "hypercube",
    "karate",
    "les_miserables",
    "path",
    "ring",
    "star",
    "torus",
]

EDGE_LIMIT = 200_000_000


def from_pairs(n: int, first: NDArray[np.int64], second: NDArray[np.int64]) -> Graph:
    """The undirected graph on 0 … n − 1 with the given edges; pairs given twice count once."""
    rows, columns = np.concatenate([first, second]), np.concatenate([second, first])
    matrix = scipy.sparse.coo_array((np.ones(rows.size), (rows, columns)), shape=(n, n)).tocsr()
    matrix.data[:] = 1.0
    return Graph(adjacency=matrix, labels=range(n), directed=False, weighted=False)


def check_size(family: str, edges: float) -> None:
    """Refuse a graph that would not fit into memory."""
    if edges > EDGE_LIMIT:
        raise GraphError(
            f"{family}: a generated graph has at most {EDGE_LIMIT:,} edges; this one would have about "
            f"{edges:.3g} (take a smaller or sparser graph)"
        )


def ring(n: int) -> Graph:
    """A cycle; for n = 2 a single edge."""
    nodes = np.arange(n)
    return from_pairs(n, nodes, (nodes + 1) % n)


def path(n: int) -> Graph:
    """Nodes in a line."""
    nodes = np.arange(n - 1)
    return from_pairs(n, nodes, nodes + 1)


def star(n: int) -> Graph:
    """Node 0 joined to all n − 1 others."""
    leaves = np.arange(1, n)
    return from_pairs(n, np.zeros_like(leaves), leaves)


def complete(n: int) -> Graph:
    """Every node joined to every other."""
    check_size("complete", n * (n - 1) / 2)
    first, second = np.triu_indices(n, k=1)
    return from_pairs(n, first, second)


def grid(rows: int, cols: int) -> Graph:
    """A rectangle of nodes joined to their sides; row r, column c is node r · cols + c."""
    at = np.arange(rows * cols).reshape(rows, cols)
    first = np.concatenate([at[:, :-1].ravel(), at[:-1].ravel()])
    second = np.concatenate([at[:, 1:].ravel(), at[1:].ravel()])
    return from_pairs(rows * cols, first, second)


def torus(rows: int, cols: int) -> Graph:
    """A grid whose opposite borders are joined; both sides count at least 3, else edges would double."""
    at = np.arange(rows * cols).reshape(rows, cols)
    second = np.concatenate([np.roll(at, -1, axis=1).ravel(), np.roll(at, -1, axis=0).ravel()])
    return from_pairs(rows * cols, np.tile(at.ravel(), 2), second)


def hypercube(dim: int) -> Graph:
    """2^dim nodes, joined when their numbers differ in one bit."""
    n = 1 << dim
    check_size("hypercube", n * dim / 2)
    nodes = np.arange(n)
    second = np.concatenate([nodes ^ (1 << bit) for bit in range(dim)])
    return from_pairs(n, np.tile(nodes, dim), second)


def exponential(n: int) -> Graph:
    """Node i joined to i ± 2^k modulo n, for every 2^k below n."""
    steps = [1 << k for k in range((n - 1).bit_length())]
    check_size("exponential", n * len(steps))
    nodes = np.arange(n)
    second = np.concatenate([(nodes + step) % n for step in steps])
    return from_pairs(n, np.tile(nodes, len(steps)), second)


def cliques(base: Graph, size: int) -> Graph:
    """Every node of `base` as a clique of `size` nodes, neighbouring cliques fully joined: the blow-up base[K_size].

    Node v of the base, in its order, becomes the nodes v · size … v · size + size − 1. They are twins: all of them hear
    the same nodes and each other.

    >>> cliques(path(3), 2).degrees.tolist()
    [3, 3, 5, 5, 3, 3]
    """
    check_size("cliques", base.edges * size**2 + base.n * size * (size - 1) / 2)
    closed = scipy.sparse.kron(
        base.adjacency + scipy.sparse.eye_array(base.n), np.ones((size, size)), format="csr"
    )
    return Graph(
        adjacency=closed - scipy.sparse.eye_array(base.n * size),
        labels=range(base.n * size),
        directed=False,
        weighted=False,
    )


def karate() -> Graph:
    """Zachary's karate club: 34 members, 78 ties."""
    return _bundled("karate_club_graph")


def les_miserables() -> Graph:
    """Characters of Les Misérables that share a chapter: 77 nodes, 254 ties."""
    return _bundled("les_miserables_graph")


def florentine() -> Graph:
    """Marriages among 15 Florentine families: 20 ties."""
    return _bundled("florentine_families_graph")


def _bundled(name: str) -> Graph:
    """A graph that networkx carries, with its names and without its weights."""
    import networkx as nx

    source = getattr(nx, name)()
    labels = list(source.nodes)
    matrix = nx.to_scipy_sparse_array(source, nodelist=labels, weight=None, format="csr")
    return Graph(adjacency=matrix, labels=labels, directed=False, weighted=False)
