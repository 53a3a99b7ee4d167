# SPDX-License-Identifier: Apache-2.0
"""States in units of their own: the same numbers, and far less room for rounding where some are hardly seen."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.laws.test_threshold_laws import PLACES, two_cliques

from sottovoce.filtering import FilteredResponse, hidden_system, whitened_response
from sottovoce.filtering.rounding import Step
from sottovoce.protocols import gossip
from sottovoce.sensitivities.many_targets.lag_sums import lag_bound, lag_tables
from sottovoce.sensitivities.many_targets.projection import projection_bound, projection_tables
from sottovoce.sensitivities.many_targets.units import balanced
from sottovoce.sensitivities.rounding import weights_before
from sottovoce.views import View, observe

if TYPE_CHECKING:
    from sottovoce.graphs import GossipWeights


def response_of(weights: GossipWeights, view: View, rounds: int) -> FilteredResponse:
    protocol = gossip(weights, rounds=rounds)
    response = whitened_response(hidden_system(protocol, observe(protocol, view)))
    assert isinstance(response, FilteredResponse)
    return response


@pytest.mark.parametrize("place", PLACES)
def test_units_change_no_number(place: str) -> None:
    weights, view, _ = PLACES[place]
    response = response_of(weights, view, 90)
    own, units = balanced(response)
    assert (np.frexp(units)[0] == 0.5).all()
    assert units.max() == 1
    rows = np.ones((2, response.size))
    for t in (0, 7, 88):
        assert (own.whitener(t) == response.whitener(t) * units).all()
        assert (own.before(rows * units, t) == response.before(rows, t) * units).all()
    sources = response.columns(np.arange(response.inputs.shape[1]))
    plain, found = projection_tables(response), projection_tables(own)
    assert (found.total == plain.total * np.outer(units, units)).all()
    assert (found.kept == plain.kept * np.outer(units, units)).all()
    assert (found.coarse == plain.coarse * units).all()
    closer = projection_bound(found, sources / units[:, None])
    assert (closer <= projection_bound(plain, sources) * (1 + 1e-9)).all()


def rounding_share(response: FilteredResponse, source: np.ndarray) -> float:
    """What is allowed for rounding in the form `total`, relative to it."""
    tables = projection_tables(response)
    allowed = tables.forms_error * source @ tables.states @ source + tables.sums_error * source @ source
    return float(allowed / (source @ tables.total @ source))


def test_states_that_are_hardly_seen_are_allowed_hardly_any_rounding() -> None:
    response = response_of(two_cliques(4, 1e-6), View.secure_sum(1), 300)
    own, units = balanced(response)
    source = response.source(response.inputs.shape[1] - 1)
    assert rounding_share(response, source) > 1e-3
    assert rounding_share(own, source / units) < 1e-10


def test_the_bound_for_filters_that_settle_is_the_same_in_other_units() -> None:
    response = response_of(two_cliques(5, 0.05), View.secure_sum(1), 700)
    own, units = balanced(response)
    sources = response.columns(np.arange(response.inputs.shape[1]))
    found = lag_bound(lag_tables(own), sources / units[:, None])
    assert found == pytest.approx(lag_bound(lag_tables(response), sources), rel=1e-4)


def test_the_weights_of_states_are_their_squares_from_above() -> None:
    response = response_of(*PLACES["ring"][:2], 40)
    step = Step.of(response.transition, response.rows, response.gains.gain)
    weights, state = np.eye(response.size), response.source(3)
    for t in range(38, -1, -1):
        weights = weights_before(response, step, weights, t)
    total, form = float(state @ state), float(state @ weights @ state)
    for t in range(39):
        state = response.after(state[:, None], t)[:, 0]
        total += float(state @ state)
    assert total * (1 - 1e-14) <= form <= total * (1 + 1e-11)


def test_states_that_nothing_shows_have_units_too() -> None:
    response = response_of(two_cliques(3, 0.1), View.secure_sum(0), 20)
    blind = replace(response.gains, whitener=np.zeros_like(response.gains.whitener))
    _, units = balanced(replace(response, gains=blind))
    assert (units == 1).all()
