# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from functools import cache
from typing import Literal

import numpy as np
import pytest
from tests.laws.test_threshold_laws import FEWER, write_fewer

from sottovoce.filtering import FilteredResponse, hidden_system, whitened_response
from sottovoce.graphs import metropolis_weights, uniform_weights
from sottovoce.protocols import gossip
from sottovoce.sensitivities import sensitivity
from sottovoce.sensitivities.long_horizons import start_and_rate
from sottovoce.sensitivities.long_horizons.bounded_real import settled_value
from sottovoce.sensitivities.long_horizons.model import dense_transition, model_of, peak_of
from sottovoce.sensitivities.long_horizons.start_and_rate import (
    FREEZE,
    HorizonSolution,
    short_profiles,
    solve_horizon,
)
from sottovoce.sensitivities.one_form.dual import is_dominated
from sottovoce.views import View, observe

GRAPHS = {
    "ring": metropolis_weights("ring:n=14"),
    "erdos-renyi": metropolis_weights("erdos-renyi:n=14,p=0.35,seed=3"),
    "karate": metropolis_weights("karate"),
    "star": metropolis_weights("star:n=10"),
    "star uniform": uniform_weights("star:n=10"),
}
VIEWS = {
    "own message": View.single_node(0, own_noise="hidden"),
    "own message known": View.single_node(0),
    "sum": View.secure_sum(0),
    "messages": View.neighbourhood(0),
    "coalition": View.coalition_sums([0, 3]),
}
PAIRS = pytest.mark.parametrize(
    ("graph", "view"),
    [(g, v) for g in GRAPHS for v in VIEWS if g != "karate" or v in {"own message", "sum"}],
)
Contribution = Literal["vector", "scalar"]
CONTRIBUTIONS: tuple[Contribution, ...] = ("vector", "scalar")


@cache
def response_of(graph: str, view: str, rounds: int, target: int) -> tuple[FilteredResponse, int]:
    protocol = gossip(GRAPHS[graph], rounds=rounds)
    system = hidden_system(protocol, observe(protocol, VIEWS[view]))
    response = whitened_response(system)
    assert isinstance(response, FilteredResponse)
    return response, int(np.searchsorted(system.unknown, target))


@cache
def solved(
    response: FilteredResponse, position: int, contribution: Contribution = "vector"
) -> HorizonSolution:
    solution = solve_horizon(response, position, contribution=contribution)
    assert solution is not None
    return solution


@PAIRS
def test_the_ends_hold_what_the_explicit_form_says(graph: str, view: str) -> None:
    near = (list(GRAPHS).index(graph) + list(VIEWS).index(view)) % 2
    for rounds, target in ((30, 1 if near else 9), (150, 9 if near else 1)):
        solution = solved(*response_of(graph, view, rounds, target), "vector")
        explicit = sensitivity(gossip(GRAPHS[graph], rounds=rounds), VIEWS[view], [target])
        assert solution.attained <= explicit.squared_upper[0], (rounds, target)
        assert explicit.squared_lower[0] <= solution.bound * (1 + 1e-9), (rounds, target)


@PAIRS
def test_the_profile_dominates_the_explicit_form(graph: str, view: str) -> None:
    # The whole y, start and rate, is a dual solution of the T × T form that it was found without.
    response, position = response_of(graph, view, 150, 1)
    solution = solved(response, position, "vector")
    y = np.concatenate([solution.start, np.full(150 - len(solution.start), solution.rate)])
    (forms,) = response.forms(np.array([position]))
    assert is_dominated(forms.matrices[0], y + 1e-10)
    assert math.fsum(y) <= math.nextafter(solution.bound, math.inf)


@PAIRS
@pytest.mark.parametrize("contribution", CONTRIBUTIONS)
def test_the_stream_attains_the_lower_end(graph: str, view: str, contribution: Contribution) -> None:
    response, position = response_of(graph, view, 150, 1)
    solution = solved(response, position, contribution)
    stream = solution.stream(150)
    assert stream.shape == ((150,) if contribution == "scalar" else (150, 2))
    assert np.allclose(np.linalg.norm(stream.reshape(150, -1), axis=1), 1.0)
    value = float(np.linalg.norm(response.respond(position, stream)) ** 2)
    assert solution.attained <= value * (1 + 1e-12)
    # What is left out is round T and, for signs, the part of a period at the end.
    assert value <= solution.attained * (1 + 1e-5) + 25


@PAIRS
def test_signs_lie_below_vectors(graph: str, view: str) -> None:
    response, position = response_of(graph, view, 150, 1)
    vectors, signs = (solved(response, position, contribution) for contribution in CONTRIBUTIONS)
    assert signs.attained <= vectors.bound
    assert signs.bound == vectors.bound
    assert signs.signs is not None
    assert np.isin(signs.signs, (-1.0, 1.0)).all()


