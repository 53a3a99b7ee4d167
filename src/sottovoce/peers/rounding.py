# SPDX-License-Identifier: Apache-2.0
"""What rounding does to the numbers that peers put together: every allowance that a proof of this room needs.

All of them are sums, products, quotients and roots of numbers that are not negative, in which nothing cancels.

Source: docs/proofs/peers.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from sottovoce.rounding import TINY, gamma

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["few_above", "pull_above", "squares_above", "summed_above"]

# Needed by numbers that at most six roundings have made: eight units.
FEW = 2.0**-50
# Needed by `pull_above`: the finest denominator of a fraction that stands for a float next to it, and twice what that
# and the rounding of a damping may be off by.
FINEST = 2**40
PULL_ROOM = Fraction(2, FINEST)
# Roundings of one term of a sum over rounds, its square and the root of it all among them.
OF_A_TERM = 32


def few_above(value: float) -> float:
    """A number that is not negative and that at most six roundings, one after the other, have made: eight units more.

    Guarantee: at least the true number, its own rounding included.
    Source: docs/proofs/peers.md, "A few roundings".

    >>> few_above(1.0) - 1 == 2.0**-50
    True
    """
    return value * (1 + FEW)


def squares_above(numbers: Iterable[float]) -> float:
    """Σ x² of numbers that are not negative, rounded up.

    Guarantee: at least the true sum, also where squares underflow: what is below 10⁻¹⁵⁰ and not 0 counts as that much.
    Source: docs/proofs/peers.md, "A few roundings".

    >>> squares_above([0.5, 0.5]) - 0.5 == 2.0**-51
    True
    """
    sizes = [max(x, TINY) for x in numbers if x]
    return few_above(math.fsum(x * x for x in sizes))


def summed_above(value: float, rounds: int, *, carried: int = 0) -> float:
    """A sum over so many rounds, or the root of one, of numbers that are not negative, with room for its rounding.

        value·(1 + γ_k),   k = rounds·(1 + 2·carried) + 32

    Guarantee: at least the true value if the square of a term is made with at most 30 roundings besides those of what
    it takes over from the term of the round before, at most `carried` a round.
    Source: docs/proofs/peers.md, "Sums over rounds".

    >>> 1 < summed_above(1.0, 10**6) < 1 + 1.2e-10
    True
    """
    return value * (1 + gamma(rounds * (1 + 2 * carried) + OF_A_TERM))


def pull_above(damping: float) -> Fraction:
    """By how much of the model a penalty pulls at it in a round at most: 1 − damping, as a fraction rounded up.

    Guarantee: at least the true number for a damping that is off by at most 2⁻⁴¹.
    Source: docs/proofs/peers.md, "A fraction next to a float".

    >>> pull_above(0.75) - Fraction(1, 4) == Fraction(1, 2**39)
    True
    """
    return Fraction(1 - damping).limit_denominator(FINEST) + PULL_ROOM
