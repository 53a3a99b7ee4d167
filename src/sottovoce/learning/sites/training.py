# SPDX-License-Identifier: Apache-2.0
"""`train_module`, a whole run of a PyTorch module over many sites, and `Training`, one round of it at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import numpy as np

from sottovoce.errors import InputError, at_least, one_of
from sottovoce.graphs import metropolis_weights
from sottovoce.learning.descent import init, step
from sottovoce.learning.fingerprints import loss_fingerprint
from sottovoce.learning.noise import drawn_by, fresh_keys
from sottovoce.learning.plans import plan
from sottovoce.learning.recipes import TrainingWords
from sottovoce.learning.results import History, Run, measured
from sottovoce.learning.sites.checkpoints import check_fresh, read_checkpoint, write_checkpoint
from sottovoce.learning.sites.losses import ModuleLoss
from sottovoce.learning.sites.modules import filled
from sottovoce.learning.sites.tasks import module_task
from sottovoce.learning.training import (
    MOMENTS,
    Begun,
    Moment,
    check_resumable,
    kept_keys,
    refuse_runaway,
    taken_up,
    unfinished,
)
from sottovoce.protocols import Protocol, gossip
from sottovoce.scenarios import Scenario

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import device as Device  # noqa: N812 - it stands for a type
    from torch import nn

    from sottovoce.accounting import Account
    from sottovoce.interval import Interval
    from sottovoce.learning.descent import Info, State
    from sottovoce.learning.plans import Plan
    from sottovoce.learning.sites.checkpoints import Checkpoint
    from sottovoce.learning.tasks import Task

__all__ = ["Accountant", "ModuleRun", "ModuleWords", "Training", "begin", "train_module"]

Sampling = Literal["epochs", "poisson"]
SAMPLINGS: tuple[Sampling, ...] = ("epochs", "poisson")


class _TaskWords(TypedDict, total=False):
    shard_size: int | None
    l2: float
    test: Any
    device: str | Device
    chunk: int | None
    smoothness: float | None
    convex: bool
    version: str | None


class ModuleWords(_TaskWords, TrainingWords, total=False):
    """The words of `begin` and `train_module`: those of `module_task`, those of `train`, and these.

    Args:
        rounds: how many, where a graph is given and no protocol.
        sampling: how loaders' batches are made. "epochs": every record is in one batch an epoch, in a secret order;
            "poisson": each takes part in a round on a coin of its own.
        seed: for simulations that can be repeated; without one noise is drawn by keys from the system.
    """

    rounds: int | None
    sampling: Sampling
    seed: int | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Accountant:
    """What the first `rounds` rounds of a plan have given away.

    Guarantee: ε is an upper bound for a number of rounds that was fixed in advance. Whoever stops because of what a run
    shows has the account of all rounds that were planned, as `Training.plan` has it: messages that were not sent tell
    nobody more. A stop that looks at the data themselves, their loss for example, tells of them, and no account covers
    it.
    """

    plan: Plan
    rounds: int

    def epsilon(self, delta: float | None = None) -> float:
        """ε of the worst pair in the view that was chosen, at δ; under the assumption that `account` names."""
        if self.rounds == 0:
            return 0.0
        return min(self.account.epsilon(delta).upper, self.unconditional.epsilon(delta).upper)

    def unconditional_epsilon(self, delta: float | None = None) -> float:
        """ε of local DP at δ, which holds whoever sees whatever."""
        return 0.0 if self.rounds == 0 else self.unconditional.epsilon(delta).upper

    @cached_property
    def account(self) -> Account:
        """The account of the worst pair over the rounds so far."""
        if self.rounds == self.plan.protocol.rounds:
            return self.plan.account
        return self.plan.exposure.certified(**self._asked).account

    @cached_property
    def unconditional(self) -> Account:
        """Local DP over the rounds so far."""
        return self.plan.exposure.everyone(**self._asked)

    @property
    def _asked(self) -> dict[str, Any]:
        return {
            "noise_multiplier": self.plan.noise_multiplier,
            "delta": self.plan.recipe.target_delta,
            "rounds": self.rounds,
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class ModuleRun:
    """A finished run: `models`, one module a node, with what it cost and how it went, as `Run` has it."""

    models: tuple[nn.Module, ...]
    run: Run

    @property
    def account(self) -> Account:
        """What is certified of the worst pair in the view that was chosen."""
        return self.run.account

    @property
    def unconditional(self) -> Account:
        """Local DP, which holds whoever sees whatever."""
        return self.run.unconditional

    @property
    def epsilon(self) -> Interval:
        """ε of the view over all rounds, under the assumption of `account`."""
        return self.run.epsilon

    @property
    def history(self) -> History:
        """What was measured on the way; losses are means over the records of each round, at their nodes' models."""
        return self.run.history

    def __repr__(self) -> str:
        """As the run."""
        return repr(self.run)


