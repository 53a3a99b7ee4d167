# SPDX-License-Identifier: Apache-2.0
"""Products with matrices whose rows end early, as those of a Krylov space do: zeros are left out, some rows at a time.

On a Krylov space A is the transpose of a block Hessenberg matrix, and C reads the first block alone: row i of A has
entries up to some column, which grows with i. A sum without the terms that are 0 is one with fewer roundings.

Speed alone: the products are what they are, rounding apart.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TypeAlias

import numpy as np

__all__ = ["Slabs", "columns_of", "from_either_side", "slabs_of", "times_columns"]

# For some rows where they begin and end, and the column from which on all of them are 0.
Slabs: TypeAlias = "tuple[tuple[int, int, int], ...]"

# Speed alone: rows are cut into so many parts, if that leaves out at least this share.
PARTS, WORTH = 5, 0.15


def slabs_of(matrix: np.ndarray) -> Slabs:
    """The rows of a matrix in some parts, with where they end; one part where that saves little.

    >>> slabs_of(np.tril(np.ones((10, 10))))
    ((0, 2, 2), (2, 4, 4), (4, 6, 6), (6, 8, 8), (8, 10, 10))
    >>> slabs_of(np.ones((10, 10)))
    ((0, 10, 10),)
    """
    height, width = matrix.shape
    if not matrix.size:
        return ((0, height, width),)
    used = matrix != 0
    ends = np.where(used.any(axis=1), width - np.argmax(used[:, ::-1], axis=1), 0)
    edges = np.linspace(0, height, PARTS + 1).astype(int)
    found = tuple(
        (int(begin), int(end), int(ends[begin:end].max())) for begin, end in pairwise(edges) if end > begin
    )
    kept = sum((end - begin) * wide for begin, end, wide in found)
    return found if kept <= (1 - WORTH) * height * width else ((0, height, width),)


def _rows_times(matrix: np.ndarray, slabs: Slabs, right: np.ndarray) -> np.ndarray:
    """The matrix of these slabs times another.

    A slab is a range of rows that have entries in their first columns only; the zeros behind them are not multiplied.

    Guarantee: the product in floats; leaving zeros out changes no sum but for its order.
    """
    if len(slabs) == 1:
        return np.asarray(matrix @ right)
    found = np.empty((len(matrix), right.shape[1]))
    for begin, end, wide in slabs:
        np.matmul(matrix[begin:end, :wide], right[:wide], out=found[begin:end])
    return found


def from_either_side(matrix: np.ndarray, slabs: Slabs, middle: np.ndarray) -> np.ndarray:
    """B Z Bᵀ for B of these slabs and a symmetric Z, symmetric to the bit.

    What is below the diagonal is formed and stands above it, too; what is formed twice is its mean.

    Guarantee: the product in floats, each entry a sum of as many products as B Z Bᵀ has, and symmetric to the bit.
    """
    left = _rows_times(matrix, slabs, middle)
    found = np.empty((len(matrix), len(matrix)))
    for begin, end, wide in slabs:
        np.matmul(left[begin:, :wide], matrix[begin:end, :wide].T, out=found[begin:, begin:end])
        square = found[begin:end, begin:end]
        square += square.T.copy()
        square *= 0.5
        found[begin:end, end:] = found[end:, begin:end].T
    return found


def columns_of(slabs: Slabs, count: int) -> Slabs:
    """For some columns where they begin and end, and the row from which on they have entries.

    Guarantee: exact: outside these ranges the columns of the matrix of these slabs are 0.
    """
    if len(slabs) == 1:
        return ((0, count, 0),)
    edges = sorted({0, count, *(min(count, wide) for _, _, wide in slabs)})
    return tuple(
        (begin, end, min((first for first, _, wide in slabs if wide > begin), default=0))
        for begin, end in pairwise(edges)
    )


def times_columns(left: np.ndarray, matrix: np.ndarray, columns: Slabs, out: np.ndarray) -> None:
    """A matrix times that of these columns, into `out`.

    Guarantee: as for `_rows_times`: entries above the first row of a column are 0 and are not multiplied.
    """
    if len(columns) == 1:
        np.matmul(left, matrix, out=out)
        return
    for begin, end, first in columns:
        np.matmul(left[:, first:], matrix[first:, begin:end], out=out[:, begin:end])
