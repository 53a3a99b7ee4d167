# SPDX-License-Identifier: Apache-2.0
"""Programs read backwards, in whole numbers: what a combination of registers says of the draws that went into it.

A combination Σ f_i · register_i is pulled through the instructions from the last to the first. Where a register was
combined, f goes on to its terms; where it was received, f W goes on to the message. What arrives at the start of
the round is a combination of what was kept, of the round's draws and of what the target contributed. Nothing is
rounded, and no map of a round is ever formed.

Numbers are Python integers in arrays of objects, with one denominator a sheet: `Fraction` would find a common
divisor after each operation. They grow with every round, so all work is counted in words (`Budget`) and refused
when it is spent. A file can therefore make the verifier refuse, and never make it run for hours.
Source: reverse accumulation, as in algorithmic differentiation; here over the integers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sottovoce.errors import NotCertified
from sottovoce.protocols import CONTRIBUTION, Combine, spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from fractions import Fraction

    from numpy.typing import NDArray

    from sottovoce.graphs import GossipWeights
    from sottovoce.protocols import Program

    Whole = NDArray[Any]

__all__ = ["Budget", "Round", "Sheet", "common_denominator", "nothing", "pulled"]

# Products of whole numbers, in units of about a nanosecond: this many take up to half a minute.
MOST_WORK = 8_000_000_000
# Binary digits of a common denominator of weights or coefficients. Longer ones are made to keep a verifier busy.
MOST_BITS = 20_000


class Budget:
    """How much exact arithmetic may still be done; `left` is in units of about a nanosecond."""

    def __init__(self, most: int = MOST_WORK) -> None:
        self.left = most

    def spend(self, products: int, one: int, other: int) -> None:
        """Count some products of numbers of the sizes of `one` and `other`.

        A product costs about 80 units for the objects, and the words of one factor times the words of the other.
        """
        self.left -= products * (80 + (one.bit_length() // 64) * (1 + other.bit_length() // 64))
        if self.left < 0:
            raise NotCertified(
                "following what the observer sees through this program takes more exact arithmetic than is done here "
                "(take fewer rounds, a smaller view or network, or numbers with small denominators)"
            )


class Sheet(NamedTuple):
    """Combinations of what goes into a round, one a row, over a common denominator.

    `drawn` has a column for each draw that the observer does not know, `kept` one for each kept register and node,
    and `given` is what the target contributes in the round. All are whole numbers, to be divided by `below`. A
    column of `drawn` is per unit of standard normal noise: levels are multiplied in.
    """

    drawn: Whole
    kept: Whole
    given: Whole
    below: int


class _Step(NamedTuple):
    """An instruction, its numbers as whole ones over `scale`; `factors` is None for an exchange.

    `into` is the register that it sets. A combination multiplies each source by `factors`, one number a node; an
    exchange sends `message` and has the denominator of W as its scale.
    """

    into: str
    scale: int
    factors: Mapping[str, Whole] | None
    message: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Round:
    """A round of a program on its weights, as one observer and one target see it.

    `known` are the nodes whose draws the observer knows, and with a node all edges at it. `target` is a node index.
    The properties are the same facts in whole numbers, made when first asked for.
    """

    weights: GossipWeights
    program: Program
    known: frozenset[int]
    target: int

    @property
    def n(self) -> int:
        """How many nodes there are."""
        return self.weights.n

    @cached_property
    def rows(self) -> list[dict[int, Fraction]]:
        """The rows of W in rationals."""
        return [self.weights.exact_row(i) for i in range(self.n)]

    @cached_property
    def mixing(self) -> tuple[list[tuple[NDArray[np.int64], Whole]], int]:
        """The rows of W: columns and whole numbers over one denominator."""
        below = common_denominator(x for row in self.rows for x in row.values())
        made = [(np.array(list(row), dtype=np.int64), _whole(row.values(), below)) for row in self.rows]
        return made, below

    @cached_property
    def columns(self) -> dict[int, list[tuple[int, Fraction]]]:
        """The columns of W that are not 0: who receives how much of a node's message."""
        found: dict[int, list[tuple[int, Fraction]]] = {}
        for i, row in enumerate(self.rows):
            for j, x in row.items():
                found.setdefault(j, []).append((i, x))
        return found

    @cached_property
    def steps(self) -> list[_Step]:
        """The instructions in whole numbers.

        Each instruction gets one denominator of its own, so that the work that follows is in whole numbers alone.

        Guarantee: exact; an exchange is written as the mixing of the round, whose denominator is kept beside it.
        """
        made = []
        for step in self.program.instructions:
            if isinstance(step, Combine):
                terms = {name: spread(value, self.n) for name, value in step.terms.items()}
                scale = common_denominator(x for values in terms.values() for x in values)
                factors = {name: _whole(values, scale) for name, values in terms.items()}
                made.append(_Step(step.into, scale, factors, ""))
            else:
                made.append(_Step(step.into, self.mixing[1], None, step.message))
        return made

    @cached_property
    def levels(self) -> tuple[dict[str, Whole], int]:
        """The levels of all draws as whole numbers over one denominator."""
        levels = {draw.name: spread(draw.level, self.n) for draw in self.program.draws}
        scale = common_denominator(x for values in levels.values() for x in values)
        return {name: _whole(values, scale) for name, values in levels.items()}, scale

    @cached_property
    def places(self) -> dict[str, tuple[NDArray[np.int64], NDArray[np.int64] | None]]:
        """Where the unknown draws of each name are added, and (for edges) taken off.

        A draw of an edge is known to both its ends, so it is unknown only where neither end is a known node. An
        edge is there as soon as one of its directions has weight.
        """
        hidden = [i for i in range(self.n) if i not in self.known]
        nodes = np.array(hidden, dtype=np.int64), None
        if all(draw.each == "node" for draw in self.program.draws):
            return {draw.name: nodes for draw in self.program.draws}
        pairs = {
            (min(i, j), max(i, j))
            for i, row in enumerate(self.rows)
            for j, x in row.items()
            if x and i != j and i not in self.known and j not in self.known
        }
        ends = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)
        return {
            draw.name: nodes if draw.each == "node" else (ends[:, 0], ends[:, 1])
            for draw in self.program.draws
        }

    @property
    def draws(self) -> int:
        """How many unknown draws the round has."""
        return sum(first.size for first, _ in self.places.values())

    @property
    def exchanges(self) -> list[tuple[int, str]]:
        """Where each exchange stands among the instructions, and the register that it sends."""
        return [(k, step.message) for k, step in enumerate(self.steps) if step.factors is None]


