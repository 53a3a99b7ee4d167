# SPDX-License-Identifier: Apache-2.0
"""Products of matrices as if in twice the precision, by plain products of parts.

With X = X₁ + X₂ and Y = Y₁ + Y₂, where a row of X₁ and a column of Y₁ hold multiples of one unit that are at most
2^β of it, k·2^{2β} ≤ 2⁵³ makes every sum of k products in X₁Y₁ exact, in whatever order it is taken. The rest X₁Y₂
+ X₂Y is smaller by 2^β, and so is its rounding error.

A `Doubled` is a matrix as high + low with a bound of what both miss; `Parts` is a factor cut into coarse and rest,
for one side of a product. Sums over sparse rows count their entries alone.

Source: docs/proofs/programs.md, "Products in doubled precision"; Ozaki, Ogita, Oishi & Rump, Numer. Algorithms 59
(2012), for cutting factors so that products are exact; Knuth's sum of two floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy.sparse import csr_array

from sottovoce.filtering.lines import entries, largest, size_sums
from sottovoce.filtering.rounding import LEAST_EXPONENT, UNDERFLOWN, fine_gamma
from sottovoce.rounding import closely_above

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Matrix: TypeAlias = "np.ndarray | csr_array"

__all__ = [
    "Doubled",
    "Parts",
    "add",
    "from_left",
    "from_right",
    "gram",
    "multiply",
    "product",
    "remainder",
    "sparse_rows",
]


@dataclass(frozen=True, kw_only=True, eq=False)
class Doubled:
    """A matrix high + low, up to an `error` in each entry; what is None is 0.

    All three have the same shape; `error` is not negative. Low may be far above a unit of high, as in a product.
    """

    high: Matrix
    low: Matrix | None = None
    error: np.ndarray | None = None

    def each(self, change: Callable[[Matrix], Matrix]) -> Doubled:
        """The same change of all three.

        Guarantee: exact for changes that move entries and do not compute: slices, transposes, copies.
        """
        return Doubled(
            high=change(self.high),
            low=None if self.low is None else change(self.low),
            error=None if self.error is None else np.asarray(change(self.error)),
        )

    @property
    def T(self) -> Doubled:  # noqa: N802
        """The transpose."""
        return self.each(lambda part: part.T)

    def __getitem__(self, place: tuple[slice, slice | np.ndarray]) -> Doubled:
        """Some rows and columns."""
        return self.each(lambda part: part[place])

    def over(self, count: int) -> Doubled:
        """With so many rows of zeros below."""
        return self.each(lambda part: np.vstack([part, np.zeros((count, part.shape[1]))]))

    @property
    def rest(self) -> Matrix | float:
        """Low, as a number where it is None."""
        return 0.0 if self.low is None else self.low

    def rounded(self) -> Matrix:
        """The nearest floats, but for a unit in the last place."""
        return self.high if self.low is None else self.high + self.low

    def nearest(self) -> Doubled:
        """The same in one part: floats, and what they miss is in the error.

        Guarantee: what a sum of two floats loses is exact (Knuth), and counts in full.
        """
        if self.low is None:
            return self
        found = add(Doubled(high=self.high), Doubled(high=self.low))
        return Doubled(high=found.high, error=Doubled(high=found.rest, error=self.error).sizes())

    def sizes(self) -> np.ndarray:
        """Upper bounds of the sizes of the entries.

        Guarantee: upper bounds of |high + low| + error, rounding included.
        """
        found = _dense(abs(self.rounded())) * (1 + fine_gamma(2))
        return found if self.error is None else found + self.error


@dataclass(frozen=True, kw_only=True, eq=False)
class Parts:
    """A factor, cut in two: `coarse` holds few bits, `rest` what is left, and `whole` both, each rounded once.

    It was cut for sums of `terms` products.
    """

    coarse: Matrix
    rest: Matrix
    whole: Matrix
    terms: int
    error: np.ndarray | None = None

    @cached_property
    def T(self) -> Parts:  # noqa: N802
        """The factor on the other side."""
        return Parts(
            coarse=self.coarse.T,
            rest=self.rest.T,
            whole=self.whole.T,
            terms=self.terms,
            error=None if self.error is None else self.error.T,
        )

    @cached_property
    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Row sums of |coarse|, and the largest size in each row of the rest.

        Guarantee: sums as floats have them, which `product` counts the rounding of; sizes are exact.
        """
        return size_sums(self.coarse, 1), largest(self.rest, 1)

    @cached_property
    def columns(self) -> tuple[np.ndarray, np.ndarray]:
        """Column sums of |whole|, and the largest size in each column of the rest.

        Guarantee: that of `rows`.
        """
        return size_sums(self.whole, 0), largest(self.rest, 0)


