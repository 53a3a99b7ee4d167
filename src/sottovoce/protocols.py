# SPDX-License-Identifier: Apache-2.0
"""Linear protocols as frozen data, read by the accountant and by the trainer alike.

A protocol is what every node does in each of T rounds; in the plainest one, gossip averaging,

    s_t = W s_{t−1} + x_t + u_t,   s_0 = 0,   u_t ~ N(0, σ² I),

s_t being the vector of messages, x_t the contributions and u_t the noise of round t.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from sottovoce.errors import at_least
from sottovoce.graphs import GossipWeights, as_weights

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from scipy.sparse import csr_array

__all__ = ["Contribution", "Protocol", "gossip"]

Contribution = Literal["vector", "scalar"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Protocol:
    """T rounds of s_t = A s_{t−1} + x_t + u_t, in which node i receives row i of W s_t.

    For gossip averaging the transition A is the gossip matrix W itself.
    """

    weights: GossipWeights
    rounds: int

    @property
    def transition(self) -> csr_array:
        """A: how the messages of one round enter the next."""
        return self.weights.matrix

    @property
    def n(self) -> int:
        """How many nodes take part."""
        return self.weights.n

    @property
    def labels(self) -> Sequence[Hashable]:
        """The nodes' names, in index order."""
        return self.weights.labels

    def index(self, label: Hashable) -> int:
        """The index of the node called `label`."""
        return self.weights.index(label)

    def names(self, indices: np.ndarray) -> np.ndarray:
        """The labels of the nodes at `indices`: an integer array where they fit one, an array of objects otherwise."""
        if isinstance(self.labels, range) and self.labels.stop < 2**63:
            return np.asarray(indices + self.labels.start)
        chosen = [self.labels[i] for i in indices]
        if all(type(label) is int and abs(label) < 2**63 for label in chosen):
            return np.array(chosen, dtype=np.int64)
        names = np.empty(len(chosen), dtype=object)
        names[:] = chosen
        return names


def gossip(weights: GossipWeights | np.ndarray | csr_array, *, rounds: int) -> Protocol:
    """Gossip averaging with a fixed gossip matrix: s_t = W s_{t−1} + x_t + u_t for t = 1..rounds.

    `weights` is a `GossipWeights` (from `metropolis_weights(graph)`, say) or a matrix, dense or sparse, whose
    row i holds what node i gives to each message it receives.

    Source: Section 3.1 and Eq. 3.1 of Koskela & Kulkarni.

    >>> import numpy as np
    >>> gossip(np.full((3, 3), 1 / 3), rounds=10).n
    3
    """
    at_least(1, rounds=rounds)
    checked = as_weights(weights)
    return Protocol(weights=checked, rounds=int(rounds))
