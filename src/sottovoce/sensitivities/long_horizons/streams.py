# SPDX-License-Identifier: Apache-2.0
"""Lower ends of Δ² for one target over a long horizon: what vectors that turn, or signs that repeat, attain.

Rounds are followed one by one until the state is next to the settled one s = (I − e^{−iω}B)⁻¹b. The R
rounds that are left then show

    √R·‖Ds‖ − σ(‖z − s‖ + Rρ)   at least, in norm,

z the state as followed (turned back), ρ what s is off by a round, σ = `shows` the most that a state of norm 1 can
show. Complex states stand for vectors of the plane: |c_t| = 1 is a unit vector of two dimensions.
Soundness: `followed_error`, `settled_residual`, `shows`. Speed: when following stops, and which signs are tried.
Source: docs/proofs/streams.md; docs/mathematics.md, sections 7 and 8.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from sottovoce.rates import periodic_signs, sign_patterns
from sottovoce.rounding import above, gamma
from sottovoce.sensitivities.one_form.witnesses import flip_signs, value_of
from sottovoce.sensitivities.rounding import followed_error, settled_residual

if TYPE_CHECKING:
    from sottovoce.sensitivities.long_horizons.model import TargetModel

__all__ = ["attained_signs", "attained_turning", "best_periodic_signs"]


def attained_turning(model: TargetModel, frequency: float) -> float:
    """‖Fc‖² for unit vectors c_t that turn by `frequency` each round, from below.

    Rounds are simulated until the state has come within 1e-6 of the settled one; a deviation e from it changes the
    norm of all later output by at most σ‖e‖, σ = `model.shows`. Round T is left out.

    Guarantee: a lower bound for the model as stored: rounding moves the norm of what is shown by no more than
    `followed_error`, and a settled state s that is off by ρ a round by σρ in each round after it.
    Source: docs/proofs/streams.md.
    """
    closed = model.closed
    steady = closed.state(frequency, model.source)
    state = np.zeros(len(model.source), dtype=complex)
    total, sizes, deviation, simulated = 0.0, 0.0, 0.0, 0
    for t in range(model.rounds - 1):
        k = min(t, len(model.gains) - 1)
        # z_t = A x_{t−1} + b e^{iωt};  shown += ‖D_t z_t‖²;  x_t = z_t − K_t(C z_t)
        turn = np.exp(1j * frequency * t)
        state = model.transition @ state + model.source * turn
        size = float(np.linalg.norm(state))
        if t >= len(model.gains):
            deviation = float(np.linalg.norm(state - turn * steady)) + gamma(8) * size
            if deviation <= 1e-6 * (1 + float(np.linalg.norm(steady))):
                break
        total += float(np.linalg.norm(model.whiteners[k] @ state) ** 2)
        sizes += size
        state -= model.gains[k] @ (model.rows @ state)
        simulated += 1
    left = model.rounds - 1 - simulated
    back = np.exp(-1j * frequency)
    (residual,) = settled_residual(closed, steady[:, None], back, model.source[:, None])
    level = float(np.linalg.norm(closed.whitener @ steady)) * np.sqrt(left)
    off = followed_error(model, 1, float(np.linalg.norm(steady))) * np.sqrt(left)
    rest = (
        level - off - model.shows * (deviation + left * (residual + gamma(4) * float(np.linalg.norm(steady))))
    )
    return _from_below(total, max(0.0, rest), followed_error(model, simulated + 1, sizes), model.rounds)


def _from_below(total: float, rest: float, lost: float, rounds: int) -> float:
    """(√(`total` + `rest`²) − `lost`)², from below, for sums over so many rounds of squares of streams of norm 1.

    Guarantee: each c_t as computed has a norm within γ_4 of 1; a sum of squares errs by γ_k of itself.
    """
    shown = np.sqrt(total + rest**2) * (1 - gamma(2 * (rounds + 64))) - lost
    return float(max(0.0, shown) ** 2 * (1 - gamma(32)))


def best_periodic_signs(model: TargetModel, frequency: float) -> tuple[float, np.ndarray]:
    """The best of a few periodic streams of signs, from below, and its signs.

    In the long run a stream of period 720 reaches Σ_ν |ĉ_ν|² φ(ω_ν) a round, a form of its signs that is circulant:
    the best patterns are improved by flips. The signs of cos(2πpt/q) for fractions p/q of a turn, q small and
    large, next to the frequency of the peak are tried as well.

    Guarantee: the value is that of `attained_signs`, a lower bound of Δ² for numbers for the model as stored.
    Source: docs/mathematics.md, section 8.
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
    """One period of sign(cos(2πpt/q)) for the fraction p/q of a turn, q ≤ largest, that is nearest to `frequency`.

    A shift of 0.1/q keeps every angle off the zeros of the cosine, where rounding would choose the sign.
    """
    turns = Fraction(frequency / (2 * np.pi)).limit_denominator(largest)
    steps = np.arange(turns.denominator) * turns.numerator % turns.denominator
    return np.where(np.cos((2 * np.pi * steps + 0.1) / turns.denominator) < 0, -1.0, 1.0)


def attained_signs(model: TargetModel, signs: np.ndarray) -> float:
    """‖Fc‖² for a stream that repeats `signs`, from below.

    After the start-up the response settles to a periodic one; deviations from it are
    counted as in `attained_turning`.

    Guarantee: a lower bound for the model as stored. The states of one period are followed from the settled one,
    and by as much as they do not return to it they are off in every period.
    Source: docs/proofs/streams.md.
    """
    period = len(signs)
    closed = model.closed.loop
    # One period maps the state z to B^q z + forced; the steady one is its fixed point.
    forced = np.zeros(len(closed))
    for sign in np.roll(signs, -1):
        # f ← B f + b c_t
        forced = closed @ forced + model.source * sign
    power = np.linalg.matrix_power(closed, period)
    steady = np.linalg.solve(np.eye(len(closed)) - power, forced)
    energy, around, state = 0.0, 0.0, steady
    for sign in np.roll(signs, -1):
        energy += float(np.linalg.norm(model.whiteners[-1] @ state) ** 2)
        around += float(np.linalg.norm(state))
        state = model.transition @ (state - model.gains[-1] @ (model.rows @ state)) + model.source * sign
    unreturned = float(np.linalg.norm(state - steady))
    state = np.zeros(len(closed))
    total, sizes, deviation, simulated = 0.0, 0.0, 0.0, 0
    for t in range(model.rounds - 1):
        k = min(t, len(model.gains) - 1)
        state = model.transition @ state + model.source * signs[t % period]
        size = float(np.linalg.norm(state))
        # Rounds past the last whole period are not counted, so they must be few.
        if t >= len(model.gains) and t % period == 0 and model.rounds - t >= 50 * period:
            deviation = float(np.linalg.norm(state - steady)) + gamma(8) * size
            if deviation <= 1e-6 * (1 + float(np.linalg.norm(steady))):
                break
        total += float(np.linalg.norm(model.whiteners[k] @ state) ** 2)
        sizes += size
        state -= model.gains[k] @ (model.rows @ state)
        simulated += 1
    periods = (model.rounds - 1 - simulated) // period
    # What a period is off by is shown once for each period that begins with it.
    off = followed_error(model, period, around + period * float(np.linalg.norm(steady)))
    off += above(model.shows) * (unreturned + gamma(4) * float(np.linalg.norm(steady)))
    rest = (
        np.sqrt(periods * energy) * (1 - gamma(2 * (period + 64))) - model.shows * deviation - periods * off
    )
    return _from_below(
        total, max(0.0, float(rest)), followed_error(model, simulated + 1, sizes), model.rounds
    )
