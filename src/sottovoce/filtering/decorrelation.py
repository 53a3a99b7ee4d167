# SPDX-License-Identifier: Apache-2.0
"""What a view of a program shows, with everything that can be known taken out, in whole numbers.

Draws that the observer knows are dropped first. Then, from the last round backwards, the rows of a round are
reduced so that each has a draw of that round to itself. A combination that holds no fresh draw says something about
the round before and joins its rows; one that is left with contributions alone makes the sensitivity infinite.

With draws u_t, kept numbers z_t and contributions x_t a row of round t is a form D u_t + C z_t + Σ_a D_a x_{t+a}.
Elimination on the columns of u_t leaves rows with D = [I | ·], up to order, and combinations C z_t + …, in which
z_t = A z_{t−1} + B u_{t−1} + B_x x_{t−1} is put in: forms of round t − 1, with contributions a round further ahead.

Everything that decides is in whole numbers; floats are looked at only to choose rows that need no elimination
(`thrifty`), which is speed and changes no span.

Source: Silverman, *Discrete Riccati equations*, 1976 (the structure algorithm); docs/mathematics.md, section 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from sottovoce.protocols import GIVEN, STATE, add_to, compiled_rounds, primitive
from sottovoce.views import observe, seen_exchanges

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sottovoce.protocols import CompiledRound, Form, Protocol
    from sottovoce.views import View

__all__ = ["SeenRound", "SeenView", "echelon", "seen_view", "unknown_part"]

# Needed by a proof: a prime, so that independent modulo it is independent; products of two remainders fit into 64
# bits.
PRIME = 2**31 - 1
# Speed alone: the smallest singular value of rows, their largest entries being 1, that are clearly independent.
# Others are eliminated exactly.
CLEAR = 1e-3
# Speed alone: forms that floats tell apart by more than this are combined into such that are clearly independent, by
# coefficients of so many bits.
NEARLY, BITS = 1e-7, 36
# Speed alone: fewer forms than this are eliminated at once.
MANY = 32

Carried: TypeAlias = tuple[tuple[tuple[int, int], ...], ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class SeenRound:
    """The rows that a round is left with: row k has draw `pivots[k]`, which no other row of the round holds.

    Columns from `GIVEN` on are contributions: column GIVEN + a·n + j is what node j contributes a rounds later.

    Rows hold no draw and no contribution of a node in `known`. They are whole numbers, each row up to a factor:
    divided by its entry at the pivot it has 1 there. Rows that were left as they are (`thrifty`) may share their
    pivots' draws with others. `compiled` is the round of the protocol that they were made from.
    """

    compiled: CompiledRound
    known: frozenset[int]
    rows: tuple[Form, ...]
    pivots: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class SeenView:
    """The rows of every round, and what is seen `bare`.

    That is (round, node) pairs, 0-based, whose contributions no unknown draw hides: Δ is infinite for these nodes
    if they contribute then. Rounds that are alike are one and the same value.

    `bare_rows` are the combinations of contributions that are seen so, with whole numbers for coefficients.
    """

    rounds: tuple[SeenRound, ...]
    bare_rows: tuple[dict[tuple[int, int], int], ...]

    @cached_property
    def bare(self) -> frozenset[tuple[int, int]]:
        """The (round, node) pairs of `bare_rows`."""
        return frozenset(pair for row in self.bare_rows for pair in row)


def seen_view(protocol: Protocol, view: View, *, thrifty: bool = False) -> SeenView:
    """What the view shows of a protocol, every row with fresh noise of its own.

    The rows of round t are reduced to [I | ·] on the draws of that round, so that their noise has a covariance of
    at least I. Rows say the same before and after: rows are combined invertibly, those that vanish are left out.
    `thrifty` leaves rows as they are where all of a round are independent on its draws, and clearly so: a pivot is
    then merely the largest draw of its row.

    Guarantee: exact.
    Source: Silverman, Discrete Riccati equations, 1976 (the structure algorithm).
    """
    compiled = compiled_rounds(protocol)
    known = frozenset(observe(protocol, view).known.tolist())
    observed: dict[tuple[int, int], tuple[Form, ...]] = {}
    reduced: dict[tuple[int, int, Carried, bool], tuple[SeenRound, Carried, tuple[Form, ...]]] = {}
    told_apart: dict[tuple[int, int, Carried], tuple[SeenRound, list[Form]]] = {}
    rounds: list[SeenRound] = []
    bare_rows: list[dict[tuple[int, int], int]] = []
    carried: Carried = ()
    for t in range(protocol.rounds - 1, -1, -1):
        weights, program = protocol.round_of(t)
        kind = (id(weights), id(program))
        if kind not in observed:
            observed[kind] = _observed(protocol, view, t, compiled[t], known)
        key = (*kind, carried, t == 0)
        if key not in reduced:
            told = [_before(dict(form), compiled[t], known) for form in carried]
            forms = (*observed[kind], *told)
            if key[:-1] not in told_apart:
                clear = _clearly_independent(forms) if thrifty else None
                if clear is None:
                    told_apart[key[:-1]] = _reduced(compiled[t], known, forms)
                else:
                    told_apart[key[:-1]] = _as_they_are(compiled[t], known, clear[0]), clear[1]
            seen, old = told_apart[key[:-1]]
            # Nothing was kept before the first round, which is a value of its own: less need be asked of it.
            reduced[key] = replace(seen) if t == 0 else seen, *_going(old, first=t == 0)
        seen, carried, left = reduced[key]
        rounds.append(seen)
        for form in left:
            places = ((divmod(key - GIVEN, protocol.n), x) for key, x in form.items() if key >= GIVEN)
            bare_rows.append({(t + later, node): x for (later, node), x in places})
    return SeenView(rounds=tuple(reversed(rounds)), bare_rows=tuple(bare_rows))


def _observed(
    protocol: Protocol, view: View, t: int, compiled: CompiledRound, known: frozenset[int]
) -> tuple[Form, ...]:
    """The rows of a view of one round, without the draws and contributions of known nodes.

    Guarantee: exact, in whole numbers up to a factor for each row; rows of which nothing unknown is left are dropped.
    """
    observation = observe(protocol, view, round_index=t)
    forms = [
        unknown_part(compiled.messages[k].combined(observation.exact(row)), compiled, known)
        for k in seen_exchanges(protocol, view, t)
        for row in range(observation.rows.shape[0])
    ]
    return tuple(form for form in forms if form)


def unknown_part(form: Form, compiled: CompiledRound, known: frozenset[int]) -> Form:
    """A form without the draws that known nodes made, alone or with others, and without what they contribute.

    Guarantee: exact: an observer that knows these draws can take them off what it sees. A draw that a known node
    shares is known, as both ends have it.
    """
    if not known:
        return form
    return {
        key: value
        for key, value in form.items()
        if not (
            (key < STATE and not known.isdisjoint(compiled.owners[key]))
            or (key >= GIVEN and (key - GIVEN) % compiled.n in known)
        )
    }


def _reduced(
    compiled: CompiledRound, known: frozenset[int], forms: Sequence[Form]
) -> tuple[SeenRound, list[Form]]:
    """The rows of one round, and combinations that hold none of its draws.

    Guarantee: exact; together they span what `forms` do.
    """
    fresh, old = echelon(forms, 0, STATE)
    pivots = sorted(fresh)
    seen = SeenRound(
        compiled=compiled, known=known, rows=tuple(fresh[k] for k in pivots), pivots=tuple(pivots)
    )
    return seen, old


def _going(old: Sequence[Form], *, first: bool) -> tuple[Carried, tuple[Form, ...]]:
    """Of combinations without draws of a round: what goes on to the round before, and what is contributions alone.

    Guarantee: exact; together they span what `old` does. Nothing was kept before the first round.
    """
    if first:
        old = [{key: value for key, value in form.items() if key >= GIVEN} for form in old]
    further, rest = echelon(old, STATE, GIVEN)
    going = tuple(tuple(sorted(further[k].items())) for k in sorted(further))
    return going, tuple(form for form in rest if form)


def _as_they_are(compiled: CompiledRound, known: frozenset[int], forms: Sequence[Form]) -> SeenRound:
    """The rows of a round that are independent on its draws, each with its largest draw for a pivot.

    Guarantee: exact: a row may change its sign, which changes nothing that is learnt.
    """
    rows, pivots = [], []
    for form in forms:
        pivot = max((key for key in form if key < STATE), key=lambda key: (abs(form[key]), -key))
        rows.append(form if form[pivot] > 0 else {key: -value for key, value in form.items()})
        pivots.append(pivot)
    return SeenRound(compiled=compiled, known=known, rows=tuple(rows), pivots=tuple(pivots))


def _clearly_independent(forms: Sequence[Form]) -> tuple[Sequence[Form], list[Form]] | None:
    """Forms, or combinations of them, that are clearly independent on the draws, and some that hold none; else None.

    Guarantee: exact; together they span what `forms` do. Combinations of forms that are independent, as many as there
    are, span what these do.
    """
    if _are_independent(forms):
        return forms, []
    if len(forms) < MANY:
        return None
    fewer = _told_apart(forms)
    turned = None if fewer is None else _turned(fewer[0])
    return (turned, fewer[1]) if fewer and turned is not None and _are_independent(turned) else None


def _told_apart(forms: Sequence[Form]) -> tuple[list[Form], list[Form]] | None:
    """Forms that are independent on the draws, and what is left of the others: combinations that hold none.

    Which forms another is a combination of, on the draws, is guessed modulo a prime; None where that guess fails.

    Guarantee: exact; together they span what `forms` do.
    """
    place = _draws(forms)
    rest = np.zeros((len(forms), len(place) + len(forms)), dtype=np.int64)
    rest[:, : len(place)] = _remainders(forms, place)
    rest[:, len(place) :] = np.eye(len(forms), dtype=np.int64)
    kept, pivots = list[int](), list[int]()
    old: list[Form] = []
    for k, form in enumerate(forms):
        for line, column in zip(kept, pivots, strict=True):
            rest[k] = (rest[k] - rest[k, column] * rest[line] % PRIME) % PRIME
        columns = np.flatnonzero(rest[k, : len(place)])
        if columns.size:
            kept.append(k)
            pivots.append(int(columns[0]))
            rest[k] = rest[k] * pow(int(rest[k, columns[0]]), -1, PRIME) % PRIME
            continue
        others = [forms[j] for j in np.flatnonzero(rest[k, len(place) :]).tolist() if j != k]
        left = _without_draws([*others, form])
        if len(left) != 1:
            return None
        old += [each for each in left if each]
    return [forms[k] for k in kept], old


def _without_draws(forms: Sequence[Form]) -> list[Form]:
    """The combinations of forms that hold no draws, as `echelon` has them, by elimination from above alone.

    Guarantee: exact; they and what is left of the other forms span what `forms` do.
    """
    lines: list[tuple[int, Form]] = []
    rest: list[Form] = []
    for form in forms:
        row = form
        for pivot, line in lines:
            row = _cleared(row, pivot, line)
        inside = [key for key in row if key < STATE]
        if not inside:
            rest.append(primitive(row))
            continue
        pivot = max(inside, key=lambda key: (abs(row[key]), -key))
        lines.append((pivot, row if row[pivot] > 0 else {key: -value for key, value in row.items()}))
    return rest


def _turned(forms: Sequence[Form]) -> list[Form] | None:
    """Combinations that floats find nearly orthonormal on the draws, in whole numbers; None where they find none.

    Guarantee: none but that they are combinations; `_are_independent` decides whether they will do.
    """
    place = _draws(forms)
    if not forms or len(place) < len(forms):
        return None
    largest, sizes = _scaled(forms, place)
    lower = np.asarray(np.linalg.qr(sizes.T, mode="r")).T
    if not np.abs(np.diagonal(lower)).min() > NEARLY:
        return None
    # Each row of the inverse to so many bits, then in proportion to the sizes of the forms.
    turn = np.linalg.inv(lower)
    bits = BITS - np.frexp(np.abs(turn).max(axis=1, keepdims=True))[1]
    whole = np.ldexp(turn, bits).round().astype(np.int64)
    most = max(largest)
    counts = [[int(x) * most // each for x, each in zip(row, largest, strict=True)] for row in whole]
    columns = {key: k for k, key in enumerate(sorted({key for form in forms for key in form}))}
    numbers = np.zeros((len(forms), len(columns)), dtype=object)
    for k, form in enumerate(forms):
        for key, value in form.items():
            numbers[k, columns[key]] = value
    made = np.array(counts, dtype=object) @ numbers
    return [primitive({key: row[k] for key, k in columns.items() if row[k]}) for row in made]


def _draws(forms: Sequence[Form]) -> dict[int, int]:
    """The draws that forms hold, numbered.

    Numbers count from 0 in the order in which draws are met, so that they are columns of a table of just these draws.
    """
    place: dict[int, int] = {}
    for form in forms:
        for key in form:
            if key < STATE:
                place.setdefault(key, len(place))
    return place


def _scaled(forms: Sequence[Form], place: dict[int, int]) -> tuple[list[int], np.ndarray]:
    """The largest draw of each form in size, and all draws over it.

    Shape (forms, draws), sizes at most 1: a look in floats at which rows are far from dependent. Nothing rests on it.
    """
    largest = [max((abs(value) for key, value in form.items() if key < STATE), default=1) for form in forms]
    sizes = np.zeros((len(forms), len(place)))
    for k, form in enumerate(forms):
        for key, value in form.items():
            if key < STATE:
                sizes[k, place[key]] = value / largest[k]
    return largest, sizes


def _remainders(forms: Sequence[Form], place: dict[int, int]) -> np.ndarray:
    """The draws of forms modulo the prime.

    Rows that are independent modulo a prime are independent; dependent ones may look so by chance, and are then
    looked at in whole numbers.
    """
    rest = np.zeros((len(forms), len(place)), dtype=np.int64)
    for k, form in enumerate(forms):
        for key, value in form.items():
            if key < STATE:
                rest[k, place[key]] = value % PRIME
    return rest


def _are_independent(forms: Sequence[Form]) -> bool:
    """Whether forms are independent on the draws, proved: they are if they are modulo a prime.

    Nearly dependent ones count as dependent here, so that they are reduced exactly instead of in floats.

    Guarantee: True is a proof. A determinant that is not 0 modulo a prime is not 0; the converse is not asked for.
    """
    place = _draws(forms)
    if not forms or len(place) < len(forms):
        return False
    if np.linalg.svd(_scaled(forms, place)[1], compute_uv=False)[-1] < CLEAR:
        return False
    rest = _remainders(forms, place)
    for k in range(len(forms)):
        columns = np.flatnonzero(rest[k])
        if not columns.size:
            return False
        column = columns[0]
        rest[k] = rest[k] * pow(int(rest[k, column]), -1, PRIME) % PRIME
        rest[k + 1 :] = (rest[k + 1 :] - rest[k + 1 :, column, None] * rest[k] % PRIME) % PRIME
    return True


def _before(form: Form, compiled: CompiledRound, known: frozenset[int]) -> Form:
    """A form in what a round keeps, as one in what was kept before that round; contributions are a round later.

        x_t = A x_{t−1} + …:   a form f in x_t is f A in x_{t−1}, and its contributions count from one round earlier

    Guarantee: exact, up to a factor of the whole form.
    """
    total: Form = {}
    for key, value in form.items():
        if key >= GIVEN:
            add_to(total, {key + compiled.n: value * compiled.state.denominator}, 1)
        else:
            add_to(total, compiled.state.forms[key - STATE], value)
    return primitive(unknown_part(total, compiled, known))


def echelon(forms: Iterable[Form], low: int, high: int) -> tuple[dict[int, Form], list[Form]]:
    """Reduced rows by their pivot columns within [low, high), and the combinations that hold none of these columns.

    A pivot is the largest entry of its row within the range, and positive; no other reduced row holds its column.

    Guarantee: exact; reduced rows and combinations together span what `forms` do, up to factors.

    >>> echelon([{0: 2, 5: 1}, {0: 4, 5: 2, 9: 3}], 0, 3)
    ({0: {0: 2, 5: 1}}, [{9: 1}])
    """
    pivots: dict[int, Form] = {}
    rest = []
    for form in forms:
        row = dict(form)
        for key in [key for key in row if key in pivots]:
            row = _cleared(row, key, pivots[key])
        inside = [key for key in row if low <= key < high]
        if not inside:
            rest.append(primitive(row))
            continue
        pivot = max(inside, key=lambda key: (abs(row[key]), -key))
        row = primitive(row if row[pivot] > 0 else {key: -value for key, value in row.items()})
        for key, other in pivots.items():
            if pivot in other:
                pivots[key] = _cleared(other, pivot, row)
        pivots[pivot] = row
    return pivots, rest


def _cleared(row: Form, pivot: int, line: Form) -> Form:
    """A combination of `row` and `line` without the column `pivot`, in which `line` is positive.

        row ← (line_p·row − row_p·line)/gcd(line_p, row_p),   p the pivot, then divided by what is common to all of it

    Guarantee: exact, in whole numbers; the span of both rows does not change, as `row` enters with a factor that is
    not 0.
    """
    factor = row.get(pivot, 0)
    if not factor:
        return row
    # Numbers grow by what is divided out in vain, and quotients of large ones are dear: divide the factors first.
    common = math.gcd(factor, line[pivot])
    scale, factor = line[pivot] // common, factor // common
    scaled = dict(row) if scale == 1 else {key: value * scale for key, value in row.items()}
    add_to(scaled, line, -factor)
    return primitive(scaled)
