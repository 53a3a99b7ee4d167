# SPDX-License-Identifier: Apache-2.0
"""What proves a bound for training: differences that stay hidden, and what it costs to keep them so. No mathematics.

The proof of a bound on Δ² says, for every round, which differences of the hidden nodes' messages are let pass because
the observer does not see them; all others are cancelled by shifting the noise. `sottovoce.verification.shift` checks
it, `sottovoce.feedback` finds it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sottovoce.certificates.files import matrix_document, read_matrix, read_rows, rows_document
from sottovoce.certificates.values import ExactRows, StoredWeights, check_rows
from sottovoce.errors import InputError, at_least, one_of
from sottovoce.participation import Participation

__all__ = ["METHODS", "Method", "ShiftProof", "ShiftStep"]

Floats = NDArray[np.float64]
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
        _freeze(self, factor=_floats("factor", self.factor, 2))
        _freeze(self, multipliers=_floats("multipliers", self.multipliers, 1))
        if not (isinstance(self.kappa, float) and 0 <= self.kappa < np.inf):
            raise InputError(f"kappa must be a finite number of at least 0; got {self.kappa!r}")
        if (self.multipliers < 0).any():
            raise InputError(f"multipliers must not be negative; the least is {self.multipliers.min()!r}")
        if not isinstance(self.last, bool):
            raise InputError(f"last must be true or false; got {self.last!r}")


@dataclass(frozen=True, kw_only=True, eq=False)
class ShiftProof:
    """A bound on Δ² of one target towards one observer, for all update maps in a ball, and what proves it.

    `lower` and `upper` hold the slopes of every node's update map (None for maps of which nothing is known), `levels`
    the variance of its noise in units of σ², `support` the nodes on which the factors live. Round 1 takes the first
    step of `start`, after these come the steps of `bulk` over and over, and the last rounds take those of `end`.
    `weights` and the rows of `observation` are exact rationals, as in a `Certificate`.
    """

    method: Method
    weights: StoredWeights
    observation: ExactRows
    known_noise: Integers
    target: int
    rounds: int
    participation: str
    levels: Floats
    lower: Floats | None
    upper: Floats | None
    support: Integers
    start: tuple[ShiftStep, ...] = ()
    bulk: tuple[ShiftStep, ...] = ()
    end: tuple[ShiftStep, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a proof that contradicts itself."""
        one_of(METHODS, method=self.method)
        at_least(1, rounds=self.rounds)
        n = len(self.weights.labels)
        check_rows(self.observation)
        if any(j >= n for row in self.observation for j, _ in row):
            raise InputError(f"the rows of observation must name node indices below {n}")
        for name in ("known_noise", "support"):
            _freeze(self, **{name: _nodes(name, getattr(self, name), n)})
        if np.intersect1d(self.support, self.known_noise).size:
            raise InputError("the support must hold hidden nodes only; it holds one whose noise is known")
        if type(self.target) is not int or not 0 <= self.target < n or self.target in self.known_noise:
            raise InputError(f"target must be a node whose noise is not known; got {self.target!r}")
        for name in ("levels", "lower", "upper"):
            if (value := getattr(self, name)) is not None:
                _freeze(self, **{name: _floats(name, value, 1)})
                if getattr(self, name).size != n:
                    raise InputError(f"{name} must have one entry for each of the {n} nodes")
        if not (self.levels > 0).all():
            raise InputError(f"levels must be above 0; the least is {self.levels.min()!r}")
        if (self.lower is None) != (self.upper is None):
            raise InputError("lower and upper slopes must both be given, or neither")
        if self.lower is not None and self.upper is not None and (self.lower > self.upper).any():
            raise InputError("a lower slope must not exceed the upper slope of the same node")
        Participation.parse(self.participation)
        self._check_steps()

    def _check_steps(self) -> None:
        """Refuse steps that do not fit the nodes, the rounds or each other."""
        for step in self.steps:
            if not step.last and step.factor.shape[0] != self.support.size:
                raise InputError(
                    f"a factor must have a row for each of the {self.support.size} nodes of the support"
                )
            if step.multipliers.size != self.levels.size:
                raise InputError(f"multipliers must have an entry for each of the {self.levels.size} nodes")
        if any(step.last for step in self.steps[:-1]) or (self.bulk and self.bulk[-1].last):
            raise InputError("only the step of the last round can be `last`")

    @property
    def steps(self) -> tuple[ShiftStep, ...]:
        """All steps, each once."""
        return (*self.start, *self.bulk, *self.end)

    def order(self, rounds: int) -> Integers:
        """Which of `steps` each of `rounds` rounds takes; an error where they do not fill them."""
        first, last = len(self.start), len(self.end)
        middle = rounds - first - last
        if middle < 0 or (middle and not self.bulk):
            raise InputError(
                f"{first} steps at the start, {len(self.bulk)} that recur and {last} at the end "
                f"do not fill {rounds} rounds"
            )
        recurring = first + np.arange(middle) % max(1, len(self.bulk))
        return np.concatenate([np.arange(first), recurring, first + len(self.bulk) + np.arange(last)]).astype(
            np.int64
        )

    def to_dict(self) -> dict[str, Any]:
        """The proof in the types of JSON; floats read back to the same bits."""
        return {
            **{field.name: _written(getattr(self, field.name)) for field in fields(self)},
            "weights": matrix_document(self.weights),
            "observation": rows_document(self.observation),
        }

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> ShiftProof:
        """The proof that `to_dict` wrote; a document that lacks a field, or has one too many, is refused."""
        whole = _exact_fields(document, "a proof", cls)
        whole["weights"], whole["observation"] = (
            read_matrix(whole["weights"]),
            read_rows(whole["observation"]),
        )
        for name in ("start", "bulk", "end"):
            if not isinstance(whole[name], list):
                raise InputError(f"{name} must be a list of steps; got {whole[name]!r}")
            whole[name] = tuple(_step(name, step) for step in whole[name])
        return cls(**whole)


