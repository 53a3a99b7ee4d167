# SPDX-License-Identifier: Apache-2.0
"""Mistakes that accountants of gossip have made, each as a case that shows it."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.reference import definition, exact_value
from tests.scenes import ENGINES, EVERY_ENGINE, SHARES

from sottovoce.filtering import hidden_system, whitened_response
from sottovoce.graphs import GossipWeights, matrix_weights, metropolis_weights
from sottovoce.interval import Interval
from sottovoce.protocols import gossip
from sottovoce.sensitivities import absolute_bound, sensitivity
from sottovoce.views import View, observe


def measured(weights: GossipWeights, view: View, target: int, rounds: int, **options: Any) -> Interval:
    found = sensitivity(gossip(weights, rounds=rounds), view, [target], **options)
    return Interval(float(found.squared_lower[0]), float(found.squared_upper[0]))


def form_of(weights: GossipWeights, view: View, target: int, rounds: int) -> np.ndarray:
    protocol = gossip(weights, rounds=rounds)
    system = hidden_system(protocol, observe(protocol, view))
    (forms,) = whitened_response(system).forms(np.searchsorted(system.unknown, [target]))
    return np.asarray(forms.matrices[0])


def dense_view(
    W: np.ndarray, C: np.ndarray, known: list[int], target: int, stream: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The covariance N Nᵀ of a whole view and the shift G c of its mean, in floats."""
    (m, n), rounds = C.shape, len(stream)
    H = np.zeros((m * rounds, n * rounds))
    for t in range(rounds):
        for s in range(t + 1):
            H[t * m : (t + 1) * m, s * n : (s + 1) * n] = C @ np.linalg.matrix_power(W, t - s)
    N = H[:, [s * n + k for s in range(rounds) for k in range(n) if k not in known]]
    return N @ N.T, H[:, target::n] @ stream


@EVERY_ENGINE
@pytest.mark.parametrize("graph", ["ring:n=6", "star:n=6", "complete:n=5", "grid:rows=2,cols=3"])
def test_redundant_rows_are_dropped_by_structure(graph: str, engine: Any) -> None:
    # The observer's own row follows from what it receives; so does every row that is shown twice.
    weights = metropolis_weights(graph)
    rounds, target = 6, int(weights.neighbours(0)[0])
    exact = definition(weights, View.neighbourhood(0), target, rounds).scalar_maximum()
    plain = measured(weights, View.neighbourhood(0), target, rounds, engine=engine, contribution="scalar")
    assert Fraction(plain.lower) <= exact <= Fraction(plain.upper)
    assert plain.width < 1e-6
    rows = observe(gossip(weights, rounds=1), View.neighbourhood(0)).rows.toarray()
    doubled = View(observation=np.vstack([rows, 2 * rows, rows.sum(axis=0)]), known_noise=[0])
    again = measured(weights, doubled, target, rounds, engine=engine, contribution="scalar")
    assert again.upper == pytest.approx(plain.upper, rel=1e-9)
    assert again.lower == pytest.approx(plain.lower, rel=1e-9)


@EVERY_ENGINE
def test_equal_sums_count_once_and_unequal_ones_twice(engine: Any) -> None:
    view = View.coalition_sums([0, 1])
    equal = measured(metropolis_weights("complete:n=6"), view, 3, 5, engine=engine)
    assert equal.lower == pytest.approx(1.25, rel=1e-9)
    assert equal.upper == pytest.approx(1.25, rel=1e-9)
    moved = np.full((6, 6), 1 / 6)
    # Weight moves around a square of edges, so that rows and columns keep their sums.
    for a, b, sign in ((0, 3, 1), (0, 2, -1), (1, 3, -1), (1, 2, 1)):
        moved[a, b] += sign * 1e-6
        moved[b, a] += sign * 1e-6
    nudged = measured(matrix_weights(moved), view, 3, 5, engine=engine)
    assert nudged.upper == pytest.approx(3.75, rel=1e-4)
    assert nudged.lower == pytest.approx(3.75, rel=1e-3)


