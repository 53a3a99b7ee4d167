# SPDX-License-Identifier: Apache-2.0
"""Which rounds a target contributes in: the families of patterns over which a sensitivity is a maximum.

A family is named by how a record comes to take part, and everything that sums over rounds asks it the same few
questions: its largest patterns (`patterns`, `pattern_count`), how many rounds one can hold (`largest_count`), what
prices of rounds add up to at most (`largest_sum`), and whether a set of rounds is allowed (`allows`). An upper bound
of Δ² is such a sum of prices, since diag(y) ⪰ M makes cᵀMc ≤ Σ y_t over the rounds in which c is not 0.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from sottovoce.errors import InputError, at_least, probability
from sottovoce.rounding import roundings
from sottovoce.spellings import spelled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import ArrayLike, NDArray

__all__ = ["SPELLINGS", "Participation"]

Kind = Literal["full", "fixed", "every", "at-most", "separated", "epochs", "poisson"]

SPELLINGS = (
    "full",
    "fixed:1,5,9",
    "every:4",
    "every:4,offset=2",
    "at-most:5",
    "separated:3",
    "separated:3,at-most=5",
    "epochs:8",
    "poisson:0.1",
)
"""One example of every form that a spelling has."""
_DECIMAL = r"\d*\.?\d+(?:[eE][+-]?\d+)?"


@dataclass(frozen=True, kw_only=True)
class Participation:
    """The rounds in which a target may contribute; build one by name, or read its spelling with `parse`.

    A pattern is the set of rounds in which two neighbouring streams differ. Every subset of an allowed
    pattern is allowed too (a contribution may be the same in both), so only the largest patterns matter.
    `size` is the k of every and at-most, the distance b of separated and the length of an epoch; `limit` the largest
    number of rounds of separated; `rate` the probability of poisson, whose patterns are all there are.

    >>> str(Participation.separated(3, at_most=5))
    'separated:3,at-most=5'
    >>> [pattern.tolist() for pattern in Participation.every(3).patterns(7)]
    [[0, 3, 6], [1, 4], [2, 5]]
    """

    kind: Kind = "full"
    rounds: tuple[int, ...] = ()
    size: int = 0
    offset: int | None = None
    limit: int | None = None
    rate: float = 1.0

    @classmethod
    def full(cls) -> Participation:
        """Every round.

        There is one largest pattern, all T rounds, so that Δ² is a maximum over signs or directions alone.
        """
        return cls()

    @classmethod
    def fixed(cls, rounds: Iterable[int]) -> Participation:
        """The given rounds, counted from 1.

        One pattern, known in advance. A round beyond the horizon is refused when a question with that horizon is
        asked, since the pattern would otherwise be smaller than it says.
        """
        given = tuple(rounds)
        if not given:
            raise InputError("fixed participation needs at least one round; got none (fixed:1,5,9, say)")
        for number in given:
            at_least(1, **{"a round of fixed participation": number})
        whole = tuple(sorted(int(number) for number in given))
        if len(set(whole)) < len(whole):
            raise InputError(
                f"the rounds of fixed participation must differ; got {list(given)} (name each once)"
            )
        return cls(kind="fixed", rounds=whole)

    @classmethod
    def every(cls, k: int, offset: int | None = None) -> Participation:
        """Every k-th round from round `offset`; without it the phase is unknown and the worst counts.

        With a phase there is one pattern; without it there are k, of which each holds ⌈T/k⌉ or ⌊T/k⌋ rounds.
        """
        at_least(1, **{"the period of every-k-th participation": k})
        if offset is not None:
            at_least(1, **{"the offset of every-k-th participation": offset})
            if offset > k:
                raise InputError(
                    f"the offset of every-k-th participation must lie between 1 and {k}; got {offset} "
                    "(the offset is the first round that takes part)"
                )
            offset = int(offset)
        return cls(kind="every", size=int(k), offset=offset)

    @classmethod
    def at_most(cls, k: int) -> Participation:
        """Any rounds, but at most k of them.

        C(T, k) patterns: those of records that are used so many times, at times that the data or chance decide.
        """
        at_least(1, **{"the number of rounds of at-most participation": k})
        return cls(kind="at-most", size=int(k))

    @classmethod
    def separated(cls, b: int, at_most: int | None = None) -> Participation:
        """Any rounds of which two are always at least b apart; at most `at_most` of them, if given.

        What banded matrix factorisations call (k, b)-participation. Two rounds b apart may both count, so b = 1 is
        full participation, or at most `at_most` rounds of any kind.
        """
        at_least(1, **{"the distance of separated participation": b})
        if at_most is not None:
            at_least(1, **{"the number of rounds of separated participation": at_most})
            at_most = int(at_most)
        return cls(kind="separated", size=int(b), limit=at_most)

    @classmethod
    def epochs(cls, length: int) -> Participation:
        """At most one round of each epoch of `length` rounds: records that are shuffled, each in one batch an epoch.

        The order is secret, so a record may stand in the last batch of one epoch and in the first of the next.

        There are as many patterns as choices of one round from each epoch, and the largest hold one round of each.
        """
        at_least(1, **{"the length of an epoch": length})
        return cls(kind="epochs", size=int(length))

    @classmethod
    def poisson(cls, rate: float) -> Participation:
        """Each round by a secret coin of its own that shows heads with probability `rate`.

        Every pattern can happen, so Δ² is that of full participation; what is rare counts in ε alone.
        """
        probability(**{"the rate of poisson participation": rate})
        return cls(kind="poisson", rate=float(rate))

    @classmethod
    def parse(cls, text: str) -> Participation:
        """The participation that `text` spells; `str` gives the same spelling back.

        What does not have one of the forms of `SPELLINGS` is refused with all of them named; numbers are checked by
        the constructors, so that a spelling and a call refuse the same.

        >>> Participation.parse("every:4,offset=2") == Participation.every(4, offset=2)
        True
        """
        given = spelled(text)
        if given.name == "poisson" and not given.keyed and re.fullmatch(_DECIMAL, ",".join(given.plain)):
            return cls.poisson(float(given.plain[0]))
        numbers = [*given.plain, *given.keyed.values()]
        # Thousands of digits are more than Python reads as a number.
        if all(re.fullmatch(r"\d{1,1000}", number) for number in numbers):
            more = {key: int(value) for key, value in given.keyed.items()}
            match given.name, [int(value) for value in given.plain]:
                case "full", [] if not more:
                    return cls.full()
                case "fixed", [_, *_] as rounds if not more:
                    return cls.fixed(rounds)
                case "every", [k] if more.keys() <= {"offset"}:
                    return cls.every(k, more.get("offset"))
                case "at-most", [k] if not more:
                    return cls.at_most(k)
                case "separated", [b] if more.keys() <= {"at-most"}:
                    return cls.separated(b, more.get("at-most"))
                case "epochs", [b] if not more:
                    return cls.epochs(b)
        raise InputError(f"participation must be spelled like one of {', '.join(SPELLINGS)}; got {text!r}")

    def __str__(self) -> str:
        """The spelling that `parse` reads."""
        match self.kind:
            case "full":
                return "full"
            case "fixed":
                return "fixed:" + ",".join(map(str, self.rounds))
            case "every":
                return f"every:{self.size}" + ("" if self.offset is None else f",offset={self.offset}")
            case "at-most":
                return f"at-most:{self.size}"
            case "epochs":
                return f"epochs:{self.size}"
            case "poisson":
                return f"poisson:{self.rate!r}"
            case _:
                return f"separated:{self.size}" + ("" if self.limit is None else f",at-most={self.limit}")

    @property
    def is_listed(self) -> bool:
        """Whether its patterns are few, whatever the rounds: one, or one for each phase.

        Where they are few, Δ² is solved pattern by pattern; where they are not, sums of prices go by `largest_sum`.
        """
        return self.kind in {"full", "fixed", "every", "poisson"}

    def patterns(self, rounds: int) -> Iterator[NDArray[np.int64]]:
        """The largest patterns among `rounds` rounds, as ascending arrays of indices counted from 0.

        Every allowed pattern is part of one of them. For at-most, separated and epochs they are as many as
        `pattern_count` says, which grows exponentially.

        Guarantee: exact; complete, and none of them is part of another.
        """
        at_least(1, rounds=rounds)
        match self.kind:
            case "full" | "poisson":
                found: Iterable[tuple[int, ...] | range] = [range(rounds)]
            case "fixed":
                found = [self._fixed(rounds)]
            case "every":
                found = self._phases(rounds)
            case "at-most":
                found = itertools.combinations(range(rounds), min(self.size, rounds))
            case "epochs":
                found = itertools.product(*self._blocks(rounds))
            case _:
                found = _spread(rounds, self.size, self.limit)
        return (np.asarray(pattern, dtype=np.int64) for pattern in found)

    def pattern_count(self, rounds: int) -> int:
        """How many patterns `patterns` yields, without going through them.

        A closed form where there is one; for separated rounds a recurrence over packed beginnings, in whole numbers,
        so that it neither rounds nor overflows.

        Guarantee: exact.

        >>> Participation.at_most(5).pattern_count(100)
        75287520
        """
        at_least(1, rounds=rounds)
        match self.kind:
            case "every":
                return 1 if self.offset is not None else min(self.size, rounds)
            case "at-most":
                return math.comb(rounds, min(self.size, rounds))
            case "separated":
                return _spread_count(rounds, self.size, self.limit)
            case "epochs":
                return math.prod(len(block) for block in self._blocks(rounds))
            case "fixed":
                self._fixed(rounds)
        return 1

    def largest_count(self, rounds: int) -> int:
        """The largest number of rounds that a pattern holds: what Δ² can never exceed.

        With contributions of norm at most 1, each seen beside noise of level 1, a round shows 1 at most: in plain
        gossip Δ² of every view is at most this. It is the cap of upper ends there, and Δ² of local DP.

        Guarantee: exact.
        """
        at_least(1, rounds=rounds)
        match self.kind:
            case "full" | "poisson":
                return rounds
            case "fixed":
                return len(self._fixed(rounds))
            case "every":
                return len(range(0 if self.offset is None else self.offset - 1, rounds, self.size))
            case "at-most":
                return min(self.size, rounds)
            case "epochs":
                return len(self._blocks(rounds))
            case _:
                return min(1 + (rounds - 1) // self.size, rounds if self.limit is None else self.limit)

    def largest_sum(self, values: ArrayLike) -> float:
        """The largest sum of non-negative `values` over the rounds of one pattern.

            max over patterns π of Σ_{t ∈ π} values_t

        A sum over known rounds for full, fixed and every; the k largest for at-most; the largest of each epoch; for
        separated the recurrence f(t, k) = max(f(t−1, k), values_t + f(t−b, k−1)).

        Guarantee: an upper bound; the smallest float not below the truth, and for separated within a relative
        3·(count + 1)·2⁻⁵³ of it.

        Source: weak duality restricted to a family of patterns, as in Choquette-Choo et al., (Amplified)
        Banded Matrix Factorization (2023) for separated rounds.

        >>> Participation.separated(2, at_most=2).largest_sum([3.0, 4.0, 3.0, 1.0, 2.0])
        6.000000000000005
        """
        given = np.asarray(values, dtype=np.float64)
        if given.ndim != 1 or given.size == 0:
            raise InputError(
                f"largest_sum needs one value for each round; got an array of shape {given.shape}"
            )
        if not (np.isfinite(given) & (given >= 0)).all():
            worst = int(np.argmin(np.isfinite(given) & (given >= 0)))
            raise InputError(
                f"the values of largest_sum must be finite and at least 0; "
                f"the one of round {worst + 1} is {given[worst]}"
            )
        match self.kind:
            case "at-most":
                return _sum_up(np.sort(given)[-min(self.size, given.size) :])
            case "epochs":
                return _sum_up(np.maximum.reduceat(given, np.arange(0, given.size, self.size)))
            case "separated":
                count = self.largest_count(given.size)
                # Each of at most `count` additions rounds down by a relative 2⁻⁵³ at worst.
                return _separated_sum(given, self.size, self.limit) * (1 + roundings(3 * (count + 1)))
            case _:
                return max(_sum_up(given[pattern]) for pattern in self.patterns(given.size))

    def allows(self, pattern: ArrayLike, rounds: int) -> bool:
        """Whether a target may contribute in exactly these rounds (indices counted from 0).

        An empty pattern is always allowed, and one with a round outside 0 … T − 1 never.

        Guarantee: exact; for every family, a subset of an allowed pattern is allowed.
        """
        chosen = np.unique(np.asarray(pattern, dtype=np.int64))
        if chosen.size == 0:
            return True
        if chosen[0] < 0 or chosen[-1] >= rounds:
            return False
        match self.kind:
            case "at-most":
                return chosen.size <= self.size
            case "epochs":
                return np.unique(chosen // self.size).size == chosen.size
            case "separated":
                few = self.limit is None or chosen.size <= self.limit
                return few and bool((np.diff(chosen) >= self.size).all())
            case _:
                return any(bool(np.isin(chosen, whole).all()) for whole in self.patterns(rounds))

    def _fixed(self, rounds: int) -> tuple[int, ...]:
        """The indices of fixed rounds, if there are that many rounds."""
        if self.rounds[-1] > rounds:
            raise InputError(
                f"{self} names round {self.rounds[-1]}, but there are {rounds} rounds "
                "(leave it out, or add rounds)"
            )
        return tuple(number - 1 for number in self.rounds)

    def _blocks(self, rounds: int) -> list[range]:
        """The indices of the rounds of each epoch; the last may be shorter."""
        return [range(first, min(first + self.size, rounds)) for first in range(0, rounds, self.size)]

    def _phases(self, rounds: int) -> list[range]:
        """The indices of every k-th round, for each phase that is possible."""
        firsts = range(min(self.size, rounds)) if self.offset is None else [self.offset - 1]
        return [range(first, rounds, self.size) for first in firsts]


def _sum_up(values: NDArray[np.float64]) -> float:
    """The smallest float that is not below the exact sum.

    Guarantee: exact in that sense: `fsum` rounds the true sum once, and a second one says on which side it fell.
    """
    total = math.fsum(values)
    return total if math.fsum(itertools.chain(values, [-total])) <= 0 else math.nextafter(total, math.inf)


def _spread(rounds: int, distance: int, limit: int | None) -> Iterator[tuple[int, ...]]:
    """The largest sets of rounds that keep their distance, at most `limit` in a set."""

    def extend(chosen: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        first = chosen[-1] + distance if chosen else 0
        if first >= rounds or len(chosen) == limit:
            yield chosen
            return
        # A gap of two distances leaves room for one more round: allowed only in a set that is full in the
        # end.
        roomy = limit is not None
        for following in range(first, rounds if roomy else min(first + distance, rounds)):
            for pattern in extend((*chosen, following)):
                if len(pattern) == limit or _is_packed(pattern, rounds, distance):
                    yield pattern

    return extend(())


def _is_packed(pattern: tuple[int, ...], rounds: int, distance: int) -> bool:
    """Whether no round can be added without coming too close to another.

    A gap of 2b − 1 or less on either side of every round, and at both ends of the horizon, leaves none that is b away
    from all.
    """
    ends = (-distance, *pattern, rounds - 1 + distance)
    return all(after - before < 2 * distance for before, after in itertools.pairwise(ends))


def _spread_count(rounds: int, distance: int, limit: int | None) -> int:
    """How many sets `_spread` yields.

    Sets of `limit` rounds with gaps of at least b are as many as choices among rounds − (limit − 1)(b − 1) places.
    Those with fewer rounds must be packed: a gap of two distances would leave room for one more.
    """
    most = 1 + (rounds - 1) // distance
    if limit is not None and limit > most:
        limit = None
    full = 0
    if limit is not None:
        full = math.comb(rounds - (limit - 1) * (distance - 1), limit)
    # packed[t] is the number of packed beginnings that end in round t with the current number of rounds.
    packed = [int(t < distance) for t in range(rounds)]
    total = 0
    for count in range(1, most + 1):
        if limit is not None and count >= limit:
            break
        total += sum(packed[max(0, rounds - distance) :])
        sums = [0, *itertools.accumulate(packed)]
        packed = [sums[max(0, t - distance + 1)] - sums[max(0, t - 2 * distance + 1)] for t in range(rounds)]
    return total + full


def _separated_sum(values: NDArray[np.float64], distance: int, limit: int | None) -> float:
    """The largest sum over rounds that keep their distance, by dynamic programming, in plain floats.

        f(t, k) = max(f(t−1, k), values_t + f(t−b, k−1)),   f(t, ·) = 0 for t ≤ 0

    with at most k = `limit` rounds, or without k where `limit` cannot bind. Only the last b columns are kept.
    """
    if limit is None or limit >= 1 + (values.size - 1) // distance:
        best = [0.0] * (values.size + 1)
        for t, value in enumerate(values.tolist()):
            # f(t + 1) = max(f(t), values_t + f(t + 1 − b))
            best[t + 1] = max(best[t], value + best[max(0, t + 1 - distance)])
        return best[-1]
    # history[t % b][k] is the best sum of the first t rounds with at most k of them.
    history = [np.zeros(limit + 1) for _ in range(distance)]
    latest = np.zeros(limit + 1)
    for t, value in enumerate(values.tolist()):
        # f(t, k) = max(f(t−1, k), values_t + f(t−b, k−1)), for all k at once
        taken = np.concatenate([[0.0], value + history[t % distance][:-1]])
        latest = np.maximum(latest, taken)
        history[t % distance] = latest
    return float(latest[-1])
