# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from tests.reference import Scene, rational, scenes, seen_and_known

from sottovoce.errors import ViewError
from sottovoce.filtering import HiddenSystem, hidden_system
from sottovoce.graphs import matrix_weights, metropolis_weights
from sottovoce.protocols import gossip
from sottovoce.views import View, observe

DIRECTED = matrix_weights([[0.5, 0.5, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 0.5, 0.5], [0.5, 0, 0, 0.5]])


def system_of(weights: Any, view: View, *, rounds: int = 4, complete: bool = True) -> HiddenSystem:
    protocol = gossip(weights, rounds=rounds)
    return hidden_system(protocol, observe(protocol, view), complete=complete)


def stacked_response(system: HiddenSystem) -> np.ndarray:
    """H_T of the hidden system: rounds 1..T−1 through its rows, round T through its last rows."""
    A, n, T = system.transition.toarray(), system.unknown.size, system.rounds
    blocks = []
    for t in range(T):
        C = system.rows if t < T - 1 else system.last_rows
        blocks.append(
            np.hstack(
                [C @ np.linalg.matrix_power(A, t - s) if s <= t else np.zeros((len(C), n)) for s in range(T)]
            )
        )
    return np.vstack(blocks)


def hidden_form(system: HiddenSystem, target: int) -> np.ndarray:
    """M of the hidden system by a least-squares solve; its noise map has full row rank."""
    N = stacked_response(system)
    position = int(np.searchsorted(system.unknown, target))
    G = N[:, position :: system.unknown.size]
    return np.asarray(G.T @ np.linalg.solve(N @ N.T, G)) if len(N) else np.zeros((system.rounds,) * 2)


@given(scenes())
def test_what_is_left_says_as_much_as_the_view(scene: Scene) -> None:
    exact = scene.form.floats
    system = system_of(scene.weights, scene.view, rounds=scene.rounds)
    found = hidden_form(system, scene.target)
    if not system.over_informed:
        assert np.allclose(found, exact, atol=1e-9)
    else:
        # More is seen on one side and less on the other, as positive semidefinite matrices.
        less = hidden_form(
            system_of(scene.weights, scene.view, rounds=scene.rounds, complete=False), scene.target
        )
        assert np.linalg.eigvalsh(found - exact)[0] >= -1e-9
        assert np.linalg.eigvalsh(exact - less)[0] >= -1e-9


@given(scenes())
def test_rows_are_orthonormal_and_last_rows_lie_within_their_span(scene: Scene) -> None:
    system = system_of(scene.weights, scene.view, rounds=scene.rounds)
    for rows in (system.rows, system.last_rows):
        assert np.allclose(rows @ rows.T, np.eye(len(rows)), atol=1e-12)
    projected = system.last_rows @ system.rows.T @ system.rows
    assert np.allclose(projected, system.last_rows, atol=1e-12)


@given(scenes())
def test_named_views_are_never_given_more_than_they_say(scene: Scene) -> None:
    assume(scene.view.name != "custom")
    assert not system_of(scene.weights, scene.view).over_informed


@given(scenes())
def test_the_unknown_nodes_keep_their_part_of_the_transition(scene: Scene) -> None:
    system = system_of(scene.weights, scene.view)
    known = seen_and_known(scene.view, rational(scene.weights.matrix.toarray()))[1]
    unknown = [k for k in range(scene.weights.n) if k not in known]
    assert system.unknown.tolist() == unknown
    assert (system.transition.toarray() == scene.weights.matrix.toarray()[np.ix_(unknown, unknown)]).all()
    assert system.symmetric == scene.weights.symmetric


def test_without_completion_an_unexplained_node_becomes_unknown() -> None:
    weights = metropolis_weights("path:n=4")
    view = View(observation=[[0, 0, 1, 0]], known_noise=[0])
    given_more = system_of(weights, view)
    assert given_more.over_informed
    assert given_more.unknown.tolist() == [1, 2, 3]
    assert len(given_more.rows) == 2
    given_less = system_of(weights, view, complete=False)
    assert not given_less.over_informed
    assert given_less.unknown.tolist() == [0, 1, 2, 3]
    assert len(given_less.rows) == 1


def test_the_own_row_of_a_neighbourhood_adds_nothing_once_its_noise_is_known() -> None:
    weights = metropolis_weights("star:n=5")
    assert system_of(weights, View.neighbourhood(0)).rows.shape == (4, 4)
    assert system_of(weights, View.neighbourhood(0, own_noise="hidden")).rows.shape == (5, 5)


