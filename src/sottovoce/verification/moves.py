# SPDX-License-Identifier: Apache-2.0
"""Check what training with memory costs: momentum, several steps a round, nodes that drop out.

Differences of two runs are a state ξ that moves, in one of several ways, by

    ξ⁺ = 𝒜 ξ + B p + b δ + N a,     |p_k| ≤ |(R ξ)_k|,     C⁺ ξ⁺ = 0,

𝒜 with the centres of the slopes in it and R with their radii, δ what the record contributes and a the shift of the
noise that keeps the view the same. If for each move from a state with Π to a state with Π⁺, C Π = 0 and C⁺ Π⁺ = 0,

    [ Π⁺ + N Nᵀ − B β Bᵀ − κ b bᵀ − 𝒜 Π 𝒜ᵀ     − 𝒜 Π Rᵀ ]
    [            − R Π 𝒜ᵀ                      β − R Π Rᵀ ]  ⪰ 0,

then a run of any moves that follow each other costs at most 1/κ for each one in which the record takes part, κ
being that of the move.

States here have a few dozen numbers, so the inequality is set up whole, in rationals, without the factored form of
`shift`. Rounding enters once, when its entries become floats for the factorisation.
Source: Theorem 2 of docs/training.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.protocols import float_above
from sottovoce.verification.loops import kernel
from sottovoce.verification.rounding import LARGEST, rational_room
from sottovoce.verification.spectra import factors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sottovoce.certificates import MovesProof
    from sottovoce.verification.loops import ExactRow

__all__ = [
    "Exact",
    "Move",
    "Recursion",
    "exact_array",
    "product",
    "proved_cost",
    "stored_moves",
    "surely_positive",
]

Floats = NDArray[np.float64]
Exact = NDArray[Any]
"""An array of rationals."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Move:
    """One way for a state to move: from the state of index `before` to that of index `after`, matrices in rationals.

    Without `entry` the record takes no part in it; `charge` says which κ it has otherwise.

    `transition` is 𝒜, `bends` is B (a column for each map), `reach` is R (a row for each map), `noise` is N and
    `entry` is b.
    """

    before: int
    after: int
    transition: Exact
    bends: Exact
    reach: Exact
    noise: Exact
    entry: Exact | None = None
    charge: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Recursion:
    """The states, by the rows that are seen of each and its dimension, and all moves that may follow each other.

    Σ counts/κ is what a run costs in which the record takes part so often in moves of each κ.
    """

    sizes: tuple[int, ...]
    seen: tuple[tuple[ExactRow, ...], ...]
    moves: tuple[Move, ...]
    counts: tuple[int, ...] = (1,)


def exact_array(values: object) -> Exact:
    """Numbers as the rationals that they are.

    Guarantee: exact; NaN and infinity raise, as no rational is equal to them.
    """
    given = np.asarray(values, dtype=object)
    return np.array([Fraction(number) for number in given.ravel().tolist()], dtype=object).reshape(
        given.shape
    )


def stored_moves(recursion: Recursion, proof: MovesProof) -> MovesProof:
    """The proof with 0 where a factor follows from the rest: a file holds no number that no check reads.

    Guarantee: exact: at those places the factor is worked out anew from what is seen, whatever a file says.
    """
    factors = []
    for factor, rows, size in zip(proof.factors, recursion.seen, recursion.sizes, strict=True):
        kept = factor.copy()
        kept[kernel(rows, np.arange(size)).pivots] = 0.0
        factors.append(kept)
    return replace(proof, factors=tuple(factors))


def proved_cost(
    recursion: Recursion, proof: MovesProof, *, positive: Callable[[Exact], bool] | None = None
) -> float:
    """What a run costs at most, Σ counts/κ rounded up, if the proof holds for every move; else infinity.

    `positive` decides whether a symmetric matrix of rationals is positive semidefinite; floats with margins do by
    default.

    Guarantee: the view is μ-GDP with μ² the cost over σ², in both orders. Π is rational with C Π = 0 exactly, F is
    built in rationals and rounded entry by entry, and a Cholesky factorisation with the margin of Rump (2006)
    proves it.
    Source: the general inequality of docs/training.md.
    """
    if proof.kappas.size != len(recursion.counts) or not (1e-100 < proof.kappas.min() < np.inf):
        return np.inf
    spread = [
        _completed(factor, rows, size)
        for factor, rows, size in zip(proof.factors, recursion.seen, recursion.sizes, strict=True)
    ]
    kappas = exact_array(proof.kappas)
    for move, beta in zip(recursion.moves, proof.multipliers, strict=True):
        if not (np.isfinite(beta).all() and (beta >= 0).all()):
            return np.inf
        F = _inequality(move, spread[move.before], spread[move.after], exact_array(beta), kappas[move.charge])
        if not (positive or surely_positive)(F):
            return np.inf
    cost = sum(count / kappa for count, kappa in zip(recursion.counts, kappas, strict=True))
    return float_above(Fraction(cost))


