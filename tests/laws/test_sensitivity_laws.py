# SPDX-License-Identifier: Apache-2.0
"""What holds for the sensitivity of every protocol and view, against the definition in whole numbers."""

from __future__ import annotations

import functools
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.profiles import examples
from tests.reference import (
    Scene,
    definition,
    dyadic_weights,
    exact_weights,
    relabelled,
    scenes,
    seen_and_known,
    semidefinite_maximum,
    views,
)
from tests.scenes import CHOICES, ENGINES, EVERY_ENGINE, HEARD

from sottovoce.graphs import GossipWeights, metropolis_weights, uniform_weights
from sottovoce.interval import Interval
from sottovoce.participation import Participation
from sottovoce.protocols import Protocol, gossip
from sottovoce.sensitivities import sensitivity
from sottovoce.views import View


@functools.lru_cache(maxsize=16)
def protocol_of(weights: GossipWeights, rounds: int) -> Protocol:
    """The protocol that all questions of an example are about, with what it has worked out of itself."""
    return gossip(weights, rounds=rounds)


def measured(scene: Scene, **options: Any) -> Interval:
    protocol = protocol_of(scene.weights, scene.rounds)
    found = sensitivity(protocol, scene.view, [scene.target], **options)
    return Interval(float(found.squared_lower[0]), float(found.squared_upper[0]))


@given(scenes(most_rounds=7), st.sampled_from(ENGINES))
def test_the_exact_maximum_over_signs_lies_in_the_interval(scene: Scene, engine: str) -> None:
    exact = scene.form.scalar_maximum()
    found = measured(scene, contribution="scalar", engine=engine)
    # In rationals, without a tolerance.
    assert Fraction(found.lower) <= exact <= Fraction(found.upper)


@given(scenes(most_rounds=7), st.sampled_from(ENGINES))
def test_vectors_are_bounded_by_no_less_than_signs_attain(scene: Scene, engine: str) -> None:
    exact = scene.form.scalar_maximum()
    assert exact <= Fraction(measured(scene, engine=engine).upper)


@examples(12)
@given(scenes(most_rounds=6))
def test_the_semidefinite_maximum_lies_in_the_vector_interval(scene: Scene) -> None:
    form = scene.form.floats
    assume(np.abs(form).max() > 1e-3)
    value = semidefinite_maximum(form)
    found = measured(scene)
    assert found.lower <= value * (1 + 1e-6)
    assert value <= found.upper * (1 + 1e-6)


@pytest.mark.parametrize("graph", ["path:n=4", "star:n=5", "ring:n=5", "complete:n=4", "grid:rows=2,cols=3"])
@pytest.mark.parametrize("rule", [metropolis_weights, uniform_weights])
def test_weights_of_a_rule_are_measured_as_the_fractions_they_stand_for(graph: str, rule: Any) -> None:
    weights: GossipWeights = rule(graph)
    last = weights.n - 1
    for view in HEARD:
        scene = Scene(weights, view, last, 6)
        exact = scene.form.scalar_maximum()
        found = measured(scene, contribution="scalar")
        assert Fraction(found.lower) <= exact <= Fraction(found.upper)
        assert found.upper <= float(exact) * (1 + 1e-8) + 1e-12


@given(scenes(most_rounds=6), st.randoms(use_true_random=False))
def test_relabelling_nodes_permutes_the_answer(scene: Scene, random: Any) -> None:
    n = scene.weights.n
    order = list(range(n))
    random.shuffle(order)
    position = {old: new for new, old in enumerate(order)}
    view = scene.view
    if view.name == "custom":
        moved = View(
            observation=np.asarray(view.observation)[:, order],
            known_noise=[position[int(str(k))] for k in view.known_noise],
        )
    else:
        moved = replace(view, observers=tuple(position[int(str(k))] for k in view.observers))
    other = Scene(relabelled(scene.weights, np.array(order)), moved, position[scene.target], scene.rounds)
    a, b = measured(scene), measured(other)
    assert a.lower <= b.upper
    assert b.lower <= a.upper
    assert a.upper == pytest.approx(b.upper, rel=1e-3, abs=1e-12)


