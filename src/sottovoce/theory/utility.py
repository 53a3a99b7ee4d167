# SPDX-License-Identifier: Apache-2.0
"""Section 5 of the paper: calibration, the consensus parameter, and the terms of its utility bound."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce import gaussian
from sottovoce.errors import InputError, at_least, positive, probability
from sottovoce.theory.mechanisms import dense

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from sottovoce.graphs import GossipWeights

__all__ = [
    "ExcessRiskTerms",
    "LossConstants",
    "analytic_noise",
    "classical_noise",
    "consensus_parameter",
    "contraction",
    "excess_risk_terms",
    "printed_consensus_parameter",
    "template_terms",
]


def classical_noise(sensitivity: float, epsilon: float, delta: float) -> float:
    """The noise of the textbook rule.

        σ = Δ·√(2 log(1.25/δ))/ε

    Guarantee: (ε, δ) is met for ε < 1. Above, it need not be: at δ = 1e-5 it is not at ε = 10.
    Status: holds for ε < 1; the paper sets no such limit (erratum e).
    Source: Eq. 5.5 of Koskela & Kulkarni; Dwork & Roth 2014, Theorem A.1.

    >>> round(classical_noise(1.0, 1.0, 1e-5), 4)
    4.8448
    """
    positive(sensitivity=sensitivity, epsilon=epsilon)
    probability(delta=delta)
    return sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def analytic_noise(sensitivity: float, epsilon: float, delta: float) -> float:
    """The smallest noise that is (ε, δ)-private, for comparison with `classical_noise`.

        σ = Δ/μ(ε, δ)

    Guarantee: (ε, δ) is met for every ε > 0, up to rounding in the quotient.
    Status: holds.
    Source: Balle & Wang 2018, Algorithm 1.

    >>> round(analytic_noise(1.0, 1.0, 1e-5), 4)
    3.7306
    """
    positive(sensitivity=sensitivity, epsilon=epsilon)
    probability(delta=delta)
    return sensitivity / gaussian.mu(epsilon, delta)


def contraction(weights: GossipWeights | np.ndarray, values: ArrayLike) -> float:
    """How much of the disagreement one gossip step leaves: ‖XW − X̄‖² / ‖X − X̄‖² for the values X of the nodes.

    Args:
        weights: the gossip matrix W.
        values: X, one column for each node.

    Guarantee: exact up to rounding; at most ρ² for symmetric weights.
    Status: holds.
    Source: Lemma J.1 of Koskela & Kulkarni.

    >>> round(contraction(np.array([[0.75, 0.25], [0.25, 0.75]]), [[1.0, 0.0]]), 12)
    0.25
    """
    X = np.atleast_2d(np.asarray(values, dtype=np.float64))
    mean = X.mean(axis=1, keepdims=True)
    before = float(((X - mean) ** 2).sum())
    if before == 0:
        raise InputError("the nodes' values must differ; all are equal (there is nothing to contract)")
    return float(((X @ dense(weights) - mean) ** 2).sum()) / before


def consensus_parameter(gap: float) -> float:
    """The p of decentralised SGD: a gossip step leaves at most the share 1 − p of the disagreement.

        p = 1 − ρ² = γ(2 − γ),   γ ≤ p ≤ 2γ

    Guarantee: exact; the largest p that holds for every X.
    Status: holds.
    Source: Lemmas J.1 and J.2 of Koskela & Kulkarni.

    >>> consensus_parameter(0.5)
    0.75
    """
    _check_gap(gap)
    return gap * (2 - gap)


def printed_consensus_parameter(gap: float) -> float:
    """1 − γ², which Section 5 prints for p.

    Guarantee: none. For γ < ½ it claims more contraction than there is, and at γ = 1 none where all is.
    Status: does not hold (erratum e): p = 1 − ρ² is meant.
    Source: Eq. 5.3 and the proof of Theorem 17 of Koskela & Kulkarni.

    >>> printed_consensus_parameter(0.25)
    0.9375
    """
    _check_gap(gap)
    return 1 - gap**2


@dataclass(frozen=True, kw_only=True)
class LossConstants:
    """What bounds on the excess risk ask of strongly convex losses.

    Args:
        smoothness: L.
        convexity: μ.
        dimension: d, of the models.
        heterogeneity: ζ̄², the mean squared gradient at the optimum.
        distance: ‖θ⁰ − θ*‖.
    """

    smoothness: float
    convexity: float
    dimension: int = 1
    heterogeneity: float = 0.0
    distance: float = 0.0

    def __post_init__(self) -> None:
        """Check that the losses are smooth and strongly convex."""
        positive(smoothness=self.smoothness, convexity=self.convexity)
        at_least(1, dimension=self.dimension)


@dataclass(frozen=True, kw_only=True)
class ExcessRiskTerms:
    """The five terms of Theorem 17, their constants set to 1."""

    privacy: float
    root: float
    mixing: float
    heterogeneity: float
    start: float

    @property
    def total(self) -> float:
        """Their sum.

        Guarantee: the order of the excess risk, not a bound on it: Theorem 17 leaves its constants open.
        """
        return self.privacy + self.root + self.mixing + self.heterogeneity + self.start


def excess_risk_terms(
    loss: LossConstants, *, n: int, rounds: int, gap: float, epsilon: float, delta: float
) -> ExcessRiskTerms:
    """What the excess risk of private decentralised learning is said to be, term by term.

        a/(n²μ) + a/(nμ)·1/(γ²√T) + a/(nμ)·1/(γ⁴T) + Lζ̄²/(μ²γ²T²) + L‖θ⁰ − θ*‖²/γ·exp(−γμT/L),
        a = d·log(1/δ)/ε²

    Args:
        loss: L, μ, d, ζ̄² and ‖θ⁰ − θ*‖.
        n: number of nodes.
        rounds: T.
        gap: the absolute spectral gap γ.
        epsilon: ε of every node from every other's point of view.
        delta: the δ of that guarantee.

    Guarantee: none; the constants are not stated and are set to 1.
    Status: does not hold with the constant step 1/L (erratum g), and its noise rests on Eq. 5.4 (erratum a). With a
    step tuned to T the leading term survives.
    Source: Theorem 17 of Koskela & Kulkarni.

    >>> loss = LossConstants(smoothness=4, convexity=1)
    >>> terms = excess_risk_terms(loss, n=20, rounds=100, gap=1, epsilon=1, delta=math.exp(-1))
    >>> round(terms.privacy, 6)
    0.0025
    """
    at_least(1, n=n, rounds=rounds)
    positive(epsilon=epsilon)
    probability(delta=delta)
    _check_gap(gap)
    smoothness, convexity = loss.smoothness, loss.convexity
    share = loss.dimension * math.log(1 / delta) / epsilon**2
    return ExcessRiskTerms(
        privacy=share / (n**2 * convexity),
        root=share / (n * convexity) / (gap**2 * math.sqrt(rounds)),
        mixing=share / (n * convexity) / (gap**4 * rounds),
        heterogeneity=smoothness * loss.heterogeneity / (convexity * gap * rounds) ** 2,
        start=smoothness * loss.distance**2 / gap * math.exp(-gap * convexity / smoothness * rounds),
    )


def template_terms(
    loss: LossConstants, *, n: int, rounds: int, consensus: float, variance: float
) -> tuple[float, float, float]:
    """The three terms from which Theorem 17 is derived: noise, disagreement and start, constants set to 1.

        σ̄²/(nμT),   L(ζ̄² + pσ̄²)(1 − p)/(μ²p²T²),   L‖θ⁰ − θ*‖²/p·exp(−μpT/L)

    Guarantee: none; the constants are not stated and are set to 1.
    Status: holds for a step tuned to T and weighted averages, as in its source; the paper states it for the constant
    step 1/L, with which it does not (erratum g).
    Source: Lemma J.3 of Koskela & Kulkarni; Koloskova et al. 2020, Theorem 2.

    >>> template_terms(LossConstants(smoothness=4, convexity=1), n=20, rounds=100, consensus=1, variance=5)
    (0.0025, 0.0, 0.0)
    """
    at_least(1, n=n, rounds=rounds)
    positive(consensus=consensus)
    smoothness, convexity = loss.smoothness, loss.convexity
    noise = variance / (n * convexity * rounds)
    apart = (
        smoothness
        * (loss.heterogeneity + consensus * variance)
        * (1 - consensus)
        / (convexity * consensus * rounds) ** 2
    )
    start = smoothness * loss.distance**2 / consensus * math.exp(-convexity * consensus / smoothness * rounds)
    return noise, apart, start


def _check_gap(gap: float) -> None:
    if not 0 < gap <= 1:
        raise InputError(
            f"gap must be above 0 and at most 1; got {gap!r} (the network must be connected and not bipartite)"
        )
