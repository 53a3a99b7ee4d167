# SPDX-License-Identifier: Apache-2.0
"""A round in the middle of a long run, in whole numbers, and the modes of it that noise does not reach.

A pair (ℓ, h) with ℓA = λℓ + hC and ℓB = hD for λ = ±1 says ℓz_{t+1} = λ ℓz_t + h y_t + (ℓB_x − hD_x) x_t: whoever
sees y knows ℓz but for contributions. If these do not enter either, ℓz is known, and one coordinate of z can be
left out. If those of node j do, with κ = ℓB_x − h Σ_a λᵃD_a ≠ 0 there, the stream x_t = λᵗ moves ℓz by κt, and no
noise does. If ℓ is also a combination of the rows C, CA, CA², …, then only noise of a size that grows like t can
make what is seen over a window look as it did: Δ² ≥ c·T³, and the rate is infinite.

All of it is decided in whole numbers, by elimination: no tolerance says whether noise reaches a mode. λ = ±1 are
the only modes looked for; others on the unit circle are no rational numbers, and a filter that they keep from
settling is refused (`stationary`).

Source: docs/mathematics.md, section 8; modes beyond the reach of noise are those of the test of Popov, Belevitch
and Hautus (Kailath, *Linear Systems*), here with what is seen allowed as an input.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sottovoce.filtering import echelon
from sottovoce.protocols import GIVEN, STATE, add_to, primitive

if TYPE_CHECKING:
    from sottovoce.filtering import SeenRound
    from sottovoce.protocols import Form

__all__ = ["ExactRound", "exact_round", "unhidden", "without_known"]

# Columns that say from which rows a combination was made.
TOLD = 1 << 60


@dataclass(frozen=True, kw_only=True, eq=False)
class ExactRound:
    """What is kept after a round, and what is seen: forms in draws, kept numbers and contributions, over a scale.

    `kept` are the coordinates of z that are left, and `draws` those that the observer does not know.

    `state[k]` = (form, scale) says what coordinate `kept[k]` is after the round, as form/scale; `rows` likewise
    what is seen. Columns are those of `sottovoce.protocols.Form`: draws, then kept numbers from STATE on, then
    contributions from GIVEN on, column GIVEN + a·n + j for what node j contributes a rounds later.
    """

    n: int
    draws: tuple[int, ...]
    kept: tuple[int, ...]
    state: tuple[tuple[Form, int], ...]
    rows: tuple[tuple[Form, int], ...]


def exact_round(seen: SeenRound) -> ExactRound:
    """The round as it stands, known draws and contributions left out.

    Guarantee: exact.
    """
    compiled = seen.compiled
    draws = [k for k, owners in enumerate(compiled.owners) if seen.known.isdisjoint(owners)]
    told = set(draws)

    def unknown(form: Form) -> Form:
        return {
            key: value
            for key, value in form.items()
            if (key in told if key < STATE else key < GIVEN or (key - GIVEN) % compiled.n not in seen.known)
        }

    return ExactRound(
        n=compiled.n,
        draws=tuple(draws),
        kept=tuple(range(compiled.size)),
        state=tuple((unknown(form), compiled.state.denominator) for form in compiled.state.forms),
        rows=tuple((form, form[pivot]) for form, pivot in zip(seen.rows, seen.pivots, strict=True)),
    )


def without_known(system: ExactRound) -> ExactRound:
    """The same round without coordinates of z that the observer knows.

    A pair (ℓ, h) into which no contribution enters says ℓz_{t+1} = ±ℓz_t + h y_t, from ℓz_1 = 0: whoever sees y
    knows ℓz. What is left may have further such pairs, so that it is looked at again until nothing goes.

    Guarantee: exact; what is left out is 0 in every difference of two runs that look alike.
    """
    changed = True
    while changed:
        changed = False
        for sign in (1, -1):
            # Combinations that hold no contribution, and of these independent directions ℓ.
            _, known = echelon(_unreached(system, sign), GIVEN, TOLD)
            directions, _ = echelon([_direction(form, system) for form in known], STATE, GIVEN)
            for pivot, line in directions.items():
                system = _without(system, pivot - STATE, line)
                changed = True
    return system


def unhidden(system: ExactRound) -> frozenset[int]:
    """Nodes whose Δ² is proved to grow faster than the rounds, as noise does not reach what they contribute to.

    Guarantee: exact; nodes that are not named may grow as fast.
    Source: the module: κ ≠ 0 for the stream λᵗ, and ℓ in the span of C, CA, CA², ….
    """
    found: set[int] = set()
    for sign in (1, -1):
        for form in _unreached(system, sign):
            total: dict[int, int] = {}
            for key, value in form.items():
                if GIVEN <= key < TOLD:
                    # κ = Σ_a λᵃ · (the coefficient of what is contributed a rounds later).
                    later, node = divmod(key - GIVEN, system.n)
                    total[node] = total.get(node, 0) + sign**later * value
            if any(total.values()) and _visible(_direction(form, system), system):
                found |= {node for node, value in total.items() if value}
    return frozenset(found)


def _unreached(system: ExactRound, sign: int) -> list[Form]:
    """Every (ℓ, h) with ℓA = λℓ + hC, ℓB = hD, λ = ±1: κ in the columns of contributions, ℓ and h from TOLD on.

    The rows [A − λI, B] and [C, D] are eliminated on all columns of draws and kept numbers. A combination that is
    left with none of them is such a pair; columns from TOLD on tell of which rows it was made.

    Guarantee: exact, a basis of all pairs.
    """
    forms = []
    for place, (form, scale) in enumerate(system.state):
        row = dict(form)
        add_to(row, {STATE + system.kept[place]: -sign * scale}, 1)
        forms.append({**row, TOLD + place: scale})
    forms += [{**form, TOLD + len(system.kept) + k: scale} for k, (form, scale) in enumerate(system.rows)]
    _, rest = echelon(forms, 0, GIVEN)
    return rest


def _direction(form: Form, system: ExactRound) -> Form:
    """ℓ of a combination, as a form in what is kept."""
    size = len(system.kept)
    return {
        STATE + system.kept[key - TOLD]: value for key, value in form.items() if TOLD <= key < TOLD + size
    }


def _without(system: ExactRound, gone: int, line: Form) -> ExactRound:
    """The round with coordinate `gone` written as what `line` = 0 makes of the others.

    From form/scale and line = 0 with pivot p > 0: (p·form − form_p·line)/(p·scale), which no longer holds the
    pivot.
    """
    pivot = STATE + gone

    def put(form: Form, scale: int) -> tuple[Form, int]:
        factor = form.get(pivot, 0)
        if not factor:
            return form, scale
        total = {key: value * line[pivot] for key, value in form.items()}
        add_to(total, line, -factor)
        divisor = math.gcd(scale * line[pivot], *total.values())
        return {key: value // divisor for key, value in total.items()}, scale * line[pivot] // divisor

    left = [place for place, i in enumerate(system.kept) if i != gone]
    return replace(
        system,
        kept=tuple(system.kept[place] for place in left),
        state=tuple(put(*system.state[place]) for place in left),
        rows=tuple(put(*row) for row in system.rows),
    )


def _visible(line: Form, system: ExactRound) -> bool:
    """Whether a form in what is kept is a combination of C, CA, CA² and so on.

    Guarantee: exact; the span grows by a step of A until it no longer does, and then holds all later powers.
    """
    place = {STATE + i: k for k, i in enumerate(system.kept)}
    common = math.lcm(1, *(scale for _, scale in system.state))
    states = [
        {key: value * (common // scale) for key, value in form.items() if key in place}
        for form, scale in system.state
    ]
    span: dict[int, Form] = {}
    fresh = [{key: value for key, value in form.items() if key in place} for form, _ in system.rows]
    while fresh:
        before = len(span)
        span, _ = echelon([*span.values(), *fresh], STATE, GIVEN)
        if len(span) == before:
            break
        moved = []
        for form in fresh:
            total: Form = {}
            for key, value in form.items():
                add_to(total, states[place[key]], value)
            moved.append(primitive(total))
        fresh = [form for form in moved if form]
    _, rest = echelon([*span.values(), line], STATE, GIVEN)
    return any(not form for form in rest)
