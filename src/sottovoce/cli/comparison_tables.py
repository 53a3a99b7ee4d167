# SPDX-License-Identifier: Apache-2.0
"""What `compare` prints: one line a question, and what all of them rest on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from sottovoce._version import __version__
from sottovoce.cli.layout import asked_words, facts, members, paragraph, plain_table
from sottovoce.cli.printing import as_given, both_ends, in_short, readable, rounded_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from sottovoce.accounting import Contender

__all__ = ["comparison_text"]


def comparison_text(console: Console, found: Sequence[Contender], target_epsilon: float | None) -> None:
    """The least and the most, a line for each question, and what all rest on."""
    paragraph(console, _headline(found, target_epsilon), style="bold")
    console.print()
    same_noise = target_epsilon is None
    table = plain_table()
    table.add_column("", overflow="fold")
    table.add_column("ε" if same_noise else "noise", justify="right", no_wrap=True)
    table.add_column("Δ²", justify="right", no_wrap=True)
    table.add_column("observer", overflow="fold")
    table.add_column("target", overflow="fold")
    table.add_column("assumption", no_wrap=True)
    for one in found:
        worst = one.table.worst()
        squared = worst.sensitivity_squared
        if one.refused is not None:
            number = "none"
        elif same_noise:
            number = both_ends(worst.epsilon(one.table.delta))
        else:
            number = rounded_up(one.table.noise_multiplier)
        table.add_row(
            Text(readable(one.name)),
            number,
            "" if squared is None else both_ends(squared),
            Text(members(worst.observers)),
            Text(readable(worst.target)),
            str(one.table.assumption),
        )
    console.print(table)
    console.print()
    for one in found:
        why = one.refused or one.table.bare
        if why is not None:
            paragraph(console, f"{readable(one.name)}: {why}.")
    console.print(facts(_common(found, target_epsilon)))


def _headline(found: Sequence[Contender], target_epsilon: float | None) -> str:
    """Which question needs least, and which most."""
    able = [one for one in found if one.refused is None]
    if not able:
        return "No noise gives any of them the ε that was asked for."
    delta = as_given(found[0].table.delta)
    if target_epsilon is None:
        least, most = (
            choose(able, key=lambda one: one.table.worst().epsilon(one.table.delta).upper)
            for choose in (min, max)
        )
        ends = [rounded_up(one.table.worst().epsilon(one.table.delta).upper) for one in (least, most)]
        if ends[0] == ends[1]:
            return f"All are certified to ε ≤ {ends[0]} at δ = {delta}, in the worst pair."
        return (
            f"{readable(least.name)} is certified to ε ≤ {ends[0]} in its worst pair, {readable(most.name)} to "
            f"ε ≤ {ends[1]}, at δ = {delta} and the same noise."
        )
    least, most = (choose(able, key=lambda one: one.table.noise_multiplier) for choose in (min, max))
    noises = [rounded_up(one.table.noise_multiplier) for one in (least, most)]
    within = f"within ε = {as_given(target_epsilon)} at δ = {delta}"
    if noises[0] == noises[1]:
        return f"All need a noise multiplier of {noises[0]} to stay {within}."
    return (
        f"{readable(least.name)} needs a noise multiplier of {noises[0]} to stay {within}, {readable(most.name)} "
        f"needs {noises[1]}."
    )


def _common(found: Sequence[Contender], target_epsilon: float | None) -> list[tuple[str, str]]:
    """What all questions share."""
    table = found[0].table
    asked = asked_words(table.scenario, table.assumption)
    noise = (
        f", noise multiplier {in_short(table.noise_multiplier)}"
        if target_epsilon is None
        else f", the least noise for ε = {as_given(target_epsilon)}"
    )
    rests = dict.fromkeys(
        line for one in found for line in asked_words(one.table.scenario, one.table.assumption).assumption
    )
    return [
        ("run", f"{table.protocol.rounds} rounds{noise}"),
        *asked.relation,
        *asked.stream,
        ("δ", as_given(table.delta)),
        *_protocols(found),
        *rests,
        ("version", __version__),
    ]


def _protocols(found: Sequence[Contender]) -> list[tuple[str, str]]:
    """What nodes do; of several hashes each says which graphs, weights and protocols are meant, whatever the view."""
    of: dict[tuple[str, str], dict[str, None]] = {}
    for one in found:
        side = readable(one.name.removesuffix(f", {one.table.view}"))
        for line in asked_words(one.table.scenario).protocol:
            of.setdefault(line, {})[side] = None
    hashes = sum(name == "protocol hash" for name, _ in of)
    return [
        (name, f"{said} ({'; '.join(sides)})" if name == "protocol hash" and hashes > 1 else said)
        for (name, said), sides in of.items()
    ]
