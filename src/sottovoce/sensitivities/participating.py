# SPDX-License-Identifier: Apache-2.0
"""Δ² when a target contributes in some rounds only: the maximum over a family of participation patterns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sottovoce.sensitivities.bounds import spectral_bound
from sottovoce.sensitivities.solve import FormSolution, solve_form

if TYPE_CHECKING:
    from sottovoce.participation import Participation
    from sottovoce.protocols import Contribution

__all__ = ["earliest_pattern", "solve_participation"]

# Families with at most this many patterns are gone through one by one.
ENUMERABLE_PATTERNS = 512
MIXTURES = np.linspace(0.0, 1.0, 21)
# Up to this many rounds every row is summed over its own worst pattern.
SHORT_ENOUGH = 256


def solve_participation(
    form: np.ndarray, participation: Participation, *, contribution: Contribution, tolerance: float
) -> FormSolution:
    """The ends of max_π max_c Σ_{s,t ∈ π} M_st ⟨c_s, c_t⟩ over the patterns π of `participation`.

    Fixed and every-k-th patterns, and families of few patterns, are solved on M restricted to each pattern. For the
    rest any y with diag(y) ⪰ M gives the bound max_π Σ_{t ∈ π} y_t (mixtures of the dual y and the constant λ_max(M)
    are tried), and so do absolute values summed within patterns; the witness is the best of a few patterns.

    Guarantee: attained ≤ Δ² ≤ bound for the form as stored; for patterns that are gone through one by one the two ends
    are as close as for full participation.
    """
    if participation.kind == "full":
        return solve_form(form, contribution=contribution, tolerance=tolerance)
    one_by_one = participation.kind in {"fixed", "every"}
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
    """Solve every pattern by itself; where patterns are disjoint their y fit together into one."""
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
    """Bound a large family by one y for all patterns, or by absolute values within patterns; witness it on one."""
    rounds = len(form)
    whole = solve_form(form, contribution="vector", tolerance=tolerance)
    level = np.full(rounds, float(spectral_bound(form)) / rounds)
    assert whole.y is not None, "bounds for vectors are sums of y"
    # Feasible y form a convex set, so every mixture of two of them is feasible too.
    mixtures = [(1 - share) * whole.y + share * level for share in MIXTURES]
    best = min(mixtures, key=participation.largest_sum)
    bounds = [(participation.largest_sum(best), "dual"), (_absolute_within(form, participation), "abs")]
    candidates = [
        _grown(form, participation),
        _heaviest(participation, best),
        np.flatnonzero(earliest_pattern(participation, rounds)),
    ]
    solved = [
        (pattern, solve_form(form[np.ix_(pattern, pattern)], contribution=contribution, tolerance=tolerance))
        for pattern in candidates
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


def _absolute_within(form: np.ndarray, participation: Participation) -> float:
    """The largest sum π of r_t, t ∈ π, where r_t is the most that |M_t·| sums to over one pattern.

    Within a pattern row t of |M| sums to at most r_t, so diag(r) ⪰ M on every pattern (Gershgorin).
    """
    sizes = np.abs(form)
    if participation.kind == "at-most":
        count = min(participation.size, len(form))
        within = np.partition(sizes, len(form) - count, axis=1)[:, -count:].sum(axis=1) * (1 + 1e-13)
    elif len(form) <= SHORT_ENOUGH:
        within = np.array([participation.largest_sum(row) for row in sizes])
    else:
        within = sizes.sum(axis=1) * (1 + 1e-13)
    return participation.largest_sum(within)


def _grown(form: np.ndarray, participation: Participation) -> np.ndarray:
    """A pattern grown round by round: each time the round and sign that raise cᵀMc most, among those allowed."""
    rounds = len(form)
    stream, product = np.zeros(rounds), np.zeros(rounds)
    pattern: list[int] = []
    open_to = np.ones(rounds, dtype=bool)
    while open_to.any():
        gains = np.where(open_to, 2 * np.abs(product) + np.diagonal(form), -np.inf)
        t = int(np.argmax(gains))
        open_to[t] = False
        if not participation.allows(np.array(sorted([*pattern, t])), rounds):
            continue
        pattern.append(t)
        stream[t] = -1.0 if product[t] < 0 else 1.0
        product += stream[t] * form[:, t]
        if len(pattern) == participation.largest_count(rounds):
            break
    return np.array(sorted(pattern), dtype=np.int64)


def earliest_pattern(participation: Participation, rounds: int) -> np.ndarray:
    """A mask of the pattern that takes every round, from the first on, that the family still allows."""
    match participation.kind:
        case "at-most":
            return np.arange(rounds) < participation.size
        case "separated":
            mask = np.arange(rounds) % participation.size == 0
            limit = rounds if participation.limit is None else participation.limit
            return np.asarray(mask & (np.cumsum(mask) <= limit))
        case _:
            return np.isin(np.arange(rounds), next(participation.patterns(rounds)))


def _heaviest(participation: Participation, values: np.ndarray) -> np.ndarray:
    """A pattern with a large sum of values: rounds are taken by weight for as long as they are allowed."""
    chosen: list[int] = []
    for t in np.argsort(-values, kind="stable"):
        if participation.allows(np.array(sorted([*chosen, int(t)])), len(values)):
            chosen = sorted([*chosen, int(t)])
    return np.array(chosen, dtype=np.int64)


def _spread(witness: np.ndarray, pattern: np.ndarray, rounds: int) -> np.ndarray:
    """A stream on the rounds of a pattern as a stream over all rounds, 0 elsewhere."""
    whole = np.zeros((rounds, *witness.shape[1:]))
    whole[pattern] = witness
    return whole
