# SPDX-License-Identifier: Apache-2.0
"""Decentralised learning: private gradient descent followed by gossip, from the protocol that the accountant reads.

`train` makes a whole run with its account; `init` and `step` are one round at a time. Data, losses and shards are
values of their own, and `baselines` holds what a run is compared with. `sottovoce.learning.sites` trains PyTorch
modules, and is the only part that loads that library.
"""

from sottovoce.learning.advice import StepCost, step_cost
from sottovoce.learning.baselines import Baseline, central_descent, noiseless_descent
from sottovoce.learning.clipping import Sums, clipped_rows
from sottovoce.learning.data import DATA_NAMES, DATA_SUFFIXES, Data, held_out, load_data
from sottovoce.learning.descent import (
    Descent,
    Info,
    State,
    clipped_gradients,
    gradient_sensitivity,
    init,
    step,
    taking_part,
)
from sottovoce.learning.guarantees import Exposure, quadratic_damping
from sottovoce.learning.losses import (
    LOSS_NAMES,
    Array,
    GradientLoss,
    Labels,
    LinearLoss,
    Loss,
    QuadraticLoss,
    huber,
    logistic,
    quadratic,
    ridge,
    softmax,
)
from sottovoce.learning.noise import BoundNoise, NodeNoise, NoiseSource, SilentNoise, fresh_keys
from sottovoce.learning.plans import Plan, plan
from sottovoce.learning.programs import closed_loop
from sottovoce.learning.reactions import Reaction, reaction_of
from sottovoce.learning.recipes import Recipe, TrainingWords
from sottovoce.learning.results import History, Run, check_parts
from sottovoce.learning.schedules import Schedule
from sottovoce.learning.shards import Shards, shards_of, split
from sottovoce.learning.tasks import SYNTHETIC_KEYS, Optimum, Task, parse_synthetic, synthetic_task, task_from
from sottovoce.learning.training import Moment, train

__all__ = [
    "DATA_NAMES",
    "DATA_SUFFIXES",
    "LOSS_NAMES",
    "SYNTHETIC_KEYS",
    "Array",
    "Baseline",
    "BoundNoise",
    "Data",
    "Descent",
    "Exposure",
    "GradientLoss",
    "History",
    "Info",
    "Labels",
    "LinearLoss",
    "Loss",
    "Moment",
    "NodeNoise",
    "NoiseSource",
    "Optimum",
    "Plan",
    "QuadraticLoss",
    "Reaction",
    "Recipe",
    "Run",
    "Schedule",
    "Shards",
    "SilentNoise",
    "State",
    "StepCost",
    "Sums",
    "Task",
    "TrainingWords",
    "central_descent",
    "check_parts",
    "clipped_gradients",
    "clipped_rows",
    "closed_loop",
    "fresh_keys",
    "gradient_sensitivity",
    "held_out",
    "huber",
    "init",
    "load_data",
    "logistic",
    "noiseless_descent",
    "parse_synthetic",
    "plan",
    "quadratic",
    "quadratic_damping",
    "reaction_of",
    "ridge",
    "shards_of",
    "softmax",
    "split",
    "step",
    "step_cost",
    "synthetic_task",
    "taking_part",
    "task_from",
    "train",
]
