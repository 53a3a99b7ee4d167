# SPDX-License-Identifier: Apache-2.0
"""Differentially private gradient descent followed by gossip, all nodes at once: `init` and `step`.

A round runs the program of the protocol that the accountant reads, with contributions −η_t(g_t + h∘θ_t) and draws of
deviation η_t σ. For plain gossip that is

    s_t = θ_t − η_t (g_t + h∘θ_t + σ ξ_t),   θ_{t+1} = W s_t,   θ_1 = 0,

θ_t the nodes' models (n × d), g_t the clipped sums over `nominal`, ξ_t standard Gaussian noise, s_t what is sent.

Source: Eq. 5.1 of Koskela & Kulkarni.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from sottovoce.errors import InputError, at_least, one_of, positive
from sottovoce.learning.clipping import clipped_rows
from sottovoce.learning.coins import most_heads
from sottovoce.protocols import added_by, edges_of, run_round, unencoded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.learning.clipping import Sums
    from sottovoce.learning.noise import NoiseSource
    from sottovoce.learning.tasks import Task
    from sottovoce.protocols import Program, Protocol

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
    "check_batches",
    "check_counts",
    "check_fraction",
    "check_protocol",
    "clipped_gradients",
    "consensus_distance",
    "gradient_sensitivity",
    "init",
    "step",
    "taking_part",
]

Unit = Literal["record", "node"]
Weighting = Literal["uniform", "linear"]
UNITS: tuple[Unit, ...] = ("record", "node")
AVERAGES: tuple[Weighting, ...] = ("uniform", "linear")
# How far floats may leave a row of averaging weights from a sum of 1.
ROWS_SUM = 1e-9


class State(NamedTuple):
    """Where a run stands after `round` rounds: what the nodes keep, and the average of their mean models so far.

    `registers` holds what the protocol keeps, the model first (registers × nodes × dimension), as the difference from
    the public model `start`; with an encoder also what it remembers of earlier draws. `average` weighs the mean model
    before each round t equally ("uniform") or by t ("linear"), as the descent says.
    """

    round: int
    registers: NDArray[np.float64]
    start: NDArray[np.float64]
    average: NDArray[np.float64]

    @property
    def models(self) -> NDArray[np.float64]:
        """The nodes' models, one a row."""
        return np.asarray(self.registers[0] + self.start)


class Info(NamedTuple):
    """What one round did; none of it is private but the messages, and those as far as the account says.

    `clipped` is the share of gradients that were clipped, `zeroed` how many were not finite and counted as zero,
    `consensus_distance` the root mean square distance of the nodes' models from their mean after the round, `noise` the
    standard Gaussian noise that the nodes drew, one array a draw, `messages` what they sent, one array an exchange.
    `loss` is the mean over the records that took part at their own nodes' models before it, where that is known.
    """

    round: int
    step: float
    clipped: float
    zeroed: int
    consensus_distance: float
    noise: tuple[NDArray[np.float64], ...]
    messages: tuple[NDArray[np.float64], ...]
    loss: float | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Descent:
    """What every node does: `steps` η_t, the clip and the unit it protects, and the noise it adds to its gradient.

    `noise_std` is σ, the standard deviation of each coordinate of the noise: noise multiplier times `sensitivity`.
    With `batch_fraction` below 1 each record takes part in a round with that probability, on a coin of its own; tosses
    beyond `most_heads` are tossed again. With `batches` above 1 it takes part in one round of each epoch of so many: at
    the beginning of an epoch every node deals the public shard size in places, in a secret order, to batches of equal
    size. With `local_steps` above 1 a node takes so many steps on its records between two messages, without noise; that
    is added to what they make together.
    """

    task: Task
    protocol: Protocol
    steps: Array
    noise: NoiseSource
    noise_std: float
    clip: float = 1.0
    unit: Unit = "record"
    batch_fraction: float = 1.0
    batches: int = 1
    weighting: Weighting = "uniform"
    local_steps: int = 1

    def __post_init__(self) -> None:
        """Refuse settings under which the rounds are not what the accountant takes them to be."""
        check_protocol(self.protocol)
        positive(clip=self.clip)
        at_least(1, local_steps=self.local_steps)
        one_of(UNITS, unit=self.unit)
        one_of(AVERAGES, weighting=self.weighting)
        check_fraction(self.batch_fraction)
        check_batches(self.batches, self.batch_fraction, self.unit)
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

    @cached_property
    def run(self) -> Protocol:
        """The protocol as it is run: an encoder is written out as registers that nodes keep."""
        return unencoded(self.protocol)

    @property
    def share(self) -> float:
        """The share of the public shard size that a batch is divided by."""
        return self.batch_fraction / self.batches


def check_batches(batches: int, batch_fraction: float, unit: Unit) -> None:
    """Refuse epochs that are none, that are sampled as well, or of nodes, which take part as a whole."""
    at_least(1, batches=batches)
    if batches > 1 and unit == "node":
        raise InputError(
            f"batches are of records; with unit node all data of a node take part in every round, got {batches} "
            "(leave batches out, or protect records)"
        )
    if batches > 1 and batch_fraction < 1:
        raise InputError(
            f"batches and batch_fraction are two ways to take part in some rounds; got {batches} and "
            f"{batch_fraction!r} (give one of them)"
        )


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


