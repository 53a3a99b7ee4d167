# SPDX-License-Identifier: Apache-2.0
"""Rows that say what a view says, each beside fresh noise of its own; or a contribution that stands beside none.

From the last round backwards the rows of a round are brought into echelon form on its unknown draws. A combination
that holds none of them speaks of earlier rounds, and joins the rows of the round before. At the start nothing was
kept, so what is left there is a combination of contributions that no noise hides.

A row of round t is [drawn | kept | given]: its part on the unknown draws of the round, on what was kept before it,
and on contributions of rounds t, t + 1, … (column a of `given` is that of round t + a: a row that came back from
later rounds brings what was contributed there). The rows that stay in round t are independent on `drawn`. Noise of
different rounds is independent, so N is block triangular with blocks of full rank on its diagonal, and N Nᵀ has an
inverse.

Why not floats: whether a combination holds noise is a question of rank, and Δ jumps to infinity there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sottovoce.verification.backwards import Sheet, common_denominator, nothing, pulled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.verification.backwards import Budget, Round, Whole
    from sottovoce.verification.meaning import ExactRow

__all__ = ["Fresh", "FreshRows", "fresh_rows"]


@dataclass(frozen=True, kw_only=True, eq=False)
class FreshRows:
    """Rows of one round, each up to a factor; column a of `given` is what the target contributes a rounds later.

    `drawn` and `kept` have the columns of a `Sheet`. All are whole numbers; a row has no denominator, because a
    factor of a whole row does not change what it says.
    """

    drawn: Whole
    kept: Whole
    given: Whole


class Fresh(NamedTuple):
    """The rows of every round, and the rounds (counted from 0) of which something is seen that no noise hides.

    A pattern that takes part in a round of `bare` has an infinite Δ: the stream that contributes in that round
    alone is told from 0 without error.
    """

    rounds: list[FreshRows]
    bare: frozenset[int]


def fresh_rows(
    rounds: Sequence[Round],
    seen: Sequence[Sequence[tuple[int, Sequence[ExactRow]]]],
    count: int,
    budget: Budget,
) -> Fresh:
    """Independent rows of a view over `count` rounds, those of round t on `rounds[t % len(rounds)]`.

    `seen` gives for each of these rounds which exchanges are seen (from 0), and the rows of each. What is carried
    backwards settles after a few rounds; `made` remembers what a round of a schedule makes of what came to it.

    Guarantee: exact. The rows together say what the view says: invertible combinations, less those that vanish.
    Source: Silverman, Discrete Riccati equations, 1976.
    """
    observed = [_observed(each, rows, budget) for each, rows in zip(rounds, seen, strict=True)]
    made: dict[tuple[int, bool, tuple[tuple[int, ...], ...]], tuple[FreshRows, Whole, set[int]]] = {}
    size = rounds[0].n * len(rounds[0].program.keeps)
    carried = nothing(0, size)
    found: list[FreshRows] = []
    bare: set[int] = set()
    for t in range(count - 1, -1, -1):
        phase = t % len(rounds)
        key = (phase, t == 0, tuple(map(tuple, carried)))
        if key not in made:
            made[key] = _eliminated(rounds[phase], observed[phase], carried, budget, first=t == 0)
        rows, carried, late = made[key]
        found.append(rows)
        bare |= {t + a for a in late}
    return Fresh(found[::-1], frozenset(bare))


def _observed(step_in: Round, seen: Sequence[tuple[int, Sequence[ExactRow]]], budget: Budget) -> list[Sheet]:
    """What is seen of a round, exchange by exchange.

    The rows of a view speak of the register that is sent, as it is when the exchange happens: it is pulled back
    from that instruction, not from the end of the round. Each row is first multiplied by its own denominator.
    """
    sheets = []
    for exchange, rows in seen:
        place, message = step_in.exchanges[exchange]
        table = nothing(len(rows), step_in.n)
        for k, row in enumerate(rows):
            scale = common_denominator(row.values())
            for j, x in row.items():
                table[k, j] = int(x * scale)
        if len(rows):
            sheets.append(pulled(step_in, {message: table}, place, budget))
    return sheets


def _eliminated(
    step_in: Round, observed: Sequence[Sheet], carried: Whole, budget: Budget, *, first: bool
) -> tuple[FreshRows, Whole, set[int]]:
    """The rows of one round, what is carried to the round before, and the rounds (from here) that are seen bare.

    What came back from later rounds speaks of registers at the end of this round, so it is pulled through all of
    it; its gifts, contributions of later rounds, take the denominator of that step and move one column on.

    Guarantee: exact. Both eliminations are by invertible combinations of rows.
    """
    n, keeps = step_in.n, step_in.program.keeps
    size, draws = n * len(keeps), step_in.draws
    gifts = carried[:, size:]
    width = draws + size + 1 + gifts.shape[1]
    tables = [nothing(0, width)]
    for sheet in observed:
        rest = nothing(len(sheet.given), gifts.shape[1])
        tables.append(np.hstack([sheet.drawn, sheet.kept, sheet.given[:, None], rest]))
    if len(carried):
        held = {name: carried[:, r * n : (r + 1) * n] for r, name in enumerate(keeps)}
        sheet = pulled(step_in, held, len(step_in.steps), budget)
        tables.append(np.hstack([sheet.drawn, sheet.kept, sheet.given[:, None], gifts * sheet.below]))
    rows, rest = _echelon(np.vstack(tables), 0, draws, budget)
    # Before round 1 every register was 0, so what a row says of it is nothing.
    if first:
        rest[:, draws : draws + size] = 0
    further, bare = _echelon(rest, draws, draws + size, budget)
    late = {a for a in range(width - draws - size) if (bare[:, draws + size + a] != 0).any()}
    fresh = FreshRows(
        drawn=rows[:, :draws], kept=rows[:, draws : draws + size], given=_trimmed(rows[:, draws + size :])
    )
    return fresh, np.hstack([further[:, draws : draws + size], _trimmed(further[:, draws + size :])]), late


def _echelon(table: Whole, low: int, high: int, budget: Budget) -> tuple[Whole, Whole]:
    """Reduced rows with a pivot among the columns from `low` to `high`, by that column; and what holds none of them.

    Gauss–Jordan without fractions: row ← row·line_p − line·row_p clears column p, and dividing by the greatest
    common divisor keeps numbers short. Reduced rows are unique up to factors but for the choice of pivots.

    Guarantee: exact; the two results together span what `table` spans.
    """
    lines: dict[int, Whole] = {}
    rest = []
    for given in table:
        row = given
        for pivot in [k for k in lines if row[k]]:
            row = _cleared(row, pivot, lines[pivot], budget)
        inside = [k for k in range(low, high) if row[k]]
        if not inside:
            if (row != 0).any():
                rest.append(row)
            continue
        pivot = max(inside, key=lambda k: (abs(row[k]), -k))
        row = _primitive(row if row[pivot] > 0 else -row)
        for k, line in lines.items():
            if line[pivot]:
                lines[k] = _cleared(line, pivot, row, budget)
        lines[pivot] = row
    empty = nothing(0, table.shape[1])
    return np.vstack([empty, *(lines[k] for k in sorted(lines))]), np.vstack([empty, *rest])


def _cleared(row: Whole, pivot: int, line: Whole, budget: Budget) -> Whole:
    """A combination of `row` and `line` without the column `pivot`, in which `line` is positive."""
    budget.spend(2 * row.size, np.abs(row).max(), np.abs(line).max())
    return _primitive(row * line[pivot] - line * row[pivot])


def _primitive(row: Whole) -> Whole:
    """A row divided by the greatest common divisor of its numbers."""
    divisor = math.gcd(*row)
    return row if divisor <= 1 else row // divisor


def _trimmed(table: Whole) -> Whole:
    """A table without columns of zeros at its end."""
    used = np.flatnonzero((table != 0).any(axis=0)) if len(table) else np.zeros(0, dtype=np.int64)
    return table[:, : used[-1] + 1 if used.size else 0]
