# SPDX-License-Identifier: Apache-2.0
"""An upper bound of Δ² for many targets at once that is close to exact where the response is smooth in time.

Far targets reach an observer through many averages, so that F hardly changes from one round to the next. The rounds
are cut into blocks, Π projects each block of a stream onto polynomials of low degree, and with F̂ = ΠFΠ

    ‖Fc‖² ≤ (1 + η)(‖F̂c‖² + ‖(I − Π)FΠc‖²) + (1 + 1/η)‖F(I − Π)c‖².

F̂ is small, and what it leaves out is counted by Frobenius norms, which are quadratic forms of the target's input: r
basis responses serve every target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sottovoce.filtering import FilteredResponse

__all__ = ["BLOCKS", "SmoothTables", "smooth_bound", "smooth_tables"]

EPSILON = float(np.finfo(np.float64).eps)
BLOCKS = 20
DEGREE = 3
# Shares of the bound that the smooth part may grow by to make room for the rest; the best one is taken.
SHARES = (1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0)
BATCH_BYTES = 4 * 2**20


@dataclass(frozen=True, kw_only=True, eq=False)
class SmoothTables:
    """What the bound needs of a response, for any input b.

    `coarse[p, q]·b` is the entry of F̂ from basis stream q to basis row p, `DEGREE` streams a block; block I has the
    rounds `edges[I]` to `edges[I + 1]`. bᵀ`total`b is the squared Frobenius norm of F, bᵀ`kept`b
    that of FΠ, both up to `rounding`·‖b‖².
    """

    edges: np.ndarray
    coarse: np.ndarray
    total: np.ndarray
    kept: np.ndarray
    rounding: float


def smooth_tables(response: FilteredResponse, *, blocks: int = BLOCKS) -> SmoothTables:
    """The tables of a response over at least `DEGREE` rounds, in T steps of small matrix products."""
    edges = np.linspace(0, response.rounds, min(blocks, response.rounds // DEGREE) + 1).round().astype(int)
    total, later = _column_energies(response, edges)
    size, count = response.transition.shape[0], len(edges) - 1
    kept = np.zeros((size, size))
    pieces = [_block(response, edges[i], edges[i + 1], kept) for i in range(count)]
    for piece, gram in zip(pieces[:-1], later[:-1], strict=True):
        for ended in piece.ends:
            kept += ended.T @ gram @ ended
    step = DEGREE * response.rows.shape[0]
    coarse = np.zeros((count * step, count * DEGREE, size))
    readers = np.zeros((0, size))
    for i in range(count - 1, -1, -1):
        piece = pieces[i]
        for q, ended in enumerate(piece.ends):
            coarse[(i + 1) * step :, DEGREE * i + q] = readers @ ended
        coarse[i * step : (i + 1) * step, DEGREE * i : DEGREE * (i + 1)] = piece.inner
        readers = np.vstack([piece.readers, readers @ piece.passage])
    return SmoothTables(
        edges=edges,
        coarse=coarse,
        total=total,
        kept=kept,
        rounding=64 * EPSILON * (size + response.rounds**0.5) * float(np.linalg.norm(total)),
    )


def smooth_bound(tables: SmoothTables, sources: np.ndarray) -> np.ndarray:
    """An upper bound of Δ² for each column b of `sources`.

        Δ² ≤ Σ_I max((1 + η)(Σ_J N_IJ + ζ² h_I), (1 + 1/η) σ² h_I),

    N_IJ = √(h_I h_J)·‖(F̂ᵀF̂)_IJ‖, ζ = ‖(I − Π)FΠ‖, σ = ‖F(I − Π)‖, all Frobenius norms, h_I the length of block I, for
    the best of several η.

    Guarantee: an upper bound for vectors of every dimension. A stream puts a share a_I² ≤ 1 of the norm √h_I of its
    block I into Π, and then Σ N_IJ a_I a_J ≤ Σ a_I² Σ_J N_IJ; a sum linear in a_I² is largest at 0 or 1.
    """
    lengths = np.diff(tables.edges).astype(np.float64)
    height, width, size = tables.coarse.shape
    flat = tables.coarse.reshape(-1, size)
    reached = np.flatnonzero(np.abs(flat).max(axis=1) > 0)
    batch = max(1, BATCH_BYTES // (8 * height * width))
    bounds = np.empty(sources.shape[1])
    for begin in range(0, sources.shape[1], batch):
        chosen = sources[:, begin : begin + batch]
        entries = np.zeros((height * width, chosen.shape[1]))
        entries[reached] = flat[reached] @ chosen
        response = np.ascontiguousarray(entries.reshape(height, width, -1).transpose(2, 0, 1))
        bounds[begin : begin + batch] = _bounds(tables, lengths, response, chosen)
    return bounds


def _bounds(
    tables: SmoothTables, lengths: np.ndarray, response: np.ndarray, sources: np.ndarray
) -> np.ndarray:
    """The bound for a batch of targets whose coarse responses are given."""
    count = len(lengths)
    form = (response.transpose(0, 2, 1) @ response).reshape(-1, count, DEGREE, count, DEGREE)
    squares = np.einsum("jipkq,jipkq->jik", form, form)
    smooth = (np.sqrt(squares) * np.sqrt(np.outer(lengths, lengths))).sum(axis=2)
    slack = tables.rounding * (sources**2).sum(axis=0)
    total, kept = (np.einsum("rj,rj->j", sources, form @ sources) for form in (tables.total, tables.kept))
    aside = np.maximum(kept - (response**2).sum(axis=(1, 2)), 0) + slack
    level = smooth + np.outer(aside, lengths)
    rest = np.outer(np.maximum(total - kept, 0) + slack, lengths)
    best = np.full(len(level), np.inf)
    for share in SHARES:
        best = np.minimum(best, np.maximum((1 + share) * level, (1 + 1 / share) * rest).sum(axis=1))
    return np.asarray(best)


def _column_energies(response: FilteredResponse, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Σ over all rounds s of the Gram matrix of column s of F, and the Gramian of states after each block.

    G_t = D_tᵀD_t + (AΦ_t)ᵀ G_{t+1} (AΦ_t), backwards: zᵀG_t z is what a state z of round t still shows.
    """
    size, count = response.transition.shape[0], len(edges) - 1
    total, later = np.zeros((size, size)), np.zeros((count, size, size))
    gram = np.zeros((size, size))
    for i in range(count - 1, -1, -1):
        later[i] = gram
        for t in range(edges[i + 1] - 1, edges[i] - 1, -1):
            if t < response.rounds - 1:
                gram = response.before(response.before(gram, t).T, t)
            whitener = response.whitener(t)
            gram = gram + whitener.T @ whitener
            total += gram
    return total, later


