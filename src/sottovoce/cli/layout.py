# SPDX-License-Identifier: Apache-2.0
"""The parts that texts for a person are built of: sentences, plain tables, names."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from sottovoce.cli.printing import as_given, readable, rounded_up
from sottovoce.documents import pairs_possible

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from rich.console import Console, ConsoleOptions, RenderResult

    from sottovoce.accounting import Account, AccountTable
    from sottovoce.scenarios import Scenario
    from sottovoce.views import Assumption

__all__ = [
    "Asked",
    "asked_words",
    "eigenvalue",
    "epsilon_words",
    "estimate",
    "facts",
    "infinite_words",
    "members",
    "named",
    "network_words",
    "of_pairs",
    "pairs_words",
    "paragraph",
    "plain_table",
    "restriction_words",
    "spoken",
    "who",
]


# Digits with the signs that stand in and between them; ± and the like may stand around.
_NUMBER = re.compile(r"\W*(?:\d|∞)[\d.,–∞eE+/%-]*\W*")
# The blanks between two columns.
_BLANKS = 2
# So many nodes are named in a line.
_NAMED = 10
# What rounding leaves of an eigenvalue that is 0.
_DUST = 1e-12


class _PlainTable(Table):
    """A table that folds names and never a number: where its numbers do not fit side by side, they stand in a list."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Give each column what it can have, or write the rows below each other."""
        for column in self.columns:
            column.width = None
        cells = [[_plain(cell) for cell in (column.header, *column.cells)] for column in self.columns]
        whole = [max(map(cell_len, column), default=0) for column in cells]
        room = options.max_width - _BLANKS * (len(cells) - 1)
        if sum(whole) > room:
            least = [
                most if column.no_wrap else max((_widest_number(cell) for cell in texts), default=0)
                for column, texts, most in zip(self.columns, cells, whole, strict=True)
            ]
            least = [max(1, each) for each in least]
            if sum(least) > room:
                yield from self._listed(cells)
                return
            for column, width in zip(self.columns, _shared(least, whole, room), strict=True):
                column.width = width
        yield from super().__rich_console__(console, options)

    def _listed(self, cells: list[list[str]]) -> Iterable[Text | Table]:
        """Each row as a list, below what its first cell says."""
        headings, *rows = zip(*cells, strict=True)
        if not self.show_header:
            # Names and values: each value below its name.
            for name, *values in rows:
                yield Text(name, style="dim")
                yield from (Text(value) for value in values)
            return
        for name, *values in rows:
            yield Text(name or "–")
            for heading, value in zip(headings[1:], values, strict=True):
                if value:
                    yield Text(f"  {heading} {value}" if heading else f"  {value}")


def _plain(cell: object) -> str:
    """What a cell says."""
    return cell.plain if isinstance(cell, Text) else str(cell)


def _widest_number(text: str) -> int:
    """How wide the widest number in a text is."""
    return max((cell_len(word) for word in text.split() if _NUMBER.fullmatch(word)), default=0)


def _shared(least: list[int], whole: list[int], room: int) -> list[int]:
    """Widths between the least and the whole that fill the room, as even as can be."""
    widths = list(least)
    for _ in range(room - sum(least)):
        growing = [place for place, width in enumerate(widths) if width < whole[place]]
        if not growing:
            break
        widths[min(growing, key=widths.__getitem__)] += 1
    return widths


def plain_table() -> Table:
    """A table without lines."""
    return _PlainTable(box=None, pad_edge=False, show_edge=False, header_style="dim")


def facts(rows: Iterable[tuple[str, str]]) -> Table:
    """Names on the left, what they are on the right."""
    table = plain_table()
    table.show_header = False
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, Text(value))
    return table


def infinite_words(bare: str | None) -> list[tuple[str, str]]:
    """The row that says which noise is missing, where one is."""
    return [] if bare is None else [("infinite", f"Δ and ε: {bare}")]


def paragraph(console: Console, text: str, style: str = "") -> None:
    """A sentence or two, wrapped."""
    console.print(Text(text, style=style))


def eigenvalue(value: float, converged: bool) -> str:
    """An eigenvalue of gossip weights, which lie between -1 and 1; what rounding leaves of 0 is 0."""
    return estimate(0.0 if abs(value) < _DUST else value, converged)


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


def spoken(label: Hashable) -> str:
    """A node's name as lists hold it: in quotes where a comma would part it."""
    name = readable(label)
    return f"'{name}'" if "," in name else name


def members(observers: Sequence[Hashable]) -> str:
    """The names of the observers, or everyone."""
    return ", ".join(map(spoken, observers)) if observers else "everyone"


def named(label: Hashable) -> str:
    """A node in words."""
    return f"node {spoken(label)}"


def pairs_words(table: AccountTable, whole: str = "every pair") -> str:
    """Which pairs a number of a table is about: all of the view, those of a coalition, some of them, or one.

    `whole` names all of them.
    """
    if len(table) == 1:
        only = table.worst()
        return f"what {who(only.observers)} can learn about {named(only.target)}"
    whose = f" of {who(table.observers[0])}" if table.view.startswith("coalition") else ""
    possible = pairs_possible(table)
    return f"{whole}{whose}" if len(table) == possible else f"{of_pairs(len(table), possible)}{whose},"


def of_pairs(computed: int, possible: int) -> str:
    """How many pairs were looked at, and out of how many where these are not all.

    >>> of_pairs(20, 20), of_pairs(4, 20)
    ('20 pairs', 'the 4 pairs looked at, out of 20')
    """
    return (
        f"{computed} pairs" if computed == possible else f"the {computed} pairs looked at, out of {possible}"
    )


def restriction_words(scenario: Scenario) -> list[tuple[str, str]]:
    """The observers and the targets that a question is restricted to; nothing where it is about all nodes."""
    chosen = (("observers", scenario.observers), ("targets", scenario.targets))
    return [
        (name, ", ".join(map(spoken, labels[:_NAMED])) + (", …" if len(labels) > _NAMED else ""))
        for name, labels in chosen
        if labels
    ]
