# SPDX-License-Identifier: Apache-2.0
"""What a sensitivity computation returns: intervals for many targets as arrays, or one with its witness.

Δ² is in units of the noise: with noise multiplier σ (noise over clip) the Gaussian-DP parameter is μ =
factor·Δ/σ, factor 2 for replace-one and 1 otherwise. An ε shown to a person comes from the upper end; the lower
end says how much of it is certainly there. A witness is a pair of neighbouring inputs, by its difference, and can
be played back (`sottovoce.audit`). It is found on demand, since most questions never ask for it.
Source: docs/mathematics.md, sections 3 and 9.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.interval import Interval, both_ends
from sottovoce.markup import MOST_ROWS, shown
from sottovoce.scenarios import Answer
from sottovoce.views import place_among

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from sottovoce.protocols import Contribution
    from sottovoce.scenarios import Scenario
    from sottovoce.views import View

__all__ = ["Sensitivities", "Sensitivity"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Sensitivity:
    """How far one target can move a view: Δ² as an interval, with the bound and the stream that prove its ends.

    `squared` holds Δ², `method` names the bound behind its upper end. The stream that attains the lower end is
    found when `witness` is asked for. The upper end holds for contributions as asked for: of vectors, and of
    numbers unless its method is `enumeration`, it holds in every dimension.
    """

    target: Hashable
    squared: Interval
    method: str
    contribution: Contribution
    find_witness: Callable[[], np.ndarray] = field(repr=False)

    @cached_property
    def witness(self) -> np.ndarray:
        """The contributions c_t that attain the lower end: shape (T,) for signs, (T, d) for vectors of dimension d.

        Guarantee: rows of norm at most 1 up to rounding, 0 outside a pattern; what it attains is at least the
        lower end. Where Δ² is infinite it is 1 in every round in which nothing hides it, which may be more rounds
        than a pattern allows.
        """
        return self.find_witness()


@dataclass(frozen=True, kw_only=True, eq=False)
class Sensitivities(Answer):
    """Δ² of one view for many targets, as arrays in index order; `result[label]` is the `Sensitivity` of one.

    `scenario` is what was asked, `engine` names the way in which the filter was run. `targets` holds node names and
    `indices` their positions in the protocol; `squared_lower`, `squared_upper` and `method` have an entry for each,
    and `witness_of(k)` finds the stream behind lower end k. Targets whose noise the observer knows are left out.

    Guarantee: squared_lower ≤ Δ² ≤ squared_upper, target by target, rounding included; an end may be infinite.
    """

    scenario: Scenario
    engine: str
    indices: np.ndarray
    squared_lower: np.ndarray
    squared_upper: np.ndarray
    method: np.ndarray
    witness_of: Callable[[int], np.ndarray]

    def _repr_html_(self) -> str:
        """What a notebook shows: the targets of which most is seen.

        Both ends are rounded outward, as everywhere numbers are shown.
        """
        order = np.argsort(-self.squared_upper, kind="stable")[:MOST_ROWS]
        rows = [
            (
                self.targets[k],
                both_ends(Interval(float(self.squared_lower[k]), float(self.squared_upper[k]))),
                self.method[k],
            )
            for k in order
        ]
        return shown(
            f"Δ² of {len(self.indices)} targets, view {self.view.name}, {self.scenario.protocol.rounds} rounds",
            ("target", "Δ²", "method"),
            rows,
            [f"Assumption: {self.scenario.assumption}."],
        )

    @property
    def view(self) -> View:
        """What the observer sees and whose noise it knows."""
        return self.scenario.one_view

    @cached_property
    def targets(self) -> np.ndarray:
        """The name of each target."""
        return self.protocol.names(self.indices)

    def __len__(self) -> int:
        """How many targets there are."""
        return len(self.indices)

    def __iter__(self) -> Iterator[Sensitivity]:
        """The targets one by one."""
        return (self[label] for label in self.targets)

    def __getitem__(self, label: Hashable) -> Sensitivity:
        """The sensitivity of the target called `label`, whose witness is found on demand.

        Guarantee: `squared` holds Δ² of that target under the scenario's assumption; the witness attains the lower
        end.
        """
        place = place_among(self.protocol, self.view, self.indices, label)
        return Sensitivity(
            target=label,
            squared=Interval(float(self.squared_lower[place]), float(self.squared_upper[place])),
            method=str(self.method[place]),
            contribution=self.contribution,
            find_witness=partial(self.witness_of, place),
        )

    def closer(self, other: Sensitivities) -> Sensitivities:
        """For each target the closer of the ends found in two ways, for the same question.

        Guarantee: both intervals hold Δ², so their intersection does. Should rounding make it empty, the lower
        end is taken for both.
        """
        lower = np.maximum(self.squared_lower, other.squared_lower)
        theirs = other.squared_lower > self.squared_lower
        return replace(
            self,
            squared_lower=lower,
            squared_upper=np.maximum(lower, np.minimum(self.squared_upper, other.squared_upper)),
            method=np.where(other.squared_upper < self.squared_upper, other.method, self.method),
            witness_of=lambda place: (other if theirs[place] else self).witness_of(place),
        )
