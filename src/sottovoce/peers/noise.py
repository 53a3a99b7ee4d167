# SPDX-License-Identifier: Apache-2.0
"""Gaussian noise in whole numbers: normal deviates rounded to the nearest, drawn exactly from the system's generator.

Deviates are numbers k + x with a uniform x of which only as many bits are drawn as a decision needs; no float is
involved, and nothing is approximated (Karney 2016, Algorithm N). There is no seed: noise cannot be drawn again.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from sottovoce.errors import InputError, at_least

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Places: TypeAlias = NDArray[np.intp]
    Mask: TypeAlias = NDArray[np.bool_]
    Source: TypeAlias = Callable[[int], NDArray[np.uint64]]

__all__ = ["MOST_DEVIATION", "rounded_gaussian", "system_words"]

# A product with 64 bits of x must fit into two words.
MOST_DEVIATION = 2**31
_HALF = np.uint64(2**63)
_LOW = np.uint64(2**32 - 1)
_SHIFT = np.uint64(32)
# Deviates that are drawn together: few enough to stay within the cache of a core.
_BATCH = 2**14


def system_words(count: int) -> NDArray[np.uint64]:
    """Uniform words from the operating system's cryptographic generator."""
    return np.frombuffer(os.urandom(8 * count), dtype="<u8")


def rounded_gaussian(count: int, *, deviation: int, source: Source = system_words) -> NDArray[np.int64]:
    """Independent whole numbers, each a normal deviate of this standard deviation rounded to the nearest.

        P(value = i) = Φ((i + ½)/r) − Φ((i − ½)/r),   r = deviation

    **Guarantee**: exact, given independent uniform words. **Source**: Karney, *Sampling exactly from the normal
    distribution*, ACM TOMS 42(1), 2016.

    >>> noise = rounded_gaussian(10_000, deviation=1000)
    >>> bool(abs(noise.std() - 1000) < 100)
    True
    """
    at_least(0, count=count)
    if not 1 <= deviation <= MOST_DEVIATION:
        raise InputError(f"deviation must be a whole number between 1 and 2^31; got {deviation}")
    found = np.empty(count, dtype=np.int64)
    for start in range(0, count, _BATCH):
        part = found[start : start + _BATCH]
        drawn = Deviates(part.size, source)
        part[:] = drawn.scaled(deviation)
        # The top bit of a fresh word is a coin.
        np.negative(part, out=part, where=source(part.size) >= _HALF)
    return found


class Uniforms:
    """Uniform numbers, one a place: a word each, and further words where a comparison could not be decided."""

    def __init__(self, count: int, source: Source) -> None:
        self.words = np.zeros(count, dtype=np.uint64)
        self.tails: dict[int, list[int]] = {}
        self._source = source

    def draw(self, at: Places) -> None:
        """Fresh numbers at places."""
        self.words[at] = self._source(at.size)
        if self.tails:
            for place in at.tolist():
                self.tails.pop(place, None)

    def take(self, other: Uniforms, at: Places) -> None:
        """Another's numbers at places; the other draws fresh ones before it uses them again."""
        self.words[at] = other.words[at]
        if self.tails or other.tails:
            for place in at.tolist():
                self.tails[place] = other.tails.get(place, [])

    def below(self, other: Uniforms, at: Places) -> Mask:
        """Where these numbers are below the other's."""
        mine, theirs = self.words[at], other.words[at]
        found: Mask = mine < theirs
        for index in np.flatnonzero(mine == theirs).tolist():
            place, depth = int(at[index]), 0
            while self.digit(place, depth) == other.digit(place, depth):
                depth += 1
            found[index] = self.digit(place, depth) < other.digit(place, depth)
        return found

    def digit(self, place: int, depth: int) -> int:
        """A further word of one number, drawn when it is first asked for."""
        tail = self.tails.setdefault(place, [])
        while len(tail) <= depth:
            tail.append(int(self._source(1)[0]))
        return tail[depth]


