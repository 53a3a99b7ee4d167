# SPDX-License-Identifier: Apache-2.0
"""`train`: a whole run, from a task and a protocol to models with their account."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from sottovoce.accounting import RELATIONS
from sottovoce.errors import InputError, at_least, one_of, positive, probability
from sottovoce.learning.descent import Descent, State, init, sensitivity, step
from sottovoce.learning.guarantees import Exposure
from sottovoce.learning.noise import NodeNoise, fresh_keys
from sottovoce.learning.results import History, Run, measured
from sottovoce.learning.schedules import Schedule, as_schedule
from sottovoce.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from numpy.typing import NDArray

    from sottovoce.accounting import Account, AccountTable, Relation
    from sottovoce.learning.descent import Unit, Weighting
    from sottovoce.learning.tasks import Task
    from sottovoce.protocols import Protocol
    from sottovoce.views import OwnNoise

    Array: TypeAlias = NDArray[np.float64]

__all__ = ["Moment", "Plan", "plan", "train"]

# At how many horizons the ε of a network view is computed, and how many pairs and rounds make that worth its time.
_LEDGER = 5
_LEDGER_WORK = 20_000
_MOMENTS = 200
_DIVERGED = 1e6


class Moment(NamedTuple):
    """What a watcher is told after a round; `epsilon` is what the chosen view has cost so far, at most."""

    round: int
    rounds: int
    loss: float
    consensus_distance: float
    epsilon: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """All that is decided before the data is used: steps, noise, rounds, and the accounts that follow from them.

    `account` is that of the worst pair in the view, `unconditional` that of everyone's messages. `ledger` holds
    (rounds, ε of the view) for growing horizons. `cut` says that a budget left fewer rounds than were asked for.
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
    seeded: bool = False

    def spent(self, rounds: int) -> float:
        """An upper bound of the ε of the chosen view after so many rounds."""
        if rounds == 0:
            return 0.0
        seen_by_all = self.exposure.everyone(
            noise_multiplier=self.noise_multiplier, delta=self.delta, rounds=rounds
        )
        later = min(epsilon for horizon, epsilon in self.ledger if horizon >= rounds)
        return min(later, seen_by_all.epsilon().upper)

    @property
    def noise_std(self) -> float:
        """σ, the standard deviation of each coordinate of a node's noise."""
        return self.noise_multiplier * sensitivity(self.task, self.clip, self.unit, self.batch_fraction)

    def descent(self, noise: NodeNoise) -> Descent:
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


def train(
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
    seed: int | None = None,
    resume: Run | None = None,
    checkpoint: Callable[[Run], None] | None = None,
    checkpoint_every: int | None = None,
    progress: Callable[[Moment], None] | None = None,
    account_progress: Callable[[int, int], None] | None = None,
) -> Run:
    """Train every node's model by private gradient steps and gossip, and say what that gives away.

    Args:
        task: the loss and each node's records.
        protocol: the gossip that the accountant reads too, such as `gossip(weights, rounds=50)`.
        view: what the account is about, and what noise is calibrated to: "everyone", "neighbourhood",
            "secure-sum", "single-node" (every observer in turn), or a `View`.
        noise_multiplier: σ over the sensitivity of a node's gradient; give it or `target_epsilon`.
        target_epsilon: the ε, at `target_delta`, that the worst pair in the view is to have over all rounds.
        target_delta: the δ of the account.
        step: the step size or `Schedule`; by default 1 over a bound of the smoothness that needs no data.
        clip: the norm to which each record's gradient is clipped, or each node's with `unit="node"`.
        unit: whether one record or all of a node's data is protected.
        relation: how neighbouring inputs differ: "add-remove", "replace-one" or "zero-out".
        batch_fraction: with which probability a record takes part in a round; it is accounted for as if always.
        weighting: how the averaged model weighs the rounds, "uniform" or "linear".
        own_noise: with a name, whether an observer knows the noise it drew.
        observers: with a name, which nodes observe; all if None.
        max_epsilon: stop before the round that would exceed this ε; that round follows from public numbers alone.
        seed: for runs that can be repeated; by default each node's generator gets 128 bits from the system.
        resume: an unfinished run to go on with, bit for bit as if it had never stopped.
        checkpoint: called with the unfinished run every `checkpoint_every` rounds, and when interrupted.
        checkpoint_every: how many rounds lie between two checkpoints; a tenth of the run if None.
        progress: called after each round that is measured.
        account_progress: called with (pairs done, pairs in all) while accounts are computed.

    Guarantee: the run's `unconditional` account holds for every observer; its `account` under the assumption that it
    names. Losses, accuracies and distances are measured without noise and are not private.
    Source: Eq. 5.1 of Koskela & Kulkarni.

    >>> from sottovoce import gossip, graphs
    >>> from sottovoce.learning import synthetic_task
    >>> ring = gossip(graphs.metropolis_weights("ring:n=5"), rounds=20)
    >>> run = train(synthetic_task(5), ring, view="secure-sum", target_epsilon=2.0, seed=1)
    >>> run.account.assumption, run.account.epsilon().upper <= 2, run.state.round
    ('quadratic', True, 20)
    """
    chosen = plan(
        task,
        protocol,
        view=view,
        noise_multiplier=noise_multiplier,
        target_epsilon=target_epsilon,
        target_delta=target_delta,
        step=step,
        clip=clip,
        unit=unit,
        relation=relation,
        batch_fraction=batch_fraction,
        weighting=weighting,
        own_noise=own_noise,
        observers=observers,
        max_epsilon=max_epsilon,
        calibrated=None if resume is None else resume.noise_multiplier,
        progress=account_progress,
    )
    if resume is not None:
        _check_resumable(resume, chosen)
    keys = fresh_keys(protocol.n, seed) if resume is None else _kept_keys(resume)
    every = max(1, chosen.protocol.rounds // 10) if checkpoint_every is None else checkpoint_every
    at_least(1, checkpoint_every=every)
    seeded = seed is not None if resume is None else resume.seeded
    return _run(replace(chosen, seeded=seeded), keys, resume, checkpoint, int(every), progress)


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
    exposure = _exposure(task, protocol, schedule, view, relation, own_noise, observers)
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
    exposure = replace(exposure, protocol=shorter)
    worst = table.worst()
    if target_epsilon is not None and worst.epsilon().upper > target_epsilon:
        raise InputError(
            f"the noise of the run to resume, {noise!r}, does not reach target_epsilon {target_epsilon!r} "
            "(start it again)"
        )
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
        ledger=_ledger(exposure, noise, target_delta, worst),
        cut=cut,
        settings={
            "task": task.name,
            "records": task.shards.fingerprint,
            "loss": task.loss.name,
            "l2": float(task.l2),
            "shard_size": int(task.shards.nominal),
            "weights": protocol.weights.hash,
            "rounds": int(protocol.rounds),
            "step": str(schedule),
            "clip": float(clip),
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
        },
    )


