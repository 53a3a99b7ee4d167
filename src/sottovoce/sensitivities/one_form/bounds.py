# SPDX-License-Identifier: Apache-2.0
"""Upper bounds of Δ² = max Σ_st M_st ⟨c_s, c_t⟩ over ‖c_t‖ ≤ 1: any y with diag(y) ⪰ M gives Δ² ≤ Σ y_t.

All hold for every dimension of the contributions, by weak duality: ⟨M, X⟩ ≤ ⟨diag(y), X⟩ = Σ y_t for every Gram
matrix X of vectors of norm at most 1.
"""

from __future__ import annotations

import numpy as np

from sottovoce.filtering import top_eigenvalue
from sottovoce.rounding import gamma
from sottovoce.sensitivities.rounding import summed

__all__ = ["absolute_bound", "spectral_bound"]


def absolute_bound(forms: np.ndarray) -> np.ndarray:
    """Σ_st |M_st|, the choice y_t = Σ_s |M_ts|, for a stack of forms M.

    Guarantee: upper bound for every dimension, rounding included; but for that exact (at c = 1) where M ≥ 0.
    Source: Theorem 12 of Koskela & Kulkarni, where Δ is printed for Δ²; Bellet et al. 2025, Theorem 7.

    >>> absolute_bound(np.array([[2.0, -1.0], [-1.0, 2.0]]))
    array(6.)
    """
    return np.asarray(np.abs(forms).sum(axis=-1).sum(axis=-1) * summed(2 * forms.shape[-1]))


def spectral_bound(forms: np.ndarray) -> np.ndarray:
    """T·λ_max(M), the choice y_t = λ_max(M), for a stack of forms M.

    Guarantee: upper bound for every dimension and every symmetric M as stored, λ_max by a Cholesky factor.
    Source: Section 3.4 of Koskela & Kulkarni; docs/proofs/spectra.md for `top_eigenvalue`.

    >>> float(spectral_bound(np.array([[2.0, -1.0], [-1.0, 2.0]])).round(9))
    6.0
    """
    rounds = forms.shape[-1]
    largest = [max(0.0, top_eigenvalue(form)) for form in forms.reshape(-1, rounds, rounds)]
    return np.asarray(rounds * np.reshape(largest, forms.shape[:-2]) * (1 + gamma(4)))