def sparse_rows(
    high: Sequence[float], low: Sequence[float], columns: Sequence[int], ends: Sequence[int], width: int
) -> Doubled:
    """Rows of numbers, each in two parts, in these columns; those of row i end at `ends[i + 1]`.

    Guarantee: exact; each part has places of its own, so that whoever sorts one of them moves no entry of the other.
    """

    def matrix(values: Sequence[float]) -> csr_array:
        given = (np.array(values, dtype=np.float64), np.array(columns, dtype=np.int64), np.array(ends))
        found = csr_array(given, shape=(len(ends) - 1, width))
        found.sort_indices()
        return found

    return Doubled(high=matrix(high), low=matrix(low))


def bits(count: int) -> int:
    """β for sums of so many products: the largest with count·2^{2β} ≤ 2⁵³.

    Guarantee: a sum of `count` products of whole numbers of at most 2^β each is exact in floats, in any order.
    Source: docs/proofs/programs.md, "Products in doubled precision".

    >>> bits(1), bits(30)
    (26, 24)
    """
    return (53 - (max(1, count) - 1).bit_length()) // 2


def from_left(matrix: Doubled, count: int) -> Parts:
    """A left factor: row by row a unit, since a row of it meets all columns of the other.

    Guarantee: `coarse` and `rest` are exactly high and low together but for one rounding of `rest`, and entries of a
    row of `coarse` are multiples of its unit, at most 2^β of it, β = `bits(count)`.
    """
    return _parts(matrix, 1, count)


def from_right(matrix: Doubled, count: int) -> Parts:
    """A right factor: column by column a unit, since a column of it meets all rows of the other.

    Guarantee: that of `from_left`, with columns for rows.
    """
    return _parts(matrix, 0, count)


def multiply(left: Parts, right: Parts) -> Doubled:
    """The product, high being exact for the coarse parts; how far low may err is left to the caller.

    Guarantee: X₁Y₁ is exact, in whatever order sums are taken; `product` and `remainder` say what low may miss. Dense
    factors that were cut for shorter sums are refused; of sparse ones whoever cut them knows how many entries meet.
    A product with a zero is no term of a sum, neither of X₁Y nor of X₂Y.
    """
    if isinstance(left.coarse, np.ndarray) and isinstance(right.coarse, np.ndarray):
        most = min(2 ** (53 - bits(left.terms) - bits(right.terms)), max(left.terms, right.terms, 1))
        if right.coarse.shape[0] > most and (longest := _longest(left)) > most:
            raise ValueError(
                f"sums of {longest} products are not exact in factors cut for {left.terms} and {right.terms}"
            )
    low = left.coarse @ right.rest + left.rest @ right.whole
    return Doubled(high=_dense(left.coarse @ right.coarse), low=_dense(low))


def product(left: Parts, right: Parts, count: int) -> Doubled:
    """The product of factors that were cut for sums of `count` terms, and a bound of its error.

    Guarantee: X₁Y₁ is exact. X₁Y₂ and X₂Y err by γ_k in proportion to the sizes behind them, X₂, Y₂ and Y were
    rounded once each, and the sum once more: (k + 3)u(|X₁||Y₂| + |X₂||Y|), which row sums and maxima bound. Errors
    that the factors bring along are added.
    Source: docs/proofs/programs.md, "Products in doubled precision".

    >>> X = np.array([[1.0, 2.0**-40]])
    >>> found = product(from_left(Doubled(high=X), 2), from_right(Doubled(high=X.T), 2), 2)
    >>> found.high.item() == 1, found.low.item() == 2.0**-80
    (True, True)
    """
    found = multiply(left, right)
    (sums, rest), (columns, right_rest) = left.rows, right.columns
    error = fine_gamma(count + 4) * (np.outer(sums, right_rest) + np.outer(rest, columns)) + UNDERFLOWN
    if left.error is not None:
        error += _dense(left.error @ abs(right.whole))
    if right.error is not None:
        error += _dense(abs(left.whole) @ right.error)
    if left.error is not None and right.error is not None:
        error += left.error @ right.error
    return Doubled(high=found.high, low=found.low, error=closely_above(error))


