# SPDX-License-Identifier: Apache-2.0
"""What a person sees of a certificate and of its verification."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.text import Text

from sottovoce.cli.layout import facts, members, paragraph, plain_table
from sottovoce.cli.printing import as_given, in_short, readable, rounded_down, rounded_up
from sottovoce.scenarios import RELATION_SENTENCES
from sottovoce.views import seen_part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from sottovoce.documents import (
        CertificateDocument,
        Claim,
        ReportVerificationDocument,
        VerificationDocument,
        ViewVerification,
    )
    from sottovoce.interval import Interval

__all__ = ["certificate_text", "report_verification_text", "verification_text"]

DIGITS = 6
VERDICTS = {"verified": "Verified", "consistent": "Consistent, not verified", "refused": "Not verified"}


def certificate_text(console: Console, document: CertificateDocument) -> None:
    """What was certified and which file holds the proof."""
    paragraph(console, f"{_claimed(document)} is certified.", style="bold")
    console.print()
    rows = _claim(document)
    if document.certificate is not None:
        rows.append(("written", f"{document.certificate} (sottovoce verify checks it)"))
    console.print(facts(rows))


def verification_text(console: Console, document: VerificationDocument, proved: Interval) -> None:
    """The verdict, each check, what was taken on trust, and the claim."""
    verdict = VERDICTS[document.verdict]
    paragraph(console, f"{verdict}: {_claimed(document)} is claimed, {_proved(proved)}.", style="bold")
    if document.epsilon is not None:
        mechanism = document.mechanism
        assert mechanism is not None
        paragraph(
            console,
            f"ε ≤ {rounded_up(document.epsilon)} at δ = {as_given(mechanism.delta)} follows, with noise multiplier "
            f"{in_short(mechanism.noise_multiplier)}, {mechanism.relation}.",
        )
    console.print()
    _checks(console, document)
    console.print()
    console.print(facts([("arithmetic", _arithmetic(document)), *_claim(document)]))


def _arithmetic(document: VerificationDocument) -> str:
    """What the ends were proved in."""
    if document.arithmetic == "balls":
        return "balls, from the definition"
    why = "" if document.why_float is None else f": {document.why_float}"
    return f"floats with margins{why}"


def report_verification_text(console: Console, document: ReportVerificationDocument) -> None:
    """The verdict on each view of a report, with its checks and what was taken on trust."""
    for place, view in enumerate(document.views):
        if place:
            console.print()
        shown = "no finite ε" if view.shown.epsilon is None else f"ε ≤ {rounded_up(view.shown.epsilon)}"
        proved = (
            "nothing is proved" if view.epsilon is None else f"ε ≤ {rounded_up(view.epsilon)} is proved of it"
        )
        verdict, pairs = VERDICTS[view.verdict], view.pairs
        paragraph(
            console,
            f"{verdict}: {readable(view.view)}: the page shows {shown} for its worst pair, {proved}; "
            f"{pairs.proved_no_worse} of {pairs.held} pairs are proved no worse.",
            style="bold",
        )
        console.print()
        _checks(console, view)
        if view.certificate is not None:
            console.print()
            console.print(facts(_claim(view.certificate)))
    if not document.views:
        paragraph(console, "Nothing in this report can be checked.", style="bold")
    _on_trust(console, document.trusted)


def _on_trust(console: Console, sentences: Sequence[str]) -> None:
    """What a report shows beside its pairs and nothing proves."""
    if sentences:
        console.print()
        paragraph(console, "Shown besides, and on trust:")
        console.print(facts(("-", readable(sentence)) for sentence in sentences))


def _checks(console: Console, document: VerificationDocument | ViewVerification) -> None:
    """Each check, and what was taken on trust."""
    table = plain_table()
    table.add_column("check", overflow="fold")
    table.add_column("", no_wrap=True)
    table.add_column("found", overflow="fold")
    for check in document.checks:
        table.add_row(Text(check.name), "holds" if check.holds else "fails", Text(readable(check.detail)))
    console.print(table)
    if document.trusted:
        console.print()
        paragraph(console, "Taken on trust:")
        console.print(facts(("-", readable(sentence)) for sentence in document.trusted))


def _claimed(document: Claim) -> str:
    return _bounds(document.sensitivity_squared.interval)


def _proved(proved: Interval) -> str:
    """What a verification could prove, in words."""
    return "nothing is proved" if math.isinf(proved.upper) else f"{_bounds(proved)} is proved"


def _bounds(squared: Interval) -> str:
    """Δ² between its ends, rounded outward; a lower end of 0 says nothing and is left out."""
    lower, upper = rounded_down(squared.lower, DIGITS), rounded_up(squared.upper, DIGITS)
    if squared.lower == 0:
        return f"Δ² ≤ {upper}"
    return f"Δ² = {upper}" if lower == upper else f"{lower} ≤ Δ² ≤ {upper}"


def _claim(document: Claim) -> list[tuple[str, str]]:
    """What a certificate is about."""
    own = "" if document.view in {"everyone", "custom"} else f", own noise {document.own_noise}"
    graph, mechanism = document.graph, document.mechanism
    built = f"said to be {graph.rule}; the hash decides" if graph.origin is None else graph.origin
    rows = [
        ("observer", members(document.observer)),
        ("target", readable(document.target)),
        ("view", readable(f"{document.view}{seen_part(document.exchanges)}{own}")),
        ("run", readable(f"{document.rounds} rounds, participation {document.participation}")),
        ("program", readable(document.program)),
        ("protocol", readable(f"hash {document.protocol_hash}")),
        ("network", readable(f"hash {graph.hash}")),
        ("weights", readable(built)),
        ("contribution", readable(document.contribution)),
        ("bound", readable(document.sensitivity_squared.method)),
        ("kind", readable(document.proof)),
        ("hash", readable(document.hash)),
    ]
    if document.updates is not None:
        slopes = "maps of any kind" if document.updates == "any" else f"slopes in {document.updates}"
        rows.insert(4, ("updates", readable(f"{slopes} (training)")))
    if mechanism is not None:
        relation = mechanism.relation
        noise, delta = in_short(mechanism.noise_multiplier), as_given(mechanism.delta)
        rows.insert(8, ("relation", f"{relation}: {RELATION_SENTENCES[relation]}"))
        rows.insert(8, ("mechanism", f"noise multiplier {noise}, δ = {delta}"))
    return rows
