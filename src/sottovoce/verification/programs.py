# SPDX-License-Identifier: Apache-2.0
"""A claim about any program, checked from the definition of what its observer sees.

A view of a program shows G c + N u: c what the target contributes, u all draws that the observer does not know, N
and G matrices of rationals. `fresh` finds independent rows of it, `definition` follows them to N and G and bounds M
= Gᵀ(N Nᵀ)⁻¹G, and `ends` puts y and witness against M. Plain gossip could go this way as well, and does in tests;
its own road (`forms`) is cheaper, because N is block Toeplitz there.

Three things can be said without M:

* what stands beside no unknown noise at all makes Δ infinite, decided exactly (`Fresh.bare`);
* where a contribution enters everywhere as κ_t times a draw of the target, M ⪯ diag(κ_t²) (`own_cap`);
* a claim beyond `MOST_ROWS` and `MOST_NUMBERS` is refused before work.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.certificates import DenseProof
from sottovoce.errors import NotCertified
from sottovoce.protocols import float_above
from sottovoce.verification.backwards import Budget
from sottovoce.verification.combined import MOST_COMBINED, combined_noise
from sottovoce.verification.definition import program_form, seen_noise
from sottovoce.verification.ends import (
    Check,
    cap_end,
    guaranteed,
    lower_end,
    no_lower_end,
    taking_part,
    upper_end,
)
from sottovoce.verification.fresh import fresh_rows
from sottovoce.verification.meaning import MOST_NUMBERS
from sottovoce.verification.ports import port

if TYPE_CHECKING:
    from sottovoce.certificates import Certificate
    from sottovoce.participation import Participation
    from sottovoce.verification.forms import ComputedForm
    from sottovoce.verification.fresh import Fresh
    from sottovoce.verification.meaning import ProgramQuestion

__all__ = ["own_cap", "require_affordable", "seen_form", "verify_program"]

# Rows seen in all rounds: K = N Nᵀ of 3000 rows takes 72 MB, and is factorised several times.
MOST_ROWS = 3000


def verify_program(
    certificate: Certificate, asked: ProgramQuestion, participation: Participation, checks: list[Check]
) -> tuple[float, float, list[str]]:
    """Any program: N and G from its definition, then y and the witness against M.

    Both ends use the same form: nothing was given to the observer or taken from it, because known draws have no
    column in N and every row of the view stays in the span of the rows that are kept.

    Guarantee: lower ≤ Δ² ≤ upper, rounding included; an infinite upper end proves nothing.
    Source: docs/certificates.md, steps 4 to 6 for other programs; `definition.program_form`.
    """
    proof, rounds = certificate.proof, certificate.rounds
    if not isinstance(proof, DenseProof):
        raise NotCertified(
            f"a proof of kind {proof.kind} is checked for plain gossip alone (take kind dense)"
        )
    if proof.y is None and proof.witness is None:
        cap = own_cap(certificate, asked, participation)
        checks += [cap_end(certificate, cap), no_lower_end(certificate)]
        return 0.0, cap, []
    require_affordable(asked, columns=1 if proof.witness is None else proof.witness.shape[1])
    budget = Budget()
    fresh = fresh_rows(asked.rounds, asked.seen, rounds, budget)
    kept = sum(len(each.drawn) for each in fresh.rounds)
    checks.append(Check("rationals", True, f"{kept} of {asked.rows} rows are independent, decided exactly"))
    if bare := fresh.bare.intersection(taking_part(participation, rounds).tolist()):
        found = (
            f"Δ is infinite: what {certificate.target!r} contributes in round {min(bare) + 1} is seen beside no noise "
            "that the observer does not know"
        )
        checks.append(Check("upper end", False, found))
        return 0.0, math.inf, []
    form = seen_form(asked, fresh, budget)
    upper, check = upper_end(certificate, proof, participation, form, math.inf)
    checks.append(check)
    lower, check = lower_end(certificate, proof, participation, form)
    checks.append(check)
    return lower, upper, []


def seen_form(asked: ProgramQuestion, fresh: Fresh, budget: Budget) -> ComputedForm:
    """M of what is seen; rows that floats cannot tell from dependent ones are combined exactly, if they are few.

    Guarantee: that of `program_form`.
    """
    try:
        return program_form(seen_noise(asked.rounds, fresh.rounds, asked.code, budget))
    except NotCertified:
        if sum(len(each.drawn) for each in fresh.rounds) * asked.draws > MOST_COMBINED:
            raise
        return program_form(combined_noise(asked.rounds, fresh.rounds, asked.code, budget))


def own_cap(certificate: Certificate, asked: ProgramQuestion, participation: Participation) -> float:
    """What the target's own noise guarantees; infinite where that is nothing, or where an encoder mixes its rounds.

    Guarantee: Δ² ≤ the result. κ² is a rational, rounded up to a float, and `guaranteed` rounds its sum up.
    Source: noise κ_t c_t on the target's own draws looks like the stream c, so M ⪯ diag(κ_t²) (`ports.port`).
    """
    ports = [port(each) for each in asked.rounds]
    if asked.code != (Fraction(1),) or any(found is None for found in ports):
        return math.inf
    squares = [float_above(found * found) for found in ports if found is not None]
    return guaranteed(
        certificate, participation, np.array([squares[t % len(squares)] for t in range(asked.count)])
    )


def require_affordable(asked: ProgramQuestion, *, columns: int = 1) -> None:
    """Refuse a question whose N and G, or a witness of so many columns, are more than is rebuilt here.

    Counted are numbers that will be held at once: N of rows × draws, NᵀZ of draws × columns, and what a round's
    rows say of all kept registers (`widest`), which are whole numbers of any length. `certify` asks the same
    beforehand.
    """
    n = asked.rounds[0].n
    numbers = max(asked.draws * max(asked.rows, columns), asked.widest)
    if asked.rows > MOST_ROWS or numbers > MOST_NUMBERS:
        raise NotCertified(
            f"this claim is too large to be rebuilt densely: {asked.rows} rows in {asked.count} rounds, {asked.draws} "
            f"unknown draws of {n} nodes (at most {MOST_ROWS} rows, and {MOST_NUMBERS} rows x draws; take fewer "
            "rounds, a smaller view or a smaller network)"
        )
