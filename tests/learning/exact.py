# SPDX-License-Identifier: Apache-2.0
"""Quadratic forms of loops that differ from round to round, in rationals, from the recurrence alone."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from flint import fmpq

Rows = list[list[Fraction]]


def moving_form(
    W: Rows, C: Rows, known: list[int], target: int, factors: list[list[Fraction]], scales: list[Fraction]
) -> np.ndarray:
    """M = Gᵀ(N Nᵀ)⁻G of s_t = diag(factors_t) W s_{t−1} + scales_t·(c_t + u_t), seen as C s_t, in exact arithmetic.

    Rows that say nothing new have a zero pivot and are left out.
    """
    n, rounds, m = len(W), len(scales), len(C)
    response = np.full((rounds * m, rounds * n), fmpq(0), dtype=object)
    rows, matrix, damped, sizes = (_flint(part) for part in (C, W, factors, scales))
    for s in range(rounds):
        state = np.full((n, n), fmpq(0), dtype=object)
        np.fill_diagonal(state, sizes[s])
        for t in range(s, rounds):
            response[t * m : (t + 1) * m, s * n : (s + 1) * n] = rows @ state
            if t + 1 < rounds:
                state = damped[t + 1][:, None] * (matrix @ state)
    G = response[:, target::n]
    N = response[:, [s * n + k for s in range(rounds) for k in range(n) if k not in known]]
    size = rounds * m
    table = np.full((size + rounds, size + rounds), fmpq(0), dtype=object)
    table[:size, :size], table[:size, size:], table[size:, :size] = N @ N.T, G, G.T
    for k in range(size):
        pivot = table[k, k]
        if pivot == 0:
            assert not table[k, size:].any(), "a row without noise must carry no signal"
            continue
        below = table[k + 1 :, k : k + 1] / pivot
        table[k + 1 :, k + 1 :] = table[k + 1 :, k + 1 :] - below * table[k : k + 1, k + 1 :]
    return np.array([[-int(x.p) / int(x.q) for x in row] for row in table[size:, size:]])


def _flint(numbers: Rows | list[Fraction]) -> np.ndarray:
    """Rationals as those of FLINT, which are multiplied in a tenth of the time."""
    given = np.array(numbers, dtype=object)
    return np.array([fmpq(x.numerator, x.denominator) for x in given.flat], dtype=object).reshape(given.shape)
