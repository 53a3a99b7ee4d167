# SPDX-License-Identifier: Apache-2.0
"""What a view tells for ever: φ(ω), its supremum, and with it the limit of Δ²/T as T grows."""

from sottovoce.rates.limits import rate, response_spectrum
from sottovoce.rates.results import Rate, Rates
from sottovoce.rates.sign_streams import periodic_signs, sign_patterns
from sottovoce.rates.steady_filter import SteadyState, steady_state
from sottovoce.rates.table import RatePair, RateTable

__all__ = [
    "Rate",
    "RatePair",
    "RateTable",
    "Rates",
    "SteadyState",
    "periodic_signs",
    "rate",
    "response_spectrum",
    "sign_patterns",
    "steady_state",
]
