# SPDX-License-Identifier: Apache-2.0
"""M of T rounds from M of a few: once the filter has settled, rounds are inserted in the middle of a short form.

After round c the gains are steady and M_st depends on t − s alone, up to what has faded in as many rounds: beyond w
rounds apart next to nothing is left, and e rounds before the end the end is not felt. So M over T₀ = c + w + e + 1
rounds, written out as M⁰, tells M over T = T₀ + K rounds:

    M̃_st = M⁰_st               both before c + w
         = M⁰_{s−K, t−K}       both from c + K on
         = M⁰_{c, c+|t−s|}     else;   and 0 where |s − t| > w.

`inserted_error` bounds Σ|M − M̃|. Sums of sizes and plain streams grow by K times a row. For the dual bound a form of
T₁ = T₀ + 2w rounds is solved; y is continued by φ = M̃_cc + 2Σ_d M̃_{c,c+d} cos ωd, the most that a turning stream
shows a round, and diag(y) ⪰ M̃ is proved by a Cholesky factor of a band. The stream turns by ω exactly in the middle
2w rounds, so that K' more of them add K'φ to what it attains. Nothing costs more than T·w². Signs are those of such
a stream, improved on the band: they are below what vectors attain, and bounds of vectors are above what they do.

Soundness: `inserted_error`, `is_dominated`, and what `_Turned.attained` takes off. Speed: w, e and T₁.
Source: docs/proofs/insertion.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.rounding import above, gamma
from sottovoce.sensitivities.capacity import memory_at_hand, room_for_forms
from sottovoce.sensitivities.ends import Ends
from sottovoce.sensitivities.long_horizons.banded_signs import best_banded_signs, signs_value
from sottovoce.sensitivities.long_horizons.bands import is_dominated, peak
from sottovoce.sensitivities.long_horizons.inserted_patterns import core_of
from sottovoce.sensitivities.one_form.dual import streams_of
from sottovoce.sensitivities.one_form.solution import solve_form
from sottovoce.sensitivities.one_form.witnesses import alternating_signs, constant_signs
from sottovoce.sensitivities.rounding import (
    inserted_error,
    summed,
    value_error,
    widened,
)
from sottovoce.views import METHOD_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sottovoce.filtering import FilteredResponse, QuadraticForms
    from sottovoce.sensitivities.ends import Problem
    from sottovoce.sensitivities.long_horizons.inserted_rounds import Insertion

__all__ = ["has_room_for", "inserted_ends", "inserted_stream"]

# Speed alone: how long vectors are sought with how many widths inserted, until a bound is so many tolerances above what
# they attain; and of how many entries in all forms are that are looked at together.
SEARCHES, ENOUGH, TOGETHER = ((20, 2), (60, 3)), 2.5, 500_000
# Speed alone: a bound so many tolerances above what vectors attain is good enough; the whole form would be closer.
ENDED = 5
# Speed alone: how often a stream is repeated with its middle held, and by which multiples of the tolerance y is lifted.
REPEATED, LIFTS = 6, (0.5, 1.0, 1.5, 2.0, 4.0)
# Speed alone: of more bytes than this a band is slower than what needs none, and so is a pattern of more rounds.
MOST_BYTES, MOST_WRITTEN = 256 * 2**20, 1024


def inserted_ends(
    response: FilteredResponse,
    plan: Insertion,
    positions: np.ndarray,
    problem: Problem,
    progress: Callable[[int, int], None] | None,
) -> tuple[Ends, np.ndarray]:
    """The ends of the targets at `positions`, and whether the form has no more to tell.

    That is so where the upper end is next to what vectors attain; what signs attain may be far from both.

    Guarantee: lower ≤ Δ² ≤ upper for the true forms, rounding included.
    Source: docs/proofs/insertion.md, docs/proofs/widening.md.
    """
    ends, done, short = Ends.unknown(len(positions), problem.cap), 0, _short(response, plan)
    told = np.ones(len(positions), dtype=bool)
    for forms in short.forms(positions, room_for_forms(short)):
        error = _errors(response, plan, forms, problem)
        attained, bound, method = np.zeros(len(error)), np.zeros(len(error)), ends.method[: len(error)].copy()
        for low, high, name, good in _of_patterns(plan, forms.matrices, error, problem):
            attained = np.maximum(attained, low)
            method, bound = np.where(high > bound, name, method), np.maximum(high, bound)
            told[done : done + len(error)] &= good
        # Where few rounds count, or a target shows next to nothing, the allowance may be a visible part of it.
        told[done : done + len(error)] &= 2 * error <= ENDED / 2 * problem.tolerance * attained
        lower, upper = widened(
            attained - error,
            bound + error,
            distortion=response.distortion,
            missing=response.gains.missing,
            rounds=problem.cap,
        )
        places = slice(done, done + len(forms.positions))
        ends.method[places] = np.where(upper > problem.cap, "cap", method)
        ends.lower[places] = np.minimum(lower, problem.cap)
        ends.upper[places] = np.minimum(upper, problem.cap)
        done += len(forms.positions)
        if progress is not None:
            progress(done, len(positions))
    return ends, told


def has_room_for(plan: Insertion, problem: Problem) -> bool:
    """Whether what is as long as all rounds fits into memory: a band of M̃ with its factor, streams, a pattern's form.

    Of a band twice its own size is held besides, of signs a hundred streams.
    """
    signs = 800.0 * plan.rounds if problem.contribution == "scalar" else 0.0
    if problem.participation.kind != "full" and plan.period == 1 and problem.cap > MOST_WRITTEN:
        return False
    needed = 24.0 * plan.rounds * (plan.width + 1) + signs
    return needed <= min(MOST_BYTES, memory_at_hand() / 2)


def _apart(attained: np.ndarray, bound: np.ndarray, error: np.ndarray, problem: Problem) -> np.ndarray:
    """Which targets need more than plain signs and sums of sizes. Speed alone."""
    return np.asarray(bound - attained > np.maximum(problem.tolerance / 4 * attained, error))


def _of_patterns(
    plan: Insertion, matrices: np.ndarray, error: np.ndarray, problem: Problem
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """`_of_pattern` for each pattern that is listed, or the same once for a large family.

    Guarantee: the largest of what is attained and of the bounds are ends over all patterns, for M̃ as stored.
    """
    if problem.participation.is_listed:
        for each in _patterns(plan, problem):
            yield _of_pattern(plan, matrices, each, error, problem)
        return
    core = core_of(plan, problem.participation)
    assert core is not None, "rounds are inserted where a core serves"
    solved = [core.ends(form, problem)[0] for form in matrices]
    yield (
        np.array([each.attained for each in solved]),
        np.array([each.bound for each in solved]),
        np.array([each.method for each in solved]),
        np.isfinite([each.bound for each in solved]),
    )


def _patterns(plan: Insertion, problem: Problem) -> list[np.ndarray]:
    """The rounds of each pattern: all, every k-th from an offset on, or those that are listed."""
    return list(problem.participation.patterns(plan.rounds))


def _of_pattern(
    plan: Insertion, matrices: np.ndarray, pattern: np.ndarray, error: np.ndarray, problem: Problem
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What one pattern attains of M̃ as stored, a bound of it, the name of the bound, and whether vectors come close.

    Guarantee: attained ≤ max Σ M̃_st⟨c_s, c_t⟩ ≤ bound over s, t in the pattern, rounding included.
    """
    if not _is_regular(plan, problem):
        solved = [
            solve_form(
                plan.at(form[None], pattern)[0],
                contribution=problem.contribution,
                tolerance=problem.tolerance,
            )
            for form in matrices
        ]
        ends = np.array([[each.attained, each.bound] for each in solved]).reshape(-1, 2)
        return (
            ends[:, 0],
            ends[:, 1],
            np.array([each.method for each in solved]),
            np.ones(len(ends), dtype=bool),
        )
    rounds, part = plan.every(int(pattern[0]))
    forms = np.ascontiguousarray(matrices[:, rounds, rounds])
    attained, bound = _plain(part, forms)
    sizes, good = bound.copy(), np.ones(len(bound), dtype=bool)
    method = np.full(len(bound), "abs", dtype=METHOD_NAMES)
    for place, found in _turned(
        part, forms, np.flatnonzero(_apart(attained, bound, error, problem)), problem.tolerance
    ):
        good[place] = found.bound <= (1 + ENDED * problem.tolerance) * found.attained
        value = found.attained
        if problem.contribution == "scalar":
            # Speed alone: where plain signs are next to the bound no others are looked for.
            value = attained[place]
            if found.bound > (1 + problem.tolerance) * value:
                value = _nearby_signs(part, forms[place], found, float(sizes[place]))[1]
        attained[place] = max(attained[place], value)
        if found.bound < bound[place]:
            bound[place], method[place] = found.bound, "dual"
    return attained, bound, method, good


