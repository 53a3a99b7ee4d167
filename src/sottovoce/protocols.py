# SPDX-License-Identifier: Apache-2.0
"""Linear protocols as frozen data, read by the accountant and by the trainer alike.

A protocol is what every node does in each of T rounds; in the plainest one, gossip averaging,

    s_t = W s_{t−1} + x_t + u_t,   s_0 = 0,   u_t ~ N(0, σ² I),

s_t being the vector of messages, x_t the contributions and u_t the noise of round t. Where every node takes gradient
steps of size η on a quadratic loss of curvature h_k, what it received is damped before it goes on, and the loop stays
linear: s_t = D W s_{t−1} + x_t + u_t with D = diag(1 − ηh_k).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy import sparse

from sottovoce.errors import InputError, at_least, at_most
from sottovoce.graphs import GossipWeights, as_weights

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import ArrayLike
    from scipy.sparse import csr_array

__all__ = ["Contribution", "Protocol", "gossip", "hash_of_damping"]

Contribution = Literal["vector", "scalar"]
# Floats count so far without a gap: Δ² of so many rounds is still the number that is meant.
MOST_ROUNDS = 2**53


@dataclass(frozen=True, kw_only=True, eq=False)
class Protocol:
    """T rounds of s_t = A s_{t−1} + x_t + u_t, in which node i receives row i of W s_t.

    For gossip averaging the transition A is the gossip matrix W itself. With `damping` D, one number a node, node i
    sends on D_i times what it received: A = D W. None says that nothing is damped.
    """

    weights: GossipWeights
    rounds: int
    damping: np.ndarray | None = None

    def __post_init__(self) -> None:
        """Refuse a damping that does not fit the nodes, and put none in the place of one that changes nothing."""
        if self.damping is not None:
            object.__setattr__(self, "damping", _checked_damping(self.damping, self.labels))

    @cached_property
    def transition(self) -> csr_array:
        """A: how the messages of one round enter the next."""
        if self.damping is None:
            return self.weights.matrix
        damped = self.weights.matrix.copy()
        damped.data *= np.repeat(self.damping, np.diff(damped.indptr))
        damped.eliminate_zeros()
        return sparse.csr_array(damped)

    def exact_row(self, i: int) -> dict[int, Fraction]:
        """Row i of A in rationals; a damping counts as the rational that its float is."""
        row = self.weights.exact_row(i)
        if self.damping is None:
            return row
        factor = Fraction(float(self.damping[i]))
        return {j: factor * x for j, x in row.items() if factor}

    @property
    def symmetric(self) -> bool:
        """Whether A is symmetric to the last bit and has no negative entry."""
        even = self.damping is None or bool((self.damping == self.damping[0]).all() and self.damping[0] > 0)
        return self.weights.symmetric and even

    @cached_property
    def damping_hash(self) -> str | None:
        """SHA-256 of the damping; None without one."""
        return None if self.damping is None else hash_of_damping(self.damping)

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


def gossip(
    weights: GossipWeights | np.ndarray | csr_array, *, rounds: int, damping: ArrayLike | None = None
) -> Protocol:
    """Gossip averaging with a fixed gossip matrix: s_t = D W s_{t−1} + x_t + u_t for t = 1..rounds.

    `weights` is a `GossipWeights` (from `metropolis_weights(graph)`, say) or a matrix, dense or sparse, whose
    row i holds what node i gives to each message it receives.

    `damping` is D, one number for all nodes or one a node in index order, each between −1 and 1; left out, D = I.
    Gradient descent of step η on quadratic losses of scalar curvature h_k has D_k = 1 − ηh_k, and x_t is then the part
    of the step that does not depend on the state. This is exact where no clipping acts and the record that differs has
    a gradient that does not depend on the state either.

    Source: Section 3.1 and Eq. 3.1 of Koskela & Kulkarni for D = I.

    >>> import numpy as np
    >>> gossip(np.full((3, 3), 1 / 3), rounds=10).n
    3
    >>> gossip(np.full((2, 2), 1 / 2), rounds=10, damping=[1, 0.5]).transition.toarray().tolist()
    [[0.5, 0.5], [0.25, 0.25]]
    """
    at_least(1, rounds=rounds)
    at_most(MOST_ROUNDS, rounds=rounds)
    checked = as_weights(weights)
    return Protocol(weights=checked, rounds=int(rounds), damping=damping)  # type: ignore[arg-type]


def hash_of_damping(damping: np.ndarray) -> str:
    """SHA-256 of a damping in a platform-independent form."""
    return hashlib.sha256(damping.astype("<f8").tobytes()).hexdigest()


def _checked_damping(damping: ArrayLike, labels: Sequence[Hashable]) -> np.ndarray | None:
    """One number between −1 and 1 for each node, out of reach of later changes; None where all are 1."""
    n = len(labels)
    try:
        given = np.array(damping, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"damping must be a number, or one number a node; got {damping!r}") from None
    if given.shape not in {(), (n,)}:
        raise InputError(
            f"damping must be one number for all nodes or one for each of the {n} nodes; got shape {given.shape}"
        )
    values = np.array(np.broadcast_to(given, n))
    outside = ~(np.abs(values) <= 1)
    if outside.any():
        worst = int(np.argmax(outside))
        raise InputError(
            f"damping must lie between -1 and 1; node {labels[worst]!r} has {float(values[worst])!r} "
            "(1 - step * curvature leaves that range where the step exceeds 2 / curvature, and the loop runs away)"
        )
    if (values == 1).all():
        return None
    values.flags.writeable = False
    return values
