# SPDX-License-Identifier: Apache-2.0
"""The bound for long horizons against streams that are followed round by round."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import mpmath
import numpy as np
import pytest
from tests.filtering.test_kalman import precise
from tests.laws.test_threshold_laws import FEWER, write_fewer
from tests.sensitivities.many_targets.test_projection import CASES, dense, response_of

from sottovoce.filtering.rounding import Step
from sottovoce.sensitivities.long_horizons.model import dense_transition
from sottovoce.sensitivities.many_targets.lag_sums import _Pair, lag_bound, lag_tables
from sottovoce.sensitivities.one_form.dual import solve_dual
from sottovoce.sensitivities.rounding import weights_before
from sottovoce.views import View

if TYPE_CHECKING:
    from sottovoce.filtering import FilteredResponse

ROUNDS = FEWER + 300


@pytest.mark.parametrize("graph", ["erdos-renyi:n=20,p=0.3,seed=2", "star:n=7", "path:n=5"])
@pytest.mark.parametrize("view", [View.secure_sum(0), View.single_node(1, own_noise="hidden")])
def test_no_stream_exceeds_the_bound(graph: str, view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    write_fewer(monkeypatch)
    rng = np.random.default_rng(1)
    system, response = response_of(graph, view, rounds=ROUNDS)
    positions = np.arange(min(4, system.unknown.size))
    bounds = lag_bound(lag_tables(response), response.columns(positions))
    streams = np.column_stack(
        [np.ones(ROUNDS), (-1.0) ** np.arange(ROUNDS), np.sign(rng.standard_normal(ROUNDS))]
    )
    for position, bound in zip(positions, bounds, strict=True):
        values = (response.respond(int(position), streams) ** 2).sum(axis=0)
        assert values.max() <= bound


def test_far_targets_of_a_mixing_graph_are_close() -> None:
    system, response = response_of("erdos-renyi:n=60,p=0.2,seed=3", View.secure_sum(0), rounds=50_000)
    far = np.flatnonzero(system.hops() == 1)[:4]
    bounds = lag_bound(lag_tables(response), response.columns(far))
    assert np.all(bounds <= 1.1 * 50_000 / 59)
    assert np.all(bounds >= 0.99 * 50_000 / 59)


@pytest.mark.parametrize("rounds", [64, 100, 200])
@pytest.mark.parametrize(
    "graph", ["erdos-renyi:n=60,p=0.2,seed=3", "random-regular:n=40,d=6,seed=1", "star:n=7"]
)
def test_short_horizons_are_bounded_too(graph: str, rounds: int) -> None:
    system, response = response_of(graph, View.secure_sum(0), rounds=rounds)
    positions = np.arange(0, system.unknown.size, 7)
    bounds = lag_bound(lag_tables(response), response.columns(positions))
    for position, bound in zip(positions, bounds, strict=True):
        F = dense(response, int(position))
        attained = solve_dual(F.T @ F, tolerance=1e-4).attained
        assert attained <= bound
        assert system.hops()[position] == 0 or bound <= (1 + 30 / rounds) * attained


def rounding_share(response: FilteredResponse, source: np.ndarray, steps: int) -> float:
    """What rounding adds to a pair's form over so many steps, in 256 bits, as a share of what is allowed for."""
    gains, settles = response.gains, response.rounds
    closed = response.closed_loop(settles)
    whitener, gram = closed.whitener, closed.gramian(response.rounds)
    step = Step.of(response.transition, response.rows, gains.gain)
    pair, weights, settled = _Pair.of(gram), np.eye(response.size), np.eye(response.size)
    A, C, b = precise(dense_transition(response)), precise(response.rows), precise(source)
    F, X, S = precise(gram), -precise(gram), precise(gram)
    for s in range(steps - 1, -1, -1):
        pair = pair.before(response, s, step, settles).seeing(response.whitener(s), whitener)
        weights = weights_before(response, step, weights, s)
        settled = weights_before(response, step, settled, settles)
        first, second = (A - A @ precise(gains.gain[gains.at(k)]) @ C for k in (s, settles))
        D, E = precise(response.whitener(s)), precise(whitener)
        F, X, S = (
            first.T @ F @ first + D.T @ D,
            first.T @ X @ second - D.T @ E,
            second.T @ S @ second + E.T @ E,
        )
    found = precise(pair.first) + 2 * precise(pair.cross) + precise(pair.second)
    error = abs(b @ (found - (F + 2 * X + S)) @ b)
    return float(error) / float((pair.made + pair.lost) * source @ (weights + settled) @ source)


def test_what_rounding_adds_to_a_pair_is_covered_in_256_bits_and_not_a_thousand_times_too_large() -> None:
    shares = []
    for (graph, view), steps in itertools.product(CASES, (3, 10)):
        _, response = response_of(graph, view, rounds=24)
        with mpmath.workprec(256):
            shares += [rounding_share(response, response.source(j), steps) for j in range(4)]
    assert max(shares) <= 1
    assert max(shares) >= 1e-3


@pytest.mark.parametrize("graph", ["ring:n=7", "star:n=6"])
def test_columns_of_the_start_are_no_longer_than_the_tables_say(graph: str) -> None:
    _, response = response_of(graph, View.secure_sum(0), rounds=80)
    tables, start = lag_tables(response), len(response.gains.gain) - 1
    closed = response.closed_loop(start)
    loop, whitener = closed.loop, closed.whitener
    for position in range(4):
        b = response.source(position)
        taps = [whitener @ np.linalg.matrix_power(loop, lag) @ b for lag in range(80)]
        columns = response.respond(position, np.eye(80)).reshape(80, -1, 80)
        norms = [
            np.linalg.norm(columns[s:, :, s] - np.array(taps[: 80 - s]).reshape(80 - s, -1))
            for s in range(start)
        ]
        assert sum(norms) <= tables.early.norm_sum(b[:, None])[0] * (1 + 1e-12)


@pytest.mark.parametrize("graph", ["erdos-renyi:n=60,p=0.2,seed=3", "path:n=9", "karate"])
@pytest.mark.parametrize("rounds", [200, 50_000])
def test_rows_that_are_left_out_widen_no_bound(graph: str, rounds: int) -> None:
    system, response = response_of(graph, View.secure_sum(0), rounds=rounds)
    sources, tables = response.columns(np.arange(system.unknown.size)), lag_tables(response)
    forms = (tables.early, tables.left)
    whole = lag_bound(replace(tables, quick=forms), sources)
    # Cut so roughly that most targets need all rows after all.
    rougher = [(tables.early.fewer(share), tables.left.fewer(share)) for share in (1e-2, 1.0)]
    for quick in (tables.quick, *rougher):
        found = lag_bound(replace(tables, quick=quick), sources)
        assert (found >= whole * (1 - 1e-12)).all()
        assert (found <= whole * (1 + 2e-10)).all()
    assert len(tables.quick[0].roots) < len(tables.early.roots)
