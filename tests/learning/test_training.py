"""Whole runs: accounts, budgets, interruption and resumption, divergence, and accuracy on digits."""

import threading
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sottovoce import View, account_all, gossip, graphs, train
from sottovoce.errors import InputError
from sottovoce.learning import (
    BoundNoise,
    Descent,
    GradientLoss,
    Moment,
    NodeNoise,
    NoiseSource,
    Run,
    SilentNoise,
    Task,
    central_descent,
    fresh_keys,
    init,
    load_data,
    plan,
    quadratic,
    shards_of,
    step,
    synthetic_task,
    task_from,
)
from sottovoce.sensitivities import capacity

RING = graphs.metropolis_weights("ring:n=5")
SMALL: dict[str, Any] = {"target_epsilon": 2.0, "seed": 3}


def ring(rounds: int) -> Any:
    return gossip(RING, rounds=rounds)


def test_noise_is_calibrated_to_the_view() -> None:
    task = task_from(load_data("diabetes"), 5, l2=0.0)
    run = train(task, ring(8), view="secure-sum", step=0.5, averaging=True, **SMALL)
    # L is 1: steps of one half have slopes between one half and one.
    smooth = gossip(RING, rounds=8, updates=(0.5, 1.0))
    table = account_all(smooth, "secure-sum", noise_multiplier=1.0, delta=1e-5, observers=[0])
    needed = table.calibrated_noise(2.0, 1e-5)
    assert run.noise_multiplier == pytest.approx(needed, rel=2e-3)
    assert run.account.epsilon().upper <= 2.0
    assert run.account.assumption == "smooth"
    assert run.settings["slopes"] == pytest.approx([0.5, 1.0])
    assert (run.settings["smoothness"], run.settings["losses"]) == (1.0, "convex")
    assert run.averaging is not None
    assert run.averaging.assumption == "hidden-state"
    plain = account_all(ring(8), "secure-sum", noise_multiplier=run.noise_multiplier, delta=1e-5)
    assert run.averaging.mu == plain.worst().mu
    assert run.averaging.epsilon().upper < 2.0 < run.unconditional.epsilon().upper
    assert train(task, ring(8), view="secure-sum", step=0.5, **SMALL).averaging is None
    assert run.unconditional.sensitivity_squared is not None
    assert run.unconditional.sensitivity_squared.upper == 8
    assert run.noise_std == pytest.approx(run.noise_multiplier / task.shards.nominal)


def test_everyone_is_unconditional() -> None:
    run = train(task_from(load_data("diabetes"), 5), ring(8), view="everyone", **SMALL)
    assert (run.account.assumption, run.unconditional.assumption) == ("none", "none")
    assert run.account.epsilon() == run.unconditional.epsilon()
    assert run.unconditional.epsilon().upper <= 2.0


def test_relations_and_units_scale_the_noise() -> None:
    task = task_from(load_data("diabetes"), 5)
    runs = {
        (relation, unit): train(task, ring(4), relation=relation, unit=unit, clip=0.5, **SMALL)
        for relation in ("add-remove", "replace-one")
        for unit in ("record", "node")
    }
    one = runs["add-remove", "record"]
    assert runs["replace-one", "record"].noise_multiplier == pytest.approx(2 * one.noise_multiplier)
    assert one.noise_std == pytest.approx(0.5 * one.noise_multiplier / task.shards.nominal)
    assert runs["add-remove", "node"].noise_std == pytest.approx(0.5 * one.noise_multiplier)


def test_batches_need_a_smaller_multiplier_of_what_moves_further() -> None:
    task = task_from(load_data("diabetes"), 5)
    whole, part = (train(task, ring(2), batch_fraction=fraction, **SMALL) for fraction in (1.0, 0.25))
    assert part.noise_multiplier < 0.5 * whole.noise_multiplier
    assert part.epsilon.upper == whole.epsilon.upper
    assert part.noise_std / part.noise_multiplier == pytest.approx(
        4 * whole.noise_std / whole.noise_multiplier
    )


