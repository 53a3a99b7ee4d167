# SPDX-License-Identifier: Apache-2.0
"""Erratum (a): Theorem 13's limit 1/n for neighbours, against streams of signs up to T = 10⁵ and against sup φ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering import FilteredResponse, hidden_system, whitened_response
from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import gossip
from sottovoce.rates import rate
from sottovoce.sensitivities import alternating_signs, constant_signs, sensitivity, widened
from sottovoce.studies.results import Finding, Table, above, below, near, steps
from sottovoce.views import View, observe

if TYPE_CHECKING:
    from sottovoce.graphs import GossipWeights
    from sottovoce.interval import Interval
    from sottovoce.studies.results import Cell, Progress

__all__ = ["CURVES", "Config", "Network", "Result", "run"]

CURVES = ("constant", "alternating", "best signs", "best vectors", "certified bound")


@dataclass(frozen=True, kw_only=True)
class Config:
    """The networks, how many observers are searched for the worst neighbour, and the numbers of rounds."""

    networks: tuple[str, ...] = (
        "ring:n=100",
        "torus:rows=10,cols=10",
        "preferential:n=100,core=5,links=3,seed=1",
    )
    observers: int = 100
    rounds: tuple[int, ...] = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 100_000)


@dataclass(frozen=True, kw_only=True, eq=False)
class Network:
    """The worst neighbour among the observers searched: each of `CURVES` as Δ²/T [curve, T], and the limit."""

    name: str
    n: int
    observer: int
    target: int
    growth: np.ndarray
    limit: Interval
    constant: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """One `Network` for each name of the configuration."""

    config: Config
    networks: tuple[Network, ...]

    @property
    def table(self) -> Table:
        """One row for each network and T."""
        rows: list[tuple[Cell, ...]] = []
        for network in self.networks:
            ends = (network.limit.lower, network.limit.upper, 1 / network.n)
            for t, rounds in enumerate(self.config.rounds):
                pair = (network.name, network.observer, network.target, rounds)
                rows.append((*pair, *network.growth[:, t].tolist(), *ends))
        curves = tuple(f"growth_{name.replace(' ', '_')}" for name in CURVES)
        columns = (
            "network",
            "observer",
            "target",
            "rounds",
            *curves,
            "limit_lower",
            "limit_upper",
            "claimed",
        )
        return Table(columns=columns, rows=tuple(rows))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Theorem 13 for the worst neighbour of each network."""
        last = self.config.rounds[-1]
        return tuple(
            Finding(
                statement="Theorem 13",
                claim=f"Δ²/T tends to 1/n = {near(1 / network.n)} ({network.name}, a neighbour)",
                measured=f"at T = {last} signs attain {below(network.growth[2, -1])} and vectors "
                f"{below(network.growth[3, -1])}; the limit lies in [{below(network.limit.lower)}, "
                f"{above(network.limit.upper)}], {below(network.n * network.limit.lower, 3)} times 1/n; constant "
                f"contributions have {near(network.constant)}",
                verdict="does not hold" if network.growth[2, -1] > 1.01 / network.n else "holds",
            )
            for network in self.networks
        )


def run(config: Config, progress: Progress | None = None) -> Result:
    """Find the worst neighbour of each network and follow its Δ²/T."""
    step = steps(progress, len(config.networks) * (len(config.rounds) + 2))
    networks = []
    for name in config.networks:
        weights = metropolis_weights(name)
        observer, target = _worst_neighbour(weights, config.observers)
        view = View.single_node(observer, own_noise="hidden")
        limit = rate(weights, view, [target])[target]
        step()
        growth = np.empty((len(CURVES), len(config.rounds)))
        growth[:2] = _plain_streams(weights, view, target, config.rounds)
        step()
        for t, rounds in enumerate(config.rounds):
            protocol = gossip(weights, rounds=rounds)
            signs = sensitivity(protocol, view, [target], contribution="scalar")
            vectors = sensitivity(protocol, view, [target])
            growth[2:, t] = (
                max(signs.squared_lower[0] / rounds, growth[0, t], growth[1, t]),
                vectors.squared_lower[0] / rounds,
                vectors.squared_upper[0] / rounds,
            )
            step()
        networks.append(
            Network(
                name=name,
                n=weights.n,
                observer=observer,
                target=target,
                growth=growth,
                limit=limit.limit,
                constant=limit.constant,
            )
        )
    return Result(config=config, networks=tuple(networks))


def _worst_neighbour(weights: GossipWeights, observers: int) -> tuple[int, int]:
    """The observer and neighbour with the largest limit, among the first observers; the network may be symmetric."""
    best = (0.0, 0, 0)
    symmetric = np.unique(np.diff(weights.matrix.indptr)).size == 1
    for observer in range(1 if symmetric else min(observers, weights.n)):
        targets = weights.neighbours(observer).tolist()
        found = rate(weights, View.single_node(observer, own_noise="hidden"), targets, tolerance=1e-3)
        place = int(np.argmax(found.lower))
        best = max(best, (float(found.lower[place]), observer, int(found.indices[place])))
    return best[1], best[2]


def _plain_streams(weights: GossipWeights, view: View, target: int, rounds: tuple[int, ...]) -> np.ndarray:
    """Lower ends of Δ²/T for constant and alternating signs at every T, from one pass over the longest horizon.

    The filter is causal and shows the same rows in every round, so the first T rounds of the response to a stream are
    its response in T rounds.
    """
    protocol = gossip(weights, rounds=rounds[-1])
    system = hidden_system(protocol, observe(protocol, view))
    response = whitened_response(system)
    assert isinstance(response, FilteredResponse)
    streams = np.column_stack([constant_signs(rounds[-1]), alternating_signs(rounds[-1])])
    shifts = response.respond(int(np.searchsorted(system.unknown, target)), streams)
    attained = (shifts**2).cumsum(axis=0)[np.array(rounds) - 1].T
    missing = response.gains.missing
    ends = [
        widened(attained[:, t], attained[:, t], distortion=response.distortion, missing=missing, rounds=T)[0]
        / T
        for t, T in enumerate(rounds)
    ]
    return np.array(ends).T
