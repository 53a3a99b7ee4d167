# SPDX-License-Identifier: Apache-2.0
"""What a report says of the proofs that it carries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce.report.html import HOW, Section, report_html
from sottovoce.report.sheet import sheet_html

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.accounting import CarriedProof
    from sottovoce.documents import PageDocument

__all__ = ["page_report", "proof_section"]


def proof_section(proofs: Sequence[CarriedProof]) -> Section:
    """How to check the certificates, and why there are none of some views."""
    said = [HOW] if any(proof.certificates for proof in proofs) else []
    reasons = [
        f"No certificate is carried for the view {proof.view}: {proof.missing}."
        for proof in proofs
        if not proof.certificates
    ]
    return Section(heading="Proof", text="\n\n".join([*said, *reasons]))


def page_report(page: PageDocument, *, title: str, proofs: Sequence[CarriedProof]) -> str:
    """The report of an account as HTML text: the page of all pairs, its first page to sign, and its certificates.

    `page` is what `sottovoce.documents.page_document` returns, `proofs` what `sottovoce.accounting.carried_proofs`
    finds for the same tables. A page without an occasion has no first page.
    """
    return report_html(
        title=title,
        account=page,
        first_page=sheet_html(page),
        sections=[proof_section(proofs)],
        proofs=[proof.texts for proof in proofs],
    )
