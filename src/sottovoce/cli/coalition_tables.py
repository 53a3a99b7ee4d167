# SPDX-License-Identifier: Apache-2.0
"""What a person sees of a search for the worst coalition."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sottovoce.cli.layout import (
    asked_words,
    facts,
    infinite_words,
    members,
    named,
    network_words,
    paragraph,
    who,
)
from sottovoce.cli.printing import as_given, both_ends, in_short, readable, rounded_up

if TYPE_CHECKING:
    from rich.console import Console

    from sottovoce.coalitions import CoalitionSearch
    from sottovoce.documents import CoalitionDocument

__all__ = ["coalition_text"]


def coalition_text(
    console: Console, search: CoalitionSearch, document: CoalitionDocument, time_limit: float
) -> None:
    """Who learns most, whether that is proved, what any coalition can learn, and what it rests on."""
    paragraph(console, _headline(search, document), style="bold")
    if not search.exact:
        paragraph(
            console,
            f"Whether another coalition of {search.size} learns more is open; none learns more than "
            f"{_bound(search.upper_bound, document.epsilon_upper_bound, document.delta)}.",
        )
    console.print()
    console.print(facts([*_findings(search, document, time_limit), *_terms(search, document)]))


def _headline(search: CoalitionSearch, document: CoalitionDocument) -> str:
    """The coalition, what it learns at most, and whether any other learns more."""
    epsilon = document.epsilon
    bound = _bound(search.sensitivity.upper, epsilon.upper if epsilon else None, document.delta)
    found, target = who(search.coalition), named(search.target)
    if search.exact:
        others = "node" if search.size == 1 else f"coalition of {search.size}"
        return f"No {others} learns more about {target} than {found}: {bound}."
    return f"Of those looked at, {found} learns most about {target}: {bound}."


def _bound(squared: float, epsilon: float | None, delta: float) -> str:
    """A bound in ε where there is noise, else in Δ²."""
    if epsilon is None:
        return f"Δ² ≤ {rounded_up(squared)}"
    return f"ε ≤ {rounded_up(epsilon)} at δ = {as_given(delta)}"


def _findings(
    search: CoalitionSearch, document: CoalitionDocument, time_limit: float
) -> list[tuple[str, str]]:
    """The numbers of the found coalition and of all others, and how they were come by."""
    rows = [
        ("coalition", members(search.coalition)),
        ("target", readable(search.target)),
        ("Δ²", f"{both_ends(search.sensitivity)} ({search.method})"),
    ]
    if document.epsilon is not None:
        rows.append(("ε", both_ends(document.epsilon.interval)))
    gap = "∞" if math.isinf(search.gap) else f"{rounded_up(100 * search.gap, 3)}%"
    rows.append(("any other", f"Δ² ≤ {rounded_up(search.upper_bound)}, a gap of at most {gap}"))
    if search.exact:
        rows.append(("proved", "yes, up to the width of the interval of Δ²"))
    elif search.stopped == "interrupted":
        rows.append(("proved", "no, the search was interrupted"))
    else:
        rows.append(("proved", f"no, the search ended after {as_given(time_limit)} s"))
    rows.append(("searched", f"{search.evaluated} views computed for {search.coalitions} coalitions"))
    return rows


def _terms(search: CoalitionSearch, document: CoalitionDocument) -> list[tuple[str, str]]:
    """What the numbers rest on."""
    graph = document.graph
    noise = document.noise_multiplier
    run = f"{search.protocol.rounds} rounds" + (f", noise multiplier {in_short(noise)}" if noise else "")
    asked = asked_words(search.scenario)
    return [
        *network_words(graph.nodes, graph.edges, graph.origin),
        ("run", run),
        ("view", asked.view),
        *([] if noise is None else asked.relation),
        *asked.stream,
        *asked.protocol,
        *infinite_words(search.bare),
        *asked.assumption,
    ]