def test_ones_own_message_says_the_sum_of_the_round_before() -> None:
    weights = metropolis_weights("path:n=4")
    own = system_of(weights, View.single_node(1))
    total = system_of(weights, View.secure_sum(1))
    assert np.allclose(np.abs(own.rows), np.abs(total.rows))
    assert own.last_rows.shape[0] == 0
    assert total.last_rows.shape[0] == 1


def test_equal_sums_of_a_complete_graph_are_one_row() -> None:
    weights = metropolis_weights("complete:n=6")
    assert system_of(weights, View.coalition_sums([0, 1])).rows.shape[0] == 1
    nudged = np.full((6, 6), 1 / 6)
    nudged[0, 2] += 1e-6
    nudged[0, 3] -= 1e-6
    assert system_of(matrix_weights(nudged), View.coalition_sums([0, 1])).rows.shape[0] == 2


def test_a_row_of_known_nodes_in_two_sightings_is_counted_through_their_inflow() -> None:
    # Two rows that differ by a known node's message alone: their difference tells that node's inflow.
    weights = metropolis_weights("path:n=4")
    view = View(observation=[[0, 0, 0, 1], [1, 0, 0, 1]], known_noise=[0])
    system = system_of(weights, view)
    exact = Scene(weights, view, 1, 4).form.floats
    assert np.linalg.eigvalsh(hidden_form(system, 1) - exact)[0] >= -1e-12


@pytest.mark.parametrize("complete", [True, False])
def test_an_observer_that_knows_all_noise_is_refused(complete: bool) -> None:
    with pytest.raises(ViewError, match=r"knows the noise of every node.*\(leave a node out\)"):
        system_of(metropolis_weights("path:n=3"), View.coalition_sums([0, 1, 2]), complete=complete)


@given(st.integers(0, 2**32 - 1))
def test_scaling_and_mixing_rows_changes_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = metropolis_weights("ring:n=5")
    rows = rng.integers(-2, 3, (2, 5)).astype(float)
    assume(np.linalg.matrix_rank(rows) == 2)
    mixed = np.array([[2.0, 1.0], [-1.0, 3.0], [0.0, 0.5]]) @ rows
    plain = system_of(weights, View(observation=rows))
    again = system_of(weights, View(observation=mixed))
    assert np.allclose(plain.rows.T @ plain.rows, again.rows.T @ again.rows, atol=1e-12)


def test_hops_are_those_of_the_graph_where_floats_underflow() -> None:
    # 1e-200 times 1e-200 is no float, but it is no 0 either: what node 2 sends does reach node 0.
    chain = matrix_weights(np.array([[1 - 1e-200, 1e-200, 0], [0, 1 - 1e-200, 1e-200], [0.5, 0, 0.5]]))
    damped = gossip(chain, rounds=6, damping=[1, 1e-200, 1])
    assert damped.transition[1, 2] == 0
    assert hidden_system(damped, observe(damped, View.secure_sum(0))).hops().tolist() == [0, 1]
    cut = gossip(chain, rounds=6, damping=[1, 0, 1])
    assert hidden_system(cut, observe(cut, View.secure_sum(0))).hops().tolist() == [0, np.inf]


def test_a_row_reads_what_it_says_and_not_what_is_left_of_it_in_floats() -> None:
    weights = metropolis_weights("path:n=4")
    view = View(observation=[[1e300, 0, 0, 1e-300]], known_noise=[])
    assert system_of(weights, view).hops().tolist() == [0, 1, 1, 0]


def test_rows_that_sum_to_more_than_1_grow_with_every_round() -> None:
    for protocol, matrix in (
        (metropolis_weights("ring:n=4"), np.full((3, 3), 0.4)),
        (DIRECTED, np.array([[0.2, 1.0, 0.0], [0.1, 1.1, 0.0], [0.0, 1.2, 0.0]])),
    ):
        system = replace(system_of(protocol, View.secure_sum(0), rounds=9), transition=csr_array(matrix))
        assert system.symmetric == (protocol is not DIRECTED)
        norms = [np.linalg.norm(np.linalg.matrix_power(matrix, k), 2) for k in range(9)]
        assert norms[-1] > 2
        assert max(norms) <= system.power_norm <= 4 * 1.2 * max(norms)
