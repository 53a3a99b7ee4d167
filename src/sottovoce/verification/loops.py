# SPDX-License-Identifier: Apache-2.0
"""The hidden nodes of a training run, and differences of their messages that an observer does not see, exactly.

Nodes K whose noise is known can be worked out by the observer; the others, U, follow

    s_t = g_t(z_t) + u_t,     z_{t+1} = A s_t + (what K sends),     A = W_UU,

and rows C of s_t are seen. A difference e with C e = 0 is not seen. Rows are rationals and zero means zero: what a
factor has at the pivots of C is not stored but defined by C e = 0, and only its rounding is bounded.

This is why a proof cannot cheat by a difference that is "almost" unseen: free entries are the floats of the file,
taken as exact; pivot entries are −S x_f with [I, S] the reduced echelon form of C in rationals. The exact vector
has C e = 0 whatever the floats are. What is computed with is off from it by the bounds E1 (pivots) and E2 (one
round on) of docs/training.md, "Rounding in the check".
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sottovoce.errors import NotCertified
from sottovoce.verification.hidden import transition_of
from sottovoce.verification.rounding import above, roundings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sottovoce.graphs import GossipWeights

__all__ = ["HiddenLoop", "Kernel", "hidden_loop", "kernel"]

Floats = NDArray[np.float64]
ExactRow = dict[int, Fraction]
# Products of rationals, counted in words of 64 bits, that an elimination may take.
MOST_WORK = 20_000_000
# Numbers that a solved row may hold, and their inverses: beyond, rounding is no longer relative (E7).
_LARGEST = 1e100


@dataclass(frozen=True, kw_only=True, eq=False)
class HiddenLoop:
    """The hidden nodes U (`unknown`), A over them and the rows that are seen, by position in U.

    `rows` are seen of all rounds but the last and `last_rows` of the last. Entries of A are within `relative`
    units of 2⁻⁵³ of the rationals that they stand for. `unknown` are node indices, ascending. The rows need not be
    independent; `kernel` finds out.
    """

    unknown: NDArray[np.int64]
    transition: sparse.csr_array
    rows: tuple[ExactRow, ...]
    last_rows: tuple[ExactRow, ...]
    relative: int
    weights: GossipWeights

    @cached_property
    def sizes(self) -> sparse.csr_array:
        """The sizes |A|.

        Guarantee: exact of the floats of A as stored; those of the rationals are within `relative` units of them.
        """
        return abs(self.transition)

    @cached_property
    def backwards(self) -> tuple[sparse.csr_array, sparse.csr_array, int]:
        """Aᵀ, |A|ᵀ, and how many entries a column of A has at most.

        Guarantee: the floats of A as stored, no rounding on top; with k entries in a column a product with Aᵀ is off
        by γ_k of that with |A|ᵀ.
        """
        back = sparse.csr_array(self.transition.T)
        return back, abs(back), int(np.diff(back.indptr).max(initial=1))

    def position(self, node: int) -> int:
        """Where a hidden node stands in U."""
        return int(np.searchsorted(self.unknown, node))

    def moved(self, X: Floats, error: Floats) -> tuple[Floats, Floats]:
        """A X in floats, and a bound of how far each entry may be from the truth, for X within `error` of the truth.

            |fl(Â X̂) − A X| ≤ 1.01 ((k + 2 + ρ) u |Â||X̂| + |Â| error),     k = `terms`, ρ = `relative`

        Guarantee: that bound, entry by entry: k for a sum of k products, ρ for the entries of Â, two to spare.
        Source: E2 of docs/training.md; Higham, Section 3.1.
        """
        terms = int(np.diff(self.transition.indptr).max(initial=0))
        units = above(roundings(terms + 2 + self.relative))
        sizes = np.abs(X)
        off = units * (self.sizes @ sizes) + above(self.sizes @ error)
        return np.asarray(self.transition @ X), np.asarray(off)

    def inflow(self, nodes: Iterable[int]) -> list[ExactRow]:
        """The rows of W of the given nodes, on hidden nodes, by position.

        Guarantee: exact.
        """
        return [_restricted(self.weights.exact_row(node), self.unknown) for node in nodes]


def hidden_loop(
    weights: GossipWeights, *, observation: Iterable[ExactRow], known: NDArray[np.int64]
) -> HiddenLoop:
    """What stays hidden from an observer who knows the noise of the nodes `known`.

    Everything that flows into a known node counts as seen in the round before, whether the view determines it or
    not: the observer then knows what the known nodes send, whatever their maps are.

    Guarantee: the observer of the result sees at least what the view shows.
    Source: H2 (closed view) of docs/training.md, which a proof needs and which is made true here.
    """
    unknown = np.setdiff1d(np.arange(weights.n), known)
    fresh = [_restricted(row, unknown) for row in observation]
    inflow = [_restricted(weights.exact_row(int(node)), unknown) for node in known]
    matrix, relative = _transition(weights)
    return HiddenLoop(
        unknown=unknown,
        transition=sparse.csr_array(matrix[unknown][:, unknown]),
        rows=tuple(row for row in (*fresh, *inflow) if row),
        last_rows=tuple(row for row in fresh if row),
        relative=relative,
        weights=weights,
    )


@lru_cache(maxsize=2)
def _transition(weights: GossipWeights) -> tuple[sparse.csr_array, int]:
    """W in floats, which all observers of one network share."""
    return transition_of(weights, None)


@dataclass(frozen=True, kw_only=True, eq=False)
class Kernel:
    """The vectors x on `support` with R x = 0 for some exact rows R: free entries, and the pivots they determine.

    x[pivots] = −`solved` x[free], by position within the support; `terms` bounds how many terms a sum has. `solved`
    is S rounded entry by entry; `size` is that of the support. The number of pivots is the rank of R there,
    exactly.
    """

    size: int
    pivots: NDArray[np.int64]
    free: NDArray[np.int64]
    solved: sparse.csr_array
    terms: int

    @cached_property
    def sizes(self) -> sparse.csr_array:
        """The sizes |S|.

        Guarantee: exact of the floats of S as stored, each of which is a rational rounded once.
        """
        return abs(self.solved)

    @cached_property
    def backwards(self) -> tuple[sparse.csc_array, sparse.csc_array]:
        """Sᵀ and |S|ᵀ."""
        return self.solved.T, self.sizes.T

    def lifted(self, X: Floats) -> tuple[Floats, Floats]:
        """X with its pivot rows replaced by what the free rows determine, and a bound of the rounding in each entry.

        Guarantee: |X̂_p + S X_f| ≤ 1.01 (k + 2) u |Ŝ||X_f| at the pivots, k = `terms`: one unit for each entry of Ŝ
        and γ_k for the sum. Free rows have no error.
        Source: E1 of docs/training.md.
        """
        full, error = np.array(X), np.zeros_like(X)
        if self.pivots.size:
            full[self.pivots] = -(self.solved @ X[self.free])
            error[self.pivots] = above(roundings(self.terms + 2)) * (self.sizes @ np.abs(X[self.free]))
        return full, error

    def rows(self) -> Floats:
        """Rows in floats that span what is seen: [I, solved] at (pivots, free).

        Guarantee: none that a proof uses; they serve to find good vectors, whose worth is checked otherwise.
        """
        shown = np.zeros((self.pivots.size, self.size))
        shown[np.arange(self.pivots.size), self.pivots] = 1.0
        shown[:, self.free] = self.solved.toarray()
        return shown


def kernel(rows: Iterable[ExactRow], support: NDArray[np.int64]) -> Kernel:
    """The kernel of exact rows on the entries `support`, by Gauss–Jordan elimination in rationals.

    Each row is cleared at the pivots so far; what is left gets a pivot at its largest entry, is scaled to 1 there,
    and is cleared from all earlier lines. Entries outside the support are dropped: x is 0 there.

    Guarantee: pivots, free entries and zeros are exact; entries of `solved` are rationals rounded to nearest.

    Raises NotCertified where that takes too long, or where its numbers leave the range of floats.
    """
    place = {int(k): i for i, k in enumerate(support)}
    lines: dict[int, ExactRow] = {}
    work = 0
    for row in rows:
        rest = {place[j]: x for j, x in row.items() if j in place and x}
        for pivot in [j for j in rest if j in lines]:
            work += _subtract(rest, rest[pivot], lines[pivot])
        work += len(lines) // 8
        if rest:
            pivot = max(rest, key=lambda j: (abs(rest[j]), -j))
            new = {j: x / rest[pivot] for j, x in rest.items()}
            work += sum(_subtract(line, line[pivot], new) for line in lines.values() if pivot in line)
            lines[pivot] = new
        if work > MOST_WORK:
            raise NotCertified(
                "what the observer does not see takes more exact arithmetic than is done here (take a smaller view)"
            )
    pivots = np.array(sorted(lines), dtype=np.int64)
    free = np.setdiff1d(np.arange(support.size), pivots)
    column = {int(k): i for i, k in enumerate(free)}
    others = [sorted((column[j], x) for j, x in lines[pivot].items() if j != pivot) for pivot in pivots]
    try:
        values = np.array([float(x) for line in others for _, x in line])
    except OverflowError:
        values = np.array([np.inf])
    if values.size and not 1 / _LARGEST <= np.abs(values).min() <= np.abs(values).max() <= _LARGEST:
        raise NotCertified("the observer's rows are too uneven to be solved in floats")
    starts = np.cumsum([0, *map(len, others)])
    columns = np.array([k for line in others for k, _ in line], dtype=np.int64)
    solved = sparse.csr_array((values, columns, starts), shape=(pivots.size, free.size))
    terms = max(map(len, others), default=0)
    return Kernel(size=support.size, pivots=pivots, free=free, solved=solved, terms=terms)


def _subtract(row: ExactRow, factor: Fraction, line: ExactRow) -> int:
    """Put row ← row − factor·line, without zeros; return what that took, in products of 64 bits."""
    for j, x in line.items():
        value = row[j] - factor * x if j in row else -factor * x
        if value:
            row[j] = value
        else:
            row.pop(j, None)
    return len(line) * (1 + factor.denominator.bit_length() // 64)


def _restricted(row: ExactRow, unknown: NDArray[np.int64]) -> ExactRow:
    """The part of a row on hidden nodes, by their position.

    Guarantee: exact; entries at known nodes are dropped, as their messages are known.
    """
    nodes = np.fromiter(row, dtype=np.int64, count=len(row))
    places = np.searchsorted(unknown, nodes)
    inside = np.minimum(places, unknown.size - 1)
    hidden = unknown[inside] == nodes if unknown.size else np.zeros(nodes.size, dtype=bool)
    return {int(p): row[int(j)] for p, j, h in zip(places, nodes, hidden, strict=True) if h and row[int(j)]}
