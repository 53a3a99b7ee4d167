# SPDX-License-Identifier: Apache-2.0
"""`Run` and `History`: what training leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sottovoce.accounting import raised_epsilon
from sottovoce.errors import InputError
from sottovoce.interval import Interval, both_ends, rounded_up
from sottovoce.learning.descent import consensus_distance
from sottovoce.markup import shown
from sottovoce.rounding import roundings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sottovoce.accounting import Account, AccountTable
    from sottovoce.learning.descent import State
    from sottovoce.learning.tasks import Task

__all__ = ["History", "Run", "check_parts", "is_local", "measured", "shown_epsilons"]

# Whence noise, coins and orders come, by whether a run has a seed; every output says it.
_RANDOMNESS = {
    True: "a seed, for simulations: whoever knows it can take the noise away",
    False: "the system's cryptographic generator, which gives each node a key of its own",
}


class History(NamedTuple):
    """What was measured after some of the rounds, one entry each.

    `epsilon` is what the view had cost by then, under the assumption of its account, and `unconditional` what holds
    without any. `accuracy` is that of the mean model on held-out records, NaN where there is none.
    """

    rounds: NDArray[np.int64]
    loss: NDArray[np.float64]
    consensus_distance: NDArray[np.float64]
    clipped: NDArray[np.float64]
    epsilon: NDArray[np.float64]
    unconditional: NDArray[np.float64]
    accuracy: NDArray[np.float64]

    @classmethod
    def empty(cls) -> History:
        """Nothing yet."""
        none = np.zeros(0)
        return cls(np.zeros(0, dtype=np.int64), none, none, none, none, none, none)

    def extended(self, *values: float) -> History:
        """With the entries of one more round."""
        return History._make(np.append(column, value) for column, value in zip(self, values, strict=True))


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """A training run with its account; unfinished if `state.round` is below `rounds`.

    `account` is what is certified of the worst pair in the view that was chosen, under the assumption it names (`table`
    has all pairs, unless the run was read from a file); `unconditional` is local DP, which holds whoever sees whatever.
    `averaging`, if it was asked for, is no guarantee for training: it takes it that no gradient depends on a model.

    `loss`, `excess_risk` and `accuracy` are those of the mean of the nodes' models, `node_accuracies` (worst, mean)
    those of the models themselves, and `average_excess_risk` that of the average over rounds; None where they are not
    defined. They are measured without noise and are not private.

    `keys` are those of the noise while the run is unfinished: whoever has them can take the noise away, and so can
    whoever knows the seed of a run that is `seeded`. `before` holds the registers before the last round, by which a run
    that goes on checks that it repeats itself.

    `zeroed` says how many gradients of single records were not finite and counted as zero, over all rounds. It is for
    whoever holds the data: no output shows it, as one record more would show there.
    """

    settings: Mapping[str, Any]
    rounds: int
    cut: bool
    state: State
    history: History
    noise_multiplier: float
    noise_std: float
    account: Account
    unconditional: Account
    averaging: Account | None = None
    table: AccountTable | None = None
    seeded: bool = False
    keys: NDArray[np.uint64] | None = None
    before: NDArray[np.float64] | None = None
    zeroed: int = 0
    loss: float | None = None
    excess_risk: float | None = None
    average_excess_risk: float | None = None
    accuracy: float | None = None
    node_accuracies: tuple[float, float] | None = None

    def _repr_html_(self) -> str:
        """What a notebook shows: both numbers, the one without assumption too, and what was measured."""
        measured = (("loss", self.loss), ("accuracy", self.accuracy))
        rows = [
            (
                f"ε of the view {self.account.view}, assuming {self.account.assumption}",
                both_ends(self.epsilon),
            ),
            ("ε without any assumption (local DP)", both_ends(self.unconditional.epsilon())),
            ("rounds", f"{self.state.round} of {self.rounds}"),
            ("noise multiplier", rounded_up(self.noise_multiplier, 6)),
            *((name, f"{value:.4g}") for name, value in measured if value is not None),
            ("noise", self.randomness),
        ]
        note = "Loss and accuracy are measured without noise and are not private."
        return shown(f"A run: ε ≤ {rounded_up(self.epsilon.upper)} in the view", ("", ""), rows, [note])

    def as_proved(self, table: AccountTable) -> Run:
        """The run as certificates prove its pairs: `table` holds what these claim of the worst, where that is more.

        Guarantee: upper ends stay upper ends, and none is below what follows from `table`; the line of ε before the
        last round is raised by the same share of Δ², and is nowhere above local DP.
        """
        said, worst = self.account.sensitivity_squared, table.worst()
        claimed = worst.sensitivity_squared
        if said is None or claimed is None or claimed.upper <= said.upper or self.account.coins is not None:
            return self
        account = replace(self.account, mu=worst.mu, sensitivity_squared=claimed)
        share, delta = claimed.upper / said.upper * (1 + roundings(2)), float(self.settings["target_delta"])
        line = np.array([raised_epsilon(float(each), delta, share) for each in self.history.epsilon])
        line = np.minimum(line, self.history.unconditional)
        found = replace(self, account=account)
        if self.finished and line.size:
            line[-1] = found.epsilon.upper
        return replace(found, history=self.history._replace(epsilon=line))

    @property
    def finished(self) -> bool:
        """Whether all rounds are done."""
        return self.state.round >= self.rounds

    @property
    def model(self) -> NDArray[np.float64]:
        """The mean of the nodes' models."""
        return np.asarray(self.state.models.mean(axis=0))

    @property
    def consensus_distance(self) -> float:
        """The root mean square distance of the nodes' models from their mean."""
        return consensus_distance(self.state.models)

    @property
    def randomness(self) -> str:
        """Whence its noise, coins and orders come, as every output says it."""
        return _RANDOMNESS[self.seeded]

    @property
    def one_number(self) -> bool:
        """Whether the account of the view is local DP itself, so that there is one number to show."""
        return is_local(self.account, self.unconditional)

    @property
    def epsilon(self) -> Interval:
        """ε of the view over all rounds, under the assumption of `account`: what every output shows.

        Noise that was chosen for a target proves at most that target, which is then the upper end.

        Guarantee: the upper end holds for all rounds that were planned, under that assumption; the lower one is that of
        the account.
        """
        return shown_epsilons(self.account, self.unconditional, self.settings["target_epsilon"])[0]

    @property
    def unconditional_epsilon(self) -> Interval:
        """ε over all rounds whoever sees whatever, without any assumption: what every output shows beside `epsilon`.

        Guarantee: the upper end holds for all rounds that were planned, whatever gradients depend on.
        """
        return shown_epsilons(self.account, self.unconditional, self.settings["target_epsilon"])[1]

    def __repr__(self) -> str:
        """Task, rounds, and ε of the view and of everyone's."""
        shown = f"ε ≤ {rounded_up(self.unconditional_epsilon.upper)}"
        if not self.one_number:
            rests = f"{self.account.view}, {self.account.assumption}"
            shown = f"ε ≤ {rounded_up(self.epsilon.upper)} ({rests}), {shown} (local DP)"
        seeded = ", a simulation by a seed" if self.seeded else ""
        return f"Run({self.settings['task']}, {self.state.round} of {self.rounds} rounds, {shown}{seeded})"


