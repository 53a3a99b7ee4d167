# SPDX-License-Identifier: Apache-2.0
"""Training with memory: the general inequality against known values, against plain training, and against loops."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
import pytest

from sottovoce import View, graphs
from sottovoce.errors import InputError, NotCertified
from sottovoce.feedback import (
    correlated_noise,
    drop_out,
    falling_steps,
    local_steps,
    plain_steps,
    recursion_cost,
    training,
    training_sensitivity,
)
from sottovoce.feedback.chains import recurring_step
from sottovoce.verification.moves import Recursion, exact_array, product, proved_cost
from sottovoce.verification.recursions import heavy_ball, several_exchanges

if TYPE_CHECKING:
    from collections.abc import Callable

    from sottovoce.feedback import TrainingView


def regular(n: int) -> Any:
    """A 4-regular graph with equal weights."""
    adjacency = nx.to_numpy_array(nx.random_regular_graph(4, n, seed=2), nodelist=range(n))
    return graphs.matrix_weights((adjacency + np.eye(n)) / 5)


TWELVE, TEN = regular(12), regular(10)
RING = graphs.metropolis_weights("ring:n=6")


def seen_from(weights: Any, updates: Any, **options: Any) -> TrainingView:
    return training(weights, View.secure_sum(0), rounds=50, updates=updates, **options)


def cost(make: Callable[..., Recursion], updates: Any, target: int = 5, weights: Any = TWELVE) -> float:
    case = seen_from(weights, updates)
    return recursion_cost(make(case, case.loop.position(target)), gap=1e-4).squared_upper


def exchanges(steps: int, *, fresh: bool) -> Any:
    return lambda case, target: several_exchanges(case, target, steps=steps, fresh=fresh)


@pytest.mark.parametrize(
    ("make", "updates", "expected"),
    [
        (plain_steps, (0.9, 1), 0.279),
        (plain_steps, (0, 1), 0.374),
        (exchanges(2, fresh=False), (0.9, 1), 0.285),
        (exchanges(2, fresh=False), (0, 1), 0.315),
        (exchanges(3, fresh=False), (0, 1), 0.304),
        (exchanges(2, fresh=True), (0.9, 1), 0.257),
        (exchanges(2, fresh=True), (0, 1), 0.282),
        (lambda case, j: local_steps(case, j, steps=2), (0.9, 1), 0.304),
        (lambda case, j: local_steps(case, j, steps=2), (0, 1), 0.491),
        (lambda case, j: heavy_ball(case, j, momentum=0.5), (0.9, 1), 0.286),
        (lambda case, j: heavy_ball(case, j, momentum=0.5), (0, 1), 0.437),
        (lambda case, j: heavy_ball(case, j, momentum=0.9), (0.9, 1), 0.374),
        (lambda case, j: heavy_ball(case, j, momentum=0.9), (0, 1), 0.788),
        (lambda case, j: correlated_noise(case, j, share=0.5), (0.9, 1), 0.697),
    ],
)
def test_known_values_on_a_regular_graph(make: Any, updates: Any, expected: float) -> None:
    assert cost(make, updates) == pytest.approx(expected, abs=6e-4)


@pytest.mark.parametrize(
    ("away", "expected"), [([], 0.357), ([[7]], 0.357), ([[5]], 0.386), ([[1], [5], [9]], 0.540)]
)
def test_nodes_that_drop_out(away: Any, expected: float) -> None:
    """A far node costs nothing; of the observer's other neighbours 1, 5 and 9 any one may be missing."""
    found = cost(lambda case, j: drop_out(case, j, away=away), (0, 1), 2, TEN)
    assert found == pytest.approx(expected, abs=6e-4)


def test_without_memory_it_is_plain_training() -> None:
    case = seen_from(RING, (0.5, 1))
    plain = recursion_cost(plain_steps(case, 0)).squared_upper
    _, solution = recurring_step(case, 0, gap=1e-6)
    assert plain == pytest.approx(1 / float(solution.kappas[0]), rel=2e-5)
    for same in (
        several_exchanges(case, 0, steps=1, fresh=True),
        several_exchanges(case, 0, steps=1, fresh=False),
        local_steps(case, 0, steps=1),
        drop_out(case, 0, away=[]),
        correlated_noise(case, 0, share=0.0),
        heavy_ball(case, 0, momentum=0.0),
    ):
        assert recursion_cost(same).squared_upper == pytest.approx(plain, rel=1e-3)


