# SPDX-License-Identifier: Apache-2.0
"""Norms from noise: how white a filter is, and how far floats are off, without rows in doubled precision."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from flint import arb, arb_mat, ctx
from scipy import linalg
from tests.ball_matrices import balls, floats

from sottovoce import View, gossip, sensitivity
from sottovoce.filtering import ProgramResponse, program_forms, program_response
from sottovoce.filtering.defects import plain_defect
from sottovoce.filtering.doubled import Doubled
from sottovoce.filtering.innovations import _followed_over, _Round
from sottovoce.filtering.overall import Overall, _whitening_norm, overall
from sottovoce.graphs import lazy_weights, metropolis_weights
from sottovoce.protocols import momentum, pairwise_noise, scheduled

if TYPE_CHECKING:
    from sottovoce.protocols import Protocol

RING = metropolis_weights("ring:n=60")
ROUNDS = 8
PROTOCOLS = [
    gossip(RING, rounds=ROUNDS, noise_levels=2),
    pairwise_noise(RING, rounds=ROUNDS, local=1, shared=2),
    scheduled([RING, lazy_weights(RING)], rounds=ROUNDS),
    momentum(RING, rounds=ROUNDS, beta="9/10"),
]


def found(protocol: Protocol) -> tuple[ProgramResponse, Overall]:
    response = program_response(protocol, View.neighbourhood(0), engine="reduced", coarse=True)
    assert response.cut is not None
    bounds = overall(response.steps, response.cut, response._adjoints())
    assert bounds is not None
    return response, bounds


def covariance(response: ProgramResponse) -> np.ndarray:
    """The covariance of ν: what the noise that is injected in each round makes of it, followed in 128 bits."""
    rounds = []
    with ctx.workprec(128):
        for step in response.steps:
            parts = (step.stage.transition, step.stage.rows, step.filtered.gain, step.filtered.whitener)
            A, C, K, X = map(balls, parts)
            assert step.stage.noise.injected is not None
            rounds.append((A - K * C, X * C, balls(step.stage.noise.injected.high)))
        count = int(response.starts[-1])
        total = balls(-np.eye(count))
        for s, (_, _, noise) in enumerate(rounds):
            shown, moved = [], balls(np.eye(noise.nrows()))
            for loop, read, _ in rounds[s:]:
                shown += (read * moved).tolist()
                moved = loop * moved
            before = [[arb(0)] * noise.nrows()] * (count - len(shown))
            rows = arb_mat(before + shown)
            total = total + rows * noise * rows.transpose()
        return floats(total)


@pytest.mark.parametrize("protocol", PROTOCOLS[::3], ids=lambda each: each.name)
def test_whiteness_by_norms_holds_for_the_covariance_in_128_bits(protocol: Protocol) -> None:
    response, bounds = found(protocol)
    assert np.linalg.norm(covariance(response), 2) <= bounds.unwhite < 0.01


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda each: each.name)
def test_norms_are_not_far_from_what_rows_say(protocol: Protocol) -> None:
    response, bounds = found(protocol)
    for by_norms, by_rows in (
        (bounds.unwhite, response.accuracy.unwhite),
        (bounds.cut, response.accuracy.cut),
        (bounds.plainly, response.accuracy.plainly),
    ):
        assert by_rows / 100 < by_norms < 100 * by_rows


def test_floats_follow_a_stream_within_the_allowance() -> None:
    response, bounds = found(PROTOCOLS[3])
    state, off = np.zeros(response.steps[0].stage.size), 0.0
    with ctx.workprec(128):
        exact = arb_mat(len(state), 1)
        for step in response.steps:
            parts = (step.stage.transition, step.stage.rows, step.filtered.gain, step.filtered.whitener)
            A, C, K, X = map(balls, parts)
            assert step.stage.given is not None
            source = step.stage.given[:, [1]]
            state, exact = state + source[:, 0], exact + balls(source)
            shown = step.filtered.whitener @ step.stage.rows @ state
            off += float(np.linalg.norm(floats(balls(shown[:, None]) - X * C * exact)) ** 2)
            state = step.stage.transition @ state - step.filtered.gain @ (step.stage.rows @ state)
            exact = A * exact - K * (C * exact)
    assert 0 < np.sqrt(off) <= bounds.plainly * np.sqrt(ROUNDS) < 1e5 * np.sqrt(off)


def test_noise_that_misses_a_direction_gives_no_norm() -> None:
    response, _ = found(PROTOCOLS[0])
    noise = response.steps[0].stage.noise.injected
    assert noise is not None
    assert response.cut is not None
    noise.high[0, :] = noise.high[:, 0] = 0.0
    assert overall(response.steps, response.cut, response._adjoints()) is None


def test_dear_views_are_bounded_without_rows_and_hold_what_is_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = metropolis_weights("random-regular:n=200,d=4,seed=1")
    view, targets = View.secure_sum(0), range(1, 20)
    protocol = gossip(weights, rounds=64, noise_levels=(2, 1) * 100)
    fine = sensitivity(protocol, view, targets, effort="fine")
    cheap = sensitivity(protocol, view, targets, effort="bulk")
    monkeypatch.setattr(program_forms, "DEAR", 0)
    asked: list[Overall | None] = []

    def by_norms(*given: Any) -> Overall | None:
        asked.append(overall(*given))
        return asked[-1]

    monkeypatch.setattr(program_forms, "overall", by_norms)
    dear = sensitivity(protocol, view, targets, effort="bulk")
    assert (dear.squared_lower <= fine.squared_upper).all()
    assert (dear.squared_upper >= fine.squared_lower).all()
    assert len(asked) == 1
    assert asked[0] is not None
    np.testing.assert_allclose(dear.squared_upper, cheap.squared_upper, rtol=1e-4)
    np.testing.assert_allclose(dear.squared_lower, cheap.squared_lower, rtol=1e-4)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda each: each.name)
def test_what_a_space_leaves_out_echoes_no_louder_than_open_loop_says(protocol: Protocol) -> None:
    response = program_response(protocol, View.neighbourhood(0), engine="reduced", coarse=True)
    assert response.cut is not None
    # Cut the space shorter than any horizon needs, so that something is left out: the bound is of any f.
    seen = np.zeros((int(response.starts[-1]), 0))
    for s, rows, _, _ in response._adjoints():
        factor = response.steps[s].stage.factor
        if s >= 0 and factor is not None:
            column = np.zeros((len(seen), len(factor)))
            column[int(response.starts[s + 1]) : int(response.starts[s + 1]) + len(rows)] = rows @ factor.T
            seen = np.hstack([seen, column])
    bounds = found(protocol)[1]
    stages = {id(step.stage): step.stage for step in response.steps}.values()
    least = min(
        np.linalg.eigvalsh(np.asarray(each.noise.injected.high))[0] for each in stages if each.noise.injected
    )
    allowed = response.cut.echo * _whitening_norm(stages, least, bounds.unwhite)
    assert np.linalg.norm(seen, 2) <= allowed


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda each: each.name)
def test_defects_in_plain_floats_hold_in_128_bits(protocol: Protocol) -> None:
    response, _ = found(protocol)
    stage = response.steps[0].stage
    m, following = stage.count, np.zeros((stage.size, stage.size))
    # What a Gram matrix may be off by is a matter of its own.
    noise = replace(stage.noise, injected=Doubled(high=stage.injected.high))
    for _ in range(ROUNDS):
        P, held = following, following + np.asarray(stage.injected.high)
        seen = (stage.dense_both @ held) @ stage.dense_both.T
        X = np.linalg.inv(np.linalg.cholesky(seen[-m:, -m:]))
        K = seen[:-m, -m:] @ X.T @ X
        following = seen[:-m, :-m] - K @ seen[-m:, -m:] @ K.T
        bound = plain_defect(replace(stage, noise=noise), held, seen, K, X, following)
        answer = np.eye(stage.size + m)
        answer[: stage.size, stage.size :], answer[stage.size :, stage.size :] = -K, X
        with ctx.workprec(128):
            both, after = balls(stage.dense_both), balls(answer)
            whole = both * (balls(P) + balls(stage.injected.high)) * both.transpose()
            off = after * whole * after.transpose() - balls(linalg.block_diag(following, np.eye(m)))
            true = np.abs(floats(off))
        assert (true <= bound).all()
        assert np.linalg.norm(bound, 2) < 1000 * np.linalg.norm(true, 2)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda each: each.name)
def test_states_from_noise_hold_in_128_bits(protocol: Protocol) -> None:
    response, _ = found(protocol)
    size = response.steps[0].stage.size
    with ctx.workprec(128):
        # One column a disturbance, and one a contribution of node 1 or 7.
        disturbed, contributed = np.zeros((size, 0)), [np.zeros((size, 0)) for _ in range(2)]
        for step in response.steps:
            reached = np.linalg.norm(disturbed, 2) if disturbed.size else 0.0
            assert reached <= step.reach
            assert step.stage.factor is not None
            let_in = np.linalg.norm(step.stage.factor)
            assert (let_in * np.linalg.norm(disturbed, axis=1) <= step.held[:, 1]).all()
            for each in contributed:
                assert (np.linalg.norm(each, axis=1) <= step.held[:, 0]).all()
            loop = balls(step.stage.transition) - balls(step.filtered.gain) * balls(step.stage.rows)
            given = step.stage.inputs_given[:, [1, 7]]

            def after(columns: np.ndarray, loop: arb_mat = loop) -> np.ndarray:
                return floats(loop * balls(columns))

            contributed = [after(np.hstack([each, given[:, [k]]])) for k, each in enumerate(contributed)]
            disturbed = np.hstack([after(disturbed) if disturbed.size else disturbed, np.eye(size)])
    followed = _followed_over(
        [
            _Round(filtered=step.filtered, covariance=(np.zeros(0), 0.0), again=False)
            for step in response.steps
        ],
        [step.stage for step in response.steps],
        protocol.period,
    )
    for by_noise, by_rounds in zip(response.steps[1:], followed[1:], strict=True):
        assert by_noise.held[:, 0].max() < 100 * by_rounds.held[:, 0].max()
        assert by_noise.reach < 100 * by_rounds.reach
