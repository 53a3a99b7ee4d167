# SPDX-License-Identifier: Apache-2.0
"""A round of a program as linear maps with exact rows.

Every register of node i is a linear form in what the nodes kept, what was drawn and what they contribute. Rows are
whole numbers over a common denominator, so that nothing is rounded before what an observer knows is taken out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from sottovoce.protocols.program import CONTRIBUTION, Combine, Program
from sottovoce.protocols.rationals import exact, spread

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from sottovoce.graphs import GossipWeights
    from sottovoce.protocols.protocol import Protocol

__all__ = ["GIVEN", "STATE", "CompiledRound", "ExactRows", "Form", "compile_round", "compiled_rounds"]

Form: TypeAlias = dict[int, int]
"""A linear form: draws in columns 0, 1, …; what was kept from `STATE` on; what is contributed from `GIVEN` on."""

STATE, GIVEN = 1 << 40, 1 << 50


@dataclass(frozen=True, kw_only=True, eq=False)
class ExactRows:
    """One linear form a node: numerators over one denominator."""

    forms: list[Form]
    denominator: int

    def combined(self, row: Mapping[int, Fraction]) -> Form:
        """Σ_i row_i · form_i, up to a positive factor: whole numbers without a common divisor."""
        common = math.lcm(1, *(x.denominator for x in row.values()))
        total: Form = {}
        for i, x in row.items():
            add_to(total, self.forms[i], int(x * common))
        return primitive(total)


@dataclass(frozen=True, kw_only=True, eq=False)
class CompiledRound:
    """What one round does: the kept registers after it, and the messages of every exchange, as exact rows.

    Column r·n + i of what was kept is register `keeps[r]` of node i. `owners[k]` are the nodes that know draw k, and
    `names[k]` is what the program calls it.
    """

    n: int
    state: ExactRows
    messages: tuple[ExactRows, ...]
    owners: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]

    @property
    def size(self) -> int:
        """How many numbers are kept."""
        return len(self.state.forms)

    @cached_property
    def ports(self) -> tuple[Fraction | None, ...]:
        """κ_j for each node j whose contribution enters everywhere as κ_j times a draw of its own does; else None.

        A stream of contributions then looks like noise of κ_j times its size, so that M ⪯ κ_j² I.
        """
        columns: dict[int, dict[tuple[int, int], Fraction]] = {}
        for place, rows in enumerate((self.state, *self.messages)):
            for i, form in enumerate(rows.forms):
                for key, value in form.items():
                    if key < STATE or key >= GIVEN:
                        columns.setdefault(key, {})[place, i] = exact(value) / rows.denominator
        return tuple(self._port(columns, j) for j in range(self.n))

    def _port(self, columns: dict[int, dict[tuple[int, int], Fraction]], j: int) -> Fraction | None:
        given = columns.get(GIVEN + j, {})
        for k, owners in enumerate(self.owners):
            drawn = columns.get(k, {}) if owners == (j,) else {}
            if not drawn or given.keys() != drawn.keys():
                continue
            first = next(iter(drawn))
            factor = given[first] / drawn[first]
            if all(given[place] == factor * x for place, x in drawn.items()):
                return factor
        return None


def compiled_rounds(protocol: Protocol) -> list[CompiledRound]:
    """The rounds of a protocol, compiled; those that are alike are one and the same value."""
    made: dict[tuple[int, int], CompiledRound] = {}
    rounds = []
    for t in range(protocol.rounds):
        weights, program = protocol.round_of(t)
        key = (id(weights), id(program))
        if key not in made:
            made[key] = compile_round(weights, program)
        rounds.append(made[key])
    return rounds


def compile_round(weights: GossipWeights, program: Program) -> CompiledRound:
    """Run a program once on symbols: every register becomes a linear form at every node.

    Guarantee: exact.

    >>> from sottovoce import graphs
    >>> from sottovoce.protocols import momentum
    >>> protocol = momentum(graphs.metropolis_weights("path:n=2"), rounds=1, beta="1/2")
    >>> compiled = compile_round(protocol.schedule[0], protocol.programs[0])
    >>> compiled.size, compiled.messages[0].forms[0][STATE], compiled.messages[0].denominator
    (4, 2, 2)
    """
    n = weights.n
    registers: dict[str, ExactRows] = {}
    owners: list[tuple[int, ...]] = []
    names: list[str] = []
    for r, register in enumerate(program.keeps):
        registers[register] = ExactRows(forms=[{STATE + r * n + i: 1} for i in range(n)], denominator=1)
    sources = {CONTRIBUTION: ExactRows(forms=[{GIVEN + j: 1} for j in range(n)], denominator=1)}
    for draw in program.draws:
        first = len(owners)
        forms: list[Form] = [{} for _ in range(n)]
        if draw.each == "node":
            level = spread(draw.level, n)
            owners += [(i,) for i in range(n)]
            scale = math.lcm(1, *(x.denominator for x in level))
            forms = [{first + i: int(level[i] * scale)} if level[i] else {} for i in range(n)]
        else:
            level = spread(draw.level, 1)
            scale = level[0].denominator
            for i, j in edges_of(weights):
                if level[0]:
                    forms[i][len(owners)], forms[j][len(owners)] = level[0].numerator, -level[0].numerator
                owners.append((i, j))
        names += [draw.name] * (len(owners) - first)
        sources[draw.name] = ExactRows(forms=forms, denominator=scale)
    mixing = _mixing(weights)
    messages = []
    for step in program.instructions:
        if isinstance(step, Combine):
            registers[step.into] = _combined({**registers, **sources}, step, n)
        else:
            messages.append(registers[step.message])
            registers[step.into] = _mixed(mixing, registers[step.message])
    return CompiledRound(
        n=n,
        state=_stacked([registers[name] for name in program.keeps]),
        messages=tuple(messages),
        owners=tuple(owners),
        names=tuple(names),
    )


def edges_of(weights: GossipWeights) -> list[tuple[int, int]]:
    """The pairs of different nodes of which one receives from the other, ascending."""
    return sorted({(min(i, int(j)), max(i, int(j))) for i in range(weights.n) for j in weights.neighbours(i)})


def add_to(total: Form, form: Form, factor: int) -> None:
    """Total += factor · form; entries that vanish are taken out."""
    if not factor:
        return
    for key, value in form.items():
        changed = total.get(key, 0) + factor * value
        if changed:
            total[key] = changed
        else:
            total.pop(key, None)


def primitive(form: Form) -> Form:
    """A form divided by the greatest common divisor of its numbers."""
    divisor = math.gcd(*form.values())
    return form if divisor <= 1 else {key: value // divisor for key, value in form.items()}


def _mixing(weights: GossipWeights) -> tuple[list[Form], int]:
    """The rows of W in whole numbers over one denominator."""
    rows = [weights.exact_row(i) for i in range(weights.n)]
    common = math.lcm(1, *{x.denominator for row in rows for x in row.values()})
    return [{j: int(x * common) for j, x in row.items()} for row in rows], common


def _mixed(mixing: tuple[list[Form], int], rows: ExactRows) -> ExactRows:
    """W times a register."""
    weights, common = mixing
    forms = []
    for row in weights:
        total: Form = {}
        for j, factor in row.items():
            add_to(total, rows.forms[j], factor)
        forms.append(total)
    return ExactRows(forms=forms, denominator=rows.denominator * common)


def _combined(held: Mapping[str, ExactRows], step: Combine, n: int) -> ExactRows:
    """A linear combination, node by node."""
    factors = {name: spread(value, n) for name, value in step.terms.items()}
    common = math.lcm(
        1, *(x.denominator * held[name].denominator for name, values in factors.items() for x in set(values))
    )
    forms = []
    for i in range(n):
        total: Form = {}
        for name, values in factors.items():
            add_to(total, held[name].forms[i], int(values[i] * common / held[name].denominator))
        forms.append(total)
    return ExactRows(forms=forms, denominator=common)


def _stacked(several: list[ExactRows]) -> ExactRows:
    """The rows of several registers below each other."""
    common = math.lcm(1, *(rows.denominator for rows in several))
    forms = [
        {key: value * (common // rows.denominator) for key, value in form.items()}
        for rows in several
        for form in rows.forms
    ]
    return ExactRows(forms=forms, denominator=common)
