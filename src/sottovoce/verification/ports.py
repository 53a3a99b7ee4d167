# SPDX-License-Identifier: Apache-2.0
"""What a target's own noise guarantees by itself: contributions that enter everywhere as κ times a draw of its own."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from sottovoce.protocols import CONTRIBUTION, Combine, spread

if TYPE_CHECKING:
    from sottovoce.verification.backwards import Round

    Values = dict[int, Fraction]

__all__ = ["port"]


def port(step_in: Round) -> Fraction | None:
    """κ if what the target contributes moves all messages and registers as κ times a draw of its own does; else None.

    Guarantee: if κ_t is found for every round, a stream c looks like noise of size κ_t c_t, whatever is seen and
    whoever else draws, so that M ⪯ diag(κ_t²).
    """
    given = _moved(step_in, CONTRIBUTION, Fraction(1))
    if not any(given):
        return Fraction(0)
    for draw in step_in.program.draws:
        level = spread(draw.level, step_in.n)[step_in.target]
        drawn = _moved(step_in, draw.name, level) if draw.each == "node" and level else []
        first = next((place for place, values in enumerate(drawn) if values), None)
        if first is None:
            continue
        node, value = next(iter(drawn[first].items()))
        factor = given[first].get(node, Fraction(0)) / value
        if given == [{i: factor * x for i, x in values.items()} for values in drawn]:
            return factor
    return None


def _moved(step_in: Round, source: str, size: Fraction) -> list[Values]:
    """The messages of a round and what is kept after it, where one source is `size` at the target and all else is 0."""
    held: dict[str, Values] = {name: {} for name in step_in.program.keeps}
    sources = {source: {step_in.target: size}}
    moved = []
    for step in step_in.program.instructions:
        total: Values = {}
        if isinstance(step, Combine):
            for name, number in step.terms.items():
                several = isinstance(number, tuple)
                for i, x in (held.get(name) or sources.get(name, {})).items():
                    factor = Fraction(number[i] if several else number)  # type: ignore[index, arg-type]
                    total[i] = total.get(i, Fraction(0)) + factor * x
        else:
            moved.append(held[step.message])
            for j, x in held[step.message].items():
                for i, w in step_in.columns.get(j, ()):
                    total[i] = total.get(i, Fraction(0)) + w * x
        held[step.into] = {i: x for i, x in total.items() if x}
    return [*moved, *(held[name] for name in step_in.program.keeps)]
