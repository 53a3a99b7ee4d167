# SPDX-License-Identifier: Apache-2.0
"""What a person sees of an audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce._version import __version__
from sottovoce.cli.layout import (
    asked_words,
    facts,
    members,
    named,
    network_words,
    paragraph,
    who,
)
from sottovoce.cli.printing import as_given, in_short, readable, rounded_down, rounded_up

if TYPE_CHECKING:
    from rich.console import Console

    from sottovoce.auditing import Audit, ErrorRates
    from sottovoce.graphs import Graph

__all__ = ["audit_text"]


def audit_text(console: Console, audit: Audit, graph: Graph, *, claimed: bool, seed: int | None) -> None:
    """The verdict, the numbers side by side, and what they rest on."""
    word = "claimed" if claimed else "certified"
    found, bound = rounded_down(audit.empirical_epsilon_lower), rounded_up(audit.claimed_epsilon)
    verdict = "does not stand: an attack did better" if audit.refuted else "stands: no attack did better"
    paragraph(console, f"The {word} ε ≤ {bound} at δ = {as_given(audit.delta)} {verdict}.", style="bold")
    paragraph(
        console,
        f"Attacking what {who(audit.view.observers)} sees of {named(audit.target)} shows ε ≥ {found}.",
    )
    console.print()
    rows = [
        *([("claimed", f"ε ≤ {bound}")] if claimed else []),
        (
            "certified",
            f"ε ≤ {rounded_up(audit.certified_epsilon_upper)}, μ ≤ {rounded_up(audit.account.mu.upper)}",
        ),
        ("witness", f"ε ≥ {rounded_down(audit.witness_epsilon)} is what the simulated stream must leak"),
        ("found", f"ε ≥ {found} with confidence {as_given(audit.confidence)}, whatever the mechanism"),
        (
            "if Gaussian",
            f"μ ≥ {rounded_down(audit.empirical_mu_lower)}, so ε ≥ {rounded_down(audit.gaussian_epsilon_lower)}, "
            "with the same confidence",
        ),
        ("rates for ε", _rates(audit.found.epsilon_rates)),
        ("rates for μ", _rates(audit.found.mu_rates)),
        ("trials", _trials(audit, seed)),
        ("attack", f"likelihood ratio of the simulated rounds, worlds {audit.attack_mu:.4g} noises apart"),
        *_terms(audit, graph),
    ]
    console.print(facts(rows))


def _rates(rates: ErrorRates) -> str:
    """Counts in words."""
    return (
        f"{rates.false_alarms} false alarms and {rates.hits} hits in {rates.runs} runs each: at most "
        f"{rounded_up(100 * rates.false_alarm_upper, 3)}% and at least {rounded_down(100 * rates.hit_lower, 3)}%"
    )


def _trials(audit: Audit, seed: int | None) -> str:
    """How many runs of how many coordinates, and where the noise came from."""
    size = "numbers" if audit.dimension == 1 else f"vectors of {audit.dimension}"
    source = "system entropy" if seed is None else f"seed {seed}"
    return f"{audit.trials} runs with {size}, half to choose thresholds and half to judge; {source}"


def _terms(audit: Audit, graph: Graph) -> list[tuple[str, str]]:
    """What the numbers rest on."""
    protocol, asked = audit.protocol, asked_words(audit.scenario, audit.account.assumption)
    return [
        ("observer", members(audit.view.observers)),
        ("target", readable(audit.target)),
        *network_words(graph.n, graph.edges, protocol.schedule[0].origin),
        ("run", f"{protocol.rounds} rounds, noise multiplier {in_short(audit.noise_multiplier)}"),
        ("view", asked.view),
        *asked.relation,
        *asked.stream,
        *asked.protocol,
        *asked.assumption,
        *asked.hash,
        ("version", __version__),
    ]
