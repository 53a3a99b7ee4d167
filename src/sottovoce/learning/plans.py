# SPDX-License-Identifier: Apache-2.0
"""`plan`: all that is decided before the data is used, with the accounts that follow from it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from sottovoce.accounting import Account
from sottovoce.errors import InputError
from sottovoce.interval import Interval
from sottovoce.learning.descent import Descent, check_counts, gradient_sensitivity
from sottovoce.learning.fingerprints import loss_fingerprint, made_with
from sottovoce.learning.guarantees import Exposure, check_question
from sottovoce.learning.reactions import reaction_of
from sottovoce.learning.recipes import planned
from sottovoce.learning.results import shown_epsilons
from sottovoce.learning.schedules import Schedule, as_schedule
from sottovoce.participation import Participation
from sottovoce.rounding import slightly_above
from sottovoce.sensitivities import check_rounds

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from sottovoce.accounting import AccountTable
    from sottovoce.learning.losses import Loss
    from sottovoce.learning.noise import NoiseSource
    from sottovoce.learning.recipes import Recipe, TrainingWords
    from sottovoce.learning.tasks import Task
    from sottovoce.protocols import Protocol
    from sottovoce.scenarios import Scenario

__all__ = ["Plan", "plan"]

# At how many horizons local DP is computed where that takes its time.
_HORIZONS = 5
# Bytes for the steps and dampings of a round, measured as 24 and rounded up; accounts ask for theirs by themselves.
_A_ROUND = 32


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """All that is decided before the data is used: steps, noise, rounds, and the accounts that follow from them.

    `account` is what is certified of the worst pair in the view, `unconditional` that of everyone's messages: local DP.
    `averaging`, if it was asked for, is the number of the same view as if gradients did not depend on models. `table`
    has all pairs, as if records took part in every round where they do so by coins. `cut` says that a budget left fewer
    rounds than were asked for.
    """

    task: Task
    protocol: Protocol
    schedule: Schedule
    exposure: Exposure
    recipe: Recipe
    noise_multiplier: float
    account: Account
    table: AccountTable
    unconditional: Account
    cut: bool
    settings: dict[str, Any]
    averaging: Account | None = None
    seeded: bool = False

    def about(self, target: Hashable) -> Account:
        """What is certified of one target and its worst observer; coins bound all pairs alike.

        Guarantee: the upper end holds for every observer of the view, under the assumption that the account names.
        """
        found = self.table.about(target)
        if self.account.coins is None:
            return found
        return replace(self.account, observers=found.observers, target=found.target)

    def spent(self, rounds: int) -> tuple[float, float]:
        """Upper bounds of ε after so many rounds: that of the chosen view, and that of everyone's.

        Before the last round the first is what follows from the account of all rounds, so that whatever proves that
        account proves the line: what is seen of fewer rounds is a part of what is seen of all.

        Guarantee: upper bounds for a number of rounds that does not depend on what a run shows, the first under the
        assumption of `account`, the second without any.
        """
        if rounds == 0:
            return 0.0, 0.0
        target = self.recipe.target_epsilon
        if rounds == self.protocol.rounds:
            ends = shown_epsilons(self.account, self.unconditional, target)
            return ends[0].upper, ends[1].upper
        unconditional = self._seen_by_all(rounds)
        return min(self._whole, self._on_line(rounds), unconditional), unconditional

    @cached_property
    def _whole(self) -> float:
        """ε of the view after all rounds."""
        return self.account.epsilon().upper

    def _on_line(self, rounds: int) -> float:
        """ε of the view where every round in which a record takes part costs the same; infinite where it does not."""
        if not self.exposure.costs_alike(self.table):
            return math.inf
        taken, whole = self.exposure.scenario.participation, self.protocol.rounds
        share = taken.largest_count(rounds) / taken.largest_count(whole)
        squared = slightly_above(float(self.table.squared_upper.max()) * share)
        found = Account.of(
            Interval(0.0, squared),
            method="shift",
            relation=self.table.relation,
            noise_multiplier=self.noise_multiplier,
            delta=self.recipe.target_delta,
        )
        return found.epsilon().upper

    def _seen_by_all(self, rounds: int) -> float:
        """ε of local DP after so many rounds; programs and coins, which take their time, at a few horizons alone."""
        whole, share = self.protocol.rounds, max(1, self.protocol.rounds // _HORIZONS)
        quick = self.protocol.plain and not self.exposure.by_coins
        horizon = rounds if quick else min(whole, math.ceil(rounds / share) * share)
        if horizon not in self._asked:
            found = self.exposure.everyone(
                noise_multiplier=self.noise_multiplier, delta=self.recipe.target_delta, rounds=horizon
            )
            self._asked[horizon] = found.epsilon().upper
        return self._asked[horizon]

    @cached_property
    def _asked(self) -> dict[int, float]:
        """What `_seen_by_all` has found."""
        return {}

    @property
    def noise_std(self) -> float:
        """σ, the standard deviation of each coordinate of a node's noise."""
        return self.noise_multiplier * self.gradient_sensitivity

    @property
    def gradient_sensitivity(self) -> float:
        """By how much a node's gradient can move, or what its local steps make of it together, over the step.

        Guarantee: an upper bound for one record, or for all data of a node, whatever they are: that of
        `sottovoce.learning.gradient_sensitivity`, times the growth of what the first step changed in the others.
        """
        recipe = self.recipe
        once = gradient_sensitivity(
            self.task, recipe.clip, recipe.unit, recipe.batch_fraction / recipe.batches
        )
        return once * self.exposure.reaction.growth

    def descent(self, noise: NoiseSource) -> Descent:
        """The rounds to run, with this noise."""
        return Descent(
            task=self.task,
            protocol=self.protocol,
            steps=self.schedule.sizes(self.protocol.rounds),
            noise=noise,
            noise_std=self.noise_std,
            clip=self.recipe.clip,
            unit=self.recipe.unit,
            batch_fraction=self.recipe.batch_fraction,
            batches=self.recipe.batches,
            weighting=self.recipe.weighting,
            local_steps=self.recipe.local_steps,
        )


