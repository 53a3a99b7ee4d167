# SPDX-License-Identifier: Apache-2.0
"""Values that are known from elsewhere: closed forms, exact linear loops, and a reference solver."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from sottovoce import View, graphs
from sottovoce.feedback import TrainingView, training, training_sensitivity
from sottovoce.feedback.barrier import minimise
from sottovoce.feedback.chains import proved, recurring_step, round_by_round, setting, steps_of
from sottovoce.feedback.closed import cap, memory_one, twins
from sottovoce.feedback.pairs import first_bounds
from sottovoce.feedback.phases import Phase, Rows


def case_of(
    graph: object, updates: Any, *, rounds: int = 1, view: View | None = None, **options: Any
) -> TrainingView:
    weights = graphs.metropolis_weights(graph)
    return training(weights, view or View.secure_sum(0), rounds=rounds, updates=updates, **options)


def rate(case: TrainingView, target: int, gap: float = 1e-6) -> float:
    """The proved charge of one round."""
    place, solution = recurring_step(case, case.loop.position(target), gap=gap)
    found = proved(place, recurring=steps_of(place, solution, last=False))
    assert found is not None
    return found.squared_upper / case.count


@pytest.mark.parametrize(
    ("updates", "exact"),
    [((0, 1), 9 / 10), ((0.5, 1), 4 / 5), ((0.9, 1), 36 / 61), ((-1, 1), 25 / 26), ((0.9, 1.1), 9 / 13)],
)
def test_star_of_three(updates: Any, exact: float) -> None:
    assert exact <= rate(case_of("star:n=3", updates), 1) <= exact * (1 + 1e-6)


@pytest.mark.parametrize(("graph", "exact"), [("star:n=5", 25 / 28), ("star:n=9", 81 / 88)])
def test_larger_stars(graph: str, exact: float) -> None:
    assert exact <= rate(case_of(graph, (0, 1)), 1) <= exact * (1 + 1e-6)


@pytest.mark.parametrize(
    ("updates", "value"),
    [((0.99, 1), 0.50237), ((0.9, 1), 0.52419), ((0.5, 1), 0.61039), ((0, 1), 0.68127), ((-1, 1), 0.74469)],
)
def test_neighbour_on_a_ring(updates: Any, value: float) -> None:
    assert rate(case_of("ring:n=12", updates), 1) == pytest.approx(value, abs=1e-5)


@pytest.mark.parametrize(
    ("graph", "rounds", "value"),
    [
        ("star:n=3", 2, 1.3),
        ("star:n=3", 3, 2.17327),
        ("star:n=3", 6, 4.86272),
        ("star:n=9", 6, 3.39363),
    ],
)
def test_a_step_for_each_round_on_stars(graph: str, rounds: int, value: float) -> None:
    found = round_by_round(setting(case_of(graph, (0, 1), rounds=rounds), 0), np.ones(rounds), gap=1e-7)
    assert found is not None
    assert found.squared_upper == pytest.approx(value, rel=2e-6)


@pytest.mark.parametrize(("rounds", "value"), [(5, 4.892008), (20, 14.880876)])
def test_one_node_that_releases_its_last_model(rounds: int, value: float) -> None:
    """The strongly convex theorem of Bok, Su & Altschuler (2024): Π is free before the last round and 0 in it."""
    rows = Rows.grouped(np.array([[1.0, 0.45, 1.0]]), np.array([[0.0, 0.45, 0.0]]), [np.array([0])])
    chain = [Phase(previous=t - 1 if t else None, weight=1.0) for t in range(rounds - 1)]
    chain.append(Phase(previous=rounds - 2, weight=1.0, given=np.zeros((1, 1))))
    solution = minimise(rows, chain, gap=1e-8)
    assert float((1 / solution.kappas).sum()) == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("n", [3, 6, 11])
@pytest.mark.parametrize("updates", ["any", (0, 1), (-3, 3)])
def test_complete_graph(n: int, updates: Any) -> None:
    found = training_sensitivity(
        graphs.metropolis_weights(f"complete:n={n}"),
        View.secure_sum(0),
        1,
        rounds=7,
        updates=updates,
        effort="quick",
    )
    assert found.squared.upper == pytest.approx(7 / (n - 1), rel=1e-9)
    assert found.squared.lower == pytest.approx(7 / (n - 1), rel=1e-6)
    assert (found.method, found.assumption) == ("twins", "none")


def test_blow_up_of_a_ring_needs_no_smoothness() -> None:
    for size, clique in ((4, 3), (20, 5)):
        graph = nx.lexicographic_product(nx.cycle_graph(size), nx.complete_graph(clique))
        case = case_of(nx.convert_node_labels_to_integers(graph), "any")
        inside, elsewhere = twins(case, 0), twins(case, 2 * clique)
        assert inside is not None
        assert elsewhere is not None
        assert inside.squared_upper == pytest.approx(1 / (clique - 1), rel=1e-9)
        assert elsewhere.squared_upper == pytest.approx(1 / clique, rel=1e-9)


def test_more_noise_at_a_twin_hides_more() -> None:
    levels = np.array([1.0, 1.0, 2.0, 3.0, 1.0, 1.0])
    found = twins(case_of("complete:n=6", "any", noise_levels=levels), 1)
    assert found is not None
    assert found.squared_upper == pytest.approx(1 / levels[1:].sum(), rel=1e-9)


def test_no_twins_no_gain() -> None:
    assert twins(case_of("path:n=5", "any"), 1) is None
    found = training_sensitivity(
        graphs.metropolis_weights("path:n=5"), View.secure_sum(0), 1, rounds=4, updates="any"
    )
    assert found.method == "cap"
    assert found.squared.upper == pytest.approx(4, rel=1e-12)


@pytest.mark.parametrize(("reach", "value"), [(0.5, 0.6658), (1.0, 0.7447), (1.5, 0.7715), (3.0, 0.8125)])
def test_one_round_of_memory_on_a_ring(reach: float, value: float) -> None:
    case = case_of("ring:n=12", (-reach, reach))
    assert memory_one(case, 0).squared_upper == pytest.approx(value, abs=6e-5)
    assert rate(case, 1) == pytest.approx(value, abs=6e-5)


def test_one_round_of_memory_on_a_star() -> None:
    assert memory_one(case_of("star:n=5", (-1, 1)), 0).squared_upper == pytest.approx(27 / 28, rel=1e-7)


def test_bounds_of_all_targets_at_once_are_bounds() -> None:
    case = case_of("torus:rows=4,cols=4", (0, 1), rounds=9)
    found, method = first_bounds(case, np.arange(15))
    assert set(method) == {"memory-one"}
    for target in (0, 3, 7, 14):
        assert memory_one(case, target).squared_upper <= found[target] * (1 + 1e-9)
        assert found[target] <= cap(case, target).squared_upper


def test_everyone_sees_everything() -> None:
    case = case_of("ring:n=5", (0, 1), rounds=9, view=View.everyone)
    assert cap(case, 2).squared_upper == pytest.approx(9, rel=1e-12)
    found = training_sensitivity(
        graphs.metropolis_weights("ring:n=5"), View.everyone, 2, rounds=9, updates=(0, 1)
    )
    assert found.squared.upper == pytest.approx(9, rel=1e-12)
    assert found.squared.lower == pytest.approx(9, rel=1e-6)


@pytest.mark.parametrize(
    ("view", "gentle", "rough"),
    [(View.secure_sum(0), 0.279, 0.374), (View.single_node(0, own_noise="hidden"), 0.107, 0.121)],
)
def test_views_of_a_regular_graph_are_of_the_expected_size(view: View, gentle: float, rough: float) -> None:
    """Another random graph than the one these numbers were measured on, so only their size is compared."""
    weights = graphs.metropolis_weights("random-regular:n=12,d=4,seed=3")
    near = int(weights.neighbours(0)[-1])
    for updates, value in (((0.9, 1), gentle), ((0, 1), rough)):
        case = training(weights, view, rounds=1000, updates=updates)
        assert rate(case, near, gap=1e-4) == pytest.approx(value, rel=0.25)


def test_reference_solver_agrees() -> None:
    cvxpy = pytest.importorskip("cvxpy")
    for graph, updates, target in (
        ("ring:n=6", (0.5, 1), 1),
        ("path:n=5", (0, 1), 2),
        ("star:n=4", (-1, 1), 1),
    ):
        case = case_of(graph, updates)
        A, C, m = case.loop.transition.toarray(), case.rows.toarray(), case.loop.unknown.size
        place = case.loop.position(target)
        assert case.slopes is not None
        c, r = np.diag(case.slopes.centre[case.loop.unknown]), np.diag(case.slopes.radius[case.loop.unknown])
        basis = np.linalg.svd(C)[2][len(C) :].T
        P = cvxpy.Variable((basis.shape[1], basis.shape[1]), PSD=True)
        beta, kappa = cvxpy.Variable(m, nonneg=True), cvxpy.Variable()
        Pi = basis @ P @ basis.T
        X = A @ Pi @ A.T
        b = np.eye(m)[:, [place]]
        F = cvxpy.bmat(
            [
                [np.eye(m) + Pi - cvxpy.diag(beta) - kappa * (b @ b.T) - c @ X @ c, -c @ X @ r],
                [-r @ X @ c, cvxpy.diag(beta) - r @ X @ r],
            ]
        )
        problem = cvxpy.Problem(cvxpy.Maximize(kappa), [(F + F.T) / 2 >> 0])
        problem.solve(solver="CLARABEL")
        assert rate(case, target) == pytest.approx(1 / float(kappa.value), rel=2e-5)
