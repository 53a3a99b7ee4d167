# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.interpreter import exact_view, largest_over_signs
from tests.pairings import each_pair

from sottovoce import (
    account,
    account_all,
    calibrate,
    sensitivity,
)
from sottovoce.errors import InputError, NotCertified, ViewError
from sottovoce.filtering import engines
from sottovoce.graphs import matrix_weights, metropolis_weights
from sottovoce.protocols import (
    Combine,
    Draw,
    Exchange,
    Program,
    Protocol,
    chebyshev,
    exact_diffusion,
    gossip,
    momentum,
    pairwise_noise,
    repeated,
)
from sottovoce.sensitivities import programs
from sottovoce.views import View

RING = metropolis_weights("ring:n=6")
MOMENTUM = momentum(RING, rounds=5, beta="1/2")
PATH = metropolis_weights("path:n=6")
BARE = pairwise_noise(PATH, rounds=3, local=(0, 1, 1, 1, 1, 1), shared=1)


def test_front_doors_take_every_protocol() -> None:
    table = account(MOMENTUM, View.secure_sum(0), noise_multiplier=2.0, delta=1e-5)
    found = sensitivity(MOMENTUM, View.secure_sum(0))
    assert (table.squared_upper == found.squared_upper).all()
    everyone = account_all(MOMENTUM, "secure-sum", noise_multiplier=2.0, delta=1e-5)
    assert everyone[0, 2].sensitivity_squared == table[2].sensitivity_squared
    noise = calibrate(MOMENTUM, "secure-sum", target_epsilon=1.0, target_delta=1e-5)
    assert everyone.with_noise(noise).epsilon_upper.max() <= 1.0
    assert everyone.with_noise(0.999 * noise).epsilon_upper.max() > 1.0


def test_an_infinite_sensitivity_is_said_as_such() -> None:
    table = account(BARE, View.neighbourhood(1), noise_multiplier=2.0, delta=1e-5)
    assert table.method[0] == "infinite"
    assert table.mu_lower[0] == table.mu_upper[0] == math.inf
    assert table[0].epsilon().lower == table[0].epsilon().upper == math.inf
    assert np.isfinite(table.epsilon_upper[1:]).all()
    with pytest.raises(NotCertified, match=r"no noise multiplier hides node 0 .* \(add a draw of that node"):
        calibrate(BARE, View.neighbourhood(1), target_epsilon=1.0, target_delta=1e-5)
    stream = sensitivity(BARE, View.neighbourhood(1))[0].witness
    assert stream.tolist() == [1.0, 1.0, 1.0]


def test_a_target_that_is_not_seen_bare_in_its_rounds_is_finite() -> None:
    sometimes = replace(
        BARE, program=(pairwise_noise(PATH, rounds=1, local=1, shared=1).programs[0], BARE.programs[0])
    )
    whole = sensitivity(sometimes, View.neighbourhood(1), [0])
    assert whole.squared_lower[0] == math.inf
    part = sensitivity(sometimes, View.neighbourhood(1), [0], participation="fixed:1,3")
    assert 0 < part.squared_lower[0] <= part.squared_upper[0] < 3


@pytest.mark.parametrize(
    ("protocol", "arguments", "kind", "sentence"),
    [
        (
            MOMENTUM,
            {"engine": "dense"},
            InputError,
            "engine must be one of auto, filter, reduced; got 'dense'",
        ),
        (replace(MOMENTUM, rounds=5000), {}, NotCertified, "over at most 2048 rounds; got 5000"),
        (
            gossip(RING, rounds=2, noise_levels=Fraction(1, 10**120)),
            {},
            NotCertified,
            "numbers that floats do not hold, beyond 1e-100 or 1e",
        ),
        (
            momentum(metropolis_weights("ring:n=3000"), rounds=20, beta=0),
            {"engine": "filter"},
            NotCertified,
            "must be at most 300000000; 20 rounds of 6000 numbers are more",
        ),
    ],
)
def test_what_is_out_of_reach_is_refused(protocol: Any, arguments: Any, kind: Any, sentence: str) -> None:
    with pytest.raises(kind, match=sentence):
        sensitivity(protocol, View.secure_sum(0), **arguments)


