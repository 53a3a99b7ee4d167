# SPDX-License-Identifier: Apache-2.0
"""The bound that is close where streams that turn are best."""

from __future__ import annotations

import itertools

import mpmath
import numpy as np
import pytest
from tests.sensitivities.many_targets.test_projection import dense, response_of

from sottovoce.sensitivities.long_horizons.model import dense_transition
from sottovoce.sensitivities.many_targets.peak import _start, peak_bound
from sottovoce.sensitivities.one_form.dual import solve_dual
from sottovoce.views import View


@pytest.mark.parametrize("view", [View.secure_sum(0), View.neighbourhood(1)])
def test_the_bound_is_above_the_dual_and_close_to_it(view: View) -> None:
    system, response = response_of("erdos-renyi:n=20,p=0.3,seed=2", view, rounds=200)
    near = np.flatnonzero(system.hops() == 0)[:3]
    forms = [F.T @ F for F in (dense(response, int(position)) for position in near)]
    attained = np.array([solve_dual(form, tolerance=1e-4).attained for form in forms])
    for start, reach in itertools.product((2, 16, 100), (1, 64, 1000)):
        bounds, _ = peak_bound(response, response.columns(near), start=start, reach=reach)
        assert (attained <= bounds).all(), (start, reach)
        assert start == 2 or reach == 1 or (bounds <= 1.1 * attained).all(), (start, reach)


def test_the_changes_of_the_first_columns_are_summed_as_they_are_defined() -> None:
    _, response = response_of("path:n=12", View.coalition_sums([3, 5]), rounds=120)
    positions = np.array([0, 2, 7])
    bounds, _ = peak_bound(response, response.columns(positions), start=9, reach=120)
    frozen = response.shortened(120, frozen_at=8)
    rows = response.closed_loop(8).taps(120)
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


def first_columns_off(graph: str, position: int) -> tuple[float, float]:
    """What rounding did to the first columns, and to the states at their end, as shares of what is allowed."""
    _, response = response_of(graph, View.secure_sum(0), rounds=12)
    settles, height = 2, 5
    closed = response.closed_loop(settles)
    source = response.columns(np.array([position]))
    found = _start(response, closed, closed.taps(12), settles, height)
    with mpmath.workprec(256):
        A, C, b = (
            mpmath.matrix(part.tolist()) for part in (dense_transition(response), response.rows, source)
        )
        loops = [
            A * (mpmath.eye(response.size) - mpmath.matrix(response.gains.gain[min(t, settles)].tolist()) * C)
            for t in range(height)
        ]
        columns = states = mpmath.mpf(0)
        for s in range(settles):
            state, frozen, off = b, b, mpmath.mpf(0)
            shown = found.columns[s].reshape(-1, len(source)) @ source
            for t in range(s, height):
                whitener = mpmath.matrix(response.gains.whitener[min(t, settles)].tolist())
                seen = mpmath.matrix(shown[t * whitener.rows : (t + 1) * whitener.rows].tolist())
                off += mpmath.norm(whitener * state - seen, 2) ** 2
                state, frozen = loops[t] * state, loops[settles] * frozen
            columns += mpmath.sqrt(off)
            left = mpmath.matrix((found.deviations[s] @ source).tolist())
            states += mpmath.norm(state - frozen - left, 2)
        return float(columns / found.columns_off(source)[0]), float(states / found.states_off(source)[0])


def test_first_columns_are_off_by_no_more_than_is_allowed() -> None:
    graphs = ("path:n=3", "ring:n=4", "ring:n=5")
    shares = np.array([first_columns_off(graph, position) for graph in graphs for position in (0, 1)])
    assert shares.max() <= 1
    # Of columns no thousand times too much is allowed; of states, which have faded by then, some thousand times.
    assert shares[:, 0].max() > 5e-3
    assert shares[:, 1].max() > 1e-4
