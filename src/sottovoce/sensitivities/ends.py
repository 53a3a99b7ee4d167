# SPDX-License-Identifier: Apache-2.0
"""What is looked for in a sensitivity computation, and the ends that are found: arrays that get closer step by step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.views import METHOD_NAMES

if TYPE_CHECKING:
    from sottovoce.filtering import Engine
    from sottovoce.participation import Participation
    from sottovoce.protocols import Contribution

__all__ = ["Ends", "Problem"]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What to maximise over, and how to look for it; `cap` is the largest number of rounds of a pattern."""

    contribution: Contribution
    participation: Participation
    engine: Engine
    in_bulk: bool
    tolerance: float
    cap: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Ends:
    """The ends of several targets and what is behind them, in arrays that `improve` brings closer.

    A lower end belongs to the stream that turns by `frequency`; where that is NaN, to the one in `streams` (0 after
    its own rounds), or to one that is solved for again when it is asked for.
    """

    lower: np.ndarray
    upper: np.ndarray
    method: np.ndarray
    frequency: np.ndarray
    streams: dict[int, np.ndarray] = field(default_factory=dict)

    @classmethod
    def unknown(cls, count: int, cap: float) -> Ends:
        """Nothing is known but the cap."""
        return cls(
            lower=np.zeros(count),
            upper=np.full(count, float(cap)),
            method=np.full(count, "cap", dtype=METHOD_NAMES),
            frequency=np.full(count, np.nan),
        )

    def improve(self, places: np.ndarray, other: Ends) -> None:
        """Take over what is closer in `other`, of which entry k speaks of places[k]."""
        below, above = other.upper < self.upper[places], other.lower > self.lower[places]
        self.upper[places[below]], self.method[places[below]] = other.upper[below], other.method[below]
        self.lower[places[above]] = other.lower[above]
        self.frequency[places[above]] = other.frequency[above]
        for k in np.flatnonzero(above):
            self.streams.pop(int(places[k]), None)
            if int(k) in other.streams:
                self.streams[int(places[k])] = other.streams[int(k)]
