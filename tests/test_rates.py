# SPDX-License-Identifier: Apache-2.0
"""Rates: known limits, the errors that are raised, and that the intervals hold and are narrow."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy import linalg
from tests.dense import dense_response
from tests.laws.test_threshold_laws import two_cliques

from sottovoce.errors import InputError, NotCertified
from sottovoce.filtering import hidden_system
from sottovoce.graphs import GossipWeights, matrix_weights, metropolis_weights, uniform_weights
from sottovoce.interval import UNIT_ROUNDOFF
from sottovoce.protocols import gossip
from sottovoce.rates import Rates, rate, response_spectrum, steady_state
from sottovoce.rates import steady_filter as steady_module
from sottovoce.rates.rounding import solve_residual
from sottovoce.rates.taylor_pieces import _refined_solution, rows_at, taylor_cover
from sottovoce.views import View, observe


def test_contributions_of_bounded_energy_have_no_rate() -> None:
    ring = gossip(metropolis_weights("ring:n=6"), rounds=1)
    told = "where the supremum of φ.* is finite, its Δ² stays below that .* its rate is 0 .*response_spectrum"
    with pytest.raises(InputError, match=told):
        rate(ring, View.secure_sum(0), contribution="energy")


def alone(node: int) -> View:
    return View.single_node(node, own_noise="hidden")


def widest(found: Rates) -> float:
    return float((found.upper / found.lower - 1).max())


DIRECTED = np.array(
    [
        [0.5, 0.3, 0.0, 0.2, 0.0],
        [0.1, 0.6, 0.3, 0.0, 0.0],
        [0.0, 0.2, 0.2, 0.2, 0.4],
        [0.7, 0.0, 0.0, 0.3, 0.0],
        [0.0, 0.25, 0.0, 0.25, 0.5],
    ]
)


def test_two_nodes_have_nine_tenths_and_not_a_half() -> None:
    found = rate(np.full((2, 2), 0.5), alone(0), targets=[0])
    assert found[0].limit.lower == pytest.approx(0.9, abs=1e-8)
    assert 0.9 in found[0].limit
    assert found[0].frequency == pytest.approx(np.pi)
    assert found[0].constant == pytest.approx(0.5)


def test_a_path_of_three_has_25_of_26() -> None:
    found = rate(metropolis_weights("path:n=3"), View.secure_sum(0), targets=[1])
    assert 25 / 26 in found[1].limit
    assert found[1].limit.gap < 1e-6
    assert found[1].constant == pytest.approx(0.5)


def test_a_path_of_four() -> None:
    weights = metropolis_weights("path:n=4")
    assert rate(weights, alone(1))[0].limit.upper == pytest.approx(0.3222, abs=5e-5)
    signs = rate(weights, alone(1), contribution="scalar")[0]
    assert 0.2869 <= signs.limit.lower <= signs.limit.upper
    assert signs.limit.upper == pytest.approx(0.3222, abs=5e-5)


def test_two_rows_tell_constants_more_than_their_share() -> None:
    view = View(observation=[[1, 0, 0], [0, 1, 0]])
    found = rate(np.full((3, 3), 1 / 3), view, targets=[0])
    assert found[0].constant == pytest.approx(5 / 6)
    assert found[0].limit.lower > 2 / 3


@pytest.mark.parametrize(
    ("graph", "view", "limit"),
    [
        ("ring:n=40", alone(0), 0.1716),
        ("ring:n=40", View.secure_sum(0), 0.4641),
        ("torus:rows=10,cols=10", alone(0), 0.0644),
        ("ring:n=60", View.neighbourhood(0), 0.93),
    ],
)
def test_rates_of_a_neighbour(graph: str, view: View, limit: float) -> None:
    found = rate(metropolis_weights(graph), view, targets=[1])
    assert found[1].limit.upper == pytest.approx(limit, rel=0.05 if limit > 0.9 else 1e-3)
    assert found[1].limit.gap <= 1e-6


def test_a_random_graph_hides_slow_signals_in_everybody_and_fast_ones_in_a_neighbourhood() -> None:
    weights = metropolis_weights("erdos-renyi:n=100,p=0.15,seed=1")
    neighbour = max(weights.neighbours(0).tolist(), key=lambda j: weights.matrix[0, j])
    hidden, known = rate(weights, alone(0)), rate(weights, View.secure_sum(0))
    assert hidden[neighbour].limit.upper == pytest.approx(0.01, rel=0.02)
    assert 0.02 < known[neighbour].limit.upper < 0.2
    assert widest(hidden) <= 1e-6
    assert widest(known) <= 1e-6


def test_everyone_sees_all() -> None:
    found = rate(metropolis_weights("ring:n=5"), View.everyone)
    assert found.lower.tolist() == found.upper.tolist() == [1.0] * 5
    assert found.method == "closed form"
    assert (
        response_spectrum(metropolis_weights("ring:n=5"), View.everyone, 0, np.zeros(3)).tolist() == [1.0] * 3
    )


def test_mirrored_targets_have_the_same_numbers() -> None:
    found = rate(metropolis_weights("ring:n=40"), alone(0))
    for numbers in (found.lower, found.upper, found.constant):
        assert numbers[1:] == pytest.approx(numbers[:0:-1], rel=1e-9)


@pytest.mark.parametrize(
    ("weights", "view"),
    [
        (metropolis_weights("ring:n=30"), alone(0)),
        (metropolis_weights("path:n=6"), View.secure_sum(2)),
        (uniform_weights("star:n=6"), View.neighbourhood(1)),
        (matrix_weights(DIRECTED), View.secure_sum(2, own_noise="hidden")),
    ],
)
def test_the_ends_stand_around_a_fine_grid(weights: GossipWeights, view: View) -> None:
    found = rate(weights, view)
    protocol = found.protocol
    system = hidden_system(protocol, observe(protocol, view))
    state = steady_state(system)
    place = int(np.argmax(found.upper * (found.frequency < 3)))
    target = int(np.searchsorted(system.unknown, found.indices[place]))
    values, vectors = np.linalg.eig(state.closed.loop)
    left, right = state.closed.whitener @ vectors, np.linalg.inv(vectors)[:, target]
    turns = np.exp(-1j * np.linspace(0, np.pi, 100_001))
    grid = (np.abs((left * right) @ (1 / (1 - turns[:, None] * values)).T) ** 2).sum(axis=0)
    assert grid.max() <= found.upper[place] * (1 + 1e-9)
    assert grid.max() == pytest.approx(found.lower[place], rel=1e-6)
    assert (found.lower <= found.upper).all()
    assert widest(found) <= 1e-6


def test_a_tighter_tolerance_is_kept() -> None:
    weights = metropolis_weights("path:n=4")
    assert widest(rate(weights, alone(1), tolerance=1e-8)) <= 1e-8


def rotating(rounds: int, frequency: float) -> np.ndarray:
    angles = frequency * np.arange(rounds)
    return np.column_stack([np.cos(angles), np.sin(angles)])


def ascent(form: np.ndarray, stream: np.ndarray, steps: int) -> float:
    for _ in range(steps):
        image = form @ stream
        stream = image / np.maximum(np.linalg.norm(image, axis=1, keepdims=True), 1e-300)
    return float((stream * (form @ stream)).sum())


@pytest.mark.parametrize("view", [alone(1), View.secure_sum(1)])
def test_the_rate_is_the_limit_of_long_runs(view: View) -> None:
    weights = metropolis_weights("path:n=4")
    found = rate(weights, view, targets=[0])[0]
    misses = []
    for rounds in (50, 100, 200, 400):
        protocol = gossip(weights, rounds=rounds)
        system = hidden_system(protocol, observe(protocol, view))
        (forms,) = dense_response(system).forms(np.array([0]))
        (form,) = forms.matrices
        stream = rotating(rounds, found.frequency)
        misses.append(abs((stream * (form @ stream)).sum() / rounds / found.limit.upper - 1))
        best = ascent(form, np.column_stack([stream, np.ones((rounds, 1)) / 10]), 300)
        assert best / rounds <= found.limit.upper * (1 + 8 / rounds)
    assert misses == sorted(misses, reverse=True)
    assert misses[-1] < 0.02


@pytest.mark.parametrize(("own", "unknown"), [("hidden", 0), ("known", 1)])
def test_a_reduced_system_gives_the_numbers_of_the_full_one(
    own: str, unknown: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = metropolis_weights("erdos-renyi:n=80,p=0.15,seed=3")
    view = View.secure_sum(0, own_noise=own)  # type: ignore[arg-type]
    full = rate(weights, view)
    monkeypatch.setattr(steady_module, "SMALL", 10)
    reduced = rate(weights, view)
    assert full.method == "all unknown nodes"
    assert reduced.method.startswith("Krylov space of dimension")
    assert len(full) == 80 - unknown
    assert (reduced.lower <= full.upper).all()
    assert (full.lower <= reduced.upper).all()
    assert widest(reduced) <= 1e-6


def test_a_mirror_symmetric_graph_reduces_to_half_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady_module, "SMALL", 10)
    found = rate(metropolis_weights("ring:n=100"), alone(0))
    assert found.method == "Krylov space of dimension 51"
    assert found[1].limit.upper == pytest.approx(0.171573, abs=1e-6)
    assert widest(found) <= 1e-6


@pytest.mark.parametrize("bound", [0, 128])
def test_every_bound_of_the_resolvent_covers_it(bound: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady_module, "EXACT_NORM", bound)
    for weights in (metropolis_weights("path:n=7"), matrix_weights(DIRECTED)):
        protocol = gossip(weights, rounds=1)
        state = steady_state(hidden_system(protocol, observe(protocol, alone(0))))
        for frequency in np.linspace(0, np.pi, 50):
            shifted = np.eye(state.size) - np.exp(-1j * frequency) * state.closed.loop
            norm = np.linalg.norm(np.linalg.inv(shifted), 2)
            assert norm <= state.resolvent_bound(frequency) * (1 + 1e-12)
            assert norm <= state.loop_bound


@pytest.mark.parametrize("rule", [metropolis_weights, uniform_weights])
def test_bounds_of_large_systems_give_the_same_rates(rule: object, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = rule("path:n=9")  # type: ignore[operator]
    exact = rate(weights, View.secure_sum(2))
    monkeypatch.setattr(steady_module, "EXACT_NORM", 0)
    bounded = rate(weights, View.secure_sum(2))
    assert bounded.upper == pytest.approx(exact.upper, rel=1e-7)
    assert bounded.lower == pytest.approx(exact.lower, rel=1e-7)


def test_the_steady_filter_is_steady_and_white() -> None:
    protocol = gossip(metropolis_weights("torus:rows=4,cols=4"), rounds=1)
    state = steady_state(hidden_system(protocol, observe(protocol, View.neighbourhood(0))))
    B, P = state.closed.loop, state.covariance
    assert B @ P @ B.T + np.eye(state.size) == pytest.approx(P, abs=1e-11)
    assert np.abs(np.linalg.eigvals(B)).max() < 1
    response = state.closed.whitener @ np.linalg.inv(np.eye(state.size) - np.exp(-0.7j) * B)
    assert response @ response.conj().T == pytest.approx(np.eye(len(response)), abs=1e-11)
    assert state.distortion < 1e-10


def test_signs_keep_constant_and_alternating_streams_exactly() -> None:
    weights = metropolis_weights("path:n=3")
    vector = rate(weights, View.secure_sum(0))
    scalar = rate(weights, View.secure_sum(0), contribution="scalar")
    assert scalar.upper == pytest.approx(vector.upper)
    # The neighbour's supremum is at π, the far node's at 0: signs attain both.
    assert vector.frequency == pytest.approx([np.pi, 0], abs=1e-9)
    assert scalar.lower == pytest.approx(vector.lower, rel=1e-9)


def test_signs_reach_at_least_the_square_wave_series() -> None:
    weights = metropolis_weights("path:n=4")
    odd = 2 * np.arange(200) + 1
    series = [
        8 / np.pi**2 * (response_spectrum(weights, alone(1), 0, odd * omega) / odd**2).sum()
        for omega in np.linspace(0.05, 0.4, 36)
    ]
    assert rate(weights, alone(1), contribution="scalar")[0].limit.lower >= max(series) * 0.9995


def test_a_view_completed_on_the_safe_side_has_a_wider_interval() -> None:
    weights = metropolis_weights("ring:n=10")
    row = [[1.0] + [0.0] * 9]
    found = rate(weights, View(observation=row, known_noise=[5]), targets=[1])
    plain = rate(weights, View(observation=row), targets=[1])
    assert found[1].limit.lower == pytest.approx(plain[1].limit.lower)
    assert found[1].limit.upper > plain[1].limit.upper


def test_what_is_never_heard_of_has_rate_zero() -> None:
    found = rate(metropolis_weights("ring:n=4"), View(observation=np.zeros((1, 4))))
    assert found.upper.tolist() == [0.0] * 4
    assert found.method == "nothing is seen"
    assert response_spectrum(found.protocol, found.view, 1, np.array([0.3])).tolist() == [0.0]


def test_labels_progress_and_iteration() -> None:
    weights = matrix_weights(np.full((3, 3), 1 / 3), labels=["anna", "ben", "carl"])
    calls: list[tuple[int, int]] = []
    found = rate(weights, View.secure_sum("anna"), progress=lambda done, total: calls.append((done, total)))
    assert list(found.targets) == ["ben", "carl"]
    assert [one.target for one in found] == ["ben", "carl"]
    assert len(found) == 2
    assert calls == [(2, 2)]
    assert found["ben"].contribution == "vector"


def test_a_protocol_of_any_length_gives_the_same_rate() -> None:
    weights = metropolis_weights("ring:n=7")
    short, long = (rate(gossip(weights, rounds=r), View.secure_sum(0)) for r in (1, 1000))
    assert short.upper.tolist() == long.upper.tolist()


def test_spectrum_keeps_the_shape_it_is_asked_for() -> None:
    frequencies = np.array([[0.0, 0.5], [1.0, np.pi]])
    values = response_spectrum(metropolis_weights("ring:n=7"), alone(0), 1, frequencies)
    assert values.shape == (2, 2)
    assert values[0, 0] == pytest.approx(1 / 7)


def test_errors_name_the_remedy() -> None:
    weights = metropolis_weights("ring:n=10")
    with pytest.raises(InputError, match="the observer knows its noise"):
        rate(weights, View.secure_sum(0), targets=[0])
    with pytest.raises(InputError, match="at least one node"):
        rate(weights, View.secure_sum(0), targets=[])
    with pytest.raises(InputError, match="tolerance must be a finite number above 0"):
        rate(weights, View.secure_sum(0), tolerance=0)
    with pytest.raises(InputError, match="contribution must be one of vector, scalar"):
        rate(weights, View.secure_sum(0), contribution="matrix")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="not among the targets"):
        rate(weights, View.secure_sum(0), targets=[1])[2]


def test_a_direction_that_is_never_seen_is_refused() -> None:
    difference = View(observation=[[1, -1] + [0] * 8])
    with pytest.raises(NotCertified, match=r"does not settle .*\(observe a row that does not sum to 0"):
        rate(metropolis_weights("ring:n=10"), difference)


def test_large_networks_without_a_bound_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady_module, "SMALL", 10)
    monkeypatch.setattr(steady_module, "LARGE", 20)
    with pytest.raises(NotCertified, match=r"30 unknown nodes: above 20 .*\(bound Δ² over T rounds"):
        rate(uniform_weights("star:n=30"), alone(0))


@pytest.mark.parametrize(("size", "coupling"), [(5, 1e-10), (10, 1e-9), (10, 1e-11)])
def test_weakly_coupled_cliques_have_a_rate(size: int, coupling: float) -> None:
    # One observer in each clique: either hears its own clique, so the rate is next to 1 / size.
    weights = two_cliques(size, coupling)
    for first in (0, 1):
        found = rate(weights, View.coalition_sums([first, size + first], own_noise="hidden"))
        assert (found.lower <= 1 / size * (1 + 1e-6)).all()
        assert (found.upper >= 1 / size * (1 - 1e-6)).all()
        assert widest(found) < 1e-4


def test_a_covariance_that_rounding_makes_indefinite_is_not_certified(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(steady_module, "_doubled", lambda transition, _: -np.eye(len(transition)))
    with pytest.raises(NotCertified, match="does not settle"):
        rate(metropolis_weights("ring:n=5"), View.secure_sum(0))


def exactly(matrix: np.ndarray) -> mpmath.matrix:
    return mpmath.matrix([[mpmath.mpc(complex(x)) for x in row] for row in np.atleast_2d(matrix)])


SOLVED = [("ring:n=12", View.secure_sum(0)), ("star:n=9", View.neighbourhood(2)), ("karate", alone(0))]


@pytest.mark.parametrize(("graph", "view"), SOLVED)
def test_what_a_solve_leaves_is_covered_in_256_bits_and_not_a_thousand_times_too_large(
    graph: str, view: View
) -> None:
    protocol = gossip(metropolis_weights(graph), rounds=1)
    state = steady_state(hidden_system(protocol, observe(protocol, view)))
    shares = []
    for frequency in (0.0, 0.3, 2.0):
        matrix = np.eye(state.size) - np.exp(-1j * frequency) * state.closed.loop.T
        factors, rights = linalg.lu_factor(matrix), [state.closed.whitener.T.astype(complex)]
        found = [_refined_solution(factors, matrix, rights[0])]
        # The next one is given what the first has found; both are measured at once.
        rights.append(found[0])
        found.append(_refined_solution(factors, matrix, rights[1]))
        bounds = solve_residual(matrix, np.array(rights), np.array(found))
        with mpmath.workprec(256):
            for right, solution, bound in zip(rights, found, bounds, strict=True):
                left = exactly(right) - exactly(matrix) * exactly(solution)
                shares.append(float(mpmath.mnorm(left, "f")) / float(bound))
    assert max(shares) <= 1
    assert max(shares) >= 1e-3


@pytest.mark.parametrize(("graph", "view"), SOLVED[:2])
def test_polynomials_are_within_their_slack_in_256_bits(graph: str, view: View) -> None:
    protocol = gossip(metropolis_weights(graph), rounds=1)
    state = steady_state(hidden_system(protocol, observe(protocol, view)))
    found = taylor_cover(state)
    frequencies = np.array([piece.centre + share * piece.halfwidth for piece in found for share in (-1, 0.7)])
    values, which = rows_at(found, frequencies[:12])
    with mpmath.workprec(256):
        for frequency, value, number in zip(frequencies, values, which, strict=False):
            turn = mpmath.expj(-mpmath.mpf(float(frequency)))
            resolvent = (mpmath.eye(state.size) - turn * exactly(state.closed.loop)) ** -1
            off = mpmath.mnorm(exactly(state.closed.whitener) * resolvent - exactly(value), "f")
            assert off <= found[number].slack


def test_a_loop_is_off_by_what_its_products_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """B = A − (AK)C where one node is heard by all: γ_{k+m+1}|A||K||C|, beside what the weights are off by."""
    n = 60
    W = (np.eye(n) + np.roll(np.eye(n), 1, axis=0)) / 4
    W[:, 1] += 0.5
    protocol = gossip(W, rounds=1)
    system = hidden_system(protocol, observe(protocol, View.single_node(1, own_noise="hidden")))
    monkeypatch.setattr(steady_module, "whitener_error", lambda *_: 0.0)
    state = steady_state(system)
    A, K, C = system.transition.toarray(), state.gain, state.rows
    carried = float(np.linalg.norm(np.abs(A) @ np.abs(K) @ np.abs(C), 2))
    count = int(np.count_nonzero(A, axis=1).max()) + len(C) + 1
    assert state.loop_error >= UNIT_ROUNDOFF * (2 * n**0.5 + count * carried)
