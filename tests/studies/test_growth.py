# SPDX-License-Identifier: Apache-2.0
"""Five analyses on one plot: T against T²."""

from __future__ import annotations

import numpy as np
import pytest
from tests.studies.small import quick

from sottovoce import gaussian


def test_the_improvement_over_the_square() -> None:
    result = quick("growth")
    muffliato, everyone, neighbourhood, sums, central = result.squared
    T = np.array(result.config.rounds)
    assert result.slopes[0] > 1.8
    assert np.abs(result.slopes[1:] - 1).max() < 0.1
    assert (everyone == T).all()
    assert np.allclose(central, T / 100)
    assert (neighbourhood <= muffliato * (1 + 1e-9)).all()
    assert (sums <= neighbourhood * (1 + 1e-6)).all()
    # The earlier bound crosses even local DP, ours stays near central aggregation.
    assert muffliato[-1] > everyone[-1] > 10 * neighbourhood[-1]
    assert result.epsilon[0, -1] > 30 * result.epsilon[2, -1]
    assert [finding.verdict for finding in result.findings] == ["holds", "holds"]


def test_epsilon_is_that_of_the_gaussian() -> None:
    result = quick("growth")
    mu = np.sqrt(result.squared[2, -1]) / result.config.noise_multiplier
    assert result.epsilon[2, -1] == pytest.approx(gaussian.epsilon(float(mu), result.config.delta))
