# SPDX-License-Identifier: Apache-2.0
"""The hidden system on a Krylov space: a few dozen states instead of all unknown nodes.

What a view shows of s is C s, C A s, C A² s, …, so that only the span of Cᵀ, AᵀCᵀ, (Aᵀ)²Cᵀ, … counts. With Q an
orthonormal basis of a part of it,

    AᵀQ = Q H + Q₊ f,   Cᵀ = Q G,   w = Qᵀs:   w_t = Hᵀ w_{t−1} + Qᵀ(x_t + u_t) + fᵀQ₊ᵀ s_{t−1},   C s = Gᵀ w.

The last term is what the space cuts. It is bounded over T rounds by `sottovoce.krylov.proved_power_error`, and for
ever by `ClosedLoop.coupling`; here only how far these relations are off is measured.

Source: docs/mathematics.md, section 6; docs/proofs/cut.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from sottovoce.krylov import measured_defect
from sottovoce.rounding import roundings

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from sottovoce.filtering.elimination import HiddenSystem
    from sottovoce.krylov import Defect, KrylovBasis

__all__ = ["KrylovSpace", "krylov_space"]

# Speed alone: Lanczos leaves a band, and what rounding has put outside of it is dropped; `defect` is measured
# after.
SPECK = roundings(8)
# Speed alone: vectors are moved out of a store that is so many times as large.
ROOMY = 1.25


@dataclass(frozen=True, kw_only=True, eq=False)
class KrylovSpace:
    """Transition QᵀAQ, rows CQ, and for each unknown node its row of Q as an input; noise has covariance QᵀQ = I.

    AᵀQ = QH + Q₊f and Cᵀ = Q `rows`ᵀ hold up to `defect`; `basis` has Q, H, f and Q₊ as they were measured. With r
    dimensions, m rows and n nodes `transition` is (r, r), `rows` (m, r) and `inputs` (r, n).
    """

    transition: np.ndarray | csr_array
    rows: np.ndarray
    inputs: np.ndarray
    basis: KrylovBasis
    defect: Defect


def krylov_space(system: HiddenSystem, basis: KrylovBasis, block: np.ndarray) -> KrylovSpace:
    """The system in the coordinates of a basis that was grown from `block`: the rows, and what else comes after.

    Guarantee: what rounding and dropping put the relations off by is in `defect`, measured.
    Source: `sottovoce.krylov.measured_defect`.
    """
    projected = basis.projected
    if system.symmetric:
        projected = np.where(np.abs(projected) > SPECK, projected, 0.0)
    basis = replace(basis, vectors=_kept(basis.vectors), projected=projected)
    return KrylovSpace(
        transition=sparse.csr_array(projected) if system.symmetric else np.ascontiguousarray(projected.T),
        rows=np.ascontiguousarray(basis.start[:, : system.rows.shape[0]].T),
        inputs=basis.vectors.T,
        basis=basis,
        defect=measured_defect(system.adjoint, block, basis),
    )


def _kept(vectors: np.ndarray) -> np.ndarray:
    """The vectors without the rest of a store in which they lie, if that is much larger."""
    store = vectors.base
    return np.array(vectors) if store is None or store.nbytes > ROOMY * vectors.nbytes else vectors