def _nearby_signs(
    part: Insertion, form: np.ndarray, found: _Turned, sizes: float
) -> tuple[np.ndarray, float]:
    """The best signs next to a stream that turns, and what they attain, from below."""
    band = part.band(form, part.inserted)
    signs = best_banded_signs(band, found.stream(part).reshape(part.rounds, -1), found.frequency)
    return signs, signs_value(band, signs, sizes)


def _is_regular(plan: Insertion, problem: Problem) -> bool:
    """Whether patterns are bands of their own, rather than few rounds whose form is written out."""
    return problem.participation.kind == "full" or plan.period > 1


def inserted_stream(
    response: FilteredResponse, plan: Insertion, position: int, problem: Problem
) -> np.ndarray:
    """The stream behind the lower end of `inserted_ends`, found again: shape (T,) or (T, d).

    Guarantee: a stream on one pattern that the family allows; the lower end is what it attains of M̃, less
    `inserted_error`.
    """
    (forms,) = _short(response, plan).forms(np.array([position]))
    error = _errors(response, plan, forms, problem)
    core = None if problem.participation.is_listed else core_of(plan, problem.participation)
    if core is not None:
        solution, pattern = core.ends(forms.matrices[0], problem)
        return _on_pattern(solution.witness, pattern, plan.rounds)
    values = [
        _of_pattern(plan, forms.matrices, each, error, problem)[0][0] for each in _patterns(plan, problem)
    ]
    pattern = _patterns(plan, problem)[int(np.argmax(values))]
    found = _stream_of(plan, forms.matrices, pattern, error, problem)
    return _on_pattern(found, pattern, plan.rounds)


