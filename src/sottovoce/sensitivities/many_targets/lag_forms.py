# SPDX-License-Identifier: Apache-2.0
"""What a settled filter shows of an input ever later, in blocks of lags as quadratic forms of the input.

    f_ℓ = D B^ℓ b,   Σ_{L ≤ ℓ < 2L} ‖f_ℓ‖² = bᵀ (B^L)ᵀ G_L B^L b,   G_L = Σ_{ℓ < L} (DB^ℓ)ᵀDB^ℓ,

so that log₂ T forms hold all lags up to T, whatever b is. Σ ‖f_ℓ‖ over a block of L lags is at most √L times the
root of its energy, by Cauchy and Schwarz. A form is kept as a root R and a rest: bᵀXb ≤ ‖Rb‖² + rest·‖b‖², a sum
of squares, in which nothing cancels.
Source: docs/mathematics.md, section 7; docs/proofs/spectra.md; `filtering.ClosedLoop.blocks`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.rounding import TINY, above, closely_above, gamma, roundings
from sottovoce.sensitivities.rounding import SQUARED_SHARE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.filtering import ClosedLoop

__all__ = ["LagForms", "lag_forms"]

# Speed alone: so many inputs are taken at once, for what they show to stay in the processor's cache.
AT_ONCE = 512


@dataclass(frozen=True, kw_only=True, eq=False)
class LagForms:
    """Quadratic forms of an input b, each the energy Σ ‖f_ℓ‖² of a block of `lengths[k]` lags ℓ.

    Form k is at most the squared norm of `roots[begins[k]:begins[k + 1]]`·b and `rests[k]`·‖b‖² more, of which
    `left_out[k]`·‖b‖² is for rows that `fewer` has left out.
    """

    roots: np.ndarray
    begins: np.ndarray
    rests: np.ndarray
    lengths: np.ndarray
    left_out: np.ndarray

    @classmethod
    def of(cls, matrices: Sequence[np.ndarray], lengths: np.ndarray, margins: np.ndarray) -> LagForms:
        """The forms bᵀ`matrices[k]`b, each known up to its margin, as squares.

        Guarantee: `rests` bounds the norm of what the squares leave over. That is measured, and of the
        measurement each entry errs by at most γ_{r+2} times the sum of the sizes behind it; so does the product
        with an input. So eigenvalues that LAPACK got wrong, or that were left out as too small, are in the rest.
        """
        roots, rests = [], []
        for matrix, margin in zip(matrices, margins, strict=True):
            if not np.isfinite(matrix).all():
                # A loop that grows shows no end of energy.
                roots.append(np.zeros((1, len(matrix))))
                rests.append(np.inf)
                continue
            symmetric = (matrix + matrix.T) / 2
            values, vectors = np.linalg.eigh(symmetric)
            kept = (values > 0) & (values >= roundings(len(matrix)) * values[-1])
            kept[-1] = True
            root = np.sqrt(np.maximum(values[kept], 0))[:, None] * vectors[:, kept].T
            unit, size = roundings(len(matrix) + 4), float((root**2).sum())
            rest = float(np.linalg.norm(symmetric - root.T @ root)) + unit * size
            rest += roundings(1) * float(np.linalg.norm(matrix)) + 2 / SQUARED_SHARE * unit**2 * size
            roots.append(root)
            rests.append(closely_above(rest) + margin + TINY)
        return cls(
            roots=np.vstack(roots) if roots else np.zeros((0, 0)),
            begins=np.cumsum([0, *map(len, roots)])[:-1],
            rests=np.array(rests),
            lengths=lengths,
            left_out=np.zeros(len(rests)),
        )

    def fewer(self, share: float) -> LagForms:
        """The same forms without rows that are below this share of the longest of their root, as squares.

        Guarantee: upper bounds still. What rows R show of b is at most ‖RRᵀ‖·‖b‖², and the norm at most the largest sum
        of sizes in a row; of k rows the products err by kγ_r of the longest at most. `energies` has room for the sums.
        """
        roots, left_out = [], np.zeros_like(self.rests)
        for k, root in enumerate(self._each):
            sizes = (root**2).sum(axis=1)
            kept = sizes >= share * sizes.max()
            short = root[~kept]
            if len(short):
                products = np.abs(short @ short.T).sum(axis=1).max()
                left_out[k] = products * (1 + gamma(2 * len(short)) * (root.shape[1] + 2))
            roots.append(root[kept])
        return LagForms(
            roots=np.vstack(roots) if roots else self.roots,
            begins=np.cumsum([0, *map(len, roots)])[:-1],
            rests=self.rests + left_out,
            lengths=self.lengths,
            left_out=left_out,
        )

    @property
    def _each(self) -> list[np.ndarray]:
        """The root of each form."""
        return np.split(self.roots, self.begins[1:]) if self.lengths.size else []

    def energies(self, sources: np.ndarray) -> np.ndarray:
        """Upper bounds of the forms, one row each, for each column of `sources`.

        Guarantee: (1 + η) of the squares as computed, sums of up to 1/u of them included, and the rests.
        """
        shown = np.empty((len(self.lengths), sources.shape[1]))
        for begin in range(0, sources.shape[1], AT_ONCE):
            part = np.ascontiguousarray(sources[:, begin : begin + AT_ONCE])
            for k, root in enumerate(self._each):
                seen = root @ part
                np.einsum("ij,ij->j", seen, seen, out=shown[k, begin : begin + AT_ONCE])
        return np.asarray(
            (1 + 2 * SQUARED_SHARE) * shown + above(np.outer(self.rests, (sources**2).sum(axis=0)))
        )

    def norm_sum(self, sources: np.ndarray) -> np.ndarray:
        """An upper bound of Σ ‖f_ℓ‖ over all the lags, for each column of `sources`.

        Guarantee: by Cauchy and Schwarz, block by block; the caller covers the sum's own rounding.
        """
        return self.norm_sums(sources)[0]

    def norm_sums(self, sources: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same, and what it would be if rows that were left out showed nothing.

        Guarantee: the first is that of `norm_sum`; the second is none.
        """
        energies, weights = self.energies(sources), np.sqrt(self.lengths)
        spare = above(np.outer(self.left_out, (sources**2).sum(axis=0)))
        return weights @ np.sqrt(energies), weights @ np.sqrt(np.maximum(energies - spare, 0))


@np.errstate(over="ignore", invalid="ignore")
def lag_forms(closed: ClosedLoop, first: int, rounds: int) -> LagForms:
    """The lags from `first`, a power of two, up to `rounds` at least, in blocks that double.

    Guarantee: upper bounds of the energies, rounding included (see `ClosedLoop.blocks`).
    """
    blocks = [block for block in closed.blocks(rounds) if block.length >= first]
    return LagForms.of(
        [block.added for block in blocks],
        np.array([block.length for block in blocks]),
        np.array([block.added_error for block in blocks]),
    )
