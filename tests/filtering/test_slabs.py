# SPDX-License-Identifier: Apache-2.0
"""Products that leave out zeros are the products."""

from __future__ import annotations

import numpy as np
import pytest

from sottovoce.filtering.slabs import columns_of, from_either_side, slabs_of, times_columns

RANDOM = np.random.default_rng(1)
SHAPES = {
    "triangular": np.tril(RANDOM.normal(size=(30, 30))),
    "hessenberg": np.tril(RANDOM.normal(size=(37, 37)), 4),
    "dense": RANDOM.normal(size=(12, 12)),
    "nothing": np.zeros((8, 8)),
    "one": np.ones((1, 1)),
    "late rows that are short": np.vstack([np.tril(RANDOM.normal(size=(20, 20))), np.eye(4, 20)])[4:],
}


@pytest.mark.parametrize("matrix", SHAPES.values(), ids=SHAPES.keys())
def test_products_are_what_they_are(matrix: np.ndarray) -> None:
    slabs, size = slabs_of(matrix), matrix.shape[1]
    for begin, end, wide in slabs:
        assert not matrix[begin:end, wide:].any()
    middle = RANDOM.normal(size=(size, size))
    middle += middle.T
    turned = from_either_side(matrix, slabs, middle)
    np.testing.assert_allclose(turned, matrix @ middle @ matrix.T, atol=1e-12)
    np.testing.assert_array_equal(turned, turned.T)
    left = RANDOM.normal(size=(5, len(matrix)))
    found = np.full((5, size), np.nan)
    times_columns(left, matrix, columns_of(slabs, size), found)
    np.testing.assert_allclose(found, left @ matrix, atol=1e-12)


def test_zeros_are_left_out() -> None:
    assert len(slabs_of(SHAPES["hessenberg"])) > 1
    assert slabs_of(SHAPES["dense"]) == ((0, 12, 12),)
