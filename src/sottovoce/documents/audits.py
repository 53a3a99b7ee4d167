# SPDX-License-Identifier: Apache-2.0
"""The JSON form of an audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sottovoce._version import __version__
from sottovoce.documents.accounts import SCHEMA, graph_facts, protocol_facts
from sottovoce.documents.pairs import finite_or_null, plain_label

if TYPE_CHECKING:
    from sottovoce.auditing import Audit
    from sottovoce.auditing.confidence import Rates
    from sottovoce.graphs import Graph, Spectrum

__all__ = ["audit_document"]


def audit_document(audit: Audit, graph: Graph, spectrum: Spectrum, *, seed: int | None) -> dict[str, Any]:
    """The JSON object of an audit; `claimed_mu` is null where the claim is an ε alone."""
    protocol, account = audit.protocol, audit.account
    return {
        "schema": SCHEMA,
        "version": __version__,
        "graph": graph_facts(protocol.schedule[0], graph, spectrum),
        "rounds": protocol.rounds,
        "noise_multiplier": audit.noise_multiplier,
        "delta": audit.delta,
        "relation": account.relation,
        "view": audit.view.name,
        "own_noise": audit.view.own_noise,
        "contribution": account.contribution,
        "participation": account.participation,
        "assumption": account.assumption,
        **protocol_facts(protocol),
        "observer": [plain_label(label) for label in audit.view.observers],
        "target": plain_label(audit.target),
        "method": account.method,
        "certified_epsilon_upper": finite_or_null(audit.certified_epsilon_upper),
        "claimed_epsilon": finite_or_null(audit.claimed_epsilon),
        "claimed_mu": finite_or_null(audit.claimed_mu),
        "witness_epsilon": audit.witness_epsilon,
        "attack_mu": audit.attack_mu,
        "empirical_epsilon_lower": audit.empirical_epsilon_lower,
        "empirical_mu_lower": audit.empirical_mu_lower,
        "gaussian_epsilon_lower": audit.gaussian_epsilon_lower,
        "confidence": audit.confidence,
        "trials": audit.trials,
        "dimension": audit.dimension,
        "seed": seed,
        "rates": {
            "epsilon": _rates(audit.found.epsilon_rates),
            "mu": _rates(audit.found.mu_rates),
        },
        "refuted": audit.refuted,
    }


def _rates(rates: Rates) -> dict[str, Any]:
    """What was counted at one threshold, and the bounds that it proves."""
    return {
        "threshold": rates.threshold,
        "runs": rates.runs,
        "false_alarms": rates.false_alarms,
        "hits": rates.hits,
        "false_alarm_upper": rates.false_alarm_upper,
        "hit_lower": rates.hit_lower,
    }
