# SPDX-License-Identifier: Apache-2.0
"""Differentially private gradient descent followed by gossip, all nodes at once: `init` and `step`.

    s_t = (1 − η_t h)∘θ_t − η_t (g_t + σ ξ_t),   θ_{t+1} = W s_t,   θ_1 = 0,

θ_t the nodes' models (n × d), g_t the clipped sums over `nominal`, ξ_t standard Gaussian noise, s_t what is sent.
With a constant step this is the protocol that the accountant reads: its weights are the W of this recurrence.

Source: Eq. 5.1 of Koskela & Kulkarni.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from sottovoce.errors import InputError, one_of, positive
from sottovoce.learning.losses import clipped_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.learning.losses import Sums
    from sottovoce.learning.noise import NoiseSource
    from sottovoce.learning.tasks import Task
    from sottovoce.protocols import Protocol

    Array: TypeAlias = NDArray[np.float64]

__all__ = [
    "AVERAGES",
    "UNITS",
    "Descent",
    "Info",
    "State",
    "Unit",
    "Weighting",
    "averaged",
    "check_counts",
    "check_fraction",
    "consensus_distance",
    "init",
    "sensitivity",
    "step",
    "undamped",
]

Unit = Literal["record", "node"]
Weighting = Literal["uniform", "linear"]
UNITS: tuple[Unit, ...] = ("record", "node")
AVERAGES: tuple[Weighting, ...] = ("uniform", "linear")


class State(NamedTuple):
    """Where a run stands after `round` rounds: the nodes' models, and the average of their means so far.

    `average` weighs the mean model before each round t equally ("uniform") or by t ("linear"), as the descent says.
    """

    round: int
    models: NDArray[np.float64]
    average: NDArray[np.float64]


class Info(NamedTuple):
    """What one round did; none of it is private but the messages, and those as far as the account says.

    `clipped` is the share of gradients that were clipped, `zeroed` how many were not finite and counted as zero,
    `consensus_distance` the root mean square distance of the nodes' models from their mean after the round, `noise` the
    standard Gaussian noise that the nodes drew, `messages` what they sent.
    """

    round: int
    step: float
    clipped: float
    zeroed: int
    consensus_distance: float
    noise: NDArray[np.float64]
    messages: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Descent:
    """What every node does: `steps` η_t, the clip and the unit it protects, and the noise it adds to its gradient.

    `noise_std` is σ, the standard deviation of each coordinate of the noise: noise multiplier times `sensitivity`.
    With `batch_fraction` below 1 each record takes part in a round with that probability, on a coin of its own.
    """

    task: Task
    protocol: Protocol
    steps: Array
    noise: NoiseSource
    noise_std: float
    clip: float = 1.0
    unit: Unit = "record"
    batch_fraction: float = 1.0
    weighting: Weighting = "uniform"

    def __post_init__(self) -> None:
        """Refuse settings under which the rounds are not what the accountant takes them to be."""
        undamped(self.protocol)
        positive(clip=self.clip)
        one_of(UNITS, unit=self.unit)
        one_of(AVERAGES, weighting=self.weighting)
        check_fraction(self.batch_fraction)
        check_counts(self.task)
        if not (np.isfinite(self.noise_std) and self.noise_std >= 0):
            raise InputError(f"noise_std must be a finite number of at least 0; got {self.noise_std!r}")
        if self.task.nodes != self.protocol.n:
            raise InputError(
                f"there must be one shard for each node; got {self.task.nodes} shards and {self.protocol.n} nodes "
                "(deal the data to the nodes of the graph)"
            )
        if len(self.steps) != self.protocol.rounds or not (np.isfinite(self.steps) & (self.steps > 0)).all():
            raise InputError(
                f"there must be a step size above 0 for each of the {self.protocol.rounds} rounds; got "
                f"{len(self.steps)} of them"
            )
        pull = float(self.steps.max() * self.task.linear.max())
        if pull > 1:
            raise InputError(
                f"step must be at most 1 over the curvature of the public part of the loss, or models run away; "
                f"step times curvature is {pull:.4g} (take a step of at most {1 / float(self.task.linear.max()):.4g})"
            )

    @property
    def sensitivity(self) -> float:
        """By how much a node's gradient can move: clip over the nominal batch, or clip for whole nodes."""
        return sensitivity(self.task, self.clip, self.unit, self.batch_fraction)


def check_fraction(batch_fraction: float) -> None:
    """Refuse a probability of taking part that is none."""
    if not 0 < batch_fraction <= 1:
        raise InputError(f"batch_fraction must lie in (0, 1]; got {batch_fraction!r}")


