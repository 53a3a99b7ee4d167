# SPDX-License-Identifier: Apache-2.0
"""Ends of Δ² for many targets at once that are close where the best stream turns at one frequency: near targets.

With gains frozen after a few rounds F is a Toeplitz matrix S but for its first columns, and freezing only raises M: the
frozen filter whitens N·diag(Q)·Nᵀ with Q ⪯ I. So

    ‖Fc‖² ≤ T·sup_ω φ(ω) + (what the first columns add),   φ(ω) = ‖Σ_ℓ f_ℓ e^{−iωℓ}‖²,

and a stream that turns by the frequency of the peak each round attains nearly as much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import fft

from sottovoce.filtering import EXPLICIT_ROUNDS
from sottovoce.filtering.rounding import GAMMA, ROOM
from sottovoce.sensitivities.lags import closed_loop, gramian, lag_forms, loop_error, taps

if TYPE_CHECKING:
    from sottovoce.filtering import FilteredResponse

__all__ = ["ConstantStream", "constant_stream", "turning_bound", "turning_value"]

# φ is a trigonometric polynomial, sampled this many times as often as it has terms.
OVERSAMPLING = 64
BATCH_BYTES = 4 * 2**20
# The states that are followed through all rounds should stay in the processor's cache.
FOLLOWED_BYTES = 2**19


@np.errstate(over="ignore", invalid="ignore")
def turning_bound(
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
    loop, whitener = closed_loop(response, steady)
    off = loop_error(response, steady)
    rows = taps(loop, whitener, min(rounds, EXPLICIT_ROUNDS))
    peak, frequency = _peaks(rows, sources)
    if rounds > EXPLICIT_ROUNDS:
        later = lag_forms(loop, whitener, EXPLICIT_ROUNDS, rounds, off=off)
        peak = (np.sqrt(peak) + later.norm_sum(sources)) ** 2
    height = min(rounds, steady + reach)
    early, deviations = _start(response, rows, steady, height)
    gram = gramian(loop, whitener, rounds - height, off=off) if height < rounds else np.zeros_like(loop)
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
    response: FilteredResponse, rows: np.ndarray, steady: int, height: int
) -> tuple[np.ndarray, np.ndarray]:
    """The first `height` rounds of the first columns of F, (τ, height·m, r), and the states of E at their end."""
    size, m = response.size, response.rows.shape[0]
    adjoint = np.zeros((height * m, size))
    adjoint[steady * m :] = rows[: height - steady].reshape(-1, size)
    early, deviations = np.zeros((steady, height * m, size)), np.empty((steady, size, size))
    loop, _ = closed_loop(response, steady)
    passage = power = np.linalg.matrix_power(loop, height - steady)
    for s in range(steady - 1, -1, -1):
        adjoint[(s + 1) * m :] = response.before(adjoint[(s + 1) * m :], s)
        adjoint[s * m : (s + 1) * m] = response.gains.whitener[s]
        early[s, s * m :] = adjoint[s * m :]
        passage, power = response.before(passage, s), response.before(power, steady)
        deviations[s] = passage - power
    return early, deviations


def turning_value(response: FilteredResponse, sources: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """‖Fc‖², from below, for unit vectors c_t that turn by each target's frequency each round.

    Rounds are followed one by one while the gains change. From then on the state differs from the steady one, whose
    output has norm √(rounds·φ), by a deviation that shows at most its norm in the Gramian; round T is left out.

    Guarantee: a lower bound of Δ² for vectors (for signs too at the frequencies 0 and π), up to a relative 1e-9 that
    is taken off for rounding.
    """
    followed = _followed(response)
    remaining = response.rounds - 1 - followed
    turn = np.exp(1j * frequencies)
    values, states = _follow(response, sources, turn, followed)
    if remaining > 0:
        loop, whitener = closed_loop(response, followed)
        off = loop_error(response, followed)
        steady = np.empty_like(states)
        for j, back in enumerate(np.conj(turn)):
            steady[:, j] = np.linalg.solve(np.eye(len(loop)) - back * loop, sources[:, j])
        shown = np.sqrt(remaining) * np.linalg.norm(whitener @ steady, axis=0)
        deviation = states + (sources - steady) * turn**followed
        values += np.maximum(shown - _length(deviation, gramian(loop, whitener, remaining, off=off)), 0) ** 2
    return values * (1 - 1e-9)


def _follow(
    response: FilteredResponse, sources: np.ndarray, turn: np.ndarray, rounds: int
) -> tuple[np.ndarray, np.ndarray]:
    """What streams that turn show in the first `rounds` rounds, squared, and the states that they leave."""
    shown, states = np.zeros(sources.shape[1]), np.zeros(sources.shape, dtype=complex)
    batch = max(1, FOLLOWED_BYTES // (16 * response.size))
    for begin in range(0, sources.shape[1], batch):
        part = slice(begin, begin + batch)
        inputs, state = np.ascontiguousarray(sources[:, part]), np.ascontiguousarray(states[:, part])
        phase = np.ones_like(turn[part])
        for t in range(rounds):
            state = state + inputs * phase
            seen = response.whitener(t) @ state
            shown[part] += (seen.real**2 + seen.imag**2).sum(axis=0)
            phase = phase * turn[part]
            if t < response.rounds - 1:
                # Real and imaginary parts side by side: a real matrix is not made complex for them.
                state = response.after(state.view(np.float64), t).view(complex)
        states[:, part] = state
    return shown, states


@dataclass(frozen=True, kw_only=True, eq=False)
class ConstantStream:
    """What a contribution that never changes gives away, as forms that serve every target.

    bᵀ`form`b − `margin`·‖b‖² while the gains change, then √`remaining`·‖`shown`·b‖ but for what is left of the
    `deviation`.
    """

    form: np.ndarray
    margin: float
    remaining: int
    shown: np.ndarray
    deviation: np.ndarray
    gram: np.ndarray

    def value(self, sources: np.ndarray) -> np.ndarray:
        """‖F1‖², from below, for each column of `sources`.

        Guarantee: a lower bound of Δ², for signs too, up to a relative 1e-9 that is taken off for rounding.
        """
        slack = self.margin * (sources**2).sum(axis=0)
        total = np.maximum(np.einsum("rj,rj->j", sources, self.form @ sources) - slack, 0)
        if self.remaining > 0:
            later = np.sqrt(self.remaining) * np.linalg.norm(self.shown @ sources, axis=0)
            total += np.maximum(later - _length(self.deviation @ sources, self.gram), 0) ** 2
        return np.asarray(total * (1 - 1e-9))


def constant_stream(response: FilteredResponse) -> ConstantStream:
    """The sums of `turning_value` at the frequency 0, for the r basis inputs at once.

    Guarantee: `form` is off by at most `margin` for what is shown as computed. With V_t of m rows shown in round t, the
    sum G of V_tᵀV_t over τ rounds errs by at most γ_{m+τ} of Σ |V_t|ᵀ|V_t|, whose norm is at most Σ ‖V_t‖² = tr G;
    products with an input on both sides add γ_{2r}‖G‖.
    Source: Higham, *Accuracy and Stability of Numerical Algorithms*, Sections 3.1 and 3.5.
    """
    size = response.transition.shape[0]
    identity = np.eye(size)
    state, form = np.zeros((size, size)), np.zeros((size, size))
    followed = _followed(response)
    for t in range(followed):
        state.flat[:: size + 1] += 1.0
        shown = response.whitener(t) @ state
        form += shown.T @ shown
        if t < response.rounds - 1:
            state = response.after(state, t)
    margin = ROOM * GAMMA * (len(response.rows) + followed + 2 * size) * float(np.trace(form))
    remaining = response.rounds - 1 - followed
    if remaining <= 0:
        nothing = np.zeros((0, size))
        return ConstantStream(
            form=form, margin=margin, remaining=0, shown=nothing, deviation=nothing, gram=np.eye(0)
        )
    loop, whitener = closed_loop(response, followed)
    steady = np.linalg.solve(identity - loop, identity)
    return ConstantStream(
        form=form,
        margin=margin,
        remaining=remaining,
        shown=whitener @ steady,
        deviation=state + identity - steady,
        gram=gramian(loop, whitener, remaining, off=loop_error(response, followed)),
    )


def _followed(response: FilteredResponse) -> int:
    """How many rounds have gains of their own, or all while they are few."""
    if response.rounds <= EXPLICIT_ROUNDS or not response.gains.frozen:
        return response.rounds
    return min(response.rounds, len(response.gains.gain) - 1)


def _length(states: np.ndarray, gram: np.ndarray) -> np.ndarray:
    """√(z*Gz) for each column z."""
    return np.asarray(np.sqrt(np.maximum(np.einsum("rj,rj->j", states.conj(), gram @ states).real, 0)))