def _completed(factor: Floats, rows: Sequence[ExactRow], size: int) -> Exact:
    """A factor in rationals, its rows at the pivots of what is seen solved from the others.

    Guarantee: C X = 0, exactly, whatever floats the factor holds.
    """
    X = exact_array(factor)
    unseen = kernel(rows, np.arange(size))
    solved = _exact_rows(rows, unseen.pivots, size)
    for pivot, line in zip(unseen.pivots.tolist(), solved, strict=True):
        X[pivot] = sum((-x * X[j] for j, x in line.items()), np.full(X.shape[1], Fraction(0), dtype=object))
    return X


def _exact_rows(rows: Sequence[ExactRow], pivots: NDArray[np.int64], size: int) -> list[ExactRow]:
    """For each pivot the row that is 1 there and 0 at the other pivots, without that 1.

        row_k ← row_k / row_k[pivot],   row_i ← row_i − row_i[pivot]·row_k for all i ≠ k

    Guarantee: exact, in rationals; the pivots are those of a kernel, so that each finds a row that is not 0 there.
    """
    table = np.full((len(rows), size), Fraction(0), dtype=object)
    for k, row in enumerate(rows):
        for j, x in row.items():
            table[k, j] = x
    lines: list[ExactRow] = []
    free = list(range(len(table)))
    owner: dict[int, int] = {}
    for pivot in pivots.tolist():
        k = next(i for i in free if table[i, pivot] != 0)
        free.remove(k)
        table[k] = table[k] / table[k, pivot]
        for i in range(len(table)):
            if i != k and table[i, pivot] != 0:
                table[i] = table[i] - table[i, pivot] * table[k]
        owner[pivot] = k
    for pivot in pivots.tolist():
        row = table[owner[pivot]]
        lines.append({j: row[j] for j in range(size) if j != pivot and row[j] != 0})
    return lines


def _inequality(move: Move, before: Exact, after: Exact, beta: Exact, kappa: Fraction) -> Exact:
    """F of one move, in rationals.

        F = [P⁺ + N Nᵀ − b diag(β) bᵀ − κ e eᵀ,  0;  0,  diag(β)] − [A; R] P [A; R]ᵀ

    with P = `before`·`before`ᵀ and P⁺ = `after`·`after`ᵀ; A, R, N, b and e are the move's transition, reach, noise,
    bends and entry. A move proves itself where F ⪰ 0.

    Guarantee: exact.
    Source: docs/training.md, the inequality of a step, of which this is the form for a recursion with memory.
    """
    moved = np.vstack([product(move.transition, before), product(move.reach, before)])
    size, bends = move.transition.shape[0], beta.size
    F = -product(moved, moved.T)
    F[:size, :size] += product(after, after.T) + product(move.noise, move.noise.T)
    F[:size, :size] -= product(move.bends * beta, move.bends.T)
    if move.entry is not None:
        F[:size, :size] -= kappa * np.outer(move.entry, move.entry)
    for k in range(bends):
        F[size + k, size + k] += beta[k]
    return np.asarray(F)


def product(A: Exact, B: Exact) -> Exact:
    """A B in whole numbers, over one denominator for each row of A and each column of B: the sums alone are reduced.

    Guarantee: exact.
    """
    found = np.full((len(A), B.shape[1]), Fraction(0), dtype=object)
    if not A.size or not B.size:
        return found
    (first, below), (second, beside) = _whole(A), _whole(B.T)
    for i, row in enumerate((first @ second.T).tolist()):
        found[i] = [Fraction(x, below[i] * other) for x, other in zip(row, beside, strict=True)]
    return found


def _whole(matrix: Exact) -> tuple[Exact, list[int]]:
    """The whole numbers that each row of rationals has over its common denominator, and these.

    Guarantee: exact.
    """
    rows = matrix.tolist()
    common = [math.lcm(*(x.denominator for x in row)) for row in rows]
    whole = [
        [x.numerator * (below // x.denominator) for x in row] for row, below in zip(rows, common, strict=True)
    ]
    return np.array(whole, dtype=object).reshape(matrix.shape), common


def surely_positive(F: Exact) -> bool:
    """Whether a symmetric matrix of rationals is surely positive semidefinite.

    Guarantee: True is proved. u‖F‖_F for rounding the entries, (n + 1)u of the trace for the factorisation (n + 4
    are taken, times 1.1), and 10⁻³⁰⁰ for entries that underflow; those beyond 10¹⁰⁰ prove nothing.
    Source: Rump (2006); docs/proofs/checks.md, "Units".
    """
    try:
        rounded = np.array(F, dtype=np.float64)
    except OverflowError:
        return False
    if np.abs(rounded).max(initial=0.0) > LARGEST:
        return False
    # Entries are within u of their rationals, and a factorisation that ends is off by γ_{n+1} of the trace.
    return factors(rounded - rational_room(rounded) * np.eye(len(rounded)))
