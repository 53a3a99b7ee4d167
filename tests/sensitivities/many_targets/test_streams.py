# SPDX-License-Identifier: Apache-2.0
"""Streams that turn, or never change: what they attain."""

from __future__ import annotations

import numpy as np
import pytest
from tests.sensitivities.many_targets.test_projection import dense, response_of

from sottovoce.filtering import EXPLICIT_ROUNDS
from sottovoce.sensitivities.many_targets.streams import constant_stream, turning_value
from sottovoce.views import View


def test_values_are_those_of_the_streams() -> None:
    _, response = response_of("grid:rows=3,cols=4", View.secure_sum(0))
    sources = response.columns(np.arange(3))
    frequencies = np.array([0.0, 1.1, np.pi])
    found = turning_value(response, sources, frequencies)
    for position, frequency in enumerate(frequencies):
        angles = frequency * np.arange(response.rounds)
        shift = dense(response, position) @ np.column_stack([np.cos(angles), np.sin(angles)])
        assert found[position] == pytest.approx(float((shift**2).sum()), rel=1e-6)
    constant = constant_stream(response).value(sources)
    assert constant[0] == pytest.approx(found[0], rel=1e-6)


def test_long_streams_are_followed_to_the_end() -> None:
    rounds = EXPLICIT_ROUNDS + 700
    _, response = response_of("erdos-renyi:n=20,p=0.3,seed=2", View.secure_sum(0), rounds=rounds)
    assert len(response.gains.gain) < rounds
    sources = response.columns(np.array([0, 4]))
    frequencies = np.array([0.7, np.pi])
    found = turning_value(response, sources, frequencies)
    constant = constant_stream(response).value(sources)
    for place, position in enumerate((0, 4)):
        angles = frequencies[place] * np.arange(rounds)
        shift = response.respond(position, np.column_stack([np.cos(angles), np.sin(angles)]))
        still = response.respond(position, np.ones(rounds))
        for value, truth in ((found[place], shift), (constant[place], still)):
            assert 0.99 * float((truth**2).sum()) <= value <= float((truth**2).sum())
