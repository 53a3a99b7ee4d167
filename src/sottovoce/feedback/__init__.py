# SPDX-License-Identifier: Apache-2.0
"""Training with hidden states: what a view can tell when hidden nodes react to what they received.

In averaging, contributions are fixed in advance. In training, the gradients of hidden nodes depend on models that carry
the target's signal on, and Δ² of averaging is no bound. This room bounds Δ² for all update maps in a ball of slopes.

In the order of an answer:

1. `problem` puts a view of training together: hidden nodes, the rows of them that are seen, slopes, noise levels.
2. `closed` has the bounds that need no solver: the cap by the target's own noise, twins, one round of memory.
3. `subspaces` chooses where hidden differences are looked for, `phases` writes the matrix inequality as data, `barrier`
   solves it, with `systems` for its linear systems, `chains` sets it up for all rounds alike, for each round, or for a
   period, and has each solution proved.
4. `candidates` tries what suits the question; the smallest bound that was proved is the upper end.
5. `attacks` searches the ball for the linear loop that tells most: the lower end.
6. `pairs` does this for many pairs, the worst first; `verbs` are the functions that others call.
7. `general` does the same for trainings that remember more than a model, as `sottovoce.verification.recursions`
   writes them down; `programs` does it for all pairs that are not alike. `recursions` writes down trainings that
   no program and no certificate knows, for whoever asks what they would cost.

Nothing here is believed: a solution becomes a bound when `sottovoce.verification.shift` has proved it, rounding
counted. The theorem and its proof are in docs/training.md.
"""

from sottovoce.feedback.attacks import Attack, best_attack
from sottovoce.feedback.balls import composed_growth, composed_slopes, gradient_steps, update_slopes
from sottovoce.feedback.candidates import stages_of
from sottovoce.feedback.general import recursion_cost
from sottovoce.feedback.pairs import Sharpening, check_size
from sottovoce.feedback.problem import Slopes, TrainingView, protocol_levels, training, training_of
from sottovoce.feedback.programs import program_costs
from sottovoce.feedback.recursions import (
    correlated_noise,
    drop_out,
    falling_steps,
    local_steps,
    plain_steps,
)
from sottovoce.feedback.results import TrainingPairs, TrainingRates, TrainingSensitivity
from sottovoce.feedback.verbs import (
    training_pairs,
    training_rates,
    training_sensitivities,
    training_sensitivity,
)

__all__ = [
    "Attack",
    "Sharpening",
    "Slopes",
    "TrainingPairs",
    "TrainingRates",
    "TrainingSensitivity",
    "TrainingView",
    "best_attack",
    "check_size",
    "composed_growth",
    "composed_slopes",
    "correlated_noise",
    "drop_out",
    "falling_steps",
    "gradient_steps",
    "local_steps",
    "plain_steps",
    "program_costs",
    "protocol_levels",
    "recursion_cost",
    "stages_of",
    "training",
    "training_of",
    "training_pairs",
    "training_rates",
    "training_sensitivities",
    "training_sensitivity",
    "update_slopes",
]
