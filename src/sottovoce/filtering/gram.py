# SPDX-License-Identifier: Apache-2.0
"""M = FᵀF from the columns of F, where most of F is Toeplitz.

Once the gains are frozen, from round c on, column s of F is column c shifted by s − c. So M has four parts: columns
before c with each other, with later ones, and later ones with each other: with f_ℓ the lags, 0-based rounds and
round T apart,

    M_st = Σ_{u ≥ max(s, t)} f_{u−s}·f_{u−t},   so   M_st = M_{s+1,t+1} + f_{T−2−s}·f_{T−2−t}.

The others are in `impulses`. All of it is exact algebra; how M is put together is speed, and what rounding does to
each part is in `gram_error`.

Source: docs/mathematics.md, section 5; docs/proofs/gram.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering.rounding import gram_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from sottovoce.filtering.impulses import Impulses

__all__ = ["gram_matrices"]


def gram_matrices(
    impulses: Impulses, before: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """M for every target, and a bound for each of how far rounding moves cᵀMc, |c_t| ≤ 1.

    `before` multiplies rows by B from the right.

    Guarantee: the second is an upper bound of |cᵀ(M̂ − FᵀF)c| for F of which `early`, `states`, `steady` and `last`
    are as stored, and O is exact.
    Source: docs/proofs/gram.md.
    """
    early, late = impulses.early, impulses.late
    count, start, rounds = len(early), early.shape[1], impulses.rounds
    matrices = np.empty((count, rounds, rounds))
    inner = early @ early.transpose(0, 2, 1)
    read = norms = None
    if late is not None:
        states = impulses.states
        seen = states @ late.root.T
        inner += seen @ seen.transpose(0, 2, 1)
        read, norms = _read_by_late(impulses, before)
        cross = states @ read.transpose(0, 2, 1)
    else:
        cross = early[:, :, early.shape[2] - impulses.last.shape[2] :] @ impulses.last.transpose(0, 2, 1)
    matrices[:, :start, :start] = inner
    matrices[:, :start, start:] = cross
    matrices[:, start:, :start] = cross.transpose(0, 2, 1)
    matrices[:, start:, start:] = _late_late(impulses)
    return matrices, gram_error(impulses, matrices, read, norms)


def _read_by_late(
    impulses: Impulses, before: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """g_k for each target and k ≤ L, (targets, L + 1, r), and Σ_k of the norms that the recursion went through."""
    late, steady = impulses.late, impulses.steady
    assert late is not None
    count, lags, m = steady.shape
    found = np.empty((count, lags + 1, late.root.shape[1]))
    rows = steady.reshape(count, -1) @ late.steady[:-1].reshape(lags * m, -1)
    norms = np.zeros(count)
    for k in range(lags):
        if k:
            rows = before(rows) - steady[:, lags - k] @ late.steady[-1]
        found[:, k] = rows
        norms += np.linalg.norm(rows, axis=1)
    found[:, lags] = 0.0
    found += impulses.last[:, ::-1] @ late.last[-1]
    return found, norms


def _late_late(impulses: Impulses) -> np.ndarray:
    """M_st for s, t ≥ c, filled from the last round backwards.

    `backwards[a, b]` is M of rounds that are a and b before the last one, so that the recurrence runs down its
    diagonals.
    """
    count, lags, _ = impulses.steady.shape
    backwards = np.zeros((count, lags + 1, lags + 1))
    np.matmul(impulses.steady, impulses.steady.transpose(0, 2, 1), out=backwards[:, 1:, 1:])
    for a in range(2, lags + 1):
        backwards[:, a, 2:] += backwards[:, a - 1, 1:-1]
    backwards += impulses.last @ impulses.last.transpose(0, 2, 1)
    return backwards[:, ::-1, ::-1]
