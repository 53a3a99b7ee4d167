# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import Scene, exact_weights, scenes, seen_and_known

from sottovoce.auditing.programs import program_scene, program_simulator
from sottovoce.auditing.simulate import scene_of
from sottovoce.errors import InputError
from sottovoce.graphs import matrix_weights, metropolis_weights
from sottovoce.protocols import gossip
from sottovoce.views import View

DAMPINGS = (-1.0, 0.0, 0.5, 1.0)


class Prepared:
    """In place of a generator: noise that was laid out beforehand, (rounds, nodes, runs)."""

    def __init__(self, noise: np.ndarray) -> None:
        self.rounds = iter(noise)

    def standard_normal(self, shape: tuple[int, int]) -> np.ndarray:
        noise = next(self.rounds)
        assert noise.shape == shape
        return np.array(noise)


def powers(A: np.ndarray, C: np.ndarray, rounds: int) -> np.ndarray:
    """H_T = [C; CA, C; CA², CA, C; …], from the definition."""
    m, n = C.shape
    H = np.zeros((rounds * m, rounds * n))
    for t in range(rounds):
        for s in range(t + 1):
            H[t * m : (t + 1) * m, s * n : (s + 1) * n] = C @ np.linalg.matrix_power(A, t - s)
    return H


@given(scenes(most_rounds=5), st.data())
def test_a_run_is_what_the_definition_says_for_every_single_noise_draw(scene: Scene, data: Any) -> None:
    n, rounds = scene.weights.n, scene.rounds
    damping = np.array(data.draw(st.lists(st.sampled_from(DAMPINGS), min_size=n, max_size=n)))
    # Members of a coalition are listed in order, and so is what they see.
    view = replace(
        scene.view,
        observers=tuple(sorted(scene.view.observers, key=str)),
        known_noise=sorted(scene.view.known_noise, key=str),
    )
    rows, known = seen_and_known(view, exact_weights(scene.weights))
    C = np.array([[float(x) for x in row] for row in rows]).reshape(len(rows), n)
    H = powers(np.diag(damping) @ scene.weights.matrix.toarray(), C, rounds)
    protocol = gossip(scene.weights, rounds=rounds, damping=damping)
    run = program_simulator(program_scene(protocol, view, scene.target), noise_multiplier=2.0)
    stream = np.array(
        data.draw(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=rounds, max_size=rounds))
    )
    # Run k draws nothing but the k-th number, a 1; one more draws nothing at all.
    impulses = np.eye(rounds * n, rounds * n + 1).reshape(rounds, n, rounds * n + 1)
    rng: Any = Prepared(impulses)
    views = run(stream[:, None], rounds * n + 1, rng)
    views = views.reshape(rounds * n + 1, rounds, len(C) + len(known), 1)
    shift = (H[:, scene.target :: n] @ stream).reshape(rounds, len(C))
    assert np.allclose(views[-1, :, : len(C), 0], shift, atol=1e-12)
    for k in range(rounds * n):
        assert np.allclose(views[k, :, : len(C), 0], shift + 2 * H[:, k].reshape(rounds, -1), atol=1e-12)
        # The observer is told the noise of the nodes it knows, and of no others.
        told = 2 * impulses[:, known, k]
        assert np.array_equal(views[k, :, len(C) :, 0], told)


def test_coordinates_and_runs_have_noise_of_their_own() -> None:
    protocol = gossip(metropolis_weights("path:n=3"), rounds=2)
    run = program_simulator(program_scene(protocol, View.everyone, 0), noise_multiplier=3.0)
    views = run(np.array([[1.0, 0.0], [0.0, -1.0]]), 20_000, np.random.default_rng(5))
    first = views[:, :3]
    assert first.mean(axis=0) == pytest.approx(np.array([[1, 0], [0, 0], [0, 0]]), abs=0.12)
    covariance = np.cov(first.reshape(20_000, -1).T)
    assert covariance == pytest.approx(9 * np.eye(6), abs=0.4)


def test_whoever_sends_to_an_observer_is_its_neighbour() -> None:
    # 0 hears 1, 1 hears 2, 2 hears 0.
    weights = matrix_weights([[0.5, 0.5, 0], [0, 0.5, 0.5], [0.5, 0, 0.5]])
    scene = scene_of(gossip(weights, rounds=2), View.neighbourhood(0), 2)
    assert scene.shown.toarray().tolist() == [[1, 0, 0], [0, 1, 0]]
    assert scene.known.tolist() == [0]
    scene = scene_of(gossip(weights, rounds=2), View.coalition_messages([0, 1], own_noise="hidden"), 2)
    assert scene.shown.toarray().tolist() == [[0, 0, 1]]
    assert scene.known.tolist() == []


def test_noise_must_be_positive() -> None:
    scene = program_scene(gossip(metropolis_weights("path:n=3"), rounds=2), View.secure_sum(0), 1)
    with pytest.raises(InputError, match="noise_multiplier must be a finite number above 0; got 0"):
        program_simulator(scene, noise_multiplier=0)