def _on_pattern(found: np.ndarray, pattern: np.ndarray, rounds: int) -> np.ndarray:
    """A stream on the rounds of a pattern as one over all rounds."""
    stream = np.zeros((rounds, *found.shape[1:]))
    stream[pattern] = found
    return stream


def _stream_of(
    plan: Insertion, matrices: np.ndarray, pattern: np.ndarray, error: np.ndarray, problem: Problem
) -> np.ndarray:
    """The stream of one target behind what `_of_pattern` says is attained, over the rounds of the pattern.

    It goes the way that `_of_pattern` goes and returns the stream where that returns a number: a plain one where
    plain ends are close, the turned one, or signs.
    """
    if not _is_regular(plan, problem):
        (form,) = plan.at(matrices, pattern)
        return solve_form(form, contribution=problem.contribution, tolerance=problem.tolerance).witness
    rounds, part = plan.every(int(pattern[0]))
    forms = np.ascontiguousarray(matrices[:, rounds, rounds])
    attained, bound = _plain(part, forms)
    if _apart(attained, bound, error, problem)[0]:
        ((_, found),) = _turned(part, forms, np.array([0]), problem.tolerance)
        stream, value = found.stream(part), found.attained
        if problem.contribution == "scalar":
            value = attained[0]
            if found.bound > (1 + problem.tolerance) * value:
                stream, value = _nearby_signs(part, forms[0], found, float(bound[0]))
        if value > attained[0]:
            return stream
    plain = (constant_signs(part.rounds), alternating_signs(part.rounds))
    return plain[int(np.argmax(_plain_values(part, forms)[:2, 0]))]


def _short(response: FilteredResponse, plan: Insertion) -> FilteredResponse:
    """The same response over T₀ rounds: its gains are steady by then, so that the rows of the last round are too."""
    return replace(response, rounds=plan.short)


