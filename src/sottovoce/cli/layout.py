# SPDX-License-Identifier: Apache-2.0
"""The parts that texts for a person are built of: sentences, plain tables, names."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from sottovoce.cli.printing import as_given, readable, rounded_up
from sottovoce.protocols.updates import CLIPPING, RECORDS

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from rich.console import Console

    from sottovoce.accounting import Account
    from sottovoce.participation import Participation
    from sottovoce.protocols import Protocol, Slopes

__all__ = [
    "RELATIONS",
    "damping_words",
    "epsilon_words",
    "estimate",
    "facts",
    "members",
    "named",
    "network_words",
    "paragraph",
    "participation_words",
    "plain_table",
    "protocol_words",
    "updates_words",
    "who",
]

RELATIONS = {
    "add-remove": "a record is there or is not",
    "replace-one": "a record is replaced by another, which moves a contribution twice as far",
    "zero-out": "a record's contribution is replaced by zero",
}


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


def epsilon_words(account: Account, delta: float) -> str:
    """The upper end of ε at a δ; where δ alone covers all, also the least δ that does."""
    if math.isinf(account.mu.lower):
        return "An infinite ε at every δ"
    bound = f"ε ≤ {rounded_up(account.epsilon(delta).upper)} at δ = {as_given(delta)}"
    if account.epsilon(delta).upper > 0 or account.mu.upper == 0:
        return bound
    return f"{bound}, and already at δ = {rounded_up(account.delta(0.0).upper)}"


def damping_words(damping: NDArray[np.float64] | None) -> list[tuple[str, str]]:
    """A line about the damping, or none where nothing is damped."""
    if damping is None:
        return []
    lowest, highest = float(damping.min()), float(damping.max())
    span = f"{lowest:g}" if lowest == highest else f"{lowest:g} to {highest:g}"
    return [("damping", f"{span} (1 - step * curvature of each node's quadratic loss)")]


def protocol_words(protocol: Protocol) -> list[tuple[str, str]]:
    """Lines about a protocol: its damping if it is plain gossip, else its name, its program and its hash."""
    if protocol.plain:
        return damping_words(protocol.damping)
    terms = protocol.terms
    return [
        ("protocol", f"{terms['protocol']}: {terms['program']}"),
        *updates_words(protocol.updates),
        ("protocol hash", terms["protocol_hash"]),
    ]


def updates_words(updates: Slopes | str | None) -> list[tuple[str, str]]:
    """Lines about the maps by which nodes update what they received, or none where there are none."""
    if updates is None:
        return []
    if isinstance(updates, str):
        return [("updates", "any: nothing is known of the maps by which nodes update what they received")]
    source = ""
    if updates.losses is not None:
        source = (
            f", {updates.losses} losses, step times smoothness {as_given(updates.step_smoothness or 0.0)}"
        )
    return [
        ("updates", f"slopes in {updates}{source}"),
        ("clipping", CLIPPING[updates.losses]),
        ("records", RECORDS),
    ]


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


def participation_words(participation: Participation, rounds: int) -> str:
    """Which rounds count, and how many of them."""
    if participation.kind == "full":
        return "full: a target may contribute in every round"
    most = participation.largest_count(rounds)
    return f"{participation}: a target contributes in at most {most} {'round' if most == 1 else 'rounds'}"
