# SPDX-License-Identifier: Apache-2.0
"""Erratum (e): Δ printed for Δ², p = 1 − γ², the classical calibration, and two steps of the proofs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce import gaussian, theory
from sottovoce.graphs import metropolis_weights
from sottovoce.studies.results import Finding, Table, near, steps

if TYPE_CHECKING:
    from sottovoce.studies.results import Progress

__all__ = ["Config", "Result", "Slip", "run"]

HALF = np.full((2, 2), 0.5)
THIRD = np.full((3, 3), 1 / 3)
LAZY = np.array([[0.75, 0.25], [0.25, 0.75]])


@dataclass(frozen=True, kw_only=True)
class Config:
    """How long the transient part is followed, and at which ε the classical calibration is tried."""

    rounds: int = 600
    delta: float = 1e-5
    epsilons: tuple[float, ...] = (0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 7.0, 8.0, 9.0, 10.0, 12.0, 15.0, 20.0)


@dataclass(frozen=True, kw_only=True)
class Slip:
    """What is printed, `left` ≤ `right` (or `left` = `right`) in an example, and what is meant."""

    statement: str
    printed: str
    meant: str
    example: str
    left: float
    right: float
    equality: bool = False

    @property
    def fulfilled(self) -> bool:
        """Whether the example agrees with what is printed."""
        return math.isclose(self.left, self.right) if self.equality else self.left <= self.right


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """The slips, the transient part of Δ² with its stated bound, and the δ that classical noise really has."""

    config: Config
    slips: tuple[Slip, ...]
    transient: np.ndarray
    transient_bound: float
    classical_delta: np.ndarray
    noise_ratio: np.ndarray

    @property
    def table(self) -> Table:
        """One row for each slip."""
        rows = tuple(
            (slip.statement, slip.printed, slip.meant, slip.example, slip.left, slip.right)
            for slip in self.slips
        )
        return Table(columns=("statement", "printed", "meant", "example", "left", "right"), rows=rows)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Each slip with both sides of what is printed."""
        return tuple(
            Finding(
                statement=slip.statement,
                claim=slip.printed,
                measured=f"{slip.example}: left {near(slip.left)}, right {near(slip.right)}; meant is {slip.meant}",
                verdict="holds" if slip.fulfilled else "does not hold",
            )
            for slip in self.slips
        )


def run(config: Config, progress: Progress | None = None) -> Result:
    """Evaluate both sides of every printed inequality where it fails."""
    step = steps(progress, 2)
    transient = theory.transient_form(LAZY, 0, 1, (-1.0) ** np.arange(config.rounds))
    bound = theory.transient_constant(theory.decompose(LAZY).rho)
    step()
    deltas, ratios = [], []
    for epsilon in config.epsilons:
        noise = theory.classical_noise(1.0, epsilon, config.delta)
        deltas.append(gaussian.delta(1 / noise, epsilon))
        ratios.append(noise / theory.analytic_noise(1.0, epsilon, config.delta))
    slips = (
        _root_slip(),
        _mean_slip(),
        _average_slip(),
        _contraction_slip(),
        _calibration_slip(config, deltas),
        _gram_slip(),
        Slip(
            statement="Lemma G.2",
            printed="b_Rᵀ K_T⁻¹ b_R ≤ (π²/6)/(1−ρ)⁴ for all T",
            meant="nothing of the kind: it grows in proportion to T",
            example=f"two nodes, W = (¾ ¼; ¼ ¾), alternating signs, T = {config.rounds}",
            left=float(transient[-1]),
            right=bound,
        ),
    )
    step()
    return Result(
        config=config,
        slips=slips,
        transient=transient,
        transient_bound=bound,
        classical_delta=np.array(deltas),
        noise_ratio=np.array(ratios),
    )


def _root_slip() -> Slip:
    """Δ on the left where Δ² is meant: false as soon as Δ is below 1."""
    form = theory.quadratic_form(HALF, [[1, 0]], 1, 2)
    return Slip(
        statement="Theorem 12",
        printed="Δ ≤ Σ_st |M_st|",
        meant="Δ² ≤ Σ_st |M_st|",
        example="two nodes that average, T = 2",
        left=math.sqrt(theory.largest_over_signs(form)),
        right=theory.absolute_bound(form),
    )


def _mean_slip() -> Slip:
    """Δ²/T is never above 1, so a bound of it that grows with T is true and says nothing."""
    return Slip(
        statement="Theorem 15",
        printed="Δ²/T ≤ (m/n)T + …, and (m/n)T as the limit",
        meant="Δ² ≤ (m/n)T + …, and m/n as the limit; as printed it is true and empty",
        example="two nodes, one seen, T = 100: the 1 that Δ²/T never exceeds against what is printed",
        left=1.0,
        right=theory.multiple_node_bound(2, 1, 0.0, 100),
    )


def _average_slip() -> Slip:
    n = 100
    average = np.full(n, 1 / n)
    return Slip(
        statement="Remark 14",
        printed="the average of n noises of variance σ² has variance nσ²",
        meant="the sum has nσ², the average σ²/n",
        example=f"n = {n}, σ = 1: printed against true variance",
        left=float(n),
        right=float(average @ average),
        equality=True,
    )


def _contraction_slip() -> Slip:
    weights = metropolis_weights("ring:n=10")
    parts = theory.decompose(weights)
    slowest = np.linalg.svd(parts.remainder)[2][0]
    return Slip(
        statement="Eq. 5.3",
        printed="p = 1 − γ², so that a gossip step leaves at most the share 1 − p = γ² of the disagreement",
        meant="p = 1 − ρ² = γ(2 − γ)",
        example="ring of 10, its slowest mode",
        left=theory.contraction(weights, slowest),
        right=1 - theory.printed_consensus_parameter(parts.gap),
    )


def _calibration_slip(config: Config, deltas: list[float]) -> Slip:
    place = int(np.argmax(deltas))
    return Slip(
        statement="Eq. 5.5",
        printed="σ = Δ·√(2 log(1.25/δ))/ε gives (ε, δ) for any ε",
        meant="for ε < 1; the analytic calibration for any ε",
        example=f"ε = {near(config.epsilons[place])}, δ = {config.delta:g}: the δ that this noise has",
        left=deltas[place],
        right=config.delta,
    )


def _gram_slip() -> Slip:
    """K_T ⪰ (1/n)(J ⊗ I_m) fails: differences of observed nodes forget, they do not accumulate."""
    rounds = 4
    H = theory.system_matrix(THIRD, np.eye(3)[:2], rounds)
    J = np.minimum.outer(np.arange(1, rounds + 1), np.arange(1, rounds + 1))
    difference = H @ H.T - np.kron(J, np.eye(2)) / 3
    return Slip(
        statement="proof of Theorem 15",
        printed="K_T = (1/n)(J ⊗ I_m) + G_T with G_T ⪰ 0",
        meant="K_T = (1/n)(J ⊗ 11ᵀ) + G_T",
        example=f"three nodes that average, two seen, T = {rounds}: 0 against the smallest eigenvalue of G_T",
        left=0.0,
        right=float(np.linalg.eigvalsh(difference)[0]),
    )