def test_quadratic_losses_are_accounted_for_in_the_closed_loop() -> None:
    task = synthetic_task(5, dimension=3, convexity=2.0, smoothness=2.0)
    run = train(task, ring(6), view="secure-sum", noise_multiplier=3.0, step=0.25, seed=1)
    assert run.account.assumption == "quadratic"
    # A = ½W, from its definition: M of each target by plain floating point, with constant and alternating signs.
    W = RING.matrix.toarray()
    hidden, A = [1, 2, 3, 4], 0.5 * W[1:, 1:]
    rows = [W[0, 1:] @ np.linalg.matrix_power(A, k) for k in range(6)]
    N = np.zeros((6, 24))
    for t in range(6):
        for s in range(t + 1):
            N[t, 4 * s : 4 * s + 4] = rows[t - s]
    found = []
    for place in range(len(hidden)):
        G = N[:, place::4]
        M = G.T @ np.linalg.solve(N @ N.T, G)
        found.append(np.abs(M).sum())
        signs = np.array([np.ones(6), (-1.0) ** np.arange(6)])
        assert run.account.sensitivity_squared is not None
        assert ((signs @ M) * signs).sum(axis=1).max() <= run.account.sensitivity_squared.upper
    assert run.account.sensitivity_squared is not None
    assert run.account.sensitivity_squared.upper <= max(found) * (1 + 1e-9)
    uneven = synthetic_task(5, dimension=3, convexity=1.0, smoothness=2.0)
    assert (
        train(uneven, ring(4), view="secure-sum", noise_multiplier=3.0, seed=1).account.assumption == "smooth"
    )


def test_regularisation_is_part_of_the_loop_that_is_accounted_for() -> None:
    data = load_data("diabetes")
    plain, damped = (
        train(task_from(data, 5, l2=l2), ring(8), view="secure-sum", step=0.5, noise_multiplier=2.0, seed=1)
        for l2 in (0.0, 1.0)
    )
    assert plain.account.sensitivity_squared is not None
    assert damped.account.sensitivity_squared is not None
    assert plain.account.sensitivity_squared.upper != pytest.approx(
        damped.account.sensitivity_squared.upper, rel=1e-2
    )


def test_a_seed_repeats_a_run_and_none_does_not() -> None:
    task = synthetic_task(5, dimension=3)
    first, again, other = (train(task, ring(5), noise_multiplier=2.0, seed=seed) for seed in (7, 7, 8))
    assert np.array_equal(first.state.models, again.state.models)
    assert not np.array_equal(first.state.models, other.state.models)
    fresh = [train(task, ring(5), noise_multiplier=2.0) for _ in range(2)]
    assert not np.array_equal(fresh[0].state.models, fresh[1].state.models)
    assert fresh[0].keys is None
    assert (first.seeded, fresh[0].seeded) == (True, False)


def interrupted_at(count: int) -> Any:
    """A watcher that interrupts, as Ctrl-C does, when it hears of that round."""

    def heard(moment: Moment) -> None:
        if moment.round == count:
            raise KeyboardInterrupt

    return heard


@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_an_interrupted_run_goes_on_bit_for_bit(fraction: float) -> None:
    task = task_from(load_data("breast-cancer"), 5)
    settings: dict[str, Any] = {
        "view": "secure-sum",
        "batch_fraction": fraction,
        "weighting": "linear",
        "step": "0.8/sqrt(t)",
        **SMALL,
    }
    whole = train(task, ring(4), **settings)
    kept: list[Run] = []
    with pytest.raises(KeyboardInterrupt):
        train(
            task,
            ring(4),
            progress=interrupted_at(4),
            checkpoint=kept.append,
            checkpoint_every=2,
            **settings,
        )
    # One before the first round, one after two, and one with the three that were whole when the interrupt came.
    assert [run.state.round for run in kept] == [0, 2, 3]
    for begun in kept:
        assert not begun.finished
        resumed = train(task, ring(4), resume=begun, **settings)
        assert resumed.finished
        assert np.array_equal(resumed.state.models, whole.state.models)
        assert np.array_equal(resumed.state.average, whole.state.average)
        for mine, theirs in zip(resumed.history, whole.history, strict=True):
            assert np.array_equal(mine, theirs)
        assert (resumed.accuracy, resumed.loss) == (whole.accuracy, whole.loss)
        assert resumed.account == whole.account


