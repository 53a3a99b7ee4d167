"""Local steps: several between two messages, one noise, and a number that holds for what they make together."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sottovoce import View, gossip, graphs, sensitivity
from sottovoce.auditing import TrainingAudit, audit_training
from sottovoce.errors import InputError
from sottovoce.feedback import composed_growth, composed_slopes
from sottovoce.learning import (
    Data,
    Descent,
    GradientLoss,
    Recipe,
    SilentNoise,
    Task,
    init,
    plan,
    reaction_of,
    step,
    synthetic_task,
    task_from,
)

RING = gossip(graphs.metropolis_weights("ring:n=3"), rounds=4)


def classified(classes: int, seed: int = 0) -> Task:
    rng = np.random.default_rng(seed)
    data = Data(
        name="drawn",
        features=3 * rng.standard_normal((36, 4)),
        labels=np.arange(36) % classes,
        classes=classes,
        published_records=36,
    )
    return task_from(data, 3, l2=0.05, test_share=0.0)


def contributions(task: Task, models: np.ndarray, size: float, steps: int, **words: Any) -> np.ndarray:
    """What the trainer's round adds to models, with no noise: messages less models."""
    descent = Descent(
        task=task,
        protocol=RING,
        steps=np.full(4, size),
        noise=SilentNoise(3),
        noise_std=0.0,
        local_steps=steps,
        **words,
    )
    state = init(descent)._replace(registers=models[None])
    return np.asarray(step(descent, state)[1].messages[0] - models)


@pytest.mark.parametrize("ends", [(0.9, 1.0), (0.2, 0.7), (-0.6, 1.0), (-1.0, 1.0), (-1.4, 1.1), (0.8, 1.3)])
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_compositions_lie_in_the_ball_and_reach_its_far_end(ends: tuple[float, float], steps: int) -> None:
    lower, upper = composed_slopes(ends, steps)
    centre, radius = (lower + upper) / 2, (upper - lower) / 2
    c, r = sum(ends) / 2, (ends[1] - ends[0]) / 2
    rng = np.random.default_rng(7)
    largest = 0.0
    for _ in range(300):
        whole = np.eye(2)
        for _ in range(steps):
            turn = np.linalg.qr(rng.standard_normal((2, 2)))[0]
            # Reflections and rotations: the ends of the ball of matrices.
            whole = (c * np.eye(2) + r * turn) @ whole
        largest = max(largest, float(np.linalg.norm(whole - centre * np.eye(2), 2)))
    assert largest <= radius * (1 + 1e-12)
    reach = max(map(abs, ends))
    assert max(abs(lower), abs(upper)) == pytest.approx(reach**steps, rel=1e-9)
    assert largest > 0.8 * radius


def test_averaged_maps_compose_better_than_lipschitz_ones() -> None:
    assert composed_slopes((0.9, 1.0), 1) == (0.9, 1.0)
    # α = 1/2 twice is 2/3: the numbers of a projection followed by a projection.
    assert composed_slopes((0.0, 1.0), 2) == pytest.approx((-1 / 3, 1.0), abs=1e-12)
    assert composed_slopes((-1.0, 1.0), 3) == pytest.approx((-1.0, 1.0), abs=1e-12)
    assert composed_growth(1.0, 4) == pytest.approx(4)
    assert composed_growth(2.0, 3) >= 7


