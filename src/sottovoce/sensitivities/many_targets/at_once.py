# SPDX-License-Identifier: Apache-2.0
"""Ends of Δ² for all targets of one view at once, where solving for each would take too long.

| bound | close where | cost a target |
|---|---|---|
| `lags` | the filter settles long before T, far targets | a few r × r products |
| `projection` | F is smooth in time, far targets | products with the coarse tables, for the less smooth a dual |
| `peak` | one frequency is best, near targets | Fourier transforms of the first lags |
| `peak`, by forms | F rings, far targets | one Fourier transform of all lags |

Below stand a constant stream for all, one that changes from block to block for those that are less smooth, and
one that turns at the peak for those that were given `peak`.
For the first two and the constant stream states are scaled (`units.balanced`), so that bounds of
rounding by norms are tight.
Soundness: each bound by itself; the smallest is taken. Speed: which target gets which, and all constants here.
Source: docs/mathematics.md, section 7, All targets at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering import EXPLICIT_ROUNDS
from sottovoce.sensitivities.many_targets.details import detail_tables
from sottovoce.sensitivities.many_targets.lag_sums import lag_bound, lag_tables
from sottovoce.sensitivities.many_targets.peak import peak_bound
from sottovoce.sensitivities.many_targets.polynomials import BLOCKS, block_edges
from sottovoce.sensitivities.many_targets.projection import (
    closer_ends,
    projection_bound,
    projection_tables,
    rest_shown,
)
from sottovoce.sensitivities.many_targets.ringing import ringing_bound, ringing_tables
from sottovoce.sensitivities.many_targets.streams import constant_stream, turning_value
from sottovoce.sensitivities.many_targets.units import balanced
from sottovoce.sensitivities.rounding import signed_share
from sottovoce.views import METHOD_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from sottovoce.filtering import FilteredResponse
    from sottovoce.protocols import Contribution

__all__ = ["FEWEST_ROUNDS", "MOST_STATES", "NARROW", "EndsAtOnce", "ends_at_once", "settled_bound"]

# Speed alone, all of these. Shorter horizons are cheap in other ways, and larger systems are dear in this one.
FEWEST_ROUNDS, MOST_STATES = 64, 600
# Ends this close need nothing finer; of the targets the observer does not hear at once and whose ends are further
# apart than that, so many get it at most.
NARROW = 0.01
LOOKED_AT, FAR = 320, 0.1
# Ends of far targets that are not further apart need no second bound.
WIDE = 0.15
# Rounds after which the gains are frozen, rounds for which what that changes is followed, how many targets get it:
# tried in turn for the worst of those heard directly while their ends stay this far apart, before they are widened.
PASSES, APART = ((32, 64, None), (32, 1024, 2048), (128, 1024, 768), (512, 1024, 144)), 0.018
# A start-up that is so many times shorter than the horizon is counted apart, and if it is as short as the second says
# that is all; polynomials on blocks take time ∝ T².
SOON, SETTLED, MOST_SMOOTH = 2, 4, 30_000
# So few of them are sooner solved one by one.
SOONER_SOLVED = 8
PORTION = 20_000
MOST_BYTES = 2 * 2**30
# For so many targets the rounds are cut into fewer blocks: a per cent wider, a third of the cost.
CROWD, FEWER_BLOCKS = 100_000, 12
# Far targets whose ends stay this far apart get closer ones, those that show most first and so many of a portion at
# most; vectors have so many components.
ROUGH, MOST_ROUGH, STREAMS = 0.04, 10_000, 3
# Ends that the closer bound leaves further apart than that got them from rounding: the plainer one may be lower.
ASTRAY = 0.5


@dataclass(frozen=True, kw_only=True, eq=False)
class EndsAtOnce:
    """attained ≤ Δ² ≤ bound for the model as stored, and the stream behind each lower end.

    Arrays with an entry a target: `method` names the bound, `frequency` is in radians a round, 0 for constant
    streams. Where it is NaN the stream keeps to a vector in each block of rounds, that of the target's place in
    `vectors`; the blocks have these `edges`.
    """

    attained: np.ndarray
    bound: np.ndarray
    method: np.ndarray
    frequency: np.ndarray
    vectors: dict[int, np.ndarray] = field(default_factory=dict)
    edges: np.ndarray = field(default_factory=lambda: np.zeros(1, dtype=int))

    def lower(self, places: np.ndarray, bound: np.ndarray, *, method: str) -> None:
        """Take over the bounds of some targets that are below those known.

        Guarantee: `bound` stays an upper bound for every target if the given ones are; NaN is passed over.
        """
        below = bound < self.bound[places]
        self.method[places[below]] = method
        self.bound[places] = np.fmin(self.bound[places], bound)

    def apart(self, places: np.ndarray, share: float) -> np.ndarray:
        """Those of the places whose ends are further apart than by this share."""
        return np.asarray(places[~(self.bound[places] <= (1 + share) * self.attained[places])])


def ends_at_once(
    response: FilteredResponse,
    positions: np.ndarray,
    direct: np.ndarray,
    *,
    contribution: Contribution,
    in_blocks: bool = False,
    rings: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> EndsAtOnce:
    """Ends for the targets at `positions`; `direct` marks those whose message of a round is seen in that round.

    Every target gets the bounds for responses that are smooth or settle and the value of a constant
    stream, those that are less smooth a closer one and, if `in_blocks`, the value of a stream that changes from
    block to block. Those that are heard directly, and the worst of the others, get the bound for turning streams
    and the value of one as well. Where the response `rings` the first two are far off: all get a bound for turning
    streams, by forms, and the worst of them the value of one.

    Guarantee: attained ≤ Δ² ≤ bound up to the distortion of the response and what its frozen gains miss; what is
    attained, up to `recursion_error` as well (see `turning_value`). Where the response has no distortion of its own,
    bounds that rest on two filters are up to √2 times that of whoever has it (`projection.closer_ends`).
    Source: docs/mathematics.md, section 7; docs/proofs/peak.md, spectra.md, details.md and streams.md.
    """
    count = len(positions)
    own, units = balanced(response)
    ringing = ringing_tables(own) if rings else None
    lags, cut = (settled_bound(own), _by_projection(own, count)) if ringing is None else (None, None)
    steady = constant_stream(own)
    found = EndsAtOnce(
        attained=np.empty(count),
        bound=np.full(count, np.inf),
        method=np.full(count, "cap", dtype=METHOD_NAMES),
        frequency=np.zeros(count),
        edges=block_edges(response.rounds, BLOCKS),
    )
    streams = (1 if contribution == "scalar" else STREAMS) if in_blocks else 0
    peaking = np.zeros(count)
    for begin in range(0, count, PORTION):
        part = np.arange(begin, min(begin + PORTION, count))
        sources = response.columns(positions[part]) / units[:, None]
        found.attained[part] = steady.value(sources)
        if ringing is not None:
            bound, peaking[part] = ringing_bound(ringing, sources)
            found.lower(part, bound, method="peak")
        if lags is not None:
            found.lower(part, lags(sources), method="lags")
        if cut is not None:
            places = found.apart(part, WIDE)
            cut(found, places, sources[:, places - begin], streams)
        if progress is not None:
            progress(min(begin + PORTION, count), count)
    places = _worth_turning(found.attained, found.bound, direct)
    if ringing is not None:
        turning = found.bound[places], peaking[places]
        _turn(response, positions, places, turning, contribution, found)
        return found
    for start, reach, most in PASSES:
        if _table_bytes(response, start, reach) > MOST_BYTES:
            break
        places = places[np.argsort(found.attained[places] / found.bound[places], kind="stable")[:most]]
        turning = peak_bound(response, response.columns(positions[places]), start=start, reach=reach)
        _turn(response, positions, places, turning, contribution, found)
        places = found.apart(places[direct[places]], APART)
        if places.size <= SOONER_SOLVED or start >= len(response.gains.gain):
            break
    return found


def _turn(
    response: FilteredResponse,
    positions: np.ndarray,
    places: np.ndarray,
    turning: tuple[np.ndarray, np.ndarray],
    contribution: Contribution,
    ends: EndsAtOnce,
) -> None:
    """Improve the ends at `places` by the bound for turning streams and one.

    A turning stream is followed only where the ends are still apart, and at a frequency that was not tried.
    """
    attained, bound, method, frequency = ends.attained, ends.bound, ends.method, ends.frequency
    found, peak = turning
    ends.lower(places, found, method="peak")
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


def settled_bound(response: FilteredResponse) -> Callable[[np.ndarray], np.ndarray] | None:
    """The bound for responses that settle, as a function of inputs (r × targets), where that is worth its time.

    Guarantee: the function returns upper bounds of Δ², one for each column of its argument.
    Source: docs/mathematics.md, section 7.
    """
    if not (_settles(response, SOON) or (response.gains.frozen and response.rounds <= EXPLICIT_ROUNDS)):
        return None
    tables = lag_tables(response)
    return lambda sources: lag_bound(tables, sources)


def _by_projection(
    response: FilteredResponse, count: int
) -> Callable[[EndsAtOnce, np.ndarray, np.ndarray, int], None] | None:
    """What improves ends of targets whose response is smooth, of `count` in all, where that is worth its time.

    The function takes ends, places, the inputs of the targets there and how many streams to follow together. Those
    that slow streams leave out much of are not bounded without the details first.
    """
    if _settles(response, SETTLED) and response.rounds > EXPLICIT_ROUNDS:
        return None
    crowd, plain = count > CROWD, response.rounds > EXPLICIT_ROUNDS
    made = cache(partial(projection_tables, response, blocks=FEWER_BLOCKS if crowd else BLOCKS))
    details = cache(lambda: None if crowd or plain else detail_tables(response, made().edges))

    def improve(ends: EndsAtOnce, places: np.ndarray, sources: np.ndarray, streams: int) -> None:
        if places.size == 0:
            return
        fine = details()
        rough = rest_shown(made(), sources) > ROUGH * ends.attained[places] if fine is not None else None
        chosen = np.arange(len(places)) if rough is None else np.flatnonzero(~rough)
        ends.lower(places[chosen], projection_bound(made(), sources[:, chosen]), method="projection")
        if fine is None:
            return
        chosen = np.flatnonzero(~(ends.bound[places] <= (1 + ROUGH) * ends.attained[places]))
        chosen = chosen[np.argsort(-ends.attained[places[chosen]], kind="stable")]
        chosen, left = chosen[:MOST_ROUGH], chosen[MOST_ROUGH:]
        ends.lower(places[left], projection_bound(made(), sources[:, left]), method="projection")
        closer = closer_ends(made(), fine, sources[:, chosen], streams=max(streams, 1))
        ends.lower(places[chosen], closer.bound, method="projection")
        astray = chosen[~(closer.bound <= (1 + ASTRAY) * ends.attained[places[chosen]])]
        ends.lower(places[astray], projection_bound(made(), sources[:, astray]), method="projection")
        higher = closer.attained > (1 + NARROW) * ends.attained[places[chosen]]
        for k in np.flatnonzero(higher & (streams > 0)):
            place = int(places[chosen[k]])
            ends.attained[place], ends.frequency[place] = closer.attained[k], np.nan
            ends.vectors[place] = closer.vectors[k]

    return improve


def _settles(response: FilteredResponse, times: int) -> bool:
    """Whether the filter settles in that part of the rounds, or there are too many of them for blocks."""
    return response.rounds > MOST_SMOOTH or times * len(response.gains.gain) < response.rounds


def _worth_turning(attained: np.ndarray, bound: np.ndarray, direct: np.ndarray) -> np.ndarray:
    """The places of the targets that are heard directly and of the most doubtful others."""
    doubt = np.where(direct | (bound <= (1 + FAR) * attained), 0.0, bound - attained)
    worst = np.argsort(-doubt, kind="stable")[:LOOKED_AT]
    return np.union1d(np.flatnonzero(direct), worst[doubt[worst] > 0])