def _run(
    chosen: Plan,
    keys: NDArray[np.uint64],
    resume: Run | None,
    checkpoint: Callable[[Run], None] | None,
    every: int,
    progress: Callable[[Moment], None] | None,
) -> Run:
    """Run the rounds of a plan from the start, or from where a run was left."""
    descent = chosen.descent(NodeNoise(keys, chosen.task.dimension))
    state = init(descent) if resume is None else resume.state
    history = History.empty() if resume is None else resume.history
    rounds = chosen.protocol.rounds
    stride = max(1, rounds // _MOMENTS)
    limit = _DIVERGED * (1 + abs(chosen.task.risk(init(descent).models[0])))
    whole = state, history
    try:
        while state.round < rounds:
            state, info = step(descent, state)
            _refuse_runaway(state, info.step, None, limit)
            if state.round % stride == 0 or state.round == rounds:
                loss = chosen.task.risk(state.models.mean(axis=0))
                _refuse_runaway(state, info.step, loss, limit)
                epsilon = chosen.spent(state.round)
                history = history.extended(state.round, loss, info.consensus_distance, info.clipped, epsilon)
                if progress is not None:
                    progress(Moment(state.round, rounds, loss, info.consensus_distance, epsilon))
            if checkpoint is not None and state.round % every == 0 and state.round < rounds:
                checkpoint(_unfinished(chosen, state, history, keys))
            whole = state, history
    except KeyboardInterrupt:
        if checkpoint is not None and 0 < whole[0].round < rounds:
            checkpoint(_unfinished(chosen, *whole, keys))
        raise
    # The keys are worth as much as the data, and a finished run needs them no more.
    return measured(chosen.task, replace(_unfinished(chosen, state, history, keys), keys=None))


def _unfinished(chosen: Plan, state: State, history: History, keys: NDArray[np.uint64]) -> Run:
    """A run as it stands, without its final measurements."""
    return Run(
        settings=chosen.settings,
        rounds=chosen.protocol.rounds,
        cut=chosen.cut,
        state=state,
        history=history,
        noise_multiplier=chosen.noise_multiplier,
        noise_std=chosen.noise_std,
        account=chosen.account,
        unconditional=chosen.unconditional,
        table=chosen.table,
        seeded=chosen.seeded,
        keys=keys,
    )


def _refuse_runaway(state: State, size: float, loss: float | None, limit: float) -> None:
    """Say that training diverges, with the round and the remedy."""
    if loss is None:
        found = None if np.isfinite(state.models).all() else "models are not finite"
    else:
        found = None if loss <= limit or np.isnan(limit) else f"the loss has grown to {loss:.3g}"
    if found is not None:
        raise InputError(
            f"training diverged in round {state.round}: {found} (take a smaller step than {size:.4g}, "
            "a smaller clip or less noise)"
        )


def _default_schedule(task: Task) -> Schedule:
    """1/L from public numbers alone."""
    smoothness = task.public_smoothness
    if smoothness is None:
        raise InputError(f"step must be given for the loss {task.loss.name}, whose smoothness is not known")
    # With h alone a full step would forget what was received; half of it leaves both a share. Three digits are enough.
    size = 0.5 / smoothness if task.loss.state_free else 1 / smoothness
    return Schedule(size=float(f"{size * 0.9995:.3g}"))


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
        protocol=protocol,
        view=view,
        steps=steps,
        damping=damping,
        state_free=task.loss.state_free and even,
        relation=relation,
        own_noise=own_noise,
        observers=observers,
    )


def _ledger(exposure: Exposure, noise: float, delta: float, worst: Account) -> tuple[tuple[int, float], ...]:
    """ε of the view at growing horizons; the last alone where more would take long."""
    rounds, n = exposure.protocol.rounds, exposure.protocol.n
    whole = (rounds, worst.epsilon().upper)
    if exposure.unconditional or n * n * rounds > _LEDGER_WORK:
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


def _check_resumable(resume: Run, chosen: Plan) -> None:
    """Refuse to go on with a run of other settings."""
    for name, value in chosen.settings.items():
        there = resume.settings.get(name)
        if value != there:
            raise InputError(
                f"a run is continued with the settings it began with; its {name} is {there!r}, and {value!r} was "
                f"asked for (ask for {there!r}, or start a new run)"
            )


def _kept_keys(resume: Run) -> NDArray[np.uint64]:
    """The keys of an unfinished run."""
    if resume.keys is None:
        raise InputError(f"the run is finished: all of its {resume.rounds} rounds are done (start a new one)")
    return resume.keys
