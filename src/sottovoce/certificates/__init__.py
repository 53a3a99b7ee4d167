# SPDX-License-Identifier: Apache-2.0
"""The certificate: a claim on Δ² with what a reviewer needs to check it, and its file form.

Nothing is proved here: `sottovoce.verification` does that.
"""

from sottovoce.certificates.files import (
    MOST_BYTES,
    from_document,
    from_text,
    load,
    save,
    to_document,
    to_text,
)
from sottovoce.certificates.forms import MechanismForm
from sottovoce.certificates.numbers import Floats
from sottovoce.certificates.shifts import LoopAttack, Method, MovesProof, ShiftProof, ShiftStep
from sottovoce.certificates.values import (
    SCHEMA,
    Certificate,
    DenseProof,
    HorizonProof,
    Mechanism,
    Proof,
    StatedView,
    StatedWeights,
    StoredWeights,
)
from sottovoce.forms import MOST_DIGITS

__all__ = [
    "MOST_BYTES",
    "MOST_DIGITS",
    "SCHEMA",
    "Certificate",
    "DenseProof",
    "Floats",
    "HorizonProof",
    "LoopAttack",
    "Mechanism",
    "MechanismForm",
    "Method",
    "MovesProof",
    "Proof",
    "ShiftProof",
    "ShiftStep",
    "StatedView",
    "StatedWeights",
    "StoredWeights",
    "from_document",
    "from_text",
    "load",
    "save",
    "to_document",
    "to_text",
]
