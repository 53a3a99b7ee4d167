# SPDX-License-Identifier: Apache-2.0
"""What a view shows of a program, from the definition: the program is run, in rationals, and what is seen written down.

A register of all nodes is a matrix: a row for each node, and a column for each contribution of the target and each
draw that the observer does not know. So one run with such matrices follows all of them at once, and the rows that
the observer sees are N and G themselves.

This is the definition, forwards; the float path reads the same program backwards (`backwards`), so that a mistake
in either shows in a comparison of the two. With an encoder C the columns are fresh ξ, and a draw of round t is
level·Σ_s (C⁻¹)_{t−s} ξ_s. Draws of an edge enter at one end with + and at the other with −.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from flint import fmpq, fmpq_mat, fmpz_mat, nmod_mat

from sottovoce.protocols import CONTRIBUTION, Combine, spread
from sottovoce.verification.balls.numbers import diagonal, matrix, rational

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from sottovoce.protocols import Draw
    from sottovoce.verification.backwards import Round
    from sottovoce.verification.meaning import ProgramQuestion

__all__ = ["Seen", "seen"]

# Rank modulo a prime of one machine word is cheap; rows that depend modulo it are looked at in rationals.
_PRIME = 2**61 - 1


class Seen(NamedTuple):
    """Independent rows that say what a view says, G on the rounds asked about and N on what the observer does not know.

    `own` has for each of these rounds κ where what is contributed looks, in all that is seen, like κ times a draw
    of the target in that round, and None where it does not. `bare` are those of which something stands beside no
    noise. `noise` is N and `gain` is G, row by row the same rows; N has full row rank where nothing is bare.
    """

    noise: fmpq_mat
    gain: fmpq_mat
    own: tuple[fmpq | None, ...]
    bare: tuple[int, ...]


def seen(asked: ProgramQuestion, rounds: Sequence[int]) -> Seen:
    """N and G of a view, G for contributions in `rounds` (counted from 0).

    Guarantee: exact. Where rows depend on each other they are brought into echelon form, so that each that is left
    has noise of its own, or none at all: then what it holds of contributions is bare.
    Source: the definition of a program, docs/protocols.md.
    """
    columns, shown = _run(asked, rounds)
    noisy = len(columns) - len(rounds)
    own = tuple(_share(columns, shown, noisy, k) for k in range(len(rounds)))
    rows = shown if _independent([row[:noisy] for row in shown]) else _echelon(shown)
    return Seen(
        noise=fmpq_mat(len(rows), noisy, [x for row in rows for x in row[:noisy]]),
        gain=fmpq_mat(len(rows), len(rounds), [x for row in rows for x in row[noisy:]]),
        own=own,
        bare=tuple(
            t for k, t in enumerate(rounds) if any(row[noisy + k] for row in rows if not any(row[:noisy]))
        ),
    )


def _independent(rows: list[list[fmpq]]) -> bool:
    """Whether rows are independent modulo a prime, so that they are independent; False says nothing."""
    whole, _ = fmpq_mat(rows).numer_denom() if rows else (fmpz_mat(0, 0), 1)
    return bool(nmod_mat(whole, _PRIME).rank() == len(rows))


def _echelon(rows: list[list[fmpq]]) -> list[list[fmpq]]:
    """Independent rows that say what some rows say, in echelon form.

    Noise stands left of contributions, so a row whose pivot is a contribution holds no noise.
    """
    echelon, rank = fmpq_mat(rows).rref()
    independent: list[list[fmpq]] = echelon.tolist()[:rank]
    return independent


Column = tuple[int, str, tuple[int, ...]]


def _run(asked: ProgramQuestion, rounds: Sequence[int]) -> tuple[list[Column], list[list[fmpq]]]:
    """The columns (when, what, whose), and a row for everything that is seen.

    Instructions act on whole registers: Combine adds multiples of them, node by node; Exchange multiplies by W from
    the left, after the rows of the view that watch it have been written down.
    """
    # Late noise first: an echelon form then gives each row noise of its own round.
    drawn = [
        (t, draw.name, owners)
        for t in reversed(range(asked.count))
        for draw in _at(asked, t).program.draws
        for owners in _unknown(_at(asked, t), draw)
    ]
    columns = [*drawn, *((t, CONTRIBUTION, (_at(asked, t).target,)) for t in rounds)]
    place = {column: k for k, column in enumerate(columns)}
    inverse = _inverse(asked.code, asked.count)
    n = asked.rounds[0].n
    mixing = [matrix(here.rows, range(n)) for here in asked.rounds]
    held: dict[str, fmpq_mat] = {name: fmpq_mat(n, len(columns)) for name in asked.rounds[0].program.keeps}
    shown: list[list[fmpq]] = []
    for t in range(asked.count):
        here, W = _at(asked, t), mixing[t % len(mixing)]
        registers = {**held, **_sources(here, t, place, inverse)}
        watched = dict(asked.seen[t % len(asked.seen)])
        exchanges = itertools.count()
        for step in here.program.instructions:
            if isinstance(step, Combine):
                parts = (_times(spread(x, n), registers[name]) for name, x in step.terms.items())
                registers[step.into] = sum(parts, fmpq_mat(n, len(columns)))
            else:
                message = registers[step.message]
                shown += (matrix(watched.get(next(exchanges), ()), range(n)) * message).tolist()
                registers[step.into] = W * message
        held = {name: registers[name] for name in held}
    return columns, shown


def _at(asked: ProgramQuestion, t: int) -> Round:
    """The round t, counted from 0."""
    return asked.rounds[t % len(asked.rounds)]


def _unknown(here: Round, draw: Draw) -> Iterator[tuple[int, ...]]:
    """Who draws what the observer does not know: a node, or the two ends of an edge, neither of them known.

    Guarantee: exact: a draw of an edge is unknown only if neither of its ends is known.
    """
    hidden = [i for i in range(here.n) if i not in here.known]
    if draw.each == "node":
        return ((i,) for i in hidden)
    linked = {(i, j) for i in hidden for j, x in here.rows[i].items() if x}
    return ((i, j) for i, j in itertools.combinations(hidden, 2) if linked & {(i, j), (j, i)})


def _sources(
    here: Round, t: int, place: dict[Column, int], inverse: Sequence[Fraction]
) -> dict[str, fmpq_mat]:
    """The contribution and the draws of round t: of each draw level · Σ_s (C⁻¹)_ts ξ_s, with + and − at an edge.

    Shapes: n rows, one column for each unknown draw and each contribution that `place` knows.

    Guarantee: exact, in rationals; draws that the observer knows have no column.
    """
    made = {CONTRIBUTION: fmpq_mat(here.n, len(place))}
    if (column := (t, CONTRIBUTION, (here.target,))) in place:
        made[CONTRIBUTION][here.target, place[column]] = fmpq(1)
    for draw in here.program.draws:
        made[draw.name] = fmpq_mat(here.n, len(place))
        levels = spread(draw.level, here.n)
        for owners in _unknown(here, draw):
            for s in range(t + 1):
                if inverse[t - s]:
                    for node, sign in zip(owners, (1, -1), strict=False):
                        size = rational(sign * levels[node] * inverse[t - s])
                        made[draw.name][node, place[s, draw.name, owners]] = size
    return made


def _inverse(code: Sequence[Fraction], count: int) -> list[Fraction]:
    """The first column of C⁻¹, C being lower triangular and Toeplitz with first column `code`.

        d_0 = 1/c_0,   d_k = −(1/c_0) Σ_{a ≥ 1} c_a d_{k−a}.

    Guarantee: exact.
    """
    column = [1 / code[0]]
    for k in range(1, count):
        column.append(-sum(code[a] * column[k - a] for a in range(1, min(k, len(code) - 1) + 1)) / code[0])
    return column


def _times(numbers: Sequence[Fraction], register: fmpq_mat) -> fmpq_mat:
    """Each node's row times its number."""
    factors = [rational(x) for x in numbers]
    return register * factors[0] if len(set(factors)) == 1 else diagonal(factors) * register


def _share(columns: Sequence[Column], shown: Sequence[Sequence[fmpq]], noisy: int, k: int) -> fmpq | None:
    """κ where the k-th contribution looks like κ times a draw of the target in its round, in every row; else None.

    One row gives κ, and all others must agree. Draws that nothing shows are passed over.
    """
    t, _, owner = columns[noisy + k]
    given = [row[noisy + k] for row in shown]
    if not any(given):
        return fmpq(0)
    for j, (when, _, owners) in enumerate(columns[:noisy]):
        if (when, owners) == (t, owner):
            drawn = [row[j] for row in shown]
            first = next((i for i, x in enumerate(drawn) if x), None)
            if first is not None and given == [x * (given[first] / drawn[first]) for x in drawn]:
                return given[first] / drawn[first]
    return None
