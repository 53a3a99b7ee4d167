# SPDX-License-Identifier: Apache-2.0
"""From what is public about a loss to the slopes of a gradient step on it."""

from __future__ import annotations

import math
from typing import get_args

from sottovoce.errors import InputError, at_least, one_of, positive
from sottovoce.protocols import Losses, Slopes
from sottovoce.rounding import roundings

__all__ = ["composed_growth", "composed_slopes", "gradient_steps", "update_slopes"]

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


def composed_slopes(slopes: tuple[float, float], steps: int) -> tuple[float, float]:
    """The slopes of H = `steps` maps one after the other, each with slopes between the same two ends.

        [h^H (1 − 2α_H), h^H],   α_H = Hα/(1 + (H − 1)α),   α = (h − l)/(2h),   for ends −h < l ≤ h.

    A map of these slopes is h times one that is α-averaged, and α-averaged maps compose to an α_H-averaged one. Where l
    is at most −h nothing is known but how much differences can grow, and the ends are ∓max(|l|, |h|)^H.

    Guarantee: the ball of the ends that are returned holds every such composition, rounding included.
    Source: Combettes & Yamada (2015), Proposition 2.5; docs/training.md for local steps.

    >>> [round(end, 9) for end in composed_slopes((0.9, 1.0), 2)]
    [0.80952381, 1.0]
    """
    at_least(1, steps=steps)
    lower, upper = slopes
    if steps == 1:
        return slopes
    reach = max(abs(lower), abs(upper))
    # Every term is a product or quotient of at most steps + 8 rounded numbers, and at most 3 reach^H in size.
    room = roundings(8 * (steps + 8)) * reach**steps
    if lower <= -upper:
        return -(reach**steps) - room, reach**steps + room
    alpha = (upper - lower) / (2 * upper)
    whole = steps * alpha / (1 + (steps - 1) * alpha)
    return upper**steps * (1 - 2 * whole) - room, upper**steps + room


def composed_growth(reach: float, steps: int) -> float:
    """By how much a change of at most 1 in each of H = `steps` maps moves what they make together, at most.

        Σ_{k<H} ℓ^k,   ℓ the most by which a map lets differences grow: what one step changed, those after it carry on.

    Guarantee: an upper bound, rounding included.

    >>> composed_growth(1.0, 1), round(composed_growth(0.5, 3), 9)
    (1.0, 1.75)
    """
    at_least(1, steps=steps)
    if steps == 1:
        return 1.0
    return sum(reach**k for k in range(steps)) * (1 + roundings(2 * (steps + 2)))


def gradient_steps(step_smoothness: float, losses: Losses | None, n: int) -> Slopes:
    """The slopes of n nodes that take gradient steps on losses of one kind (convex if None), and where they come from.

    Guarantee: upper and lower ends as `update_slopes` has them, for every loss of the kind whose smoothness times the
    step is at most `step_smoothness`.

    >>> slopes = gradient_steps(0.5, "smooth", 2)
    >>> str(slopes), slopes.losses
    ('[0.5, 1.5]', 'smooth')
    """
    positive(step_smoothness=step_smoothness)
    kind = losses or "convex"
    ends = update_slopes(step=step_smoothness, smoothness=1.0, losses=kind)
    return Slopes.of(ends, n, step_smoothness=step_smoothness, losses=kind)
