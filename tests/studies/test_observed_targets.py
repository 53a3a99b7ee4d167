# SPDX-License-Identifier: Apache-2.0
"""Erratum (b): a target that is seen itself gives away nearly everything."""

from __future__ import annotations

import numpy as np
import pytest
from tests.studies.small import quick

from sottovoce import theory


def test_targets_inside_exceed_the_claim_many_times() -> None:
    result = quick("errata-b")
    for network in result.networks:
        assert network.growth[network.inside].min() > 0.9
        assert network.growth[network.inside].min() > 4 * network.claimed
        assert network.limits[0] > 0.9
    ring = result.networks[0]
    assert (ring.observed, ring.claimed) == (3, 0.03)
    assert [finding.verdict for finding in result.findings].count("does not hold") == 8


def test_three_nodes_break_the_bound_for_all_rounds() -> None:
    result = quick("errata-b")
    T = np.array(result.config.small_rounds)
    assert ((result.small > result.small_bound) == (T >= 48)).all()
    form = theory.quadratic_form(np.full((3, 3), 1 / 3), np.eye(3)[:2], 0, 10)
    assert result.small[list(T).index(10)] == pytest.approx(theory.largest_over_signs(form), rel=1e-6)