def test_falling_steps_cost_less_than_the_first_one_kept() -> None:
    rounds = 6
    whole = training_sensitivity(RING, View.secure_sum(0), 1, rounds=rounds, updates=(0, 1)).squared.upper
    case = seen_from(RING, (0, 1))

    def fallen(steps: list[float]) -> float:
        return recursion_cost(falling_steps(case, 0, steps=steps), gap=1e-4).squared_upper / whole

    assert fallen([0.3] * rounds) == pytest.approx(1, rel=5e-4)
    halved, rooted = fallen([1, 1, 1, 0.5, 0.5, 0.5]), fallen([(t + 1) ** -0.5 for t in range(rounds)])
    assert rooted < halved < 0.99
    assert rooted > 0.85
    with pytest.raises(InputError, match="positive and never rise"):
        falling_steps(case, 0, steps=[0.5, 1.0])


def test_rough_nodes_are_between_smooth_ones_and_maps_of_any_kind() -> None:
    case = seen_from(TEN, (0.9, 1))
    shares = [
        recursion_cost(plain_steps(case, case.loop.position(2), rough=rough), gap=1e-4).squared_upper
        for rough in ([], [5], [4, 5], range(9))
    ]
    assert shares == sorted(shares)
    assert shares[0] < 0.281 < 0.34 < shares[1]
    assert shares[-1] == pytest.approx(1, abs=1e-3)
    complete = seen_from(graphs.metropolis_weights("complete:n=5"), (0.9, 1))
    twins = recursion_cost(plain_steps(complete, 0, rough=range(4))).squared_upper
    assert twins == pytest.approx(1 / 4, abs=1e-4)


def loops_value(recursion: Recursion, path: list[int], rng: np.random.Generator) -> tuple[float, int]:
    """Δ² of a linear loop, p = Θ R ξ with |Θ| ≤ 1 in each move, for signs that a few flips make large.

    Everything from its definition: the whole view is a Gaussian vector, its covariance N Nᵀ seen through the loop.
    """
    counts = 0
    noises: list[np.ndarray] = []
    streams: list[np.ndarray] = []
    seen: list[tuple[np.ndarray, np.ndarray]] = []
    for place in path:
        move = recursion.moves[place]
        A, B, R, N = (
            np.asarray(part, dtype=float) for part in (move.transition, move.bends, move.reach, move.noise)
        )
        ends = rng.choice([-1.0, 1.0], B.shape[1])
        loop = A + (B * ends) @ R
        noises = [loop @ each for each in noises] + [N]
        streams = [loop @ each for each in streams]
        if move.entry is not None:
            counts += 1
            streams.append(np.asarray(move.entry, dtype=float)[:, None])
        rows = np.zeros((len(recursion.seen[move.after]), A.shape[0]))
        for k, row in enumerate(recursion.seen[move.after]):
            for j, x in row.items():
                rows[k, j] = float(x)
        seen.append((rows @ np.hstack(noises), rows @ np.hstack(streams)))
    wide, many = seen[-1][0].shape[1], counts
    told = np.vstack([np.pad(u, ((0, 0), (0, wide - u.shape[1]))) for u, _ in seen])
    moved = np.vstack([np.pad(s, ((0, 0), (0, many - s.shape[1]))) for _, s in seen])
    form = moved.T @ np.linalg.pinv(told @ told.T, rcond=1e-10, hermitian=True) @ moved
    best = 0.0
    for _ in range(6):
        signs = rng.choice([-1.0, 1.0], many)
        for _ in range(20):
            signs = np.where(form @ signs >= 0, 1.0, -1.0)
        best = max(best, float(signs @ form @ signs), float(form.sum()))
    return best, counts


@pytest.mark.parametrize(
    "make",
    [
        plain_steps,
        lambda case, j: heavy_ball(case, j, momentum=0.7),
        lambda case, j: correlated_noise(case, j, share=0.4),
        lambda case, j: several_exchanges(case, j, steps=3, fresh=True),
        lambda case, j: several_exchanges(case, j, steps=2, fresh=False),
        lambda case, j: local_steps(case, j, steps=3),
        lambda case, j: drop_out(case, j, away=[[1], [3]]),
    ],
    ids=["plain", "heavy ball", "correlated", "fresh exchanges", "exchanges", "local steps", "drop out"],
)
def test_no_linear_loop_costs_more(make: Any) -> None:
    rng = np.random.default_rng(5)
    case = seen_from(RING, (0.2, 1))
    recursion = make(case, 0)
    bound = recursion_cost(recursion, gap=1e-4).squared_upper
    closest = 0.0
    for _ in range(30):
        path = [0]
        for _ in range(11):
            after = recursion.moves[path[-1]].after
            path.append(
                int(rng.choice([k for k, move in enumerate(recursion.moves) if move.before == after]))
            )
        value, counts = loops_value(recursion, path, rng)
        assert value <= bound * counts * (1 + 1e-7)
        closest = max(closest, value / (bound * counts))
    assert closest > 0.4


