# SPDX-License-Identifier: Apache-2.0
"""Rates of many observers as one table, and its JSON form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce._version import __version__
from sottovoce.documents.accounts import MOST_EXPOSED, SCHEMA, fits_json, graph_facts, protocol_facts
from sottovoce.documents.pairs import Label, ends_to_json, finite_or_null, plain_label
from sottovoce.errors import InputError
from sottovoce.interval import Interval
from sottovoce.views import rests_on

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from sottovoce.graphs import Graph, Spectrum
    from sottovoce.rates import Rates
    from sottovoce.views import Assumption

__all__ = ["RatePair", "RateTable", "rate_assumption", "rate_document"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RatePair:
    """One observer (or coalition) and one target, with the limit of Δ²/T.

    `frequency` and `constant` are those of `sottovoce.rates.Rate`.
    """

    observer: tuple[Label, ...]
    target: Label
    rate: Interval
    method: str
    frequency: float
    constant: float


@dataclass(frozen=True, kw_only=True, eq=False)
class RateTable:
    """The rates of views of one name on one network, pair by pair: one `Rates` for each observer."""

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
        """The pair with the largest upper end, the first of equals."""
        return self[int(np.argmax(self._upper))]

    def median(self) -> RatePair:
        """The middle pair by the upper end; the lower of two, so that it is a pair of the table."""
        return self[int(np.argsort(self._upper, kind="stable")[(len(self) - 1) // 2])]

    def best(self) -> RatePair:
        """The pair with the smallest upper end."""
        return self[int(np.argmin(self._upper))]

    def most_exposed(self, count: int = MOST_EXPOSED) -> list[RatePair]:
        """The targets that give most away, worst first, each with its worst observer."""
        order = np.argsort(-self._upper, kind="stable")
        targets = np.concatenate([rates.indices for rates in self.found])
        # In descending order the first pair of a target is its worst.
        first = np.unique(targets[order], return_index=True)[1]
        return [self[int(place)] for place in order[np.sort(first)[:count]]]

    def __getitem__(self, place: int) -> RatePair:
        """The pair at one place of the table."""
        row = int(np.searchsorted(self._starts, place, side="right")) - 1
        return self._pair(self.found[row], place - int(self._starts[row]))

    @cached_property
    def _upper(self) -> NDArray[np.float64]:
        return np.concatenate([rates.upper for rates in self.found])

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        """The place of each observer's first pair."""
        return np.cumsum([0, *(len(rates) for rates in self.found[:-1])])

    @staticmethod
    def _pair(rates: Rates, k: int) -> RatePair:
        return RatePair(
            observer=tuple(plain_label(label) for label in rates.view.observers),
            target=plain_label(rates.protocol.labels[int(rates.indices[k])]),
            rate=Interval(float(rates.lower[k]), float(rates.upper[k])),
            method=rates.method,
            frequency=float(rates.frequency[k]),
            constant=float(rates.constant[k]),
        )


def rate_document(
    table: RateTable, graph: Graph, spectrum: Spectrum, *, pairs_file: str | None = None
) -> dict[str, Any]:
    """The JSON object of a table of rates: every pair, or above `PAIRS_IN_JSON` a summary and `pairs_file`."""
    first = table.found[0]
    document = {
        "schema": SCHEMA,
        "version": __version__,
        "graph": graph_facts(first.protocol.schedule[0], graph, spectrum),
        "view": first.view.name,
        "own_noise": first.view.own_noise,
        "contribution": first.contribution,
        "assumption": rate_assumption(table),
        **protocol_facts(first.protocol),
    }
    if fits_json(table):
        document["pairs"] = [_pair_to_json(pair) for pair in table]
    else:
        chosen = {"worst": table.worst(), "median": table.median(), "best": table.best()}
        document["summary"] = {
            **{name: _pair_to_json(pair) for name, pair in chosen.items()},
            "most_exposed": [_pair_to_json(pair) for pair in table.most_exposed()],
        }
        document["pairs_file"] = pairs_file
    return document


def rate_assumption(table: RateTable) -> Assumption:
    """What the rates of a table rest on."""
    first = table.found[0]
    return rests_on(
        first.protocol, first.view, {name for each in table.found for name in each.method.split("+")}
    )


def _pair_to_json(pair: RatePair) -> dict[str, Any]:
    return {
        "observer": list(pair.observer),
        "target": pair.target,
        "rate": {**ends_to_json(pair.rate), "method": pair.method},
        "frequency": pair.frequency,
        "constant": finite_or_null(pair.constant),
    }
