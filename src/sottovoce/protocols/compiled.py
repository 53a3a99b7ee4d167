# SPDX-License-Identifier: Apache-2.0
"""A round of a program as linear maps with exact rows.

Every register of node i is a linear form in what the nodes kept, what was drawn and what they contribute. Rows are
whole numbers over a common denominator, so that nothing is rounded before what an observer knows is taken out. A row is
made when it is first asked for: an observer asks for those around it, however large the network is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, TypeAlias, overload

import numpy as np

from sottovoce.protocols.program import CONTRIBUTION, Combine, Program
from sottovoce.protocols.rationals import spread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sottovoce.graphs import GossipWeights
    from sottovoce.protocols.protocol import Protocol

__all__ = ["GIVEN", "STATE", "CompiledRound", "ExactRows", "Form", "compile_round", "compiled_rounds"]

Form: TypeAlias = dict[int, int]
"""A linear form: draws in columns 0, 1, …; what was kept from `STATE` on; what is contributed from `GIVEN` on."""

STATE, GIVEN = 1 << 40, 1 << 50

Needs: TypeAlias = "Callable[[int], list[tuple[Forms, int]]]"
"""Which places of which forms the form at a place is made of."""


# Forms are made of forms that are made of others: from this depth on one after the other, as calls go no deeper.
DEEP = 100


class Forms(Sequence[Form]):
    """One linear form a node, each made when it is first asked for."""

    def __init__(
        self, count: int, make: Callable[[int], Form], needs: Needs | None = None, deep: int = 0
    ) -> None:
        """`count` forms, the one at place i being `make(i)` of those that `needs(i)` names, which are less `deep`."""
        self._count, self._make, self._made = count, make, dict[int, Form]()
        self._needs, self.deep = needs, deep

    def __len__(self) -> int:
        """How many there are."""
        return self._count

    @overload
    def __getitem__(self, place: int) -> Form: ...
    @overload
    def __getitem__(self, place: slice) -> list[Form]: ...
    def __getitem__(self, place: int | slice) -> Form | list[Form]:
        """The form at a place, or those of a part."""
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(self._count))]
        if not 0 <= place < self._count:
            raise IndexError(place)
        if place not in self._made:
            if self.deep > DEEP:
                self._prepare(place)
            self._made[place] = self._make(place)
        return self._made[place]

    def _prepare(self, place: int) -> None:
        """Make whatever the form at a place is made of, the deepest first."""
        waiting: list[tuple[Forms, int]] = [(self, place)]
        while waiting:
            forms, i = waiting[-1]
            needed = forms._needs(i) if forms._needs is not None and forms.deep > DEEP else ()
            missing = [(other, j) for other, j in needed if j not in other._made]
            if missing:
                waiting += missing
            else:
                waiting.pop()
                forms._made.setdefault(i, forms._make(i))


@dataclass(frozen=True, kw_only=True, eq=False)
class ExactRows:
    """One linear form a node: numerators over one denominator."""

    forms: Sequence[Form]
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
    program: Program
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
        found: list[Fraction | None] = [None] * self.n
        combinations = [step.terms for step in self.program.instructions if isinstance(step, Combine)]
        for draw in (draw for draw in self.program.draws if draw.each == "node"):
            beside = [(terms.get(CONTRIBUTION, 0), terms.get(draw.name, 0)) for terms in combinations]
            parts = [draw.level, *(value for pair in beside for value in pair)]
            alike = 1 if not any(isinstance(value, tuple) for value in parts) else self.n
            levels = spread(draw.level, alike)
            added = [(spread(given, alike), spread(drawn, alike)) for given, drawn in beside]
            ports = [
                _port([(given[j], drawn[j] * levels[j]) for given, drawn in added]) for j in range(alike)
            ]
            found = [old if old is not None else ports[j % alike] for j, old in enumerate(found)]
        return tuple(found)


def _port(added: list[tuple[Fraction, Fraction]]) -> Fraction | None:
    """κ with given = κ·drawn for all pairs (given, drawn); None if there is none."""
    factor = next((given / drawn for given, drawn in added if drawn), None)
    if factor is None or any(given != factor * drawn for given, drawn in added):
        return None
    return factor


@lru_cache(maxsize=2)
def compiled_rounds(protocol: Protocol) -> tuple[CompiledRound, ...]:
    """The rounds of a protocol, compiled; those that are alike are one and the same value."""
    made: dict[tuple[int, int], CompiledRound] = {}
    rounds = []
    for t in range(protocol.rounds):
        weights, program = protocol.round_of(t)
        key = (id(weights), id(program))
        if key not in made:
            made[key] = compile_round(weights, program)
        rounds.append(made[key])
    return tuple(rounds)


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
        registers[register] = _units(n, STATE + r * n)
    sources = {CONTRIBUTION: _units(n, GIVEN)}
    for draw in program.draws:
        first = len(owners)
        forms: list[Form] = [{} for _ in range(n)]
        if draw.each == "node":
            level = spread(draw.level, n)
            owners += [(i,) for i in range(n)]
            scale = math.lcm(1, *(x.denominator for x in level))
            forms = [
                {first + i: x.numerator * (scale // x.denominator)} if x else {} for i, x in enumerate(level)
            ]
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
        program=program,
        state=_stacked([registers[name] for name in program.keeps], n),
        messages=tuple(messages),
        owners=tuple(owners),
        names=tuple(names),
    )


@lru_cache(maxsize=4)
def edges_of(weights: GossipWeights) -> list[tuple[int, int]]:
    """The pairs of different nodes of which one receives from the other, ascending."""
    matrix = weights.matrix
    rows, columns = np.repeat(np.arange(weights.n), np.diff(matrix.indptr)), matrix.indices
    apart = (rows != columns) & (matrix.data != 0)
    first, second = np.minimum(rows, columns)[apart], np.maximum(rows, columns)[apart]
    first, second = np.divmod(np.unique(first.astype(np.int64) * weights.n + second), weights.n)
    return list(zip(first.tolist(), second.tolist(), strict=True))


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


def _units(n: int, first: int) -> ExactRows:
    """What node i holds is column `first` + i itself."""
    return ExactRows(forms=Forms(n, lambda i: {first + i: 1}), denominator=1)


def _mixing(weights: GossipWeights) -> tuple[Forms, int]:
    """The rows of W in whole numbers over one denominator."""
    if weights.quotients is None:
        common = max((Fraction(x).denominator for x in np.unique(weights.matrix.data).tolist()), default=1)
    else:
        # What a node keeps is 1 less the rest, and asks for no other denominator.
        common = math.lcm(1, *set(weights.quotients.denominators.tolist()))
    return Forms(weights.n, lambda i: {j: int(x * common) for j, x in weights.exact_row(i).items()}), common


def _mixed(mixing: tuple[Forms, int], rows: ExactRows) -> ExactRows:
    """W times a register."""
    weights, common = mixing

    def mixed(i: int) -> Form:
        total: Form = {}
        for j, factor in weights[i].items():
            add_to(total, rows.forms[j], factor)
        return total

    def needs(i: int) -> list[tuple[Forms, int]]:
        return [(rows.forms, j) for j in weights[i]] if isinstance(rows.forms, Forms) else []

    forms = Forms(len(weights), mixed, needs, _deep([rows]) + 1)
    return ExactRows(forms=forms, denominator=rows.denominator * common)


def _deep(several: Sequence[ExactRows]) -> int:
    """How many forms are made of each other, one in the other, at most."""
    return max((rows.forms.deep for rows in several if isinstance(rows.forms, Forms)), default=0)


def _combined(held: Mapping[str, ExactRows], step: Combine, n: int) -> ExactRows:
    """A linear combination, node by node."""
    factors = [(held[name], spread(value, n)) for name, value in step.terms.items()]
    common = math.lcm(
        1, *(d * rows.denominator for rows, values in factors for d in {x.denominator for x in values})
    )

    def combined(i: int) -> Form:
        total: Form = {}
        for rows, values in factors:
            add_to(total, rows.forms[i], int(values[i] * common / rows.denominator))
        return total

    def needs(i: int) -> list[tuple[Forms, int]]:
        return [(rows.forms, i) for rows, _ in factors if isinstance(rows.forms, Forms)]

    forms = Forms(n, combined, needs, _deep([rows for rows, _ in factors]) + 1)
    return ExactRows(forms=forms, denominator=common)


def _stacked(several: list[ExactRows], n: int) -> ExactRows:
    """The rows of several registers below each other."""
    common = math.lcm(1, *(rows.denominator for rows in several))

    def stacked(place: int) -> Form:
        rows = several[place // n]
        return {key: value * (common // rows.denominator) for key, value in rows.forms[place % n].items()}

    def needs(place: int) -> list[tuple[Forms, int]]:
        forms = several[place // n].forms
        return [(forms, place % n)] if isinstance(forms, Forms) else []

    forms = Forms(len(several) * n, stacked, needs, _deep(several) + 1)
    return ExactRows(forms=forms, denominator=common)
