# SPDX-License-Identifier: Apache-2.0
"""An upper bound of Δ² for many targets at once close where the best stream turns at one frequency: near ones.

With gains frozen after a few rounds F is a Toeplitz matrix S but for its first columns, and freezing only raises M:
the frozen filter whitens N·diag(Q)·Nᵀ with Q ⪯ I. So

    ‖Fc‖² ≤ T·sup_ω φ(ω) + (what the first columns add),   φ(ω) = ‖Σ_ℓ f_ℓ e^{−iωℓ}‖²,

and a stream that turns by the frequency of the peak each round attains nearly as much (`streams.turning_value`).

In the code f_ℓ is `rows`[ℓ]·b, τ is `settles`, H is `height`; `peaks` bounds sup φ, `_added` what E and S make
together in the first H rounds, `_left` what E leaves after them.
Source: docs/proofs/peak.md, docs/proofs/spectra.md; docs/mathematics.md, section 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import fft

from sottovoce.filtering import EXPLICIT_ROUNDS, Step, transform_error
from sottovoce.rounding import above, gamma
from sottovoce.sensitivities.many_targets.lag_forms import lag_forms
from sottovoce.sensitivities.rounding import (
    matrix_power,
    norm,
    squared,
    tap_errors,
    weights_before,
)

if TYPE_CHECKING:
    from sottovoce.filtering import ClosedLoop, FilteredResponse

__all__ = ["peak_bound", "peaks"]

# Speed alone: φ is a trigonometric polynomial, sampled this many times as often as it has terms. Any number above
# 2 is sound; 1/cos(πN/K) is about 1.0012 at 64.
OVERSAMPLING = 64
# Speed alone: targets are taken together while their transforms take no more than this, and while the products with the
# tables, which are read once for all of them, take no more than that.
BATCH_BYTES, GROUP_BYTES = 4 * 2**20, 64 * 2**20


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
    their norms. Gains that are frozen early may leave a loop that grows: then the bound is infinite where it
    overflows. What rounding does to lags, first columns and states is added to each (docs/proofs/peak.md).
    Source: Ehlich & Zeller, Math. Z. 86 (1964) for the grid.
    """
    rounds, m = response.rounds, response.rows.shape[0]
    settles = min(start, len(response.gains.gain)) - 1
    closed = response.closed_loop(settles)
    rows = closed.taps(min(rounds, EXPLICIT_ROUNDS))
    errors = tap_errors(closed, rows) + gamma(response.size) * np.sqrt((rows**2).sum(axis=(1, 2)))
    lengths = np.sqrt((sources**2).sum(axis=0))
    peak, frequency = peaks(rows, sources, errors.sum() * lengths)
    if rounds > EXPLICIT_ROUNDS:
        later = lag_forms(closed, EXPLICIT_ROUNDS, rounds)
        peak = (np.sqrt(peak) + later.norm_sum(sources)) ** 2
    height = min(rounds, settles + reach)
    first = _start(response, closed, rows, settles, height)
    gram = closed.gramian(rounds - height) if height < rounds else np.zeros_like(closed.loop)
    off_rows = above(np.sqrt((errors**2).sum())) * lengths
    off_columns = settles * off_rows + first.columns_off(sources)
    off_states = np.sqrt(norm(gram)) * first.states_off(sources)
    bytes_each = 8 * (settles + 1) * height * m
    batch = max(1, BATCH_BYTES // (4 * bytes_each))
    group = batch * max(1, GROUP_BYTES // (batch * bytes_each))
    added, left = np.empty(sources.shape[1]), np.empty(sources.shape[1])
    for begin in range(0, sources.shape[1], batch):
        if begin % group == 0:
            columns, states = first.of(sources[:, begin : begin + group])
        part, place = slice(begin, begin + batch), slice(begin % group, begin % group + batch)
        lags = (rows[:height].reshape(height * m, -1) @ sources[:, part]).T.reshape(-1, height, m)
        added[part] = _added(columns[place], lags, off_rows[part], off_columns[part])
        left[part] = _left(states[place], gram, off_states[part])
    settled = rounds * peak
    bound = settled + added + 2 * np.sqrt(settled * left) + left
    bound *= 1 + gamma(8 * (height * (m + settles) + response.size + 64))
    return np.where(np.isfinite(bound), bound, np.inf), frequency


def _added(first: np.ndarray, lags: np.ndarray, off_rows: np.ndarray, off_columns: np.ndarray) -> np.ndarray:
    """Σ |EᵀS + SᵀE + EᵀE| over H rounds, for each target; products with S by FFT.

    `lags` (targets, H, m) are those of S in these rounds, `first` (targets, τ, H, m) the first columns of F.

    Guarantee: an upper bound, columns of S being off by `off_rows` each and those of E by `off_columns` in all.
    With a = Σ_s ‖E_s‖, h = ‖f‖, g = Σ_ℓ ‖f_ℓ‖ and τ = `transform_error` an entry of EᵀS errs by at most τ(2h +
    g)‖E_s‖, one of EᵀE by γ_{mH}‖E_s‖‖E_t‖.
    Source: docs/proofs/peak.md.
    """
    count, settles, height, m = first.shape
    lags = np.ascontiguousarray(lags.transpose(0, 2, 1))
    change = np.array(first.transpose(0, 1, 3, 2), order="C")
    # E_s = F_s − S_s, S_s being the lags from round s on
    for s in range(settles):
        change[:, s, :, s:] -= lags[:, :, : height - s]
    points = fft.next_fast_len(2 * height, real=True)
    spectrum = fft.rfft(change, points) * np.conj(fft.rfft(lags, points))[:, None]
    cross = fft.irfft(spectrum.sum(axis=2), points)[..., :height]
    flat = change.reshape(count, settles, m * height)
    within = cross[..., :settles]
    within = within + within.transpose(0, 2, 1) + flat @ flat.transpose(0, 2, 1)
    found = np.abs(within).sum(axis=(1, 2)) + 2 * np.abs(cross[..., settles:]).sum(axis=(1, 2))
    squares = (lags**2).sum(axis=1)
    changed, shown, summed = (
        np.sqrt((flat**2).sum(axis=2)).sum(axis=1),
        np.sqrt(squares.sum(axis=1)),
        np.sqrt(squares).sum(axis=1),
    )
    whole = changed + off_columns
    crossed = (
        2
        * height
        * ((transform_error(points) * (2 * shown + summed) + off_rows) * whole + shown * off_columns)
    )
    inner = gamma(m * height + 4) * whole**2 + 2 * whole * off_columns
    return np.asarray(found + above(crossed + inner))


def _left(states: np.ndarray, gram: np.ndarray, off: np.ndarray) -> np.ndarray:
    """Σ_st |⟨ε_s, ε_t⟩| of states ε in the norm of a Gramian, which are off by so much in that norm in all.

    Guarantee: an upper bound; the product errs by γ_{2r}‖G‖(Σ ‖ε_s‖)².
    """
    forms = states @ gram @ states.transpose(0, 2, 1)
    lengths = np.sqrt((states**2).sum(axis=2)).sum(axis=1)
    shown = np.sqrt(np.maximum(np.diagonal(forms, axis1=1, axis2=2), 0)).sum(axis=1)
    product = gamma(2 * (len(gram) + 1)) * norm(gram) * lengths**2
    # Σ ‖ε_s‖ in the norm of the Gramian, rounding of each square counted by its root.
    shown = shown + np.sqrt(states.shape[1] * product)
    return np.asarray(np.abs(forms).sum(axis=(1, 2)) + above(product + 2 * shown * off + off**2))


def peaks(
    rows: np.ndarray, sources: np.ndarray, off: np.ndarray, oversampling: int = OVERSAMPLING
) -> tuple[np.ndarray, np.ndarray]:
    """A bound of sup ‖Σ f_ℓ e^{−iωℓ}‖² over the lags of `rows`, off by at most `off` in all, and where that is.

    φ is sampled `oversampling` > 2 times as often as it has terms.

    Guarantee: of K samples each is off by `transform_error`·√K‖f‖ at most, besides.
    """
    count, m, size = rows.shape
    points = fft.next_fast_len(oversampling * count, real=True)
    batch = max(1, BATCH_BYTES // (16 * points * m))
    peak, frequency = np.empty(sources.shape[1]), np.empty(sources.shape[1])
    unsure = transform_error(points) * np.sqrt(points)
    # Speed alone: the table of rows is read once for many targets, whose transforms are made a few at a time.
    group = batch * max(1, GROUP_BYTES // (batch * 8 * count * m))
    for begin in range(0, sources.shape[1], batch):
        if begin % group == 0:
            shown = (rows.reshape(-1, size) @ sources[:, begin : begin + group]).reshape(count, m, -1)
        part = slice(begin, begin + batch)
        lags = np.ascontiguousarray(shown[:, :, begin % group : begin % group + batch])
        values = (np.abs(fft.rfft(lags, points, axis=0)) ** 2).sum(axis=1)
        top = values.argmax(axis=0)
        sizes = np.sqrt((lags**2).sum(axis=(0, 1)))
        peak[part] = (np.sqrt(values[top, np.arange(len(top))]) + above(unsure * sizes + off[part])) ** 2
        frequency[part] = 2 * np.pi * top / points
    return peak / np.cos(np.pi * (count - 1) / points), frequency


@dataclass(frozen=True, kw_only=True, eq=False)
class _Start:
    """The first rounds of the first columns of F, (τ, height, m, r), and the states of E at their end, (τ, r, r).

    bᵀ`states`b and bᵀ`settled`b are Σ ‖z‖² over all states z that an input b of one of these rounds leads to, up to
    the round in which the gains are frozen, by the true gains and by frozen ones.
    """

    columns: np.ndarray
    deviations: np.ndarray
    states: np.ndarray
    settled: np.ndarray
    columns_error: float
    states_error: float

    def of(self, sources: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first columns of F, (targets, τ, height, m), and the states of E, (targets, τ, r), of inputs."""
        columns, states = (
            (sources.T @ table.reshape(-1, len(sources)).T).reshape(sources.shape[1], *table.shape[:-1])
            for table in (self.columns, self.deviations)
        )
        return columns, states

    def columns_off(self, sources: np.ndarray) -> np.ndarray:
        """How far the columns of F are off in all, in norm, for each column b of `sources`.

        Guarantee: an upper bound of Σ_s ‖δ_s‖: Σ_s √(bᵀW_s b) ≤ √(τ·bᵀΣW_s b).
        Source: docs/proofs/peak.md, Columns of F.
        """
        lengths = np.sqrt((sources**2).sum(axis=0))
        norms = sum(map(norm, self.columns), 0.0)
        built = np.sqrt(len(self.columns) * _form(self.states, sources))
        return np.asarray(above(self.columns_error * built + gamma(len(sources) + 2) * norms * lengths))

    def states_off(self, sources: np.ndarray) -> np.ndarray:
        """How far the states of E are off in all, in norm.

        Guarantee: an upper bound; the passage by the true gains and that by frozen ones err each by themselves.
        """
        lengths = np.sqrt((sources**2).sum(axis=0))
        norms = sum(map(norm, self.deviations), 0.0)
        built = sum(np.sqrt(len(self.columns) * _form(form, sources)) for form in (self.states, self.settled))
        return np.asarray(above(self.states_error * built + gamma(len(sources) + 2) * norms * lengths))


def _form(form: np.ndarray, sources: np.ndarray) -> np.ndarray:
    """bᵀXb for each column b, from above."""
    values = np.einsum("rj,rj->j", sources, form @ sources)
    return np.asarray(
        np.maximum(values, 0) + gamma(2 * (len(form) + 1)) * norm(form) * (sources**2).sum(axis=0)
    )


def _start(
    response: FilteredResponse, closed: ClosedLoop, rows: np.ndarray, settles: int, height: int
) -> _Start:
    """Carry the rows of the first rounds back through them, and what is left of a state at their end.

    Guarantee: a step errs by κ‖X‖ (see `Step`), which the state of its round reads. By Cauchy and Schwarz all steps
    account for κχ√(bᵀWb) in a column, χ² = Σ ‖X‖², and the rows that were begun with, off by e, for e√(bᵀWb).
    Source: docs/proofs/peak.md.
    """
    size, m = response.size, response.rows.shape[0]
    step = Step.of(response.transition, response.rows, response.gains.gain[: settles + 1])
    adjoint = np.zeros((height * m, size))
    adjoint[settles * m :] = rows[: height - settles].reshape(-1, size)
    early, deviations = np.zeros((settles, height * m, size)), np.empty((settles, size, size))
    power, off = matrix_power(closed, height - settles)
    passage, carried, passed = power, 0.0, 0.0
    weights = frozen = np.eye(size)
    states, settled = np.zeros((size, size)), np.zeros((size, size))
    for s in range(settles - 1, -1, -1):
        # X_us = X_{u,s+1}(AΦ_s) for u > s, X_ss = D_s: column s of F is X_us b;  passage_s = passage_{s+1}(AΦ_s)
        carried += squared(adjoint[(s + 1) * m :])
        passed += squared(passage) + squared(power)
        adjoint[(s + 1) * m :] = response.before(adjoint[(s + 1) * m :], s)
        adjoint[s * m : (s + 1) * m] = response.gains.whitener[s]
        early[s, s * m :] = adjoint[s * m :]
        passage, power = response.before(passage, s), response.before(power, settles)
        deviations[s] = passage - power
        # W_s = I + (AΦ_s)ᵀ W_{s+1} (AΦ_s), by the gains of round s and by those of the last
        weights = weights_before(response, step, weights, s)
        frozen = weights_before(response, step, frozen, settles)
        states, settled = states + weights, settled + frozen
    begun = float(np.sqrt((tap_errors(closed, rows[: height - settles]) ** 2).sum()))
    return _Start(
        columns=early.reshape(settles, height, m, size),
        deviations=deviations,
        states=states,
        settled=settled,
        columns_error=above(step.error * carried**0.5 + begun),
        states_error=above(step.error * passed**0.5 + off),
    )
