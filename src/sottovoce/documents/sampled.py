# SPDX-License-Identifier: Apache-2.0
"""The JSON form of an account where records take part by coins."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from msgspec import UNSET, UnsetType

from sottovoce.documents.accounts import HEAD, GraphFacts, Terms, graph_facts, terms
from sottovoce.documents.pairs import Count, Label, plain_label

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from sottovoce.accounting import AccountTable, SampledAccount
    from sottovoce.graphs import WeightedGraph

__all__ = ["SampledDocument", "sampled_document", "table_of_coins"]


class SampledDocument(Terms, frozen=True, kw_only=True, tag="sampled-account"):
    """ε of the worst of the pairs looked at, where a record takes part by a coin of its own in every round.

    `method` is its bound. `observers` and `targets` stand where the question names them: the observers each in turn,
    or together if they are a coalition. Without them all nodes are meant.
    `told` is what it is if the coins are told, `amplified` what it is for who sees every message and no coin (null
    where that is not known), `full` what it would be if records always took part. With `target_epsilon` the noise was
    chosen for it. `other_views` holds the same run in views that show less.
    """

    graph: GraphFacts
    noise_multiplier: float
    delta: float
    target_epsilon: float | UnsetType = UNSET
    infinite: str | UnsetType = UNSET
    pairs_computed: Count
    pairs_possible: Count
    observers: tuple[Label, ...] | UnsetType = UNSET
    targets: tuple[Label, ...] | UnsetType = UNSET
    epsilon: float
    method: Literal["told", "amplified"]
    told: float
    amplified: float | None
    full: float
    other_views: tuple[SampledDocument, ...] | UnsetType = UNSET


def sampled_document(
    found: SampledAccount,
    network: WeightedGraph,
    *,
    beside: Sequence[SampledAccount] = (),
    target_epsilon: float | None = None,
) -> SampledDocument:
    """The document of a sampled account that has its table; `beside` it the same run in views that show less."""
    table, bounds = table_of_coins(found), found.bounds()
    return SampledDocument(
        **HEAD,
        **terms(table),
        graph=graph_facts(network, table.protocol.schedule[0]),
        noise_multiplier=found.noise_multiplier,
        delta=found.default_delta,
        target_epsilon=UNSET if target_epsilon is None else target_epsilon,
        observers=_named(table.scenario.observers),
        targets=_named(table.scenario.targets),
        epsilon=min(bounds.values()),
        method=found.method(),
        told=bounds["told"],
        amplified=bounds.get("amplified"),
        full=float(table.epsilon_upper.max()),
        other_views=tuple(sampled_document(each, network) for each in beside) or UNSET,
    )


def _named(labels: tuple[Hashable, ...] | None) -> tuple[Label, ...] | UnsetType:
    """The nodes that a question names; nothing where it names none."""
    return tuple(map(plain_label, labels)) if labels else UNSET


def table_of_coins(found: SampledAccount) -> AccountTable:
    """The pairs of a sampled account as if records always took part, under what its number rests on."""
    assert found.table is not None, "an account of a scenario has its table"
    return replace(found.table, assumption=found.assumption)