def check_parts(
    state: State,
    rounds: int,
    before: NDArray[np.float64] | None,
    keys: NDArray[np.uint64] | None,
    history: History,
) -> None:
    """Refuse parts of a run, as a file holds them, that cannot be of one run."""
    shape, done = state.registers.shape, state.round
    fits = len(shape) == 3 and shape[0] > 0 and state.start.shape == state.average.shape == shape[2:]
    if not fits or any(part.dtype != np.float64 for part in state[1:]):
        raise InputError("its models and their average do not fit each other")
    if not 0 <= done <= rounds or (keys is None) != (done == rounds):
        raise InputError("its round and its keys do not fit each other")
    if keys is not None and (keys.shape != (shape[1], 2) or keys.dtype != np.uint64):
        raise InputError("its keys are not two 64-bit numbers for each node")
    if (before is None) != (done in {0, rounds}) or (before is not None and before.shape != shape):
        raise InputError("its round and the models before it do not fit each other")
    if before is not None and before.dtype != np.float64:
        raise InputError("the models before its round are not floating-point numbers")
    length = history.rounds.shape
    if len(length) != 1 or history.rounds.dtype != np.int64:
        raise InputError("its history does not name rounds")
    if any(column.shape != length or column.dtype != np.float64 for column in history[1:]):
        raise InputError("its history has not one number for each of the rounds that it names")


def shown_epsilons(
    account: Account, unconditional: Account, target: float | None
) -> tuple[Interval, Interval]:
    """ε of a run's view and of everyone's, for every output: with a target that noise was chosen for, the target.

    Guarantee: the upper ends hold. Noise is chosen so that what is proved is at most the target; showing the target
    spares a reader 3.99999999999994, and each output its own way of rounding that.
    """
    found, everyone = account.epsilon(), unconditional.epsilon()
    if target is not None and found.upper <= target:
        found = Interval(found.lower, target)
    return found, found if is_local(account, unconditional) else everyone


def is_local(account: Account, unconditional: Account) -> bool:
    """Whether an account is local DP: every message counts as seen, and nobody knows a draw that would say more."""
    seen = account.view == "everyone" or account.method == "amplified"
    return seen and unconditional.mu.upper <= account.mu.upper


def measured(task: Task, run: Run) -> Run:
    """The run with its final measurements."""
    best = task.optimum
    loss = task.risk(run.model)
    accuracies = [task.accuracy(model) for model in run.state.models]
    known = [value for value in accuracies if value is not None]
    return replace(
        run,
        loss=None if np.isnan(loss) else loss,
        excess_risk=None if best is None else loss - best.risk,
        average_excess_risk=None if best is None else task.risk(run.state.average) - best.risk,
        accuracy=task.accuracy(run.model),
        node_accuracies=(min(known), float(np.mean(known))) if known else None,
    )