def is_completed(weights: GossipWeights, view: View) -> bool:
    """Whether the view leaves the inflow of a node it knows open, so that its interval has two sides."""
    from sottovoce.filtering import hidden_system
    from sottovoce.views import observe

    protocol = protocol_of(weights, 2)
    return hidden_system(protocol, observe(protocol, view)).over_informed


def never_lowers(less: Scene, more: Scene) -> None:
    """Seeing more does not lower Δ²: exactly for signs, and for what is reported of either contribution."""
    assert less.form.scalar_maximum() <= more.form.scalar_maximum()
    for contribution in ("scalar", "vector"):
        a, b = measured(less, contribution=contribution), measured(more, contribution=contribution)
        assert a.lower <= b.upper
        close = a.upper <= b.upper * (1 + 1.1e-3) + 1e-12
        assert close or any(is_completed(scene.weights, scene.view) for scene in (less, more))


@given(st.data())
def test_extra_rows_never_lower_the_sensitivity(data: Any) -> None:
    scene = data.draw(scenes(most_rounds=5))
    n = scene.weights.n
    rows, known = seen_and_known(scene.view, exact_weights(scene.weights))
    extra = data.draw(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=n, max_size=n))
    shown = [[float(x) for x in row] for row in rows]
    less = View(observation=shown, known_noise=known)
    more = View(observation=[*shown, extra], known_noise=known)
    never_lowers(replace(scene, view=less), replace(scene, view=more))


@given(st.data())
def test_knowing_more_noise_never_lowers_the_sensitivity(data: Any) -> None:
    scene = data.draw(scenes(most_rounds=5))
    rows, known = seen_and_known(scene.view, exact_weights(scene.weights))
    others = [k for k in range(scene.weights.n) if k not in known and k != scene.target]
    assume(others)
    shown = [[float(x) for x in row] for row in rows]
    less = View(observation=shown, known_noise=known)
    more = View(observation=shown, known_noise=[*known, data.draw(st.sampled_from(others))])
    never_lowers(replace(scene, view=less), replace(scene, view=more))


@given(st.data(), st.sampled_from([View.coalition_sums, View.coalition_messages]))
def test_a_bigger_coalition_never_lowers_the_sensitivity(data: Any, kind: Any) -> None:
    weights = data.draw(dyadic_weights())
    assume(weights.n >= 3)
    members = data.draw(st.permutations(range(weights.n)))
    size = data.draw(st.integers(1, weights.n - 2))
    less = Scene(weights, kind(members[:size]), members[-1], data.draw(st.integers(1, 5)))
    never_lowers(less, replace(less, view=kind(members[: size + 1])))


@given(scenes(most_rounds=5))
def test_more_rounds_never_lower_the_sensitivity(scene: Scene) -> None:
    never_lowers(scene, replace(scene, rounds=scene.rounds + 1))


@given(st.data(), st.sampled_from(["single-node", "secure-sum", "neighbourhood"]))
def test_hiding_ones_own_noise_never_raises_the_sensitivity(data: Any, name: str) -> None:
    weights = data.draw(dyadic_weights())
    view = View(name=name, observers=(0,))
    less = Scene(weights, replace(view, own_noise="hidden"), weights.n - 1, data.draw(st.integers(1, 5)))
    never_lowers(less, replace(less, view=view))


@given(scenes(most_rounds=7))
def test_no_sensitivity_exceeds_the_number_of_rounds(scene: Scene) -> None:
    assert measured(scene).upper <= scene.rounds
    assert scene.form.scalar_maximum() <= scene.rounds


@given(scenes(most_rounds=7), st.sampled_from(["scalar", "vector"]))
def test_engines_agree_within_what_they_report(scene: Scene, contribution: str) -> None:
    found = [measured(scene, engine=engine, contribution=contribution) for engine in CHOICES]
    for a in found:
        for b in found:
            assert a.lower <= b.upper
            # Only a filter over all nodes does without giving the observer what flows into the nodes that it knows.
            alike = a.upper == pytest.approx(b.upper, rel=1e-3, abs=1e-10)
            assert alike or is_completed(scene.weights, scene.view)


