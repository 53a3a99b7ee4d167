# SPDX-License-Identifier: Apache-2.0
"""`plan`: all that is decided before the data is used, with the accounts that follow from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.accounting import RELATIONS
from sottovoce.errors import InputError, one_of, positive, probability
from sottovoce.learning.descent import UNITS, Descent, check_counts, check_fraction, sensitivity
from sottovoce.learning.fingerprints import loss_fingerprint, made_with
from sottovoce.learning.guarantees import Exposure
from sottovoce.learning.reactions import reaction_of
from sottovoce.learning.results import shown_epsilons
from sottovoce.learning.schedules import Schedule, as_schedule
from sottovoce.scenarios import Scenario
from sottovoce.sensitivities.capacity import check_rounds
from sottovoce.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from sottovoce.accounting import Account, AccountTable, Relation
    from sottovoce.learning.descent import Unit, Weighting
    from sottovoce.learning.losses import Loss
    from sottovoce.learning.noise import NoiseSource
    from sottovoce.learning.tasks import Task
    from sottovoce.protocols import Protocol
    from sottovoce.views import OwnNoise

__all__ = ["Plan", "plan"]

# At how many horizons the ε of a network view is computed, and how many pairs and rounds make that worth its time.
_LEDGER = 5
_LEDGER_WORK = 20_000
# Bytes for the steps and dampings of a round, measured as 24 and rounded up; accounts ask for theirs by themselves.
_A_ROUND = 32


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """All that is decided before the data is used: steps, noise, rounds, and the accounts that follow from them.

    `account` is what is certified of the worst pair in the view, `unconditional` that of everyone's messages: local DP.
    `averaging`, if it was asked for, is the number of the same view as if gradients did not depend on models. `ledger`
    holds (rounds, ε of the view) for growing horizons. `cut` says that a budget left fewer rounds than were asked for.
    """

    task: Task
    protocol: Protocol
    schedule: Schedule
    exposure: Exposure
    noise_multiplier: float
    delta: float
    clip: float
    unit: Unit
    batch_fraction: float
    weighting: Weighting
    account: Account
    table: AccountTable
    unconditional: Account
    ledger: tuple[tuple[int, float], ...]
    cut: bool
    settings: dict[str, Any]
    averaging: Account | None = None
    seeded: bool = False

    def spent(self, rounds: int) -> tuple[float, float]:
        """Upper bounds of ε after so many rounds: that of the chosen view, and that of everyone's."""
        if rounds == 0:
            return 0.0, 0.0
        target = self.settings["target_epsilon"]
        if rounds == self.protocol.rounds:
            ends = shown_epsilons(self.account, self.unconditional, target)
            return ends[0].upper, ends[1].upper
        seen_by_all = self.exposure.everyone(
            noise_multiplier=self.noise_multiplier, delta=self.delta, rounds=rounds
        )
        later = min(epsilon for horizon, epsilon in self.ledger if horizon >= rounds)
        unconditional = seen_by_all.epsilon().upper
        return min(later, unconditional), unconditional

    @property
    def noise_std(self) -> float:
        """σ, the standard deviation of each coordinate of a node's noise."""
        return self.noise_multiplier * sensitivity(self.task, self.clip, self.unit, self.batch_fraction)

    def descent(self, noise: NoiseSource) -> Descent:
        """The rounds to run, with this noise."""
        return Descent(
            task=self.task,
            protocol=self.protocol,
            steps=self.schedule.sizes(self.protocol.rounds),
            noise=noise,
            noise_std=self.noise_std,
            clip=self.clip,
            unit=self.unit,
            batch_fraction=self.batch_fraction,
            weighting=self.weighting,
        )


