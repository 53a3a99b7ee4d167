# SPDX-License-Identifier: Apache-2.0
"""The span of a few rows, decided in exact rational arithmetic.

What an observer learns is discontinuous where its rows become dependent, so no tolerance may decide it: rows are
rationals (floats are, too), elimination is exact, and only the surviving basis is rounded.

Source: docs/mathematics.md, section 4; docs/proofs/filter.md, "Exact weights and rows".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from sottovoce.filtering.rounding import turned_rows

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction

__all__ = ["RowSpace", "independent_rows"]


@dataclass(frozen=True, kw_only=True, eq=False)
class RowSpace:
    """Rows in echelon form: each has 1 in its pivot column, and later rows are 0 there.

    `pivots` maps a pivot column to its row, {column: entry}, in order of creation.

    Guarantee: exact; `rank` and `contains` have no tolerance.

    >>> from fractions import Fraction
    >>> third, half = Fraction(1, 3), Fraction(1, 2)
    >>> space = RowSpace.spanned_by([{0: third, 1: third}, {0: half, 1: half}, {2: half}])
    >>> space.rank, space.contains({0: half, 1: half, 2: third}), space.contains({0: half})
    (2, True, False)
    """

    pivots: dict[int, dict[int, Fraction]] = field(default_factory=dict)

    @classmethod
    def spanned_by(cls, rows: Iterable[dict[int, Fraction]]) -> RowSpace:
        """The span of `rows`."""
        return cls().extended(rows)

    @property
    def rank(self) -> int:
        """The dimension, exactly."""
        return len(self.pivots)

    def extended(self, rows: Iterable[dict[int, Fraction]]) -> RowSpace:
        """The span of this space and `rows`.

        A row is reduced by the lines there are; what is left of it, scaled to 1 at its largest entry, is a new line.

        Guarantee: exact, in rationals; this space stays as it is.
        """
        grown = RowSpace(pivots=dict(self.pivots))
        for row in rows:
            rest = grown._remainder(row)
            if rest:
                pivot = max(rest, key=lambda j: (abs(rest[j]), -j))
                grown.pivots[pivot] = {j: x / rest[pivot] for j, x in rest.items()}
        return grown

    def contains(self, row: dict[int, Fraction]) -> bool:
        """Whether `row` lies in the span, exactly."""
        return not self._remainder(row)

    def _remainder(self, row: dict[int, Fraction]) -> dict[int, Fraction]:
        """The row less its part in the span, in echelon form; empty if nothing is left."""
        rest = {j: x for j, x in row.items() if x}
        # A pivot row is 0 in the columns of earlier pivots, so one pass in order of creation clears them all.
        hit = len(rest) < len(self.pivots) and not any(j in self.pivots for j in rest)
        for pivot, line in () if hit else self.pivots.items():
            factor = rest.get(pivot)
            if not factor:
                continue
            for j, x in line.items():
                value = rest.get(j, 0) - factor * x
                if value:
                    rest[j] = value
                else:
                    rest.pop(j, None)
        return rest


def independent_rows(space: RowSpace, columns: int) -> tuple[np.ndarray, float]:
    """An orthonormal basis of the span as float rows, and a bound of the angle that rounding may have turned it by.

    Guarantee: the bound is measured (`turned_rows`), whatever the factorisation did; 0 where rows are unit vectors.
    Source: docs/proofs/filter.md, "Exact weights and rows".

    >>> from fractions import Fraction
    >>> rows, turned = independent_rows(RowSpace.spanned_by([{0: Fraction(1, 3), 1: Fraction(1, 3)}]), 3)
    >>> rows.round(4).tolist(), 0 < turned < 1e-14
    ([[0.7071, 0.7071, 0.0]], True)
    """
    rows = np.zeros((space.rank, columns))
    for k, line in enumerate(space.pivots.values()):
        values = [float(x) for x in line.values()]
        rows[k, list(line)] = np.asarray(values) / np.linalg.norm(values)
    if all(len(line) == 1 for line in space.pivots.values()):
        return rows, 0.0
    basis = rows
    if space.rank > 1:
        basis = np.ascontiguousarray(linalg.qr(rows.T, mode="economic")[0].T)
        # Rounding leaves specks where no row has anything; exact zeros keep far nodes out of sight.
        basis[:, ~rows.any(axis=0)] = 0.0
    # An entry is rounded as a quotient of whole numbers and by the norm; that the norm is off turns nothing.
    return basis, turned_rows(rows, basis, 3.0)