def gram(matrix: np.ndarray) -> Doubled:
    """XᵀX, symmetric to the bit, and a bound of its error: two products, where `product` takes three.

    With X = X₁ + X₂ and H = X₁ + X₂/2, XᵀX = X₁ᵀX₁ + HᵀX₂ + (HᵀX₂)ᵀ.

    Guarantee: X₁ᵀX₁ is exact. H is rounded once, sums of k products with it err by γ_k, and the sum of the two is
    rounded once more: (k + 3)u(|H|ᵀ|X₂| + |X₂|ᵀ|H|), which column sums and maxima bound. Halves of numbers too small to
    be halved are off by 2⁻¹⁰⁷⁴ at most, which X₂ multiplies.
    Source: docs/proofs/programs.md, "Products in doubled precision".

    >>> found = gram(np.array([[1.0], [2.0**-40]]))
    >>> found.high.item() == 1, found.low.item() == 2.0**-80
    (True, True)
    """
    parts = from_right(Doubled(high=matrix), len(matrix))
    coarse, rest = np.asarray(parts.coarse), np.asarray(parts.rest)
    half = coarse + 0.5 * rest
    crossed = half.T @ rest
    reach, lost = np.outer(size_sums(half, 0), largest(rest, 0)), UNDERFLOWN * (1 + size_sums(rest, 0))
    error = closely_above(fine_gamma(len(matrix) + 4) * (reach + reach.T) + np.add.outer(lost, lost))
    return Doubled(high=coarse.T @ coarse, low=crossed + crossed.T, error=error)


def add(one: Doubled, other: Doubled, sign: int = 1) -> Doubled:
    """The sum, or the difference: what rounding takes off the high parts goes to the low ones.

    Guarantee: Knuth's sum of two floats is exact; three low parts are summed with two roundings.
    """
    other_high = _dense(other.high) * sign
    high = one.high + other_high
    back = high - one.high
    lost = (one.high - (high - back)) + (other_high - back)
    error = fine_gamma(2) * np.abs(lost)
    for part, factor in ((one.low, 1), (other.low, sign)):
        if part is not None:
            lost = lost + factor * _dense(part)
            error = error + fine_gamma(2) * np.abs(_dense(part))
    for part in (one.error, other.error):
        if part is not None:
            error = error + part
    return Doubled(high=high, low=lost, error=error)


def remainder(count: int) -> float:
    """ρ: an entry of a product of two exact factors, once rounded, errs by at most u of itself and ρ‖x‖₁‖y‖₁.

    The low part is at most 2^{1−β}‖x‖₁‖y‖₁, x being the row and y the column; it errs by (k + 4)u of that, and
    three more roundings in which it takes part add 3u. `product` and a factor that is itself such a product have
    twice that.

    Guarantee: upper bound.
    Source: docs/proofs/programs.md, "Products in doubled precision".
    """
    return fine_gamma(4 * (count + 8)) * 2.0 ** (1 - bits(count))


def _parts(matrix: Doubled, axis: int, count: int) -> Parts:
    """A matrix less what few bits hold of it.

        high + low = coarse + rest,   |rest| small enough that its products need no second part

    Guarantee: high − coarse is exact; rest + low and high + low are rounded once each, which `product` counts.
    """
    coarse = _coarse(matrix.high, axis, bits(count))
    rest, whole = matrix.high - coarse, matrix.high
    if matrix.low is not None:
        rest, whole = rest + matrix.low, whole + matrix.low
    return Parts(coarse=coarse, rest=rest, whole=whole, terms=count, error=matrix.error)


def _coarse(matrix: Matrix, axis: int, count: int) -> Matrix:
    """Each entry to so many bits of the largest of its row or column.

    Adding and taking away 1.5·2^(e + 52 − count), e the exponent of the largest number, leaves every entry as a
    multiple of one unit: products of two such matrices are then exact in floats, if sums of them fit into 53 bits.

    Guarantee: exact to the unit: what is cut off is left to the caller, as the entry less its coarse part is a float.
    Source: Ozaki, Ogita, Oishi & Rump, *Error-free transformations of matrix multiplication* (2012).
    """
    # The last place of a sum with this number is the unit.
    lift = np.ldexp(1.5, np.maximum(np.frexp(largest(matrix, axis))[1], LEAST_EXPONENT) + 52 - count)
    if isinstance(matrix, np.ndarray):
        lift = lift[:, None] if axis else lift[None, :]
        return np.asarray((matrix + lift) - lift)
    coarse = matrix.copy()
    of_each = lift[matrix.indices] if axis == 0 else np.repeat(lift, np.diff(matrix.indptr))
    coarse.data = (matrix.data + of_each) - of_each
    return coarse


def _longest(left: Parts) -> int:
    """How many products that are not 0 a sum has at most, of the coarse parts or of the rest."""
    return int(max(entries(part, 1).max(initial=0) for part in (left.coarse, left.rest)))


def _dense(matrix: Matrix) -> np.ndarray:
    """A matrix with all its zeros."""
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.toarray())
