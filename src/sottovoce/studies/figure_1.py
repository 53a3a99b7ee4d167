# SPDX-License-Identifier: Apache-2.0
"""Figure 1 of the paper: Δ²/T against T for random pairs of two random graphs, one node's messages seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.protocols import gossip
from sottovoce.rates import rate
from sottovoce.sensitivities import sensitivity
from sottovoce.studies.pairs import NETWORKS, RELATIONS, DrawnPair, drawn_views
from sottovoce.studies.results import Finding, Table, above, below, steps, verdict_of

if TYPE_CHECKING:
    from sottovoce.studies.results import Progress

__all__ = ["Config", "Result", "run"]

# How close to 1/n counts as 1/n.
CLOSE = 0.05


@dataclass(frozen=True, kw_only=True)
class Config:
    """How many nodes, which seeds of graphs and pairs, and which numbers of rounds."""

    nodes: int = 100
    seeds: tuple[int, ...] = tuple(range(1, 11))
    rounds: tuple[int, ...] = (5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """Ends of Δ²/T and the limits sup φ, as arrays [network, relation, seed(, T)]."""

    config: Config
    pairs: tuple[tuple[DrawnPair, ...], ...]
    lower: np.ndarray
    upper: np.ndarray
    limit: np.ndarray

    @property
    def claimed(self) -> float:
        """1/n."""
        return 1 / self.config.nodes

    @property
    def table(self) -> Table:
        """One row for each network, relation, seed and T."""
        rows = []
        for a, b, c, d in np.ndindex(self.upper.shape):
            pair = self.pairs[a][c]
            rows.append(
                (
                    NETWORKS[a],
                    RELATIONS[b],
                    self.config.seeds[c],
                    pair.observer,
                    pair.neighbour if b == 0 else pair.stranger,
                    self.config.rounds[d],
                    float(self.lower[a, b, c, d]),
                    float(self.upper[a, b, c, d]),
                    float(self.limit[a, b, c]),
                    self.claimed,
                )
            )
        columns = "network relation seed observer target rounds growth_lower growth_upper limit claimed"
        return Table(columns=tuple(columns.split()), rows=tuple(rows))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Theorem 13 on each network, for neighbours and for others, at the last T."""
        found = []
        last = self.config.rounds[-1]
        for a, b in np.ndindex(self.upper.shape[:2]):
            low = self.lower[a, b, :, -1] / self.claimed
            high = self.upper[a, b, :, -1] / self.claimed
            close = [bool(x >= 1 - CLOSE and y <= 1 + CLOSE) for x, y in zip(low, high, strict=True)]
            found.append(
                Finding(
                    statement="Theorem 13, Figure 1",
                    claim=f"Δ²/T tends to 1/n ({NETWORKS[a]}, {RELATIONS[b]})",
                    measured=f"at T = {last} n·Δ²/T lies between {below(low.min())} and {above(high.max())} over "
                    f"{len(low)} random pairs; {sum(close)} of them are within {CLOSE:.0%} of 1",
                    verdict=verdict_of(close),
                )
            )
        return tuple(found)


def run(config: Config, progress: Progress | None = None) -> Result:
    """Draw the graphs and pairs, and bound Δ² at every T."""
    shape = (len(NETWORKS), len(RELATIONS), len(config.seeds))
    lower, upper = np.empty((*shape, len(config.rounds))), np.empty((*shape, len(config.rounds)))
    limit = np.empty(shape)
    step = steps(progress, shape[0] * shape[2] * (len(config.rounds) + 1))
    pairs: list[list[DrawnPair]] = [[] for _ in NETWORKS]
    for a, c, weights, pair, view in drawn_views(config.nodes, config.seeds):
        pairs[a].append(pair)
        targets = [pair.neighbour, pair.stranger]
        # Results are in index order, the pair is not.
        order = np.argsort(np.argsort(targets))
        limit[a, :, c] = rate(weights, view, targets, tolerance=1e-4).upper[order]
        step()
        for d, rounds in enumerate(config.rounds):
            found = sensitivity(gossip(weights, rounds=rounds), view, targets)
            lower[a, :, c, d] = found.squared_lower[order] / rounds
            upper[a, :, c, d] = found.squared_upper[order] / rounds
            step()
    return Result(config=config, pairs=tuple(map(tuple, pairs)), lower=lower, upper=upper, limit=limit)
