# SPDX-License-Identifier: Apache-2.0
"""The state of a program restricted to what the observer cannot know, in whole numbers.

With z_{t+1} = A z_t + B u_t and rows y_t = C z_t + D u_t of full rank on the draws, what z_t may be while nothing is
seen is V_{t+1} = {A z + B u : z ∈ V_t, C z + D u = 0}, V_1 = 0: the range of the filter's covariance P_t. Modulo V the
state is known to whoever sees y. Floats do not know that: rounding puts something there, and where it grows, as a
mode that nothing excites may, the filter follows rounding.

Here some of the kept numbers are left out: where z_i = Σ_s X_is z_s on V for i outside a set S of coordinates, z_S is
a state of its own, with A_S E and C E for A and C, E = [I; X]. X is guessed from remainders (`residues`), and then
checked exactly: for ℓ = e_i − X_i in the round after,

    ℓB = h D  for some h,     (ℓA − h C) E = 0,     ℓB_x − h D_x = 0  for contributions of the targets,

so that ℓz_{t+1} = h y_t + (what was known before): it is known in all rounds. Spaces larger than V do as well.

Soundness: `_entering`, which checks this, and `_put_in`. Speed: the guess, which coordinates are left out, and how much
work is spent on it; where none is found the filter runs on all that is kept.

Source: docs/proofs/programs.md, "What nothing excites"; Silverman, *Discrete Riccati equations*, 1976.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from sottovoce.filtering.decorrelation import unknown_part
from sottovoce.filtering.residues import Moved, Remainders, multiplied, primes, reached_spaces
from sottovoce.filtering.stages import stage_of
from sottovoce.protocols import GIVEN, STATE, add_to

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from sottovoce.filtering.decorrelation import SeenRound, SeenView
    from sottovoce.filtering.stages import Stage
    from sottovoce.protocols import Form

__all__ = ["Restriction", "known_numbers", "restrictions"]

# Speed alone: so many primes are tried at most, and so many products of remainders are formed in all, small spaces
# counting as some.
MOST_PRIMES, MOST_WORK, FEW = 32, 10**9, 16
# Speed alone: whole numbers of rows with more bits than this are not worth it.
MOST_BITS = 4096
# Speed alone: a coordinate is left out in place of another if it is more than so many times as large on V.
LARGE = 2

Follows: TypeAlias = "Mapping[int, Mapping[int, Fraction]]"
"""X: which coordinates are left out, and what they are made of; coordinates are those of what is kept."""
Guess: TypeAlias = "dict[int, dict[int, dict[int, Fraction]]]"
"""X before each round, by its identity."""
Pairs: TypeAlias = "list[tuple[SeenRound, SeenRound, bool]]"
"""Rounds that follow each other, and whether what was kept before the former is 0."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Restriction:
    """What is left out before each round, and the nodes whose contributions enter it, which it does not serve.

    `follows` is by identity of a round: rounds that are one and the same value have the same state before them.
    """

    view: SeenView
    follows: Mapping[int, Follows]
    excited: frozenset[int]

    def stages(self) -> list[Stage]:
        """The rounds in floats, on the coordinates that stay; zeros fill the state up to one size for all rounds.

        Guarantee: that of `stages_of`, for A_S E, C E, B_S, D and B_x, D_a of nodes that are not `excited`.
        """
        size = self.view.rounds[0].compiled.size
        places = {key: _places(size, follows) for key, follows in self.follows.items()}
        most = max(1, *map(len, places.values()))
        made: dict[tuple[int, int], Stage] = {}
        stages = []
        # What is kept after the last round is seen by nobody.
        for seen, later in pairwise([*self.view.rounds, self.view.rounds[-1]]):
            key = (id(seen), id(later))
            if key not in made:
                made[key] = self._stage(seen, later, places, most)
            stages.append(made[key])
        return stages

    def _stage(
        self, seen: SeenRound, later: SeenRound, places: Mapping[int, Mapping[int, int]], size: int
    ) -> Stage:
        """One round: the rows of the coordinates that stay after it, in those that stayed before.

        Guarantee: exact up to one rounding of each entry: coordinates that follow from others are put in as
        rationals.
        """
        before, state = self.follows[id(seen)], seen.compiled.state
        kept = [_put_in(state.forms[s], state.denominator, before) for s in places[id(later)]]
        kept += [({}, 1)] * (size - len(kept))
        rows = [
            _put_in(form, form[pivot], before) for form, pivot in zip(seen.rows, seen.pivots, strict=True)
        ]
        return stage_of(seen, kept, rows, places[id(seen)])


