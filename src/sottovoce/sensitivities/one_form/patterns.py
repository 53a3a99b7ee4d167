# SPDX-License-Identifier: Apache-2.0
"""Δ² when a target contributes in some rounds only: the maximum over a family of participation patterns.

    Δ² = max_{π ∈ Π} max Σ_{s,t ∈ π} M_st ⟨c_s, c_t⟩,

π a set of rounds, Π the family that `participation` spells. A pattern's own Δ² is that of M on π × π
(`solve_form`). Where Π is too large to go through, a bound must hold for all its patterns together:

* `dual`: diag(y) ⪰ M on all rounds is diag(y) ⪰ M on every π, so that Δ² ≤ max_π Σ_{t ∈ π} y_t (`largest_sum`);
* `abs`: Σ_{s,t ∈ π} |M_st| of the worst π, bounded row by row or by branch and bound.

Any one pattern with any stream on it is below Δ²: those that are tried decide how close the lower end is.
Soundness: `is_dominated`, `summed`, `Participation.largest_sum`. Speed: which y, and which patterns, are tried.
Source: docs/mathematics.md, section 3; Choquette-Choo et al., (Amplified) Banded Matrix Factorization (2023).
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.sensitivities.one_form.dual import is_dominated, proved_level
from sottovoce.sensitivities.one_form.solution import FormSolution, solve_form
from sottovoce.sensitivities.rounding import summed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sottovoce.participation import Participation
    from sottovoce.protocols import Contribution

__all__ = [
    "Places",
    "covering",
    "coverings",
    "earliest_pattern",
    "good_patterns",
    "sizes_within",
    "solve_largest",
    "solve_participation",
]

# Speed alone: families with at most this many patterns are gone through one by one.
ENUMERABLE_PATTERNS = 512
# Speed alone: the shares in which the dual y and the constant λ_max(M) are mixed.
MIXTURES = np.linspace(0.0, 1.0, 21)
# Speed alone: up to this many rounds y is sought for the largest patterns rather than for all rounds, with so
# many repetitions at most and vectors of so many dimensions.
MOST_WEIGHED, REPETITIONS, VECTORS = 1024, 600, 6
# Speed alone: sets of rounds that are looked at in the search for the one with the largest sum of absolute values.
NODES = 3000
# Speed alone: and of how many more entries of a row than a set has rounds the largest are kept at hand.
LOOKED_AT = 40
# Speed alone: sweeps over the rounds of a pattern in which each is exchanged for a better one.
EXCHANGES = 8
# Speed alone: up to this many rounds every row is summed over its own worst pattern, where these have a limit as well.
SHORT_ENOUGH = 256


def solve_participation(
    form: np.ndarray, participation: Participation, *, contribution: Contribution, tolerance: float
) -> FormSolution:
    """The ends of max_π max_c Σ_{s,t ∈ π} M_st ⟨c_s, c_t⟩ over the patterns π of `participation`.

    Fixed and every-k-th patterns, and families of few patterns, are solved on M restricted to each pattern. For the
    rest any y with diag(y) ⪰ M gives the bound max_π Σ_{t ∈ π} y_t (tried are mixtures of the dual y and the
    constant λ_max(M), and the y of `solve_largest`), and so do absolute values summed within patterns; the witness
    is the best of a few patterns.

    Guarantee: attained ≤ Δ² ≤ bound for the form as stored; for patterns that are gone through one by one the two
    ends are as close as for full participation. (For large families see `covering` on a y of row sums.)
    Source: weak duality, pattern by pattern; docs/mathematics.md, section 3.
    """
    if participation.kind == "full":
        return solve_form(form, contribution=contribution, tolerance=tolerance)
    one_by_one = participation.is_listed
    if one_by_one or participation.pattern_count(len(form)) <= ENUMERABLE_PATTERNS:
        return _each_pattern(form, participation, contribution, tolerance, disjoint=one_by_one)
    return _mixed(form, participation, contribution, tolerance)


def _each_pattern(
    form: np.ndarray,
    participation: Participation,
    contribution: Contribution,
    tolerance: float,
    *,
    disjoint: bool,
) -> FormSolution:
    """Solve every pattern by itself; where patterns are disjoint their y fit together into one.

    That one y does not dominate M, only each of its blocks M_ππ, which is all that patterns of the family ask for.
    """
    rounds = len(form)
    solved = [
        (pattern, solve_form(form[np.ix_(pattern, pattern)], contribution=contribution, tolerance=tolerance))
        for pattern in participation.patterns(rounds)
    ]
    pattern, best = max(solved, key=lambda entry: entry[1].attained)
    y = None
    if disjoint and all(solution.y is not None for _, solution in solved):
        y = np.zeros(rounds)
        for part, solution in solved:
            y[part] = solution.y
    worst = max((solution for _, solution in solved), key=lambda solution: solution.bound)
    return FormSolution(
        attained=best.attained,
        bound=worst.bound,
        method=worst.method,
        witness=_spread(best.witness, pattern, rounds),
        y=y,
    )


def _mixed(
    form: np.ndarray, participation: Participation, contribution: Contribution, tolerance: float
) -> FormSolution:
    """Bound a large family by one y for all patterns, or by absolute values within patterns; witness it on one.

    Guarantee: `bound` holds for every pattern: prices y with diag(y) ⪰ M cost a pattern at most `largest_sum`(y), and
    so do sums of sizes within patterns. `attained` is that of one allowed pattern.
    """
    rounds = len(form)
    best = covering(form, participation, tolerance=tolerance)
    bounds = [
        (participation.largest_sum(best), "dual"),
        (participation.largest_sum(sizes_within(form, participation)), "abs"),
    ]
    if participation.kind == "at-most":
        bounds.append((_branched(form, participation.size), "abs"))
    solved = [
        (pattern, solve_form(form[np.ix_(pattern, pattern)], contribution=contribution, tolerance=tolerance))
        for pattern in good_patterns(form, participation, best)
    ]
    pattern, found = max(solved, key=lambda entry: entry[1].attained)
    bound, method = min(bounds)
    return FormSolution(
        attained=found.attained,
        bound=bound,
        method=method,
        witness=_spread(found.witness, pattern, rounds),
        y=best,
    )


def good_patterns(form: np.ndarray, participation: Participation, y: np.ndarray) -> list[np.ndarray]:
    """Patterns to look for a witness on: ones that grow, that y is large on, that begin early; each exchanged as well.

    Guarantee: each is allowed.
    """
    found = [
        _grown(form, participation),
        _heaviest(participation, y),
        np.flatnonzero(earliest_pattern(participation, len(form))),
    ]
    return found + [_exchanged(form, participation, pattern) for pattern in found]


def covering(form: np.ndarray, participation: Participation, *, tolerance: float) -> np.ndarray:
    """One y with diag(y) ⪰ M for all patterns at once: of those tried, the one with the least largest sum over one.

    Guarantee: Δ² ≤ max_π Σ_{t ∈ π} y_t for the form as stored, since each y that is tried is proved, or a
    mixture of two that are: the margin of `is_dominated` leaves more room than a mixture rounds. The one
    exception is a y of row sums, where `abs` was the best bound over all rounds: that is as computed, and
    may be γ_T of itself too small.
    Source: docs/proofs/spectra.md.
    """
    return min(coverings(form, participation, tolerance=tolerance), key=participation.largest_sum)


def coverings(form: np.ndarray, participation: Participation, *, tolerance: float) -> list[np.ndarray]:
    """The y that `covering` chooses from.

    Guarantee: diag(y) ⪰ M for each, with the exception that `covering` names.
    """
    rounds = len(form)
    whole = solve_form(form, contribution="vector", tolerance=tolerance)
    level = np.full(rounds, proved_level(form))
    assert whole.y is not None, "bounds for vectors are sums of y"
    # Feasible y form a convex set, so every mixture of two of them is feasible too.
    mixtures = [(1 - share) * whole.y + share * level for share in MIXTURES]
    if participation.largest_count(rounds) < rounds <= MOST_WEIGHED:
        mixtures += solve_largest(form, participation.largest_count(rounds), tolerance=tolerance)
    return mixtures


def solve_largest(form: np.ndarray, count: int, *, tolerance: float) -> list[np.ndarray]:
    """A y with diag(y) ⪰ M whose `count` largest entries have nearly the least sum; none if none is proved.

        min over y, diag(y) ⪰ M, of the sum of the k largest y_t  =  max ⟨M, X⟩ over X ⪰ 0, X_tt ≤ 1, Σ X_tt ≤ k.

    With C the Gram vectors of X and G = M C, the best C for G has ‖c_t‖ = min(1, ‖g_t‖/λ), λ such
    that Σ ‖c_t‖² = k; since M ⪰ 0 repeating this never lowers ⟨M, X⟩. At a fixed point y_t = max(λ,
    ‖g_t‖), and both sides are equal.

    Guarantee: y is proved by `is_dominated`, for the form as stored.
    Source: semidefinite duality for the sum of the k largest (Boyd & Vandenberghe, *Convex Optimization*, Section
    5.9), and the generalised power method of Journée et al., JMLR 11 (2010).

    >>> M = np.array([[1.0, -0.5, 0.0], [-0.5, 1.0, 0.5], [0.0, 0.5, 1.0]])
    >>> (y,) = solve_largest(M, 1, tolerance=1e-3)
    >>> bool(1 <= y.max() < 1.72)
    True
    """
    rng = np.random.default_rng(len(form))
    vectors = np.linalg.eigh(form)[1][:, ::-1][:, :VECTORS]
    streams = vectors + 0.01 * rng.standard_normal(vectors.shape)
    previous, momentum, level, value = streams, 1.0, 0.0, 0.0
    for repetition in range(1, REPETITIONS + 1):
        # G = M C⁺, C⁺ ahead of C by momentum;  c_t ← g_t/max(‖g_t‖, λ)
        ahead = streams + (momentum - 1) / (momentum + 2) * (streams - previous)
        product = form @ ahead
        sizes = np.linalg.norm(product, axis=1)
        level = _level(sizes, count)
        if level == 0:
            return []
        following = product / np.maximum(sizes, level)[:, None]
        momentum = 1.0 if np.sum((following - streams) * (streams - previous)) < 0 else momentum + 1
        previous, streams = streams, following
        if repetition % 50 == 0:
            before, value = value, float(np.sum(streams * (form @ streams)))
            if value <= before * (1 + tolerance / 20):
                break
    sizes = np.linalg.norm(form @ streams, axis=1)
    y = np.maximum(_level(sizes, count), sizes)
    for lift in 2.0 ** np.arange(-2, 9) * tolerance * value / count:
        if is_dominated(form, y + lift):
            return [y + lift]
    return []


def _level(sizes: np.ndarray, count: int) -> float:
    """λ with Σ min(1, (size/λ)²) = count, for more sizes than that; 0 if they are too few to add up to it.

    The largest `full` sizes count 1 each, and the squares of the rest add up to λ² times what is left of the count.
    """
    squares = np.sort(sizes**2)[::-1]
    rest = np.cumsum(squares[::-1])[::-1]
    levels = rest[:count] / np.arange(count, 0, -1)
    fitting = np.flatnonzero(squares[:count] <= levels)
    return float(np.sqrt(levels[fitting[0]])) if fitting.size else 0.0


def sizes_within(form: np.ndarray, participation: Participation) -> np.ndarray:
    """r_t, the most that |M_t·| sums to over one pattern, for every round t.

    Within a pattern row t of |M| sums to at most r_t, so diag(r) ⪰ M on every pattern (Gershgorin), and the largest sum
    of r over a pattern bounds Δ² for every dimension.

    Guarantee: upper bounds; sums of numbers that are not negative, raised by `summed`.
    """
    sizes, rounds = np.abs(form), len(form)
    count = participation.largest_count(rounds)
    match participation.kind:
        case "epochs":
            within = np.maximum.reduceat(sizes, np.arange(0, rounds, participation.size), axis=1).sum(axis=1)
        case "separated" if participation.limit is not None and rounds <= SHORT_ENOUGH:
            return np.array([participation.largest_sum(row) for row in sizes])
        case "separated":
            # best[t + 1] is the largest sum over rounds 0 to t, of all rows at once. With a limit the largest entries
            # wherever they are bound it too.
            best = np.zeros((rounds + 1, rounds))
            for t in range(rounds):
                before = best[max(0, t + 1 - participation.size)]
                np.maximum(best[t], sizes[:, t] + before, out=best[t + 1])
            within = np.minimum(best[-1], np.partition(sizes, rounds - count, axis=1)[:, -count:].sum(axis=1))
        case _:
            within = np.partition(sizes, rounds - count, axis=1)[:, -count:].sum(axis=1)
    return np.asarray(within * summed(count + 1))


def _branched(form: np.ndarray, count: int) -> float:
    """The largest Σ_{s,t ∈ π} |M_st| over sets π of `count` rounds, or a bound of it, by branch and bound.

    A set that holds the rounds S and r more of the rounds still open adds at most the r largest of

        2 Σ_{s ∈ S} |M_ts| + |M_tt| + (the r − 1 largest |M_tu| of open rounds u)

    to the sum over S. Sets with the largest bound are split first, by whether they hold the round that adds most;
    after `NODES` of them the largest bound that is left is as good as any.

    Guarantee: an upper bound of Δ² for every dimension whenever the search is stopped: each set of `count` rounds
    lies in one entry of the heap, and the first of these has the largest bound. `summed` covers the sums.
    """
    sizes = np.abs(form)
    diagonal = np.diagonal(sizes)
    apart = sizes - np.diag(diagonal)
    # Speed alone: of every row the largest entries by size, among which those of open rounds are looked for first.
    kept = min(len(form), count + LOOKED_AT)
    order = np.argsort(-apart, axis=1, kind="stable")[:, :kept]
    largest = np.take_along_axis(apart, order, axis=1)

    def pairs_of(still: np.ndarray, most: int) -> np.ndarray:
        """For each open round the sum of the `most` largest entries of its row in open rounds."""
        is_open = np.zeros(len(form), dtype=bool)
        is_open[still] = True
        found = is_open[order[still]]
        if kept < len(form) and found.sum(axis=1).min() < most:
            inner = apart[np.ix_(still, still)]
            return np.asarray(
                np.partition(inner, still.size - most, axis=1)[:, still.size - most :].sum(axis=1)
            )
        return np.asarray((largest[still] * (found & (np.cumsum(found, axis=1) <= most))).sum(axis=1))

    def bounded(chosen: tuple[int, ...], still: np.ndarray) -> tuple[float, int]:
        held = np.array(chosen, dtype=np.int64)
        value, left = float(sizes[np.ix_(held, held)].sum(axis=1).sum()), count - len(held)
        if left <= 0 or still.size == 0:
            return value, -1
        most = min(left - 1, still.size)
        pairs = pairs_of(still, most) if most else 0.0
        adds = 2 * sizes[np.ix_(still, held)].sum(axis=1) + diagonal[still] + pairs
        top = adds if adds.size <= left else np.partition(adds, adds.size - left)[-left:]
        return value + float(top.sum()), int(np.argmax(adds))

    every = np.arange(len(form))
    bound, top = bounded((), every)
    heap: list[tuple[float, int, tuple[int, ...], np.ndarray, int]] = [(-bound, 0, (), every, top)]
    number = 0
    while heap[0][4] >= 0 and number < NODES:
        _, _, chosen, still, top = heapq.heappop(heap)
        rest = np.delete(still, top)
        for held in ((*chosen, int(still[top])), chosen):
            number += 1
            bound, following = bounded(held, rest)
            heapq.heappush(heap, (-bound, number, held, rest, following))
    return -heap[0][0] * summed(6 * count + 16)


class Places:
    """The rounds of a pattern of a large family, and which others could still be added to it."""

    def __init__(self, participation: Participation, rounds: int, pattern: Iterable[int] = ()) -> None:
        self._participation, self._rounds = participation, rounds
        self._limit = participation.largest_count(rounds)
        self._taken = np.zeros(rounds, dtype=np.int64)
        self.chosen: set[int] = set()
        for t in pattern:
            self.add(t)

    @property
    def open(self) -> np.ndarray:
        """Which rounds could be added."""
        return np.asarray((self._taken == 0) & (len(self.chosen) < self._limit))

    def is_open(self, t: int) -> bool:
        """Whether one round could be added."""
        return bool(self._taken[t] == 0) and len(self.chosen) < self._limit

    @property
    def pattern(self) -> np.ndarray:
        """The rounds, ascending."""
        return np.array(sorted(self.chosen), dtype=np.int64)

    def add(self, t: int) -> None:
        """Take a round that is open."""
        self.chosen.add(t)
        self._taken[self._beside(t)] += 1

    def remove(self, t: int) -> None:
        """Give a round back."""
        self.chosen.remove(t)
        self._taken[self._beside(t)] -= 1

    def _beside(self, t: int) -> slice:
        """The rounds that cannot stand in a pattern with round t: itself, those too close, or those of its epoch.

        Guarantee: exact for families without a limit on how many rounds; that is counted elsewhere.
        """
        size = self._participation.size
        match self._participation.kind:
            case "separated":
                return slice(max(0, t - size + 1), t + size)
            case "epochs":
                return slice(t // size * size, (t // size + 1) * size)
            case _:
                return slice(t, t + 1)


def _grown(form: np.ndarray, participation: Participation) -> np.ndarray:
    """A pattern grown round by round: each time the round and sign that raise cᵀMc most, among those allowed.

        gain of round t with its best sign = 2|(M c)_t| + M_tt

    Greedy: a candidate for a lower end, and nothing else rests on it.
    """
    rounds, diagonal = len(form), np.diagonal(form)
    product, places = np.zeros(rounds), Places(participation, rounds)
    while (still := places.open).any():
        t = int(np.argmax(np.where(still, 2 * np.abs(product) + diagonal, -np.inf)))
        places.add(t)
        product += (-1.0 if product[t] < 0 else 1.0) * form[:, t]
    return places.pattern


def _exchanged(form: np.ndarray, participation: Participation, pattern: np.ndarray) -> np.ndarray:
    """A pattern whose rounds were exchanged one by one, as long as cᵀMc grows for the best signs.

    Without round t the stream c has the products g = M c, and a round u in its place adds 2|g_u| + M_uu.
    """
    rounds, diagonal = len(form), np.diagonal(form)
    places, stream = Places(participation, rounds, pattern.tolist()), np.zeros(rounds)
    stream[pattern] = 1.0
    product = form @ stream
    for _ in range(EXCHANGES):
        moved = False
        for t in sorted(places.chosen):
            product -= stream[t] * form[:, t]
            places.remove(t)
            u = int(np.argmax(np.where(places.open, 2 * np.abs(product) + diagonal, -np.inf)))
            places.add(u)
            stream[t] = 0.0
            stream[u] = -1.0 if product[u] < 0 else 1.0
            product += stream[u] * form[:, u]
            moved = moved or u != t
        if not moved:
            break
    return places.pattern


def earliest_pattern(participation: Participation, rounds: int) -> np.ndarray:
    """A mask, one entry a round, of the pattern that takes every round, from the first on, that the family allows.

    Early contributions are seen in most rounds, so that it is a good pattern to witness a lower end with.

    Guarantee: exact: a pattern that the family allows.

    >>> from sottovoce.participation import Participation
    >>> earliest_pattern(Participation.separated(2), 5).astype(int)
    array([1, 0, 1, 0, 1])
    """
    match participation.kind:
        case "at-most":
            return np.arange(rounds) < participation.size
        case "separated":
            mask = np.arange(rounds) % participation.size == 0
            limit = rounds if participation.limit is None else participation.limit
            return np.asarray(mask & (np.cumsum(mask) <= limit))
        case "epochs":
            return np.asarray(np.arange(rounds) % participation.size == 0)
        case _:
            return np.isin(np.arange(rounds), next(participation.patterns(rounds)))


def _heaviest(participation: Participation, values: np.ndarray) -> np.ndarray:
    """A pattern with a large sum of values: rounds are taken by weight for as long as they are allowed.

    Guarantee: an allowed pattern; its sum is the largest for at-most and epochs, and a good one for separated rounds.
    """
    places = Places(participation, len(values))
    for t in np.argsort(-values, kind="stable").tolist():
        if places.is_open(t):
            places.add(t)
    return places.pattern


def _spread(witness: np.ndarray, pattern: np.ndarray, rounds: int) -> np.ndarray:
    """A stream on the rounds of a pattern as a stream over all rounds, 0 elsewhere."""
    whole = np.zeros((rounds, *witness.shape[1:]))
    whole[pattern] = witness
    return whole
