# SPDX-License-Identifier: Apache-2.0
"""`sottovoce summary`: the telling pairs of a sweep, at one noise and one δ."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - the parser reads the annotations
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from sottovoce.cli.options import (
    AS_TEXT,
    Delta,
    MaxEpsilon,
    NoiseMultiplier,
    RelationName,
    Shown,
)
from sottovoce.cli.printing import as_given, in_short, result_page, rounded_up, within_budget, write_result
from sottovoce.cli.reporting import check_report, report_answer
from sottovoce.errors import positive

if TYPE_CHECKING:
    from rich.console import Console

    from sottovoce.sweeps import Manifest, Summary

__all__ = ["EXAMPLE", "USAGE", "summary"]

EXAMPLE = "sottovoce summary karate-pairs --noise-multiplier 4"
USAGE = "sottovoce summary FOLDER --noise-multiplier FLOAT [OPTIONS]"


def summary(
    folder: Annotated[Path, Parameter(help="The folder that `sottovoce sweep` wrote.")],
    /,
    *,
    noise_multiplier: NoiseMultiplier,
    delta: Delta = 1e-5,
    relation: RelationName = "add-remove",
    max_epsilon: MaxEpsilon = None,
    shown: Shown = AS_TEXT,
) -> int:
    """Say what the observers of a sweep can learn about their targets, as a certified (ε, δ)."""
    from sottovoce import sweeps

    if max_epsilon is not None:
        positive(max_epsilon=max_epsilon)
    check_report(shown.report)
    found = sweeps.summarise(folder, noise_multiplier=noise_multiplier, delta=delta, relation=relation)
    if shown.json:
        from sottovoce.documents import as_json, summary_document

        write_result(as_json(summary_document(found, folder)))
    else:
        with result_page() as console:
            _text(console, found, folder)
    if shown.report is not None:
        from sottovoce.documents import summary_document

        report_answer(
            shown.report,
            summary_document(found, folder),
            title=f"Summary of {folder.name}",
            max_epsilon=max_epsilon,
        )
    return 0 if max_epsilon is None else within_budget(found.epsilon_upper, max_epsilon)


def _text(console: Console, found: Summary, folder: Path) -> None:
    """What `account` shows of a table, from a summary."""
    from sottovoce.cli.layout import epsilon_words, facts, named, paragraph, who
    from sottovoce.cli.tables import exposed_table, meaning, pairs_table

    worst = found.worst
    headline = (
        f"{epsilon_words(worst, found.delta)}: of {len(found)} pairs, {who(worst.observers)} can learn most, "
        f"about {named(worst.target)}."
    )
    paragraph(console, headline, style="bold")
    paragraph(console, meaning(worst, found.relation))
    console.print()
    chosen = {"worst": worst, "median": found.median, "best": found.best}
    console.print(pairs_table(chosen, found.delta))
    console.print()
    paragraph(console, "Most exposed nodes, each with the observer that learns most about it:")
    console.print(exposed_table(found.most_exposed, found.delta))
    console.print()
    console.print(facts(_terms(found, folder)))


def _terms(found: Summary, folder: Path) -> list[tuple[str, str]]:
    """What the numbers rest on, and what to compare them with."""
    from sottovoce.accounting import ASSUMPTIONS
    from sottovoce.cli.layout import estimate, network_words
    from sottovoce.participation import Participation
    from sottovoce.scenarios import RELATION_SENTENCES, participation_sentence
    from sottovoce.views import seen_part

    manifest = found.manifest
    compared = [
        f"ε ≤ {rounded_up(account.epsilon().upper)} with {account.method}"
        for account in (found.local, found.central)
        if account is not None
    ]
    assumption = found.worst.assumption
    rows = [
        *network_words(manifest.nodes, manifest.edges, manifest.origin),
        ("gap γ", estimate(manifest.gap, manifest.gap_converged)),
        ("run", f"{manifest.rounds} rounds, noise multiplier {in_short(found.noise_multiplier)}"),
        ("same noise", ", ".join(compared) or "not compared: a sweep keeps no weights, account compares"),
        (
            "view",
            f"{manifest.view}{seen_part(manifest.exchanges)}, own noise {manifest.own_noise}; {len(found)} pairs",
        ),
        ("relation", f"{found.relation}: {RELATION_SENTENCES[found.relation]}"),
        ("contribution", manifest.contribution),
        (
            "participation",
            participation_sentence(Participation.parse(manifest.participation), manifest.rounds),
        ),
        ("δ", as_given(found.delta)),
        ("assumption", f"{assumption}: {ASSUMPTIONS[assumption]}"),
        ("hash", manifest.weights_hash),
        ("version", manifest.version),
        ("pairs", f"{folder} (every pair, all digits)"),
    ]
    if manifest.damping_hash is not None:
        rows.insert(4, ("damping", f"hash {manifest.damping_hash}"))
    rows.extend(_updated(manifest))
    if not manifest.protocol.plain or manifest.protocol.protocol != "gossip":
        rows.insert(4, ("protocol", f"{manifest.protocol.protocol}: {manifest.protocol.program}"))
        rows.insert(5, ("protocol hash", manifest.protocol_hash))
    return rows


def _updated(manifest: Manifest) -> list[tuple[str, str]]:
    """What is said of the maps of training."""
    if manifest.updates is None:
        return []
    from sottovoce.protocols import CLIPPING, RECORDS, slope_span

    lower, upper, losses = manifest.updates.lower, manifest.updates.upper, manifest.updates.losses
    if lower is None or upper is None:
        return [("updates", "any: nothing is known of the maps")]
    return [
        (
            "updates",
            f"slopes in {slope_span(lower, upper)}" + (f", {losses} losses" if losses else ""),
        ),
        ("clipping", CLIPPING[losses]),
        ("records", RECORDS),
    ]
