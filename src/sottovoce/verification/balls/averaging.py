# SPDX-License-Identifier: Apache-2.0
"""A claim about averaging in balls: N, G and M = Gᵀ(N Nᵀ)⁻¹G from the definition, then y and the witness against M.

The view shows G c + N u with u standard normal, so a stream c is told from 0 with Δ² = ‖(N Nᵀ)^{-½}G c‖² = cᵀM c.
The upper end rests on diag(y) ⪰ M, which gives Σ M_st ⟨c_s, c_t⟩ ≤ Σ y_t ‖c_t‖²; the lower end on one stream.

There is no margin. y is first raised as far as the claim lets it: to M_tt where it is below, then all by one
factor. Then elimination decides. An honest claim that is true by one hair in the last of 512 bits is accepted.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from flint import arb, arb_mat

from sottovoce.certificates import DenseProof, HorizonProof
from sottovoce.errors import NotCertified
from sottovoce.protocols import Combine, float_above, spread
from sottovoce.verification.backwards import common_denominator
from sottovoce.verification.balls.numbers import (
    PRECISIONS,
    decided,
    fraction,
    largest_sum,
    positive,
    proved_below,
    rational,
)
from sottovoce.verification.balls.seen import Seen, seen
from sottovoce.verification.ends import Check, cap_end, joint_rounds, no_lower_end, taking_part
from sottovoce.verification.rounding import has_unit_square

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.certificates import Certificate
    from sottovoce.participation import Participation
    from sottovoce.verification.meaning import ProgramQuestion

__all__ = ["averaging_ends", "averaging_work"]


def averaging_work(asked: ProgramQuestion) -> float:
    """About how many operations on machine words it takes to check a claim; infinite where its numbers are too long.

    Guarantee: none about Δ²; an estimate for the choice of arithmetic, made before any work.
    """
    n, columns = asked.rounds[0].n, asked.draws + asked.count
    steps = max(len(here.program.instructions) for here in asked.rounds)
    try:
        words = 1 + _bits(asked) / 64
    except NotCertified:
        return math.inf
    # Running the program, elimination, and M.
    products = steps * asked.count * n**2 * columns + asked.rows**2 * columns * (1 + asked.rows / 50)
    return float(products * words + 100 * asked.count**3)


def _bits(asked: ProgramQuestion) -> int:
    """About how many binary digits the numbers of a run have at its end.

    Speed alone: with it the work of exact arithmetic is estimated before it is begun.
    """
    each = []
    for here in asked.rounds:
        steps = [step for step in here.program.instructions if isinstance(step, Combine)]
        numbers = [[x for value in step.terms.values() for x in spread(value, here.n)] for step in steps]
        mixing = [x for row in here.rows for x in row.values()]
        levels = [x for draw in here.program.draws for x in spread(draw.level, here.n)]
        exchanged = len(here.program.instructions) - len(steps)
        each.append(sum(map(_length, numbers)) + exchanged * _length(mixing) + _length(levels))
    return asked.count * (max(each) + _length(asked.code))


def _length(numbers: Sequence[Fraction]) -> int:
    """How many binary digits a product with one of some numbers adds."""
    return common_denominator(numbers).bit_length() + max(
        (abs(x.numerator).bit_length() for x in numbers), default=0
    )


def averaging_ends(
    certificate: Certificate, asked: ProgramQuestion, participation: Participation, checks: list[Check]
) -> tuple[float, float]:
    """What the proof of a certificate proves of Δ², from below and from above.

    Only rounds in which some pattern lets the target contribute have a column in G. `checks` takes what was found
    of ranks and of each end.

    Guarantee: both ends are proved; an upper end that is infinite, and a lower one of 0, prove nothing.
    Source: docs/certificates.md, "Two verifiers", steps 1 to 3.
    """
    rounds = taking_part(participation, certificate.rounds).tolist()
    shown = seen(asked, rounds)
    found = f"{shown.noise.nrows()} of {asked.rows} rows are independent, decided exactly"
    checks.append(Check("rationals", True, found))
    if shown.bare:
        found = (
            f"Δ is infinite: what {certificate.target!r} contributes in round {shown.bare[0] + 1} is seen beside no "
            "noise that the observer does not know"
        )
        checks.append(Check("upper end", False, found))
        return 0.0, math.inf
    upper, check = _upper_end(certificate, participation, shown, rounds)
    checks.append(check)
    lower, check = _lower_end(certificate, participation, shown, rounds)
    checks.append(check)
    return lower, upper


def _form(shown: Seen) -> arb_mat:
    """M = Gᵀ(N Nᵀ)⁻¹G at the precision at hand.

    The rows of N are independent (`seen`), so N Nᵀ has an inverse. Where balls are too wide to tell, `nonstop`
    gives entries that are not finite, and the next precision is tried.

    Guarantee: every entry of the result holds that of the exact M.
    """
    N, G = arb_mat(shown.noise), arb_mat(shown.gain)
    return G.transpose() * (N * N.transpose()).solve(G, nonstop=True)


def _upper_end(
    certificate: Certificate, participation: Participation, shown: Seen, rounds: Sequence[int]
) -> tuple[float, Check]:
    """The claim if y proves it, else what the target's own noise guarantees; and whether it reaches the claim.

    Every pattern has to be dominated: one refutation refutes, one that is undecided leaves the claim undecided.

    Guarantee: Δ² ≤ the first value. It is never below the claim unless the cap is: balls prove what is claimed, and
    do not look for less.
    Source: weak duality, as in `sottovoce.verification.ends`.
    """
    cap, claim = _cap(certificate, participation, shown, rounds), certificate.squared_upper
    y = _hints(certificate)
    if y is None:
        return cap, cap_end(certificate, cap)
    if any(number < 0 for number in y):
        t = next(t for t, number in enumerate(y) if number < 0)
        found = f"y must not be negative; in round {t + 1} it is {float(y[t])!r}"
        return cap, Check("upper end", False, found)
    if (total := _guaranteed(certificate, participation, y)) > claim:
        found = f"y sums to {float_above(total)!r} over the worst pattern, above the claimed {claim!r}"
        return cap, Check("upper end", cap <= claim, found)

    def dominates() -> bool | None:
        M = _form(shown)
        patterns = joint_rounds(participation, certificate.rounds)
        answers = [_dominates(certificate, participation, M, y, rounds, each.tolist()) for each in patterns]
        return False if False in answers else None if None in answers else True

    holds = decided(dominates)
    if holds:
        found = f"diag(y) ⪰ M is proved in balls, and with it Δ² ≤ {claim!r}"
        return min(claim, cap), Check("upper end", True, found)
    refuted = "balls refute it" if holds is False else f"balls of {PRECISIONS[-1]} bits do not decide it"
    found = f"diag(y) − M is not proved positive semidefinite: {refuted}"
    return cap, Check("upper end", cap <= claim, found)


def _hints(certificate: Certificate) -> list[Fraction] | None:
    """The y of every round, as the rationals that the file holds; None where a dense proof has none.

    Guarantee: exact: a float is a rational. They are only hints: what they prove is computed from them.
    """
    proof = certificate.proof
    if isinstance(proof, HorizonProof):
        later = [Fraction(proof.rate)] * (certificate.rounds - proof.start.size)
        return [*map(Fraction, proof.start.tolist()), *later]
    assert isinstance(proof, DenseProof)
    return None if proof.y is None else [Fraction(number) for number in proof.y.tolist()]


def _guaranteed(certificate: Certificate, participation: Participation, y: Sequence[Fraction]) -> Fraction:
    """What diag(y) ⪰ M guarantees: the largest sum of y over a pattern; of bounded energy, the largest y in one.

    Guarantee: exact.
    """
    if certificate.contribution == "energy":
        taking = taking_part(participation, certificate.rounds)
        return max((y[int(t)] for t in taking), default=Fraction(0))
    return largest_sum(participation, y)


def _dominates(
    certificate: Certificate,
    participation: Participation,
    M: arb_mat,
    y: Sequence[Fraction],
    rounds: Sequence[int],
    pattern: Sequence[int],
) -> bool | None:
    """Whether diag(y) ⪰ M on the rounds of a pattern, M being given on `rounds`.

    No y below M_tt can do, so it is raised to that; then all are raised by one factor to what is claimed. Neither
    costs anything: what they come to stays within the claim.

    M_tt is a ball. Its lower ends give what y has to be at least: if that already exceeds the claim, y is refuted.
    Its upper ends are what y is raised to: if only these exceed it, the precision does not decide.

    Guarantee: True says that some y' ≥ y has diag(y') ⪰ M and comes to the claim at most; False, that y cannot.
    """
    place = {t: k for k, t in enumerate(rounds)}
    least = [M[place[t], place[t]] for t in pattern]
    if not all(number.is_finite() for number in least):
        return None
    claim = Fraction(certificate.squared_upper)
    for end in (arb.lower, arb.upper):
        raised = [Fraction(0)] * certificate.rounds
        for t, number in zip(pattern, least, strict=True):
            raised[t] = max(y[t], fraction(end(number).fmpq()))
        total = _guaranteed(certificate, participation, raised)
        if total > claim:
            return False if end is arb.lower else None
    factor = claim / total if total else Fraction(1)
    return positive(
        arb_mat(
            [
                [
                    (arb(rational(factor * raised[t])) if s == t else 0) - M[place[s], place[t]]
                    for t in pattern
                ]
                for s in pattern
            ]
        )
    )


def _cap(certificate: Certificate, participation: Participation, shown: Seen, rounds: Sequence[int]) -> float:
    """What the target's own noise guarantees: M ⪯ diag(κ²), for the noise κ c looks like the contributions c.

    Guarantee: Δ² ≤ the result, a rational rounded up; infinite where some contribution has no such draw.
    """
    if any(share is None for share in shown.own):
        return math.inf
    squares = [Fraction(0)] * certificate.rounds
    for t, share in zip(rounds, shown.own, strict=True):
        assert share is not None
        squares[t] = fraction(share) ** 2
    return float_above(_guaranteed(certificate, participation, squares))


def _lower_end(
    certificate: Certificate, participation: Participation, shown: Seen, rounds: Sequence[int]
) -> tuple[float, Check]:
    """What the witness attains, brought to norm 1 at most: Σ M_st ⟨c_s, c_t⟩; and whether it reaches the claim.

    Divided by its longest squared row, a witness that is too short is lengthened too: the form is quadratic.

    Guarantee: Δ² ≥ the first value, the lower end of a ball.
    """
    claim, proof = certificate.squared_lower, certificate.proof
    witness = proof.witness if isinstance(proof, DenseProof) else None
    if witness is None:
        return 0.0, no_lower_end(certificate)
    if failure := _no_witness(certificate, participation, witness):
        return 0.0, Check("lower end", False, failure)
    squares = _squares(certificate, witness)
    longest = max(squares)
    if not longest:
        return 0.0, Check("lower end", claim <= 0, f"the witness attains 0.0; claimed {claim!r}")

    def attained() -> arb:
        c = arb_mat([[arb(x) for x in witness[t]] for t in rounds])
        return (c.transpose() * _form(shown) * c).trace() / arb(rational(longest))

    value = max(0.0, proved_below(attained))
    return value, Check(
        "lower end", value >= claim, f"the witness attains at least {value!r}; claimed {claim!r}"
    )


def _squares(certificate: Certificate, witness: np.ndarray) -> list[Fraction]:
    """The squared norms that must stay within 1: of each round, or for bounded energy of all together; exact."""
    squares = [sum((Fraction(x) ** 2 for x in row), Fraction(0)) for row in witness.tolist()]
    return [sum(squares, Fraction(0))] if certificate.contribution == "energy" else squares


def _no_witness(certificate: Certificate, participation: Participation, witness: np.ndarray) -> str:
    """Why a witness is none; empty if it is one.

    Guarantee: empty only if the stream is one that the certificate allows: its squares are compared in rationals,
    with room for the rounding of norms that are 1 in floats.
    """
    squares = _squares(certificate, witness)
    longest = max(squares)
    if not has_unit_square(longest):
        energy = certificate.contribution == "energy"
        where = "over all rounds" if energy else f"in round {squares.index(longest) + 1}"
        return f"the witness must stay within norm 1; {where} it has {math.sqrt(float_above(longest))!r}"
    if certificate.contribution == "scalar" and witness.shape[1] != 1:
        return f"a scalar witness has one column; this one has {witness.shape[1]}"
    if not participation.allows(np.flatnonzero(witness.any(axis=1)), certificate.rounds):
        return f"the witness contributes in rounds that {participation} does not allow"
    return ""
