# SPDX-License-Identifier: Apache-2.0
"""Gaussian noise in whole numbers: normal deviates rounded to the nearest, drawn exactly from the system's generator.

Deviates are numbers k + x with a uniform x of which only as many bits are drawn as a decision needs; no float is
involved (Karney 2016, Algorithm N, with k from a table). There is no seed: noise cannot be drawn again.
"""

from __future__ import annotations

import bisect
import functools
import itertools
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

# Beyond this 64 bits of x would often not decide how a deviate is rounded.
MOST_DEVIATION = 2**48
_HALF = np.uint64(2**63)
_LOW = np.uint64(2**32 - 1)
_SHIFT = np.uint64(32)
# Bits by which k is chosen; that they do not suffice has probability below 2^-1000.
_DIGITS = 1024
# Deviates that are drawn together: few enough to stay within the cache of a core.
_BATCH = 2**14


def system_words(count: int) -> NDArray[np.uint64]:
    """Uniform words from the operating system's cryptographic generator."""
    return np.frombuffer(os.urandom(8 * count), dtype="<u8")


def rounded_gaussian(count: int, *, deviation: int, source: Source = system_words) -> NDArray[np.int64]:
    """Independent whole numbers, each a normal deviate of this standard deviation rounded to the nearest.

        P(value = i) = Φ((i + ½)/r) − Φ((i − ½)/r),   r = deviation

    **Guarantee**: exact, given independent uniform words, but for an event of probability below 2^-1000.
    **Source**: Karney, *Sampling exactly from the normal distribution*, ACM TOMS 42(1), 2016.

    >>> noise = rounded_gaussian(10_000, deviation=1000)
    >>> bool(abs(noise.std() - 1000) < 100)
    True
    """
    at_least(0, count=count)
    if not 1 <= deviation <= MOST_DEVIATION:
        raise InputError(f"deviation must be a whole number between 1 and 2^48; got {deviation}")
    found = np.empty(count, dtype=np.int64)
    for start in range(0, count, _BATCH):
        part = found[start : start + _BATCH]
        drawn = Deviates(part.size, source)
        part[:] = drawn.scaled(deviation)
        # The top bit of a fresh word is a coin.
        np.negative(part, out=part, where=source(part.size) >= _HALF)
    return found


def _product(words: NDArray[np.uint64], factor: np.uint64) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Products of words with a factor, in 128 bits: the upper and the lower word."""
    high, low = words >> _SHIFT, words & _LOW
    above, below = factor >> _SHIFT, factor & _LOW
    first, second, third = low * below, low * above, high * below
    middle = (first >> _SHIFT) + (second & _LOW) + (third & _LOW)
    upper = high * above + (second >> _SHIFT) + (third >> _SHIFT) + (middle >> _SHIFT)
    return upper, (middle << _SHIFT) | (first & _LOW)


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


@functools.cache
def _levels() -> tuple[int, ...]:
    """How likely k is at most 0, 1, 2, …, where k has probability ∝ exp(−k²/2): the first 1024 bits of each.

    Computed in 1408 bits, each step within two units of the last, so that far fewer than the 384 that are cut are off.
    """
    bits = 1408
    root, term, count = 0, 1 << bits, 0
    while term:
        root, count = root + term, count + 1
        # e^{−½} = Σ (−½)ⁿ/n!
        term = -(term // (2 * count)) if term > 0 else -term // (2 * count)
    weights, odd, weight = [], root, 1 << bits
    while weight:
        # e^{−(k+1)²/2} = e^{−k²/2} · e^{−(2k+1)/2}
        weights.append(weight)
        weight, odd = weight * odd >> bits, odd * root * root >> 2 * bits
    whole = sum(weights)
    return tuple((below << _DIGITS) // whole for below in itertools.accumulate(weights) if below < whole)


class Deviates:
    """Sizes of normal deviates, k + x: proposed, and accepted so that their density is that of exp(−(k + x)²/2)."""

    def __init__(self, count: int, source: Source) -> None:
        self.whole = np.zeros(count, dtype=np.int64)
        self.part = Uniforms(count, source)
        self._source = source
        self._last, self._next, self._coin = (Uniforms(count, source) for _ in range(3))
        todo = np.arange(count)
        while todo.size:
            todo = todo[~self._accepted(todo)]

    def _accepted(self, at: Places) -> Mask:
        """Propose k ∝ exp(−k²/2) and x uniform at places; whether exp(−x(2k + x)/2), in k + 1 runs, accepts them."""
        self._choose_whole(at)
        self.part.draw(at)
        good = np.ones(at.size, dtype=np.bool_)
        asked = np.arange(at.size)
        done = 0
        while asked.size:
            even = self._even_run(at[asked])
            good[asked] = even
            done += 1
            asked = asked[even]
            asked = asked[self.whole[at[asked]] >= done]
        return good

    def _choose_whole(self, at: Places) -> None:
        """Draw k: how many levels lie at or below a uniform number."""
        levels = _levels()
        first = np.array([level >> (_DIGITS - 64) for level in levels], dtype=np.uint64)
        self._coin.draw(at)
        words = self._coin.words[at]
        found = np.searchsorted(first, words, side="left")
        for index in np.flatnonzero(words == first[np.minimum(found, first.size - 1)]).tolist():
            place = int(at[index])
            tail = [int(words[index])] + [
                self._coin.digit(place, depth) for depth in range(_DIGITS // 64 - 1)
            ]
            number = int.from_bytes(b"".join(word.to_bytes(8, "big") for word in tail), "big")
            found[index] = bisect.bisect_right(levels, number)
        self.whole[at] = found

    def _even_run(self, at: Places) -> Mask:
        """Whether a run x > z₁ > z₂ > … has even length, where a step goes on with probability (2k + x)/(2k + 2) only.

        Its length is at least j with probability (x(2k + x)/(2k + 2))ʲ/j!, so it is even with exp(−x(2k + x)/(2k + 2)).
        """
        even = np.ones(at.size, dtype=np.bool_)
        live = np.arange(at.size)
        above = self.part
        while live.size:
            here = at[live]
            self._next.draw(here)
            on = np.flatnonzero(self._next.below(above, here))
            on = on[self._goes_on(here[on])]
            live, above = live[on], self._last
            even[live] ^= True
            self._last.take(self._next, at[live])
        return even

    def _goes_on(self, at: Places) -> Mask:
        """True with probability (2k + x)/(2k + 2): of 2k + 2 cases one says no, and one asks for a number below x."""
        case = self._cases(2 * self.whole[at].astype(np.uint64) + np.uint64(2))
        found: Mask = case != 0
        asked = np.flatnonzero(case == 1)
        self._coin.draw(at[asked])
        found[asked] = self._coin.below(self.part, at[asked])
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
        whole, rest = _product(self.part.words, np.uint64(by))
        half = rest + _HALF
        found = self.whole * by + (whole + (half < rest)).astype(np.int64)
        # Where further words of x could carry over.
        near = half > np.uint64(2**64 - 1 - by)
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
