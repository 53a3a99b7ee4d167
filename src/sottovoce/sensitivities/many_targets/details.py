# SPDX-License-Identifier: Apache-2.0
"""What streams show at most whose every block of rounds averages to nothing, many targets at once.

With gains frozen after the first block F is, from there on, at most the Toeplitz matrix of the lags f_ℓ, and the form
of streams that pass through no polynomial is in norm at most

    max_I Σ_J ‖Q R_{|I−J|} Q‖,   (R_j)_st = r_{jh+t−s},   r_k = Σ_ℓ ⟨f_ℓ, f_{ℓ+k}⟩,

Q the projection beside the polynomials on a block of h rounds. Correlations that are smooth at long lags pass
through Q hardly at all, so that the sum is next to its first term. ‖Q R_j Q‖_F is the norm of a fixed matrix times the
2h − 1 correlations that R_j is made of: a target costs its lags, one Fourier transform and that product.
Source: docs/proofs/details.md; docs/mathematics.md, section 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy import fft

from sottovoce.filtering import transform_error
from sottovoce.rounding import TINY, above, gamma
from sottovoce.sensitivities.many_targets.polynomials import DEGREE, polynomials, skew
from sottovoce.sensitivities.rounding import norm, tap_errors

if TYPE_CHECKING:
    from sottovoce.filtering import FilteredResponse

__all__ = ["Beside", "DetailTables", "beside", "detail_bound", "detail_tables"]

# Speed alone: targets are taken together while their correlations take no more than this.
BATCH_BYTES = 4 * 2**20


@dataclass(frozen=True, kw_only=True, eq=False)
class Beside:
    """‖QRQ‖_F ≤ `stretch`·‖`root`·ρ‖ + `off`·‖ρ‖ for the Toeplitz matrix R whose 2h − 1 diagonals are ρ."""

    root: np.ndarray
    stretch: float
    off: float


@dataclass(frozen=True, kw_only=True, eq=False)
class DetailTables:
    """The lags of a response with gains frozen after its first block, and what the blocks of later ones pass.

    `lags` is (count, m, r), `length` the rounds of a later block, of which there are count/`length` − 1: in the last
    `length` lags, which none of their rounds shows, they fade. A lag times b is off by `errors`·‖b‖.
    """

    lags: np.ndarray
    errors: np.ndarray
    length: int
    beside: Beside


@np.errstate(over="ignore", invalid="ignore")
def detail_tables(response: FilteredResponse, edges: np.ndarray) -> DetailTables | None:
    """The tables for blocks of rounds with these edges, all but the first alike; None where there is but one.

    Guarantee: `errors` bounds what rounding does to a lag and to its product with b, relative to ‖b‖.
    """
    if len(edges) < 3:
        return None
    closed = response.closed_loop(int(edges[1]))
    length = int(edges[2] - edges[1])
    lags = closed.taps(int(edges[-1] - edges[1]) + length)
    errors = tap_errors(closed, lags)
    # Rounds after the last may show anything: lags that fade there leave no step, which would show fast streams.
    lags[-length:] *= (1 + np.cos(np.pi * np.arange(1, length + 1) / (length + 1)))[:, None, None] / 2
    products = gamma(response.size + 2) * np.sqrt((lags**2).sum(axis=(1, 2)))
    errors = above(errors + products)
    return DetailTables(lags=lags, errors=errors, length=length, beside=beside(length))


@np.errstate(over="ignore", invalid="ignore")
def detail_bound(tables: DetailTables, sources: np.ndarray) -> np.ndarray:
    """ρ ≥ ‖Fx‖²/‖x‖² over streams x from the second block on that are beside the polynomials of every block.

    Guarantee: an upper bound for the form of the true filter, up to the distortion of its gains, for each column b
    of `sources`. Correlations err by δ = τ‖f‖(2‖f‖ + ‖f‖₁), τ that of `transform_error`, and so does the form by
    2δ times the number of lags; lags that are off by e_ℓ change the norm of the response by Σ e_ℓ.
    Source: docs/proofs/details.md.
    """
    count, m, size = tables.lags.shape
    length, points = tables.length, fft.next_fast_len(2 * count, real=True)
    batch = max(1, BATCH_BYTES // (8 * points * (m + 2)))
    flat, found = tables.lags.reshape(-1, size), np.empty(sources.shape[1])
    for begin in range(0, sources.shape[1], batch):
        part = slice(begin, begin + batch)
        lags = (flat @ sources[:, part]).reshape(count, m, -1)
        spectrum = fft.rfft(lags, points, axis=0)
        power = (spectrum.real**2 + spectrum.imag**2).sum(axis=1)
        correlations = fft.irfft(power, points, axis=0)[: count - length].T
        both_ways = np.concatenate([correlations[:, length - 1 : 0 : -1], correlations], axis=1)
        windows = np.ascontiguousarray(sliding_window_view(both_ways, 2 * length - 1, axis=1)[:, ::length])
        passed = np.sqrt(((windows @ tables.beside.root.T) ** 2).sum(axis=2))
        sizes = np.sqrt((windows**2).sum(axis=2))
        norms = tables.beside.stretch * passed + tables.beside.off * sizes
        squares = (lags**2).sum(axis=1)
        shown, summed = np.sqrt(squares.sum(axis=0)), np.sqrt(squares).sum(axis=0)
        unsure = 2 * count * transform_error(points) * shown * (2 * shown + summed)
        # The row of block I has those of I blocks before it and of all but I + 1 after it.
        sums = np.cumsum(norms, axis=1)
        found[part] = (sums + sums[:, ::-1] - norms[:, :1]).max(axis=1) + above(unsure)
    lengths = np.sqrt((sources**2).sum(axis=0))
    root = np.sqrt(found + TINY * sources.any(axis=0)) + above(tables.errors.sum()) * lengths
    return np.asarray(root**2 * (1 + gamma(8 * (count + 4 * length + m + 16))))


@cache
def beside(length: int) -> Beside:
    """The map from the diagonals of a Toeplitz matrix R of `length` rows to Q R Q, as a triangular factor.

    Guarantee: that of `Beside`. The columns Q T_d Q, T_d with ones on diagonal d, are off by q of the projection as
    stored and by γ_h‖Q‖² each; what the factors leave over of them, and how far the first is from orthonormal, is
    measured.
    Source: docs/proofs/details.md.
    """
    basis = polynomials(length, DEGREE)
    projection = np.eye(length) - basis @ basis.T
    columns = np.empty((length * length, 2 * length - 1))
    for d in range(1 - length, length):
        left, right = (
            projection[:, max(-d, 0) : length - max(d, 0)],
            projection[max(d, 0) : length + min(d, 0)],
        )
        columns[:, d + length - 1] = (left @ right).reshape(-1)
    turned, root = np.linalg.qr(columns)
    width = columns.shape[1]
    turn = norm(turned.T @ turned - np.eye(width)) + gamma(length**2 + 2) * norm(turned) ** 2
    left_over = norm(columns - turned @ root) + gamma(width + 2) * norm(turned) * norm(root)
    made = gamma(length) * norm(projection) ** 2 * width**0.5
    q = skew(length, DEGREE) + gamma(DEGREE + 3) * (norm(basis) ** 2 + length**0.5)
    off = left_over + made + (2 * q + q * q) * length**0.5 + gamma(2 * length) * norm(root)
    return Beside(root=root, stretch=1 + above(turn), off=above(off) + TINY)
