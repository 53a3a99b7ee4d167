# SPDX-License-Identifier: Apache-2.0
"""Rows and columns of a matrix, dense or sparse: how many entries they hold, the sums of their sizes, the largest.

SciPy makes several matrices on the way to such numbers, which takes longer than the products of small networks. Here
they are read off what a sparse matrix, of rows or of columns, stores.

Soundness: entries that are stored in parts count one by one, so that neither numbers of entries nor sums of sizes are
smaller than for what the parts add up to. The largest size is that of a part: it is asked of matrices without such.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["entries", "largest", "size_sums"]


def entries(matrix: np.ndarray | csr_array, axis: int) -> np.ndarray:
    """How many numbers other than 0 stand along an axis: in each column for 0, in each row for 1.

    >>> entries(np.array([[1.0, 0.0], [2.0, 3.0]]), 1).tolist()
    [1, 2]
    """
    if isinstance(matrix, np.ndarray):
        return np.asarray(np.count_nonzero(matrix, axis=axis))
    return np.bincount(_places(matrix, axis)[matrix.data != 0], minlength=matrix.shape[1 - axis])


def size_sums(matrix: np.ndarray | csr_array, axis: int) -> np.ndarray:
    """Sums of sizes along an axis.

    Guarantee: up to rounding; a sum of k sizes errs by at most γ_k of itself, in whatever order it is taken.

    >>> size_sums(np.array([[1.0, 0.0], [-2.0, 3.0]]), 0).tolist()
    [3.0, 3.0]
    """
    sizes = np.abs(matrix if isinstance(matrix, np.ndarray) else matrix.data)
    if isinstance(matrix, np.ndarray):
        return np.asarray(sizes.sum(axis=axis))
    if not _is_along(matrix, axis):
        return np.bincount(matrix.indices, weights=sizes, minlength=matrix.shape[1 - axis])
    found, held = np.zeros(matrix.shape[1 - axis]), np.flatnonzero(np.diff(matrix.indptr))
    found[held] = np.add.reduceat(sizes, matrix.indptr[held])
    return found


def largest(matrix: np.ndarray | csr_array, axis: int) -> np.ndarray:
    """The largest sizes along an axis of what is stored, 0 where nothing stands.

    >>> largest(np.array([[1.0, 0.0], [-2.0, 3.0]]), 0).tolist()
    [2.0, 3.0]
    """
    if isinstance(matrix, np.ndarray):
        return np.asarray(np.abs(matrix).max(axis=axis, initial=0.0))
    found = np.zeros(matrix.shape[1 - axis])
    np.maximum.at(found, _places(matrix, axis), np.abs(matrix.data))
    return found


def _is_along(matrix: csr_array, axis: int) -> bool:
    """Whether what is stored together stands along the axis: rows are, or columns in the transpose."""
    return bool((matrix.format == "csr") == (axis == 1))


def _places(matrix: csr_array, axis: int) -> np.ndarray:
    """For each stored entry the row or column that it counts for, in the order in which they are stored."""
    if not _is_along(matrix, axis):
        return np.asarray(matrix.indices)
    lengths = np.diff(matrix.indptr)
    return np.repeat(np.arange(len(lengths)), lengths)
