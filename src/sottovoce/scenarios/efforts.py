# SPDX-License-Identifier: Apache-2.0
"""`Effort`: how an answer is computed, which can change its width and the time it takes, never what it guarantees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from sottovoce.errors import at_least, at_most, one_of, positive
from sottovoce.vocabulary import Depth, Engine

__all__ = ["DEPTHS", "ENGINES", "Depth", "Effort", "Engine"]

ENGINES: tuple[Engine, ...] = get_args(Engine)
DEPTHS: tuple[Depth, ...] = get_args(Depth)


@dataclass(frozen=True, kw_only=True)
class Effort:
    """What may be spent on an answer: every number holds whatever stands here.

    `engine` says how to compute, `depth` whether each target is solved for ("fine") or all are bounded together
    ("bulk"; "auto" is fine while that takes minutes). `tolerance` is the relative gap between two ends at which a
    search stops, at most 1, that of the verb if None; `workers` is how many processes share a sweep.

    >>> Effort(depth="bulk")
    Effort(engine='auto', depth='bulk', tolerance=None, workers=1)
    """

    engine: Engine = "auto"
    depth: Depth = "auto"
    tolerance: float | None = None
    workers: int = 1

    def __post_init__(self) -> None:
        """Refuse words that are not in the vocabulary, and numbers that stop nothing."""
        one_of(ENGINES, engine=self.engine)
        one_of(DEPTHS, effort=self.depth)
        if self.tolerance is not None:
            positive(tolerance=self.tolerance)
            at_most(1, tolerance=self.tolerance)
        at_least(1, workers=self.workers)
