# SPDX-License-Identifier: Apache-2.0
"""DECOR on a ring: who is kept out by shared noise."""

from __future__ import annotations

import pytest
from tests.studies.small import quick

from sottovoce.studies.shared_noise import EAVESDROPPER, FORGETFUL, NEIGHBOUR, SUMS


def test_the_values_of_the_ring_of_eight() -> None:
    """Local 1, shared 2, 6 rounds."""
    result = quick("shared-noise")
    at = result.over_shared[:, result.config.shared.index(2.0), 1]
    assert at[EAVESDROPPER] == pytest.approx(1.5118047219, rel=1e-3)
    assert at[NEIGHBOUR] == pytest.approx(1.8984, rel=1e-3)
    assert at[SUMS] == pytest.approx(0.96307, rel=1e-3)


def test_without_shared_noise_it_is_gossip() -> None:
    result = quick("shared-noise")
    first = result.over_shared[:, 0, 1]
    assert first[EAVESDROPPER] == pytest.approx(result.config.rounds)
    assert first[NEIGHBOUR] == pytest.approx(first[FORGETFUL], rel=1e-3)


def test_who_knows_more_learns_more() -> None:
    result = quick("shared-noise")
    for squared in (result.over_shared, result.over_local):
        lower, upper = squared[..., 0], squared[..., 1]
        assert (lower <= upper).all()
        assert (lower[FORGETFUL] <= upper[NEIGHBOUR]).all()
        assert (lower[FORGETFUL] <= upper[EAVESDROPPER]).all()
        assert (lower[SUMS] <= upper[NEIGHBOUR]).all()


def test_verdicts() -> None:
    verdicts = [finding.verdict for finding in quick("shared-noise").findings]
    assert verdicts == ["holds", "holds in part", "does not hold", "holds"]
