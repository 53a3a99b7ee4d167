# SPDX-License-Identifier: Apache-2.0
"""Streams that turn: their value, and the bound that is close where they are best."""

from __future__ import annotations

import numpy as np
import pytest
from tests.sensitivities.test_smooth import dense, response_of

from sottovoce.filtering import EXPLICIT_ROUNDS
from sottovoce.sensitivities.dual import solve_dual
from sottovoce.sensitivities.lags import closed_loop, gramian, lag_forms, taps
from sottovoce.sensitivities.turning import constant_stream, turning_bound, turning_value
from sottovoce.views import View


def test_values_are_those_of_the_streams() -> None:
    _, response = response_of("grid:rows=3,cols=4", View.secure_sum(0))
    sources = response.columns(np.arange(3))
    frequencies = np.array([0.0, 1.1, np.pi])
    found = turning_value(response, sources, frequencies)
    for position, frequency in enumerate(frequencies):
        angles = frequency * np.arange(response.rounds)
        shift = dense(response, position) @ np.column_stack([np.cos(angles), np.sin(angles)])
        assert found[position] == pytest.approx(float((shift**2).sum()), rel=1e-6)
    constant = constant_stream(response).value(sources)
    assert constant[0] == pytest.approx(found[0], rel=1e-6)


def test_long_streams_are_followed_to_the_end() -> None:
    rounds = EXPLICIT_ROUNDS + 700
    _, response = response_of("erdos-renyi:n=20,p=0.3,seed=2", View.secure_sum(0), rounds=rounds)
    assert len(response.gains.gain) < rounds
    sources = response.columns(np.array([0, 4]))
    frequencies = np.array([0.7, np.pi])
    found = turning_value(response, sources, frequencies)
    constant = constant_stream(response).value(sources)
    for place, position in enumerate((0, 4)):
        angles = frequencies[place] * np.arange(rounds)
        shift = response.respond(position, np.column_stack([np.cos(angles), np.sin(angles)]))
        still = response.respond(position, np.ones(rounds))
        for value, truth in ((found[place], shift), (constant[place], still)):
            assert 0.99 * float((truth**2).sum()) <= value <= float((truth**2).sum())


@pytest.mark.parametrize("view", [View.secure_sum(0), View.neighbourhood(1)])
@pytest.mark.parametrize("start", [2, 16, 100])
@pytest.mark.parametrize("reach", [1, 64, 1000])
def test_the_bound_is_above_the_dual_and_close_to_it(view: View, start: int, reach: int) -> None:
    system, response = response_of("erdos-renyi:n=20,p=0.3,seed=2", view, rounds=200)
    near = np.flatnonzero(system.hops() == 0)[:3]
    bounds, _ = turning_bound(response, response.columns(near), start=start, reach=reach)
    for position, bound in zip(near, bounds, strict=True):
        F = dense(response, int(position))
        attained = solve_dual(F.T @ F, tolerance=1e-4).attained
        assert attained <= bound
        assert start == 2 or reach == 1 or bound <= 1.1 * attained


def test_the_changes_of_the_first_columns_are_summed_as_they_are_defined() -> None:
    _, response = response_of("path:n=12", View.coalition_sums([3, 5]), rounds=120)
    positions = np.array([0, 2, 7])
    bounds, _ = turning_bound(response, response.columns(positions), start=9, reach=120)
    frozen = response.shortened(120, frozen_at=8)
    rows = taps(*closed_loop(response, 8), 120)
    for position, bound in zip(positions, bounds, strict=True):
        F, lags = dense(frozen, int(position)), rows @ response.source(int(position))
        m = lags.shape[1]
        S = np.zeros_like(F)
        for s in range(120):
            S[s * m :, s] = lags[: 120 - s].reshape(-1)
        turned = np.abs(np.fft.rfft(lags, 64 * 1024, axis=0)) ** 2
        expected = 120 * turned.sum(axis=1).max() + np.abs(F.T @ F - S.T @ S).sum()
        assert bound == pytest.approx(expected, rel=2e-3)
        assert bound >= expected


def test_lags_are_counted_in_blocks_that_double() -> None:
    _, response = response_of("ring:n=9", View.secure_sum(0), rounds=300)
    loop, whitener = closed_loop(response, 299)
    source = response.columns(np.array([2]))
    norms = np.linalg.norm(taps(loop, whitener, 512) @ source, axis=1)[:, 0]
    forms = lag_forms(loop, whitener, 64, 300)
    assert forms.lengths.tolist() == [64, 128, 256]
    expected = sum((end / 2 * (norms[end // 2 : end] ** 2).sum()) ** 0.5 for end in (128, 256, 512))
    assert norms[64:512].sum() <= forms.norm_sum(source)[0]
    assert forms.norm_sum(source)[0] == pytest.approx(expected, abs=1e-6)
    shown = float(source[:, 0] @ gramian(loop, whitener, 300) @ source[:, 0])
    assert shown == pytest.approx(float((norms**2).sum()), rel=1e-6)
