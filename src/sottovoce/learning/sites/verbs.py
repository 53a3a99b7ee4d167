# SPDX-License-Identifier: Apache-2.0
"""`train_module`, a whole run of a PyTorch module over many sites, and `begin`, from which it goes round by round."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from sottovoce.errors import InputError, at_least, one_of
from sottovoce.graphs import metropolis_weights
from sottovoce.learning.fingerprints import loss_fingerprint
from sottovoce.learning.noise import fresh_keys
from sottovoce.learning.plans import plan
from sottovoce.learning.recipes import TrainingWords
from sottovoce.learning.results import Run
from sottovoce.learning.sites.checkpoints import check_fresh, read_checkpoint, write_checkpoint
from sottovoce.learning.sites.tasks import module_task
from sottovoce.learning.sites.training import Training, module_loss
from sottovoce.learning.training import Moment, check_resumable, kept_keys
from sottovoce.protocols import Protocol, gossip
from sottovoce.scenarios import Scenario

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    from torch import device as Device  # noqa: N812 - it stands for a type
    from torch import nn

    from sottovoce.learning.plans import Plan
    from sottovoce.learning.sites.checkpoints import Checkpoint
    from sottovoce.learning.sites.training import ModuleRun
    from sottovoce.learning.tasks import Task

__all__ = ["ModuleWords", "begin", "train_module"]

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
    size, nominal = module_loss(task).records.batch_size, task.shards.nominal
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
