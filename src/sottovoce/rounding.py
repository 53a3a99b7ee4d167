# SPDX-License-Identifier: Apache-2.0
"""The units that every allowance for rounding is counted in, and what covers the rounding of the allowances themselves.

u = 2⁻⁵³ is `UNIT_ROUNDOFF`. Rooms put their allowances together from these few words in their own `rounding` modules;
a certificate is verified by others, of `verification.rounding`.

Source: docs/proofs/units.md; Higham, *Accuracy and Stability of Numerical Algorithms*, Sections 3.1 and 3.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from sottovoce.interval import UNIT_ROUNDOFF

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "FINE_ROOM",
    "GAMMA",
    "ROOM",
    "TINY",
    "above",
    "barely_above",
    "barely_below",
    "closely_above",
    "finely_above",
    "gamma",
    "gamma_above",
    "roundings",
    "slightly_above",
    "slightly_below",
    "twice_above",
]

# Needed by every proof: γ_k ≤ this, times k, for k below 8·10¹².
GAMMA = 1.001 * UNIT_ROUNDOFF
# Needed by every proof: an allowance that is itself computed in floats falls short of itself by less than a per cent,
# and a short sum of numbers that are not negative by less than a per mille.
ROOM, CLOSE_ROOM = 1.01, 1.001
# Needed by numbers that few roundings have made: more than 9000 of them do.
SPECK = 1e-12
# Needed by norms and sums of a few million numbers, and of a few thousand million.
BARE_ROOM, FINE_ROOM = 1e-9, 1e-6
# γ_k is below `BARE_ROOM` for so many roundings.
FEW_MILLION = 8_900_000
# Needed by proofs that norms enter: squares of numbers below 1e-154 underflow, so that norms are known up to this
# much, and so is a product of two.
TINY = 1e-150

Size = TypeVar("Size", float, "np.ndarray")


def roundings(count: Size) -> Size:
    """ku: what k roundings do to a number, relatively and to first order.

    Guarantee: an upper bound for k = 1; for more of them where a factor beside it has room for the second order.
    Source: docs/proofs/units.md.

    >>> roundings(2) == 2 * UNIT_ROUNDOFF
    True
    """
    return UNIT_ROUNDOFF * count


def gamma(count: Size) -> Size:
    """γ_k = ku/(1 − ku) from above: what a sum of k products errs by, relative to the sum of their sizes.

    Guarantee: an upper bound for k below 8·10¹², in whatever order the sum is taken; also of k roundings of one number.
    Source: docs/proofs/units.md; Higham, *Accuracy and Stability*, Lemma 3.1.

    >>> 3 * UNIT_ROUNDOFF < gamma(3) < 3.01 * UNIT_ROUNDOFF
    True
    """
    return GAMMA * count


def above(bound: Size) -> Size:
    """A bound that was computed in floats, of numbers that are not negative, with a per cent for its own rounding.

    Guarantee: at least the true bound, if fewer than 10¹² roundings made it, one after the other.
    Source: docs/proofs/units.md.

    >>> above(1.0)
    1.01
    """
    return ROOM * bound


def closely_above(bound: Size) -> Size:
    """The same with a per mille, where fewer than 10¹² roundings made a bound and a per cent would be seen.

    Guarantee: at least the true bound.
    Source: docs/proofs/units.md.

    >>> closely_above(1.0)
    1.001
    """
    return CLOSE_ROOM * bound


def finely_above(bound: Size) -> Size:
    """The same with 10⁻⁶ of it: for sums of all rounds, lags or rows whose terms are norms themselves.

    Guarantee: at least the true bound, for up to 9·10⁹ roundings one after the other.
    Source: docs/proofs/units.md.

    >>> finely_above(1.0) > 1 + gamma(8 * 10**9)
    True
    """
    return bound * (1 + FINE_ROOM)


def barely_above(bound: Size, count: int = FEW_MILLION) -> Size:
    """A bound that `count` roundings have made one after the other, such as a norm of so many numbers: 10⁻⁹ more.

    Where γ of the count is more than 10⁻⁹ it is taken instead.

    Guarantee: at least the true bound, for `count` up to 8·10¹², and for 8.9·10⁶ roundings whatever it says.
    Source: docs/proofs/units.md.

    >>> barely_above(1.0) == 1 + 1e-9 < barely_above(1.0, 10**8)
    True
    """
    return bound * (1 + max(BARE_ROOM, GAMMA * count))


def barely_below(bound: Size) -> Size:
    """The same with 10⁻⁹ less.

    Guarantee: at most the true bound, for up to 8.9·10⁶ roundings one after the other.
    Source: docs/proofs/units.md.

    >>> barely_below(1.0) == 1 - 1e-9
    True
    """
    return bound * (1 - BARE_ROOM)


def slightly_above(value: Size) -> Size:
    """A number that few roundings have made, or a sum of some thousands that are not negative: 10⁻¹² more.

    Guarantee: at least the true number, for up to 9000 roundings one after the other.
    Source: docs/proofs/units.md.

    >>> slightly_above(1.0) > 1 + roundings(9000)
    True
    """
    return value * (1 + SPECK)


def slightly_below(value: Size) -> Size:
    """The same with 10⁻¹² less.

    Guarantee: at most the true number, for up to 9000 roundings one after the other.
    Source: docs/proofs/units.md.

    >>> slightly_below(1.0) < 1 - roundings(9000)
    True
    """
    return value * (1 - SPECK)


def twice_above(bound: Size) -> Size:
    """The room of `above` two times: for a product of two bounds, each computed in floats, or a sum of such.

    Guarantee: at least the true bound.
    Source: docs/proofs/units.md.

    >>> above(above(1.0)) == twice_above(1.0)
    True
    """
    return ROOM**2 * bound


def gamma_above(count: Size) -> Size:
    """γ_k with the room of `above` for what it is multiplied with.

    Guarantee: an upper bound as `gamma` has it, of a product with a size that was computed in floats.
    Source: docs/proofs/units.md.

    >>> gamma(3) < gamma_above(3)
    True
    """
    return ROOM * GAMMA * count