class Deviates:
    """Sizes of normal deviates, k + x: proposed, and accepted so that their density is that of exp(−(k + x)²/2)."""

    def __init__(self, count: int, source: Source) -> None:
        self.whole = np.zeros(count, dtype=np.int64)
        self.part = Uniforms(count, source)
        self._source = source
        self._last, self._next, self._coin = (Uniforms(count, source) for _ in range(3))
        todo = np.arange(count)
        while todo.size:
            kept = self._proposed(todo)
            todo = np.setdiff1d(todo, kept, assume_unique=True)

    def _proposed(self, at: Places) -> Places:
        """Propose k ∝ exp(−k²/2) and x uniform at places; return where exp(−x(2k + x)/2) accepts them."""
        self.whole[at] = 0
        rising = at
        while rising.size:
            rising = rising[self._even_run(rising, None)]
            self.whole[rising] += 1
        at = self._all_of(at, self.whole[at] * (self.whole[at] - 1), None)
        self.part.draw(at)
        return self._all_of(at, self.whole[at] + 1, self.part)

    def _all_of(self, at: Places, times: NDArray[np.int64], start: Uniforms | None) -> Places:
        """Places where as many runs as asked for are all even."""
        good = np.ones(at.size, dtype=np.bool_)
        for done in range(int(times.max(initial=0))):
            asked = np.flatnonzero(good & (times > done))
            good[asked] = self._even_run(at[asked], start)
        return at[good]

    def _even_run(self, at: Places, start: Uniforms | None) -> Mask:
        """Whether a run start > z₁ > z₂ > … has even length (von Neumann): with probability exp(−½) from ½, and from x,
        where each step goes on with probability (2k + x)/(2k + 2) only, with exp(−x(2k + x)/(2k + 2)).
        """  # noqa: D205
        even = np.ones(at.size, dtype=np.bool_)
        live = np.arange(at.size)
        first = True
        while live.size:
            here = at[live]
            self._next.draw(here)
            if not first:
                on = self._next.below(self._last, here)
            elif start is None:
                on = self._next.words[here] < _HALF
            else:
                on = self._next.below(start, here)
            if start is not None:
                on[on] = self._goes_on(here[on], start)
            live, first = live[on], False
            even[live] ^= True
            self._last.take(self._next, at[live])
        return even

    def _goes_on(self, at: Places, start: Uniforms) -> Mask:
        """True with probability (2k + x)/(2k + 2): of 2k + 2 cases one says no, and one asks for a number below x."""
        case = self._cases(2 * self.whole[at].astype(np.uint64) + np.uint64(2))
        found: Mask = case != 0
        asked = np.flatnonzero(case == 1)
        self._coin.draw(at[asked])
        found[asked] = self._coin.below(start, at[asked])
        return found

    def _cases(self, bounds: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Uniform whole numbers below bounds: words from the last, incomplete round of cases are drawn again."""
        drawn = self._source(bounds.size).copy()
        over = np.uint64(2**64 - 1) - (np.uint64(2**64 - 1) % bounds + np.uint64(1)) % bounds
        while (again := np.flatnonzero(drawn > over)).size:
            drawn[again] = self._source(again.size)
        return drawn % bounds

    def scaled(self, by: int) -> NDArray[np.int64]:
        """(k + x)·by, rounded to the nearest: exact, for of x as many words are drawn as the rounding needs."""
        factor = np.uint64(by)
        high, low = self.part.words >> _SHIFT, (self.part.words & _LOW) * factor
        # floor(x · by · 2³²) from the first word of x, and a half to round by; `low` keeps what lies below.
        total = high * factor + (low >> _SHIFT) + np.uint64(2**31)
        found = self.whole * by + (total >> _SHIFT).astype(np.int64)
        near = ((total & _LOW) == _LOW) & ((low & _LOW) + factor > _LOW)
        for place in np.flatnonzero(near).tolist():
            found[place] = int(self.whole[place]) * by + self._rounded(place, by)
        return found

    def _rounded(self, place: int, by: int) -> int:
        """x·by rounded to the nearest, with as many words of x as decide it."""
        words, bits, depth = int(self.part.words[place]), 64, 0
        while True:
            half = 1 << (bits - 1)
            least, most = (words * by + half) >> bits, ((words + 1) * by + half) >> bits
            if least == most:
                return least
            words, bits = (words << 64) | self.part.digit(place, depth), bits + 64
            depth += 1
