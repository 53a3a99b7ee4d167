# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from sottovoce.filtering.gram import Impulses, gram_matrices


def impulses(rng: np.random.Generator, rounds: int, start: int, m: int, m_last: int, count: int) -> Impulses:
    """A random response that is causal and Toeplitz from round `start` on."""
    lags = rounds - 1 - start
    early = rng.standard_normal((count, (rounds - 1) * m + m_last, start))
    for s in range(start):
        early[:, : s * m, s] = 0
    return Impulses(
        early=early,
        steady=rng.standard_normal((count, lags, m)),
        last=rng.standard_normal((count, lags + 1, m_last)),
    )


def dense(parts: Impulses, target: int) -> np.ndarray:
    """F written out column by column."""
    rounds, start = parts.rounds, parts.early.shape[2]
    m = parts.steady.shape[2]
    F = np.zeros((parts.early.shape[1], rounds))
    F[:, :start] = parts.early[target]
    for s in range(start, rounds):
        for u in range(s, rounds - 1):
            F[u * m : (u + 1) * m, s] = parts.steady[target, u - s]
        F[(rounds - 1) * m :, s] = parts.last[target, rounds - 1 - s]
    return F


SHAPES = pytest.mark.parametrize(
    ("rounds", "start", "m", "m_last"),
    [
        (9, 3, 1, 1),
        (9, 0, 2, 2),
        (9, 8, 2, 1),
        (12, 4, 3, 0),
        (1, 0, 2, 2),
        (2, 1, 1, 1),
        (2, 0, 1, 0),
        (40, 5, 2, 2),
    ],
)


@SHAPES
def test_the_form_is_the_gram_matrix_of_the_response(rounds: int, start: int, m: int, m_last: int) -> None:
    parts = impulses(np.random.default_rng(rounds + start), rounds, start, m, m_last, 3)
    matrices, rounding = gram_matrices(parts)
    assert parts.rounds == rounds
    assert matrices.shape == (3, rounds, rounds)
    for target in range(3):
        F = dense(parts, target)
        error = matrices[target] - F.T @ F
        assert np.abs(error).max() < 1e-12
        # The stated rounding covers cᵀ(error)c for every |c_t| ≤ 1.
        assert np.abs(error).sum() <= rounding[target]


@SHAPES
def test_the_stated_rounding_is_small(rounds: int, start: int, m: int, m_last: int) -> None:
    parts = impulses(np.random.default_rng(1), rounds, start, m, m_last, 2)
    matrices, rounding = gram_matrices(parts)
    assert (rounding <= 1e-9 * (1 + np.abs(matrices).sum(axis=(1, 2)))).all()


def test_rounding_is_covered_when_sizes_differ_by_many_orders() -> None:
    rng = np.random.default_rng(5)
    parts = impulses(rng, 60, 6, 2, 2, 1)
    scaled = Impulses(
        early=parts.early * 10.0 ** rng.integers(-8, 8, parts.early.shape[2]),
        steady=parts.steady * 10.0 ** -np.arange(53.0)[None, :, None],
        last=parts.last * 10.0 ** -np.arange(54.0)[None, :, None],
    )
    (matrix,), (rounding,) = gram_matrices(scaled)
    F = dense(scaled, 0).astype(np.longdouble)
    assert np.abs(matrix - F.T @ F).sum() <= rounding
