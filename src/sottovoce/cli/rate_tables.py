# SPDX-License-Identifier: Apache-2.0
"""What a person sees of long-run rates."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.text import Text

from sottovoce._version import __version__
from sottovoce.cli.layout import (
    asked_words,
    estimate,
    facts,
    infinite_words,
    members,
    named,
    network_words,
    of_pairs,
    paragraph,
    plain_table,
    who,
)
from sottovoce.cli.printing import both_ends, readable, rounded_up
from sottovoce.documents import rate_pairs_possible

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping
    from pathlib import Path

    from rich.console import Console
    from rich.table import Table

    from sottovoce.graphs import WeightedGraph
    from sottovoce.protocols import Protocol
    from sottovoce.rates import RatePair, Rates, RateTable

__all__ = ["rate_text"]


def rate_text(console: Console, table: RateTable, network: WeightedGraph, written: Path | None) -> None:
    """Headline, the telling pairs, and what every number means and rests on."""
    worst = table.worst()
    paragraph(console, _headline(table, worst), style="bold")
    paragraph(
        console,
        "A round adds that much, divided by the square of the noise multiplier, to μ² (four times as much "
        "under replace-one).",
    )
    console.print()
    chosen = {"worst": worst}
    if len(table) > 1:
        chosen |= {"median": table.median(), "best": table.best()}
    console.print(_pairs(chosen, table))
    console.print()
    console.print(facts(_terms(table, network, written)))


def _headline(table: RateTable, worst: RatePair) -> str:
    """The largest rate and whose it is."""
    bound = f"In the long run Δ² grows by at most {rounded_up(worst.rate.upper)} a round"
    if math.isinf(worst.rate.lower):
        why = "is infinite" if worst.bare else "grows faster than the rounds"
        bound = f"Δ² grows without bound a round, as it {why}"
    if len(table) == 1 or not worst.observer:
        return f"{bound}: that is what {who(worst.observer)} learns about {named(worst.target)}."
    pairs = of_pairs(len(table), rate_pairs_possible(table))
    return f"{bound}: of {pairs}, {who(worst.observer)} learns most, about {named(worst.target)}."


def _pairs(chosen: Mapping[str, RatePair], table: RateTable) -> Table:
    """One column for each pair: who, whom, the rate, and what to compare it with."""
    shown = plain_table()
    shown.add_column("", style="dim", no_wrap=True)
    for heading in chosen:
        shown.add_column(heading, overflow="fold")
    averages = _averages(table, chosen)
    rows: dict[str, list[str]] = {
        "observer": [members(pair.observer) for pair in chosen.values()],
        "target": [readable(pair.target) for pair in chosen.values()],
        "Δ² a round": [both_ends(pair.rate) for pair in chosen.values()],
        "frequency": [f"{pair.frequency:.4g}" for pair in chosen.values()],
        "constant": [
            "∞" if math.isinf(pair.constant) else f"{pair.constant:.4g}" for pair in chosen.values()
        ],
    }
    if averages:
        rows["average"] = [averages[pair.observer] for pair in chosen.values()]
    for name, values in rows.items():
        shown.add_row(name, *map(Text, values))
    return shown


def _averages(table: RateTable, chosen: Mapping[str, RatePair]) -> dict[tuple[Hashable, ...], str]:
    """For each chosen observer the mean of φ over all nodes whose noise it does not know; a program has none."""
    if not table.found[0].protocol.plain:
        return {}
    wanted = {pair.observer for pair in chosen.values()}
    return {rates.view.observers: _average(rates) for rates in table.found if rates.view.observers in wanted}


def _average(rates: Rates) -> str:
    """Observed rows a hidden node: at every frequency Σ_j φ_j(ω) over hidden nodes is the number of rows."""
    from sottovoce.filtering import hidden_system
    from sottovoce.views import observe

    if rates.view.name == "everyone":
        return "1"
    system = hidden_system(rates.protocol, observe(rates.protocol, rates.view))
    rows, hidden = system.rows.shape[0], system.unknown.size
    return f"{rows}/{hidden} ≈ {rows / hidden:.4g}"


def _terms(table: RateTable, network: WeightedGraph, written: Path | None) -> list[tuple[str, str]]:
    """What the numbers mean and rest on."""
    first = table.found[0]
    plain = first.protocol.plain
    asked = asked_words(first.scenario, table.assumption)
    rows = [
        ("Δ² a round", "the limit of Δ²/T as the rounds T grow; a finite T can give more"),
        ("frequency", "of contributions that leak as much, in radians a round (0 to π)"),
        ("constant", "the same limit for contributions that never change"),
        *([("average", "over the nodes hidden from the observer, at any frequency")] if plain else []),
        *network_words(network.graph.n, network.graph.edges, first.protocol.schedule[0].origin),
        ("gap γ", estimate(network.spectrum.gap, network.spectrum.converged)),
        ("view", f"{asked.view}; {len(table)} {'pair' if len(table) == 1 else 'pairs'}"),
        asked.stream[0],
        *_protocol(first.protocol, asked.protocol),
        *infinite_words(table.bare),
        *asked.assumption,
        *asked.hash,
        ("version", __version__),
    ]
    if written is not None:
        rows.append(("written", f"{written} (every pair, all digits)"))
    return rows


def _protocol(protocol: Protocol, told: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The lines about a protocol, without the number of rounds, which a limit does not have, and a hash of it."""
    again = {"protocol": f"{protocol.name}: {protocol.each_round}"}
    return [(name, again.get(name, line)) for name, line in told if name != "protocol hash"]