def plan(
    task: Task,
    question: Scenario | Protocol,
    *,
    recipe: Recipe | None = None,
    calibrated: float | None = None,
    progress: Callable[[int, int], None] | None = None,
    **words: Unpack[TrainingWords],
) -> Plan:
    """What `train` decides before it uses the data; the arguments are those of `train`.

    `calibrated` is noise that an earlier part of the run was calibrated to, which is kept as it is.
    """
    scenario, recipe, effort = planned(question, recipe, words)
    scenario = _taking_part(scenario, recipe)
    protocol, delta = scenario.protocol, recipe.target_delta
    schedule = _default_schedule(task) if recipe.step is None else as_schedule(recipe.step)
    check_counts(task)
    exposure = _exposure(task, scenario, schedule, recipe.local_steps)
    exposure = replace(exposure, reaction=reaction_of(task, exposure.steps, recipe), effort=effort)
    found = exposure.certified(
        noise_multiplier=recipe.noise_multiplier or 1.0, delta=delta, progress=progress
    )
    if recipe.target_epsilon is not None:
        chosen = found.calibrated_noise(recipe.target_epsilon, delta) if calibrated is None else calibrated
        found = found.with_noise(chosen)
    noise = float(found.table.noise_multiplier)
    rounds, most = protocol.rounds, recipe.max_epsilon
    if most is not None and found.epsilon > most:
        rounds = exposure.rounds_within(most, noise_multiplier=noise, delta=delta, progress=progress)
        found = exposure.certified(noise_multiplier=noise, delta=delta, rounds=rounds, progress=progress)
    # What was asked, however few of its rounds a budget leaves.
    settings = _settings(task, exposure, recipe, schedule)
    shorter = replace(scenario, protocol=replace(protocol, rounds=rounds))
    exposure = replace(exposure, scenario=shorter)
    worst = found.account
    return Plan(
        task=task,
        protocol=shorter.protocol,
        schedule=schedule,
        exposure=exposure,
        recipe=recipe,
        noise_multiplier=noise,
        account=worst,
        table=found.table,
        unconditional=exposure.everyone(noise_multiplier=noise, delta=delta),
        averaging=exposure.averaged(noise_multiplier=noise, delta=delta) if recipe.averaging else None,
        cut=rounds < protocol.rounds,
        settings=settings,
    )


