# SPDX-License-Identifier: Apache-2.0
"""Few cases in place of a whole product: any two values of two lists meet, which is where rooms meet too."""

from __future__ import annotations

from itertools import combinations, product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["each_pair"]


def each_pair(*lists: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Rows with one value of each list, such that every two values of two lists stand in some row together.

    Greedy: the row of the product that holds most pairs that no row holds yet, until there are none.
    """
    values = [list(each) for each in lists]
    rows = [tuple(enumerate(row)) for row in product(*(range(len(each)) for each in values))]
    missing = {pair for row in rows for pair in combinations(row, 2)}
    chosen = []
    while missing:
        best = max(rows, key=lambda row: sum(pair in missing for pair in combinations(row, 2)))
        missing.difference_update(combinations(best, 2))
        chosen.append(tuple(values[place][index] for place, index in best))
    return chosen