def check_protocol(protocol: Protocol) -> None:
    """Refuse a protocol that training cannot run as it is accounted for."""
    if protocol.plain and protocol.damping is not None:
        low, high = float(protocol.damping.min()), float(protocol.damping.max())
        raise InputError(
            "in training nodes damp by 1 − step·curvature of the loss and nothing else; got a protocol with damping "
            f"from {low:.4g} to {high:.4g}, which would be accounted for and not run (leave damping out, and give the "
            "loss its l2 or curvature)"
        )
    reason = _untrained(protocol)
    if reason is not None:
        raise InputError(f"training cannot run the protocol {protocol.name!r}: {reason}")


def _untrained(protocol: Protocol) -> str | None:
    """Why a protocol cannot train; None if it can."""
    if protocol.updates is not None:
        return "how nodes update follows from the loss (leave updates out)"
    if len({program.model for program in protocol.programs}) > 1:
        return "its programs take gradients at different registers (give all of them the same model)"
    if not protocol.shows_model:
        return (
            "its messages do not tell its models, so that gradients would depend on what nobody sees, and not even "
            "local DP is proved (send what the model is made of)"
        )
    if any(np.abs(weights.matrix.sum(axis=1) - 1).max() > ROWS_SUM for weights in protocol.schedule):
        return "the rows of its weights do not sum to 1, so that models are no averages (take such weights)"
    return None


def gradient_sensitivity(task: Task, clip: float, unit: Unit, batch_fraction: float = 1.0) -> float:
    """By how much adding or removing one record (or a node's data) can move that node's gradient.

        clip/(batch_fraction·nominal) for records,   clip for nodes.

    Guarantee: exact in the worst case, the same for every node; replace-one moves it twice as far. What floats make of
    the gradient moves by no more: rows are cut to `clip_limit`, which leaves room for their sum and its quotient.
    Source: docs/proofs/clips.md.
    """
    return clip if unit == "node" else clip / (batch_fraction * task.shards.nominal)


def init(descent: Descent) -> State:
    """The state before the first round: every node has the same public model, zeros unless the loss says otherwise."""
    n, d = descent.protocol.n, descent.task.dimension
    start = np.zeros(d) if descent.task.loss.start is None else np.asarray(descent.task.loss.start)
    kept = len(descent.run.programs[0].keeps)
    return State(round=0, registers=np.zeros((kept, n, d)), start=start, average=np.zeros(d))


def step(descent: Descent, state: State) -> tuple[State, Info]:
    """One round of the protocol, with clipped gradients and noise. The same state always gives the same result."""
    t = state.round
    if t >= descent.protocol.rounds:
        raise InputError(
            f"the protocol has {descent.protocol.rounds} rounds, and all of them are done (plan more rounds)"
        )
    weights, program = descent.run.round_of(t)
    size, models = float(descent.steps[t]), state.models
    # Numbers that overflow are for the caller to find in the models, not for warnings.
    with np.errstate(over="ignore", invalid="ignore"):
        gradient, contribution = _contributed(descent, state, size)
        scale = size * descent.noise_std
        noise = _drawn(descent, t, (*state.registers, contribution), scale)
        names = _kept(program)
        held, messages = run_round(
            weights,
            program,
            dict(zip(names, state.registers, strict=True)),
            contribution,
            {draw.name: -scale * drawn for draw, drawn in zip(program.draws, noise, strict=True)},
        )
        following = State(
            round=t + 1,
            registers=np.stack([held[name] for name in names]),
            start=state.start,
            average=averaged(state.average, models.mean(axis=0), t + 1, descent.weighting),
        )
        distance = consensus_distance(following.models)
    return following, Info(
        round=t + 1,
        step=size,
        clipped=gradient.clipped,
        zeroed=gradient.zeroed,
        consensus_distance=distance,
        noise=noise,
        messages=tuple(messages),
        loss=gradient.loss,
    )


def _contributed(descent: Descent, state: State, size: float) -> tuple[Sums, Array]:
    """What the nodes contribute: a step −η(g + h∘θ), or several, each from where the one before it has led.

    Records that take part in a round do so in all its local steps, and none of these steps is noised: noise enters
    once, with what they make together. Of the sums those of the last step are returned, all that was zeroed with them.
    """
    total, zeroed = np.zeros_like(state.registers[0]), 0
    for number in range(descent.local_steps):
        now = state if number == 0 else state._replace(registers=(state.registers[0] + total)[None])
        gradient = _gradients(descent, now)
        change = -size * (gradient.values + descent.task.linear * now.models)
        total, zeroed = change if number == 0 else total + change, zeroed + gradient.zeroed
    return gradient._replace(zeroed=zeroed), total