class Training:
    """A run of a module, one `step` at a time; made by `begin`."""

    def __init__(self, chosen: Plan, keys: NDArray[np.uint64], resume: Run | None) -> None:
        """A run of a plan from its start, or from where it was left."""
        self.plan, self.loss, self._keys = chosen, _loss(chosen.task), keys
        self._descent = chosen.descent(drawn_by(keys, chosen.task.dimension, seeded=chosen.seeded))
        start = init(self._descent)
        if resume is not None:
            _check_state(resume, start)
        fresh = Begun(start, None, History.empty(), 0)
        self._begun = fresh if resume is None or resume.state.round == 0 else taken_up(self._descent, resume)
        self._accountant = Accountant(plan=chosen, rounds=self.round)

    @property
    def round(self) -> int:
        """How many rounds are done."""
        return self._begun.state.round

    @property
    def rounds(self) -> int:
        """How many rounds there are."""
        return self.plan.protocol.rounds

    @property
    def accountant(self) -> Accountant:
        """What the rounds so far have given away."""
        if self._accountant.rounds != self.round:
            self._accountant = Accountant(plan=self.plan, rounds=self.round)
        return self._accountant

    @property
    def models(self) -> tuple[nn.Module, ...]:
        """The model that each node has now, as a module of its own."""
        models = self._begun.state.models
        return tuple(filled(self.loss.module, self.loss.layout, model) for model in models)

    @property
    def run(self) -> Run:
        """The run as it stands; without the keys of its noise once it is finished."""
        found = unfinished(self.plan, self._begun, self._keys)
        return replace(found, keys=None, before=None) if found.finished else found

    def step(self) -> Info:
        """One round: clipped gradients at every site, noise, messages, sums.

        What it returns is for whoever simulates all sites; of it only messages are private, as the account says.
        """
        begun = self._begun
        state, info = step(self._descent, begun.state)
        refuse_runaway(state, info.step, None, np.inf)
        history = begun.history
        if state.round % max(1, self.rounds // MOMENTS) == 0 or state.round == self.rounds:
            loss = np.nan if info.loss is None else info.loss
            spent = self.plan.spent(state.round)
            history = history.extended(state.round, loss, info.consensus_distance, info.clipped, *spent)
        self._begun = Begun(state, begun.state.registers, history, begun.zeroed + info.zeroed)
        return info

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a checkpoint; with it `begin(…, resume=path)` goes on."""
        return write_checkpoint(self.run, self.loss, path)

    def result(self) -> ModuleRun:
        """The finished run with its final measurements, which are not private."""
        if self.round < self.rounds:
            raise InputError(
                f"a run has a result when all of its {self.rounds} rounds are done; {self.round} are (step on)"
            )
        return ModuleRun(models=self.models, run=measured(self.plan.task, self.run))


def begin(
    module: nn.Module,
    criterion: Callable[[Any, Any], Any],
    sites: Iterable[Any],
    question: Scenario | Protocol | Any,  # noqa: ANN401 - or whatever a graph is given as
    *,
    resume: str | os.PathLike[str] | None = None,
    **words: Unpack[ModuleWords],
) -> Training:
    """A training run before its first round, or where a checkpoint left it; arguments as in `train_module`.

    >>> from torch import nn, rand
    >>> from torch.utils.data import TensorDataset
    >>> sites = [TensorDataset(rand(20, 3), rand(20, 1)) for _ in range(4)]
    >>> words = dict(shard_size=20, rounds=5, view="secure-sum", noise_multiplier=2.0, step=0.1)
    >>> training = begin(nn.Linear(3, 1), nn.functional.mse_loss, sites, "complete:n=4", **words)
    >>> info = training.step()
    >>> training.round, round(training.accountant.epsilon(1e-5), 3), training.plan.account.assumption
    (1, 1.085, 'none')
    """
    given: dict[str, Any] = dict(words)
    seed, sampling = given.pop("seed", None), given.pop("sampling", None)
    asked = _question(question, given.pop("rounds", None))
    own = {name: given.pop(name) for name in _TaskWords.__annotations__ if name in given}
    task = module_task(module, criterion, sites, **own)
    given |= _batches(task, sampling, given)
    found = None if resume is None else read_checkpoint(resume)
    chosen = plan(task, asked, calibrated=None if found is None else found.noise_multiplier, **given)
    if found is None:
        keys = fresh_keys(chosen.protocol.n, seed)
        return Training(replace(chosen, seeded=seed is not None), keys, None)
    chosen = replace(chosen, seeded=found.seeded)
    claimed = _claimed(chosen, found)
    check_resumable(claimed, chosen, seed)
    return Training(chosen, kept_keys(claimed), claimed)


def train_module(
    module: nn.Module,
    criterion: Callable[[Any, Any], Any],
    sites: Iterable[Any],
    question: Scenario | Protocol | Any,  # noqa: ANN401
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    resume: bool = False,
    progress: Callable[[Moment], None] | None = None,
    **words: Unpack[ModuleWords],
) -> ModuleRun:
    """Train a PyTorch module on the records of all sites, by private gradients and gossip, and say what that costs.

    Args:
        module: any `torch.nn.Module` whose layers go through records one by one; others are refused by name.
        criterion: `criterion(output, target)` for a batch of one record.
        sites: a `Dataset` or `DataLoader` for each node, in the order of the nodes.
        question: the protocol that nodes follow, a `Scenario` of it, or a graph, with Metropolis weights and `rounds`.
        checkpoint: a file ending in .pt, written before the first round, on the way, when interrupted and at the end.
        checkpoint_every: how many rounds lie between two checkpoints; a tenth of the run if None.
        resume: go on from that file, bit for bit as if nothing had happened.
        progress: called after each round that is measured.
        words: as in `ModuleWords`, such as `shard_size`, `view`, `target_epsilon`, `step` and `clip`.

    Guarantee: as for `train`. Of a module nothing is known, unless a smoothness is declared, so the account of a view
    other than everyone's holds for any maps whatever: nodes that a sum cannot tell apart hide each other, and elsewhere
    it is local DP; assumption `none`.
    Source: Corollary 3 of docs/training.md.

    >>> from torch import nn, rand
    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> loaders = [DataLoader(TensorDataset(rand(20, 3), rand(20, 1)), batch_size=5) for _ in range(4)]
    >>> words = dict(shard_size=20, rounds=8, view="secure-sum", target_epsilon=4.0, step=0.1)
    >>> run = train_module(nn.Linear(3, 1), nn.functional.mse_loss, loaders, "complete:n=4", **words)
    >>> len(run.models), run.account.participation, run.account.assumption, run.account.epsilon().upper <= 4
    (4, 'epochs:4', 'none', True)
    """
    if resume and checkpoint is None:
        raise InputError("resume needs the file to go on from (give its name as checkpoint)")
    if checkpoint is not None and not resume:
        check_fresh(checkpoint)
    training = begin(module, criterion, sites, question, resume=checkpoint if resume else None, **words)
    every = max(1, training.rounds // 10) if checkpoint_every is None else checkpoint_every
    at_least(1, checkpoint_every=every)
    if checkpoint is not None:
        # A loss that cannot be told from others could not go on.
        loss_fingerprint(training.loss)
        training.save(checkpoint)
    try:
        while training.round < training.rounds:
            training.step()
            if checkpoint is not None and training.round % every == 0:
                training.save(checkpoint)
            if progress is not None:
                _tell(training, progress)
    except KeyboardInterrupt:
        if checkpoint is not None:
            training.save(checkpoint)
        raise
    found = training.result()
    if checkpoint is not None:
        write_checkpoint(found.run, training.loss, checkpoint)
    return found


def _tell(training: Training, progress: Callable[[Moment], None]) -> None:
    """Tell a watcher what was measured last, if that was in this round."""
    last = training.run.history
    if last.rounds.size and last.rounds[-1] == training.round:
        values = (
            column[-1] for column in (last.loss, last.consensus_distance, last.epsilon, last.unconditional)
        )
        progress(Moment(training.round, training.rounds, *map(float, values)))


def _question(question: Any, rounds: int | None) -> Scenario | Protocol:  # noqa: ANN401
    """The question itself, or plain gossip on a graph."""
    if isinstance(question, Scenario | Protocol):
        if rounds is not None:
            raise InputError(f"rounds are those of the protocol; got {rounds!r} beside it (leave it out)")
        return question
    if rounds is None:
        raise InputError("rounds must be given with a graph (as in rounds=50, or give a protocol)")
    return gossip(metropolis_weights(question), rounds=rounds)


def _batches(task: Task, sampling: Sampling | None, given: dict[str, Any]) -> dict[str, Any]:
    """How records take part, from the size of the loaders' batches."""
    size, nominal = _loss(task).records.batch_size, task.shards.nominal
    words = [name for name in ("batches", "batch_fraction") if name in given]
    if size is None:
        if sampling is not None:
            raise InputError(
                f"sampling is about batches of loaders; got {sampling!r} with data sets (give loaders with a "
                "batch_size, or batches or batch_fraction)"
            )
        return {}
    if words:
        raise InputError(
            f"batches follow from the loaders' batch_size, {size}; got {' and '.join(words)} beside it (give data sets "
            "in place of loaders)"
        )
    one_of(SAMPLINGS, sampling=sampling or "epochs")
    if size >= nominal:
        return {}
    return {"batch_fraction": size / nominal} if sampling == "poisson" else {"batches": -(-nominal // size)}


def _loss(task: Task) -> ModuleLoss:
    """The loss of a module's task."""
    if not isinstance(task.loss, ModuleLoss):
        raise InputError(f"the task must be that of a module; got the loss {task.loss.name}")
    return task.loss


def _claimed(chosen: Plan, found: Checkpoint) -> Run:
    """What a checkpoint claims as a run, with the accounts of the plan; refused if it cannot be of this protocol."""
    there, here = found.settings.get("protocol_hash"), chosen.settings.get("protocol_hash")
    if there != here:
        raise InputError(
            f"a run is continued with the protocol it began with; its hash is {there!r}, and that of the one asked for "
            f"is {here!r} (ask for that protocol, or start a new run)"
        )
    return Run(
        settings=found.settings,
        rounds=found.rounds,
        cut=chosen.cut,
        state=found.state,
        before=found.before,
        history=found.history,
        zeroed=found.zeroed,
        noise_multiplier=found.noise_multiplier,
        noise_std=chosen.noise_std,
        account=chosen.account,
        unconditional=chosen.unconditional,
        seeded=found.seeded,
        keys=found.keys,
    )


def _check_state(resume: Run, start: State) -> None:
    """Refuse a state that no run of this module and protocol can be in."""
    there, here = resume.state.registers.shape, start.registers.shape
    if there != here:
        raise InputError(
            f"a checkpoint must hold what this protocol keeps, {here[0]} × {here[1]} nodes × {here[2]} parameters; got "
            f"{' × '.join(map(str, there))} (give the checkpoint of this run)"
        )
    if not np.array_equal(resume.state.start, start.start):
        raise InputError(
            "a run is continued with the module it began with, and the parameters that all nodes started from are "
            "others in the checkpoint (give the module as it was before the first round)"
        )
