# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from tests.interpreter import exact_view
from tests.scenes import EVERY_PROTOCOL

from sottovoce import account, certify, sensitivity, verify
from sottovoce.graphs import metropolis_weights
from sottovoce.participation import Participation
from sottovoce.protocols import Protocol, gossip
from sottovoce.sensitivities.one_form.energy import solve_energy
from sottovoce.views import View


@EVERY_PROTOCOL
def test_energy_is_the_largest_eigenvalue(protocol: Protocol) -> None:
    target = protocol.n - 1
    M = exact_view(protocol, View.secure_sum(0), target).form()
    assert M is not None
    largest = np.linalg.eigvalsh(np.array([[float(x) for x in row] for row in M]))[-1]
    found = sensitivity(protocol, View.secure_sum(0), [target], contribution="energy")
    assert found.squared_lower[0] <= largest * (1 + 1e-12) + 1e-14
    assert found.squared_upper[0] >= largest * (1 - 1e-12)
    assert found.squared_upper[0] - found.squared_lower[0] <= 1e-8 * largest + 1e-12
    witness = found[target].witness
    assert np.linalg.norm(witness) <= 1 or found.method[0] == "unreached"


def test_everyone_learns_one_unit_of_energy_in_plain_gossip() -> None:
    found = account(
        gossip(metropolis_weights("ring:n=5"), rounds=6),
        View.everyone,
        noise_multiplier=1.0,
        delta=1e-5,
        contribution="energy",
    )
    assert found.squared_upper == pytest.approx(np.ones(5))
    assert (found.squared_upper >= 1).all()
    assert found[0].contribution == "energy"


FORM = np.array([[2.0, -1.0, 0.5], [-1.0, 2.0, 0.0], [0.5, 0.0, 1.0]])


@pytest.mark.parametrize("spelling", ["full", "fixed:1,3", "every:2", "at-most:2", "separated:2", "epochs:2"])
def test_patterns_take_their_part_of_the_form(spelling: str) -> None:
    participation = Participation.parse(spelling)
    exact = max(
        np.linalg.eigvalsh(FORM[np.ix_(pattern, pattern)])[-1] for pattern in participation.patterns(3)
    )
    found = solve_energy(FORM, participation)
    assert found.attained <= exact * (1 + 1e-12)
    assert exact <= found.bound <= exact * (1 + 1e-9)


def test_many_patterns_share_one_bound() -> None:
    form = np.diag(np.arange(1.0, 31.0))
    found = solve_energy(form, Participation.at_most(9))
    assert found.bound == pytest.approx(30)
    assert 9 - 1e-9 <= found.attained <= 30


def test_a_pattern_without_rounds_has_no_energy() -> None:
    found = solve_energy(np.ones((1, 1)), Participation.every(4, offset=2))
    assert (found.attained, found.bound) == (0, 0)
    assert (found.witness == 0).all()


@EVERY_PROTOCOL
def test_who_takes_part_after_the_last_round_tells_nothing_and_that_is_proved(protocol: Protocol) -> None:
    view, late = View.secure_sum(0), Participation.every(protocol.rounds + 3, offset=protocol.rounds + 2)
    last = protocol.n - 1
    for kind in ("energy", "vector", "scalar"):
        found = sensitivity(protocol, view, contribution=kind, participation=late)
        assert (found.squared_lower == 0).all()
        assert (found.squared_upper == 0).all()
        assert set(found.method) == {"unreached"}
        certificate = certify(protocol, view, last, contribution=kind, participation=late)
        assert certificate.squared_upper == 0
        for arithmetic in ("float", "balls"):
            assert verify(certificate, protocol.weights, arithmetic=arithmetic).squared.upper == 0
