# SPDX-License-Identifier: Apache-2.0
"""The JSON form that the page reads: an account by columns, its network, and curves over rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce._version import __version__
from sottovoce.documents.accounts import PAIRS_IN_JSON, SCHEMA, graph_facts, terms
from sottovoce.documents.pairs import ends_to_json, finite_or_null, plain_label

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.accounting import AccountTable
    from sottovoce.graphs import GossipWeights, Graph, Spectrum
    from sottovoce.interval import Interval

__all__ = ["Curve", "curve_to_json", "network_document", "page_document"]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Δ² of the worst, the median and the best target of one view, for several numbers of rounds.

    `counts` are the rounds in which a target contributes at most: Δ² of local DP in plain gossip. It is empty where Δ²
    of local DP is another, as with programs.
    """

    observers: tuple[int, ...]
    rounds: tuple[int, ...]
    counts: tuple[int, ...]
    worst: tuple[Interval, ...]
    median: tuple[Interval, ...]
    best: tuple[Interval, ...]


def network_document(graph: Graph, weights: GossipWeights, spectrum: Spectrum) -> dict[str, Any]:
    """A graph as the page draws it: facts, names, and each edge once as two positions."""
    matrix = graph.adjacency.tocoo()
    receivers, senders = matrix.coords
    kept = receivers != senders if graph.directed else senders < receivers
    return {
        **graph_facts(weights, graph, spectrum),
        "directed": graph.directed,
        "labels": [plain_label(label) for label in graph.labels],
        "links": np.stack([senders[kept], receivers[kept]], axis=1).tolist(),
    }


def page_document(
    table: AccountTable,
    graph: Graph,
    spectrum: Spectrum,
    *,
    curves: Sequence[Curve] = (),
    beside: Sequence[AccountTable] = (),
    most_pairs: int = PAIRS_IN_JSON,
) -> dict[str, Any]:
    """The JSON object of the page: every pair of `table`, or of the observers that learn most up to `most_pairs`.

    `observers_left_out` says how many observers are not in it; the worst pair of `table` always is. Whether it is the
    worst of the network is told by `pairs_computed` and `pairs_possible`. Tables `beside` it hold the same run in
    other views, and the page shows them side by side.
    """
    return {
        **_account_part(table, curves, most_pairs),
        "graph": network_document(graph, table.protocol.schedule[0], spectrum),
        "beside": [_account_part(other, (), most_pairs) for other in beside],
    }


def _account_part(table: AccountTable, curves: Sequence[Curve], most_pairs: int) -> dict[str, Any]:
    """Everything that the page shows of one table but the network."""
    # Whoever reads or checks a file needs no accountant.
    from sottovoce.accounting import ASSUMPTIONS, RELATIONS

    rows, places = _kept(table, most_pairs)
    methods, codes = np.unique(table.method[places], return_inverse=True)
    renamed = np.full(len(table.observers), -1)
    renamed[rows] = np.arange(len(rows))
    index = table.protocol.index
    return {
        "schema": SCHEMA,
        "version": __version__,
        "rounds": table.protocol.rounds,
        "noise_multiplier": float(table.noise_multiplier),
        "delta": float(table.delta),
        **terms(table),
        "assumption_text": ASSUMPTIONS[table.assumption],
        "factor": RELATIONS[table.relation],
        **_same_noise(table),
        "observers": [[index(label) for label in table.observers[row]] for row in rows.tolist()],
        "observers_left_out": len(table.observers) - len(rows),
        "epsilon_upper": finite_or_null(float(table.epsilon_upper.max())),
        "methods": methods.tolist(),
        "pairs": {
            "observer": renamed[table.observer_of[places]].tolist(),
            "target": table.target_indices[places].tolist(),
            "method": codes.tolist(),
            "lower": [finite_or_null(value) for value in table.squared_lower[places].tolist()],
            "upper": [finite_or_null(value) for value in table.squared_upper[places].tolist()],
        },
        "curves": [curve_to_json(curve) for curve in curves],
    }


def _same_noise(table: AccountTable) -> dict[str, Any]:
    """Δ² of local DP and of central aggregation with the same protocol; null where there is nothing to compare with."""
    key = (table.protocol.hash, table.contribution, str(table.participation))
    if key not in _COMPARED:
        if len(_COMPARED) >= 64:
            _COMPARED.clear()
        _COMPARED[key] = _compared(table)
    return _COMPARED[key]


# The page asks for the observers of a network some at a time, and each answer says the same.
_COMPARED: dict[tuple[str, str, str], dict[str, Any]] = {}


def _compared(table: AccountTable) -> dict[str, Any]:
    from sottovoce.accounting import Account, compared

    return {
        f"{name}_squared": ends_to_json(found.sensitivity_squared)
        if isinstance(found, Account) and found.sensitivity_squared is not None
        else None
        for name, found in compared(table).items()
    }


def curve_to_json(curve: Curve) -> dict[str, Any]:
    """A curve as a JSON object."""
    return {
        "observers": list(curve.observers),
        "rounds": list(curve.rounds),
        "counts": list(curve.counts),
        **{
            name: [ends_to_json(each) for each in getattr(curve, name)]
            for name in ("worst", "median", "best")
        },
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
