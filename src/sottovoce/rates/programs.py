# SPDX-License-Identifier: Apache-2.0
"""The long-run rate of any protocol whose rounds are all alike: φ from the lags of its stationary filter.

With f_ℓ the whitened response ℓ rounds after a contribution, φ(ω) = ‖Σ_ℓ f_ℓ e^{−iωℓ}‖² = r₀ + 2Σ_k r_k cos kω is a
polynomial up to a tail that is bounded. A maximum of it lies within h/2 of a point of a grid of step h, and there
φ' is 0, so that it exceeds the value at that point by at most h²/8·sup|φ''| ≤ h²/8·2Σ_k k²|r_k|: no grid is trusted
between its points, and a point whose value is too low for that needs no finer grid around it.

What the lags are off by, tail included, shifts √φ by at most Σ‖error‖ at every frequency, and a filter that is
white within η scales φ by a factor between 1/(1 + η) and 1/(1 − η):

    (√φ̂ − shift)²/(1 + η) ≤ φ ≤ (√φ̂ + shift)²/(1 − η).

Soundness: these two numbers, and `peak_error` and `series_error` for the transforms. The grid is speed.

Source: docs/proofs/transforms.md (peaks and signs); docs/proofs/programs.md for η; docs/mathematics.md, section 8.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import InputError, NotCertified
from sottovoce.filtering import fine_gamma
from sottovoce.protocols import GIVEN
from sottovoce.rates.modes import exact_round, unhidden, without_known
from sottovoce.rates.results import RateEnds
from sottovoce.rates.rounding import FLOATED, peak_error, series_error, sign_error
from sottovoce.rates.sign_streams import sign_patterns
from sottovoce.rates.stationary import LAGS, reaches, stationary_round, system_of, whitener_of
from sottovoce.rounding import finely_above, slightly_above

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sottovoce.protocols import Contribution, Form, Protocol
    from sottovoce.rates.modes import ExactRound
    from sottovoce.rates.stationary import Whitener
    from sottovoce.views import View

__all__ = ["program_rates", "program_spectrum"]

# Speed alone: whole numbers of rounds with more kept numbers than the first take long; the grid has so many points
# a lag, and so many numbers are held at a time; next to a possible maximum it is divided so often, into so many
# steps.
EXACT, OVERSAMPLING, HELD = 150, 16, 4_000_000
LEVELS, STEPS = 8, 32


def program_rates(
    protocol: Protocol,
    view: View,
    indices: np.ndarray,
    *,
    contribution: Contribution,
    tolerance: float,
    progress: Callable[[int, int], None] | None = None,
) -> RateEnds:
    """Lim Δ²/T of a view for each target, whatever the protocol, if its rounds are all alike.

    Guarantee: lower ≤ limit ≤ upper, rounding included; infinite where some contribution is seen beside no noise,
    or where Δ² is proved to grow faster than the rounds. What is not certified is refused.
    Source: Grenander & Szegő, *Toeplitz Forms and Their Applications*, Section 5.2; `stationary` for the filter. An
    encoder C multiplies φ by |Σ_k c_k e^{−ikω}|², as M' = CᵀMC.
    """
    _refuse_schedule(protocol)
    seen, bare = stationary_round(protocol, view)
    count = len(indices)
    found = _nothing(count, f"filter of {protocol.n * len(protocol.programs[0].keeps)} kept numbers", bare)
    exact = exact_round(seen)
    reached = reaches(exact)[indices]
    places = np.flatnonzero(reached & ~np.isin(indices, sorted(bare)))
    _put_infinite(found, np.flatnonzero(np.isin(indices, sorted(bare))))
    for some, whitener in _filters(exact, indices, places, found):
        _fill_rates(protocol, whitener, indices[some], some, contribution, tolerance, found)
        if progress is not None:
            progress(int(some[-1]) + 1, count)
    return found


def _refuse_schedule(protocol: Protocol) -> None:
    """Refuse protocols that have no stationary round."""
    if protocol.varies:
        raise InputError(
            f"rates and spectra belong to rounds that are all alike; those of the protocol {protocol.name!r} differ "
            "by a schedule (ask for sensitivity over the rounds you need)"
        )


def program_spectrum(protocol: Protocol, view: View, target: int, frequencies: np.ndarray) -> np.ndarray:
    """φ_j(ω) of any protocol whose rounds are all alike, an encoder's factor |Σ_k c_k e^{−ikω}|² included.

    Guarantee: up to rounding and what the filter is not white by, at most 1 %; infinite where some contribution is
    seen beside no noise, or adds up without limit.
    Source: as for `program_rates`; M' = CᵀMC for an encoder C.
    """
    _refuse_schedule(protocol)
    if protocol.updates is not None:
        raise InputError(
            "a spectrum is that of a linear loop, and update maps may be any in their ball; got the protocol "
            f"{protocol.name!r} with updates (leave updates out, or ask for a rate, which holds for all of them)"
        )
    seen, bare = stationary_round(protocol, view)
    exact = exact_round(seen)
    if target in bare:
        return np.full(frequencies.shape, np.inf)
    if not reaches(exact)[target]:
        return np.zeros(frequencies.shape)
    found = _nothing(1, "", bare)
    filters = _filters(exact, np.array([target]), np.zeros(1, dtype=np.int64), found)
    if not filters:
        return np.full(frequencies.shape, np.inf)
    _require_white(filters[0][1])
    lags, _ = _encoded(*_lags(filters[0][1], np.array([target])), protocol)
    turned = np.exp(-1j * np.multiply.outer(frequencies, np.arange(len(lags)))) @ lags[:, :, 0]
    return np.asarray((np.abs(turned) ** 2).sum(axis=-1))


def _nothing(count: int, method: str, bare: Iterable[int]) -> RateEnds:
    """Rates of 0, to be filled in: right as they are for targets whose contributions no row shows.

    Guarantee: exact for those targets; `bare` names the nodes whose contributions stand beside no noise, whose rates
    the caller sets to infinity.
    """
    lower, upper, frequency, constant = np.zeros((4, count))
    return RateEnds(
        lower=lower,
        upper=upper,
        frequency=frequency,
        constant=constant,
        method=method,
        bare=frozenset(bare),
    )


def _put_infinite(found: RateEnds, places: np.ndarray) -> None:
    """Set the rates at these places to infinity."""
    found.lower[places] = found.upper[places] = found.constant[places] = np.inf


def _filters(
    exact: ExactRound, indices: np.ndarray, places: np.ndarray, found: RateEnds
) -> list[tuple[np.ndarray, Whitener]]:
    """A stationary filter for all targets at these places, or one for each where others are in the way.

    What noise does not reach is taken out first where that is needed; targets that reach it are put to infinity. In
    order of cost: the round as it is; the round without coordinates that the observer knows; for each target alone
    the round in which nobody else contributes, as M of one target does not depend on what others contribute.

    Guarantee: those of `whitener_of`, `without_known` and `unhidden`; what none of them certifies is refused.
    """
    if not places.size:
        return []
    try:
        return [(places, whitener_of(system_of(exact)))]
    except NotCertified:
        if len(exact.kept) > EXACT:
            raise
    try:
        return [(places, whitener_of(system_of(without_known(exact))))]
    except NotCertified:
        pass
    filters = []
    for place in places:
        alone = _of_one(exact, int(indices[place]))
        if unhidden(alone):
            _put_infinite(found, np.array([place]))
        else:
            filters.append((np.array([place]), whitener_of(system_of(without_known(alone)))))
    return filters


def _of_one(exact: ExactRound, target: int) -> ExactRound:
    """The round in which one node alone contributes.

    M of that node is the same: other contributions are alike in both runs that are told apart.
    """

    def put(form: Form) -> Form:
        return {key: value for key, value in form.items() if key < GIVEN or (key - GIVEN) % exact.n == target}

    return replace(
        exact,
        state=tuple((put(form), scale) for form, scale in exact.state),
        rows=tuple((put(form), scale) for form, scale in exact.rows),
    )


def _fill_rates(
    protocol: Protocol,
    whitener: Whitener,
    targets: np.ndarray,
    places: np.ndarray,
    contribution: Contribution,
    tolerance: float,
    found: RateEnds,
) -> None:
    """Fill in the rates of some targets: lags of a batch of them at a time, then one peak each.

    Guarantee: that of `program_rates` for a filter that is white enough.
    """
    _require_white(whitener)
    batch = max(1, HELD // (2000 * len(whitener.root)))
    for begin in range(0, len(targets), batch):
        lags, shifts = _encoded(*_lags(whitener, targets[begin : begin + batch]), protocol)
        for k, place in enumerate(places[begin : begin + batch]):
            _fill_ends(
                found, int(place), _peak(lags[:, :, k], tolerance), float(shifts[k]), whitener, contribution
            )


def _require_white(whitener: Whitener) -> None:
    """Refuse a filter whose output is too far from white.

    Any η < 1 would be sound; beyond a per cent an interval would say little.
    """
    if not whitener.unwhite < 0.01:
        raise NotCertified(
            f"no rate is certified: the filter of this view is white only within {whitener.unwhite:.3g}, and at most "
            "0.01 is accepted (ask for sensitivity over the rounds you need)"
        )


def _fill_ends(
    found: RateEnds,
    place: int,
    peak: _Peak,
    shift: float,
    whitener: Whitener,
    contribution: Contribution,
) -> None:
    """Both ends of one target: √φ is within `shift` of what its lags say, whitened within η.

    Guarantee: lower ≤ limit ≤ upper. `constant` is φ̂(0), an estimate between 0 and the upper end.
    """
    raised = (math.sqrt(peak.upper) + shift) ** 2 / (1 - whitener.unwhite) * (1 + FLOATED)

    def lowered(value: np.ndarray) -> np.ndarray:
        near = np.maximum(np.sqrt(np.maximum(value, 0.0)) - shift, 0.0)
        return np.asarray(near**2 / (1 + whitener.unwhite) * (1 - FLOATED))

    lower, frequency = float(lowered(np.array(peak.lower))), peak.frequency
    if contribution == "scalar":
        lower, frequency = _signed(peak, lower, lowered)
    found.lower[place], found.upper[place] = min(lower, raised), raised
    found.frequency[place] = frequency
    found.constant[place] = min(max(float(peak.at(np.zeros(1))[0]), 0.0), raised)


def _lags(whitener: Whitener, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """F of some targets, (lags, rows, targets), and bounds of Σ ‖error‖ over all lags, those left out included.

    A contribution may show before its round, in what was carried back: the first lags are those.

        f_t = X(C z_t + D_{−t}),   z_{t+1} = A z_t − K(C z_t + D_{−t}) (+ B_x for t = 0),   z = 0 before.

    What floats miss of f_t is `slips` of ‖X‖(‖C‖‖z‖ + ‖D‖), and of z_{t+1} `slips` of (‖A‖ + ‖K‖‖C‖)‖z‖ + ‖K‖‖D‖ +
    ‖B_x‖. A slip in z shows for as long as the loop remembers it: times Σ‖X C Φᵏ‖ = `memory`. The state that is
    left at the end, and what slips have made of it, at most Σ‖Φᵏ‖ = `settling` times their size, counts likewise.

    Guarantee: the second is an upper bound, for the exact filter with these K and X.
    """
    system, K, X = whitener.system, whitener.gain, whitener.root
    ahead = len(system.direct) - 1
    entering = system.entering[:, targets]
    state = np.zeros((len(system.A), len(targets)))
    lags: list[np.ndarray] = []
    size, slipped, shown, largest = (np.zeros(len(targets)) for _ in range(4))
    outer, inner, gain = (float(np.linalg.norm(each)) for each in (X, system.C, K))
    for t in range(-ahead, LAGS):
        # D_a x_{t+a} shows a rounds before its contribution: lag −a.
        seen, given = system.C @ state, np.zeros(len(targets))
        if t <= 0:
            now = system.direct[-t][:, targets]
            seen, given = seen + now, np.linalg.norm(now, axis=0)
        lags.append(X @ seen)
        largest = np.maximum(largest, np.linalg.norm(lags[-1], axis=0))
        shown += outer * (inner * size + given)
        slipped += whitener.loop * size + gain * given
        state = system.A @ state - K @ seen
        if t == 0:
            state = state + entering
            slipped += np.linalg.norm(entering, axis=0)
        size = np.linalg.norm(state, axis=0)
        # Speed alone: what is left of the state is counted whenever this stops.
        if t > 0 and (whitener.memory * size <= 1e-16 * largest).all():
            break
    # A slip in the state is seen for as long as the loop remembers it.
    shift = system.slips * (shown + slipped * whitener.memory)
    left = size + system.slips * slipped * whitener.settling
    return np.array(lags), finely_above(shift + whitener.memory * left)


def _encoded(lags: np.ndarray, shifts: np.ndarray, protocol: Protocol) -> tuple[np.ndarray, np.ndarray]:
    """Lags of contributions c where the draws are C⁻¹ξ: those of C c, as M' = CᵀMC, with their bounds.

        f'_ℓ = Σ_k c_k f_{ℓ−k},   Σ‖error'‖ ≤ Σ|c_k|·(Σ‖error‖ + rounding).

    Guarantee: upper bounds, the rounding of the code's entries to floats included.
    """
    if not protocol.encoded:
        return lags, shifts
    code = np.array([float(value) for value in protocol.code])
    coded = np.zeros((len(lags) + len(code) - 1, *lags.shape[1:]))
    for k, factor in enumerate(code):
        coded[k : k + len(lags)] += factor * lags
    size = float(np.abs(code).sum())
    rounding = fine_gamma(4 * (len(code) + 4)) * np.linalg.norm(lags, axis=1).sum(axis=0)
    return coded, slightly_above(size * (shifts + rounding))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Peak:
    """The polynomial r₀ + 2Σ r_k cos kω, the ends of its maximum, and where the lower end is attained.

    `series` holds r₀, 2r₁, 2r₂, …; `noise` is how far a value of it is off at most.

    Guarantee: lower ≤ max_ω ‖Σ f_ℓ e^{−iωℓ}‖² ≤ upper for the lags as stored.
    """

    series: np.ndarray
    noise: float
    lower: float
    upper: float
    frequency: float

    def at(self, frequencies: np.ndarray) -> np.ndarray:
        """Its values, each within `noise` of the truth."""
        return _values(self.series, frequencies)


def _values(series: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """Values of the polynomial with coefficients r₀, 2r₁, 2r₂ and so on, a few frequencies at a time."""
    values = np.empty(len(frequencies))
    step = max(1, HELD // len(series))
    for begin in range(0, len(frequencies), step):
        part = frequencies[begin : begin + step]
        values[begin : begin + step] = np.cos(np.outer(part, np.arange(len(series)))) @ series
    return values


def _peak(lags: np.ndarray, tolerance: float) -> _Peak:
    """The maximum of φ̂ over all frequencies, between a value and a bound.

    The power at `points` frequencies is one transform, its transform back is the series. Points next to which the
    maximum may lie are divided until their `reach`, value + h²/8·sup|φ̂''|, is at the value.

    Guarantee: that of `_Peak`, wherever the search stops.
    Source: docs/proofs/transforms.md, peaks and signs.
    """
    count = len(lags)
    points = 1 << math.ceil(math.log2(OVERSAMPLING * count))
    power = np.zeros(points // 2 + 1)
    for row in lags.T:
        power += np.abs(np.fft.rfft(row, points)) ** 2
    series = np.fft.irfft(power, points)[:count]
    series[1:] *= 2
    sizes = np.abs(series)
    noise = peak_error(lags, points)
    noise += series_error(series, lags, float(power.max()) + noise, points)
    # sup|φ̂''| ≤ Σ k²·|2r_k|, with what the coefficients may be off by.
    bend = finely_above(float((np.arange(count) ** 2 * sizes).sum()) + noise * count**2)
    step = 2 * math.pi / points
    best = int(np.argmax(power))
    lower, frequency = float(power[best]), best * step
    centres, values = np.arange(len(power)) * step, power
    upper = 0.0
    for _ in range(LEVELS):
        reach = values + step**2 / 8 * bend
        doubtful = reach > lower * (1 + tolerance / 8) + noise
        upper = max(upper, float(reach[~doubtful].max(initial=0.0)))
        if not doubtful.any() or doubtful.sum() > HELD // STEPS:
            upper = max(upper, float(reach.max(initial=0.0)) if doubtful.any() else 0.0)
            break
        step /= STEPS
        # Half a step to either side of each point that is left: where a maximum nearest to it must lie.
        offsets = (np.arange(STEPS + 1) - STEPS / 2) * step
        centres = np.unique((centres[doubtful][:, None] + offsets).ravel())
        values = _values(series, centres)
        top = int(np.argmax(values))
        if values[top] > lower:
            lower, frequency = float(values[top]), float(centres[top])
    else:
        upper = max(upper, float((values + step**2 / 8 * bend).max(initial=0.0)))
    upper = max(upper, lower) + noise
    return _Peak(
        series=series,
        noise=noise,
        lower=max(lower - noise, 0.0),
        upper=upper,
        frequency=min(abs(frequency), math.pi),
    )


def _signed(peak: _Peak, lower: float, lowered: Callable[[np.ndarray], np.ndarray]) -> tuple[float, float]:
    """A lower end for streams of signs, and its frequency; see `sign_streams`.

    Guarantee: lower bound: the value of the best periodic stream, or 8/π² of the lower end for vectors.
    """
    weights, frequencies = sign_patterns()
    values = lowered(peak.at(frequencies) - peak.noise)
    reached = np.maximum(weights @ values - sign_error(weights, values[:, None]), 0.0)
    top = int(np.argmax(reached))
    alone = lower * 8 / math.pi**2 * (1 - FLOATED)
    if reached[top] >= alone:
        return min(float(reached[top]), lower), float(frequencies[top % len(frequencies)])
    return alone, peak.frequency
