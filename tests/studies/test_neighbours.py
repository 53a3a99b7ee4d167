# SPDX-License-Identifier: Apache-2.0
"""Erratum (a): a neighbour on a ring gives away more than ten times 1/n in every round, for ever."""

from __future__ import annotations

import numpy as np
import pytest
from tests.studies.small import quick, tiny

from sottovoce import theory
from sottovoce.graphs import metropolis_weights


def test_witnesses_stay_far_above_one_over_n() -> None:
    result = quick("errata-a", observers=1, rounds=(10, 700))
    ring, torus, grown = result.networks
    place = result.config.rounds.index(700)
    assert ring.growth[2, place] >= 10 / ring.n
    assert torus.growth[2, place] >= 5 / torus.n
    assert grown.growth[2, place] >= 3 / grown.n
    for network in result.networks:
        constant, alternating, signs, vectors, bound = network.growth
        assert (np.maximum(constant, alternating) <= signs * (1 + 1e-9)).all()
        assert (signs <= bound).all()
        assert (vectors <= bound).all()
        # What is certified at the end is the limit, and the limit is no artefact of a short run.
        assert bound[-1] == pytest.approx(network.limit.upper, rel=0.01)
        assert network.constant == pytest.approx(1 / network.n)
    assert ring.growth[1, -1] > 5 / ring.n
    assert {finding.verdict for finding in result.findings} == {"does not hold"}


def test_plain_streams_are_those_of_the_definition() -> None:
    result = tiny("errata-a")
    ring = result.networks[0]
    form = theory.quadratic_form(
        metropolis_weights("ring:n=12"), np.eye(12)[[ring.observer]], ring.target, 40
    )
    place = result.config.rounds.index(40)
    signs = (-1.0) ** np.arange(40)
    assert 40 * ring.growth[0, place] == pytest.approx(form.sum(), rel=1e-6)
    assert 40 * ring.growth[1, place] == pytest.approx(signs @ form @ signs, rel=1e-6)
