# SPDX-License-Identifier: Apache-2.0
"""The JSON form that the page reads: an account by columns, its network, and curves over rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from sottovoce.documents.accounts import HEAD, PAIRS_IN_JSON, GraphFacts, Terms, graph_facts, terms
from sottovoce.documents.occasions import Occasion  # noqa: TC001 - msgspec reads the annotations
from sottovoce.documents.pairs import Count, EndsForm, Label, finite_or_null, plain_label
from sottovoce.forms import Form

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.accounting import AccountTable, Curve
    from sottovoce.graphs import GossipWeights, WeightedGraph

__all__ = [
    "CurveDocument",
    "NetworkDocument",
    "PageDocument",
    "PagePart",
    "PairColumns",
    "curve_document",
    "network_document",
    "page_document",
]


class NetworkDocument(GraphFacts, frozen=True, kw_only=True):
    """A graph to draw: facts, names, each edge once as the places of its ends, and where nodes lie if that is known."""

    directed: bool
    labels: list[Label]
    links: list[tuple[Count, Count]]
    positions: tuple[tuple[float, float], ...] | UnsetType = UNSET


class CurveDocument(Form, frozen=True, kw_only=True):
    """Δ² for growing numbers of rounds; `counts` is that of local DP in plain gossip, and empty for a program."""

    observers: tuple[int, ...]
    rounds: tuple[int, ...]
    counts: tuple[int, ...]
    worst: tuple[EndsForm, ...]
    median: tuple[EndsForm, ...]
    best: tuple[EndsForm, ...]


class PairColumns(Form, frozen=True, kw_only=True):
    """Pairs by columns: positions of observers, targets and methods, and the ends of Δ²."""

    observer: list[Count]
    target: list[Count]
    method: list[Count]
    lower: list[float | None]
    upper: list[float | None]


class PagePart(Terms, frozen=True, kw_only=True, tag="page-part"):
    """Δ² of every pair of one view by columns; `factor` is what a relation multiplies Δ by."""

    noise_multiplier: float
    delta: float
    infinite: str | UnsetType = UNSET
    pairs_computed: Count
    pairs_possible: Count
    assumption_text: str
    factor: int
    local_squared: EndsForm | None
    central_squared: EndsForm | None
    observers: list[list[Count]]
    observers_left_out: Count
    epsilon_upper: float | None
    methods: list[str]
    pairs: PairColumns
    curves: tuple[CurveDocument, ...]


class PageDocument(PagePart, frozen=True, kw_only=True, tag="page"):
    """Δ² of every pair by columns, with the network and, beside it, the same run in other views.

    `occasion` says when and from what a report was written; its first page is made from it.
    """

    graph: NetworkDocument
    beside: tuple[PagePart, ...]
    occasion: Occasion | UnsetType = UNSET


def network_document(network: WeightedGraph, weights: GossipWeights) -> NetworkDocument:
    """A graph as the page draws it, with the weights that numbers were computed for."""
    graph = network.graph
    matrix = graph.adjacency.tocoo()
    receivers, senders = matrix.coords
    kept = receivers != senders if graph.directed else senders < receivers
    return NetworkDocument(
        **asdict(graph_facts(network, weights)),
        directed=graph.directed,
        labels=[plain_label(label) for label in graph.labels],
        links=list(zip(senders[kept].tolist(), receivers[kept].tolist(), strict=True)),
        positions=graph.positions or UNSET,
    )


def page_document(
    table: AccountTable,
    network: WeightedGraph,
    *,
    curves: Sequence[Curve] = (),
    beside: Sequence[AccountTable] = (),
    most_pairs: int = PAIRS_IN_JSON,
    occasion: Occasion | None = None,
) -> PageDocument:
    """The document of the page: every pair of `table`, or of the observers that learn most up to `most_pairs`.

    `observers_left_out` says how many observers are not in it; the worst pair of `table` always is. Whether it is the
    worst of the network is told by `pairs_computed` and `pairs_possible`. Tables `beside` it hold the same run in
    other views, and the page shows them side by side.
    """
    return PageDocument(
        **_part(table, curves, most_pairs),
        graph=network_document(network, table.protocol.schedule[0]),
        beside=tuple(PagePart(**_part(other, (), most_pairs)) for other in beside),
        occasion=UNSET if occasion is None else occasion,
    )


def curve_document(curve: Curve) -> CurveDocument:
    """A curve as a page holds it."""
    three = {name: tuple(map(EndsForm.of, getattr(curve, name))) for name in ("worst", "median", "best")}
    return CurveDocument(observers=curve.observers, rounds=curve.rounds, counts=curve.counts, **three)


def _part(table: AccountTable, curves: Sequence[Curve], most_pairs: int) -> dict[str, Any]:
    """Everything that the page shows of one table but the network."""
    # Whoever reads or checks a file needs no accountant.
    from sottovoce.accounting import ASSUMPTIONS, RELATIONS

    rows, places = _kept(table, most_pairs)
    methods, codes = np.unique(table.method[places], return_inverse=True)
    renamed = np.full(len(table.observers), -1)
    renamed[rows] = np.arange(len(rows))
    index = table.protocol.index
    return {
        **HEAD,
        **terms(table),
        "noise_multiplier": float(table.noise_multiplier),
        "delta": float(table.delta),
        "assumption_text": ASSUMPTIONS[table.assumption],
        "factor": RELATIONS[table.relation],
        **_same_noise(table),
        "observers": [[index(label) for label in table.observers[row]] for row in rows.tolist()],
        "observers_left_out": len(table.observers) - len(rows),
        "epsilon_upper": finite_or_null(float(table.epsilon_upper.max())),
        "methods": methods.tolist(),
        "pairs": PairColumns(
            observer=renamed[table.observer_of[places]].tolist(),
            target=table.target_indices[places].tolist(),
            method=codes.tolist(),
            lower=[finite_or_null(value) for value in table.squared_lower[places].tolist()],
            upper=[finite_or_null(value) for value in table.squared_upper[places].tolist()],
        ),
        "curves": tuple(map(curve_document, curves)),
    }


def _same_noise(table: AccountTable) -> dict[str, EndsForm | None]:
    """Δ² of local DP and of central aggregation with the same protocol; null where there is nothing to compare with."""
    key = (table.protocol.hash, table.contribution, str(table.participation))
    if key not in _COMPARED:
        if len(_COMPARED) >= 64:
            _COMPARED.clear()
        _COMPARED[key] = _compared(table)
    return _COMPARED[key]


# The page asks for the observers of a network some at a time, and each answer says the same.
_COMPARED: dict[tuple[str, str, str], dict[str, EndsForm | None]] = {}


def _compared(table: AccountTable) -> dict[str, EndsForm | None]:
    from sottovoce.accounting import Account, compared

    return {
        f"{name}_squared": EndsForm.of(found.sensitivity_squared)
        if isinstance(found, Account) and found.sensitivity_squared is not None
        else None
        for name, found in compared(table).items()
    }


def _kept(table: AccountTable, most_pairs: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the observers that are kept, and the places of their pairs, both ascending."""
    everyone = np.arange(len(table.observers))
    if len(table) <= most_pairs:
        return everyone, np.arange(len(table))
    worst = np.zeros(everyone.size)
    np.maximum.at(worst, table.observer_of, table.squared_upper)
    sizes = np.bincount(table.observer_of, minlength=everyone.size)
    order = np.argsort(-worst, kind="stable")
    # The first is kept even if it alone is too large: the worst pair is never left out.
    fits = np.cumsum(sizes[order]) <= most_pairs
    fits[0] = True
    rows = np.sort(order[fits])
    return rows, np.flatnonzero(np.isin(table.observer_of, rows))
