# SPDX-License-Identifier: Apache-2.0
"""Gaussian mechanisms drawn at random: what an attacker learns who is told which one it was.

If coins that have nothing to do with the data choose the mechanism with μ_k with probability p_k, then for neighbouring
inputs P = Σ p_k P_k and Q = Σ p_k Q_k, and since the hockey-stick divergence is jointly convex,

    δ(ε) ≤ Σ_k p_k δ(ε; μ_k).

The bound is attained by an attacker who sees the coins. Records that take part in each of T rounds with probability q
(Poisson sampling) draw K ~ Bin(T, q) rounds; μ_k is then that of k rounds, the worst ones.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from sottovoce import gaussian
from sottovoce.errors import InputError, at_least, probability
from sottovoce.rounding import roundings

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array: TypeAlias = NDArray[np.float64]

__all__ = ["binomial_above", "mixed_delta", "mixed_epsilon"]

# Probabilities below this are raised to it, so that nothing is lost where products underflow.
_FLOOR = 1e-290
# Where ε is known to this share of itself the search for it ends. Secants get there in about ten steps; what they do
# not, halvings do.
_FINENESS = 1e-12
_SECANTS, _HALVINGS = 30, 60
_LEAST = 5e-324


def binomial_above(count: int, rate: float) -> Array:
    """Bounds of P(K = k) for k = 0 … count, where K counts heads among `count` tosses with probability `rate`.

        r_{k+1}/r_k = (count − k)/(k + 1) · q/(1 − q),     P(K = k) = r_k / Σ r

    started with r = 1 at the most likely k.

    **Guarantee:** upper bounds. A ratio takes four roundings and its product with r one more, so r is off by at most
    5·count·u relatively, its sum by count·u beyond that, and the quotient by the sum of both: less than
    12 (count + 2) u in all, u = 2⁻⁵³, which is added. Probabilities fall on either side of the most likely one, so
    those that underflow lie below the floor of 1e-290.

    >>> binomial_above(2, 0.25).round(12)
    array([0.5625, 0.375 , 0.0625])
    """
    at_least(1, count=count)
    probability(rate=rate)
    mode = min(count, int((count + 1) * rate))
    k = np.arange(count, dtype=np.float64)
    with np.errstate(under="ignore"):
        ratios = (count - k) / (k + 1) * (rate / (1 - rate))
        r = np.concatenate([np.cumprod(1 / ratios[:mode][::-1])[::-1], [1.0], np.cumprod(ratios[mode:])])
    bound = r / r.sum() * (1 + roundings(12 * (count + 2)))
    return np.asarray(np.clip(bound, _FLOOR, 1.0))


def mixed_delta(mus: ArrayLike, probabilities: ArrayLike, epsilon: float) -> float | Array:
    """Σ_k p_k δ(ε; μ_k): the δ of a mechanism drawn at random; `mus` may have rows before its last axis.

    **Guarantee:** an upper bound of the smallest δ, if the probabilities are upper bounds; it is the smallest one for
    an attacker who is told the draw.

    **Source:** joint convexity of the hockey-stick divergence (Balle, Barthe & Gaboardi 2018, Theorem 2).

    >>> round(mixed_delta([0.0, 1.0], [0.9, 0.1], 1.0), 9)
    0.012693674
    """
    values, weights = _drawn(mus, probabilities)
    found = _weighted(values, weights, np.full(values.shape[:-1], float(epsilon)))
    return found if found.ndim else float(found)


def mixed_epsilon(mus: ArrayLike, probabilities: ArrayLike, delta: float) -> float | Array:
    """The ε at which Σ_k p_k δ(ε; μ_k) falls to δ; `mus` may have rows before its last axis.

    **Guarantee:** an upper bound of the smallest ε, if the probabilities are upper bounds: Σ_k p_k δ(ε; μ_k) is at
    most δ there. It is within 1e-9 of the root, or within 1e-12 of itself where that is more; infinite where some μ
    is, unless even ε = 0 is enough.

    **Source:** as for `mixed_delta`, solved between two ends by secants (Dowell & Jarratt 1971).

    >>> round(mixed_epsilon([0.0, 1.0], [0.9, 0.1], 1e-5), 4)
    3.8044
    """
    values, weights = _drawn(mus, probabilities)
    probability(delta=delta)
    # The largest μ alone is enough, up to the rounding of the probabilities.
    upper = np.asarray(gaussian.epsilon(values.max(axis=-1), delta), dtype=np.float64) * (1 + 1e-9) + 1e-12
    lower = np.zeros_like(upper)
    at_upper, at_lower = _weighted(values, weights, upper), _weighted(values, weights, lower)
    if (at_upper > delta).any():
        raise InputError(
            f"the probabilities must sum to 1 at most; these sum to {float(weights.sum())!r} "
            "(take those of binomial_above)"
        )
    upper = np.where(at_lower <= delta, 0.0, upper)
    high, low = _excess(at_upper, delta), _excess(at_lower, delta)
    moved = np.zeros_like(upper)
    for step in range(_SECANTS + _HALVINGS):
        room = _FINENESS * upper
        apart = upper - lower > room
        if not apart.any():
            break
        share = low / np.where(low > high, low - high, 1.0) if step < _SECANTS else 0.5
        # Never so near an end that the other one could not follow. What is settled stays.
        end = np.where(apart, upper, lower)
        inner = np.clip(lower + share * (end - lower), lower + room / 2, end - room / 2)
        middle = np.where(apart, inner, upper)
        found = _weighted(values, weights, middle)
        enough, excess = found <= delta, _excess(found, delta)
        # An end that stays for the second time counts half, so that it moves soon (the Illinois method).
        low = np.where(enough, np.where(moved > 0, low / 2, low), excess)
        high = np.where(enough, excess, np.where(moved < 0, high / 2, high))
        upper, lower = np.where(enough, middle, upper), np.where(enough, lower, middle)
        moved = np.where(enough, 1, -1)
    return upper if upper.ndim else float(upper)


def _excess(found: Array, delta: float) -> Array:
    """By how much log δ is too large; what has become 0 counts as the least number there is."""
    return np.asarray(np.log(np.maximum(found, _LEAST)) - math.log(delta))


def _drawn(mus: ArrayLike, probabilities: ArrayLike) -> tuple[Array, Array]:
    """Both as arrays of as many numbers in the last axis.

    A μ without a probability, or a probability outside 0 … 1, is refused; they need not sum to 1, as upper bounds do
    not.
    """
    values = np.asarray(mus, dtype=np.float64)
    weights = np.asarray(probabilities, dtype=np.float64)
    if weights.ndim != 1 or values.ndim == 0 or values.shape[-1] != weights.size:
        raise InputError(
            f"there must be one probability for each μ; got shapes {values.shape} and {weights.shape} "
            "(the last axis of mus goes through the draws)"
        )
    if not ((weights >= 0) & (weights <= 1)).all():
        raise InputError(
            f"probabilities must lie between 0 and 1; got {weights[~((weights >= 0) & (weights <= 1))][0]!r}"
        )
    return values, weights


def _weighted(values: Array, weights: Array, epsilon: Array) -> Array:
    """Σ_k p_k δ(ε; μ_k), rounded up: positive terms, each off by a unit, in a sum of as many.

    Guarantee: an upper bound, if the weights are: every δ is rounded up, terms are not negative, and a sum of k of
    them is off by k units at most in any order.
    """
    total = np.asarray(gaussian.delta(values, epsilon[..., None])) @ weights
    return np.asarray(total * (1 + roundings(weights.size + 4)))
