# SPDX-License-Identifier: Apache-2.0
"""Quadratic losses close the loop, from the protocol through every room: the star whose amplification can vanish."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.interpreter import exact_view, largest_over_signs
from tests.pairings import each_pair
from tests.reference import gossip_program
from tests.scenes import CHOICES, EVERY_CHOICE

from sottovoce import View, account, account_all, certify, gossip, rate, sensitivity, verify, worst_coalition
from sottovoce.certificates import load, save
from sottovoce.graphs import metropolis_weights, uniform_weights
from sottovoce.protocols import Protocol

if TYPE_CHECKING:
    from pathlib import Path


def star(leaves: int, rounds: int, *, closed: bool, centre: float = 1.0) -> Protocol:
    """The target leaf 1 keeps what it receives, the other leaves forget it; the centre is damped as asked."""
    damping = np.zeros(leaves + 1)
    damping[:2] = centre, 1
    return gossip(
        metropolis_weights(f"star:n={leaves + 1}"), rounds=rounds, damping=damping if closed else None
    )


@EVERY_CHOICE
def test_two_leaves_and_two_rounds(engine: Any) -> None:
    for closed, exact in ((False, 1.0), (True, 1.3)):
        found = sensitivity(star(2, 2, closed=closed), View.secure_sum(0), [1], engine=engine)
        assert found.squared_lower[0] == pytest.approx(exact, rel=1e-9)
        assert found.squared_lower[0] <= exact <= found.squared_upper[0] * (1 + 1e-15)
        assert found.squared_upper[0] == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("leaves", [2, 3, 5, 10, 40])
@pytest.mark.parametrize("centre", [1.0, 0.25, -0.5])
def test_the_rate_of_the_closed_loop_goes_to_1(leaves: int, centre: float) -> None:
    limit = rate(star(leaves, 1, closed=True, centre=centre), View.secure_sum(0), [1])[1].limit
    exact = (leaves + 1) ** 2 / ((leaves + 1) ** 2 + leaves - 1)
    # What the centre does with its own state is known to the centre.
    assert limit.lower <= exact <= limit.upper
    assert limit.upper - limit.lower < 1e-8


@pytest.mark.parametrize("leaves", [2, 3, 5, 10, 40])
def test_the_rate_of_the_open_loop_is_one_in_so_many_leaves(leaves: int) -> None:
    plain = rate(star(leaves, 1, closed=False), View.secure_sum(0), [1])[1].limit
    assert plain.lower <= 1 / leaves <= plain.upper


UNDAMPED = [
    View.everyone,
    View.secure_sum(0),
    View.secure_sum(0, own_noise="hidden"),
    View.single_node(0),
    View.neighbourhood(0),
    View.coalition_sums([0, 3]),
    View.coalition_messages([0, 3]),
    View(observation=[[1, 0, 0, 0, -0.5, 0]], known_noise=[2]),
]
EVEN, UNEVEN = metropolis_weights("ring:n=6"), uniform_weights("path:n=6")


@pytest.mark.parametrize(("view", "weights", "engine"), each_pair(UNDAMPED, [EVEN, UNEVEN], CHOICES), ids=str)
def test_a_damping_of_1_gives_the_bits_of_the_open_loop(view: View, weights: Any, engine: Any) -> None:
    plain, ones = (
        sensitivity(gossip(weights, rounds=9, damping=damping), view, engine=engine)
        for damping in (None, np.ones(6))
    )
    assert plain.squared_lower.tobytes() == ones.squared_lower.tobytes()
    assert plain.squared_upper.tobytes() == ones.squared_upper.tobytes()


@pytest.mark.parametrize("view", UNDAMPED, ids=str)
@pytest.mark.parametrize("weights", [EVEN, UNEVEN], ids=["even", "uneven"])
def test_a_damping_of_1_gives_the_bits_of_the_rate_of_the_open_loop(view: View, weights: Any) -> None:
    before, after = (
        rate(gossip(weights, rounds=1, damping=damping), view, [1]) for damping in (None, [1] * 6)
    )
    assert before.upper.tobytes() == after.upper.tobytes()


def test_the_everyone_view_counts_rounds_in_any_loop() -> None:
    found = sensitivity(star(3, 7, closed=True), View.everyone)
    assert found.squared_upper.tolist() == [7.0] * 4


def test_a_node_that_forgets_what_it_receives_shows_nothing_in_its_messages() -> None:
    weights = metropolis_weights("path:n=3")
    kept = sensitivity(gossip(weights, rounds=5, damping=[0.5, 1, 1]), View.single_node(0), [1])
    forgot = sensitivity(gossip(weights, rounds=5, damping=[0, 1, 1]), View.single_node(0), [1])
    assert kept.squared_lower[0] > 1
    assert forgot.squared_upper[0] == 0
    assert forgot.method[0] == "unreached"
    # What such a node sends needs nothing of what flows into it, so no inflow is given to who knows its noise.
    other = View(observation=[[1, 0, 0]], known_noise=[2])
    found = sensitivity(gossip(weights, rounds=5, damping=[1, 1, 0]), other, [1])
    assert found.squared_lower[0] == pytest.approx(found.squared_upper[0], rel=1e-3)


def test_tables_name_the_assumption() -> None:
    closed = star(3, 4, closed=True)
    assert account(closed, View.secure_sum(0), noise_multiplier=2, delta=1e-5)[1].assumption == "quadratic"
    table = account_all(closed, "secure-sum", noise_multiplier=2, delta=1e-5)
    assert table.assumption == "quadratic"
    plain = account_all(star(3, 4, closed=False), "secure-sum", noise_multiplier=2, delta=1e-5)
    assert plain.assumption == "oblivious"
    assert (plain[0, 1] + table[0, 1]).assumption == "quadratic"


def test_a_coalition_is_found_in_the_closed_loop() -> None:
    closed = star(3, 4, closed=True)
    found = worst_coalition(closed, 1, size=1)
    assert found.coalition == (0,)
    alone = sensitivity(closed, View.coalition_sums([0]), [1])
    assert found.sensitivity.upper == float(alone.squared_upper[0])


def test_certificates_carry_the_damping(tmp_path: Path) -> None:
    for rounds, kind in ((6, "dense"), (3000, "horizon")):
        closed = star(2, rounds, closed=True, centre=0.5)
        proof = certify(closed, View.secure_sum(0), 1)
        assert proof.proof.kind == kind
        assert proof.assumption == "quadratic"
        again = load(save(proof, tmp_path / "closed.json"))
        assert again.damping == (Fraction(1, 2), 1, 0)
        found = verify(again, closed.weights)
        assert found.verified
        assert ("program", True, closed.sentence) in found.checks
        assert any("quadratic losses of the stated factors" in sentence for sentence in found.trusted)


def test_files_of_the_open_loop_do_not_speak_of_damping(tmp_path: Path) -> None:
    file = save(certify(star(2, 6, closed=False), View.secure_sum(0), 1), tmp_path / "open.json")
    assert load(file).damping == 1
    assert load(file).assumption == "oblivious"


def test_a_certificate_of_a_loop_that_runs_away_is_held_against_that_loop(tmp_path: Path) -> None:
    closed = star(2, 4, closed=True)
    proof = certify(closed, View.secure_sum(0), 1)
    away = load(save(replace(proof, program=gossip_program([1, 1, 1.25])), tmp_path / "away.json"))
    found = verify(away, closed.weights)
    exact = exact_view(
        Protocol(weights=closed.weights, program=away.program, rounds=4), View.secure_sum(0), 1
    ).form()
    assert exact is not None
    assert found.squared.lower <= float(largest_over_signs(exact)) <= found.squared.upper
