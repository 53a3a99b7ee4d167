# SPDX-License-Identifier: Apache-2.0
"""From a protocol and a view to the whitened response F: eliminate what is known, reduce, filter."""

from sottovoce.filtering.closed_loop import ClosedLoop
from sottovoce.filtering.decorrelation import SeenRound, echelon, seen_view
from sottovoce.filtering.doubled import UNIT
from sottovoce.filtering.elimination import HiddenSystem, hidden_system
from sottovoce.filtering.innovations import FilterStep
from sottovoce.filtering.kalman import FilterSizes, Gains, gain_distortion, whitener_error
from sottovoce.filtering.krylov_space import KrylovSpace, krylov_space
from sottovoce.filtering.program_forms import ProgramForm, ProgramResponse, program_response
from sottovoce.filtering.response import (
    ENGINES,
    EXPLICIT_ROUNDS,
    Engine,
    FilteredResponse,
    QuadraticForms,
    whitened_response,
)
from sottovoce.filtering.riccati import doublings
from sottovoce.filtering.rounding import (
    GAMMA,
    ROOM,
    TINY,
    UNIT_ROUNDOFF,
    Step,
    eigenvalue_ends,
    power_sum,
    product_error,
    spectral_norm,
    spread,
    terms,
    transform_error,
    transform_units,
)

__all__ = [
    "ENGINES",
    "EXPLICIT_ROUNDS",
    "GAMMA",
    "ROOM",
    "TINY",
    "UNIT",
    "UNIT_ROUNDOFF",
    "ClosedLoop",
    "Engine",
    "FilterSizes",
    "FilterStep",
    "FilteredResponse",
    "Gains",
    "HiddenSystem",
    "KrylovSpace",
    "ProgramForm",
    "ProgramResponse",
    "QuadraticForms",
    "SeenRound",
    "Step",
    "doublings",
    "echelon",
    "eigenvalue_ends",
    "gain_distortion",
    "hidden_system",
    "krylov_space",
    "power_sum",
    "product_error",
    "program_response",
    "seen_view",
    "spectral_norm",
    "spread",
    "terms",
    "transform_error",
    "transform_units",
    "whitened_response",
    "whitener_error",
]
