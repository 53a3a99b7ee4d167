# SPDX-License-Identifier: Apache-2.0
"""`Run` and `History`: what training leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sottovoce.learning.descent import consensus_distance

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sottovoce.accounting import Account, AccountTable
    from sottovoce.learning.descent import State
    from sottovoce.learning.tasks import Task

__all__ = ["History", "Run", "measured"]


class History(NamedTuple):
    """What was measured after some of the rounds, one entry each; `epsilon` is what the view had cost by then."""

    rounds: NDArray[np.int64]
    loss: NDArray[np.float64]
    consensus_distance: NDArray[np.float64]
    clipped: NDArray[np.float64]
    epsilon: NDArray[np.float64]

    @classmethod
    def empty(cls) -> History:
        """Nothing yet."""
        none = np.zeros(0)
        return cls(np.zeros(0, dtype=np.int64), none, none, none, none)

    def extended(self, *values: float) -> History:
        """With the entries of one more round."""
        return History._make(np.append(column, value) for column, value in zip(self, values, strict=True))


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """A training run with its account; unfinished if `state.round` is below `rounds`.

    `account` is that of the worst pair in the view that was chosen, under the assumption it names (`table` has all
    pairs, unless the run was read from a file); `unconditional` holds whoever sees whatever. `loss`, `excess_risk` and
    `accuracy` are those of the mean of the nodes' models, `node_accuracies` (worst, mean) those of the models
    themselves, and `average_excess_risk` that of the average over rounds; None where they are not defined. They are
    measured without noise and are not private.

    `keys` are those of the noise generators while the run is unfinished: whoever has them can take the noise away, and
    so can whoever knows the seed of a run that is `seeded`.
    """

    settings: Mapping[str, Any]
    rounds: int
    cut: bool
    state: State
    history: History
    noise_multiplier: float
    noise_std: float
    account: Account
    unconditional: Account
    table: AccountTable | None = None
    seeded: bool = False
    keys: NDArray[np.uint64] | None = None
    loss: float | None = None
    excess_risk: float | None = None
    average_excess_risk: float | None = None
    accuracy: float | None = None
    node_accuracies: tuple[float, float] | None = None

    @property
    def finished(self) -> bool:
        """Whether all rounds are done."""
        return self.state.round >= self.rounds

    @property
    def model(self) -> NDArray[np.float64]:
        """The mean of the nodes' models."""
        return np.asarray(self.state.models.mean(axis=0))

    @property
    def consensus_distance(self) -> float:
        """The root mean square distance of the nodes' models from their mean."""
        return consensus_distance(self.state.models)

    def __repr__(self) -> str:
        """Task, rounds and ε."""
        epsilon = self.account.epsilon().upper
        return f"Run({self.settings['task']}, {self.state.round} of {self.rounds} rounds, ε ≤ {epsilon:.4g})"


def measured(task: Task, run: Run) -> Run:
    """The run with its final measurements."""
    best = task.optimum
    loss = task.risk(run.model)
    accuracies = [task.accuracy(model) for model in run.state.models]
    known = [value for value in accuracies if value is not None]
    return replace(
        run,
        loss=None if np.isnan(loss) else loss,
        excess_risk=None if best is None else loss - best.risk,
        average_excess_risk=None if best is None else task.risk(run.state.average) - best.risk,
        accuracy=task.accuracy(run.model),
        node_accuracies=(min(known), float(np.mean(known))) if known else None,
    )
