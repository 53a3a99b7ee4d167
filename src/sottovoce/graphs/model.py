# SPDX-License-Identifier: Apache-2.0
"""The values of this room: a graph, and gossip weights on it.

One convention holds everywhere: entry [i, j] is nonzero when node i *receives* from node j. An edge
(u, v) of an edge list or of a directed networkx graph means that u sends to v, so it fills entry [v, u].
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from sottovoce.errors import GraphError
from sottovoce.graphs.rationals import sums_to_one
from sottovoce.rounding import roundings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from sottovoce.graphs.rationals import Quotients

__all__ = ["GossipWeights", "Graph", "canonical_matrix", "is_symmetric", "row_indices", "tidy_labels"]

_SEARCHED_LABELS = 20_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Graph:
    """A graph with named nodes; `adjacency[i, j]` is nonzero when node i receives from node j.

    `labels` name the nodes in index order; `weighted` says whether the entries mean more than presence, `name` what the
    graph was read from, and `unread` which numbers at its edges, not called weights, were left there. `positions` are
    the places of the nodes, such as longitude and latitude, where they are known.

    >>> import scipy
    >>> graph = Graph(adjacency=scipy.sparse.csr_array([[0, 1], [1, 0]]), labels=["anna", "ben"],
    ...               directed=False, weighted=False)
    >>> graph.n, graph.edges, graph.index("ben")
    (2, 1, 1)
    """

    adjacency: Any
    labels: Sequence[Hashable]
    directed: bool
    weighted: bool
    name: str = ""
    unread: tuple[str, ...] = ()
    positions: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        """Bring matrix and labels into canonical form, and refuse what contradicts itself."""
        adjacency = canonical_matrix(self.adjacency)
        object.__setattr__(self, "adjacency", adjacency)
        object.__setattr__(self, "labels", tidy_labels(self.labels, adjacency.shape[0]))
        if not self.directed and not is_symmetric(adjacency):
            raise GraphError(
                "an undirected graph must have a symmetric adjacency matrix; this one is not symmetric "
                "(pass directed=True)"
            )

    @property
    def n(self) -> int:
        """The number of nodes."""
        return int(self.adjacency.shape[0])

    @cached_property
    def edges(self) -> int:
        """The number of edges: an undirected edge counts once, a self-loop not at all."""
        total = int(self.degrees.sum())
        return total if self.directed else total // 2

    @cached_property
    def degrees(self) -> NDArray[np.int64]:
        """The number of other nodes that each node receives from."""
        rows = row_indices(self.adjacency)
        return np.bincount(rows[rows != self.adjacency.indices], minlength=self.n).astype(np.int64)

    def index(self, label: Hashable) -> int:
        """The position of a node; a string that spells an integer label is understood."""
        return _position(label, self.labels, None if isinstance(self.labels, range) else self._positions)

    @cached_property
    def _positions(self) -> dict[Hashable, int]:
        return {label: k for k, label in enumerate(self.labels)}


@dataclass(frozen=True, kw_only=True, eq=False)
class GossipWeights:
    """A gossip matrix W of exact rationals: row i holds the weights with which node i averages what it receives.

    With `quotients` p/q, one for each entry off the diagonal in storage order, W is p/q there and what is left to 1 on
    the diagonal, and `matrix` is W rounded to floats. Without them W is `matrix`: every float is the rational it is.
    `rule` says how W was built, `origin` the same in words with what it was built from, and `symmetric` that `matrix`
    equals its transpose to the last bit.
    """

    matrix: Any
    labels: Sequence[Hashable]
    rule: str
    symmetric: bool
    quotients: Quotients | None = None
    origin: str = "as given"

    def __post_init__(self) -> None:
        """Bring matrix and labels into canonical form, and refuse what contradicts itself."""
        object.__setattr__(self, "matrix", canonical_matrix(self.matrix))
        object.__setattr__(self, "labels", tidy_labels(self.labels, self.matrix.shape[0]))
        if self.symmetric and not is_symmetric(self.matrix):
            raise GraphError(
                "weights that are said to be symmetric must equal their transpose to the last bit; these do not "
                "(pass symmetric=False)"
            )
        if self.quotients is not None and not self._rounds_to_matrix(self.quotients):
            raise GraphError(
                "the quotients of gossip weights must round to the entries of the matrix, and leave its diagonal "
                "to 1; these do not (build both from the same numbers)"
            )

    def _rounds_to_matrix(self, quotients: Quotients) -> bool:
        """Whether the matrix is what the quotients round to: to the last bit, and to rounding on the diagonal."""
        off = self._off_diagonal
        if not quotients.numerators.size == quotients.denominators.size == np.count_nonzero(off):
            return False
        if not np.array_equal(quotients.rounded(), self.matrix.data[off]):
            return False
        sums = np.bincount(row_indices(self.matrix), weights=self.matrix.data, minlength=self.n)
        return bool((np.abs(sums - 1) <= roundings(4 * (np.diff(self.matrix.indptr) + 2))).all())

    @cached_property
    def _off_diagonal(self) -> NDArray[np.bool_]:
        return np.asarray(row_indices(self.matrix) != self.matrix.indices)

    @property
    def n(self) -> int:
        """The number of nodes."""
        return int(self.matrix.shape[0])

    def index(self, label: Hashable) -> int:
        """The position of a node; a string that spells an integer label is understood."""
        return _position(label, self.labels, None if isinstance(self.labels, range) else self._positions)

    def written(self, name: int | str) -> Hashable:
        """The label of the node that a user or a file calls `name`: itself, or one that reads the same as text."""
        try:
            return self.labels[self.index(name)]
        except GraphError:
            for label in self.labels:
                if str(label) == str(name):
                    return label
            raise

    def neighbours(self, i: int) -> NDArray[np.int64]:
        """The positions of the other nodes that node i receives from, ascending."""
        columns = self.matrix.indices[self.matrix.indptr[i] : self.matrix.indptr[i + 1]]
        return np.asarray(columns[columns != i], dtype=np.int64)

    def exact_row(self, i: int) -> dict[int, Fraction]:
        """Row i of W in rational numbers, so that the rank of a few rows can be decided exactly.

            W[i, j] = p/q off the diagonal, W[i, i] = 1 − Σ_{j ≠ i} W[i, j];   or the floats as the rationals they are.

        Guarantee: exact. Nothing is recovered from rounded numbers; rows of a rule sum to exactly 1.

        >>> from sottovoce.graphs import metropolis_weights
        >>> metropolis_weights("path:n=3").exact_row(0)
        {0: Fraction(2, 3), 1: Fraction(1, 3)}
        """
        span = slice(self.matrix.indptr[i], self.matrix.indptr[i + 1])
        columns = self.matrix.indices[span].tolist()
        if self.quotients is None:
            return {j: Fraction(w) for j, w in zip(columns, self.matrix.data[span].tolist(), strict=True)}
        starts = self.off_diagonal_starts
        others = self.quotients.fractions(slice(starts[i], starts[i + 1]))
        row = dict(zip((j for j in columns if j != i), others, strict=True))
        row[i] = 1 - sum(row.values(), start=Fraction(0))
        return {j: w for j, w in sorted(row.items()) if w}

    @cached_property
    def off_diagonal_starts(self) -> NDArray[np.int64]:
        """Where each row begins among the entries off the diagonal."""
        return np.asarray(np.concatenate([[0], np.cumsum(self._off_diagonal)])[self.matrix.indptr])

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the exact weights and the labels in a platform-independent form: the graph-and-weights hash.

        Where a row sums to exactly 1 its diagonal follows from the rest and is left out; elsewhere it is written as the
        float that it is. Off the diagonal stands the nearest float, and p and q in lowest terms where W is not that
        float.

        Guarantee: the same rationals and labels give the same hash, however they are held; unlike ones are told apart.
        """
        off = self._off_diagonal
        digest = hashlib.sha256(f"sottovoce rational weights {self.n}\n".encode())
        digest.update(self.off_diagonal_starts.astype("<i8").tobytes())
        digest.update(self.matrix.indices[off].astype("<i8").tobytes())
        digest.update(self.matrix.data[off].astype("<f8").tobytes())
        if self.quotients is None:
            starts, data = self.matrix.indptr.tolist(), self.matrix.data.tolist()
            whole = np.array([sums_to_one(data[a:b]) for a, b in itertools.pairwise(starts)])
            rounded = np.zeros(np.count_nonzero(off), dtype=bool)
        else:
            whole, rounded = np.ones(self.n, dtype=bool), ~self.quotients.are_floats()
        digest.update(rounded.tobytes())
        for part in () if self.quotients is None or not rounded.any() else self.quotients.digest(rounded):
            digest.update(part)
        digest.update(whole.tobytes())
        digest.update(self.matrix.diagonal()[~whole].astype("<f8").tobytes())
        names = iter(self.labels)
        while block := list(itertools.islice(names, 65_536)):
            digest.update("".join(f"{label!r}\n" for label in block).encode())
        return digest.hexdigest()

    @cached_property
    def _positions(self) -> dict[Hashable, int]:
        return {label: k for k, label in enumerate(self.labels)}


