# SPDX-License-Identifier: Apache-2.0
"""`Question`: what a frontier is of, and the parts that its work is cut into."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from sottovoce.errors import InputError, at_least, one_of, positive, probability
from sottovoce.learning import Data, Schedule, Task, plan, task_from
from sottovoce.protocols import parse_protocol
from sottovoce.views import ONE_OBSERVER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sottovoce.graphs import GossipWeights
    from sottovoce.protocols import Protocol
    from sottovoce.scenarios import Relation

__all__ = ["STEPS", "TUNING_SHARE", "Part", "Question", "fingerprint_of"]

STEPS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""The steps that are tried, in units of 1/L, L being the public smoothness of the loss."""


# Of records that steps are chosen on, half are there to score them.
TUNING_SHARE = 0.5


class Part(NamedTuple):
    """One piece of the work: the noise of an arm at a step, the runs of an arm or of a server at an ε, or no noise."""

    kind: Literal["noise", "runs", "central", "silent"]
    network: str
    protocol: str = ""
    view: str = ""
    epsilon: float = 0.0
    step: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """What a frontier is of.

    Args:
        data: records with classes, which stand for those that are to be protected.
        networks: gossip weights by the name of their network; each holds the records on nodes of its own.
        rounds: T, of every run.
        epsilons: the ε that noise is chosen for, each in the view of its arm.
        views: "everyone", "neighbourhood", "secure-sum", "single-node": every observer in turn.
        protocols: as `parse_protocol` reads them.
        delta: the δ of every ε.
        repeats: how many runs a point has; each deals the records anew, and draws noise of its own.
        relation: how neighbouring inputs differ.
        step: one step size or schedule for all, as `Schedule.parse` reads it; if None one of `steps` is chosen.
        steps: those to choose from, in units of 1/L.
        tune_on: public records to choose on; synthetic ones of the same shape if None.
        l2, nominal, skew, test_share, clip: as in `sottovoce.learning.task_from`.
    """

    data: Data
    networks: Mapping[str, GossipWeights]
    rounds: int
    epsilons: tuple[float, ...]
    views: tuple[str, ...] = ("everyone", "secure-sum")
    protocols: tuple[str, ...] = ("gossip",)
    delta: float = 1e-5
    repeats: int = 5
    relation: Relation = "add-remove"
    step: str | None = None
    steps: tuple[float, ...] = STEPS
    tune_on: Data | None = None
    l2: float = 1e-3
    nominal: int | None = None
    skew: float | None = None
    test_share: float = 0.2
    clip: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what makes no frontier, before any work is done."""
        probability(delta=self.delta)
        at_least(1, rounds=self.rounds, repeats=self.repeats)
        for name in ("networks", "epsilons", "views", "protocols", "steps"):
            values = list(getattr(self, name))
            if not values or len(set(values)) < len(values):
                raise InputError(
                    f"{name} must name at least one, each of them once; got {values} (name what is to be compared)"
                )
        for epsilon in self.epsilons:
            positive(epsilons=epsilon)
        for step in self.steps:
            positive(steps=step)
        for view in self.views:
            one_of(("everyone", *ONE_OBSERVER), views=view)
        if not self.data.classes:
            raise InputError(
                f"{self.data.name}: a frontier shows accuracy, so labels must be classes; these are numbers (train on "
                "them, and compare losses)"
            )
        if not self.test_share > 0:
            raise InputError(
                f"test_share must lie in (0, 1) where accuracy is measured; got {self.test_share!r} (hold some out)"
            )
        self._check_tuning()
        for network in self.networks:
            task = self.task(network, 0)
            for protocol in self.protocols:
                # All that training refuses, it refuses here.
                schedules = self.schedules(task)
                plan(task, self.protocol(network, protocol), noise_multiplier=1.0, step=schedules[0])

    def _check_tuning(self) -> None:
        """Refuse to choose a step on what is to be protected, or on nothing that can be scored."""
        if self.tune_on is None:
            return
        if not self.tune_on.classes:
            raise InputError(
                f"tune_on must have classes, by which steps are scored; {self.tune_on.name} has numbers (take others)"
            )
        if fingerprint_of(self.tune_on) == fingerprint_of(self.data):
            raise InputError(
                f"tune_on must be other records than those to be protected; got {self.tune_on.name} for both (name "
                "public data, or leave it out: synthetic ones are made)"
            )
        if self.step is not None:
            raise InputError(
                f"step and tune_on say two things about the step; got {self.step!r} and {self.tune_on.name} (leave "
                "one of them out)"
            )

    @property
    def tuning(self) -> str:
        """In one sentence, who had a say in the step."""
        if self.step is not None:
            return f"The step {self.step} was given, and not chosen by the records."
        tried = ", ".join(f"{value:g}" for value in self.steps)
        told = (
            "synthetic records of the same shape"
            if self.tune_on is None
            else f"{self.tune_on.name}, public records"
        )
        if len(self.steps) == 1:
            return f"The step {tried}/L was given, and not chosen by the records."
        return (
            f"The step of each point was chosen among {tried} times 1/L on {told}, with the noise of that point; the "
            "records themselves had no say in it."
        )

    def task(self, network: str, repeat: int) -> Task:
        """The task on a network, records dealt by the number of the repeat."""
        return self._of(self.data, network, repeat, self.nominal, self.test_share)

    def tuning_task(self, network: str, data: Data, repeat: int) -> Task:
        """The same on records to choose on, of which so many may be at a node as there are."""
        return self._of(data, network, repeat, -(-data.records // self.networks[network].n), TUNING_SHARE)

    def _of(self, data: Data, network: str, repeat: int, nominal: int | None, test_share: float) -> Task:
        return task_from(
            data,
            self.networks[network].n,
            l2=self.l2,
            nominal=nominal,
            skew=self.skew,
            test_share=test_share,
            split_seed=repeat,
            clip=self.clip,
        )

    def protocol(self, network: str, protocol: str) -> Protocol:
        """A protocol on a network."""
        return parse_protocol(protocol, self.networks[network], rounds=self.rounds)

    def schedules(self, task: Task) -> tuple[Schedule, ...]:
        """The steps that may be taken on a task, from public numbers alone."""
        if self.step is not None:
            return (Schedule.parse(self.step),)
        smoothness = task.public_smoothness
        assert smoothness is not None
        return tuple(Schedule(size=float(f"{value / smoothness:.3g}")) for value in self.steps)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """All parts: those of noise first, as runs need them."""
        count = 1 if self.step is not None else len(self.steps)
        arms = [(n, p, v) for n in self.networks for p in self.protocols for v in self.views]
        return (
            *(Part("noise", *arm, step=step) for arm in arms for step in range(count)),
            *(Part("silent", n, p) for n in self.networks for p in self.protocols),
            *(Part("central", n, epsilon=epsilon) for n in self.networks for epsilon in self.epsilons),
            *(Part("runs", *arm, epsilon=epsilon) for arm in arms for epsilon in self.epsilons),
        )

    @cached_property
    def settings(self) -> dict[str, object]:
        """All that shapes the answer, as JSON holds it: work is continued with nothing else."""
        return {
            "data": self.data.name,
            "records": fingerprint_of(self.data),
            "networks": {name: weights.hash for name, weights in self.networks.items()},
            "protocols": list(self.protocols),
            "programs": [
                self.protocol(network, protocol).hash
                for network in self.networks
                for protocol in self.protocols
            ],
            "views": list(self.views),
            "epsilons": [float(value) for value in self.epsilons],
            **{name: float(getattr(self, name)) for name in ("delta", "l2", "test_share", "clip")},
            "rounds": int(self.rounds),
            "repeats": int(self.repeats),
            "relation": self.relation,
            "step": self.step,
            "steps": [float(value) for value in self.steps],
            "tune_on": None if self.tune_on is None else fingerprint_of(self.tune_on),
            "nominal": None if self.nominal is None else int(self.nominal),
            "skew": None if self.skew is None else float(self.skew),
        }


def fingerprint_of(data: Data) -> str:
    """SHA-256 of records and labels."""
    digest = hashlib.sha256(f"{data.features.shape} {data.classes}".encode())
    for part in (data.features, data.labels.astype(np.float64)):
        digest.update(np.ascontiguousarray(part, dtype="<f8").tobytes())
    return digest.hexdigest()
