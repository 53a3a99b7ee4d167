# SPDX-License-Identifier: Apache-2.0
"""Gains that are frozen: what they cost where P falls, also where noise misses a direction, against more digits."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from flint import arb, arb_mat, ctx
from tests.ball_matrices import balls, floats
from tests.interpreter import exact_view

from sottovoce import View, gossip, sensitivity
from sottovoce.filtering import ProgramResponse, in_full, program_response
from sottovoce.filtering.defects import doubled_defect
from sottovoce.filtering.doubled import Doubled
from sottovoce.filtering.frozen_gains import Defects, Frozen, frozen_gains, with_floats
from sottovoce.filtering.innovations import _fall, _filtered, _followed_over, _Round
from sottovoce.filtering.reduction import Cut
from sottovoce.filtering.stages import Noise, Stage
from sottovoce.filtering.windows import least_noise, noise_floor
from sottovoce.graphs import lazy_weights, metropolis_weights
from sottovoce.protocols import exact_diffusion, gradient_tracking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.filtering import FilterStep
    from sottovoce.protocols import Protocol

RING = metropolis_weights("ring:n=10")
ROUNDS = 12
MISSED = [exact_diffusion(lazy_weights(RING), rounds=ROUNDS), gradient_tracking(RING, rounds=ROUNDS)]
NOTHING = Cut(relation=0.0, start=0.0, drawn=1.0, given=1.0, beyond=(1.0, 1.0), echo=0.0)


def shown_by(steps: Sequence[FilterStep], frozen_at: int) -> arb_mat:
    """The map from states that are put in to ν, rounds by rounds, with A K⁺ and fl(X C), to be read in 256 bits.

    Gains of all rounds after `frozen_at` are those of that round.
    """
    order = [steps[min(t, frozen_at)].filtered for t in range(len(steps))]
    size, count = order[0].stage.size, order[0].stage.count
    made: dict[int, tuple[arb_mat, arb_mat]] = {}
    for each in order:
        if id(each) not in made:
            parts = each.stage.transition, each.update, each.stage.rows, each.plainly_whitened
            A, update, C, shows = map(balls, parts)
            made[id(each)] = A - A * update * C, shows
    # X C of a round, and from there back, one round after the other.
    lines = []
    for t, each in enumerate(order):
        read = [made[id(each)][1]]
        for s in range(t, 0, -1):
            read.append(read[-1] * made[id(order[s - 1])][0])
        later = [arb(0)] * (size * (len(order) - 1 - t))
        rows = [part.tolist() for part in reversed(read)]
        lines += [[x for part in rows for x in part[i]] + later for i in range(count)]
    return arb_mat(lines)


def lacking(steps: Sequence[FilterStep], frozen_at: int) -> float:
    """What the least eigenvalue of the covariance of ν lacks of 1."""
    with ctx.workprec(256):
        shown = shown_by(steps, frozen_at)
        noise = balls(np.diag(np.tile(np.diagonal(steps[0].stage.injected.high), len(steps))))
        off = shown * noise * shown.transpose() - balls(np.eye(shown.nrows()))
    return -float(np.linalg.eigvalsh(floats(off))[0])


def raised(noise: float, rounds: int, bump: int, by: float) -> ProgramResponse:
    """A filter whose P was raised in one round, on a state of which noise misses a number.

    A slow number, fresh noise beside it, and one that nothing moves; what is seen is their sum.
    """
    stage = Stage(
        transition=np.diag([1.0, 0.0, 1.0]),
        rows=np.array([[1.0, 1.0, 0.5]]),
        noise=Noise(
            process=np.diag([noise, 0.0, 0.0]),
            shared=np.array([[noise], [0.0], [0.0]]),
            seen=np.array([[1.0 + noise]]),
            injected=Doubled(high=np.diag([noise, 1.0, 0.0])),
        ),
        given=np.array([[1.0], [0.0], [0.0]]),
        factor=np.zeros((1, 3)),
    )
    P, run = np.zeros((3, 3)), []
    for t in range(rounds):
        filtered, following = _filtered(stage, P, None, 0.0)
        if t == bump:
            following = following + by * np.diag([1.0, 0.0, 0.0])
            defect = doubled_defect(stage, P, filtered.gain, filtered.whitener, following)
            filtered = replace(filtered, defect=defect)
        kept = np.diagonal(P).copy(), float(np.abs(P).sum(axis=1).max())
        run.append(_Round(filtered=filtered, covariance=kept, again=False, fall=_fall(following - P)))
        P = following
    steps = _followed_over(run, [stage] * rounds, 1)
    protocol = gossip(metropolis_weights("path:n=2"), rounds=rounds)
    return ProgramResponse(
        protocol=protocol, steps=steps, bare=frozenset(), reached=np.ones(1, dtype=bool), cut=NOTHING
    )


def test_a_fall_that_whiteness_does_not_count_is_counted() -> None:
    """P is raised once and falls from then on: gains that are frozen there fall short of more than unfrozen ones do."""
    response = raised(noise=0.1, rounds=48, bump=24, by=1e-4)
    assert least_noise([response.steps[0].stage]) <= 0
    assert not noise_floor([step.filtered for step in response.steps]).least > 0
    short = lacking(response.steps, frozen_at=25)
    # Whiteness of the filter itself says less than what frozen gains lack.
    assert short > 1.5 * response.accuracy.unwhite
    assert short <= response.overall.frozen.short < 0.5


@pytest.mark.parametrize("by", [0.0, 1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("noise", [1e-4, 1e-2, 1.0])
def test_frozen_gains_lack_no_more_than_is_said(noise: float, by: float) -> None:
    response = raised(noise=noise, rounds=20, bump=10, by=by)
    for frozen_at in (1, 10, 11, 19):
        assert lacking(response.steps, frozen_at) <= response.overall.frozen.short


@pytest.mark.parametrize("view", [View.neighbourhood(0), View.secure_sum(0)], ids=str)
@pytest.mark.parametrize("protocol", MISSED, ids=lambda each: each.name)
def test_upper_ends_of_frozen_gains_hold_the_form_in_rationals(protocol: Protocol, view: View) -> None:
    response = in_full(program_response(protocol, view, engine="reduced", coarse=True))
    frozen, stage = response.overall.frozen, response.steps[0].stage
    assert frozen.short < 1e-3
    exact = exact_view(protocol, view, 5).form()
    assert exact is not None
    form = np.array([[float(x) for x in row] for row in exact])
    streams = np.hstack([np.linalg.eigh(form)[1], np.random.default_rng(3).normal(size=(ROUNDS, 8))])
    streams /= np.linalg.norm(streams, axis=0)
    for frozen_at in (0, 3, 8):
        with ctx.workprec(256):
            shown = floats(shown_by(response.steps, frozen_at))
        answer = shown @ np.kron(np.eye(ROUNDS), stage.inputs_given[:, [5]])
        covered = (np.linalg.norm(answer @ streams, axis=0) + frozen.beside) ** 2 / (1 - frozen.short)
        assert (np.einsum("tk,tk->k", streams, form @ streams) <= covered * (1 + 1e-12)).all()


def test_floats_in_the_place_of_gains_move_defects_by_less_than_is_said() -> None:
    response = program_response(MISSED[0], View.neighbourhood(0), engine="reduced", coarse=True)
    measured, said = Defects.of(response.steps), with_floats(response.steps)
    assert said.drift >= measured.drift
    step = response.steps[3]
    with ctx.workprec(256):
        A, C, K, X = (
            balls(each)
            for each in (step.stage.transition, step.stage.rows, step.filtered.gain, step.filtered.whitener)
        )
        loop, rows, held = A - K * C, X * C, balls(step.stage.injected.high)
        moved = K * C - A * balls(step.filtered.update) * C
        shown = balls(step.filtered.plainly_whitened) - rows
        drift = moved * held * loop.transpose() + loop * held * moved.transpose()
        crossed = moved * held * rows.transpose() + loop * held * shown.transpose()
        white = shown * held * rows.transpose() + rows * held * shown.transpose()
        norms = [np.linalg.norm(floats(each), 2) for each in (drift, crossed, white)]
    allowed = said.drift - measured.drift, said.crossed - measured.crossed, said.white - measured.white
    for true, bound in zip(norms, allowed, strict=True):
        assert 0 < true <= bound


def test_falls_that_were_not_looked_at_and_filters_that_are_not_white_cost_everything() -> None:
    response = raised(noise=0.1, rounds=6, bump=3, by=0.0)
    unseen = [replace(step, fall=math.inf) for step in response.steps]
    assert frozen_gains(unseen, unwhite=1e-9, norm=1.0, cut=(0.0, 0.0)).short == math.inf
    for unwhite, norm in ((0.6, 1.0), (math.nan, 1.0), (1e-9, math.inf)):
        found = frozen_gains(response.steps, unwhite=unwhite, norm=norm, cut=(0.0, 0.0))
        assert found == Frozen(short=math.inf, beside=math.inf)


def test_ends_in_bulk_hold_those_that_are_solved_where_noise_misses_a_direction() -> None:
    weights, view = metropolis_weights("random-regular:n=36,d=4,seed=2"), View.secure_sum(0)
    targets = [int(weights.neighbours(0)[0]), 17, 31]
    for protocol in (
        exact_diffusion(lazy_weights(weights), rounds=64),
        gradient_tracking(weights, rounds=64),
    ):
        fine = sensitivity(protocol, view, targets, effort="fine")
        bulk = sensitivity(protocol, view, targets, effort="bulk")
        assert (bulk.squared_lower <= fine.squared_upper).all()
        assert (bulk.squared_upper >= fine.squared_lower).all()
        assert (bulk.method != "blocks").all()
