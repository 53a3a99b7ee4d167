# SPDX-License-Identifier: Apache-2.0
"""Where rounds are inserted into a short form M⁰, and the form M̃ that this makes: `insertion` has what it is for.

    M̃_st = M⁰_st               both before c + w
         = M⁰_{s−K, t−K}       both from c + K on
         = M⁰_{c, c+|t−s|}     else;   and 0 where |s − t| > w.

How far M̃ is from M is in `sensitivities.rounding.inserted_error`; which w and e are taken is speed.
Source: docs/proofs/insertion.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from sottovoce.filtering import power_sum
from sottovoce.rounding import TINY

if TYPE_CHECKING:
    from sottovoce.filtering import FilteredResponse

__all__ = ["Insertion", "insertion_of"]

# Speed alone: what may be lost beyond w rounds, as a share of the tolerance and of what a round of a target shows; the
# widths that are tried; up to how many states powers of the loop are worth their time; and how many targets are asked.
GOAL, STEP, MOST_STATES, ASKED = 0.05, 4, 512, 256
# Speed alone: no width below so many times the rounds after which gains have settled is tried.
SOONEST = 1.25


@dataclass(frozen=True, kw_only=True)
class Insertion:
    """Where rounds are inserted: c = `start`, w = `width`, e = `rest`; T = `rounds`, T₀ = `short`, K = `inserted`.

    Where a target contributes every k-th round, k is the `period` and divides K.
    """

    start: int
    width: int
    rest: int
    rounds: int
    period: int = 1

    @property
    def short(self) -> int:
        """T₀, the rounds that are written out."""
        return self.start + self.width + self.rest + 1

    @property
    def inserted(self) -> int:
        """K, the rounds that are not."""
        return self.rounds - self.short

    @property
    def loosened(self) -> Insertion:
        """The plan whose allowance holds for `every`: what has faded in w and e rounds has k − 1 less to do so.

        It needs w and e to be at least k, which `_of_width` sees to.

        Guarantee: `inserted_error` of it is an upper bound for every part that `every` makes.
        Source: docs/proofs/insertion.md, "Every k-th round".
        """
        less = self.period - 1
        return replace(self, width=self.width - less, rest=self.rest - less, period=1)

    def every(self, offset: int) -> tuple[slice, Insertion]:
        """The rounds `offset`, `offset` + k, …, and where rounds are inserted into M⁰ of these alone.

        Guarantee: Σ|M_st − M̃_st| over pairs of these rounds is at most `inserted_error` of `loosened`.
        Source: docs/proofs/insertion.md, "Every k-th round".
        """
        start, short, count = (
            len(range(offset, end, self.period)) for end in (self.start, self.short, self.rounds)
        )
        width = self.width // self.period
        part = Insertion(start=start, width=width, rest=short - start - width - 1, rounds=count)
        return slice(offset, None, self.period), part

    def at(self, forms: np.ndarray, pattern: np.ndarray) -> np.ndarray:
        """M̃ of each target at the rounds of a pattern, written out: (targets, rounds, rounds).

        An entry beyond the band is 0; `moved` says by how many rounds a pair of them stands further ahead in M⁰.

        Guarantee: exact, as M̃ is defined: entries are copied.
        """
        c, w, count = self.start, self.width, self.inserted
        low = np.minimum.outer(pattern, pattern)
        high = np.maximum.outer(pattern, pattern)
        lag = high - low
        moved = np.where(high < c + w, 0, np.where(low >= c + count, count, low - c))
        taken = forms[:, low - moved, np.where(lag <= w, high - moved, 0)]
        return np.where(lag <= w, taken, 0.0)

    def band(self, form: np.ndarray, count: int) -> np.ndarray:
        """M̃ with `count` ≥ w rounds inserted into M⁰, as the lower band that LAPACK takes: (w + 1, T₀ + count).

            found[d, t] = M̃_{t, t+d} = M⁰_{t, t+d} for t + d < c + w,   M⁰_{t−K, t+d−K} for t ≥ c + K,
                                       M⁰_{c, c+d} between

        for K = `count`: what stands before the insertion, the row that recurs, and what stands after it.

        Guarantee: exact, as M̃ is defined: entries are copied. How far M̃ is from M is `inserted_error`.
        """
        c, w, size = self.start, self.width, len(form) + count
        found = np.zeros((w + 1, size))
        for lag in range(w + 1):
            line = np.diagonal(form, lag)
            found[lag, : size - lag] = form[c, c + lag]
            found[lag, : c + w - lag] = line[: c + w - lag]
            found[lag, c + count : size - lag] = line[c:]
        return found

    def whole(self, form: np.ndarray, count: int) -> np.ndarray:
        """The same written out.

        Guarantee: exact: the entries of `band`, and 0 beyond it; (T₀ + count)² numbers.
        """
        c, w, size = self.start, self.width, len(form) + count
        near = np.abs(np.subtract.outer(np.arange(len(form)), np.arange(len(form)))) <= w
        row = np.concatenate([form[c, c : c + w + 1], np.zeros(size - w - 1)])
        found, masked = linalg.toeplitz(row), form * near
        found[: c + w, : c + w] = masked[: c + w, : c + w]
        found[c + count :, c + count :] = masked[c:, c:]
        return np.asarray(found)


def insertion_of(response: FilteredResponse, tolerance: float, period: int = 1) -> Insertion | None:
    """Where to insert rounds into the response of a view, or None if its filter has not settled soon enough.

    With a `period` for contributions every so many rounds.

    Speed alone: any choice with K ≥ w can be used, and `inserted_error` says what it costs.
    """
    start = response.gains.settled_from(response.rounds)
    if not response.gains.frozen or response.size > MOST_STATES:
        return None
    widest = (2 * (response.rounds - start - 1)) // 5
    # What is left of a state fades as the root of what the gains still move by: not sooner than they have settled.
    if widest < SOONEST * start:
        return None
    closed = response.closed_loop(start)
    every = max(1, response.inputs.shape[1] // ASKED)
    sources = response.columns(np.arange(0, response.inputs.shape[1], every))
    shown, rows = TINY * np.ones(sources.shape[1]), closed.whitener
    for _ in range(2 * STEP):
        # shown = Σ_k ‖D B^k b‖²
        shown += ((rows @ sources) ** 2).sum(axis=0)
        rows = rows @ closed.loop
    shown = np.sqrt(shown)
    step = np.linalg.matrix_power(closed.loop, STEP)
    faded, goal, total = step @ (step @ sources), GOAL * tolerance / 2, 0.0
    for width in range(2 * STEP, widest + 1, STEP):
        left = float((np.linalg.norm(faded, axis=0) / shown).max(initial=0.0))
        # The sum over all powers is at least 1, and not worth its time before.
        if left <= goal:
            total = total or power_sum(closed.loop, closed.off)
            if total * left <= goal:
                return _of_width(response, start, width, period)
        faded = step @ faded
    return None


def _of_width(response: FilteredResponse, start: int, width: int, period: int) -> Insertion | None:
    """The end is half as far away as the band is wide: what it changes is a square. None if too few rounds are left."""
    width = width if period == 1 else max(width + period, 4 * period)
    rest = width // 2 + (period if period > 1 else 0)
    rest += (response.rounds - start - width - rest - 1) % period
    plan = Insertion(start=start, width=width, rest=rest, rounds=response.rounds, period=period)
    return plan if plan.inserted >= width else None
