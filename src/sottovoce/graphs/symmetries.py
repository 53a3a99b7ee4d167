# SPDX-License-Identifier: Apache-2.0
"""Relabellings of a network that leave its weights as they are: what holds of a node holds of those it is carried to.

Searched for by colours that spread along the edges, and believed only after all weights have been compared.
"""

from __future__ import annotations

import itertools
from collections import defaultdict, deque
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.graphs.model import row_indices

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from numpy.typing import NDArray

    from sottovoce.graphs.model import GossipWeights

__all__ = ["Orbits", "Symmetries"]

# Speed alone: a search that spreads colours more often gives up, all of them after so many that gave up, and networks
# of more nodes are not searched. What would have been spared is computed.
MOST_STEPS, MOST_FAILURES, MOST_NODES = 300, 8, 20_000


class Symmetries:
    """The relabellings π that keep every matrix of a schedule, W_{π(i) π(j)} = W_ij in rationals, and what marks nodes.

    `marks` holds, in index order, what else tells nodes apart, such as levels of noise.

    >>> from sottovoce.graphs import metropolis_weights
    >>> path = Symmetries([metropolis_weights("path:n=4")])
    >>> path.carrying((0, 1), (3, 2)).tolist()
    [3, 2, 1, 0]
    >>> path.carries((1, 1), (2, 2)), path.carries((1, 1), (1, 2)), path.carries((0, 1), (1, 0))
    (True, False, False)
    """

    def __init__(self, schedule: Sequence[GossipWeights], marks: Iterable[Hashable] | None = None) -> None:
        n = self.n = schedule[0].n
        read = [_entries(weights) for weights in schedule]
        nodes = np.zeros(n, dtype=np.int64) if marks is None else _numbered(list(marks))
        # Both directions of a pair stand side by side, so that colours spread along and against the edges.
        backs = [(place % n) * n + place // n for place, _ in read]
        self._places = np.unique(np.concatenate([*(place for place, _ in read), *backs]))
        self._places = self._places[self._places // n != self._places % n]
        between = np.zeros(self._places.size, dtype=np.int64)
        for (place, number), back in zip(read, backs, strict=True):
            own = place == back
            nodes = _joined(nodes, place[own] // n, number[own])
            for there in (place, back):
                between = _joined(between, np.searchsorted(self._places, there[~own]), number[~own])
        self._nodes, self._between = nodes.astype(np.uint64), between.astype(np.uint64)
        self._starts = np.searchsorted(self._places // n, np.arange(n + 1))
        self._others = self._places % n
        self._failures = 0

    def carries(self, nodes: Sequence[int], onto: Sequence[int]) -> bool:
        """Whether a relabelling is found that carries each of `nodes` to the one in its place in `onto`.

        Guarantee: True is certain: all weights were compared. A search that takes too long says False.
        """
        return self.carrying(nodes, onto) is not None

    def carrying(self, nodes: Sequence[int], onto: Sequence[int]) -> NDArray[np.int64] | None:
        """A relabelling π with π(nodes[k]) = onto[k], as an array of images; None if none is found."""
        return self.carrying_groups([[node] for node in nodes], [[node] for node in onto])

    def carrying_groups(
        self, groups: Sequence[Iterable[int]], onto: Sequence[Iterable[int]]
    ) -> NDArray[np.int64] | None:
        """A relabelling that carries each of some groups of nodes onto the one in its place; None if none is found.

        Guarantee: what is returned is a bijection that keeps all weights and marks, and the groups.
        """
        if self.n > MOST_NODES or self._failures >= MOST_FAILURES:
            return None
        self._left = MOST_STEPS
        first, second = self._marked(groups), self._marked(onto)
        found = self._matched(self._spread(first), self._spread(second), first, second)
        self._failures += self._left < 0
        if found is None:
            return None
        # Colours are mixed numbers, so that the groups themselves are looked at once more.
        kept = all({int(found[k]) for k in one} == set(two) for one, two in zip(groups, onto, strict=True))
        return found if kept else None

    def look(self, groups: Sequence[Iterable[int]]) -> int:
        """A number that is the same for groups of nodes that a relabelling carries onto each other."""
        return int(_mixed(self._spread(self._marked(groups))).sum())

    def tells_apart(self, groups: Sequence[Iterable[int]]) -> bool:
        """Whether no relabelling but the one that changes nothing keeps these groups, as colours show."""
        return np.unique(self._spread(self._marked(groups))).size == self.n

    def orbits(self, nodes: Iterable[int]) -> Orbits:
        """Which of `nodes` are found to be carried onto each other, and how.

        >>> from sottovoce.graphs import metropolis_weights
        >>> ring = Symmetries([metropolis_weights("ring:n=5")]).orbits(range(5))
        >>> [ring.first(node) for node in range(5)], int(ring.images(3)[0])
        ([0, 0, 0, 0, 0], 3)
        """
        asked, found = list(dict.fromkeys(nodes)), Orbits()
        if self.n > MOST_NODES or len(asked) < 2:
            for node in asked:
                found.begin(node)
            return found
        classes: dict[int, list[int]] = {}
        for node in asked:
            classes.setdefault(int(self._kinds[node]), []).append(node)
        for members in classes.values():
            self._put_together(members, found)
        return found

    def twins(self, nodes: Iterable[int]) -> dict[int, int]:
        """For each of `nodes` the first one that can change places with it while all others stay.

        Guarantee: each such exchange keeps all weights and marks; those of one first node can be reordered at will.

        >>> from sottovoce.graphs import metropolis_weights
        >>> Symmetries([metropolis_weights("star:n=4")]).twins(range(4))
        {0: 0, 1: 1, 2: 1, 3: 1}
        """
        near = np.zeros(self.n, dtype=np.uint64)
        own = _mixed(np.arange(self.n, dtype=np.uint64))
        np.add.at(near, self._places // self.n, own[self._others])
        closed = near + own
        firsts: dict[tuple[bool, int], list[int]] = defaultdict(list)
        found: dict[int, int] = {}
        for node in nodes:
            # Twins have the same neighbours; with themselves, if they are neighbours of each other.
            looks = ((False, int(near[node])), (True, int(closed[node])))
            for first in itertools.chain.from_iterable(firsts[look] for look in looks):
                images = np.arange(self.n)
                images[[node, first]] = first, node
                if self._keeps(images):
                    found[node] = first
                    break
            else:
                found[node] = node
                for look in looks:
                    firsts[look].append(node)
        return found

    @cached_property
    def _kinds(self) -> NDArray[np.uint64]:
        """Colours that no relabelling changes."""
        return self._spread(self._nodes)

    def _put_together(self, members: list[int], found: Orbits) -> None:
        """Find which of some nodes of one kind are carried onto each other."""
        looks: dict[int, list[int]] = {}
        found.begin(members[0])
        # From the far end: where all nodes are alike, the first relabelling found is often one cycle through all.
        for node in members[:0:-1]:
            if node in found:
                continue
            if not looks:
                looks[self.look([[members[0]]])] = [members[0]]
            known = looks.setdefault(self.look([[node]]), [])
            for first in known:
                images = self.carrying((first,), (node,))
                if images is not None:
                    found.grow(images)
                    break
            else:
                known.append(node)
                found.begin(node)

    def _marked(self, groups: Sequence[Iterable[int]]) -> NDArray[np.uint64]:
        """Colours that tell the nodes of each group from all others; a node of two groups from those of one."""
        colours = self._nodes.copy()
        for number, group in enumerate(groups):
            for node in group:
                colours[node] = _mixed(colours[node] ^ _mixed(np.uint64(number + 1)))
        return colours

    def _spread(self, colours: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Colours that also tell apart nodes with other weights to other colours, until no more are told apart.

        A relabelling that keeps `colours` keeps these. Sums of mixed numbers stand for multisets: two that collide are
        not told apart, which a later comparison of all weights makes up for.
        """
        count = np.unique(colours).size
        while True:
            sums = np.zeros(self._others.size + 1, dtype=np.uint64)
            np.cumsum(_mixed(colours[self._others] + self._between), out=sums[1:])
            colours = _mixed(colours + _mixed(sums[self._starts[1:]] - sums[self._starts[:-1]]))
            refined = np.unique(colours).size
            if refined <= count:
                return colours
            count = refined

    def _matched(
        self,
        one: NDArray[np.uint64],
        two: NDArray[np.uint64],
        first: NDArray[np.uint64],
        second: NDArray[np.uint64],
    ) -> NDArray[np.int64] | None:
        """A relabelling that carries colours `one` to colours `two`, and so `first` to `second`."""
        order, onto = np.argsort(one, kind="stable"), np.argsort(two, kind="stable")
        sorted_ones = one[order]
        if (sorted_ones != two[onto]).any():
            return None
        images = np.empty(self.n, dtype=np.int64)
        images[order] = onto
        if self._keeps(images) and (second[images] == first).all():
            return images
        begins = np.flatnonzero(np.diff(sorted_ones, prepend=sorted_ones[0] + np.uint64(1)))
        sizes = np.diff(begins, append=self.n)
        if sizes.max() == 1:
            return None
        begin = int(begins[np.argmin(np.where(sizes > 1, sizes, self.n + 1))])
        end = int(begins[begins > begin].min(initial=self.n))
        chosen = one.copy()
        chosen[order[begin]] = _mixed(chosen[order[begin]])
        chosen = self._spread(chosen)
        for place in range(begin, end):
            self._left -= 1
            if self._left < 0:
                return None
            tried = two.copy()
            tried[onto[place]] = _mixed(tried[onto[place]])
            found = self._matched(chosen, self._spread(tried), first, second)
            if found is not None:
                return found
        return None

    def _keeps(self, images: NDArray[np.int64]) -> bool:
        """Whether a bijection keeps all weights and marks: compared one by one."""
        moved = images[self._places // self.n] * self.n + images[self._others]
        order = np.argsort(moved)
        return bool(
            (moved[order] == self._places).all()
            and (self._between[order] == self._between).all()
            and (self._nodes[images] == self._nodes).all()
        )


class Orbits:
    """Nodes that the relabellings found so far carry onto each other: from a first one to each of its orbit."""

    def __init__(self) -> None:
        self._relabellings: list[NDArray[np.int64]] = []
        self._from: dict[int, tuple[int, int] | None] = {}

    def __contains__(self, node: int) -> bool:
        """Whether the orbit of a node is known."""
        return node in self._from

    def begin(self, node: int) -> None:
        """A node to which none before it is carried, and all that it is carried to."""
        self._from[node] = None
        self._follow(deque([node]), range(len(self._relabellings)))

    def grow(self, images: NDArray[np.int64]) -> None:
        """One more relabelling."""
        self._relabellings.append(images)
        self._follow(deque(self._from), [len(self._relabellings) - 1])

    def _follow(self, reached: deque[int], fresh: Iterable[int]) -> None:
        """Go on from nodes that are reached: by `fresh` relabellings, and from new nodes by all."""
        known = set(reached)
        while reached:
            node = reached.popleft()
            for number in fresh if node in known else range(len(self._relabellings)):
                image = int(self._relabellings[number][node])
                if image not in self._from:
                    self._from[image] = (node, number)
                    reached.append(image)

    def first(self, node: int) -> int:
        """The first one of the orbit of a node."""
        while (step := self._from[node]) is not None:
            node = step[0]
        return node

    def images(self, node: int) -> NDArray[np.int64] | None:
        """A relabelling that carries the first one of its orbit to `node`, as an array of images; None for itself.

        Guarantee: as that of `Symmetries.carrying`: one after the other, relabellings that keep all weights keep them.
        """
        steps = []
        while (step := self._from[node]) is not None:
            node, number = step
            steps.append(self._relabellings[number])
        if not steps:
            return None
        images = steps.pop()
        while steps:
            images = steps.pop()[images]
        return images


def _entries(weights: GossipWeights) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The places i·n + j of a matrix where something stands, and numbers above 0, the same where rationals are equal.

    Rows of quotients sum to 1, so that their diagonals follow from the rest and are left out.
    """
    rows, matrix = row_indices(weights.matrix).astype(np.int64), weights.matrix
    place = rows * weights.n + matrix.indices
    if weights.quotients is None:
        return place, 1 + np.unique(matrix.data, return_inverse=True)[1]
    (_, above), (q, below) = (np.unique(part, return_inverse=True) for part in weights.quotients)
    return place[rows != matrix.indices], 1 + np.unique(above * q.size + below, return_inverse=True)[1]


def _numbered(values: list[Any]) -> NDArray[np.int64]:
    """A number for each value, the same for equal ones."""
    known = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return np.array([known[value] for value in values], dtype=np.int64)


def _joined(
    numbers: NDArray[np.int64], places: NDArray[np.int64], more: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Numbers that are the same where `numbers` were, and what stands at `places` besides, 0 elsewhere."""
    second = np.zeros_like(numbers)
    second[places] = more
    return np.unique(numbers * (second.max(initial=0) + 1) + second, return_inverse=True)[1].astype(np.int64)


def _mixed(numbers: Any) -> Any:  # noqa: ANN401 - one number or an array of them
    """Numbers of 64 bits, each mapped to one that looks like chance, different ones to different ones (splitmix64)."""
    with np.errstate(over="ignore"):
        mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(31))
