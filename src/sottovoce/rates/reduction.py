# SPDX-License-Identifier: Apache-2.0
"""Krylov spaces for an infinite horizon: where the spectrum of A lies, and how the cut part still enters.

With Q the basis, AᵀQ = QH + Q₊Jᵀ. The coordinates Qᵀs of the true state move like the reduced system with
one more input, J·(Q₊ᵀs_{t−1}), and Q₊ᵀs is the noise through (I − zA)⁻¹, whose norm on the circle is one
over the distance from e^{iω} to the spectrum of A. Where no noise is known, A = W has the eigenvalue 1 with
eigenvector 1: that vector is put into the space, Q₊ is orthogonal to it, and only the rest of the spectrum
counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import cg

from sottovoce.krylov import krylov_bases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scipy.sparse import csr_array

    from sottovoce.filtering import HiddenSystem
    from sottovoce.krylov import KrylovBasis

__all__ = ["Reduction", "SpectralRange", "largest_eigenvalue", "reductions", "spectral_range"]

EPSILON = float(np.finfo(np.float64).eps)
# Above this size the second eigenvalue is not computed: nothing cheap bounds it from above.
LARGEST_DENSE = 3000
# A Krylov space larger than this is given up.
LARGEST_SPACE = 1600
# So is one of which the vectors would hold more numbers than this.
LARGEST_STORE = 50_000_000


@dataclass(frozen=True, slots=True)
class SpectralRange:
    """Real numbers between which all eigenvalues of a symmetric matrix lie."""

    lowest: float
    highest: float

    def resolvent(self, frequency: float) -> float:
        """1 / min |e^{iω} − λ| over the range: the norm of (I − e^{−iω}A)⁻¹ is at most this."""
        nearest = min(max(math.cos(frequency), self.lowest), self.highest)
        distance = math.hypot(math.cos(frequency) - nearest, math.sin(frequency))
        return (1 + 8 * EPSILON) / distance if distance > 0 else math.inf

    def largest(self) -> float:
        """The largest `resolvent` over all frequencies."""
        return max(self.resolvent(0.0), self.resolvent(math.pi))


@dataclass(frozen=True, kw_only=True, eq=False)
class Reduction:
    """A reduced system, the residual J through which the rest enters, and where the rest's spectrum lies."""

    transition: csr_array
    rows: np.ndarray
    inputs: np.ndarray
    residual: np.ndarray
    rounding: float
    outside: SpectralRange


def spectral_range(system: HiddenSystem) -> SpectralRange:
    """A range that holds the spectrum of a symmetric transition.

    Guarantee: Gershgorin's circles from below; from above Collatz and Wielandt's max_i (Av)_i/v_i for a
    positive v, where v ≈ (I − A)⁻¹1, which is Perron's vector up to what fades fast.
    Source: Horn & Johnson, *Matrix Analysis*, Theorems 6.1.1 and 8.1.26.
    """
    matrix = system.transition
    sums = np.asarray(matrix.sum(axis=1)).ravel()
    lowest = float((2 * matrix.diagonal() - sums).min())
    slack = EPSILON * (int(np.diff(matrix.indptr).max(initial=1)) + 4)
    highest = float(sums.max())
    if sums.min() < 1 - 1e-12:
        shifted = sparse.eye_array(len(sums), format="csr") - matrix
        vector = np.ones(len(sums))
        for _ in range(3):
            following, _ = cg(shifted, vector, x0=vector, rtol=1e-8, maxiter=4 * len(sums))
            if not following.min() > 0:
                break
            vector = following / following.max()
            highest = min(highest, float((matrix @ vector / vector).max()))
    # Eigenvalues of a nonnegative matrix are at most the largest one in modulus.
    return SpectralRange(max(lowest - slack, -highest - slack), highest + slack)


def reductions(system: HiddenSystem, whole: SpectralRange | None) -> Iterator[Reduction]:
    """Growing reductions of a symmetric system, none if there is no bound of what they would cut."""
    n = system.unknown.size
    if whole is None:
        return
    if whole.highest < 1 - 64 * EPSILON * n:
        yield from _growing(system, system.rows.T, whole)
    elif n <= LARGEST_DENSE:
        outside = _without_average(system)
        yield from _closed(system, outside)
        average = np.full((n, 1), 1 / math.sqrt(n))
        yield from _growing(system, np.hstack([system.rows.T, average]), outside)


