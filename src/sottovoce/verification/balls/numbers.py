# SPDX-License-Identifier: Apache-2.0
"""Balls: midpoints with a proved radius, at a precision that is raised until a question is decided.

A ball of python-flint holds the number that it stands for, whatever was done to get there. So a comparison of balls
that says yes, or no, is a proof, and what cannot be told is neither. Nothing here knows of rounding errors.

`x > 0` of a ball is true only if all of it is above 0. `not x > 0` is therefore no proof that x ≤ 0, and every
question has three answers: True, False, and None for "not at this precision". None is never taken for True.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from flint import arb, ctx, fmpq, fmpq_mat

from sottovoce.protocols import float_below

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from flint import arb_mat

    from sottovoce.participation import Participation

__all__ = [
    "PRECISIONS",
    "decided",
    "diagonal",
    "fraction",
    "largest_sum",
    "matrix",
    "positive",
    "proved_below",
    "rational",
]

# In bits. What is not decided by the last of them is not decided here.
PRECISIONS = (128, 256, 512)


def rational(number: Fraction | float | int) -> fmpq:
    """A rational of python-flint; a float is the rational that it is.

    Guarantee: exact.
    """
    return fmpq(*number.as_integer_ratio())


def fraction(number: fmpq) -> Fraction:
    """A rational of Python.

    Guarantee: exact.
    """
    return Fraction(int(number.p), int(number.q))


def matrix(rows: Sequence[Mapping[int, Fraction]], columns: Iterable[int]) -> fmpq_mat:
    """Sparse exact rows on some columns, as an exact matrix.

    Guarantee: exact; entries outside `columns` are left out.
    """
    chosen, nothing = list(columns), fmpq(0)
    return fmpq_mat(
        len(rows),
        len(chosen),
        [rational(row[j]) if j in row else nothing for row in rows for j in chosen],
    )


def diagonal(numbers: Sequence[fmpq]) -> fmpq_mat:
    """The matrix with some numbers on its diagonal."""
    size, nothing = len(numbers), fmpq(0)
    return fmpq_mat(
        size, size, [x if i == j else nothing for i, x in enumerate(numbers) for j in range(size)]
    )


def positive(symmetric: arb_mat) -> bool | None:
    """Whether a symmetric matrix is positive semidefinite; None where its balls are too wide to tell.

    By elimination, S = L D Lᵀ: the pivots D are to be positive. A pivot of exactly 0 is passed over if its row is
    0.

        row_i ← row_i − (row_i)_k / pivot_k · row_k,   on the upper triangle alone, which stands for both.

    After steps 1..k what is left is the Schur complement; S ⪰ 0 if and only if the pivots so far are positive and
    it is ⪰ 0. So a negative pivot is a vector on which S is negative.

    Guarantee: True and False are proved.
    Source: Horn and Johnson, Matrix Analysis, Theorem 7.7.7 (Schur complements).
    """
    rows = symmetric.tolist()
    for k, row in enumerate(rows):
        pivot, rest = row[k], row[k + 1 :]
        if pivot.is_zero() and all(x.is_zero() for x in rest):
            continue
        if not pivot > 0:
            return False if pivot < 0 else None
        for i in range(k + 1, len(rows)):
            if not row[i].is_zero():
                factor, below = row[i] / pivot, rows[i]
                for j in range(i, len(rows)):
                    below[j] -= factor * row[j]
    return True


def decided(holds: Callable[[], bool | None]) -> bool | None:
    """The answer to a question at the first precision that gives one; None where none does.

    `holds` is asked anew at each precision, and has to make its balls from rationals then.

    Guarantee: an answer is proved if `holds` proves its answers.
    """
    for bits in PRECISIONS:
        with ctx.workprec(bits):
            answer = holds()
        if answer is not None:
            return answer
    return None


def proved_below(value: Callable[[], arb]) -> float:
    """The largest float that a number is proved to reach: at a precision that leaves no other, or at the last one.

    Guarantee: the number is at least the result, which is −∞ where no precision gives a finite ball.
    """
    low = float("-inf")
    for bits in PRECISIONS:
        with ctx.workprec(bits):
            ball = value()
            if not ball.is_finite():
                continue
            low, high = (_float_below(end) for end in (ball.lower(), ball.upper()))
        if low == high:
            break
    return low


def _float_below(exact: arb) -> float:
    """The largest float that is not above a ball without radius."""
    return float_below(fraction(exact.fmpq()))


def largest_sum(participation: Participation, values: Sequence[Fraction]) -> Fraction:
    """The largest sum of values, none of them negative, over the rounds of one pattern; exact.

        separated by b:   best(t, k) = max(best(t − 1, k), value_t + best(t − b, k − 1))

    Guarantee: exact, the maximum over all patterns of the family.

    >>> from sottovoce.participation import Participation
    >>> largest_sum(Participation.separated(2, at_most=2), [Fraction(x) for x in (3, 4, 3, 1, 2)])
    Fraction(6, 1)
    """
    count = participation.largest_count(len(values))
    match participation.kind:
        case "at-most":
            return sum(sorted(values)[-count:], Fraction(0))
        case "separated":
            # best[t][k] is the largest sum over k of the first t rounds, at most.
            best = [[Fraction(0)] * (count + 1)]
            for t, value in enumerate(values):
                before = best[max(0, t + 1 - participation.size)]
                taken = (value + before[k - 1] for k in range(1, count + 1))
                best.append([Fraction(0), *map(max, best[t][1:], taken)])
            return best[-1][count]
        case _:
            patterns = participation.patterns(len(values))
            return max(sum((values[t] for t in pattern), Fraction(0)) for pattern in patterns)
