# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import semidefinite_maximum

from sottovoce.sensitivities.one_form.dual import is_dominated, solve_dual
from sottovoce.sensitivities.one_form.solution import plain_ends, solve_form
from sottovoce.sensitivities.one_form.witnesses import ENUMERABLE, value_of


def random_form(seed: int, rounds: int, rank: int) -> np.ndarray:
    factor = np.random.default_rng(seed).standard_normal((rank, rounds))
    return np.asarray(factor.T @ factor)


forms = st.builds(random_form, st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(1, 6))


def best_of_all(form: np.ndarray) -> float:
    signs = np.array(list(itertools.product((1.0, -1.0), repeat=len(form))))
    return float(np.einsum("ks,st,kt->k", signs, form, signs).max())


@given(forms)
def test_signs_are_solved_exactly_in_few_rounds(form: np.ndarray) -> None:
    solution = solve_form(form, contribution="scalar", tolerance=1e-3)
    best = best_of_all(form)
    assert solution.attained <= best * (1 + 1e-12)
    assert best <= solution.bound * (1 + 1e-15)
    assert solution.bound <= solution.attained * (1 + 1e-8)
    assert solution.method in {"abs", "enumeration"}


@given(forms)
def test_vectors_reach_at_least_what_signs_reach(form: np.ndarray) -> None:
    solution = solve_form(form, contribution="vector", tolerance=1e-3)
    assert best_of_all(form) <= solution.bound * (1 + 1e-12)
    assert solution.attained <= solution.bound
    assert value_of(form, solution.witness) == pytest.approx(solution.attained, rel=1e-12)
    assert np.linalg.norm(solution.witness.reshape(len(form), -1), axis=1).max() <= 1 + 1e-12


@given(forms)
def test_the_y_behind_a_bound_proves_it(form: np.ndarray) -> None:
    solution = solve_form(form, contribution="vector", tolerance=1e-3)
    assert solution.y is not None
    assert solution.y.sum() <= solution.bound
    assert is_dominated(form, solution.y * (1 + 1e-9) + 1e-12 * solution.bound)


@pytest.mark.parametrize("seed", range(5))
def test_the_vector_interval_holds_the_semidefinite_maximum(seed: int) -> None:
    form = random_form(seed, 8, 4)
    solution = solve_form(form, contribution="vector", tolerance=1e-4)
    value = semidefinite_maximum(form)
    assert solution.attained <= value * (1 + 1e-6)
    assert value <= solution.bound * (1 + 1e-6)


def test_vectors_can_do_strictly_better_than_signs() -> None:
    angles = 2 * np.pi / 3 * np.arange(3)
    form = 1 + np.cos(np.subtract.outer(angles, angles)) - 1
    signs = solve_form(form, contribution="scalar", tolerance=1e-4)
    vectors = solve_form(form, contribution="vector", tolerance=1e-4)
    assert signs.bound == pytest.approx(4.0)
    assert vectors.attained == pytest.approx(4.5, rel=1e-3)


def test_beyond_enumeration_signs_are_bounded_by_the_vector_bound() -> None:
    form = random_form(0, ENUMERABLE + 4, 6)
    solution = solve_form(form, contribution="scalar", tolerance=1e-4)
    vectors = solve_form(form, contribution="vector", tolerance=1e-4)
    assert solution.method == "dual"
    assert solution.bound == vectors.bound
    assert np.isin(solution.witness, (-1.0, 1.0)).all()
    assert solution.attained <= vectors.bound


@pytest.mark.parametrize("contribution", ["scalar", "vector"])
def test_a_form_without_negative_entries_is_exact_at_constant_signs(contribution: str) -> None:
    form = np.abs(random_form(2, 30, 5))
    solution = solve_form(form, contribution=contribution, tolerance=1e-3)  # type: ignore[arg-type]
    assert solution.method == "abs"
    assert (solution.witness == 1).all()
    assert solution.attained == pytest.approx(form.sum(), rel=1e-12)
    assert solution.bound == pytest.approx(form.sum(), rel=1e-12)


@given(st.integers(0, 2**32 - 1))
def test_plain_ends_of_a_stack_hold_for_each_form(seed: int) -> None:
    stack = np.stack([random_form(seed + k, 6, 4) for k in range(3)])
    attained, bound = plain_ends(stack)
    alternating = (-1.0) ** np.arange(6)
    for form, low, high in zip(stack, attained, bound, strict=True):
        assert low == pytest.approx(max(form.sum(), alternating @ form @ alternating), rel=1e-12)
        assert high == pytest.approx(np.abs(form).sum(), rel=1e-12)
        assert best_of_all(form) <= high * (1 + 1e-12)


@pytest.mark.parametrize("rounds", [30, 60])
def test_a_search_that_proves_nothing_leaves_what_the_largest_eigenvalue_proves(rounds: int) -> None:
    form = random_form(rounds, rounds, rounds)
    dual = solve_dual(form, tolerance=1e-6)
    found = solve_form(form, contribution="vector", tolerance=1e-6, dual=replace(dual, y=None))
    assert found.method == "spectral"
    assert found.y is not None
    assert is_dominated(form, found.y)
    assert dual.attained <= found.bound
    assert found.bound == pytest.approx(rounds * np.linalg.eigvalsh(form)[-1], rel=1e-9)
