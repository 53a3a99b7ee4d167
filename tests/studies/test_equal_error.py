# SPDX-License-Identifier: Apache-2.0
"""Protocols that average equally well."""

from __future__ import annotations

import numpy as np
import pytest
from tests.studies.small import quick

from sottovoce import gaussian, sensitivity
from sottovoce.studies.averaging import AveragingError
from sottovoce.studies.equal_error import VIEWS, compared, matchings, one_peer
from sottovoce.views import View


def test_all_have_the_same_error() -> None:
    result = quick("equal-error")
    assert result.rows[0].noise == pytest.approx(result.config.noise_multiplier)
    for row in result.rows:
        assert isinstance(row.error, AveragingError)
        assert row.error.at(row.noise) == pytest.approx(result.error, rel=1e-9)


def test_epsilon_is_that_of_the_farthest_and_of_the_nearest() -> None:
    result = quick("equal-error")
    protocol = compared(result.config.nodes, result.config.rounds)["Chebyshev, 3 steps"]
    row = result.row("Chebyshev, 3 steps")
    for view, target, place in (
        (View.neighbourhood(0), 1, 1),
        (View.neighbourhood(0), 4, 2),
        (View.secure_sum(0), 4, 4),
    ):
        upper = sensitivity(protocol, view, [target]).squared_upper[0]
        expected = gaussian.epsilon(float(np.sqrt(upper)) / row.noise, result.config.delta)
        assert row.epsilon[place] == pytest.approx(expected, rel=1e-3)


def test_a_far_node_of_a_directed_ring_is_the_one_behind_the_observer() -> None:
    """Node 0 hears the node before it; the one after it is heard last."""
    row = quick("equal-error").row("push-sum, directed ring")
    nodes = quick("equal-error").config.nodes
    protocol = compared(nodes, quick("equal-error").config.rounds)["push-sum, directed ring"]
    found = sensitivity(protocol, View.neighbourhood(0), [1, nodes - 1])
    assert row.squared[[2, 1], 1] == pytest.approx(found.squared_upper, rel=1e-3)


def test_every_builder_is_there() -> None:
    names = {protocol.name for protocol in compared(8, 4).values()}
    assert names == {
        "gossip", "repeated", "chebyshev", "momentum", "gradient_tracking", "exact_diffusion", "pairwise_noise",
        "once", "clean_state", "push_sum", "scheduled",
    }  # fmt: skip


def test_verdicts() -> None:
    verdicts = [finding.verdict for finding in quick("equal-error").findings]
    assert verdicts == ["holds", "holds in part", "holds", "does not hold", "does not hold"]
    assert len(VIEWS) == len(quick("equal-error").rows[0].epsilon)


def test_schedules_average() -> None:
    for schedule in (matchings(8), one_peer(8)):
        for W in schedule:
            assert W.sum(axis=0) == pytest.approx(np.ones(8))
            assert W.sum(axis=1) == pytest.approx(np.ones(8))
    product = np.linalg.multi_dot(one_peer(8))
    assert product == pytest.approx(np.full((8, 8), 1 / 8))
