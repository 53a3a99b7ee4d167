"""What runs are compared with."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from sottovoce import gaussian, gossip, graphs
from sottovoce.learning import (
    central_descent,
    load_data,
    noiseless_descent,
    synthetic_task,
    task_from,
    train,
)

RING = gossip(graphs.metropolis_weights("ring:n=5"), rounds=30)


def test_central_noise_meets_its_target_and_a_little_less_does_not() -> None:
    for relation, factor in (("add-remove", 1), ("replace-one", 2)):
        found = central_descent(
            synthetic_task(5),
            rounds=30,
            target_epsilon=1.0,
            step=0.2,
            relation=relation,  # type: ignore[arg-type]
            seed=1,
        )
        mu = factor * np.sqrt(30) / found.noise_multiplier
        assert gaussian.epsilon(mu, 1e-5) <= 1.0
        assert gaussian.epsilon(mu / 0.999, 1e-5) > 1.0


def test_central_descent_is_gradient_descent_on_all_records() -> None:
    task = task_from(load_data("diabetes"), 5, l2=0.1)
    found = central_descent(task, rounds=200, target_epsilon=1e9, step=0.4, clip=1e6, seed=1)
    model = np.zeros(task.dimension)
    for _ in range(200):
        model = model - 0.4 * task.gradient(model)
    # Even at a huge ε a clip of a million asks for some noise.
    deviation = found.noise_multiplier * 1e6 / (5 * task.shards.nominal)
    assert np.abs(found.model - model).max() < 10 * deviation
    assert deviation < 1


def test_the_noise_of_a_trusted_server_is_that_of_its_multiplier() -> None:
    task = synthetic_task(5, dimension=400, heterogeneity=0.0)
    found = central_descent(task, rounds=1, target_epsilon=1.0, step=0.2, seed=5)
    quiet = central_descent(task, rounds=1, target_epsilon=1e12, step=0.2, seed=5)
    deviation = 0.2 * found.noise_multiplier / (5 * task.shards.nominal)
    drawn = (found.model - quiet.model) / deviation
    assert 1e-4 < stats.chi2(400).cdf((drawn**2).sum()) < 1 - 1e-4


def test_local_dp_is_unconditional() -> None:
    run = train(synthetic_task(5), RING, view="everyone", target_epsilon=2.0, step=0.3, seed=1)
    assert run.account.view == "everyone"
    assert run.account.epsilon().upper <= 2


def test_without_noise_the_optimum_is_found() -> None:
    task = synthetic_task(5, dimension=4, convexity=1.0, smoothness=3.0, heterogeneity=0.0, spread=0.0)
    found = noiseless_descent(task, gossip(RING.weights, rounds=300), step=0.3, clip=100.0)
    assert task.optimum is not None
    assert np.allclose(found.model, task.optimum.model, atol=1e-9)
    assert found.noise_multiplier == 0
    clipped = noiseless_descent(task, gossip(RING.weights, rounds=300), step=0.3, clip=0.1)
    assert task.risk(clipped.model) > task.optimum.risk + 1e-3


@pytest.mark.parametrize("weighting", ["uniform", "linear"])
def test_averages_are_weighed_as_in_descent(weighting: Any) -> None:
    """One node more or less: with equal data on all nodes and no noise to speak of, gossip is central descent."""
    task = synthetic_task(5, dimension=3, heterogeneity=0.0, spread=0.0)
    far = central_descent(
        task,
        rounds=30,
        target_epsilon=1e12,
        step=0.2,
        weighting=weighting,
        seed=1,
    )
    near = noiseless_descent(task, RING, step=0.2, weighting=weighting)
    assert np.allclose(far.average, near.average, atol=1e-3)
