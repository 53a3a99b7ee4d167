# SPDX-License-Identifier: Apache-2.0
"""Section 2 of the paper: composition, the projected Gaussian mechanism, and W as a mean and a remainder."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import GraphError, InputError, at_least, positive
from sottovoce.graphs import as_weights

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from sottovoce.graphs import GossipWeights

__all__ = ["Decomposition", "composed_mu", "decompose", "dense", "projected_sensitivity"]

# A difference may stick out of the range of A by this much of its length, which rounding explains.
RANGE = 1e-9


def composed_mu(sensitivity: float, noise: float, rounds: int) -> float:
    """The μ of T Gaussian mechanisms in a row, from which `sottovoce.gaussian.delta` gives δ(ε).

        μ = √T·Δ/σ

    Guarantee: exact up to rounding, for adaptive compositions too.
    Status: holds.
    Source: Lemma 4 of Koskela & Kulkarni; Dong, Roth & Su 2022.

    >>> composed_mu(1.0, 4.0, 16)
    1.0
    """
    positive(sensitivity=sensitivity, noise=noise)
    at_least(1, rounds=rounds)
    return math.sqrt(rounds) * sensitivity / noise


def projected_sensitivity(difference: ArrayLike, noise_map: ArrayLike) -> float:
    """The sensitivity ‖A⁺v‖ of f(D) + A Z for one pair with f(D) − f(D') = v: the pair is that far apart.

    Args:
        difference: v.
        noise_map: A, one row for each coordinate of v.

    Guarantee: exact up to rounding for this pair, if v lies in the range of A; an error otherwise, because then the
    pair can be told apart with certainty. Singular values below rounding are taken as 0, so this is a tool for
    studies and no certificate.
    Status: holds.
    Source: Lemma 6 of Koskela & Kulkarni.

    >>> round(projected_sensitivity([1.0, 1.0], [[1.0, 0.0], [1.0, 0.0]]), 12)
    1.0
    """
    v, A = np.asarray(difference, dtype=np.float64), np.asarray(noise_map, dtype=np.float64)
    solution = np.linalg.pinv(A) @ v
    if np.linalg.norm(A @ solution - v) > RANGE * np.linalg.norm(v):
        raise InputError(
            "the difference must lie in the range of the noise map; it does not, so no noise hides part of it "
            "(Lemma 6 does not apply: the privacy loss is infinite)"
        )
    return float(np.linalg.norm(solution))


@dataclass(frozen=True, kw_only=True, eq=False)
class Decomposition:
    """W = 11ᵀ/n + R with ‖Rᵗ‖₂ = ρᵗ."""

    mean: np.ndarray
    remainder: np.ndarray
    rho: float

    @property
    def gap(self) -> float:
        """γ = 1 − ρ.

        Guarantee: exact up to the rounding of ρ.
        """
        return 1 - self.rho


def decompose(weights: GossipWeights | np.ndarray) -> Decomposition:
    """A symmetric gossip matrix as its limit and what vanishes.

        W = P + R,   P = 11ᵀ/n,   1ᵀR = 0,   PR = RP = 0,   ‖Rᵗ‖₂ = ρᵗ,   ρ = max{|λ| : λ ≠ 1}

    Guarantee: exact up to rounding.
    Status: holds.
    Source: Lemma 9 of Koskela & Kulkarni.

    >>> round(decompose(np.array([[0.75, 0.25], [0.25, 0.75]])).rho, 12)
    0.5
    """
    W = dense(weights)
    if not np.allclose(W, W.T, rtol=0, atol=1e-12):
        raise GraphError(
            "the weights must be symmetric for this statement; these are not (use metropolis_weights)"
        )
    mean = np.full_like(W, 1 / len(W))
    remainder = W - mean
    return Decomposition(mean=mean, remainder=remainder, rho=float(np.linalg.norm(remainder, 2)))


def dense(weights: GossipWeights | np.ndarray) -> np.ndarray:
    """The gossip matrix as an array.

    Guarantee: exact; the floats that `GossipWeights` holds.
    """
    return np.asarray(as_weights(weights).matrix.toarray())
