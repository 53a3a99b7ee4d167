# SPDX-License-Identifier: Apache-2.0
"""Records that take part in every k-th round: one step a round up to 12, and a memory that is forgotten beyond."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sottovoce import View, certify, gossip, graphs, verify
from sottovoce.feedback import training, training_sensitivity
from sottovoce.feedback.chains import MOST_PERIOD, periodic, setting
from sottovoce.verification.shift import check_shift

RING = graphs.metropolis_weights("ring:n=8")
CONTRIBUTIONS = 30


def share(period: int, updates: Any = (0, 1)) -> float:
    """Δ² for each round that takes part, over many periods."""
    found = training_sensitivity(
        RING,
        View.secure_sum(0),
        1,
        rounds=CONTRIBUTIONS * period,
        updates=updates,
        participation=f"every:{period}",
    )
    assert found.method == "shift"
    assert len(found.proof.recurring) == period
    return found.squared.upper / CONTRIBUTIONS


@pytest.mark.parametrize(("period", "expected"), [(2, 0.572), (5, 0.520), (10, 0.519)])
def test_short_periods_have_known_shares(period: int, expected: float) -> None:
    assert share(period) == pytest.approx(expected, abs=6e-4)


@pytest.mark.parametrize("period", [13, 40, 300])
def test_longer_periods_cost_no_more_than_twelve_rounds_of_memory(period: int) -> None:
    """Without a chain of their own they cost 0.68 each, what a record in every round costs."""
    assert share(period) == pytest.approx(0.5185, abs=3e-4)
    assert share(period, (0.9, 1)) == pytest.approx(0.5007, abs=3e-4)


def test_a_period_is_certified_and_verified() -> None:
    protocol = gossip(RING, rounds=200, updates=(0.5, 1))
    certificate = certify(protocol, View.secure_sum(0), 1, participation="every:20,offset=4")
    found = verify(certificate, RING)
    assert found.verdict == "verified"
    assert 0 < found.squared.lower < found.squared.upper < 10 * 0.53


def test_what_is_forgotten_is_paid_for() -> None:
    """A proof that lets the memory fall to nothing without the step that cancels it does not hold."""
    case = training(RING, View.secure_sum(0), rounds=400, updates=(0, 1), participation="every:20")
    found = periodic(setting(case, 0), 20, gap=1e-3)
    assert found is not None
    steps = list(found.proof.recurring)
    assert all(not step.factor.size for step in steps[MOST_PERIOD:])
    assert np.abs(steps[MOST_PERIOD - 1].factor).max() == 0
    dropped = replace(found.proof, recurring=(*steps[:3], steps[-1], *steps[4:]))
    assert not check_shift(dropped, case.about(1)).holds
    assert check_shift(found.proof, case.about(1)).holds


def test_a_period_of_too_many_numbers_is_left_to_the_steady_step() -> None:
    case = training(RING, View.secure_sum(0), rounds=10**6, updates=(0, 1), participation="every:500000")
    assert periodic(setting(case, 0), 500_000, gap=1e-3) is None
