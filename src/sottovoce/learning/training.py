# SPDX-License-Identifier: Apache-2.0
"""`train`: a whole run, from a task and a protocol to models with their account."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, Unpack

import numpy as np

from sottovoce.errors import InputError, at_least
from sottovoce.learning.descent import init, step
from sottovoce.learning.fingerprints import loss_fingerprint
from sottovoce.learning.noise import drawn_by, fresh_keys
from sottovoce.learning.plans import plan
from sottovoce.learning.results import History, Run, measured
from sottovoce.threads import one_blas_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sottovoce.learning.descent import Descent, State
    from sottovoce.learning.plans import Plan
    from sottovoce.learning.recipes import Recipe, TrainingWords
    from sottovoce.learning.tasks import Task
    from sottovoce.protocols import Protocol
    from sottovoce.scenarios import Scenario

    Array: TypeAlias = NDArray[np.float64]

__all__ = [
    "MOMENTS",
    "Begun",
    "Moment",
    "check_resumable",
    "kept_keys",
    "refuse_runaway",
    "taken_up",
    "train",
    "unfinished",
]

MOMENTS = 200
_DIVERGED = 1e6


class Moment(NamedTuple):
    """What a watcher is told after a round; `epsilon` is what the chosen view has cost so far, at most.

    It rests on the assumption of the run's account; `unconditional` is what holds without any.
    """

    round: int
    rounds: int
    loss: float
    consensus_distance: float
    epsilon: float
    unconditional: float


@one_blas_thread()
def train(
    task: Task,
    question: Scenario | Protocol,
    *,
    recipe: Recipe | None = None,
    seed: int | None = None,
    resume: Run | None = None,
    checkpoint: Callable[[Run], None] | None = None,
    checkpoint_every: int | None = None,
    progress: Callable[[Moment], None] | None = None,
    account_progress: Callable[[int, int], None] | None = None,
    **words: Unpack[TrainingWords],
) -> Run:
    """Train every node's model by private gradient steps and gossip, and say what that gives away.

    Args:
        task: the loss and each node's records.
        question: the gossip that the accountant reads too, such as `gossip(weights, rounds=50)`, or a `Scenario` of it.
        recipe: how to train, as a `Recipe`; or its fields as words of their own.
        seed: for simulations that can be repeated, one seed for one run; by default each node gets a key of 128 bits
            from the system, and noise that no other message ever gets.
        resume: an unfinished run to go on with, bit for bit as if it had never stopped; refused unless everything that
            shapes a message is what it was.
        checkpoint: called with the unfinished run before the first round, every `checkpoint_every` rounds, and when
            interrupted.
        checkpoint_every: how many rounds lie between two checkpoints; a tenth of the run if None.
        progress: called after each round that is measured.
        account_progress: called with (pairs done, pairs in all) while accounts are computed.
        words: as in `sottovoce.learning.TrainingWords`, such as `view` and `target_epsilon`.

    Guarantee: the run's `account` holds for the view under the assumption that it names: `smooth` where the loss has a
    public smoothness, `quadratic` for quadratic losses, and else `none`. Its `unconditional` account holds for every
    observer; the first is never larger. Losses, accuracies and distances are measured without noise and are not
    private.
    Source: Eq. 5.1 of Koskela & Kulkarni for the rounds; Theorem 1 of docs/training.md for `smooth`.

    >>> from sottovoce import gossip, graphs
    >>> from sottovoce.learning import synthetic_task
    >>> ring = gossip(graphs.metropolis_weights("ring:n=5"), rounds=20)
    >>> run = train(synthetic_task(5), ring, view="secure-sum", target_epsilon=2.0, seed=1)
    >>> run.account.assumption, run.account.epsilon().upper <= 2, run.state.round
    ('quadratic', True, 20)
    """
    chosen = plan(
        task,
        question,
        recipe=recipe,
        calibrated=None if resume is None else resume.noise_multiplier,
        progress=account_progress,
        **words,
    )
    if resume is not None or checkpoint is not None:
        loss_fingerprint(task.loss)
    if resume is not None:
        check_resumable(resume, chosen, seed)
    keys = fresh_keys(chosen.protocol.n, seed) if resume is None else kept_keys(resume)
    every = max(1, chosen.protocol.rounds // 10) if checkpoint_every is None else checkpoint_every
    at_least(1, checkpoint_every=every)
    seeded = seed is not None if resume is None else resume.seeded
    return _run(replace(chosen, seeded=seeded), keys, resume, checkpoint, int(every), progress)


def _run(
    chosen: Plan,
    keys: NDArray[np.uint64],
    resume: Run | None,
    checkpoint: Callable[[Run], None] | None,
    every: int,
    progress: Callable[[Moment], None] | None,
) -> Run:
    """Run the rounds of a plan from the start, or from where a run was left."""
    descent = chosen.descent(drawn_by(keys, chosen.task.dimension, seeded=chosen.seeded))
    begun = Begun(init(descent), None, History.empty(), 0) if resume is None else taken_up(descent, resume)
    rounds = chosen.protocol.rounds
    stride = max(1, rounds // MOMENTS)
    limit = _DIVERGED * (1 + abs(chosen.task.risk(init(descent).models[0])))
    if checkpoint is not None and resume is None:
        # Before anything is sent, so that a run that ends early never has to be begun a second time.
        checkpoint(unfinished(chosen, begun, keys))
    try:
        while begun.state.round < rounds:
            state, info = step(descent, begun.state)
            history = begun.history
            refuse_runaway(state, info.step, None, limit)
            if state.round % stride == 0 or state.round == rounds:
                loss = _risk(chosen.task, state)
                refuse_runaway(state, info.step, loss, limit)
                spent = chosen.spent(state.round)
                with np.errstate(over="ignore", invalid="ignore"):
                    # Models that run away have no mean; the next round says so.
                    right = right_share(chosen.task, state.models.mean(axis=0))
                history = history.extended(
                    state.round, loss, info.consensus_distance, info.clipped, *spent, right
                )
                if progress is not None:
                    progress(Moment(state.round, rounds, loss, info.consensus_distance, *spent))
            following = Begun(state, begun.state.registers, history, begun.zeroed + info.zeroed)
            if checkpoint is not None and state.round % every == 0 and state.round < rounds:
                checkpoint(unfinished(chosen, following, keys))
            begun = following
    except KeyboardInterrupt:
        if checkpoint is not None and 0 < begun.state.round < rounds:
            checkpoint(unfinished(chosen, begun, keys))
        raise
    # The keys are worth as much as the data, and a finished run needs them no more.
    return measured(chosen.task, replace(unfinished(chosen, begun, keys), keys=None, before=None))


class Begun(NamedTuple):
    """How far a run has come: its state, that before its last round, what was measured, and what was zeroed."""

    state: State
    before: Array | None
    history: History
    zeroed: int


def taken_up(descent: Descent, resume: Run) -> Begun:
    """Where a run was left; refused unless its last round comes out again as it did.

    That tells what no fingerprint can: a library or machine that rounds otherwise, a loss that reaches out to something
    else. Nothing of the round is sent.
    """
    done = resume.state
    if done.round:
        if resume.before is None:
            raise InputError(
                "the run to resume lacks what nodes kept before its last round (take what train kept)"
            )
        again, _ = step(descent, done._replace(round=done.round - 1, registers=resume.before))
        if not np.array_equal(again.registers, done.registers):
            raise InputError(
                f"round {done.round} does not come out as it did before the run was interrupted, so that what was sent "
                "since then would be sent again in another form (go on with the same loss, machine, libraries and "
                "number of threads; or start a new run, and add up the accounts of both)"
            )
    return Begun(done, resume.before, resume.history, resume.zeroed)


def unfinished(chosen: Plan, begun: Begun, keys: NDArray[np.uint64]) -> Run:
    """A run as it stands, without its final measurements."""
    return Run(
        settings=chosen.settings,
        rounds=chosen.protocol.rounds,
        cut=chosen.cut,
        state=begun.state,
        before=begun.before,
        history=begun.history,
        zeroed=begun.zeroed,
        noise_multiplier=chosen.noise_multiplier,
        noise_std=chosen.noise_std,
        account=chosen.account,
        unconditional=chosen.unconditional,
        averaging=chosen.averaging,
        table=chosen.table,
        seeded=chosen.seeded,
        keys=keys,
    )


def right_share(task: Task, model: Array) -> float:
    """The accuracy of a model; NaN where there is none."""
    found = task.accuracy(model)
    return math.nan if found is None else found


def _risk(task: Task, state: State) -> float:
    """The risk of the mean model; numbers that overflow are found there, and are no reason for warnings."""
    with np.errstate(over="ignore", invalid="ignore"):
        return task.risk(state.models.mean(axis=0))


def refuse_runaway(state: State, size: float, loss: float | None, limit: float) -> None:
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


# What settings hold as hashes, which tell nobody what to give, and what to give.
_BY_HASH = {
    "records": "give the same file, with the same split, seed, skew and clip",
    "weights": "give the same graph with the same weights",
}


def check_resumable(resume: Run, chosen: Plan, seed: int | None) -> None:
    """Refuse to go on with a run of other settings, another loss or another seed."""
    for name in {**resume.settings, **chosen.settings}:
        value, there = chosen.settings.get(name), resume.settings.get(name)
        if value == there:
            continue
        if name == "loss_fingerprint":
            raise InputError(
                f"a run is continued with the loss it began with; this one is called {chosen.task.loss.name!r} too, "
                "but its code, parameters or state are others (give the loss of the run, or start a new run)"
            )
        if name in _BY_HASH:
            raise InputError(
                f"a run is continued with the {name} it began with, and others were given ({_BY_HASH[name]}, or start "
                "a new run)"
            )
        raise InputError(
            f"a run is continued with the settings it began with; its {name} is {there!r}, and {value!r} was "
            f"asked for (ask for {there!r}, or start a new run)"
        )
    target = chosen.settings["target_epsilon"]
    if target is not None and chosen.account.epsilon().upper > target:
        raise InputError(
            f"the noise of the run to resume, {resume.noise_multiplier!r}, does not reach target_epsilon {target!r} "
            "(start it again)"
        )
    if seed is not None and not (
        resume.seeded and np.array_equal(fresh_keys(chosen.protocol.n, seed), kept_keys(resume))
    ):
        raise InputError(
            f"seed must be that of the run to resume, whose keys are in its checkpoint; got {seed!r} (leave it out)"
        )


def kept_keys(resume: Run) -> NDArray[np.uint64]:
    """The keys of an unfinished run."""
    if resume.keys is None:
        raise InputError(f"the run is finished: all of its {resume.rounds} rounds are done (start a new one)")
    return resume.keys
