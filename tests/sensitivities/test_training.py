# SPDX-License-Identifier: Apache-2.0
"""Training in bulk: the largest bound by itself is that of the whole table."""

from __future__ import annotations

from typing import Any

import pytest

from sottovoce import View, gossip, graphs, sensitivity
from sottovoce.feedback import pairs
from sottovoce.participation import Participation
from sottovoce.scenarios import Scenario
from sottovoce.sensitivities import largest_training_bound


@pytest.mark.parametrize("updates", [(0.5, 1.0), (-0.004, 0.996), "any"])
@pytest.mark.parametrize(
    ("graph", "view"),
    [
        ("ring:n=6", View.secure_sum(0)),
        ("star:n=5", View.neighbourhood(1)),
        ("path:n=5", View.coalition_sums([0, 2])),
        ("path:n=4", View.everyone),
    ],
    ids=str,
)
def test_the_largest_bound_is_that_of_the_table_and_needs_no_attack(
    graph: str, view: View, updates: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol = gossip(graphs.metropolis_weights(graph), rounds=12, updates=updates)
    table = sensitivity(protocol, view, effort="bulk")
    monkeypatch.setattr(pairs, "best_attack", None)
    monkeypatch.setattr(pairs, "plain_attacks", None)
    assert largest_training_bound(Scenario(protocol=protocol, view=view)) == table.squared_upper.max()


@pytest.mark.parametrize("updates", [(0.5, 1.0), "any"])
@pytest.mark.parametrize("view", [View.secure_sum(0), View.neighbourhood(1), View.everyone], ids=str)
def test_who_takes_part_after_the_last_round_teaches_nothing(view: View, updates: Any) -> None:
    protocol = gossip(graphs.metropolis_weights("ring:n=5"), rounds=2, updates=updates)
    found = sensitivity(protocol, view, participation=Participation.every(4, offset=3))
    assert (found.squared_upper == 0).all()
