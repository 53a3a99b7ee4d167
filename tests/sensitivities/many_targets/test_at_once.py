# SPDX-License-Identifier: Apache-2.0
"""All targets together: the ends must enclose those that are solved one by one, and the streams must be real."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.laws.test_threshold_laws import FEWER, write_fewer
from tests.pairings import each_pair

from sottovoce import gossip, graphs
from sottovoce.errors import InputError
from sottovoce.filtering import FilteredResponse, hidden_system, whitened_response
from sottovoce.sensitivities import Sensitivities, sensitivity
from sottovoce.sensitivities.many_targets import at_once
from sottovoce.sensitivities.many_targets.at_once import EndsAtOnce, ends_at_once
from sottovoce.sensitivities.many_targets.projection import CloserEnds, closer_ends
from sottovoce.views import View, observe

if TYPE_CHECKING:
    from sottovoce.protocols import Contribution, Protocol

VIEWS = {
    "sum": View.secure_sum(0),
    "own message": View.single_node(0, own_noise="hidden"),
    "messages": View.neighbourhood(1),
    "coalition": View.coalition_sums([0, 5]),
}
GRAPHS = (
    "ring:n=14",
    "erdos-renyi:n=14,p=0.4,seed=1",
    "grid:rows=3,cols=4",
    "star:n=9",
    "path:n=9",
    "complete:n=7",
)


def test_a_closer_bound_that_goes_astray_leaves_the_plainer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    protocol, view = protocol_of("ring:n=24", 257), VIEWS["messages"]
    monkeypatch.setattr(at_once, "settled_bound", lambda _: None)
    monkeypatch.setattr(
        at_once, "peak_bound", lambda _, sources, **__: (np.full(sources.shape[1], np.inf),) * 2
    )
    monkeypatch.setattr(at_once, "_turn", lambda *_: None)
    usual = bulk_of(protocol, view, "vector")

    def astray(*given: Any, **named: Any) -> CloserEnds:
        found = closer_ends(*given, **named)
        return replace(found, bound=np.full_like(found.bound, np.inf))

    monkeypatch.setattr(at_once, "closer_ends", astray)
    found = bulk_of(protocol, view, "vector")
    rough = found.bound > usual.bound
    assert rough.any()
    assert np.isfinite(found.bound).all()
    assert np.median(found.bound[rough] / usual.bound[rough]) < 4


@cache
def solved(graph: str, name: str, rounds: int) -> Sensitivities:
    """The ends of every target, solved one by one."""
    return sensitivity(protocol_of(graph, rounds), VIEWS[name], effort="fine")


@cache
def protocol_of(graph: str, rounds: int) -> Protocol:
    return gossip(graphs.metropolis_weights(graph), rounds=rounds)


@pytest.mark.parametrize(
    ("graph", "name", "rounds", "contribution"), each_pair(GRAPHS, VIEWS, [64, 129], ["vector", "scalar"])
)
def test_the_ends_enclose_those_solved_one_by_one(
    graph: str, name: str, rounds: int, contribution: Contribution
) -> None:
    protocol, fine = protocol_of(graph, rounds), solved(graph, name, rounds)
    bulk = bulk_of(protocol, VIEWS[name], contribution)
    signs = sensitivity(protocol, VIEWS[name], contribution="scalar") if contribution == "scalar" else fine
    assert np.all(bulk.bound * (1 + 1e-9) + 1e-9 >= fine.squared_lower)
    assert np.all(bulk.attained * (1 - 1e-9) - 1e-9 <= signs.squared_upper)


def bulk_of(protocol: Protocol, view: View, contribution: Contribution = "vector") -> EndsAtOnce:
    system = hidden_system(protocol, observe(protocol, view))
    response = whitened_response(system)
    assert isinstance(response, FilteredResponse)
    positions = np.arange(system.unknown.size)
    return ends_at_once(response, positions, system.hops() == 0, contribution=contribution)


@pytest.mark.parametrize(
    ("graph", "name"),
    [
        *itertools.product(
            ["ring:n=9", "erdos-renyi:n=18,p=0.4,seed=4", "star:n=9"], ["sum", "own message", "coalition"]
        ),
        # Its upper ends are those of a start and a rate.
        ("ring:n=16", "own message"),
    ],
)
def test_over_long_horizons_too(graph: str, name: str) -> None:
    protocol = gossip(graphs.metropolis_weights(graph), rounds=2_100)
    bulk = bulk_of(protocol, VIEWS[name])
    targets = [1, 4, 8]
    fine = sensitivity(protocol, VIEWS[name], targets, effort="fine")
    places = [target - sum(1 for known in known_of(name) if known < target) for target in targets]
    assert np.all(bulk.bound[places] * (1 + 1e-6) >= fine.squared_lower)
    assert np.all(bulk.attained[places] * (1 - 1e-6) <= fine.squared_upper)
    if name != "own message":
        assert np.all(bulk.bound[places] <= 1.1 * bulk.attained[places]) or graph.startswith("ring")


def known_of(name: str) -> list[int]:
    return {"sum": [0], "own message": [], "coalition": [0, 5]}[name]


@pytest.mark.parametrize("view", [View.secure_sum(0), View.single_node(0, own_noise="hidden")])
def test_the_interval_of_a_well_mixing_graph_is_narrow(view: View) -> None:
    protocol = gossip(graphs.metropolis_weights("erdos-renyi:n=60,p=0.25,seed=1"), rounds=500)
    found = sensitivity(protocol, view, effort="bulk")
    assert np.all(found.squared_upper <= 1.06 * found.squared_lower)
    heard = np.isin(found.indices, protocol.weights.matrix[[0], :].indices)
    assert (
        np.all(found.squared_upper[heard] <= 1.02 * found.squared_lower[heard]) or view.name == "single-node"
    )


def test_the_lower_end_is_the_value_of_the_witness() -> None:
    protocol = gossip(graphs.metropolis_weights("grid:rows=4,cols=6"), rounds=120)
    view = View.secure_sum(0)
    found = sensitivity(protocol, view, effort="bulk")
    system = hidden_system(protocol, observe(protocol, view))
    response = whitened_response(system, engine="filter")
    for place, label in enumerate(found.targets):
        stream = found[label].witness
        assert np.all(np.linalg.norm(stream.reshape(120, -1), axis=1) <= 1 + 1e-12)
        value = float((response.respond(place, stream) ** 2).sum())
        assert found.squared_lower[place] <= value * (1 + 1e-9)
        assert value == pytest.approx(found.squared_lower[place], rel=1e-3)


def test_the_cost_decides_unless_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    protocol = gossip(graphs.metropolis_weights("ring:n=12"), rounds=100)
    assert not set(sensitivity(protocol, View.secure_sum(0)).method) & {"projection", "lags", "peak"}
    monkeypatch.setattr("sottovoce.sensitivities.policy.MOST_ENTRIES", 1000)
    monkeypatch.setattr("sottovoce.sensitivities.assessment.FEW", 0)
    monkeypatch.setattr("sottovoce.sensitivities.assessment.SOLVED_ENTRIES", 0)
    assert set(sensitivity(protocol, View.secure_sum(0)).method) <= {"projection", "lags", "peak", "cap"}
    assert not set(sensitivity(protocol, View.secure_sum(0), effort="fine").method) & {
        "projection",
        "lags",
        "peak",
    }


def test_participation_and_short_horizons_are_always_solved() -> None:
    weights = graphs.metropolis_weights("ring:n=6")
    few = sensitivity(
        gossip(weights, rounds=80), View.secure_sum(0), participation="at-most:3", effort="bulk"
    )
    short = sensitivity(gossip(weights, rounds=10), View.secure_sum(0), effort="bulk")
    assert not (set(few.method) | set(short.method)) & {"projection", "peak", "lags"}


def test_an_unknown_effort_is_refused() -> None:
    protocol = gossip(graphs.metropolis_weights("ring:n=6"), rounds=3)
    with pytest.raises(InputError, match="effort must be one of auto, fine, bulk"):
        sensitivity(protocol, View.secure_sum(0), effort="lazy")  # type: ignore[arg-type]


def test_progress_reaches_the_end() -> None:
    protocol = gossip(graphs.metropolis_weights("ring:n=20"), rounds=80)
    heard: list[tuple[int, int]] = []
    sensitivity(protocol, View.secure_sum(0), effort="bulk", progress=lambda *step: heard.append(step))
    assert heard[-1] == (19, 19)


def test_a_loop_that_grows_when_frozen_early_gives_no_bound_rather_than_none_at_all() -> None:
    weights = np.array(
        [
            [0.004, 0, 0.771, 0, 0, 0.225],
            [0.002, 0.057, 0.001, 0, 0, 0.94],
            [0, 0.993, 0, 0.007, 0, 0],
            [0.001, 0.003, 0, 0.995, 0.001, 0],
            [0.001, 0.001, 0.02, 0.719, 0.259, 0],
            [0.092, 0.011, 0.004, 0.001, 0.892, 0],
        ]
    )
    view = View(observation=np.array([[4.2, -0.8, 0.8, -3, -0.2, -0.5]]))
    found = sensitivity(gossip(weights, rounds=50_000), view, effort="bulk")
    assert np.isfinite(found.squared_lower).all()
    assert np.all((found.squared_lower <= found.squared_upper) & (found.squared_upper <= 50_000))


def test_a_space_that_is_not_closed_serves_the_longest_horizons() -> None:
    # What the space leaves out in so many rounds, and rounding in it, is proved to be small, not only estimated.
    weights = graphs.metropolis_weights("erdos-renyi:n=400,p=0.05,seed=3")
    horizons = 20_000, 10**6
    shorter, *longer = (
        sensitivity(gossip(weights, rounds=rounds), View.secure_sum(0), effort="bulk") for rounds in horizons
    )
    for rounds, found in zip(horizons[1:], longer, strict=True):
        assert (found.squared_upper <= 1.002 * found.squared_lower).all(), rounds
        # Every round counts the same but for the first few.
        each = found.squared_upper / rounds
        assert each == pytest.approx(shorter.squared_upper / horizons[0], rel=0.01), rounds


def test_a_view_of_nothing_with_known_noise_has_a_lower_end_of_0() -> None:
    view = View(observation=np.zeros((1, 3)), known_noise=[0])
    found = sensitivity(gossip(np.full((3, 3), 1 / 3), rounds=3), view)
    assert found.squared_lower.tolist() == [0, 0]


@pytest.mark.parametrize("contribution", ["vector", "scalar"])
def test_streams_that_turn_attain_what_constant_ones_miss(
    contribution: Contribution, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_fewer(monkeypatch)
    protocol, view = protocol_of("grid:rows=3,cols=4", FEWER + 50), VIEWS["own message"]
    turning = bulk_of(protocol, view, contribution)
    assert (turning.bound <= 1.3 * turning.attained).all()
    found = sensitivity(protocol, view, contribution=contribution, effort="bulk")
    assert (found.squared_upper <= 1.3 * found.squared_lower).all()
    response = whitened_response(hidden_system(protocol, observe(protocol, view)), coarse=True)
    for place in (0, 5, 10):
        shown = response.respond(place, found.witness_of(place))
        assert found.squared_lower[place] <= float((shown**2).sum()) * (1 + 1e-3)
    monkeypatch.setattr(at_once, "_turn", lambda *_: None)
    constant = bulk_of(protocol, view, contribution)
    assert (turning.attained > 7 * constant.attained).any()
