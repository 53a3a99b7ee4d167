# SPDX-License-Identifier: Apache-2.0
"""`Recipe`: how a task is trained. What is asked about the run beside it is a `Scenario`, as everywhere."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from sottovoce.errors import InputError, at_least, one_of, positive, probability
from sottovoce.learning.descent import AVERAGES, UNITS, check_batches, check_fraction
from sottovoce.scenarios import EffortWords, Scenario, asked

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from sottovoce.learning.descent import Unit, Weighting
    from sottovoce.learning.schedules import Schedule
    from sottovoce.protocols import Protocol
    from sottovoce.scenarios import Effort, Relation
    from sottovoce.views import OwnNoise, View

__all__ = ["Recipe", "TrainingWords", "planned"]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a task is trained: noise, or the ε that it is chosen for, steps, clipping and batches.

    Args:
        noise_multiplier: σ over the sensitivity of a node's gradient; give it or `target_epsilon`.
        target_epsilon: the ε, at `target_delta`, that the worst pair in the view is to have over all rounds.
        target_delta: the δ of the account.
        step: the step size or `Schedule`; by default 1 over twice a bound of the smoothness that needs no data.
        clip: the norm to which each record's gradient is clipped, or each node's with `unit="node"`.
        unit: whether one record or all of a node's data is protected.
        batch_fraction: with which probability a record takes part in a round, by a secret coin of its own.
        batches: how many rounds make an epoch, in which a record takes part once, in an order that is secret.
        local_steps: how many steps a node takes between two messages; noise is added to what they make together.
        weighting: how the averaged model weighs the rounds, "uniform" or "linear".
        max_epsilon: stop before the round that would exceed this ε; that round follows from public numbers alone.
        averaging: also say what averaging would give away, if no gradient depended on a model: for comparison only.
    """

    noise_multiplier: float | None = None
    target_epsilon: float | None = None
    target_delta: float = 1e-5
    step: Schedule | float | str | None = None
    clip: float = 1.0
    unit: Unit = "record"
    batch_fraction: float = 1.0
    batches: int = 1
    local_steps: int = 1
    weighting: Weighting = "uniform"
    max_epsilon: float | None = None
    averaging: bool = False

    def __post_init__(self) -> None:
        """Refuse numbers that make no run, and noise that is given twice or not at all."""
        probability(target_delta=self.target_delta)
        if (self.noise_multiplier is None) == (self.target_epsilon is None):
            got = "neither" if self.noise_multiplier is None else "both"
            raise InputError(
                f"noise_multiplier must be given, or else a target ε that it is chosen for; got {got} (give one of "
                "them)"
            )
        if self.max_epsilon is not None and self.target_epsilon is not None:
            raise InputError(
                "max_epsilon must be left out where noise is chosen for a target ε, which it keeps to over all rounds "
                f"anyway; got {self.max_epsilon!r} (give one of them)"
            )
        for name in ("noise_multiplier", "target_epsilon", "max_epsilon"):
            if getattr(self, name) is not None:
                positive(**{name: getattr(self, name)})
        positive(clip=self.clip)
        one_of(UNITS, unit=self.unit)
        check_fraction(self.batch_fraction)
        check_batches(self.batches, self.batch_fraction, self.unit)
        at_least(1, local_steps=self.local_steps)
        one_of(AVERAGES, weighting=self.weighting)

    @classmethod
    def of_run(cls, settings: Mapping[str, Any]) -> Recipe:
        """The recipe of which a run keeps these settings, but for its steps."""
        names = {field.name for field in fields(cls)} - {"step"}
        return cls(**{name: settings[name] for name in names & set(settings)})

    @property
    def settings(self) -> dict[str, object]:
        """What a run keeps of it, besides its steps."""
        numbers = (
            "noise_multiplier",
            "target_epsilon",
            "target_delta",
            "max_epsilon",
            "clip",
            "batch_fraction",
        )
        kept = {name: getattr(self, name) for name in numbers}
        return {
            **{name: None if value is None else float(value) for name, value in kept.items()},
            "batches": int(self.batches),
            "local_steps": int(self.local_steps),
            "unit": self.unit,
            "weighting": self.weighting,
        }


class _SeenWords(EffortWords, total=False):
    relation: Relation
    own_noise: OwnNoise | None
    observers: Iterable[Hashable] | None


class TrainingWords(_SeenWords, total=False):
    """The words of `plan` and `train`: fields of `Recipe`, and of the question in `sottovoce.scenarios.Words` these.

    Args:
        view: what the account is about, and what noise is calibrated to: "everyone" (the default), "neighbourhood",
            "secure-sum", "single-node" (every observer in turn), or a `View`.
        relation: how neighbouring inputs differ.
        own_noise: with a name, whether an observer knows the noise it drew.
        observers: with a name, which nodes observe; all if None.
        engine, effort, tolerance: what may be spent on the accounts, as in `sottovoce.scenarios.EffortWords`.
    """

    view: View | str
    noise_multiplier: float | None
    target_epsilon: float | None
    target_delta: float
    step: Schedule | float | str | None
    clip: float
    unit: Unit
    batch_fraction: float
    batches: int
    local_steps: int
    weighting: Weighting
    max_epsilon: float | None
    averaging: bool


def planned(
    question: Scenario | Protocol, recipe: Recipe | None, words: TrainingWords
) -> tuple[Scenario, Recipe, Effort]:
    """The scenario, the recipe and the effort that the arguments of `plan` and `train` mean."""
    names = {field.name for field in fields(Recipe)}
    own = {name: value for name, value in words.items() if name in names}
    rest = {name: value for name, value in words.items() if name not in names and name != "view"}
    usual = None if isinstance(question, Scenario) else "everyone"
    scenario, effort = asked(question, words.get("view", usual), rest, _SeenWords)
    if recipe is None:
        return scenario, Recipe(**own), effort  # type: ignore[arg-type]
    if own:
        raise InputError(
            f"a Recipe says all about the training; got {', '.join(own)} beside it (write them into the recipe)"
        )
    return scenario, recipe, effort
