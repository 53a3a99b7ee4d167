# SPDX-License-Identifier: Apache-2.0
"""`sensitivity`: one view, all its targets, each with a certified interval of Δ²."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Unpack

import numpy as np

from sottovoce.filtering import (
    EXPLICIT_ROUNDS,
    hidden_system,
    whitened_response,
)
from sottovoce.scenarios import StreamWords, asked
from sottovoce.sensitivities.capacity import check_capacity
from sottovoce.sensitivities.ends import Ends, Problem
from sottovoce.sensitivities.long_horizons.closest import long_ends, plain_stream, together, turning_stream
from sottovoce.sensitivities.many_targets.at_once import FEWEST_ROUNDS, MOST_STATES, NARROW
from sottovoce.sensitivities.one_form.patterns import earliest_pattern, solve_participation
from sottovoce.sensitivities.one_form.solution import CLOSE, FormSolution, plain_ends
from sottovoce.sensitivities.programs import program_sensitivity
from sottovoce.sensitivities.results import Sensitivities
from sottovoce.sensitivities.rounding import widened
from sottovoce.sensitivities.training import training_view_sensitivity
from sottovoce.views import METHOD_NAMES, observe, target_indices

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from sottovoce.filtering import FilteredResponse, HiddenSystem, QuadraticForms
    from sottovoce.participation import Participation
    from sottovoce.protocols import Protocol
    from sottovoce.scenarios import Depth, Engine, Scenario
    from sottovoce.views import View

__all__ = [
    "TOLERANCE",
    "Assessment",
    "assess",
    "sensitivity",
]

# How far apart, relatively, the ends of a vector sensitivity may stay before rounding is counted.
TOLERANCE = 2e-4
# Above this many entries of M in all, targets are no longer solved one by one unless that is asked for.
MOST_ENTRIES = 2 * 10**9
# Targets that the observer hears directly and whose ends stay this far apart in bulk are solved one by one: the worst,
# up to so many entries of M, or all in long horizons if they are so few; others if they are few and T is not large.
APART = 0.02
SOLVED_ENTRIES, SOLVED_HORIZONS = 2 * 10**8, 8
FEW = 64
# In long horizons far ones are, if their ends stay so far apart; more of either kind where states are this few.
TOO_WIDE, SMALL = 0.05, 100
# Known nodes whose inflow the view leaves open stay in the state up to so many rounds, and rounds times nodes squared.
WHOLE_ROUNDS, WHOLE_STATES = 512, 2 * 10**7
# Ends that are solved for beside bounds of a per cent or so need not be closer than this.
BULK_TOLERANCE = 2e-3


def sensitivity(
    question: Scenario | Protocol,
    view: View | None = None,
    targets: Iterable[Hashable] | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
    **words: Unpack[StreamWords],
) -> Sensitivities:
    """How far each target's contributions can move the view, in units of the noise: Δ² as certified intervals.

    M = Gᵀ(N Nᵀ)⁻¹G is the quadratic form of the view, and with contributions that differ by c_t, ‖c_t‖ ≤ 1,

        Δ² = max Σ_st M_st ⟨c_s, c_t⟩

    over signs (`contribution="scalar"`) or vectors of any dimension ("vector"), in the rounds of one pattern; with
    "energy" over vectors with Σ‖c_t‖² ≤ 1 instead.

    Args:
        question: a `Scenario` of one view; or a protocol, such as `gossip(weights, rounds=100)`, with its view.
        view: what the observer sees and whose noise it knows.
        targets: names of the nodes to protect; all whose noise the observer does not know if None.
        progress: called with (targets done, targets in all).
        words: as in `sottovoce.scenarios.StreamWords`: `contribution`, `participation`, and what may be spent.

    Guarantee: squared_lower ≤ Δ² ≤ squared_upper, rounding included; `method` names the bound behind the upper end,
    the smallest of `abs`, `dual` (or `horizon`, its form for long horizons; `spectral`, its fallback) and the `cap` on
    the number of rounds; in bulk `peak`, `projection`, `lags` or `blocks`; `enumeration` of all signs, `exact` where
    every message is seen, `unreached` where nothing arrives, `infinite` where no noise hides a contribution. The lower
    end is the value of an actual stream.
    Source: Theorem 12 of Koskela & Kulkarni for `abs`; semidefinite duality for `dual`; the cap because M ⪯ I.

    >>> from sottovoce import View, gossip, graphs
    >>> ring = gossip(graphs.metropolis_weights("ring:n=5"), rounds=7)
    >>> sensitivity(ring, View.secure_sum(0), targets=[1, 2]).squared_upper.round(2)
    array([3.36, 1.02])
    """
    scenario, effort = asked(question, view, words, StreamWords, targets=targets)
    protocol, view, chosen = scenario.protocol, scenario.one_view, scenario.participation
    contribution, engine = scenario.contribution, effort.engine
    tolerance = TOLERANCE if effort.tolerance is None else effort.tolerance
    cap = chosen.largest_count(protocol.rounds)
    observation = observe(protocol, view)
    indices = target_indices(protocol, view, observation.known, scenario.targets)
    if protocol.updates is not None:
        return training_view_sensitivity(scenario, effort, progress)
    by_program = partial(
        program_sensitivity, scenario, indices, engine=engine, tolerance=tolerance, progress=progress
    )
    if contribution == "energy" or not protocol.plain:
        return by_program(in_bulk=_program_in_bulk(effort.depth, engine, protocol.rounds, len(indices)))
    in_bulk = _in_bulk(effort.depth, chosen, protocol.rounds, len(indices))
    problem = Problem(
        contribution=contribution,
        participation=chosen,
        engine=engine,
        in_bulk=in_bulk,
        tolerance=max(tolerance, BULK_TOLERANCE) if in_bulk else tolerance,
        cap=cap,
    )
    if view.name == "everyone":
        # Each contribution stands beside its own noise alone, so Δ² counts rounds.
        return _closed_form(scenario, indices, float(cap), "exact")
    system = hidden_system(protocol, observation)
    if system.rows.shape[0] == 0:
        return _closed_form(scenario, indices, 0.0, "unreached")
    upper_side = assess(system, indices, problem, progress)
    lower = upper_side.lower
    witness_of: Callable[[int], np.ndarray] = upper_side.witness_of
    if upper_side.system.over_informed:
        told = hidden_system(protocol, observation, complete=False)
        if told.rows.shape[0]:
            lower_side = assess(told, indices, problem, None)
            lower, witness_of = lower_side.lower, lower_side.witness_of
        else:
            lower, witness_of = np.zeros(len(indices)), lambda _: np.zeros(protocol.rounds)
    found = Sensitivities(
        scenario=scenario,
        engine=upper_side.response.engine,
        indices=indices,
        squared_lower=np.minimum(lower, upper_side.upper),
        squared_upper=upper_side.upper,
        method=upper_side.method,
        witness_of=witness_of,
    )
    if system.over_informed and not in_bulk and _is_followed_whole(protocol, engine):
        # A filter over all nodes is given nothing beyond the view, but may be unsure of what nothing excites.
        return found.closer(by_program())
    return found


def _is_followed_whole(protocol: Protocol, engine: Engine) -> bool:
    """Whether a filter over all nodes is affordable in place of one over the hidden ones."""
    small = protocol.rounds <= WHOLE_ROUNDS and protocol.rounds * protocol.n**2 <= WHOLE_STATES
    return small and engine in {"auto", "filter"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Assessment:
    """The ends of every target's interval under one hidden system."""

    system: HiddenSystem
    response: FilteredResponse
    problem: Problem
    positions: np.ndarray
    ends: Ends

    @property
    def lower(self) -> np.ndarray:
        """The lower ends of Δ²."""
        return self.ends.lower

    @property
    def upper(self) -> np.ndarray:
        """The upper ends of Δ²."""
        return self.ends.upper

    @property
    def method(self) -> np.ndarray:
        """The names of the bounds behind the upper ends."""
        return self.ends.method

    def witness_of(self, place: int) -> np.ndarray:
        """The stream behind the lower end of the target at `place`, found again."""
        frequency = float(self.ends.frequency[place])
        if np.isfinite(frequency):
            return turning_stream(frequency, self.system.rounds, self.problem.contribution)
        if place in self.ends.streams:
            early = self.ends.streams[place]
            return np.concatenate([early, np.zeros((self.system.rounds - len(early), *early.shape[1:]))])
        position = int(self.positions[place])
        if _is_long(self.response):
            return plain_stream(self.response, position, self.problem)
        (forms,) = self.response.forms(np.array([position]))
        return solve(forms.matrices[0], self.problem).witness


