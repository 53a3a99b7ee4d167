# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import semidefinite_maximum

from sottovoce.sensitivities import absolute_bound, spectral_bound


def random_form(seed: int, rounds: int, rank: int) -> np.ndarray:
    factor = np.random.default_rng(seed).standard_normal((rank, rounds))
    return np.asarray(factor.T @ factor)


forms = st.builds(random_form, st.integers(0, 2**32 - 1), st.integers(1, 7), st.integers(1, 7))


@given(forms)
def test_no_stream_of_signs_exceeds_either_bound(form: np.ndarray) -> None:
    best = max(
        float(np.array(c) @ form @ np.array(c)) for c in itertools.product((1.0, -1.0), repeat=len(form))
    )
    assert best <= absolute_bound(form) * (1 + 1e-12)
    assert best <= spectral_bound(form) * (1 + 1e-12)


@given(forms, st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_no_stream_of_vectors_exceeds_either_bound(form: np.ndarray, seed: int, dimension: int) -> None:
    c = np.random.default_rng(seed).standard_normal((len(form), dimension))
    c /= np.linalg.norm(c, axis=1, keepdims=True)
    value = float(np.sum(c * (form @ c)))
    assert value <= absolute_bound(form) * (1 + 1e-12)
    assert value <= spectral_bound(form) * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_both_lie_above_the_semidefinite_maximum(seed: int) -> None:
    form = random_form(seed, 6, 3)
    value = semidefinite_maximum(form)
    assert value <= absolute_bound(form) * (1 + 1e-6)
    assert value <= spectral_bound(form) * (1 + 1e-6)


@given(forms)
def test_the_absolute_bound_is_attained_where_no_entry_is_negative(form: np.ndarray) -> None:
    positive = np.abs(form)
    assert absolute_bound(positive) == pytest.approx(float(positive.sum()), rel=1e-14)


def test_the_spectral_bound_is_exact_for_a_multiple_of_the_identity() -> None:
    assert spectral_bound(3 * np.eye(5)) == pytest.approx(15.0, rel=1e-13)
    assert spectral_bound(3 * np.eye(5)) >= 15.0


def test_each_of_the_two_can_be_the_smaller_one() -> None:
    flat, spiked = np.eye(4) - 0.25, np.diag([1.0, 0.0, 0.0, 0.0])
    assert spectral_bound(flat) < absolute_bound(flat)
    assert absolute_bound(spiked) < spectral_bound(spiked)


def test_stacks_are_bounded_one_by_one() -> None:
    stack = np.stack([random_form(seed, 5, 5) for seed in range(3)])
    assert absolute_bound(stack).tolist() == [float(absolute_bound(form)) for form in stack]
    assert np.allclose(spectral_bound(stack), [spectral_bound(form) for form in stack], rtol=1e-13)