@pytest.mark.parametrize(("classes", "size"), [(2, 1.0), (2, 6.0), (3, 2.0), (3, 9.0)])
def test_what_a_round_makes_lies_in_the_ball_and_moves_no_further_than_said(
    classes: int, size: float
) -> None:
    task = classified(classes)
    found = reaction_of(task, np.full(4, size), Recipe(noise_multiplier=1, local_steps=3))
    assert found.slopes is not None
    lower, upper = found.slopes[1]
    rng = np.random.default_rng(1)
    less = task.shards.present.copy()
    less[1, 2] = False
    fewer = replace(task, shards=replace(task.shards, present=less))
    moved = 0.0
    for scale in (0.1, 1.0, 10.0):
        for _ in range(10):
            one, two = scale * rng.standard_normal((2, 3, task.dimension))
            maps = [models + contributions(task, models, size, 3) for models in (one, two)]
            off = maps[1] - maps[0] - (lower + upper) / 2 * (two - one)
            allowed = (upper - lower) / 2 * np.linalg.norm(two - one, axis=1)
            assert (np.linalg.norm(off, axis=1) <= allowed * (1 + 1e-12)).all()
            change = contributions(task, one, size, 3) - contributions(fewer, one, size, 3)
            assert not change[[0, 2]].any()
            moved = max(moved, float(np.linalg.norm(change[1])))
    most = size * found.growth / task.shards.nominal
    assert 0.2 * most < moved <= most


def test_a_round_is_its_steps_one_after_the_other() -> None:
    task = classified(3)
    models = np.random.default_rng(2).standard_normal((3, task.dimension))
    now = models
    for _ in range(3):
        now = now + contributions(task, now, 2.0, 1)
    assert np.allclose(contributions(task, models, 2.0, 3), now - models, atol=1e-12)


def test_quadratic_losses_close_a_loop_that_is_as_steep_as_its_steps_together() -> None:
    task = synthetic_task(3, dimension=2)
    chosen = plan(task, RING, view=View.secure_sum(0), noise_multiplier=2.0, step=0.25, local_steps=3)
    assert chosen.account.assumption == "quadratic"
    loop = gossip(RING.weights, rounds=4, damping=0.75**3)
    expected = sensitivity(loop, View.secure_sum(0)).squared_upper.max()
    assert chosen.account.sensitivity_squared is not None
    assert chosen.account.sensitivity_squared.upper == pytest.approx(expected, rel=1e-12)
    once = plan(task, RING, view=View.secure_sum(0), noise_multiplier=2.0, step=0.25)
    assert chosen.noise_std / once.noise_std == pytest.approx(1 + 0.75 + 0.75**2)


def test_losses_of_which_nothing_is_known_take_one_step_unless_nodes_are_protected() -> None:
    task = classified(2)
    strange = GradientLoss(
        gradients=lambda model, features, _: np.sin(99 * (features @ model))[:, None] * features, dimension=5
    )
    unknown = Task(name="strange", loss=strange, shards=task.shards)
    with pytest.raises(
        InputError, match=r"local_steps must be 1 for the loss .*; got 2 \(declare smoothness="
    ):
        plan(unknown, RING, noise_multiplier=1.0, step=0.1, local_steps=2)
    with pytest.raises(InputError, match="local_steps must be a whole number of at least 1; got 0"):
        plan(task, RING, noise_multiplier=1.0, local_steps=0)
    whole = plan(unknown, RING, noise_multiplier=1.0, step=0.1, unit="node", local_steps=2)
    assert whole.gradient_sensitivity == 2.0
    models = np.random.default_rng(3).standard_normal((3, 5))
    found = contributions(unknown, models, 0.1, 2, unit="node", clip=1.0)
    assert (np.linalg.norm(found, axis=1) <= 0.1 * whole.gradient_sensitivity).all()


def test_an_attack_on_runs_does_not_refute_it_and_refutes_noise_for_one_step() -> None:
    star = gossip(graphs.metropolis_weights("star:n=3"), rounds=3)
    words: dict[str, Any] = {"noise_multiplier": 0.6, "step": 1.0, "target_delta": 0.01}
    chosen = plan(classified(2), star, view=View.secure_sum(0), local_steps=4, **words)
    assert chosen.account.assumption == "smooth"

    def audited(**claim: Any) -> TrainingAudit:
        return audit_training(chosen, trials=400, canary="constant", rng=np.random.default_rng(4), **claim)

    found = audited()
    assert not found.refuted
    assert not found.unconditional_refuted
    # As if a record moved what four steps make no further than one of them.
    once = chosen.table.with_noise(0.6 * chosen.exposure.reaction.growth).worst()
    assert audited(claim=once).refuted