def test_a_run_is_resumed_with_its_own_settings_alone() -> None:
    task = synthetic_task(5, dimension=3)
    kept: list[Run] = []
    done = train(task, ring(6), noise_multiplier=2.0, seed=1, checkpoint=kept.append, checkpoint_every=2)
    with pytest.raises(
        InputError, match=r"its clip is 1.0, and 2.0 was asked for \(ask for 1.0, or start a new run\)"
    ):
        train(task, ring(6), noise_multiplier=2.0, clip=2.0, resume=kept[0])
    other = synthetic_task(5, dimension=3, seed=9)
    with pytest.raises(
        InputError, match=r"with the records it began with, and others were given \(give the same file"
    ):
        train(other, ring(6), noise_multiplier=2.0, resume=kept[0])
    with pytest.raises(InputError, match="the run is finished: all of its 6 rounds are done"):
        train(task, ring(6), noise_multiplier=2.0, resume=done)


def test_a_budget_ends_a_run_before_it_is_exceeded() -> None:
    task = synthetic_task(5, dimension=3)
    run = train(task, ring(20), view="secure-sum", noise_multiplier=3.0, max_epsilon=2.0, seed=1)
    assert run.cut
    assert 0 < run.rounds < 20
    assert run.finished
    assert run.account.epsilon().upper <= 2.0
    # The number of rounds follows from public numbers: other data, the same rounds.
    other = synthetic_task(5, dimension=3, seed=4, heterogeneity=9.0)
    again = train(other, ring(20), view="secure-sum", noise_multiplier=3.0, max_epsilon=2.0, seed=2)
    assert again.rounds == run.rounds
    assert not train(task, ring(4), noise_multiplier=3.0, max_epsilon=100.0, seed=1).cut


def test_what_is_spent_never_falls_and_ends_at_the_account() -> None:
    chosen = plan(synthetic_task(5, dimension=3), ring(10), view="secure-sum", noise_multiplier=3.0)
    spent, everyone = zip(*(chosen.spent(t) for t in range(11)), strict=True)
    assert spent == tuple(sorted(spent))
    assert spent[0] == everyone[0] == 0
    assert (spent[-1], everyone[-1]) == (
        chosen.account.epsilon().upper,
        chosen.unconditional.epsilon().upper,
    )
    assert all(mine <= theirs for mine, theirs in zip(spent, everyone, strict=True))
    for t in (1, 3, 7):
        truth = chosen.exposure.table(noise_multiplier=3.0, delta=1e-5, rounds=t).epsilon_lower.max()
        assert spent[t] >= truth


def test_the_watcher_hears_of_rounds() -> None:
    heard: list[Moment] = []
    run = train(synthetic_task(5), ring(4), noise_multiplier=2.0, seed=1, progress=heard.append)
    assert [moment.round for moment in heard] == [1, 2, 3, 4]
    assert [moment.loss for moment in heard] == run.history.loss.tolist()
    assert heard[-1].consensus_distance == pytest.approx(run.consensus_distance)


def test_divergence_is_detected_and_said() -> None:
    def gradients(model: np.ndarray, features: np.ndarray, labels: Any) -> np.ndarray:  # noqa: ARG001
        return np.full((len(features), len(model)), -1e307)

    shards = shards_of([np.ones((2, 2))] * 5, [np.ones(2)] * 5, nominal=2)
    wild = Task(name="wild", loss=GradientLoss(gradients=gradients, dimension=2), shards=shards)
    with pytest.raises(InputError, match="training diverged in round 18: models are not finite"):
        train(wild, ring(20), noise_multiplier=1e-9, clip=1.5e308, step=1.0)
    ridge = task_from(load_data("diabetes"), 5, l2=0.0)
    with pytest.raises(
        InputError, match=r"training diverged in round \d+: the loss has grown to .* smaller step than"
    ):
        train(ridge, ring(60), noise_multiplier=1e-3, clip=1e9, step=8.0)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({}, "noise_multiplier must be given, or else a target ε that it is chosen for; got neither"),
        ({"noise_multiplier": 1.0, "target_epsilon": 1.0}, "got both"),
        (
            {"target_epsilon": 1.0, "max_epsilon": 1.0},
            "max_epsilon must be left out where noise is chosen for a target ε",
        ),
        ({"noise_multiplier": 0.0}, "noise_multiplier must be a finite number above 0"),
        ({"target_epsilon": -1.0}, "target_epsilon must be a finite number above 0"),
        ({"noise_multiplier": 1.0, "target_delta": 2.0}, "target_delta must lie strictly between 0 and 1"),
        ({"noise_multiplier": 1.0, "relation": "other"}, "relation must be one of"),
        ({"noise_multiplier": 1.0, "step": 1.0}, "step must stay below 1 over the curvature"),
        ({"noise_multiplier": 1.0, "checkpoint_every": 0}, "checkpoint_every must be a whole number"),
        ({"noise_multiplier": 1.0, "view": "nobody"}, "view must be one of everyone"),
        ({"noise_multiplier": 1.0, "seed": -3}, "seed must be a whole number"),
    ],
)
def test_what_is_refused(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        train(synthetic_task(5), ring(3), **settings)


@pytest.mark.parametrize("view", ["everyone", "secure-sum"])
def test_rounds_that_do_not_fit_are_refused_before_their_steps_are_laid_out(
    view: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capacity, "memory_at_hand", lambda: 64e6)
    told = r"1000000000 of them need about 29.8 GiB, and 61.0 MiB are free \(take at most 2000000\)"
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=told):
            train(synthetic_task(5), ring(10**9), view=view, target_epsilon=4.0)
        assert tracemalloc.get_traced_memory()[1] < 16e6
    finally:
        tracemalloc.stop()


