# SPDX-License-Identifier: Apache-2.0
"""Ends of Δ² over horizons too long for a T × T matrix: the closest of all that can be afforded.

A short start and a constant serve where the filter settles soon; bounds for all targets at once, and the dual
problem followed round by round, where it does not.

Each way has ends that hold for the model as stored, and a distortion of its own by which they are widened: that
of the response, and `recursion_error` beside it in `together` and `_by_following`. After that all are ends of
the true Δ², and the closer ones are taken (`Ends.improve`).

Soundness: `_widened` and the distortion that goes with each way. Speed: which ways are
tried, in which order, for whom.
Source: docs/mathematics.md, section 7; docs/proofs/widening.md, bounded-real.md and streams.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering import EXPLICIT_ROUNDS
from sottovoce.sensitivities.capacity import memory_at_hand
from sottovoce.sensitivities.ends import Ends, HeldStream
from sottovoce.sensitivities.long_horizons.round_by_round import MOST_FOLLOWED, solve_followed
from sottovoce.sensitivities.long_horizons.start_and_rate import (
    FREEZE,
    HorizonSolution,
    short_profiles,
    solve_horizon,
)
from sottovoce.sensitivities.many_targets.at_once import MOST_STATES, ends_at_once
from sottovoce.sensitivities.one_form.patterns import earliest_pattern
from sottovoce.sensitivities.one_form.solution import solve_form
from sottovoce.sensitivities.rounding import widened

if TYPE_CHECKING:
    from collections.abc import Callable

    from sottovoce.filtering import FilteredResponse
    from sottovoce.protocols import Contribution
    from sottovoce.sensitivities.ends import Problem

__all__ = ["long_ends", "plain_stream", "together", "turning_signs", "turning_stream"]

# Speed alone: a bound this far (relatively) above what a stream of vectors attains is worth another way.
WEAK = 0.01
# Speed alone: so many rounds are followed in all for the targets whose bounds stay weak, the worst first.
FOLLOWED_IN_ALL = 200_000
# Speed alone: the stream behind a lower end within a pattern contributes in first rounds only: in `EXPLICIT_ROUNDS`
# where following these for one target takes no more products than this, else in so many; and in so many of a pattern.
EARLY_PRODUCTS, EARLY, EARLY_PATTERN = 10**10, 512, 1024
# Speed alone: so many phases are tried for signs that turn.
PHASES = 8


def long_ends(
    response: FilteredResponse,
    positions: np.ndarray,
    direct: np.ndarray,
    problem: Problem,
    progress: Callable[[int, int], None] | None,
) -> Ends:
    """The ends of the targets at `positions`, those heard `direct`ly marked, and what is behind them.

    First a start and a rate for every target; where that is weak, all such targets at once; where it still is, a
    start of as many rounds as the gains take to settle, or all rounds one by one, the worst targets first.

    Guarantee: lower ≤ Δ² ≤ upper for the true forms, rounding included; at worst 0 and the cap.
    Source: docs/mathematics.md, section 7.
    """
    count, full = len(positions), problem.participation.kind == "full"
    ends, attained = Ends.unknown(count, problem.cap), np.zeros(count)
    settled = np.zeros(count, dtype=bool)
    profiles = short_profiles(response, positions)
    for i, (position, profile) in enumerate(zip(positions, profiles, strict=True)):
        solution = solve_horizon(response, int(position), contribution=problem.contribution, profile=profile)
        ends.improve(np.array([i]), _by_horizon(response, int(position), problem, solution))
        if solution is not None:
            attained[i] = solution.reached
            settled[i] = solution.bound <= (1 + WEAK) * solution.reached
        if progress is not None:
            progress(i + 1, count)
    weak = np.flatnonzero(~settled)
    if full and weak.size and response.size <= MOST_STATES:
        ends.improve(weak, together(response, positions[weak], direct[weak], problem, None))
    weak = weak[ends.upper[weak] > (1 + WEAK) * np.maximum(ends.lower, attained)[weak]]
    weak = weak[np.argsort((ends.lower / ends.upper)[weak], kind="stable")]
    start = len(response.gains.gain)
    # Gains that settle as soon as they are looked at, a round after they were frozen above, gain little by another
    # start: there it is tried only where following all rounds would be far dearer.
    late = response.gains.frozen and start > FREEZE
    late = late and (2 if start > FREEZE + 1 else 8) * start < response.rounds
    cost = 2 * start if late else min(response.rounds, MOST_FOLLOWED)
    for i in weak[: max(1, FOLLOWED_IN_ALL // cost)]:
        position = int(positions[i])
        if late:
            ends.improve(np.array([i]), _settling_late(response, position, problem))
            if response.rounds > MOST_FOLLOWED or ends.upper[i] <= (1 + WEAK) * ends.lower[i]:
                continue
        ends.improve(np.array([i]), _by_following(response, position, problem))
    return ends


def together(
    response: FilteredResponse,
    positions: np.ndarray,
    direct: np.ndarray,
    problem: Problem,
    progress: Callable[[int, int], None] | None,
) -> Ends:
    """Certified ends, the names of the winning bounds and the frequencies of the streams, for all targets at once.

    Guarantee: lower ≤ Δ² ≤ upper for the true forms. The tables allow for their own rounding; `recursion_error`
    is for the streams, which are followed while the gains change and for `EXPLICIT_ROUNDS` at most beyond.
    Source: docs/proofs/streams.md, docs/proofs/widening.md.
    """
    found = ends_at_once(
        response, positions, direct, contribution=problem.contribution, in_blocks=True, progress=progress
    )
    followed = min(response.rounds, len(response.gains.gain) + EXPLICIT_ROUNDS)
    distortion = response.distortion + response.recursion_error(followed)
    ends = _widened(response, problem, found.attained, found.bound, found.method, distortion)
    ends.frequency[:] = found.frequency
    for place, vectors in found.vectors.items():
        ends.streams[place] = HeldStream(edges=found.edges, vectors=vectors)
    return ends


def plain_stream(response: FilteredResponse, position: int, problem: Problem) -> np.ndarray:
    """The stream behind the lower end of `solve_horizon`, or early in one pattern, found again: (T,) or (T, d).

    Guarantee: a stream that the family allows, with ‖c_t‖ ≤ 1; what it attains is the `attained` of the search that
    found it, less its rounding.
    """
    if problem.participation.kind == "full":
        solution = solve_horizon(response, position, contribution=problem.contribution)
        if solution is not None:
            return solution.stream(response.rounds)
    return _early_stream(response, position, problem)[1]


def turning_stream(frequency: float, rounds: int, contribution: Contribution) -> np.ndarray:
    """Unit vectors that turn by `frequency` each round, (T, 2); signs, (T,), where it is 0 or signs are asked for.

    Signs are asked for at 0 and π alone, where cos(ωt) is one.

    >>> turning_stream(np.pi, 3, "scalar")
    array([ 1., -1.,  1.])
    """
    angles = frequency * np.arange(rounds)
    if frequency == 0 or contribution == "scalar":
        return np.asarray(np.cos(angles).round())
    return np.column_stack([np.cos(angles), np.sin(angles)])


def turning_signs(response: FilteredResponse, position: int, frequency: float) -> np.ndarray:
    """The signs of cos(ωt + θ), (T,), with the best of a few phases for the target at `position`.

    Some phase attains the lower end (`rounding.signed_share`); which does is found by following the rounds.

    Guarantee: signs, so that it is an allowed stream of numbers; whichever phase is taken, none of the upper ends
    rests on it.
    """
    phases = (np.arange(PHASES) + 0.5) * np.pi / PHASES
    signs = np.where(np.cos(frequency * np.arange(response.rounds)[:, None] + phases) < 0, -1.0, 1.0)
    values = [float((response.respond(position, stream) ** 2).sum()) for stream in signs.T]
    return np.asarray(signs[:, int(np.argmax(values))])


def _widened(
    response: FilteredResponse,
    problem: Problem,
    attained: np.ndarray,
    bound: np.ndarray,
    method: np.ndarray,
    distortion: float,
) -> Ends:
    """The ends that hold for the true form, capped.

    Guarantee: that of `rounding.widened`, for streams of norm at most √cap: no pattern has more rounds.
    """
    ends = Ends.unknown(len(attained), problem.cap)
    missing = response.gains.missing
    lower, upper = widened(attained, bound, distortion=distortion, missing=missing, rounds=problem.cap)
    ends.method[:] = np.where(upper > problem.cap, "cap", method)
    ends.lower[:], ends.upper[:] = np.minimum(lower, problem.cap), np.minimum(upper, problem.cap)
    return ends


def _one(
    response: FilteredResponse, problem: Problem, attained: float, bound: float, distortion: float
) -> Ends:
    """The ends of one target from a proved y."""
    method = np.array(["horizon"])
    return _widened(response, problem, np.array([attained]), np.array([bound]), method, distortion)


def _by_horizon(
    response: FilteredResponse, position: int, problem: Problem, solution: HorizonSolution | None
) -> Ends:
    """The ends of one target from what `solve_horizon` has found, and a stream early on where that does not serve.

    One y = (start, ρ, ρ, …) with diag(y) ⪰ M serves every pattern: the bound is max_π Σ_{t ∈ π} y_t. The turning
    stream contributes in all rounds, so that within patterns a lower end needs another.
    """
    full = problem.participation.kind == "full"
    distortion = response.distortion
    attained = solution.attained if full and solution is not None else 0.0
    bound = np.inf
    if solution is not None:
        y = np.concatenate([solution.start, np.full(response.rounds - len(solution.start), solution.rate)])
        bound = solution.bound if full else problem.participation.largest_sum(y)
    ends = _one(response, problem, attained, bound, distortion)
    if solution is None or not full:
        early, _, distortion = _early_stream(response, position, problem)
        ends.improve(np.zeros(1, dtype=np.int64), _one(response, problem, early, np.inf, distortion))
    return ends


def _settling_late(response: FilteredResponse, position: int, problem: Problem) -> Ends:
    """The ends of one target whose gains are frozen only when they have settled, thousands of rounds on.

    A shorter run of twice the rounds until the gains settle gives prices of the early rounds; `solve_horizon` proves
    what these and one price for all later rounds make.

    Guarantee: that of `solve_horizon`, widened; the cap where the short run finds no prices.
    """
    start = len(response.gains.gain)
    short = solve_followed(response.shortened(2 * start), position)
    if short.y is None:
        return Ends.unknown(1, problem.cap)
    profile = short.y[: start - 1]
    solution = solve_horizon(response, position, contribution=problem.contribution, profile=profile)
    return _by_horizon(response, position, problem, solution)


def _by_following(response: FilteredResponse, position: int, problem: Problem) -> Ends:
    """The ends of one target from the dual problem followed round by round.

    Guarantee: ends that hold: prices y with diag(y) ⪰ M are proved round by round, and their largest sum over a
    pattern is the bound. A lower end is known for full participation alone, and is 0 else.
    """
    full = problem.participation.kind == "full"
    solution = solve_followed(response, position, contribution=problem.contribution)
    bound = np.inf if solution.y is None else problem.participation.largest_sum(solution.y)
    rounding = response.recursion_error(min(response.rounds, MOST_FOLLOWED))
    ends = _one(response, problem, solution.attained if full else 0.0, bound, response.distortion + rounding)
    if full:
        ends.streams[0] = solution.stream
    return ends


def _early_stream(
    response: FilteredResponse, position: int, problem: Problem
) -> tuple[float, np.ndarray, float]:
    """What a stream that contributes early on only, within one pattern, attains; the stream; and the distortion.

    What a stream that is 0 from some round on attains in the short form it attains in the whole one as well: later
    rounds only add what they show, which is not negative.

    Guarantee: the first number is a lower bound for the form as the filter has it, its rounding taken off.
    """
    short = response.shortened(EXPLICIT_ROUNDS)
    products = short.rounds**2 / 2 * len(response.rows) * response.size**2
    if products > EARLY_PRODUCTS or short.forms_bytes() > memory_at_hand() / 2:
        short = response.shortened(EARLY)
    pattern = np.flatnonzero(earliest_pattern(problem.participation, response.rounds)[: short.rounds])
    pattern = pattern[:EARLY_PATTERN]
    (forms,) = short.forms(np.array([position]))
    if pattern.size == 0:
        return 0.0, np.zeros(response.rounds), forms.distortion
    inner = forms.matrices[0][np.ix_(pattern, pattern)]
    found = solve_form(inner, contribution=problem.contribution, tolerance=problem.tolerance)
    stream = np.zeros((response.rounds, *found.witness.shape[1:]))
    stream[pattern] = found.witness
    return found.attained - float(forms.rounding[0]), stream, forms.distortion
