# SPDX-License-Identifier: Apache-2.0
"""Contributions of bounded energy, Σ‖c_t‖² ≤ 1: Δ² is the largest eigenvalue of M.

    max Σ_st M_st ⟨c_s, c_t⟩ over Σ‖c_t‖² ≤ 1  =  λ_max(M),

attained by numbers c_t, the top eigenvector: more dimensions add nothing. Within a pattern π it is λ_max of M on π
× π, which is at most λ_max of the whole M, since restricting a form to a subspace lowers its largest eigenvalue.

Soundness: `proved_level` above, the value of a stored vector less `value_error` below.
Source: docs/mathematics.md, section 3; docs/protocols.md, Energy; docs/proofs/spectra.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sottovoce.sensitivities.one_form.dual import proved_level
from sottovoce.sensitivities.one_form.patterns import ENUMERABLE_PATTERNS, earliest_pattern
from sottovoce.sensitivities.one_form.solution import FormSolution
from sottovoce.sensitivities.one_form.witnesses import value_of
from sottovoce.sensitivities.rounding import value_error

if TYPE_CHECKING:
    from sottovoce.participation import Participation

__all__ = ["solve_energy"]


def solve_energy(form: np.ndarray, participation: Participation) -> FormSolution:
    """The ends of max_π max Σ_{s,t ∈ π} M_st ⟨c_s, c_t⟩ over Σ‖c_t‖² ≤ 1: the largest λ_max of M on a pattern.

    Guarantee: attained ≤ Δ² ≤ bound for the form as stored. Where there are too many patterns to go through, λ_max
    of the whole M bounds them all.
    Source: Le Ny & Pappas, Differentially private filtering, 2014.

    >>> from sottovoce.participation import Participation
    >>> round(solve_energy(np.array([[2.0, -1.0], [-1.0, 2.0]]), Participation.full()).bound, 9)
    3.0
    """
    rounds, sizes = len(form), float(np.abs(form).sum())
    if participation.kind == "full":
        patterns = [np.arange(rounds)]
    elif participation.is_listed or participation.pattern_count(rounds) <= ENUMERABLE_PATTERNS:
        patterns = list(participation.patterns(rounds))
    else:
        patterns = [np.flatnonzero(earliest_pattern(participation, rounds))]
    witness, attained, bound = np.zeros(rounds), 0.0, 0.0
    for pattern in patterns:
        # Whose first round comes after the last one contributes nothing.
        if not pattern.size:
            continue
        part = form[np.ix_(pattern, pattern)]
        direction = np.linalg.eigh(part)[1][:, -1]
        stream = np.zeros(rounds)
        stream[pattern] = direction / np.linalg.norm(direction)
        # Σ|M_st||c_s||c_t| ≤ Σ|M_st|; the norm may be above 1 by γ_T, which is counted with it.
        value = value_of(form, stream) - value_error(form, sizes)
        witness, attained = (stream, value) if value >= attained else (witness, attained)
        bound = max(bound, proved_level(part))
    if not participation.is_listed and len(patterns) == 1:
        bound = proved_level(form)
    return FormSolution(attained=attained, bound=bound, method="spectral", witness=witness, y=None)
