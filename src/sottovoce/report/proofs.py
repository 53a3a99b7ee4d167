# SPDX-License-Identifier: Apache-2.0
"""The proofs that a report carries: a certificate of the worst pair of each view, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.certificates import Mechanism, to_text
from sottovoce.errors import SottovoceError
from sottovoce.report.html import Section
from sottovoce.sensitivities import certify as prove
from sottovoce.verification import MOST_FURTHER, question, reached, simple_bound, training_question

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sottovoce.accounting import AccountTable
    from sottovoce.certificates import Certificate

__all__ = ["carried_proofs"]

# Pairs that are looked at one by one for a proof of their own.
MOST_LOOKED_AT = 2000

HOW = (
    "This file carries a certificate of the worst pair of each view it shows. sottovoce verify FILE --graph GRAPH "
    "checks it by other code, and proves as many of the other pairs no worse as it can."
)


def carried_proofs(
    tables: Sequence[AccountTable], *, progress: Callable[[int, int], None] | None = None
) -> tuple[list[str | list[str] | None], Section]:
    """The certificate of each table's worst pair as text, or None; and a section on how to check them, or why not.

    Of training it is a list: the worst pair comes first, then those whose smaller bound needs a proof of its own.
    """
    texts: list[str | list[str] | None] = []
    reasons = []
    for count, table in enumerate(tables, start=1):
        try:
            texts.append(_certified(table))
        except SottovoceError as error:
            texts.append(None)
            reasons.append(f"No certificate is carried for the view {table.view}: {error}.")
        if progress is not None:
            progress(count, len(tables))
    said = [HOW] if any(text is not None for text in texts) else []
    return texts, Section(heading="Proof", text="\n\n".join([*said, *reasons]))


def _certified(table: AccountTable) -> str | list[str]:
    """The certificate of the worst pair of a table; refused where it does not reach the number that is shown."""
    if table.contribution == "energy":
        raise SottovoceError(
            "the certificates of reports are checked for contributions of bounded norm alone (sottovoce certify writes "
            "one of a pair whose energy is bounded)"
        )
    place = int(np.argmax(table.squared_upper))
    certificate = _of_pair(table, place)
    shown = float(table.squared_upper.max())
    if not reached(certificate.squared_upper, shown, table.protocol.rounds):
        raise SottovoceError(
            f"what can be certified is Δ² ≤ {certificate.squared_upper:.6g}, and the Δ² ≤ {shown:.6g} that is shown "
            "rests on a search that no certificate holds"
        )
    if certificate.updates is None:
        return to_text(certificate)
    return [to_text(certificate), *_further(table, certificate, place, shown)]


def _of_pair(table: AccountTable, place: int) -> Certificate:
    """The certificate of one pair of a table."""
    return prove(
        table.question(place),
        mechanism=Mechanism(
            noise_multiplier=float(table.noise_multiplier), delta=float(table.delta), relation=table.relation
        ),
    )


def _further(table: AccountTable, first: Certificate, worst: int, shown: float) -> list[str]:
    """Certificates of the pairs of training that no simple bound proves to stay below the worst, the largest first."""
    texts: list[str] = []
    if len(table) > MOST_LOOKED_AT:
        return texts
    weights = table.protocol.weights
    for place in np.argsort(-table.squared_upper, kind="stable").tolist():
        if place == worst or len(texts) == MOST_FURTHER:
            continue
        stated = replace(first.view, observers=table.view_of(int(table.observer_of[place])).observers)
        label = table.protocol.labels[int(table.target_indices[place])]
        claim: Any = replace(first, view=stated, target=label)
        asked = training_question(claim, question(claim, weights), table.participation)
        if simple_bound(asked) > shown:
            # The weights stand in the first certificate.
            texts.append(to_text(replace(_of_pair(table, place), weights=None)))
    return texts
