# SPDX-License-Identifier: Apache-2.0
"""Forms of programs that are put together block by block, against 256-bit arithmetic and rows in doubled precision."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from mpmath import mp
from tests.filtering.test_innovations import ENCODED, PROTOCOLS, SCHEDULES, VIEWS, measured_by

from sottovoce import graphs, sensitivity
from sottovoce.errors import NotCertified
from sottovoce.filtering import BlockResponse, blocks, engines, program_response, quick_response
from sottovoce.filtering.block_rounding import disturbances
from sottovoce.filtering.defects import Unsure, computed_defect
from sottovoce.filtering.innovations import filtered_plainly
from sottovoce.protocols import exact_diffusion, gossip, gradient_tracking, momentum, pairwise_noise
from sottovoce.views import View

if TYPE_CHECKING:
    from sottovoce.filtering import Engine
    from sottovoce.protocols import Protocol

NETWORK = graphs.metropolis_weights("erdos-renyi:n=24,p=0.3,seed=1")


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of three rounds or so, of small networks too: whatever is measured here goes through several."""
    monkeypatch.setattr(engines, "SMALLEST_QUICKLY", 0)
    monkeypatch.setattr(blocks, "ROWS", 1)
    monkeypatch.setattr(blocks, "FEWEST", 3)


def in_blocks(protocol: Protocol, view: View, engine: Engine = "auto") -> BlockResponse:
    """The response in blocks, which serves every target itself."""
    response = quick_response(protocol, view, engine=engine, loose=math.inf)
    assert isinstance(response, BlockResponse)
    assert len(response.edges) > 3
    return response