def _settings(task: Task, exposure: Exposure, recipe: Recipe, schedule: Schedule) -> dict[str, Any]:
    """What shapes a message of a run, by name: it is continued with nothing else.

    What may be spent is among it: it may change the noise, and how many rounds a budget leaves.
    """
    scenario, kept = exposure.scenario, recipe.settings
    protocol = scenario.protocol
    return {
        "task": task.name,
        # Before the records, which are scaled for it.
        "clip": kept["clip"],
        "records": task.shards.fingerprint,
        "loss": task.loss.name,
        "loss_fingerprint": _told(task.loss),
        "made_with": made_with(),
        "l2": float(task.l2),
        "shard_size": int(task.shards.nominal),
        "weights": " ".join(weights.hash for weights in protocol.schedule),
        "rounds": int(protocol.rounds),
        **protocol.terms,
        "step": str(schedule),
        "unit": kept["unit"],
        # Before the participation, which follows from them.
        "batch_fraction": kept["batch_fraction"],
        "batches": kept["batches"],
        "local_steps": kept["local_steps"],
        "weighting": kept["weighting"],
        # What a run rests on depends on its reactions too, and stands with its account.
        **{name: value for name, value in scenario.terms().items() if name != "assumption"},
        **{
            name: kept[name] for name in ("noise_multiplier", "target_epsilon", "target_delta", "max_epsilon")
        },
        "engine": exposure.effort.engine,
        "effort": exposure.effort.depth,
        "tolerance": exposure.effort.tolerance,
        **exposure.reaction.settings,
    }


def _taking_part(scenario: Scenario, recipe: Recipe) -> Scenario:
    """The question with the rounds in which a record takes part, which follow from the recipe alone.

    Whole nodes take part in every round, whichever of their records are drawn.
    """
    check_question(scenario)
    if recipe.batches > 1:
        return replace(scenario, participation=Participation.epochs(recipe.batches))
    if recipe.batch_fraction < 1 and recipe.unit == "record":
        return replace(scenario, participation=Participation.poisson(recipe.batch_fraction))
    return scenario


def _default_schedule(task: Task) -> Schedule:
    """1/(2L) from public numbers alone.

    Hidden nodes that take such steps react to what they received, but keep at least half of it: slopes are in [½, 1].
    """
    smoothness = task.public_smoothness
    if smoothness is None:
        raise InputError(f"step must be given for the loss {task.loss.name}, whose smoothness is not known")
    # Three digits are enough.
    return Schedule(size=float(f"{0.5 / smoothness * 0.9995:.3g}"))


def _exposure(task: Task, scenario: Scenario, schedule: Schedule, local_steps: int) -> Exposure:
    """Who sees what; h∘θ is part of the loop where it is one number, and else counts as a contribution."""
    rounds = scenario.protocol.rounds
    check_rounds(rounds, _A_ROUND)
    steps = schedule.sizes(rounds)
    even = not np.ptp(task.linear)
    pull = float(task.linear.flat[0]) if even else 0.0
    damping = (1 - steps * pull)[:, None] ** local_steps
    if not (damping > 0).all():
        raise InputError(
            f"step must stay below 1 over the curvature of the public part of the loss; it goes up to "
            f"{float(steps.max()):.4g} (take less than {1 / pull:.4g})"
        )
    return Exposure(
        scenario=scenario,
        steps=steps,
        damping=damping,
        state_free=task.loss.state_free and even,
    )


def _told(loss: Loss) -> str | None:
    """The fingerprint of a loss; None where it has none, which matters to runs with checkpoints alone."""
    try:
        return loss_fingerprint(loss)
    except InputError:
        return None
