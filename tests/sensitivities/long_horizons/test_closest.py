# SPDX-License-Identifier: Apache-2.0
"""Horizons beyond the largest form: the closest ends of all ways, and the streams behind them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.laws.test_threshold_laws import FEWER, two_cliques, write_fewer

from sottovoce.filtering import hidden_system, whitened_response
from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import gossip
from sottovoce.sensitivities import assessment, sensitivity
from sottovoce.sensitivities.ends import Ends
from sottovoce.sensitivities.long_horizons import closest
from sottovoce.views import View, observe


@pytest.mark.parametrize("contribution", ["vector", "scalar"])
def test_a_slow_network_is_not_given_the_cap(contribution: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    protocol = gossip(two_cliques(6, 8e-3), rounds=FEWER + 1)
    written = sensitivity(protocol, View.secure_sum(1), [7], contribution=contribution)
    write_fewer(monkeypatch)
    found = sensitivity(protocol, View.secure_sum(1), [7], contribution=contribution)
    assert found.method[0] == "horizon"
    assert found.squared_lower[0] <= written.squared_upper[0]
    assert written.squared_lower[0] <= found.squared_upper[0] <= 1.0008 * found.squared_lower[0]
    system = hidden_system(protocol, observe(protocol, View.secure_sum(1)))
    shift = whitened_response(system).respond(int(np.searchsorted(system.unknown, 7)), found[7].witness)
    assert float((shift**2).sum()) == pytest.approx(found.squared_lower[0], rel=1e-4)


def refused(*_: Any) -> None:
    """A way that is not to be taken."""
    raise AssertionError


def test_a_filter_that_settles_late_keeps_its_gains_until_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gains that are frozen early leave 4 % here, and no round is followed that would make up for it."""
    monkeypatch.setattr(closest, "_by_following", refused)
    protocol = gossip(two_cliques(5, 1e-2), rounds=100_000)
    found = sensitivity(protocol, View.secure_sum(1), [6])
    assert found.method[0] == "horizon"
    assert found.squared_upper[0] < 1.01 * found.squared_lower[0]


def test_rounds_are_followed_where_late_gains_do_not_come_close() -> None:
    found = sensitivity(gossip(two_cliques(4, 2e-2), rounds=2_100), View.secure_sum(1), [5])
    assert found.method[0] == "horizon"
    assert found.squared_upper[0] < 1.001 * found.squared_lower[0]


def test_a_filter_that_settles_soon_is_not_followed_as_if_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closest, "_settling_late", refused)
    found = sensitivity(gossip(metropolis_weights("karate"), rounds=2100), View.secure_sum(0), [4, 20])
    assert (found.squared_upper < 1.01 * found.squared_lower).all()


def test_patterns_are_bounded_by_what_was_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    write_fewer(monkeypatch)
    protocol = gossip(two_cliques(6, 1e-3), rounds=FEWER + 10)
    found = sensitivity(protocol, View.secure_sum(1), [7], participation="at-most:250")
    whole = sensitivity(protocol, View.secure_sum(1), [7])
    assert found.squared_upper[0] < whole.squared_upper[0] * 1.01


def test_signs_of_a_long_horizon_reach_what_those_of_a_short_one_do() -> None:
    weights, view = metropolis_weights("ring:n=60"), View.single_node(0, own_noise="hidden")
    found = sensitivity(gossip(weights, rounds=6_000), view, [2], contribution="scalar")
    # 0.084 a round at 2000 rounds.
    assert found.squared_lower[0] > 0.083 * 6_000


def test_a_pattern_attains_no_less_over_rounds_that_cannot_be_written_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A filter that has not settled: the stream of as many rounds as can be written out is one of more rounds too."""
    write_fewer(monkeypatch)
    weights = metropolis_weights("ring:n=14")
    short, longer = (
        sensitivity(gossip(weights, rounds=rounds), View.secure_sum(0), [1, 7], participation="every:8")
        for rounds in (FEWER, FEWER + 10)
    )
    assert (longer.squared_lower >= 0.99 * short.squared_lower).all()
    assert (longer.squared_lower <= longer.squared_upper).all()


def test_gains_that_settle_soon_are_not_tried_again_however_weak_the_ends_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(closest, "_settling_late", refused)
    monkeypatch.setattr(closest, "WEAK", -1.0)
    monkeypatch.setattr(assessment, "_insertion", lambda *_: None)
    followed: list[int] = []

    def noted(_: Any, position: int, problem: Any) -> Ends:
        followed.append(position)
        return Ends.unknown(1, problem.cap)

    monkeypatch.setattr(closest, "_by_following", noted)
    found = sensitivity(gossip(metropolis_weights("karate"), rounds=2100), View.secure_sum(0), [20])
    assert len(followed) == 1
    assert found.squared_lower[0] <= found.squared_upper[0]
