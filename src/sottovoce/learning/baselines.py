# SPDX-License-Identifier: Apache-2.0
"""What a run is compared with at the same (ε, δ): a trusted server, and no noise at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sottovoce import gaussian
from sottovoce.accounting import RELATIONS
from sottovoce.errors import at_least, one_of, positive, probability
from sottovoce.learning.descent import Descent, averaged, consensus_distance, init
from sottovoce.learning.descent import step as step_once
from sottovoce.learning.noise import SilentNoise, drawn_by, fresh_keys
from sottovoce.learning.rounding import sum_stretch
from sottovoce.learning.schedules import Schedule, as_schedule
from sottovoce.rounding import slightly_above

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from sottovoce.accounting import Relation
    from sottovoce.learning.descent import Weighting
    from sottovoce.learning.tasks import Task
    from sottovoce.protocols import Protocol

    Array: TypeAlias = NDArray[np.float64]

__all__ = ["Baseline", "central_descent", "noiseless_descent"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Baseline:
    """A model to compare with: the last one and the average over rounds, and the noise multiplier behind them.

    `models` holds the mean model after each of the `rounds` that were asked for, and `distances` how far those of the
    nodes were from it.
    """

    name: str
    model: Array
    average: Array
    noise_multiplier: float
    rounds: tuple[int, ...] = ()
    models: tuple[Array, ...] = ()
    distances: tuple[float, ...] = ()


def central_descent(
    task: Task,
    *,
    rounds: int,
    target_epsilon: float,
    target_delta: float = 1e-5,
    step: Schedule | float | str,
    clip: float = 1.0,
    relation: Relation = "add-remove",
    weighting: Weighting = "uniform",
    seed: int | None = None,
    watched: Collection[int] = (),
) -> Baseline:
    """Private gradient descent by a trusted server that holds all records and shows every model.

        θ ← (1 − ηh)∘θ − η (Σ_r clip(ψ_r)/(n·nominal) + noise),   noise multiplier √T/μ(ε, δ).

    Guarantee: (ε, δ)-private for one record, unconditionally (adaptive composition of T Gaussian mechanisms); noise is
    larger by what the rounding of a sum over all nodes may add to a clip.
    Source: docs/proofs/clips.md, "Sums of rows".
    """
    positive(target_epsilon=target_epsilon, clip=clip)
    probability(target_delta=target_delta)
    at_least(1, rounds=rounds)
    one_of(RELATIONS, relation=relation)
    # A few units up, as the quotient and the root round.
    noise = slightly_above(
        RELATIONS[relation] * float(np.sqrt(rounds)) / gaussian.mu(target_epsilon, target_delta)
    )
    total = task.nodes * task.shards.nominal
    room = sum_stretch(total)
    source = drawn_by(fresh_keys(1, seed), task.dimension, seeded=seed is not None)
    weights = task.shards.present.astype(np.float64)
    model, average = np.zeros(task.dimension), np.zeros(task.dimension)
    kept: list[tuple[int, Array, float]] = []
    for t, size in enumerate(as_schedule(step).sizes(rounds)):
        average = averaged(average, model, t + 1, weighting)
        copies = np.tile(model, (task.nodes, 1))
        gradient = task.loss.clipped_sums(copies, task.shards, weights, clip).values.sum(axis=0) / total
        bare, scale = (1 - size * task.linear) * model - size * gradient, size * noise * clip / total
        model = (bare - scale * room * source.covering(t, [bare], scale, bare.shape[1]))[0]
        if t + 1 in watched:
            kept.append((t + 1, model, 0.0))
    return Baseline(name="central", model=model, average=average, noise_multiplier=noise, **_kept(kept))


def noiseless_descent(
    task: Task,
    protocol: Protocol,
    *,
    step: Schedule | float | str,
    clip: float = 1.0,
    weighting: Weighting = "uniform",
    watched: Collection[int] = (),
) -> Baseline:
    """The same gossip without noise, which is not private at all: what clipping and the topology cost by themselves."""
    descent = Descent(
        task=task,
        protocol=protocol,
        steps=as_schedule(step).sizes(protocol.rounds),
        noise=SilentNoise(protocol.n),
        noise_std=0.0,
        clip=clip,
        weighting=weighting,
    )
    state = init(descent)
    kept: list[tuple[int, Array, float]] = []
    for _ in range(descent.protocol.rounds):
        state, _ = step_once(descent, state)
        if state.round in watched:
            kept.append((state.round, state.models.mean(axis=0), consensus_distance(state.models)))
    return Baseline(
        name="no noise",
        model=state.models.mean(axis=0),
        average=state.average,
        noise_multiplier=0.0,
        **_kept(kept),
    )


def _kept(watched: list[tuple[int, Array, float]]) -> dict[str, Any]:
    """What was watched, by columns."""
    rounds, models, distances = zip(*watched, strict=True) if watched else ((), (), ())
    return {"rounds": rounds, "models": models, "distances": distances}
