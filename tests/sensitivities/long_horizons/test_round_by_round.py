# SPDX-License-Identifier: Apache-2.0
"""The dual problem followed round by round, against the form that it never writes down."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.laws.test_threshold_laws import two_cliques

from sottovoce.filtering import FilteredResponse, hidden_system, whitened_response
from sottovoce.graphs import GossipWeights, metropolis_weights
from sottovoce.protocols import gossip
from sottovoce.sensitivities.long_horizons import round_by_round
from sottovoce.sensitivities.long_horizons.round_by_round import solve_followed
from sottovoce.sensitivities.one_form.dual import is_dominated, solve_dual
from sottovoce.sensitivities.one_form.witnesses import value_of
from sottovoce.views import View, observe

GRAPHS = {
    "ring": metropolis_weights("ring:n=14"),
    "karate": metropolis_weights("karate"),
    "star": metropolis_weights("star:n=10"),
    "slow": two_cliques(5, 1e-3),
}
VIEWS = {
    "sum": View.secure_sum(0),
    "messages": View.neighbourhood(1),
    "coalition": View.coalition_sums([0, 3]),
}


def model_of(graph: GossipWeights, view: View, rounds: int) -> tuple[FilteredResponse, int, np.ndarray]:
    """The response, the place of node 6 in it, and the form of that target."""
    protocol = gossip(graph, rounds=rounds)
    system = hidden_system(protocol, observe(protocol, view))
    response = whitened_response(system)
    assert isinstance(response, FilteredResponse)
    position = int(np.searchsorted(system.unknown, 6))
    (forms,) = response.forms(np.array([position]))
    return response, position, forms.matrices[0]


@pytest.mark.parametrize("contribution", ["vector", "scalar"])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_both_ends_are_those_of_the_form(graph: str, view: str, contribution: Any) -> None:
    response, position, form = model_of(GRAPHS[graph], VIEWS[view], 120)
    found = solve_followed(response, position, contribution=contribution)
    assert found.y is not None
    assert is_dominated(form, found.y + 1e-10)
    assert found.attained == pytest.approx(value_of(form, found.stream), rel=1e-8)
    assert np.allclose(np.linalg.norm(found.stream.reshape(120, -1), axis=1), 1)
    best = solve_dual(form, tolerance=2e-4)
    assert best.attained * (1 - 1e-3) <= found.y.sum() <= best.bound * 1.02 + 1e-6
    assert found.attained >= best.attained * (0.99 if contribution == "vector" else 0.8) - 1e-9


@pytest.mark.parametrize("graph", ["ring", "slow"])
def test_rounds_that_are_not_followed_count_for_one_each(graph: str, monkeypatch: pytest.MonkeyPatch) -> None:
    response, position, form = model_of(GRAPHS[graph], View.secure_sum(0), 60)
    monkeypatch.setattr(round_by_round, "MOST_FOLLOWED", 40)
    found = solve_followed(response, position)
    assert found.y is not None
    assert (found.y[:20] == 1).all()
    assert is_dominated(form, found.y + 1e-10)
    assert len(found.stream) == 40
    early = np.concatenate([found.stream, np.zeros((20, *found.stream.shape[1:]))])
    assert found.attained <= value_of(form, early)
