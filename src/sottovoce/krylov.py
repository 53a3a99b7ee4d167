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
# A block that shrinks by more than this when it is orthogonalised has lost digits, and is orthogonalised again.
CANCELLED = 0.05
# Long vectors of a symmetric matrix are kept orthogonal to the last two blocks by the recurrence, and to all others by
# looking at two blocks in so many: what builds up in between stays at rounding level, is measured and counted.
LONG, CYCLE, REPAIRED = 20_000, 8, 2


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
    before, done, count = 0, 0, newest.shape[1]
    units = _product_units(matrix)
    thrifty, step, since = symmetric and block.shape[0] >= LONG, 0, 0
    store[:, :count] = newest
    projected = np.zeros((count, 0))
    dropped = 0.0
    while True:
        # X Q_k = Q h + Q₊ f for the newest block Q_k; what is left over, Q₊, is the next block.
        basis = store[:, :count]
        image = matrix @ store[:, done:count]
        nearby = before if symmetric else 0
        looked_back = not thrifty or step % CYCLE < REPAIRED
        oldest = 0 if looked_back else nearby
        found = _orthogonalise(image, basis[:, oldest:], nearby=nearby - oldest)
        coefficients = np.pad(found, ((oldest, 0), (0, 0)))
        following, factor, lost = _independent(image)
        smallest = float(np.linalg.norm(factor, axis=1).min(initial=1.0))
        if smallest < CANCELLED:
            coefficients += _orthogonalise(following, basis, nearby=0) @ factor
        step, since = step + 1, since + 1
        if looked_back:
            # What was found far back has been building up since the last look, in every vector.
            lost += 2 * since**0.5 * float(np.linalg.norm(coefficients[:nearby])) / max(smallest, CANCELLED)
            since = 0
        dropped = float(np.hypot(dropped, lost))
        projected = np.pad(projected, ((0, 0), (0, count - done)))
        projected[:, done:] = coefficients
        residual = np.pad(factor, ((0, 0), (done, 0)))
        yield _basis(
            basis, projected, start, residual, following, dropped + _rounding(units, count), symmetric
        )
        if following.shape[1] == 0 or count >= largest or most < count + following.shape[1]:
            return
        if store.shape[1] < count + following.shape[1]:
            wider = np.empty((store.shape[0], min(most, 2 * store.shape[1])), order="F")
            wider[:, :count] = basis
            store = wider
        projected = np.vstack([projected, residual])
        before, done, count = done, count, count + following.shape[1]
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
    # Powers in blocks: the rows E, EH, …, EH^{b−1} read H^k s, which moves on by one product with H^b.
    rows = [basis.residual]
    for _ in range(min(POWERS_AT_ONCE, max(1, powers - 1)) - 1):
        rows.append(rows[-1] @ basis.projected)
    readers = np.vstack(rows)
    stride = np.linalg.matrix_power(basis.projected, len(rows))
    state, total = basis.start, 0.0
    for k in range(0, powers - 1, len(rows)):
        steps = (readers @ state).reshape(len(rows), -1)
        sizes = np.sqrt((steps**2).sum(axis=1)) if basis.euclidean else np.abs(steps).sum(axis=1)
        left = powers - 1 - np.arange(k, min(k + len(rows), powers - 1))
        total += float(left @ sizes[: len(left)])
        if total > enough:
            break
        state = stride @ state
    return total


def _orthogonalise(block: np.ndarray, basis: np.ndarray, *, nearby: int) -> np.ndarray:
    """Take the part in span(basis) out of `block`, twice, in place; return its coefficients.

    The first time only the vectors from `nearby` on are looked at, the others having next to no part in it.
    """
    near = basis[:, nearby:]
    first = near.T @ block
    block -= near @ first
    coefficients = basis.T @ block
    block -= basis @ coefficients
    coefficients[nearby:] += first
    return np.asarray(coefficients)


def _independent(block: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Orthonormal columns Q and a factor R with block = Q R + dropped, and the size of what was dropped."""
    left, sizes, right = np.linalg.svd(block, full_matrices=False)
    kept = sizes > 64 * UNIT_ROUNDOFF * max(1, block.shape[1])
    return left[:, kept], sizes[kept, None] * right[kept], float(np.linalg.norm(sizes[~kept]))


def _product_units(matrix: csr_array) -> float:
    """How many units of roundoff a product X q errs by at most, in norm, for ‖q‖ = 1 and ‖|X|‖ ≤ 1.

    Row i with k_i terms errs by k_i units of (|X||q|)_i, so that ‖diag(k)|X|‖₂ ≤ √(‖·‖₁‖·‖_∞) of them suffice, and
    so does the largest k_i.
    """
    terms = np.diff(matrix.indptr)
    if terms.size == 0:
        return 0.0
    sizes = matrix.copy()
    sizes.data = np.abs(matrix.data) * np.repeat(terms, terms)
    along, across = float(sizes.sum(axis=1).max()), float(sizes.sum(axis=0).max())
    return min(float(terms.max()), float(np.sqrt(along * across)))


def _rounding(product_units: float, count: int) -> float:
    """How far rounding may put X Q = Q H + Q₊ f off, in norm: a dot product of k terms errs by k units."""
    return 4 * (product_units + count + 4) * UNIT_ROUNDOFF * float(np.sqrt(count))


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
