# SPDX-License-Identifier: Apache-2.0
"""Section 4 of the paper: how fast Δ² is said to grow, and what of it holds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import InputError, at_least
from sottovoce.graphs import as_weights, spectrum
from sottovoce.theory.forms import system_matrix
from sottovoce.theory.mechanisms import decompose, dense

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.graphs import GossipWeights

__all__ = [
    "constant_limit",
    "multiple_node_bound",
    "multiple_node_limit",
    "removed_noise_limit",
    "single_node_bound",
    "single_node_limit",
    "transient_constant",
    "transient_form",
]


def single_node_limit(n: int) -> float:
    """1/n: what Δ²/T is said to tend to for every target, when one node's messages are seen and no noise is known.

    Guarantee: none. It is the limit for constant contributions (`constant_limit`).
    Status: does not hold for nodes near the observer (erratum a): the limit is sup φ, which `sottovoce.rate` gives.
    Source: Theorem 13 of Koskela & Kulkarni.

    >>> single_node_limit(100)
    0.01
    """
    at_least(1, n=n)
    return 1 / n


def multiple_node_limit(n: int, observed: int) -> float:
    """m/n: what Δ²/T is said not to exceed in the limit, when m nodes' messages are seen and no noise is known.

    Guarantee: none for one target. Over all n targets φ sums to m at every frequency, so m/n is their mean.
    Status: does not hold (erratum b), least of all for a target among the observed.
    Source: Theorem 15 of Koskela & Kulkarni, whose limit is printed as (m/n)T.

    >>> multiple_node_limit(3, 2)
    0.6666666666666666
    """
    _check_observed(n, observed)
    return observed / n


def removed_noise_limit(n: int, observed: int) -> float:
    """m/(n − m): what Δ²/T is said not to exceed in the limit, when the noise of the m observed nodes is known.

    Guarantee: none for one target; it is the mean of φ over the n − m others where m rows stay independent.
    Status: does not hold (erratum c): a neighbour has about 1/degree.
    Source: Theorem 16 of Koskela & Kulkarni.

    >>> removed_noise_limit(3, 1)
    0.5
    """
    _check_observed(n, observed)
    if observed >= n:
        raise InputError(
            f"observed must be below n; got {observed} of {n} (leave a node whose noise is hidden)"
        )
    return observed / (n - observed)


def constant_limit(weights: GossipWeights | np.ndarray, target: int, *, known: Sequence[int] = ()) -> float:
    """The limit of Δ²/T over constant contributions, for any view of one row.

        φ_j(0) = π_j² / Σ_{k: noise not known} π_k²,   π the stationary distribution

    Guarantee: exact up to rounding, for one observed row; 1/n for symmetric weights and no known noise.
    Status: holds; it is what Theorem 13 gets right.
    Source: the lower bound in the proof of Theorem 13 of Koskela & Kulkarni.

    >>> constant_limit(np.full((4, 4), 0.25), 0, known=[1])
    0.3333333333333333
    """
    pi = spectrum(as_weights(weights)).stationary
    if target in known:
        raise InputError(
            f"node {target} cannot be a target: its noise is known (choose another, or leave it out)"
        )
    hidden = np.delete(pi, list(known))
    return float(pi[target] ** 2 / (hidden**2).sum())


def multiple_node_bound(n: int, observed: int, rho: float, rounds: int) -> float:
    """The bound that Theorem 15 states for every T, read as a bound of Δ².

        (m/n)T + 2/(1 − ρ)²·√((m/n)T) + 2/(1 − ρ)⁴

    Guarantee: none.
    Status: does not hold (erratum b); it is also printed for Δ²/T, where Δ² is meant (erratum e).
    Source: Theorem 15 of Koskela & Kulkarni.

    >>> multiple_node_bound(2, 1, 0.0, 8)
    10.0
    """
    _check_observed(n, observed)
    at_least(1, rounds=rounds)
    _check_rho(rho)
    stationary = observed / n * rounds
    return stationary + 2 / (1 - rho) ** 2 * math.sqrt(stationary) + 2 / (1 - rho) ** 4


def single_node_bound(n: int, gap: float, rounds: int) -> float:
    """The same for one node, in terms of the spectral gap: the basis of the paper's utility bound.

        T/n + (2/γ²)·√(T/n) + 2/γ⁴

    Guarantee: none.
    Status: does not hold (erratum a): two nodes that average exceed it (`studies.counterexamples`).
    Source: Eq. 5.4 of Koskela & Kulkarni.

    >>> single_node_bound(2, 1.0, 8)
    10.0
    """
    return multiple_node_bound(n, 1, 1 - gap, rounds)


def transient_constant(rho: float, observed: int = 1) -> float:
    """C_mix: what the transient part of Δ² is said not to exceed, for any T.

        (π²/6)·m/(1 − ρ)⁴

    Guarantee: none.
    Status: does not hold (erratum e): `transient_form` grows in proportion to T.
    Source: Lemma G.2 (m = 1) and Lemma H.1 of Koskela & Kulkarni.

    >>> round(transient_constant(0.5), 4)
    26.3189
    """
    at_least(1, observed=observed)
    _check_rho(rho)
    return math.pi**2 / 6 * observed / (1 - rho) ** 4


def transient_form(
    weights: GossipWeights | np.ndarray, observer: int, target: int, stream: np.ndarray
) -> np.ndarray:
    """b_R(c)ᵀ K_t⁻¹ b_R(c) for t = 1..T: the part of Δ² that Lemma G.2 calls transient, for the stream c.

        b_R(c)_t = Σ_{1 ≤ m < t} (R^m)_ij c_{t−m},   K_T = H_T H_Tᵀ,   W = 11ᵀ/n + R

    One Cholesky factorisation serves every t: leading blocks of K_T have leading blocks of its factor.

    Guarantee: exact up to rounding.
    Status: a definition; its bound by `transient_constant` does not hold (erratum e).
    Source: Lemma G.2 of Koskela & Kulkarni.

    >>> transient_form(np.full((2, 2), 0.5), 0, 1, np.ones(3))
    array([0., 0., 0.])
    """
    parts, W, rounds = decompose(weights), dense(weights), len(stream)
    row, seen = np.zeros(len(W)), np.zeros(rounds)
    row[observer] = 1
    for lag in range(1, rounds):
        row = row @ parts.remainder
        seen[lag] = row[target]
    shifted = np.array([seen[t::-1] @ stream[: t + 1] for t in range(rounds)])
    unit = np.zeros((1, len(W)))
    unit[0, observer] = 1
    H = system_matrix(weights, unit, rounds)
    root = np.linalg.cholesky(H @ H.T)
    return np.asarray(np.cumsum(np.linalg.solve(root, shifted) ** 2))


def _check_observed(n: int, observed: int) -> None:
    at_least(1, n=n, observed=observed)
    if observed > n:
        raise InputError(f"observed must be at most n; got {observed} of {n} (name nodes of the network)")


def _check_rho(rho: float) -> None:
    if not 0 <= rho < 1:
        raise InputError(
            f"rho must be at least 0 and below 1; got {rho!r} (the network must be connected and not bipartite)"
        )
