# SPDX-License-Identifier: Apache-2.0
"""What stands in rows and columns, read off what a sparse matrix stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import sparse

from sottovoce.filtering.lines import entries, largest, size_sums

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("made", [sparse.csr_array, sparse.csc_array], ids=["rows", "columns"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(7, 40), (40, 7), (1, 1), (0, 3)], ids=str)
def test_sparse_matrices_hold_what_dense_ones_do(
    shape: tuple[int, int], axis: int, made: Callable[[Any], Any]
) -> None:
    random = np.random.default_rng(1)
    dense = random.integers(-4, 5, shape) * random.integers(0, 2, shape) / 8
    # A row and a column without entries.
    dense[-1:], dense[:, :1] = 0.0, 0.0
    matrix = made(dense)
    for read in (entries, largest, size_sums):
        assert read(matrix, axis).tolist() == read(dense, axis).tolist()


def test_zeros_that_are_stored_are_no_entries_and_parts_of_an_entry_are_several() -> None:
    data, columns, ends = np.array([0.0, 2.0, -3.0]), np.array([0, 1, 1]), np.array([0, 1, 3])
    matrix = sparse.csr_array((data, columns, ends), shape=(2, 2))
    assert entries(matrix, 0).tolist() == entries(matrix, 1).tolist() == [0, 2]
    assert size_sums(matrix, 0).tolist() == size_sums(matrix, 1).tolist() == [0, 5]
    assert not matrix.has_canonical_format
