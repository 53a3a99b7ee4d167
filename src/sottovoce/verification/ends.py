# SPDX-License-Identifier: Apache-2.0
"""The two ends of a dense claim: what y proves of a form from above, and what the witness attains.

The form is M = Gᵀ K⁻¹ G, T × T, and for streams c of rows c_t

    Δ² = max over patterns π and streams on π of Σ_{s,t} M_st ⟨c_s, c_t⟩,   ‖c_t‖ ≤ 1.

*From above.* If diag(y) ⪰ M on the rounds of π, the value is at most Σ_{t ∈ π} y_t ‖c_t‖² ≤ Σ_{t ∈ π} y_t, in every
dimension (weak duality of the semidefinite relaxation). Where Σ‖c_t‖² ≤ 1 (contribution "energy") it is at most the
largest y_t. *From below.* Any stream that is allowed attains what it attains.

So y and witness are hints: whatever they are, what is returned is proved. Where y misses diag(y) ⪰ M by a little,
`forms.dominating` raises it, and the sum of the raised one is compared with the claim.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sottovoce.verification.forms import dominating
from sottovoce.verification.rounding import is_unit, roundings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.certificates import Certificate, DenseProof
    from sottovoce.participation import Participation
    from sottovoce.verification.forms import ComputedForm

__all__ = [
    "Check",
    "cap_end",
    "guaranteed",
    "joint_rounds",
    "lower_end",
    "no_lower_end",
    "taking_part",
    "upper_end",
]

# What is proved with a smaller y is proved; more than this could overflow.
_LARGEST_Y = 1e100


class Check(NamedTuple):
    """One step: its name, whether it holds, and what was found.

    `name` is a word that verdict and tests look for, such as "weights" or "upper end"; `detail` is a sentence for a
    person, and no code reads it.
    """

    name: str
    holds: bool
    detail: str


def cap_end(certificate: Certificate, cap: float) -> Check:
    """Without y, the upper end is what a target's own noise guarantees: of gossip, the rounds it may contribute in.

    Guarantee: holds only where Δ² ≤ cap ≤ claim; `cap` itself is proved by who passes it.
    Source: M ⪯ diag(κ²), `ports.port`; for gossip κ = 1.
    """
    claim = certificate.squared_upper
    if math.isinf(cap):
        return Check("upper end", False, f"no y is there to prove the claimed {claim!r}")
    rounds = " rounds" if certificate.damping is not None and certificate.contribution != "energy" else ""
    return Check("upper end", cap <= claim, f"without y, Δ² ≤ {cap:g}{rounds}; claimed {claim!r}")


def no_lower_end(certificate: Certificate) -> Check:
    """Without a witness, nothing above 0 may be claimed.

    Guarantee: Δ² ≥ 0 is true of every M ⪰ 0.
    """
    claim = certificate.squared_lower
    if claim <= 0:
        return Check("lower end", True, "without a witness, Δ² ≥ 0")
    return Check("lower end", False, f"no witness is there to prove the claimed {claim!r}")


def upper_end(
    certificate: Certificate, proof: DenseProof, participation: Participation, form: ComputedForm, cap: float
) -> tuple[float, Check]:
    """The upper end that y proves (or the cap), and whether it reaches the claim.

    Where patterns are known (full, fixed, every) y has to dominate M on each of them alone, which asks less than on
    all rounds. What it was raised to is joined by maxima, and summed over the worst pattern.

    Guarantee: Δ² ≤ the first value, whatever y is. Both `dominating` and `largest_sum` round to the safe side, and
    the comparison with the claim is one of two floats, exact.
    Source: weak duality; Nesterov, Semidefinite relaxation and nonconvex quadratic optimization (1998).
    """
    claim = certificate.squared_upper
    if proof.y is None:
        return cap, cap_end(certificate, cap)
    if (proof.y < 0).any():
        t = int(np.argmax(proof.y < 0))
        return cap, Check(
            "upper end", False, f"y must not be negative; in round {t + 1} it is {float(proof.y[t])!r}"
        )
    y = np.minimum(proof.y, _LARGEST_Y)
    raised = np.array(y)
    least = math.inf
    for rounds in joint_rounds(participation, certificate.rounds):
        proved, eigenvalue = dominating(form, y, rounds)
        raised = np.maximum(raised, proved)
        least = min(least, eigenvalue)
    plain, proved_sum = (guaranteed(certificate, participation, each) for each in (y, raised))
    upper = min(proved_sum, cap)
    holds = upper <= claim
    scaled = f"least eigenvalue {least:.3e} at unit diagonal, margin {form.margin:.1e}"
    if holds:
        detail = f"diag(y) ⪰ M is proved and y sums to at most {upper!r} over a pattern ({scaled})"
    elif plain > claim:
        detail = f"y sums to {plain!r} over the worst pattern, above the claimed {claim!r}"
    else:
        detail = f"diag(y) − M is not proved positive semidefinite ({scaled}); proved Δ² ≤ {upper!r}"
    return upper, Check("upper end", holds, detail)


def guaranteed(certificate: Certificate, participation: Participation, y: NDArray[np.float64]) -> float:
    """What diag(y) ⪰ M guarantees: the largest sum of y over a pattern; of bounded energy, the largest y in one.

    Guarantee: not below max_π Σ_{t ∈ π} y_t; a maximum of floats does not round, and `largest_sum` rounds up.
    Source: Σ y_t ‖c_t‖² ≤ Σ y_t for ‖c_t‖ ≤ 1, and ≤ max y_t for Σ‖c_t‖² ≤ 1.
    """
    if certificate.contribution == "energy":
        return float(y[taking_part(participation, certificate.rounds)].max(initial=0.0))
    return float(participation.largest_sum(y))


def taking_part(participation: Participation, rounds: int) -> NDArray[np.int64]:
    """The rounds, counted from 0, in which some pattern lets a target contribute."""
    return np.unique(np.concatenate(joint_rounds(participation, rounds)))


def joint_rounds(participation: Participation, rounds: int) -> list[NDArray[np.int64]]:
    """The sets of rounds on which y must dominate M: each known pattern, or all rounds for a large family.

    Guarantee: every allowed pattern is part of one of the sets. Patterns of at-most, separated and epochs are
    exponentially many; domination on all rounds implies it on each, as a principal submatrix of a semidefinite
    matrix is one.
    """
    if not participation.is_listed:
        return [np.arange(rounds)]
    return list(participation.patterns(rounds))


def lower_end(
    certificate: Certificate, proof: DenseProof, participation: Participation, form: ComputedForm
) -> tuple[float, Check]:
    """The lower end that the witness proves, and whether it reaches the claim.

    A witness that was written in floats may be longer than 1 by rounding; up to 10⁻⁹ it is accepted and divided by
    its length. `longest` is that of its longest row (for energy, of all rows together), rounded up by (size + 8)u:
    sums of d or T·d squares, a root, and the product with `largest`.

    Guarantee: Δ² ≥ the first value. The form is quadratic, so shrinking the witness by `longest` divides its value
    by longest²; a square, a quotient and a product round by less than 8u.
    Source: any stream within norm 1 and within the pattern bounds the maximum from below.
    """
    claim, witness = certificate.squared_lower, proof.witness
    if witness is None:
        return 0.0, no_lower_end(certificate)
    # Divided by its largest entry first, so that no square over- or underflows; by its longest row, it has norm 1.
    largest = float(np.abs(witness).max(initial=0.0))
    scaled = witness / largest if largest > 0 else witness
    norms = np.sqrt(np.square(scaled).sum(axis=1))
    where = f"in round {int(np.argmax(norms)) + 1}"
    if certificate.contribution == "energy":
        norms, where = np.sqrt(np.square(norms).sum(keepdims=True)), "over all rounds"
    longest = float(norms.max(initial=0.0)) * (1 + roundings(witness.size + 8))
    if not is_unit(largest * longest):
        found = f"the witness must stay within norm 1; {where} it has {largest * longest!r}"
        return 0.0, Check("lower end", False, found)
    if certificate.contribution == "scalar" and witness.shape[1] != 1:
        return 0.0, Check(
            "lower end", False, f"a scalar witness has one column; this one has {witness.shape[1]}"
        )
    if not participation.allows(np.flatnonzero(witness.any(axis=1)), certificate.rounds):
        return 0.0, Check(
            "lower end", False, f"the witness contributes in rounds that {participation} does not allow"
        )
    if largest == 0:
        return 0.0, Check("lower end", claim <= 0, f"the witness attains 0.0; claimed {claim!r}")
    value = max(0.0, form.attains(scaled) / longest**2 * (1 - roundings(8)))
    return value, Check(
        "lower end", value >= claim, f"the witness attains at least {value!r}; claimed {claim!r}"
    )
