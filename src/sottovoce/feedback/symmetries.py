# SPDX-License-Identifier: Apache-2.0
"""Nodes that a relabelling of the network carries onto each other: what is proved of some holds for the others."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.graphs import GossipWeights

__all__ = ["Symmetries"]

# Speed alone: a search that takes more steps gives up, and what it would have spared is computed.
MOST_STEPS = 20_000


class Symmetries:
    """The relabellings π of a network that leave its weights as they are: W_{π(i) π(j)} = W_ij, in rationals.

    >>> from sottovoce.graphs import metropolis_weights
    >>> path = Symmetries(metropolis_weights("path:n=4"))
    >>> path.carries((0, 1), (3, 2)), path.carries((0, 1), (1, 0))
    (True, False)
    >>> path.carries((1, 1), (2, 2)), path.carries((1, 1), (1, 2))
    (True, False)
    """

    def __init__(self, weights: GossipWeights) -> None:
        self.rows = [weights.exact_row(node) for node in range(weights.n)]
        self.near: list[set[int]] = [set(row) for row in self.rows]
        for node, row in enumerate(self.rows):
            for other in row:
                self.near[other].add(node)
        self.kinds = self._kinds()

    def _kinds(self) -> list[int]:
        """A number for each node that relabellings keep: nodes of the same weights to nodes of the same kinds."""
        kinds = [0] * len(self.rows)
        for _ in range(len(self.rows)):
            signs = [
                (kinds[i], sorted((kinds[j], j == i, *self._between(i, j)) for j in self.near[i]))
                for i in range(len(self.rows))
            ]
            refined = [sorted(set(map(repr, signs))).index(repr(sign)) for sign in signs]
            if len(set(refined)) == len(set(kinds)):
                return refined
            kinds = refined
        return kinds

    def _between(self, i: int, j: int) -> tuple[Fraction, Fraction]:
        """W_ij and W_ji."""
        return self.rows[i].get(j, Fraction(0)), self.rows[j].get(i, Fraction(0))

    def carries(self, nodes: Sequence[int], onto: Sequence[int]) -> bool:
        """Whether a relabelling is found that carries each of `nodes` to the one in its place in `onto`.

        Guarantee: True is certain: all weights were compared. A search that takes too long says False.
        """
        placed: dict[int, int] = {}
        for node, image in zip(nodes, onto, strict=True):
            # A node that is named twice, as one that observes itself, has one image.
            if placed.get(node) != image and (node in placed or not self._fits(node, image, placed)):
                return False
            placed[node] = image
        self._left = MOST_STEPS
        return self._completed(self._order(list(placed)), placed)

    def _order(self, first: Sequence[int]) -> list[int]:
        """All other nodes, those near the first ones first, so that misfits show early."""
        order, seen = list(first), set(first)
        for node in order:
            for other in sorted(self.near[node] - seen):
                order.append(other)
                seen.add(other)
        return [*order[len(first) :], *(node for node in range(len(self.rows)) if node not in seen)]

    def _fits(self, node: int, image: int, placed: dict[int, int]) -> bool:
        """Whether a node can have this image beside those that are placed."""
        return (
            self.kinds[node] == self.kinds[image]
            and image not in placed.values()
            and self._between(node, node) == self._between(image, image)
            and all(self._between(node, other) == self._between(image, placed[other]) for other in placed)
        )

    def _completed(self, order: list[int], placed: dict[int, int]) -> bool:
        """Whether the nodes in `order` can be placed too."""
        if len(placed) == len(self.rows):
            return True
        node = order[0]
        for image in range(len(self.rows)):
            self._left -= 1
            if self._left < 0:
                return False
            if self._fits(node, image, placed):
                placed[node] = image
                if self._completed(order[1:], placed):
                    return True
                del placed[node]
        return False
