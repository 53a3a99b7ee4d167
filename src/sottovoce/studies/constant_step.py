# SPDX-License-Identifier: Apache-2.0
"""Erratum (g): Theorem 17 with the constant step 1/L, against steps that shrink, on the plainest loss.

All nodes hold f = ½θ² (μ = 1, L-smooth for any L ≥ 1), noise σ² = T/n as Eq. 5.4 has it to leading order with
log(1/δ)/ε² = 1. The mean iterate then obeys θ̄ ← (1 − η_t)θ̄ − η_t ξ̄, ξ̄ ~ N(0, σ²/n), on every network, so

    m ← (1 − η_t)m,   v ← (1 − η_t)²v + η_t²σ²/n,   E f(θ̄_t) = (m² + v)/2   exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce import theory
from sottovoce.graphs import metropolis_weights
from sottovoce.studies.results import Finding, Table, Verdict, near, steps

if TYPE_CHECKING:
    from sottovoce.studies.results import Progress

__all__ = ["RULES", "Config", "Result", "run"]

RULES = (
    "constant step 1/L, plain average (as printed)",
    "step 1/(t + L), plain average",
    "step 1/(t + L), average weighted by t",
)


@dataclass(frozen=True, kw_only=True)
class Config:
    """Nodes, smoothness, start, horizons, and the runs that check the recursion on a ring."""

    nodes: int = 20
    smoothness: float = 4.0
    start: float = 1.0
    rounds: tuple[int, ...] = (30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)
    simulated_rounds: tuple[int, ...] = (100, 1000)
    runs: int = 400
    seed: int = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """Excess risk under each of `RULES` over T, the claimed leading term, and simulated means with standard errors."""

    config: Config
    excess: np.ndarray
    claimed: float
    simulated: np.ndarray
    simulated_error: np.ndarray

    @property
    def table(self) -> Table:
        """One row for each rule and T."""
        rows = tuple(
            (rule, T, float(self.excess[k, t]), self.claimed)
            for k, rule in enumerate(RULES)
            for t, T in enumerate(self.config.rounds)
        )
        return Table(columns=("rule", "rounds", "excess_risk", "claimed_leading_term"), rows=rows)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Whether the excess stays of the order of the leading term, for each rule."""
        found = []
        first, last = self.config.rounds[0], self.config.rounds[-1]
        for k, rule in enumerate(RULES):
            over = self.excess[k] / self.claimed
            # Õ hides logarithms: an excess that grows no faster than log T agrees with the claim.
            bounded = bool(over[-1] <= max(1.0, over[0]) * math.log(last) / math.log(first))
            verdict: Verdict = "holds" if bounded else "does not hold"
            found.append(
                Finding(
                    statement="Theorem 17",
                    claim=f"excess risk of order 1/(n²μ) = {near(self.claimed)} up to logarithms ({rule})",
                    measured="; ".join(
                        f"T = {T}: {near(self.excess[k, t], 3)}"
                        for t, T in enumerate(self.config.rounds)
                        if math.log10(T).is_integer()
                    ),
                    verdict=verdict,
                )
            )
        return tuple(found)


def run(config: Config, progress: Progress | None = None) -> Result:
    """The exact recursion for every rule and T, and simulations of the whole network under the first rule."""
    step = steps(progress, len(config.rounds) + len(config.simulated_rounds))
    excess = np.empty((len(RULES), len(config.rounds)))
    for t, rounds in enumerate(config.rounds):
        constant, shrinking = _risks(config, rounds, shrinking=False), _risks(config, rounds, shrinking=True)
        weights = np.arange(rounds) + 1.0
        excess[:, t] = constant.mean(), shrinking.mean(), shrinking @ weights / weights.sum()
        step()
    simulated = np.empty((2, len(config.simulated_rounds)))
    rng = np.random.default_rng(config.seed)
    for t, rounds in enumerate(config.simulated_rounds):
        simulated[:, t] = _simulated(config, rounds, rng)
        step()
    terms = theory.excess_risk_terms(
        theory.LossConstants(smoothness=config.smoothness, convexity=1.0, distance=config.start),
        n=config.nodes,
        rounds=config.rounds[-1],
        gap=1.0,
        epsilon=1.0,
        delta=math.exp(-1),
    )
    return Result(
        config=config,
        excess=excess,
        claimed=terms.privacy,
        simulated=simulated[0],
        simulated_error=simulated[1],
    )


def _risks(config: Config, rounds: int, *, shrinking: bool) -> np.ndarray:
    """E f(θ̄_t) for t = 0..T−1, by the recursion of mean and variance."""
    noise = rounds / config.nodes / config.nodes
    mean, variance = config.start, 0.0
    risks = np.empty(rounds)
    for t in range(rounds):
        risks[t] = (mean**2 + variance) / 2
        size = 1 / (t + config.smoothness) if shrinking else 1 / config.smoothness
        mean, variance = (1 - size) * mean, (1 - size) ** 2 * variance + size**2 * noise
    return risks


def _simulated(config: Config, rounds: int, rng: np.random.Generator) -> tuple[float, float]:
    """The mean over runs of the time-averaged risk of θ̄ on a ring, constant step, and its standard error."""
    W = metropolis_weights(f"ring:n={config.nodes}").matrix.toarray()
    size, noise = 1 / config.smoothness, math.sqrt(rounds / config.nodes)
    states = np.full((config.runs, config.nodes), config.start)
    total = np.zeros(config.runs)
    for _ in range(rounds):
        total += states.mean(axis=1) ** 2 / 2
        states = (states - size * (states + noise * rng.standard_normal(states.shape))) @ W.T
    risks = total / rounds
    return float(risks.mean()), float(risks.std(ddof=1) / math.sqrt(config.runs))
