# SPDX-License-Identifier: Apache-2.0
"""Forms of programs that are put together block by block, against 256-bit arithmetic and rows in doubled precision."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from flint import ctx, fmpq, fmpq_mat
from scipy import linalg
from tests.ball_matrices import balls, floats
from tests.filtering.test_innovations import (
    ENCODED,
    PROTOCOLS,
    RING,
    SCHEDULES,
    VIEWS,
    measured_by,
    targets_of,
)
from tests.interpreter import exact_view, largest_over_signs
from tests.scenes import EVERY_ENGINE

from sottovoce import graphs, sensitivity
from sottovoce.errors import NotCertified
from sottovoce.filtering import (
    BlockResponse,
    block_rounding,
    block_states,
    blocks,
    engines,
    plain_steps,
    program_response,
    quick_response,
)
from sottovoce.filtering.block_states import states_of
from sottovoce.filtering.plain_steps import filtered_plainly
from sottovoce.filtering.rounding import spread
from sottovoce.protocols import (
    clean_state,
    exact_diffusion,
    gossip,
    gradient_tracking,
    momentum,
    pairwise_noise,
)
from sottovoce.views import View

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sottovoce.filtering import Engine
    from sottovoce.filtering.innovations import Filtered
    from sottovoce.protocols import Protocol

NETWORK = graphs.metropolis_weights("erdos-renyi:n=24,p=0.3,seed=1")
SMALLER = graphs.metropolis_weights("erdos-renyi:n=12,p=0.4,seed=1")


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


def most_of(measured: list[tuple[float, float]]) -> float:
    """How many times the error allowances are, for the stream that errors like best; all of them hold."""
    assert all(error <= allowed < 1e-9 for error, allowed in measured)
    return min(allowed / max(error, 1e-300) for error, allowed in measured)


def in_norm_and_energy(
    response: BlockResponse, protocol: Protocol, view: View
) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    """What `measured_by` says of contributions that are bounded in every round, and of those bounded in all."""
    for kind, energy in (("norms", False), ("energy", True)):
        yield kind, measured_by(response, protocol, view, energy=energy)


@pytest.mark.parametrize("view", VIEWS, ids=str)
@pytest.mark.parametrize("protocol", [*PROTOCOLS, *ENCODED], ids=lambda protocol: protocol.name)
def test_allowances_hold_and_are_not_a_thousand_times_too_large(
    protocol: Protocol, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Gains that are kept cost more than rounding, and are a matter of their own.
    monkeypatch.setattr(engines, "QUICKLY_SETTLED", 2.0**-49)
    for kind, measured in in_norm_and_energy(in_blocks(protocol, view, "filter"), protocol, view):
        assert most_of(measured) < 1000, kind


@EVERY_ENGINE
@pytest.mark.parametrize("view", VIEWS, ids=str)
@pytest.mark.parametrize("protocol", [*PROTOCOLS, *ENCODED], ids=lambda protocol: protocol.name)
def test_allowances_hold_where_everything_is_done_in_floats(
    protocol: Protocol, view: View, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in large networks.
    monkeypatch.setattr(engines, "QUICKLY_SETTLED", 2.0**-49)
    monkeypatch.setattr(plain_steps, "SMALL", 0)
    monkeypatch.setattr(block_rounding, "SHORT", 0)
    for kind, measured in in_norm_and_energy(in_blocks(protocol, view, engine), protocol, view):
        assert all(error <= allowed < 1e-6 for error, allowed in measured), kind


@EVERY_ENGINE
@pytest.mark.parametrize("view", VIEWS, ids=str)
@pytest.mark.parametrize("protocol", SCHEDULES, ids=["matchings", "one-peer", "three"])
def test_allowances_hold_where_the_rounds_of_a_schedule_recur(
    protocol: Protocol, view: View, engine: Engine
) -> None:
    response = in_blocks(protocol, view, engine)
    assert len({id(each) for each in response.run}) < len(response.run)
    measured = measured_by(response, protocol, view)
    assert all(error <= allowed < 1e-5 for error, allowed in measured)


@pytest.mark.parametrize("view", VIEWS, ids=str)
@pytest.mark.parametrize("protocol", SCHEDULES, ids=["matchings", "one-peer", "three"])
def test_allowances_of_schedules_are_not_a_thousand_times_too_large(
    protocol: Protocol, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "QUICKLY_SETTLED", 2.0**-49)
    assert most_of(measured_by(in_blocks(protocol, view, "filter"), protocol, view)) < 1000


def skewed(base: np.ndarray, wide: float) -> float:
    """What is said of a last block with this Q."""
    skew = block_rounding._Skew()
    skew.turn(base, len(base), wide)
    return skew.most


def rationals(matrix: np.ndarray) -> fmpq_mat:
    """Floats as they are."""
    return fmpq_mat([[fmpq(*float(x).as_integer_ratio()) for x in row] for row in matrix])


def off_identity(matrix: fmpq_mat) -> float:
    """The largest row sum of |XᵀX − I|."""
    found = matrix.transpose() * matrix - rationals(np.eye(matrix.ncols()))
    return max(sum(abs(float(x.p) / float(x.q)) for x in row) for row in found.tolist())


@pytest.mark.parametrize("few", [128, 0], ids=["signs", "norms"])
def test_how_far_a_product_of_bases_is_from_keeping_lengths(
    few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """V = diag(I, V')Q over six blocks in rationals; with signs a bound is close, by norms all of them add up."""
    monkeypatch.setattr(block_rounding, "FEW", few)
    rng = np.random.default_rng(5)
    skew, V, most = block_rounding._Skew(), fmpq_mat(0, 6), 0.0
    for k in range(6):
        base = np.linalg.qr(rng.normal(size=(10, 6)))[0]
        base[:, 1] *= 1 + 2.0**-50
        height, exact = 4 if k else 10, rationals(base).tolist()
        lower = (V * fmpq_mat(exact[height:])).tolist() if k else []
        V = fmpq_mat(exact[:height] + lower)
        most = max(most, off_identity(V))
        skew.turn(base, height, spread(np.abs(base)))
    assert most <= skew.most < (1.1 if few else 10) * most


@pytest.mark.parametrize("shape", [(7, 3), (60, 20), (90, 90)], ids=str)
@pytest.mark.parametrize("scale", [1.0, 1 + 2.0**-40, 1e-6])
def test_how_far_a_base_is_from_keeping_lengths(shape: tuple[int, int], scale: float) -> None:
    """‖QᵀQ − I‖ in rationals: the bound is a sum of sizes of a row, which few columns make no more than some norms."""
    base = np.linalg.qr(np.random.default_rng(3).normal(size=shape))[0] * scale
    base[:, 0] *= 2.0**-30 if scale < 1 else 1.0
    true = off_identity(rationals(base))
    found = skewed(base, spread(np.abs(base)))
    assert true <= found < 1.05 * true


def test_a_base_is_off_by_what_was_done_to_it() -> None:
    base = np.eye(9, 4)
    assert skewed(base, 1.0) < 1e-100
    base[5, 0] = 2.0**-40
    assert 2.0**-80 <= skewed(base, 1.1) < 1.1 * 2.0**-80 + 1e-25


@pytest.mark.parametrize("rounds", range(7, 10))
@pytest.mark.parametrize(
    ("build", "words"),
    [
        (pairwise_noise, {"local": 1, "shared": 2}),
        (exact_diffusion, {}),
        (gradient_tracking, {}),
        (momentum, {"beta": "1/2"}),
    ],
)
def test_a_last_block_that_shows_nothing_new_of_earlier_rounds(
    build: Any, words: dict[str, Any], rounds: int
) -> None:
    """Of one round of a node's own messages, whose noise it knows: R of that block has no rows."""
    protocol = build(graphs.lazy_weights(graphs.metropolis_weights("ring:n=8")), rounds=rounds, **words)
    view = View.single_node(0)
    matrices = [
        np.array([form.matrix for form in response.forms(np.array([1, 2, 4]))])
        for response in (
            in_blocks(protocol, view, "filter"),
            program_response(protocol, view, engine="filter"),
        )
    ]
    assert matrices[0] == pytest.approx(matrices[1], abs=1e-9)


def test_gains_that_are_kept_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    protocol = PROTOCOLS[1]
    monkeypatch.setattr(engines, "QUICKLY_SETTLED", 1e-3)
    response = in_blocks(protocol, VIEWS[0], "filter")
    assert len({id(each) for each in response.run}) < 10
    measured = measured_by(response, protocol, VIEWS[0])
    assert all(error <= allowed for error, allowed in measured)
    assert any(error > allowed / 100 for error, allowed in measured)


def followed_states(run: list[Filtered], nodes: np.ndarray) -> Iterator[tuple[list[np.ndarray], np.ndarray]]:
    """For each round the maps from contributions of each node to the state before it, and from disturbances."""
    size = run[0].stage.size
    contributed, disturbed = [np.zeros((size, 0)) for _ in nodes], np.eye(size)
    for each in run:
        yield contributed, disturbed
        given = each.stage.plain_contributions(nodes)
        put = given[:size] - each.gain @ given[size:]
        contributed = [np.hstack([each.plain_loop @ maps, put[:, [k]]]) for k, maps in enumerate(contributed)]
        disturbed = np.hstack([each.plain_loop @ disturbed, np.eye(size)])


@EVERY_ENGINE
@pytest.mark.parametrize("settled", [2.0**-49, 1e-3])
@pytest.mark.parametrize(
    "protocol", [*PROTOCOLS, SCHEDULES[0], momentum(RING, rounds=60, beta="1/2")], ids=lambda each: each.name
)
def test_states_stay_within_what_is_said_of_them(
    protocol: Protocol, settled: float, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "QUICKLY_SETTLED", settled)
    response = in_blocks(protocol, VIEWS[0], engine)
    nodes = targets_of(protocol, VIEWS[0])
    states = states_of(response.run)
    longest = largest = 0.0
    closest = np.inf
    for each, (contributed, disturbed) in zip(
        response.run, followed_states(response.run, nodes), strict=True
    ):
        held = states.held(each)
        for node, maps in zip(nodes, contributed, strict=True):
            true = np.linalg.norm(maps, axis=1)
            assert (true <= states.hidden[node] * held).all()
            closest = min(
                closest, float((states.hidden[node] * held / np.maximum(true, 1e-300)).min(initial=np.inf))
            )
            longest = max(longest, float(true.max(initial=0.0)))
        largest = max(largest, float(np.linalg.norm(disturbed, 2)))
    assert largest <= states.reach
    assert settled > 1e-6 or closest < 3


def test_states_that_noise_does_not_hide_are_followed() -> None:
    hidden = states_of(in_blocks(PROTOCOLS[0], VIEWS[0], "filter").run).hidden
    assert hidden[1:] == pytest.approx(3, rel=0.02)
    bare = in_blocks(PROTOCOLS[4], VIEWS[0], "filter").run
    assert bare[0].stage.hidden[0].min() > 1e6
    assert (states_of(bare).hidden == 1).all()


def test_states_are_no_longer_followed_in_full_where_gains_settle(monkeypatch: pytest.MonkeyPatch) -> None:
    full = []
    followed = block_states._followed

    def counted(*arguments: Any, **options: Any) -> tuple[np.ndarray, float]:
        full.append(0)
        return followed(*arguments, **options)

    monkeypatch.setattr(block_states, "_followed", counted)
    response = in_blocks(momentum(RING, rounds=60, beta="1/2"), VIEWS[0], "filter")
    states_of(response.run)
    assert len(full) < 40


def exact_defect(filtered: Filtered, P: np.ndarray, following: np.ndarray) -> np.ndarray:
    """|G Y Gᵀ − diag(P', I)|, in balls of 128 bits."""
    stage = filtered.stage
    noise, both = stage.noise, stage.dense_both
    seen = np.eye(len(both) - stage.size)
    aim = linalg.block_diag(following, seen)
    answer = np.block(
        [[np.eye(stage.size), -filtered.gain], [np.zeros((len(seen), stage.size)), filtered.whitener]]
    )
    with ctx.workprec(128):
        whole, covariance = balls(both), balls(P)
        if stage.lows is not None:
            whole = whole + balls(np.vstack([np.asarray(each) for each in stage.lows]))
        if noise.injected is not None:
            covariance = covariance + balls(noise.injected.high)
        made = whole * covariance * whole.transpose()
        if noise.drawn is not None:
            for part in (noise.drawn.high, noise.drawn.low):
                made = made + balls(part)
        off = balls(answer) * made * balls(answer).transpose() - balls(aim)
        return np.asarray(np.abs(floats(off)))


@EVERY_ENGINE
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.name)
def test_what_a_step_in_floats_falls_short_of_holds_in_128_bits(
    protocol: Protocol, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_steps, "SMALL", 0)
    stage = in_blocks(protocol, VIEWS[0], engine).run[0].stage
    size, P = stage.size, np.zeros((stage.size, stage.size))
    for t in range(6):
        filtered, following = plain_steps._filtered(stage, P, None, 0.0)
        unsure = filtered.unsure
        assert unsure is not None
        if t % 2:
            true = exact_defect(filtered, P, following)
            for sizes in (np.ones(size), np.arange(1.0, size + 1)):
                drift, crossed = unsure.drift(sizes)
                made = sizes @ true[:size, :size] @ sizes
                assert made <= drift < 500 * made
                assert np.linalg.norm(sizes @ true[:size, size:]) <= crossed
            assert true[size:, size:].sum(axis=1).max() <= unsure.white
            assert np.linalg.norm(true[:size, :size], 2) <= unsure.norm
        P = following


