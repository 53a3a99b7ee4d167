# SPDX-License-Identifier: Apache-2.0
"""What is looked for in a sensitivity computation, and the ends that are found: arrays that get closer by steps.

An `Ends` begins with what is known of any target of plain gossip, 0 ≤ Δ² ≤ cap, and every way of computing
improves it. Each end holds by itself, so the larger of two lower ends and the smaller of two upper ends hold
together; no end is an average of others. The cap is the largest number of rounds of a pattern, because M ⪯ I:
noise of variance 1 enters wherever a contribution of norm 1 does.
Source: docs/mathematics.md, section 3 (the cap).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.views import METHOD_NAMES

if TYPE_CHECKING:
    from sottovoce.filtering import Engine
    from sottovoce.participation import Participation
    from sottovoce.protocols import Contribution

__all__ = ["BULK_TOLERANCE", "SAME", "Ends", "HeldStream", "Problem"]

# Speed alone: ends that are solved for beside bounds of a per cent or so need not be closer than this.
BULK_TOLERANCE = 2e-3
# Streams that are found again attain what they did up to this share: forms made alone round otherwise.
SAME = 1e-9


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What to maximise over, and how to look for it; `cap` is the largest number of rounds of a pattern.

    `contribution` and `participation` say what Δ² is a maximum over, so they are the question. `engine` (how the
    filter is run), `in_bulk` (whether all targets may be bounded together) and `tolerance` (how far apart,
    relatively, the ends of a form may stay) say what may be spent: they move ends, never Δ².
    """

    contribution: Contribution
    participation: Participation
    engine: Engine
    in_bulk: bool
    tolerance: float
    cap: int


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldStream:
    """A stream that keeps to a row of `vectors` (blocks, d) in each of the blocks with these `edges`.

    >>> HeldStream(edges=np.array([0, 1, 3]), vectors=np.array([[1.0], [-1.0]])).rows.tolist()
    [1.0, -1.0, -1.0]
    """

    edges: np.ndarray
    vectors: np.ndarray

    @property
    def rows(self) -> np.ndarray:
        """The stream round by round: (T,) for numbers, (T, d) for vectors."""
        stream = np.repeat(self.vectors, np.diff(self.edges), axis=0)
        return np.asarray(stream[:, 0] if stream.shape[1] == 1 else stream)


@dataclass(frozen=True, kw_only=True, eq=False)
class Ends:
    """The ends of several targets and what is behind them, in arrays that `improve` brings closer.

    `lower` and `upper` are ends of Δ² for contributions that differ by at most 1 and noise of variance 1,
    and `method` names the bound behind each upper end: three arrays with one entry a target. A lower end
    belongs to the stream that turns by `frequency` (radians a round); where that is NaN, to the one in
    `streams` (by place; 0 after its own rounds), or to one that is solved for again when it is asked for.
    The class is frozen, its arrays are not.
    """

    lower: np.ndarray
    upper: np.ndarray
    method: np.ndarray
    frequency: np.ndarray
    streams: dict[int, np.ndarray | HeldStream] = field(default_factory=dict)

    @classmethod
    def unknown(cls, count: int, cap: float) -> Ends:
        """Nothing is known but the cap.

        Guarantee: 0 ≤ Δ² ≤ cap, if M ⪯ I and no pattern has more rounds than that.

        >>> Ends.unknown(2, 7).upper
        array([7., 7.])
        """
        return cls(
            lower=np.zeros(count),
            upper=np.full(count, float(cap)),
            method=np.full(count, "cap", dtype=METHOD_NAMES),
            frequency=np.full(count, np.nan),
        )

    def improve(self, places: np.ndarray, other: Ends) -> None:
        """Take over what is closer in `other`, of which entry k speaks of places[k].

        A method goes with its upper end, a frequency and a stream with their lower end; the stream of a lower end
        that was beaten is dropped.

        Guarantee: where the ends of both hold, so do those that are left. `places` must not repeat.
        """
        below, above = other.upper < self.upper[places], other.lower > self.lower[places]
        self.upper[places[below]], self.method[places[below]] = other.upper[below], other.method[below]
        self.lower[places[above]] = other.lower[above]
        self.frequency[places[above]] = other.frequency[above]
        for k in np.flatnonzero(above):
            self.streams.pop(int(places[k]), None)
            if int(k) in other.streams:
                self.streams[int(places[k])] = other.streams[int(k)]
