# SPDX-License-Identifier: Apache-2.0
"""One quadratic form M → the interval of Δ² = max Σ_st M_st ⟨c_s, c_t⟩, with what proves each end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.sensitivities.one_form.bounds import absolute_bound, spectral_bound
from sottovoce.sensitivities.one_form.dual import solve_dual
from sottovoce.sensitivities.one_form.witnesses import (
    ENUMERABLE,
    alternating_signs,
    best_signs,
    constant_signs,
    enumerated_signs,
    value_of,
)

if TYPE_CHECKING:
    from sottovoce.protocols import Contribution

__all__ = ["CLOSE", "FormSolution", "plain_ends", "solve_form"]

# Where the absolute-value bound and a plain witness are this close, nothing finer is tried.
CLOSE = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class FormSolution:
    """What is known of one form as stored: attained ≤ Δ² ≤ bound, the stream and the y that prove it.

    `y` is None where the bound is not of the form Σ y_t (enumeration).
    """

    attained: float
    bound: float
    method: str
    witness: np.ndarray
    y: np.ndarray | None


def plain_ends(forms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For a stack of forms: the better of constant and alternating signs, and the absolute-value bound."""
    signs = alternating_signs(forms.shape[-1])
    attained = np.maximum(forms.sum(axis=(-2, -1)), (forms @ signs) @ signs)
    return attained, absolute_bound(forms)


def solve_form(form: np.ndarray, *, contribution: Contribution, tolerance: float) -> FormSolution:
    """The best certified ends of Δ² for one form.

    Constant signs where M ≥ 0 makes them optimal; all sign patterns for scalars up to `ENUMERABLE` rounds; else the
    dual solution, whose vectors witness the lower end for vectors and are rounded to signs for scalars.

    Guarantee: attained ≤ Δ² ≤ bound for the form as stored, up to rounding in the sums (a relative 1e-13 is added).
    """
    y = np.abs(form).sum(axis=1)
    plain = max((constant_signs(len(form)), alternating_signs(len(form))), key=lambda c: value_of(form, c))
    attained = value_of(form, plain)
    absolute = FormSolution(
        attained=attained, bound=float(y.sum()) * (1 + 1e-13), method="abs", witness=plain, y=y
    )
    if absolute.bound <= attained * (1 + CLOSE):
        return absolute
    if contribution == "scalar" and len(form) <= ENUMERABLE:
        signs = enumerated_signs(form)
        value = value_of(form, signs)
        return FormSolution(
            attained=value, bound=value * (1 + 1e-13), method="enumeration", witness=signs, y=None
        )
    dual = solve_dual(form, tolerance=tolerance)
    witness = best_signs(form, dual.streams) if contribution == "scalar" else dual.streams
    if contribution == "vector" and value_of(form, plain) >= dual.attained:
        witness = plain
    bounds = [(dual.bound, "dual", dual.y), (absolute.bound, "abs", y)]
    if dual.y is None:
        spectral = float(spectral_bound(form))
        bounds.append((spectral, "spectral", np.full(len(form), spectral / len(form))))
    bound, method, proof = min(bounds, key=lambda entry: entry[0])
    return FormSolution(
        attained=value_of(form, witness), bound=bound, method=method, witness=witness, y=proof
    )
