# SPDX-License-Identifier: Apache-2.0
"""What a node contributes in a round: the seam between a run and what is learnt in it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from sottovoce.learning import clipped_gradients

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.learning import Task
    from sottovoce.peers.network import Network
    from sottovoce.peers.outcomes import Outcome

    Array: TypeAlias = NDArray[np.float64]

__all__ = ["Contributor", "Local"]


class Contributor(Protocol):
    """What a node contributes: the seam at which other trainers than those of `train` are put in."""

    def contribution(self, round_: int, model: Array) -> Array:
        """What is added in a round to the difference of a model from the public start, one row.

        Two neighbouring data sets must never move it by more than the network's step times its sensitivity.
        """


class Local:
    """Clipped gradient steps on the node's own records: the tasks of `train`."""

    def __init__(self, network: Network, task: Task) -> None:
        """`task` holds the records of this node alone: `Network.local_task`."""
        self._network, self._task = network, task
        self._weights = task.shards.present.astype(np.float64)
        self._start = np.zeros(task.dimension) if task.loss.start is None else np.asarray(task.loss.start)

    def contribution(self, round_: int, model: Array) -> Array:
        """−η(g + h∘θ), as `train` has it."""
        settings, models = self._network.settings, model + self._start
        found = clipped_gradients(self._task, models, self._weights, clip=settings.clip, unit=settings.unit)
        return np.asarray(-float(self._network.steps[round_]) * (found.values + self._task.linear * models))

    def measured(self, outcome: Outcome) -> Outcome:
        """The outcome with the share of the node's own records whose class its model tells.

        It is measured without noise and is not private: it is for the node's own eyes.
        """
        features, labels = self._task.shards.pooled
        if not self._network.settings.task.classes or self._task.loss.name == "module":
            return outcome
        predicted = self._task.loss.predictions(outcome.model + self._start, features)
        return (
            outcome if predicted is None else replace(outcome, accuracy=float((predicted == labels).mean()))
        )
