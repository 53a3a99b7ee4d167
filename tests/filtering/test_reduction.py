# SPDX-License-Identifier: Apache-2.0
"""Programs read backwards, how far their states grow, and what a Krylov space of them leaves out."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse
from tests.scenes import EVERY_PROTOCOL, PROTOCOLS

from sottovoce import rate, sensitivity
from sottovoce.errors import NotCertified
from sottovoce.filtering.backward import _norm, backward, reached_nodes
from sottovoce.filtering.decorrelation import seen_view
from sottovoce.filtering.engines import program_response
from sottovoce.filtering.growth import _mixing, growth
from sottovoce.filtering.reduction import reduced_stages
from sottovoce.graphs import lazy_weights, metropolis_weights
from sottovoce.interval import UNIT_ROUNDOFF
from sottovoce.protocols import (
    Combine,
    Draw,
    Exchange,
    Program,
    Protocol,
    chebyshev,
    exact_diffusion,
    gossip,
    gradient_tracking,
    momentum,
)
from sottovoce.protocols.compiled import compile_round
from sottovoce.rates.modes import exact_round
from sottovoce.rates.stationary import reaches, stationary_round
from sottovoce.views import View

NOBODY = np.zeros(0, dtype=np.int64)
RING = metropolis_weights("ring:n=12")
LONG = [
    momentum(RING, rounds=40, beta="9/10"),
    chebyshev(RING, rounds=40, steps=3),
    gradient_tracking(RING, rounds=40),
    exact_diffusion(lazy_weights(RING), rounds=40),
]


def round_maps(protocol: Protocol) -> list[np.ndarray]:
    """A_s of each round of the schedule, kept numbers by entries of s, from the exact rows."""
    maps = []
    for t, each in enumerate(backward(protocol, NOBODY).rounds):
        compiled = compile_round(*protocol.round_of(t))
        matrix = np.zeros((each.kept, each.size))
        for i, form in enumerate(compiled.state.forms):
            for key, value in form.items():
                matrix[i, each.place(key)] = value / compiled.state.denominator
        maps.append(matrix)
    return maps


@EVERY_PROTOCOL
def test_a_round_read_backwards_is_the_transpose_of_its_exact_rows(protocol: Protocol) -> None:
    rng = np.random.default_rng(1)
    for matrix, each in zip(round_maps(protocol), backward(protocol, NOBODY).rounds, strict=True):
        block = rng.normal(size=(each.kept, 3))
        assert each.before(block) == pytest.approx(matrix.T @ block, abs=1e-13)
        touched = each.touched(np.ones(each.kept, dtype=bool))
        assert (touched | (matrix == 0).all(axis=0)).all()


@EVERY_PROTOCOL
def test_a_round_read_backwards_errs_by_no_more_units_than_it_says(protocol: Protocol) -> None:
    rng, shares = np.random.default_rng(2), []
    for t, each in enumerate(backward(protocol, NOBODY).rounds):
        state = compile_round(*protocol.round_of(t)).state
        for column in rng.uniform(-1, 1, (8, each.kept)):
            exact = [Fraction(0)] * each.size
            for x, form in zip(column, state.forms, strict=True):
                for key, value in form.items():
                    exact[each.place(key)] += Fraction(x) * Fraction(value, state.denominator)
            found = each.before(column[:, None])[:, 0]
            off = [float(Fraction(x) - y) for x, y in zip(found, exact, strict=True)]
            shares.append(np.linalg.norm(off) / (each.units * UNIT_ROUNDOFF * np.linalg.norm(column)))
    # Weights of one half round nothing.
    assert max(shares) == 0 or 1e-3 < max(shares) <= 1


def faint(size: int) -> Protocol:
    """What is contributed enters by two factors of 10^−size, whose product may be no float."""
    tiny = Fraction(1, 10**size)
    program = Program(
        keeps=("model",),
        draws=(Draw("u"),),
        instructions=(
            Combine("faint", {"contribution": tiny}),
            Combine("message", {"model": Fraction(1, 2), "faint": tiny, "u": 1}),
            Exchange("message", "model"),
        ),
    )
    return Protocol(weights=RING, program=program, rounds=8, name="faint")


@pytest.mark.parametrize("size", [100, 200, 300, 400])
def test_what_is_too_small_for_a_float_is_still_reached(size: int) -> None:
    protocol = faint(size)
    (each,) = backward(protocol, NOBODY).rounds
    reached = each.touched(np.ones(each.kept, dtype=bool))
    assert reached[each.kept + each.drawn :].all()
    assert reached_nodes(protocol, seen_view(protocol, View.secure_sum(0)))[1:].all()
    seen, _ = stationary_round(protocol, View.secure_sum(0))
    assert reaches(exact_round(seen))[1:].all()
    for ask in (sensitivity, rate):
        with pytest.raises(NotCertified, match="numbers that floats do not hold, beyond 1e-100"):
            ask(protocol, View.secure_sum(0))


def test_a_draw_with_a_level_that_is_no_float_is_reached() -> None:
    program = Program(
        keeps=("model",),
        draws=(Draw("u"), Draw("shared", level=Fraction(1, 10**400), each="edge")),
        instructions=(
            Combine("message", {"model": 1, "contribution": 1, "u": 1, "shared": 1}),
            Exchange("message", "model"),
        ),
    )
    (each,) = backward(Protocol(weights=RING, program=program, rounds=2, name="faint"), NOBODY).rounds
    assert each.touched(np.ones(each.kept, dtype=bool)).all()
    known = backward(Protocol(weights=RING, program=program, rounds=2, name="faint"), np.array([0])).rounds[0]
    # Node 0 and the two edges at it are known.
    assert np.count_nonzero(~known.touched(np.ones(known.kept, dtype=bool))) == 4


@pytest.mark.parametrize(
    "protocol", [*PROTOCOLS, *LONG], ids=lambda protocol: f"{protocol.name}-{protocol.rounds}"
)
def test_states_never_grow_beyond_their_bound(protocol: Protocol) -> None:
    maps, rounds = round_maps(protocol), backward(protocol, NOBODY).rounds
    drawn, given = growth(protocol)
    for phase, each in enumerate(rounds):
        block, total = maps[phase][:, each.kept :], np.ones(2)
        for k in range(1, protocol.rounds):
            total += [np.linalg.norm(block[:, : each.drawn], 2), np.linalg.norm(block[:, each.drawn :], 2)]
            block = maps[(phase + k) % len(maps)][:, : each.kept] @ block
        assert total[0] <= drawn
        assert total[1] <= given
        assert max(drawn, given) <= 20 * total.max()


def test_a_space_that_is_cut_short_says_so() -> None:
    protocol = momentum(metropolis_weights("ring:n=90"), rounds=30, beta="1/2")
    seen = seen_view(protocol, View.secure_sum(0), thrifty=True)
    fine, coarse = (reduced_stages(protocol, seen, coarse=coarse) for coarse in (False, True))
    assert fine is not None
    assert coarse is not None
    assert coarse[0][0].size < fine[0][0].size < 180
    for each, allowed in ((False, 1e-8), (True, 1e-3)):
        found = program_response(protocol, View.secure_sum(0), coarse=each).accuracy
        assert 0 < max(found.unwhite, found.cut + found.followed) < allowed


def test_what_grows_wildly_is_filtered_whole() -> None:
    diverging = exact_diffusion(metropolis_weights("random-regular:n=30,d=8,seed=1"), rounds=140)
    assert growth(diverging)[0] > 1e8
    assert program_response(diverging, View.secure_sum(0)).engine == "filter"


def test_a_norm_of_many_weights_is_not_below_their_sum() -> None:
    """700 floats that stand for rationals which sum to 1 add up to less than 1 − 10⁻¹⁵."""
    weights = metropolis_weights("complete:n=700")
    (each,) = backward(gossip(weights, rounds=2), NOBODY).rounds
    assert float(weights.matrix.sum(axis=1).max()) < 1 - 1e-15
    assert 1 <= _mixing(each, np.inf) < 1 + 1e-12


@pytest.mark.parametrize("order", [1, np.inf, 2])
def test_norms_of_long_lines_are_never_below_the_truth(order: float) -> None:
    """Each of these entries is lost beside the first, and all of them together are more than a fixed share."""
    many = 30_000
    line = sparse.csr_array(np.concatenate([[1.0], np.full(many, 2.0**-53)])[None])
    truth = 1 + many * Fraction(1, 2**53)
    assert Fraction(1 + 1e-12) < truth
    found = Fraction(_norm(line if order != 1 else line.T.tocsr(), order))
    assert found >= truth if order != 2 else found**2 >= truth


def test_norms_of_weights_are_sums_of_columns_or_of_rows() -> None:
    W = np.array([[0.5, 0.5, 0, 0], [0.5, 0, 0.5, 0], [0.75, 0, 0, 0.25], [1, 0, 0, 0]])
    (only,) = backward(gossip(W, rounds=1), NOBODY).rounds
    for order in (1.0, np.inf):
        norm = float(np.linalg.norm(W, order))
        assert norm <= _mixing(only, order) <= norm * (1 + 1e-12)
    assert np.linalg.norm(W, 1) == 2.75
