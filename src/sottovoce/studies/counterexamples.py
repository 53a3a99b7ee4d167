# SPDX-License-Identifier: Apache-2.0
"""Errata in their smallest form: networks of two to four nodes that exceed the limits of Theorems 13, 15 and 16.

Worked out by hand: two nodes that average, ω = π: |R(π)| = (3/4, −1/4) up to a factor, so φ of the observer itself is
9/10. A path of three with the end's noise known: 25/26. Two of three nodes that average seen: their difference shows
½ of a target among them, the rest is a one-row view of three nodes with φ(0) = 1/3, together 5/6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce import theory
from sottovoce.graphs import as_weights, metropolis_weights
from sottovoce.protocols import gossip
from sottovoce.rates import rate
from sottovoce.sensitivities import sensitivity
from sottovoce.studies.results import Finding, Table, below, near, steps
from sottovoce.views import View

if TYPE_CHECKING:
    from sottovoce.graphs import GossipWeights
    from sottovoce.interval import Interval
    from sottovoce.studies.results import Progress

__all__ = ["Case", "Config", "Result", "Violation", "run"]


@dataclass(frozen=True, kw_only=True)
class Config:
    """Up to how many rounds the smallest violation of a finite bound is searched."""

    most_rounds: int = 100


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """One small network: the claimed limit, the certified limit (for numbers: its lower end), and φ(0)."""

    name: str
    statement: str
    claimed: float
    limit: Interval
    signs: float
    constant: float


@dataclass(frozen=True, kw_only=True)
class Violation:
    """The first T at which a stream of signs exceeds a bound that is stated for every T."""

    name: str
    statement: str
    rounds: int
    attained: float
    bound: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """The small networks, and where finite bounds break."""

    config: Config
    cases: tuple[Case, ...]
    violations: tuple[Violation, ...]

    @property
    def table(self) -> Table:
        """One row for each case."""
        limits = [
            (
                case.name,
                case.statement,
                case.claimed,
                case.limit.lower,
                case.limit.upper,
                case.signs,
                case.constant,
            )
            for case in self.cases
        ]
        columns = "network statement claimed rate_lower rate_upper signs_lower constant"
        return Table(columns=tuple(columns.split()), rows=tuple(limits))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Each limit, and each finite bound."""
        limits = tuple(
            Finding(
                statement=case.statement,
                claim=f"{case.name}: Δ²/T tends to at most {near(case.claimed)}",
                measured=f"the limit is at least {below(case.limit.lower)} for vectors and {below(case.signs)} for "
                f"signs; constant contributions alone have {near(case.constant)}",
                verdict="does not hold"
                if max(case.signs, case.constant) > case.claimed * (1 + 1e-6)
                else "holds",
            )
            for case in self.cases
        )
        finite = tuple(
            Finding(
                statement=case.statement,
                claim=f"{case.name}: Δ² ≤ {near(case.bound)} at T = {case.rounds}",
                measured=f"a stream of signs attains {below(case.attained)}; none shorter was found to exceed it",
                verdict="does not hold" if case.attained > case.bound else "holds",
            )
            for case in self.violations
        )
        return limits + finite


def run(config: Config, progress: Progress | None = None) -> Result:
    """Certify the limits of the small networks and search where the finite bounds break."""
    half, third = as_weights(np.full((2, 2), 0.5)), as_weights(np.full((3, 3), 1 / 3))
    pair = View(observation=[[1, 0, 0], [0, 1, 0]])
    step = steps(progress, 6)
    cases = []
    for name, statement, weights, view, target, claimed in (
        ("two nodes that average, the observer's own record", "Theorem 13", half, _alone(0), 0, 1 / 2),
        (
            "path of 4, inner observer, leaf",
            "Theorem 13",
            metropolis_weights("path:n=4"),
            _alone(1),
            0,
            1 / 4,
        ),
        ("three nodes that average, two seen, one of them", "Theorem 15", third, pair, 0, 2 / 3),
        (
            "path of 3, end observer, its neighbour",
            "Theorem 16",
            metropolis_weights("path:n=3"),
            View.single_node(0),
            1,
            1 / 2,
        ),
    ):
        vector = rate(weights, view, [target])[target]
        signs = rate(weights, view, [target], contribution="scalar")[target]
        cases.append(
            Case(
                name=name,
                statement=statement,
                claimed=claimed,
                limit=vector.limit,
                signs=signs.limit.lower,
                constant=vector.constant,
            )
        )
        step()
    violations = []
    for name, statement, weights, view, observed in (
        ("two nodes that average, the observer's own record", "Eq. 5.4", half, _alone(0), 1),
        ("three nodes that average, two seen, one of them", "Theorem 15", third, pair, 2),
    ):
        found = _first_violation(weights, view, observed, config.most_rounds)
        if found is not None:
            rounds, attained, bound = found
            violations.append(
                Violation(name=name, statement=statement, rounds=rounds, attained=attained, bound=bound)
            )
        step()
    return Result(config=config, cases=tuple(cases), violations=tuple(violations))


def _alone(node: int) -> View:
    return View.single_node(node, own_noise="hidden")


def _first_violation(
    weights: GossipWeights, view: View, observed: int, most: int
) -> tuple[int, float, float] | None:
    """The first T at which signs of node 0 that are at hand exceed Theorem 15's bound, with both sides."""
    rho = theory.decompose(weights).rho
    for rounds in range(1, most + 1):
        found = sensitivity(gossip(weights, rounds=rounds), view, [0], contribution="scalar")
        attained = float(found.squared_lower[0])
        bound = theory.multiple_node_bound(weights.n, observed, rho, rounds)
        if attained > bound:
            return rounds, attained, bound
    return None
