# SPDX-License-Identifier: Apache-2.0
"""What errors of a form are in proportion to: sizes where signs cancel, and columns that are not rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.test_reduction import _hidden

from sottovoce.graphs import matrix_weights, metropolis_weights
from sottovoce.verification.forms import _longest_column, _power_norms, seen_blocks
from sottovoce.views import View

if TYPE_CHECKING:
    from sottovoce.graphs import GossipWeights

ROUNDS = 6


def heard_by_all(n: int) -> GossipWeights:
    """A ring in one direction in which all hear node 1 as well: its column is long, and all rows are short."""
    W = (np.eye(n) + np.roll(np.eye(n), 1, axis=0)) / 4
    W[:, 1] += 0.5
    return matrix_weights(W)


def test_sizes_do_not_cancel_where_signs_do() -> None:
    damping = [(-1.0) ** k for k in range(6)]
    hidden = _hidden(metropolis_weights("ring:n=6"), View.secure_sum(0), damping, 2)
    found = seen_blocks(hidden, ROUNDS)
    A, response, size = hidden.transition.toarray(), hidden.rows, np.abs(hidden.rows)
    assert (A < 0).any()
    for k in range(ROUNDS):
        assert found.responses[k] == pytest.approx(response, abs=1e-15)
        assert found.sizes[k] == pytest.approx(size, rel=1e-13)
        response, size = response @ A, size @ np.abs(A)
    assert np.abs(found.responses[-1]).sum() < 0.9 * found.sizes[-1].sum()


def test_sums_are_as_long_as_columns_are_and_not_as_rows() -> None:
    hidden = _hidden(heard_by_all(7), View.secure_sum(0), None, 2)
    assert int((hidden.transition != 0).sum(axis=1).max()) == 3
    assert _longest_column(hidden) == 6


def test_norms_of_powers_are_bounded_where_columns_weigh_more_than_rows() -> None:
    A = _hidden(heard_by_all(9), View.secure_sum(0), None, 2).transition
    norms = [float(np.linalg.norm(np.linalg.matrix_power(A.toarray(), k), 2)) for k in range(ROUNDS)]
    assert norms[1] > 1.4
    first, powers = _power_norms(A, ROUNDS)
    assert norms[1] <= first <= 2 * norms[1]
    assert sum(norms) <= powers <= 2 * sum(norms)
    assert _power_norms(A, 1)[0] == first
