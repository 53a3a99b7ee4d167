# SPDX-License-Identifier: Apache-2.0
"""Small linear systems: they are solved, from whichever triangle is read, and refused where Cholesky ends."""

from __future__ import annotations

import numpy as np
import pytest

from sottovoce.feedback.systems import positive_solution


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("size", [1, 2, 7, 30])
def test_one_triangle_is_enough(size: int, lower: bool) -> None:
    rng = np.random.default_rng(size)
    root, right = rng.normal(size=(size, size)), rng.normal(size=size)
    matrix = root @ root.T + np.eye(size)
    read = np.tril(matrix) if lower else np.triu(matrix)
    given = read.copy(), right.copy()
    assert matrix @ positive_solution(*given, lower=lower) == pytest.approx(right, rel=1e-9, abs=1e-9)
    # What was asked about is left as it was.
    assert np.array_equal(given[0], read)
    assert np.array_equal(given[1], right)


def test_no_unknowns_are_solved_for() -> None:
    assert positive_solution(np.zeros((0, 0)), np.zeros(0)).shape == (0,)


@pytest.mark.parametrize("matrix", [[[0.0]], [[-1.0]], [[1.0, 2.0], [2.0, 1.0]]])
def test_a_matrix_that_is_not_positive_definite_is_refused(matrix: list[list[float]]) -> None:
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        positive_solution(np.array(matrix), np.ones(len(matrix)))
