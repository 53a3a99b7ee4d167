"""Public smoothness of losses, the balls of update maps, and what is certified with them."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.learning.exact import moving_form
from tests.reference import exact_weights, seen_and_known, semidefinite_maximum

from sottovoce import Scenario, View, gossip, graphs, train
from sottovoce.errors import InputError
from sottovoce.learning import (
    Exposure,
    GradientLoss,
    LinearLoss,
    Reaction,
    Recipe,
    Run,
    Schedule,
    Task,
    huber,
    load_data,
    logistic,
    plan,
    reaction_of,
    ridge,
    shards_of,
    softmax,
    step_cost,
    synthetic_task,
    task_from,
)
from sottovoce.learning.coins import most_heads

RNG = np.random.default_rng(5)
RING = graphs.metropolis_weights("ring:n=4")
LOSSES = {
    "ridge": ridge(4, radius=0.8),
    "huber": huber(4, radius=0.8),
    "logistic": logistic(4, radius=1.0),
    "softmax": softmax(4, 3, radius=0.5**0.5),
}
EVERY_LOSS = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())


def one_record(loss: LinearLoss, features: Any, label: float) -> Task:
    """A task of a single node with a single record, so that the sum of gradients is its gradient."""
    labels = np.array([label]) if loss.kind != "softmax" else np.array([int(label)])
    shards = shards_of([np.asarray(features, dtype=float)[None]], [labels], nominal=1)
    return Task(name="one", loss=loss, shards=shards)


def gradient(task: Task, model: Any, clip: float | None = None) -> np.ndarray:
    found = task.loss.clipped_sums(model[None], task.shards, np.ones((1, 1)), clip)
    return np.asarray(found.values[0])


@EVERY_LOSS
def test_no_gradient_moves_by_more_than_the_public_smoothness(loss: LinearLoss) -> None:
    """Records of all lengths, with a constant among their features, models near and far: L is a bound, and close."""
    assert loss.smoothness is not None
    largest = 0.0
    for _ in range(400):
        record = np.append(RNG.standard_normal(3), 1.0) * 10.0 ** RNG.uniform(-2, 3)
        task = one_record(loss, record, float(RNG.integers(0, 2)))
        a = RNG.standard_normal(task.dimension) * 10.0 ** RNG.uniform(-2, 1)
        # Along the record itself the outputs move most.
        along = np.outer(record, RNG.standard_normal(loss.outputs)).ravel()
        b = a + 1e-3 * (
            along if RNG.random() < 0.7 else RNG.standard_normal(task.dimension)
        ) / np.linalg.norm(along)
        slope = np.linalg.norm(gradient(task, a) - gradient(task, b)) / np.linalg.norm(a - b)
        largest = max(largest, float(slope))
    assert 0.8 * loss.smoothness < largest <= loss.smoothness * (1 + 1e-9)


@EVERY_LOSS
def test_no_gradient_is_longer_than_the_clip_that_records_are_scaled_for(loss: LinearLoss) -> None:
    if loss.kind == "ridge":
        assert loss.steepest == np.inf
        return
    longest = 0.0
    for _ in range(400):
        record = RNG.standard_normal(4) * 10.0 ** RNG.uniform(-3, 200)
        # Labels that are no labels are not trusted either.
        label = float(RNG.integers(0, 3)) if loss.kind == "softmax" else 10.0 * RNG.standard_normal()
        task = one_record(loss, record, label)
        model = RNG.standard_normal(task.dimension) * 10.0 ** RNG.uniform(-2, 4)
        longest = max(longest, float(np.linalg.norm(gradient(task, model))))
        assert np.array_equal(gradient(task, model), gradient(task, model, loss.steepest))
    assert 0.9 * loss.steepest < longest < loss.steepest


def test_a_loss_without_a_radius_knows_no_smoothness() -> None:
    free = softmax(4, 3)
    assert (free.smoothness, free.steepest) == (None, np.inf)
    record = 100.0 * np.ones(4)
    assert np.linalg.norm(gradient(one_record(free, record, 0), np.zeros(12))) > 100
    with pytest.raises(InputError, match="radius must be a finite number above 0; got 0"):
        ridge(3, radius=0)
    task = one_record(free, record, 0)
    assert task.public_smoothness is None
    assert reaction_of(task, np.ones(3), Recipe(noise_multiplier=1)).slopes is None


@EVERY_LOSS
@pytest.mark.parametrize("clip", [0.05, 0.3, 10.0])
@pytest.mark.parametrize("unit", ["record", "node"])
def test_update_maps_lie_in_the_ball_clipped_or_not(loss: LinearLoss, clip: float, unit: Any) -> None:
    """‖g(z′) − g(z) − c(z′ − z)‖ ≤ r‖z′ − z‖ for nodes of several records, steps that vary, with regularisation."""
    # Nodes of three kinds, twenty of each, so that each message is that of a pair of models of its own.
    features = [np.vstack([RNG.standard_normal(4) * 3, RNG.standard_normal(4) / 3]) for _ in range(3)] * 20
    labels = [np.array([0, 1]), np.array([1, 1]), np.array([0, 0])] * 20
    task = Task(name="few", loss=loss, shards=shards_of(features, labels, nominal=2), l2=0.2)
    steps = np.array([1.5, 1.5, 0.7])
    reaction = reaction_of(task, steps, Recipe(noise_multiplier=1, clip=clip, unit=unit))
    assert reaction.slopes is not None
    protocol = gossip(graphs.metropolis_weights("ring:n=60"), rounds=3)
    chosen = plan(task, protocol, noise_multiplier=1.0, step=1.5, clip=clip, unit=unit)
    bare = _bare_messages(chosen)
    for t, size in enumerate(steps):
        lower, upper = reaction.slopes[t]
        ratio = steps[t - 1] / size if t else 1.0
        centre, radius = (lower + upper) / 2, (upper - lower) / 2
        scales = 10.0 ** np.repeat(RNG.uniform([-1, -4], [1, 1], (20, 2)), 3, axis=0)
        z = RNG.standard_normal((60, task.dimension)) * scales[:, :1]
        moved = z + RNG.standard_normal(z.shape) * scales[:, 1:]
        difference = ratio * (bare(moved, size) - bare(z, size)) - centre * (moved - z)
        lengths = np.linalg.norm(difference, axis=1), np.linalg.norm(moved - z, axis=1)
        assert (lengths[0] <= radius * lengths[1] * (1 + 1e-9)).all()


def _bare_messages(chosen: Any) -> Any:
    """What nodes would send without noise, from models and a step."""
    from dataclasses import replace

    from sottovoce.learning import SilentNoise, init, step

    def bare(models: np.ndarray, size: float) -> np.ndarray:
        descent = chosen.descent(SilentNoise(len(models)))
        descent = replace(descent, steps=np.full(len(descent.steps), size))
        return step(descent, init(descent)._replace(registers=models[None]))[1].messages[0]

    return bare


def test_what_clipping_leaves_of_convexity() -> None:
    shapes = {
        (name, clip, whole): loss.shape(clip, whole=whole)
        for name, loss in LOSSES.items()
        for clip in (0.5, 1.0)
        for whole in (False, True)
    }
    # Ridge has gradients of any length, softmax of up to 1 and huber up to 0.8.
    assert {key for key, shape in shapes.items() if shape == "clipped"} == {
        ("ridge", 0.5, True),
        ("ridge", 1.0, True),
        ("huber", 0.5, True),
        ("logistic", 0.5, True),
        ("softmax", 0.5, False),
        ("softmax", 0.5, True),
    }


def test_batches_may_be_larger_than_what_they_are_divided_by() -> None:
    task = task_from(load_data("breast-cancer"), 4, l2=0.0)
    whole, part = (
        reaction_of(task, np.ones(3), Recipe(noise_multiplier=1, batch_fraction=q)) for q in (1.0, 0.25)
    )
    # Tosses of more than 43 of the 114 places are tossed again, and sums are divided by 28.5.
    assert (task.shards.nominal, most_heads(114, 0.25)) == (114, 43)
    assert whole.smoothness == 0.25
    assert part.smoothness is not None
    assert part.smoothness == pytest.approx(0.25 * 43 / 28.5)
    assert part.smoothness >= 0.25 * 43 / 28.5
    assert part.hull(0, 3) == pytest.approx((1 - 0.25 * 43 / 28.5, 1.0))


def test_curvature_that_differs_between_coordinates_is_a_ball() -> None:
    task = synthetic_task(4, dimension=3, convexity=0.5, smoothness=2.0)
    assert reaction_of(task, np.full(4, 0.25), Recipe(noise_multiplier=1)).hull(0, 4) == pytest.approx(
        (0.5, 0.875)
    )
    found = plan(task, gossip(RING, rounds=4), view="secure-sum", noise_multiplier=1.0, step=0.25)
    assert found.account.assumption == "smooth"
    assert found.account.epsilon().upper < found.unconditional.epsilon().upper


def exposure(reaction: Reaction, steps: np.ndarray, view: Any, weights: Any = RING) -> Exposure:
    ones = np.ones((len(steps), 1))
    scenario = Scenario(protocol=gossip(weights, rounds=len(steps)), view=view)
    return Exposure(scenario=scenario, steps=steps, damping=ones, reaction=reaction)


@pytest.mark.parametrize("schedule", ["0.5", "0.8/sqrt(t)", "0.9/(1+t/4)"])
def test_no_linear_loop_in_the_balls_beats_what_is_certified(schedule: str) -> None:
    """Each node with a curvature of its own, steps that fall: exact Δ² of the loop, in rationals, is below."""
    rounds = 4
    sizes = [Fraction(x).limit_denominator(10**6) for x in Schedule.parse(schedule).sizes(rounds)]
    steps = np.array([float(x) for x in sizes])
    task = Task(
        name="slopes",
        loss=ridge(1, radius=1),
        shards=shards_of([np.ones((1, 1))] * 4, [np.zeros(1)] * 4, nominal=1),
    )
    view = View.secure_sum(0)
    table = exposure(reaction_of(task, steps, Recipe(noise_multiplier=1)), steps, view).table(
        noise_multiplier=1.0, delta=1e-5
    )
    assert table.assumption == "smooth"
    assert (table.squared_upper <= rounds).all()
    W = exact_weights(RING)
    C, known = seen_and_known(view, W)
    worst = np.zeros(len(table))
    for pattern in range(16):
        curvature = [Fraction((pattern >> node) & 1) for node in range(4)]
        damping = [[1 - size * a for a in curvature] for size in sizes]
        for place, target in enumerate(table.target_indices.tolist()):
            form = moving_form(W, C, known, target, damping, sizes)
            exact = semidefinite_maximum(form) if form.any() else 0.0
            worst[place] = max(worst[place], exact)
    assert (worst <= table.squared_upper * (1 + 1e-9)).all()
    # And what is certified of the worst pair is no multiple of it.
    assert table.squared_upper.max() <= 1.35 * worst.max()


def test_falling_steps_count_their_first_rounds_as_seen_where_that_is_best() -> None:
    steps = 0.5 / np.sqrt(np.arange(1.0, 33.0))
    task = task_from(load_data("breast-cancer"), 4, l2=0.0)
    reaction = reaction_of(task, steps, Recipe(noise_multiplier=1))
    assert reaction.varies
    whole, later = reaction.hull(0, 32), reaction.hull(4, 32)
    assert whole is not None
    assert later is not None
    assert whole[1] == pytest.approx(2**0.5)
    assert later[1] == pytest.approx(1.2**0.5 / 1.0, rel=0.02)
    assert whole[0] <= later[0]
    found = exposure(reaction, steps, View.secure_sum(0)).table(noise_multiplier=1.0, delta=1e-5)
    from sottovoce.feedback import training_sensitivity

    one_ball = training_sensitivity(RING, View.secure_sum(0), 1, rounds=32, updates=whole, effort="quick")
    assert found[1].sensitivity_squared is not None
    assert found[1].sensitivity_squared.upper < one_ball.squared.upper
    # Nothing is known of how close it is.
    assert (found.squared_lower == 0).all()


@pytest.mark.parametrize("declared", [None, 0.5])
def test_a_loss_of_ones_own_may_declare_its_smoothness(declared: float | None) -> None:
    def gradients(model: np.ndarray, features: np.ndarray, labels: Any) -> np.ndarray:  # noqa: ARG001
        return np.asarray(features * np.tanh(features @ model)[:, None])

    loss = GradientLoss(gradients=gradients, dimension=2, smoothness=declared)
    shards = shards_of([np.full((2, 2), 0.5)] * 4, [np.zeros(2)] * 4, nominal=2)
    task = Task(name="own", loss=loss, shards=shards)
    run = train(task, gossip(RING, rounds=6), view="secure-sum", noise_multiplier=2.0, step=0.4, seed=1)
    if declared is None:
        assert (run.account.assumption, run.account.method) == ("none", "cap")
        assert run.epsilon.upper == run.unconditional_epsilon.upper
    else:
        assert run.account.assumption == "smooth"
        assert run.settings["slopes"] == pytest.approx([0.8, 1.2])
        assert run.epsilon.upper < run.unconditional_epsilon.upper
        convex = GradientLoss(gradients=gradients, dimension=2, smoothness=declared, convex=True)
        ball = reaction_of(
            Task(name="own", loss=convex, shards=shards), np.full(3, 0.4), Recipe(noise_multiplier=1)
        )
        assert ball.hull(0, 3) == pytest.approx((1 - 1.0245 * 0.2, 1 + 0.2745 * 0.2), abs=1e-4)
    with pytest.raises(InputError, match="smoothness must be a finite number above 0; got -1"):
        GradientLoss(gradients=gradients, dimension=2, smoothness=-1.0)
    with pytest.raises(InputError, match="convex=True says something about the gradients only together with"):
        GradientLoss(gradients=gradients, dimension=2, convex=True)


def test_where_nodes_cannot_be_told_apart_nothing_has_to_be_known() -> None:
    own = GradientLoss(gradients=lambda model, x, _: np.sign(x + model), dimension=2)
    task = Task(name="own", loss=own, shards=shards_of([np.ones((1, 2))] * 5, [np.zeros(1)] * 5, nominal=1))
    protocol = gossip(graphs.metropolis_weights("complete:n=5"), rounds=8)
    run = train(task, protocol, view="secure-sum", target_epsilon=3.0, step=0.4, seed=1)
    assert (run.account.assumption, run.account.method) == ("none", "twins")
    assert run.account.sensitivity_squared is not None
    assert run.account.sensitivity_squared.upper == pytest.approx(2.0)
    # It is the number of the view, and not of whoever sees whatever.
    assert run.epsilon.upper == 3 < run.unconditional_epsilon.upper
    assert "(secure-sum, none)" in repr(run)


def test_messages_that_are_seen_leave_local_dp() -> None:
    task = task_from(load_data("breast-cancer"), 4)
    run = train(task, gossip(RING, rounds=5), view="neighbourhood", target_epsilon=3.0, seed=1)
    assert (run.account.method, run.account.assumption) == ("cap", "none")
    assert run.unconditional_epsilon.upper == pytest.approx(3.0)
    assert run.account.epsilon().upper <= run.unconditional.epsilon().upper


@pytest.mark.parametrize(
    "view", [View.coalition_sums([0, 1]), View.single_node(0, own_noise="hidden")], ids=repr
)
def test_views_of_their_own(view: View) -> None:
    task = task_from(load_data("breast-cancer"), 6)
    protocol = gossip(graphs.metropolis_weights("complete:n=6"), rounds=4)
    found = plan(task, protocol, view=view, noise_multiplier=1.0)
    assert found.account.observers == view.observers
    # An observer that does not know its own noise sees its own message, which hides nothing.
    others = found.table.target_indices != 0
    assert found.table.epsilon_upper[others].max() < found.unconditional.epsilon().upper
    assert len(found.table) == (6 if view.own_noise == "hidden" else 4)


def test_no_node_sums_more_records_than_it_divides_by() -> None:
    shards = shards_of([np.ones((3, 1)), np.ones((2, 1))], [np.zeros(3), np.zeros(2)], nominal=2)
    task = Task(name="many", loss=ridge(1, radius=1), shards=shards)
    with pytest.raises(
        InputError,
        match=r"no node may train on more .*; node 0 holds 3, and the shard size is 2 \(take a larger",
    ):
        plan(task, gossip(np.full((2, 2), 0.5), rounds=2), noise_multiplier=1.0, step=1.0)


def run_on_a_ring(step: Any, **terms: Any) -> tuple[Task, Any, Run]:
    task = task_from(load_data("breast-cancer"), 4, l2=0.0)
    protocol = gossip(RING, rounds=8)
    terms = {"view": View.secure_sum(0), **terms}
    return task, protocol, train(task, protocol, noise_multiplier=3.0, step=step, seed=1, **terms)


def test_what_large_steps_cost() -> None:
    found = step_cost(*run_on_a_ring(40.0))
    assert found is not None
    assert found.least < 0.55
    assert found.share > 0.8
    assert found.largest_step is not None
    kept = step_cost(*run_on_a_ring(found.largest_step))
    assert kept is not None
    assert kept.largest_step is None
    assert 1 - kept.share >= 0.9 * (1 - found.least)
    # A step half as large again does not keep as much.
    more = step_cost(*run_on_a_ring(1.5 * found.largest_step))
    assert more is not None
    assert more.largest_step is not None
    assert more.largest_step == pytest.approx(found.largest_step, rel=0.1)


@pytest.mark.parametrize(
    ("step", "terms"),
    [(40.0, {"view": "everyone"}), ("1/sqrt(t)", {}), (40.0, {"view": View.neighbourhood(0)})],
)
def test_where_steps_make_no_difference_nothing_is_said(step: Any, terms: dict[str, Any]) -> None:
    assert step_cost(*run_on_a_ring(step, **terms)) is None


def test_the_default_step_leaves_slopes_of_at_least_one_half() -> None:
    for data, loss in (
        ("digits", "auto"),
        ("breast-cancer", "auto"),
        ("diabetes", "ridge"),
        ("diabetes", "huber"),
    ):
        task = task_from(load_data(data), 4, loss=loss)
        found = plan(task, gossip(RING, rounds=3), noise_multiplier=1.0)
        low, high = found.settings["slopes"]
        assert low == pytest.approx(0.5, abs=2e-3)
        assert low >= 0.5
        assert high <= 1


def test_batches_of_nodes_may_be_clipped_where_gradients_are_not() -> None:
    """A node's sum over a batch is divided by q·nominal, and may be longer than any gradient."""
    task = task_from(load_data("breast-cancer"), 5, l2=0)
    steps = np.full(3, 0.1)
    assert reaction_of(task, steps, Recipe(noise_multiplier=1, unit="node")).losses == "convex"
    batched = reaction_of(task, steps, Recipe(noise_multiplier=1, unit="node", batch_fraction=0.1))
    assert batched.losses == "clipped"
    assert batched.slopes is not None
    assert (batched.slopes[1, 1] > 1).all()
    # Single gradients are clipped before they are summed, whatever the batch.
    assert reaction_of(task, steps, Recipe(noise_multiplier=1, batch_fraction=0.1)).losses == "convex"
