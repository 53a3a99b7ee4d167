# SPDX-License-Identifier: Apache-2.0
"""From the whitened response to Δ², the squared sensitivity of a view, as a certified interval."""

from sottovoce.sensitivities.bounds import absolute_bound, spectral_bound
from sottovoce.sensitivities.certify import certify
from sottovoce.sensitivities.measure import EFFORTS, Effort, as_participation, sensitivity
from sottovoce.sensitivities.results import Sensitivities, Sensitivity

__all__ = [
    "EFFORTS",
    "Effort",
    "Sensitivities",
    "Sensitivity",
    "absolute_bound",
    "as_participation",
    "certify",
    "sensitivity",
    "spectral_bound",
]
