# SPDX-License-Identifier: Apache-2.0
"""What a person sees of a frontier."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from sottovoce.cli.layout import facts, paragraph, plain_table
from sottovoce.cli.printing import as_given

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from sottovoce.frontiers import Arm, Frontier, Point

__all__ = ["frontier_text"]


def frontier_text(console: Console, found: Frontier, written: Sequence[str]) -> None:
    """Accuracies by ε, how steps were chosen, and what the ε rest on."""
    asked = found.settings
    paragraph(
        console,
        f"Accuracy in % on {asked['data']} at δ = {as_given(asked['delta'])}: mean ± standard deviation over "
        f"{asked['repeats']} runs of {asked['rounds']} rounds.",
        style="bold",
    )
    paragraph(console, found.tuning)
    for network in found.networks:
        console.print()
        console.print(_table(found, network))
    console.print()
    console.print(facts(_terms(found, written)))


def _table(found: Frontier, network: str) -> object:
    """One network: a line for each view and protocol, one for a trusted server, one without noise."""
    asked = found.settings
    several = len(asked["protocols"]) > 1
    table = plain_table()
    table.add_column(Text(network), no_wrap=True)
    for epsilon in asked["epsilons"]:
        table.add_column(f"ε = {as_given(epsilon)}", justify="right", no_wrap=True)
    for arm in _of(found.arms, network):
        name = f"{arm.view}, {arm.protocol}" if several else str(arm.view)
        table.add_row(Text(name), *map(_entry, arm.points))
    for arm in _of(found.central, network):
        table.add_row("trusted server", *map(_entry, arm.points))
    for arm in _of(found.no_noise, network):
        name = f"no noise, {arm.protocol}" if several else "no noise"
        table.add_row(Text(name), *([_entry(arm.points[0])] * len(asked["epsilons"])))
    return table


def _of(arms: Sequence[Arm], network: str) -> list[Arm]:
    return [arm for arm in arms if arm.network == network]


def _entry(point: Point) -> str:
    return f"{100 * point.accuracy:.1f} ± {100 * point.deviation:.1f}"


def _terms(found: Frontier, written: Sequence[str]) -> list[tuple[str, str]]:
    """What the numbers rest on, and where else they are."""
    asked = found.settings
    rests: dict[str, list[str]] = {}
    for arm in found.arms:
        for point in arm.points:
            names = rests.setdefault(str(point.assumption), [])
            if str(arm.view) not in names:
                names.append(str(arm.view))
    named = "; ".join(f"{name} ({', '.join(views)})" for name, views in rests.items())
    rows = [
        ("ε", f"certified in the view for one record, {asked['relation']}; assumption {named}"),
        ("noise", "by seeds, for simulations: whoever knows them can take the noise away"),
        ("not private", "accuracies, which are measured without noise on records that were held out"),
    ]
    if found.kept:
        rows.append(("parts", f"{found.computed} computed, {found.kept} from before"))
    return rows + [("written", path) for path in written]
