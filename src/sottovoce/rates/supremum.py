# SPDX-License-Identifier: Apache-2.0
"""The supremum of φ over all frequencies, for many targets at once, between a value and a bound.

On a piece φ̂(τ) = ‖Σ_k g_k τ^k‖² is a polynomial. Between two points a distance h apart it is at most the
larger of the two values plus h²/8 · sup|φ̂''|: first with a bound of φ̂'' from the norms ‖g_k‖, then, only
where that leaves a doubt, on shrinking intervals with φ̂'' at their midpoint and a bound of φ̂'''.

The upper end is the largest of these bounds over all pieces, raised by what the pieces leave out; the lower end is
a value, lowered likewise. Both hold whenever the search stops: how far it goes is speed.

Source: docs/proofs/frequencies.md (values and suprema); docs/mathematics.md, section 8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.polynomial import polynomial

from sottovoce.rates.rounding import FLOATED, form_units
from sottovoce.rates.taylor_pieces import TERMS

if TYPE_CHECKING:
    from sottovoce.rates.taylor_pieces import Piece

__all__ = ["Suprema", "suprema"]

# Speed alone: the points of the first look at a piece; a bound between them is proved for any number of them.
NODES = np.linspace(-1, 1, 9)
# Speed alone: how often intervals are split, and to which share of the tolerance the search goes on, so that
# symmetric targets get the same numbers.
LEVELS, SHARE = 10, 1e-4


@dataclass(frozen=True, kw_only=True, eq=False)
class Suprema:
    """Ends of sup φ for several targets, and the frequencies at which the lower ends are attained."""

    lower: np.ndarray
    upper: np.ndarray
    frequency: np.ndarray


def suprema(found: list[Piece], inputs: np.ndarray, tolerance: float) -> Suprema:
    """sup_ω φ for the targets whose inputs are the columns of `inputs`.

    Guarantee: lower ≤ sup φ ≤ upper, what the pieces leave out included; the search itself leaves a relative
    gap far below `tolerance` (unless φ is at rounding level), and the pieces' slack comes on top. φ ≤ 1 for plain
    gossip, so that the upper end is cut off there.
    Source: docs/proofs/frequencies.md (values and suprema).
    """
    # bounds[p, j] ≥ φ̂_j on all of piece p; best[j] is the largest value of φ̂_j that was met, a guess of the
    # maximum.
    count = inputs.shape[1]
    bounds = np.empty((len(found), count))
    best, lower, frequency = np.zeros(count), np.zeros(count), np.zeros(count)
    for number, piece in enumerate(found):
        values, bounds[number] = _first_look(_coefficients(piece, inputs))
        top = values.argmax(axis=0)
        _improve(piece, values[top, np.arange(count)], NODES[top], np.arange(count), best, lower, frequency)
    for number in np.argsort(-bounds.max(axis=1), kind="stable"):
        piece = found[number]
        doubtful = np.flatnonzero(bounds[number] > best * (1 + SHARE * tolerance))
        if doubtful.size:
            terms = _coefficients(piece, inputs[:, doubtful])
            bound, value, place = _searched(_squared(terms), _noise(terms), best[doubtful], SHARE * tolerance)
            bounds[number, doubtful] = np.minimum(bounds[number, doubtful], bound)
            _improve(piece, value, place, doubtful, best, lower, frequency)
    upper = np.zeros(count)
    for number, piece in enumerate(found):
        upper = np.maximum(upper, piece.raised(bounds[number]))
    upper = np.minimum(upper, 1.0)
    return Suprema(lower=np.minimum(lower, upper), upper=upper, frequency=np.clip(frequency, 0, np.pi))


def _improve(
    piece: Piece,
    value: np.ndarray,
    place: np.ndarray,
    who: np.ndarray,
    best: np.ndarray,
    lower: np.ndarray,
    frequency: np.ndarray,
) -> None:
    """Take over values that beat the best so far, in place.

    A lower end counts after `Piece.lowered`, so that a large value on a piece with much slack does not win; `best`,
    which only steers the search, takes values as they are.
    """
    proved = piece.lowered(value)
    better = proved > lower[who]
    lower[who[better]] = proved[better]
    frequency[who[better]] = piece.centre + piece.halfwidth * place[better]
    best[who] = np.maximum(best[who], value)


def _coefficients(piece: Piece, inputs: np.ndarray) -> np.ndarray:
    """g_k for every target: (terms, m, targets)."""
    terms, m, size = piece.rows.shape
    return np.asarray((piece.rows.reshape(terms * m, size) @ inputs).reshape(terms, m, -1))


def _first_look(terms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """φ̂ at the nodes and a bound over the piece: φ̂'' ≤ 2(N'² + N N'') at τ = 1 with N(τ) = Σ ‖g_k‖τ^k.

    Between nodes a step h apart φ̂ exceeds the larger of both by h²/8·sup|φ̂''| at most, hence h²/4·(N'² + N N'').

    Guarantee: values are lower bounds and the bound is an upper one, for φ̂ with the coefficients as stored.
    """
    table = NODES[:, None] ** np.arange(TERMS)
    values = (np.abs(np.tensordot(table, terms, axes=1)) ** 2).sum(axis=1)
    norms = np.sqrt((np.abs(terms) ** 2).sum(axis=1))
    order = np.arange(TERMS)
    plain, slope, bend = norms.sum(axis=0), order @ norms, (order * (order - 1)) @ norms
    step = NODES[1] - NODES[0]
    noise = _noise(terms)
    return np.maximum(values - noise, 0), values.max(axis=0) + noise + step**2 / 4 * (slope**2 + plain * bend)


def _noise(terms: np.ndarray) -> np.ndarray:
    """How far φ̂ as computed is off at most, for each target: `form_units`·(Σ_k ‖g_k‖)².

    Guarantee: upper bound, by either way of computing it.
    """
    norms = np.sqrt((np.abs(terms) ** 2).sum(axis=1)).sum(axis=0)
    return np.asarray(form_units(*terms.shape[:2]) * norms**2)


def _squared(terms: np.ndarray) -> np.ndarray:
    """The coefficients of φ̂(τ) = ‖Σ g_k τ^k‖², real: (2·terms − 1, targets)."""
    # Coefficient k + l collects Re⟨g_k, g_l⟩.
    form = np.zeros((2 * TERMS - 1, terms.shape[2]))
    for k in range(TERMS):
        form[k : k + TERMS] += np.einsum("mj,lmj->lj", terms[k].conj(), terms).real
    return form


def _searched(
    form: np.ndarray, noise: np.ndarray, best: np.ndarray, tolerance: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bound, best value and its place for each polynomial: intervals that may beat the best are split.

    The coefficients are off by at most `noise` in all, and so is a value; a second derivative by len(form)² as
    much. An interval of half width h around μ has |φ̂''| ≤ |φ̂''(μ)| + h·sup|φ̂'''|, and is looked at in three
    points h apart:

        φ̂ ≤ (largest of the three) + h²/8·(|φ̂''(μ)| + h·sup|φ̂'''|).

    Guarantee: the bound is an upper one over |τ| ≤ 1; the value, less `noise`, is attained at its place.
    """
    best = best.copy()
    count = form.shape[1]
    bound, value, place = np.zeros(count), np.zeros(count), np.zeros(count)
    second = polynomial.polyder(form, 2)
    third = np.abs(polynomial.polyder(form, 3)).sum(axis=0) * (1 + len(form) * FLOATED)
    unsure = len(form) ** 2 * noise
    half = 0.25
    owner = np.repeat(np.arange(count), 4)
    middle = np.tile(np.array([-0.75, -0.25, 0.25, 0.75]), count)
    for level in range(LEVELS):
        points = middle + half * np.array([[-1.0], [0.0], [1.0]])
        values = np.maximum(polynomial.polyval(points, form[:, owner], tensor=False), 0)
        top = values.argmax(axis=0)
        peak = values[top, np.arange(len(owner))]
        order = np.argsort(peak, kind="stable")
        # The last assignment wins, so each owner is left with its highest peak.
        candidate, where = np.zeros(count), np.zeros(count)
        candidate[owner[order]] = peak[order]
        where[owner[order]] = points[top, np.arange(len(owner))][order]
        higher = candidate > value
        value[higher], place[higher] = candidate[higher], where[higher]
        best = np.maximum(best, value)
        # An interval that cannot beat the best is done with its bound; the others are cut in four.
        bend = np.abs(polynomial.polyval(middle, second[:, owner], tensor=False)) + half * third[owner]
        bend += (1 + half * len(form)) * unsure[owner]
        reach = peak + noise[owner] + half**2 / 8 * bend
        open_still = reach > best[owner] * (1 + tolerance)
        done = ~open_still if level < LEVELS - 1 else np.ones(len(owner), dtype=bool)
        np.maximum.at(bound, owner[done], reach[done])
        if done.all():
            break
        owner, middle = np.repeat(owner[~done], 4), np.repeat(middle[~done], 4)
        half /= 4
        middle = middle + half * np.tile(np.array([-3.0, -1.0, 1.0, 3.0]), len(owner) // 4)
    return bound, np.maximum(value - noise, 0), place
