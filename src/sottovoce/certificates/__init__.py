# SPDX-License-Identifier: Apache-2.0
"""The certificate: a claim on Δ² with what a reviewer needs to check it, and its file form.

Nothing is proved here: `sottovoce.verification` does that.
"""

from sottovoce.certificates.files import from_text, load, save, to_text
from sottovoce.certificates.values import (
    PLAIN_GOSSIP,
    SCHEMA,
    Certificate,
    DenseProof,
    HorizonProof,
    Mechanism,
    StatedView,
    StoredWeights,
    gossip_program,
)

__all__ = [
    "PLAIN_GOSSIP",
    "SCHEMA",
    "Certificate",
    "DenseProof",
    "HorizonProof",
    "Mechanism",
    "StatedView",
    "StoredWeights",
    "from_text",
    "gossip_program",
    "load",
    "save",
    "to_text",
]