def plan(
    task: Task,
    protocol: Protocol,
    *,
    view: View | str = "everyone",
    noise_multiplier: float | None = None,
    target_epsilon: float | None = None,
    target_delta: float = 1e-5,
    step: Schedule | float | str | None = None,
    clip: float = 1.0,
    unit: Unit = "record",
    relation: Relation = "add-remove",
    batch_fraction: float = 1.0,
    weighting: Weighting = "uniform",
    own_noise: OwnNoise = "known",
    observers: Sequence[Hashable] | None = None,
    max_epsilon: float | None = None,
    averaging: bool = False,
    calibrated: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Plan:
    """What `train` decides before it uses the data; the arguments are those of `train`.

    `calibrated` is noise that an earlier part of the run was calibrated to, which is kept as it is.
    """
    probability(target_delta=target_delta)
    one_of(RELATIONS, relation=relation)
    if (noise_multiplier is None) == (target_epsilon is None):
        got = "neither" if noise_multiplier is None else "both"
        raise InputError(
            f"noise_multiplier must be given, or else a target ε that it is chosen for; got {got} (give one of them)"
        )
    if max_epsilon is not None and target_epsilon is not None:
        raise InputError(
            "max_epsilon must be left out where noise is chosen for a target ε, which it keeps to over all rounds "
            f"anyway; got {max_epsilon!r} (give one of them)"
        )
    if max_epsilon is not None:
        positive(max_epsilon=max_epsilon)
    schedule = _default_schedule(task) if step is None else as_schedule(step)
    _check_round(task, clip, unit, batch_fraction)
    exposure = _exposure(task, protocol, schedule, view, relation, own_noise, observers)
    reaction = reaction_of(task, exposure.steps, clip=clip, unit=unit, batch_fraction=batch_fraction)
    exposure = replace(exposure, reaction=reaction)
    if target_epsilon is None:
        noise = float(noise_multiplier or 0.0)
        positive(noise_multiplier=noise)
        table = exposure.table(noise_multiplier=noise, delta=target_delta, progress=progress)
    else:
        positive(target_epsilon=target_epsilon)
        table = exposure.table(noise_multiplier=1.0, delta=target_delta, progress=progress)
        noise = table.calibrated_noise(target_epsilon, target_delta) if calibrated is None else calibrated
        table = table.with_noise(noise)
    rounds = protocol.rounds
    if max_epsilon is not None and table.epsilon_upper.max() > max_epsilon:
        rounds = exposure.rounds_within(
            max_epsilon, noise_multiplier=noise, delta=target_delta, progress=progress
        )
        table = exposure.table(noise_multiplier=noise, delta=target_delta, rounds=rounds, progress=progress)
    cut = rounds < protocol.rounds
    shorter = replace(protocol, rounds=rounds)
    exposure = replace(exposure, scenario=replace(exposure.scenario, protocol=shorter))
    worst = _headline(table)
    return Plan(
        task=task,
        protocol=shorter,
        schedule=schedule,
        exposure=exposure,
        noise_multiplier=noise,
        delta=target_delta,
        clip=clip,
        unit=unit,
        batch_fraction=batch_fraction,
        weighting=weighting,
        account=worst,
        table=table,
        unconditional=exposure.everyone(noise_multiplier=noise, delta=target_delta),
        averaging=_averaged(exposure, noise, target_delta) if averaging else None,
        ledger=_ledger(exposure, noise, target_delta, worst),
        cut=cut,
        settings={
            "task": task.name,
            # Before the records, which are scaled for it.
            "clip": float(clip),
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
            "unit": unit,
            "relation": relation,
            "batch_fraction": float(batch_fraction),
            "weighting": weighting,
            "view": view.name if isinstance(view, View) else view,
            "observers": _named_observers(view, observers),
            "own_noise": view.own_noise if isinstance(view, View) else own_noise,
            "noise_multiplier": None if noise_multiplier is None else float(noise_multiplier),
            "target_epsilon": None if target_epsilon is None else float(target_epsilon),
            "target_delta": float(target_delta),
            "max_epsilon": None if max_epsilon is None else float(max_epsilon),
            **reaction.settings,
        },
    )


def _headline(table: AccountTable) -> Account:
    """The worst pair; one that is bounded by its rounds alone says that for all pairs, without any assumption."""
    worst = table.worst()
    return replace(worst, assumption="none") if worst.method == "cap" else worst


def _averaged(exposure: Exposure, noise: float, delta: float) -> Account:
    """The worst pair of averaging."""
    return exposure.averaging(noise_multiplier=noise, delta=delta).worst()


def _check_round(task: Task, clip: float, unit: Unit, batch_fraction: float) -> None:
    """Refuse settings of a round before anything is computed from them."""
    positive(clip=clip)
    one_of(UNITS, unit=unit)
    check_fraction(batch_fraction)
    check_counts(task)


def _default_schedule(task: Task) -> Schedule:
    """1/(2L) from public numbers alone.

    Hidden nodes that take such steps react to what they received, but keep at least half of it: slopes are in [½, 1].
    """
    smoothness = task.public_smoothness
    if smoothness is None:
        raise InputError(f"step must be given for the loss {task.loss.name}, whose smoothness is not known")
    # Three digits are enough.
    return Schedule(size=float(f"{0.5 / smoothness * 0.9995:.3g}"))


def _exposure(
    task: Task,
    protocol: Protocol,
    schedule: Schedule,
    view: View | str,
    relation: Relation,
    own_noise: OwnNoise,
    observers: Sequence[Hashable] | None,
) -> Exposure:
    """Who sees what; h∘θ is part of the loop where it is one number, and else counts as a contribution."""
    check_rounds(protocol.rounds, _A_ROUND)
    steps = schedule.sizes(protocol.rounds)
    even = not np.ptp(task.linear)
    pull = float(task.linear.flat[0]) if even else 0.0
    damping = (1 - steps * pull)[:, None]
    if not (damping > 0).all():
        raise InputError(
            f"step must stay below 1 over the curvature of the public part of the loss; it goes up to "
            f"{float(steps.max()):.4g} (take less than {1 / pull:.4g})"
        )
    return Exposure(
        scenario=Scenario(
            protocol=protocol, view=view, relation=relation, own_noise=own_noise, observers=observers
        ),
        steps=steps,
        damping=damping,
        state_free=task.loss.state_free and even,
    )


def _ledger(exposure: Exposure, noise: float, delta: float, worst: Account) -> tuple[tuple[int, float], ...]:
    """ε of the view at growing horizons; the last alone where more would take long."""
    rounds, n = exposure.protocol.rounds, exposure.protocol.n
    whole = (rounds, worst.epsilon().upper)
    if exposure.unconditional or not exposure.state_free or n * n * rounds > _LEDGER_WORK:
        return (whole,)
    horizons = sorted({max(1, rounds * part // _LEDGER) for part in range(1, _LEDGER)} - {rounds})
    found = [
        (
            horizon,
            float(exposure.table(noise_multiplier=noise, delta=delta, rounds=horizon).epsilon_upper.max()),
        )
        for horizon in horizons
    ]
    return (*found, whole)


def _named_observers(view: View | str, observers: Sequence[Hashable] | None) -> list[str] | None:
    """The observers as texts."""
    if isinstance(view, View):
        return [str(name) for name in view.observers] or None
    return None if observers is None else [str(name) for name in observers]


def _told(loss: Loss) -> str | None:
    """The fingerprint of a loss; None where it has none, which matters to runs with checkpoints alone."""
    try:
        return loss_fingerprint(loss)
    except InputError:
        return None
