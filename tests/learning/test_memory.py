"""Momentum and several exchanges a round in training: certified for the view, or local DP, and attacked."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.learning.test_local_steps import classified

from sottovoce import Effort, Scenario, View, graphs
from sottovoce.auditing import TrainingAudit, audit_training
from sottovoce.auditing.training import CanaryLoss
from sottovoce.errors import InputError
from sottovoce.learning import GradientLoss, Recipe, SilentNoise, Task, init, plan, reaction_of, step, train
from sottovoce.learning.certified import remembered
from sottovoce.learning.programs import heard
from sottovoce.protocols import gossip, momentum, repeated

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


def test_where_steps_differ_memory_is_not_on_one_scale_and_nothing_is_counted_as_hidden() -> None:
    """Two rounds have one ball that counts, and yet what momentum remembers was divided by another step."""
    asked = Scenario(protocol=momentum(STAR, rounds=2, beta="0.5"), view=SUM)
    seen = heard(asked, Effort())
    steady, falling, rising = (
        remembered(seen, asked, reaction_of(classified(2), np.array(steps), Recipe(noise_multiplier=1)))
        for steps in ([0.5, 0.5], [0.5, 0.49], [0.25, 0.5])
    )
    assert "shift" in steady[0].method
    assert falling == rising == seen


def test_an_attack_on_runs_does_not_refute_it_and_would_refute_much_less() -> None:
    chosen = plan(classified(2), HEAVY, view=SUM, noise_multiplier=0.6, step=1.0, target_delta=0.01)
    assert chosen.account.assumption == "smooth"

    def audited(**claim: Any) -> TrainingAudit:
        return audit_training(chosen, trials=400, canary="constant", rng=np.random.default_rng(4), **claim)

    assert not audited().refuted
    assert audited(claim=chosen.table.with_noise(2.4).worst()).refuted


def test_coins_and_batches_count_on_top_of_what_is_hidden() -> None:
    task, words = classified(2), {"view": SUM, "noise_multiplier": 2.0, "step": 0.5}
    whole, dealt = (plan(task, HEAVY, batches=count, **words) for count in (1, 3))  # type: ignore[arg-type]
    assert dealt.account.sensitivity_squared is not None
    assert whole.account.sensitivity_squared is not None
    # Two epochs of three rounds are two participations; slopes grow a little, as a batch may hold more than its share.
    assert dealt.account.sensitivity_squared.upper < 0.4 * whole.account.sensitivity_squared.upper
    tossed = plan(task, HEAVY, batch_fraction=0.5, **words)  # type: ignore[arg-type]
    assert tossed.account.assumption == "smooth"
    assert tossed.account.epsilon().upper < whole.account.epsilon().upper


@pytest.mark.parametrize("late", [False, True])
def test_falling_steps_on_a_program_are_accounted_for_as_they_are_run(late: bool) -> None:
    """v_t = β v_{t−1} + η_t(c_t + u_t), or with the noise on the message: what is told is v over its noise."""
    rounds, beta = 5, 0.5
    heavy = momentum(STAR, rounds=rounds, beta="1/2", noise="message" if late else "gradient")
    task = classified(2)
    found = plan(task, heavy, noise_multiplier=2.0, step="1/sqrt(t)")
    sizes = 1 / np.sqrt(np.arange(1, rounds + 1))
    kept = np.tril(beta ** np.abs(np.subtract.outer(np.arange(rounds), np.arange(rounds)))) * sizes
    # Of streams of norm 1 in each round the constant one is worst, as all entries are positive.
    expected = float(((kept / sizes[:, None]).sum(axis=1) ** 2).sum()) if late else float(rounds)
    assert found.account.sensitivity_squared is not None
    assert found.account.sensitivity_squared.upper == pytest.approx(expected, rel=1e-9)
    assert found.table.protocol.sentence == heavy.sentence
    # And the trainer's own rounds move what is told by that much: nothing reacts here but the canary.
    still = GradientLoss(gradients=lambda _, features, __: 0 * features, dimension=5, smoothness=1.0)
    quiet = Task(name="still", loss=still, shards=task.shards)
    canary = CanaryLoss(loss=still, node=1, gradient=np.eye(5)[0])
    told = []
    for each in (quiet, replace(quiet, loss=canary)):
        chosen = plan(each, heavy, noise_multiplier=2.0, step="1/sqrt(t)")
        descent = chosen.descent(SilentNoise(3))
        state, sent = init(descent), []
        for _ in range(rounds):
            before = state.models
            state, info = step(descent, state)
            sent.append((info.messages[0] - before)[1, 0] / chosen.gradient_sensitivity)
        told.append(sent)
    # Clipping stays a part in a billion below its norm.
    assert np.subtract(told[0], told[1]) == pytest.approx(kept.sum(axis=1), rel=1e-8)


def test_falling_steps_with_an_encoder_are_refused() -> None:
    encoded = gossip(STAR, rounds=4, encoder=["1", "1/2"])
    with pytest.raises(InputError, match=r"steps must be constant with an encoder.*they go from 1 to 0.5"):
        plan(classified(2), encoded, noise_multiplier=1.0, step="1/sqrt(t)")
