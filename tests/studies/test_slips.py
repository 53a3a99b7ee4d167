# SPDX-License-Identifier: Apache-2.0
"""Erratum (e): each printed inequality fails in its example, and what is meant holds there."""

from __future__ import annotations

import numpy as np
import pytest
from tests.studies.small import quick

from sottovoce import theory


def test_every_slip_is_one_but_the_empty_bound() -> None:
    result = quick("errata-e")
    verdicts = {slip.printed: slip.fulfilled for slip in result.slips}
    assert [printed for printed, fine in verdicts.items() if fine] == [
        "Δ²/T ≤ (m/n)T + …, and (m/n)T as the limit"
    ]
    root = result.slips[0]
    assert root.left > root.right >= root.left**2 * (1 - 1e-12)
    assert root.right == pytest.approx(0.2)


def test_the_transient_part_grows_in_proportion_to_the_rounds() -> None:
    result = quick("errata-e")
    assert result.transient[-1] > result.transient_bound
    # φ of the transient part at ω = π: (1/6)² over |R(π)|² = 25/72, which is 2/25 a round.
    assert np.diff(result.transient)[-1] == pytest.approx(2 / 25, rel=1e-6)


def test_what_is_meant_holds_where_the_print_fails() -> None:
    rounds, H = 4, theory.system_matrix(np.full((3, 3), 1 / 3), np.eye(3)[:2], 4)
    J = np.minimum.outer(np.arange(1, rounds + 1), np.arange(1, rounds + 1))
    # The rows start with S itself, so the accumulated part lags by a round.
    late = np.pad(J[:-1, :-1], ((1, 0), (1, 0)))
    assert np.linalg.eigvalsh(H @ H.T - np.kron(late, np.ones((2, 2))) / 3)[0] > -1e-9


def test_the_classical_noise_fails_between_eight_and_nine() -> None:
    result = quick("errata-e")
    over = {
        epsilon
        for epsilon, delta in zip(result.config.epsilons, result.classical_delta, strict=True)
        if delta > 1e-5
    }
    assert min(over) == 9
    assert ((result.noise_ratio < 1) == (np.array(result.config.epsilons) >= 9)).all()
