# SPDX-License-Identifier: Apache-2.0
"""The JSON form of a search for the worst coalition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sottovoce._version import __version__
from sottovoce.documents.accounts import SCHEMA, graph_facts, protocol_facts
from sottovoce.documents.pairs import ends_to_json, finite_or_null, plain_label
from sottovoce.views import rests_on

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from sottovoce.accounting import Relation
    from sottovoce.coalitions import CoalitionSearch
    from sottovoce.documents.pairs import Label
    from sottovoce.graphs import Graph, Spectrum

__all__ = ["coalition_document"]


def coalition_document(
    search: CoalitionSearch,
    graph: Graph,
    spectrum: Spectrum,
    *,
    noise_multiplier: float | None,
    delta: float,
    relation: Relation,
) -> dict[str, Any]:
    """The JSON object of a search; without a noise multiplier the ε of the coalition and of any are null.

    `epsilon` is that of the found coalition, `epsilon_upper_bound` one that holds for every coalition of the size.
    An infinite gap (nothing was attained) is null too.
    """
    found = ends_to_json(search.sensitivity)
    document = {
        "schema": SCHEMA,
        "version": __version__,
        "graph": graph_facts(search.protocol.schedule[0], graph, spectrum),
        "rounds": search.protocol.rounds,
        "noise_multiplier": None,
        "delta": float(delta),
        "relation": relation,
        "view": search.view,
        "own_noise": "known",
        "contribution": search.contribution,
        "participation": str(search.participation),
        "assumption": rests_on(search.protocol, search.view),
        **protocol_facts(search.protocol),
        "target": plain_label(search.target),
        "size": search.size,
        "coalition": _names(search.coalition),
        "sensitivity_squared": {**found, "method": search.method},
        "upper_bound": finite_or_null(search.upper_bound),
        "gap": finite_or_null(search.gap),
        "exact": search.exact,
        "stopped": search.stopped,
        "evaluated": search.evaluated,
        "coalitions": search.coalitions,
        "epsilon": None,
        "epsilon_upper_bound": None,
        "trace": [
            {
                "evaluated": step.evaluated,
                "coalition": _names(step.coalition),
                "sensitivity_squared": ends_to_json(step.squared),
            }
            for step in search.trace
        ],
    }
    if noise_multiplier is not None:
        account = search.account(noise_multiplier=noise_multiplier, delta=delta, relation=relation)
        anyone = search.guarantee(noise_multiplier=noise_multiplier, delta=delta, relation=relation)
        document["noise_multiplier"] = float(noise_multiplier)
        document["epsilon"] = ends_to_json(account.epsilon())
        document["epsilon_upper_bound"] = ends_to_json(anyone.epsilon())["upper"]
    return document


def _names(members: Iterable[Hashable]) -> list[Label]:
    return [plain_label(label) for label in members]
