# SPDX-License-Identifier: Apache-2.0
"""Section 3 as printed, against exact rationals and against the product, which share nothing with it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.reference import definition

from sottovoce import theory
from sottovoce.errors import InputError
from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import gossip
from sottovoce.sensitivities import sensitivity
from sottovoce.views import View

CASES = [
    ("path:n=4", View.single_node(1, own_noise="hidden"), np.eye(4)[[1]], (), 0),
    ("ring:n=5", View.single_node(0), np.eye(5)[[0]], (0,), 1),
    ("star:n=4", View.neighbourhood(0, own_noise="hidden"), np.eye(4), (), 2),
    ("florentine", View.single_node("Medici", own_noise="hidden"), None, (), 3),
]


@pytest.mark.parametrize(("name", "view", "rows", "known", "target"), CASES[:3])
def test_the_form_is_that_of_exact_arithmetic(
    name: str, view: View, rows: np.ndarray, known: tuple[int, ...], target: int
) -> None:
    weights = metropolis_weights(name)
    exact = definition(weights, view, target, 5)
    form = theory.quadratic_form(weights, rows, target, 5, known=known)
    assert np.abs(form - exact.floats).max() < 1e-12
    assert theory.largest_over_signs(form) == pytest.approx(float(exact.scalar_maximum()), rel=1e-12)


@pytest.mark.parametrize(("name", "view", "rows", "known", "target"), CASES)
def test_the_product_agrees_though_it_shares_nothing(
    name: str, view: View, rows: np.ndarray | None, known: tuple[int, ...], target: int
) -> None:
    weights = metropolis_weights(name)
    seen = np.eye(weights.n)[[weights.index("Medici")]] if rows is None else rows
    form = theory.quadratic_form(weights, seen, target, 10, known=known)
    label = weights.labels[target]
    protocol = gossip(weights, rounds=10)
    signs = sensitivity(protocol, view, [label], contribution="scalar")[label].squared
    assert signs.lower - 1e-9 <= theory.largest_over_signs(form) <= signs.upper + 1e-9
    vectors = sensitivity(protocol, view, [label])[label].squared
    assert theory.constant_value(form) <= vectors.upper * (1 + 1e-12)
    assert vectors.upper <= min(theory.absolute_bound(form), theory.spectral_bound(form)) * (1 + 1e-9)


def test_bounds_stand_in_their_order() -> None:
    form = theory.quadratic_form(metropolis_weights("path:n=4"), np.eye(4)[[1]], 1, 16)
    exact = theory.largest_over_signs(form)
    assert theory.constant_value(form) < exact < min(theory.absolute_bound(form), theory.spectral_bound(form))


def test_the_system_matrix_is_powers_of_w() -> None:
    weights = metropolis_weights("path:n=3")
    W, S = weights.matrix.toarray(), np.eye(3)[:2]
    H = theory.system_matrix(weights, S, 4)
    assert H.shape == (8, 12)
    assert np.allclose(H[6:8, 0:3], S @ np.linalg.matrix_power(W, 3))
    assert np.abs(H[0:2, 3:]).max() == 0


def test_too_many_rounds_and_known_targets_are_refused() -> None:
    with pytest.raises(
        InputError, match=r"all signs of at most 16 rounds can be tried; got 17 \(use sottovoce"
    ):
        theory.largest_over_signs(np.eye(17))
    with pytest.raises(InputError, match="node 1 cannot be a target: its noise is known"):
        theory.quadratic_form(np.full((2, 2), 0.5), [[1, 0]], 1, 2, known=[1])
