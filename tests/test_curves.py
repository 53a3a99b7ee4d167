# SPDX-License-Identifier: Apache-2.0
"""Curves over rounds: every point is what an account of that many rounds says."""

from __future__ import annotations

import pytest

from sottovoce.accounting import account, account_all
from sottovoce.accounting.curves import horizons, table_curve, table_curves
from sottovoce.errors import InputError
from sottovoce.graphs import metropolis_weights
from sottovoce.protocols import gossip
from sottovoce.views import View

PATH = metropolis_weights("path:n=5")


@pytest.mark.parametrize("rounds", [1, 2, 3, 7, 8, 9, 100, 12345])
def test_horizons_rise_to_the_last_round(rounds: int) -> None:
    found = horizons(rounds)
    assert found[0] == 1
    assert found[-1] == rounds
    assert list(found) == sorted(set(found))
    assert len(found) <= 9


def test_no_rounds_are_refused() -> None:
    with pytest.raises(InputError, match="rounds must be a whole number of at least 1; got 0"):
        horizons(0)


@pytest.mark.parametrize("participation", [None, "at-most:2", "every:3"])
def test_points_are_accounts(participation: str | None) -> None:
    table = account_all(
        gossip(PATH, rounds=12),
        "neighbourhood",
        noise_multiplier=3.0,
        delta=1e-6,
        relation="replace-one",
        participation=participation,
        contribution="scalar",
    )
    calls: list[tuple[int, int]] = []
    curve = table_curve(table, 1, progress=lambda done, total: calls.append((done, total)))
    assert curve.observers == (1,)
    assert calls[-1] == (len(curve.rounds), len(curve.rounds))
    for k, rounds in enumerate(curve.rounds):
        single = account(
            gossip(PATH, rounds=rounds),
            View.neighbourhood(1),
            noise_multiplier=3.0,
            delta=1e-6,
            participation=participation,
            contribution="scalar",
        )
        assert curve.worst[k] == single.worst().sensitivity_squared
        assert curve.median[k] == single.median().sensitivity_squared
        assert curve.best[k] == single.best().sensitivity_squared
        assert curve.counts[k] == single.participation.largest_count(rounds)
    last = table.pair(1, table.about(0).target).sensitivity_squared
    assert last is not None
    assert curve.worst[-1].upper >= last.upper


def test_rounds_that_a_participation_does_not_fit_are_left_out() -> None:
    table = account(
        gossip(PATH, rounds=10),
        View.secure_sum(0),
        noise_multiplier=1.0,
        delta=1e-5,
        participation="fixed:2,6",
    )
    curve = table_curve(table, 0)
    assert curve.rounds == tuple(rounds for rounds in horizons(10) if rounds >= 6)
    assert set(curve.counts) == {2}


def test_the_observers_that_learn_most_come_first() -> None:
    table = account_all(gossip(PATH, rounds=4), "secure-sum", noise_multiplier=1.0, delta=1e-5)
    one = table_curves(table, most_pairs=1)
    assert [curve.observers for curve in one] == [
        tuple(table.protocol.index(o) for o in table.worst().observers)
    ]
    every = table_curves(table)
    assert sorted(curve.observers for curve in every) == [(k,) for k in range(5)]
    peaks = [curve.worst[-1].upper for curve in every]
    assert peaks == sorted(peaks, reverse=True)
