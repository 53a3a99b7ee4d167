# SPDX-License-Identifier: Apache-2.0
"""Block Arnoldi and Lanczos with full reorthogonalisation and residuals that bound what was cut.

Knows neither graphs nor privacy: it compresses the powers X^ℓ V of a sparse matrix X on a thin block V.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import at_least

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scipy.sparse import csr_array

__all__ = ["KrylovBasis", "arnoldi", "krylov_bases", "power_error"]

UNIT_ROUNDOFF = float(np.finfo(np.float64).eps) / 2
POWERS_AT_ONCE = 64


@dataclass(frozen=True, kw_only=True, eq=False)
class KrylovBasis:
    """X Q = Q H + (what is left over), with Q orthonormal and the starting block V = Q `start`.

    `residual` is a small factor with ‖(X Q − Q H) v‖ ≤ ‖residual v‖, Euclidean or (for X that are not symmetric)
    in ℓ¹; `rounding` bounds, in the Euclidean norm, what floating point and deflation add to that relation.
    """

    vectors: np.ndarray
    projected: np.ndarray
    start: np.ndarray
    residual: np.ndarray
    rounding: float
    euclidean: bool

    @property
    def size(self) -> int:
        """The dimension r of the space."""
        return int(self.vectors.shape[1])


def arnoldi(matrix: csr_array, block: np.ndarray, *, size: int, symmetric: bool = False) -> KrylovBasis:
    """An orthonormal basis of span{V, XV, X²V, …} of dimension `size`, or the whole space if it closes before.

    Guarantee: exact up to rounding when the space closes (`residual` is then 0); otherwise `power_error` bounds
    what is missing. Columns that vanish after orthogonalisation (breakdown) are deflated and counted as residual.

    Source: Golub & Van Loan, *Matrix Computations*, 4th ed., Section 10.1 and 10.5.
    """
    for basis in krylov_bases(matrix, block, symmetric=symmetric, largest=size):
        if basis.size >= size:
            return basis
    return basis


def krylov_bases(
    matrix: csr_array, block: np.ndarray, *, largest: int, symmetric: bool = False
) -> Iterator[KrylovBasis]:
    """Growing bases, one more block each time, until the space closes or has `largest` dimensions.

    A caller takes bases until one is good enough; nothing is computed twice. A basis is valid until the next one
    is asked for. Norms are Euclidean if `symmetric` and ℓ¹ otherwise.
    """
    at_least(1, largest=largest)
    most = min(block.shape[0], largest + block.shape[1])
    store = np.empty((block.shape[0], min(most, 32 + block.shape[1])), order="F")
    newest, start, _ = _independent(block)
    done, count = 0, newest.shape[1]
    store[:, :count] = newest
    projected = np.zeros((count, 0))
    dropped = 0.0
    while True:
        # X Q_k = Q h + Q₊ f for the newest block Q_k; what is left over, Q₊, is the next block.
        basis = store[:, :count]
        image = matrix @ store[:, done:count]
        coefficients = _orthogonalise(image, basis)
        following, factor, lost = _independent(image)
        coefficients += _orthogonalise(following, basis) @ factor
        dropped = float(np.hypot(dropped, lost))
        projected = np.pad(projected, ((0, 0), (0, count - done)))
        projected[:, done:] = coefficients
        residual = np.pad(factor, ((0, 0), (done, 0)))
        yield _basis(
            basis, projected, start, residual, following, dropped + _rounding(matrix, count), symmetric
        )
        if following.shape[1] == 0 or count >= largest or most < count + following.shape[1]:
            return
        if store.shape[1] < count + following.shape[1]:
            wider = np.empty((store.shape[0], min(most, 2 * store.shape[1])), order="F")
            wider[:, :count] = basis
            store = wider
        projected = np.vstack([projected, residual])
        done, count = count, count + following.shape[1]
        store[:, done:count] = following


def power_error(basis: KrylovBasis, powers: int, *, enough: float = np.inf) -> float:
    """An upper bound of Σ_ℓ ‖X^ℓ V − Q H^ℓ QᵀV‖ over ℓ < powers, exact arithmetic, for a matrix of norm at most 1.

    With e_ℓ the error of power ℓ, e_{ℓ+1} = X e_ℓ + (XQ − QH) H^ℓ QᵀV; so ‖e_ℓ‖ is at most the sum of the residuals
    before it, and the residual of step k is counted once for each of the powers − 1 − k later errors. The sum is given
    up (and what it has come to returned) once it exceeds `enough`.

    Guarantee: upper bound, if ‖X‖ ≤ 1 in the norm the basis was built for, of what the cut alone costs; rounding
    acts as a change of X by at most `basis.rounding` and is left to the caller.
    Source: Saad, *Iterative Methods for Sparse Linear Systems*, 2nd ed., Section 6.3, applied to powers.
    """
    if basis.residual.shape[0] == 0:
        return 0.0
    width = basis.start.shape[1]
    # Powers in blocks: [H^k s, …, H^{k+b−1} s] moves on by one product with H^b.
    block = [basis.start]
    for _ in range(min(POWERS_AT_ONCE, max(1, powers - 1)) - 1):
        block.append(basis.projected @ block[-1])
    coefficients = np.hstack(block)
    stride = np.linalg.matrix_power(basis.projected, len(block))
    total = 0.0
    for k in range(0, powers - 1, len(block)):
        steps = (basis.residual @ coefficients).reshape(-1, len(block), width)
        sizes = np.sqrt((steps**2).sum(axis=(0, 2))) if basis.euclidean else np.abs(steps).sum(axis=(0, 2))
        left = powers - 1 - np.arange(k, min(k + len(block), powers - 1))
        total += float(left @ sizes[: len(left)])
        if total > enough:
            break
        coefficients = stride @ coefficients
    return total


def _orthogonalise(block: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Take the part in span(basis) out of `block`, twice, in place; return its coefficients."""
    coefficients = basis.T @ block
    block -= basis @ coefficients
    again = basis.T @ block
    block -= basis @ again
    return np.asarray(coefficients + again)


def _independent(block: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Orthonormal columns Q and a factor R with block = Q R + dropped, and the size of what was dropped."""
    left, sizes, right = np.linalg.svd(block, full_matrices=False)
    kept = sizes > 64 * UNIT_ROUNDOFF * max(1, block.shape[1])
    return left[:, kept], sizes[kept, None] * right[kept], float(np.linalg.norm(sizes[~kept]))


def _rounding(matrix: csr_array, count: int) -> float:
    """How far rounding may put X Q = Q H + Q₊ f off, in norm: a dot product of k terms errs by k units."""
    longest = int(np.diff(matrix.indptr).max(initial=0))
    return 4 * (longest + count + 4) * UNIT_ROUNDOFF * float(np.sqrt(count))


def _basis(
    vectors: np.ndarray,
    projected: np.ndarray,
    start: np.ndarray,
    residual: np.ndarray,
    following: np.ndarray,
    rounding: float,
    symmetric: bool,
) -> KrylovBasis:
    """The value for the vectors so far, its residual factor in the norm that X contracts in."""
    padding = vectors.shape[1] - start.shape[0]
    # In ℓ¹ the residual block Q₊ f has norm at most Σ_p ‖q_p‖₁ |f_p|.
    factor = residual if symmetric else residual * np.abs(following).sum(axis=0)[:, None]
    return KrylovBasis(
        vectors=vectors,
        projected=(projected + projected.T) / 2 if symmetric else projected.copy(),
        start=np.pad(start, ((0, padding), (0, 0))),
        residual=factor,
        rounding=rounding,
        euclidean=symmetric,
    )
