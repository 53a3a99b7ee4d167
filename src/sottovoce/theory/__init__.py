# SPDX-License-Identifier: Apache-2.0
"""The closed forms of the paper, one function a statement, each with its number and whether it holds.

"The paper" is Koskela & Kulkarni, *Differential Privacy Analysis of Decentralized Gossip Averaging under Varying
Threat Models*; numbers are those of its compiled version. Everything here is written from the statements alone, dense
and small, and knows nothing of how `sottovoce.sensitivity` works: where the two agree, that is evidence.

A closed form that does not hold is here too, to be plotted beside what does; `STATEMENTS` says which is which. No
guarantee rests on this room.
"""

from sottovoce.theory.comparisons import (
    central_growth,
    local_growth,
    muffliato_growth,
    renyi_epsilon,
)
from sottovoce.theory.forms import (
    absolute_bound,
    constant_value,
    largest_over_signs,
    quadratic_form,
    spectral_bound,
    system_matrix,
)
from sottovoce.theory.growth import (
    constant_limit,
    multiple_node_bound,
    multiple_node_limit,
    removed_noise_limit,
    single_node_bound,
    single_node_limit,
    transient_constant,
    transient_form,
)
from sottovoce.theory.mechanisms import (
    Decomposition,
    composed_mu,
    decompose,
    projected_sensitivity,
)
from sottovoce.theory.statements import STATEMENTS, Statement, Status
from sottovoce.theory.utility import (
    ExcessRiskTerms,
    LossConstants,
    analytic_noise,
    classical_noise,
    consensus_parameter,
    contraction,
    excess_risk_terms,
    printed_consensus_parameter,
    template_terms,
)

__all__ = [
    "STATEMENTS",
    "Decomposition",
    "ExcessRiskTerms",
    "LossConstants",
    "Statement",
    "Status",
    "absolute_bound",
    "analytic_noise",
    "central_growth",
    "classical_noise",
    "composed_mu",
    "consensus_parameter",
    "constant_limit",
    "constant_value",
    "contraction",
    "decompose",
    "excess_risk_terms",
    "largest_over_signs",
    "local_growth",
    "muffliato_growth",
    "multiple_node_bound",
    "multiple_node_limit",
    "printed_consensus_parameter",
    "projected_sensitivity",
    "quadratic_form",
    "removed_noise_limit",
    "renyi_epsilon",
    "single_node_bound",
    "single_node_limit",
    "spectral_bound",
    "system_matrix",
    "template_terms",
    "transient_constant",
    "transient_form",
]
