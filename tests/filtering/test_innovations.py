# SPDX-License-Identifier: Apache-2.0
"""Rounding allowances of the filter of a program, measured against 256-bit arithmetic."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from flint import arb, arb_mat, ctx, fmpq, fmpq_mat
from tests.scenes import EVERY_ENGINE, TRAPPED, TRAPS

from sottovoce.errors import NotCertified
from sottovoce.filtering.decorrelation import SeenRound, seen_view
from sottovoce.filtering.engines import program_response
from sottovoce.filtering.stages import stages_of
from sottovoce.graphs import lazy_weights, metropolis_weights
from sottovoce.protocols import (
    Combine,
    Draw,
    Exchange,
    Program,
    Protocol,
    chebyshev,
    clean_state,
    exact_diffusion,
    gossip,
    gradient_tracking,
    momentum,
    pairwise_noise,
    repeated,
    scheduled,
)
from sottovoce.protocols.compiled import GIVEN, STATE
from sottovoce.rounding import roundings
from sottovoce.sensitivities.programs import encoder_matrix
from sottovoce.views import View, observe

if TYPE_CHECKING:
    from sottovoce.filtering import BlockResponse, Engine, ProgramResponse
    from sottovoce.filtering.innovations import Filtered
    from sottovoce.filtering.program_forms import ProgramForm

RING, ROUNDS, TARGETS = metropolis_weights("ring:n=10"), 10, (1, 2, 3, 5)
PROTOCOLS = [
    gossip(RING, rounds=ROUNDS, noise_levels="1/3"),
    repeated(RING, rounds=ROUNDS, steps=3),
    chebyshev(RING, rounds=ROUNDS, steps=3, gamma="6/5"),
    pairwise_noise(RING, rounds=ROUNDS, local=1, shared=2),
    clean_state(RING, rounds=ROUNDS, keep="1/2"),
    momentum(RING, rounds=ROUNDS, beta="9/10"),
    gradient_tracking(RING, rounds=ROUNDS),
    gradient_tracking(RING, rounds=ROUNDS, noise="messages"),
    exact_diffusion(RING, rounds=ROUNDS),
]
ENCODED = [
    gossip(RING, rounds=ROUNDS, encoder=("1/3",) * ROUNDS),
    replace(momentum(RING, rounds=ROUNDS, beta="9/10"), encoder=(1, "-1/3", "2/7")),
]
VIEWS = [View.neighbourhood(0), View.secure_sum(0)]


def matchings(n: int) -> list[np.ndarray]:
    """Pairs of a ring in turn."""
    pairs = np.kron(np.eye(n // 2), np.full((2, 2), 0.5))
    return [pairs, np.roll(pairs, (1, 1), (0, 1))]


def one_peer(n: int) -> list[np.ndarray]:
    """Every node hears the one that is 1, 2, 4, … on, in turn."""
    return [(np.eye(n) + np.roll(np.eye(n), 2**k, 1)) / 2 for k in range(int(np.log2(n)))]


# They settle: rounds that recur are many. 20 rounds are no multiple of 3.
SCHEDULES = [
    scheduled(matchings(4), rounds=21),
    scheduled(one_peer(8), rounds=40),
    scheduled([lazy_weights(metropolis_weights("complete:n=6")), *matchings(6)], rounds=20),
]


def targets_of(protocol: Protocol, view: View) -> np.ndarray:
    """The targets, as far as there are as many nodes and their draws are not known."""
    known = observe(protocol, view).known
    return np.array([target for target in TARGETS if target < protocol.n and target not in known])


# More than are asked for, as a mode that nothing excites costs some hundred of them.
BITS = 1024


def followed(
    forms: list[tuple[dict[int, int], int]], seen: SeenRound, places: tuple[int, int], state: fmpq_mat
) -> fmpq_mat:
    """Forms over scales in the draws and the contributions of all rounds, a row each, in rationals.

    `places` says where the columns begin of what is drawn and contributed in this round.
    """
    drawn, given = places
    moved, own = fmpq_mat(len(forms), state.nrows()), fmpq_mat(len(forms), state.ncols())
    for i, (form, scale) in enumerate(forms):
        for key, value in form.items():
            x = fmpq(value, scale)
            if STATE <= key < GIVEN:
                moved[i, key - STATE] = x
            elif key < STATE and seen.known.isdisjoint(seen.compiled.owners[key]):
                own[i, drawn + key] = x
            elif key >= GIVEN and given + key - GIVEN < own.ncols():
                own[i, given + key - GIVEN] = x
    return moved * state + own


@functools.cache
def forms_in_256_bits(protocol: Protocol, view: View) -> dict[int, Any]:
    """M of the targets by definition from the exact rows, in balls that are known to be smaller than 256 bits tell."""
    rounds, n = seen_view(protocol, view).rounds, protocol.n
    begins = np.cumsum([0, *(len(seen.compiled.owners) for seen in rounds)]).tolist()
    draws = begins[-1]
    state = fmpq_mat(rounds[0].compiled.size, draws + n * len(rounds))
    rows: list[list[fmpq]] = []
    for t, seen in enumerate(rounds):
        places, kept = (begins[t], draws + n * t), seen.compiled.state
        shown = [(form, form[pivot]) for form, pivot in zip(seen.rows, seen.pivots, strict=True)]
        rows += followed(shown, seen, places, state).tolist()
        state = followed([(form, kept.denominator) for form in kept.forms], seen, places, state)
    N = fmpq_mat([row[:draws] for row in rows])
    C = _encoder(protocol)
    forms = {}
    with ctx.workprec(BITS):
        K = arb_mat(N * N.transpose())
        for target in targets_of(protocol, view).tolist():
            G = arb_mat(fmpq_mat([row[draws + target :: n] for row in rows]) * C)
            forms[target] = G.transpose() * K.solve(G)
            assert all(entry.rad() < arb(2) ** -256 for entry in forms[target].entries())
    return forms


def _encoder(protocol: Protocol) -> fmpq_mat:
    """C of a protocol."""
    C = fmpq_mat(protocol.rounds, protocol.rounds)
    for k, x in enumerate(protocol.code):
        for t in range(k, protocol.rounds):
            C[t, t - k] = fmpq(x.numerator, x.denominator)
    return C


def allowances(
    protocol: Protocol, view: View, engine: Engine, *, energy: bool = False
) -> list[tuple[float, float]]:
    """What `measured_by` says of the response that is followed in doubled precision."""
    return measured_by(program_response(protocol, view, engine=engine), protocol, view, energy=energy)


def measured_by(
    response: ProgramResponse | BlockResponse, protocol: Protocol, view: View, *, energy: bool = False
) -> list[tuple[float, float]]:
    """(what rounding did, what was allowed for it) for streams that a rounding error would like."""
    measured, truth, encoder = [], forms_in_256_bits(protocol, view), encoder_matrix(protocol)
    for form in response.forms(targets_of(protocol, view), energy=energy, encoder=encoder):
        exact = truth[form.target]
        with ctx.workprec(BITS):
            rounds = range(protocol.rounds)
            off = np.array([[float(arb(form.matrix[s, t]) - exact[s, t]) for t in rounds] for s in rounds])
        vectors = np.linalg.eigh((off + off.T) / 2)[1]
        liked = (np.where(vectors[:, k] < 0, -1.0, 1.0) for k in (0, 1, 2, -1, -2, -3))
        streams = [np.ones(len(off)), (-1.0) ** np.arange(len(off)), *liked]
        if energy:
            streams = [c * (1 - 1e-14) for c in vectors.T]
        measured += [(abs(float(c @ off @ c)), _allowed(form, c)) for c in streams]
    return measured


def _allowed(form: ProgramForm, stream: np.ndarray) -> float:
    """How much the upper end of one stream's value lies above the computed one; from η = ½ on nothing is claimed."""
    if not form.unwhite < 0.5:
        return np.inf
    value = float(stream @ form.matrix @ stream)
    return float((np.sqrt(value + form.rounding) + form.shift) ** 2 / (1 - form.unwhite) - value)


