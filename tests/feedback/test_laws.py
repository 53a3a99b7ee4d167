# SPDX-License-Identifier: Apache-2.0
"""Laws of the bound for training: it covers every exact loop in the ball and moves the right way."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sottovoce import View, account, gossip, graphs, rate, sensitivity
from sottovoce.errors import InputError, ViewError
from sottovoce.feedback import training_pairs, training_sensitivity
from sottovoce.graphs import matrix_weights
from sottovoce.protocols import checked_updates, momentum

SUM = View.secure_sum(0)
GRAPH = "random-regular:n=9,d=4,seed=5"


def upper(view: View = SUM, target: Any = 3, weights: Any = None, **options: Any) -> float:
    chosen: dict[str, Any] = {"rounds": 5, "updates": (0.5, 1)} | options
    weights = graphs.metropolis_weights(GRAPH) if weights is None else weights
    return training_sensitivity(weights, view, target, **chosen).squared.upper


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("graph", ["star:n=4", "ring:n=6", GRAPH])
def test_every_exact_closed_loop_in_the_ball_is_below(graph: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = graphs.metropolis_weights(graph)
    lower, higher = np.sort(rng.uniform(-0.5, 1, (2, weights.n)), axis=0)
    view = View.secure_sum(0)
    bound = upper(view, 1, weights, updates=(lower, higher), rounds=7)
    for _ in range(4):
        damping = np.where(rng.random(weights.n) < 0.5, lower, higher)
        damping = np.where(rng.random(weights.n) < 0.3, rng.uniform(lower, higher), damping)
        exact = sensitivity(gossip(weights, rounds=7, damping=damping), view, targets=[1])
        assert exact.squared_lower[0] <= bound


def test_averaging_is_below_the_ball_that_holds_nothing_else() -> None:
    """With slopes of exactly 1 the maps are moves; contributions may still react to what is hidden."""
    weights = graphs.metropolis_weights("ring:n=8")
    supremum = rate(gossip(weights, rounds=100), View.secure_sum(0), targets=[1])[1].limit
    bound = upper(View.secure_sum(0), 1, weights, updates=(1, 1), rounds=4000, effort="quick") / 4000
    assert supremum.lower <= bound <= 0.501


@pytest.mark.parametrize("view", [View.secure_sum(0), View.single_node(0, own_noise="hidden")])
def test_a_larger_ball_never_gives_less(view: View) -> None:
    balls = [(1, 1), (0.9, 1), (0.5, 1.2), (-1, 1.2), (-1, 2)]
    bounds = [upper(view, updates=ball, rounds=3, effort="fine") for ball in balls]
    assert all(b <= a * (1 + 1e-5) for b, a in itertools.pairwise(bounds))
    assert bounds[-1] <= 3 * (1 + 1e-9)


def test_names_and_order_of_nodes_change_nothing() -> None:
    weights = graphs.metropolis_weights(GRAPH)
    order = np.random.default_rng(0).permutation(9)
    turned = matrix_weights(weights.matrix.toarray()[np.ix_(order, order)], labels=[f"n{k}" for k in order])
    assert upper(effort="fine") == pytest.approx(
        upper(View.secure_sum("n0"), "n3", turned, effort="fine"), rel=1e-5
    )


def test_seeing_more_never_lowers_the_bound() -> None:
    W = graphs.metropolis_weights(GRAPH).matrix.toarray()
    few = View(observation=W[[0]], known_noise=[0])
    more = View(observation=W[[0, 5]], known_noise=[0])
    most = View(observation=np.eye(9), known_noise=[0])
    bounds = [upper(view, effort="fine") for view in (few, more, most)]
    assert bounds[0] <= bounds[1] * (1 + 1e-5)
    assert bounds[1] <= bounds[2] * (1 + 1e-5)
    assert upper(View.coalition_sums([0, 5]), effort="fine") >= bounds[0] * (1 - 1e-5)
    assert upper(View.neighbourhood(0), effort="fine") >= bounds[0] * (1 - 1e-5)


def test_a_known_node_that_nothing_is_seen_of_counts_as_seen() -> None:
    """Knowing somebody's noise without its inflow closes no loop: the inflow is given to the observer."""
    W = graphs.metropolis_weights(GRAPH).matrix.toarray()
    blind = View(observation=W[[0]], known_noise=[0, 5])
    assert upper(blind, effort="fine") <= upper(View.coalition_sums([0, 5]), effort="fine") * (1 + 1e-5)
    assert upper(blind, effort="fine") >= upper(effort="fine") * (1 - 1e-5)


def test_no_attack_uses_what_the_view_does_not_show() -> None:
    """The lower end belongs to the view itself, not to one that was completed for the sake of the upper end."""
    weights = graphs.metropolis_weights(GRAPH)
    W = weights.matrix.toarray()
    unit = np.eye(9)
    for observation, known, positive in (
        (W[[0]], [0], True),
        (W[[0]], [0, 5], False),
        (unit[[5]], [5], True),
        (unit[[5]], [0, 5], False),
        (np.vstack([unit[5], W[0]]), [0, 5], False),
        (np.vstack([W[5], W[0]]), [0, 5], True),
    ):
        found = training_sensitivity(
            weights,
            View(observation=observation, known_noise=known),
            3,
            rounds=4,
            updates=(0.5, 1),
            effort="quick",
        )
        assert (found.squared.lower > 0) == positive


def test_more_noise_elsewhere_never_raises_the_bound() -> None:
    levels = np.ones(9)
    levels[[2, 4, 6]] = 4.0
    assert upper(noise_levels=levels, effort="fine") <= upper(effort="fine") * (1 + 1e-5)
    assert upper(noise_levels=np.full(9, 2.0), effort="fine") == pytest.approx(
        upper(effort="fine") / 2, rel=1e-4
    )


