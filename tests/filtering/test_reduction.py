# SPDX-License-Identifier: Apache-2.0
"""Programs read backwards, how far their states grow, and what a Krylov space of them leaves out."""

from __future__ import annotations

import numpy as np
import pytest
from tests.scenes import EVERY_PROTOCOL, PROTOCOLS

from sottovoce.filtering.backward import backward
from sottovoce.filtering.decorrelation import seen_view
from sottovoce.filtering.growth import growth
from sottovoce.filtering.program_forms import program_response
from sottovoce.filtering.reduction import reduced_stages
from sottovoce.graphs import lazy_weights, metropolis_weights
from sottovoce.protocols import Protocol, chebyshev, exact_diffusion, gradient_tracking, momentum
from sottovoce.protocols.compiled import compile_round
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
    diverging = exact_diffusion(metropolis_weights("random-regular:n=60,d=8,seed=1"), rounds=120)
    assert growth(diverging)[0] > 1e8
    assert program_response(diverging, View.secure_sum(0)).engine == "filter"