def test_a_loss_of_unknown_smoothness_needs_a_step() -> None:
    shards = shards_of([np.ones((2, 2))] * 5, [np.ones(2)] * 5, nominal=2)
    own = Task(name="own", loss=GradientLoss(gradients=lambda m, x, _: x * 0 + m, dimension=2), shards=shards)
    with pytest.raises(InputError, match="step must be given for the loss custom"):
        train(own, ring(3), noise_multiplier=1.0)
    run = train(own, ring(3), noise_multiplier=1.0, step=0.1, seed=1)
    assert (run.loss, run.accuracy, run.excess_risk) == (None, None, None)


def test_coalitions_can_be_calibrated_for() -> None:
    run = train(synthetic_task(5), ring(6), view=View.coalition_sums([0, 1]), **SMALL)
    assert run.account.observers == (0, 1)
    assert run.account.epsilon().upper <= 2


DIGITS_FLOOR = 0.85
DIGITS_DISTANCE = 0.05


def test_digits_at_epsilon_4() -> None:
    """With (4, 1e-5) for secure sums on a ring of ten: above the floor, and close to a trusted server."""
    task = task_from(load_data("digits"), 10)
    protocol = gossip(graphs.metropolis_weights("ring:n=10"), rounds=50)
    run = train(task, protocol, view="secure-sum", target_epsilon=4.0, target_delta=1e-5, step=8.0, seed=1)
    central = central_descent(task, rounds=50, target_epsilon=4.0, target_delta=1e-5, step=8.0, seed=1)
    assert run.account.epsilon().upper <= 4.0
    assert run.accuracy is not None
    assert run.accuracy > DIGITS_FLOOR
    reference = task.accuracy(central.model)
    assert reference is not None
    assert run.accuracy > reference - DIGITS_DISTANCE
    everyone = train(task, protocol, view="everyone", target_epsilon=4.0, step=8.0, seed=1)
    assert everyone.accuracy is not None
    assert everyone.accuracy > 0.8
    assert everyone.unconditional.epsilon().upper <= 4.0


class Impulse:
    """Noise of one node in one round, the same in every coordinate."""

    def __init__(self, node: int, when: int, shape: tuple[int, int]) -> None:
        self.node, self.when, self.shape = node, when, shape

    def between(self, *rest: Any) -> np.ndarray:
        raise AssertionError(rest)

    def covering(self, number: int, content: Any, scale: float, width: int) -> np.ndarray:  # noqa: ARG002
        drawn = np.zeros(self.shape)
        drawn[self.node] = number == self.when
        return drawn

    def uniform(self, round_index: int, count: int) -> np.ndarray:  # noqa: ARG002 - the form of a noise source
        return np.zeros((self.shape[0], count))


