# SPDX-License-Identifier: Apache-2.0
"""What one part of a frontier computes: noise from accounts, accuracies from runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sottovoce.forms import Form
from sottovoce.frontiers.tuning import tuning_data
from sottovoce.learning import (
    Descent,
    NodeNoise,
    SilentNoise,
    central_descent,
    fresh_keys,
    gradient_sensitivity,
    init,
    plan,
    step,
)
from sottovoce.scenarios import Scenario
from sottovoce.views import Assumption

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sottovoce.frontiers.questions import Part, Question
    from sottovoce.learning import NoiseSource, Schedule, Task
    from sottovoce.protocols import Protocol

__all__ = ["Noise", "Runs", "computed"]

# How many runs each step has on the data that it is chosen on.
_TRIALS = 2


class Noise(Form, frozen=True, kw_only=True, tag_field="part", tag="noise"):
    """Noise multipliers for each ε in the view, what they rest on, and the ε of local DP that each has."""

    fingerprint: str
    multipliers: tuple[float, ...]
    local: tuple[float, ...]
    assumption: Assumption
    method: str


class Runs(Form, frozen=True, kw_only=True, tag_field="part", tag="runs"):
    """Accuracies of all repeats, of the mean model and of the nodes' own on average, at the step that was chosen.

    `scores` are the accuracies, on the data that steps are chosen on, of each step.
    """

    fingerprint: str
    step: str
    place: int
    noise_multiplier: float
    scores: tuple[float, ...]
    accuracies: tuple[float, ...]
    node_accuracies: tuple[float, ...]


class _Trial(NamedTuple):
    """One run: on which task, by which steps, with which noise.

    On other records than those of the question, `nominal` is the shard size that noise is scaled for, so that it is the
    same.
    """

    task: Task
    schedule: Schedule
    multiplier: float
    seed: int
    nominal: int | None = None


def computed(question: Question, part: Part, noise: Mapping[Part, Noise], fingerprint: str) -> Noise | Runs:
    """What a part holds; `noise` has the parts that are done of that kind."""
    return (
        _noise(question, part, fingerprint)
        if part.kind == "noise"
        else _runs(question, part, noise, fingerprint)
    )


def _noise(question: Question, part: Part, fingerprint: str) -> Noise:
    """The noise that an arm needs at one step, for each ε.

    Guarantee: with it the worst pair of the view is (ε, δ)-private, under the assumption that is named.
    """
    task = question.task(part.network, 0)
    chosen = plan(
        task,
        Scenario(
            protocol=question.protocol(part.network, part.protocol),
            view=part.view,
            relation=question.relation,
        ),
        noise_multiplier=1.0,
        target_delta=question.delta,
        step=question.schedules(task)[part.step],
        clip=question.clip,
    )
    found = [chosen.table.calibrated_noise(epsilon, question.delta) for epsilon in question.epsilons]
    seen = [chosen.exposure.everyone(noise_multiplier=value, delta=question.delta) for value in found]
    return Noise(
        fingerprint=fingerprint,
        multipliers=tuple(found),
        local=tuple(float(each.epsilon().upper) for each in seen),
        assumption=chosen.account.assumption,
        method=chosen.account.method,
    )


def _runs(question: Question, part: Part, noise: Mapping[Part, Noise], fingerprint: str) -> Runs:
    """The runs of a part, at the step that does best on the data to choose on."""
    score = {"central": _central, "silent": _silent, "runs": _noised}[part.kind]
    own = question.schedules(question.task(part.network, 0))
    multipliers = _multipliers(question, part, noise, len(own))
    scores: tuple[float, ...] = ()
    if len(own) > 1:
        scores = _scores(question, part, multipliers, score)
    place = int(np.argmax(scores)) if scores else 0
    found = [
        score(
            question,
            part,
            _Trial(question.task(part.network, repeat), own[place], multipliers[place], repeat),
        )
        for repeat in range(question.repeats)
    ]
    return Runs(
        fingerprint=fingerprint,
        step=str(own[place]),
        place=place,
        noise_multiplier=multipliers[place],
        scores=scores,
        accuracies=tuple(each for each, _ in found),
        node_accuracies=tuple(each for _, each in found),
    )


def _multipliers(question: Question, part: Part, noise: Mapping[Part, Noise], count: int) -> list[float]:
    """The noise multiplier of each step; 0 where the runs say it themselves."""
    if part.kind != "runs":
        return [0.0] * count
    place = question.epsilons.index(part.epsilon)
    arms = (part._replace(kind="noise", epsilon=0.0, step=k) for k in range(count))
    return [noise[arm].multipliers[place] for arm in arms]


def _scores(
    question: Question,
    part: Part,
    multipliers: list[float],
    score: Callable[[Question, Part, _Trial], tuple[float, float]],
) -> tuple[float, ...]:
    """How each step does on records that are not protected, noise being that of the runs themselves."""
    data = tuning_data(question, part.network)
    nominal = question.task(part.network, 0).shards.nominal
    tasks = [question.tuning_task(part.network, data, repeat) for repeat in range(_TRIALS)]
    schedules = question.schedules(tasks[0])
    return tuple(
        float(
            np.mean(
                [
                    score(question, part, _Trial(task, schedule, multiplier, seed, nominal))[0]
                    for seed, task in enumerate(tasks)
                ]
            )
        )
        for schedule, multiplier in zip(schedules, multipliers, strict=True)
    )


def _noised(question: Question, part: Part, trial: _Trial) -> tuple[float, float]:
    """A run with noise."""
    protocol = question.protocol(part.network, part.protocol)
    size = gradient_sensitivity(trial.task, question.clip, "record")
    if trial.nominal is not None:
        size = question.clip / trial.nominal
    source = NodeNoise(fresh_keys(protocol.n, trial.seed), trial.task.dimension)
    return _descended(question, protocol, trial, source, trial.multiplier * size)


def _silent(question: Question, part: Part, trial: _Trial) -> tuple[float, float]:
    """A run without noise."""
    protocol = question.protocol(part.network, part.protocol)
    return _descended(question, protocol, trial, SilentNoise(protocol.n), 0.0)


def _central(question: Question, part: Part, trial: _Trial) -> tuple[float, float]:
    """A run of a trusted server that holds all records."""
    model = central_descent(
        trial.task,
        rounds=question.rounds,
        target_epsilon=part.epsilon,
        target_delta=question.delta,
        step=trial.schedule,
        clip=question.clip,
        relation=question.relation,
        seed=trial.seed,
    ).model
    found = _accuracy(trial.task, model)
    return found, found


def _descended(
    question: Question, protocol: Protocol, trial: _Trial, noise: NoiseSource, noise_std: float
) -> tuple[float, float]:
    """Accuracies after all rounds: of the mean of the nodes' models, and of these models on average."""
    descent = Descent(
        task=trial.task,
        protocol=protocol,
        steps=trial.schedule.sizes(question.rounds),
        noise=noise,
        noise_std=noise_std,
        clip=question.clip,
    )
    state = init(descent)
    for _ in range(question.rounds):
        state, _info = step(descent, state)
    own = [_accuracy(trial.task, model) for model in state.models]
    return _accuracy(trial.task, state.models.mean(axis=0)), float(np.mean(own))


def _accuracy(task: Task, model: np.ndarray) -> float:
    """The share of held-out records that a model gets right; a model that ran away gets none."""
    if not np.isfinite(model).all():
        return 0.0
    found = task.accuracy(model)
    assert found is not None
    return found
