# SPDX-License-Identifier: Apache-2.0
"""Relabellings that keep weights, against trying all of them."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.profiles import examples
from tests.reference import dyadic_weights, exact_weights

from sottovoce.graphs import GossipWeights, Symmetries, matrix_weights, metropolis_weights
from sottovoce.graphs import symmetries as room


def all_that_keep(weights: GossipWeights, marks: Any = None) -> list[tuple[int, ...]]:
    W = np.array(exact_weights(weights), dtype=object)
    marks = [0] * weights.n if marks is None else marks
    return [
        order
        for order in itertools.permutations(range(weights.n))
        if (W[np.ix_(order, order)] == W).all()
        and all(marks[k] == marks[image] for k, image in enumerate(order))
    ]


@examples(60)
@given(dyadic_weights().filter(lambda weights: weights.n < 6), st.data())
def test_orbits_and_groups_are_those_that_trying_all_finds(weights: GossipWeights, data: Any) -> None:
    marks = data.draw(st.none() | st.lists(st.sampled_from("ab"), min_size=weights.n, max_size=weights.n))
    compared(weights, marks, data.draw(st.permutations(range(weights.n))))


@pytest.mark.parametrize("name", ["ring:n=6", "path:n=5", "star:n=5", "complete:n=4", "grid:rows=2,cols=3"])
def test_orbits_of_networks_that_are_alike_all_over(name: str) -> None:
    weights = metropolis_weights(name)
    compared(weights, None, range(weights.n))
    compared(weights, [k % 2 for k in range(weights.n)], range(weights.n)[::-1])


def compared(weights: GossipWeights, marks: Any, order: Any) -> None:
    kept = all_that_keep(weights, marks)
    found = Symmetries([weights], marks)
    orbits, twins = found.orbits(order), found.twins(order)
    for one, two in itertools.combinations(range(weights.n), 2):
        swapped = tuple({one: two, two: one}.get(k, k) for k in range(weights.n))
        assert (twins[one] == twins[two]) == (swapped in kept)
        carried = any(images[one] == two for images in kept)
        assert (orbits.first(one) == orbits.first(two)) == carried
        for onto in itertools.combinations(range(weights.n), 2):
            groups = found.carrying_groups([[one, two]], [onto])
            assert (groups is not None) == any({images[one], images[two]} == set(onto) for images in kept)
            assert groups is None or tuple(groups.tolist()) in kept
            if groups is not None:
                assert found.look([[one, two]]) == found.look([onto])
    for node in range(weights.n):
        images = orbits.images(node)
        assert (images is None) == (orbits.first(node) == node)
        assert images is None or (tuple(images.tolist()) in kept and images[orbits.first(node)] == node)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("ring:n=60", 1),
        ("torus:rows=6,cols=6", 1),
        ("hypercube:dim=5", 1),
        ("complete:n=30", 1),
        ("exponential:n=40", 1),
        ("cliques:base=ring,n=6,size=4", 1),
        ("star:n=40", 2),
        ("path:n=31", 16),
        ("karate", 27),
        ("erdos-renyi:n=60,p=0.2,seed=1", 60),
        ("random-regular:n=40,d=4,seed=1", 40),
    ],
)
def test_networks_with_known_symmetries(name: str, count: int) -> None:
    weights = metropolis_weights(name)
    orbits = Symmetries([weights]).orbits(range(weights.n))
    assert len({orbits.first(node) for node in range(weights.n)}) == count


def test_rationals_that_round_to_one_float_are_not_alike() -> None:
    third, close = Fraction(1, 3), Fraction(3 * 10**17 + 1, 9 * 10**17)
    assert float(third) == float(close)
    ring = metropolis_weights("ring:n=4")
    assert ring.quotients is not None
    # Storage order off the diagonal: 01, 03, 10, 12, 21, 23, 30, 32.
    parts = [close, third, close, third, third, third, third, third]
    moved = np.array([x.numerator for x in parts]), np.array([x.denominator for x in parts])
    odd = GossipWeights(
        matrix=ring.matrix,
        labels=ring.labels,
        rule="matrix",
        symmetric=True,
        quotients=type(ring.quotients)(*moved),
    )
    assert Symmetries([ring]).carries((0,), (2,))
    assert not Symmetries([odd]).carries((0,), (2,))
    assert Symmetries([odd]).carries((0,), (1,))
    assert len(all_that_keep(odd)) == 2


def test_every_matrix_of_a_schedule_is_kept() -> None:
    ring, path = metropolis_weights("ring:n=4"), metropolis_weights("path:n=4")
    assert Symmetries([ring]).carries((0,), (1,))
    assert not Symmetries([ring, path]).carries((0,), (1,))
    assert Symmetries([ring, path]).carries((0,), (3,))


def test_directions_and_own_weights_are_kept() -> None:
    circle = 0.5 * np.eye(4) + 0.5 * np.roll(np.eye(4), 1, axis=0)
    around = Symmetries([matrix_weights(circle)])
    assert around.carries((0, 1), (2, 3))
    assert not around.carries((0, 1), (1, 0))
    own = np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]])
    assert Symmetries([matrix_weights(own)]).carries((0,), (1,))


def test_a_search_that_gives_up_finds_nothing_and_claims_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MOST_STEPS", 0)
    ring = Symmetries([metropolis_weights("ring:n=9")])
    orbits = ring.orbits(range(9))
    assert all((images := orbits.images(k)) is None or images[orbits.first(k)] == k for k in range(9))
    monkeypatch.setattr(room, "MOST_NODES", 8)
    assert {ring.orbits(range(9)).first(k) for k in range(9)} == set(range(9))
    assert not ring.carries((0,), (1,))
