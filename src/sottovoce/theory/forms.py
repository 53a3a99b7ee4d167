# SPDX-License-Identifier: Apache-2.0
"""Section 3 of the paper as it is printed: the system matrix H_T entry by entry, its pseudoinverse, all signs."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import InputError, at_least
from sottovoce.theory.mechanisms import dense

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from sottovoce.graphs import GossipWeights

__all__ = [
    "absolute_bound",
    "constant_value",
    "largest_over_signs",
    "quadratic_form",
    "spectral_bound",
    "system_matrix",
]

# 2^(T−1) sign vectors are held in memory.
MOST_ROUNDS = 16


def system_matrix(weights: GossipWeights | np.ndarray, observation: ArrayLike, rounds: int) -> np.ndarray:
    """H_T: everything that T rounds of observation say, as one map of all contributions (and all noise).

        H_T = [S; SW, S; SW², SW, S; …],   mT × nT

    Args:
        weights: the gossip matrix W.
        observation: S, one row for each number that is seen in a round.
        rounds: T.

    Guarantee: exact up to rounding. Needs memory for mT·nT numbers.
    Status: holds.
    Source: Lemma 10 and Eq. 3.2 of Koskela & Kulkarni.

    >>> system_matrix(np.full((2, 2), 0.5), [[1, 0]], 2)
    array([[1. , 0. , 0. , 0. ],
           [0.5, 0.5, 1. , 0. ]])
    """
    at_least(1, rounds=rounds)
    W, S = dense(weights), np.atleast_2d(np.asarray(observation, dtype=np.float64))
    m, n = S.shape
    H = np.zeros((m * rounds, n * rounds))
    power = S
    for lag in range(rounds):
        for t in range(lag, rounds):
            H[t * m : (t + 1) * m, (t - lag) * n : (t - lag + 1) * n] = power
        power = power @ W
    return H


def quadratic_form(
    weights: GossipWeights | np.ndarray,
    observation: ArrayLike,
    target: int,
    rounds: int,
    *,
    known: Sequence[int] = (),
) -> np.ndarray:
    """M_T with cᵀM_T c the squared sensitivity of the stream c: from H_T and its pseudoinverse.

        M_T = G_Tᵀ (N Nᵀ)⁺ G_T,   G_T the target's columns of H_T, N those of nodes whose noise is not known

    Args:
        weights: the gossip matrix W.
        observation: S, one row for each number that is seen in a round.
        target: the index j of the node to protect.
        rounds: T.
        known: indices of the nodes whose noise the observer removes.

    Guarantee: exact up to rounding where no singular value is close to the cutoff of a pseudoinverse; near it, too
    small. A tool for studies and no certificate.
    Status: holds.
    Source: Theorem 12 (V Vᵀ restricted to the target), Sections 3.3 and 3.4 of Koskela & Kulkarni.

    >>> quadratic_form(np.full((2, 2), 0.5), [[1, 0]], 1, 2).round(4)
    array([[0.2, 0. ],
           [0. , 0. ]])
    """
    H = system_matrix(weights, observation, rounds)
    n = H.shape[1] // rounds
    if target in known:
        raise InputError(
            f"node {target} cannot be a target: its noise is known (choose another, or leave it out)"
        )
    columns = np.arange(n * rounds).reshape(rounds, n)
    N = H[:, np.delete(columns, list(known), axis=1).ravel()]
    solved = np.linalg.pinv(N) @ H[:, columns[:, target]]
    return np.asarray(solved.T @ solved)


def largest_over_signs(form: np.ndarray) -> float:
    """Δ² = max over c ∈ {±1}^T of cᵀM_T c, by trying all of them, up to 16 rounds.

    Guarantee: exact up to rounding for numbers; for vectors only a lower bound.
    Status: holds for numbers that are fixed in advance; not for vectors (erratum d), nor for contributions that
    depend on hidden states (erratum f).
    Source: Theorem 12 of Koskela & Kulkarni.

    >>> largest_over_signs(np.array([[2.0, -1.0], [-1.0, 2.0]]))
    6.0
    """
    rounds = len(form)
    if rounds > MOST_ROUNDS:
        raise InputError(
            f"all signs of at most {MOST_ROUNDS} rounds can be tried; got {rounds} (use sottovoce.sensitivity)"
        )
    rest = np.array(list(itertools.product((1.0, -1.0), repeat=rounds - 1))).reshape(-1, rounds - 1)
    signs = np.column_stack([np.ones(len(rest)), rest])
    return float(((signs @ form) * signs).sum(axis=1).max())


def absolute_bound(form: np.ndarray) -> float:
    """Σ_st |M_st|.

    Guarantee: upper bound of Δ² in every dimension, exact where M ≥ 0.
    Status: holds for Δ²; the paper prints Δ on the left, which does not hold (erratum e).
    Source: Theorem 12 of Koskela & Kulkarni; Theorem 7 of Bellet et al. 2025 (Theorem A.3 of the paper).

    >>> absolute_bound(np.array([[2.0, -1.0], [-1.0, 2.0]]))
    6.0
    """
    return float(np.abs(form).sum())


def spectral_bound(form: np.ndarray) -> float:
    """T·λ_max(M_T).

    Guarantee: upper bound of Δ² in every dimension, up to rounding.
    Status: holds; that it is within 10 percent holds on the paper's graphs for long horizons (study figure-2).
    Source: Section 3.4 and Appendix F of Koskela & Kulkarni.

    >>> round(spectral_bound(np.array([[2.0, -1.0], [-1.0, 2.0]])), 9)
    6.0
    """
    return float(len(form) * np.linalg.eigvalsh(form)[-1])


def constant_value(form: np.ndarray) -> float:
    """1ᵀM_T 1: the squared sensitivity of the stream that contributes the same in every round.

    Guarantee: lower bound of Δ².
    Status: holds.
    Source: Appendix F of Koskela & Kulkarni.

    >>> constant_value(np.array([[2.0, -1.0], [-1.0, 2.0]]))
    2.0
    """
    return float(form.sum())
