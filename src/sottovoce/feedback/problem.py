# SPDX-License-Identifier: Apache-2.0
"""Training as the certificate sees it: who is hidden, through which rows, with which slopes and how much noise.

Nodes whose noise the observer does not know are hidden. In every round each hidden node k sends

    s_t = g_t(z_t) + u_t,     u_t ~ N(0, σ² q_k I),     z_{t+1} = A s_t + (what the observers send),

where A = W_UU over the hidden nodes U, and the observers see C s_t. The map g_t of node k lies in a ball of slopes:
‖g(z′) − g(z) − c_k (z′ − z)‖ ≤ r_k ‖z′ − z‖ with c_k ∓ r_k the ends that `Slopes` holds.

A, C, c, r, q and who contributes when are all that Theorem 1 of docs/training.md asks. The names in this room: A is
`loop.transition` in floats and `loop.inflow` in rationals, C is `rows` in floats and `loop.rows` in rationals, q is
`levels`, c and r are `slopes.centre` and `slopes.radius`, ℓ = |c| + r is `slopes.reach`.

"What `smooth` asks of you" in docs/training.md lists what must hold for a question to be about a real training:
that the ball is public, that noise is fresh, and that the view is closed. Only the last can be seen to here, and
is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Literal

import numpy as np
import scipy.sparse.linalg
from scipy import sparse

from sottovoce.errors import InputError
from sottovoce.participation import Participation
from sottovoce.protocols import Slopes, checked_updates, gossip, spread
from sottovoce.verification import HiddenLoop, TrainingQuestion, hidden_loop, squares_below
from sottovoce.views import View, observe

if TYPE_CHECKING:
    from collections.abc import Hashable
    from fractions import Fraction

    from numpy.typing import ArrayLike

    from sottovoce.graphs import GossipWeights
    from sottovoce.protocols import Protocol, Updates

__all__ = ["Slopes", "TrainingView", "training", "training_of"]

# So many questions stay, of networks of at most so many nodes, and what was found for them: a few megabytes. A run of
# training asks the same again for its noise, its table, its report and its certificate.
MOST_KEPT, LARGEST_KEPT = 64, 128
_KEPT: dict[object, TrainingView] = {}
_ONE_AT_A_TIME = Lock()


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingView:
    """One view of T rounds of training: the hidden loop with its slopes and noise levels.

    `slopes` is None where nothing is known of the update maps. `levels` holds one variance a node in units of σ², q.
    `loop` holds A and the rows of C in rationals; `alone` the nodes whose message is seen for itself, `known` those
    whose noise the observer knows. Positions count hidden nodes, `loop.unknown` says which nodes they are.

    `protocol`, `view` and `participation` are what was asked; of the protocol W, the number of rounds and the
    labels count. `levels` and the ends in `slopes` have one number for each of the n nodes, hidden or not.
    """

    protocol: Protocol
    view: View
    participation: Participation
    slopes: Slopes | None
    levels: np.ndarray
    loop: HiddenLoop
    alone: frozenset[int]
    known: np.ndarray

    @property
    def weights(self) -> GossipWeights:
        """The gossip weights."""
        return self.protocol.weights

    @property
    def is_kept(self) -> bool:
        """Whether an equal question gets this very object, so that what is found for it is worth keeping."""
        return self.protocol.n <= LARGEST_KEPT

    def about(self, target: int) -> TrainingQuestion:
        """What is asked about the node of index `target`, as the verifier takes it.

        The solver and the verifier look at the same question, and at nothing else that they share.

        Guarantee: exact; rows and weights are the rationals of the graph, `levels` are what was asked or below it.
        """
        return TrainingQuestion(
            loop=self.loop,
            target=target,
            rounds=self.protocol.rounds,
            participation=self.participation,
            levels=self.levels,
            slopes=self.slopes,
            alone=self.alone,
        )

    @cached_property
    def anyone(self) -> TrainingQuestion:
        """The question about some target: what it says of rounds and rows is the same for all."""
        return self.about(int(self.loop.unknown[0]))

    @property
    def charged(self) -> int:
        """How many rounds can cost anything: all, or all but the last where that one shows nothing.

        Guarantee: exact; what a later round would cost never reaches the view.
        """
        return self.anyone.charged

    @property
    def count(self) -> int:
        """The largest number of charged rounds in which the target contributes: the largest Σδ_t².

        Guarantee: an upper bound, attained by a pattern of the family unless that needs the round that is not
        charged.
        """
        return self.anyone.count

    @property
    def over_informed(self) -> bool:
        """Whether the hidden loop shows more than the view does, so that only upper bounds carry over.

        Guarantee: where it is False, an attack on the loop is one on the view.
        """
        return self.anyone.over_informed

    @cached_property
    def rows(self) -> sparse.csr_array:
        """Independent rows of C in floats, over the hidden nodes, each of length 1.

        They come from the reduced echelon form [I, S] of C, which the verifier has in rationals: a row has 1 at its
        pivot and S at the free nodes. What these rows do not show, C does not show, and the other way round.
        """
        m = self.loop.unknown.size
        unseen = self.anyone.seen
        count = unseen.pivots.size
        unit = sparse.csr_array((np.ones(count), (np.arange(count), unseen.pivots)), shape=(count, m))
        columns = sparse.csr_array(
            (np.ones(unseen.free.size), (np.arange(unseen.free.size), unseen.free)),
            shape=(unseen.free.size, m),
        )
        rows = sparse.csr_array(unit + unseen.solved @ columns)
        return sparse.csr_array(sparse.diags_array(1 / scipy.sparse.linalg.norm(rows, axis=1)) @ rows)

    @cached_property
    def heard(self) -> np.ndarray:
        """Whether the message of each hidden node is part of a row that is seen.

        Guarantee: where it is False, the unit vector of the node is in the kernel of C.
        """
        return np.asarray(
            np.isin(np.arange(self.loop.unknown.size), [k for row in self.loop.rows for k in row])
        )

    @cached_property
    def hops(self) -> np.ndarray:
        """After how many further rounds what a hidden node sends is seen at the earliest; infinite if never.

        A breadth-first walk against the messages: those that are heard have 0, those who send to them 1, and so on.

        Guarantee: exact for the pattern of A; a node with as many hops as there are rounds has Δ² = 0.
        """
        hops = np.where(self.heard, 0.0, np.inf)
        front = np.flatnonzero(self.heard)
        while front.size:
            senders = np.unique(self.loop.transition[front].indices)
            reached = senders[np.isinf(hops[senders])]
            hops[reached] = hops[front[0]] + 1
            front = reached
        return hops

    @cached_property
    def shown_whole(self) -> np.ndarray:
        """Whether the message of each hidden node is seen for itself, so that no difference in it stays hidden.

        For such a node κ ≤ q_j is the best there is, and the cap is exact.

        Guarantee: True only where a row of the echelon form of C, which is in rationals, is a unit vector.
        """
        C = self.rows
        alone = np.diff(C.indptr) == 1
        return np.asarray(np.isin(np.arange(C.shape[1]), C[np.flatnonzero(alone)].indices))


def training(
    weights: GossipWeights,
    view: View,
    *,
    rounds: int,
    updates: Updates,
    noise_levels: ArrayLike | None = None,
    participation: Participation | str | None = None,
) -> TrainingView:
    """The values checked and put together; see `training_sensitivity` for what they mean.

    `noise_levels` are variances here, in units of σ²; a protocol has deviations, see `training_of`.

    >>> from sottovoce import graphs
    >>> star = training(graphs.metropolis_weights("star:n=4"), View.secure_sum(0), rounds=5, updates=(0.9, 1))
    >>> star.loop.unknown.tolist(), star.charged, star.rows.toarray().round(3).tolist()
    ([1, 2, 3], 5, [[0.577, 0.577, 0.577]])
    """
    protocol = gossip(weights, rounds=rounds)
    chosen = Participation.parse(participation) if isinstance(participation, str) else participation
    return _training(
        protocol,
        view,
        checked_updates(updates, protocol.n),
        _levels(noise_levels, protocol.n, protocol.labels),
        chosen or Participation.full(),
    )


def training_of(protocol: Protocol, view: View, participation: Participation) -> TrainingView:
    """A view of a protocol whose nodes update what they received by maps of which `protocol.updates` is known.

    Noise levels are deviations in a protocol; their squares are rounded down.

    Guarantee: less noise never hides more, so bounds for the rounded levels hold for the true ones.
    """
    if protocol.updates is None:
        raise InputError(
            f"the protocol {protocol.name!r} has no updates (give gossip(…, updates=(lower, upper)))"
        )
    protocol.require_gossip()
    squares = squares_below(protocol_levels(protocol))
    levels = _levels(squares, protocol.n, protocol.labels)
    return _training(protocol, view, protocol.updates, levels, participation)


def protocol_levels(protocol: Protocol) -> list[Fraction]:
    """The deviations of all nodes' noise, exact; a node without noise is refused, as it hides nothing of itself.

    Guarantee: exact rationals of the program's one draw, in units of σ.
    """
    levels = spread(protocol.programs[0].draws[0].level, protocol.n)
    _levels([float(level > 0) for level in levels], protocol.n, protocol.labels)
    return levels


def _training(
    protocol: Protocol,
    view: View,
    updates: Slopes | Literal["any"],
    levels: np.ndarray,
    participation: Participation,
) -> TrainingView:
    """The hidden loop of a view, with what is known of its maps and its noise.

    Where a view knows a node's noise without seeing what flows into it, `hidden_loop` adds that inflow to what is seen:
    the loop is then closed, and shows more than the view does, so that upper bounds carry over and lower ends do not.

    Equal questions about a small network are one object.
    """
    observation = observe(protocol, view)
    exact = [observation.exact(k) for k in range(observation.rows.shape[0])]
    slopes = updates if isinstance(updates, Slopes) else None

    def made() -> TrainingView:
        return TrainingView(
            protocol=protocol,
            view=view,
            participation=participation,
            slopes=slopes,
            levels=levels,
            loop=hidden_loop(protocol.weights, observation=exact, known=observation.known),
            alone=frozenset(j for row in exact if len(row) == 1 for j in row),
            known=observation.known,
        )

    if protocol.n > LARGEST_KEPT:
        return made()
    # All that a `TrainingView` holds, so that no other question is taken for this one.
    key = (
        *(protocol.weights.hash, tuple(map(repr, protocol.labels)), protocol.rounds, participation),
        *(view.name, view.own_noise, tuple(map(repr, view.observers)), observation.known.tobytes()),
        *(tuple(tuple(row.items()) for row in exact), levels.tobytes()),
        slopes and (slopes.lower.tobytes(), slopes.upper.tobytes(), slopes.step_smoothness, slopes.losses),
    )
    # Those that were asked for last stand last; the first goes where there is no room.
    with _ONE_AT_A_TIME:
        _KEPT[key] = found = _KEPT.pop(key, None) or made()
        if len(_KEPT) > MOST_KEPT:
            del _KEPT[next(iter(_KEPT))]
    return found


def _levels(given: ArrayLike | None, n: int, labels: Hashable) -> np.ndarray:
    """One positive number a node, which nobody can change afterwards; 1 if nothing is given."""
    try:
        levels = np.array(np.broadcast_to(np.asarray(1.0 if given is None else given, dtype=np.float64), n))
    except (TypeError, ValueError):
        raise InputError(f"noise_levels must be one number a node, for {n} nodes; got {given!r}") from None
    bad = ~(np.isfinite(levels) & (levels > 0))
    if bad.any():
        k = int(np.argmax(bad))
        raise InputError(
            f"noise_levels must be finite and above 0; node {labels[k]!r} has {float(levels[k])!r} "  # type: ignore[index]
            "(a node without noise is no hidden node: give its noise to the observer)"
        )
    levels.flags.writeable = False
    return levels
