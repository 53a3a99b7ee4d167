# SPDX-License-Identifier: Apache-2.0
"""Columns of gossip weights, and twins: nodes that every node weighs alike, so that no average tells them apart."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.graphs.model import row_indices

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.graphs.model import GossipWeights

__all__ = ["twins"]


def twins(weights: GossipWeights) -> tuple[tuple[int, ...], ...]:
    """The groups of two nodes or more whose columns of W are equal: positions, ascending, first groups first.

        j and k are twins  ⟺  W[i, j] = W[i, k] for every node i, j and k among them.

    What sums to 0 over a group stays out of every average. So about a node with s hidden twins, itself counted, a
    node that learns sums alone learns at most 1/s of Δ² of local DP, whatever maps nodes train by: s is the size of
    the group, less one where the observer is of the group.

    Guarantee: exact, in the rationals of W; columns are compared by SHA-256.
    Source: Corollary 3 of docs/training.md.

    >>> from sottovoce.graphs import metropolis_weights
    >>> twins(metropolis_weights("cliques:base=ring,n=4,size=2"))
    ((0, 1), (2, 3), (4, 5), (6, 7))
    >>> twins(metropolis_weights("ring:n=4"))
    ()
    """
    columns = _Columns.of(weights)
    # Equal columns have the same places but for the two on the diagonal, which are both filled or both empty.
    shapes = [[columns.shape(k, closed=closed) for k in range(weights.n)] for closed in (False, True)]
    often = [Counter(keys) for keys in shapes]
    groups: dict[bytes, list[int]] = {}
    for k in range(weights.n):
        if any(seen[keys[k]] > 1 for seen, keys in zip(often, shapes, strict=True)):
            groups.setdefault(columns.key(k), []).append(k)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Columns:
    """W off the diagonal by columns, with numbers in place of rationals: the same number where they are equal."""

    weights: GossipWeights
    rows: NDArray[np.int64]
    numbers: NDArray[np.int64]
    starts: NDArray[np.int64]
    by_rows: NDArray[np.int64]
    diagonal: list[float]
    values: list[Fraction]
    known: dict[Fraction, int]
    left: dict[bytes, Fraction]

    @classmethod
    def of(cls, weights: GossipWeights) -> _Columns:
        """The columns of W."""
        matrix, rows = weights.matrix, row_indices(weights.matrix)
        off = rows != matrix.indices
        if weights.quotients is None:
            floats, numbers = np.unique(matrix.data[off], return_inverse=True)
            values = [Fraction(x) for x in floats.tolist()]
        else:
            (p, above), (q, below) = (np.unique(part, return_inverse=True) for part in weights.quotients)
            codes, numbers = np.unique(above * q.size + below, return_inverse=True)
            values = [Fraction(int(p[c // q.size]), int(q[c % q.size])) for c in codes.tolist()]
        order = np.lexsort((rows[off], matrix.indices[off]))
        counts = np.bincount(matrix.indices[off], minlength=weights.n)
        return cls(
            weights=weights,
            rows=rows[off][order].astype(np.int64),
            numbers=numbers[order].astype(np.int64),
            starts=np.concatenate([[0], np.cumsum(counts)]),
            by_rows=numbers,
            diagonal=matrix.diagonal().tolist(),
            values=values,
            known={value: number for number, value in enumerate(values)},
            left={},
        )

    def shape(self, k: int, *, closed: bool) -> bytes:
        """Which rows column k fills, with its own (`closed`) or without."""
        rows = self.rows[self.starts[k] : self.starts[k + 1]]
        return sha256(_with(rows, int(np.searchsorted(rows, k)), k if closed else None)).digest()

    def key(self, k: int) -> bytes:
        """What is equal for equal columns, and for no others."""
        span = slice(self.starts[k], self.starts[k + 1])
        rows, own = self.rows[span], self._diagonal(k)
        place = int(np.searchsorted(rows, k))
        number = self.known.setdefault(own, len(self.known)) if own else None
        return sha256(
            _with(rows, place, k if own else None) + _with(self.numbers[span], place, number)
        ).digest()

    def _diagonal(self, k: int) -> Fraction:
        """W[k, k]; rows of the same weights in any order are summed once."""
        if self.weights.quotients is None:
            return Fraction(self.diagonal[k])
        starts = self.weights.off_diagonal_starts
        row = np.sort(self.by_rows[starts[k] : starts[k + 1]])
        key = row.tobytes()
        if key not in self.left:
            self.left[key] = 1 - sum((self.values[c] for c in row.tolist()), start=Fraction(0))
        return self.left[key]


def _with(values: NDArray[np.int64], place: int, more: int | None) -> bytes:
    """The bytes of `values`, with one more of them at a place, or with none."""
    if more is None:
        return values.tobytes()
    return values[:place].tobytes() + np.int64(more).tobytes() + values[place:].tobytes()