def test_what_does_not_fit_into_memory_is_refused_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "memory_at_hand", lambda: 1e5)
    with pytest.raises(
        NotCertified, match=r"needs about .* of memory, and .* are free \(take a view of fewer"
    ):
        sensitivity(momentum(metropolis_weights("ring:n=3000"), rounds=20, beta=0), View.secure_sum(0))


def test_exchanges_that_no_round_has_are_refused() -> None:
    with pytest.raises(ViewError, match="exchanges of the program, 1 to 1 of a round; got 2"):
        sensitivity(MOMENTUM, View.secure_sum(0, exchanges=[2]))
    with pytest.raises(ViewError, match="must name at least one exchange; got none"):
        View.secure_sum(0, exchanges=[])
    with pytest.raises(InputError, match="an exchange of a view must be a whole number of at least 1; got 0"):
        View.secure_sum(0, exchanges=[0])


def test_seeing_fewer_exchanges_never_tells_more() -> None:
    protocol = repeated(metropolis_weights("path:n=9"), rounds=3, steps=3)
    whole = sensitivity(protocol, View.neighbourhood(0))
    for exchanges in ([1, 3], [3], [2], [1]):
        part = sensitivity(protocol, View.neighbourhood(0, exchanges=exchanges))
        assert (part.squared_lower <= whole.squared_upper).all()
    assert (part.squared_upper < whole.squared_lower).any()


def test_noise_of_the_target_caps_what_is_learnt() -> None:
    found = sensitivity(gossip(RING, rounds=4, noise_levels=("1/2",) * 5 + (1,)), View.everyone)
    assert found.squared_upper == pytest.approx([16.0] * 5 + [4.0])
    assert (found.squared_upper >= [16.0] * 5 + [4.0]).all()
    assert set(found.method) <= {"cap", "abs"}


def test_far_targets_are_not_reached() -> None:
    found = sensitivity(momentum(metropolis_weights("path:n=8"), rounds=3, beta="1/2"), View.secure_sum(0))
    assert found.method.tolist()[-1] == "unreached"
    assert found.squared_upper[-1] == 0
    assert not found[7].witness.any() or found.squared_lower[-1] == 0


def test_progress_counts_targets() -> None:
    seen: list[tuple[int, int]] = []
    sensitivity(MOMENTUM, View.secure_sum(0), progress=lambda done, whole: seen.append((done, whole)))
    assert seen[-1] == (5, 5)


@pytest.mark.parametrize("more", [{}, {"contribution": "scalar", "participation": "at-most:3"}])
def test_a_form_that_overflows_says_nothing_instead_of_failing(more: dict[str, Any]) -> None:
    """A register that grows 500-fold a round: after 67 rounds its square is beyond all floats."""
    program = Program(
        keeps=("model", "aux"),
        draws=(Draw("u0", 1e5), Draw("u1", (0.1, 1e5, 0.5, 1000.0, 1e-4, 0.1))),
        instructions=(
            Combine("m1", {"contribution": 1, "u0": 2}),
            Exchange("m1", "r1"),
            Combine("m2", {"r1": 0.001, "u1": 1.5}),
            Exchange("m2", "r2"),
            Combine("next", {"aux": -500, "r1": 1}),
            Combine("model", {"r2": 0.25, "model": 0.75}),
            Combine("aux", {"next": 1}),
        ),
    )
    for rounds in (20, 67):
        protocol = Protocol(weights=RING, program=program, rounds=rounds)
        found = sensitivity(protocol, View.coalition_sums([0, 2]), **more)
        assert (found.squared_lower <= found.squared_upper).all()
        assert (found.squared_upper > 0).all()


def growing(factor: Any, *, noised: bool, rounds: int) -> Protocol:
    """A register that grows by a factor in each round, with the noise or beside it."""
    draws = {"u": 1} if noised else {}
    program = Program(
        keeps=("model", "x"),
        draws=(Draw("u"),),
        instructions=(
            Combine("x", {"x": factor, "contribution": 1, **draws}),
            Combine("message", {"model": 1, "x": 1, **({} if noised else {"u": 1})}),
            Exchange("message", "model"),
        ),
    )
    return Protocol(weights=RING, program=program, rounds=rounds, name="growing")


