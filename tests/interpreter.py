# SPDX-License-Identifier: Apache-2.0
"""Programs run in rationals, one draw and one contribution at a time: sensitivities straight from the definition.

Shares no code with the package except the values it reads: `Program`, `Protocol` and `View`.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sottovoce.protocols import Combine, Draw, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sottovoce.views import View

Matrix = list[list[Fraction]]


@dataclass(frozen=True)
class ExactView:
    """What a view shows of one target: G (rows × rounds) and N (rows × unknown draws), in rationals."""

    G: Matrix
    N: Matrix

    def form(self) -> Matrix | None:
        """M = Gᵀ(N Nᵀ)⁺G; None where it is infinite."""
        return self._form

    @functools.cached_property
    def _form(self) -> Matrix | None:
        size, rounds = len(self.G), len(self.G[0]) if self.G else 0
        rows = [[product(a, b) for b in self.N] + g for a, g in zip(self.N, self.G, strict=True)]
        M = [[Fraction(0)] * rounds for _ in range(rounds)]
        for k in range(size):
            pivot = rows[k][k]
            gain = rows[k][size:]
            if not pivot:
                # The combination of rows that is left here holds no noise at all.
                if any(gain):
                    return None
                continue
            for s, t in itertools.product(range(rounds), repeat=2):
                M[s][t] += gain[s] * gain[t] / pivot
            for i in range(k + 1, size):
                factor = rows[i][k] / pivot
                if factor:
                    rows[i] = [x - factor * y for x, y in zip(rows[i], rows[k], strict=True)]
        return M

    def value(self, stream: Iterable[Any]) -> Fraction | None:
        """cᵀMc of one stream, without M; None where it is infinite."""
        c = [Fraction(x) for x in stream]
        found = ExactView([[product(row, c)] for row in self.G], self.N).form()
        return None if found is None else found[0][0]


@functools.lru_cache(maxsize=1024)
def exact_view(protocol: Protocol, view: View, target: int) -> ExactView:
    """Follow every unknown draw and every contribution of the target through all rounds."""
    G = transposed([run(protocol, view, (t, "contribution", (target,))) for t in range(protocol.rounds)])
    columns = noise_columns(protocol, view)
    return ExactView(G, transposed(columns) if columns else [[] for _ in G])


@functools.lru_cache(maxsize=1024)
def noise_columns(protocol: Protocol, view: View) -> Matrix:
    """What the view shows of every draw that it does not know."""
    known = knowing(view)
    return decoded(
        protocol,
        [
            (t, draw.name, owners, run(protocol, view, (t, draw.name, owners)))
            for t in range(protocol.rounds)
            for draw in protocol.round_of(t)[1].draws
            for owners in owners_of(draw, weights_at(protocol, t), protocol.n)
            if not known & set(owners)
        ],
    )


def decoded(protocol: Protocol, noise: list[Any]) -> Matrix:
    """The columns of fresh ξ where the draws are C⁻¹ξ: N (C⁻¹ ⊗ I)."""
    code = [Fraction(x) for x in protocol.encoder][: protocol.rounds]
    inverse = [1 / code[0]]
    for k in range(1, protocol.rounds):
        inverse.append(
            -sum((code[a] * inverse[k - a] for a in range(1, min(k, len(code) - 1) + 1)), Fraction(0))
            / code[0]
        )
    if all(not x for x in inverse[1:]):
        return [[inverse[0] * x for x in column] for *_, column in noise]
    by_draw: dict[Any, dict[int, list[Fraction]]] = {}
    for t, name, owners, column in noise:
        by_draw.setdefault((name, owners), {})[t] = column
    columns = []
    for responses in by_draw.values():
        for s in range(protocol.rounds):
            # ξ_s enters the draw of every round t ≥ s with (C⁻¹)_ts.
            parts = [[inverse[t - s] * x for x in responses[t]] for t in range(s, protocol.rounds)]
            columns.append([sum(each, Fraction(0)) for each in zip(*parts, strict=True)])
    return columns


def run(protocol: Protocol, view: View, impulse: tuple[int, str, tuple[int, ...]]) -> list[Fraction]:
    """What the view shows if one source is 1 at one place in one round, and all others are 0."""
    when, what, owners = impulse
    n = protocol.n
    held = {name: [Fraction(0)] * n for name in protocol.round_of(0)[1].keeps}
    shown: list[Fraction] = []
    for t in range(protocol.rounds):
        W, (_, program) = weights_at(protocol, t), protocol.round_of(t)
        registers = dict(held)
        sources = {
            name: [Fraction(0)] * n for name in ("contribution", *(draw.name for draw in program.draws))
        }
        if t == when and what in sources:
            level = next((draw.level for draw in program.draws if draw.name == what), 1)
            for place, node in enumerate(owners):
                sources[what][node] = (-1) ** place * each(level, node)
        number = 0
        for step in program.instructions:
            if isinstance(step, Combine):
                everything = {**registers, **sources}
                registers[step.into] = [
                    product(
                        [each(x, i) for x in step.terms.values()],
                        [everything[name][i] for name in step.terms],
                    )
                    for i in range(n)
                ]
                continue
            number += 1
            message = registers[step.message]
            if view.exchanges is None or number in view.exchanges:
                shown += seen(view, W, message)
            registers[step.into] = [product(row, message) for row in W]
        held = {name: registers[name] for name in held}
    return shown


def seen(view: View, W: Matrix, message: list[Fraction]) -> list[Fraction]:
    """What a view shows of one exchange."""
    n = len(W)
    who = sorted(int(str(label)) for label in view.observers)
    senders = sorted({j for i in who for j in range(n) if W[i][j] and j != i})
    match view.name:
        case "everyone":
            return list(message)
        case "neighbourhood":
            return [message[j] for j in sorted({*who, *senders})]
        case "single-node":
            return [message[i] for i in who]
        case "coalition-messages":
            return [message[j] for j in senders if j not in who]
        case "custom":
            rows: Any = view.observation
            return [product([Fraction(x) for x in row], message) for row in rows]
        case _:
            return [product(W[i], message) for i in who]


def knowing(view: View) -> set[int]:
    """The nodes whose draws the observer knows."""
    if view.name == "custom":
        return {int(str(label)) for label in view.known_noise}
    return {int(str(label)) for label in view.observers} if view.own_noise == "known" else set()


def owners_of(draw: Draw, W: Matrix, n: int) -> list[tuple[int, ...]]:
    """Who draws: each node, or the two ends of each edge of the round."""
    if draw.each == "node":
        return [(i,) for i in range(n)]
    return [(i, j) for i, j in itertools.combinations(range(n), 2) if W[i][j] or W[j][i]]


@functools.lru_cache(maxsize=1024)
def weights_at(protocol: Protocol, t: int) -> Matrix:
    """W of a round in rationals."""
    weights = protocol.round_of(t)[0]
    rows = [[Fraction(0)] * weights.n for _ in range(weights.n)]
    for i in range(weights.n):
        for j, x in weights.exact_row(i).items():
            rows[i][j] = x
    return rows


def each(value: Any, node: int) -> Fraction:
    """The number of one node."""
    return Fraction(value[node] if isinstance(value, tuple) else value)


def product(first: Iterable[Fraction], second: Iterable[Fraction]) -> Fraction:
    """Σ xy; most terms are 0, and rationals are slow."""
    return sum((x * y for x, y in zip(first, second, strict=True) if x and y), Fraction(0))


def transposed(rows: Matrix) -> Matrix:
    return [list(column) for column in zip(*rows, strict=True)]


def largest_over_signs(M: Matrix) -> Fraction:
    """max cᵀMc over signs."""
    rounds = len(M)
    best = Fraction(0)
    for rest in itertools.product((1, -1), repeat=rounds - 1):
        c = (1, *rest)
        best = max(
            best, sum((c[s] * c[t] * M[s][t] for s in range(rounds) for t in range(rounds)), Fraction(0))
        )
    return best