def test_a_nearly_singular_covariance_is_not_under_reported() -> None:
    # Node 0 sees its sums and knows the noise of node 1 too, so it works out node 1's messages as well: the noise that
    # is left fades from round to round, and dense factorisations lose it.
    weights, rounds = matrix_weights(SHARES, normalise=True), 60
    view = View(observation=SHARES[:1], known_noise=[0, 1])
    signs = (-1) ** np.arange(rounds)
    exact = exact_value(weights, view, 2, signs)
    assert float(exact) == pytest.approx(59.25, abs=0.01)
    covariance, shift = dense_view(SHARES / 20, SHARES[:1] / 20, [0, 1], 2, signs)
    assert shift @ np.linalg.pinv(covariance) @ shift < 57.8
    assert shift @ np.linalg.solve(covariance, shift) < 57.8
    for engine in ENGINES:
        for contribution in ("scalar", "vector"):
            found = measured(weights, view, 2, rounds, engine=engine, contribution=contribution)
            assert exact <= Fraction(found.upper)
            assert found.upper <= 1.001 * float(exact)


@EVERY_ENGINE
def test_a_known_node_with_unknown_inflow_is_not_under_reported(engine: Any) -> None:
    # Node 3 sends to node 1 as well, so that the sums of node 0 do not tell what node 1 receives.
    shares = SHARES.copy()
    shares[1, 3] = shares[3, 1] = 2
    weights, rounds = matrix_weights(shares, normalise=True), 16
    view = View(observation=shares[:1], known_noise=[0, 1])
    found = measured(weights, view, 2, rounds, engine=engine)
    for signs in ((-1) ** np.arange(rounds), np.ones(rounds)):
        assert exact_value(weights, view, 2, signs) <= Fraction(found.upper)
    exact = definition(weights, view, 2, 7).scalar_maximum()
    short = measured(weights, view, 2, 7, engine=engine, contribution="scalar")
    assert Fraction(short.lower) < exact <= Fraction(short.upper)


@pytest.mark.parametrize("contribution", ["scalar", "vector"])
@pytest.mark.parametrize("graph", ["ring:n=12", "star:n=6", "path:n=5", "complete:n=4"])
def test_no_bound_stands_above_the_trivial_one(graph: str, contribution: str) -> None:
    rounds = 40
    weights = metropolis_weights(graph)
    near = int(weights.neighbours(0)[0])
    for view in (View.neighbourhood(0), View.secure_sum(0), View.coalition_sums([0, weights.n - 1])):
        found = measured(
            weights, view, near if near != weights.n - 1 else 1, rounds, contribution=contribution
        )
        assert found.upper <= rounds


def test_the_plain_absolute_sum_does_stand_above_the_trivial_one() -> None:
    weights = metropolis_weights("ring:n=12")
    form = form_of(weights, View.neighbourhood(0), 1, 40)
    assert absolute_bound(form) > 40
    assert measured(weights, View.neighbourhood(0), 1, 40).upper <= 40


@pytest.mark.parametrize("graph", ["ring:n=20", "torus:rows=4,cols=5"])
def test_constant_signs_are_not_the_worst(graph: str) -> None:
    weights = metropolis_weights(graph)
    for view in (View.secure_sum(0), View.neighbourhood(0)):
        form = form_of(weights, view, 1, 60)
        found = measured(weights, view, 1, 60, contribution="scalar")
        assert form.sum() < 0.75 * found.lower


@EVERY_ENGINE
@pytest.mark.parametrize("rounds", [2, 3, 7])
def test_ones_own_message_says_one_round_less_than_the_sums(rounds: int, engine: Any) -> None:
    weights = metropolis_weights("path:n=4")
    own = measured(weights, View.single_node(1), 2, rounds, engine=engine, contribution="scalar")
    fewer = measured(weights, View.secure_sum(1), 2, rounds - 1, engine=engine, contribution="scalar")
    sums = measured(weights, View.secure_sum(1), 2, rounds, engine=engine, contribution="scalar")
    assert own.upper == pytest.approx(fewer.upper, rel=1e-9)
    assert own.upper < sums.lower * (1 - 1e-3)