def _drawn(descent: Descent, t: int, content: tuple[Array, ...], scale: float) -> tuple[Array, ...]:
    """The draws of a round, one row a node or an edge, bound to all that the nodes themselves put into it.

    Draws of edges come first, and what they add to a node counts as content of its own draws: where a neighbour's data
    have changed, and with them the draw of the edge, no other noise of the node stays as it was and gives it away.
    """
    weights, program = descent.run.round_of(t)
    # Whole turns of the programs, and those of the last one that is not whole.
    turns = [len(each.draws) for each in descent.run.programs]
    first, width = t // len(turns) * sum(turns) + sum(turns[: t % len(turns)]), content[0].shape[1]
    shared = {
        k: descent.noise.between(first + k, edges_of(weights), content, scale, width)
        for k, draw in enumerate(program.draws)
        if draw.each == "edge"
    }
    added = (added_by(weights, program.draws[k], drawn) for k, drawn in shared.items())
    covered = (*content, *added)
    return tuple(
        shared[k] if k in shared else descent.noise.covering(first + k, covered, scale, width)
        for k in range(len(program.draws))
    )


def _kept(program: Program) -> list[str]:
    """The names of what a program keeps, the model first."""
    return [program.model, *(name for name in program.keeps if name != program.model)]


def averaged(average: Array, model: Array, t: int, weighting: Weighting) -> Array:
    """The average over t rounds from that over t − 1 and the model before round t: a_t = a_{t−1} + w_t(θ − a_{t−1})."""
    weight = 1 / t if weighting == "uniform" else 2 / (t + 1)
    return np.asarray(average + weight * (model - average))


def consensus_distance(models: Array) -> float:
    """The root mean square distance of the nodes' models from their mean."""
    return float(np.sqrt(((models - models.mean(axis=0)) ** 2).sum(axis=1).mean()))


def _dealt(descent: Descent, t: int) -> NDArray[np.bool_]:
    """Which records of each node are in the batch of a round.

    Places are dealt, and not records, so that nobody's batch depends on who else is there, and no batch has more places
    than the public shard size over `batches`, rounded up. The order is that of numbers drawn from the node's key for
    the epoch, so that it is the same in all its rounds and after a run goes on.
    """
    epoch, batch = divmod(t, descent.batches)
    nominal, width = _places(descent)
    rank = descent.noise.uniform(epoch, nominal).argsort(axis=1, kind="stable").argsort(axis=1)
    return np.asarray(rank[:, :width] % descent.batches == batch)


def _tossed(descent: Descent, t: int) -> NDArray[np.bool_]:
    """Which records of each node take part in a round, by a coin for each place.

    Coins are of places too: how many there are does not depend on who is there. Those of a node with more heads than
    the public cap are tossed again, so that given the coins of all others a record's own shows heads with probability
    q, or never. A multiple of 2⁻⁵³, as coins are, has to be below q: that is no more often than q says.
    """
    nominal, width = _places(descent)
    rate = np.floor(descent.batch_fraction * 2**53) / 2**53
    most, tosses = most_heads(nominal, descent.batch_fraction), 1
    heads = descent.noise.uniform(t, nominal) < rate
    while (again := heads.sum(axis=1) > most).any():
        tosses += 1
        heads[again] = descent.noise.uniform(t, tosses * nominal)[again, -nominal:] < rate
    return np.asarray(heads[:, :width])


def _places(descent: Descent) -> tuple[int, int]:
    """The places that batches are made of, as many as the public shard size, and how many of them shards have."""
    nominal, width = descent.task.shards.nominal, descent.task.shards.present.shape[1]
    if width > nominal:
        raise InputError(
            f"batches are made of as many places as the public shard size; got shards with {width} places and a shard "
            f"size of {nominal} (leave out the places that no record has)"
        )
    return nominal, width


def _gradients(descent: Descent, state: State) -> Sums:
    """The data's part of each node's gradient, clipped."""
    task, weights = descent.task, taking_part(descent, state.round).astype(np.float64)
    return clipped_gradients(
        task, state.models, weights, clip=descent.clip, unit=descent.unit, share=descent.share
    )


def taking_part(descent: Descent, t: int) -> NDArray[np.bool_]:
    """Which records of each node take part in round t, counted from 0."""
    present = descent.task.shards.present
    if descent.batch_fraction < 1:
        return present & _tossed(descent, t)
    return present & _dealt(descent, t) if descent.batches > 1 else present


def clipped_gradients(
    task: Task, models: Array, weights: Array, *, clip: float, unit: Unit, share: float = 1.0
) -> Sums:
    """The data's part of the gradient at each node's model: records, or whole nodes, clipped, over the nominal batch.

    `weights` says of each record whether it is in the batch, which is divided by `share` of the public shard size.

    Guarantee: a record, or all data of a node, moves its row by at most `gradient_sensitivity`, rounding included.
    Source: docs/proofs/clips.md.
    """
    nominal = share * task.shards.nominal
    if unit == "record":
        found = task.loss.clipped_sums(models, task.shards, weights, clip)
        return found._replace(values=found.values / nominal)
    found = task.loss.clipped_sums(models, task.shards, weights, None)
    whole = clipped_rows(found.values / nominal, clip)
    return whole._replace(zeroed=whole.zeroed + found.zeroed, loss=found.loss)