@pytest.mark.parametrize("energy", [False, True], ids=["norms", "energy"])
@pytest.mark.parametrize("view", VIEWS, ids=str)
@pytest.mark.parametrize("protocol", [*PROTOCOLS, *ENCODED], ids=lambda protocol: protocol.name)
def test_allowances_hold_and_are_not_far_too_large(protocol: Protocol, view: View, energy: bool) -> None:
    measured = allowances(protocol, view, "filter", energy=energy)
    assert all(error <= allowed for error, allowed in measured)
    assert min(allowed / max(error, 1e-300) for error, allowed in measured) < 500


@pytest.mark.parametrize("protocol", TRAPS, ids=lambda protocol: protocol.name)
def test_allowances_hold_on_what_the_observer_cannot_know(protocol: Protocol) -> None:
    response = program_response(protocol, TRAPPED, engine="filter")
    assert max(step.reach for step in response.steps) < 100
    measured = measured_by(response, protocol, TRAPPED)
    assert all(error <= allowed < 1e-7 for error, allowed in measured)
    assert min(allowed / max(error, 1e-300) for error, allowed in measured) < 1000


@pytest.mark.parametrize("protocol", TRAPS, ids=lambda protocol: protocol.name)
def test_allowances_hold_on_a_smaller_space_of_what_the_observer_cannot_know(protocol: Protocol) -> None:
    try:
        measured = allowances(protocol, TRAPPED, "reduced")
    except NotCertified:
        return
    assert all(error <= allowed for error, allowed in measured)
    if protocol.programs[0].keeps in {("model",), ("model", "v")}:
        assert all(allowed < 1e-5 for _, allowed in measured)