@EVERY_ENGINE
@pytest.mark.parametrize(
    ("graph", "observer", "alike"),
    [
        ("ring:n=9", 0, [(1, 8), (2, 7), (4, 5)]),
        ("complete:n=7", 2, [(0, 6), (1, 4)]),
        ("star:n=8", 0, [(1, 7), (3, 5)]),
        ("star:n=8", 3, [(1, 7), (2, 5)]),
        ("torus:rows=4,cols=4", 0, [(1, 4), (3, 12), (1, 3), (5, 15)]),
    ],
)
def test_symmetric_nodes_get_the_same_number(
    graph: str, observer: int, alike: list[tuple[int, int]], engine: Any
) -> None:
    protocol = gossip(metropolis_weights(graph), rounds=12)
    for view in (
        View.secure_sum(observer),
        View.single_node(observer, own_noise="hidden"),
        View.neighbourhood(observer),
        View.neighbourhood(observer, own_noise="hidden"),
    ):
        for contribution in ("scalar", "vector"):
            found = sensitivity(protocol, view, engine=engine, contribution=contribution)
            upper = dict(zip(found.targets.tolist(), found.squared_upper, strict=True))
            for a, b in alike:
                assert upper[a] == pytest.approx(upper[b], rel=1e-9)


@EVERY_ENGINE
def test_targets_too_far_away_are_exactly_unseen(engine: Any) -> None:
    protocol = gossip(metropolis_weights("path:n=12"), rounds=4)
    own = sensitivity(protocol, View.single_node(0, own_noise="hidden"), engine=engine)
    # A contribution made h hops away is in the observer's message h rounds later.
    assert (own.squared_upper[:4] > 0).all()
    assert (own.squared_lower[:4] > 0).all()
    for label in range(4, 12):
        assert own[label].squared == Interval(0.0, 0.0)
    total = sensitivity(protocol, View.secure_sum(0), engine=engine)
    assert (total.squared_lower[:4] > 0).all()
    assert total[5].squared == Interval(0.0, 0.0)


@given(scenes(most_rounds=4))
def test_what_is_called_unseen_is_0_by_definition(scene: Scene) -> None:
    found = measured(scene)
    exact = scene.form.scalar_maximum()
    if found.upper == 0:
        assert exact == 0
    if exact == 0:
        assert found.lower == 0
        assert found.upper < 1e-15 or is_completed(scene.weights, scene.view)


@given(
    scenes(most_rounds=7),
    st.sampled_from(
        [
            "every:2",
            "every:3,offset=1",
            "at-most:2",
            "at-most:3",
            "separated:2",
            "separated:3,at-most=2",
            "epochs:2",
        ]
    ),
)
def test_the_worst_pattern_of_participation_lies_in_the_interval(scene: Scene, spelled: str) -> None:
    family = Participation.parse(spelled)
    form = scene.form
    exact = max(form.within(pattern).scalar_maximum() for pattern in family.patterns(scene.rounds))
    found = measured(scene, contribution="scalar", participation=spelled)
    assert Fraction(found.lower) <= exact <= Fraction(found.upper)
    assert exact <= Fraction(measured(scene, participation=spelled).upper)
    assert found.upper <= family.largest_count(scene.rounds)


@given(st.data())
def test_a_view_and_its_rows_mixed_together_are_the_same_view(data: Any) -> None:
    weights = data.draw(dyadic_weights())
    view = data.draw(views(weights.n))
    rows, known = seen_and_known(view, exact_weights(weights))
    target = next(k for k in range(weights.n) if k not in known)
    shown = np.array([[float(x) for x in row] for row in rows])
    size = len(shown)
    mixing = np.tril(np.ones((size, size))) + np.diag(np.arange(1.0, size + 1))
    mixed = View(observation=mixing @ shown, known_noise=known)
    a = definition(weights, view, target, 4).scalar_maximum()
    b = definition(weights, mixed, target, 4).scalar_maximum()
    assert a == b
    found = measured(Scene(weights, mixed, target, 4), contribution="scalar")
    assert Fraction(found.lower) <= a <= Fraction(found.upper)