def _step(name: str, value: object) -> ShiftStep:
    """One step of a document; a factor without rows keeps its shape."""
    parts = _exact_fields(value, f"a step of {name}", ShiftStep)
    if parts["factor"] == []:
        parts["factor"] = np.zeros((0, 0))
    return ShiftStep(**parts)


def _written(value: object) -> object:
    """A field in the types of JSON."""
    match value:
        case np.ndarray():
            return value.tolist()
        case ShiftStep():
            return {field.name: _written(getattr(value, field.name)) for field in fields(value)}
        case tuple():
            return [_written(part) for part in value]
        case _:
            return value


def _exact_fields(value: object, what: str, kind: Any) -> dict[str, Any]:  # noqa: ANN401
    """A JSON object that has exactly the fields of a dataclass."""
    names = {field.name for field in fields(kind)}
    if not isinstance(value, dict) or value.keys() != names:
        found = sorted(value) if isinstance(value, dict) else type(value).__name__
        raise InputError(f"{what} must have exactly the fields {', '.join(sorted(names))}; got {found}")
    return dict(value)


def _floats(name: str, value: object, dimension: int) -> Floats:
    """A finite float array of the given dimension, out of reach of later changes."""
    try:
        array = np.array(value)
    except ValueError:
        raise InputError(f"{name} must be an array of numbers with rows of equal length") from None
    if array.dtype.kind not in "fiu" or array.ndim != dimension or not np.isfinite(array).all():
        raise InputError(f"{name} must be an array of finite numbers in {dimension} dimension(s)")
    result = array.astype(np.float64)
    result.flags.writeable = False
    return result


def _nodes(name: str, value: object, n: int) -> Integers:
    """Ascending node indices, out of reach of later changes."""
    array = np.array(value)
    good = array.ndim == 1 and (not array.size or array.dtype.kind in "iu")
    if not good or (array.size and not (array[0] >= 0 and array[-1] < n and (np.diff(array) > 0).all())):
        raise InputError(f"{name} must be ascending node indices below {n}")
    result = array.astype(np.int64)
    result.flags.writeable = False
    return result


def _freeze(value: object, **parts: object) -> None:
    """Set fields of a frozen value while it is being built."""
    for name, part in parts.items():
        object.__setattr__(value, name, part)
