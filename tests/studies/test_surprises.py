# SPDX-License-Identifier: Apache-2.0
"""Six surprises, and the numbers they rest on."""

from __future__ import annotations

import numpy as np
import pytest
from tests.studies.small import quick

from sottovoce.studies import surprises
from sottovoce.studies.surprises import ACCELERATION, CARRIED, SEEDS, SINGLE, SUMS, TRACKING


def test_acceleration_leaks_more_to_far_nodes() -> None:
    plain, fast = quick("surprises").of(ACCELERATION)
    assert np.sqrt(plain.upper) == pytest.approx([2.3702, 0.9865, 0.5318], abs=1e-4)
    assert np.sqrt(fast.upper) == pytest.approx([2.3642, 1.0643, 0.6644], abs=1e-4)


def test_a_sum_of_two_hides_nothing() -> None:
    sums, messages, *_ = quick("surprises").of(SUMS)
    for curve in (sums, messages):
        shown = dict(zip(curve.at, curve.upper, strict=True))
        for target, value in {1: 2.6803, 2: 3.15069, 4: 3.38763, 3: 0.65853, 7: 0.32104}.items():
            assert shown[target] == pytest.approx(value, abs=1e-4)


def test_noise_on_messages() -> None:
    early, tracking, diffusion = quick("surprises").of(TRACKING)
    T = np.array(early.at)
    assert early.upper == pytest.approx(T)
    assert tracking.upper == pytest.approx(4 * T - 3)
    assert diffusion.upper == pytest.approx(4 * T - 3)
    carried = quick("surprises").of(CARRIED)[1]
    assert carried.upper[-1] == pytest.approx(202.10693, rel=1e-6)


def test_a_neighbour_knows_the_draws_of_its_edges() -> None:
    eavesdropper, neighbour, forgetful, sums = quick("surprises").of(SEEDS)
    first = [curve.upper[0] for curve in (eavesdropper, neighbour, sums)]
    assert first == pytest.approx([1.5118047219, 1.8984, 0.96307], rel=1e-4)
    assert neighbour.lower[0] > max(eavesdropper.upper[0], forgetful.upper[0])


def test_one_draw_is_told_in_full_to_whoever_it_reaches() -> None:
    result = quick("surprises")
    for curve in result.of(SINGLE):
        hops = int(curve.name.split()[0])
        assert curve.upper == pytest.approx([float(steps >= hops) for steps in curve.at], abs=1e-9)


def test_verdicts_come_from_the_numbers() -> None:
    assert {finding.verdict for finding in quick("surprises").findings} == {"holds"}
    slowed = surprises.run(surprises.Config(gamma="1", rounds=(1, 2), averaged=8, steps=(1, 2)))
    verdicts = [finding.verdict for finding in slowed.findings]
    # Without acceleration, and where the far node is out of reach, there is nothing to be surprised at.
    assert verdicts == ["does not hold", "holds", "holds", "holds", "holds", "does not hold"]
