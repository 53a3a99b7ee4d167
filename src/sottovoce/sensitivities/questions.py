# SPDX-License-Identifier: Apache-2.0
"""What is asked of the form of a program: over which streams it is maximised, and how closely; one or a few at once.

Soundness: the ends of `one_form`. Speed: which of its ways are taken, and how many forms are searched together.
Source: docs/mathematics.md, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.sensitivities.one_form.dual import solve_duals
from sottovoce.sensitivities.one_form.energy import solve_energy
from sottovoce.sensitivities.one_form.patterns import earliest_pattern, solve_participation
from sottovoce.sensitivities.one_form.solution import FormSolution, plain_ends, solve_form
from sottovoce.sensitivities.one_form.witnesses import alternating_signs, constant_signs, value_of
from sottovoce.sensitivities.rounding import LARGEST_ENTRY, summed_again, value_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sottovoce.filtering import ProgramForm
    from sottovoce.participation import Participation
    from sottovoce.protocols import Contribution
    from sottovoce.sensitivities.one_form.dual import DualSolution

__all__ = ["FormQuestion", "batched", "solve_question", "solve_questions"]

# Speed alone: forms of so many entries in all are held until vectors are searched for: of few of them that takes long,
# and these are searched together.
HELD = 4_000_000


@dataclass(frozen=True, kw_only=True)
class FormQuestion:
    """What is maximised over, and how closely: the ends of a form may stay `tolerance` apart, relatively."""

    contribution: Contribution
    participation: Participation
    tolerance: float

    @property
    def of_vectors(self) -> bool:
        """Whether streams are vectors in all rounds."""
        return self.contribution == "vector" and self.participation.kind == "full"


def batched(forms: Iterable[ProgramForm], question: FormQuestion) -> Iterator[list[ProgramForm]]:
    """The forms, as many at a time as are solved together. Speed alone."""
    left = iter(forms)
    for first in left:
        few = max(1, HELD // len(first.matrix) ** 2) if question.of_vectors else 1
        yield [first, *islice(left, few - 1)]


def solve_questions(forms: Sequence[np.ndarray], question: FormQuestion) -> list[FormSolution]:
    """The ends for some forms of one size; vectors are searched for together where plain streams leave much apart.

    Guarantee: that of `solve_question`, form by form.
    """
    if len(forms) == 1 or not question.of_vectors:
        return [solve_question(form, question) for form in forms]
    plain = [_plainly(form, question) for form in forms]
    left = [k for k, (_, solution) in enumerate(plain) if solution is None]
    found = {k: solution for k, (_, solution) in enumerate(plain) if solution is not None}
    if left:
        stack = np.array([forms[k] for k in left])
        duals = solve_duals(stack, tolerance=question.tolerance, roughly=True)
        for k, dual in zip(left, duals, strict=True):
            found[k] = _by_vectors(forms[k], question, dual, *plain[k][0])
    return [found[k] for k in range(len(forms))]


def _by_vectors(
    form: np.ndarray, question: FormQuestion, dual: DualSolution, attained: float, bound: float
) -> FormSolution:
    """The ends for one form from a dual solution, beside those of plain streams and sizes, which are known.

    Guarantee: that of `solve_form`, which says what there is to say where nothing was proved.
    """
    value = dual.attained - value_error(form, bound, dual.streams.shape[1])
    if dual.y is None or attained >= value or bound <= dual.bound:
        return solve_form(form, contribution=question.contribution, tolerance=question.tolerance, dual=dual)
    return FormSolution(attained=value, bound=dual.bound, method="dual", witness=dual.streams, y=dual.y)


def solve_question(form: np.ndarray, question: FormQuestion, start: np.ndarray | None = None) -> FormSolution:
    """The ends for one form; for vectors in all rounds plain streams serve where they leave little apart.

    Else the search begins at `start`, if that is given.

    Of a form whose squares overflow nothing is known.

    Guarantee: attained ≤ Δ² ≤ bound for the form as stored.
    Source: docs/mathematics.md, section 3.
    """
    _, plain = _plainly(form, question)
    if plain is not None:
        return plain
    contribution, participation = question.contribution, question.participation
    if contribution == "energy":
        return solve_energy(form, participation)
    if question.of_vectors:
        return solve_form(form, contribution=contribution, tolerance=question.tolerance, start=start)
    return solve_participation(form, participation, contribution=contribution, tolerance=question.tolerance)


def _plainly(form: np.ndarray, question: FormQuestion) -> tuple[tuple[float, float], FormSolution | None]:
    """The ends that plain streams and sizes give, and a solution if that is enough, or squares overflow; else None.

    Guarantee: ends that hold: a constant or alternating stream attains the one, row sums of sizes bound the other. A
    form whose squares leave the range of floats gets an infinite bound, which the cap replaces.
    """
    if not np.abs(form).max(initial=0.0) <= LARGEST_ENTRY:
        stream = earliest_pattern(question.participation, len(form)).astype(np.float64)
        return (0.0, np.inf), FormSolution(attained=0.0, bound=np.inf, method="cap", witness=stream, y=None)
    if not question.of_vectors:
        return (0.0, np.inf), None
    attained, bound = map(float, plain_ends(form))
    if not bound <= attained * (1 + question.tolerance / 4):
        return (attained, bound), None
    signs = max((constant_signs(len(form)), alternating_signs(len(form))), key=lambda c: value_of(form, c))
    return (attained, bound), FormSolution(
        attained=attained,
        bound=summed_again(bound),
        method="abs",
        witness=signs,
        y=np.abs(form).sum(axis=1),
    )
