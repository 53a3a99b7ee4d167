# SPDX-License-Identifier: Apache-2.0
"""`Schedule`: the size of each round's step, public and fixed in advance."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from sottovoce.errors import InputError, at_least, one_of, positive

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[np.float64]

__all__ = ["Schedule", "as_schedule"]

_NUMBER = r"(\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)"


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """η_t for rounds t = 1..T: constant η, η/√t, or η/(1 + t/offset).

    >>> str(Schedule.parse("0.5/(1+t/20)")), Schedule.parse("2/sqrt(t)").sizes(4).round(3).tolist()
    ('0.5/(1+t/20)', [2.0, 1.414, 1.155, 1.0])
    """

    size: float
    kind: Literal["constant", "root", "inverse"] = "constant"
    offset: float = 1.0

    def __post_init__(self) -> None:
        """Refuse steps that are not positive."""
        positive(step=self.size, offset=self.offset)
        one_of(("constant", "root", "inverse"), kind=self.kind)

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """The schedule that is spelled 0.5, 0.5/sqrt(t) or 0.5/(1+t/20)."""
        plain = text.replace(" ", "")
        if found := re.fullmatch(_NUMBER, plain):
            return cls(size=float(found[1]))
        if found := re.fullmatch(_NUMBER + r"/sqrt\(t\)", plain):
            return cls(size=float(found[1]), kind="root")
        if found := re.fullmatch(_NUMBER + r"/\(1\+t/" + _NUMBER + r"\)", plain):
            return cls(size=float(found[1]), kind="inverse", offset=float(found[2]))
        raise InputError(f"step must be spelled like 0.5, 0.5/sqrt(t) or 0.5/(1+t/20); got {text!r}")

    def __str__(self) -> str:
        """The spelling that `parse` reads."""
        size = repr(float(self.size)).removesuffix(".0")
        match self.kind:
            case "constant":
                return size
            case "root":
                return f"{size}/sqrt(t)"
            case _:
                return f"{size}/(1+t/{repr(float(self.offset)).removesuffix('.0')})"

    def sizes(self, rounds: int) -> Array:
        """η_1, …, η_T."""
        at_least(1, rounds=rounds)
        t = np.arange(1, rounds + 1, dtype=np.float64)
        match self.kind:
            case "constant":
                return np.full(rounds, float(self.size))
            case "root":
                return np.asarray(self.size / np.sqrt(t))
            case _:
                return np.asarray(self.size / (1 + t / self.offset))


def as_schedule(step: Schedule | float | str) -> Schedule:
    """A schedule given as such, by its spelling, or as a number."""
    if isinstance(step, Schedule):
        return step
    return Schedule.parse(step) if isinstance(step, str) else Schedule(size=step)