def assess(
    system: HiddenSystem,
    indices: np.ndarray,
    problem: Problem,
    progress: Callable[[int, int], None] | None,
) -> Assessment:
    """Bounds and witnesses for every target, widened by what rounding and reduction may hide."""
    check_capacity(system.rounds, problem.participation)
    response = whitened_response(system, engine=problem.engine, coarse=problem.in_bulk)
    positions = np.searchsorted(system.unknown, indices)
    hops = system.hops()[positions]
    in_time = _is_reached(hops, system.rounds, problem.participation)
    reached, direct = np.flatnonzero(in_time), hops == 0
    ends = Ends.unknown(len(indices), problem.cap)
    ends.upper[~in_time], ends.method[~in_time] = 0.0, "unreached"
    if problem.in_bulk and response.size <= MOST_STATES:
        found = together(response, positions[reached], direct[reached], problem, progress)
        ends.improve(reached, found)
        doubtful = _worth_solving_still(reached, direct, ends, response)
        ends.improve(doubtful, _solved(response, positions[doubtful], direct[doubtful], problem, None))
    else:
        ends.improve(reached, _solved(response, positions[reached], direct[reached], problem, progress))
    return Assessment(system=system, response=response, problem=problem, positions=positions, ends=ends)


def _solved(
    response: FilteredResponse,
    positions: np.ndarray,
    direct: np.ndarray,
    problem: Problem,
    progress: Callable[[int, int], None] | None,
) -> Ends:
    """Certified ends and the names of the winning bounds for targets that are solved one by one."""
    if _is_long(response):
        return long_ends(response, positions, direct, problem, progress)
    ends, done = Ends.unknown(len(positions), problem.cap), 0
    for forms in response.forms(positions):
        places = slice(done, done + len(forms.positions))
        ends.lower[places], ends.upper[places], ends.method[places] = _ends(forms, problem)
        done += len(forms.positions)
        if progress is not None:
            progress(done, len(positions))
    return ends


