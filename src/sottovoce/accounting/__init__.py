# SPDX-License-Identifier: Apache-2.0
"""From sensitivities to guarantees: what each observer learns about each target, and which noise is enough.

With noise of standard deviation σ and contributions clipped to norm `clip`, noise_multiplier = σ/clip and

    μ = factor·Δ/noise_multiplier,   factor 1 (add-remove, zero-out) or 2 (replace-one),

is the Gaussian-DP parameter from which every other number follows.
"""

from sottovoce.accounting.comparisons import central_account, compared, local_account
from sottovoce.accounting.curves import Curve, table_curves, view_curve
from sottovoce.accounting.mixtures import binomial_above
from sottovoce.accounting.proofs import CarriedProof, carried_proofs
from sottovoce.accounting.room import raised_epsilon, reached, roomy
from sottovoce.accounting.sampling import SampledAccount, calibrate_sampled, sampled_account, sampled_from
from sottovoce.accounting.side_by_side import Contender, compare
from sottovoce.accounting.table import AccountTable
from sottovoce.accounting.values import (
    ASSUMPTIONS,
    RELATIONS,
    Account,
    Assumption,
    Facts,
    Relation,
    best_guess,
    mu_ends,
    noise_enough,
)
from sottovoce.accounting.verbs import (
    Interrupted,
    account,
    account_all,
    calibrate,
    table_of,
)

__all__ = [
    "ASSUMPTIONS",
    "RELATIONS",
    "Account",
    "AccountTable",
    "Assumption",
    "CarriedProof",
    "Contender",
    "Curve",
    "Facts",
    "Interrupted",
    "Relation",
    "SampledAccount",
    "account",
    "account_all",
    "best_guess",
    "binomial_above",
    "calibrate",
    "calibrate_sampled",
    "carried_proofs",
    "central_account",
    "compare",
    "compared",
    "local_account",
    "mu_ends",
    "noise_enough",
    "raised_epsilon",
    "reached",
    "roomy",
    "sampled_account",
    "sampled_from",
    "table_curves",
    "table_of",
    "view_curve",
]
