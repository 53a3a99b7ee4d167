# SPDX-License-Identifier: Apache-2.0
"""The proofs that a report carries: a certificate of the worst pair of each view, and what is said of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce.certificates import Mechanism, to_text
from sottovoce.errors import SottovoceError
from sottovoce.report.html import Section
from sottovoce.sensitivities import certify as prove
from sottovoce.verification import reached
from sottovoce.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sottovoce.accounting import AccountTable

__all__ = ["carried_proofs"]

HOW = (
    "This file carries a certificate of the worst pair of each view it shows. sottovoce verify FILE --graph GRAPH "
    "checks it by other code, and proves as many of the other pairs no worse as it can."
)


def carried_proofs(
    tables: Sequence[AccountTable], *, progress: Callable[[int, int], None] | None = None
) -> tuple[list[str | None], Section]:
    """The certificate of each table's worst pair as text, or None; and a section on how to check them, or why not."""
    texts: list[str | None] = []
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


def _certified(table: AccountTable) -> str:
    """The certificate of the worst pair of a table; refused where it does not reach the number that is shown."""
    if not table.protocol.plain or table.contribution == "energy":
        raise SottovoceError(
            "the certificates of reports are checked for plain gossip and contributions of bounded norm alone "
            "(sottovoce certify writes one of a pair of any protocol)"
        )
    worst = table.worst()
    view = View(name=table.view, observers=tuple(worst.observers), own_noise=table.own_noise)
    certificate = prove(
        table.protocol,
        view,
        worst.target,
        contribution=table.contribution,
        participation=table.participation,
        mechanism=Mechanism(
            noise_multiplier=float(table.noise_multiplier), delta=float(table.delta), relation=table.relation
        ),
    )
    shown = float(table.squared_upper.max())
    if not reached(certificate.squared_upper, shown, table.protocol.rounds):
        raise SottovoceError(
            f"what can be certified is Δ² ≤ {certificate.squared_upper:.6g}, and the Δ² ≤ {shown:.6g} that is shown "
            "rests on a search that no certificate holds"
        )
    return to_text(certificate)
