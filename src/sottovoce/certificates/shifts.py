# SPDX-License-Identifier: Apache-2.0
"""What proves a bound for training: differences that stay hidden, and a loop that shows what must stay. No mathematics.

The proof of an upper end of Δ² says, for every round, which differences of the hidden nodes' messages are let pass
because the observer does not see them; all others are cancelled by shifting the noise. The lower end is what a linear
loop attains. `sottovoce.verification.shift` checks the one, `sottovoce.verification.attacks` the other, and
`sottovoce.feedback` finds both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sottovoce.certificates.numbers import Floats, float_array, freeze, whole_array
from sottovoce.errors import InputError, one_of

__all__ = ["METHODS", "LoopAttack", "Method", "MovesProof", "ShiftProof", "ShiftStep"]

Integers = NDArray[np.int64]

Method = Literal["shift", "memory-one", "twins", "cap"]
METHODS: tuple[Method, ...] = get_args(Method)


@dataclass(frozen=True, kw_only=True, eq=False)
class ShiftStep:
    """One round: Π = X Xᵀ with X the `factor` (a row for each node of the proof's support), β and κ.

    `multipliers` holds β, one number for each node. κ = 0 says that the target does not contribute in such a round.
    A `last` step lets every difference pass that the last round does not show, and has no factor.
    """

    factor: Floats
    multipliers: Floats
    kappa: float
    last: bool = False

    def __post_init__(self) -> None:
        """Refuse numbers that are none."""
        # A factor without rows has lost its shape in a file.
        given = self.factor if len(self.factor) or isinstance(self.factor, np.ndarray) else np.zeros((0, 0))
        freeze(self, factor=float_array("factor", given, 2))
        freeze(self, multipliers=float_array("multipliers", self.multipliers, 1))
        if not (isinstance(self.kappa, float) and 0 <= self.kappa < np.inf):
            raise InputError(f"kappa must be a finite number of at least 0; got {self.kappa!r}")
        if (self.multipliers < 0).any():
            raise InputError(f"multipliers must not be negative; the least is {self.multipliers.min()!r}")
        if not isinstance(self.last, bool):
            raise InputError(f"last must be true or false; got {self.last!r}")
        if self.last and self.factor.size:
            raise InputError("the step of the last round has no factor; this one has one")


@dataclass(frozen=True, kw_only=True, eq=False)
class LoopAttack:
    """Linear maps and a statistic that tells two neighbouring runs apart: what Δ² is at least.

    `slopes` has a row for each round that is used, from the first on, and a column for each hidden node; `statistic` a
    number of the plane for each round and each row that is seen, by the pivots of these rows; `contributions` one for
    each round. If there is one row and `angle` is given, all rounds have these slopes, and both turn by this angle from
    round to round.
    """

    slopes: Floats
    statistic: Floats
    contributions: Floats
    angle: float | None = None

    def __post_init__(self) -> None:
        """Refuse arrays that do not fit each other."""
        for name, dimension in (("slopes", 2), ("statistic", 3), ("contributions", 2)):
            freeze(self, **{name: float_array(name, getattr(self, name), dimension)})
        rounds = len(self.slopes)
        if not rounds or len(self.statistic) != rounds or self.contributions.shape != (rounds, 2):
            raise InputError(
                "an attack needs a row of slopes, of the statistic and of contributions for each round"
            )
        if self.statistic.shape[2] != 2:
            raise InputError("the numbers of a statistic are pairs, points of the plane")
        if self.angle is not None:
            if not (isinstance(self.angle, float) and np.isfinite(self.angle)):
                raise InputError(f"angle must be a finite number or null; got {self.angle!r}")
            if rounds != 1:
                raise InputError(f"an attack that turns has one row for all rounds; got {rounds}")


@dataclass(frozen=True, kw_only=True, eq=False)
class ShiftProof:
    """Hints for a bound on Δ² of training, for all update maps in a ball.

    `support` are the nodes on which the factors live. Round 1 takes the first step of `start`, after these come the
    steps of `recurring` over and over, and the last rounds take those of `end`. Without an `attack` the lower end is 0.
    """

    method: Method
    support: Integers
    start: tuple[ShiftStep, ...] = ()
    recurring: tuple[ShiftStep, ...] = ()
    end: tuple[ShiftStep, ...] = ()
    attack: LoopAttack | None = None
    kind: Literal["shift"] = "shift"

    def __post_init__(self) -> None:
        """Refuse a proof that contradicts itself."""
        one_of(METHODS, method=self.method)
        freeze(self, support=whole_array("support", self.support))
        if self.support.size and not (self.support[0] >= 0 and (np.diff(self.support) > 0).all()):
            raise InputError("support must be ascending node indices")
        for step in self.steps:
            if not step.last and step.factor.shape[0] != self.support.size:
                raise InputError(
                    f"a factor must have a row for each of the {self.support.size} nodes of the support"
                )
        if any(step.last for step in self.steps[:-1]) or (self.recurring and self.recurring[-1].last):
            raise InputError("only the step of the last round can be `last`")

    @property
    def steps(self) -> tuple[ShiftStep, ...]:
        """All steps, each once."""
        return (*self.start, *self.recurring, *self.end)

    def order(self, rounds: int) -> Integers:
        """Which of `steps` each of `rounds` rounds takes; an error where they do not fill them."""
        first, last = len(self.start), len(self.end)
        middle = self.middle(rounds)
        turns = first + np.arange(middle) % max(1, len(self.recurring))
        return np.concatenate(
            [np.arange(first), turns, first + len(self.recurring) + np.arange(last)]
        ).astype(np.int64)

    def middle(self, rounds: int) -> int:
        """How many of `rounds` rounds the steps of `recurring` have to fill; an error where they cannot."""
        first, last = len(self.start), len(self.end)
        middle = rounds - first - last
        if middle < 0 or (middle and not self.recurring):
            raise InputError(
                f"{first} steps at the start, {len(self.recurring)} that recur and {last} at the end "
                f"do not fill {rounds} rounds"
            )
        return middle


@dataclass(frozen=True, kw_only=True, eq=False)
class MovesProof:
    """Hints for a bound on Δ² of training that remembers more than a model, for all update maps in a ball.

    A factor X of Π = X Xᵀ for each state, multipliers β for each move, and every κ. `sottovoce.verification.moves`
    checks it.
    """

    factors: tuple[Floats, ...]
    multipliers: tuple[Floats, ...]
    kappas: Floats
    kind: Literal["moves"] = "moves"

    def __post_init__(self) -> None:
        """Refuse numbers that are none."""
        freeze(
            self,
            factors=tuple(float_array("factors", each, 2) for each in self.factors),
            multipliers=tuple(float_array("multipliers", each, 1) for each in self.multipliers),
            kappas=float_array("kappas", self.kappas, 1),
        )

    @property
    def method(self) -> Method:
        """The name of what the upper end rests on."""
        return "shift"
