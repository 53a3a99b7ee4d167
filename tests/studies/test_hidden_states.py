# SPDX-License-Identifier: Apache-2.0
"""Erratum (f): the star exactly, in the limit, and by simulating the likelihood ratio."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from tests.studies.small import quick

from sottovoce import gaussian
from sottovoce.studies.hidden_states import closed_form, exact_star, simulate_star


def test_one_against_thirteen_tenths() -> None:
    result = quick("errata-f")
    assert (result.exact_open, result.exact_closed) == (1, Fraction(13, 10))
    K, G = closed_form(2, 0.0, 2)
    form = G.T @ np.linalg.solve(K, G)
    assert form.sum() == pytest.approx(1.3)
    assert result.growth[0, 1] == pytest.approx(0.5, rel=1e-6)
    assert {finding.verdict for finding in result.findings} == {"does not hold"}


def test_fixed_contributions_are_the_open_loop() -> None:
    for leaves, rounds in ((2, 3), (3, 4)):
        assert exact_star(leaves, Fraction(1), rounds) == Fraction(rounds, leaves)


def test_the_limit_as_leaves_are_added() -> None:
    result = quick("errata-f")
    leaves = np.array(result.config.leaves)
    assert np.allclose(result.limits[0], 1 / leaves, rtol=1e-6)
    # Independent of the formula in the study: constant contributions over a long closed loop.
    for k, limit in zip(leaves, result.limits[1], strict=True):
        K, G = closed_form(int(k), 0.0, 800)
        shift = G @ np.ones(800)
        value = np.linalg.solve(K, shift) @ shift
        early = np.linalg.solve(K[:400, :400], shift[:400]) @ shift[:400]
        assert (value - early) / 400 == pytest.approx(limit, rel=1e-3)
    assert result.limits[1, -1] > 0.98
    assert result.growth[1, -1] > 0.88


def test_likelihood_ratios_of_simulated_runs() -> None:
    found = simulate_star(200_000, np.random.default_rng(7))
    # A Gaussian pair at squared distance Δ² has log-likelihood ratios of mean Δ²/2.
    assert abs(found.mean - 0.65) < 4 * found.mean_error
    assert found.mean - 4 * found.mean_error > 0.5
    assert abs(found.delta - gaussian.delta(1.3**0.5, 1.0)) < 4 * found.delta_error
    assert found.delta - 4 * found.delta_error > gaussian.delta(1.0, 1.0)
