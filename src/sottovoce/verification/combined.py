# SPDX-License-Identifier: Apache-2.0
"""Rows that are too close to dependent for floats, combined exactly until they are not.

M = Gᵀ(N Nᵀ)⁻¹G does not change where rows of N and G are combined by one invertible matrix. An observer may know
messages that it was never shown, from sums in which its own noise grows from round to round; then N has singular
values far below 2⁻⁵³, though M is as tame as any. With v the eigenvector of N Nᵀ that belongs to its least eigenvalue,
in floats, vᵀN is small. It takes the place of the row at which v is largest, in whole numbers and then at norm 1: what
was small beside the other rows is not any more, and the same is done again.

Soundness: v is not 0 at the row that is replaced, so that this is invertible, however bad v is otherwise; products
are in whole numbers. All else is speed. What comes out is judged by `definition.program_form` as any other N and G.
Source: after Rump, *Inversion of extremely ill-conditioned matrices in floating-point* (2009).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from sottovoce.errors import NotCertified
from sottovoce.verification.backwards import nothing
from sottovoce.verification.definition import SeenNoise, exact_chain, inverse_column
from sottovoce.verification.rounding import LARGEST

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from sottovoce.verification.backwards import Budget, Round, Whole
    from sottovoce.verification.definition import ExactPart
    from sottovoce.verification.fresh import FreshRows

    Floats = NDArray[np.float64]

__all__ = ["MOST_COMBINED", "combined_noise"]

# Speed alone: so many rows, and numbers of N, are worth combining exactly; more is refused as it was.
MOST_COMBINED, _MOST_ROWS = 200_000, 400
# Speed alone: how often a row is replaced at most, when rows are independent enough, and in how many bits v is cut.
_TIMES, _ENOUGH, _BITS = 400, 1e-5, 60


def combined_noise(
    rounds: Sequence[Round], rows: Sequence[FreshRows], code: Sequence[Fraction], budget: Budget
) -> SeenNoise:
    """N and G of a view, but for an invertible matrix that makes the rows of N clearly independent.

    Guarantee: that of `definition.seen_noise`, for rows that say together what the view says.
    """
    if sum(len(each.drawn) for each in rows) > _MOST_ROWS:
        raise NotCertified(
            "rounding may hide too much: what the observer sees is so close to dependent that this claim cannot be "
            "checked in double precision (take fewer rounds or a smaller view)"
        )
    noise, gain = _whole(rounds, rows, code, budget)
    alive = np.asarray((gain != 0).any(axis=0), dtype=bool)
    N, G = np.zeros(noise.shape), np.zeros(gain.shape)
    for k in range(len(noise)):
        N[k], G[k] = _at_norm_one(noise[k], gain[k])
    for _ in range(_TIMES):
        least, vectors = linalg.eigh(N @ N.T, subset_by_index=[0, 0])
        if least[0] > _ENOUGH:
            return SeenNoise(noise=N, gain=G, alive=alive)
        k = int(np.abs(vectors[:, 0]).argmax())
        noise[k], gain[k] = _combined(vectors[:, 0], k, noise, gain, budget)
        N[k], G[k] = _at_norm_one(noise[k], gain[k])
    raise NotCertified(
        "what the observer sees is so close to dependent that this claim cannot be checked, even after rows were "
        f"combined exactly {_TIMES} times (take fewer rounds or a smaller view)"
    )


def _whole(
    rounds: Sequence[Round], rows: Sequence[FreshRows], code: Sequence[Fraction], budget: Budget
) -> tuple[Whole, Whole]:
    """N and G in whole numbers, each row up to a factor.

    Rounds that are alike, by their rows and their place in the schedule, share the chain of the last of them: one of
    fewer rounds is its beginning, over the denominator of where that ends.

    Guarantee: exact.
    """
    count = len(rows)
    starts = np.cumsum([0, *(rounds[t % len(rounds)].draws for t in range(count))])
    places = np.cumsum([0, *(len(each.drawn) for each in rows)])
    noise, gain = nothing(int(places[-1]), int(starts[-1])), nothing(int(places[-1]), count)
    inverse = inverse_column(code, count, budget)
    chains: dict[tuple[int, int], list[ExactPart]] = {}
    for t in range(count - 1, -1, -1):
        each, key = rows[t], (id(rows[t]), t % len(rounds))
        if not len(each.drawn):
            continue
        here = slice(places[t], places[t + 1])
        if key not in chains:
            chains[key] = exact_chain(rounds, each, t, inverse, budget)
        chain = chains[key][: t + 1]
        # Each denominator divides that of the round before; with an encoder draws stand over that of the whole chain.
        common = chain[-1].given_below
        for back, part in enumerate(chain):
            budget.spend(part.drawn.size + part.given.size, common, common)
            noise[here, starts[t - back] : starts[t - back + 1]] = part.drawn * common // part.drawn_below
            gain[here, t - back] = part.given * (common // part.given_below)
        later = each.given
        gain[here, t + 1 : t + later.shape[1]] = later[:, 1:] * (inverse[1] * common)
    return noise, gain


def _at_norm_one(noise: Whole, gain: Whole) -> tuple[Floats, Floats]:
    """A row of both, that of N at norm 1: each entry is divided and rounded twice.

    Guarantee: entries within 4u of themselves, but for one positive factor; that of `definition.seen_noise`.
    """
    largest = max(map(abs, noise))
    try:
        N, G = (np.array([x / largest for x in row]) for row in (noise, gain))
    except OverflowError:
        N, G = np.zeros(len(noise)), np.full(len(gain), math.inf)
    if np.abs(G).max(initial=0.0) > LARGEST:
        raise NotCertified(
            "contributions stand beside noise of less than 1e-100 of their size, so that nothing can be checked in "
            "double precision (take fewer rounds)"
        )
    norm = math.sqrt(float(np.square(N).sum()))
    return N / norm, G / norm


def _combined(v: Floats, place: int, noise: Whole, gain: Whole, budget: Budget) -> tuple[Whole, Whole]:
    """Σ_k v_k · (row k at norm 1) of both, up to a positive factor, in whole numbers; v is not 0 at this place.

    A row is 2^length · size · norm times one at norm 1: powers of two are shifts, and the rest is cut.

    Guarantee: exact for factors of rows that are whole numbers, that of this place not being 0.
    """
    largest = [max(map(abs, row)) for row in noise]
    longest = max(x.bit_length() for x in largest)
    total = nothing(1, noise.shape[1] + gain.shape[1])[0]
    for k, row in enumerate(np.hstack([noise, gain])):
        length = largest[k].bit_length()
        size = largest[k] / (1 << length)
        norm = math.sqrt(sum((x / largest[k]) ** 2 for x in noise[k]))
        factor = round(math.ldexp(float(v[k]) / (size * norm), _BITS)) or int(k == place)
        if factor:
            factor <<= longest - length
            budget.spend(2 * row.size, largest[k], factor)
            total = total + row * factor
    total = total // math.gcd(*total)
    return total[: noise.shape[1]], total[noise.shape[1] :]
