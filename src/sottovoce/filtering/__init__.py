# SPDX-License-Identifier: Apache-2.0
"""From a protocol and a view to the whitened response F: eliminate what is known, reduce, filter."""

from sottovoce.filtering.closed_loop import ClosedLoop
from sottovoce.filtering.elimination import HiddenSystem, hidden_system
from sottovoce.filtering.response import (
    ENGINES,
    EXPLICIT_ROUNDS,
    Engine,
    FilteredResponse,
    QuadraticForms,
    whitened_response,
)

__all__ = [
    "ENGINES",
    "EXPLICIT_ROUNDS",
    "ClosedLoop",
    "Engine",
    "FilteredResponse",
    "HiddenSystem",
    "QuadraticForms",
    "hidden_system",
    "whitened_response",
]