@pytest.mark.parametrize("engine", ["filter", "reduced"])
@pytest.mark.parametrize("energy", [False, True], ids=["norms", "energy"])
@pytest.mark.parametrize("view", VIEWS, ids=str)
@pytest.mark.parametrize("protocol", [*PROTOCOLS, *ENCODED], ids=lambda protocol: protocol.name)
def test_allowances_hold_and_are_not_far_too_large(
    protocol: Protocol, view: View, energy: bool, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Gains that are kept cost more than rounding, and are a matter of their own.
    monkeypatch.setattr(engines, "QUICKLY_SETTLED", 2.0**-49)
    measured = measured_by(in_blocks(protocol, view, engine), protocol, view, energy=energy)
    assert all(error <= allowed < 1e-6 for error, allowed in measured)


@pytest.mark.parametrize("engine", ["filter", "reduced"])
@pytest.mark.parametrize("view", VIEWS, ids=str)
@pytest.mark.parametrize("protocol", SCHEDULES, ids=["matchings", "one-peer", "three"])
def test_allowances_hold_where_the_rounds_of_a_schedule_recur(
    protocol: Protocol, view: View, engine: Engine
) -> None:
    response = in_blocks(protocol, view, engine)
    assert len({id(each) for each in response.run}) < len(response.run)
    assert all(error <= allowed < 1e-5 for error, allowed in measured_by(response, protocol, view))


def test_gains_that_are_kept_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    protocol = PROTOCOLS[1]
    monkeypatch.setattr(engines, "QUICKLY_SETTLED", 1e-3)
    response = in_blocks(protocol, VIEWS[0], "filter")
    assert len({id(each) for each in response.run}) < 10
    measured = measured_by(response, protocol, VIEWS[0])
    assert all(error <= allowed for error, allowed in measured)
    assert any(error > allowed / 100 for error, allowed in measured)


@pytest.mark.parametrize("protocol", [PROTOCOLS[0], PROTOCOLS[5], PROTOCOLS[8]], ids=lambda each: each.name)
def test_states_stay_within_what_is_followed(protocol: Protocol) -> None:
    run = in_blocks(protocol, VIEWS[0], "filter").run
    built, reach = disturbances(run)
    size = run[0].stage.size
    nodes = np.arange(protocol.n)
    contributed, disturbed = [np.zeros((size, 0)) for _ in nodes], np.zeros((size, 0))
    longest = largest = 0.0
    for each in run:
        given = each.stage.plain_contributions(nodes)
        put = given[:size] - each.gain @ given[size:]
        contributed = [np.hstack([each.plain_loop @ contributed[j], put[:, [j]]]) for j in nodes]
        disturbed = np.hstack([each.plain_loop @ disturbed, np.eye(size)])
        longest = max(longest, *(float(np.linalg.norm(state, 2)) for state in contributed))
        largest = max(largest, float(np.linalg.norm(disturbed, 2)))
    assert longest <= built < 30 * longest
    assert largest <= reach < 300 * largest


@pytest.mark.parametrize("engine", ["filter", "reduced"])
@pytest.mark.parametrize("protocol", [PROTOCOLS[0], PROTOCOLS[3], PROTOCOLS[5]], ids=lambda each: each.name)
def test_what_floats_leave_open_of_a_defect_holds_in_128_bits(protocol: Protocol, engine: Engine) -> None:
    response = in_blocks(protocol, VIEWS[0], engine)
    stage, P = response.run[0].stage, np.zeros((response.run[0].stage.size,) * 2)
    size, noise, both = stage.size, stage.noise, stage.dense_both
    for _ in range(6):
        before, held = P, P if noise.injected is None else P + np.asarray(noise.injected.high)
        seen = (both @ held) @ both.T + (0.0 if noise.whole is None else noise.whole)
        X = np.linalg.inv(np.linalg.cholesky(seen[size:, size:]))
        K = seen[:size, size:] @ X.T @ X
        P = seen[:size, :size] - K @ seen[size:, size:] @ K.T
    computed, unsure = computed_defect(stage, seen, K, X, P), Unsure(stage, np.abs(held), K, X)
    with mp.workprec(128):
        exact = [mp.matrix(np.asarray(each).tolist()) for each in (both, before, K, X, P)]
        whole, covariance, gain, whitener, following = exact
        if stage.lows is not None:
            rows = [each.toarray() for each in stage.lows]
            whole = whole + mp.matrix(np.vstack(rows).tolist())
        if noise.injected is not None:
            covariance = covariance + mp.matrix(np.asarray(noise.injected.high).tolist())
        made = whole * covariance * whole.T
        if noise.drawn is not None:
            for part in (noise.drawn.high, noise.drawn.low):
                made = made + mp.matrix(np.asarray(part).tolist())
        answer, aim = mp.eye(len(both)), mp.eye(len(both))
        answer[:size, size:], answer[size:, size:], aim[:size, :size] = -gain, whitener, following
        true = np.abs(np.array((answer * made * answer.T - aim).tolist(), dtype=np.float64))
    for sizes in (np.ones(size), np.arange(1.0, size + 1)):
        off = np.maximum(true - computed, 0.0)
        drift, crossed = unsure.drift(sizes)
        assert sizes @ off[:size, :size] @ sizes <= drift
        assert (sizes @ off[:size, size:]).sum() <= crossed
        moved = np.abs(true - computed)
        assert drift <= 1e4 * (sizes @ moved[:size, :size] @ sizes)
    assert off[size:, size:].sum(axis=1).max() <= unsure.white


def test_forms_that_floats_leave_open_are_made_closer() -> None:
    view, targets = View.neighbourhood(0), np.arange(1, 6)
    protocol = momentum(NETWORK, rounds=30, beta="9/10")
    close = list(program_response(protocol, view).forms(targets))
    response = quick_response(protocol, view, loose=1e-4)
    assert isinstance(response, BlockResponse)
    assert all(form.shift > other.shift for form, other in zip(response.forms(targets), close, strict=True))
    strict = replace(response, loose=1e-30)
    for form, other in zip(strict.forms(targets), close, strict=True):
        np.testing.assert_array_equal(form.matrix, other.matrix)
        assert (form.target, form.shift, form.unwhite) == (other.target, other.shift, other.unwhite)
    # Some of several targets: each gets its own.
    loose = [form.target for form in response.forms(targets)][::2]
    mixed = replace(response)
    object.__setattr__(mixed, "_is_loose", lambda form: form.target in loose)
    for form, other in zip(mixed.forms(targets), close, strict=True):
        assert form.target == other.target
        assert (form.shift == other.shift) == (form.target in loose)


@pytest.mark.parametrize(
    "protocol",
    [
        pairwise_noise(NETWORK, rounds=40, local=1, shared=2),
        gossip(NETWORK, rounds=40, noise_levels=tuple(1 + k % 3 for k in range(24))),
        gradient_tracking(NETWORK, rounds=40),
        exact_diffusion(graphs.lazy_weights(NETWORK), rounds=40),
    ],
    ids=lambda protocol: protocol.name,
)
@pytest.mark.parametrize("tolerance", [2e-4, 1e-9])
def test_intervals_agree_with_those_of_rows_in_doubled_precision(
    protocol: Protocol, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = sensitivity(protocol, View.neighbourhood(0), effort="fine", tolerance=tolerance)
    monkeypatch.setattr(
        "sottovoce.sensitivities.programs.quick_response",
        lambda protocol, view, engine, **_: program_response(protocol, view, engine=engine),
    )
    close = sensitivity(protocol, View.neighbourhood(0), effort="fine", tolerance=tolerance)
    assert (found.squared_lower <= close.squared_upper).all()
    assert (close.squared_lower <= found.squared_upper).all()
    np.testing.assert_allclose(found.squared_upper, close.squared_upper, rtol=3 * max(tolerance, 1e-6))


def test_a_filter_that_loses_its_noise_is_left_to_the_closer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise NotCertified("rounding has eaten the noise")

    monkeypatch.setattr(engines, "filtered_plainly", fails)
    assert not isinstance(quick_response(PROTOCOLS[0], VIEWS[0]), BlockResponse)


def test_blocks_that_recur_share_their_rows() -> None:
    stages = [each.stage for each in in_blocks(SCHEDULES[0], VIEWS[0], "filter").run]
    run = filtered_plainly(stages, period=2, settled_at=1e-6)
    found = list(blocks.blocks_of(run, blocks.edges_of(run, 2)))
    assert any(block.same for block in found)
    for later, block in pairwise(found):
        assert block.same == (block.filtered == later.filtered)
