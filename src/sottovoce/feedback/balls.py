# SPDX-License-Identifier: Apache-2.0
"""From what is public about a loss to the slopes of a gradient step on it."""

from __future__ import annotations

import math
from typing import get_args

from sottovoce.errors import InputError, one_of, positive
from sottovoce.protocols import Losses

__all__ = ["update_slopes"]

# Clipping a convex loss's gradient as a vector: its Jacobian is L·P·Q with 0 ⪯ P, Q ⪯ I, and 3/8 is the best centre.
CENTRE, RADIUS = 3 / 8, 3 * math.sqrt(3) / 8


def update_slopes(
    *, step: float, smoothness: float, losses: Losses = "convex", convexity: float = 0.0, ridge: float = 0.0
) -> tuple[float, float]:
    """The slopes (lower, upper) of z ↦ z − η(∇f(z) + λz) for all losses f of one kind.

    With L the smoothness of one record's loss, f the mean over a public number N of records, of which at most N exist:

        convex     [1 − ηL, 1 − ημ]              gradients unclipped, or of a scalar model (ridge, logistic) clipped
        clipped    [1 − 1.0245 ηL, 1 + 0.2745 ηL]   gradients of convex losses clipped as vectors (softmax)
        smooth     [1 − ηL, 1 + ηL]              losses that need not be convex, clipped or not

    less ηλ at both ends. `convexity` is μ, for losses that are μ-strongly convex and never clipped.

    Guarantee: the ball of these slopes holds every such map, rounding included. L, μ and N must be public: numbers
    measured on the data do not count.
    Source: Baillon & Haddad (1977) for convex; docs/training.md for clipped.

    >>> update_slopes(step=0.5, smoothness=1)
    (0.4999999999999982, 1.0000000000000018)
    """
    positive(step=step, smoothness=smoothness)
    one_of(get_args(Losses), losses=losses)
    for name, value in (("convexity", convexity), ("ridge", ridge)):
        if not 0 <= value < math.inf:
            raise InputError(f"{name} must be a finite number of at least 0; got {value!r}")
    if convexity and (losses != "convex" or convexity > smoothness):
        raise InputError(
            f"convexity must be at most the smoothness {smoothness!r}, for convex losses; got {convexity!r} "
            f"for {losses} losses (leave it out)"
        )
    reach = step * smoothness
    match losses:
        case "convex":
            ends = (1 - reach, 1 - step * convexity)
        case "clipped":
            ends = (1 - (CENTRE + RADIUS) * reach, 1 + (RADIUS - CENTRE) * reach)
        case _:
            ends = (1 - reach, 1 + reach)
    # Each end is a sum of at most four rounded terms.
    room = 4 * math.ulp(1 + 2 * reach + step * ridge)
    lower, upper = (end - step * ridge for end in ends)
    return lower - room, upper + room
