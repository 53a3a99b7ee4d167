# SPDX-License-Identifier: Apache-2.0
"""What a person sees of peers: a table that lives while they run, and how they ended."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from sottovoce.cli.layout import facts, plain_table
from sottovoce.cli.printing import readable, rounded_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rich.console import Console
    from rich.table import Table

    from sottovoce.peers import Outcome, Whereabouts

__all__ = ["outcomes_document", "outcomes_text", "watched"]


@contextlib.contextmanager
def watched() -> Iterator[Callable[[Mapping[str, Whereabouts]], None] | None]:
    """A callback that shows a live table on stderr: round, who is late, ε spent; None when no one is watching."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    from rich.live import Live

    with Live(console=console, transient=True, refresh_per_second=5) as live:
        yield lambda moments: live.update(_moments(moments))


def _moments(moments: Mapping[str, Whereabouts]) -> Table:
    """Where nodes stand."""
    table = plain_table()
    for name in ("node", "round", "", "waits for", "ε spent at most"):
        table.add_column(name)
    for name, moment in sorted(moments.items()):
        state = "left the plan" if moment.deviated else ""
        late = ", ".join(map(readable, moment.late)) if moment.phase == "exchanging" else moment.phase
        count = f"{min(moment.round, moment.rounds)} of {moment.rounds}"
        table.add_row(readable(name), count, state, late, rounded_up(moment.epsilon))
    return table


def outcomes_text(console: Console, found: Mapping[str, Outcome | str]) -> None:
    """How each node ended, what it learnt, and what that cost."""
    table = plain_table()
    for name in ("node", "ended", "rounds", "sent in", "accuracy", "ε of one", "ε of all", "refused"):
        table.add_column(name, justify="left" if name in {"node", "ended"} else "right")
    ends = [each for each in found.values() if not isinstance(each, str)]
    for name, outcome in sorted(found.items()):
        if isinstance(outcome, str):
            table.add_row(readable(name), "failed", *[""] * 6)
            continue
        how = outcome.reason + (", others dropped out" if outcome.deviated else "")
        one = outcome.epsilon_of_one
        numbers = (
            str(outcome.rounds),
            str(outcome.sent),
            "" if outcome.accuracy is None else f"{outcome.accuracy:.3f}",
            "" if one is None else rounded_up(one),
            rounded_up(outcome.epsilon),
            str(outcome.refused),
        )
        table.add_row(readable(name), how, *numbers)
    console.print(table)
    console.print()
    console.print(facts(_explained(ends)))


def _explained(ends: list[Outcome]) -> list[tuple[str, str]]:
    """What the numbers in a table of outcomes are about."""
    rows = []
    if ends and all(each.had_finished for each in ends):
        rows.append(("nothing ran", "all rounds were over already, and this is how they ended"))
    if any(each.accuracy is not None for each in ends):
        rows.append(
            ("accuracy", "of its model on the node's own records, without noise: for its own eyes alone")
        )
    levels = " or ".join(sorted({repr(each.delta) for each in ends}))
    rows += [
        ("ε of one", f"the most that any one other node knows, by what happened, at δ = {levels}"),
        ("ε of all", f"of whoever reads every message, whatever others did, at δ = {levels}"),
    ]
    earlier = max((each.earlier_runs for each in ends), default=0)
    if earlier:
        rows.append(
            ("earlier runs", f"{earlier}, counted in both; a certificate speaks of its own run alone")
        )
    rows.append(
        ("kept", "in NAME.run: state, signed transcript.jsonl, certificate.json, ledger.csv and ledger.jsonl")
    )
    return rows


def outcomes_document(found: Mapping[str, Outcome | str]) -> dict[str, Any]:
    """How nodes ended, for JSON."""
    fields = ("reason", "had_finished", "rounds", "sent", "deviated", "accuracy", "epsilon_of_one", "epsilon")
    more = ("delta", "earlier_runs", "known", "refused", "model")
    return {
        "kind": "peers run",
        "nodes": {
            name: {"failed": each}
            if isinstance(each, str)
            else {field: getattr(each, field) for field in fields + more}
            for name, each in sorted(found.items())
        },
    }
