# SPDX-License-Identifier: Apache-2.0
"""`Recipe`: how a task is trained, as one value or as words of `plan` and `train`."""

from typing import Any

import numpy as np
import pytest

from sottovoce import Effort, Scenario, gossip, graphs, train
from sottovoce.errors import InputError
from sottovoce.learning import Recipe, Task, TrainingWords, logistic, plan, shards_of, synthetic_task

RING = gossip(graphs.metropolis_weights("ring:n=5"), rounds=6)
TASK = synthetic_task(5)


def test_both_forms_train_the_same() -> None:
    scenario = Scenario(protocol=RING, view="secure-sum", relation="replace-one", observers=[0, 2])
    long = train(TASK, scenario, recipe=Recipe(target_epsilon=2.0, step=0.25), seed=1)
    short = train(
        TASK,
        RING,
        view="secure-sum",
        relation="replace-one",
        observers=[0, 2],
        target_epsilon=2.0,
        step=0.25,
        seed=1,
    )
    assert long.settings == short.settings
    assert long.account == short.account
    assert np.array_equal(long.state.registers, short.state.registers)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({}, "noise_multiplier must be given, or else a target ε that it is chosen for; got neither"),
        ({"noise_multiplier": 1.0, "target_epsilon": 1.0}, "a target ε that it is chosen for; got both"),
        ({"target_epsilon": 1.0, "max_epsilon": 2.0}, "max_epsilon must be left out where noise is chosen"),
        ({"noise_multiplier": 0.0}, "noise_multiplier must be a finite number above 0; got 0.0"),
        ({"target_epsilon": -1}, "target_epsilon must be a finite number above 0; got -1"),
        (
            {"noise_multiplier": 1.0, "target_delta": 1},
            "target_delta must lie strictly between 0 and 1; got 1",
        ),
        ({"noise_multiplier": 1.0, "clip": 0}, "clip must be a finite number above 0; got 0"),
        ({"noise_multiplier": 1.0, "unit": "class"}, "unit must be one of record, node; got 'class'"),
        ({"noise_multiplier": 1.0, "batch_fraction": 0}, r"batch_fraction must lie in \(0, 1\]; got 0"),
        (
            {"noise_multiplier": 1.0, "weighting": "odd"},
            "weighting must be one of uniform, linear; got 'odd'",
        ),
    ],
)
def test_a_recipe_refuses_what_makes_no_run(words: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Recipe(**words)


def test_words_are_those_of_the_recipe_and_of_the_question() -> None:
    assert set(Recipe.__dataclass_fields__) < set(TrainingWords.__annotations__)
    with pytest.raises(TypeError, match="unexpected keyword argument 'noise'"):
        plan(TASK, RING, noise=1.0)  # type: ignore[call-arg]
    with pytest.raises(InputError, match="a Recipe says all about the training; got clip beside it"):
        plan(TASK, RING, recipe=Recipe(noise_multiplier=1.0), clip=2.0)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"targets": [1]}, r"targets must be left out where training is accounted for, .* got \(1,\)"),
        ({"contribution": "scalar"}, "contribution must be left out where training is .* got 'scalar'"),
        ({"participation": "every:2"}, "participation must be left out where training is accounted for"),
    ],
)
def test_what_training_has_no_answer_to_is_refused(words: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        plan(TASK, Scenario(protocol=RING, view="secure-sum", **words), recipe=Recipe(noise_multiplier=1.0))


def test_what_may_be_spent_reaches_the_accounts_and_belongs_to_the_run() -> None:
    rng = np.random.default_rng(1)
    shards = shards_of(
        [rng.normal(size=(3, 4)) * 0.3 for _ in range(5)], [np.ones(3) for _ in range(5)], nominal=3
    )
    task = Task(name="five", loss=logistic(4, radius=1.0), shards=shards)
    longer = gossip(RING.weights, rounds=12)
    words: Any = {"view": "secure-sum", "noise_multiplier": 2.0, "step": 0.5}
    usual, together, each = (
        plan(task, longer, effort=Effort(depth=depth), **words) for depth in ("auto", "bulk", "fine")
    )
    assert usual.table.squared_upper.tolist() == together.table.squared_upper.tolist()
    assert each.table.squared_upper.max() < together.table.squared_upper.max()
    # Who solves for each target may give each round a step of its own, so that rounds are not alike.
    assert together.exposure.costs_alike(together.table)
    assert not each.exposure.costs_alike(each.table)
    assert (together.settings["effort"], each.settings["effort"]) == ("bulk", "fine")
    with pytest.raises(InputError, match="engine must be auto for training"):
        plan(task, longer, engine="filter", **words)
    kept: list[Any] = []
    train(task, longer, checkpoint=kept.append, seed=1, effort="bulk", **words)
    with pytest.raises(InputError, match="its effort is 'bulk', and 'fine' was asked for"):
        train(task, longer, resume=kept[1], effort="fine", **words)