@EVERY_ENGINE
@pytest.mark.parametrize("protocol", [PROTOCOLS[3], PROTOCOLS[5], PROTOCOLS[8]], ids=lambda each: each.name)
def test_what_noise_as_stored_is_off_by_counts(
    protocol: Protocol, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise that is off by a millionth is one that is known to a millionth: no less is allowed for."""
    monkeypatch.setattr(plain_steps, "SMALL", 0)
    stage = in_blocks(protocol, VIEWS[0], engine).run[0].stage
    kind = "drawn" if stage.noise.injected is None else "injected"
    known = getattr(stage.noise, kind)
    off = np.random.default_rng(2).normal(size=known.high.shape)
    off = 1e-6 * (off + off.T)
    blurred, true = replace(known, error=np.abs(off)), replace(known, high=np.asarray(known.high) + off)
    P, size = np.zeros((stage.size, stage.size)), stage.size
    for _ in range(3):
        filtered, following = plain_steps._filtered(
            replace(stage, noise=replace(stage.noise, **{kind: blurred})), P, None, 0.0
        )
        assert filtered.unsure is not None
        exact = replace(stage, noise=replace(stage.noise, **{kind: true}))
        defect = exact_defect(replace(filtered, stage=exact), P, following)
        sizes = np.arange(1.0, size + 1)
        drift, crossed = filtered.unsure.drift(sizes)
        assert sizes @ defect[:size, :size] @ sizes <= drift
        assert np.linalg.norm(sizes @ defect[:size, size:]) <= crossed
        assert defect[size:, size:].sum(axis=1).max() <= filtered.unsure.white
        assert 1e-7 < np.linalg.norm(defect[:size, :size], 2) <= filtered.unsure.norm
        P = following


def test_what_is_no_number_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """One step of many of which floats say nothing: no form rests on it."""
    view, targets = View.neighbourhood(0), np.arange(1, 6)
    protocol = momentum(NETWORK, rounds=30, beta="9/10")
    monkeypatch.setattr(plain_steps, "SMALL", 0)
    close = list(program_response(protocol, view).forms(targets))
    found = {}
    for place in ("nowhere", "white", "norm"):
        response = quick_response(protocol, view, loose=1e-4)
        assert isinstance(response, BlockResponse)
        unsure = response.run[3].unsure
        assert unsure is not None
        unsure.__dict__[place] = math.nan
        found[place] = list(response.forms(targets))
    for form, other in zip(found["white"], close, strict=True):
        assert (form.shift, form.unwhite) == (other.shift, other.unwhite)
    # What states may hold is known otherwise, less closely.
    for form, other in zip(found["norm"], found["nowhere"], strict=True):
        assert form.shift > other.shift


@pytest.mark.parametrize("power", [20, 60, 95])
@pytest.mark.parametrize("build", [gossip, clean_state], ids=["gossip", "clean state"])
def test_noise_of_all_sizes_at_once(build: Any, power: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Levels that differ by up to 190 powers of ten: what floats lose of it is refused, or no number is too small."""
    monkeypatch.setattr(plain_steps, "SMALL", 0)
    monkeypatch.setattr(block_rounding, "SHORT", 0)
    levels = tuple(Fraction(10) ** (power if node % 2 else -power) for node in range(6))
    words = {"keep": "1/2"} if build is clean_state else {}
    protocol = build(graphs.metropolis_weights("ring:n=6"), rounds=6, noise_levels=levels, **words)
    view = View.neighbourhood(0)
    found = sensitivity(protocol, view, [1, 2, 3], contribution="scalar")
    for target, lower, upper in zip([1, 2, 3], found.squared_lower, found.squared_upper, strict=True):
        form = exact_view(protocol, view, target).form()
        exact = np.inf if form is None else largest_over_signs(form)
        assert lower <= exact <= upper


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
        pairwise_noise(SMALLER, rounds=16, local=1, shared=2),
        gossip(SMALLER, rounds=16, noise_levels=(1, 2, 3) * 4),
        gradient_tracking(SMALLER, rounds=16),
        exact_diffusion(graphs.lazy_weights(SMALLER), rounds=16),
    ],
    ids=lambda protocol: protocol.name,
)
@pytest.mark.parametrize("tolerance", [2e-4, 1e-9])
def test_intervals_agree_with_those_of_rows_in_doubled_precision(
    protocol: Protocol, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = [*range(1, 12, 4), int(SMALLER.neighbours(0)[0])]
    found = sensitivity(protocol, View.neighbourhood(0), targets, effort="fine", tolerance=tolerance)
    monkeypatch.setattr(
        "sottovoce.sensitivities.programs.quick_response",
        lambda protocol, view, engine, **_: program_response(protocol, view, engine=engine),
    )
    close = sensitivity(protocol, View.neighbourhood(0), targets, effort="fine", tolerance=tolerance)
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
    assert any(block.shown is later.shown for later, block in pairwise(found))
    for later, block in pairwise(found):
        assert (block.shown is later.shown) == (block.filtered == later.filtered)
