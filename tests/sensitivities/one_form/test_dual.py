# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.profiles import examples
from tests.reference import semidefinite_maximum

from sottovoce import View, graphs, sensitivity
from sottovoce.protocols import gradient_tracking
from sottovoce.sensitivities.one_form import dual
from sottovoce.sensitivities.one_form.dual import is_dominated, solve_dual, solve_duals


def random_form(seed: int, rounds: int, rank: int, zeros: int = 0) -> np.ndarray:
    """A positive semidefinite form whose last `zeros` rows and columns are 0."""
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((rank, rounds)) * 10.0 ** rng.integers(-3, 3, rounds)
    if zeros:
        factor[:, -zeros:] = 0
    form = factor.T @ factor
    return np.asarray((form + form.T) / 2)


def toeplitz_form(rounds: int, turn: float = 2.0) -> np.ndarray:
    """What a slowly fading oscillation gives: entries of both signs."""
    lag = np.abs(np.subtract.outer(np.arange(rounds), np.arange(rounds)))
    return np.asarray(0.9**lag * np.cos(turn * lag))


def is_semidefinite(form: np.ndarray, y: np.ndarray) -> bool:
    """Whether diag(y) − M ⪰ 0, decided in rationals."""
    rest = [[Fraction(-float(x)) for x in row] for row in form]
    for t, value in enumerate(y):
        rest[t][t] += Fraction(float(value))
    active = list(range(len(rest)))
    while active:
        k = active.pop(0)
        pivot = rest[k][k]
        if pivot < 0 or (pivot == 0 and any(rest[k][j] for j in active)):
            return False
        if pivot:
            for i in active:
                factor = rest[i][k] / pivot
                for j in active:
                    rest[i][j] -= factor * rest[k][j]
    return True


sizes = st.integers(1, 7)
seeds = st.integers(0, 2**32 - 1)


@examples(60)
@given(seeds, sizes, sizes, st.integers(0, 2), st.sampled_from([0.5, 1 - 1e-3, 1 - 1e-6, 1 - 1e-12]))
def test_a_scaled_down_boundary_is_never_accepted(
    seed: int, rounds: int, rank: int, zeros: int, share: float
) -> None:
    form = random_form(seed, rounds, rank, min(zeros, rounds - 1))
    # diag(y) − M is singular at y = λ·d for the largest generalised eigenvalue λ of (M, diag(d)).
    d = np.random.default_rng(seed + 1).uniform(0.1, 2.0, rounds)
    scaled = form / np.sqrt(np.outer(d, d))
    boundary = np.linalg.eigvalsh(scaled)[-1] * d
    assert not is_dominated(form, share * boundary * (1 - 1e-13))


@examples(60)
@given(seeds, sizes, sizes, st.floats(-1e-13, 1e-13))
def test_what_is_accepted_is_positive_semidefinite_in_rationals(
    seed: int, rounds: int, rank: int, nudge: float
) -> None:
    form = random_form(seed, rounds, rank)
    y = np.linalg.eigvalsh(form)[-1] * (1 + nudge) * np.ones(rounds)
    if is_dominated(form, y):
        assert is_semidefinite(form, y)
    comfortable = y * (1 + 1e-9)
    assert is_dominated(form, comfortable)
    assert is_semidefinite(form, comfortable)


@examples(60)
@given(seeds, sizes, sizes)
def test_row_sums_with_a_little_room_are_accepted(seed: int, rounds: int, rank: int) -> None:
    form = random_form(seed, rounds, rank)
    sums = np.abs(form).sum(axis=1)
    assert is_dominated(form, sums + 1e-9 * sums.sum())


def test_rows_of_0_need_no_y() -> None:
    form = random_form(3, 6, 3, zeros=2)
    y = np.abs(form).sum(axis=1) + np.where(np.arange(6) < 4, 1e-6, 0.0)
    assert y[4:].tolist() == [0, 0]
    assert is_dominated(form, y)
    assert is_dominated(np.zeros((3, 3)), np.zeros(3))


def test_a_row_that_is_not_0_needs_some() -> None:
    form = np.diag([1.0, 1e-9, 0.0])
    assert not is_dominated(form, np.array([2.0, 0.0, 0.0]))
    assert is_dominated(form, np.array([2.0, 1.0, 0.0]))


