# SPDX-License-Identifier: Apache-2.0
"""The rounds of a view of a program on a Krylov space, and what is left out of it.

With s_t of `backward` and A_sᵀQ = QH + Q₊f the reduced state w_t = Qᵀs_t obeys

    w_{t+1} = Hᵀ w_t + Qᵀ(draws and contributions of the next round) + (fᵀQ₊ᵀ + E₁) s_t,      y_t = C̃ w_t + E₂ s_t,

exactly, E₁ and E₂ being what rounding has put the relations off by, measured. Nothing is asked of Q, neither that
it is orthonormal nor that A is symmetric. What the last terms do to what is seen is bounded where the filter is
known.

In a schedule s_t lies in the slot of its round, and each vector of Q lies in one slot, exactly: so w_t is 0 but for
those of its slot, and a filter needs no others.

Soundness: the relations with their measured errors, and the bounds of all s_t from `growth`. Speed: whether a space
is worth its filter, and how large it is grown, as what it leaves out is counted in `ProgramResponse.accuracy`.

Source: docs/mathematics.md, section 6; `sottovoce.krylov.measured_defect`; docs/proofs/cut.md for plain gossip.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering.backward import backward
from sottovoce.filtering.doubled import Doubled, gram
from sottovoce.filtering.growth import growth
from sottovoce.filtering.lifted import followed_beyond, lifted_basis
from sottovoce.filtering.rational_rows import float_row
from sottovoce.filtering.response import (
    BASIS_BYTES,
    REDUCTION_GOAL,
    REDUCTION_GOAL_PER_ROUND,
)
from sottovoce.filtering.rounding import fine_gamma, power_sum
from sottovoce.filtering.stages import Noise, Stage
from sottovoce.krylov import (
    gram_in_blocks,
    krylov_bases,
    measured_defect,
    power_error,
    proved_power_error,
)
from sottovoce.protocols import GIVEN
from sottovoce.rounding import closely_above, finely_above

if TYPE_CHECKING:
    from sottovoce.filtering.backward import Backward
    from sottovoce.filtering.decorrelation import SeenRound, SeenView
    from sottovoce.krylov import KrylovBasis
    from sottovoce.protocols import Protocol

__all__ = ["Cut", "reduced_stages"]

# Speed alone: so few numbers that are kept need no reduction; larger spaces are not worth their filter.
FEW_STATES, MOST_STATES = 64, 1500
# Speed alone: what a space may cost behind bounds of a per cent or so. It is small enough for what is left out to be
# bounded in open loop (`Cut.echo`), which spares following all rows of the filter.
COARSE = 1e-7
# Speed alone: rounds times (kept numbers)² from which a lifted basis is tried: it gives some rows of the last rounds.
LARGE = 300_000_000
# Speed alone: what a lifted basis may leave out of the powers that rows go through, a round. What it leaves out is
# followed (`followed_beyond`), so that more may be left out.
LOOSE = 1e-7
# Speed alone: in so many of the last rounds rows that are not seen there may be given; lower ends do without these.
MOST_GIVEN = 8
# Speed alone: what a vector that counts is longer than, where several registers make Krylov spaces lose digits: a space
# that has closed grows on out of rounding otherwise.
SHORTEST = 5e-12
# Speed alone: Gram matrices of so many numbers are formed in doubled precision, which takes thrice the memory.
MOST_DOUBLED = 2**24
# Speed alone: states that may grow by more than this leave too much open of what is cut: a filter over all of them
# does not.
WILD = 1e5


@dataclass(frozen=True, kw_only=True, eq=False)
class Cut:
    """What a reduction leaves out beside the `factor` of each stage: ‖E₁‖ ≤ `relation` and ‖E₂‖ ≤ `start`.

    `drawn` and `given` bound the norms of the maps from all draws, and from the contributions of one node, to all
    s_t, and `beyond` those of the maps to all Q₊ᵀs_t. `echo` bounds Σ_ℓ ‖C Aˡ fᵀ‖, the norm of the map in open loop
    from what a factor f lets in to what is seen.
    In the last `tail` rounds rows of earlier rounds are given, more than is seen there.

    `factor` has a row for each vector of Q₊ and a column for each of Q; where the space is closed it is 0.
    """

    relation: float
    start: float
    drawn: float
    given: float
    beyond: tuple[float, float]
    echo: float
    tail: int = 0


def reduced_stages(
    protocol: Protocol,
    view: SeenView,
    *,
    forced: bool = False,
    coarse: bool = False,
    left_out: tuple[np.ndarray, ...] | None = None,
) -> tuple[list[Stage], Cut] | None:
    """The rounds of a view in the coordinates of a Krylov space; None where none is clearly smaller.

    `left_out` are kept numbers, of each round of a schedule, that the observer knows and that are taken for 0.

    Guarantee: the relations of the module hold for the exact matrices of the protocol, with the bounds of the
    `Cut`.
    Source: `sottovoce.krylov.measured_defect` for E₁ and E₂, `growth` for the states that meet them.
    """
    kinds = {id(seen): seen for seen in view.rounds}
    if any(key >= GIVEN + protocol.n for seen in kinds.values() for form in seen.rows for key in form):
        return None
    known = np.array(sorted(view.rounds[0].known), dtype=np.int64)
    maps = backward(protocol, known, left_out)
    block, columns = _start_block(view, maps)
    scale = float(np.abs(block).max(initial=0.0)) or 1.0
    drawn, given = growth(protocol, part=left_out is not None)
    if max(drawn, given) > WILD * protocol.rounds and not forced:
        return None
    goal = max(COARSE if coarse else REDUCTION_GOAL, REDUCTION_GOAL_PER_ROUND * protocol.rounds)
    # Speed alone: a cut of this size costs the goal once it has met the states that it leaves out.
    enough = goal * protocol.rounds / max(drawn, given)
    beyond, lifted, seen = (drawn, given), None, None
    if coarse and protocol.rounds * maps.rounds[0].kept ** 2 > LARGE:
        seen = _seen_in_full(view, maps, columns)
    if seen is not None:
        lifted = lifted_basis(maps, block[:, seen[0]] / scale, protocol.rounds, LOOSE * protocol.rounds)
    if lifted is not None and seen is not None:
        block = block[:, seen[0]]
        basis, defect = lifted.basis, lifted.measured(maps, block / scale, protocol.rounds)
        beyond = followed_beyond(maps, basis.following, drawn, given, protocol.rounds)
        places = _by_slots(maps, basis.vectors)
        stages = [_stage(maps, 0, basis, places, scale * basis.start.T)] * protocol.rounds
    else:
        grown = _basis(protocol, maps, block / scale, enough, forced=forced)
        if grown is None:
            return None
        basis, defect = grown, measured_defect(maps, block / scale, grown)
        stages = _stages(view, maps, basis, columns, scale)
    # Entries of the start block are rounded once.
    once = fine_gamma(1) * float(np.linalg.norm(block))
    return stages, Cut(
        relation=defect.relation,
        start=closely_above(
            scale * defect.start + once + fine_gamma(1) * scale * float(np.linalg.norm(basis.start))
        ),
        drawn=drawn,
        given=given,
        beyond=beyond,
        echo=scale * _echo(basis, protocol.rounds) if coarse else math.inf,
        tail=0 if lifted is None or seen is None else seen[1],
    )


def _stages(
    view: SeenView,
    maps: Backward,
    basis: KrylovBasis,
    columns: dict[tuple[int, int], tuple[int, slice]],
    scale: float,
) -> list[Stage]:
    """The rounds on a Krylov space; those with equal rows in one slot are one and the same value."""
    places = _by_slots(maps, basis.vectors)
    made: dict[tuple[int, int], Stage] = {}
    alike: dict[tuple[int, int], Stage] = {}
    for key, (t, span) in columns.items():
        if (key[0], span.start) not in alike:
            alike[key[0], span.start] = _stage(maps, t, basis, places, scale * basis.start[:, span].T)
        made[key] = alike[key[0], span.start]
    return [made[_kind(maps, t, seen)] for t, seen in enumerate(view.rounds)]


def _seen_in_full(
    view: SeenView, maps: Backward, columns: dict[tuple[int, int], tuple[int, slice]]
) -> tuple[slice, int] | None:
    """The columns of the rows that every round shows but some of the last, and how many these are.

    None where rounds in the middle differ, or where more rounds at the end than are looked at one by one show
    something else.

    Guarantee: exact: rounds are compared by which columns of the space they read.
    """
    spans = [columns[_kind(maps, t, seen)][1] for t, seen in enumerate(view.rounds)]
    tail = next(k for k, span in enumerate([*reversed(spans), spans[0]]) if span == spans[0])
    alike = all(span == spans[0] for span in spans[: len(spans) - tail])
    return (spans[0], tail) if alike and tail <= MOST_GIVEN else None


def _echo(basis: KrylovBasis, rounds: int) -> float:
    """Σ_k ‖f H^k V‖ over k < T, V being the start block: the norm of a block Toeplitz map is at most that sum.

    Guarantee: upper bound. `proved_power_error` over 2T powers counts each of these T or more times.
    """
    if basis.residual.shape[0] == 0:
        return 0.0
    counted = proved_power_error(basis, 2 * rounds, power_sum(basis.projected, 0.0, 2 * rounds))
    return counted / rounds


def _kind(maps: Backward, t: int, seen: SeenRound) -> tuple[int, int]:
    """What tells rounds apart: where their slot begins, and which rows are seen."""
    return maps.slot(t)[1], id(seen)


def _start_block(
    view: SeenView, maps: Backward
) -> tuple[np.ndarray, dict[tuple[int, int], tuple[int, slice]]]:
    """The rows of all kinds of rounds as columns; of each kind a round of it, and where its columns are.

    Kinds differ by their slot or by the rows that are seen; those with equal rows in one slot share their columns.
    """
    entries: list[tuple[int, int, float]] = []
    columns: dict[tuple[int, int], tuple[int, slice]] = {}
    alike: dict[tuple[object, ...], slice] = {}
    count = 0
    for t, seen in enumerate(view.rounds):
        if _kind(maps, t, seen) in columns:
            continue
        each, begin = maps.slot(t)
        content = (begin, seen.pivots, tuple(tuple(sorted(form.items())) for form in seen.rows))
        if content not in alike:
            for k, (form, pivot) in enumerate(zip(seen.rows, seen.pivots, strict=True)):
                values = float_row(form, form[pivot])
                entries += [(begin + each.place(key), count + k, x) for key, x in values.items()]
            alike[content] = slice(count, count + len(seen.rows))
            count += len(seen.rows)
        columns[_kind(maps, t, seen)] = t, alike[content]
    block = np.zeros((int(maps.starts[-1]), count))
    for row, column, value in entries:
        block[row, column] = value
    for slot, gone in zip(maps.slots, maps.left_out or (), strict=False):
        block[slot.start + gone] = 0.0
    return block, columns


def _basis(
    protocol: Protocol, maps: Backward, block: np.ndarray, enough: float, *, forced: bool
) -> KrylovBasis | None:
    """A basis whose truncation costs next to nothing, or the largest affordable one; None if a filter is cheaper.

    Guarantee: none; what the basis leaves out is bounded afterwards.
    """
    whole = sum(each.kept for each in maps.rounds) + block.shape[1]
    largest = whole if forced else max(1, 3 * whole // 4)
    largest = min(largest, max(block.shape[1], min(MOST_STATES, BASIS_BYTES // (8 * len(block)))))
    if block.shape[1] > largest or not block.any() or (whole <= FEW_STATES and not forced):
        return None
    check_at, basis = 1.0, None
    least = SHORTEST if len(protocol.programs[0].keeps) > 1 else 0.0
    for basis in krylov_bases(maps, block, largest=largest, parts=maps.slots, least=least):
        if basis.residual.shape[0] == 0:
            return basis
        if basis.size >= check_at:
            check_at = 1.1 * basis.size
            # In open loop, to know when to stop; what is certified is found in closed loop.
            if power_error(basis, protocol.rounds, enough=enough) <= enough:
                return basis
    return basis if forced or whole > MOST_STATES else None


def _by_slots(maps: Backward, vectors: np.ndarray) -> list[np.ndarray]:
    """Which vectors lie in each slot; −1 stands for none.

    Every slot gets as many places as the fullest has, so that all rounds have states of one size; places beyond are
    0.
    """
    own = [np.flatnonzero(vectors[slot].any(axis=0)) for slot in maps.slots]
    widest = max(len(each) for each in own)
    return [np.pad(each, (0, widest - len(each)), constant_values=-1) for each in own]


def _columns(matrix: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Some columns; 0 where the place is −1."""
    return np.ascontiguousarray(np.where(places < 0, 0.0, matrix[:, places]))


