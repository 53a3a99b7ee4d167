# SPDX-License-Identifier: Apache-2.0
"""What the size of steps costs: the larger they are, the more hidden nodes react, and the more of it is seen."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.learning.certified import worst_share
from sottovoce.learning.reactions import reaction_of
from sottovoce.learning.recipes import Recipe
from sottovoce.learning.schedules import Schedule
from sottovoce.views import View

if TYPE_CHECKING:
    from sottovoce.learning.results import Run
    from sottovoce.learning.tasks import Task
    from sottovoce.protocols import Protocol

__all__ = ["StepCost", "step_cost"]

# The part of the gain that is worth keeping, and where nothing is to be gained at all.
KEPT, NOTHING = 0.9, 1e-3
# Steps of this part of 1/L are small for any purpose.
SMALL = 1e-3
HALVINGS = 8


@dataclass(frozen=True, kw_only=True)
class StepCost:
    """Δ²/T of the worst observer: at the steps of a run (`share`), and as steps vanish (`least`). Local DP has 1.

    `largest_step` is the largest step that keeps 90 % of the gain 1 − `least`, None where those of the run do.
    """

    share: float
    least: float
    largest_step: float | None


def step_cost(task: Task, protocol: Protocol, run: Run) -> StepCost | None:
    """What the constant step of a run costs in privacy at the same noise; None where steps make no difference.

    They make none for everyone's view, where secret coins hide more than a view does, for losses that react not at all
    or in ways that are not known, for programs other than gossip, and for an observer from whom nothing is hidden even
    by small steps. Steps that vary are not compared.

    Guarantee: `share` and `least` are proved bounds for the observer of the run's account, over all its targets;
    `largest_step` is proved to keep 90 %, but a step a little larger may do so too.
    """
    schedule = Schedule.parse(run.settings["step"])
    smoothness = run.settings["smoothness"]
    local = run.account.view == "everyone" or run.account.method == "amplified"
    if schedule.kind != "constant" or not smoothness or local or not protocol.plain:
        return None
    view = View(name=run.account.view, observers=run.account.observers, own_noise=run.settings["own_noise"])
    shorter = replace(protocol, rounds=run.rounds)
    recipe = Recipe.of_run(run.settings)

    def share(size: float) -> float:
        return worst_share(shorter, view, reaction_of(task, np.full(run.rounds, size), recipe))

    least, now = share(min(SMALL / smoothness, schedule.size)), share(schedule.size)
    wanted = 1 - KEPT * (1 - least)
    if 1 - least < NOTHING:
        return None
    if now <= wanted:
        return StepCost(share=now, least=least, largest_step=None)
    low, high = math.log(min(SMALL / smoothness, schedule.size)), math.log(schedule.size)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if share(math.exp(middle)) <= wanted else (low, middle)
    digits = 2 - math.floor(low / math.log(10))
    return StepCost(share=now, least=least, largest_step=math.floor(math.exp(low) * 10**digits) / 10**digits)