@pytest.mark.parametrize("wrong", [-1e-300, -1.0, np.nan, np.inf])
def test_a_y_that_is_negative_or_no_number_is_refused(wrong: float) -> None:
    assert not is_dominated(np.zeros((2, 2)), np.array([1.0, wrong]))
    assert not is_dominated(0.1 * np.eye(2), np.array([1.0, wrong]))


@pytest.mark.parametrize("place", [(0, 0), (3, 1), (5, 5), (5, 0)])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_form_that_is_no_number_somewhere_is_dominated_by_nothing(
    place: tuple[int, int], wrong: float
) -> None:
    form = np.eye(6)
    form[place] = form[place[::-1]] = wrong
    assert not is_dominated(form, np.full(6, 5.0))


def test_forms_are_solved_together_as_they_are_one_by_one() -> None:
    rng = np.random.default_rng(5)
    roots = rng.standard_normal((4, 30, 30))
    roots[2, :, 7] = 0.0
    forms = roots.transpose(0, 2, 1) @ roots
    for form, solution in zip(forms, solve_duals(forms, tolerance=1e-3), strict=True):
        alone = solve_dual(form, tolerance=1e-3)
        assert solution.y is not None
        assert alone.y is not None
        assert solution.bound == pytest.approx(alone.bound, rel=1e-3)
        assert is_dominated(form, solution.y)
    assert solve_duals(forms, tolerance=1e-3)[2].y[7] == 0  # type: ignore[index]


@pytest.mark.parametrize("rounds", [1, 2, 8, 60])
@pytest.mark.parametrize("turn", [0.0, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-4])
def test_primal_and_dual_meet_within_the_tolerance(rounds: int, turn: float, tolerance: float) -> None:
    form = toeplitz_form(rounds, turn)
    solution = solve_dual(form, tolerance=tolerance)
    assert solution.y is not None
    assert is_dominated(form, solution.y)
    assert solution.attained <= solution.bound <= solution.attained * (1 + tolerance) * (1 + 1e-12)
    assert np.allclose(np.linalg.norm(solution.streams, axis=1), 1.0, atol=1e-14)
    assert solution.attained == pytest.approx(
        float(np.sum(solution.streams * (form @ solution.streams))), rel=1e-12
    )


@pytest.mark.parametrize("form", [toeplitz_form(9), toeplitz_form(12, 1.3), random_form(4, 7, 5, zeros=2)])
def test_the_semidefinite_maximum_lies_between_them(form: np.ndarray) -> None:
    solution = solve_dual(form, tolerance=1e-5)
    value = semidefinite_maximum(form / np.abs(form).max()) * np.abs(form).max()
    assert solution.attained <= value * (1 + 1e-6)
    assert value <= solution.bound * (1 + 1e-6)
    assert solution.bound <= value * (1 + 2e-5)


@examples(60)
@given(seeds, st.integers(2, 7), sizes)
def test_any_form_gets_a_proved_bound_or_none(seed: int, rounds: int, rank: int) -> None:
    form = random_form(seed, rounds, rank)
    solution = solve_dual(form, tolerance=1e-3)
    assert solution.attained <= np.abs(form).sum() * (1 + 1e-12)
    if solution.y is None:
        assert solution.bound == np.inf
    else:
        assert is_semidefinite(form, solution.y)
        assert Fraction(solution.bound) >= sum(map(Fraction, solution.y.tolist()), Fraction(0))


def test_a_form_of_0_has_bound_0_or_none() -> None:
    solution = solve_dual(np.zeros((4, 4)), tolerance=1e-3)
    assert solution.attained == 0.0
    assert solution.y is None or solution.bound < 1e-300


def test_rounds_that_are_not_reached_do_not_spoil_the_solution() -> None:
    form = np.zeros((12, 12))
    form[:9, :9] = toeplitz_form(9)
    plain, padded = solve_dual(toeplitz_form(9), tolerance=1e-5), solve_dual(form, tolerance=1e-5)
    assert padded.y is not None
    assert padded.y[9:].tolist() == [0, 0, 0]
    assert padded.bound == pytest.approx(plain.bound, rel=3e-5)


