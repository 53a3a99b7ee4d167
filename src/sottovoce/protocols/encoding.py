# SPDX-License-Identifier: Apache-2.0
"""An encoder written out as registers: what a node runs, round by round, to draw noise that is correlated over time."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from sottovoce.protocols.program import Combine, Draw, Program, is_some
from sottovoce.protocols.rationals import PerNode, exact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.protocols.protocol import Protocol

__all__ = ["NoiseRecursion", "recursion_of", "unencoded"]

# C⁻¹ is worth using in place of C where it has no more numbers than this beside zeros.
SPARSE = 16


class NoiseRecursion(NamedTuple):
    """How noise z = C⁻¹ξ is made of fresh ξ in each round: z_t = first·ξ_t + Σ_k past[k−1]·h_{t−k}.

    h is ξ itself where `of_fresh` says so, and else z. Before the first round h is 0.
    """

    first: Fraction
    past: tuple[Fraction, ...]
    of_fresh: bool


def recursion_of(code: Sequence[Fraction], rounds: int) -> NoiseRecursion:
    """The recursion with the shorter memory: by C itself, C z = ξ, or by its inverse if that is sparse.

        z_t = (ξ_t − Σ_{k≥1} c_k z_{t−k})/c_0   or   z_t = Σ_k (C⁻¹)_k ξ_{t−k}.

    Guarantee: exact, in rationals.

    >>> anti = [Fraction(1)] * 50
    >>> recursion_of(anti, 50)
    NoiseRecursion(first=Fraction(1, 1), past=(Fraction(-1, 1),), of_fresh=True)
    >>> recursion_of([Fraction(2), Fraction(1)], 50)
    NoiseRecursion(first=Fraction(1, 2), past=(Fraction(-1, 2),), of_fresh=False)
    """
    inverse = {0: 1 / code[0]}
    for k in range(1, rounds):
        # Σ_j c_{k−j} (C⁻¹)_j = 0 over the few j at which C⁻¹ is not 0.
        value = (
            -sum((code[k - j] * held for j, held in inverse.items() if k - j < len(code)), Fraction(0))
            / code[0]
        )
        if value:
            inverse[k] = value
        if len(inverse) > SPARSE:
            break
    else:
        if max(inverse) < len(code) - 1:
            return NoiseRecursion(
                inverse[0], tuple(inverse.get(k, Fraction(0)) for k in range(1, max(inverse) + 1)), True
            )
    return NoiseRecursion(1 / code[0], tuple(-value / code[0] for value in code[1:]), False)


def unencoded(protocol: Protocol) -> Protocol:
    """The same protocol with a fresh draw in each round, its encoder written out as registers that nodes keep.

    A register of node i holds what the node's draws of earlier rounds added up to, those of its edges with their signs.
    Levels become coefficients, as z = C⁻¹ξ has level 1 before it is scaled by that of its round.

    Guarantee: exact; all messages are the same linear maps of contributions and fresh ξ.

    >>> from sottovoce import graphs
    >>> from sottovoce.protocols import gossip
    >>> ring = graphs.metropolis_weights("ring:n=5")
    >>> print(unencoded(gossip(ring, rounds=9, encoder=[1] * 9)).program)
    u_now = u − u_1; message = model + contribution + u_now; exchange message → model; u_1 = u
    """
    if not protocol.encoded:
        return protocol
    recursion = recursion_of(protocol.code, protocol.rounds)
    taken = {
        name for each in protocol.programs for name in (*each.registers, *(draw.name for draw in each.draws))
    }
    heard = {draw.name for each in protocol.programs for draw in each.draws if is_some(draw.level)}
    written = {id(each): _written_out(each, recursion, set(taken), heard) for each in protocol.programs}
    programs = tuple(written[id(program)] for program in protocol.programs)
    return replace(protocol, program=programs if len(programs) > 1 else programs[0], encoder=(1,))


def _written_out(program: Program, recursion: NoiseRecursion, taken: set[str], heard: set[str]) -> Program:
    """A program whose draws come out of the recursion, kept under names that are not `taken`.

    Draws that are not `heard` have level 0 in every round, and are left out.
    """
    added, shifted, kept = [], [], []
    sources: dict[str, tuple[str, PerNode]] = {}
    draws = [draw for draw in program.draws if draw.name in heard]
    silent = {draw.name for draw in program.draws} - heard
    for draw in draws:
        stem = draw.name
        while any(name.startswith(f"{stem}_") for name in taken):
            stem += "_"
        now, before = f"{stem}_now", [f"{stem}_{k}" for k in range(1, len(recursion.past) + 1)]
        terms = {draw.name: recursion.first} | dict(zip(before, recursion.past, strict=True))
        added.append(Combine(now, {name: value for name, value in terms.items() if value}))
        shifted += [Combine(old, {new: 1}) for old, new in zip(before[:0:-1], before[-2::-1], strict=True)]
        if before:
            shifted.append(Combine(before[0], {draw.name if recursion.of_fresh else now: 1}))
        kept += before
        taken |= {now, *before}
        sources[draw.name] = now, draw.level
    return Program(
        keeps=(*program.keeps, *kept),
        draws=tuple(Draw(draw.name, 1, draw.each) for draw in draws),
        instructions=(
            *added,
            *(
                _reading(step, sources, silent) if isinstance(step, Combine) else step
                for step in program.instructions
            ),
            *shifted,
        ),
        model=program.model,
    )


def _reading(step: Combine, sources: dict[str, tuple[str, PerNode]], silent: set[str]) -> Combine:
    """A combination that reads what the recursion made in place of draws, and no draw that is `silent`."""
    terms: dict[str, PerNode] = {}
    for name in (name for name in step.terms if name not in silent):
        value = step.terms[name]
        made, level = sources.get(name, (name, 1))
        terms[made] = value if level == 1 else _product(value, level)
    return Combine(step.into, terms)


def _product(one: PerNode, other: PerNode) -> PerNode:
    """Two numbers, or tuples of one a node, multiplied."""
    if not isinstance(one, tuple) and not isinstance(other, tuple):
        return exact(one) * exact(other)
    n = len(one) if isinstance(one, tuple) else len(other) if isinstance(other, tuple) else 1
    first, second = (value if isinstance(value, tuple) else (value,) * n for value in (one, other))
    return tuple(exact(a) * exact(b) for a, b in zip(first, second, strict=True))
