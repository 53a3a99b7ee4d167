# SPDX-License-Identifier: Apache-2.0
"""Ends of Δ² for a batch of forms at once: plain streams and absolute values where they serve, else one by one.

For each form M̂ = `matrices[k]` of shape (T, T)

    attained_k ≤ max Σ_st M̂_st ⟨c_s, c_t⟩ ≤ bound_k

is found for the numbers as stored. Then `rounding[k]`, which is what the sums behind M̂ may be off by, is taken
off below and added above, and `widened` goes from the stored model to the true one. That order matters:
`rounding` is an error of the form, `distortion` one of the noise map behind it.

Soundness: the two ends of `solution` or `patterns`, `rounding`, `widened`, the cap M ⪯ I.
Speed: which targets get more than plain ends (`_worth_solving`).
Source: docs/mathematics.md, sections 3 and 6; docs/proofs/widening.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sottovoce.sensitivities.one_form.dual import TOGETHER, solve_duals
from sottovoce.sensitivities.one_form.patterns import solve_participation
from sottovoce.sensitivities.one_form.solution import CLOSE, FormSolution, plain_ends, solve_form
from sottovoce.sensitivities.one_form.witnesses import ENUMERABLE
from sottovoce.sensitivities.rounding import value_error, widened
from sottovoce.views import METHOD_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sottovoce.filtering import QuadraticForms
    from sottovoce.sensitivities.ends import Problem

__all__ = ["batch_ends", "solve_problem"]


def solve_problem(form: np.ndarray, problem: Problem) -> FormSolution:
    """The ends for one form of shape (T, T), over the patterns and the kind of contribution of `problem`.

    Guarantee: that of `solve_participation`: attained ≤ Δ² ≤ bound for the form as stored.
    """
    return solve_participation(
        form, problem.participation, contribution=problem.contribution, tolerance=problem.tolerance
    )


def batch_ends(forms: QuadraticForms, problem: Problem) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Certified lower and upper ends of Δ² and the names of the winning bounds, for a batch of targets.

    Guarantee: lower ≤ Δ² ≤ upper for the true forms (see `widened`), and no more than the cap: M ⪯ I, since noise
    enters wherever contributions do, so that Δ² is at most the number of rounds of a pattern.
    Source: docs/mathematics.md, sections 3 and 6; docs/proofs/widening.md.
    """
    attained, bound = plain_ends(forms.matrices)
    method = np.full(len(bound), "abs", dtype=METHOD_NAMES)
    chosen = _worth_solving(attained, bound, forms, problem)
    for place, *found in _chosen_ends(forms.matrices, chosen, problem, (attained, bound)):
        attained[place], bound[place], method[place] = found
    lower, upper = widened(
        attained - forms.rounding,
        bound + forms.rounding,
        distortion=forms.distortion,
        missing=forms.missing,
        rounds=problem.cap,
    )
    method[upper > problem.cap] = "cap"
    return np.minimum(lower, problem.cap), np.minimum(upper, problem.cap), method


def _chosen_ends(
    matrices: np.ndarray, chosen: np.ndarray, problem: Problem, plain: tuple[np.ndarray, np.ndarray]
) -> Iterator[tuple[int, float, float, str]]:
    """The ends of the forms that are chosen, with their places: a few at once where all rounds count.

    `plain` has what plain signs attain over all rounds, and Σ|M_st| from above, of every form. Speed alone: signs of
    few rounds are gone through one and all, which needs no dual solution.

    Guarantee: attained ≤ Δ² ≤ bound for the forms as stored, as in `solve_form`.
    """
    places, rounds = np.flatnonzero(chosen), matrices.shape[-1]
    together = problem.participation.kind == "full" and not (
        problem.contribution == "scalar" and rounds <= ENUMERABLE
    )
    few = max(1, TOGETHER // rounds**2) if together else 1
    for begin in range(0, len(places), few):
        some = places[begin : begin + few]
        duals = solve_duals(matrices[some], tolerance=problem.tolerance) if together else [None]
        for place, dual in zip(some.tolist(), duals, strict=True):
            form = matrices[place]
            if dual is not None and dual.y is not None and problem.contribution == "vector":
                signs, sizes = (float(each[place]) for each in plain)
                value = dual.attained - value_error(form, sizes, dual.streams.shape[1])
                bound, name = min((dual.bound, "dual"), (sizes, "abs"))
                yield place, max(signs, value), bound, name
                continue
            found = (
                solve_problem(form, problem)
                if dual is None
                else solve_form(
                    form, contribution=problem.contribution, tolerance=problem.tolerance, dual=dual
                )
            )
            yield place, found.attained, found.bound, found.method


def _worth_solving(
    attained: np.ndarray, bound: np.ndarray, forms: QuadraticForms, problem: Problem
) -> np.ndarray:
    """Which targets need more than plain signs and absolute values: those whose ends the two leave apart.

    For vectors ends that are as close as the tolerance, or closer than rounding will move them, are close enough.
    What `widened` adds to a bound b is about 2√b·d√T + d²T, so that much is lost whatever is solved.
    Speed alone: a target that is left out keeps the plain ends, which hold too.
    """
    if problem.participation.kind != "full":
        return np.ones(len(bound), dtype=bool)
    apart = bound - attained
    if problem.contribution == "scalar":
        return np.asarray(apart > CLOSE * attained)
    shift = forms.distortion * np.sqrt(problem.cap)
    hidden = 2 * np.sqrt(bound) * shift + shift**2 + forms.rounding
    return np.asarray(apart > np.maximum(problem.tolerance / 4 * attained, hidden))
