# SPDX-License-Identifier: Apache-2.0
"""Erratum (d): vectors do what no signs do, both sides proved."""

from __future__ import annotations

import numpy as np
import pytest
from tests.reference import definition, semidefinite_maximum
from tests.studies.small import quick

from sottovoce.graphs import metropolis_weights
from sottovoce.views import View


def test_vectors_exceed_all_signs() -> None:
    result = quick("errata-d")
    assert (result.lower <= result.upper).all()
    assert (result.signs <= result.upper * (1 + 1e-6)).all()
    assert result.excess[:, :3].max() == 0
    assert result.excess[0].max() > 0.03
    assert result.excess[2].max() > 0.05
    assert {finding.verdict for finding in result.findings} == {"does not hold"}


def test_exact_signs_and_a_general_solver_agree() -> None:
    result = quick("errata-d")
    form = definition(metropolis_weights("path:n=4"), View.secure_sum(1), 0, 7)
    assert result.signs[0, 6] == pytest.approx(float(form.scalar_maximum()), rel=1e-9)
    solved = semidefinite_maximum(form.floats)
    assert result.lower[0, 6] - 1e-6 <= solved <= result.upper[0, 6] + 1e-6
    assert np.isclose(result.excess[0, 6], solved / float(form.scalar_maximum()) - 1, atol=1e-4)
