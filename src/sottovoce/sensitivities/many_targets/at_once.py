# SPDX-License-Identifier: Apache-2.0
"""Ends of Δ² for all targets of one view at once, where solving for each would take too long.

| bound | close where | cost a target |
|---|---|---|
| `lags` | the filter settles long before T, far targets | a few r × r products |
| `projection` | F is smooth in time, far targets | products with the coarse tables |
| `peak` | one frequency is best, near targets | Fourier transforms of the first lags |

Below stand a constant stream for all, and one that turns at the peak for those that were given `peak`.
For the first two and the constant stream states are scaled (`units.balanced`), so that bounds of
rounding by norms are tight.
Soundness: each bound by itself; the smallest is taken. Speed: which target gets which, and all constants here.
Source: docs/mathematics.md, section 7, All targets at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering import EXPLICIT_ROUNDS
from sottovoce.sensitivities.many_targets.lag_sums import lag_bound, lag_tables
from sottovoce.sensitivities.many_targets.peak import peak_bound
from sottovoce.sensitivities.many_targets.projection import BLOCKS, projection_bound, projection_tables
from sottovoce.sensitivities.many_targets.streams import constant_stream, turning_value
from sottovoce.sensitivities.many_targets.units import balanced
from sottovoce.sensitivities.rounding import signed_share
from sottovoce.views import METHOD_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from sottovoce.filtering import FilteredResponse
    from sottovoce.protocols import Contribution

__all__ = ["FEWEST_ROUNDS", "MOST_STATES", "NARROW", "EndsAtOnce", "ends_at_once", "far_bounds"]

# Speed alone, all of these. Shorter horizons are cheap in other ways, and larger systems are dear in this one.
FEWEST_ROUNDS, MOST_STATES = 64, 600
# Ends this close need nothing finer; of the targets the observer does not hear at once, so many get it at most.
NARROW = 0.01
LOOKED_AT = 256
# Ends of far targets that are not further apart need no second bound.
WIDE = 0.15
# Rounds after which the gains are frozen, rounds for which what that changes is followed, how many targets get it:
# tried in turn for the worst of those heard directly while their ends stay this far apart, before they are widened.
PASSES, APART = ((32, 64, None), (32, 1024, 2048), (128, 1024, 768), (512, 1024, 144)), 0.018
# A start-up this many times shorter than the horizon is counted apart; polynomials on blocks take time ∝ T².
SETTLED, MOST_SMOOTH = 4, 30_000
# So few of them are sooner solved one by one.
SOONER_SOLVED = 8
PORTION = 20_000
MOST_BYTES = 2 * 2**30
# For so many targets the rounds are cut into fewer blocks: a per cent wider, a third of the cost.
CROWD, FEWER_BLOCKS = 100_000, 12


@dataclass(frozen=True, kw_only=True, eq=False)
class EndsAtOnce:
    """attained ≤ Δ² ≤ bound for the model as stored, and the frequency of the stream behind each lower end.

    Arrays with an entry a target: `method` names the bound, `frequency` is in radians a
    round, 0 for constant streams.
    """

    attained: np.ndarray
    bound: np.ndarray
    method: np.ndarray
    frequency: np.ndarray


def ends_at_once(
    response: FilteredResponse,
    positions: np.ndarray,
    direct: np.ndarray,
    *,
    contribution: Contribution,
    progress: Callable[[int, int], None] | None = None,
) -> EndsAtOnce:
    """Ends for the targets at `positions`; `direct` marks those whose message of a round is seen in that round.

    Every target gets the bounds for responses that are smooth or settle and the value of a constant
    stream. Those that are heard directly, and the worst of the others, get the bound for turning streams
    and the value of one as well.

    Guarantee: attained ≤ Δ² ≤ bound up to the distortion of the response and what its frozen gains miss; what is
    attained, up to `recursion_error` as well (see `turning_value`).
    Source: docs/mathematics.md, section 7; docs/proofs/peak.md, spectra.md and streams.md.
    """
    count = len(positions)
    own, units = balanced(response)
    far, steady = far_bounds(own, count), constant_stream(own)
    attained, bound, frequency = np.empty(count), np.full(count, np.inf), np.zeros(count)
    method = np.full(count, "cap", dtype=METHOD_NAMES)
    for begin in range(0, count, PORTION):
        part = slice(begin, begin + PORTION)
        sources = response.columns(positions[part]) / units[:, None]
        attained[part] = steady.value(sources)
        for name, bounded in far.items():
            places = begin + np.flatnonzero(~(bound[part] <= (1 + WIDE) * attained[part]))
            if places.size == 0:
                continue
            found = bounded(sources[:, places - begin])
            method[places[found < bound[places]]] = name
            bound[places] = np.fmin(bound[places], found)
        if progress is not None:
            progress(min(begin + PORTION, count), count)
    places = _worth_turning(attained, bound, direct)
    for start, reach, most in PASSES:
        if _table_bytes(response, start, reach) > MOST_BYTES:
            break
        places = places[np.argsort(attained[places] / bound[places], kind="stable")[:most]]
        turning = peak_bound(response, response.columns(positions[places]), start=start, reach=reach)
        _turn(response, positions, places, turning, contribution, (attained, bound, method, frequency))
        places = places[direct[places] & (bound[places] > (1 + APART) * attained[places])]
        if places.size <= SOONER_SOLVED or start >= len(response.gains.gain):
            break
    return EndsAtOnce(attained=attained, bound=bound, method=method, frequency=frequency)


def _turn(
    response: FilteredResponse,
    positions: np.ndarray,
    places: np.ndarray,
    turning: tuple[np.ndarray, np.ndarray],
    contribution: Contribution,
    ends: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
) -> None:
    """Improve the ends (attained, bound, method, frequency) at `places` by the bound for turning streams and one.

    A turning stream is followed only where the ends are still apart, and at a frequency that was not tried.
    """
    attained, bound, method, frequency = ends
    found, peak = turning
    better = places[found < bound[places]]
    bound[places] = np.minimum(bound[places], found)
    method[better] = "peak"
    # Signs that turn alternate, or are those of vectors that turn.
    tried = (np.full(len(peak), np.pi), peak) if contribution == "scalar" else (peak,)
    for angles in tried:
        untried = (method[places] == "peak") & (angles != frequency[places])
        doubtful = np.flatnonzero(untried & (bound[places] > (1 + NARROW) * attained[places]))
        reached = turning_value(response, response.columns(positions[places[doubtful]]), angles[doubtful])
        if contribution == "scalar":
            reached = reached * signed_share(angles[doubtful])
        higher = doubtful[reached > attained[places[doubtful]]]
        attained[places[doubtful]] = np.maximum(reached, attained[places[doubtful]])
        frequency[places[higher]] = angles[higher]


def _table_bytes(response: FilteredResponse, start: int, reach: int) -> int:
    """What the tables of `peak_bound` for the first columns take."""
    m, size = response.rows.shape
    return int(8 * start * size * (min(response.rounds, start + reach) * m + size))


def far_bounds(response: FilteredResponse, count: int) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """The bounds for `count` targets whose response is smooth or settles, by name, as functions of their inputs.

    Their tables are made when they are first asked for.

    Guarantee: each function returns upper bounds of Δ², one for each column of its argument (r × targets).
    Source: docs/mathematics.md, section 7.
    """
    rounds = response.rounds
    bounds: dict[str, Callable[[np.ndarray], np.ndarray]] = {}
    settles = rounds > MOST_SMOOTH or SETTLED * len(response.gains.gain) < rounds
    if settles or (response.gains.frozen and rounds <= EXPLICIT_ROUNDS):
        settled = cache(partial(lag_tables, response))
        bounds["lags"] = lambda sources: lag_bound(settled(), sources)
    if not settles or rounds <= EXPLICIT_ROUNDS:
        cut = cache(partial(projection_tables, response, blocks=FEWER_BLOCKS if count > CROWD else BLOCKS))
        bounds["projection"] = lambda sources: projection_bound(cut(), sources)
    return bounds


def _worth_turning(attained: np.ndarray, bound: np.ndarray, direct: np.ndarray) -> np.ndarray:
    """The places of the targets that are heard directly and of the most doubtful others."""
    doubt = np.where(direct | (bound <= (1 + NARROW) * attained), 0.0, bound - attained)
    worst = np.argsort(-doubt, kind="stable")[:LOOKED_AT]
    return np.union1d(np.flatnonzero(direct), worst[doubt[worst] > 0])