def canonical_matrix(matrix: Any) -> Any:  # noqa: ANN401
    """`matrix` as a square float csr_array with sorted, distinct, nonzero entries."""
    result = scipy.sparse.csr_array(matrix, dtype=np.float64)
    if result.ndim != 2 or result.shape[0] != result.shape[1]:
        shape = " x ".join(map(str, result.shape))
        raise GraphError(f"the matrix of a graph must be square; got {shape} (one row and column per node)")
    # The caller's arrays may be shared with `result`; they are copied before anything is moved in them.
    if not result.has_canonical_format or (result.data == 0).any():
        result = result.copy()
        result.sum_duplicates()
        result.eliminate_zeros()
    return result


def is_symmetric(matrix: Any) -> bool:  # noqa: ANN401
    """Whether a canonical csr_array equals its transpose to the last bit."""
    by_column = matrix.tocsc()
    return bool(
        np.array_equal(matrix.indptr, by_column.indptr)
        and np.array_equal(matrix.indices, by_column.indices)
        and np.array_equal(matrix.data, by_column.data)
    )


def row_indices(matrix: Any) -> NDArray[np.int64]:  # noqa: ANN401
    """The row of every stored entry of a csr_array, in storage order."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def tidy_labels(labels: Iterable[Hashable] | None, n: int) -> Sequence[Hashable]:
    """Distinct labels for n nodes: a range where they count up by one, else a tuple."""
    if labels is None:
        return range(n)
    if isinstance(labels, range):
        names: Sequence[Hashable] = labels
    else:
        names = tuple(label.item() if isinstance(label, np.generic) else label for label in labels)
    if len(names) != n:
        raise GraphError(f"a graph of {n} nodes needs {n} labels; got {len(names)} (give one per node)")
    if isinstance(names, range) and (n < 2 or names.step == 1):
        return names
    first = names[0] if names else None
    if isinstance(first, int) and all(type(label) is int for label in names):
        counting = range(first, first + n)
        if all(label == number for label, number in zip(names, counting, strict=True)):
            return counting
    if len(set(names)) != n:
        seen: set[Hashable] = set()
        repeated = next(label for label in names if label in seen or seen.add(label))  # type: ignore[func-returns-value]
        raise GraphError(f"labels must be distinct; {repeated!r} occurs twice (rename one of the nodes)")
    return tuple(names)


def _position(label: Hashable, labels: Sequence[Hashable], positions: dict[Hashable, int] | None) -> int:
    """The position of `label`; `positions` is None when `labels` is a range, which needs no table."""
    candidates = [label]
    # Thousands of digits are more than Python reads as a number.
    if isinstance(label, str) and re.fullmatch(r"[+-]?[0-9]{1,1000}", label):
        candidates.append(int(label))
    for candidate in candidates:
        if positions is not None:
            if isinstance(candidate, Hashable) and candidate in positions:
                return positions[candidate]
        elif isinstance(candidate, int | np.integer) and int(candidate) in labels:
            # A range finds a plain integer without a search.
            return labels.index(int(candidate))
    raise GraphError(f"no node is called {label!r}; {_closest(label, labels)}")


def _closest(label: Hashable, labels: Sequence[Hashable]) -> str:
    """The remedy for an unknown label: the names that come nearest to it."""
    if not labels:
        return "the graph has no nodes (add some)"
    if isinstance(labels, range):
        return f"the nodes are called {labels[0]} to {labels[-1]} (name one of them)"
    names = {str(name): name for name in itertools.islice(labels, _SEARCHED_LABELS)}
    near = difflib.get_close_matches(str(label), names, n=3, cutoff=0.4) or list(names)[:3]
    listed = ", ".join(repr(names[name]) for name in near)
    return f"the closest names are {listed} (name one of the {len(labels)} nodes)"