@pytest.mark.parametrize("start", ["the best of a form much the same", "one direction alone"])
def test_a_start_changes_no_proof(start: str) -> None:
    """Ends hold wherever the search begins, also where it begins as badly as can be."""
    form = toeplitz_form(60, 2.2)
    streams = solve_dual(toeplitz_form(60, 2.25), tolerance=1e-3).streams
    if start == "one direction alone":
        streams = np.zeros_like(streams)
        streams[:, 0] = 1.0
    cold, warm = solve_dual(form, tolerance=1e-3), solve_dual(form, tolerance=1e-3, start=streams)
    assert warm.y is not None
    assert is_dominated(form, warm.y)
    assert warm.attained <= cold.bound
    assert cold.attained <= warm.bound


def test_forms_that_are_solved_together_are_each_solved_and_proved() -> None:
    forms = np.array([toeplitz_form(40, turn) for turn in (0.3, 1.0, 2.0, 3.0)])
    forms[3] += random_form(5, 40, 3) / 1e6
    together = solve_duals(forms, tolerance=1e-4)
    for form, solution in zip(forms, together, strict=True):
        alone = solve_dual(form, tolerance=1e-4)
        assert solution.y is not None
        assert is_dominated(form, solution.y)
        assert solution.attained <= alone.bound
        assert alone.attained <= solution.bound
        assert solution.bound <= 1.0002 * solution.attained
        assert np.allclose(np.linalg.norm(solution.streams, axis=1), 1.0)


@pytest.mark.parametrize("few", [4, 1], ids=["one stack", "stacks that are joined"])
@pytest.mark.parametrize("scale", [1.0, 1e60, 1e-60])
def test_vectors_that_are_looked_for_in_single_floats_prove_what_they_say(
    monkeypatch: pytest.MonkeyPatch, few: int, scale: float
) -> None:
    """Values and proofs are those of double floats, whatever was found in single ones, and so are norms of rows."""
    monkeypatch.setattr(dual, "TOGETHER", few * 40**2)
    forms = scale * np.array([toeplitz_form(40, turn) for turn in (0.3, 1.0, 2.0, 3.0)])
    forms[3] += scale * random_form(5, 40, 3, zeros=2) / 1e6
    closely = solve_duals(forms, tolerance=1e-4)
    for form, one, other in zip(
        forms, solve_duals(forms, tolerance=1e-4, roughly=True), closely, strict=True
    ):
        assert one.y is not None
        assert is_dominated(form, one.y)
        assert other.attained <= one.bound <= 1.0002 * one.attained
        assert one.attained <= other.bound
        assert one.attained == pytest.approx(np.sum((form @ one.streams) * one.streams), rel=1e-12)
        assert np.abs(np.linalg.norm(one.streams, axis=1) - 1).max() < 1e-15


@pytest.mark.parametrize(
    ("tolerance", "iterations"), [(1e-4, 16), (1e-6, 400)], ids=["too few iterations", "too close for them"]
)
def test_what_single_floats_do_not_find_double_ones_do(
    monkeypatch: pytest.MonkeyPatch, tolerance: float, iterations: int
) -> None:
    monkeypatch.setattr(dual, "ROUGHLY", iterations)
    monkeypatch.setattr(dual, "CHECKS", ())
    forms = np.array([toeplitz_form(30, turn) + random_form(7, 30, 4) for turn in (1.0, 2.0)])
    for form, one in zip(forms, solve_duals(forms, tolerance=tolerance, roughly=True), strict=True):
        alone = solve_dual(form, tolerance=tolerance)
        assert one.y is not None
        assert alone.y is not None
        assert (one.streams == alone.streams).all()
        assert (one.y == alone.y).all()


def test_a_form_whose_symbol_misleads_is_solved_as_closely() -> None:
    """The middle of M is even where gradients are tracked, and its least eigenvalue far below what its symbol says."""
    weights = graphs.metropolis_weights("erdos-renyi:n=100,p=0.15,seed=1")
    found = sensitivity(gradient_tracking(weights, rounds=100), View.secure_sum(0))
    assert (found.squared_upper <= found.squared_lower * (1 + 3e-4)).all()