@pytest.mark.parametrize("unit", ["record", "node"])
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("step_size", ["0.3", "0.6/sqrt(t)"])
def test_what_neighbouring_data_shift_is_within_the_account(unit: Any, relation: Any, step_size: str) -> None:
    """μ from the trainer alone: rounds on two data sets without noise, and the map of the noise by unit impulses."""
    rounds, n, d, clip = 6, 5, 2, 0.4
    whole = synthetic_task(n, dimension=d, records=3, convexity=0.8, smoothness=0.8, heterogeneity=2.0)
    protocol = ring(rounds)
    chosen = plan(
        whole,
        protocol,
        view=View.secure_sum(0),
        noise_multiplier=1.7,
        step=step_size,
        clip=clip,
        unit=unit,
        relation=relation,
    )
    noise_std = chosen.descent(NodeNoise(fresh_keys(n, 1), d)).noise_std

    def seen(task: Task, noise: Any, deviation: float) -> np.ndarray:
        """What node 0 receives in each round, shape (T, d)."""
        descent = replace(chosen.descent(noise), task=task, noise_std=deviation)
        state, sums = init(descent), []
        for _ in range(rounds):
            state, _ = step(descent, state)
            sums.append(state.models[0])
        return np.array(sums)

    def changed(**arrays: Any) -> Task:
        shards = whole.shards
        return replace(whole, shards=replace(shards, **arrays))

    features, present = whole.shards.features.copy(), whole.shards.present.copy()
    far = 50 * np.array([1.0, 1.0])
    features[1] = far if unit == "node" else features[1]
    features[1, 0] = far
    one = changed(features=features)
    if relation == "replace-one":
        turned = features.copy()
        turned[1] = -far if unit == "node" else turned[1]
        turned[1, 0] = -far
        other = changed(features=turned)
    elif unit == "record":
        present[1, 0] = False
        other = changed(features=features, present=present)
    else:
        # A node without data contributes nothing; records of zeros do the same.
        turned = features.copy()
        turned[1] = 0
        other = changed(features=turned)
    silent = SilentNoise(n)
    shift = seen(one, silent, 0.0) - seen(other, silent, 0.0)
    quiet = seen(one, silent, 0.0)
    columns = [
        (seen(one, Impulse(node, when, (n, d)), noise_std) - quiet)[:, 0]
        for when in range(rounds)
        for node in range(1, n)
    ]
    noise_map = np.array(columns).T
    covariance = noise_map @ noise_map.T
    attained = float(np.sqrt(np.einsum("td,td->", shift, np.linalg.solve(covariance, shift))))
    certified = chosen.account.mu.upper
    assert attained <= certified * (1 + 1e-9)
    # A record that always adds the same is not the worst case, but not far from it on a ring of five.
    assert attained > 0.5 * certified
    assert chosen.account.assumption == "quadratic"


QUIET: dict[str, Any] = {"noise_multiplier": 2.0, "step": 0.1}


def task_with(loss: Any) -> Task:
    rng = np.random.default_rng(3)
    shards = shards_of(list(rng.standard_normal((5, 4, 3))), [np.zeros(4)] * 5, nominal=4)
    return Task(name="own", loss=loss, shards=shards)


def begun(task: Task, **settings: Any) -> tuple[list[Run], Run]:
    """The checkpoints of a run of six rounds, before the first and after every second, and the whole run."""
    kept: list[Run] = []
    return kept, train(task, ring(6), checkpoint=kept.append, checkpoint_every=2, **QUIET, **settings)


def pulling(factor: float) -> GradientLoss:
    return GradientLoss(gradients=lambda m, x, _: factor * (m - x), dimension=3)


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pulling(1.0), pulling(2.0)),
        (quadratic(3, 1.0), quadratic(3, 2.0)),
        (quadratic(3, [1.0, 1.0, 1.0]), quadratic(3, [1.0, 1.0, 1.5])),
        (
            GradientLoss(gradients=lambda m, x, _: m - x, dimension=3),
            GradientLoss(gradients=lambda m, x, _: m + x, dimension=3),
        ),
    ],
)
def test_another_loss_of_the_same_name_does_not_go_on(first: Any, second: Any, seed: int | None) -> None:
    kept, whole = begun(task_with(first), seed=seed)
    for run in kept:
        with pytest.raises(
            InputError, match=f"this one is called '{first.name}' too, but its code, parameters or state"
        ):
            train(task_with(second), ring(6), resume=run, **QUIET)
        assert np.array_equal(
            train(task_with(first), ring(6), resume=run, **QUIET).state.models, whole.state.models
        )


def test_a_loss_that_cannot_be_told_has_no_checkpoints() -> None:
    lock = threading.Lock()

    def gradients(model: np.ndarray, features: np.ndarray, labels: Any) -> np.ndarray:  # noqa: ARG001
        with lock:
            return np.asarray(model - features)

    loss = GradientLoss(gradients=gradients, dimension=3)
    with pytest.raises(InputError, match=r"lock in .*gradients is a lock, whose state cannot be read"):
        begun(task_with(loss))
    assert train(task_with(loss), ring(6), **QUIET).finished
    kept, whole = begun(task_with(replace(loss, version="1")))
    same = train(task_with(replace(loss, version="1")), ring(6), resume=kept[1], **QUIET)
    assert np.array_equal(same.state.models, whole.state.models)
    with pytest.raises(InputError, match="its code, parameters or state are others"):
        train(task_with(replace(loss, version="2")), ring(6), resume=kept[1], **QUIET)


