# SPDX-License-Identifier: Apache-2.0
"""Rows that are cut to a clip, whatever floats they hold, and their sums.

A row that is not finite counts as zero: NaN passes any comparison with a clip, and would announce its record in the
message. One that is finite is clipped, however large it is: norms whose squares overflow are found from the largest
entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sottovoce.learning.rounding import clip_limit

if TYPE_CHECKING:
    from sottovoce.learning.shards import Shards

__all__ = ["Bounded", "Sums", "bounded", "clipped_rows", "row_limit", "summed"]

Array: TypeAlias = NDArray[np.float64]

# Between these no square of a norm overflows, and none that could exceed a clip vanishes.
_LARGE, _SMALL = 1e100, 1e-100


class Sums(NamedTuple):
    """Sums of gradients, one row a node; the share of gradients that was clipped; how many were not finite, so zeroed.

    `loss` is the mean over all records at their own nodes' models, where it comes with the gradients. Share, count and
    loss come from true records: they are for whoever holds the data, and nobody else.
    """

    values: Array
    clipped: float
    zeroed: int
    loss: float | None = None


def clipped_rows(rows: Array, clip: float) -> Sums:
    """Each row scaled down to norm `clip` where it is longer; one that is not finite becomes zero.

    Guarantee: no row is longer than `clip`, in exact arithmetic, however many numbers it has; those that are shorter by
    more than rounding may hide stay as they are, to the bit.
    Source: docs/proofs/clips.md.

    >>> clipped_rows(np.array([[3.0, 4.0], [0.3, 0.4]]), 1.0).values.round(6).tolist()
    [[0.6, 0.8], [0.3, 0.4]]
    """
    wide = np.asarray(rows, dtype=np.float64)
    found = bounded(wide, clip, clip_limit(clip, wide.shape[-1]))
    return Sums(
        found.factors[:, None] * found.directions, float(found.clipped.mean()), int(found.zeroed.sum())
    )


class Bounded(NamedTuple):
    """factor·direction is the clipped row; which rows were clipped, and which were not finite."""

    directions: Array
    factors: Array
    clipped: NDArray[np.bool_]
    zeroed: NDArray[np.bool_]


def row_limit(clip: float | None, terms: int, shards: Shards) -> float:
    """What rows of so many terms are cut to; nodes sum no more of them than the public shard size."""
    return np.inf if clip is None else clip_limit(clip, terms, shards.nominal)


def bounded(
    rows: Array,
    clip: float | None,
    limit: float,
    *,
    lengths: Array | float = 1.0,
    sizes: Array | None = None,
) -> Bounded:
    """Rows along the last axis, each as a direction and the factor that clips it to `limit`, as `clip_limit` has it.

    With `lengths` ℓ and `sizes` a the row stands for the outer product a·x·rowᵀ with |x| = ℓ, and factor·direction for
    what is to be multiplied with x.

    Guarantee: |x|·|factor·direction| ≤ clip, rounding included, whatever floats the rows hold.
    Source: docs/proofs/clips.md, "One row".
    """
    rows = np.asarray(rows, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        plain = np.sqrt(np.einsum("...k,...k->...", rows, rows))
    # NaN is not below anything.
    if sizes is None and plain.max(initial=0.0) < _LARGE and (clip is None or clip > _SMALL):
        fine = np.zeros(plain.shape, dtype=np.bool_)
        if clip is None:
            return Bounded(rows, np.ones(plain.shape), fine, fine)
        norms = lengths * plain
        return Bounded(rows, limit / np.maximum(norms, limit), norms > clip, fine)
    peaks = np.abs(rows).max(axis=-1, initial=0.0)
    zeroed = ~np.isfinite(peaks)
    peaks = np.where(zeroed | (peaks == 0), 1.0, peaks)
    directions = np.where(zeroed[..., None], 0.0, rows) / peaks[..., None]
    spans = lengths * np.sqrt(np.einsum("...k,...k->...", directions, directions))
    with np.errstate(over="ignore"):
        factors = peaks if sizes is None else peaks * sizes
        norms = factors * spans
    if clip is None:
        unbounded = ~np.isfinite(norms)
        return Bounded(
            directions, np.where(unbounded, 0.0, factors), np.zeros_like(zeroed), zeroed | unbounded
        )
    within = norms <= limit
    shrunk = np.where(within, factors, limit / np.where(within, 1.0, spans))
    return Bounded(directions, shrunk, norms > clip, zeroed)


def summed(sums: Array, found: Bounded, weights: Array, broken: NDArray[np.bool_] | None = None) -> Sums:
    """The sums with what happened to the records that count."""
    counted = weights > 0
    zeroed = found.zeroed if broken is None else found.zeroed | broken
    share = float(found.clipped[counted].mean()) if counted.any() else 0.0
    return Sums(sums, share, int((zeroed & counted).sum()))
