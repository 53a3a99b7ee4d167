# SPDX-License-Identifier: Apache-2.0
"""The certificate: a claim on Δ² with what a reviewer needs to check it, and its file form.

Nothing is proved here: `sottovoce.verification` does that.
"""

from sottovoce.certificates.files import from_text, load, save, to_text
from sottovoce.certificates.shifts import LoopAttack, ShiftProof, ShiftStep
from sottovoce.certificates.values import (
    SCHEMA,
    Certificate,
    DenseProof,
    HorizonProof,
    Mechanism,
    StatedView,
    StatedWeights,
    StoredWeights,
)

__all__ = [
    "SCHEMA",
    "Certificate",
    "DenseProof",
    "HorizonProof",
    "LoopAttack",
    "Mechanism",
    "ShiftProof",
    "ShiftStep",
    "StatedView",
    "StatedWeights",
    "StoredWeights",
    "from_text",
    "load",
    "save",
    "to_text",
]
