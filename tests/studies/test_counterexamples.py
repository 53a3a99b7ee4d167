# SPDX-License-Identifier: Apache-2.0
"""The smallest exact counterexamples: 9/10, 25/26, 5/6, found again by the product's own functions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from tests.studies.small import quick

from sottovoce import theory
from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import gossip
from sottovoce.sensitivities import sensitivity
from sottovoce.views import View


def share(W: list[list[Fraction]], rows: list[int], known: list[int], target: int) -> Fraction:
    """φ at ω = π for one row, exactly: (I + W)x = e_i gives the row of the resolvent, W being symmetric."""
    n = len(W)
    table = [[W[i][j] + (i == j) for j in range(n)] + [Fraction(int(i == rows[0]))] for i in range(n)]
    for k in range(n):
        pivot = next(r for r in range(k, n) if table[r][k])
        table[k], table[pivot] = table[pivot], table[k]
        table[k] = [x / table[k][k] for x in table[k]]
        for r in range(n):
            if r != k:
                table[r] = [x - table[r][k] * y for x, y in zip(table[r], table[k], strict=True)]
    row = [table[k][n] for k in range(n)]
    return row[target] ** 2 / sum((row[k] ** 2 for k in range(n) if k not in known), Fraction(0))


def exact(name: str) -> list[list[Fraction]]:
    weights = metropolis_weights(name)
    return [[weights.exact_row(i).get(j, Fraction(0)) for j in range(weights.n)] for i in range(weights.n)]


def test_limits_are_the_fractions_worked_out_by_hand() -> None:
    two, four, three, path = quick("errata-smallest").cases
    half = [[Fraction(1, 2)] * 2] * 2
    assert share(half, [0], [], 0) == Fraction(9, 10)
    assert two.limit.lower == pytest.approx(0.9, abs=1e-6)
    assert share(exact("path:n=3"), [0], [0], 1) == Fraction(25, 26)
    assert path.limit.lower == pytest.approx(25 / 26, abs=1e-6)
    assert three.constant == pytest.approx(1 / 2 + 1 / 3)
    assert four.limit.lower == pytest.approx(0.3222, abs=5e-5)
    for case in (two, four, path):
        assert case.constant == pytest.approx(case.claimed)
    assert {finding.verdict for finding in quick("errata-smallest").findings} == {"does not hold"}


def test_finite_bounds_break_where_they_are_said_to() -> None:
    two, three = quick("errata-smallest").violations
    assert (two.rounds, three.rounds) == (22, 48)
    assert two.bound == pytest.approx(theory.single_node_bound(2, 1.0, 22))
    # Two nodes that average, the observer's own record, alternating signs, straight from H_T.
    for rounds in (21, 22):
        form = theory.quadratic_form(np.full((2, 2), 0.5), [[1, 0]], 0, rounds)
        signs = (-1.0) ** np.arange(rounds)
        bound = theory.single_node_bound(2, 1.0, rounds)
        assert (signs @ form @ signs > bound) == (rounds == 22)
    # No signs at all exceed it a round earlier, nor any vectors.
    before = sensitivity(
        gossip(np.full((2, 2), 0.5), rounds=21), View.single_node(0, own_noise="hidden"), [0]
    )
    assert before.squared_upper[0] < theory.single_node_bound(2, 1.0, 21)
