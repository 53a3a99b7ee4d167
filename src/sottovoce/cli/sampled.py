# SPDX-License-Identifier: Apache-2.0
"""`account` and `calibrate` where records take part by coins: one number for all pairs looked at, and its bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce.cli.options import asked_of
from sottovoce.cli.printing import as_given, in_short, result_page, rounded_up, write_result
from sottovoce.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from sottovoce.accounting import AccountTable, SampledAccount
    from sottovoce.cli.options import Course, Sight
    from sottovoce.graphs import WeightedGraph

__all__ = ["asks_coins", "coin_rows", "sampled", "show_sampled"]

BOUNDS = {
    "told": "the coins count as told: δ(ε) is the mean over how many rounds a record takes part in",
    "amplified": "every message is seen and the coins are secret: T subsampled Gaussians, by dp-accounting",
}


def asks_coins(course: Course, **files: object) -> bool:
    """Whether records take part by coins; files of pairs, which there are none of then, are refused."""
    if not course.participation.startswith("poisson"):
        return False
    for name, path in files.items():
        if path is not None:
            raise InputError(
                f"--{name} must be left out with participation {course.participation}, which has one number for the "
                f"worst pair and none for the others; got {path} (take --json, or participation full)"
            )
    return True


def sampled(
    course: Course, sight: Sight, network: WeightedGraph, *, noise_multiplier: float, delta: float
) -> SampledAccount:
    """What the worst of the pairs gives away that the options ask about."""
    from sottovoce.accounting import sampled_account

    return asked_of(sampled_account, course, sight, network, noise_multiplier=noise_multiplier, delta=delta)


def show_sampled(
    found: Sequence[SampledAccount],
    network: WeightedGraph,
    *,
    json: bool,
    target_epsilon: float | None = None,
) -> None:
    """The number of each view, the one with the largest ε first, as JSON or as text."""
    if json:
        from sottovoce.documents import as_json, sampled_document

        first, *others = found
        document = sampled_document(first, network, beside=others, target_epsilon=target_epsilon)
        write_result(as_json(document))
        return
    with result_page() as console:
        _text(console, found, network, target_epsilon)


def coin_rows(found: SampledAccount, full: float) -> list[tuple[str, str]]:
    """ε by each bound there is, and what it is if records took part in every round."""
    return [
        *((name, f"ε ≤ {rounded_up(value)}: {BOUNDS[name]}") for name, value in found.bounds().items()),
        ("full", f"ε ≤ {rounded_up(full)}: as if records took part in every round"),
    ]


def _text(
    console: Console, found: Sequence[SampledAccount], network: WeightedGraph, target_epsilon: float | None
) -> None:
    """The headline, both bounds beside full participation, and what they rest on."""
    from sottovoce._version import __version__
    from sottovoce.cli.layout import (
        asked_words,
        facts,
        network_words,
        pairs_words,
        paragraph,
        restriction_words,
    )
    from sottovoce.documents import pairs_possible, table_of_coins

    first = found[0]
    table = table_of_coins(first)
    epsilon, shown = rounded_up(first.epsilon()), as_given(first.default_delta)
    headline = f"ε ≤ {epsilon} at δ = {shown} for {_worst(table)} in the {first.view} view."
    if target_epsilon is not None:
        headline = (
            f"A noise multiplier of {rounded_up(first.noise_multiplier, 6)} keeps {pairs_words(table)} within "
            f"ε = {as_given(target_epsilon)} at δ = {shown}."
        )
    paragraph(console, headline, style="bold")
    paragraph(
        console, f"A record takes part in each round by a coin of its own, with probability {first.rate:g}."
    )
    console.print()
    for each in found:
        rows = coin_rows(each, float(table_of_coins(each).epsilon_upper.max()))
        if len(found) > 1:
            paragraph(console, f"{each.view}:")
        console.print(facts(rows))
        console.print()
    asked = asked_words(table.scenario, table.assumption)
    rows = [
        *network_words(network.graph.n, network.graph.edges, table.protocol.schedule[0].origin),
        ("run", f"{first.rounds} rounds, noise multiplier {in_short(first.noise_multiplier)}"),
        ("bound", first.method()),
        ("view", f"{asked.view}; {len(table)} of {pairs_possible(table)} pairs looked at"),
        *restriction_words(table.scenario),
        *asked.relation,
        *asked.stream,
        ("δ", shown),
        *asked.protocol,
        *asked.assumption,
        *asked.hash,
        ("version", __version__),
    ]
    console.print(facts(rows))


def _worst(table: AccountTable) -> str:
    """The pair that a number is about, or the worst of those that were looked at."""
    from sottovoce.cli.layout import pairs_words

    words = pairs_words(table, "pair")
    if len(table) == 1:
        return words
    return f"the worst {words}" if words.startswith("pair") else f"the worst of {words}"
