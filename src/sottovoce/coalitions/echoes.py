# SPDX-License-Identifier: Apache-2.0
"""Members of a coalition whose sums the others can work out, in rationals.

What a member receives is a sum over the coalition, whose messages all of it know, and over the nodes outside. Where the
weights of the nodes outside have the same proportions for two members, or are nothing, one of the two sums tells
nothing new: leaves of one node hear the same, and a leaf of a member hears what is known.

Source: docs/proofs/coalitions.md, "What is told twice".
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from fractions import Fraction

__all__ = ["Echoes"]

# The kind of a node to which only one of two members listens: no proportion holds there.
ONE_SIDED = 0


class Echoes:
    """Who tells nothing new, by the exact weights of each candidate's row, at the places of the nodes."""

    def __init__(self, weights: Sequence[Mapping[int, Fraction]]) -> None:
        """Keep the rows; pairs of them are compared when they are asked about, and once."""
        self._weights = weights
        self._compared = cache(self._compare)

    def last(self, members: Sequence[int]) -> tuple[list[int], list[int]]:
        """The members who tell something, and those whose sums follow from what these tell.

        Guarantee: exact: with the noise of all members known, M is the same without the rows of the second.
        Source: docs/proofs/coalitions.md, Claim 3.

        >>> from fractions import Fraction
        >>> third = Fraction(1, 3)
        >>> Echoes([{0: 2 * third, 2: third}, {1: third, 2: 2 * third}]).last([0, 1])
        ([0], [1])
        """
        told: list[int] = []
        echoes: list[int] = []
        for a in members:
            outside = len(self._weights[a]) - sum(c in self._weights[a] for c in members)
            new = outside and not any(self._are_proportional(a, b, members) for b in told)
            (told if new else echoes).append(a)
        return told, echoes

    def _are_proportional(self, a: int, b: int, members: Sequence[int]) -> bool:
        """Whether the rows of two candidates are multiples of each other outside a coalition.

        Proportions are compared in rationals, once for each pair; then it is enough to count how many of each ratio
        lie outside.
        """
        kinds, counts = self._compared(a, b)
        inside = Counter(kinds[c] for c in members if c in kinds)
        left = [kind for kind, count in counts.items() if count > inside[kind]]
        return len(left) == 1 and left != [ONE_SIDED]

    def _compare(self, a: int, b: int) -> tuple[dict[int, int], Counter[int]]:
        """The kind of each node that a or b listens to, one for every ratio of its weights; and how many have it."""
        one, other = self._weights[a], self._weights[b]
        ratios: dict[Fraction, int] = {}
        kinds = {
            c: ratios.setdefault(one[c] / other[c], len(ratios) + 1) if c in one and c in other else ONE_SIDED
            for c in one.keys() | other.keys()
        }
        return kinds, Counter(kinds.values())
