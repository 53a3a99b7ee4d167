# SPDX-License-Identifier: Apache-2.0
"""What Δ² is compared with: everyone sees all, a trusted server, and Muffliato's Rényi bound."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import InputError, at_least, probability
from sottovoce.graphs import as_weights
from sottovoce.theory.mechanisms import dense

if TYPE_CHECKING:
    from sottovoce.graphs import GossipWeights

__all__ = ["central_growth", "local_growth", "muffliato_growth", "renyi_epsilon"]


def local_growth(rounds: int) -> float:
    """Δ² = T: every message is seen, so that each contribution hides in its own noise alone.

    Guarantee: exact, for training as well.
    Status: holds.
    Source: Appendix A of Koskela & Kulkarni (local DP, S = I).

    >>> local_growth(100)
    100.0
    """
    at_least(1, rounds=rounds)
    return float(rounds)


def central_growth(n: int, rounds: int) -> float:
    """Δ² = T/n: a trusted server shows each round's sum of all contributions and all noise.

    Guarantee: exact.
    Status: holds. Remark 14 gives the average the noise variance nσ²; the sum has that, the average σ²/n (erratum e).
    Source: Remark 14 of Koskela & Kulkarni.

    >>> central_growth(100, 1000)
    10.0
    """
    at_least(1, n=n, rounds=rounds)
    return rounds / n


def muffliato_growth(
    weights: GossipWeights | np.ndarray, observer: int, target: int, rounds: int
) -> np.ndarray:
    """The κ_T of Muffliato's Rényi bound, for T = 1..rounds, with a fresh contribution and fresh noise in every round.

    The loss of every message is added as if it stood alone: for a contribution of round s and the messages of the
    observer's neighbours w, k = 0..T−s rounds later,

        D_α ≤ (α/2σ²)·κ_T,   κ_T = Σ_{s ≤ T} Σ_{k ≤ T−s} Σ_{w ∈ N(v)} (W^k)_wj² / ‖(W^k)_w·‖²,

    to be set beside Δ², for which D_α = (α/2σ²)·Δ². κ_T grows as T².

    Args:
        weights: the gossip matrix W.
        observer: the index v of the node that sees its neighbours' messages.
        target: the index j of the node to protect.
        rounds: the largest T.

    Guarantee: upper bound of the Rényi divergence under the neighbourhood view without known noise, up to rounding.
    Status: holds; loose by a factor that grows with T.
    Source: Cyffers et al. 2022 (Muffliato), pairwise network DP of gossip averaging, composed over rounds.

    >>> muffliato_growth(np.full((2, 2), 0.5), 0, 1, 3)
    array([1. , 2.5, 4.5])
    """
    at_least(1, rounds=rounds)
    network = as_weights(weights)
    neighbours = network.neighbours(observer)
    if target == observer:
        raise InputError(f"node {target} cannot be its own observer (choose another target)")
    W = dense(network)
    power, losses = np.eye(len(W))[neighbours], np.empty(rounds)
    for k in range(rounds):
        losses[k] = (power[:, target] ** 2 / (power**2).sum(axis=1)).sum()
        power = power @ W
    # A contribution of round s has met lags 0..T−s: summing once gives that, twice all contributions.
    return np.asarray(losses.cumsum().cumsum())


def renyi_epsilon(growth: float, noise_multiplier: float, delta: float) -> float:
    """The ε at δ of a mechanism whose Rényi divergence is at most (α/2σ²)·κ for every order α.

        ε = ρ + 2√(ρ log(1/δ)),   ρ = κ/2σ²

    Guarantee: upper bound, for any mechanism with that Rényi curve. A Gaussian mechanism has a smaller ε.
    Status: holds.
    Source: Mironov 2017, Proposition 3, at its best order; Bun & Steinke 2016, Proposition 1.3.

    >>> round(renyi_epsilon(1.0, 1.0, 1e-5), 4)
    5.2985
    """
    probability(delta=delta)
    if not growth >= 0 or not noise_multiplier > 0:
        raise InputError(
            f"growth must be at least 0 and noise_multiplier above 0; got {growth!r} and {noise_multiplier!r}"
        )
    rho = growth / (2 * noise_multiplier**2)
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))
