# SPDX-License-Identifier: Apache-2.0
"""The parts that texts for a person are built of: sentences, plain tables, names."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from rich.table import Table
from rich.text import Text

from sottovoce.cli.printing import as_given, readable, rounded_up

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from rich.console import Console

    from sottovoce.accounting import Account
    from sottovoce.scenarios import Scenario
    from sottovoce.views import Assumption

__all__ = [
    "Asked",
    "asked_words",
    "epsilon_words",
    "estimate",
    "facts",
    "members",
    "named",
    "network_words",
    "paragraph",
    "plain_table",
    "who",
]


def plain_table() -> Table:
    """A table without lines."""
    return Table(box=None, pad_edge=False, show_edge=False, header_style="dim")


def facts(rows: Iterable[tuple[str, str]]) -> Table:
    """Names on the left, what they are on the right."""
    table = plain_table()
    table.show_header = False
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, Text(value))
    return table


def paragraph(console: Console, text: str, style: str = "") -> None:
    """A sentence or two, wrapped."""
    console.print(Text(text, style=style))


def estimate(value: float, converged: bool) -> str:
    """A number that describes and guarantees nothing."""
    return f"{value:.4g}" if converged else f"about {value:.4g} (the iteration ended early)"


def network_words(nodes: int, edges: int, origin: str) -> list[tuple[str, str]]:
    """Two lines: how large the network is, and where its weights come from."""
    return [("network", f"{nodes} nodes, {edges} edges"), ("weights", readable(origin))]


class Asked(NamedTuple):
    """The sentences of a scenario, in the groups between which answers put theirs."""

    view: str
    relation: list[tuple[str, str]]
    stream: list[tuple[str, str]]
    protocol: list[tuple[str, str]]
    assumption: list[tuple[str, str]]
    hash: list[tuple[str, str]]


def asked_words(scenario: Scenario, assumption: Assumption | None = None) -> Asked:
    """What a scenario asks, in words; an answer may rest on another assumption than the question does."""
    from sottovoce.scenarios import protocol_sentences
    from sottovoce.views import ASSUMPTIONS

    words = scenario.sentences()
    if assumption is not None:
        words["assumption"] = f"{assumption}: {ASSUMPTIONS[assumption]}"

    def lines(*names: str) -> list[tuple[str, str]]:
        return [(name, words[name]) for name in names]

    return Asked(
        view=words["view"],
        relation=lines("relation"),
        stream=lines("contribution", "participation"),
        protocol=lines(*protocol_sentences(scenario.protocol)),
        assumption=lines("assumption"),
        hash=lines("hash"),
    )


def epsilon_words(account: Account, delta: float) -> str:
    """The upper end of ε at a δ; where δ alone covers all, also the least δ that does."""
    if math.isinf(account.mu.lower):
        return "An infinite ε at every δ"
    bound = f"ε ≤ {rounded_up(account.epsilon(delta).upper)} at δ = {as_given(delta)}"
    if account.epsilon(delta).upper > 0 or account.mu.upper == 0:
        return bound
    return f"{bound}, and already at δ = {rounded_up(account.delta(0.0).upper)}"


def who(observers: Sequence[Hashable]) -> str:
    """The observer in words."""
    if not observers:
        return "whoever sees every message"
    return named(observers[0]) if len(observers) == 1 else f"the coalition {members(observers)}"


def members(observers: Sequence[Hashable]) -> str:
    """The names of the observers, or everyone."""
    return ", ".join(readable(label) for label in observers) if observers else "everyone"


def named(label: Hashable) -> str:
    """A node in words."""
    return f"node {readable(label)}"
