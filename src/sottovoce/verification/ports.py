# SPDX-License-Identifier: Apache-2.0
"""What a target's own noise guarantees by itself: contributions that enter everywhere as κ times a draw of its own.

If a contribution c moves every message of its round, and all that is kept after it, exactly as the value κ c of one
of the target's own draws would, then changing that draw by −κ c undoes it in all that anybody will ever see. A
standard normal draw shifted by κ c is what the mechanism is at worst: M ⪯ diag(κ_t²). Both are followed through one
round, from the start with all else 0, in rationals; later rounds see nothing but what was kept.
"""

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
    whoever else draws, so that M ⪯ diag(κ_t²). Exact; κ = 0 where a contribution moves nothing.
    Source: docs/certificates.md, what own noise guarantees; data processing for a shift of Gaussian noise.
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
    """The messages of a round and what is kept after it, where one source is `size` at the target and all else is 0.

    A program is linear, so its response to one source is a run with all others 0. Values are sparse, by node; zeros
    are not stored, which makes equality of lists equality of responses. All messages count, seen or not.

        Combine:  into_i = Σ terms_i · source_i,        Exchange:  into_i = Σ_j W_ij · message_j.

    Guarantee: exact.
    """
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
