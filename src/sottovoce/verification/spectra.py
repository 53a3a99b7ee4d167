# SPDX-License-Identifier: Apache-2.0
"""Eigenvalues, norms and least singular values that are proved: LAPACK guesses, and what proves it is measured.

What LAPACK returns comes with an error of "a modest polynomial in n", which is no number. So nothing of it is believed
here. A Cholesky factorisation that runs to its end has a proved error, and so has a product of two matrices:

* X ⪰ βI where X − (β + room)I factorises (`is_above`); with −X that bounds the largest eigenvalue;
* ‖X‖₂² is the largest eigenvalue of XᵀX, a product;
* any Y with ‖I − XY‖ < 1 says what the least singular value of X is at least.

Source: docs/proofs/spectra.md, "What a check proves of spectra"; Higham, *Accuracy and Stability*, Theorem 10.3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from sottovoce.verification.rounding import UNSEEN, above, definite_room, gamma, roundings

__all__ = [
    "factors",
    "frobenius",
    "is_above",
    "largest_eigenvalue",
    "least_singular",
    "norm_above",
    "skewness",
]

Floats = NDArray[np.float64]

# How often a guess of an eigenvalue is moved out, by four times as much each time, before ‖X‖_F is taken.
_ATTEMPTS = 12
# What overflows becomes infinite, and proves nothing.
_QUIET = np.errstate(all="ignore")


def factors(matrix: Floats) -> bool:
    """Whether a floating-point Cholesky factorisation goes through, with finite numbers from beginning to end.

    Guarantee: if it does, matrix ⪰ −γ_{n+1}/(1 − γ_{n+1})·trace, n the dimension; that alone proves nothing, so
    every caller has taken a margin off before. "No" says nothing about the exact matrix.
    Source: Rump, Verification of positive definiteness (2006), Cor. 2.4; Higham, Thm 10.3.
    """
    # LAPACK need not see that something is no number, neither in what it gets nor in what it makes.
    if not np.isfinite(matrix).all():
        return False
    try:
        return bool(np.isfinite(linalg.cholesky(matrix, lower=True, check_finite=False)).all())
    except linalg.LinAlgError:
        return False


@_QUIET
def is_above(matrix: Floats, least: float = 0.0) -> bool:
    """Whether X ⪰ `least`·I is proved for a symmetric X as stored; only the lower triangle is read.

    Guarantee: True is a proof: `definite_room` covers the factorisation and the rounding of the diagonal.
    Source: docs/proofs/spectra.md; Rump, Verification of positive definiteness (2006).

    >>> is_above(np.diag([1.0, 2.0]), 1 - 1e-12), is_above(np.diag([1.0, 2.0]), 1.0)
    (True, False)
    """
    n = len(matrix)
    diagonal = float(np.abs(np.diag(matrix)).sum())
    room = definite_room(n, diagonal, least) if least >= 0 else least + definite_room(n, diagonal - n * least)
    return factors(matrix - room * np.eye(n))


def largest_eigenvalue(matrix: Floats) -> float:
    """A number that no eigenvalue of a symmetric matrix as stored exceeds.

    Guarantee: proved by `is_above` of −X, or else ‖X‖_F, rounded up; infinite where something is no number.
    Source: docs/proofs/spectra.md.

    >>> 2 <= largest_eigenvalue(np.diag([1.0, 2.0])) < 2 + 1e-13
    True
    """
    most = frobenius(matrix)
    if not matrix.size or not np.isfinite(most):
        return most
    try:
        guess = float(np.linalg.eigvalsh(matrix)[-1])
    except np.linalg.LinAlgError:
        return most
    room = 2 * definite_room(len(matrix), float(np.abs(np.diag(matrix)).sum()) + len(matrix) * abs(guess))
    for _ in range(_ATTEMPTS):
        if guess + room >= most:
            break
        if is_above(-matrix, -(guess + room)):
            return guess + room
        room *= 4
    return most


@_QUIET
def frobenius(matrix: Floats) -> float:
    """The Frobenius norm, rounded up; infinite where something is no number.

    Guarantee: an upper bound: γ of the number of entries for their squares and the sum, and 10⁻¹⁵⁵ for squares that
    underflow.
    Source: docs/proofs/checks.md, "Units".

    >>> frobenius(np.array([[1e-170]])) >= 1e-170
    True
    """
    size = float(np.linalg.norm(matrix))
    return size * (1 + gamma(matrix.size + 4)) + UNSEEN if np.isfinite(size) else np.inf


@_QUIET
def norm_above(matrix: Floats) -> float:
    """‖X‖₂ from above: the root of what is proved of the largest eigenvalue of X Xᵀ or XᵀX, or ‖X‖_F if that is less.

    Guarantee: an upper bound: the product errs by γ_{k+2}‖X‖²_F, k being the terms that it sums.
    Source: docs/proofs/spectra.md.

    >>> 2 <= norm_above(np.diag([1.0, 2.0])) < 2 + 1e-13
    True
    """
    most = frobenius(matrix)
    if not matrix.size or not np.isfinite(most):
        return most
    flat = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    gram = flat @ flat.T
    square = largest_eigenvalue((gram + gram.T) / 2) + above(gamma(flat.shape[1] + 2) * most**2)
    return float(min(most, np.sqrt(square) * (1 + roundings(4)) + UNSEEN))


@_QUIET
def least_singular(matrix: Floats) -> float:
    """σ_min of a matrix of at least as many columns as rows, from below; 0 where nothing is proved.

        1 ≤ ‖xᵀX‖‖Y‖ + ‖I − XY‖   for every unit vector x and every Y,   so   σ_min ≥ (1 − ‖I − XY‖)/‖Y‖.

    Y = QR⁻ᵀ with Xᵀ = QR, as computed: a guess like any other.

    Guarantee: a lower bound: XY errs by γ_{k+2} of |X||Y|, k being the columns; `norm_above` rounds ‖Y‖ up, and 4u
    cover the last difference and quotient.
    Source: docs/proofs/spectra.md.

    >>> 1 - 1e-14 < least_singular(np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]])) <= 1
    True
    """
    rows, columns = matrix.shape
    if not np.isfinite(matrix).all() or not 0 < rows <= columns:
        return 0.0
    Q, R = np.linalg.qr(matrix.T)
    try:
        Y = linalg.solve_triangular(R, Q.T, lower=False, check_finite=False).T
    except linalg.LinAlgError:
        return 0.0
    defect = above(
        frobenius(matrix @ Y - np.eye(rows)) + gamma(columns + 2) * frobenius(np.abs(matrix) @ np.abs(Y))
    )
    return (1 - defect) / norm_above(Y) * (1 - roundings(4)) if defect < 1 else 0.0


@_QUIET
def skewness(rows: Floats) -> float:
    """‖BBᵀ − I‖ from above: how far rows are from orthonormal ones.

    Guarantee: an upper bound: the product errs by γ_{k+2}‖B‖²_F, k being the columns. So every singular value of B
    lies between 1 − skewness and 1 + skewness.
    Source: docs/proofs/spectra.md.

    >>> skewness(np.eye(2)) < 1e-14
    True
    """
    many, columns = rows.shape
    defect = frobenius(rows @ rows.T - np.eye(many))
    return above(defect + gamma(columns + 2) * frobenius(rows) ** 2)
