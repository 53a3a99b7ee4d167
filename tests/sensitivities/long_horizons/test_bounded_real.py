# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from tests.sensitivities.long_horizons.test_start_and_rate import PAIRS, response_of

from sottovoce.sensitivities.long_horizons import bounded_real
from sottovoce.sensitivities.long_horizons.bounded_real import is_proved, settled_value
from sottovoce.sensitivities.long_horizons.model import model_of, peak_of
from sottovoce.sensitivities.long_horizons.start_and_rate import EXCESSES, FREEZE


@PAIRS
@pytest.mark.parametrize("shape", ["level", "falling"])
def test_the_recursion_accepts_just_what_dominates_the_form(graph: str, view: str, shape: str) -> None:
    rounds, frozen_at = 40, 20
    response, position = response_of(graph, view, 200, 1)
    assert len(response.gains.gain) > frozen_at or response.gains.frozen
    (forms,) = response.shortened(rounds, frozen_at=frozen_at).forms(np.array([position]))
    model = model_of(response, position, frozen_at + 1)
    profile = np.ones(rounds) if shape == "level" else np.linspace(2.0, 1.0, rounds)
    scaled = forms.matrices[0] / np.sqrt(np.outer(profile, profile))
    boundary = float(np.linalg.eigvalsh(scaled)[-1]) * profile
    # Below the boundary nothing is accepted; above it the smallest excess that is ever tried must be enough.
    assert is_proved(model, boundary * (1 + EXCESSES[0]))
    assert not is_proved(model, boundary * (1 - 1e-6))


@PAIRS
def test_the_settled_matrix_satisfies_its_inequality_and_smaller_ones_are_refused(
    graph: str, view: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    response, position = response_of(graph, view, 3_000, 1)
    model = model_of(response, position, FREEZE)
    _, peak = peak_of(model)
    rate = 1.01 * peak
    value = settled_value(model, rate)
    assert value is not None
    # f(V) written out from its definition.
    A, b, W = model.transition, model.source, model.whiteners[-1]
    turn = np.eye(len(A)) - model.gains[-1] @ model.rows
    N = W.T @ W + turn.T @ value @ turn
    mapped = A.T @ N @ A + np.outer(A.T @ N @ b, A.T @ N @ b) / (rate - b @ N @ b)
    assert rate > b @ N @ b
    assert np.linalg.eigvalsh(value - mapped)[0] >= 0
    assert settled_value(model, 0.999 * peak) is None
    # Whatever the search comes up with is judged: a matrix that is too small proves nothing.
    monkeypatch.setattr(bounded_real, "_settled_candidate", lambda *_: 0.99 * value)
    assert settled_value(model, rate) is None
