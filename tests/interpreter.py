# SPDX-License-Identifier: Apache-2.0
"""Programs run in rationals, every draw and contribution by itself: sensitivities straight from the definition.

Shares no code with the package except the values it reads: `Program`, `Protocol` and `View`.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from flint import fmpq, fmpq_mat

from sottovoce.protocols import Combine, Draw, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sottovoce.views import View

Matrix = list[list[Fraction]]
Rows = list[list[fmpq]]
Impulse = tuple[int, str, tuple[int, ...]]
"""A round, the name of what is drawn or contributed in it, and the node or the two nodes whose it is."""


@dataclass(frozen=True)
class ExactView:
    """What a view shows of one target: G (rows × rounds) and N (rows × unknown draws), in rationals."""

    G: Rows
    N: Rows

    def form(self) -> Matrix | None:
        """M = Gᵀ(N Nᵀ)⁺G; None where it is infinite."""
        return self._form

    @functools.cached_property
    def _form(self) -> Matrix | None:
        size, rounds = len(self.G), len(self.G[0]) if self.G else 0
        if not size:
            return []
        G, N = fmpq_mat(self.G), fmpq_mat(size, len(self.N[0]), [x for row in self.N for x in row])
        # Any X with (N Nᵀ) X = G gives M = GᵀX, as N Nᵀ is symmetric.
        beside = [[*noise, *gain] for noise, gain in zip((N * N.transpose()).tolist(), self.G, strict=True)]
        reduced, rank = fmpq_mat(beside).rref()
        X = fmpq_mat(size, rounds)
        for i in range(rank):
            pivot = next(j for j in range(size + rounds) if reduced[i, j])
            if pivot >= size:
                # A combination of rows shows what is contributed, and holds no noise at all.
                return None
            for t in range(rounds):
                X[pivot, t] = reduced[i, size + t]
        return [[fraction(x) for x in row] for row in (G.transpose() * X).tolist()]

    def value(self, stream: Iterable[Any]) -> Fraction | None:
        """cᵀMc of one stream, without M; None where it is infinite."""
        c = [number(x) for x in stream]
        found = ExactView([[product(row, c)] for row in self.G], self.N).form()
        return None if found is None else found[0][0]


@functools.lru_cache(maxsize=1024)
def exact_view(protocol: Protocol, view: View, target: int) -> ExactView:
    """Follow every unknown draw and every contribution of the target through all rounds."""
    columns = shown(protocol, view)
    G = transposed([columns[t, "contribution", (target,)] for t in range(protocol.rounds)])
    noise = noise_columns(protocol, view)
    return ExactView(G, transposed(noise) if noise else [[] for _ in G])


@functools.lru_cache(maxsize=1024)
def noise_columns(protocol: Protocol, view: View) -> Rows:
    """What the view shows of every draw that it does not know."""
    known = knowing(view)
    return decoded(
        protocol,
        [
            (t, name, owners, column)
            for (t, name, owners), column in shown(protocol, view).items()
            if name != "contribution" and not known & set(owners)
        ],
    )


def decoded(protocol: Protocol, noise: list[Any]) -> Rows:
    """The columns of fresh ξ where the draws are C⁻¹ξ: N (C⁻¹ ⊗ I)."""
    code = [number(x) for x in protocol.encoder][: protocol.rounds]
    inverse = [1 / code[0]]
    for k in range(1, protocol.rounds):
        inverse.append(
            -sum((code[a] * inverse[k - a] for a in range(1, min(k, len(code) - 1) + 1)), fmpq(0)) / code[0]
        )
    if all(not x for x in inverse[1:]):
        return [[inverse[0] * x for x in column] for *_, column in noise]
    by_draw: dict[Any, dict[int, list[fmpq]]] = {}
    for t, name, owners, column in noise:
        by_draw.setdefault((name, owners), {})[t] = column
    columns = []
    for responses in by_draw.values():
        for s in range(protocol.rounds):
            # ξ_s enters the draw of every round t ≥ s with (C⁻¹)_ts.
            parts = [[inverse[t - s] * x for x in responses[t]] for t in range(s, protocol.rounds)]
            columns.append([sum(each, fmpq(0)) for each in zip(*parts, strict=True)])
    return columns


def run(protocol: Protocol, view: View, impulse: Impulse) -> list[fmpq]:
    """What the view shows if one source is 1 at one place in one round, and all others are 0."""
    return shown(protocol, view)[impulse]


@functools.lru_cache(maxsize=1024)
def shown(protocol: Protocol, view: View) -> dict[Impulse, list[fmpq]]:
    """What the view shows of every impulse, by itself."""
    impulses, exchanges = followed(protocol)
    rows = [
        row
        for number, W, message in exchanges
        if view.exchanges is None or number in view.exchanges
        for row in (seen(view, W) * message).tolist()
    ]
    return dict(zip(impulses, transposed(rows) if rows else [[] for _ in impulses], strict=True))


@functools.lru_cache(maxsize=256)
def followed(protocol: Protocol) -> tuple[list[Impulse], list[tuple[int, Rows, fmpq_mat]]]:
    """Every impulse, and of every exchange its number in the round, W and the message: a row a node, a column each."""
    impulses: list[Impulse] = []
    for t in range(protocol.rounds):
        for draw in protocol.round_of(t)[1].draws:
            W = weights_at(protocol, t)
            impulses += [(t, draw.name, owners) for owners in owners_of(draw, W, protocol.n)]
        impulses += [(t, "contribution", (i,)) for i in range(protocol.n)]
    nothing = fmpq_mat(protocol.n, len(impulses))
    held = dict.fromkeys(protocol.round_of(0)[1].keeps, nothing)
    exchanges = []
    for t in range(protocol.rounds):
        W, (_, program) = weights_at(protocol, t), protocol.round_of(t)
        levels = {"contribution": 1, **{draw.name: draw.level for draw in program.draws}}
        sources = {name: fmpq_mat(nothing) for name in levels}
        for column, (when, what, owners) in enumerate(impulses):
            if when == t:
                for place, node in enumerate(owners):
                    sources[what][node, column] = (-1) ** place * each(levels[what], node)
        registers, number = dict(held), 0
        for step in program.instructions:
            if isinstance(step, Combine):
                everything = {**registers, **sources}
                registers[step.into] = sum(
                    (times(x, everything[name]) for name, x in step.terms.items()), nothing
                )
                continue
            number += 1
            message = registers[step.message]
            exchanges.append((number, W, message))
            registers[step.into] = fmpq_mat(W) * message
        held = {name: registers[name] for name in held}
    return impulses, exchanges


def seen(view: View, W: Rows) -> fmpq_mat:
    """The rows over messages that a view shows of one exchange."""
    n = len(W)
    unit = [[fmpq(i == j) for j in range(n)] for i in range(n)]
    who = sorted(int(str(label)) for label in view.observers)
    senders = sorted({j for i in who for j in range(n) if W[i][j] and j != i})
    match view.name:
        case "everyone":
            rows = unit
        case "neighbourhood":
            rows = [unit[j] for j in sorted({*who, *senders})]
        case "single-node":
            rows = [unit[i] for i in who]
        case "coalition-messages":
            rows = [unit[j] for j in senders if j not in who]
        case "custom":
            given: Any = view.observation
            rows = [[number(x) for x in row] for row in given]
        case _:
            rows = [W[i] for i in who]
    return fmpq_mat(len(rows), n, [x for row in rows for x in row])


def knowing(view: View) -> set[int]:
    """The nodes whose draws the observer knows."""
    if view.name == "custom":
        return {int(str(label)) for label in view.known_noise}
    return {int(str(label)) for label in view.observers} if view.own_noise == "known" else set()


def owners_of(draw: Draw, W: Rows, n: int) -> list[tuple[int, ...]]:
    """Who draws: each node, or the two ends of each edge of the round."""
    if draw.each == "node":
        return [(i,) for i in range(n)]
    return [(i, j) for i, j in itertools.combinations(range(n), 2) if W[i][j] or W[j][i]]


@functools.lru_cache(maxsize=1024)
def weights_at(protocol: Protocol, t: int) -> Rows:
    """W of a round in rationals."""
    weights = protocol.round_of(t)[0]
    rows = [[fmpq(0)] * weights.n for _ in range(weights.n)]
    for i in range(weights.n):
        for j, x in weights.exact_row(i).items():
            rows[i][j] = number(x)
    return rows


def number(value: Any) -> fmpq:
    """A whole number, a fraction, a float or the text of one as the rational that it is."""
    return fmpq(*Fraction(value).as_integer_ratio())


def fraction(value: fmpq) -> Fraction:
    """A rational as Python has it."""
    return Fraction(int(value.p), int(value.q))


def each(value: Any, node: int) -> fmpq:
    """The number of one node."""
    return number(value[node] if isinstance(value, tuple) else value)


def times(value: Any, register: fmpq_mat) -> fmpq_mat:
    """A register with the row of each node multiplied by its number, or all by one number."""
    if not isinstance(value, tuple):
        return register * number(value)
    rows = fmpq_mat(len(value), len(value))
    for i, x in enumerate(value):
        rows[i, i] = number(x)
    return rows * register


def product(first: Iterable[fmpq], second: Iterable[fmpq]) -> fmpq:
    """Σ xy; most terms are 0."""
    return sum((x * y for x, y in zip(first, second, strict=True) if x and y), fmpq(0))


def transposed(rows: Rows) -> Rows:
    return [list(column) for column in zip(*rows, strict=True)]


def largest_over_signs(M: Matrix) -> Fraction:
    """max cᵀMc over signs."""
    common = math.lcm(1, *(x.denominator for row in M for x in row))
    whole = [[int(x * common) for x in row] for row in M]
    best = 0
    for rest in itertools.product((1, -1), repeat=len(M) - 1):
        c = (1, *rest)
        best = max(best, sum(a * sum(map(operator.mul, c, row)) for a, row in zip(c, whole, strict=True)))
    return Fraction(best, common)
