# SPDX-License-Identifier: Apache-2.0
"""`Training`: a run of a module one round at a time, and `ModuleRun`, what is left of it in the end."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import InputError
from sottovoce.learning.descent import init, step
from sottovoce.learning.noise import drawn_by
from sottovoce.learning.results import History, Run, measured
from sottovoce.learning.sites.accountants import Accountant
from sottovoce.learning.sites.checkpoints import write_checkpoint
from sottovoce.learning.sites.losses import ModuleLoss
from sottovoce.learning.sites.modules import filled
from sottovoce.learning.training import MOMENTS, Begun, refuse_runaway, taken_up, unfinished

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import nn

    from sottovoce.accounting import Account
    from sottovoce.interval import Interval
    from sottovoce.learning.descent import Info, State
    from sottovoce.learning.plans import Plan
    from sottovoce.learning.tasks import Task

__all__ = ["ModuleRun", "Training", "module_loss"]


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
        self.plan, self.loss, self._keys = chosen, module_loss(chosen.task), keys
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
            history = history.extended(
                state.round, loss, info.consensus_distance, info.clipped, *spent, math.nan
            )
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


def module_loss(task: Task) -> ModuleLoss:
    """The loss of a module's task."""
    if not isinstance(task.loss, ModuleLoss):
        raise InputError(f"the task must be that of a module; got the loss {task.loss.name}")
    return task.loss


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