def largest_eigenvalue(matrix: np.ndarray) -> float:
    """λ_max of a symmetric matrix, up to LAPACK's backward error.

    The driver for a few eigenvalues gives up on some matrices that are diagonal to the last bits; that for all of them
    does not.
    """
    last = len(matrix) - 1
    try:
        return float(linalg.eigvalsh(matrix, subset_by_index=[last, last])[0])
    except linalg.LinAlgError:
        return float(np.linalg.eigvalsh(matrix)[last])


def _growing(system: HiddenSystem, start: np.ndarray, outside: SpectralRange) -> Iterator[Reduction]:
    """Reductions at sizes that grow by a third: each is solved before the next one is asked for."""
    largest = _largest(system)
    if start.shape[1] > largest or not outside.largest() < 1e9:
        return
    check_at = 1.0
    for basis in krylov_bases(system.transition.tocsr(), start, largest=largest, symmetric=True):
        if basis.residual.shape[0] == 0 or basis.size >= min(check_at, largest):
            check_at = max(1.3 * basis.size, 16)
            yield _reduction(system, basis, outside)


def _closed(system: HiddenSystem, outside: SpectralRange) -> Iterator[Reduction]:
    """The space that A maps into itself, if it is small: a symmetric graph, or a view of few rows of one.

    The space holds the eigenvalue 1, so by counting eigenvalues the rest of A has none above the second.
    """
    largest = _largest(system)
    if system.rows.shape[0] > largest:
        return
    for basis in krylov_bases(system.transition.tocsr(), system.rows.T, largest=largest, symmetric=True):
        if basis.residual.shape[0] == 0:
            top = largest_eigenvalue(basis.projected)
            if top > 1 - 1e-9 > outside.highest + 1e-9:
                yield _reduction(system, basis, outside)


def _largest(system: HiddenSystem) -> int:
    """The largest space worth its time and memory."""
    n = int(system.unknown.size)
    return min(n // 2 + 1, LARGEST_SPACE, max(200, LARGEST_STORE // n))


def _reduction(system: HiddenSystem, basis: KrylovBasis, outside: SpectralRange) -> Reduction:
    """Transition QᵀAQ, rows CQ, inputs the rows of Q; the noise covariance stays QᵀQ = I.

    AQ − QH is computed: in all columns but those of the last block it should vanish, in those it should be
    orthogonal to Q. What is left, what Q lacks to be orthonormal, and the rounding of this very computation
    are `rounding`.
    """
    m = system.rows.shape[0]
    vectors = np.array(basis.vectors)
    # Lanczos leaves a band; what rounding has put outside of it is dropped, and so becomes part of the
    # defect.
    transition = sparse.csr_array(np.where(np.abs(basis.projected) > 1e-13, basis.projected, 0.0))
    defect = system.transition @ vectors - (transition @ vectors.T).T
    last = np.any(basis.residual != 0, axis=0)
    skew = float(np.linalg.norm(vectors.T @ vectors - np.eye(basis.size)))
    inside = float(np.linalg.norm(vectors.T @ defect[:, last]))
    terms = int(np.diff(system.transition.indptr).max(initial=1) + np.diff(transition.indptr).max(initial=1))
    unseen = EPSILON / 2 * (terms + 4) * math.sqrt(basis.size)
    rounding = float(np.linalg.norm(defect[:, ~last])) + inside + 2 * skew + unseen
    return Reduction(
        transition=transition,
        rows=np.ascontiguousarray(basis.start[:, :m].T),
        inputs=vectors.T,
        residual=basis.residual.T.copy(),
        rounding=rounding,
        outside=outside,
    )


def _without_average(system: HiddenSystem) -> SpectralRange:
    """The spectrum of a symmetric gossip matrix without its eigenvalue 1, LAPACK's backward error added."""
    values = linalg.eigvalsh(system.transition.toarray())
    slack = 8 * EPSILON * math.sqrt(len(values)) * math.log2(len(values) + 2)
    return SpectralRange(float(values[0]) - slack, float(values[-2]) + slack)
