# SPDX-License-Identifier: Apache-2.0
"""Krylov spaces for an infinite horizon: where the spectrum of A lies, and how the cut part still enters.

With Q the basis, AᵀQ = QH + Q₊Jᵀ. The coordinates Qᵀs of the true state move like the reduced system with
one more input, J·(Q₊ᵀs_{t−1}), and Q₊ᵀs is the noise through (I − zA)⁻¹, whose norm on the circle is one
over the distance from e^{iω} to the spectrum of A. Where no noise is known, A = W has the eigenvalue 1 with
eigenvector 1: that vector is put into the space, Q₊ is orthogonal to it, and only the rest of the spectrum
counts. docs/proofs/cut.md says what rounding does to each of these.

In the code Q, H, Q₊ and Jᵀ are `basis.vectors`, `projected`, `following` and `factor`; `Reduction.residual` is J.
Where the spectrum lies is soundness: a range that is too narrow would understate what is cut. How large a space is
grown is speed.

Source: docs/proofs/cut.md; docs/mathematics.md, sections 6 and 8.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import cg

from sottovoce.filtering import KrylovSpace, krylov_space, terms
from sottovoce.krylov import krylov_bases
from sottovoce.rates.rounding import AVERAGE_HELD, FLOATED, off_average, range_beside_average
from sottovoce.rounding import above, gamma, roundings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sottovoce.filtering import HiddenSystem
    from sottovoce.krylov import KrylovBasis

__all__ = ["Reduction", "SpectralRange", "reductions", "spectral_range"]

# Speed alone: networks larger than this have no second eigenvalue computed, spaces larger than this are given up,
# and so are those whose vectors would hold more numbers than this.
LARGEST_DENSE, LARGEST_SPACE, LARGEST_STORE = 3000, 1600, 50_000_000


@dataclass(frozen=True, slots=True)
class SpectralRange:
    """Real numbers between which all eigenvalues of a symmetric matrix lie."""

    lowest: float
    highest: float

    def resolvent(self, frequency: float) -> float:
        """1 / min |e^{iω} − λ| over the range: the norm of (I − e^{−iω}A)⁻¹ is at most this.

        Guarantee: upper bound for a symmetric A whose spectrum is in the range; infinite where e^{iω} may be in it.
        """
        nearest = min(max(math.cos(frequency), self.lowest), self.highest)
        distance = math.hypot(math.cos(frequency) - nearest, math.sin(frequency))
        # A cosine and a sine are off by a few units.
        distance -= roundings(4)
        return (1 + FLOATED) / distance if distance > 0 else math.inf

    def largest(self) -> float:
        """The largest `resolvent` over all frequencies: a real range is closest to the circle at 1 or at −1.

        Guarantee: an upper bound for all frequencies.
        """
        return max(self.resolvent(0.0), self.resolvent(math.pi))


@dataclass(frozen=True, kw_only=True, eq=False)
class Reduction:
    """A Krylov space, where the spectrum of the rest lies, and how far the loop may be `off` in its coordinates.

    `rounding` bounds what the relations of the space are off by, for the exact weights and rows.
    """

    space: KrylovSpace
    outside: SpectralRange
    rounding: float
    off: float

    @property
    def residual(self) -> np.ndarray:
        """J, through which the rest enters."""
        return self.space.basis.factor.T


def spectral_range(system: HiddenSystem) -> SpectralRange:
    """A range that holds the spectrum of a symmetric transition without negative entries.

    Guarantee: both ends are proved, whatever v comes out: Gershgorin's circles from below; from above Collatz and
    Wielandt's max_i (Av)_i/v_i for a positive v, where v ≈ (I − A)⁻¹1, which is Perron's vector up to what fades
    fast.
    Source: Horn & Johnson, *Matrix Analysis*, Theorems 6.1.1 and 8.1.26.
    """
    matrix = system.transition
    sums = np.asarray(matrix.sum(axis=1)).ravel()
    lowest = float((2 * matrix.diagonal() - sums).min())
    # Sums and quotients are rounded, and so were the weights.
    slack = gamma(2 * (terms(matrix) + 4))
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
    """Growing reductions of a symmetric system, none if there is no bound of what they would cut.

    Where all eigenvalues are below 1 the rows alone start the space. Where 1 is one of them, its eigenvector joins
    the rows; before that, the space that the rows alone span is tried if it closes.

    Guarantee: the spectrum of what each leaves out is in its `outside`.
    """
    n = system.unknown.size
    if whole is None:
        return
    if whole.highest < 1:
        yield from _growing(system, system.rows.T, whole, average=False)
    elif n <= LARGEST_DENSE:
        low, high = range_beside_average(system.transition)
        outside = SpectralRange(low - roundings(2), high + roundings(2))
        yield from _growing(system, system.rows.T, outside, average=True, closed=True)
        average = np.full((n, 1), 1 / math.sqrt(n))
        yield from _growing(system, np.hstack([system.rows.T, average]), outside, average=True)


def _growing(
    system: HiddenSystem, start: np.ndarray, outside: SpectralRange, *, average: bool, closed: bool = False
) -> Iterator[Reduction]:
    """Reductions at sizes that grow by a third: each is solved before the next one is asked for.

    It ends where the space is closed, or as large as is affordable. A reduction that cannot be bounded is passed
    over. With `closed` it is the space alone that A maps into itself, if it is small: a symmetric graph, or a view of
    few rows of one.

    Guarantee: each reduction that comes out knows by how much it may be off; the caller takes the first that is close
    enough. On a closed space nothing is cut off, so that it shows what the system shows but for rounding.
    """
    largest = _largest(system)
    if start.shape[1] > largest or not outside.largest() < 1e9:
        return
    check_at = 1.0
    for basis in krylov_bases(system.transition.tocsr(), start, largest=largest, symmetric=True):
        if basis.residual.shape[0] == 0 or (not closed and basis.size >= min(check_at, largest)):
            check_at = max(1.3 * basis.size, 16)
            reduction = _reduction(system, basis, start, outside, average=average)
            if reduction is not None:
                yield reduction


def _largest(system: HiddenSystem) -> int:
    """The largest space worth its time and memory."""
    n = int(system.unknown.size)
    return min(n // 2 + 1, LARGEST_SPACE, max(200, LARGEST_STORE // n))


def _reduction(
    system: HiddenSystem, basis: KrylovBasis, start: np.ndarray, outside: SpectralRange, *, average: bool
) -> Reduction | None:
    """The system on a basis; None if the `average` is not to be cut and the space does not hold it.

    Guarantee: `rounding` and `off` bound what they say.
    """
    space = krylov_space(system, basis, start)
    # The weights are floats of the exact ones, and so are the rows.
    rounding = space.defect.relation + space.defect.start + system.rows_error + roundings(2)
    off = 0.0
    if average:
        moved, beside, met = off_average(system.transition, space.basis.vectors, space.basis.following)
        if max(moved, beside) > AVERAGE_HELD:
            return None
        # J Q₊ᵀ and E₁ meet the average through Q, which is in the loop; what moves it meets the rest.
        off = above(moved + met * float(np.linalg.norm(space.basis.factor)))
    return Reduction(space=space, outside=outside, rounding=rounding, off=off)