def _worth_solving_still(
    reached: np.ndarray, direct: np.ndarray, ends: Ends, response: FilteredResponse
) -> np.ndarray:
    """The places to solve one by one after all: the worst of those heard directly, and all others if they are few."""
    ratio = np.divide(ends.upper, ends.lower, out=np.full(len(direct), np.inf), where=ends.lower > 0)
    doubtful = reached[direct[reached] & (ratio[reached] > 1 + APART)]
    if _is_long(response):
        most = FEW if response.size <= SMALL else SOLVED_HORIZONS
        far = reached[~direct[reached] & (ratio[reached] > 1 + TOO_WIDE)]
        return np.union1d(*(some if len(some) <= most else some[:0] for some in (doubtful, far)))
    chosen = doubtful[np.argsort(-ratio[doubtful], kind="stable")[: SOLVED_ENTRIES // response.rounds**2]]
    others = reached[ratio[reached] > 1 + NARROW]
    return np.union1d(chosen, others) if len(others) <= FEW else np.asarray(chosen)


def _in_bulk(depth: Depth, participation: Participation, rounds: int, count: int) -> bool:
    """Whether targets, if they contribute in all rounds, are bounded together: on request, or if there are many."""
    if participation.kind != "full" or rounds < FEWEST_ROUNDS or depth == "fine":
        return False
    return depth == "bulk" or count * min(rounds, EXPLICIT_ROUNDS) ** 2 > MOST_ENTRIES


def _program_in_bulk(depth: Depth, engine: Engine, rounds: int, count: int) -> bool:
    """Whether targets of a program are bounded together, whatever the rounds in which they contribute."""
    if rounds < FEWEST_ROUNDS or engine == "filter" or depth == "fine":
        return False
    return depth == "bulk" or count * rounds**2 > MOST_ENTRIES


def _is_reached(hops: np.ndarray, rounds: int, participation: Participation) -> np.ndarray:
    """Whether a contribution in some allowed round reaches the view in time: made in round t, it needs t + hops ≤ T."""
    reached = hops < rounds
    if participation.kind != "full":
        for distance in np.unique(hops[reached]):
            in_time = (np.arange(rounds) + distance < rounds).astype(np.float64)
            if participation.largest_sum(in_time) == 0:
                reached &= hops != distance
    return np.asarray(reached)


def solve(form: np.ndarray, problem: Problem) -> FormSolution:
    """The ends for one form."""
    return solve_participation(
        form, problem.participation, contribution=problem.contribution, tolerance=problem.tolerance
    )


def _ends(forms: QuadraticForms, problem: Problem) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Certified lower and upper ends of Δ² and the names of the winning bounds, for a batch of targets."""
    attained, bound = plain_ends(forms.matrices)
    method = np.full(len(bound), "abs", dtype=METHOD_NAMES)
    for place in np.flatnonzero(_worth_solving(attained, bound, forms, problem)):
        solution = solve(forms.matrices[place], problem)
        attained[place], bound[place], method[place] = solution.attained, solution.bound, solution.method
    lower, upper = widened(
        attained - forms.rounding,
        bound + forms.rounding,
        distortion=forms.distortion,
        missing=forms.missing,
        rounds=problem.cap,
    )
    method[upper > problem.cap] = "cap"
    return np.minimum(lower, problem.cap), np.minimum(upper, problem.cap), method


def _worth_solving(
    attained: np.ndarray, bound: np.ndarray, forms: QuadraticForms, problem: Problem
) -> np.ndarray:
    """Which targets need more than plain signs and absolute values: those whose ends the two leave apart.

    For vectors ends that are as close as the tolerance, or closer than rounding will move them, are close enough.
    """
    if problem.participation.kind != "full":
        return np.ones(len(bound), dtype=bool)
    apart = bound - attained
    if problem.contribution == "scalar":
        return np.asarray(apart > CLOSE * attained)
    shift = forms.distortion * np.sqrt(problem.cap)
    hidden = 2 * np.sqrt(bound) * shift + shift**2 + forms.rounding
    return np.asarray(apart > np.maximum(problem.tolerance / 4 * attained, hidden))


def _is_long(response: FilteredResponse) -> bool:
    """Whether the horizon is too long for a T × T matrix."""
    return response.rounds > EXPLICIT_ROUNDS


def _closed_form(scenario: Scenario, indices: np.ndarray, squared: float, method: str) -> Sensitivities:
    """The same Δ² for every target, known without computing."""
    stream = partial(earliest_pattern, scenario.participation, scenario.protocol.rounds)
    return Sensitivities(
        scenario=scenario,
        engine="closed form",
        indices=indices,
        squared_lower=np.full(len(indices), squared),
        squared_upper=np.full(len(indices), squared),
        method=np.full(len(indices), method, dtype=METHOD_NAMES),
        witness_of=lambda _: stream().astype(np.float64),
    )
