# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import Scene, exact_form, exact_weights, scenes, seen_and_known

from sottovoce import sensitivity
from sottovoce.auditing.attack import fitted_attack, likelihood_attack, plain_stream
from sottovoce.auditing.programs import program_scene, program_simulator
from sottovoce.auditing.simulate import scene_of
from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import gossip
from sottovoce.views import View

DAMPINGS = (-1.0, 0.0, 0.5, 1.0)


@given(scenes(most_rounds=6), st.data())
def test_the_worlds_lie_as_far_apart_as_the_exact_form_says(scene: Scene, data: Any) -> None:
    n = scene.weights.n
    damping = data.draw(st.lists(st.sampled_from(DAMPINGS), min_size=n, max_size=n))
    signs = data.draw(st.lists(st.sampled_from([-1, 1]), min_size=scene.rounds, max_size=scene.rounds))
    W = exact_weights(scene.weights)
    rows, known = seen_and_known(scene.view, W)
    moved = [[Fraction(d) * x for x in row] for d, row in zip(damping, W, strict=True)]
    exact = exact_form(moved, rows, known, scene.target, scene.rounds).value(np.array(signs))
    protocol = gossip(scene.weights, rounds=scene.rounds, damping=damping)
    attack = likelihood_attack(
        scene_of(protocol, scene.view, scene.target), np.array(signs, dtype=float)[:, None]
    )
    assert attack.separation is not None
    assert attack.separation**2 == pytest.approx(float(exact), rel=1e-6, abs=1e-12)


def test_scores_have_the_spread_and_the_distance_that_is_claimed() -> None:
    protocol = gossip(metropolis_weights("karate"), rounds=12)
    view = View.neighbourhood(3)
    stream = plain_stream(np.asarray(sensitivity(protocol, view, [7])[7].witness, dtype=float))
    scene = scene_of(protocol, view, 7)
    attack = likelihood_attack(scene, stream)
    assert attack.separation is not None
    run = program_simulator(program_scene(protocol, view, 7), noise_multiplier=5.0)
    rng = np.random.default_rng(11)
    without, with_record = (attack(run(each, 4000, rng)) for each in (np.zeros_like(stream), stream))
    apart = (with_record.mean() - without.mean()) / without.std()
    # Four standard errors of a mean over 4000 runs, in both worlds.
    assert apart == pytest.approx(attack.separation / 5, abs=4 * (2 / 4000) ** 0.5)
    assert with_record.std() == pytest.approx(without.std(), rel=0.1)


@pytest.mark.parametrize(
    ("graph", "view", "target"),
    [
        ("karate", View.secure_sum(0), 1),
        ("ring:n=12", View.secure_sum(0), 1),
        ("ring:n=12", View.coalition_sums([0, 2]), 1),
        ("ring:n=12", View.single_node(0, own_noise="hidden"), 1),
    ],
)
def test_the_attack_on_a_witness_reaches_the_lower_end(graph: str, view: View, target: int) -> None:
    protocol = gossip(metropolis_weights(graph), rounds=25)
    found = sensitivity(protocol, view, [target])
    stream = plain_stream(np.asarray(found[target].witness, dtype=float))
    attack = likelihood_attack(scene_of(protocol, view, target), stream)
    assert attack.separation is not None
    # Leaving directions of a stream out costs a little; nothing may exceed the upper end.
    assert attack.separation**2 == pytest.approx(found.squared_lower[0], rel=1e-3)
    assert attack.separation**2 <= found.squared_upper[0]


def test_a_view_that_shows_nothing_has_no_attack() -> None:
    protocol = gossip(metropolis_weights("path:n=6"), rounds=2)
    attack = likelihood_attack(scene_of(protocol, View.secure_sum(0), 5), np.ones((2, 1)))
    assert attack.separation == 0
    assert not attack.weights.any()


def test_streams_are_turned_into_few_directions_and_never_grow() -> None:
    rng = np.random.default_rng(3)
    angles = rng.uniform(0, 2 * np.pi, 30)
    flat = np.column_stack([np.cos(angles), np.sin(angles)])
    stream = flat @ np.linalg.qr(rng.normal(size=(10, 10)))[0][:2]
    turned = plain_stream(stream)
    assert turned.shape == (30, 2)
    assert turned @ turned.T == pytest.approx(stream @ stream.T, abs=1e-12)
    noisy = stream + 1e-3 * rng.normal(size=stream.shape)
    kept = plain_stream(noisy)
    assert kept.shape == (30, 2)
    assert (np.linalg.norm(kept, axis=1) <= np.linalg.norm(noisy, axis=1) + 1e-12).all()
    assert plain_stream(np.ones(4)).shape == (4, 1)
    assert plain_stream(np.zeros((4, 3))).shape == (4, 1)


def test_the_fitted_attack_finds_the_direction_of_fisher() -> None:
    rng = np.random.default_rng(8)
    root = np.array([[2.0, 0.0, 0.0], [1.5, 0.5, 0.0]])
    shift = np.array([1.0, 0.0])
    clouds = [(rng.normal(size=(40_000, 3)) @ root.T + world * shift) for world in (0, 1)]
    # A column that never varies, and one that repeats another, must not blow up.
    views = [np.column_stack([cloud, np.ones(40_000), cloud[:, 0]]) for cloud in clouds]
    attack = fitted_attack(views[0], views[1])
    scores = [attack(each) for each in views]
    apart = (scores[1].mean() - scores[0].mean()) / scores[0].std()
    best = float(np.sqrt(shift @ np.linalg.solve(root @ root.T, shift)))
    assert apart == pytest.approx(best, rel=0.02)
