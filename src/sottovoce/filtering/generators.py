# SPDX-License-Identifier: Apache-2.0
"""What the rows of a program are made of: a few polynomials in W, in rational numbers.

Where no coefficient differs between nodes, a row that reads what is kept, drawn and contributed in a round is a
vector b of polynomials in W, one for each of these names, times weights on the nodes. With s_t of `backward` the
rows that messages with fresh noise make, and all that is read through them in earlier rounds, are combinations of a few
generators b_1, …, b_ρ, with polynomials for coefficients:

    A_sᵀ(b_j ⊗ v) = Σ_k b_k ⊗ (a_jk(W) v)      for all weights v on the nodes.

So whatever span of v's is kept by W is kept by the program, generator by generator. Polynomials are a principal ideal
domain: the echelon form of the rows by Euclid's algorithm is a basis, and how it moves is read off by division.

Where W is 1, as for the average over all nodes, a_jk(1) are numbers. Noise may then miss a combination of generators
for ever (`misses`): a filter keeps it, and what observers know beside it, as modes that never fade.

Source: Kailath, *Linear Systems*, Section 6.3, for polynomial matrices; docs/proofs/programs.md, "Lifted bases".
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

from sottovoce.protocols import CONTRIBUTION, Combine, exact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.protocols import Program

__all__ = ["Generators", "Polynomial", "generators"]

Polynomial: TypeAlias = tuple[Fraction, ...]
"""Coefficients, that of the power 0 first; the last is not 0, and () is the polynomial 0."""
Row: TypeAlias = tuple[Polynomial, ...]
"""One polynomial for each kept register, each draw and the contribution, in this order."""

# Speed alone: programs with more generators, or polynomials of higher degree, are not worth it.
MOST_GENERATORS, HIGHEST_DEGREE = 8, 8


@dataclass(frozen=True, kw_only=True)
class Generators:
    """b_j, `rows`, and a_jk, `moved`: what is read of row j after a round is Σ_k a_jk(W) b_k before it.

    `kept` says how many of the names in a row are registers that are kept.
    """

    rows: tuple[Row, ...]
    moved: tuple[tuple[Polynomial, ...], ...]
    kept: int

    @property
    def degree(self) -> int:
        """The largest degree of an a_jk."""
        return max(len(each) for row in self.moved for each in row) - 1

    @property
    def misses(self) -> bool:
        """Whether some combination of generators gets neither noise nor contributions where W is 1.

        With A = (a_jk(1)) and G the polynomials of draws and contribution at 1, what enters in a round and has been
        moved k times is A^kG: G, AG, … do not span all combinations then.
        """
        count = len(self.rows)
        A = [[_value(each) for each in row] for row in self.moved]
        entering = [[_value(each) for each in row[self.kept :]] for row in self.rows]
        lines = [list(each) for each in entering]
        for _ in range(count - 1):
            columns = list(zip(*entering, strict=True))
            entering = [
                [
                    sum((a * x for a, x in zip(row, column, strict=True)), start=Fraction(0))
                    for column in columns
                ]
                for row in A
            ]
            lines = [[*line, *more] for line, more in zip(lines, entering, strict=True)]
        return _rank(lines) < count


def generators(program: Program) -> Generators | None:
    """The generators of what messages with fresh noise tell; None where coefficients differ between nodes.

    Guarantee: exact. Rows of a view that other messages make may be no combinations of these.
    Source: the module.
    """
    coefficients = [
        value for step in program.instructions if isinstance(step, Combine) for value in step.terms.values()
    ]
    levels = [draw.level for draw in program.draws]
    if any(isinstance(value, tuple) for value in (*coefficients, *levels)):
        return None
    if any(draw.each != "node" for draw in program.draws):
        return None
    state, messages = _run(program)
    kept = len(program.keeps)
    basis: dict[int, Row] = {}
    waiting = [row for row in messages if any(row[kept:-1])]
    while waiting:
        changed = _joined(basis, waiting.pop())
        if len(basis) > MOST_GENERATORS or max(map(_degree, basis.values())) > HIGHEST_DEGREE:
            return None
        waiting += [_before(row, state) for row in changed]
    if not basis:
        return None
    rows = _tidied([basis[pivot] for pivot in sorted(basis)], sorted(basis))
    pivots = dict(zip(sorted(basis), rows, strict=True))
    moved = [_coefficients(pivots, _before(row, state)) for row in rows]
    return Generators(rows=tuple(rows), moved=tuple(moved), kept=kept)


def _run(program: Program) -> tuple[list[Row], list[Row]]:
    """The kept registers after a round, and the messages of its exchanges, in polynomials.

    A row of polynomials in W, one for each kept register, each draw and the contribution: what a register holds is Σ
    p_k(W) of these. It works where every coefficient is the same for all nodes; others raise TypeError.

    Guarantee: exact, in rationals.
    """
    names = [*program.keeps, *(draw.name for draw in program.draws), CONTRIBUTION]
    held: dict[str, Row] = {
        name: tuple((Fraction(1),) if k == place else () for k in range(len(names)))
        for place, name in enumerate(names)
    }
    messages = []
    for step in program.instructions:
        if isinstance(step, Combine):
            total: Row = ((),) * len(names)
            for name, value in step.terms.items():
                if isinstance(value, tuple):
                    raise TypeError("a coefficient that differs between nodes is no polynomial")
                total = _added(total, held[name], (exact(value),))
            held[step.into] = total
        else:
            messages.append(held[step.message])
            held[step.into] = _added(((),) * len(names), held[step.message], (Fraction(0), Fraction(1)))
    return [held[name] for name in program.keeps], messages


def _before(row: Row, state: Sequence[Row]) -> Row:
    """What a row reads of the registers after a round, as a row that reads before it.

        row ← Σ_k row_k · state_k,   the k-th entry of the row times the k-th register after the round

    Guarantee: exact, in rationals.
    """
    total: Row = ((),) * len(row)
    for each, factor in zip(state, row, strict=False):
        total = _added(total, each, factor)
    return total


def _joined(basis: dict[int, Row], row: Row) -> list[Row]:
    """Take a row into an echelon form, by Euclid's algorithm; the rows of the form that are new.

    Where the pivot of a row is taken already, the one of lower degree stays and the other is divided by it, until one
    of the two is 0: Euclid's algorithm on the entries of a column.

    Guarantee: exact; the rows span the same module over the polynomials.
    """
    changed = []
    while (pivot := next((k for k, each in enumerate(row) if each), None)) is not None:
        if pivot not in basis:
            basis[pivot] = _monic(row, pivot)
            changed.append(basis[pivot])
            break
        quotient, left = _divided(row[pivot], basis[pivot][pivot])
        row = _added(row, basis[pivot], _times(quotient, (Fraction(-1),)))
        if left:
            row, basis[pivot] = basis[pivot], _monic(row, pivot)
            changed.append(basis[pivot])
    return changed


def _tidied(rows: list[Row], pivots: Sequence[int]) -> list[Row]:
    """The rows with entries above pivots of smaller degree than these. Speed alone: numbers stay small."""
    for i in range(len(rows) - 2, -1, -1):
        for j in range(i + 1, len(rows)):
            quotient, _ = _divided(rows[i][pivots[j]], rows[j][pivots[j]])
            rows[i] = _added(rows[i], rows[j], _times(quotient, (Fraction(-1),)))
    return rows


def _coefficients(pivots: dict[int, Row], row: Row) -> tuple[Polynomial, ...]:
    """The polynomials with which the rows of an echelon form add up to one that they span.

    Guarantee: exact; that the rows add up is checked, and an echelon form that fails it raises.
    """
    found = []
    for pivot, each in pivots.items():
        quotient, _ = _divided(row[pivot], each[pivot])
        row = _added(row, each, _times(quotient, (Fraction(-1),)))
        found.append(quotient)
    if any(row):
        raise ArithmeticError("an echelon form does not span what it was made from")
    return tuple(found)


def _rank(lines: Sequence[Sequence[Fraction]]) -> int:
    """How many lines are independent.

    Guarantee: exact: Gauss elimination in rationals.
    """
    reduced: list[tuple[int, list[Fraction]]] = []
    for line in lines:
        rest = list(line)
        for pivot, other in reduced:
            factor = rest[pivot] / other[pivot]
            rest = [x - factor * y for x, y in zip(rest, other, strict=True)]
        lead = next((k for k, x in enumerate(rest) if x), None)
        if lead is not None:
            reduced.append((lead, rest))
    return len(reduced)


def _value(polynomial: Polynomial) -> Fraction:
    """The value at 1."""
    return sum(polynomial, start=Fraction(0))


def _degree(row: Row) -> int:
    """The largest degree in a row."""
    return max(map(len, row)) - 1


def _monic(row: Row, pivot: int) -> Row:
    """A row divided by the leading coefficient of its pivot."""
    factor = (1 / row[pivot][-1],)
    return tuple(_times(each, factor) for each in row)


def _added(row: Row, other: Row, factor: Polynomial) -> Row:
    """`row` + `factor`·`other`."""
    return tuple(_plus(each, _times(more, factor)) for each, more in zip(row, other, strict=True))


def _plus(first: Polynomial, second: Polynomial) -> Polynomial:
    """The sum of two polynomials."""
    longer, shorter = (first, second) if len(first) >= len(second) else (second, first)
    return _short([x + y for x, y in zip(longer, shorter, strict=False)] + list(longer[len(shorter) :]))


def _times(first: Polynomial, second: Polynomial) -> Polynomial:
    """The product of two polynomials."""
    found = [Fraction(0)] * max(0, len(first) + len(second) - 1)
    for i, x in enumerate(first):
        for j, y in enumerate(second):
            found[i + j] += x * y
    return _short(found)


def _divided(first: Polynomial, second: Polynomial) -> tuple[Polynomial, Polynomial]:
    """Quotient and remainder, the latter of smaller degree than `second`, which is not 0.

    Guarantee: exact: first = quotient·second + remainder in rationals.
    """
    left, quotient = list(first), [Fraction(0)] * max(0, len(first) - len(second) + 1)
    for k in range(len(quotient) - 1, -1, -1):
        quotient[k] = left[k + len(second) - 1] / second[-1]
        for j, y in enumerate(second):
            left[k + j] -= quotient[k] * y
    return _short(quotient), _short(left)


def _short(coefficients: Sequence[Fraction]) -> Polynomial:
    """Coefficients without zeros at the end."""
    end = len(coefficients)
    while end and not coefficients[end - 1]:
        end -= 1
    return tuple(coefficients[:end])
