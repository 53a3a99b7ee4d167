# SPDX-License-Identifier: Apache-2.0
"""The span of exact rows: what is independent of what, decided in rational numbers within a budget of work.

Δ² jumps where the rank of what is seen jumps: the complete graph of 6 nodes, two observers, five rounds, has 1.25,
and
3.75 after its weights move by 10⁻⁶. So ranks are never decided in floats. Rows are dictionaries from column to
rational; zeros are not stored.

A column j ≥ 0 is a hidden node. A negative column −1 − i stands for the known node i: it rides along, so that a
combination whose hidden part cancels still says what it tells about known nodes (`hidden`).
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import NotCertified

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.verification.meaning import ExactRow

__all__ = ["Span", "surely_independent"]

# Products of rationals, counted in words of 64 bits; a million take a few seconds.
MOST_WORK = 1_500_000
# A prime p whose residues have products below 2⁶², so that int64 holds them and a difference of two.
_PRIME = 2**31 - 1


class Span:
    """A growing span of exact rows in echelon form, with pivots on the non-negative columns alone.

    `lines` maps each pivot to its line, scaled to 1 there, in the order in which they came; `work` counts products
    so far. A line has 0 at the pivots of the lines before it, not at those after it.
    """

    def __init__(self) -> None:
        self.lines: dict[int, ExactRow] = {}
        self.work = 0

    def copy(self) -> Span:
        """The same span, to grow on its own; its work so far counts for both."""
        other = Span()
        other.lines, other.work = dict(self.lines), self.work
        return other

    @property
    def rank(self) -> int:
        """The dimension, exactly."""
        return len(self.lines)

    def holds(self, row: ExactRow) -> bool:
        """Whether the part of `row` on non-negative columns lies in the span.

        Guarantee: exact, both ways.
        """
        return not any(j >= 0 for j in self._rest(row))

    def add(self, row: ExactRow) -> ExactRow:
        """Take `row` in; return what is left of it when its non-negative columns are spanned already.

        The pivot is the largest entry, the first of several. That keeps numbers short and changes no answer.

        Guarantee: exact. What is returned is a combination of all rows so far that holds no hidden node.
        """
        rest = self._rest(row)
        candidates = [j for j in rest if j >= 0]
        if not candidates:
            return rest
        pivot = max(candidates, key=lambda j: (abs(rest[j]), -j))
        self.lines[pivot] = {j: x / rest[pivot] for j, x in rest.items()}
        return {}

    def _rest(self, row: ExactRow) -> ExactRow:
        """A row less its part in the span: row ← row − row_pivot · line, for each line.

        Guarantee: exact; empty if and only if the row is in the span.
        """
        rest = {j: x for j, x in row.items() if x}
        if self.lines.keys().isdisjoint(rest):
            return rest
        # A line is 0 at the pivots of earlier lines, so one pass in order of creation clears them all.
        for pivot, line in self.lines.items():
            factor = rest.get(pivot)
            if factor:
                self.work += len(line) * (1 + factor.denominator.bit_length() // 64)
                if self.work > MOST_WORK:
                    raise NotCertified(
                        "deciding which of the observer's rows depend on others takes more exact arithmetic than is "
                        "done here (take a smaller coalition)"
                    )
                for j, x in line.items():
                    rest[j] = rest.get(j, Fraction(0)) - factor * x
                    if not rest[j]:
                        del rest[j]
        return rest


def surely_independent(rows: Sequence[ExactRow], columns: int) -> bool:
    """Whether rows over `columns` columns are independent beyond doubt; False says that it could not be told this way.

    A denominator that p divides has no inverse modulo p, and then nothing is said. Elimination modulo p costs no
    more than machine integers, whatever the length of the rationals.

    Guarantee: rows that are independent modulo a prime are independent in rationals. A dependency in rationals,
    brought to coprime whole numbers, would be one modulo p.
    """
    if not rows or len(rows) > columns or len(rows) * columns > 10_000_000:
        return False
    table = np.zeros((len(rows), columns), dtype=np.int64)
    for k, row in enumerate(rows):
        for j, x in row.items():
            below = x.denominator % _PRIME
            if not below:
                return False
            table[k, j] = x.numerator % _PRIME * pow(below, -1, _PRIME) % _PRIME
    for k in range(len(rows)):
        candidates = np.flatnonzero(table[k])
        if not candidates.size:
            return False
        pivot = int(candidates[0])
        # line ← row/pivot, then row_i ← row_i − (row_i)_pivot · line for all rows below, modulo p.
        line = table[k] * pow(int(table[k, pivot]), -1, _PRIME) % _PRIME
        table[k + 1 :] = (table[k + 1 :] - table[k + 1 :, pivot, None] * line) % _PRIME
    return True
