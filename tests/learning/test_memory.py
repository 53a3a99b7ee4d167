"""Momentum and several exchanges a round in training: certified for the view, or local DP, and attacked."""

from typing import Any

import numpy as np
import pytest
from tests.learning.test_local_steps import classified

from sottovoce import View, graphs
from sottovoce.auditing import TrainingAudit, audit_training
from sottovoce.learning import GradientLoss, Task, plan, train
from sottovoce.protocols import momentum, repeated

STAR = graphs.metropolis_weights("star:n=3")
HEAVY = momentum(STAR, rounds=6, beta="0.5")
SUM = View.secure_sum(0)


@pytest.mark.parametrize("protocol", [HEAVY, repeated(STAR, rounds=6, steps=2)])
def test_what_is_hidden_in_a_view_is_counted(protocol: Any) -> None:
    found = plan(classified(2), protocol, view=SUM, noise_multiplier=2.0, step=0.5)
    assert (found.account.assumption, found.account.method) == ("smooth", "shift")
    assert found.account.mu.upper < found.unconditional.mu.upper
    assert found.unconditional.assumption == "none"
    # Its worst pair is no better hidden than that of the exact loop of one map in the ball.
    assert found.account.sensitivity_squared is not None
    assert 3 < found.account.sensitivity_squared.upper < 6


def test_noise_is_chosen_for_it_and_less_is_needed() -> None:
    task = classified(2)
    run = train(task, HEAVY, view=SUM, target_epsilon=2.0, step=0.5, seed=1)
    everyone = plan(task, HEAVY, target_epsilon=2.0, step=0.5)
    assert run.account.epsilon().upper <= 2.0 < run.unconditional.epsilon().upper
    assert run.noise_multiplier < everyone.noise_multiplier
    assert everyone.account.assumption == "none"


def test_larger_steps_and_more_memory_hide_less() -> None:
    def share(beta: str, step: float, **words: Any) -> float:
        heavy = momentum(STAR, rounds=6, beta=beta)
        found = plan(classified(2), heavy, view=SUM, noise_multiplier=1.0, step=step, **words)
        assert found.account.sensitivity_squared is not None
        return found.account.sensitivity_squared.upper

    assert share("0.5", 0.5) < share("0.5", 2.0) < share("0.9", 2.0) <= 6
    assert share("0.5", 0.5) < share("0.5", 0.5, local_steps=3)


def test_where_the_inequality_says_nothing_it_is_local_dp() -> None:
    task = classified(2)
    strange = GradientLoss(
        gradients=lambda model, features, _: np.tanh(features @ model)[:, None] * features, dimension=5
    )
    unknown = Task(name="strange", loss=strange, shards=task.shards)
    late = momentum(STAR, rounds=6, beta="0.5", noise="message")
    for asked, protocol, view in (
        (unknown, HEAVY, SUM),
        (task, late, SUM),
        (task, HEAVY, View.single_node(0)),
    ):
        found = plan(asked, protocol, view=view, noise_multiplier=2.0, step=0.5)
        assert found.account.assumption == "none"
        assert found.account.mu.upper == pytest.approx(found.unconditional.mu.upper)
    # A leaf hears its neighbour alone: no proof helps there, and the worst pair rests on nothing.
    leaves = plan(task, HEAVY, view="secure-sum", noise_multiplier=2.0, step=0.5)
    assert (leaves.account.method, leaves.account.assumption) == ("cap", "none")
    assert {"cap", "shift"} == set(leaves.table.method.tolist())


def test_an_attack_on_runs_does_not_refute_it_and_would_refute_much_less() -> None:
    chosen = plan(classified(2), HEAVY, view=SUM, noise_multiplier=0.6, step=1.0, target_delta=0.01)
    assert chosen.account.assumption == "smooth"

    def audited(**claim: Any) -> TrainingAudit:
        return audit_training(chosen, trials=400, canary="constant", rng=np.random.default_rng(4), **claim)

    assert not audited().refuted
    assert audited(claim=chosen.table.with_noise(2.4).worst()).refuted
