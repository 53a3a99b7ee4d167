# SPDX-License-Identifier: Apache-2.0
"""What is asked, said once: as values for documents, and as sentences for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sottovoce.protocols import CLIPPING, RECORDS, Slopes, hash_of_damping
from sottovoce.views import ASSUMPTIONS, seen_part

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from sottovoce.participation import Participation
    from sottovoce.protocols import Protocol
    from sottovoce.scenarios.values import Scenario

__all__ = [
    "RELATION_SENTENCES",
    "participation_sentence",
    "protocol_sentences",
    "protocol_terms",
    "scenario_sentences",
    "scenario_terms",
]

RELATION_SENTENCES = {
    "add-remove": "a record is there or is not",
    "replace-one": "a record is replaced by another, which moves a contribution twice as far",
    "zero-out": "a record's contribution is replaced by zero",
}


def scenario_terms(scenario: Scenario) -> dict[str, Any]:
    """What a scenario asks, by name, as values that JSON holds."""
    return {
        "relation": scenario.relation,
        "view": scenario.view_name,
        "own_noise": scenario.own_noise,
        **({} if scenario.exchanges is None else {"exchanges": list(scenario.exchanges)}),
        "contribution": scenario.contribution,
        "participation": str(scenario.participation),
        "assumption": scenario.assumption,
        "observers": _names(scenario.observers),
        "targets": _names(scenario.targets),
        **protocol_terms(scenario.protocol),
    }


def _names(labels: Iterable[Hashable] | None) -> list[int | str] | None:
    """Labels as JSON holds them; None where all nodes are meant."""
    if labels is None:
        return None
    return [
        label if isinstance(label, int) and not isinstance(label, bool) else str(label) for label in labels
    ]


def scenario_sentences(scenario: Scenario) -> dict[str, str]:
    """The same in words, a line for each name."""
    own = "" if scenario.view_name == "everyone" else f", own noise {scenario.own_noise}"
    return {
        "view": f"{scenario.view_name}{seen_part(scenario.exchanges)}{own}",
        "relation": f"{scenario.relation}: {RELATION_SENTENCES[scenario.relation]}",
        "contribution": scenario.contribution,
        "participation": participation_sentence(scenario.participation, scenario.protocol.rounds),
        **protocol_sentences(scenario.protocol),
        "assumption": f"{scenario.assumption}: {ASSUMPTIONS[scenario.assumption]}",
        "hash": scenario.protocol.schedule[0].hash,
    }


def protocol_terms(protocol: Protocol) -> dict[str, Any]:
    """Name, program and hash; beside them the damping of plain gossip that has one, and the ball of updates."""
    if protocol.plain and protocol.damping is not None:
        damping = protocol.damping
        ends = {"min": float(damping.min()), "max": float(damping.max())}
        return {**protocol.terms, "damping": {**ends, "hash": hash_of_damping(damping)}}
    if protocol.updates is None:
        return dict(protocol.terms)
    if not isinstance(protocol.updates, Slopes):
        return {**protocol.terms, "updates": {"lower": None, "upper": None}}
    slopes = protocol.updates
    return {
        **protocol.terms,
        "updates": {
            "lower": float(slopes.lower.min()),
            "upper": float(slopes.upper.max()),
            "step_smoothness": slopes.step_smoothness,
            "losses": slopes.losses,
            "clipping": CLIPPING[slopes.losses],
            "records": RECORDS,
        },
    }


def protocol_sentences(protocol: Protocol) -> dict[str, str]:
    """Lines about a protocol: its name, its program, its damping or its maps, and its hash.

    Gossip that averages and adds noise, as it does unless something else is asked for, is told by its damping alone.
    """
    damped = _damping_sentence(protocol) if protocol.plain else {}
    if protocol.plain and protocol.name == "gossip":
        return damped
    return {
        "protocol": f"{protocol.name}: {protocol.sentence}",
        **damped,
        **_updates_sentences(protocol),
        "protocol hash": protocol.hash,
    }


def participation_sentence(participation: Participation, rounds: int) -> str:
    """Which rounds count, and how many of them."""
    if participation.kind == "full":
        return "full: a target may contribute in every round"
    if participation.kind == "poisson":
        return f"{participation}: a target contributes in each of {rounds} rounds by a secret coin of its own"
    most = participation.largest_count(rounds)
    return f"{participation}: a target contributes in at most {most} {'round' if most == 1 else 'rounds'}"


def _damping_sentence(protocol: Protocol) -> dict[str, str]:
    """A line about the damping, or none where nothing is damped."""
    if protocol.damping is None:
        return {}
    lowest, highest = float(protocol.damping.min()), float(protocol.damping.max())
    span = f"{lowest:g}" if lowest == highest else f"{lowest:g} to {highest:g}"
    return {"damping": f"{span} (1 - step * curvature of each node's quadratic loss)"}


def _updates_sentences(protocol: Protocol) -> dict[str, str]:
    """Lines about the maps by which nodes update what they received, or none where there are none."""
    updates = protocol.updates
    if updates is None:
        return {}
    if isinstance(updates, str):
        return {"updates": "any: nothing is known of the maps by which nodes update what they received"}
    source = ""
    if updates.losses is not None:
        # Every digit that was given.
        product = repr(float(updates.step_smoothness or 0.0)).removesuffix(".0")
        source = f", {updates.losses} losses, step times smoothness {product}"
    return {
        "updates": f"slopes in {updates}{source}",
        "clipping": CLIPPING[updates.losses],
        "records": RECORDS,
    }
