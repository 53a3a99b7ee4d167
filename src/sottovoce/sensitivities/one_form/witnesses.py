# SPDX-License-Identifier: Apache-2.0
"""Lower bounds of Δ²: streams c with |c_t| ≤ 1 that a pair of neighbouring inputs really can differ by.

Whatever stream is found, Σ_st M_st c_s c_t ≤ Δ²: a poor search gives a lower end that is low, never one that is
wrong. `enumerated_signs` alone is behind upper ends too, because it leaves none out. What rounding does to a
value is taken off by whoever reports it (`rounding.value_error`).
Source: docs/mathematics.md, section 3; docs/proofs/sums.md.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

__all__ = [
    "ENUMERABLE",
    "alternating_signs",
    "best_signs",
    "constant_signs",
    "enumerated_signs",
    "flip_signs",
    "rounded_signs",
    "spectral_signs",
    "value_of",
]

# Speed alone: 2^(T−1) sign patterns are tried one and all up to this many rounds. Half a
# million values, in one product.
ENUMERABLE = 20


def value_of(form: np.ndarray, stream: np.ndarray) -> float:
    """Σ_st M_st ⟨c_s, c_t⟩ for a stream of shape (T,) or (T, d).

    Guarantee: within `value_error` of the true value, for rows of norm at most 1 (docs/proofs/sums.md).

    >>> value_of(np.array([[2.0, -1.0], [-1.0, 2.0]]), alternating_signs(2))
    6.0
    """
    return float(np.sum(stream * (form @ stream)))


def constant_signs(rounds: int) -> np.ndarray:
    """The stream that contributes the same in every round; it attains Δ² where M ≥ 0."""
    return np.ones(rounds)


def alternating_signs(rounds: int) -> np.ndarray:
    """The stream that changes sign in every round, from +1; it turns by π, the highest frequency that there is."""
    return (-1.0) ** np.arange(rounds)


def spectral_signs(form: np.ndarray) -> np.ndarray:
    """The signs of the eigenvector of λ_max(M): the best stream of its length, rounded to signs."""
    last = len(form) - 1
    return _signs_of(linalg.eigh(form, subset_by_index=(last, last))[1][:, 0])


def rounded_signs(streams: np.ndarray) -> np.ndarray:
    """Signs of the projections of a vector stream on its own principal directions and their sums, one row each.

    Source: hyperplane rounding of Goemans & Williamson (1995), with fixed instead of random hyperplanes.
    """
    _, _, directions = np.linalg.svd(streams, full_matrices=False)
    leading = directions[:4]
    angles = np.linspace(0, np.pi, 8, endpoint=False)
    turned = [np.cos(a) * leading[0] + np.sin(a) * leading[1] for a in angles] if len(leading) > 1 else []
    return _signs_of(np.stack([*leading, *turned]) @ streams.T)


def flip_signs(form: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """Flip one sign at a time, the most profitable first, until no single flip raises cᵀMc.

    Flipping sign t changes the value by 4(M_tt − c_t (Mc)_t). Ends after at most 4 T flips. M c is carried along
    rather than computed anew, so that it drifts by rounding; signs are signs all the same.

    >>> flip_signs(np.array([[2.0, -1.0], [-1.0, 2.0]]), np.ones(2))
    array([-1.,  1.])
    """
    improved = signs.copy()
    product = form @ improved
    diagonal = np.diagonal(form)
    for _ in range(4 * len(signs)):
        gains = diagonal - improved * product
        t = int(np.argmax(gains))
        if gains[t] <= 1e-12 * max(diagonal[t], 1e-300):
            break
        # M c⁺ = M c + 2 c⁺_t M e_t, for c⁺ = c with sign t flipped
        improved[t] = -improved[t]
        product += 2 * improved[t] * form[:, t]
    return improved


def best_signs(form: np.ndarray, streams: np.ndarray | None = None) -> np.ndarray:
    """The best stream of signs among constant, alternating, spectral and rounded ones, each improved by flips.

    Guarantee: its value is a lower bound of Δ² for scalars, and so for vectors.
    """
    rounds = len(form)
    starts = [constant_signs(rounds), alternating_signs(rounds), spectral_signs(form)]
    if streams is not None:
        starts += list(rounded_signs(streams))
    return max((flip_signs(form, start) for start in starts), key=lambda signs: value_of(form, signs))


def enumerated_signs(form: np.ndarray) -> np.ndarray:
    """The best of all 2^(T−1) sign streams, for T up to `ENUMERABLE`.

    The rounds are split in two halves a and b: cᵀMc = aᵀM_aa a + bᵀM_bb b + 2 aᵀM_ab b, so one matrix product
    values every combination.

    Guarantee: exact maximum over signs (of the stored form, up to rounding in its value).

    >>> enumerated_signs(np.array([[2.0, -1.0], [-1.0, 2.0]]))
    array([ 1., -1.])
    """
    rounds = len(form)
    half = rounds // 2
    # c and −c have the same value, so the first sign is held at +1.
    first = all_signs(half)
    if half:
        first = first[first[:, 0] > 0]
    second = all_signs(rounds - half)
    if not half:
        second = second[second[:, 0] > 0]
    inner = np.einsum("ps,st,pt->p", first, form[:half, :half], first)
    outer = np.einsum("ps,st,pt->p", second, form[half:, half:], second)
    values = inner[:, None] + outer + 2 * (first @ form[:half, half:]) @ second.T
    p, q = np.unravel_index(int(np.argmax(values)), values.shape)
    return np.concatenate([first[p], second[q]])


def all_signs(count: int) -> np.ndarray:
    """All 2^count sign vectors, one row each."""
    bits = np.arange(2**count)[:, None] >> np.arange(count)
    return np.asarray(1.0 - 2.0 * (bits & 1))


def _signs_of(values: np.ndarray) -> np.ndarray:
    """+1 where not negative, −1 elsewhere."""
    return np.where(values < 0, -1.0, 1.0)
