# SPDX-License-Identifier: Apache-2.0
"""The JSON form of a table of rates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType

from sottovoce.documents.accounts import (
    HEAD,
    GraphFacts,
    Sight,
    fits_json,
    graph_facts,
    part_seen,
    protocol_facts,
    view_pairs,
)
from sottovoce.documents.pairs import BoundedEnds, Count, Label, finite_or_null, plain_label
from sottovoce.forms import Form

if TYPE_CHECKING:
    from sottovoce.graphs import WeightedGraph
    from sottovoce.rates import RatePair, RateTable

__all__ = ["RateDocument", "rate_document", "rate_pairs_possible"]


class RatePairForm(Form, frozen=True, kw_only=True):
    """The limit of Δ²/T of one pair; `frequency` and `constant` are those of `sottovoce.rates.Rate`."""

    observer: tuple[Label, ...]
    target: Label
    rate: BoundedEnds
    frequency: float
    constant: float | None


class RateSummary(Form, frozen=True, kw_only=True):
    """The worst, the median and the best pair, and the worst pair of each of the most exposed nodes."""

    worst: RatePairForm
    median: RatePairForm
    best: RatePairForm
    most_exposed: tuple[RatePairForm, ...]


class RateDocument(Sight, frozen=True, kw_only=True, tag="rate"):
    """The limit of Δ²/T of every pair; or, of very many, a summary and the file that holds them.

    `program` says what nodes do each round, of which there is no number.
    `infinite` says which noise is missing where Δ itself is infinite.
    """

    graph: GraphFacts
    infinite: str | UnsetType = UNSET
    pairs_computed: Count
    pairs_possible: Count
    pairs: tuple[RatePairForm, ...] | UnsetType = UNSET
    summary: RateSummary | UnsetType = UNSET
    pairs_file: str | UnsetType | None = UNSET


def rate_document(table: RateTable, network: WeightedGraph, *, pairs_file: str | None = None) -> RateDocument:
    """The document of a table of rates: every pair, or above `PAIRS_IN_JSON` a summary and `pairs_file`."""
    first = table.found[0]
    facts = protocol_facts(first.protocol) | {"program": first.protocol.each_round}
    # That is the hash of a number of rounds, and a limit has none.
    del facts["protocol_hash"]
    held: dict[str, Any] = {"summary": _summary(table), "pairs_file": pairs_file}
    if fits_json(table):
        held = {"pairs": tuple(map(_pair, table))}
    return RateDocument(
        **HEAD,
        graph=graph_facts(network, first.protocol.schedule[0]),
        view=first.view.name,
        own_noise=first.view.own_noise,
        exchanges=part_seen(first.view.exchanges),
        contribution=first.contribution,
        assumption=table.assumption,
        **facts,
        infinite=UNSET if table.bare is None else table.bare,
        pairs_computed=len(table),
        pairs_possible=rate_pairs_possible(table),
        **held,
    )


def rate_pairs_possible(table: RateTable) -> int:
    """How many pairs there are in the view of a table, whoever of its network observes and is observed."""
    return view_pairs(table.found[0].scenario, [each.view.observers for each in table.found])


def _summary(table: RateTable) -> RateSummary:
    return RateSummary(
        worst=_pair(table.worst()),
        median=_pair(table.median()),
        best=_pair(table.best()),
        most_exposed=tuple(map(_pair, table.most_exposed())),
    )


def _pair(pair: RatePair) -> RatePairForm:
    return RatePairForm(
        observer=tuple(map(plain_label, pair.observer)),
        target=plain_label(pair.target),
        rate=BoundedEnds.by(pair.method, pair.rate),
        frequency=pair.frequency,
        constant=finite_or_null(pair.constant),
    )
