# SPDX-License-Identifier: Apache-2.0
"""Linear systems as the searches of this room ask for them: small ones, by the hundred.

They go straight to LAPACK. Looking at whether a matrix has numbers in it, and of which kind, takes longer than to solve
for ten unknowns. What comes out guides a search and is believed nowhere.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

__all__ = ["positive_solution"]


def positive_solution(matrix: np.ndarray, right: np.ndarray, *, lower: bool = False) -> np.ndarray:
    """The x with A x = b for a symmetric positive definite A, by Cholesky.

    Args:
        matrix: A, of which one triangle is read.
        right: b, one vector.
        lower: whether that is the lower triangle.

    Guarantee: none, it is a float solution. Raises LinAlgError where A is not positive definite to rounding.

    >>> positive_solution(np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([3.0, 3.0])).round(9).tolist()
    [1.0, 1.0]
    """
    if not matrix.size:
        return np.zeros(0)
    if len(matrix) == 1 and matrix[0, 0] > 0:
        return np.asarray(right / matrix[0])
    _, solution, failed = lapack.dposv(matrix, right, lower=lower)
    if failed:
        raise np.linalg.LinAlgError("the matrix of a system is not positive definite")
    return np.asarray(solution)
