# SPDX-License-Identifier: Apache-2.0
"""The JSON form of a search for the worst coalition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from sottovoce.documents.accounts import HEAD, GraphFacts, Terms, graph_facts, protocol_facts
from sottovoce.documents.pairs import BoundedEnds, EndsForm, Label, finite_or_null, plain_label
from sottovoce.forms import Form
from sottovoce.views import rests_on

if TYPE_CHECKING:
    from sottovoce.accounting import Relation
    from sottovoce.coalitions import CoalitionSearch
    from sottovoce.graphs import WeightedGraph

__all__ = ["CoalitionDocument", "coalition_document"]


class SearchStep(Form, frozen=True, kw_only=True):
    """A coalition that was the best so far after so many were looked at."""

    evaluated: int
    coalition: tuple[Label, ...]
    sensitivity_squared: EndsForm


class CoalitionDocument(Terms, frozen=True, kw_only=True, tag="coalition"):
    """The coalition that was found, and what holds for every one of its size.

    `epsilon` is that of the found coalition; `epsilon_upper_bound` and `mu_upper_bound` hold for any. All are null
    without noise, the latter two also where they are infinite. An infinite `gap` (nothing was attained) is null too.
    `infinite` says which noise is missing where Δ of the found coalition is infinite.
    """

    graph: GraphFacts
    noise_multiplier: float | None
    delta: float
    target: Label
    size: int
    coalition: tuple[Label, ...]
    sensitivity_squared: BoundedEnds
    upper_bound: float | None
    gap: float | None
    exact: bool
    stopped: str | None
    evaluated: int
    coalitions: int
    epsilon: EndsForm | None
    epsilon_upper_bound: float | None
    mu_upper_bound: float | None
    trace: tuple[SearchStep, ...]
    infinite: str | UnsetType = UNSET


def coalition_document(
    search: CoalitionSearch,
    network: WeightedGraph,
    *,
    noise_multiplier: float | None,
    delta: float,
    relation: Relation,
) -> CoalitionDocument:
    """The document of a search; without a noise multiplier there is no ε in it."""
    epsilon = anyone = at_most = None
    if noise_multiplier is not None:
        noise_multiplier = float(noise_multiplier)
        account = search.account(noise_multiplier=noise_multiplier, delta=delta, relation=relation)
        guarantee = search.guarantee(noise_multiplier=noise_multiplier, delta=delta, relation=relation)
        epsilon, anyone = EndsForm.of(account.epsilon()), finite_or_null(guarantee.epsilon().upper)
        at_most = finite_or_null(guarantee.mu.upper)
    return CoalitionDocument(
        **HEAD,
        graph=graph_facts(network, search.protocol.schedule[0]),
        rounds=search.protocol.rounds,
        noise_multiplier=noise_multiplier,
        delta=float(delta),
        relation=relation,
        view=search.view,
        own_noise="known",
        contribution=search.contribution,
        participation=str(search.participation),
        assumption=rests_on(search.protocol, search.view),
        **protocol_facts(search.protocol),
        target=plain_label(search.target),
        size=search.size,
        coalition=tuple(map(plain_label, search.coalition)),
        sensitivity_squared=BoundedEnds.by(search.method, search.sensitivity),
        upper_bound=finite_or_null(search.upper_bound),
        gap=finite_or_null(search.gap),
        exact=search.exact,
        stopped=search.stopped,
        infinite=UNSET if search.bare is None else search.bare,
        evaluated=search.evaluated,
        coalitions=search.coalitions,
        epsilon=epsilon,
        epsilon_upper_bound=anyone,
        mu_upper_bound=at_most,
        trace=tuple(
            SearchStep(
                evaluated=step.evaluated,
                coalition=tuple(map(plain_label, step.coalition)),
                sensitivity_squared=EndsForm.of(step.squared),
            )
            for step in search.trace
        ),
    )