@dataclass(frozen=True, kw_only=True, eq=False)
class _Block:
    """One block of rounds: basis streams to states at its end, states at its start to basis rows, and both inside."""

    ends: np.ndarray
    passage: np.ndarray
    readers: np.ndarray
    inner: np.ndarray


def _block(response: FilteredResponse, begin: int, end: int, kept: np.ndarray) -> _Block:
    """Run back through the rounds of one block; the Gram matrix of its basis streams within it is added to `kept`."""
    size, m, length = response.size, response.rows.shape[0], end - begin
    basis = _polynomials(length)
    # What rows of the block's rounds read in round s, and what is left at its end of a state of round s.
    adjoint, passage = np.zeros((length * m, size)), np.eye(size)
    shown, ends = np.zeros((DEGREE, length * m, size)), np.zeros((DEGREE, size, size))
    for t in range(end - 1, begin - 1, -1):
        place = (t - begin) * m
        if t < response.rounds - 1:
            adjoint[place + m :] = response.before(adjoint[place + m :], t)
            passage = response.before(passage, t)
        whitener = response.whitener(t)
        adjoint[place : place + len(whitener)] = whitener
        for q, weight in enumerate(basis[t - begin]):
            shown[q, place:] += weight * adjoint[place:]
            ends[q] += weight * passage
    rows = shown.reshape(-1, size)
    kept += rows.T @ rows
    over_rounds = (DEGREE * m, size)
    return _Block(
        ends=ends,
        passage=passage,
        readers=np.tensordot(basis, adjoint.reshape(length, -1), axes=(0, 0)).reshape(over_rounds),
        inner=np.stack(
            [
                np.tensordot(basis, each.reshape(length, -1), axes=(0, 0)).reshape(over_rounds)
                for each in shown
            ],
            axis=1,
        ),
    )


def _polynomials(length: int) -> np.ndarray:
    """Orthonormal polynomials on `length` ≥ `DEGREE` equidistant points, of degree below `DEGREE`, as columns."""
    return np.asarray(np.linalg.qr(np.vander(np.linspace(-1, 1, length), DEGREE, increasing=True))[0])
