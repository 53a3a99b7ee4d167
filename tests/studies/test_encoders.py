# SPDX-License-Identifier: Apache-2.0
"""Noise correlated over the rounds, by distance."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from tests.studies.small import quick, tiny

from sottovoce import gaussian, gossip, sensitivity
from sottovoce.studies.encoders import ENCODERS, encoder, random_graph
from sottovoce.views import View


@pytest.mark.parametrize("name", ENCODERS)
def test_every_network_shows_everyone_the_same(name: str) -> None:
    """The study asks two nodes what everyone sees of any network."""
    case = quick("encoders").cases[0]
    code = encoder(name, case.rounds, bands=4, decay="1/2")
    found = sensitivity(gossip(random_graph(100, 1), rounds=case.rounds, encoder=code), View.everyone, [7])
    assert case.everyone[ENCODERS.index(name)] == pytest.approx(found.squared_upper[0], rel=1e-9)


def test_everyone_has_the_closed_forms() -> None:
    every, once = quick("encoders").cases
    plain, decayed, _, root, anti = every.everyone
    assert (plain, anti) == pytest.approx((10, 385), rel=1e-9)
    assert (decayed, root) == pytest.approx((33.3411445618, 66.97153), rel=1e-6)
    assert once.everyone[[0, 1, 3, 4]] == pytest.approx([1, 1.3333320618, 1.7913439416, 10], rel=1e-9)


def test_the_square_root_squares_to_sums() -> None:
    root = encoder("square root", 6, bands=4, decay="1/2")
    assert [sum(root[s] * root[t - s] for s in range(t + 1)) for t in range(6)] == [1] * 6
    assert encoder("banded square root", 6, bands=4, decay="1/2") == root[:4]
    assert encoder("DP-λCGD", 3, bands=4, decay="1/3") == (1, Fraction(1, 3), Fraction(1, 9))


def test_all_have_the_same_epsilon_of_everyone() -> None:
    result = quick("encoders")
    for case in result.cases:
        found = gaussian.epsilon(np.sqrt(case.everyone) / case.noise, result.config.delta)
        assert found == pytest.approx(result.config.local_epsilon, rel=1e-6)
        assert (case.epsilon <= result.config.local_epsilon * (1 + 1e-6)).all()


def test_a_target_has_the_number_of_its_own_distance() -> None:
    """Answers come in the order of nodes, whatever order the distances have."""
    case = quick("encoders").cases[0]
    weights = random_graph(100, 1)
    assert (case.hops == 1).sum() == min(4, len(weights.neighbours(0)))
    assert case.squared[0, case.hops == 1].min() > case.squared[0, case.hops == 2].max()


def test_whether_correlation_helps_depends_on_how_often_one_takes_part() -> None:
    result = quick("encoders")
    assert [finding.verdict for finding in result.findings] == ["holds", "holds", "holds", "holds in part"]
    every, once = (case.largest()[1] for case in result.cases)
    assert (every[-1] < every[0]).all()
    assert once[-1, 0] < once[0, 0]
    assert (once[1:, 1:] > once[0, 1:]).all()


def test_a_seed_that_connects_is_found() -> None:
    assert random_graph(100, 1).n == 100
    assert tiny("encoders").cases[0].hops.min() == 1
