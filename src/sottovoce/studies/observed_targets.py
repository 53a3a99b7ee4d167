# SPDX-License-Identifier: Apache-2.0
"""Erratum (b): Theorem 15's m/n for a target inside the observed set, and outside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce import theory
from sottovoce.graphs import as_weights, metropolis_weights
from sottovoce.protocols import gossip
from sottovoce.sensitivities import sensitivity
from sottovoce.studies.pairs import peak_response, spread
from sottovoce.studies.results import Finding, Table, below, near, steps
from sottovoce.views import View

if TYPE_CHECKING:
    from sottovoce.studies.results import Progress

__all__ = ["Config", "Network", "Result", "run"]


@dataclass(frozen=True, kw_only=True)
class Config:
    """The networks and rounds of the neighbourhood view, and the rounds of the small example."""

    networks: tuple[str, ...] = (
        "ring:n=100",
        "torus:rows=10,cols=10",
        "preferential:n=100,core=5,links=3,seed=1",
        "erdos-renyi:n=100,p=0.15,seed=1",
    )
    rounds: int = 200
    outside: int = 10
    small_rounds: tuple[int, ...] = (1, 2, 5, 10, 20, 50, 100, 150, 200, 300, 400)


@dataclass(frozen=True, kw_only=True, eq=False)
class Network:
    """Certified lower ends of Δ²/T for the targets of one neighbourhood view.

    `limits` holds φ at its largest among some frequencies, for the worst target inside and the worst outside: each
    value of φ is a lower bound of the limit.
    """

    name: str
    n: int
    observed: int
    inside: np.ndarray
    growth: np.ndarray
    limits: tuple[float, float]

    @property
    def claimed(self) -> float:
        """m/n."""
        return theory.multiple_node_limit(self.n, self.observed)


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """The neighbourhood views, and Δ² of three averaging nodes, two seen, against the bound for every T."""

    config: Config
    networks: tuple[Network, ...]
    small: np.ndarray
    small_bound: np.ndarray

    @property
    def table(self) -> Table:
        """One row for each target."""
        rows = tuple(
            (
                network.name,
                network.observed,
                "inside" if inside else "outside",
                float(growth),
                network.claimed,
            )
            for network in self.networks
            for inside, growth in zip(network.inside, network.growth, strict=True)
        )
        return Table(columns=("network", "observed", "target", "growth_lower", "claimed"), rows=rows)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Theorem 15 for the targets that are seen themselves, for those that are not, and on three nodes."""
        found = []
        for network in self.networks:
            for inside, limit in zip((True, False), network.limits, strict=True):
                growth = network.growth[network.inside == inside]
                found.append(
                    Finding(
                        statement="Theorem 15",
                        claim=f"Δ²/T is at most m/n = {near(network.claimed)} in the limit ({network.name}, m = "
                        f"{network.observed}, target {'inside' if inside else 'outside'} the observed set)",
                        measured=f"at T = {self.config.rounds} Δ²/T is at least {below(growth.min())} for every and "
                        f"{below(growth.max())} for some of {len(growth)} targets; the worst has a limit of at least "
                        f"{near(limit)}",
                        verdict="does not hold" if limit > 1.05 * network.claimed else "holds",
                    )
                )
        over = np.flatnonzero(self.small > self.small_bound)
        place = int(over[0]) if over.size else -1
        found.append(
            Finding(
                statement="Theorem 15",
                claim="its bound holds for all T (three nodes that average, two seen, one of them the target)",
                measured=f"at T = {self.config.small_rounds[place]} a stream attains {below(self.small[place])}, the "
                f"bound is {near(self.small_bound[place])}",
                verdict="does not hold" if over.size else "holds",
            )
        )
        return tuple(found)


def run(config: Config, progress: Progress | None = None) -> Result:
    """Bound every target of a neighbourhood from below, without any known noise, as the theorem has it."""
    step = steps(progress, len(config.networks) + len(config.small_rounds))
    networks = []
    for name in config.networks:
        weights = metropolis_weights(name)
        seen = np.array([0, *weights.neighbours(0)])
        hidden = np.setdiff1d(np.arange(weights.n), seen)
        targets = np.sort(np.concatenate([seen, spread(hidden, config.outside)]))
        view = View.neighbourhood(0, own_noise="hidden")
        found = sensitivity(gossip(weights, rounds=config.rounds), view, targets.tolist(), tolerance=1e-2)
        inside = np.isin(targets, seen)
        growth = found.squared_lower / config.rounds
        worst = [int(targets[side][np.argmax(growth[side])]) for side in (inside, ~inside)]
        limits = [peak_response(weights, view, node) for node in worst]
        networks.append(
            Network(
                name=name,
                n=weights.n,
                observed=len(seen),
                inside=inside,
                growth=growth,
                limits=(limits[0], limits[1]),
            )
        )
        step()
    third = as_weights(np.full((3, 3), 1 / 3))
    view = View(observation=[[1, 0, 0], [0, 1, 0]])
    small = np.empty(len(config.small_rounds))
    for t, rounds in enumerate(config.small_rounds):
        found = sensitivity(gossip(third, rounds=rounds), view, [0], contribution="scalar")
        small[t] = found.squared_lower[0]
        step()
    bound = [theory.multiple_node_bound(3, 2, 0.0, rounds) for rounds in config.small_rounds]
    return Result(config=config, networks=tuple(networks), small=small, small_bound=np.array(bound))
