# SPDX-License-Identifier: Apache-2.0
"""What an observer cannot compute by itself, decided in exact rational arithmetic.

An observer who knows the noise of the nodes A and what flows into them knows their messages. Without these,
the other nodes U follow s_t = A_UU s_{t−1} + x_t + u_t, and every row that is seen is a row over U. A is the gossip
matrix W, or D W where node i damps what it receives by D_i.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import linalg, sparse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from sottovoce.certificates import Certificate, SparseRows

__all__ = ["HiddenNodes", "RationalWeights", "hidden_nodes", "rational_weights"]

ExactRow = dict[int, Fraction]

UNIT_ROUNDOFF = 2.0**-53
_LARGEST_DENOMINATOR = 4096
_MOST_VALUES = 5000


@dataclass(frozen=True, kw_only=True, eq=False)
class RationalWeights:
    """The gossip matrix in rationals: `recovered` ones off the diagonal, or the stored floats as they are.

    `relative` bounds how far a rational is from its float as a part of it, in units of 2⁻⁵³; `absolute`
    bounds what this does not cover (a diagonal entry close to 0).
    """

    stored: SparseRows
    recovered: dict[float, Fraction] | None
    relative: int
    absolute: float

    def row(self, i: int) -> ExactRow:
        """Row i; with recovered weights the diagonal is what makes the row sum to 1."""
        floats = self.stored.row(i)
        if self.recovered is None:
            return {j: Fraction(w) for j, w in floats.items()}
        row = {j: self.recovered[w] for j, w in floats.items() if j != i}
        row[i] = 1 - sum(row.values(), start=Fraction(0))
        return {j: w for j, w in row.items() if w}


def rational_weights(stored: SparseRows, *, fractions: bool) -> RationalWeights:
    """The rationals that the stored floats were rounded from, if `fractions` are meant and are beyond doubt.

    Every weight off the diagonal must be within one unit in the last place of 1/k or of p/q with q ≤ 4096,
    and every row must sum to 1 to rounding; else floats are taken as the rationals they are.
    """
    as_they_are = RationalWeights(stored=stored, recovered=None, relative=0, absolute=0.0)
    counts = np.diff(stored.indptr)
    owners = np.repeat(np.arange(stored.rows), counts)
    table: dict[float, Fraction] = {}
    values = np.unique(stored.data[owners != stored.indices])
    if not fractions or values.size > _MOST_VALUES:
        return as_they_are
    for value in values.tolist():
        if not 0 < value <= 1:
            return as_they_are
        for guess in (Fraction(1, round(1 / value)), Fraction(value).limit_denominator(_LARGEST_DENOMINATOR)):
            if abs(float(guess) - value) <= np.spacing(value):
                table[value] = guess
                break
        else:
            return as_they_are
    starts = stored.indptr.tolist()
    totals = [math.fsum(stored.data[a:b]) for a, b in itertools.pairwise(starts)]
    amiss = np.abs(np.array(totals) - 1)
    if (amiss > 4 * (counts + 2) * UNIT_ROUNDOFF).any():
        return as_they_are
    diagonal = np.zeros(stored.rows)
    diagonal[owners[owners == stored.indices]] = stored.data[owners == stored.indices]
    # The rational diagonal is 1 less rationals, each within two units of its float; together these weigh 1.
    off = amiss + 4 * UNIT_ROUNDOFF
    relative = off[diagonal > 0] / diagonal[diagonal > 0]
    close = bool((diagonal > 0).all()) and bool((relative <= 1e-12).all())
    return RationalWeights(
        stored=stored,
        recovered=table,
        relative=max(2, int(np.ceil(relative.max(initial=0.0) / UNIT_ROUNDOFF))) if close else 2,
        absolute=0.0 if close else float(off.max(initial=0.0)),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class HiddenNodes:
    """The nodes with unknown noise, their transition, and independent rows of what is seen of them.

    All `rows` are seen of rounds 1..T−1 and the first `last` of them of round T. `smallest` is a lower
    bound of their least singular value, `turned` bounds the sine of the angle by which rounding moved their
    span, and `relative` how far each entry of rows and transition may be off as a part of it, in units of
    2⁻⁵³. `absolute` bounds the norm of what is off in the transition beyond that. `completed` are known
    nodes whose inflow was given to the observer although its view does not determine it.
    """

    unknown: NDArray[np.int64]
    transition: Any
    rows: NDArray[np.float64]
    last: int
    smallest: float
    turned: float
    relative: int
    absolute: float
    completed: tuple[int, ...]


def hidden_nodes(certificate: Certificate, weights: RationalWeights, *, complete: bool) -> HiddenNodes:
    """What remains hidden, and the rows that are seen of it.

    A known node whose inflow the view does not determine is given that inflow with `complete` (the observer
    sees more), and is taken as unknown without it (the observer knows less).

    Guarantee: the same form M as the view where every inflow is determined; else an upper bound of it in the
    semidefinite order with `complete`, and a lower bound without.
    """
    known = certificate.known_noise
    while True:
        found = _eliminated(certificate, weights, known)
        if complete or not found.completed:
            return found
        known = np.setdiff1d(known, found.completed)


def _eliminated(certificate: Certificate, weights: RationalWeights, known: NDArray[np.int64]) -> HiddenNodes:
    """The hidden nodes for one set of known nodes, completed where need be."""
    n = len(certificate.labels)
    unknown = np.setdiff1d(np.arange(n), known)
    position = {int(node): k for k, node in enumerate(unknown)}

    def split(row: ExactRow) -> tuple[ExactRow, ExactRow]:
        """The parts of a row on unknown nodes (by position) and on known nodes (by −1 − node)."""
        hidden = {position[j]: x for j, x in row.items() if j in position and x}
        return hidden, {-1 - j: x for j, x in row.items() if j not in position and x}

    span = _Span()
    about_known: list[ExactRow] = []
    for row in _observed_rows(certificate, weights):
        hidden, seen = split(row)
        rest = span.add(hidden | seen)
        if rest:
            about_known.append(rest)
    fresh = span.rank
    for rest in about_known:
        # A combination of known nodes tells, one round later, what flowed into them: v_A A_AU s_{t−1}.
        inflow: ExactRow = {}
        for key, factor in rest.items():
            for j, x in _moved_row(certificate, weights, -1 - key).items():
                inflow[j] = inflow.get(j, Fraction(0)) + factor * x
        span.add(split(inflow)[0])
    completed = []
    extra = _Span()
    for node in known.tolist():
        inflow = split(_moved_row(certificate, weights, node))[0]
        if inflow and not span.holds(inflow):
            completed.append(node)
            extra.add(inflow)
    if completed:
        # Seen at once rather than a round later: more than the view has, which is the safe side.
        for line in list(extra.lines.values()):
            span.add(line)
        fresh = span.rank
    rows, smallest, turned, relative = _float_rows(list(span.lines.values()), unknown.size)
    stored = weights.stored
    matrix = sparse.csr_array((stored.data, stored.indices, stored.indptr), shape=(n, n))
    products = 0
    if certificate.damping is not None:
        # fl(D_i w) is within one unit of D_i w, and one more covers what the two errors multiply to.
        products = 2
        matrix = sparse.csr_array(sparse.diags_array(certificate.damping) @ matrix)
        matrix.eliminate_zeros()
    return HiddenNodes(
        unknown=unknown,
        transition=matrix[unknown][:, unknown],
        rows=rows,
        last=fresh,
        smallest=smallest,
        turned=turned,
        relative=max(relative, weights.relative + products),
        absolute=weights.absolute,
        completed=tuple(completed),
    )


def _moved_row(certificate: Certificate, weights: RationalWeights, node: int) -> ExactRow:
    """Row `node` of A in rationals."""
    row = weights.row(node)
    if certificate.damping is None:
        return row
    factor = Fraction(float(certificate.damping[node]))
    return {j: factor * x for j, x in row.items()}


def _observed_rows(certificate: Certificate, weights: RationalWeights) -> Iterable[ExactRow]:
    """The rows of the view in rationals; a row of the gossip matrix means the rationals of that row."""
    observation, stored = certificate.observation, weights.stored
    owner: dict[bytes, int] = {}
    if weights.recovered is not None and (np.diff(observation.indptr) > 1).any():
        owner = {_key(stored, i): i for i in range(stored.rows)}
    for k in range(observation.rows):
        same = owner.get(_key(observation, k))
        yield {j: Fraction(x) for j, x in observation.row(k).items()} if same is None else weights.row(same)


def _key(matrix: SparseRows, i: int) -> bytes:
    """The bits of a row."""
    span = slice(matrix.indptr[i], matrix.indptr[i + 1])
    return matrix.indices[span].tobytes() + matrix.data[span].tobytes()


class _Span:
    """A growing span of exact rows in echelon form, with pivots on the non-negative columns alone."""

    def __init__(self) -> None:
        self.lines: dict[int, ExactRow] = {}

    @property
    def rank(self) -> int:
        return len(self.lines)

    def holds(self, row: ExactRow) -> bool:
        """Whether the part of `row` on non-negative columns lies in the span."""
        return not any(j >= 0 for j in self._rest(row))

    def add(self, row: ExactRow) -> ExactRow:
        """Take `row` in; return what is left of it when its non-negative columns are spanned already."""
        rest = self._rest(row)
        candidates = [j for j in rest if j >= 0]
        if not candidates:
            return rest
        pivot = max(candidates, key=lambda j: (abs(rest[j]), -j))
        self.lines[pivot] = {j: x / rest[pivot] for j, x in rest.items()}
        return {}

    def _rest(self, row: ExactRow) -> ExactRow:
        rest = {j: x for j, x in row.items() if x}
        if self.lines.keys().isdisjoint(rest):
            return rest
        # A line is 0 at the pivots of earlier lines, so one pass in order of creation clears them all.
        for pivot, line in self.lines.items():
            factor = rest.get(pivot)
            if factor:
                for j, x in line.items():
                    rest[j] = rest.get(j, Fraction(0)) - factor * x
                    if not rest[j]:
                        del rest[j]
        return rest


def _float_rows(lines: list[ExactRow], columns: int) -> tuple[NDArray[np.float64], float, float, int]:
    """Float rows with the same span, their least singular value, how far the span turned, relative error."""
    rows = np.zeros((len(lines), columns))
    for k, line in enumerate(lines):
        here = {j: float(x) for j, x in line.items() if j >= 0}
        rows[k, list(here)] = np.asarray(list(here.values())) / np.linalg.norm(list(here.values()))
    if all(np.count_nonzero(row) == 1 for row in rows):
        return rows, 1.0, 0.0, 0
    if len(lines) == 1:
        return rows, 0.999999, 0.0, 4
    basis = np.ascontiguousarray(linalg.qr(rows.T, mode="economic")[0].T)
    # Rounding leaves specks where no row has anything; exact zeros keep far nodes out of sight.
    basis[:, ~rows.any(axis=0)] = 0.0
    least = float(np.linalg.svd(rows, compute_uv=False)[-1])
    residual = float(np.linalg.norm(rows - (rows @ basis.T) @ basis))
    rounding = 4 * (columns + len(lines) + 4) * UNIT_ROUNDOFF * float(np.sqrt(len(lines)))
    # The basis spans what the rows span up to (residual and its rounding) over the least singular value.
    turned = (residual + rounding) / max(least - rounding, 1e-300)
    return basis, 0.999999, turned, 0
