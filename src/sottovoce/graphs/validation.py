# SPDX-License-Identifier: Apache-2.0
"""What a matrix must satisfy before gossip with it averages anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy

from sottovoce.errors import GraphError
from sottovoce.graphs.model import row_indices

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

__all__ = [
    "ROW_SUM_TOLERANCE",
    "Sums",
    "check_entries",
    "check_sums",
    "check_weights",
    "matrix_period",
    "uneven_row",
]

Sums = Literal["rows", "columns"]
"""What of a matrix sums to 1: rows, where nodes average what they receive, or columns, where they divide messages."""

ROW_SUM_TOLERANCE = 1e-9


def check_weights(
    matrix: Any,  # noqa: ANN401
    labels: Sequence[Hashable],
    sums: Sums = "rows",
    *,
    name: str = "",
) -> None:
    """Refuse a matrix W on which gossip does not converge to one common average; `name` is where it comes from.

    Accepted: W[i, j] ≥ 0, every row sums to 1 to within 1e-9, and some power of W is positive (W is
    irreducible and aperiodic). W need not be symmetric. Where nodes divide messages, columns have these `sums`.

    Guarantee: exact on the sparsity pattern; row sums are floats.

    Source: Perron and Frobenius; Levin, Peres and Wilmer, Markov Chains and Mixing Times, Section 1.3.

    >>> import scipy
    >>> check_weights(scipy.sparse.csr_array([[0.0, 1.0], [1.0, 0.0]]), ["a", "b"])
    Traceback (most recent call last):
    sottovoce.errors.GraphError: gossip weights must not be periodic; these have period 2, so values swap
    for ever and never settle (let nodes keep a part of their own value: lazy_weights)
    """
    n = matrix.shape[0]
    if n < 2:
        size = "an empty graph" if n == 0 else f"a graph of one node, {labels[0]!r}"
        raise GraphError(f"{_where(name)}gossip needs at least 2 nodes; got {size} (add nodes and edges)")
    check_entries(matrix, labels, "gossip weights")
    if sums == "columns":
        check_sums(matrix, labels, sums)
    elif (uneven := uneven_row(matrix)) is not None:
        raise GraphError(
            f"gossip weights must have rows that sum to 1; row {labels[uneven[0]]!r} sums to {uneven[1]:.12g} "
            "(build them with metropolis_weights(graph), or pass normalise=True)"
        )
    _check_connected(matrix, labels, name)
    period = matrix_period(matrix)
    if period > 1:
        raise GraphError(
            f"gossip weights must not be periodic; these have period {period}, so values swap for ever and "
            "never settle (let nodes keep a part of their own value: lazy_weights)"
        )


def uneven_row(matrix: Any) -> tuple[int, float] | None:  # noqa: ANN401
    """The row whose sum is furthest from 1, and its sum; None if every row sums to 1 to within 1e-9."""
    sums = np.bincount(row_indices(matrix), weights=matrix.data, minlength=matrix.shape[0])
    worst = int(np.argmax(np.abs(sums - 1)))
    return None if abs(sums[worst] - 1) <= ROW_SUM_TOLERANCE else (worst, float(sums[worst]))


def check_sums(matrix: Any, labels: Sequence[Hashable], sums: Sums) -> None:  # noqa: ANN401
    """Refuse entries that are no weights, and rows (or columns) that do not sum to 1; pieces are not looked for."""
    check_entries(matrix, labels, "gossip weights")
    totals = np.asarray(matrix.sum(axis=1 if sums == "rows" else 0)).ravel()
    worst = int(np.argmax(np.abs(totals - 1)))
    if abs(totals[worst] - 1) > ROW_SUM_TOLERANCE:
        raise GraphError(
            f"these weights must have {sums} that sum to 1; {sums[:-1]} {labels[worst]!r} sums to "
            f"{totals[worst]:.12g} (divide each of the {sums} by its sum)"
        )


def check_entries(matrix: Any, labels: Sequence[Hashable], what: str) -> None:  # noqa: ANN401
    """Refuse entries that are negative or no finite numbers, and say where the first one stands."""
    for wrong, rule, remedy in (
        (~np.isfinite(matrix.data), "finite numbers", "replace it by a number, or by 0 for no edge"),
        (matrix.data < 0, "at least 0", "take absolute values, or drop the edge"),
    ):
        if wrong.any():
            k = int(np.argmax(wrong))
            i = int(np.searchsorted(matrix.indptr, k, side="right")) - 1
            j = int(matrix.indices[k])
            raise GraphError(
                f"{what} must be {rule}; row {labels[i]!r}, column {labels[j]!r} is {matrix.data[k]:.6g} "
                f"({remedy})"
            )


def matrix_period(matrix: Any) -> int:  # noqa: ANN401
    """The period of an irreducible matrix: the greatest common divisor of its cycle lengths.

    With breadth-first levels l from any node it is gcd of l(u) + 1 − l(v) over all edges u → v.

    Guarantee: exact.

    Source: Denardo, Periods of connected networks and powers of nonnegative matrices (1977).
    """
    if matrix.diagonal().any():
        return 1
    levels = scipy.sparse.csgraph.dijkstra(matrix, directed=True, indices=0, unweighted=True).astype(np.int64)
    return int(np.gcd.reduce(levels[row_indices(matrix)] + 1 - levels[matrix.indices]))


def _where(name: str) -> str:
    return f"{name}: " if name else ""


def _check_connected(matrix: Any, labels: Sequence[Hashable], name: str) -> None:  # noqa: ANN401
    """Refuse a matrix in which some node never hears of some other."""
    count, member = scipy.sparse.csgraph.connected_components(matrix, directed=True, connection="strong")
    if count == 1:
        return
    sizes = np.bincount(member)
    small, large = (labels[int(np.argmax(member == pick))] for pick in (sizes.argmin(), sizes.argmax()))
    # Of pieces that are all as large, two.
    large = large if sizes.max() > sizes.min() else labels[int(np.argmax(member != member[0]))]
    pieces, _ = scipy.sparse.csgraph.connected_components(matrix, directed=True, connection="weak")
    kind = "components" if pieces == count else "strongly connected components"
    remedy = (
        "join the components or keep the largest; for a random graph take another seed or more edges"
        if pieces > 1
        else "add edges back, or make the graph undirected"
    )
    raise GraphError(
        f"{_where(name)}every node must be able to reach every other; the graph falls into {count} {kind}, the largest "
        f"with {sizes.max()} of {matrix.shape[0]} nodes; {small!r} is in another than {large!r} ({remedy})"
    )
