# SPDX-License-Identifier: Apache-2.0
"""`Frontier`: accuracies against ε, with what noise, steps and numbers rest on."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from sottovoce.markup import shown
from sottovoce.views import Assumption  # noqa: TC001 - forms read these annotations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sottovoce.frontiers.questions import Part, Question
    from sottovoce.frontiers.work import Noise, Runs

__all__ = ["Arm", "Frontier", "Point", "assembled"]


@dataclass(frozen=True, kw_only=True)
class Point:
    """Accuracy at one ε: mean and standard deviation over the repeats, of the mean model.

    `node_accuracy` is that of the nodes' own models on average. Without noise there is no ε. `local_epsilon` is what
    holds whoever sees whatever, `assumption` what `epsilon` rests on. `scores` are what the steps that were tried
    reached on the data that the step was chosen on. All accuracies are measured without noise and are not private.
    """

    epsilon: float | None
    accuracy: float
    deviation: float
    node_accuracy: float
    accuracies: tuple[float, ...]
    step: str
    scores: tuple[float, ...]
    noise_multiplier: float | None = None
    assumption: Assumption | None = None
    method: str | None = None
    local_epsilon: float | None = None


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One line of the picture: a network, a protocol and a view; None where a trusted server or no noise has none."""

    network: str
    protocol: str | None
    view: str | None
    points: tuple[Point, ...]


@dataclass(frozen=True, kw_only=True)
class Frontier:
    """Accuracy against ε: the arms, a trusted server's on the same records, and the same gossip without noise.

    `tuning` says in a sentence who had a say in the steps. `settings` are all that shapes the answer. `computed` and
    `kept` count the parts that were computed now, and those that were there.
    """

    arms: tuple[Arm, ...]
    central: tuple[Arm, ...]
    no_noise: tuple[Arm, ...]
    tuning: str
    settings: dict[str, Any]
    computed: int = 0
    kept: int = 0

    def _repr_html_(self) -> str:
        """What a notebook shows: a row for each line of the picture, a column for each ε."""
        columns = [f"ε = {point.epsilon:g}" for point in self.arms[0].points if point.epsilon is not None]
        rows = [
            (
                ", ".join(filter(None, (arm.network, arm.protocol, arm.view, kind))),
                *(f"{point.accuracy:.3f} ± {point.deviation:.3f}" for point in arm.points),
                *(point.assumption or "none" for point in arm.points[:1]),
            )
            for kind, arms in (("", self.arms), ("trusted server", self.central))
            for arm in arms
        ]
        return shown(
            "Accuracy against ε, mean ± standard deviation over the repeats",
            ("", *columns, "assumption"),
            rows,
            [self.tuning, "Accuracies are measured without noise and are not private."],
        )

    @property
    def networks(self) -> tuple[str, ...]:
        """The names of the networks."""
        return tuple(self.settings["networks"])


def assembled(
    question: Question, noise: Mapping[Part, Noise], runs: Mapping[Part, Runs], *, computed: int, kept: int
) -> Frontier:
    """The answer that the parts make together.

    Guarantee: every ε is the one that noise was calibrated to, an upper bound under the assumption of its point;
    accuracies are measured, and guarantee nothing.
    """

    def arms(kind: str) -> tuple[Arm, ...]:
        lines: dict[tuple[str, str, str], list[Point]] = {}
        for part, found in runs.items():
            if part.kind == kind:
                key = (part.network, part.protocol, part.view)
                lines.setdefault(key, []).append(_point(question, part, found, noise))
        return tuple(
            Arm(network=network, protocol=protocol or None, view=view or None, points=tuple(points))
            for (network, protocol, view), points in lines.items()
        )

    return Frontier(
        arms=arms("runs"),
        central=arms("central"),
        no_noise=arms("silent"),
        tuning=question.tuning,
        settings=question.settings,
        computed=computed,
        kept=kept,
    )


def _point(question: Question, part: Part, found: Runs, noise: Mapping[Part, Noise]) -> Point:
    """The point of one part."""
    values = found.accuracies
    facts: dict[str, Any] = {}
    if part.kind == "runs":
        behind = noise[part._replace(kind="noise", epsilon=0.0, step=found.place)]
        facts = {
            "noise_multiplier": found.noise_multiplier,
            "assumption": behind.assumption,
            "method": behind.method,
            "local_epsilon": behind.local[question.epsilons.index(part.epsilon)],
        }
    if part.kind == "central":
        facts = {"assumption": "none"}
    return Point(
        epsilon=None if part.kind == "silent" else part.epsilon,
        accuracy=mean(values),
        deviation=stdev(values) if len(values) > 1 else 0.0,
        node_accuracy=mean(found.node_accuracies),
        accuracies=values,
        step=found.step,
        scores=found.scores,
        **facts,
    )
