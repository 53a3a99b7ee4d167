# SPDX-License-Identifier: Apache-2.0
"""Shuffled epochs: every record takes part once in each, in a secret order, and is accounted for as that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sottovoce import Participation, Scenario, account_all, gossip, graphs, train
from sottovoce.errors import InputError
from sottovoce.learning import Recipe, Run, load_data, plan, task_from
from sottovoce.learning.descent import _dealt
from sottovoce.learning.noise import drawn_by, fresh_keys
from sottovoce.learning.reactions import reaction_of

WEIGHTS = graphs.metropolis_weights("ring:n=6")
TASK = task_from(load_data("breast-cancer"), nodes=6, l2=0.01)


def ring(rounds: int) -> Any:
    return gossip(WEIGHTS, rounds=rounds)


@pytest.mark.parametrize("seeded", [True, False])
def test_every_record_takes_part_once_an_epoch_in_an_order_of_its_own(seeded: bool) -> None:
    chosen = plan(TASK, ring(9), noise_multiplier=1.0, batches=4)
    descent = chosen.descent(drawn_by(fresh_keys(6, 1), TASK.dimension, seeded=seeded))
    rounds = np.array([_dealt(descent, t) for t in range(8)])
    assert (rounds[:4].sum(axis=0) == 1).all()
    assert (rounds[4:].sum(axis=0) == 1).all()
    assert (rounds[0] != rounds[4]).any()
    assert (rounds[0, 0] != rounds[0, 1]).any()
    assert rounds.sum(axis=2).max() <= -(-TASK.shards.nominal // 4)
    # Who else is there changes nobody's batch.
    fewer = TASK.shards.present.copy()
    fewer[:, 0] = False
    other = replace(descent, task=replace(TASK, shards=replace(TASK.shards, present=fewer)))
    assert (_dealt(other, 3) == rounds[3]).all()


def test_an_epoch_costs_one_participation_and_less_noise_is_enough() -> None:
    chosen = plan(TASK, ring(10), noise_multiplier=2.0, batches=4)
    assert chosen.account.participation == "epochs:4"
    assert chosen.account.sensitivity_squared is not None
    assert chosen.account.sensitivity_squared.upper == 3
    assert chosen.gradient_sensitivity == 4 / TASK.shards.nominal
    noises = [plan(TASK, ring(10), target_epsilon=2.0, batches=b).noise_multiplier for b in (1, 2, 5, 10)]
    assert noises == sorted(noises, reverse=True)


def test_what_is_certified_for_a_view_is_that_of_the_ball_and_the_epochs() -> None:
    chosen = plan(TASK, ring(12), view="secure-sum", noise_multiplier=2.0, batches=4)
    reaction = reaction_of(TASK, chosen.exposure.steps, Recipe(noise_multiplier=1, batches=4))
    hull = reaction.hull(0, 12)
    assert hull is not None
    known = account_all(
        gossip(WEIGHTS, rounds=12, updates=hull),
        "secure-sum",
        noise_multiplier=2.0,
        delta=1e-5,
        participation=Participation.epochs(4),
        effort="bulk",
    )
    assert chosen.account.assumption == "smooth"
    assert chosen.account.mu.upper == pytest.approx(known.mu_upper.max())
    # At most ⌈nominal/B⌉ records are summed and divided by nominal/B.
    whole = reaction_of(TASK, chosen.exposure.steps, Recipe(noise_multiplier=1))
    assert reaction.smoothness is not None
    assert whole.smoothness is not None
    nominal = TASK.shards.nominal
    assert reaction.smoothness == pytest.approx(whole.smoothness * -(-nominal // 4) * 4 / nominal)


def test_the_same_noise_reaches_the_accuracy_at_a_smaller_epsilon() -> None:
    whole, part = (train(TASK, ring(40), noise_multiplier=4.0, seed=1, batches=b) for b in (1, 4))
    assert whole.accuracy is not None
    assert part.accuracy is not None
    assert min(whole.accuracy, part.accuracy) > 0.9
    assert part.epsilon.upper < 3.4 < 7.5 < whole.epsilon.upper


def test_a_run_goes_on_in_the_middle_of_an_epoch_bit_for_bit() -> None:
    kept: list[Run] = []
    words: dict[str, Any] = {"noise_multiplier": 4.0, "batches": 4}
    run = train(TASK, ring(10), checkpoint=kept.append, checkpoint_every=3, **words)
    middle = next(one for one in kept if one.state.round == 6)
    assert np.array_equal(train(TASK, ring(10), resume=middle, **words).state.models, run.state.models)
    with pytest.raises(InputError, match="its batches is 4, and 2 was asked for"):
        train(TASK, ring(10), resume=middle, noise_multiplier=4.0, batches=2)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"batches": 0}, "batches must be"),
        ({"batches": 2, "unit": "node"}, "with unit node all data of a node take part in every round, got 2"),
        ({"batches": 2, "batch_fraction": 0.5}, r"two ways to take part in some rounds; got 2 and 0.5"),
    ],
)
def test_epochs_that_are_none_are_refused(words: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        plan(TASK, ring(4), noise_multiplier=1.0, **words)


def test_participations_of_ones_own_are_refused() -> None:
    for spelling in ("epochs:2", "at-most:1"):
        asked = Scenario(protocol=ring(4), view="everyone", participation=spelling)
        with pytest.raises(
            InputError, match="participation must be left out where training is accounted for"
        ):
            plan(TASK, asked, noise_multiplier=1.0, batches=2)
