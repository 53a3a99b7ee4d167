# SPDX-License-Identifier: Apache-2.0
"""What is known of the maps by which nodes update what they received: a ball of slopes, or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from sottovoce.errors import InputError, one_of
from sottovoce.spellings import listed
from sottovoce.vocabulary import Losses

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = [
    "CLIPPING",
    "RECORDS",
    "Losses",
    "Slopes",
    "Updates",
    "check_identity",
    "check_zero_out",
    "checked_updates",
    "exact_span",
    "parse_updates",
    "slope_span",
]

Updates = tuple["ArrayLike", "ArrayLike"] | Literal["any"]

CLIPPING: dict[Losses | None, str] = {
    "convex": "never active, or that of a scalar model such as ridge or logistic",
    "clipped": "may be active, of gradients as vectors",
    "smooth": "may be active",
    None: "as the given slopes allow",
}
"""Whether the clipping of gradients may be active for steps on losses of one kind to have their slopes."""

RECORDS = "each node sums no more records than the public number that it divides by"
"""What smoothness of one record says about a shard of many."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Slopes:
    """The ball of every node's update map: ‖g(z′) − g(z) − c(z′ − z)‖ ≤ r‖z′ − z‖ with c ± r = `upper`, `lower`.

    For d = 1 these are the least and the largest slope; a gradient step of size η on a convex loss of smoothness L has
    slopes in [1 − ηL, 1].

    >>> Slopes.of((0.5, 1), 3).centre.tolist()
    [0.75, 0.75, 0.75]
    """

    lower: np.ndarray
    upper: np.ndarray
    step_smoothness: float | None = None
    losses: Losses | None = None
    """Where the slopes come from, if that is known: step times smoothness, and the kind of losses."""

    @classmethod
    def of(
        cls,
        updates: tuple[ArrayLike, ArrayLike],
        n: int,
        *,
        step_smoothness: float | None = None,
        losses: Losses | None = None,
    ) -> Slopes:
        """One pair for all nodes, or one number a node for either end."""
        if losses is not None:
            one_of([kind for kind in CLIPPING if kind], losses=losses)
        try:
            lower, upper = (
                np.array(np.broadcast_to(np.asarray(end, dtype=np.float64), n)) for end in updates
            )
        except (TypeError, ValueError):
            raise InputError(
                f"updates must be a pair (lower, upper) of slopes, numbers or one a node of {n} nodes, or 'any'; "
                f"got {updates!r}"
            ) from None
        bad = ~(np.isfinite(lower) & np.isfinite(upper) & (lower <= upper))
        if bad.any():
            k = int(np.argmax(bad))
            raise InputError(
                f"slopes must be finite with lower ≤ upper; node {k} has ({float(lower[k])!r}, {float(upper[k])!r})"
            )
        lower.flags.writeable = upper.flags.writeable = False
        return cls(lower=lower, upper=upper, step_smoothness=step_smoothness, losses=losses)

    def __str__(self) -> str:
        """The pair, or its range over the nodes."""
        low, high = float(self.lower.min()), float(self.upper.max())
        alike = bool((self.lower == low).all() and (self.upper == high).all())
        span = slope_span(low, high)
        return span if alike else f"{span} or less, a pair for each node"

    @property
    def hold_identity(self) -> bool:
        """Whether the map that changes nothing lies in every node's ball."""
        return bool(((self.lower <= 1) & (self.upper >= 1)).all())

    @property
    def without_identity(self) -> str:
        """The ball of the first node that does not hold the identity, to the last digit; empty if every one does."""
        out = np.flatnonzero((self.lower > 1) | (self.upper < 1))
        return exact_span(float(self.lower[out[0]]), float(self.upper[out[0]])) if out.size else ""

    @property
    def centre(self) -> np.ndarray:
        """The centre c = (lower + upper)/2."""
        return np.asarray((self.lower + self.upper) / 2)

    @property
    def radius(self) -> np.ndarray:
        """The radius r = (upper − lower)/2."""
        return np.asarray((self.upper - self.lower) / 2)

    @property
    def reach(self) -> np.ndarray:
        """The Lipschitz constant ℓ = |c| + r."""
        return np.asarray(np.maximum(np.abs(self.lower), np.abs(self.upper)))


def slope_span(lower: float, upper: float) -> str:
    """Two slopes as a person reads them: what was rounded outwards looks like what it was rounded from.

    >>> slope_span(0.4999999999999982, 1.0000000000000018)
    '[0.5, 1]'
    """
    return f"[{round(lower, 12) + 0.0:g}, {round(upper, 12) + 0.0:g}]"


def exact_span(lower: float, upper: float) -> str:
    """Two slopes to the last digit: for refusals, in which the last digit may be what matters.

    >>> exact_span(0.5, 0.9999999999999999)
    '[0.5, 0.9999999999999999]'
    """
    return f"[{lower!r}, {upper!r}]"


def check_zero_out(updates: Slopes | Literal["any"] | None, relation: str | None) -> None:
    """Refuse to zero a node out whose ball does not hold the identity: without its data it sends on what it received.

    Source: docs/training.md, where a whole node is protected.
    """
    if isinstance(updates, Slopes):
        check_identity(updates.without_identity, relation, holds=updates.hold_identity)


def check_identity(slopes: str, relation: str | None, *, holds: bool) -> None:
    """`check_zero_out` for slopes that are known in words, and by whether the identity is among them."""
    if relation == "zero-out" and not holds:
        raise InputError(
            f"zero-out lets a node go on without its data, by the map that changes nothing, and slopes in {slopes} do "
            "not hold 1 (take slopes that do, or add-remove, which is about one of several records)"
        )


def checked_updates(updates: Updates | Slopes, n: int) -> Slopes | Literal["any"]:
    """The slopes of n nodes, or "any" where nothing is known of the maps.

    >>> checked_updates("any", 3)
    'any'
    """
    if isinstance(updates, Slopes):
        return Slopes.of(
            (updates.lower, updates.upper), n, step_smoothness=updates.step_smoothness, losses=updates.losses
        )
    if not isinstance(updates, str):
        return Slopes.of(updates, n)
    if updates != "any":
        raise InputError(f"updates must be a pair (lower, upper) of slopes, or 'any'; got {updates!r}")
    return "any"


def parse_updates(text: str) -> tuple[float, float] | Literal["any"]:
    """The slopes that `text` spells, LOWER,UPPER, or "any".

    >>> parse_updates("0.9,1"), parse_updates("any")
    ((0.9, 1.0), 'any')
    """
    if text == "any":
        return "any"
    try:
        lower, upper = map(float, listed(text))
    except ValueError:
        raise InputError(
            f"updates must be spelled LOWER,UPPER (0.9,1, say), or any; got {text!r} (mend the numbers)"
        ) from None
    return lower, upper
