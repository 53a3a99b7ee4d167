# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import CASES, definition, graph_of, named_view

from sottovoce.graphs import metropolis_weights
from sottovoce.sensitivities.one_form.dual import solve_dual
from sottovoce.sensitivities.one_form.witnesses import (
    all_signs,
    alternating_signs,
    best_signs,
    constant_signs,
    enumerated_signs,
    flip_signs,
    rounded_signs,
    spectral_signs,
    value_of,
)


def random_form(seed: int, rounds: int, rank: int) -> np.ndarray:
    factor = np.random.default_rng(seed).standard_normal((rank, rounds))
    return np.asarray(factor.T @ factor)


forms = st.builds(random_form, st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 7))


def best_of_all(form: np.ndarray) -> float:
    signs = np.array(list(itertools.product((1.0, -1.0), repeat=len(form))))
    return float(np.einsum("ks,st,kt->k", signs, form, signs).max())


def are_signs(stream: np.ndarray) -> bool:
    return bool(np.isin(stream, (-1.0, 1.0)).all())


def test_the_value_of_vectors_is_the_sum_over_their_coordinates() -> None:
    form = random_form(0, 6, 4)
    c = np.random.default_rng(1).standard_normal((6, 3))
    assert value_of(form, c) == pytest.approx(sum(value_of(form, c[:, k]) for k in range(3)))
    assert value_of(form, c[:, 0]) == pytest.approx(float(c[:, 0] @ form @ c[:, 0]))


def test_plain_streams() -> None:
    assert constant_signs(3).tolist() == [1, 1, 1]
    assert alternating_signs(4).tolist() == [1, -1, 1, -1]
    assert alternating_signs(1).tolist() == [1]


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_all_signs_are_all_and_each_once(count: int) -> None:
    found = {tuple(row) for row in all_signs(count)}
    assert all_signs(count).shape == (2**count, count)
    assert found == set(itertools.product((1.0, -1.0), repeat=count))


@given(forms)
def test_enumeration_finds_the_maximum(form: np.ndarray) -> None:
    signs = enumerated_signs(form)
    assert are_signs(signs)
    assert value_of(form, signs) == pytest.approx(best_of_all(form), rel=1e-12)


@given(forms)
def test_the_best_signs_are_signs_and_no_better_than_the_maximum(form: np.ndarray) -> None:
    signs = best_signs(form)
    value = value_of(form, signs)
    assert are_signs(signs)
    assert value <= best_of_all(form) * (1 + 1e-12)
    for start in (constant_signs(len(form)), alternating_signs(len(form)), spectral_signs(form)):
        assert value >= value_of(form, start) * (1 - 1e-12)


@given(forms, st.integers(0, 2**32 - 1))
def test_after_flipping_no_single_flip_helps(form: np.ndarray, seed: int) -> None:
    start = np.where(np.random.default_rng(seed).random(len(form)) < 0.5, -1.0, 1.0)
    before = start.copy()
    found = flip_signs(form, start)
    value = value_of(form, found)
    assert (start == before).all()
    assert value >= value_of(form, start) * (1 - 1e-12)
    for t in range(len(form)):
        flipped = found.copy()
        flipped[t] = -flipped[t]
        assert value_of(form, flipped) <= value * (1 + 1e-9) + 1e-9


@given(forms)
def test_rounded_vectors_are_signs(form: np.ndarray) -> None:
    streams = solve_dual(form, tolerance=1e-3).streams
    rounded = rounded_signs(streams)
    assert rounded.shape[1] == len(form)
    assert are_signs(rounded)
    assert value_of(form, best_signs(form, streams)) >= max(value_of(form, c) for c in rounded) * (1 - 1e-12)


def test_signs_of_one_dimensional_vectors_are_kept() -> None:
    streams = np.array([[1.0], [-1.0], [1.0]])
    assert {tuple(abs(row[0] * row)) for row in rounded_signs(streams)} == {(1, 1, 1)}
    assert (np.abs(rounded_signs(streams) @ streams) == 3).all()


def test_spectral_signs_follow_the_largest_eigenvector() -> None:
    c = np.array([1.0, -1.0, -1.0, 1.0, 1.0])
    signs = spectral_signs(np.outer(c, c) + 0.01 * np.eye(5))
    assert abs(float(signs @ c)) == 5


@pytest.mark.parametrize("case", CASES[::7], ids=lambda case: f"{case['graph']}-{case['threat']}")
def test_enumeration_finds_the_stored_maximum(case: dict[str, Any]) -> None:
    form = definition(metropolis_weights(graph_of(case)), named_view(case), case["target"], case["T"]).floats
    assert value_of(form, enumerated_signs(form)) == pytest.approx(case["sens_sq_scalar"], rel=1e-9)
