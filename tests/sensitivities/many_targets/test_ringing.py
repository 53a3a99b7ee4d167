# SPDX-License-Identifier: Apache-2.0
"""The bound for responses that ring: frozen gains, lags at all frequencies, and forms of the first columns."""

from __future__ import annotations

import numpy as np
import pytest
from tests.sensitivities.many_targets.test_projection import dense, response_of

from sottovoce import View, sensitivity
from sottovoce.filtering import noise_of_rounds, program_response, reduction
from sottovoce.graphs import lazy_weights, metropolis_weights
from sottovoce.protocols import exact_diffusion
from sottovoce.sensitivities import policy
from sottovoce.sensitivities.many_targets import ringing
from sottovoce.sensitivities.many_targets.ringing import ringing_bound, ringing_tables
from sottovoce.sensitivities.many_targets.units import balanced
from sottovoce.sensitivities.one_form.dual import solve_dual


@pytest.mark.parametrize("view", [View.secure_sum(0), View.neighbourhood(1)])
@pytest.mark.parametrize("frozen", [1, 2, 16, 300])
def test_the_bound_is_above_the_dual(view: View, frozen: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ringing, "FROZEN", frozen)
    monkeypatch.setattr(ringing, "SHARE", 0.0)
    _, response = response_of("erdos-renyi:n=20,p=0.3,seed=2", view, rounds=100)
    own, units = balanced(response)
    tables = ringing_tables(own)
    assert tables is not None
    places = np.arange(0, response.inputs.shape[1], 3)
    bounds, _ = ringing_bound(tables, response.columns(places) / units[:, None])
    for place, bound in zip(places, bounds, strict=True):
        F = dense(response, int(place))
        attained = solve_dual(F.T @ F, tolerance=1e-3).attained
        assert attained <= bound
        assert frozen < 16 or bound <= 1.5 * attained


def test_the_bound_is_what_its_parts_are_and_no_less() -> None:
    _, response = response_of("path:n=12", View.coalition_sums([3, 5]), rounds=120)
    tables = ringing_tables(response)
    assert tables is not None
    bounds, frequencies = ringing_bound(tables, response.columns(np.array([0, 2, 7])))
    start = ringing.FROZEN - 1
    frozen, rows = response.shortened(120, frozen_at=start), response.closed_loop(start).taps(120)
    for place, bound, frequency in zip((0, 2, 7), bounds, frequencies, strict=True):
        F, lags = dense(frozen, place), rows @ response.source(place)
        m = lags.shape[1]
        S = np.zeros_like(F)
        for s in range(120):
            S[s * m :, s] = lags[: 120 - s].reshape(-1)
        phases = np.exp(-1j * frequency * np.arange(120))
        peak = np.linalg.norm(phases @ lags) ** 2
        expected = (np.sqrt(120 * peak) + np.linalg.norm(F - S, axis=0).sum()) ** 2
        assert expected <= bound <= 1.1 * expected


def test_inputs_that_are_nothing_and_horizons_that_are_too_long() -> None:
    _, response = response_of("ring:n=7", View.secure_sum(0), rounds=80)
    tables = ringing_tables(response)
    assert tables is not None
    bounds, _ = ringing_bound(tables, np.zeros((response.size, 1)))
    assert 0 <= bounds[0] < 1e-9
    _, longer = response_of("ring:n=7", View.secure_sum(0), rounds=3000)
    assert ringing_tables(longer) is None
    wild = ringing_bound(tables, np.full((response.size, 1), 1e200))[0]
    assert wild[0] == np.inf


def test_far_targets_of_exact_diffusion_are_bounded_closely(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lifted space, on which noise takes several rounds to reach all: the ends hold those that are solved."""
    monkeypatch.setattr(reduction, "LARGE", 0)
    monkeypatch.setattr(policy, "FEWEST_ROUNDS", 0)
    weights = metropolis_weights("random-regular:n=120,d=4,seed=1")
    protocol, view = exact_diffusion(lazy_weights(weights), rounds=48), View.neighbourhood(0)
    response = program_response(protocol, view, coarse=True)
    assert noise_of_rounds([response.steps[0].stage])[0] > 1
    far = np.setdiff1d(np.arange(1, 120), weights.neighbours(0))[::40]
    fine = sensitivity(protocol, view, far.tolist(), effort="fine")
    bulk = sensitivity(protocol, view, far.tolist(), effort="bulk")
    assert (bulk.squared_lower <= fine.squared_upper).all()
    assert (bulk.squared_upper >= fine.squared_lower).all()
    assert (bulk.method == "peak").all()
    assert (bulk.squared_upper <= 2 * bulk.squared_lower).all()