def _errors(
    response: FilteredResponse, plan: Insertion, forms: QuadraticForms, problem: Problem
) -> np.ndarray:
    """A bound of Σ|M_st − M̃_st| for each target, M̃ as stored: `inserted_error`, and rounding in M⁰.

    Rows of F that are off by d₀ in norm move M by at most (2‖F‖ + d₀)d₀ and a part of one of its rows of w + 1
    entries by √(w + 1) times that, in the sum of sizes; `rounding` is a sum of sizes over all of M⁰.

    Guarantee: upper bounds for |Σ (M − M̃)_st⟨c_s, c_t⟩|, ‖c_t‖ ≤ 1.
    Source: docs/proofs/insertion.md.
    """
    shows = response.shows
    followed = _short(response, plan).forms_error
    moved = (2 * shows + followed) * followed
    loosened = plan.loosened
    cut = inserted_error(
        response,
        response.columns(forms.positions),
        loosened,
        counted=int(min(problem.cap, plan.rounds)),
        shown=np.diagonal(forms.matrices, axis1=1, axis2=2)[:, plan.start :].max(axis=1)
        + moved
        + forms.rounding,
    )
    lags = np.abs(np.subtract.outer(np.arange(plan.short), np.arange(plan.short)))
    far = 2 * np.abs(forms.matrices[:, lags > plan.width]).sum(axis=1) * summed(plan.short**2)
    repeated = min(loosened.inserted, problem.cap)
    copies = 2 * (repeated + 1)
    spread_out = moved * (2 * plan.short + 2 * repeated * (plan.width + 1) ** 0.5)
    return np.asarray(above(cut + far + copies * forms.rounding + spread_out))


def _plain_values(plan: Insertion, forms: np.ndarray) -> np.ndarray:
    """What constant and alternating signs attain of M̃, and the sum of its sizes, as computed: (3, targets).

    M̃ is two blocks of M⁰ and K − w + d entries M⁰_{c,c+d} on either side of the diagonal, d rounds off it.
    """
    c, w, steps = plan.start, plan.width, np.arange(plan.width + 1)
    count = np.where(steps, 2, 1) * (plan.inserted - w + steps)
    lags = np.abs(np.subtract.outer(np.arange(plan.short), np.arange(plan.short)))
    inside = np.arange(plan.short) < c + w, np.arange(plan.short) >= c
    # How often an entry of M⁰ stands in the two blocks, as a vector that all entries of a target are multiplied by.
    often = sum(np.outer(block, block).astype(np.float64) for block in inside) * (lags <= w)
    weights = np.column_stack([often.ravel(), (often * (-1.0) ** lags).ravel()])
    row, flat = forms[:, c, c : c + w + 1], forms.reshape(len(forms), -1)
    plain = (flat @ weights).T + np.array([row @ count, row @ (count * (-1.0) ** steps)])
    return np.vstack([plain, np.abs(flat) @ weights[:, 0] + np.abs(row) @ count])