def _stage(maps: Backward, t: int, basis: KrylovBasis, places: list[np.ndarray], rows: np.ndarray) -> Stage:
    """One round in reduced coordinates: from the vectors of its slot to those of the next."""
    each, begin = maps.slot(t)
    own, after = (places[k % len(places)] for k in (t, t + 1))
    first = begin + each.kept
    vectors = _columns(basis.vectors[first : begin + each.size], own)
    transition = _columns(_columns(basis.projected, after).T, own)
    rows = _columns(rows, own)
    drawn, given = vectors[: each.drawn], vectors[each.drawn :].T
    factor = _columns(basis.factor, after)
    noise = _noise(drawn, transition, rows)
    return Stage(transition=transition, rows=rows, noise=noise, given=given, factor=factor)


def _noise(drawn: np.ndarray, transition: np.ndarray, rows: np.ndarray) -> Noise:
    """The covariances of B u = HᵀQᵀu and D u = C̃Qᵀu.

    `drawn` holds the rows of Q that belong to draws, so that its Gram matrix is the covariance of Qᵀu.

    Guarantee: `injected` has an upper bound of its error; the others are candidates, which the defects judge.
    """
    injected = _covariance(drawn)
    covariance = np.asarray(injected.high)
    moved = transition @ covariance
    process = moved @ transition.T
    return Noise(
        process=(process + process.T) / 2,
        shared=moved @ rows.T,
        seen=rows @ covariance @ rows.T,
        injected=injected,
    )


def _covariance(drawn: np.ndarray) -> Doubled:
    """QᵀQ in floats with its error, in doubled precision where that takes little.

    Elsewhere it is added up in blocks, and errs by units of the lengths of its columns.

    Guarantee: the error is an upper bound.
    """
    if drawn.size <= MOST_DOUBLED:
        return gram(drawn).nearest()
    found, units = gram_in_blocks(drawn)
    lengths = finely_above(np.sqrt(np.maximum(np.diagonal(found), 0.0)))
    return Doubled(high=found, error=fine_gamma(units) * np.outer(lengths, lengths))
