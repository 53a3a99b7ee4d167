# SPDX-License-Identifier: Apache-2.0
"""An upper bound of Δ² for many targets at once that is close where the best stream turns at one frequency: near ones.

With gains frozen after a few rounds F is a Toeplitz matrix S but for its first columns, and freezing only raises M: the
frozen filter whitens N·diag(Q)·Nᵀ with Q ⪯ I. So

    ‖Fc‖² ≤ T·sup_ω φ(ω) + (what the first columns add),   φ(ω) = ‖Σ_ℓ f_ℓ e^{−iωℓ}‖²,

and a stream that turns by the frequency of the peak each round attains nearly as much (`streams.turning_value`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import fft

from sottovoce.filtering import EXPLICIT_ROUNDS
from sottovoce.sensitivities.many_targets.lag_forms import lag_forms

if TYPE_CHECKING:
    from sottovoce.filtering import FilteredResponse

__all__ = ["peak_bound"]

# φ is a trigonometric polynomial, sampled this many times as often as it has terms.
OVERSAMPLING = 64
BATCH_BYTES = 4 * 2**20


@np.errstate(over="ignore", invalid="ignore")
def peak_bound(
    response: FilteredResponse, sources: np.ndarray, *, start: int, reach: int
) -> tuple[np.ndarray, np.ndarray]:
    """An upper bound of Δ² for each column b of `sources`, and the frequency at which φ is largest.

    The gains are frozen after `start` rounds, and what that changes is followed for `reach` rounds more: both are
    closer and dearer the larger they are. With S the Toeplitz part, E = F − S (zero but for the first τ columns), H
    rounds that are looked at one by one and ε_s what is left of column s of E at their end, in the Gramian's norm,

        Δ² ≤ Tρ + Σ_st |EᵀS + SᵀE + EᵀE|_st + 2√(Tρ)·e + e²,   e² = Σ_st |⟨ε_s, ε_t⟩|,

    the first sum over the rounds looked at.

    Guarantee: an upper bound for vectors of every dimension. ρ ≥ sup φ: a real trigonometric polynomial of degree N
    lies below its largest value on K > 2N equidistant points divided by cos(πN/K), and longer lags are added by
    their norms. Gains that are frozen early may leave a loop that grows: then the bound is infinite where it overflows.
    Source: Ehlich & Zeller, Math. Z. 86 (1964) for the grid.
    """
    rounds, m = response.rounds, response.rows.shape[0]
    steady = min(start, len(response.gains.gain)) - 1
    closed = response.closed_loop(steady)
    rows = closed.taps(min(rounds, EXPLICIT_ROUNDS))
    peak, frequency = _peaks(rows, sources)
    if rounds > EXPLICIT_ROUNDS:
        later = lag_forms(closed, EXPLICIT_ROUNDS, rounds)
        peak = (np.sqrt(peak) + later.norm_sum(sources)) ** 2
    height = min(rounds, steady + reach)
    early, deviations = _start(response, closed.loop, rows, steady, height)
    gram = closed.gramian(rounds - height) if height < rounds else np.zeros_like(closed.loop)
    batch = max(1, BATCH_BYTES // (8 * (steady + 1) * height * m * 4))
    added, left = np.empty(sources.shape[1]), np.empty(sources.shape[1])
    for begin in range(0, sources.shape[1], batch):
        chosen = sources[:, begin : begin + batch]
        added[begin : begin + batch] = _added(early, rows[:height], chosen)
        states = (deviations @ chosen).transpose(2, 0, 1)
        left[begin : begin + batch] = np.abs(states @ gram @ states.transpose(0, 2, 1)).sum(axis=(1, 2))
    bulk = rounds * peak
    bound = (bulk + added + 2 * np.sqrt(bulk * left) + left) * (1 + 1e-9)
    return np.where(np.isfinite(bound), bound, np.inf), frequency


def _added(early: np.ndarray, rows: np.ndarray, sources: np.ndarray) -> np.ndarray:
    """Σ |EᵀS + SᵀE + EᵀE| over the rounds of `rows`, for each column of `sources`; products with S by FFT."""
    steady, count = len(early), sources.shape[1]
    height, m, size = rows.shape
    lags = np.ascontiguousarray(
        (rows.reshape(-1, size) @ sources).reshape(height, m, count).transpose(2, 1, 0)
    )
    first = (early.reshape(-1, size) @ sources).reshape(steady, height, m, count)
    change = np.ascontiguousarray(first.transpose(3, 0, 2, 1))
    for s in range(steady):
        change[:, s, :, s:] -= lags[:, :, : height - s]
    points = fft.next_fast_len(2 * height, real=True)
    spectrum = fft.rfft(change, points) * np.conj(fft.rfft(lags, points))[:, None]
    cross = fft.irfft(spectrum.sum(axis=2), points)[..., :height]
    flat = change.reshape(count, steady, m * height)
    within = cross[..., :steady]
    within = within + within.transpose(0, 2, 1) + flat @ flat.transpose(0, 2, 1)
    return np.asarray(np.abs(within).sum(axis=(1, 2)) + 2 * np.abs(cross[..., steady:]).sum(axis=(1, 2)))


def _peaks(rows: np.ndarray, sources: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A bound of sup ‖Σ f_ℓ e^{−iωℓ}‖² over the lags of `rows`, and where the largest sample is."""
    count, m, size = rows.shape
    points = fft.next_fast_len(OVERSAMPLING * count, real=True)
    batch = max(1, BATCH_BYTES // (16 * points * m))
    peak, frequency = np.empty(sources.shape[1]), np.empty(sources.shape[1])
    for begin in range(0, sources.shape[1], batch):
        chosen = sources[:, begin : begin + batch]
        lags = (rows.reshape(-1, size) @ chosen).reshape(count, m, -1)
        values = (np.abs(fft.rfft(lags, points, axis=0)) ** 2).sum(axis=1)
        top = values.argmax(axis=0)
        peak[begin : begin + batch] = values[top, np.arange(len(top))]
        frequency[begin : begin + batch] = 2 * np.pi * top / points
    return peak / np.cos(np.pi * (count - 1) / points), frequency


def _start(
    response: FilteredResponse, loop: np.ndarray, rows: np.ndarray, steady: int, height: int
) -> tuple[np.ndarray, np.ndarray]:
    """The first `height` rounds of the first columns of F, (τ, height·m, r), and the states of E at their end."""
    size, m = response.size, response.rows.shape[0]
    adjoint = np.zeros((height * m, size))
    adjoint[steady * m :] = rows[: height - steady].reshape(-1, size)
    early, deviations = np.zeros((steady, height * m, size)), np.empty((steady, size, size))
    passage = power = np.linalg.matrix_power(loop, height - steady)
    for s in range(steady - 1, -1, -1):
        adjoint[(s + 1) * m :] = response.before(adjoint[(s + 1) * m :], s)
        adjoint[s * m : (s + 1) * m] = response.gains.whitener[s]
        early[s, s * m :] = adjoint[s * m :]
        passage, power = response.before(passage, s), response.before(power, steady)
        deviations[s] = passage - power
    return early, deviations
