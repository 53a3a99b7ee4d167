# SPDX-License-Identifier: Apache-2.0
"""Δ² over a horizon of any length, proved without a T × T matrix, by the bounded-real recursion.

diag(y) ≻ M = FᵀF holds exactly when, backwards from V_T = 0,

    N_t = CᵀR_t⁻¹C + Φ_tᵀ V_t Φ_t;  s_t = y_t − bᵀ N_t b > 0;  V_{t−1} = Aᵀ N_t A + (Aᵀ N_t b)(Aᵀ N_t b)ᵀ / s_t

for all t. Once the filter is steady a constant y = ρ above sup φ has a fixed point V, and V ⪰ f(V), one small matrix
inequality, proves every round of the bulk at once: the cost does not depend on T.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg, optimize

from sottovoce.rates.signs import periodic_signs, sign_patterns
from sottovoce.sensitivities.dual import solve_dual
from sottovoce.sensitivities.witnesses import flip_signs, value_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sottovoce.filtering import FilteredResponse
    from sottovoce.protocols import Contribution

__all__ = [
    "FREEZE",
    "HorizonSolution",
    "dense_transition",
    "is_proved",
    "peak_frequency",
    "short_profiles",
    "solve_horizon",
    "whole_model",
]

EPSILON = float(np.finfo(np.float64).eps)
# How far above sup φ the bulk constant stands: closer costs precision, farther costs noise.
EXCESSES = (1e-4, 5e-4, 2e-3, 1e-2, 5e-2)
# Room for rounding in the bulk inequality, relative to the bulk constant; the least that suffices is taken.
ROOMS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
# The upper end freezes the gains after this many rounds at the latest: that takes noise away, never adds it.
FREEZE = 512
# The start profile is taken from the dual solution of this short horizon.
SHORT = 768
# The frequencies at which φ is looked for are solved for together while the matrices take no more than this.
BATCH_BYTES = 4 * 2**20


@dataclass(frozen=True, kw_only=True, eq=False)
class HorizonSolution:
    """attained ≤ Δ² ≤ bound for the model as stored, over its T rounds.

    The upper end is Σ `start` + (T − len(start))·`bulk`, proved with the matrix `value` under gains frozen after the
    start; the lower end belongs to `stream`: unit vectors that turn by `frequency` each round, which attain `reached`,
    or periodic signs.
    """

    attained: float
    reached: float
    bound: float
    start: np.ndarray
    bulk: float
    value: np.ndarray
    frequency: float
    signs: np.ndarray | None

    def stream(self, rounds: int) -> np.ndarray:
        """The contributions behind the lower end: shape (T,) for signs, (T, 2) for turning vectors."""
        if self.signs is not None:
            return np.resize(self.signs, rounds)
        angles = self.frequency * np.arange(rounds)
        return np.column_stack([np.cos(angles), np.sin(angles)])


@dataclass(frozen=True, kw_only=True, eq=False)
class _Model:
    """The whitened response of one target as matrices: A, C, b and the gains and whiteners of the start-up."""

    transition: np.ndarray
    rows: np.ndarray
    source: np.ndarray
    gains: np.ndarray
    whiteners: np.ndarray
    rounds: int

    @cached_property
    def stretch(self) -> float:
        """‖A‖₂², at least 1: what a product with A on both sides may enlarge an error by."""
        return max(1.0, float(np.linalg.norm(self.transition, 2)) ** 2)

    @property
    def closed_loop(self) -> np.ndarray:
        """A Φ in steady state."""
        return np.asarray(self.transition - (self.transition @ self.gains[-1]) @ self.rows)


def solve_horizon(
    response: FilteredResponse,
    position: int,
    *,
    contribution: Contribution = "vector",
    profile: np.ndarray | None = None,
) -> HorizonSolution | None:
    """Ends of Δ² for the target at `position`, or None if no bound below the cap T is found.

    The gains are frozen after the rounds for which a guess of y is given (`profile`), or after `FREEZE` rounds.

    Guarantee: attained ≤ Δ² ≤ bound for vectors of every dimension, for the model as stored; every step's rounding is
    covered by inflating V. The round T, which may show fewer rows, is counted as if it showed all.
    Source: discrete-time bounded-real lemma over a finite horizon (Green & Limebeer, *Linear Robust Control*, ch. 6
    and appendix B).
    """
    whole = _model(response, position, len(response.gains.gain))
    frequency, _ = _peak(whole)
    reached = _attained(whole, frequency)
    attained, signs = _best_signs(whole, frequency) if contribution == "scalar" else (reached, None)
    model = _model(response, position, FREEZE if profile is None else len(profile) + 1)
    _, peak = _peak(model)
    if profile is None:
        (profile,) = short_profiles(response, np.array([position]))
    profile = np.maximum(profile, peak)
    for excess in EXCESSES:
        bulk = peak * (1 + excess)
        value = _bulk_value(model, bulk)
        start = None if value is None else _proved_start(model, value, profile, excess * bulk)
        if value is not None and start is not None:
            bound = float(start.sum()) + (model.rounds - len(start)) * bulk
            return HorizonSolution(
                attained=attained,
                reached=reached,
                bound=float(np.nextafter(bound * (1 + 4 * EPSILON * (len(start) + 1)), np.inf)),
                start=start,
                bulk=bulk,
                value=value,
                frequency=frequency,
                signs=signs,
            )
    return None


def _model(response: FilteredResponse, position: int, freeze: int) -> _Model:
    """The response of one target with its gains frozen after `freeze` rounds at the latest."""
    return _Model(
        transition=dense_transition(response),
        rows=response.rows,
        source=response.source(position),
        gains=response.gains.gain[:freeze],
        whiteners=response.gains.whitener[:freeze],
        rounds=response.rounds,
    )


def short_profiles(response: FilteredResponse, positions: np.ndarray) -> Iterator[np.ndarray]:
    """For each target the y of a short horizon's dual solution, for the rounds before the gains are frozen.

    They are what `solve_horizon` begins with where it is given none; targets that are asked for together share the
    rows of the response.
    """
    frozen_at = min(FREEZE, len(response.gains.gain))
    # Only a guess that the recursion will judge, so gains that hardly move may be taken as settled.
    moved = np.abs(response.gains.gain[:frozen_at] - response.gains.gain[frozen_at - 1]).max(axis=(1, 2))
    settled = int(np.argmax(moved <= 1e-6))
    short = response.shortened(min(response.rounds, SHORT), frozen_at=settled)
    for forms in short.forms(positions):
        for form in forms.matrices:
            y = solve_dual(form, tolerance=2e-4).y
            yield np.asarray((np.abs(form).sum(axis=1) if y is None else y)[: frozen_at - 1])


def _weight(model: _Model, value: np.ndarray, k: int) -> np.ndarray:
    """N = CᵀR⁻¹C + ΦᵀVΦ with the gains of round k."""
    turned = value - (value @ model.gains[k]) @ model.rows
    turned -= model.rows.T @ (model.gains[k].T @ turned)
    return np.asarray((turned + turned.T) / 2 + model.whiteners[k].T @ model.whiteners[k])


def _step(model: _Model, value: np.ndarray, k: int, y: float) -> tuple[np.ndarray, float, float]:
    """One backward step under y: f(V), the slack s (rounding taken off) and a bound of the rounding error of f(V)."""
    weight = _weight(model, value, k)
    pulled = model.transition.T @ weight
    seen = pulled @ model.source
    unit = 8 * EPSILON * (len(value) + len(model.rows) + 8) * model.stretch
    weight_error = (
        unit * (1 + float(np.linalg.norm(model.gains[k]))) ** 2 * (1 + float(np.linalg.norm(value)))
    )
    gap = y - float(model.source @ weight @ model.source) - weight_error
    if gap <= 0:
        return value, gap, 0.0
    before = pulled @ model.transition + np.outer(seen, seen) / gap
    reach = float(seen @ seen) / gap
    error = 4 * weight_error * (1 + reach / gap + 2 * reach) + unit * (1 + reach)
    return (before + before.T) / 2, gap, error


def _bulk_value(model: _Model, bulk: float) -> np.ndarray | None:
    """V with V ⪰ f(V) under the steady gains and y = bulk, proved; None if none is found."""
    for room in ROOMS:
        value = _bulk_candidate(model, bulk, room * bulk)
        if value is None:
            return None
        mapped, gap, error = _step(model, value, -1, bulk)
        if gap <= 0:
            continue
        margin = error + 8 * EPSILON * len(value) * float(np.trace(value) + np.trace(mapped))
        try:
            linalg.cholesky(value - mapped - margin * np.eye(len(value)), lower=True)
        except linalg.LinAlgError:
            continue
        return value
    return None


def _bulk_candidate(model: _Model, bulk: float, room: float) -> np.ndarray | None:
    """V that satisfies the bulk inequality strictly, in exact arithmetic; None where ρ is below sup φ.

    N = L⁻¹C'L⁻¹C + θI + B'NB + B'Nb b'NB/(ρ − b'Nb), B = AΦ, is solved by doubling, and V = A'NA + A'Nb b'NA/s + θ'I:
    then N(V) ⪯ N as long as θ'‖Φ‖² ≤ θ, so f(V) ⪯ V − θ'I.
    """
    weight = _doubled(model.closed_loop, model.source, model.whiteners[-1], bulk, room)
    if weight is None:
        return None
    gap = bulk - float(model.source @ weight @ model.source)
    if gap <= 0:
        return None
    pulled = model.transition.T @ weight
    seen = pulled @ model.source
    value = pulled @ model.transition + np.outer(seen, seen) / gap
    turning = 1 + float(np.linalg.norm(model.gains[-1], 2))
    return np.asarray((value + value.T) / 2 + room / (2 * turning**2) * np.eye(len(value)))


def _doubled(
    closed: np.ndarray, source: np.ndarray, whitener: np.ndarray, bulk: float, room: float
) -> np.ndarray | None:
    """The limit of the recursion N ← Q + B'NB + B'Nb b'NB/(ρ − b'Nb) from 0, by doubling; None if it blows up.

    Source: structure-preserving doubling, Chu, Fan, Lin & Wang, Int. J. Control 77 (2004), with R = −ρ.
    """
    identity = np.eye(len(closed))
    power, spread = closed, -np.outer(source, source) / bulk
    weight = whitener.T @ whitener + room * identity
    for _ in range(60):
        try:
            inner = np.linalg.solve(identity + spread @ weight, np.hstack([power, spread]))
        except np.linalg.LinAlgError:
            return None
        forward, sideways = inner[:, : len(closed)], inner[:, len(closed) :]
        added = power.T @ weight @ forward
        spread = spread + power @ sideways @ power.T
        power = power @ forward
        weight = weight + (added + added.T) / 2
        if not np.isfinite(weight).all() or np.trace(weight) > 1e12 or np.trace(added) < -room:
            return None
        if np.linalg.norm(added) <= 1e-14 * np.linalg.norm(weight):
            return np.asarray(weight)
    return None


def _proved_start(model: _Model, value: np.ndarray, profile: np.ndarray, lift: float) -> np.ndarray | None:
    """The profile lifted until the recursion accepts it, or None.

    The rounds before the bulk are walked backwards with their own gains.
    """
    for factor in (1.0, 4.0, 16.0, 64.0, 256.0):
        lifted = profile + factor * lift
        if _walks_back(model, value, lifted):
            return lifted
    return None


def _walks_back(model: _Model, value: np.ndarray, y: np.ndarray) -> bool:
    """Whether the recursion, from V = `value`, accepts the first rounds under y, each with its own gains."""
    identity = np.eye(len(value))
    for k in range(len(y) - 1, -1, -1):
        value, gap, error = _step(model, value, min(k, len(model.gains) - 1), y[k])
        if not gap > 0:
            return False
        value = value + error * identity
    return True


def is_proved(model: _Model, y: np.ndarray) -> bool:
    """Whether diag(y) ⪰ M for the model over len(y) rounds, by the recursion from V = 0; True is a proof."""
    return _walks_back(model, np.zeros_like(model.transition), y)


def whole_model(response: FilteredResponse, position: int) -> _Model:
    """The response of one target with all its gains."""
    return _model(response, position, len(response.gains.gain))


def peak_frequency(model: _Model) -> float:
    """The frequency of the largest steady response, an estimate."""
    return _peak(model)[0]


def _peak(model: _Model) -> tuple[float, float]:
    """The frequency of the largest steady response, and φ there (an estimate: the bulk inequality is what proves)."""
    closed, whitener = model.closed_loop, model.whiteners[-1]
    poles = np.linalg.eigvals(closed)
    spectrum = _Spectrum(closed=closed, whitener=whitener, source=model.source)
    angles = np.concatenate([np.linspace(0, np.pi, 257), np.abs(np.angle(poles))])
    values = spectrum.values(angles)
    best, width = float(angles[np.argmax(values)]), np.pi / 256
    refined = optimize.minimize_scalar(
        lambda angle: -spectrum(angle),
        bounds=(max(0.0, best - width), min(np.pi, best + width)),
        method="bounded",
        options={"xatol": 1e-10},
    )
    candidates = [best, float(refined.x), 0.0, np.pi]
    frequency = max(candidates, key=spectrum)
    return frequency, spectrum(frequency)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Spectrum:
    """φ(ω) = ‖L⁻¹C (I − e^{−iω} AΦ)⁻¹ b‖²."""

    closed: np.ndarray
    whitener: np.ndarray
    source: np.ndarray

    def __call__(self, angle: float) -> float:
        """φ at one frequency."""
        return float(np.linalg.norm(self.whitener @ self.state(angle)) ** 2)

    def values(self, angles: np.ndarray) -> np.ndarray:
        """φ at each of these frequencies, many at a time."""
        batch = max(1, BATCH_BYTES // (16 * len(self.closed) ** 2))
        identity, source = np.eye(len(self.closed)), self.source.astype(complex)[:, None]
        found = []
        for begin in range(0, len(angles), batch):
            turns = np.exp(-1j * angles[begin : begin + batch])[:, None, None]
            states = np.linalg.solve(identity - turns * self.closed, source)
            found.append((np.abs(self.whitener @ states) ** 2).sum(axis=(1, 2)))
        return np.concatenate(found)

    def state(self, angle: float) -> np.ndarray:
        """The steady state (I − e^{−iω} AΦ)⁻¹ b that a contribution turning by ω each round keeps up."""
        turned = np.eye(len(self.closed)) - np.exp(-1j * angle) * self.closed
        return np.asarray(np.linalg.solve(turned, self.source.astype(complex)))


def _attained(model: _Model, frequency: float) -> float:
    """‖Fc‖² for unit vectors c_t that turn by `frequency` each round, from below.

    Rounds are simulated until the state has come within 1e-6 of the steady one; a deviation e from it changes the norm
    of all later output by at most ‖e‖, because the observability Gramian is ⪯ I. Round T is left out.
    """
    spectrum = _Spectrum(closed=model.closed_loop, whitener=model.whiteners[-1], source=model.source)
    steady = spectrum.state(frequency)
    level = float(np.linalg.norm(spectrum.whitener @ steady) ** 2)
    state = np.zeros(len(model.source), dtype=complex)
    total, deviation, simulated = 0.0, 0.0, 0
    for t in range(model.rounds - 1):
        k = min(t, len(model.gains) - 1)
        turn = np.exp(1j * frequency * t)
        state = model.transition @ state + model.source * turn
        if t >= len(model.gains):
            deviation = float(np.linalg.norm(state - turn * steady))
            if deviation <= 1e-6 * (1 + float(np.linalg.norm(steady))):
                break
        total += float(np.linalg.norm(model.whiteners[k] @ state) ** 2)
        state -= model.gains[k] @ (model.rows @ state)
        simulated += 1
    rest = max(0.0, np.sqrt((model.rounds - 1 - simulated) * level) - deviation) ** 2
    return float(total + rest) * (1 - 1e-9)


def _best_signs(model: _Model, frequency: float) -> tuple[float, np.ndarray]:
    """The best of a few periodic streams of signs, from below, and its signs.

    In the long run a stream of period 720 reaches Σ_ν |ĉ_ν|² φ(ω_ν) a round, a form of its signs that is circulant: the
    best patterns are improved by flips. The signs of cos(2πpt/q) for fractions p/q of a turn, q small and large, next
    to the frequency of the peak are tried as well.
    """
    weights, frequencies = sign_patterns()
    spectrum = _Spectrum(closed=model.closed_loop, whitener=model.whiteners[-1], source=model.source)
    power = spectrum.values(frequencies)
    form = linalg.circulant(np.fft.irfft(power, 2 * (len(power) - 1)))
    starts = [periodic_signs(int(k)) for k in np.argsort(-(weights @ power), kind="stable")[:3]]
    flipped = max((flip_signs(form, start) for start in starts), key=lambda signs: value_of(form, signs))
    streams = [_shortest(flipped), *(_signs_of_turns(frequency, largest) for largest in (48, 1000))]
    values = [_attained_signs(model, signs) for signs in streams]
    best = int(np.argmax(values))
    return values[best], streams[best]


def _shortest(signs: np.ndarray) -> np.ndarray:
    """The shortest piece that repeats to give `signs`."""
    for period in range(1, len(signs)):
        if len(signs) % period == 0 and (signs.reshape(-1, period) == signs[:period]).all():
            return signs[:period]
    return signs


def _signs_of_turns(frequency: float, largest: int) -> np.ndarray:
    """One period of sign(cos(2πpt/q)) for the fraction p/q of a turn, q ≤ largest, that is nearest to `frequency`."""
    turns = Fraction(frequency / (2 * np.pi)).limit_denominator(largest)
    steps = np.arange(turns.denominator) * turns.numerator % turns.denominator
    return np.where(np.cos((2 * np.pi * steps + 0.1) / turns.denominator) < 0, -1.0, 1.0)


def _attained_signs(model: _Model, signs: np.ndarray) -> float:
    """‖Fc‖² for a stream that repeats `signs`, from below.

    After the start-up the response settles to a periodic one; the deviation from it is counted as in `_attained`.
    """
    period = len(signs)
    closed = model.closed_loop
    # One period maps the state z to B^q z + forced; the steady one is its fixed point.
    forced = np.zeros(len(closed))
    for sign in np.roll(signs, -1):
        forced = closed @ forced + model.source * sign
    power = np.linalg.matrix_power(closed, period)
    steady = np.linalg.solve(np.eye(len(closed)) - power, forced)
    energy, state = 0.0, steady
    for sign in np.roll(signs, -1):
        energy += float(np.linalg.norm(model.whiteners[-1] @ state) ** 2)
        state = closed @ state + model.source * sign
    state = np.zeros(len(closed))
    total, deviation, simulated = 0.0, 0.0, 0
    for t in range(model.rounds - 1):
        k = min(t, len(model.gains) - 1)
        state = model.transition @ state + model.source * signs[t % period]
        # Rounds past the last whole period are not counted, so they must be few.
        if t >= len(model.gains) and t % period == 0 and model.rounds - t >= 50 * period:
            deviation = float(np.linalg.norm(state - steady))
            if deviation <= 1e-6 * (1 + float(np.linalg.norm(steady))):
                break
        total += float(np.linalg.norm(model.whiteners[k] @ state) ** 2)
        state -= model.gains[k] @ (model.rows @ state)
        simulated += 1
    periods = (model.rounds - 1 - simulated) // period
    rest = max(0.0, np.sqrt(periods * energy) - deviation) ** 2
    return float(total + rest) * (1 - 1e-9)


def dense_transition(response: FilteredResponse) -> np.ndarray:
    """The transition of a response as a dense matrix."""
    matrix = response.transition
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.toarray())