def restrictions(view: SeenView, nodes: Collection[int] = ()) -> Iterator[Restriction]:
    """The state without what the observer knows: less and less of it, as more is found out.

    Rows must be reduced, each with its pivot's draw to itself. What contributions of `nodes` enter is not left out.
    Nothing comes where nothing is known, or where it takes too much to find.

    Guarantee: exact, for contributions of all nodes that are not `excited`; none of `nodes` is.
    Source: docs/proofs/programs.md, "What nothing excites".
    """
    pairs = _pairs(view)
    if not pairs or _bits(view) > MOST_BITS:
        return
    size, known, most = view.rounds[0].compiled.size, Remainders(), 0
    for guessed in _guesses(pairs, nodes, size, known):
        follows, excited = _checked(pairs, guessed, nodes)
        # What was kept before the first round is 0, which says nothing.
        count = sum(len(follows[id(later)]) for _, later, _ in pairs)
        if count > most:
            most = count
            balanced = {name: _balanced(each) for name, each in follows.items()}
            yield Restriction(view=view, follows=balanced, excited=excited)
        if known.pivots and count == sum(known.left_out(id(later)) for _, later, _ in pairs):
            return


def known_numbers(view: SeenView, period: int) -> tuple[np.ndarray, ...] | None:
    """Kept numbers of known nodes that the observer knows before every round but the first, for each round of a period.

    None where there are none, or where contributions enter them.

    Guarantee: exact; rounds of one slot have the same numbers.
    Source: docs/proofs/programs.md, "What nothing excites", with X = 0.
    """
    pairs = _pairs(view)
    if not pairs or _bits(view) > MOST_BITS:
        return None
    follows = _known_nodes(pairs)
    while True:
        follows, excited = _checked(pairs, follows, ())
        common: list[set[int]] = [set(range(view.rounds[0].compiled.size)) for _ in range(period)]
        for t, seen in enumerate(view.rounds[1:], 1):
            common[t % period] &= follows[id(seen)].keys()
        if excited or not any(common):
            return None
        if all(follows[id(seen)].keys() == common[t % period] for t, seen in enumerate(view.rounds[1:], 1)):
            return tuple(np.array(sorted(each), dtype=np.int64) for each in common)
        for t, seen in enumerate(view.rounds[1:], 1):
            follows[id(seen)] = {i: {} for i in follows[id(seen)].keys() & common[t % period]}


def _guesses(pairs: Pairs, nodes: Collection[int], size: int, known: Remainders) -> Iterator[Guess]:
    """What may be left out: all that known nodes keep, which costs nothing to say; then what `known` primes tell.

    Primes are joined to those that are `known`.
    """
    yield _known_nodes(pairs)
    labels = {id(seen) for pair in pairs for seen in pair[:2]}
    affordable = MOST_WORK // (len(labels) * size**2 * max(size, FEW))
    for tried, prime in enumerate(islice(primes(), min(MOST_PRIMES, affordable)), 1):
        moves = _moves(pairs, nodes, prime)
        if moves is not None:
            known.join(reached_spaces(moves, size, prime))
        if tried & (tried - 1) or not known.pivots:
            continue
        if not known.codimension:
            return
        yield known.guessed()


