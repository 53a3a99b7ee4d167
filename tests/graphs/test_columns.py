"""Twins, against columns compared one by one in rationals, and against the bound for any training."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from sottovoce import View
from sottovoce.feedback import training_sensitivity
from sottovoce.graphs import (
    GossipWeights,
    lazy_weights,
    matrix_weights,
    metropolis_weights,
    twins,
    uniform_weights,
)


def by_pairs(weights: GossipWeights) -> set[tuple[int, int]]:
    """All pairs of equal columns, by comparing each entry."""
    rows = [weights.exact_row(i) for i in range(weights.n)]
    return {
        (j, k)
        for j, k in combinations(range(weights.n), 2)
        if all(row.get(j, Fraction(0)) == row.get(k, Fraction(0)) for row in rows)
    }


# Columns 0 and 1 are equal with nothing on the diagonal; node 2 hears both.
APART = np.array([[0, 0, 0.5, 0.5], [0, 0, 0.5, 0.5], [0.25, 0.25, 0.5, 0], [0.25, 0.25, 0, 0.5]])
# Off the pair all is equal, but a node weighs itself otherwise than its neighbour.
SELFISH = np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]])

SPECS = (
    "complete:n=6",
    "ring:n=3",
    "ring:n=7",
    "star:n=5",
    "florentine",
    "cliques:base=ring,n=5,size=3",
    "cliques:base=star,n=4,size=2",
    "cliques:base=path,n=4,size=3",
    "cliques:base=random-regular,n=8,d=3,size=2",
)
CASES = [
    *(rule(spec) for rule in (metropolis_weights, lazy_weights, uniform_weights) for spec in SPECS),
    *(matrix_weights(matrix) for matrix in (APART, SELFISH, np.full((4, 4), 0.25))),
]


@pytest.mark.parametrize("weights", CASES, ids=lambda weights: weights.origin)
def test_against_every_pair_of_columns(weights: GossipWeights) -> None:
    found = twins(weights)
    assert {pair for group in found for pair in combinations(group, 2)} == by_pairs(weights)
    assert list(found) == sorted(found)
    assert all(len(group) > 1 and list(group) == sorted(group) for group in found)


def test_examples_that_have_twins_and_examples_that_have_none() -> None:
    assert twins(metropolis_weights("complete:n=4")) == ((0, 1, 2, 3),)
    assert twins(matrix_weights(APART)) == ((0, 1),)
    assert twins(matrix_weights(SELFISH)) == ()
    # Half of its own model stays with each node.
    assert twins(lazy_weights("complete:n=4")) == ()


def test_a_base_of_unlike_degrees_needs_weights_that_look_at_the_receiver_alone() -> None:
    spec = "cliques:base=star,n=4,size=2"
    assert twins(metropolis_weights(spec)) == ((0, 1),)
    assert twins(uniform_weights(spec)) == ((0, 1), (2, 3), (4, 5), (6, 7))


@pytest.mark.parametrize(
    ("spec", "observer", "target", "hidden"),
    [
        ("complete:n=5", 0, 1, 4),
        ("complete:n=8", 0, 7, 7),
        ("cliques:base=ring,n=4,size=3", 0, 1, 2),
        ("cliques:base=ring,n=4,size=3", 0, 3, 3),
        ("cliques:base=ring,n=20,size=5", 0, 1, 4),
        ("cliques:base=ring,n=20,size=5", 0, 5, 5),
    ],
)
def test_hidden_twins_share_what_any_training_shows(
    spec: str, observer: int, target: int, hidden: int
) -> None:
    weights = metropolis_weights(spec)
    group = next(group for group in twins(weights) if target in group)
    assert len(set(group) - {observer}) == hidden
    found = training_sensitivity(weights, View.secure_sum(observer), target, rounds=12, updates="any")
    assert found.assumption == "none"
    assert found.squared.upper == pytest.approx(12 / hidden, rel=1e-9)
    assert found.squared.upper >= 12 / hidden