def test_a_changed_proof_proves_nothing() -> None:
    case = seen_from(RING, (0.5, 1))
    recursion = heavy_ball(case, 0, momentum=0.5)
    proof = recursion_cost(recursion).proof
    assert np.isfinite(proved_cost(recursion, proof))
    (factor,), (beta,) = proof.factors, proof.multipliers
    for wrong in (
        replace(proof, kappas=proof.kappas * 1.001),
        replace(proof, kappas=-proof.kappas),
        replace(proof, factors=(factor * 1.05,)),
        replace(proof, factors=(factor * 0.95,)),
        replace(proof, multipliers=(beta * 1.1,)),
        replace(proof, multipliers=(-beta,)),
    ):
        assert proved_cost(recursion, wrong) == np.inf
    with pytest.raises(InputError, match="finite numbers"):
        replace(proof, kappas=np.array([np.nan]))
    steeper = heavy_ball(case, 0, momentum=0.51)
    assert proved_cost(steeper, proof) == np.inf


def test_what_a_factor_has_at_the_pivots_does_not_matter() -> None:
    recursion = plain_steps(seen_from(RING, (0.5, 1)), 0)
    proof = recursion_cost(recursion).proof
    scribbled = np.array(proof.factors[0])
    # The observer sees the sum of nodes 1 and 5, and the first of them is the pivot.
    scribbled[0] += 3.0
    assert proved_cost(recursion, replace(proof, factors=(scribbled,))) == proved_cost(recursion, proof)


@pytest.mark.parametrize("shape", [(3, 4, 5), (1, 1, 1), (4, 2, 0), (0, 3, 2), (2, 0, 3)], ids=str)
def test_products_of_rationals_leave_nothing_out(shape: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(1)
    m, k, n = shape
    A, B = (exact_array(rng.integers(-2, 3, size) / 4) for size in ((m, k), (k, n)))
    found = product(A, B)
    assert found.shape == (m, n)
    assert found.tolist() == [[sum(A[i] * B[:, j]) for j in range(n)] for i in range(m)]
    assert (product(exact_array(np.zeros((m, k))), B) == 0).all()


def test_what_cannot_be_bounded_is_refused() -> None:
    case = seen_from(RING, (0.5, 1))
    (move,) = plain_steps(case, 0).moves
    silent = replace(plain_steps(case, 0), moves=(replace(move, noise=move.noise * 0),))
    with pytest.raises(NotCertified, match="no finite bound"):
        recursion_cost(silent)
    for wrong, sentence in (
        (seen_from(RING, "any"), "recursions need slopes"),
        (seen_from(RING, (0, 1), noise_levels=2.0), "noise of level 1"),
        (training(RING, View.single_node(0), rounds=9, updates=(0, 1)), "shows each round as it is"),
    ):
        with pytest.raises(InputError, match=sentence):
            plain_steps(wrong, 0)
    hears = training(RING, View.neighbourhood(0), rounds=9, updates=(0, 1))
    with pytest.raises(InputError, match="observers of sums"):
        drop_out(hears, 2, away=[[3]])
    large = seen_from(graphs.metropolis_weights("ring:n=80"), (0, 1))
    with pytest.raises(NotCertified, match="unknowns"):
        recursion_cost(plain_steps(large, 0))


def test_a_missing_node_keeps_its_weight() -> None:
    """Rows of W still sum to 1 with nodes away, and nobody hears them."""
    case = seen_from(RING, (0, 1))
    recursion = drop_out(case, 0, away=[[2, 4]])
    for move, absent in itertools.product(recursion.moves, (1, 3)):
        A = np.array(move.transition, dtype=float) * 2
        if move.before == 1:
            assert (A[absent] == np.eye(5)[absent]).all()
            assert A[:, absent].sum() == 1
    assert [dict(row) for row in recursion.seen[0]] == [dict(row) for row in case.loop.rows[:1]]


def test_products_are_those_of_rationals_whatever_their_denominators() -> None:
    """Primes of many digits, zeros, whole numbers and nothing at all: sums over one denominator are the sums."""
    primes = [2**61 - 1, 2**89 - 1, 10**18 + 9, 1, 3, 2**1074]
    left = [
        [Fraction((-1) ** k * (k + i), primes[(i * k + i) % 6]) if k != i else 0 for k in range(5)]
        for i in range(3)
    ]
    right = [[Fraction(7 * k - 11 * j, primes[(k + 2 * j) % 6]) for j in range(4)] for k in range(5)]
    A, B = exact_array(left), exact_array(right)
    found = product(A, B)
    for i, row in enumerate(left):
        for j in range(4):
            assert found[i, j] == sum(Fraction(row[k]) * right[k][j] for k in range(5)), (i, j)
    assert product(A[:0], B).shape == (0, 4)
    assert (product(A[:, :0], B[:0]) == 0).all()