def _known_nodes(pairs: Pairs) -> Guess:
    """All that known nodes keep, and before the first round all that anybody does.

    Before the first round every register is 0. What a known node keeps is known, as its draws and contributions are.
    """
    compiled, known = pairs[0][0].compiled, pairs[0][0].known
    before = {id(seen) for seen, _, first in pairs if first}
    return {
        id(seen): {i: {} for i in range(compiled.size) if id(seen) in before or i % compiled.n in known}
        for pair in pairs
        for seen in pair[:2]
    }


def _pairs(view: SeenView) -> Pairs:
    """Which rounds follow each other, each pair once; and whether what was kept before the former is 0.

    Rounds of a period recur, so that there are few pairs, however many rounds.
    """
    found = {
        (id(seen), id(later), t == 0): (seen, later, t == 0)
        for t, (seen, later) in enumerate(pairwise(view.rounds))
    }
    return list(found.values())


def _bits(view: SeenView) -> int:
    """The length of the largest whole number in rows and maps.

    Speed alone: it says how many primes are needed before fractions can be read off remainders.
    """
    most = 0
    for seen in {id(seen): seen for seen in view.rounds}.values():
        forms = [*seen.rows, *seen.compiled.state.forms]
        most = max([most, *(abs(x).bit_length() for form in forms for x in form.values())])
    return most


def _moves(pairs: Pairs, nodes: Collection[int], prime: int) -> list[Moved] | None:
    """What rounds do to V modulo a prime: A − B D⁺C, and what draws and contributions do that rows do not show.

    None if the prime divides a number by which forms are divided.
    """
    moves = []
    for seen, later, first in pairs:
        moved = _unseen(seen, nodes, prime)
        if moved is None:
            return None
        size = seen.compiled.size
        moves.append(
            Moved(
                before=id(seen),
                after=id(later),
                transition=None if first else moved[:, :size],
                added=np.unique(moved[:, size:].T, axis=0),
            )
        )
    return moves


def _unseen(seen: SeenRound, nodes: Collection[int], prime: int) -> np.ndarray | None:
    """What is kept after a round while nothing is seen of it, modulo a prime, a row for each number.

    Each row has the draw of its pivot to itself: holding y at 0, that draw is what the others make it. Columns are
    what was kept, draws that are not known, and what `nodes` contribute in this round and later ones.
    """
    state, scales = seen.compiled.state, [form[k] for form, k in zip(seen.rows, seen.pivots, strict=True)]
    if any(number % prime == 0 for number in (state.denominator, *scales)):
        return None
    n, size, known = seen.compiled.n, seen.compiled.size, seen.known
    unknown = [k for k, owners in enumerate(seen.compiled.owners) if known.isdisjoint(owners)]
    places = {STATE + i: i for i in range(size)} | {k: size + place for place, k in enumerate(unknown)}
    later = {key for form in seen.rows for key in form if key >= GIVEN} | {GIVEN + j for j in nodes}
    given = sorted(key for key in later if (key - GIVEN) % n in set(nodes) - known)
    places |= {key: size + len(unknown) + place for place, key in enumerate(given)}
    kept = _remainders(state.forms, [state.denominator] * size, places, prime)
    rows = _remainders(seen.rows, scales, places, prime)
    shown = multiplied(kept[:, [places[k] for k in seen.pivots]], rows, prime)
    return np.asarray((kept - shown) % prime)


def _remainders(
    forms: Sequence[Form], scales: Sequence[int], places: Mapping[int, int], prime: int
) -> np.ndarray:
    """Forms over their scales as rows of remainders, the columns that have a place.

    Guarantee: exact modulo the prime, if it divides none of the scales; `pow` raises ValueError if it does.
    """
    table = np.zeros((len(forms), len(places)), dtype=np.int64)
    for k, (form, scale) in enumerate(zip(forms, scales, strict=True)):
        inverse = pow(scale, -1, prime)
        for key, value in form.items():
            if key in places:
                table[k, places[key]] = value * inverse % prime
    return table


