# SPDX-License-Identifier: Apache-2.0
"""What the bounds for training return: an interval with its method, its assumption, its proof and its attack.

A result carries the evidence for both of its ends, so that it can be checked again, written to a file, or attacked: the
proof is what `sottovoce.verification.shift` accepted, the attack what `sottovoce.verification.attacks` evaluates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    import numpy as np

    from sottovoce.certificates import Method, ShiftProof
    from sottovoce.feedback.attacks import Attack
    from sottovoce.interval import Interval

__all__ = ["Assumption", "TrainingPairs", "TrainingRates", "TrainingSensitivity"]

Assumption = Literal["smooth", "none"]


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingSensitivity:
    """Δ² of one target in training, for every update map in the ball.

    The upper end is what `proof` proves; the lower end is attained by the linear loop in `attack`, so no bound for this
    ball is below it. `assumption` is `smooth` where the upper end rests on the ball of slopes and `none` where it holds
    for maps of any kind.

    `squared` is Δ² in units in which a contribution has norm 1 and σ is 1, so μ = √Δ²/σ; `method` says which
    theorem the upper end rests on: `shift` (Theorem 1 of docs/training.md), `memory-one`, `twins` (Corollaries 2,
    3) or `cap`.
    """

    target: Hashable
    squared: Interval
    method: Method
    assumption: Assumption
    proof: ShiftProof
    attack: Attack


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingRates:
    """Ends of lim Δ²/T for several targets of one view of training, and what proves and attains them.

    `angle` is that of the stream behind a lower end; `constant` is attained by contributions that never change.
    All are arrays with one entry a target: Δ² a round in `lower`, `upper` and `constant`, radians in `angle`.
    """

    lower: np.ndarray
    upper: np.ndarray
    method: np.ndarray
    angle: np.ndarray
    constant: np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingPairs:
    """Upper bounds on Δ² for many pairs of observer and target, observer by observer.

    `method` says what proves each. With `refined` the matrix inequality was solved for a pair; for the others a bound
    that needs none is already below the largest. All have one entry a pair, `observers` too.
    """

    observers: tuple[Hashable, ...]
    targets: tuple[Hashable, ...]
    squared_upper: np.ndarray
    method: tuple[str, ...]
    refined: np.ndarray

    def __len__(self) -> int:
        """How many pairs there are."""
        return len(self.targets)

    def __iter__(self) -> Iterator[tuple[Hashable, Hashable, float]]:
        """Observer, target and upper bound, one pair after the other."""
        return iter(zip(self.observers, self.targets, self.squared_upper.tolist(), strict=True))

    @property
    def worst(self) -> tuple[Hashable, Hashable, float]:
        """The pair with the largest upper bound: no other pair has more than that.

        Guarantee: an upper bound on Δ² of every pair that was compared.
        """
        place = int(self.squared_upper.argmax())
        return self.observers[place], self.targets[place], float(self.squared_upper[place])
