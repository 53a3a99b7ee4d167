# SPDX-License-Identifier: Apache-2.0
"""Noise that is correlated over the rounds: what a node learns of nodes near and far, at one ε of everyone's view.

Noise C⁻¹ξ cancels in part over the rounds, and C costs privacy. Every encoder gets the noise with which everyone's
view, that of local privacy, has the same ε, as in Bellet et al. 2025 (arXiv 2510.17480), who brought such encoders to
decentralised learning.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csgraph

from sottovoce import gaussian
from sottovoce.errors import GraphError
from sottovoce.graphs import uniform_weights
from sottovoce.protocols import gossip
from sottovoce.sensitivities import sensitivity
from sottovoce.studies.pairs import spread
from sottovoce.studies.results import Finding, Table, near, steps, verdict_of
from sottovoce.views import View

if TYPE_CHECKING:
    from sottovoce.graphs import GossipWeights
    from sottovoce.studies.results import Cell, Progress

__all__ = ["ENCODERS", "Case", "Config", "Result", "encoder", "random_graph", "run"]

ENCODERS = ("independent", "DP-λCGD", "banded square root", "square root", "Anti-PGD")
OBSERVER = 0
# Upper ends of an interval may exceed the truth by so much.
CLOSE = 1e-3


@dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes as (nodes, rounds, participation, targets at each distance), everyone's ε, and the encoders' parameters.

    The first size is that of the figure of Bellet et al.: an Erdős–Rényi graph with p = ln n/n, uniform weights and
    10 rounds. Any other size may be asked for that `sensitivity` takes. An observer sees the messages of its
    neighbours, and in the sizes of `sums` their sum alone.
    """

    sizes: tuple[tuple[int, int, str, int], ...] = (
        (100, 10, "full", 100),
        (100, 10, "at-most:1", 100),
        (10_000, 10, "full", 1000),
        (100, 1000, "full", 2),
    )
    sums: tuple[tuple[int, int, str, int], ...] = ((10_000, 1000, "full", 10),)
    seed: int = 1
    local_epsilon: float = 10.0
    delta: float = 1e-5
    bands: int = 4
    decay: str = "1/2"


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """One size: everyone's Δ² and the noise multiplier [encoder], hops [target], Δ² and ε at most [encoder, target]."""

    nodes: int
    rounds: int
    participation: str
    view: str
    everyone: np.ndarray
    noise: np.ndarray
    hops: np.ndarray
    squared: np.ndarray
    epsilon: np.ndarray

    @property
    def name(self) -> str:
        """The size in words."""
        words = {"full": "every round", "at-most:1": "one round"}
        size = f"n = {self.nodes}, T = {self.rounds}, {words.get(self.participation, self.participation)}"
        return size if self.view == "neighbourhood" else f"{size}, secure sums"

    def largest(self) -> tuple[np.ndarray, np.ndarray]:
        """Hops that occur, and the largest ε at each [encoder, distance]."""
        distances = np.unique(self.hops)
        return distances, np.stack(
            [self.epsilon[:, self.hops == hop].max(axis=1) for hop in distances], axis=1
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """One `Case` for each size of the configuration."""

    config: Config
    cases: tuple[Case, ...]

    @property
    def table(self) -> Table:
        """One row for each size, encoder and distance."""
        rows: list[tuple[Cell, ...]] = []
        for case in self.cases:
            for e, name in enumerate(ENCODERS):
                for hop in np.unique(case.hops):
                    there = case.hops == hop
                    found = case.epsilon[e, there]
                    rows.append(
                        (case.nodes, case.rounds, case.participation, case.view, name, float(case.everyone[e]),
                         float(case.noise[e]), int(hop), int(there.sum()), float(case.squared[e, there].max()),
                         float(found.mean()), float(found.max()))
                    )  # fmt: skip
        columns = (
            "nodes rounds participation view encoder everyone_squared noise_multiplier hops targets squared_most "
            "epsilon_mean epsilon_most"
        )
        return Table(columns=tuple(columns.split()), rows=tuple(rows))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Distance protects, whatever the encoder; whether correlation helps depends on how often one takes part."""
        found = []
        for case in self.cases:
            distances, largest = case.largest()
            falling = [bool((np.diff(row) < 0).all()) for row in largest]
            found.append(
                Finding(
                    statement="Bellet et al. 2025",
                    claim=f"what a node learns falls with the distance, whatever the encoder ({case.name})",
                    measured=f"the largest ε is {_range(largest[:, 0])} at 1 hop and {_range(largest[:, -1])} at "
                    f"{distances[-1]} hops, where everyone's is {self.config.local_epsilon:g}",
                    verdict=verdict_of(falling),
                )
            )
        for case in self.cases:
            distances, largest = case.largest()
            plain, others = largest[0], largest[1:]
            found.append(
                Finding(
                    statement="Kalinin & Lampert 2024, Orvieto et al. 2022, Kalinin et al. 2026",
                    claim="at one ε of everyone's view, noise correlated over the rounds tells a node no more than "
                    f"independent noise ({case.name})",
                    measured="; ".join(
                        f"{hop} {'hop' if hop == 1 else 'hops'}: {_range(others[:, k])} against {near(plain[k])}"
                        for k, hop in enumerate(distances)
                    ),
                    verdict=verdict_of([bool(x) for x in (others <= plain * (1 + CLOSE)).ravel()]),
                )
            )
        return tuple(found)


def _range(values: np.ndarray) -> str:
    return f"{near(values.min())} to {near(values.max())}"


def encoder(name: str, rounds: int, *, bands: int, decay: str) -> tuple[Fraction | int, ...]:
    """The first column of C.

    The square root of the matrix of partial sums has 1, 1/2, 3/8, …; its banded form keeps the first `bands` of them.
    Anti-PGD takes off the noise of the round before, so that C is all ones; DP-λCGD takes off λ = `decay` times it, so
    that C has 1, λ, λ², ….

    Source: Kalinin & Lampert 2024 (arXiv 2405.13763); Orvieto et al. 2022 (arXiv 2202.02831); Kalinin et al. 2026
    (arXiv 2601.22334).

    >>> encoder("banded square root", 5, bands=3, decay="1/2")
    (Fraction(1, 1), Fraction(1, 2), Fraction(3, 8))
    """
    if name == "independent":
        return (1,)
    if name == "Anti-PGD":
        return (1,) * rounds
    if name == "DP-λCGD":
        return tuple(Fraction(decay) ** k for k in range(rounds))
    roots = [Fraction(1)]
    for k in range(1, min(rounds, bands) if name.startswith("banded") else rounds):
        roots.append(roots[-1] * Fraction(2 * k - 1, 2 * k))
    return tuple(roots)


def run(config: Config, progress: Progress | None = None) -> Result:
    """Account for nodes at every distance from one observer of its neighbours' messages or sums, for each encoder."""
    messages, sums = View.neighbourhood(OBSERVER), View.secure_sum(OBSERVER)
    looked = [*((size, messages) for size in config.sizes), *((size, sums) for size in config.sums)]
    step = steps(progress, len(looked) * len(ENCODERS))
    # Everyone sees each node's own noise and contributions, whatever the network: two nodes say what any would.
    two = uniform_weights("path:n=2")
    mu = gaussian.mu(config.local_epsilon, config.delta)
    cases = []
    for (nodes, rounds, participation, targets), view in looked:
        weights = random_graph(nodes, config.seed)
        hops = csgraph.shortest_path(weights.matrix.T, unweighted=True, indices=OBSERVER).astype(int)
        at_each = (np.flatnonzero(hops == hop) for hop in range(1, hops.max() + 1))
        # Answers come in the order of the nodes.
        chosen = np.sort(np.concatenate([spread(there, targets) for there in at_each]))
        everyone, squared = np.empty(len(ENCODERS)), np.empty((len(ENCODERS), len(chosen)))
        for e, name in enumerate(ENCODERS):
            code = encoder(name, rounds, bands=config.bands, decay=config.decay)
            local = sensitivity(
                gossip(two, rounds=rounds, encoder=code), View.everyone, [0], participation=participation
            )
            protocol = gossip(weights, rounds=rounds, encoder=code)
            found = sensitivity(protocol, view, chosen.tolist(), participation=participation)
            everyone[e], squared[e] = local.squared_upper[0], found.squared_upper
            step()
        noise = np.sqrt(everyone) / mu
        cases.append(
            Case(
                nodes=nodes,
                rounds=rounds,
                participation=participation,
                view=view.name,
                everyone=everyone,
                noise=noise,
                hops=hops[chosen],
                squared=squared,
                epsilon=gaussian.epsilon(np.sqrt(squared) / noise[:, None], config.delta),
            )
        )
    return Result(config=config, cases=tuple(cases))


def random_graph(nodes: int, seed: int) -> GossipWeights:
    """Uniform weights on an Erdős–Rényi graph with p = ln n/n; the first seed from `seed` on that connects it."""
    while True:
        try:
            return uniform_weights(f"erdos-renyi:n={nodes},p={math.log(nodes) / nodes:.6f},seed={seed}")
        except GraphError:
            seed += 1
