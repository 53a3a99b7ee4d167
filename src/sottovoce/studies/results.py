# SPDX-License-Identifier: Apache-2.0
"""What every study hands on: a table, and findings that set a claim beside what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from sottovoce.interval import rounded_down as below
from sottovoce.interval import rounded_near as near
from sottovoce.interval import rounded_up as above

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Cell = str | int | float
    Progress = Callable[[int, int], None]

__all__ = ["Finding", "StudyResult", "Table", "Verdict", "above", "below", "near", "steps", "verdict_of"]

Verdict = Literal["holds", "holds in part", "does not hold"]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Named columns and rows of numbers and words."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A claim of the paper with its number, what was measured about it, and the verdict that follows."""

    statement: str
    claim: str
    measured: str
    verdict: Verdict


class StudyResult(Protocol):
    """What a study returns, whatever else it holds for its figure."""

    @property
    def table(self) -> Table:
        """Every number, one row each."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the numbers say."""


def steps(progress: Progress | None, total: int) -> Callable[[], None]:
    """A function to call once a step, which tells `progress` how many of `total` are done."""
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    return step


def verdict_of(fulfilled: Sequence[bool]) -> Verdict:
    """Holds where all cases agree with a claim, in part where some do."""
    if all(fulfilled):
        return "holds"
    return "holds in part" if any(fulfilled) else "does not hold"
