# SPDX-License-Identifier: Apache-2.0
"""`sensitivity`: one view, all its targets, each with a certified interval of Δ²."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeGuard

import numpy as np

from sottovoce.errors import InputError, one_of, positive
from sottovoce.filtering import (
    ENGINES,
    EXPLICIT_ROUNDS,
    DenseResponse,
    Engine,
    hidden_system,
    whitened_response,
)
from sottovoce.participation import Participation
from sottovoce.sensitivities.bulk import FEWEST_ROUNDS, METHOD_NAMES, MOST_STATES, NARROW, bulk_ends
from sottovoce.sensitivities.capacity import check_capacity
from sottovoce.sensitivities.horizon import solve_horizon
from sottovoce.sensitivities.participating import earliest_pattern, solve_participation
from sottovoce.sensitivities.results import Sensitivities
from sottovoce.sensitivities.solve import CLOSE, FormSolution, plain_ends, solve_form
from sottovoce.views import View, observe, target_indices

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from sottovoce.filtering import FilteredResponse, HiddenSystem, QuadraticForms
    from sottovoce.protocols import Contribution, Protocol

__all__ = [
    "EFFORTS",
    "TOLERANCE",
    "Assessment",
    "Effort",
    "Search",
    "as_participation",
    "assess",
    "sensitivity",
    "widened",
]

# How far apart, relatively, the ends of a vector sensitivity may stay before rounding is counted.
TOLERANCE = 2e-4
Effort = Literal["auto", "fine", "bulk"]
EFFORTS = ("auto", "fine", "bulk")
# Above this many entries of M in all, targets are no longer solved one by one unless that is asked for.
MOST_ENTRIES = 2 * 10**9
# Targets that the observer hears directly and whose ends stay this far apart in bulk are solved one by one: the worst,
# up to so many entries of M, or all in long horizons if they are so few; others if they are few and T is not large.
APART = 0.02
SOLVED_ENTRIES, SOLVED_HORIZONS = 2 * 10**8, 8
FEW = 64
# Ends that are solved for beside bounds of a per cent or so need not be closer than this.
BULK_TOLERANCE = 2e-3
# Where no closed stream is at hand for a long horizon, the lower end comes from this many first rounds.
EARLY = 512


def sensitivity(
    protocol: Protocol,
    view: View,
    targets: Sequence[Hashable] | None = None,
    *,
    contribution: Contribution = "vector",
    participation: Participation | str | None = None,
    engine: Engine = "auto",
    effort: Effort = "auto",
    tolerance: float = TOLERANCE,
    progress: Callable[[int, int], None] | None = None,
) -> Sensitivities:
    """How far each target's contributions can move the view, in units of the noise: Δ² as certified intervals.

    M = Gᵀ(N Nᵀ)⁻¹G is the quadratic form of the view, and with contributions that differ by c_t, ‖c_t‖ ≤ 1,

        Δ² = max Σ_st M_st ⟨c_s, c_t⟩

    over signs (`contribution="scalar"`) or vectors of any dimension ("vector"), in the rounds of one pattern.

    Args:
        protocol: what the nodes do, such as `gossip(weights, rounds=100)`.
        view: what the observer sees and whose noise it knows.
        targets: names of the nodes to protect; all whose noise the observer does not know if None.
        contribution: whether a round's contribution is a number or a vector.
        participation: the rounds in which a target contributes, as a `Participation` or its spelling; all if None.
        engine: how to compute: "auto", "dense", "filter" or "reduced".
        effort: "fine" solves for each target; "bulk" bounds all of them together, within a few per cent for those the
            observer hears directly and for far ones, at a cost that hardly depends on their number; "auto" is fine
            while that takes minutes.
        tolerance: the relative gap between the ends at which the search for vectors stops.
        progress: called with (targets done, targets in all).

    Guarantee: squared_lower ≤ Δ² ≤ squared_upper, rounding included; `method` names the bound behind the upper end,
    the smallest of `abs`, `dual` (or `horizon`, its form for long horizons; `spectral`, its fallback) and the `cap` on
    the number of rounds; in bulk `turning`, `smooth` or `steady`; `enumeration` of all signs, `exact` where every
    message is seen, `unreached` where nothing arrives. The lower end is the value of an actual stream.
    Source: Theorem 12 of Koskela & Kulkarni for `abs`; semidefinite duality for `dual`; the cap because M ⪯ I.

    >>> from sottovoce import gossip, graphs
    >>> ring = gossip(graphs.metropolis_weights("ring:n=5"), rounds=7)
    >>> sensitivity(ring, View.secure_sum(0), targets=[1, 2]).squared_upper.round(2)
    array([3.36, 1.02])
    """
    one_of(("vector", "scalar"), contribution=contribution)
    one_of(ENGINES, engine=engine)
    one_of(EFFORTS, effort=effort)
    positive(tolerance=tolerance)
    chosen = as_participation(participation)
    cap = chosen.largest_count(protocol.rounds)
    observation = observe(protocol, view)
    indices = target_indices(protocol, view, observation.known, targets)
    in_bulk = _in_bulk(effort, engine, chosen, protocol.rounds, len(indices))
    search = Search(
        contribution=contribution,
        participation=chosen,
        engine=engine,
        in_bulk=in_bulk,
        tolerance=max(tolerance, BULK_TOLERANCE) if in_bulk else tolerance,
        cap=cap,
    )
    if view.name == "everyone":
        # Each contribution stands beside its own noise alone, so Δ² counts rounds.
        return _closed_form(protocol, view, indices, search, float(cap), "exact")
    system = hidden_system(protocol, observation)
    if system.rows.shape[0] == 0:
        return _closed_form(protocol, view, indices, search, 0.0, "unreached")
    upper_side = assess(system, indices, search, progress)
    lower = upper_side.lower
    witness_of: Callable[[int], np.ndarray] = upper_side.witness_of
    if upper_side.system.over_informed:
        told = hidden_system(protocol, observation, complete=False)
        if told.rows.shape[0]:
            lower_side = assess(told, indices, search, None)
            lower, witness_of = lower_side.lower, lower_side.witness_of
        else:
            lower, witness_of = np.zeros(len(indices)), lambda _: np.zeros(protocol.rounds)
    return Sensitivities(
        protocol=protocol,
        view=view,
        contribution=contribution,
        participation=chosen,
        engine=upper_side.response.engine,
        targets=protocol.names(indices),
        indices=indices,
        squared_lower=np.minimum(lower, upper_side.upper),
        squared_upper=upper_side.upper,
        method=upper_side.method,
        witness_of=witness_of,
    )


def as_participation(participation: Participation | str | None) -> Participation:
    """A participation given as such, by its spelling, or (None) full."""
    if isinstance(participation, str):
        return Participation.parse(participation)
    if participation is None:
        return Participation.full()
    if not isinstance(participation, Participation):
        raise InputError(
            f"participation must be a Participation or its spelling, such as 'at-most:5'; got {participation!r}"
        )
    return participation


@dataclass(frozen=True, kw_only=True)
class Search:
    """What to maximise over, and how to look for it; `cap` is the largest number of rounds of a pattern."""

    contribution: Contribution
    participation: Participation
    engine: Engine
    in_bulk: bool
    tolerance: float
    cap: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Assessment:
    """The ends of every target's interval under one hidden system."""

    system: HiddenSystem
    response: FilteredResponse | DenseResponse
    search: Search
    positions: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    method: np.ndarray
    frequency: np.ndarray | None

    def witness_of(self, place: int) -> np.ndarray:
        """The stream behind the lower end of the target at `place`, found again."""
        position = int(self.positions[place])
        if self.frequency is not None and np.isfinite(self.frequency[place]):
            return turning_stream(float(self.frequency[place]), self.system.rounds, self.search.contribution)
        if _is_long(self.response):
            return _long_ends(self.response, position, self.search)[3]
        (forms,) = self.response.forms(np.array([position]))
        return solve(forms.matrices[0], self.search).witness


