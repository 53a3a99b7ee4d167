# SPDX-License-Identifier: Apache-2.0
"""What a person sees: sentences and small tables that fit 80 columns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.text import Text

from sottovoce._version import __version__
from sottovoce.cli.layout import (
    asked_words,
    eigenvalue,
    epsilon_words,
    estimate,
    facts,
    infinite_words,
    members,
    named,
    network_words,
    of_pairs,
    pairs_words,
    paragraph,
    plain_table,
    spoken,
    who,
)
from sottovoce.cli.printing import as_given, both_ends, in_short, readable, rounded_up
from sottovoce.documents import MOST_EXPOSED, pairs_possible

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from rich.console import Console
    from rich.table import Table

    from sottovoce.accounting import Account, AccountTable
    from sottovoce.cli.account import Accounted
    from sottovoce.documents import GraphDocument
    from sottovoce.graphs import WeightedGraph

__all__ = ["account_text", "calibration_text", "exposed_table", "graph_text", "meaning", "pairs_table"]

SHOWN_TWINS = 5
HEADINGS = {"neighbourhood": "messages in the clear", "secure-sum": "secure sums"}


def account_text(console: Console, found: Accounted, network: WeightedGraph, written: Path | None) -> None:
    """Headline, the telling pairs, the most exposed nodes, and what every number rests on."""
    table = found.tables[0]
    worst = table.worst()
    if found.reached is not None:
        paragraph(console, found.reached, style="bold")
    paragraph(console, _headline(found.tables), style="bold")
    paragraph(console, meaning(worst, table.relation))
    console.print()
    many = len(table) > 1
    console.print(_telling(found.tables, many=many))
    if many:
        console.print()
        paragraph(
            console,
            f"Most exposed nodes{_with(found.tables)}, each with the observer that learns most about it:",
        )
        console.print(
            exposed_table((account for _, account in table.most_exposed(MOST_EXPOSED)), table.delta)
        )
    console.print()
    held = "every pair" if found.reached is None else "the pairs that were finished"
    console.print(facts(_terms(found.tables, network, written, held)))


def calibration_text(
    console: Console,
    table: AccountTable,
    network: WeightedGraph,
    written: Path | None,
    target_epsilon: float,
) -> None:
    """The noise that is enough, the pair that needs it, and what it rests on."""
    worst = table.worst()
    headline = (
        f"A noise multiplier of {rounded_up(table.noise_multiplier, 6)} keeps {pairs_words(table)} within "
        f"ε = {as_given(target_epsilon)} at δ = {as_given(table.delta)}."
    )
    paragraph(console, headline, style="bold")
    paragraph(
        console, f"The pair that needs as much: {who(worst.observers)}, observing {named(worst.target)}."
    )
    console.print()
    console.print(pairs_table({"worst": worst}, table.delta))
    console.print()
    console.print(facts(_terms([table], network, written)))


def graph_text(console: Console, document: GraphDocument, written: Path | None) -> None:
    """The facts about a graph and its weights, one a line."""
    graph, weights = document.graph, document.weights
    degrees, labels = graph.degrees, graph.labels
    names = ", ".join(map(spoken, labels))
    rows = [
        ("nodes", f"{graph.nodes}"),
        ("edges", f"{graph.edges}, {'directed' if graph.directed else 'undirected'}"),
        ("degrees", f"{degrees.min} to {degrees.max}, median {degrees.median:g}"),
        ("names", names + (", …" if graph.nodes > len(labels) else "")),
        (
            "weights",
            f"{readable(graph.origin)}; {'symmetric' if weights.symmetric else 'not symmetric'}",
        ),
        ("λ₂", eigenvalue(weights.second_eigenvalue, weights.converged)),
        ("λ_n", eigenvalue(weights.smallest_eigenvalue, weights.converged)),
        ("ρ", eigenvalue(weights.rho, weights.converged)),
        ("gap γ", estimate(graph.gap, weights.converged)),
        ("hash", graph.hash),
        *_twins(document),
    ]
    if written is not None:
        rows.append(("written", str(written)))
    console.print(facts(rows))


def _twins(document: GraphDocument) -> list[tuple[str, str]]:
    """Which nodes hide each other whatever they train, and how well."""
    groups = document.twins
    if not groups:
        return [("twins", "none: no two nodes are weighed alike by all")]
    sizes = sorted(len(group.nodes) for group in groups)
    least, span = sizes[0], " to ".join(str(size) for size in dict.fromkeys((sizes[0], sizes[-1])))
    named = [
        ", ".join(map(spoken, group.nodes[:SHOWN_TWINS])) + (", …" if len(group.nodes) > SHOWN_TWINS else "")
        for group in groups[:SHOWN_TWINS]
    ]
    many = f"a group of {span}" if len(groups) == 1 else f"{len(groups)} groups of {span}"
    member = f"1/{least - 1}" if least > 2 else "all of it"
    return [
        (
            "twins",
            f"{sum(sizes)} of {document.graph.nodes} nodes, in {many}: "
            + "; ".join([*named, *(["…"] if len(groups) > SHOWN_TWINS else [])]),
        ),
        (
            "hidden",
            f"whatever nodes train, deep networks too, secure sums tell at most 1/{least} of Δ² of local DP about a "
            f"node of a group of {least}, and its twins at most {member}",
        ),
    ]


def _headline(tables: Sequence[AccountTable]) -> str:
    """The worst ε and whose it is; of two views the larger, and what the other gives."""
    table = tables[0]
    worst = table.worst()
    bound = f"{epsilon_words(worst, table.delta)}{_with(tables)}"
    if len(table) == 1 or not worst.observers:
        first = f"{bound} is what {who(worst.observers)} can learn about {named(worst.target)}."
    else:
        pairs = of_pairs(len(table), pairs_possible(table))
        first = f"{bound}: of {pairs}, {who(worst.observers)} can learn most, about {named(worst.target)}."
    if len(tables) == 1:
        return first
    other = tables[1]
    here, there = (rounded_up(each.worst().epsilon(each.delta).upper) for each in tables)
    much = "as much" if here == there else f"ε ≤ {there}"
    return f"{first} {HEADINGS[other.view].capitalize()} would give {much}."


def _with(tables: Sequence[AccountTable]) -> str:
    """Which of two views is meant; nothing where there is one."""
    return f" with {HEADINGS[tables[0].view]}" if len(tables) > 1 else ""


def _telling(tables: Sequence[AccountTable], *, many: bool) -> Table:
    """The worst, the median and the best pair of one view, or the worst of two views side by side."""
    table = tables[0]
    if len(tables) > 1:
        shown = pairs_table({HEADINGS[each.view]: each.worst() for each in tables}, table.delta)
        if many:
            middle = (both_ends(each.median().epsilon(each.delta)) for each in tables)
            shown.add_row("median ε", *map(Text, middle))
        shown.add_row("--view", *(Text(each.view) for each in tables))
        return shown
    chosen = {"worst": table.worst()}
    if many:
        chosen |= {"median": table.median(), "best": table.best()}
    return pairs_table(chosen, table.delta)


def meaning(worst: Account, relation: str) -> str:
    """ε in words: how often the best guess about a record is right."""
    if math.isinf(worst.mu.lower):
        return f"No noise hides some of what {named(worst.target)} contributes: it is seen as it is."
    if math.isinf(worst.mu.upper):
        return f"No bound on what is learnt about {named(worst.target)} is proved: it may be seen as it is."
    right = rounded_up(worst.best_guess(), 3)
    question = "which of two records it holds" if relation == "replace-one" else "whether a record is there"
    return (
        f"Even the best guess about {named(worst.target)} ({question}) is right at most {right}% of the "
        "time, where tossing a coin is right 50% of the time."
    )


def pairs_table(accounts: Mapping[str, Account], delta: float) -> Table:
    """One column for each account: who, whom, Δ², μ, ε and the bound that proves them."""
    table = plain_table()
    table.add_column("", style="dim", no_wrap=True)
    for heading in accounts:
        table.add_column(heading, overflow="fold")
    rows: dict[str, list[str]] = {name: [] for name in ("observer", "target", "Δ²", "μ", "ε", "bound")}
    for account in accounts.values():
        squared = account.sensitivity_squared
        rows["observer"].append(members(account.observers))
        rows["target"].append(readable(account.target))
        rows["Δ²"].append("" if squared is None else both_ends(squared))
        rows["μ"].append(both_ends(account.mu))
        rows["ε"].append(both_ends(account.epsilon(delta)))
        rows["bound"].append(account.method)
    for name, values in rows.items():
        table.add_row(name, *map(Text, values))
    return table


def exposed_table(accounts: Iterable[Account], delta: float) -> Table:
    """One line for each target, with the observer that learns most about it."""
    table = plain_table()
    table.add_column("target", overflow="fold")
    table.add_column("ε", justify="right", no_wrap=True)
    table.add_column("observer", overflow="fold")
    table.add_column("bound", no_wrap=True)
    for account in accounts:
        epsilon = both_ends(account.epsilon(delta))
        table.add_row(
            Text(readable(account.target)), epsilon, Text(members(account.observers)), account.method
        )
    return table


def _terms(
    tables: Sequence[AccountTable],
    network: WeightedGraph,
    written: Path | None,
    held: str = "every pair",
) -> list[tuple[str, str]]:
    """What the numbers rest on, and what to compare them with."""
    table = tables[0]
    protocol, delta = table.protocol, table.delta
    asked = asked_words(table.scenario, table.assumption)
    views = " and ".join(each.view for each in tables)
    rows = [
        *network_words(network.graph.n, network.graph.edges, protocol.schedule[0].origin),
        ("gap γ", estimate(network.spectrum.gap, network.spectrum.converged)),
        ("run", f"{protocol.rounds} rounds, noise multiplier {in_short(table.noise_multiplier)}"),
        ("same noise", same_noise(table)),
        ("view", f"{asked.view.replace(table.view, views, 1)}; {_counted(tables)}"),
        *asked.relation,
        *asked.stream,
        ("δ", as_given(delta)),
        *asked.protocol,
        *infinite_words(table.bare),
        *asked.assumption,
        *asked.hash,
        ("version", __version__),
    ]
    if written is not None:
        rows.append(("written", f"{written} ({held}, all digits)"))
    return rows


def same_noise(table: AccountTable) -> str:
    """What local DP and central aggregation give at the same noise, or why there is nothing to compare with."""
    from sottovoce.accounting import Account, compared

    return ", ".join(
        f"ε ≤ {rounded_up(found.epsilon().upper)} with {found.method}"
        if isinstance(found, Account)
        else f"not compared: {found}"
        for found in compared(table).values()
    )


def _counted(tables: Sequence[AccountTable]) -> str:
    """How many pairs there are, in each view where there are two."""
    counts = list(dict.fromkeys(len(table) for table in tables))
    each = " each" if len(tables) > 1 and len(counts) == 1 else ""
    return f"{' and '.join(map(str, counts))} {'pair' if counts == [1] else 'pairs'}{each}"
