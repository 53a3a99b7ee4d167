# SPDX-License-Identifier: Apache-2.0
"""Erratum (c): Theorem 16 with the observers' noise removed: about 1/degree for a neighbour, not m/(n − m)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce import theory
from sottovoce.graphs import metropolis_weights
from sottovoce.rates import rate
from sottovoce.studies.pairs import peak_response, spread
from sottovoce.studies.results import Finding, Table, below, near, steps
from sottovoce.views import View

if TYPE_CHECKING:
    from sottovoce.graphs import GossipWeights
    from sottovoce.studies.results import Progress

__all__ = ["Config", "Network", "Result", "run"]


@dataclass(frozen=True, kw_only=True)
class Config:
    """The networks, how many observers of each, how many strangers beside all neighbours, and the coalition's size."""

    networks: tuple[str, ...] = (
        "erdos-renyi:n=100,p=0.15,seed=1",
        "preferential:n=100,core=5,links=3,seed=1",
        "torus:rows=10,cols=10",
        "ring:n=100",
    )
    observers: int = 4
    strangers: int = 4
    coalition: int = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class Network:
    """Pairs of one network: lower ends of the limit, whether they are neighbours, degree and share of the noise.

    `share` is W_ij²/Σ_k W_ik² over the observer's neighbours k: what one fresh sum tells if all else is forgotten.
    `pooled` is φ, at its largest among some frequencies, of a neighbour of a coalition: a lower bound of its limit.
    """

    name: str
    n: int
    neighbour: np.ndarray
    degree: np.ndarray
    share: np.ndarray
    limit: np.ndarray
    pooled: float

    @property
    def claimed(self) -> float:
        """1/(n − 1)."""
        return theory.removed_noise_limit(self.n, 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """One `Network` for each name of the configuration."""

    config: Config
    networks: tuple[Network, ...]

    @property
    def table(self) -> Table:
        """One row for each pair."""
        rows = tuple(
            (x.name, "neighbours" if x.neighbour[k] else "not neighbours", int(x.degree[k]), float(x.share[k]),
             float(x.limit[k]), x.claimed)
            for x in self.networks
            for k in range(len(x.limit))
        )  # fmt: skip
        columns = "network relation degree share limit_lower claimed"
        return Table(columns=tuple(columns.split()), rows=rows)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Theorem 16 for the neighbours of each network."""
        found = []
        for network in self.networks:
            limits, degrees = network.limit[network.neighbour], network.degree[network.neighbour]
            others = network.limit[~network.neighbour]
            found.append(
                Finding(
                    statement="Theorem 16",
                    claim=f"Δ²/T is at most 1/(n−1) = {near(network.claimed)} in the limit ({network.name}, the "
                    "observer's noise known)",
                    measured=f"{len(limits)} neighbours have limits from {below(limits.min())} to "
                    f"{below(limits.max())}, on average "
                    f"{near(float((limits * degrees).mean()), 3)} divided by the observer's degree; "
                    f"{len(others)} others have up to {below(others.max(initial=0.0))}",
                    verdict="does not hold" if limits.max() > 1.05 * network.claimed else "holds",
                )
            )
        members = self.config.coalition
        for network in self.networks:
            claimed = theory.removed_noise_limit(network.n, members)
            found.append(
                Finding(
                    statement="Theorem 16",
                    claim=f"Δ²/T is at most m/(n−m) = {near(claimed)} in the limit ({network.name}, m = {members})",
                    measured=f"a neighbour of one of them has a limit of at least {near(network.pooled)}",
                    verdict="does not hold" if network.pooled > 1.05 * claimed else "holds",
                )
            )
        return tuple(found)


def run(config: Config, progress: Progress | None = None) -> Result:
    """Certify the limits of all neighbours and some strangers of a few observers, from below."""
    step = steps(progress, len(config.networks) * (config.observers + 1))
    networks = []
    for name in config.networks:
        weights = metropolis_weights(name)
        W = weights.matrix.toarray()
        parts = []
        for observer in spread(np.arange(weights.n), config.observers):
            neighbours = weights.neighbours(observer)
            others = np.setdiff1d(np.arange(weights.n), [observer, *neighbours])
            targets = np.sort(np.concatenate([neighbours, spread(others, config.strangers)]))
            view = View.single_node(int(observer))
            found = rate(weights, view, targets.tolist(), tolerance=1e-2)
            received = W[observer, targets] ** 2 / (W[observer, neighbours] ** 2).sum()
            degree = np.full(len(targets), len(neighbours))
            parts.append((np.isin(targets, neighbours), degree, received, found.lower))
            step()
        neighbour, degree, share, limit = (np.concatenate(column) for column in zip(*parts, strict=True))
        networks.append(
            Network(
                name=name,
                n=weights.n,
                neighbour=neighbour,
                degree=degree,
                share=share,
                limit=limit,
                pooled=_pooled(weights, config.coalition),
            )
        )
        step()
    return Result(config=config, networks=tuple(networks))


def _pooled(weights: GossipWeights, members: int) -> float:
    """φ of the neighbour that weighs most with the first of some spread nodes, who pool their sums."""
    together = spread(np.arange(weights.n), members)
    outside = np.setdiff1d(weights.neighbours(int(together[0])), together)
    row = weights.matrix[[int(together[0])]].toarray()[0]
    target = int(outside[np.argmax(row[outside])])
    return peak_response(weights, View.coalition_sums([int(member) for member in together]), target)
