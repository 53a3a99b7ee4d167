# SPDX-License-Identifier: Apache-2.0
"""Erratum (d): the maximum over vectors exceeds the one over signs, so "by symmetry" does not carry over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import gossip
from sottovoce.sensitivities import ENUMERABLE, sensitivity
from sottovoce.studies.results import Finding, Table, above, below, steps
from sottovoce.views import View

if TYPE_CHECKING:
    from sottovoce.studies.results import Progress

__all__ = ["Config", "Result", "run"]


@dataclass(frozen=True, kw_only=True)
class Config:
    """Networks with an observer and a target, and how many rounds: up to 20, so that all signs can be tried."""

    pairs: tuple[tuple[str, int, int], ...] = (
        ("path:n=4", 1, 0),
        ("torus:rows=10,cols=10", 0, 1),
        ("preferential:n=100,core=5,links=3,seed=1", 5, 80),
    )
    most_rounds: int = ENUMERABLE


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """The upper end over all signs and both ends over vectors, as arrays [pair, T] for T = 1, 2 and so on."""

    config: Config
    signs: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    @property
    def rounds(self) -> np.ndarray:
        """1..T."""
        return np.arange(1, self.config.most_rounds + 1)

    @property
    def excess(self) -> np.ndarray:
        """By which share the vectors certainly exceed all signs; 0 where they do not."""
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(self.signs > 0, self.lower / self.signs - 1, 0.0)
        return np.asarray(np.maximum(ratio, 0))

    @property
    def table(self) -> Table:
        """One row for each network and T."""
        rows = tuple(
            (*pair, int(T), float(self.signs[k, t]), float(self.lower[k, t]), float(self.upper[k, t]),
             float(self.excess[k, t]))
            for k, pair in enumerate(self.config.pairs)
            for t, T in enumerate(self.rounds)
        )  # fmt: skip
        columns = "network observer target rounds signs_upper vectors_lower vectors_upper excess"
        return Table(columns=tuple(columns.split()), rows=rows)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Whether some network and T separate the two."""
        found = []
        for k, (name, observer, target) in enumerate(self.config.pairs):
            over = np.flatnonzero(self.excess[k] > 1e-6)
            worst = int(np.argmax(self.excess[k]))
            first = f"from T = {self.rounds[over[0]]} on; " if over.size else ""
            found.append(
                Finding(
                    statement="Section 3.2, on dimensions",
                    claim="the maximum over signs holds in every dimension by symmetry "
                    f"({name}, node {observer} sees sums, node {target} is the target)",
                    measured=f"{first}at T = {self.rounds[worst]} vectors attain {below(self.lower[k, worst], 6)}, no "
                    f"signs more than {above(self.signs[k, worst], 6)}: "
                    f"{below(100 * self.excess[k, worst], 3)} percent more",
                    verdict="does not hold" if over.size else "holds",
                )
            )
        return tuple(found)


def run(config: Config, progress: Progress | None = None) -> Result:
    """Try all signs, and certify both ends for vectors."""
    shape = (len(config.pairs), config.most_rounds)
    signs, lower, upper = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    step = steps(progress, shape[0] * shape[1])
    for k, (name, observer, target) in enumerate(config.pairs):
        weights, view = metropolis_weights(name), View.secure_sum(observer)
        for t in range(config.most_rounds):
            protocol = gossip(weights, rounds=t + 1)
            numbers = sensitivity(protocol, view, [target], contribution="scalar")
            found = sensitivity(protocol, view, [target], tolerance=1e-6)
            signs[k, t] = numbers.squared_upper[0]
            lower[k, t], upper[k, t] = found.squared_lower[0], found.squared_upper[0]
            step()
    return Result(config=config, signs=signs, lower=lower, upper=upper)
