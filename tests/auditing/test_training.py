# SPDX-License-Identifier: Apache-2.0
"""Training runs with canaries: honest accounts stand, less noise than claimed is caught, and so is an assumption.

Every audit draws from a fixed seed, so nothing below depends on chance.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sottovoce import View, gossip
from sottovoce.auditing import CanaryLoss, audit_training, training_simulator
from sottovoce.auditing.programs import program_scene
from sottovoce.auditing.results import claimed_ends
from sottovoce.auditing.simulate import scene_of
from sottovoce.errors import InputError
from sottovoce.graphs import metropolis_weights
from sottovoce.learning import (
    Plan,
    Task,
    load_data,
    plan,
    quadratic,
    ridge,
    shards_of,
    synthetic_task,
    task_from,
)
from sottovoce.learning.programs import closed_loop
from sottovoce.protocols import momentum, pairwise_noise, repeated

if TYPE_CHECKING:
    from sottovoce import Account
    from sottovoce.auditing import TrainingAudit

DELTA = 0.1
RING = gossip(metropolis_weights("ring:n=4"), rounds=3)
TASKS = {
    "quadratic": (synthetic_task(4, dimension=2, records=5), 0.5),
    "logistic": (task_from(load_data("breast-cancer").taken(np.arange(100)), 4, l2=0.01), 1.0),
}
EVERY_TASK = pytest.mark.parametrize(("task", "size"), TASKS.values(), ids=TASKS.keys())


def planned(task: Task, size: float = 0.5, noise: float = 1.0, **terms: Any) -> Plan:
    terms = {"view": View.secure_sum(0), **terms}
    return plan(task, RING, noise_multiplier=noise, target_delta=DELTA, step=size, **terms)


def rng() -> np.random.Generator:
    return np.random.default_rng(1)


@EVERY_TASK
@pytest.mark.parametrize("view", [View.secure_sum(0), "everyone"], ids=str)
def test_honest_accounts_stand_and_less_noise_is_caught(task: Task, size: float, view: Any) -> None:
    chosen = planned(task, size, noise=0.5, view=view)
    found = audit_training(chosen, trials=1000, rng=rng())
    assert not found.refuted
    assert not found.unconditional_refuted
    assert found.fitted
    assert (found.target, found.account) == (chosen.account.target, chosen.account)
    assert found.certified_epsilon_upper == chosen.account.epsilon().upper
    assert found.unconditional_epsilon_upper == chosen.unconditional.epsilon().upper
    assert (found.trials, found.confidence) == (1000, 0.999)
    assert found.empirical_mu_lower <= found.account.mu.upper
    # The same runs against the account of a trainer that draws twice as much noise.
    claim = planned(task, size, view=view).account
    halved = held_against(found, claim)
    assert halved.empirical_mu_lower > claim.mu.upper
    assert halved.refuted


def held_against(found: TrainingAudit, claim: Account) -> TrainingAudit:
    """The audit of another claim by the same runs."""
    epsilon, mu = claimed_ends(claim, DELTA)
    return replace(found, claimed_epsilon=epsilon, claimed_mu=mu)


def test_a_claim_is_held_against_the_runs_that_any_other_is() -> None:
    chosen, claim = (planned(TASKS["quadratic"][0], noise=noise).account for noise in (1.0, 2.0))
    found, other = (
        audit_training(planned(TASKS["quadratic"][0]), claim=each, trials=200, rng=rng())
        for each in (None, claim)
    )
    assert other.found == found.found
    for one, held in ((found, chosen), (other, claim)):
        assert (one.claimed_epsilon, one.claimed_mu) == claimed_ends(held, DELTA)
    assert other.claimed_mu < found.claimed_mu


WAYS = {"dealt": {"batches": 3}, "tossed": {"batch_fraction": 0.3}}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_canaries_in_batches_never_beat_what_is_certified(way: dict[str, Any]) -> None:
    # The other records have no gradient that would hide when the canary takes part.
    nobody = [np.zeros((6, 2))] * 4
    task = Task(name="zeros", loss=ridge(2, radius=1), shards=shards_of(nobody, [np.zeros(6)] * 4, nominal=6))
    chosen = planned(task, noise=0.25, view="everyone", **way)
    found = audit_training(chosen, canary="constant", trials=400, rng=rng())
    assert not found.refuted
    assert not found.unconditional_refuted
    assert 0 < found.empirical_epsilon_lower < found.certified_epsilon_upper
    # Who is told the rounds finds something too, and no more than holds for who is told.
    told = audit_training(chosen, canary="constant", told=True, trials=400, rng=rng())
    assert not told.refuted
    assert not told.unconditional_refuted
    assert told.empirical_epsilon_lower < told.certified_epsilon_upper
    assert told.empirical_mu_lower > 0
    assert told.account.method == ("exact" if chosen.account.coins is None else "told")
    # A trainer that puts every record into every round is caught by the same attack.
    always = planned(task, noise=0.25, view="everyone")
    claim = planned(task, noise=1.0, view="everyone", **way).account.epsilon().upper
    assert audit_training(always, claim=claim, canary="constant", trials=400, rng=rng()).refuted


def test_a_canary_takes_part_when_its_place_does() -> None:
    task, gradient = TASKS["logistic"][0], np.full(31, 0.1)
    shards, models = task.shards, np.zeros((4, 31))
    loss = CanaryLoss(loss=task.loss, node=1, gradient=gradient, place=2)
    weights = shards.present.astype(float)
    without = weights.copy()
    without[1, 2] = 0
    others = task.loss.clipped_sums(models, shards, without, 1.0).values
    assert np.array_equal(loss.clipped_sums(models, shards, without, 1.0).values, others)
    with_it = loss.clipped_sums(models, shards, weights, 1.0).values
    assert with_it[1] - others[1] == pytest.approx(gradient)
    assert np.array_equal(with_it[[0, 2, 3]], others[[0, 2, 3]])


def star(**terms: Any) -> Plan:
    """The leaves other than the target forget what they receive and send it back as gradients instead."""
    features = [np.zeros((1, 1))] * 2 + [np.ones((1, 1))] * 7
    shards = shards_of(features, [np.zeros(1)] * 9, nominal=1)
    task = Task(name="star", loss=ridge(1, radius=1), shards=shards)
    protocol = gossip(metropolis_weights("star:n=9"), rounds=6)
    return plan(
        task, protocol, view=View.secure_sum(0), noise_multiplier=1.0, target_delta=DELTA, step=1.0, **terms
    )


def test_training_breaks_an_account_that_assumes_it_away_and_not_the_certified_one() -> None:
    chosen = star(averaging=True)
    assert chosen.averaging is not None
    found = audit_training(chosen, target=1, canary="constant", trials=2000, rng=rng())
    assert found.account.assumption == "smooth"
    assert found.target == 1
    assert found.signs.tolist() == [1.0] * 6
    # The certified Δ² is that of the linear loop in which all but the target forget.
    assert found.account.sensitivity_squared is not None
    assert found.account.sensitivity_squared.upper == pytest.approx(3.39363, rel=1e-3)
    assert found.certified_epsilon_upper == pytest.approx(3.317, rel=1e-3)
    assert not found.refuted
    assert not found.unconditional_refuted
    # The same runs refute the number of averaging.
    assumed = held_against(found, chosen.averaging)
    assert chosen.averaging.assumption == "hidden-state"
    assert assumed.empirical_epsilon_lower > assumed.claimed_epsilon == pytest.approx(0.893, abs=1e-3)
    assert assumed.empirical_mu_lower > chosen.averaging.mu.upper
    assert assumed.refuted


@pytest.mark.parametrize("canary", ["witness", "constant"])
@pytest.mark.parametrize("name", ["ridge star", "logistic ring", "softmax digits"])
def test_no_canary_beats_what_is_certified(name: str, canary: Any) -> None:
    if name == "ridge star":
        chosen = star()
    elif name == "logistic ring":
        chosen = planned(TASKS["logistic"][0], 4.0)
    else:
        digits = load_data("digits").taken(np.arange(60))
        chosen = planned(task_from(digits, 4, l2=0.0), 8.0)
    found = audit_training(chosen, canary=canary, trials=600, rng=rng())
    assert found.account.assumption == "smooth"
    assert found.certified_epsilon_upper < found.unconditional_epsilon_upper
    assert not found.refuted
    assert found.empirical_mu_lower <= found.account.mu.upper


@pytest.mark.parametrize(
    "view", [View.secure_sum(0), View.neighbourhood(0), View.secure_sum(0, own_noise="hidden")], ids=repr
)
def test_a_canary_moves_the_view_as_the_linear_loop_does(view: View) -> None:
    chosen = planned(synthetic_task(4, dimension=3, records=5), 0.25, view=view)
    scene = scene_of(gossip(RING.weights, rounds=RING.rounds, damping=0.75), view, 2)
    direction = np.array([2.0, -1.0, 2.0]) / 3
    run = training_simulator(chosen, program_scene(RING, view, 2), direction)
    stream = np.array([1.0, -1.0, 0.5])
    moved = (run(stream, 4, rng()) - run(np.zeros(3), 4, rng())).reshape(4, 3, -1)
    state = np.zeros(4)
    for t, contribution in enumerate(stream):
        state = 0.75 * (RING.weights.matrix.toarray() @ state)
        state[2] += contribution
        expected = np.concatenate([scene.shown @ state, np.zeros(scene.known.size)])
        assert moved[:, t] == pytest.approx(np.tile(expected, (4, 1)), abs=1e-8)


PROGRAMS = [
    pairwise_noise(RING.weights, rounds=3, local=1, shared=2),
    gossip(RING.weights, rounds=3, encoder=(1, "1/2")),
    momentum(RING.weights, rounds=3, beta=0.5),
    repeated(RING.weights, rounds=3, steps=2),
]
EVERY_PROGRAM = pytest.mark.parametrize("protocol", PROGRAMS, ids=lambda each: each.name)


@EVERY_PROGRAM
@pytest.mark.parametrize("view", [View.neighbourhood(0), View.everyone], ids=repr)
def test_a_canary_moves_what_is_seen_of_a_program_as_its_closed_loop_does(protocol: Any, view: View) -> None:
    task = synthetic_task(4, dimension=3, records=5)
    chosen = plan(task, protocol, view=view, noise_multiplier=1.0, target_delta=DELTA, step=0.25)
    scene = program_scene(closed_loop(protocol, np.array([0.75])), view, 2)
    direction, stream = np.array([2.0, -1.0, 2.0]) / 3, np.array([1.0, -1.0, 0.5])
    run = training_simulator(chosen, scene, direction)
    moved = run(stream, 2, rng()) - run(np.zeros(3), 2, rng())
    expected = scene.shows(stream[:, None], lambda count: np.zeros((count, 1)))[:, 0]
    assert moved == pytest.approx(np.tile(expected, (2, 1)), abs=1e-8)


@EVERY_PROGRAM
@pytest.mark.parametrize("name", ["quadratic", "logistic"])
def test_honest_accounts_of_programs_stand_and_less_noise_is_caught(protocol: Any, name: str) -> None:
    task, size = TASKS[name]
    honest, quieter = (
        plan(task, protocol, view="everyone", noise_multiplier=noise, target_delta=DELTA, step=size)
        for noise in (0.5, 4.0)
    )
    found = audit_training(honest, trials=600, rng=rng())
    assert not found.refuted
    assert not found.unconditional_refuted
    assert held_against(found, quieter.account).refuted


def test_a_canary_is_a_record() -> None:
    base = synthetic_task(3, dimension=2, records=4)
    gradient = np.array([0.3, -0.4])
    models = rng().standard_normal((3, 2))
    shards = base.shards
    records = [shards.features[0], np.vstack([shards.features[1], -gradient[None]]), shards.features[2]]
    more = shards_of(records, [np.zeros(len(rows)) for rows in records], nominal=4)
    plain = quadratic(2)
    for clip in (0.5, 0.2, 10.0):
        canary = CanaryLoss(loss=plain, node=1, gradient=gradient)
        found, *_ = canary.clipped_sums(models, shards, shards.present.astype(float), clip)
        truth, *_ = plain.clipped_sums(models, more, more.present.astype(float), clip)
        assert found == pytest.approx(truth, abs=1e-12)
    assert (canary.name, canary.dimension, canary.start, canary.state_free) == ("quadratic", 2, None, True)
    assert (canary.smoothness, canary.shape(1.0, whole=True)) == (0.0, "convex")
    assert canary.curvature is plain.curvature
    point = np.ones(2)
    features, labels = shards.pooled
    assert np.array_equal(canary.values(point, features, labels), plain.values(point, features, labels))
    assert canary.predictions(point, features) is None


def test_few_runs_are_scored_by_the_likelihood_ratio() -> None:
    heard: list[tuple[int, int]] = []
    chosen = planned(*TASKS["quadratic"], view="neighbourhood", relation="replace-one")
    one, two = (
        audit_training(chosen, trials=300, rng=rng(), progress=lambda *step: heard.append(step))
        for _ in range(2)
    )
    assert not one.fitted
    assert one.view.name == "neighbourhood"
    assert one.found == two.found
    assert heard[-1] == (300, 300)
    assert not one.refuted
    # Replacing the record moves twice as far, and 75 judged runs show a good part of it.
    assert one.empirical_mu_lower > 0.5 * one.account.mu.lower
    # A bare ε is audited by its definition alone.
    bare = audit_training(chosen, claim=0.25, trials=300, rng=rng())
    assert (bare.claimed_epsilon, bare.claimed_mu) == (0.25, np.inf)
    assert bare.empirical_epsilon_lower > 0.25
    assert bare.refuted


@pytest.mark.parametrize(
    ("changes", "settings", "complaint"),
    [
        (
            {"unit": "node"},
            {},
            "a canary is one record; got unit 'node' .audit such runs with audit_simulator",
        ),
        ({}, {"trials": 3}, "trials must be a whole number of at least 16; got 3"),
        ({}, {"trials": 10**9}, "1000000000 runs of 3 rounds each would take hours"),
        ({}, {"canary": "loud"}, "canary must be one of witness, constant; got 'loud'"),
        ({}, {"direction": np.zeros(2)}, "direction must be a vector of 2 finite numbers that are not all 0"),
        ({}, {"direction": np.ones(3)}, r"as many as the model has; got shape \(3,\)"),
        ({}, {"claim": -1.0}, r"claim must be an Account or an ε of at least 0; got -1\.0"),
        ({}, {"confidence": 1.0}, "confidence must lie strictly between 0 and 1"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], settings: dict[str, Any], complaint: str) -> None:
    chosen = planned(*TASKS["quadratic"], **changes)
    with pytest.raises(InputError, match=complaint):
        audit_training(chosen, **{"trials": 16, **settings})
