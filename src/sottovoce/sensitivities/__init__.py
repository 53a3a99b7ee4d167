# SPDX-License-Identifier: Apache-2.0
"""From the whitened response to Δ², the squared sensitivity of a view, as a certified interval.

In the order of an account:

1. `policy` holds the verb `sensitivity`: gossip whose noise has another level, or is correlated over the rounds, goes
   to `encoded`, other programs to `programs`, training to `training`, the rest to `assessment`, which sends each
   target to a storey. `questions` says what is asked of a form that a program has; `capacity` refuses what does not
   fit in memory.
2. `one_form`: M is written out, T × T, for one target: bounds above, witnesses below, all rounds or patterns of
   them.
3. `many_targets`: tables of the filter bound all targets of a view together, where solving for each takes too long.
4. `long_horizons`: no T × T matrix; a recursion proves the bound.
5. `rounding` holds what proofs allow for floating point; `ends` and `results` hold what is found, and `widened` of
   `rounding` makes ends that hold for the model as stored into ends of the true Δ².
6. `sharing` looks at one observer of each orbit of the network's symmetries, and carries what it sees to the others.
7. `certify`, and `certify_training` for training, turn what was found into a file that the verifier accepts.

`assessment` calls all three storeys; `long_horizons` asks `many_targets` for bounds and `one_form` for the first
rounds; `many_targets` stands on nothing but the filter. No storey imports what stands above it.
"""

from sottovoce.sensitivities.capacity import check_rounds
from sottovoce.sensitivities.certify import certify
from sottovoce.sensitivities.certify_training import QUICK
from sottovoce.sensitivities.one_form.bounds import absolute_bound, spectral_bound
from sottovoce.sensitivities.one_form.dual import solve_dual
from sottovoce.sensitivities.one_form.witnesses import ENUMERABLE, alternating_signs, constant_signs
from sottovoce.sensitivities.policy import sensitivity
from sottovoce.sensitivities.results import Sensitivities, Sensitivity
from sottovoce.sensitivities.rounding import definiteness_margin, widened
from sottovoce.sensitivities.sharing import SharedQuestions, carried, carried_views, portion_of
from sottovoce.sensitivities.training import largest_training_bound, sharpened_views, solves_each

__all__ = [
    "ENUMERABLE",
    "QUICK",
    "Sensitivities",
    "Sensitivity",
    "SharedQuestions",
    "absolute_bound",
    "alternating_signs",
    "carried",
    "carried_views",
    "certify",
    "check_rounds",
    "constant_signs",
    "definiteness_margin",
    "largest_training_bound",
    "portion_of",
    "sensitivity",
    "sharpened_views",
    "solve_dual",
    "solves_each",
    "spectral_bound",
    "widened",
]