@pytest.mark.parametrize("seed", [None, 1])
def test_a_loss_that_says_it_is_another_is_found_out_by_its_last_round(seed: int | None) -> None:
    """A version that was not changed with the loss: round 2 is run again before anything is sent, and differs."""
    kept, _ = begun(task_with(replace(pulling(1.0), version="1")), seed=seed)
    other = GradientLoss(gradients=lambda m, x, _: m - x * (1 + 1e-9), dimension=3)
    with pytest.raises(
        InputError, match="round 2 does not come out as it did before the run was interrupted"
    ):
        train(task_with(replace(other, version="1")), ring(6), resume=kept[1], **QUIET)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"rounds": 7}, "its rounds is 6, and 7 was asked for"),
        ({"noise_multiplier": 2.5}, "its noise_multiplier is 2.0, and 2.5 was asked for"),
        ({"clip": 0.5}, "its clip is 1.0, and 0.5 was asked for"),
        ({"step": 0.2}, "its step is '0.1', and '0.2' was asked for"),
        ({"step": "0.1/sqrt(t)"}, "its step is '0.1'"),
        ({"unit": "node"}, "its unit is 'record'"),
        ({"relation": "replace-one"}, "its relation is 'add-remove'"),
        ({"batch_fraction": 0.5}, "its batch_fraction is 1.0"),
        ({"view": "secure-sum"}, "its view is 'everyone'"),
        ({"l2": 0.25}, "its l2 is 0.0, and 0.25 was asked for"),
        ({"weights": "lazy"}, "with the weights it began with, and others were given"),
        ({"record": 1.0}, "with the records it began with, and others were given"),
        ({"nominal": 5}, "with the records it began with, and others were given"),
        ({"seed": 2}, "seed must be that of the run to resume"),
        ({"made_with": "other"}, "its made_with is"),
    ],
)
def test_whatever_shapes_a_message_must_be_what_it_was(
    changes: dict[str, Any], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = task_with(quadratic(3))
    kept, _ = begun(task)
    settings = {**QUIET, **changes}
    rounds, l2 = settings.pop("rounds", 6), settings.pop("l2", 0.0)
    weights = graphs.weights_by_rule("ring:n=5", settings.pop("weights", "metropolis"))
    shards = task.shards
    if "record" in settings:
        features = shards.features.copy()
        features[0, 0, 0] += settings.pop("record")
        shards = replace(shards, features=features)
    shards = replace(shards, nominal=settings.pop("nominal", 4))
    if settings.pop("made_with", None):
        monkeypatch.setattr("sottovoce.learning.plans.made_with", lambda: "another library")
    with pytest.raises(InputError, match=complaint):
        train(replace(task, shards=shards, l2=l2), gossip(weights, rounds=rounds), resume=kept[1], **settings)


def test_going_on_twice_from_one_checkpoint_says_nothing_new() -> None:
    """Two runs from one checkpoint, and from a copy of it: the same messages, so that nobody learns more."""
    kept, whole = begun(task_with(quadratic(3)))
    again = [
        train(task_with(quadratic(3)), ring(6), resume=run, **QUIET) for run in (kept[1], replace(kept[1]))
    ]
    for run in again:
        assert np.array_equal(run.state.models, whole.state.models)
    # With a seed the same holds, and any other seed is refused.
    seeded, done = begun(task_with(quadratic(3)), seed=4)
    assert np.array_equal(
        train(task_with(quadratic(3)), ring(6), resume=seeded[1], seed=4, **QUIET).state.models,
        done.state.models,
    )


def sent(task: Task, noise: NoiseSource, rounds: int = 3, **settings: Any) -> np.ndarray:
    chosen = plan(task, ring(rounds), **{**QUIET, **settings})
    descent = chosen.descent(noise)
    state, messages = init(descent), []
    for _ in range(rounds):
        state, info = step(descent, state)
        messages.append(info.noise[0])
    return np.array(messages)


@pytest.mark.parametrize(
    "change", [{"clip": 0.5}, {"step": 0.11}, {"noise_multiplier": 2.1}, {"loss": quadratic(3, 1.1)}]
)
def test_the_same_keys_never_cover_two_messages_with_the_same_noise(change: dict[str, Any]) -> None:
    """Whatever is let through: without a seed, other messages have other noise, round by round and node by node."""
    keys = fresh_keys(5, 1)
    settings = dict(change)
    task = task_with(quadratic(3))
    other = task_with(settings.pop("loss", quadratic(3)))
    first = sent(task, BoundNoise(keys))
    assert np.array_equal(sent(task, BoundNoise(keys)), first)
    assert not (sent(other, BoundNoise(keys), **settings) == first).any()


def test_gradients_that_are_not_finite_are_counted_and_nowhere_shown() -> None:
    task = task_with(quadratic(3))
    features = task.shards.features.copy()
    features[2, 1] = np.nan
    spoilt = replace(task, shards=replace(task.shards, features=features))
    present = task.shards.present.copy()
    present[2, 1] = False
    without = replace(task, shards=replace(task.shards, features=features, present=present))
    kept, run = begun(spoilt, seed=3)
    assert (run.zeroed, kept[1].zeroed) == (6, 2)
    bare = train(without, ring(6), seed=3, **QUIET)
    assert bare.zeroed == 0
    assert np.array_equal(run.state.models, bare.state.models)
    assert train(spoilt, ring(6), resume=kept[1], **QUIET).zeroed == 6


def test_a_calibrated_run_shows_its_target() -> None:
    task = task_from(load_data("diabetes"), 5)
    for view in ("everyone", "secure-sum"):
        run = train(task, ring(8), view=view, **SMALL)
        assert run.epsilon.upper == 2
        assert run.account.epsilon().upper <= 2
        assert run.history.epsilon[-1] == 2
        assert run.unconditional_epsilon.upper == run.history.unconditional[-1] >= 2
        assert "≤ 2" in repr(run)
    given = train(task, ring(8), noise_multiplier=3.0, seed=1)
    assert given.epsilon == given.account.epsilon() == given.unconditional_epsilon


def test_a_protocol_that_damps_is_refused() -> None:
    task = synthetic_task(5, dimension=3)
    damped = gossip(RING, rounds=4, damping=0.5)
    for view in ("everyone", "secure-sum"):
        with pytest.raises(
            InputError,
            match=r"in training nodes damp by .*damping from 0.5 to 0.5, which would be accounted for",
        ):
            train(task, damped, view=view, noise_multiplier=2.0)
    with pytest.raises(InputError, match=r"leave damping out, and give the loss its l2 or curvature"):
        Descent(task=task, protocol=damped, steps=np.full(4, 0.1), noise=SilentNoise(5), noise_std=1.0)


def test_a_loss_that_passes_for_another_gets_no_noise_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worst case: a version that lies, and gradients that differ only where the last round did not go."""

    def loss(limit: float) -> GradientLoss:
        def gradients(model: np.ndarray, features: np.ndarray, labels: Any) -> np.ndarray:  # noqa: ARG001
            # Every round moves a model by a tenth or so, and little noise by much less.
            return np.full(features.shape, -0.5 if np.abs(model).max() < limit else -0.4)

        return GradientLoss(gradients=gradients, dimension=3, version="1")

    settings: dict[str, Any] = {"noise_multiplier": 0.01, "step": 0.2}
    kept: list[Run] = []
    train(task_with(loss(np.inf)), ring(6), checkpoint=kept.append, checkpoint_every=2, **settings)
    drawn: list[Any] = []

    def listening(descent: Descent, state: Any) -> Any:
        found = step(descent, state)
        drawn.append((found[0].round, found[1].noise[0], found[1].messages[0]))
        return found

    monkeypatch.setattr("sottovoce.learning.training.step", listening)
    # The models are at 0.1 before the round that is run again, at 0.2 after it, and at 0.6 in the end.
    for limit in (np.inf, 0.35):
        train(task_with(loss(limit)), ring(6), resume=kept[1], **settings)
    first, second = drawn[: len(drawn) // 2], drawn[len(drawn) // 2 :]
    differed = 0
    for (t, noise, messages), (u, other_noise, other_messages) in zip(first, second, strict=True):
        assert t == u
        same = (messages == other_messages).all(axis=1)
        differed += int((~same).sum())
        assert np.array_equal((noise == other_noise).all(axis=1), same)
        assert not (noise == other_noise)[~same].any()
    assert differed > 0
