# SPDX-License-Identifier: Apache-2.0
"""Lower ends of Δ² for one target over a long horizon: what vectors that turn, or signs that repeat, attain."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from sottovoce.rates.signs import periodic_signs, sign_patterns
from sottovoce.sensitivities.one_form.witnesses import flip_signs, value_of

if TYPE_CHECKING:
    from sottovoce.sensitivities.long_horizons.model import TargetModel

__all__ = ["attained_signs", "attained_turning", "best_periodic_signs"]


def attained_turning(model: TargetModel, frequency: float) -> float:
    """‖Fc‖² for unit vectors c_t that turn by `frequency` each round, from below.

    Rounds are simulated until the state has come within 1e-6 of the steady one; a deviation e from it changes the norm
    of all later output by at most ‖e‖, because the observability Gramian is ⪯ I. Round T is left out.
    """
    steady = model.closed.state(frequency, model.source)
    level = float(np.linalg.norm(model.closed.whitener @ steady) ** 2)
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


def best_periodic_signs(model: TargetModel, frequency: float) -> tuple[float, np.ndarray]:
    """The best of a few periodic streams of signs, from below, and its signs.

    In the long run a stream of period 720 reaches Σ_ν |ĉ_ν|² φ(ω_ν) a round, a form of its signs that is circulant: the
    best patterns are improved by flips. The signs of cos(2πpt/q) for fractions p/q of a turn, q small and large, next
    to the frequency of the peak are tried as well.
    """
    weights, frequencies = sign_patterns()
    power = model.closed.values(frequencies, model.source)
    form = linalg.circulant(np.fft.irfft(power, 2 * (len(power) - 1)))
    starts = [periodic_signs(int(k)) for k in np.argsort(-(weights @ power), kind="stable")[:3]]
    flipped = max((flip_signs(form, start) for start in starts), key=lambda signs: value_of(form, signs))
    streams = [_shortest(flipped), *(_signs_of_turns(frequency, largest) for largest in (48, 1000))]
    values = [attained_signs(model, signs) for signs in streams]
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


def attained_signs(model: TargetModel, signs: np.ndarray) -> float:
    """‖Fc‖² for a stream that repeats `signs`, from below.

    After the start-up the response settles to a periodic one; deviations from it are counted as in `attained_turning`.
    """
    period = len(signs)
    closed = model.closed.loop
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