def test_the_last_round_of_a_single_node_costs_nothing() -> None:
    one = upper(View.single_node(0), rounds=1)
    assert one == 0
    assert upper(View.single_node(0), rounds=6, effort="fine") == pytest.approx(
        upper(View.secure_sum(0), rounds=5, effort="fine"), rel=1e-4
    )


def test_longer_training_tells_more_and_layers_join_the_steady_rate() -> None:
    weights = graphs.metropolis_weights("ring:n=6")
    bounds = [upper(View.secure_sum(0), 3, weights, rounds=T) for T in (1, 4, 16, 40, 1000)]
    assert all(a < b for a, b in itertools.pairwise(bounds))
    steady = upper(View.secure_sum(0), 3, weights, rounds=10**6, effort="quick") / 10**6
    assert bounds[-2] <= 0.99 * 40 * steady
    assert bounds[-1] <= 1000 * steady * (1 + 1e-3)


def test_pairs_are_all_proved_and_the_worst_is_that_of_the_inequality() -> None:
    weights = graphs.metropolis_weights(GRAPH)
    seen: list[tuple[int, int]] = []
    found = training_pairs(
        weights, rounds=17, updates=(0.5, 1), observers=[0, 1], progress=lambda *now: seen.append(now)
    )
    assert len(found) == 8
    assert seen == [(k + 1, 8) for k in range(8)]
    assert {(i, j) for i, j, _ in found} == {(i, int(j)) for i in range(2) for j in weights.neighbours(i)}
    observer, target, worst = found.worst
    single = upper(View.secure_sum(observer), target, weights, rounds=17)
    assert worst == pytest.approx(single, rel=1e-3)
    assert found.refined[int(found.squared_upper.argmax())]
    for i, j, value in list(found)[::4]:
        assert upper(View.secure_sum(i), j, weights, rounds=17) <= value * (1 + 2e-3)


def test_pairs_that_cannot_be_the_worst_are_settled_without_the_inequality() -> None:
    weights = graphs.metropolis_weights("path:n=6")
    found = training_pairs(weights, rounds=20, updates=(0.9, 1), observers=[1, 2], pairs="all")
    assert len(found) == 10
    assert 0 < int(found.refined.sum()) < 10
    assert {found.method[k] for k in range(10) if not found.refined[k]} <= {"memory-one", "cap"}


def test_a_message_that_is_seen_for_itself_needs_no_inequality() -> None:
    """Whoever hears one neighbour alone sees all it sends: nothing can be gained, and nothing is tried."""
    found = training_pairs(graphs.metropolis_weights("path:n=6"), rounds=20, updates=(0.9, 1), observers=[0])
    assert found.method == ("cap",)
    assert not found.refined.any()
    assert found.worst[2] == pytest.approx(20, rel=1e-9)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"updates": (1, 0)}, "lower ≤ upper"),
        ({"updates": "smooth"}, "or 'any'; got 'smooth'"),
        ({"updates": (0, np.inf)}, "slopes must be finite"),
        ({"updates": ([0, 1], 1)}, "one a node of 9 nodes"),
        ({"noise_levels": np.zeros(9)}, "noise_levels must be finite and above 0"),
        ({"noise_levels": [1, 2]}, "one number a node, for 9 nodes"),
        ({"rounds": 0}, "rounds must be a whole number"),
        ({"effort": "great"}, "effort must be one of"),
        ({"target": 0}, "cannot be a target"),
        ({"participation": "fixed:9"}, "names round 9"),
    ],
)
def test_bad_input_is_named(options: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        upper(**options)


def test_views_must_fit() -> None:
    with pytest.raises(ViewError, match="must be a View"):
        upper("secure-sum")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="at most 4000 nodes"):
        training_pairs(graphs.metropolis_weights("ring:n=4001"), rounds=3, updates=(0, 1))
    with pytest.raises(InputError, match="updates='any'"):
        training_pairs(graphs.metropolis_weights(GRAPH), rounds=3, updates="any")  # type: ignore[arg-type]


def test_a_protocol_with_updates_is_what_every_verb_asks_about() -> None:
    """`gossip(updates=…)` reaches the bounds of training; equal ends are averaging or damping."""
    weights = graphs.metropolis_weights("star:n=3")
    found = sensitivity(gossip(weights, rounds=2, updates=(0, 1)), View.secure_sum(0))
    alone = training_sensitivity(weights, View.secure_sum(0), 1, rounds=2, updates=(0, 1))
    assert found[1].squared == alone.squared
    assert list(found.method) == ["shift", "shift"]
    assert gossip(weights, rounds=2, updates=(1, 1)).plain
    assert gossip(weights, rounds=2, updates=(0.5, 0.5)).damping == pytest.approx([0.5] * 3)
    open_loop = gossip(weights, rounds=2, updates=(1, 1))
    assert len({gossip(weights, rounds=2, updates=(low, 1)).hash for low in (0, 0.5)} | {open_loop.hash}) == 3
    # An encoder moves noise between rounds: three rounds of (1, 1) give away 9, not 3.
    for other in (
        gossip(weights, rounds=3, updates=(0, 1), encoder=(1, 1)),
        replace(momentum(weights, beta=0.5, rounds=3), updates=checked_updates((0, 1), 3)),
    ):
        for view in (View.secure_sum(0), View.neighbourhood(0), View.everyone):
            with pytest.raises(InputError, match="undamped"):
                sensitivity(other, view)
            with pytest.raises(InputError, match="undamped"):
                rate(other, view)
    table = account(
        gossip(weights, rounds=2, updates=(0, 1)), View.secure_sum(0), noise_multiplier=1, delta=1e-5
    )
    assert table.assumption == "smooth"