def _plain(plan: Insertion, forms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The better of constant and alternating signs, and the sum of sizes, of M̃ as stored.

    Guarantee: attained ≤ max Σ M̃_st⟨c_s, c_t⟩ ≤ bound; each is a sum of fewer than 4T₀² numbers.
    Source: docs/proofs/sums.md.
    """
    constant, alternating, sizes = _plain_values(plan, forms)
    room = summed(4 * plan.short**2)
    bound = sizes * room
    return np.maximum(constant, alternating) - 2 * (room - 1) * bound, bound


@dataclass(frozen=True, kw_only=True, eq=False)
class _Turned:
    """A stream of T₁ rounds that turns by `frequency` in the 2w rounds around `middle`, and y that goes with it.

    `attained` and `bound` are ends for M̃ over T rounds as stored; `plane` has the one or two directions in which it
    turns, as columns.
    """

    attained: float
    bound: float
    streams: np.ndarray
    plane: np.ndarray
    frequency: float
    middle: int

    @classmethod
    def of(
        cls, plan: Insertion, form: np.ndarray, inner: np.ndarray, streams: np.ndarray, tolerance: float
    ) -> _Turned:
        """The ends for one target from its M⁰, `inner` with 2w rounds inserted, and vectors that are good for it.

        Guarantee: attained ≤ max Σ M̃_st⟨c_s, c_t⟩ ≤ bound, rounding included, whatever the vectors are.
        Source: docs/proofs/insertion.md, "Streams" and "Domination".
        """
        c, w = plan.start, plan.width
        before = len(inner) - len(form)
        left = plan.inserted - before
        middle = c + w + (before - w) // 2
        row = form[c, c : c + w + 1]
        frequency, level = peak(row)
        streams, plane = _held(inner, streams, frequency, slice(middle - w, middle + w))
        product = inner @ streams
        sizes = float(np.abs(inner).sum())
        skew = float(np.abs(plane.T @ plane - np.eye(plane.shape[1])).sum()) + gamma(8 * len(plane))
        # The rows of the middle and cos(ωd) differ by rounding of angles, and by what the plane is off.
        angle = above(gamma(8 * (math.pi * len(inner) + w + 64)) + 4 * skew)
        attained = float(np.sum(streams * product)) + left * level
        attained -= value_error(inner, sizes, streams.shape[1])
        attained -= angle * (left + 4 * w) * 2 * float(np.abs(row).sum()) + gamma(8) * left * abs(level)
        attained = float(max(0.0, attained) * (1 - 8 * skew - gamma(64)))
        base = np.linalg.norm(product, axis=1)
        y = np.concatenate([base[:middle], np.full(left, level), base[middle:]])
        bound, band = math.inf, plan.band(form, plan.inserted)
        for lift in LIFTS:
            room = (attained * (1 + lift * tolerance) - float(y.sum())) / len(y)
            if room > 0 and is_dominated(band, y + room):
                bound = math.nextafter(math.fsum(y + room), math.inf)
                break
        return cls(
            attained=attained, bound=bound, streams=streams, plane=plane, frequency=frequency, middle=middle
        )

    def stream(self, plan: Insertion) -> np.ndarray:
        """The stream over T rounds: what comes after the rounds that are put in is turned as far as they turn.

        A stream c that turns by ω a round between the rounds that are put in attains there what it attains in the
        core, as the inner product of two of its rounds depends on their distance alone; what follows is turned by ω
        for each round put in, so that its products with the middle stay the same.

        Guarantee: ‖c_t‖ is that of the core's stream, but for the rounding of cosine and sine.
        """
        left = plan.rounds - len(self.streams)
        before, after = self.streams[: self.middle], self.streams[self.middle :]
        if self.plane.shape[1] == 1:
            sign = math.cos(self.frequency)
            put = np.outer(sign ** np.arange(1, left + 1), before[-1])
            return np.concatenate([before, put, after * sign**left])
        angles = self.frequency * (self.middle + np.arange(left))
        put = np.column_stack([np.cos(angles), np.sin(angles)]) @ self.plane.T
        turn, flat = self.frequency * left, after @ self.plane
        rotation = np.array([[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]])
        return np.concatenate([before, put, after + (flat @ rotation - flat) @ self.plane.T])


def _turned(
    plan: Insertion, forms: np.ndarray, places: np.ndarray, tolerance: float
) -> Iterator[tuple[int, _Turned]]:
    """`_Turned` of the forms M⁰ at some places: vectors are sought for a few at once, and longer where need be.

    Guarantee: that of `_Turned.of`; of several the one with the least bound, with what its own stream attains.
    """
    few = max(1, TOGETHER // (plan.short + 2 * plan.width) ** 2)
    for begin in range(0, len(places), few):
        some = places[begin : begin + few]
        best: dict[int, _Turned] = {}
        for iterations, widths in SEARCHES:
            before = min(widths * plan.width, plan.inserted)
            inner = np.array([plan.whole(forms[place], before) for place in some])
            for place, form, streams in zip(some, inner, streams_of(inner, iterations), strict=True):
                found = _Turned.of(plan, forms[place], form, streams, tolerance)
                if place not in best or found.bound < best[place].bound:
                    best[int(place)] = found
            some = np.array([k for k in some if best[k].bound > (1 + ENOUGH * tolerance) * best[k].attained])
            if not some.size:
                break
        yield from best.items()


def _held(
    form: np.ndarray, streams: np.ndarray, frequency: float, middle: slice
) -> tuple[np.ndarray, np.ndarray]:
    """The stream after a few more steps of the fixed point, each with its middle turned by ω exactly; the plane.

        C ← rows of M C at norm 1,   then the middle ← turns·(U Vᵀ)ᵀ

    where U Vᵀ is the orthogonal factor of the middle's correlation with the turns: the closest stream that turns by ω
    exactly.

    Guarantee: rows of norm 1 but for rounding; whether it attains much is computed afterwards.
    """
    angles = frequency * np.arange(middle.start, middle.stop)
    turns = np.column_stack([np.cos(angles), np.sin(angles)])
    if frequency in (0.0, math.pi):
        turns = turns[:, :1].round()

    def turned(found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        left, _, right = np.linalg.svd(found[middle].T @ turns, full_matrices=False)
        found[middle] = turns @ (left @ right).T
        return found, left @ right

    found, plane = turned(streams.copy())
    for _ in range(REPEATED):
        found = form @ found
        norms = np.linalg.norm(found, axis=1, keepdims=True)
        first = np.eye(1, found.shape[1])
        found, plane = turned(np.where(norms > 0, found / np.where(norms > 0, norms, 1.0), first))
    return found, plane
