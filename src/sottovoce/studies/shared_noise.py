# SPDX-License-Identifier: Apache-2.0
"""Noise that cancels between neighbours (DECOR) on a ring: who is kept out by shared noise, and who is not.

An eavesdropper on all messages knows no draw. A curious neighbour hears two nodes only, but it knows the draws of its
own edges. Secure sums show it the sum of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce import gaussian
from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import pairwise_noise
from sottovoce.sensitivities import sensitivity
from sottovoce.studies.results import Finding, Table, above, below, near, steps, verdict_of
from sottovoce.views import View

if TYPE_CHECKING:
    from sottovoce.graphs import GossipWeights
    from sottovoce.studies.results import Cell, Progress

__all__ = ["OBSERVERS", "Config", "Result", "run"]

OBSERVERS = (
    "eavesdropper, all messages",
    "neighbour, knows its edges' draws",
    "the same, draws forgotten",
    "neighbour, secure sums",
)
EAVESDROPPER, NEIGHBOUR, FORGETFUL, SUMS = range(len(OBSERVERS))


@dataclass(frozen=True, kw_only=True)
class Config:
    """The ring, the rounds, the noise, and levels: `shared` ones beside local noise, `local` ones beside shared noise.

    `beside` holds the local level that stays while the shared one changes, and the shared one that stays.
    """

    nodes: int = 16
    rounds: int = 20
    noise_multiplier: float = 4.0
    delta: float = 1e-5
    shared: tuple[float, ...] = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
    local: tuple[float, ...] = (0.0625, 0.125, 0.25, 0.5, 1.0, 2.0)
    beside: tuple[float, float] = (1.0, 2.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """Δ² of node 1 between its ends, as arrays [observer, level, end], over shared and over local levels."""

    config: Config
    over_shared: np.ndarray
    over_local: np.ndarray

    def epsilon(self, squared: np.ndarray) -> np.ndarray:
        """ε at most, at the configuration's noise multiplier."""
        upper = np.sqrt(squared[..., 1]) / self.config.noise_multiplier
        return np.asarray(gaussian.epsilon(upper, self.config.delta))

    @property
    def table(self) -> Table:
        """One row for each observer and pair of levels."""
        config, rows = self.config, list[tuple["Cell", ...]]()
        for o, observer in enumerate(OBSERVERS):
            for squared, levels in (
                (self.over_shared, [(config.beside[0], x) for x in config.shared]),
                (self.over_local, [(x, config.beside[1]) for x in config.local]),
            ):
                epsilon = self.epsilon(squared)
                rows += [
                    (observer, local, shared, *map(float, squared[o, k]), float(epsilon[o, k]))
                    for k, (local, shared) in enumerate(levels)
                ]
        columns = ("observer", "local", "shared", "squared_lower", "squared_upper", "epsilon")
        return Table(columns=columns, rows=tuple(rows))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What shared noise keeps from whom."""
        config = self.config
        lower, upper = self.over_shared[..., 0], self.over_shared[..., 1]
        least, most = self.over_local[EAVESDROPPER, 0, 0], self.over_local[EAVESDROPPER, -1, 1]
        epsilon = self.epsilon(self.over_shared)
        strong = config.shared[-1]
        more = lower[NEIGHBOUR] > upper[EAVESDROPPER]
        ahead = [level for level, certainly in zip(config.shared, more, strict=True) if certainly]
        # Without shared noise there is nothing to know.
        worthless = [bool(x) for x in upper[NEIGHBOUR, 1:] <= lower[FORGETFUL, 1:]]
        return (
            Finding(
                statement="Allouah et al. 2024 (DECOR)",
                claim="shared noise hides a node from an eavesdropper on all messages",
                measured=f"beside local noise of level {config.beside[0]:g} its ε falls from "
                f"{near(epsilon[EAVESDROPPER, 0])} without shared noise to {above(epsilon[EAVESDROPPER, -1])} at level "
                f"{strong:g}",
                verdict=verdict_of([bool(x < 0) for x in np.diff(upper[EAVESDROPPER])]),
            ),
            Finding(
                statement="Allouah et al. 2024 (DECOR)",
                claim="a neighbour learns no more than the eavesdropper",
                measured=f"it certainly learns more at shared levels of {', '.join(f'{x:g}' for x in ahead)}, up to "
                f"{near(float((lower[NEIGHBOUR] / upper[EAVESDROPPER]).max()), 3)} times the eavesdropper's Δ²; at "
                f"level {strong:g} its ε is {near(epsilon[NEIGHBOUR, -1])}, the eavesdropper's "
                f"{near(epsilon[EAVESDROPPER, -1])}",
                verdict=verdict_of([level not in ahead for level in config.shared[1:]]),
            ),
            Finding(
                statement="Allouah et al. 2024 (DECOR)",
                claim="the draws of its own edges tell a neighbour nothing",
                measured="; ".join(
                    f"shared {level:g}: Δ² ≥ {below(lower[NEIGHBOUR, k])} with them, ≤ {above(upper[FORGETFUL, k])} "
                    "without"
                    for k, level in enumerate(config.shared)
                    if level in {config.beside[1], strong}
                ),
                verdict=verdict_of(worthless),
            ),
            Finding(
                statement="Allouah et al. 2024 (DECOR)",
                claim="local noise is needed beside shared noise",
                measured=f"local noise of level {config.local[0]:g} leaves the eavesdropper a Δ² of at least "
                f"{below(least)}, of level {config.local[-1]:g} at most {above(most)}: the sum of all messages holds "
                "no shared noise",
                verdict=verdict_of([bool(least > most)]),
            ),
        )


def run(config: Config, progress: Progress | None = None) -> Result:
    """Node 1 before node 0, who hears it, and before an eavesdropper, over levels of shared and of local noise."""
    weights = metropolis_weights(f"ring:n={config.nodes}")
    step = steps(progress, len(config.shared) + len(config.local))
    over = []
    for levels in (
        [(config.beside[0], x) for x in config.shared],
        [(x, config.beside[1]) for x in config.local],
    ):
        columns = []
        for local, shared in levels:
            columns.append(_squared(weights, config.rounds, local, shared))
            step()
        over.append(np.stack(columns, axis=1))
    return Result(config=config, over_shared=over[0], over_local=over[1])


def _squared(weights: GossipWeights, rounds: int, local: float, shared: float) -> np.ndarray:
    """Δ² of node 1 for each observer, between its ends."""
    protocol = pairwise_noise(weights, rounds=rounds, local=local, shared=shared)
    views = (
        View.everyone,
        View.neighbourhood(0),
        View.neighbourhood(0, own_noise="hidden"),
        View.secure_sum(0),
    )
    found = [sensitivity(protocol, view, [1]) for view in views]
    return np.array([[each.squared_lower[0], each.squared_upper[0]] for each in found])
