# SPDX-License-Identifier: Apache-2.0
"""What a view tells for ever: φ(ω), its supremum, and with it the limit of Δ²/T as T grows.

With f_ℓ the whitened response ℓ rounds after a contribution, φ(ω) = ‖Σ_ℓ f_ℓ e^{−iωℓ}‖² and lim Δ²/T = sup φ.

* plain gossip: `steady_filter` solves for the filter after infinitely many rounds, on the network or on a Krylov
  space of it (`reduction`); `taylor_pieces` writes its response as polynomials on pieces of [0, π], and `supremum`
  bounds these between the points at which they are evaluated;
* other programs: `modes` takes out what noise does not reach, `stationary` solves for the filter, and `programs`
  works on the lags f_ℓ themselves;
* `sign_streams` has lower ends for contributions that are numbers, `rounding` every allowance, `limits` the verb.

Source: docs/mathematics.md, section 8; docs/proofs/frequencies.md, docs/proofs/filter.md and docs/proofs/cut.md.
"""

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
