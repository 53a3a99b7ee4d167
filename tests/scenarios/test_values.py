# SPDX-License-Identifier: Apache-2.0
"""`Scenario`: what it writes out, what it refuses, its views one by one, and what it says of itself."""

import pickle
from dataclasses import FrozenInstanceError, replace
from typing import Any

import msgspec
import numpy as np
import pytest

from sottovoce import Participation, Scenario, View, account_all, gossip, graphs
from sottovoce.documents.accounts import protocol_facts
from sottovoce.errors import GraphError, InputError, ViewError
from sottovoce.protocols import Protocol, momentum
from sottovoce.scenarios import CONTRIBUTIONS, RELATIONS
from sottovoce.views import ASSUMPTIONS

RING = gossip(graphs.metropolis_weights("ring:n=5"), rounds=8)


def scenario(**changes: Any) -> Scenario:
    return Scenario(**{"protocol": RING, "view": "secure-sum", **changes})


def test_what_is_spelled_is_written_out() -> None:
    found = scenario(observers=["3", 3, 0], targets=("1",), participation="every:4")
    assert found.observers == (3, 0)
    assert found.targets == (1,)
    assert found.participation == Participation.every(4)
    assert found == scenario(observers=[3, 0], targets=[1], participation=Participation.every(4))
    assert found != scenario(observers=[0, 3], targets=[1], participation="every:4")
    assert len({found, replace(found), replace(found, relation="zero-out")}) == 2


def test_a_view_says_itself_who_observes_and_what_is_known() -> None:
    view = View.coalition_sums([2, 4], own_noise="hidden")
    found = scenario(view=view)
    assert (found.observers, found.own_noise, found.view_name) == ((2, 4), "hidden", "coalition-sums")
    assert found.views == (view,)
    assert found.one_view is view
    assert scenario(view=view, observers=[2, 4], own_noise="hidden") == found
    everyone = scenario(view="everyone", own_noise="hidden", observers=[1])
    assert everyone == scenario(view="everyone")
    assert everyone.one_view is View.everyone


def test_it_is_frozen_and_travels() -> None:
    found = scenario(targets=[1])
    with pytest.raises(FrozenInstanceError):
        found.relation = "zero-out"  # type: ignore[misc]
    there = pickle.loads(pickle.dumps(found))
    assert there.terms() == found.terms()
    assert there.targets == (1,)


