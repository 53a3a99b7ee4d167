"""Training on programs with memory: recognised by what they do, proved pair by pair, never below a loop that runs."""

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.pairings import each_pair

from sottovoce import View, graphs, sensitivity
from sottovoce.feedback import program_costs
from sottovoce.feedback import programs as room
from sottovoce.feedback.general import ProvedCost, recursion_cost
from sottovoce.graphs import Symmetries
from sottovoce.learning import closed_loop
from sottovoce.protocols import chebyshev, gossip, gradient_tracking, momentum, repeated
from sottovoce.verification import Recursion

STAR = graphs.metropolis_weights("star:n=4")
RING = graphs.metropolis_weights("ring:n=5")


def made(name: str, weights: Any, rounds: int = 6) -> Any:
    return {
        "momentum": lambda: momentum(weights, rounds=rounds, beta="0.5"),
        "heavy": lambda: momentum(weights, rounds=rounds, beta="0.9"),
        "repeated": lambda: repeated(weights, rounds=rounds, steps=2),
    }[name]()


@pytest.mark.parametrize(
    ("name", "graph", "ends"),
    each_pair(["momentum", "heavy", "repeated"], ["star", "ring"], [(0.5, 1.0), (-0.5, 1.0)]),
)
def test_no_linear_loop_of_the_program_itself_tells_more(
    name: str, graph: str, ends: tuple[float, float]
) -> None:
    """Every node contributes (d − 1) times its model, d an end of the ball, as quadratic losses do on that program."""
    weights, least = {"star": (STAR, 0.7), "ring": (RING, 0.55)}[graph]
    rounds = 16
    protocol = made(name, weights, rounds)
    costs = program_costs(protocol, [View.secure_sum(0)], ends)
    assert costs is not None
    attained = np.zeros(weights.n)
    # To turn the order of the other nodes round is a symmetry of both: half of the slopes say it all.
    for slopes in itertools.product(ends, repeat=weights.n - 1):
        if slopes > slopes[::-1]:
            continue
        loop = closed_loop(protocol, np.array([1.0, *slopes]))
        found = sensitivity(loop, View.secure_sum(0), effort="bulk")
        attained[found.indices] = np.maximum(attained[found.indices], found.squared_lower)
    hidden = np.arange(1, weights.n)
    attained[hidden] = np.maximum(attained[hidden], attained[hidden][::-1])
    assert (attained[hidden] <= rounds * costs[0][hidden]).all()
    # And it is not far above: on these the worst target is nearly attained.
    assert attained.max() > least * rounds * costs[0][hidden].max()


def test_pairs_that_a_relabelling_carries_onto_each_other_have_one_cost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = graphs.metropolis_weights("path:n=4")
    views = [View.secure_sum(k) for k in range(4)]
    together = program_costs(made("momentum", path), views, (0.5, 1.0))
    solved: list[Recursion] = []

    def noted(recursion: Recursion, **more: Any) -> ProvedCost:
        solved.append(recursion)
        return recursion_cost(recursion, **more)

    monkeypatch.setattr(room, "recursion_cost", noted)
    assert program_costs(made("momentum", path), views, (0.5, 1.0)) is not None
    assert len(solved) == 6
    monkeypatch.setattr(room, "_alike", lambda _, work: list(range(len(work))))
    each = program_costs(made("momentum", path), views, (0.5, 1.0))
    assert together is not None
    assert each is not None
    assert np.allclose(together, each, rtol=2e-3)


@pytest.mark.parametrize("name", ["ring:n=5", "path:n=4", "star:n=5", "grid:rows=2,cols=3", "florentine"])
def test_relabellings_are_those_that_trying_all_finds(name: str) -> None:
    weights = graphs.metropolis_weights(name)
    found = Symmetries([weights])
    if weights.n > 6:
        assert found.carries((3, 7), (3, 7))
        return
    rows = [[weights.exact_row(i).get(j, Fraction(0)) for j in range(weights.n)] for i in range(weights.n)]
    # Rationals by their number, which are compared in no time.
    known = sorted({x for row in rows for x in row})
    matrix = np.array([[known.index(x) for x in row] for row in rows])
    kept = [
        order
        for order in itertools.permutations(range(weights.n))
        if (matrix[np.ix_(order, order)] == matrix).all()
    ]
    for one, two in itertools.permutations(range(weights.n), 2):
        for onto in itertools.permutations(range(weights.n), 2):
            expected = any((order[one], order[two]) == onto for order in kept)
            assert found.carries((one, two), onto) == expected


def test_weights_that_differ_are_not_alike() -> None:
    uneven = graphs.matrix_weights([[0.5, 0.5, 0.0], [0.5, 0.25, 0.25], [0.0, 0.25, 0.75]])
    assert not Symmetries([uneven]).carries((0,), (2,))
    assert Symmetries([graphs.metropolis_weights("path:n=3")]).carries((0,), (2,))


@pytest.mark.parametrize(
    "protocol",
    [
        gossip(RING, rounds=3, encoder=["1", "1/2"]),
        momentum(RING, rounds=3, beta="0.5", noise="message"),
        chebyshev(RING, rounds=3, steps=2),
        gradient_tracking(RING, rounds=3),
    ],
)
def test_programs_that_are_not_worked_out_get_no_number(protocol: Any) -> None:
    assert program_costs(protocol, [View.secure_sum(0)], (0.5, 1.0)) is None


def test_views_and_sizes_that_are_not_worked_out_get_no_number() -> None:
    assert program_costs(made("momentum", RING), [View.single_node(0)], (0.5, 1.0)) is None
    large = graphs.metropolis_weights("ring:n=80")
    assert program_costs(made("momentum", large), [View.secure_sum(0)], (0.5, 1.0)) is None


def test_progress_counts_pairs() -> None:
    heard: list[tuple[int, int]] = []
    program_costs(
        made("repeated", STAR), [View.secure_sum(0)], (0.9, 1.0), lambda *counts: heard.append(counts)
    )
    assert heard == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("name", ["momentum", "repeated"])
def test_a_node_that_observes_itself_lends_its_proof_to_no_other(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Node 1 of a path weighs itself and node 2 alike; what it sees of itself says nothing of node 2."""
    path = graphs.metropolis_weights("path:n=4")
    symmetries = Symmetries([path])
    assert symmetries.carries((1, 1), (2, 2))
    assert not symmetries.carries((1, 1), (1, 2))
    assert not symmetries.carries((1, 2), (1, 1))
    views = [View.secure_sum(node, own_noise="hidden") for node in (0, 1)]
    shared = program_costs(made(name, path), views, (0.0, 1.0))
    monkeypatch.setattr(room, "_alike", lambda _, work: list(range(len(work))))
    alone = program_costs(made(name, path), views, (0.0, 1.0))
    assert shared is not None
    assert alone is not None
    np.testing.assert_allclose(np.array(shared), np.array(alone), rtol=1e-6)
