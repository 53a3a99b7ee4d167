# SPDX-License-Identifier: Apache-2.0
"""The JSON form of an audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce.documents.accounts import HEAD, GraphFacts, Terms, graph_facts, part_seen, protocol_facts
from sottovoce.documents.pairs import Label, finite_or_null, plain_label
from sottovoce.forms import Form

if TYPE_CHECKING:
    from sottovoce.auditing import Audit, ErrorRates
    from sottovoce.graphs import WeightedGraph

__all__ = ["AuditDocument", "audit_document"]


class CountedRates(Form, frozen=True, kw_only=True):
    """What was counted at one threshold, and the bounds that it proves."""

    threshold: float
    runs: int
    false_alarms: int
    hits: int
    false_alarm_upper: float
    hit_lower: float


class AuditRates(Form, frozen=True, kw_only=True):
    """The counts behind the empirical ε and the empirical μ."""

    epsilon: CountedRates
    mu: CountedRates


class AuditDocument(Terms, frozen=True, kw_only=True, tag="audit"):
    """What an attack achieved, beside what is certified and claimed; `claimed_mu` is null where the claim is an ε."""

    graph: GraphFacts
    noise_multiplier: float
    delta: float
    observer: tuple[Label, ...]
    target: Label
    method: str
    certified_epsilon_upper: float | None
    certified_mu_upper: float | None
    claimed_epsilon: float | None
    claimed_mu: float | None
    witness_epsilon: float
    attack_mu: float
    empirical_epsilon_lower: float
    empirical_mu_lower: float
    gaussian_epsilon_lower: float
    confidence: float
    trials: int
    dimension: int
    seed: int | None
    rates: AuditRates
    refuted: bool


def audit_document(audit: Audit, network: WeightedGraph, *, seed: int | None) -> AuditDocument:
    """The document of an audit."""
    protocol, account = audit.protocol, audit.account
    return AuditDocument(
        **HEAD,
        graph=graph_facts(network, protocol.schedule[0]),
        rounds=protocol.rounds,
        noise_multiplier=audit.noise_multiplier,
        delta=audit.delta,
        relation=account.relation,
        view=audit.view.name,
        own_noise=audit.view.own_noise,
        exchanges=part_seen(audit.view.exchanges),
        contribution=account.contribution,
        participation=account.participation,
        assumption=account.assumption,
        **protocol_facts(protocol),
        observer=tuple(map(plain_label, audit.view.observers)),
        target=plain_label(audit.target),
        method=account.method,
        certified_epsilon_upper=finite_or_null(audit.certified_epsilon_upper),
        certified_mu_upper=finite_or_null(account.mu.upper),
        claimed_epsilon=finite_or_null(audit.claimed_epsilon),
        claimed_mu=finite_or_null(audit.claimed_mu),
        witness_epsilon=audit.witness_epsilon,
        attack_mu=audit.attack_mu,
        empirical_epsilon_lower=audit.empirical_epsilon_lower,
        empirical_mu_lower=audit.empirical_mu_lower,
        gaussian_epsilon_lower=audit.gaussian_epsilon_lower,
        confidence=audit.confidence,
        trials=audit.trials,
        dimension=audit.dimension,
        seed=seed,
        rates=AuditRates(epsilon=_counted(audit.found.epsilon_rates), mu=_counted(audit.found.mu_rates)),
        refuted=audit.refuted,
    )


def _counted(rates: ErrorRates) -> CountedRates:
    return CountedRates(**{name: getattr(rates, name) for name in CountedRates.__struct_fields__})
