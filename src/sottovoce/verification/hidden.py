# SPDX-License-Identifier: Apache-2.0
"""What an observer cannot compute by itself, decided in exact rational arithmetic.

An observer who knows the noise of the nodes A and what flows into them knows their messages. Without these,
the other nodes U follow s_t = A_UU s_{t−1} + x_t + u_t, and every row that is seen is a row over U. A is the gossip
matrix W, or D W where node i damps what it receives by D_i.

How it goes: each row of the view is split into a part on U and a part on known nodes. If the inflow A_iU s of every
known node i is a combination of rows that are seen, the messages of known nodes can be worked out round by round,
and their parts are subtracted from everything. Rows that then depend on others say nothing and are dropped. A
combination of rows in which U cancels speaks of known nodes alone, v_A s_A; one round later it tells v_A A_AU
s_{t−1}, a row about the round before that the last round does not have.

Rationals decide which rows are kept and what they span. Only then are they rounded: `_float_rows` gives orthonormal
rows, so that K = N Nᵀ is well conditioned, and says by how much their span may have turned on the way.
Source: the elimination of known nodes, and why ranks must be exact, are told in docs/certificates.md, step 4.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import linalg, sparse

from sottovoce.errors import NotCertified
from sottovoce.verification.rounding import LARGEST, MOST_DEFECT, NEARLY_ONE, above, gamma, roundings
from sottovoce.verification.spans import Span, surely_independent
from sottovoce.verification.spectra import frobenius, least_singular, skewness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from sottovoce.graphs import GossipWeights
    from sottovoce.verification.meaning import AveragingQuestion, ExactRow

__all__ = ["HiddenNodes", "hidden_nodes", "transition_of"]

# Up to this many nodes every diagonal entry is rounded from its rational; beyond, only small ones are.
_ALL_EXACT = 50_000
# More rows than this are taken as they are where a residue proves them independent and no angle between them is small.
_FEW_ROWS = 12
# A span that turned by more than this sine is sought again by exact elimination, which gives better rows.
_WELL_CONDITIONED = 1e-10


@dataclass(frozen=True, kw_only=True, eq=False)
class HiddenNodes:
    """The nodes with unknown noise, their transition, and independent rows of what is seen of them.

    All `rows` are seen of rounds 1..T−1 and the first `last` of them of round T. `smallest` is a lower
    bound of their least singular value, `turned` bounds the sine of the angle by which rounding moved their
    span, and `relative` how far each entry of rows and transition may be off as a part of it, in units of
    2⁻⁵³. `alone` are the hidden nodes whose messages are seen as they are, `received` those of which the observer
    sees what flows into them, and `completed` are known nodes whose inflow was given to the observer although its
    view does not determine it. `touched` says where the exact rows can be other than 0, row by row, whatever floats
    make of them: what is too weak for a float is seen all the same.

    `unknown` are node indices, ascending; `target`, `alone` and `received` are positions among them, and so are the
    columns of `rows`. `transition` is A_UU as a sparse matrix of floats. `alone` and `received` are used by
    `reduction` only, to bound how far unseen states can grow.
    """

    unknown: NDArray[np.int64]
    target: int
    transition: Any
    rows: NDArray[np.float64]
    touched: NDArray[np.bool_]
    last: int
    smallest: float
    turned: float
    relative: int
    alone: tuple[int, ...]
    received: tuple[int, ...]
    completed: tuple[int, ...]


def hidden_nodes(asked: AveragingQuestion, *, complete: bool) -> HiddenNodes:
    """What remains hidden, and the rows that are seen of it.

    A known node whose inflow the view does not determine is given that inflow with `complete` (the observer
    sees more), and is taken as unknown without it (the observer knows less).

    Guarantee: the same form M as the view where every inflow is determined; else an upper bound of it in the
    semidefinite order with `complete`, and a lower bound without.
    Source: more rows, or fewer unknown draws, never lower M = Gᵀ K⁻¹ G (data processing for Gaussian shifts).
    """
    known = set(asked.known)
    while True:
        found = _eliminated(asked, known)
        if complete or not found.completed:
            return found
        known.difference_update(found.completed)


def _eliminated(asked: AveragingQuestion, known: set[int]) -> HiddenNodes:
    """The hidden nodes for one set of known nodes, completed where need be.

    Large views take the short road (`_plain`): their rows as they are, proved independent modulo a prime. It is
    left where rows are nearly dependent, since the angle by which rounding turns their span grows with 1/σ_min.
    """
    n = asked.weights.n
    unknown = np.setdiff1d(np.arange(n), sorted(known))
    position = {int(node): k for k, node in enumerate(unknown)}

    def split(row: ExactRow) -> tuple[ExactRow, ExactRow]:
        """The parts of a row on unknown nodes (by position) and on known nodes (by −1 − node)."""
        hidden = {position[j]: x for j, x in row.items() if j in position and x}
        return hidden, {-1 - j: x for j, x in row.items() if j not in position and x}

    inflows = {node: split(asked.moved_row(node))[0] for node in sorted(known)}
    seen = [split(row) for row in asked.rows]
    lines: list[ExactRow] = []
    if len(seen) > _FEW_ROWS:
        lines, fresh, completed = _plain(seen, inflows.values(), unknown.size)
    if lines:
        rows, smallest, turned, relative = _float_rows(lines, unknown.size)
    if not lines or turned > _WELL_CONDITIONED:
        lines, fresh, completed = _decided(asked, seen, inflows, split)
        rows, smallest, turned, relative = _float_rows(lines, unknown.size)
    if not smallest > 0:
        raise NotCertified(
            "what the observer sees of the hidden nodes is so close to dependent that its span is lost in double "
            "precision (take a smaller view)"
        )
    shapes = {_shape(line) for line in lines}
    transition, off = transition_of(asked.weights, asked.damping)
    return HiddenNodes(
        unknown=unknown,
        target=position[asked.target],
        transition=transition[unknown][:, unknown],
        rows=rows,
        touched=_touched(lines, unknown.size, several=bool(turned)),
        last=fresh,
        smallest=smallest,
        turned=turned,
        relative=max(relative, off),
        alone=tuple(j for line in lines if len(line) == 1 for j in line),
        received=tuple(
            position[node]
            for node in asked.observers
            if node in position and _shape(split(asked.moved_row(node))[0]) in shapes
        ),
        completed=tuple(completed),
    )


def _plain(
    seen: Sequence[tuple[ExactRow, ExactRow]], inflows: Iterable[ExactRow], columns: int
) -> tuple[list[ExactRow], int, list[int]]:
    """The rows as they are, if they are surely independent and each inflow is a multiple of one; else nothing.

    Independent rows leave no combination that speaks of known nodes alone, so all rounds, the last too, show the
    same.
    """
    rows = [hidden for hidden, _ in seen]
    shapes = {_shape(row) for row in rows}
    if all(not inflow or _shape(inflow) in shapes for inflow in inflows) and surely_independent(
        rows, columns
    ):
        if len(rows) == columns:
            # Independent rows as many as there are nodes show every one of them.
            rows = [{j: Fraction(1)} for j in range(columns)]
        return rows, len(rows), []
    return [], 0, []


def _shape(row: ExactRow) -> tuple[tuple[int, Fraction], ...]:
    """A row up to a factor."""
    if not row:
        return ()
    first = row[min(row)]
    return tuple((j, row[j] / first) for j in sorted(row))


def _decided(
    asked: AveragingQuestion,
    seen: Sequence[tuple[ExactRow, ExactRow]],
    inflows: dict[int, ExactRow],
    split: Callable[[ExactRow], tuple[ExactRow, ExactRow]],
) -> tuple[list[ExactRow], int, list[int]]:
    """Independent rows, how many of them are seen at once, and the nodes whose inflow had to be given.

    The first `fresh` lines are seen in the round itself, the last one included. The others come from `delayed`:
    what a combination of known messages tells one round later about the round before. Lines keep their order in the
    span.

    Guarantee: exact.
    """
    span = Span()
    about_known = [rest for hidden, known in seen if (rest := span.add(hidden | known))]
    delayed = []
    for rest in about_known:
        # A combination of known nodes tells, one round later, what flowed into them: v_A A_AU s_{t−1}.
        inflow: ExactRow = {}
        for key, factor in rest.items():
            for j, x in asked.moved_row(-1 - key).items():
                inflow[j] = inflow.get(j, Fraction(0)) + factor * x
        delayed.append(split(inflow)[0])
    soon = span.copy()
    for row in delayed:
        soon.add(row)
    completed = [node for node, inflow in inflows.items() if inflow and not soon.holds(inflow)]
    for node in completed:
        # Seen at once rather than a round later: more than the view has, which is the safe side.
        span.add(inflows[node])
    fresh = span.rank
    for row in delayed:
        span.add(row)
    return [{j: x for j, x in line.items() if j >= 0} for line in span.lines.values()], fresh, completed


def transition_of(weights: GossipWeights, damping: Sequence[Fraction] | None) -> tuple[Any, int]:
    """A = D W in floats over all nodes, and how far an entry may be off, in units of 2⁻⁵³ of itself.

    Guarantee: |Â_ij − A_ij| ≤ units·u·|Â_ij|, and A_ij = 0 where Â_ij is not stored: weights and factors below 10⁻¹⁰⁰,
    whose products could underflow, are refused. Floats that are the weights
    have 0 units, and quotients rounded once have 1. For very many nodes a diagonal entry that is at least 1/8 is
    taken from a sum: off by at most two units of 1, hence 16 of itself, and one for its rounding make 17.
    """
    units = 0
    matrix = weights.matrix
    if weights.quotients is not None:
        # Off the diagonal the stored floats are the nearest ones. The diagonal is rounded here, from rationals or from
        # a sum that is at most two units of 1 off.
        units, n = 1, weights.n
        owners = np.repeat(np.arange(n), np.diff(matrix.indptr))
        off = sparse.csr_array(
            (np.where(owners == matrix.indices, 0.0, matrix.data), matrix.indices, matrix.indptr),
            shape=(n, n),
        )
        kept = np.zeros(n)
        for i in range(n):
            kept[i] = math.fsum(itertools.chain([1.0], -off.data[off.indptr[i] : off.indptr[i + 1]]))
            if n <= _ALL_EXACT or kept[i] < 1 / 8:
                kept[i] = float(weights.exact_row(i).get(i, Fraction(0)))
            else:
                units = 17
        matrix = sparse.csr_array(off + sparse.dia_array((kept[np.newaxis], [0]), shape=(n, n)).tocsr())
    strengths = (
        [matrix.data] if damping is None else [matrix.data, np.array([float(d) for d in damping if d])]
    )
    if any(((part != 0) & (np.abs(part) * LARGEST < 1)).any() for part in strengths) or any(
        d and not float(d) for d in damping or ()
    ):
        raise NotCertified(
            f"weights and factors on the model must be 0 or at least {1 / LARGEST:g} to be checked in double precision"
        )
    if damping is not None:
        # fl(D_i w) is within two units of D_i w, and one more covers what the errors multiply to.
        factors = np.array([float(d) for d in damping])
        matrix = sparse.csr_array(sparse.diags_array(factors) @ matrix)
        units += 3
    matrix = sparse.csr_array(matrix, copy=True)
    matrix.eliminate_zeros()
    return matrix, units


def _touched(lines: list[ExactRow], columns: int, *, several: bool) -> NDArray[np.bool_]:
    """Where exact rows can be other than 0; of a basis, whose rows combine `several` lines, where they and earlier can.

    Guarantee: exact: a place that is left out is 0 in rationals.
    """
    pattern = np.zeros((len(lines), columns), dtype=bool)
    for k, line in enumerate(lines):
        pattern[k, list(line)] = True
    return np.logical_or.accumulate(pattern, axis=0) if several and lines else pattern


def _float_rows(lines: list[ExactRow], columns: int) -> tuple[NDArray[np.float64], float, float, int]:
    """Float rows with the same span, their least singular value, how far the span turned, relative error.

    The first case is exact: rows that each show one node, none of them the same. A single row keeps its direction
    entry by entry, off by two roundings, for which 4 units stand; its length does not matter. Several rows are replaced
    by the basis B of a QR factorisation; how far that is from orthonormal is measured.

    Guarantee: the sine of the angle between the spans of B and of the exact rows is at most `turned`. If
    rows = X B + E for any X, then ‖rows (I − P_B)‖ ≤ ‖E‖, and dividing by σ_min(rows) gives the sine. E is measured
    at X as computed: X B is off by γ_m|X||B|, in norm m·γ_m as rows of X and B have norm 1, and the difference by a
    part of itself; rows are off by two roundings an entry, and so is σ_min(rows), proved of the floats. The exact span
    has rows within `turned`·‖B‖ of B, whose least singular value is at least the one that is returned; where that is
    not positive nothing is proved.
    Source: docs/proofs/spectra.md; Wedin's sin Θ theorem (1972).
    """
    rows = np.zeros((len(lines), columns))
    for k, line in enumerate(lines):
        # Scaled by the largest entry first, so that no rational over- or underflows on its way to a float.
        largest = max(map(abs, line.values()))
        here = {j: float(x / largest) for j, x in line.items()}
        if min(map(abs, here.values())) * LARGEST < 1:
            raise NotCertified(
                "a row of what the observer sees holds entries that differ by more than 10¹⁰⁰ times, so that nothing "
                "can be checked in floats (take a view without such entries)"
            )
        rows[k, list(here)] = np.asarray(list(here.values())) / np.linalg.norm(list(here.values()))
    if all(len(line) == 1 for line in lines) and rows.any(axis=0).sum() == len(lines):
        return rows, 1.0, 0.0, 0
    if len(lines) == 1:
        return rows, NEARLY_ONE, 0.0, 4
    basis = np.ascontiguousarray(linalg.qr(rows.T, mode="economic")[0].T)
    # Rounding leaves specks where no row has anything; exact zeros keep far nodes out of sight.
    basis[:, ~rows.any(axis=0)] = 0.0
    residual = frobenius(rows - (rows @ basis.T) @ basis)
    many = len(lines)
    # rows = X B + E with X as computed; a unit more than the two roundings of rows covers what they multiply to.
    long = float(np.sqrt(many))
    measured = above(gamma(many) * many + roundings(3) * long)
    least = least_singular(rows) - above(roundings(3) * long)
    # The basis spans what the rows span up to (residual and its rounding) over the least singular value.
    turned = (above(residual) + measured) / least if least > 0 else np.inf
    # ‖B‖ ≤ 1 + skewness, which 1.01 covers up to a hundredth.
    skew = skewness(basis)
    return basis, min(NEARLY_ONE, 1 - skew - above(turned)) if skew <= MOST_DEFECT else 0.0, turned, 0
