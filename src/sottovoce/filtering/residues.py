# SPDX-License-Identifier: Apache-2.0
"""Spaces over the rationals, guessed from their remainders modulo primes.

The smallest spaces that hold some vectors and what maps make of them are found modulo a prime, in reduced echelon form,
which is unique. Remainders modulo several primes are joined, and the fractions of least size that leave them are what
is guessed. Numbers do not grow on the way, as they do where rationals are eliminated.

Nothing here is proved: whoever uses a guess checks it in whole numbers (`restriction`). Nothing here is soundness.

Source: von zur Gathen & Gerhard, *Modern Computer Algebra*, Sections 5.4 and 5.10 (remainders, rational
reconstruction by Wang's bounds).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Moved", "Remainders", "multiplied", "primes", "reached_spaces"]

# Products of two remainders, and sums of some, fit into 64 bits.
LARGEST_PRIME = 2**31 - 1
# A remainder is cut in two for products, so that 2¹⁵ of them can be added up.
HALF = 16


@dataclass(frozen=True, kw_only=True, eq=False)
class Moved:
    """Vectors of the space `before` are carried by `transition` into the space `after`, which `added` lies in, too.

    With r numbers a vector `transition` is (r, r) and `added` (k, r), a vector a row; `transition` is None where what
    was there before is 0.
    """

    before: int
    after: int
    transition: np.ndarray | None
    added: np.ndarray


@dataclass(kw_only=True, eq=False)
class _Space:
    """Rows in reduced echelon form: each has a 1 in its pivot's column, which no other row has anything in."""

    prime: int
    rows: np.ndarray
    pivots: list[int] = field(default_factory=list)

    def extended(self, vectors: np.ndarray) -> np.ndarray:
        """Take in some vectors, and return those of the new rows that were not in the space, as they came in."""
        p = self.prime
        if self.pivots:
            vectors = (vectors - multiplied(vectors[:, self.pivots], self.rows, p)) % p
        fresh = []
        while True:
            vectors = vectors[vectors.any(axis=1)]
            if not len(vectors):
                break
            # A row with the first pivot of all, so that every row begins with its own.
            leads = (vectors != 0).argmax(axis=1)
            k = int(leads.argmin())
            pivot = int(leads[k])
            row = vectors[k] * pow(int(vectors[k, pivot]), -1, p) % p
            vectors = (vectors - vectors[:, pivot, None] * row % p) % p
            if self.pivots:
                self.rows = (self.rows - self.rows[:, pivot, None] * row % p) % p
            self.rows = np.vstack([self.rows, row])
            self.pivots.append(pivot)
            fresh.append(row)
        return np.array(fresh, dtype=np.int64).reshape(-1, self.rows.shape[1])


def multiplied(left: np.ndarray, right: np.ndarray, prime: int) -> np.ndarray:
    """The product of two matrices of remainders."""
    high, low = left >> HALF, left & ((1 << HALF) - 1)
    return np.asarray(((high @ right % prime << HALF) + low @ right) % prime)


def reached_spaces(moves: Sequence[Moved], size: int, prime: int) -> dict[int, _Space]:
    """The smallest spaces, modulo a prime, that `moves` neither leave nor add to."""
    names = {name for move in moves for name in (move.before, move.after)}
    spaces = {name: _Space(prime=prime, rows=np.zeros((0, size), dtype=np.int64)) for name in names}
    waiting = [(move.after, move.added) for move in moves]
    while waiting:
        name, vectors = waiting.pop()
        fresh = spaces[name].extended(vectors)
        if len(fresh):
            waiting += [
                (move.after, multiplied(fresh, move.transition.T, prime))
                for move in moves
                if move.before == name and move.transition is not None
            ]
    return spaces


class Remainders:
    """Spaces as they come out modulo several primes, joined."""

    def __init__(self) -> None:
        """Nothing is known yet: `pivots` has which numbers of a vector the others follow from, of each space.

        Modulus and pivots grow with each prime that is added; what was found modulo a bad prime, of smaller rank than
        others, is forgotten.
        """
        self._modulus = 1
        self.pivots: dict[int, tuple[int, ...]] = {}
        self._joined: dict[int, dict[tuple[int, int], int]] = {}
        self._left_out: dict[int, np.ndarray] = {}

    @property
    def codimension(self) -> int:
        """How many numbers of a vector follow from the others, in all spaces together, as far as is known."""
        return sum(len(each) for each in self._left_out.values())

    def left_out(self, name: int) -> int:
        """The same of one space."""
        return len(self._left_out[name])

    def join(self, spaces: dict[int, _Space]) -> None:
        """Take in what one more prime says; one that makes spaces smaller than others do is left out."""
        pivots = {name: tuple(sorted(space.pivots)) for name, space in spaces.items()}
        prime = next(iter(spaces.values())).prime
        size = sum(map(len, pivots.values()))
        known = sum(map(len, self.pivots.values())) if self.pivots else -1
        if size < known or (size == known and pivots != self.pivots):
            return
        if size > known:
            self._modulus, self.pivots, self._joined = 1, pivots, {name: {} for name in spaces}
            self._left_out = {
                name: np.setdiff1d(np.arange(space.rows.shape[1]), space.pivots)
                for name, space in spaces.items()
            }
        inverse = pow(self._modulus, -1, prime)
        for name, space in spaces.items():
            joined, left_out = self._joined[name], self._left_out[name]
            values = {
                (int(left_out[place]), space.pivots[k]): int(space.rows[k, left_out[place]])
                for k, place in zip(*np.nonzero(space.rows[:, left_out]), strict=True)
            }
            for place in values.keys() | joined.keys():
                value = joined.get(place, 0)
                joined[place] = value + self._modulus * ((values.get(place, 0) - value) * inverse % prime)
        self._modulus *= prime

    def guessed(self) -> dict[int, dict[int, dict[int, Fraction]]]:
        """For each space, which numbers of a vector follow from others, and how, as far as fractions are found."""
        found = {}
        for name, joined in self._joined.items():
            follow: dict[int, dict[int, Fraction]] = {int(i): {} for i in self._left_out[name]}
            for (i, s), value in joined.items():
                if value and i in follow:
                    quotient = _quotient(value, self._modulus)
                    if quotient is None:
                        del follow[i]
                    else:
                        follow[i][s] = quotient
            found[name] = follow
        return found


def _quotient(value: int, modulus: int) -> Fraction | None:
    """The fraction with this remainder whose numerator and denominator are at most √(modulus/2); None without one.

    The extended algorithm of Euclid, stopped halfway: r ≡ t·value (mod modulus) at each step, and r falls while t
    grows.

    Guarantee: if there is such a fraction it is unique and is found; that it is the one sought has to be checked.
    Source: Wang, *A p-adic algorithm for univariate partial fractions* (1981).
    """
    most = math.isqrt(modulus // 2)
    r0, r1, t0, t1 = modulus, value % modulus, 0, 1
    while r1 > most:
        factor = r0 // r1
        r0, r1, t0, t1 = r1, r0 - factor * r1, t1, t0 - factor * t1
    if not t1 or abs(t1) > most or math.gcd(r1, t1) > 1:
        return None
    return Fraction(r1, t1)


def primes() -> Iterator[int]:
    """Primes from the largest on downwards, as far as Fermat's test tells: nothing rests on it.

    A number that is no prime would make a wrong inverse, a fraction that fails its check, and another try.
    """
    number = LARGEST_PRIME
    while True:
        if all(pow(base, number - 1, number) == 1 for base in (2, 3, 5, 7)):
            yield number
        number -= 2
