# SPDX-License-Identifier: Apache-2.0
"""Where the paper is right: far targets, well-mixing graphs and constant contributions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csgraph

from sottovoce.graphs import metropolis_weights, spectrum
from sottovoce.rates import rate
from sottovoce.spellings import name_and_rest
from sottovoce.studies.pairs import spread
from sottovoce.studies.results import Finding, Table, above, below, near, steps, verdict_of
from sottovoce.views import View

if TYPE_CHECKING:
    from sottovoce.studies.results import Progress

__all__ = ["Config", "Network", "Result", "run"]

CLOSE = 0.05


@dataclass(frozen=True, kw_only=True)
class Config:
    """Which networks, well-mixing ones first, and how many observers of each."""

    networks: tuple[str, ...] = (
        "complete:n=100",
        "erdos-renyi:n=100,p=0.15,seed=1",
        "random-regular:n=100,d=6,seed=1",
        "preferential:n=100,core=5,links=3,seed=1",
        "torus:rows=10,cols=10",
        "ring:n=100",
    )
    well_mixing: int = 2
    observers: int = 5


@dataclass(frozen=True, kw_only=True, eq=False)
class Network:
    """All targets of some observers: hops from the observer, n·sup φ between its ends, and n·φ(0)."""

    name: str
    gap: float
    hops: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    constant: np.ndarray

    def largest(self) -> tuple[np.ndarray, np.ndarray]:
        """Hops that occur (the observer itself left out), and the largest n·sup φ at each."""
        distances = np.unique(self.hops[self.hops > 0])
        return distances, np.array([self.upper[self.hops == hop].max() for hop in distances])


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """One `Network` for each name of the configuration."""

    config: Config
    networks: tuple[Network, ...]

    @property
    def table(self) -> Table:
        """One row for each network and distance."""
        rows: list[tuple[str | int | float, ...]] = []
        for network in self.networks:
            for hop in np.unique(network.hops):
                there = network.hops == hop
                rows.append(
                    (
                        network.name,
                        network.gap,
                        int(hop),
                        int(there.sum()),
                        float(network.lower[there].min()),
                        float(network.upper[there].max()),
                        float(network.constant[there].min()),
                        float(network.constant[there].max()),
                    )
                )
        ends = ("rate_least", "rate_most", "constant_least", "constant_most")
        columns = ("network", "gap", "hops", "pairs", *(f"{end}_times_n" for end in ends))
        return Table(columns=columns, rows=tuple(rows))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Theorem 13 for constant contributions, on well-mixing graphs, and from some distance on."""
        apart = max(float(np.abs(network.constant - 1).max()) for network in self.networks)
        mixing = self.networks[: self.config.well_mixing]
        inside = [bool(x <= 1 + CLOSE) for network in mixing for x in network.upper[network.hops > 0]]
        return (
            Finding(
                statement="Theorem 13",
                claim="Δ²/T tends to 1/n: constant contributions, every target of every network",
                measured=f"n·φ(0) differs from 1 by at most {above(apart, 2)}",
                verdict=verdict_of([apart < 1e-6]),
            ),
            Finding(
                statement="Theorem 13",
                claim=f"Δ²/T tends to 1/n: every other target of {', '.join(short(x.name) for x in mixing)}",
                measured=f"{sum(inside)} of {len(inside)} pairs have n·sup φ ≤ {1 + CLOSE}; the largest is "
                f"{above(max(float(x.upper[x.hops > 0].max()) for x in mixing))}",
                verdict=verdict_of(inside),
            ),
            Finding(
                statement="Theorem 13",
                claim="Δ²/T tends to 1/n: far targets",
                measured="; ".join(_far(network) for network in self.networks[self.config.well_mixing :]),
                verdict=verdict_of([bool(x.largest()[1][-1] <= 1 + CLOSE) for x in self.networks]),
            ),
        )


def short(name: str) -> str:
    """The family of a network's name."""
    return name_and_rest(name)[0]


def run(config: Config, progress: Progress | None = None) -> Result:
    """Rates of all targets of some observers, spread over the nodes of each network."""
    step = steps(progress, len(config.networks) * config.observers)
    networks = []
    for name in config.networks:
        weights = metropolis_weights(name)
        observers = spread(np.arange(weights.n), config.observers)
        distances = csgraph.shortest_path(weights.matrix, unweighted=True, indices=observers)
        found = []
        for observer in observers:
            # No noise is known, so that every node is a target and results are in the order of the nodes.
            found.append(rate(weights, View.single_node(int(observer), own_noise="hidden"), tolerance=1e-4))
            step()
        networks.append(
            Network(
                name=name,
                gap=spectrum(weights).gap,
                hops=distances.ravel().astype(int),
                lower=weights.n * np.concatenate([rates.lower for rates in found]),
                upper=weights.n * np.concatenate([rates.upper for rates in found]),
                constant=weights.n * np.concatenate([rates.constant for rates in found]),
            )
        )
    return Result(config=config, networks=tuple(networks))


def _far(network: Network) -> str:
    """From which distance on all targets are as the theorem says."""
    distances, largest = network.largest()
    above_claim = np.flatnonzero(largest > 1 + CLOSE)
    start = 0 if above_claim.size == 0 else above_claim[-1] + 1
    where = (
        f"never within {CLOSE:.0%} (at {distances[-1]} hops {near(largest[-1])})"
        if start == len(distances)
        else f"within {CLOSE:.0%} of 1 from {distances[start]} hops on, up to {below(largest[0])} at 1 hop"
    )
    return f"{short(network.name)}: n·sup φ {where}"