@pytest.mark.parametrize(
    ("changes", "error", "sentence"),
    [
        (
            {"protocol": RING.weights},
            InputError,
            r"protocol must be a Protocol, such as gossip\(weights, rounds=100\)",
        ),
        ({"view": 3}, ViewError, r"a view must be a View, such as View.secure_sum\(0\); got 3"),
        (
            {"view": "custom"},
            InputError,
            "view must be one of everyone, neighbourhood, .*coalition-messages; got",
        ),
        ({"observers": "03"}, InputError, r"observers must be a list of node names; got '03' \(write \["),
        ({"observers": []}, InputError, r"observers must name at least one node; got none \(leave it out"),
        ({"observers": [9]}, GraphError, "no node is called 9"),
        ({"own_noise": "maybe"}, InputError, "own_noise must be one of known, hidden; got 'maybe'"),
        ({"targets": 3}, InputError, r"targets must be a list of node names; got 3 \(write \[3\]\)"),
        ({"targets": []}, InputError, r"targets must name at least one node; got none \(leave it out"),
        ({"targets": ["x"]}, GraphError, "no node is called 'x'"),
        ({"contribution": "tensor"}, InputError, "contribution must be one of vector, scalar, energy; got"),
        ({"participation": "often"}, InputError, "participation must be spelled like one of full, .*'often'"),
        (
            {"participation": 5},
            InputError,
            "participation must be a Participation or its spelling, .*; got 5",
        ),
        ({"participation": "fixed:9"}, InputError, "fixed:9 names round 9, but there are 8 rounds"),
        ({"relation": "swap"}, InputError, "relation must be one of add-remove, replace-one, zero-out; got"),
        (
            {"view": View.secure_sum(0), "own_noise": "hidden"},
            InputError,
            r"own_noise must agree with the view; got 'hidden' and View\(.*\) \(say it in the view alone\)",
        ),
        (
            {"view": View.secure_sum(0), "observers": [1]},
            InputError,
            r"observers must agree with the view; got \[1\] and View\(.*\) \(say it in the view alone\)",
        ),
    ],
)
def test_what_does_not_fit_is_refused(changes: Any, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        scenario(**changes)


def test_a_coalition_is_one_view_of_its_members() -> None:
    found = scenario(view="coalition-sums", observers=[1, 3])
    assert [view.observers for view in found.views] == [(1, 3)]
    assert found.each()[0].targets is None
    with pytest.raises(ViewError, match=r"got 'coalition-sums' \(name the coalition, as in account"):
        scenario(view="coalition-sums").views  # noqa: B018 - reading it is the question


def test_one_view_is_asked_for_by_one_observer() -> None:
    assert scenario(observers=[2]).one_view.observers == (2,)
    for several in (scenario(), scenario(observers=[1, 2])):
        with pytest.raises(ViewError, match=r"a view must be a View, .* got 'secure-sum' \(name one"):
            several.one_view  # noqa: B018 - reading it is the question


def test_observers_in_turn_skip_targets_whose_noise_they_know() -> None:
    asked = scenario(targets=[1, 2], observers=[1, 4], relation="replace-one")
    found = [(one.one_view.observers, one.targets, one.relation) for one in asked.each()]
    assert found == [((1,), (2,), "replace-one"), ((4,), (1, 2), "replace-one")]
    hidden = replace(asked, own_noise="hidden")
    assert [one.targets for one in hidden.each()] == [(1, 2), (1, 2)]
    assert [one.pairs for one in scenario().each()] == [4] * 5
    assert [one.pairs for one in scenario(own_noise="hidden").each()] == [5] * 5
    with pytest.raises(InputError, match="no target remains: the only observer is node 1 itself"):
        scenario(targets=[1], observers=[1]).each()


@pytest.mark.parametrize(
    "view",
    [
        View.everyone,
        View.secure_sum("2"),
        View.coalition_messages([0, 3], own_noise="hidden"),
        View.coalition_sums([0, 3]),
        View(observation=np.eye(5), known_noise=[1]),
    ],
    ids=str,
)
def test_indices_and_pairs_are_those_of_the_view(view: View) -> None:
    asked = scenario(view=view)
    assert asked.pairs == len(asked.target_indices)
    (one,) = asked.each()
    assert one.view is view


def test_targets_are_found_in_index_order() -> None:
    asked = scenario(view=View.secure_sum(0), targets=[4, 1])
    assert asked.target_indices.tolist() == [1, 4]
    with pytest.raises(InputError, match=r"node 0 cannot be a target of .*the observer knows its noise"):
        scenario(view=View.secure_sum(0), targets=[0]).target_indices  # noqa: B018
    assert replace(asked, targets=(3,)).one_target == 3
    for several, got in ((asked, r"\[4, 1\]"), (replace(asked, targets=None), "all")):
        with pytest.raises(InputError, match=f"targets must name one node here; got {got}"):
            several.one_target  # noqa: B018 - reading it is the question


def protocols() -> list[Protocol]:
    weights = RING.weights
    return [
        RING,
        gossip(weights, rounds=3, damping=0.5),
        momentum(weights, rounds=4, beta=0.5),
        gossip(weights, rounds=4, updates=(0.5, 1)),
        gossip(weights, rounds=4, updates="any"),
    ]


@pytest.mark.parametrize("protocol", protocols(), ids=lambda protocol: protocol.sentence)
def test_terms_say_what_every_output_states(protocol: Protocol) -> None:
    asked = Scenario(
        protocol=protocol, view="neighbourhood", participation="at-most:2", relation="replace-one"
    )
    terms = asked.terms()
    assert list(terms)[:6] == ["relation", "view", "own_noise", "contribution", "participation", "assumption"]
    assert (terms["observers"], terms["targets"]) == (None, None)
    assert {**terms, **msgspec.to_builtins(protocol_facts(protocol))} == terms
    assert terms["participation"] == "at-most:2"
    words = asked.sentences()
    assert words["view"] == "neighbourhood, own noise known"
    assert words["relation"].startswith("replace-one: a record is replaced by another")
    assert words["participation"] == "at-most:2: a target contributes in at most 2 rounds"
    assert words["assumption"] == f"{terms['assumption']}: {ASSUMPTIONS[terms['assumption']]}"
    assert words["hash"] == protocol.weights.hash
    if not protocol.plain:
        assert words["protocol"] == f"{protocol.name}: {protocol.sentence}"
        assert words["protocol hash"] == terms["protocol_hash"] == protocol.hash
    assert ("damping" in words) == ("damping" in terms)
    assert ("updates" in words) == ("updates" in terms)


def test_what_training_does_not_allow_for_is_refused() -> None:
    asked = scenario(protocol=gossip(RING.weights, rounds=2, updates=(0, 0.5)), relation="zero-out")
    with pytest.raises(InputError, match="zero-out lets a node go on without its data"):
        asked.check_relation()
    with pytest.raises(InputError, match="zero-out lets a node go on without its data"):
        account_all(asked, noise_multiplier=1.0, delta=1e-5)


def test_vocabularies_have_sentences() -> None:
    from sottovoce.scenarios import RELATION_SENTENCES

    assert list(RELATION_SENTENCES) == list(RELATIONS)
    assert CONTRIBUTIONS == ("vector", "scalar", "energy")