def test_twenty_thousand_rounds_on_a_ring_of_sixty() -> None:
    rounds = 20_000
    protocol = gossip(metropolis_weights("ring:n=60"), rounds=rounds)
    found = sensitivity(protocol, VIEWS["own message"], [1])
    lower, upper = float(found.squared_lower[0]), float(found.squared_upper[0])
    assert upper <= 0.1718 * rounds
    assert upper / lower - 1 <= 1e-3
    assert lower >= 0.1715 * rounds
    assert found.method.tolist() == ["horizon"]


def test_the_bound_grows_by_the_rate_and_no_faster() -> None:
    shorter, longer = (solved(*response_of("ring", "sum", rounds, 1)) for rounds in (3_000, 30_000))
    assert longer.bound - shorter.bound == pytest.approx(27_000 * longer.rate, rel=1e-4)


def test_the_rate_is_not_below_the_response_at_any_frequency() -> None:
    response, position = response_of("ring", "own message", 5_000, 1)
    solution = solved(response, position)
    A = dense_transition(response)
    closed = A - (A @ response.gains.gain[-1]) @ response.rows
    b = response.source(position)
    for angle in np.linspace(0, np.pi, 200):
        state = np.linalg.solve(np.eye(len(A)) - np.exp(-1j * angle) * closed, b)
        assert np.linalg.norm(response.gains.whitener[-1] @ state) ** 2 <= solution.rate


def test_a_start_that_is_too_low_is_lifted_or_given_up() -> None:
    response, position = response_of("ring", "sum", 3_000, 1)
    model = model_of(response, position, FREEZE)
    _, peak = peak_of(model)
    value = settled_value(model, 1.001 * peak)
    assert value is not None
    start = start_and_rate._proved_start(model, value, np.full(30, peak), 1e-3 * peak)
    assert start is not None
    assert start.min() > peak
    assert start_and_rate._proved_start(model, value, np.full(30, 0.5 * peak), 1e-6 * peak) is None


@pytest.mark.parametrize("early", [0, 1, 2, 15, 29])
def test_every_round_of_the_start_is_judged(early: int) -> None:
    response, position = response_of("ring", "sum", 3_000, 1)
    model = model_of(response, position, FREEZE)
    _, peak = peak_of(model)
    value = settled_value(model, 1.001 * peak)
    assert value is not None
    profile = np.full(30, 2.0)
    assert start_and_rate._proved_start(model, value, profile, 1e-6) is not None
    profile[early] = 0.01
    assert start_and_rate._proved_start(model, value, profile, 1e-6) is None


def test_explicit_and_long_horizons_join_without_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    # So many rounds are solved with the form written out, one more without.
    write_fewer(monkeypatch)
    weights, view = metropolis_weights("ring:n=5"), VIEWS["sum"]
    written = sensitivity(gossip(weights, rounds=FEWER), view, [1], tolerance=1e-3)
    beyond = sensitivity(gossip(weights, rounds=FEWER + 1), view, [1])
    assert beyond.squared_upper[0] >= written.squared_lower[0]
    assert beyond.squared_upper[0] <= (written.squared_upper[0] + 1) * (1 + 2e-3)
    assert beyond.squared_lower[0] >= written.squared_lower[0] * (1 - 2e-3)


def test_a_network_that_hardly_mixes_needs_little_room_for_rounding() -> None:
    # Nodes 2 and 3 hear of the rest through weights of 1e-5: states stay for 10⁵ rounds, and room adds up in them.
    weak = 1e-5
    weights = np.zeros((4, 4))
    for (i, j), weight in {(0, 1): 0.3, (1, 2): 0.3, (0, 2): weak, (2, 3): weak}.items():
        weights[i, j] = weights[j, i] = weight
    weights += np.diag(1 - weights.sum(axis=1))
    protocol = gossip(weights, rounds=20_000)
    system = hidden_system(protocol, observe(protocol, View.secure_sum(0)))
    response = whitened_response(system)
    assert isinstance(response, FilteredResponse)
    solution = solved(response, int(np.searchsorted(system.unknown, 2)))
    assert solution.attained <= solution.bound <= 1.001 * solution.attained


def test_targets_that_are_solved_together_begin_as_they_would_alone() -> None:
    response, _ = response_of("erdos-renyi", "sum", 2100, 1)
    positions = np.array([0, 5, 12])
    together = list(short_profiles(response, positions))
    assert len(together) == 3
    for position, profile in zip(positions, together, strict=True):
        (alone,) = short_profiles(response, np.array([position]))
        assert profile == pytest.approx(alone, rel=1e-6, abs=1e-9)
        given = solve_horizon(response, int(position), profile=profile)
        found = solve_horizon(response, int(position))
        assert given is not None
        assert found is not None
        assert given.bound == pytest.approx(found.bound, rel=1e-6)
