# SPDX-License-Identifier: Apache-2.0
"""Many pairs of observer and target: every one bounded and proved, and the largest sharpened until it is the worst.

All targets of a view get a bound that needs no solver. Then the pair with the largest bound left is sharpened by the
matrix inequality, first in a small and then in a large subspace, until a pair that needs no more work is the largest.
So the worst is found early, and each other pair is proved to lie below it.

Why that is enough: bounds only fall while work is done. A pair is *settled* when it is the largest of all that are
not settled and there is nothing left to do for it. At that moment every other pair has a proved bound below, so no
further work can make another one larger: the first pair that settles is the worst for good, and the rest keep the
bounds they have. How many pairs need the inequality depends on how far the cheap bounds are apart from the sharp
ones.

The cheap bounds are one round of memory along x = γ e_j where node j is not heard, and along the unseen part of b
where it is (Corollary 2 of docs/training.md), twins where nothing is known of the maps (Corollary 3), and the cap.
The order of the work is speed. Soundness is that every bound was proved: by `check_shift`, or in `_far_rates` with
rounding counted.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from sottovoce.errors import InputError
from sottovoce.feedback.attacks import Attack, best_attack, plain_attacks
from sottovoce.feedback.candidates import SearchEffort, best_proved
from sottovoce.feedback.closed import cap, memory_one, twins
from sottovoce.rounding import roundings
from sottovoce.views import METHOD_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sottovoce.feedback.chains import Proved
    from sottovoce.feedback.problem import TrainingView

__all__ = ["Sharpening", "check_size", "first_bounds"]

# Numbers of all hidden loops that are held at once: half a gigabyte or so.
MOST_NUMBERS = 10**8


def check_size(nodes: int, entries: int, views: int) -> None:
    """Refuse more views of a network with so many nodes and entries of W than memory holds, before any work.

    Every view holds a hidden loop of its own, about as many numbers as W has entries and the network nodes.

    >>> check_size(100, 1000, 100)
    """
    if views * (nodes + entries) > MOST_NUMBERS:
        most = max(1, MOST_NUMBERS // (nodes + entries))
        raise InputError(
            f"training is compared over at most {most} observers of a network of this size at once; got {views} "
            "(name some of them as observers, or use sottovoce sweep)"
        )


@dataclass(kw_only=True, eq=False)
class Sharpening:
    """Bounds on Δ² for targets of several views of training, and the work that sharpens the largest of them.

    `places[k]` are positions among the hidden nodes of `cases[k]`. Pairs are counted view by view; `upper` is proved
    for the first `begun` views at any time, so that the work may be interrupted, and `lower` is attained.

    `efforts` are tried in turn for a pair that may be the worst. `upper` and `lower` are ends of Δ², one a pair,
    `method` names what proves the upper end, `angle` (radians) is that of the plain stream behind the lower end,
    and `refined` says where the inequality was solved. Where a better attack was searched for, `attacks` has it, by
    pair. `attacked` is whether lower ends are asked for.

    Guarantee: every upper end is proved, rounding included; when `run` is done no pair exceeds the largest by more than
    was proved of it.
    Source: Theorem 1 and Corollaries 2 and 3 of docs/training.md.
    """

    cases: Sequence[TrainingView]
    places: Sequence[np.ndarray]
    efforts: tuple[SearchEffort, ...]
    attacked: bool = True
    begun: int = 0
    upper: np.ndarray = field(init=False)
    lower: np.ndarray = field(init=False)
    method: np.ndarray = field(init=False)
    angle: np.ndarray = field(init=False)
    refined: np.ndarray = field(init=False)
    attacks: dict[int, Attack] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Nothing is known yet."""
        self.starts = np.cumsum([0, *map(len, self.places)])
        self.upper = np.full(len(self), np.inf)
        self.lower, self.angle = np.zeros((2, len(self)))
        self.method = np.full(len(self), "cap", dtype=METHOD_NAMES)
        self.refined = np.zeros(len(self), dtype=bool)

    def __len__(self) -> int:
        """How many pairs there are."""
        return int(self.starts[-1])

    def run(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Bound every pair, then sharpen the largest bound until it is the worst for good.

        Args:
            progress: called with (pairs settled, pairs in all), about a thousand times at most.

        Guarantee: `upper` is proved from the moment `begun` passes its view, and only falls after that.
        """
        for row, (case, places) in enumerate(zip(self.cases, self.places, strict=True)):
            span = slice(self.starts[row], self.starts[row + 1])
            self.upper[span], self.method[span] = first_bounds(case, places)
            if self.attacked:
                powers, angles = plain_attacks(case)
                self.lower[span] = np.minimum(powers[places], self.upper[span])
                self.angle[span] = angles[places]
            self.begun = row + 1
        self._sharpen(progress)

    def _sharpen(self, progress: Callable[[int, int], None] | None) -> None:
        """Take the pair with the largest bound, improve it and put it back, or settle it.

        Pairs that were never touched wait in `order`, largest first; those that were improved in the heap `again`,
        by their new bound. The larger of the two heads is the largest of all.
        """
        order = np.argsort(-self.upper, kind="stable").tolist()
        again: list[tuple[float, int]] = []
        stage = np.zeros(len(self), dtype=np.int64)
        largest, settled, place = 0.0, 0, 0
        while place < len(order) or again:
            if again and (place == len(order) or -again[0][0] >= self.upper[order[place]]):
                pair = heapq.heappop(again)[1]
            else:
                pair, place = order[place], place + 1
            if self.upper[pair] > largest and self._improve(pair, int(stage[pair])):
                # It may still be the largest: come back to it when it is.
                stage[pair] += 1
                heapq.heappush(again, (-float(self.upper[pair]), pair))
                continue
            largest = max(largest, float(self.upper[pair]))
            settled += 1
            if progress is not None and (settled == len(self) or settled % (1 + len(self) // 1000) == 0):
                progress(settled, len(self))

    def _improve(self, pair: int, stage: int) -> bool:
        """Whether there was something left to do for a pair, which is done now.

        Efforts are spent in turn. A bound that is not smaller is thrown away, so `upper` never rises. With all of
        them spent the pair is about to settle as one of the largest, and only then is an attack searched for.
        """
        row = int(np.searchsorted(self.starts, pair, side="right")) - 1
        case, place = self.cases[row], int(self.places[row][pair - self.starts[row]])
        if self.upper[pair] == 0:
            return False
        if stage == len(self.efforts) or not improvable(case, place):
            if self.attacked and (attack := best_attack(case, place)).squared > self.lower[pair]:
                self.attacks[pair] = attack
                self.lower[pair] = min(attack.squared, self.upper[pair])
            return False
        found = best_proved(case, place, self.efforts[stage])
        self.refined[pair] = True
        if found.squared_upper < self.upper[pair]:
            self.upper[pair], self.method[pair] = found.squared_upper, found.proof.method
            self.lower[pair] = min(self.lower[pair], self.upper[pair])
        return True

    def stream(self, pair: int, rounds: int) -> np.ndarray:
        """The contributions behind the lower end of a pair, as points of the plane, (rounds, 2).

        Guarantee: every row has norm at most 1; all are 0 where the lower end is.
        """
        if pair in self.attacks:
            return self.attacks[pair].stream(rounds)
        turned = np.exp(1j * self.angle[pair] * np.arange(rounds)) * (self.lower[pair] > 0)
        return np.column_stack([turned.real, turned.imag])


def improvable(case: TrainingView, place: int) -> bool:
    """Whether anything of a target stays hidden, so that its own noise is not all there is.

    Guarantee: where this is False nothing is seen, or nothing is sent, or the cap is exact.
    """
    return bool(case.loop.rows) and case.count > 0 and not case.shown_whole[place]


def first_bounds(case: TrainingView, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Proved bounds on Δ² for the hidden nodes at `places` without a solver, and what proves them.

    For a node j whose message is in no row that is seen, x = γ e_j is not seen either, and one round of memory gives

        Δ² ≤ Σδ_t² · min over 0 ≤ γ ≤ 1 of ((1 − γ + γ ℓ_j A_jj)²/q_j + γ² Σ_{k ≠ j} (ℓ_k A_kj)²/q_k)

    for all of them at once. Those that are heard get a proof each. What cannot arrive in time is 0.

    Args:
        case: the view of training.
        places: positions among the hidden nodes.

    Guarantee: upper bounds, rounding included: all terms are positive, and each is off by a few units at most.
    Source: Corollaries 2 and 3 of docs/training.md.
    """
    method = np.full(len(places), "unreached", dtype=METHOD_NAMES)
    upper = np.zeros(len(places))
    in_time = case.hops[places] < case.protocol.rounds
    if not case.loop.rows or not case.count:
        return upper, method
    own = np.nextafter(1 / case.levels[case.loop.unknown], np.inf) * case.count
    upper[in_time], method[in_time] = np.nextafter(own[places[in_time]], np.inf), "cap"
    if case.slopes is not None:
        far = np.flatnonzero(in_time & ~case.heard[places])
        found = _far_rates(case)[places[far]] * case.count
        better = far[found < upper[far]]
        upper[far] = np.minimum(upper[far], np.nextafter(found, np.inf))
        method[better] = "memory-one"
    singly = in_time & case.heard[places] if case.slopes is not None else in_time
    for k in np.flatnonzero(singly & ~case.shown_whole[places]).tolist():
        place = int(places[k])
        proofs = [twins(case, place)] if case.slopes is None else [_projected(case, place)]
        for one in (cap(case, place), *proofs):
            if one is not None and one.squared_upper <= upper[k]:
                upper[k], method[k] = one.squared_upper, one.proof.method
    return upper, method


def _far_rates(case: TrainingView) -> np.ndarray:
    """What a round costs for targets of which nothing is heard, an upper bound; meaningless for others.

    With k = ℓ_j A_jj and o = Σ_{i ≠ j} (ℓ_i A_ij)²/q_i the bound is (1 − γ(1 − k))²/q + γ² o, least at γ = (1 −
    k)/((1 − k)² + q o), cut to [0, 1]. Any γ makes a bound, so that γ is rounded does no harm. All terms are
    positive, so rounding is a few units of each sum and product, which the last line adds twice over.
    """
    assert case.slopes is not None
    loop = case.loop
    levels, reach = case.levels[loop.unknown], case.slopes.reach[loop.unknown]
    A = loop.sizes.tocoo()
    receivers, senders = A.coords
    apart = receivers != senders
    terms = (reach[receivers] * A.data) ** 2 / levels[receivers]
    others = np.bincount(senders[apart], weights=terms[apart], minlength=levels.size)
    kept = reach * np.bincount(senders[~apart], weights=A.data[~apart], minlength=levels.size)
    spare = np.maximum(1 - kept, 0.0)
    share = np.clip(spare / np.maximum(spare**2 + levels * others, 1e-300), 0.0, 1.0)
    rates = ((1 - share) + share * kept) ** 2 / levels + share**2 * others
    most = int(np.bincount(senders, minlength=levels.size).max(initial=0))
    return np.asarray(rates * (1 + roundings(2 * (most + 2 * loop.relative + 16))))


def _projected(case: TrainingView, place: int) -> Proved:
    """The best bound by one round of memory along the part of b that is not seen, b − Cᵀ(CCᵀ)⁺C b.

    One direction leaves one number to find. What rounding left in the rows that are seen the check removes.
    """
    b = np.zeros((case.loop.unknown.size, 1))
    b[place] = 1.0
    gram = (case.rows @ case.rows.T).toarray()
    unseen = b - case.rows.T @ linalg.lstsq(gram, case.rows @ b)[0]
    return memory_one(case, place, basis=unseen)
