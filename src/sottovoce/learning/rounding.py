# SPDX-License-Identifier: Apache-2.0
"""What rounding does to clipped gradients, from above: every allowance that a proof of this room needs.

A row is scaled by a norm that was computed in floats, summed with others and divided; for its sum not to be moved by
more than the clip all the same, rows are cut a little below it, and records a little inside their ball.

Source: docs/proofs/clips.md.
"""

from __future__ import annotations

import math

from sottovoce.rounding import gamma, roundings

__all__ = ["SLOPE_ROOM", "ball_limit", "clip_limit", "is_reached", "sum_stretch"]

# Rows are cut by no less than this, and records by twice as much, so that neither depends on how many terms and records
# there are as long as these are few: up to 10⁶ terms and 1900 records.
LEAST_CUT = 2.0**-30
# Roundings of a number besides those of the sum that it is a term of.
OF_A_TERM = 16
# Products and sums of numbers that underflow are off by less than this in all.
UNDERFLOW = 2.0**-1000
# Needed by slopes (docs/proofs/clips.md): products and quotients of three rounded numbers, and a sum.
SLOPE_ROOM = roundings(16)


def sum_stretch(records: int) -> float:
    """By how many times its norm a row moves a sum of so many that are no longer, in floats, and what is made of it.

        1 + 2mγ_k,   k = m + 16

    Guarantee: an upper bound for m terms in whatever order they are summed, with or without that one, each made with up
    to four roundings, and up to eight of the sum.
    Source: docs/proofs/clips.md, "Sums of rows".

    >>> 1 < sum_stretch(100) < 1 + 3e-12
    True
    """
    return 1 + 2 * records * gamma(records + OF_A_TERM)


def clip_limit(clip: float, terms: int, records: int = 1) -> float:
    """The norm that rows are cut to, as computed, so that rounding carries none of them over the clip.

        clip/((1 + γ_k)(1 + 2mγ_j)),   k = terms + 16,   j = records + 16,   at most (1 − 2⁻³⁰)·clip

    `terms` is how many numbers a row has, or in all the two rows whose outer product it is; `records` is m, how many
    rows a sum has at most.

    Guarantee: with it, and norms computed as a root of a sum of squares in whatever order, or a product of two, the row
    that a factor makes is no longer than the clip; and neither does it move a sum of m such rows as computed, or its
    quotient, by more than the clip, or the clip over the divisor.
    Source: docs/proofs/clips.md.

    >>> clip_limit(1.0, terms=10) == 1 - 2.0**-30, clip_limit(1.0, terms=10**9) < 1 - 1e-7
    (True, True)
    """
    room = (1 + gamma(terms + OF_A_TERM)) * sum_stretch(records)
    limit = min(clip * (1 - LEAST_CUT), clip / room)
    return max(0.0, limit - math.sqrt(terms) * UNDERFLOW)


def ball_limit(radius: float, terms: int, records: int = 1) -> float:
    """The norm that records are scaled to, as computed, so that they lie in a ball, and clips of its size never act.

        clip_limit(radius)/(1 + γ_k),   k = 4(terms + 32) + records,   at most (1 − 2⁻²⁹)·radius

    `terms` is how many numbers the gradient of a record has, and no less than one more for each output.

    Guarantee: a record that is scaled to it is no longer than `radius`; and its gradient x·rᵀ, |r| ≤ ρ, or the mean of
    `records` of them, has a norm as computed of at most `clip_limit` of any clip that ρ·radius does not reach.
    Source: docs/proofs/clips.md, "Records in a ball".

    >>> ball_limit(1.0, terms=10) == 1 - 2.0**-29, ball_limit(1.0, terms=10**9) < clip_limit(1.0, terms=10**9)
    (True, True)
    """
    held = clip_limit(radius, terms, records) / (1 + gamma(4 * (terms + 2 * OF_A_TERM) + records))
    return min(radius * (1 - 2 * LEAST_CUT), held)


def is_reached(clip: float, longest: float) -> bool:
    """Whether a gradient may be longer than a clip, `longest` being a product of two floats, one of them rounded.

    Guarantee: if not, no gradient of records that `ball_limit` keeps in their ball is ever cut.
    Source: docs/proofs/clips.md, "Records in a ball".

    >>> is_reached(1.0, 2**0.5 * (1 / 2**0.5)), is_reached(1.0, 1.001)
    (False, True)
    """
    return longest > clip * (1 + roundings(8))
