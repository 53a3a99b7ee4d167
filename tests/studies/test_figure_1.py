# SPDX-License-Identifier: Apache-2.0
"""Figure 1 in its quick size says what the paper's does, and where it does not."""

from __future__ import annotations

import numpy as np
from tests.studies.small import quick, tiny


def test_the_figure_and_its_verdicts() -> None:
    result = quick("figure-1", seeds=(1, 2), rounds=(10, 2000))
    ending = result.upper[..., -1] / result.claimed
    assert result.config.rounds[-1] >= 2000
    # Erdős–Rényi, not neighbours: within 5 % of 1/n; neighbours as well.
    assert np.abs(ending[0, 1] - 1).max() < 0.05
    assert np.abs(ending[0, 0] - 1).max() < 0.05
    # Preferential attachment: strangers come close, some neighbour stays far above.
    assert np.abs(ending[1, 1] - 1).max() < 0.05
    assert result.lower[1, 0, :, -1].max() > 2 * result.claimed
    assert [finding.verdict for finding in result.findings] == ["holds", "holds", "holds in part", "holds"]
    assert (result.lower <= result.upper).all()


def test_growth_stays_close_to_its_limit() -> None:
    result = tiny("figure-1")
    assert (result.limit >= result.claimed * (1 - 1e-4)).all()
    assert (result.limit <= 1).all()
    assert len(result.table.rows) == result.upper.size
