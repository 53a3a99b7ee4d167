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

import math
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering.impulses import impulses_of
from sottovoce.filtering.rounding import gram_error

if TYPE_CHECKING:
    from sottovoce.filtering.impulses import Impulses, LateRows
    from sottovoce.filtering.response import FilteredResponse

__all__ = ["forms_of", "gram_matrices"]

# Speed alone: M is put together for a few targets at a time, of so many entries in all, which a cache holds.
TOGETHER = 150_000


def forms_of(response: FilteredResponse, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """M for the targets at `positions`, and what rounding moves it by, with all that is large in one piece of memory.

    Guarantee: that of `gram_matrices`, for F as `impulses_of` follows it.
    """
    start, m, rounds, count = response.alike_from, len(response.rows), response.rounds, len(positions)
    alike = start < rounds - 1
    height = start * m + (response.size if alike else len(response.gains.last_whitener))
    early, read, matrices = _in_one_piece(
        (count, start, height),
        (rounds - start, count, response.size if alike else 0),
        (count, rounds, rounds),
    )
    return gram_matrices(impulses_of(response, positions, out=early), out=matrices, read=read)


def _in_one_piece(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Arrays of these shapes in one piece of memory.

    Speed alone: systems hand memory out and take it back by pages, each of which takes as long as a small product of
    matrices; one large piece is kept by whoever allocates it, or comes in large pages.
    """
    sizes = [math.prod(shape) for shape in shapes]
    parts = np.split(np.empty(sum(sizes)), np.cumsum(sizes)[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def gram_matrices(
    impulses: Impulses, *, out: np.ndarray | None = None, read: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """M for every target, and a bound for each of how far rounding moves cᵀMc, |c_t| ≤ 1.

    M is put into `out`, (targets, T, T), and what is read on the way into `read`, (L + 1, targets, r).

    Guarantee: the second is an upper bound of |cᵀ(M̂ − FᵀF)c| for F of which `early`, `states`, `settled` and `last`
    are as stored, and O is exact.
    Source: docs/proofs/gram.md.
    """
    early, states, late = impulses.early, impulses.states, impulses.late
    count, start, rounds = len(early), early.shape[1], impulses.rounds
    matrices, norms = np.empty((count, rounds, rounds)) if out is None else out, None
    read = np.empty((rounds - start, count, states.shape[2])) if read is None else read
    same = late is not None and late.last is late.settled
    if late is not None:
        norms = _read_by_late(impulses, late, read)
    few = max(1, TOGETHER // rounds**2)
    for begin in range(0, count, few):
        some = slice(begin, begin + few)
        found, last = matrices[some], impulses.last[some]
        inner = early[some] @ early[some].transpose(0, 2, 1)
        if late is not None:
            seen = states[some] @ late.root.T
            inner += seen @ seen.transpose(0, 2, 1)
            cross = states[some] @ read[:, some].transpose(1, 2, 0)
        else:
            cross = early[some, :, early.shape[2] - last.shape[2] :] @ last.transpose(0, 2, 1)
        found[:, :start, :start] = inner
        found[:, :start, start:] = cross
        found[:, start:, :start] = cross.transpose(0, 2, 1)
        _fill_late(found[:, start:, start:], impulses.settled[some], last, same)
    return matrices, gram_error(impulses, np.diagonal(matrices, axis1=1, axis2=2), norms)


def _read_by_late(impulses: Impulses, late: LateRows, found: np.ndarray) -> np.ndarray:
    """Put g_k, k ≤ L, of every target into `found`, (L + 1, targets, r); Σ_k of the norms that the recursion meets.

    Where round T shows what the others do, Λ_Lᵀλ_{L−k} is the very term that the recursion takes off.
    """
    settled, last = impulses.settled, impulses.last
    count, lags, m = settled.shape
    norms, same = np.zeros(count), late.last is late.settled
    rows = settled.reshape(count, -1) @ late.settled[:-1].reshape(lags * m, -1)
    for k in range(lags):
        if k:
            moved = np.matmul(rows, late.loop, out=found[k])
            # r_k = r_{k−1}B − λ_{L−k}Λ_L = Σ_ℓ λ_ℓ Λ_{ℓ+k} over ℓ < L − k
            rows = moved - settled[:, lags - k] @ late.settled[-1]
        norms += np.sqrt(np.einsum("jr,jr->j", rows, rows))
        if not (same and k):
            np.add(rows, last[:, lags - k] @ late.last[-1], out=found[k])
    np.matmul(last[:, 0], late.last[-1], out=found[lags])
    return norms


def _fill_late(found: np.ndarray, settled: np.ndarray, last: np.ndarray, same: bool) -> None:
    """M_st for s, t ≥ c, filled from the last round backwards.

    Where round T shows what the others do, it is one more lag; else it comes on top of what they show.
    """
    lags = np.ascontiguousarray((last if same else settled)[:, ::-1])
    late = found if same else found[:, :-1, :-1]
    np.matmul(lags, lags.transpose(0, 2, 1), out=late)
    for s in range(late.shape[1] - 2, -1, -1):
        late[:, s, :-1] += late[:, s + 1, 1:]
    if not same:
        found[:, -1], found[:, :, -1] = 0.0, 0.0
        final = np.ascontiguousarray(last[:, ::-1])
        found += final @ final.transpose(0, 2, 1)
