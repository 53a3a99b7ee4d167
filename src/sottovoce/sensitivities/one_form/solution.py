# SPDX-License-Identifier: Apache-2.0
"""One quadratic form M → the interval of Δ² = max Σ_st M_st ⟨c_s, c_t⟩, with what proves each end.

M = `form` is symmetric, T × T, positive semidefinite up to rounding; c_t are signs ("scalar") or vectors of norm
at most 1 in any dimension ("vector"). Three questions are asked, the cheapest first:

1. Do Σ|M_st| and constant or alternating signs meet? They do where M ≥ 0, and where M_st has the sign of
   (−1)^(s+t).
2. Are there few enough rounds to go through all signs? Then their maximum is Δ² for numbers (not for vectors).
3. Else, which y with diag(y) ⪰ M has the least sum (`dual`), and which streams come closest to it (`witnesses`)?

Soundness: the ends of `bounds`, `dual` and `witnesses`, and `value_error` and `summed` for the sums.
Speed: in which order they are tried, and when to stop.
Source: docs/mathematics.md, section 3; docs/proofs/sums.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.sensitivities.one_form.bounds import absolute_bound
from sottovoce.sensitivities.one_form.dual import proved_level, solve_dual
from sottovoce.sensitivities.one_form.witnesses import (
    ENUMERABLE,
    alternating_signs,
    best_signs,
    constant_signs,
    enumerated_signs,
    value_of,
)
from sottovoce.sensitivities.rounding import summed, value_error

if TYPE_CHECKING:
    from sottovoce.protocols import Contribution
    from sottovoce.sensitivities.one_form.dual import DualSolution

__all__ = ["CLOSE", "FormSolution", "plain_ends", "solve_form"]

# Speed alone: where the absolute-value bound and a plain witness are this close, nothing finer is tried.
CLOSE = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class FormSolution:
    """What is known of one form as stored: attained ≤ Δ² ≤ bound, the stream and the y that prove it.

    `attained` is the value of `witness`, from below; `bound` is proved by the way that `method` names. `witness`
    has the shape (T,) for numbers and (T, d) for vectors. `y` has one entry a round and is None where the bound
    is not of the form Σ y_t (enumeration). A y of row sums (`abs`) is as computed: each entry may be γ_T of
    itself too small, which `bound` has room for and the y itself has not.
    """

    attained: float
    bound: float
    method: str
    witness: np.ndarray
    y: np.ndarray | None


def plain_ends(forms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For a stack of forms: the better of constant and alternating signs, and the absolute-value bound.

    Guarantee: attained ≤ Δ² ≤ bound for the forms as stored; each sum errs by γ_{2T} of the sum of sizes.
    Source: docs/proofs/sums.md.

    >>> attained, bound = plain_ends(np.array([[[2.0, -1.0], [-1.0, 2.0]]]))
    >>> attained.round(9), bound.round(9)
    (array([6.]), array([6.]))
    """
    signs, bound = alternating_signs(forms.shape[-1]), absolute_bound(forms)
    attained = np.maximum(forms.sum(axis=-1).sum(axis=-1), (forms @ signs) @ signs)
    return attained - (summed(2 * forms.shape[-1]) - 1) * bound, bound


def solve_form(
    form: np.ndarray,
    *,
    contribution: Contribution,
    tolerance: float,
    start: np.ndarray | None = None,
    dual: DualSolution | None = None,
) -> FormSolution:
    """The best certified ends of Δ² for one form.

    Constant signs where M ≥ 0 makes them optimal; all sign patterns for scalars up to `ENUMERABLE` rounds; else the
    dual solution, whose vectors witness the lower end for vectors and are rounded to signs for scalars. Its search
    begins at `start`, (T, d), if that is given; a solution that is known already is handed over as `dual`.

    Guarantee: attained ≤ Δ² ≤ bound for the form as stored, rounding in the sums included. For vectors
    the bound holds in every dimension; for numbers it does unless `method` is `enumeration`, which is
    the maximum over signs alone.
    Source: docs/mathematics.md, section 3; docs/proofs/sums.md.

    Vectors can do more than signs: three that stand 120° apart here.

    >>> M = np.array([[1.0, -0.5, -0.5], [-0.5, 1.0, -0.5], [-0.5, -0.5, 1.0]])
    >>> [round(solve_form(M, contribution=kind, tolerance=1e-6).bound, 4) for kind in ("scalar", "vector")]
    [4.0, 4.5]
    """
    y = np.abs(form).sum(axis=1) * summed(len(form))
    plain = max((constant_signs(len(form)), alternating_signs(len(form))), key=lambda c: value_of(form, c))
    bound = float(absolute_bound(form))
    attained = value_of(form, plain) - value_error(form, bound)
    if bound <= attained * (1 + CLOSE):
        return FormSolution(attained=attained, bound=bound, method="abs", witness=plain, y=y)
    if contribution == "scalar" and len(form) <= ENUMERABLE:
        signs = enumerated_signs(form)
        value = value_of(form, signs)
        # The best as computed may be beaten by one that was computed too low.
        off = value_error(form, bound) + 2 * (summed(len(form) ** 2 + 8) - 1) * bound
        return FormSolution(
            attained=value - value_error(form, bound),
            bound=value + off,
            method="enumeration",
            witness=signs,
            y=None,
        )
    if dual is None:
        dual = solve_dual(form, tolerance=tolerance, start=start)
    witness = best_signs(form, dual.streams) if contribution == "scalar" else dual.streams
    if contribution == "vector" and value_of(form, plain) >= dual.attained:
        witness = plain
    bounds = [(dual.bound, "dual", dual.y), (bound, "abs", y)]
    if dual.y is None:
        level = proved_level(form)
        bounds.append((level * len(form) * summed(2), "spectral", np.full(len(form), level)))
    bound, method, proof = min(bounds, key=lambda entry: entry[0])
    sizes, dimension = bounds[1][0], witness.size // len(form)
    return FormSolution(
        attained=value_of(form, witness) - value_error(form, sizes, dimension),
        bound=bound,
        method=method,
        witness=witness,
        y=proof,
    )
