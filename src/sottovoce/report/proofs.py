# SPDX-License-Identifier: Apache-2.0
"""What a report says of the proofs that it carries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sottovoce.report.html import Section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.accounting import CarriedProof

__all__ = ["proof_section"]

HOW = (
    "This file carries a certificate of the worst pair of each view it shows. sottovoce verify FILE --graph GRAPH "
    "checks it by other code, and proves as many of the other pairs no worse as it can."
)


def proof_section(proofs: Sequence[CarriedProof]) -> Section:
    """How to check the certificates, and why there are none of some views."""
    said = [HOW] if any(proof.certificates for proof in proofs) else []
    reasons = [
        f"No certificate is carried for the view {proof.view}: {proof.missing}."
        for proof in proofs
        if not proof.certificates
    ]
    return Section(heading="Proof", text="\n\n".join([*said, *reasons]))