def assess(
    system: HiddenSystem,
    indices: np.ndarray,
    search: Search,
    progress: Callable[[int, int], None] | None,
) -> Assessment:
    """Bounds and witnesses for every target, widened by what rounding and reduction may hide."""
    check_capacity(system, search.participation, search.engine)
    response = whitened_response(system, engine=search.engine, coarse=search.in_bulk)
    positions = np.searchsorted(system.unknown, indices)
    lower, upper = np.zeros(len(indices)), np.zeros(len(indices))
    method = np.full(len(indices), "unreached", dtype=METHOD_NAMES)
    hops = system.hops()[positions]
    reached = np.flatnonzero(_is_reached(hops, system.rounds, search.participation))
    frequency = None
    if search.in_bulk and not isinstance(response, DenseResponse) and response.size <= MOST_STATES:
        frequency = np.zeros(len(indices))
        direct = hops == 0
        lower[reached], upper[reached], method[reached], frequency[reached] = _bulk(
            response, positions[reached], direct[reached], search, progress
        )
        doubtful = _worth_solving_still(reached, direct, lower, upper, response)
        found = _solved(response, positions[doubtful], search, None)
        _keep_best(doubtful, found, (lower, upper, method, frequency))
    else:
        lower[reached], upper[reached], method[reached] = _solved(
            response, positions[reached], search, progress
        )
    return Assessment(
        system=system,
        response=response,
        search=search,
        positions=positions,
        lower=lower,
        upper=upper,
        method=method,
        frequency=frequency,
    )