def check_counts(task: Task) -> None:
    """Refuse a node that would sum more records than everybody divides by: what it sends would not be as smooth.

    The public shard size is a cap. Dropping records in silence would not do: which ones are left would depend on the
    others, and one record more could move a sum twice as far.
    """
    counts, nominal = task.shards.counts, task.shards.nominal
    if counts.max() > nominal:
        node = int(counts.argmax())
        raise InputError(
            f"no node may train on more records than the public shard size; node {node} holds {counts[node]}, and the "
            f"shard size is {nominal} (take a larger shard size, or leave records out beforehand)"
        )


def undamped(protocol: Protocol) -> None:
    """Refuse a protocol with a damping of its own: in training, what damps is the public part of the loss."""
    if protocol.damping is not None:
        low, high = float(protocol.damping.min()), float(protocol.damping.max())
        raise InputError(
            "training runs plain gossip, in which nodes damp by 1 − step·curvature of the loss and nothing else; got "
            f"a protocol with damping from {low:.4g} to {high:.4g}, which would be accounted for and not run (leave "
            "damping out, and give the loss its l2 or curvature)"
        )


def sensitivity(task: Task, clip: float, unit: Unit, batch_fraction: float = 1.0) -> float:
    """By how much adding or removing one record (or a node's data) can move that node's gradient.

        clip/(batch_fraction·nominal) for records,   clip for nodes.

    Guarantee: exact in the worst case, the same for every node; replace-one moves it twice as far.
    """
    return clip if unit == "node" else clip / (batch_fraction * task.shards.nominal)


def init(descent: Descent) -> State:
    """The state before the first round: every node has the same public model, zeros unless the loss says otherwise."""
    n, d = descent.protocol.n, descent.task.dimension
    start = np.zeros(d) if descent.task.loss.start is None else descent.task.loss.start
    return State(round=0, models=np.tile(start, (n, 1)), average=np.zeros(d))


def step(descent: Descent, state: State) -> tuple[State, Info]:
    """One round: clipped gradients, noise, a step, and gossip. The same state always gives the same result."""
    t = state.round
    if t >= descent.protocol.rounds:
        raise InputError(
            f"the protocol has {descent.protocol.rounds} rounds, and all of them are done (plan more rounds)"
        )
    size = float(descent.steps[t])
    # Numbers that overflow are for the caller to find in the models, not for warnings.
    with np.errstate(over="ignore", invalid="ignore"):
        gradient = _gradients(descent, state)
        bare = (1 - size * descent.task.linear) * state.models - size * gradient.values
        scale = size * descent.noise_std
        noise = descent.noise.covering(t, bare, scale)
        messages = bare - scale * noise
        models = descent.protocol.weights.matrix @ messages
        distance = consensus_distance(models)
        average = averaged(state.average, state.models.mean(axis=0), t + 1, descent.weighting)
    following = State(round=t + 1, models=models, average=average)
    return following, Info(
        round=t + 1,
        step=size,
        clipped=gradient.clipped,
        zeroed=gradient.zeroed,
        consensus_distance=distance,
        noise=noise,
        messages=messages,
    )


def averaged(average: Array, model: Array, t: int, weighting: Weighting) -> Array:
    """The average over t rounds from that over t − 1 and the model before round t: a_t = a_{t−1} + w_t(θ − a_{t−1})."""
    weight = 1 / t if weighting == "uniform" else 2 / (t + 1)
    return np.asarray(average + weight * (model - average))


def consensus_distance(models: Array) -> float:
    """The root mean square distance of the nodes' models from their mean."""
    return float(np.sqrt(((models - models.mean(axis=0)) ** 2).sum(axis=1).mean()))


def _gradients(descent: Descent, state: State) -> Sums:
    """The data's part of each node's gradient, clipped."""
    task, shards = descent.task, descent.task.shards
    weights = shards.present.astype(np.float64)
    if descent.batch_fraction < 1:
        weights *= descent.noise.uniform(state.round, weights.shape[1]) < descent.batch_fraction
    nominal = descent.batch_fraction * shards.nominal
    if descent.unit == "record":
        found = task.loss.clipped_sums(state.models, shards, weights, descent.clip)
        return found._replace(values=found.values / nominal)
    found = task.loss.clipped_sums(state.models, shards, weights, None)
    whole = clipped_rows(found.values / nominal, descent.clip)
    return whole._replace(zeroed=whole.zeroed + found.zeroed)