def _balanced(follows: Follows) -> Follows:
    """The same space with no number of X above `LARGE` in size: such a coordinate stays in place of the other.

    Each exchange multiplies the volume of what is left out by more than `LARGE`, so that they come to an end.

    >>> {i: {s: str(x) for s, x in row.items()} for i, row in _balanced({0: {1: Fraction(3), 2: Fraction(1)}}).items()}
    {1: {0: '1/3', 2: '-1/3'}}
    """
    lines = {i: dict(row) for i, row in follows.items()}
    while True:
        i, s = max(
            ((i, s) for i, row in lines.items() for s in row),
            key=lambda place: abs(lines[place[0]][place[1]]),
            default=(-1, -1),
        )
        if i < 0 or abs(lines[i][s]) <= LARGE:
            return lines
        row = lines.pop(i)
        factor = row.pop(s)
        turned = {i: 1 / factor, **{k: -x / factor for k, x in row.items()}}
        for line in lines.values():
            if s in line:
                by = line.pop(s)
                for k, x in turned.items():
                    value = line.get(k, Fraction(0)) + by * x
                    if value:
                        line[k] = value
                    else:
                        line.pop(k, None)
        lines[s] = turned


def _checked(pairs: Pairs, guessed: Guess, nodes: Collection[int]) -> tuple[Guess, frozenset[int]]:
    """What is known of a guess, and the nodes whose contributions enter it; what fails is no longer left out.

    What a number follows from may itself be left out before, so that all is looked at again until nothing fails.

    Guarantee: exact. Every number that is left out is known in every round but for contributions, none of `nodes`.
    """
    while True:
        excited: set[int] = set()
        failed = []
        for seen, later, first in pairs:
            for i, row in guessed[id(later)].items():
                form = _entering(seen, i, row, {} if first else guessed[id(seen)])
                entered = {(key - GIVEN) % seen.compiled.n for key in form if key >= GIVEN}
                if any(key < STATE or (key < GIVEN and not first) for key in form) or entered & set(nodes):
                    failed.append((id(later), i))
                excited |= entered
        if not failed:
            return guessed, frozenset(excited)
        for name, i in failed:
            guessed[name].pop(i, None)


def _entering(seen: SeenRound, i: int, row: Mapping[int, Fraction], before: Follows) -> Form:
    """ℓz after a round, ℓ = e_i − X_i, less what is known of it: in draws, coordinates that stay, and contributions.

    Each row has its pivot's draw to itself, so that clearing these draws takes off h y.

    Guarantee: exact, up to a factor.
    """
    common = math.lcm(1, *(x.denominator for x in row.values()))
    total: Form = {}
    for k, factor in ((i, common), *((s, int(-x * common)) for s, x in row.items())):
        add_to(total, seen.compiled.state.forms[k], factor)
    total = unknown_part(total, seen.compiled, seen.known)
    for form, pivot in zip(seen.rows, seen.pivots, strict=True):
        if factor := total.get(pivot, 0):
            total = {key: value * form[pivot] for key, value in total.items()}
            add_to(total, form, -factor)
    return _put_in(total, 1, before)[0]


def _put_in(form: Form, scale: int, follows: Follows) -> tuple[Form, int]:
    """A form over a scale with Σ_s X_is z_s in the place of each z_i that is left out.

    Guarantee: exact.
    """
    gone = [key for key in form if STATE <= key < GIVEN and key - STATE in follows]
    if not gone:
        return form, scale
    common = math.lcm(*(x.denominator for key in gone for x in follows[key - STATE].values()), 1)
    total = {key: value * common for key, value in form.items() if key not in set(gone)}
    for key in gone:
        made = {STATE + s: int(x * common) for s, x in follows[key - STATE].items()}
        add_to(total, made, form[key])
    return total, scale * common


def _places(size: int, follows: Follows) -> dict[int, int]:
    """Where each coordinate that stays stands."""
    return {s: place for place, s in enumerate(s for s in range(size) if s not in follows)}
