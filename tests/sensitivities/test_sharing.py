# SPDX-License-Identifier: Apache-2.0
"""Observers that share an answer, against each looked at alone and against rationals."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.interpreter import exact_view, largest_over_signs
from tests.pairings import each_pair
from tests.profiles import examples
from tests.reference import dyadic_weights, exact_value
from tests.scenes import EVERY_PROTOCOL, PROTOCOLS

from sottovoce import graphs
from sottovoce.accounting import account_all, verbs
from sottovoce.graphs import symmetries
from sottovoce.protocols import Protocol, Slopes, gossip
from sottovoce.scenarios import Effort, Scenario
from sottovoce.sensitivities import (
    Sensitivities,
    SharedQuestions,
    carried_views,
    policy,
    sensitivity,
    sharing,
    sharpened_views,
)
from sottovoce.views import ONE_OBSERVER, OwnNoise, View

EVERY_NAME = pytest.mark.parametrize("name", ONE_OBSERVER)


def shared(scenario: Scenario, effort: Effort | None = None) -> list[Sensitivities]:
    assert scenario.takes_turns
    return list(carried_views(scenario.each(), effort or Effort(), lambda _: None))


def agree(found: list[Sensitivities], questions: list[Scenario]) -> None:
    """The same pairs in the same order, and intervals that have numbers in common."""
    assert len(found) == len(questions)
    for one, question in zip(found, questions, strict=True):
        alone = sensitivity(question)
        assert one.view.observers == question.one_view.observers
        assert np.array_equal(one.indices, alone.indices)
        assert (one.squared_lower <= alone.squared_upper).all()
        assert (alone.squared_lower <= one.squared_upper).all()


@EVERY_NAME
@EVERY_PROTOCOL
def test_every_program_is_shared_as_it_is_seen(protocol: Protocol, name: str) -> None:
    # Every two of protocols, views and what is known meet.
    turn = PROTOCOLS.index(protocol) + ONE_OBSERVER.index(name)
    own_noise: OwnNoise = "known" if turn % 2 else "hidden"
    scenario = Scenario(protocol=protocol, view=name, own_noise=own_noise, contribution="scalar")
    for one in shared(scenario)[-2:]:
        for place, target in enumerate(one.indices.tolist()[:1]):
            M = exact_view(protocol, one.view, target).form()
            ends = float(one.squared_lower[place]), float(one.squared_upper[place])
            if M is None:
                assert ends == (np.inf, np.inf)
                continue
            exact = largest_over_signs(M)
            assert Fraction(ends[0]) <= exact
            assert np.isinf(ends[1]) or exact <= Fraction(ends[1])


@examples(25)
@given(dyadic_weights(), st.sampled_from(ONE_OBSERVER), st.integers(1, 6), st.data())
def test_any_network_is_shared_as_it_is_seen(weights: Any, name: str, rounds: int, data: Any) -> None:
    targets = data.draw(st.none() | st.lists(st.sampled_from(range(weights.n)), min_size=1, unique=True))
    own: OwnNoise = data.draw(st.sampled_from(["known", "hidden"]))
    protocol = gossip(weights, rounds=rounds)
    scenario = Scenario(protocol=protocol, view=name, own_noise=own, targets=targets)
    agree(shared(scenario), scenario.each())


@EVERY_NAME
@pytest.mark.parametrize("source", ["ring:n=7", "star:n=6", "path:n=5", "complete:n=5"])
def test_a_carried_stream_attains_its_lower_end(source: str, name: str) -> None:
    protocol = gossip(graphs.metropolis_weights(source), rounds=5)
    for one in shared(Scenario(protocol=protocol, view=name, contribution="scalar"))[-2:]:
        for place, target in enumerate(one.indices.tolist()):
            stream = one.witness_of(place)
            attained = exact_value(protocol.schedule[0], one.view, target, stream)
            assert attained >= Fraction(float(one.squared_lower[place]))


def test_one_observer_of_a_ring_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Scenario] = []

    def counted(question: Scenario, **options: Any) -> Sensitivities:
        asked.append(question)
        return sensitivity(question, **options)

    monkeypatch.setattr(sharing, "sensitivity", counted)
    ring = gossip(graphs.metropolis_weights("ring:n=12"), rounds=6)
    heard: list[tuple[int, int]] = []
    settings: Any = {"noise_multiplier": 1.0, "delta": 1e-5}
    table = account_all(ring, "secure-sum", progress=lambda *count: heard.append(count), **settings)
    assert [one.one_view.observers for one in asked] == [(0,)]
    assert heard[-1] == (132, 132)
    assert [done for done, _ in heard] == sorted(done for done, _ in heard)
    assert len(table) == 132
    # What one target loses to all observers is what all targets lose to one.
    (few,) = asked[:1]
    one_target = account_all(ring, "secure-sum", targets=[5], **settings)
    assert len(asked) == 2
    assert np.allclose(np.sort(one_target.squared_upper), np.sort(sensitivity(few).squared_upper))
    # Some observers of one orbit: the first of them is looked at.
    account_all(ring, "secure-sum", observers=[7, 3, 9], **settings)
    assert asked[-1].one_view.observers == (7,)
    # Damping or noise of its own makes a node differ from others.
    del asked[:]
    damped = gossip(graphs.metropolis_weights("ring:n=12"), rounds=6, damping=[0.5] + [1.0] * 11)
    account_all(damped, "secure-sum", **settings)
    assert len(asked) == 7
    del asked[:]
    louder = gossip(graphs.metropolis_weights("ring:n=12"), rounds=6, noise_levels=(2, *[1] * 11))
    account_all(louder, "secure-sum", **settings)
    assert len(asked) == 7


SLOPES: list[Any] = [(0.5, 1), ([0, 0.5, 0, 0.5, 0], 1), ([0, *[0.5] * 4], [0.9, *[1] * 4]), "any"]


@pytest.mark.parametrize(
    ("source", "updates"), each_pair(["ring:n=5", "star:n=5", "path:n=5"], SLOPES), ids=str
)
def test_training_is_shared_as_it_is_seen(source: str, updates: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Scenario] = []

    def counted(questions: Any, effort: Effort) -> Any:
        asked.extend(questions)
        return sharpened_views(questions, effort)

    monkeypatch.setattr(verbs, "sharpened_views", counted)
    protocol = gossip(graphs.metropolis_weights(source), rounds=4, updates=updates)
    table = account_all(protocol, "secure-sum", noise_multiplier=1.0, delta=1e-5)
    W, ends = protocol.weights.matrix.toarray(), () if updates == "any" else ends_of(protocol)
    every = np.array(list(itertools.permutations(range(5))))
    kept = every[(W[every[:, :, None], every[:, None, :]] == W).all(axis=(1, 2))]
    for end in ends:
        kept = kept[(end[kept] == end).all(axis=1)]
    shared = {frozenset(int(images[node]) for images in kept) for node in range(5)}
    assert len(asked) == len(shared)
    for observer in (2, 4):
        alone = sensitivity(protocol, View.secure_sum(observer), effort="bulk")
        for place, target in enumerate(alone.targets):
            found = table.pair(observer, target).sensitivity_squared
            assert found is not None
            assert found.lower <= alone.squared_upper[place]
            assert alone.squared_lower[place] <= found.upper * (1 + 1e-12)


@pytest.mark.parametrize("kind", ["slope", "level"])
def test_nodes_that_differ_by_one_unit_share_nothing(kind: str) -> None:
    """A slope or a level that is larger in its last place makes a node another node, and its neighbours too."""
    ring = graphs.metropolis_weights("ring:n=6")
    upper, levels = [1.0] * 6, [Fraction(1)] * 6
    if kind == "slope":
        upper[2] = float(np.nextafter(1.0, 2.0))
    else:
        levels[2] += Fraction(1, 10**30)
    protocol = gossip(ring, rounds=4, updates=(0.5, upper), noise_levels=tuple(levels))
    shared = SharedQuestions(Scenario(protocol=protocol, view="secure-sum").each())
    # Node 2 is alone, 1 and 3 are alike, so are 0 and 4, and 5 is alone: each looked at as it comes first.
    assert shared.source == [0, 1, 2, 1, 0, 3]


def ends_of(protocol: Protocol) -> tuple[np.ndarray, np.ndarray]:
    assert isinstance(protocol.updates, Slopes)
    return protocol.updates.lower, protocol.updates.upper


def test_many_targets_in_place_of_few_are_not_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = gossip(graphs.metropolis_weights("ring:n=10"), rounds=70)
    scenario = Scenario(protocol=ring, view="secure-sum", targets=[4])
    monkeypatch.setattr(policy, "MOST_ENTRIES", 3 * 70**2)
    assert {str(one.method[0]) for one in shared(scenario)} <= {"abs", "dual", "cap"}
    agree(shared(scenario), scenario.each())


def test_a_target_that_was_not_looked_at_is_not_made_up() -> None:
    ring = gossip(graphs.metropolis_weights("ring:n=5"), rounds=3)
    (one,) = Scenario(protocol=ring, view="secure-sum", observers=[0], targets=[1, 2]).each()
    found = sensitivity(one)
    with pytest.raises(AssertionError, match="no image of one"):
        sharing.carried(found, one, None, np.array([1, 3]))


def test_a_search_that_gives_up_costs_time_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symmetries, "MOST_NODES", 2)
    scenario = Scenario(
        protocol=gossip(graphs.metropolis_weights("ring:n=5"), rounds=4), view="neighbourhood"
    )
    for one, question in zip(shared(scenario), scenario.each(), strict=True):
        assert np.array_equal(one.squared_upper, sensitivity(question).squared_upper)