def common_denominator(numbers: Iterable[Fraction]) -> int:
    """The least common denominator, if it is not beyond reason.

    Guarantee: exact; refused above MOST_BITS before it is used.
    """
    below = 1
    for denominator in {x.denominator for x in numbers}:
        below = math.lcm(below, denominator)
        if below.bit_length() > MOST_BITS:
            raise NotCertified(
                f"the weights or coefficients have a common denominator of more than {MOST_BITS} binary digits, which "
                "is more than is followed exactly here (take numbers with small denominators)"
            )
    return below


def nothing(rows: int, columns: int) -> Whole:
    """Zeros that are whole numbers of any size."""
    table = np.empty((rows, columns), dtype=object)
    table[:] = 0
    return table


def pulled(step_in: Round, held: Mapping[str, Whole], last: int, budget: Budget) -> Sheet:
    """What combinations of registers, as they are before instruction `last`, say of what went into the round.

    `held` has for each register a row a combination and a column a node. From the last instruction to the first,
    the factor f of the register that is set goes over to its sources:

        into = Σ_a g_a · source_a :   f_source_a += f_into · g_a        (node by node)
        into = W message :            f_message  += f_into W

    A register that is set is taken out of the table, since what it held before does not matter. With denominators,
    everything else is multiplied by the step's scale, and `below` with it.

    Guarantee: exact.
    """
    table = dict(held)
    count = next(iter(held.values())).shape[0]
    below = 1
    for step in reversed(step_in.steps[:last]):
        moved = table.pop(step.into, None)
        if moved is None or not (moved != 0).any():
            continue
        if step.factors is None:
            going = {step.message: _mixed(step_in, moved, budget)}
        else:
            budget.spend(moved.size * len(step.factors), np.abs(moved).max(), step.scale)
            going = {name: moved * factors for name, factors in step.factors.items()}
        # What did not pass through this step is brought to the new denominator.
        if step.scale != 1:
            below *= step.scale
            budget.spend(moved.size * len(table), below, step.scale)
            table = {name: part * step.scale for name, part in table.items()}
        for name, part in going.items():
            table[name] = table[name] + part if name in table else part
    # The table now stands at the start of the round. Draws get their levels, an edge's + at one end and − at the other.
    levels, scale = step_in.levels
    none = nothing(count, step_in.n)
    drawn = [none[:, :0]]
    for name, (added, taken) in step_in.places.items():
        part = table.get(name, none)
        part = part[:, added] if taken is None else part[:, added] - part[:, taken]
        drawn.append(part * levels[name][added])
    kept = np.hstack([none[:, :0], *(table.get(name, none) for name in step_in.program.keeps)])
    given = table.get(CONTRIBUTION, none)[:, step_in.target]
    return _reduced(Sheet(np.hstack(drawn), kept * scale, given * scale, below * scale), budget)


def _mixed(step_in: Round, moved: Whole, budget: Budget) -> Whole:
    """F W, up to the denominator of W.

    Row i of W in whole numbers is spread onto the nodes that i hears; rows in which nothing stands are passed over.

    Guarantee: exact; refused with NotCertified once the budget of digits is spent.
    """
    result = nothing(*moved.shape)
    largest, stands = np.abs(moved).max(), moved != 0
    for i, (columns, numbers) in enumerate(step_in.mixing[0]):
        rows = np.flatnonzero(stands[:, i])
        if rows.size:
            budget.spend(rows.size * columns.size, largest, step_in.mixing[1])
            result[rows[:, None], columns] += moved[rows, i, None] * numbers
    return result


def _reduced(sheet: Sheet, budget: Budget) -> Sheet:
    """A sheet divided by what all its numbers have in common.

    Kept short in this way, numbers grow with the true denominators alone. The search ends at the first number that
    has nothing in common with the rest.
    """
    divisor = sheet.below
    for part in (sheet.given, sheet.drawn, sheet.kept):
        for number in part.flat:
            # A common divisor costs several products.
            budget.spend(10, number, divisor)
            divisor = math.gcd(divisor, number)
            if divisor == 1:
                return sheet
    drawn, kept, given, below = sheet
    return Sheet(drawn // divisor, kept // divisor, given // divisor, below // divisor)


def _whole(values: Any, scale: int) -> Whole:  # noqa: ANN401
    """Rationals times a common denominator.

    Guarantee: exact where `scale` is a multiple of every denominator, which callers take care of.
    """
    numbers: list[Fraction] = list(values)
    table = np.empty(len(numbers), dtype=object)
    table[:] = [x.numerator * (scale // x.denominator) for x in numbers]
    return table