DIVERGING = [
    growing(81, noised=False, rounds=100),
    growing(81, noised=True, rounds=100),
    growing("1e80", noised=False, rounds=12),
    growing("1e80", noised=True, rounds=12),
    momentum(RING, rounds=100, beta=81),
    chebyshev(RING, rounds=30, steps=3, gamma=625),
    exact_diffusion(metropolis_weights("random-regular:n=16,d=8,seed=1"), rounds=100),
]


@pytest.fixture(params=["rows", "blocks"])
def in_blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small networks by rows in doubled precision, as they are, and in blocks of plain floats as larger ones."""
    if request.param == "blocks":
        monkeypatch.setattr(engines, "SMALLEST_QUICKLY", 0)


@pytest.mark.usefixtures("in_blocks")
@pytest.mark.parametrize(
    ("protocol", "view", "contribution", "effort"),
    each_pair(DIVERGING, [View.secure_sum(0), View.neighbourhood(0)], ["vector", "energy"], ["auto", "bulk"]),
    ids=lambda each: getattr(each, "name", each),
)
def test_no_warning_escapes_from_programs_that_diverge(
    protocol: Protocol, view: View, contribution: Any, effort: Any
) -> None:
    """Warnings are errors here: what overflows is refused, or shows in the upper end."""
    try:
        found = sensitivity(protocol, view, [1, 2], contribution=contribution, effort=effort)
    except NotCertified as error:
        assert "rounding has eaten the noise" in str(error)  # noqa: PT017
        return
    assert (found.squared_lower <= found.squared_upper).all()
    assert np.isfinite(found[1].witness).all()


@pytest.mark.usefixtures("in_blocks")
@pytest.mark.parametrize("noised", [False, True])
@pytest.mark.parametrize("factor", [3, 1000, "1e20", "1e60"])
def test_ends_of_programs_that_diverge_hold_the_exact_value(factor: Any, noised: bool) -> None:
    protocol, view = growing(factor, noised=noised, rounds=6), View.neighbourhood(0)
    form = exact_view(protocol, view, 2).form()
    assert form is not None
    exact = largest_over_signs(form)
    try:
        found = sensitivity(protocol, view, [2], contribution="scalar")
    except NotCertified:
        return
    assert Fraction(found.squared_lower[0]) <= exact
    assert math.isinf(found.squared_upper[0]) or Fraction(found.squared_upper[0]) >= exact


def test_a_mode_that_nothing_excites_is_taken_out_as_plain_gossip_takes_it_out() -> None:
    """An observer that knows what node 1 drew but not what it received; one level of noise scales Δ² alone."""
    W = np.zeros((4, 4))
    for i, j, weight in ((0, 1, 0.6), (0, 2, 0.05), (1, 2, 0.4), (2, 3, 0.2)):
        W[i, j] = W[j, i] = weight
    np.fill_diagonal(W, 1 - W.sum(axis=1))
    view = View(observation=W[[0]], known_noise=[0, 1])
    plain = sensitivity(gossip(matrix_weights(W), rounds=60), view, [2])
    assert plain.squared_lower[0] > 59.25
    levels = gossip(matrix_weights(W), rounds=60, noise_levels=(2, 2, 2, 2))
    for alike in (levels, momentum(matrix_weights(W), rounds=60, beta="1/2")):
        found = sensitivity(alike, view, [2])
        scale = 4 if alike is levels else 1
        assert scale * found.squared_lower[0] == pytest.approx(plain.squared_lower[0], rel=1e-3)
        assert scale * found.squared_upper[0] == pytest.approx(plain.squared_upper[0], rel=1e-3)
        assert found.method[0] != "cap"


@pytest.mark.parametrize("contribution", ["vector", "energy"])
def test_the_witness_of_an_infinite_sensitivity_is_a_stream_that_is_allowed(contribution: Any) -> None:
    bare = pairwise_noise(metropolis_weights("ring:n=5"), rounds=4, local=0, shared=1)
    found = sensitivity(bare, View.everyone, [0], participation="at-most:1", contribution=contribution)
    assert found.method.tolist() == ["infinite"]
    assert np.linalg.norm(found[0].witness) == 1
    assert np.count_nonzero(found[0].witness) == 1
