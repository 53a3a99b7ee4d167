# SPDX-License-Identifier: Apache-2.0
"""Matrices of floats as balls of however many bits are set, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import arb_mat

__all__ = ["balls", "floats"]


def balls(matrix: Any) -> arb_mat:
    """Floats as they are, of a matrix with all its zeros or without."""
    whole = np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype=np.float64)
    height, width = whole.shape
    return arb_mat(height, width, whole.ravel().tolist())


def floats(matrix: arb_mat) -> np.ndarray:
    """The nearest floats of what balls hold: of a difference, digits enough."""
    shape = matrix.nrows(), matrix.ncols()
    return np.array([float(x.mid()) for x in matrix.entries()]).reshape(shape)