def test_a_hundredth_of_the_allowance_would_not_do() -> None:
    measured = allowances(PROTOCOLS[1], View.secure_sum(0), "filter")
    assert any(error > allowed / 100 for error, allowed in measured)


@pytest.mark.parametrize("view", VIEWS, ids=str)
@pytest.mark.parametrize("protocol", [*PROTOCOLS, *ENCODED], ids=lambda protocol: protocol.name)
def test_allowances_hold_on_a_smaller_space(protocol: Protocol, view: View) -> None:
    assert all(error <= allowed < 1e-7 for error, allowed in allowances(protocol, view, "reduced"))


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.name)
def test_every_row_has_noise_of_its_own(protocol: Protocol) -> None:
    for stage in stages_of(seen_view(protocol, View.neighbourhood(0))):
        assert np.linalg.eigvalsh(stage.noise.seen)[0] >= 1 - 1e-12


def test_a_filter_that_settled_stays_as_it_is() -> None:
    fast = gossip(metropolis_weights("complete:n=4"), rounds=60, noise_levels=2)
    steps = program_response(fast, View.secure_sum(0)).steps
    assert len({id(step.filtered) for step in steps}) < 20
    short = program_response(gossip(fast.weights, rounds=8, noise_levels=2), View.secure_sum(0))
    assert steps[-1].filtered.gain == pytest.approx(short.steps[-1].filtered.gain, rel=1e-12)


@EVERY_ENGINE
@pytest.mark.parametrize("view", VIEWS, ids=str)
@pytest.mark.parametrize("protocol", SCHEDULES, ids=["matchings", "one-peer", "three"])
def test_allowances_hold_where_the_rounds_of_a_schedule_recur(
    protocol: Protocol, view: View, engine: Engine
) -> None:
    response = program_response(protocol, view, engine=engine)
    assert response.period == protocol.period
    measured = measured_by(response, protocol, view)
    assert all(error <= allowed < 1e-7 for error, allowed in measured)


def test_more_rows_than_states_are_read_in_doubled_precision() -> None:
    """Sums over rows are longer than those over states: factors are cut for the longer ones."""
    draws = tuple(Draw(name) for name in "abcdefgh")
    instructions: list[Combine | Exchange] = [Combine("model", {"model": 1, "contribution": 1})]
    for draw in draws:
        instructions += [Combine("message", {"model": 1, draw.name: 1}), Exchange("message", "model")]
    often = Program(keeps=("model",), draws=draws, instructions=tuple(instructions))
    protocol = Protocol(weights=metropolis_weights("star:n=32"), program=often, rounds=2, name="often")
    filtered = program_response(protocol, View.everyone, engine="filter").steps[0].filtered
    size, count = filtered.stage.size, filtered.stage.count
    assert count == len(draws) * size
    assert missed_beyond_floats(filtered, np.random.default_rng(1)) <= 1


def test_a_thousandth_of_what_is_allowed_for_the_rest_would_not_do() -> None:
    """Sums of two products use more of it than longer ones do."""
    protocol, random = gossip(metropolis_weights("path:n=2"), rounds=2), np.random.default_rng(1)
    filtered = program_response(protocol, View.everyone, engine="filter").steps[0].filtered
    shares = [missed_beyond_floats(filtered, random) for _ in range(40)]
    assert 1e-3 < max(shares) <= 1


def missed_beyond_floats(filtered: Filtered, random: np.random.Generator) -> float:
    """The largest share of `slip` by which O Φ as found errs beyond 2u of itself, for some O, A, C and K."""
    size, count = filtered.stage.size, filtered.stage.count
    # O A is what K C takes off it, so that nothing is left of O Φ but what rounding makes.
    gain = random.uniform(0.5, 1, (size, count))
    stage = replace(
        filtered.stage,
        transition=gain @ (rows := random.uniform(0.5, 1, (count, size))),
        rows=rows,
        lows=None,
    )
    answer = replace(filtered, stage=stage, gain=gain)
    adjoint = random.uniform(0.5, 1, (2, size))
    exact = fmpq_mat(_rational(adjoint)) * (
        fmpq_mat(_rational(stage.transition)) - fmpq_mat(_rational(gain)) * fmpq_mat(_rational(rows))
    )
    slip = np.abs(adjoint).sum(axis=1)[:, None] * answer.slip(np.eye(size))
    shares = []
    for (i, j), found in np.ndenumerate(answer.before(adjoint)):
        off = abs(fmpq(*float(found).as_integer_ratio()) - exact[i, j])
        shares.append((float(off.p) / float(off.q) - roundings(2) * abs(found)) / slip[i, j])
    return float(max(shares))


def _rational(matrix: np.ndarray) -> list[list[fmpq]]:
    """Floats as the rationals they are."""
    return [[fmpq(*float(x).as_integer_ratio()) for x in row] for row in matrix]
