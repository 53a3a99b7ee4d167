# SPDX-License-Identifier: Apache-2.0
"""Training with hidden states: what a view can tell when hidden nodes react to what they received.

In averaging, contributions are fixed in advance. In training, the gradients of hidden nodes depend on models that carry
the target's signal on, and Δ² of averaging is no bound. This room bounds Δ² for all update maps in a ball of slopes.
"""

from sottovoce.feedback.attacks import Attack, best_attack
from sottovoce.feedback.balls import update_slopes
from sottovoce.feedback.pairs import Sharpening, check_size
from sottovoce.feedback.problem import Slopes, Training, training, training_of
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
    "Training",
    "TrainingPairs",
    "TrainingRates",
    "TrainingSensitivity",
    "best_attack",
    "check_size",
    "training",
    "training_of",
    "training_pairs",
    "training_rates",
    "training_sensitivities",
    "training_sensitivity",
    "update_slopes",
]
