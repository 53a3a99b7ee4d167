# SPDX-License-Identifier: Apache-2.0
"""`RateTable`: the rates of many observers, pair by pair.

Nothing is computed here. Pairs are ranked by their upper ends, because that is the number that a person is told: a
pair that is called the worst has the largest bound, which need not be the largest true rate where intervals
overlap.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import InputError
from sottovoce.interval import Interval
from sottovoce.protocols import missing_noise
from sottovoce.views import rests_on

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from numpy.typing import NDArray

    from sottovoce.rates.results import Rates
    from sottovoce.views import Assumption

__all__ = ["RatePair", "RateTable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RatePair:
    """One observer (or coalition) and one target, with the limit of Δ²/T.

    `rate` is the certified interval, `method` says on which system its filter was solved; `frequency` and
    `constant` are those of `sottovoce.rates.Rate`. Of a `bare` pair Δ itself is infinite.
    """

    observer: tuple[Hashable, ...]
    target: Hashable
    rate: Interval
    method: str
    frequency: float
    constant: float
    bare: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class RateTable:
    """The rates of views of one name on one network, pair by pair: one `Rates` for each observer.

    Place k of the table is pair k − s of the observer whose pairs begin at place s, in the order of `found`.
    """

    found: Sequence[Rates]

    def __post_init__(self) -> None:
        """Refuse a table of nothing."""
        if not len(self):
            raise InputError(
                "a table of rates must hold at least one pair; got none "
                "(name a target whose noise the observer does not know)"
            )

    def __len__(self) -> int:
        """How many pairs there are."""
        return sum(len(rates) for rates in self.found)

    def __iter__(self) -> Iterator[RatePair]:
        """Every pair, observer by observer."""
        return (self._pair(rates, k) for rates in self.found for k in range(len(rates)))

    def worst(self) -> RatePair:
        """The pair with the largest upper end, the first of equals.

        Guarantee: no pair of the table has a rate above its upper end.
        """
        return self[int(np.argmax(self._upper))]

    def median(self) -> RatePair:
        """The middle pair by the upper end; the lower of two, so that it is a pair of the table."""
        return self[int(np.argsort(self._upper, kind="stable")[(len(self) - 1) // 2])]

    def best(self) -> RatePair:
        """The pair with the smallest upper end."""
        return self[int(np.argmin(self._upper))]

    def most_exposed(self, count: int = 10) -> list[RatePair]:
        """The targets that give most away, worst first, each with its worst observer."""
        order = np.argsort(-self._upper, kind="stable")
        targets = np.concatenate([rates.indices for rates in self.found])
        # In descending order the first pair of a target is its worst; `unique` gives the place of each first one.
        first = np.unique(targets[order], return_index=True)[1]
        return [self[int(place)] for place in order[np.sort(first)[:count]]]

    def __getitem__(self, place: int) -> RatePair:
        """The pair at one place of the table."""
        # The last observer whose first pair stands at this place or before it.
        row = int(np.searchsorted(self._starts, place, side="right")) - 1
        return self._pair(self.found[row], place - int(self._starts[row]))

    @property
    def bare(self) -> str | None:
        """Which noise is missing where Δ itself is infinite, said of the first such pair; None if none is."""
        for rates in self.found:
            for index in rates.indices[np.isin(rates.indices, sorted(rates.bare))]:
                return missing_noise(rates.protocol, int(index))
        return None

    @property
    def assumption(self) -> Assumption:
        """What the rates rest on, by all the methods that observers needed."""
        first = self.found[0]
        methods = {name for each in self.found for name in each.method.split("+")}
        return rests_on(first.protocol, first.view, methods)

    @cached_property
    def _upper(self) -> NDArray[np.float64]:
        """The upper ends of all pairs, in the order of the table."""
        return np.concatenate([rates.upper for rates in self.found])

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        """The place of each observer's first pair."""
        return np.cumsum([0, *(len(rates) for rates in self.found[:-1])])

    @staticmethod
    def _pair(rates: Rates, k: int) -> RatePair:
        """Pair k of one observer."""
        return RatePair(
            observer=rates.view.observers,
            target=rates.protocol.labels[int(rates.indices[k])],
            rate=Interval(float(rates.lower[k]), float(rates.upper[k])),
            method=rates.method,
            frequency=float(rates.frequency[k]),
            constant=float(rates.constant[k]),
            bare=int(rates.indices[k]) in rates.bare,
        )
