# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from sottovoce.errors import InputError
from sottovoce.participation import Participation

KINDS = [
    Participation.full(),
    Participation.fixed([1, 2]),
    Participation.fixed(rounds=[2]),
    Participation.every(1),
    Participation.every(3),
    Participation.every(3, offset=2),
    Participation.every(20),
    Participation.at_most(1),
    Participation.at_most(3),
    Participation.at_most(30),
    Participation.separated(1),
    Participation.separated(2),
    Participation.separated(3),
    Participation.separated(2, at_most=2),
    Participation.separated(3, at_most=1),
    Participation.separated(3, at_most=9),
    Participation.separated(30),
    Participation.epochs(1),
    Participation.epochs(3),
    Participation.epochs(30),
    Participation.poisson(0.1),
    Participation.poisson(1e-9),
]


def _subsets(rounds: Any) -> Any:
    return [
        frozenset(chosen)
        for size in range(rounds + 1)
        for chosen in itertools.combinations(range(rounds), size)
    ]


def _permitted(kind: Any, chosen: Any) -> Any:
    """The rule of each kind, read off its definition."""
    rounds = sorted(chosen)
    match kind.kind:
        case "full" | "poisson":
            return True
        case "fixed":
            return all(t + 1 in kind.rounds for t in rounds)
        case "every":
            phases = {t % kind.size for t in rounds}
            return len(phases) <= 1 and (kind.offset is None or phases <= {kind.offset - 1})
        case "at-most":
            return len(rounds) <= kind.size
        case "epochs":
            return len({t // kind.size for t in rounds}) == len(rounds)
        case _:
            apart = all(b - a >= kind.size for a, b in itertools.pairwise(rounds))
            return apart and (kind.limit is None or len(rounds) <= kind.limit)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("rounds", [2, 5, 8, 10])
def test_patterns_sums_and_counts_agree_with_all_subsets(kind: Any, rounds: Any) -> None:
    allowed = [chosen for chosen in _subsets(rounds) if _permitted(kind, chosen)]
    maximal = {a for a in allowed if not any(a < b for b in allowed)}
    found = [frozenset(pattern.tolist()) for pattern in kind.patterns(rounds)]
    assert len(found) == len(set(found)) == kind.pattern_count(rounds)
    assert set(found) == maximal
    assert all(np.all(np.diff(pattern) > 0) for pattern in kind.patterns(rounds))
    assert kind.largest_count(rounds) == max(map(len, allowed))
    for chosen in _subsets(rounds)[:: 1 if rounds < 10 else 7]:
        assert kind.allows(sorted(chosen), rounds) == _permitted(kind, chosen)
    values = np.random.default_rng(rounds).random(rounds) ** 3
    exact = max(sum(values[sorted(chosen)]) for chosen in allowed)
    assert exact * (1 - 1e-15) <= kind.largest_sum(values) <= exact * (1 + 1e-14)


def test_rounds_outside_the_horizon_are_not_allowed() -> None:
    assert not Participation.full().allows([0, 5], 5)
    assert not Participation.full().allows([-1], 5)
    assert Participation.at_most(1).allows([], 5)


def test_a_sum_is_rounded_up_and_exact_sums_stay() -> None:
    assert Participation.full().largest_sum(np.ones(1000)) == 1000.0
    assert Participation.full().largest_sum(np.zeros(3)) == 0.0
    values = [1.0, 2.0**-60, 2.0**-60]
    assert Participation.full().largest_sum(values) == np.nextafter(1.0, 2.0)
    assert Participation.at_most(1).largest_sum(values) == 1.0


def test_long_horizons_are_counted_without_enumeration() -> None:
    assert Participation.separated(1).pattern_count(50) == 1
    assert Participation.separated(2, at_most=3).pattern_count(40) == 38 * 37 * 36 // 6
    padovan = [1, 2, 2, 3, 4, 5, 7, 9, 12]
    assert [Participation.separated(2).pattern_count(rounds) for rounds in range(1, 10)] == padovan
    assert Participation.separated(5).largest_count(10**6) == 200_000


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_spelling_round_trips(kind: Any) -> None:
    assert Participation.parse(str(kind)) == kind


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("sometimes", "participation must be spelled like one of full, .*; got 'sometimes'"),
        ("every:", "got 'every:'"),
        ("every:4,offset=", "got 'every:4,offset='"),
        ("every:0", "the period of every-k-th participation must be a whole number of at least 1; got 0"),
        ("every:4,offset=5", "must lie between 1 and 4; got 5 .the offset is the first round"),
        ("every:4,offset=0", "the offset of every-k-th participation must be a whole number of at least 1"),
        ("fixed:3,3", "the rounds of fixed participation must differ; got .3, 3. .name each once"),
        ("fixed:0", "a round of fixed participation must be a whole number of at least 1; got 0"),
        ("at-most:0", "the number of rounds of at-most participation must be"),
        ("poisson:0", "the rate of poisson participation must lie strictly between 0 and 1; got 0.0"),
        ("poisson:1.5", "the rate of poisson participation must lie strictly"),
        ("poisson:", "got 'poisson:'"),
        ("epochs:0", "the length of an epoch must be a whole number of at least 1; got 0"),
        ("epochs:2,at-most=3", "got 'epochs:2,at-most=3'"),
        ("separated:0", "the distance of separated participation must be"),
        ("separated:2,at-most=0", "the number of rounds of separated participation must be"),
    ],
)
def test_a_wrong_spelling_is_refused(text: Any, sentence: Any) -> None:
    with pytest.raises(InputError, match=sentence):
        Participation.parse(text)


def test_impossible_requests_are_refused() -> None:
    with pytest.raises(InputError, match=r"needs at least one round; got none"):
        Participation.fixed([])
    with pytest.raises(InputError, match=r"fixed:9 names round 9, but there are 8 rounds \(leave it out"):
        Participation.fixed([9]).patterns(8)
    with pytest.raises(InputError, match=r"fixed:9 names round 9"):
        Participation.fixed([9]).pattern_count(8)
    with pytest.raises(InputError, match=r"finite and at least 0; the one of round 2 is -1"):
        Participation.full().largest_sum([1.0, -1.0])
    with pytest.raises(InputError, match=r"the one of round 1 is nan"):
        Participation.full().largest_sum([np.nan, 1.0])
    with pytest.raises(InputError, match=r"one value for each round; got an array of shape \(1, 2\)"):
        Participation.full().largest_sum([[1.0, 1.0]])
    with pytest.raises(InputError, match=r"rounds must be a whole number of at least 1; got 0"):
        Participation.full().patterns(0)
