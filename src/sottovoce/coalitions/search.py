# SPDX-License-Identifier: Apache-2.0
"""Best sets of a given size under a measure that grows with the set: greedy, swaps, then branch and bound.

Knows neither protocols nor views: nodes are numbers, and the measure is a function of a set of them.

Three phases, each of which may be stopped at any time. A greedy choice and swaps find a good coalition, and prove
nothing but what they measure. A screen names the few coalitions that may exceed a level. Branch and bound divides the
others: the measure of a union of blocks bounds every coalition inside it, since the measure grows with the set, so a
group whose union stays below the best found needs no closer look.
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sottovoce.interval import Interval

__all__ = ["Group", "OutOfTime", "Screen", "Search", "Step"]

# Greedy choice and swaps look at this many candidates, or twice the size if that is more. Where there are no more
# coalitions than that, a first guess would cost as much as looking at all of them.
SHORTLIST = 64
# Speed alone: what all coalitions but a few are first proved not to exceed, as multiples of the best that was found.
LEVELS = (1.1, 1.0)

Members: TypeAlias = frozenset[int]
Nodes: TypeAlias = tuple[int, ...]
Group: TypeAlias = tuple[tuple[Nodes, int], ...]
"""All coalitions with so many members from each of some disjoint blocks of nodes."""
Screen: TypeAlias = "Callable[[Members, float, Callable[[], None]], list[Members] | None]"
"""The coalitions that may exceed a level, from a good one; it calls what it is given now and then, which may raise."""


class OutOfTime(Exception):  # noqa: N818 - a signal, not a mistake
    """The deadline has passed, and a coalition has been found."""


class Step(NamedTuple):
    """A coalition that was better than all before it."""

    evaluated: int
    members: Members
    squared: Interval


@dataclass(kw_only=True, eq=False)
class Search:
    """The search for the coalition of `size` candidates with the largest measure, and its state.

    `measure` must grow with the set, and its intervals must hold; `cap` bounds it for every set. `candidates` come
    in the order in which they promise most. `first` names a group that was asked about before and has, coalition by
    coalition, the same measures, or the group itself; `twins` names for each candidate one that can take its place in
    any set without a change of the measure, the same for all of these; `coalitions` is how many there are where the
    candidates stand for more nodes than these; `screen` names those that may exceed a level, or none where it cannot.

    Guarantee: `upper_bound` holds for every coalition of that size, at any time, so that `run` may be stopped.
    """

    candidates: Sequence[int]
    size: int
    measure: Callable[[Members], Interval]
    cap: float
    deadline: float
    progress: Callable[[int, int], None] | None = None
    first: Callable[[Group], Group] = tuple
    twins: Mapping[int, int] = field(default_factory=dict)
    coalitions: int | None = None
    screen: Screen | None = None
    trace: list[Step] = field(default_factory=list)
    _ceiling: float = field(init=False)
    _known: dict[Members, Interval] = field(default_factory=dict)
    _tried: int = 0
    _settled: int = 0

    def __post_init__(self) -> None:
        """Start from the bound that needs no view."""
        self._ceiling = self.cap

    @property
    def total(self) -> int:
        """How many coalitions there are."""
        return math.comb(len(self.candidates), self.size) if self.coalitions is None else self.coalitions

    @property
    def evaluated(self) -> int:
        """How many sets have been measured."""
        return len(self._known)

    @property
    def upper_bound(self) -> float:
        """What no coalition of this size exceeds, as far as it is proved by now.

        Guarantee: an upper bound of the measure of every coalition of `size` candidates, at any time: `_ceiling`
        bounds all that are not settled, and those that are settled stay at or below the upper end of the best found.
        """
        return max(self._ceiling, self._floor)

    @property
    def _floor(self) -> float:
        """The upper end of the best coalition so far: groups at or below it need no closer look."""
        return self.trace[-1].squared.upper if self.trace else -math.inf

    def run(self) -> None:
        """Search until it is proved that no coalition exceeds the found one's upper end.

        Guarantee: if it returns, `upper_bound` is the upper end of the best coalition found. If it raises
        `OutOfTime`, or an interrupt comes, `upper_bound` is what was proved by then.
        """
        self.ends(frozenset(self.candidates[: self.size]))
        several = math.comb(len(self.candidates), self.size)
        guesses = (self._grow, self._swap) if several > SHORTLIST else ()
        for phase in (*guesses, self._sift, self._rule_out):
            if self._floor < self._ceiling:
                phase()
        self._ceiling = min(self._ceiling, self._floor)
        if self.progress is not None:
            self.progress(self.total, self.total)

    def ends(self, members: Members) -> Interval:
        """The measure of a set, computed once; a coalition of the right size may become the best.

        Guarantee: that of `measure`; a set that `first` carries onto one that was measured has its interval.
        """
        found = self._known.get(members) or self._known.get(members := self._first(members))
        if found is not None:
            return found
        self._keep_time()
        found = self._known[members] = self.measure(members)
        if len(members) == self.size:
            self._tried += 1
            if found.upper > self._floor:
                self.trace.append(Step(self.evaluated, members, found))
        if self.progress is not None:
            self.progress(max(self._tried, self._settled), self.total)
        return found

    def _keep_time(self) -> None:
        if self.trace and time.monotonic() >= self.deadline:
            raise OutOfTime

    def _first(self, members: Members) -> Members:
        """A set that was asked about before and has the same measure, or the set itself."""
        ((nodes, _),) = self.first(((tuple(sorted(members)), len(members)),))
        return frozenset(nodes)

    @property
    def _shortlist(self) -> Sequence[int]:
        return self.candidates[: max(SHORTLIST, 2 * self.size)]

    def _grow(self) -> None:
        """Add the candidate that raises the measure most, until the coalition is complete.

        A greedy choice among the shortlist, which costs size × shortlist measures. It proves nothing, and a bad one
        costs time.
        """
        members: Members = frozenset()
        while len(members) < self.size:
            larger = [members | {node} for node in self._shortlist if node not in members]
            members = max(larger, key=lambda each: self.ends(each).upper)

    def _swap(self) -> None:
        """Exchange one member of the best coalition for another candidate, as long as that improves it.

        It ends since every exchange raises the upper end of the best, of which there are finitely many.
        """
        improved = True
        while improved:
            best = self.trace[-1].members
            improved = False
            for leaving, joining in itertools.product(sorted(best), self._shortlist):
                if joining not in best:
                    self.ends(best - {leaving} | {joining})
                    if self.trace[-1].members != best:
                        improved = True
                        break

    def _sift(self) -> None:
        """Look at those coalitions that the screen does not prove to stay below a level, and take it as the bound.

        Guarantee: the ceiling is lowered to a level only if the screen proved every coalition that it does not name
        to stay at or below it, and those that it names have been measured.
        """
        for share in LEVELS:
            level = share * self._floor
            if self.screen is None or not 0 < level < self._ceiling:
                continue
            doubtful = self.screen(self.trace[-1].members, level, self._keep_time)
            if doubtful is None:
                return
            for members in doubtful:
                self.ends(members)
            self._ceiling = min(self._ceiling, max(level, self._floor))

    def _rule_out(self) -> None:
        """Divide groups of coalitions, the one with the largest bound first, until none can hold a better one.

        A group lies within the union of its blocks, whose measure bounds all its coalitions; a part of a group keeps
        the bound of the whole until its own is known. A group that is like one that was divided before holds nothing
        better, by induction over the number of coalitions in a group; one alone is like one that was measured.
        """
        fresh = itertools.count(0, -1)
        everything = self._narrowed(((tuple(self.candidates), self.size),))
        groups: list[tuple[float, int, Group]] = [(-self._ceiling, next(fresh), everything)]
        while groups and -groups[0][0] > self._floor:
            # The largest bound that is left holds for every coalition that is not settled yet.
            self._ceiling = -groups[0][0]
            negative, _, group = heapq.heappop(groups)
            count = _count(group)
            if self.first(group) != group:
                # Its coalitions are as good as those of a group that was divided before.
                self._settled += count
                continue
            bound = min(-negative, self.ends(frozenset().union(*(block for block, _ in group))).upper)
            if count == 1 or bound <= self._floor:
                self._settled += count
                continue
            for part in _divided(group):
                heapq.heappush(groups, (-bound, next(fresh), _gathered(self._narrowed(part))))

    def _narrowed(self, group: Group) -> Group:
        """The group with one choice in place of all from a block of twins, which have one measure.

        Guarantee: exact: exchanging a member for its twin does not change the measure, so that any choice of so many
        from a block of twins is as good as the first.
        """
        return tuple(
            (block[:members] if len({self.twins.get(node, node) for node in block}) == 1 else block, members)
            for block, members in group
        )


def _count(group: Group) -> int:
    """How many coalitions there are in a group.

    Guarantee: exact, in whole numbers: blocks are disjoint, so that choices multiply.
    """
    return math.prod(math.comb(len(block), members) for block, members in group)


def _gathered(group: Group) -> Group:
    """The same group, with all blocks whose nodes are members for certain in one, behind those that are open.

    >>> _gathered((((1,), 1), ((4, 5, 6), 2), ((3, 2), 2)))
    (((4, 5, 6), 2), ((1, 2, 3), 3))
    """
    certain = sorted(node for block, members in group if len(block) == members for node in block)
    still = tuple((block, members) for block, members in group if len(block) > members)
    return (*still, (tuple(certain), len(certain))) if certain else still


def _divided(group: Group) -> Iterator[Group]:
    """The group in parts: its first open block, of those who promise most, is halved, with every division of members.

    Guarantee: exact: every coalition of the group is in one part and no more.

    >>> list(_divided((((1, 2, 3, 4), 1),)))
    [(((3, 4), 1),), (((1, 2), 1),)]
    """
    place = next(k for k, (block, members) in enumerate(group) if len(block) > members)
    block, members = group[place]
    first, second = block[: len(block) // 2], block[len(block) // 2 :]
    for some in range(max(0, members - len(second)), min(members, len(first)) + 1):
        halves = tuple((half, count) for half, count in ((first, some), (second, members - some)) if count)
        yield group[:place] + halves + group[place + 1 :]
