# SPDX-License-Identifier: Apache-2.0
"""Erratum (g): with the constant step the noise floor grows with T; with shrinking steps the claim survives."""

from __future__ import annotations

import numpy as np
import pytest
from tests.studies.small import quick


def test_the_constant_step_fails_and_shrinking_steps_do_not() -> None:
    result = quick("errata-g")
    constant, plain, weighted = result.excess
    T = np.array(result.config.rounds)
    assert result.claimed == pytest.approx(1 / 20**2)
    # Stationary variance of a walk with step 1/4 and noise T/n²: ησ²/(2(2 − η)n) of excess risk, which grows with T.
    floor = 0.25 * T / 20 / 20 / (2 * 1.75)
    assert constant[-1] == pytest.approx(floor[-1], rel=0.01)
    assert constant[-1] > 500 * result.claimed
    assert weighted[-1] < 1.2 * result.claimed
    assert plain[-1] < result.claimed * np.log(T[-1])
    verdicts = [finding.verdict for finding in result.findings]
    assert verdicts == ["does not hold", "holds", "holds"]


def test_the_recursion_is_what_a_network_does() -> None:
    result = quick("errata-g")
    for rounds, mean, error in zip(
        result.config.simulated_rounds, result.simulated, result.simulated_error, strict=True
    ):
        exact = result.excess[0, result.config.rounds.index(rounds)]
        assert abs(mean - exact) < 4 * error
        assert error < 0.1 * exact
