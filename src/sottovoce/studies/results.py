# SPDX-License-Identifier: Apache-2.0
"""What every study hands on: a table, and findings that set a claim beside what was measured."""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Cell = str | int | float
    Progress = Callable[[int, int], None]

__all__ = ["Finding", "StudyResult", "Table", "Verdict", "above", "below", "near", "steps", "verdict_of"]

Verdict = Literal["holds", "holds in part", "does not hold"]
DIGITS = 4


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


def below(value: float, digits: int = DIGITS) -> str:
    """A lower end in a few digits, never shown above what it is.

    >>> below(0.16216), below(1.5)
    ('0.1621', '1.5')
    """
    return _rounded(value, digits, decimal.ROUND_FLOOR)


def above(value: float, digits: int = DIGITS) -> str:
    """An upper end in a few digits, never shown below what it is.

    >>> above(0.16216), above(1.5)
    ('0.1622', '1.5')
    """
    return _rounded(value, digits, decimal.ROUND_CEILING)


def near(value: float, digits: int = DIGITS) -> str:
    """A number that is no bound, rounded to nearest.

    >>> near(2 / 3)
    '0.6667'
    """
    return _rounded(value, digits, decimal.ROUND_HALF_EVEN)


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


def _rounded(value: float, digits: int, direction: str) -> str:
    short = decimal.Context(prec=digits, rounding=direction).plus(Decimal(float(value)))
    if short == 0:
        return "0"
    short = short.normalize()
    return f"{short:f}" if -6 < short.adjusted() < 7 else f"{short:e}"
