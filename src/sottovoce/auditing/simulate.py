# SPDX-License-Identifier: Apache-2.0
"""What an observer sees of gossip, as plain arrays.

Nothing here knows filters, forms or bounds, nor the rows that the accountant works with: what a view shows is read off
its name once more, so that the simulation checks the accountant instead of repeating it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from scipy.sparse import csr_array

    from sottovoce.graphs import GossipWeights
    from sottovoce.protocols import Protocol
    from sottovoce.views import View

__all__ = ["Scene", "Simulator", "known_nodes", "scene_of", "shown_rows"]

Simulator: TypeAlias = Callable[[np.ndarray, int, np.random.Generator], np.ndarray]
"""What an audit runs: (the target's contributions, T × d; how many runs; the generator) → views, one row a run."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Scene:
    """Who does what and who sees what, as plain arrays: s_t = D (W s_{t−1}) + x_t + u_t, seen as C s_t.

    `shown` is C; `known` are the nodes whose noise the observer drew itself or was told.
    """

    weights: csr_array
    damping: np.ndarray
    shown: csr_array
    known: np.ndarray
    target: int
    rounds: int

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return int(self.weights.shape[0])

    def advance(self, state: np.ndarray) -> np.ndarray:
        """What the nodes hold before they contribute: D W s."""
        return np.asarray(self.damping[:, None] * (self.weights @ state))

    def retreat(self, state: np.ndarray) -> np.ndarray:
        """The transpose of `advance`."""
        return np.asarray(self.weights.T @ (self.damping[:, None] * state))


def scene_of(protocol: Protocol, view: View, target: Hashable) -> Scene:
    """The plain arrays behind a protocol, a view and a target."""
    return Scene(
        weights=protocol.weights.matrix,
        damping=np.ones(protocol.n) if protocol.damping is None else protocol.damping,
        shown=shown_rows(protocol, view, protocol.weights),
        known=np.array(sorted({protocol.index(label) for label in known_nodes(view)}), dtype=np.int64),
        target=protocol.index(target),
        rounds=protocol.rounds,
    )


def known_nodes(view: View) -> Sequence[Hashable]:
    """The nodes whose draws the observer made itself or was told."""
    if view.name == "custom":
        return view.known_noise
    return view.observers if view.own_noise == "known" and view.name != "everyone" else ()


def shown_rows(protocol: Protocol, view: View, weights: GossipWeights) -> csr_array:
    """What a view shows of the messages of one exchange, as rows over the nodes."""
    W = weights.matrix
    members = sorted(protocol.index(label) for label in view.observers)
    # Row i of W holds the senders of node i, and node i itself.
    senders = {int(j) for i in members for j in W.indices[W.indptr[i] : W.indptr[i + 1]]} - set(members)
    messages = sparse.csr_array(sparse.eye_array(protocol.n, format="csr"))
    match view.name:
        case "everyone":
            return messages
        case "neighbourhood":
            return sparse.csr_array(messages[sorted({*members, *senders})])
        case "single-node":
            return sparse.csr_array(messages[members])
        case "coalition-messages":
            return sparse.csr_array(messages[sorted(senders)])
        case "custom":
            return sparse.csr_array(view.observation, dtype=np.float64)
        case _:
            return sparse.csr_array(W[members])