@pytest.mark.parametrize(
    "view", [View.secure_sum(0), View.single_node(0, own_noise="hidden"), View.neighbourhood(0)]
)
def test_the_number_of_rounds_is_never_forgotten(view: View) -> None:
    weights = metropolis_weights("ring:n=7")
    ends = [measured(weights, view, 1, rounds) for rounds in (5, 10, 20, 40, 80)]
    for fewer, more in itertools.pairwise(ends):
        assert more.lower > 1.5 * fewer.upper


def test_the_first_message_is_counted() -> None:
    # One round, all messages seen: the raw first message stands beside its own noise alone.
    weights = metropolis_weights("ring:n=5")
    assert measured(weights, View.neighbourhood(0), 1, 1).upper == pytest.approx(1.0)
    assert measured(weights, View.neighbourhood(0), 1, 1).lower == pytest.approx(1.0)


@EVERY_ENGINE
@pytest.mark.parametrize("size", [1e-3, 1e-5, 1e-7, 1e-9, 1e-11, 1e-13, 1e-15])
def test_near_deficiency_widens_upward(size: float, engine: Any) -> None:
    # Two sums that are almost equal: what a tolerance would drop is what tells them apart.
    W = np.full((4, 4), 0.25)
    step = float(2.0 ** np.round(np.log2(size)))
    for a, b, sign in ((0, 2, 1), (0, 3, -1), (1, 2, -1), (1, 3, 1)):
        W[a, b] += sign * step
        W[b, a] += sign * step
    weights = matrix_weights(W)
    for view, target in (
        (View.coalition_sums([0, 1]), 2),
        (View.coalition_sums([0, 1], own_noise="hidden"), 3),
    ):
        exact = definition(weights, view, target, 5)
        signs = measured(weights, view, target, 5, engine=engine, contribution="scalar")
        truth = exact.scalar_maximum()
        assert truth <= Fraction(signs.upper)
        assert Fraction(signs.lower) <= truth
        equal = definition(metropolis_weights("complete:n=4"), view, target, 5).scalar_maximum()
        assert truth > 1.5 * equal
        assert truth <= Fraction(measured(weights, view, target, 5, engine=engine).upper)


@pytest.mark.parametrize("size", [1e-4, 1e-8, 1e-12, 2.0**-50])
def test_nearly_dependent_rows_of_a_custom_view_are_told_apart(size: float) -> None:
    weights = metropolis_weights("path:n=4")
    rows = [[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0 + size]]
    view = View(observation=rows)
    truth = definition(weights, view, 3, 5).scalar_maximum()
    found = measured(weights, view, 3, 5, contribution="scalar")
    assert truth <= Fraction(found.upper)
    assert Fraction(found.lower) <= truth


def test_tolerances_on_noise_would_hide_what_is_certain() -> None:
    # A slow row: rounds later its noise is tiny next to the first, yet every round tells something.
    weights = matrix_weights([[1 - 2.0**-20, 2.0**-20], [2.0**-20, 1 - 2.0**-20]])
    view = View.secure_sum(0)
    truth = definition(weights, view, 1, 8).scalar_maximum()
    found = measured(weights, view, 1, 8, contribution="scalar")
    assert truth <= Fraction(found.upper)
    # One unknown node behind a nonzero weight: its messages are known exactly.
    assert truth == 8


def test_vectors_exceed_signs_on_a_ring() -> None:
    weights = metropolis_weights("ring:n=100")
    view = View.single_node(0, own_noise="hidden")
    vectors = measured(weights, view, 1, 100)
    form = form_of(weights, view, 1, 100)
    signs = sensitivity(gossip(weights, rounds=100), view, [1], contribution="scalar")[1]
    assert float(signs.witness @ form @ signs.witness) < 0.97 * vectors.lower