def _solved(
    response: FilteredResponse | DenseResponse,
    positions: np.ndarray,
    search: Search,
    progress: Callable[[int, int], None] | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Certified ends and the names of the winning bounds for targets that are solved one by one."""
    count = len(positions)
    lower, upper, method = np.empty(count), np.empty(count), np.empty(count, dtype=METHOD_NAMES)
    done = 0
    if _is_long(response):
        for done, position in enumerate(positions, start=1):
            lower[done - 1], upper[done - 1], method[done - 1], _ = _long_ends(
                response, int(position), search
            )
            if progress is not None:
                progress(done, count)
        return lower, upper, method
    for forms in response.forms(positions):
        places = slice(done, done + len(forms.positions))
        lower[places], upper[places], method[places] = _ends(forms, search)
        done += len(forms.positions)
        if progress is not None:
            progress(done, count)
    return lower, upper, method


def _worth_solving_still(
    reached: np.ndarray,
    direct: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    response: FilteredResponse,
) -> np.ndarray:
    """The places to solve one by one after all: the worst of those heard directly, and all others if they are few."""
    heard = reached[direct[reached]]
    doubtful = heard[upper[heard] > (1 + APART) * lower[heard]]
    if _is_long(response):
        return np.asarray(doubtful if len(doubtful) <= SOLVED_HORIZONS else doubtful[:0])
    worst = np.argsort(lower[doubtful] / upper[doubtful], kind="stable")
    chosen = doubtful[worst[: SOLVED_ENTRIES // response.rounds**2]]
    others = reached[upper[reached] > (1 + NARROW) * lower[reached]]
    return np.union1d(chosen, others) if len(others) <= FEW else np.asarray(chosen)


def _keep_best(
    places: np.ndarray,
    found: tuple[np.ndarray, np.ndarray, np.ndarray],
    ends: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
) -> None:
    """Put what was found into the ends at `places` where it is closer; a stream solved for has no frequency."""
    lower, upper, method, frequency = ends
    below, above = places[found[1] < upper[places]], places[found[0] > lower[places]]
    method[below] = found[2][found[1] < upper[places]]
    upper[places] = np.minimum(upper[places], found[1])
    lower[places] = np.maximum(lower[places], found[0])
    frequency[above] = np.nan


def _in_bulk(effort: Effort, engine: Engine, participation: Participation, rounds: int, count: int) -> bool:
    """Whether targets, if they contribute in all rounds, are bounded together: on request, or if there are many."""
    if participation.kind != "full" or rounds < FEWEST_ROUNDS or engine == "dense" or effort == "fine":
        return False
    return effort == "bulk" or count * min(rounds, EXPLICIT_ROUNDS) ** 2 > MOST_ENTRIES


def _bulk(
    response: FilteredResponse,
    positions: np.ndarray,
    direct: np.ndarray,
    search: Search,
    progress: Callable[[int, int], None] | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Certified ends, the names of the winning bounds and the frequencies of the streams, for all targets at once."""
    ends = bulk_ends(response, positions, direct, contribution=search.contribution, progress=progress)
    followed = min(response.rounds, len(response.gains.gain) + EXPLICIT_ROUNDS)
    lower, upper = widened(
        ends.attained,
        ends.bound,
        distortion=response.distortion + response.recursion_error(followed),
        missing=response.gains.missing,
        rounds=search.cap,
    )
    ends.method[upper > search.cap] = "cap"
    return np.minimum(lower, search.cap), np.minimum(upper, search.cap), ends.method, ends.frequency


def turning_stream(frequency: float, rounds: int, contribution: Contribution) -> np.ndarray:
    """Unit vectors that turn by `frequency` each round, (T, 2); signs, (T,), where it is 0 or signs are asked for."""
    angles = frequency * np.arange(rounds)
    if frequency == 0 or contribution == "scalar":
        return np.asarray(np.cos(angles).round())
    return np.column_stack([np.cos(angles), np.sin(angles)])


def _is_reached(hops: np.ndarray, rounds: int, participation: Participation) -> np.ndarray:
    """Whether a contribution in some allowed round reaches the view in time: made in round t, it needs t + hops ≤ T."""
    reached = hops < rounds
    if participation.kind != "full":
        for distance in np.unique(hops[reached]):
            in_time = (np.arange(rounds) + distance < rounds).astype(np.float64)
            if participation.largest_sum(in_time) == 0:
                reached &= hops != distance
    return np.asarray(reached)


def solve(form: np.ndarray, search: Search) -> FormSolution:
    """The ends for one form."""
    return solve_participation(
        form, search.participation, contribution=search.contribution, tolerance=search.tolerance
    )


def widened(
    attained: np.ndarray, bound: np.ndarray, *, distortion: float, missing: float, rounds: int
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of Δ² that hold for the true form, streams being of norm at most √rounds.

    √(1 − missing)·(√attained − d√rounds)/(1 + d) and (√bound + d√rounds)/(1 − d), squared.
    """
    if distortion >= 0.5:
        return np.zeros_like(attained), np.full_like(bound, np.inf)
    # What overflowed says nothing.
    attained = np.where(np.isfinite(attained), attained, 0.0)
    bound = np.where(np.isfinite(bound), bound, np.inf)
    shift = distortion * np.sqrt(rounds)
    low = np.maximum(np.sqrt(np.maximum(attained, 0)) - shift, 0) / (1 + distortion)
    high = (np.sqrt(bound) + shift) / (1 - distortion)
    return (1 - missing) * low**2, high**2


def _ends(forms: QuadraticForms, search: Search) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Certified lower and upper ends of Δ² and the names of the winning bounds, for a batch of targets."""
    attained, bound = plain_ends(forms.matrices)
    method = np.full(len(bound), "abs", dtype=METHOD_NAMES)
    for place in np.flatnonzero(_worth_solving(attained, bound, forms, search)):
        solution = solve(forms.matrices[place], search)
        attained[place], bound[place], method[place] = solution.attained, solution.bound, solution.method
    lower, upper = widened(
        attained - forms.rounding,
        bound + forms.rounding,
        distortion=forms.distortion,
        missing=forms.missing,
        rounds=search.cap,
    )
    method[upper > search.cap] = "cap"
    return np.minimum(lower, search.cap), np.minimum(upper, search.cap), method


def _worth_solving(
    attained: np.ndarray, bound: np.ndarray, forms: QuadraticForms, search: Search
) -> np.ndarray:
    """Which targets need more than plain signs and absolute values: those whose ends the two leave apart.

    For vectors ends that are as close as the tolerance, or closer than rounding will move them, are close enough.
    """
    if search.participation.kind != "full":
        return np.ones(len(bound), dtype=bool)
    apart = bound - attained
    if search.contribution == "scalar":
        return np.asarray(apart > CLOSE * attained)
    shift = forms.distortion * np.sqrt(search.cap)
    hidden = 2 * np.sqrt(bound) * shift + shift**2 + forms.rounding
    return np.asarray(apart > np.maximum(search.tolerance / 4 * attained, hidden))


def _is_long(response: FilteredResponse | DenseResponse) -> TypeGuard[FilteredResponse]:
    """Whether the horizon is too long for a T × T matrix."""
    return not isinstance(response, DenseResponse) and response.rounds > EXPLICIT_ROUNDS


def _long_ends(
    response: FilteredResponse, position: int, search: Search
) -> tuple[float, float, str, np.ndarray]:
    """The ends of one target over a long horizon, the bound behind the upper one, and the stream behind the lower."""
    full = search.participation.kind == "full"
    solution = solve_horizon(response, position, contribution=search.contribution)
    distortion = response.distortion
    if full and solution is not None:
        attained, stream = solution.attained, solution.stream(response.rounds)
    else:
        attained, stream, distortion = _early_stream(response, position, search)
    bound = np.inf
    if solution is not None:
        y = np.concatenate([solution.start, np.full(response.rounds - len(solution.start), solution.bulk)])
        bound = solution.bound if full else search.participation.largest_sum(y)
    lower, upper = widened(
        np.array([attained]),
        np.array([bound]),
        distortion=distortion,
        missing=response.gains.missing,
        rounds=search.cap,
    )
    method = "horizon" if upper[0] <= search.cap else "cap"
    return float(min(lower[0], search.cap)), float(min(upper[0], search.cap)), method, stream


def _early_stream(
    response: FilteredResponse, position: int, search: Search
) -> tuple[float, np.ndarray, float]:
    """What a stream that contributes early on only, within one pattern, attains; the stream; and the distortion."""
    short = response.shortened(EARLY)
    pattern = np.flatnonzero(earliest_pattern(search.participation, response.rounds)[: short.rounds])
    (forms,) = short.forms(np.array([position]))
    if pattern.size == 0:
        return 0.0, np.zeros(response.rounds), forms.distortion
    inner = forms.matrices[0][np.ix_(pattern, pattern)]
    found = solve_form(inner, contribution=search.contribution, tolerance=search.tolerance)
    stream = np.zeros((response.rounds, *found.witness.shape[1:]))
    stream[pattern] = found.witness
    return found.attained - float(forms.rounding[0]), stream, forms.distortion


def _closed_form(
    protocol: Protocol, view: View, indices: np.ndarray, search: Search, squared: float, method: str
) -> Sensitivities:
    """The same Δ² for every target, known without computing."""
    return Sensitivities(
        protocol=protocol,
        view=view,
        contribution=search.contribution,
        participation=search.participation,
        engine="closed form",
        targets=protocol.names(indices),
        indices=indices,
        squared_lower=np.full(len(indices), squared),
        squared_upper=np.full(len(indices), squared),
        method=np.full(len(indices), method, dtype=METHOD_NAMES),
        witness_of=lambda _: earliest_pattern(search.participation, protocol.rounds).astype(np.float64),
    )
