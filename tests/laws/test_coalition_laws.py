# SPDX-License-Identifier: Apache-2.0
"""What holds for every search: more members see more, and its bound holds wherever it stops."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.profiles import examples
from tests.reference import definition, dyadic_weights

from sottovoce.coalitions import COALITION_VIEWS, worst_coalition
from sottovoce.coalitions.search import OutOfTime, Search
from sottovoce.interval import Interval
from sottovoce.protocols import gossip
from sottovoce.views import View


def signs(weights: Any, view: str, members: Any, target: int, rounds: int) -> Fraction:
    """Δ² over signs, from the definition and in rationals."""
    seen = View(name=view, observers=tuple(sorted(members)))
    return definition(weights, seen, target, rounds).scalar_maximum()


@examples(25)
@given(dyadic_weights(), st.sampled_from(COALITION_VIEWS), st.integers(1, 4), st.data())
def test_a_larger_coalition_never_learns_less(weights: Any, view: str, rounds: int, data: Any) -> None:
    target, *others = data.draw(st.permutations(range(weights.n)))
    inner = data.draw(st.integers(1, len(others)))
    outer = data.draw(st.integers(inner, len(others)))
    less, more = (signs(weights, view, others[:k], target, rounds) for k in (inner, outer))
    assert less <= more


@examples(25)
@given(dyadic_weights(), st.sampled_from(COALITION_VIEWS), st.integers(1, 4), st.data())
def test_the_exact_maximum_lies_between_the_found_and_the_bound(
    weights: Any, view: Any, rounds: int, data: Any
) -> None:
    target = data.draw(st.integers(0, weights.n - 1))
    size = data.draw(st.integers(1, weights.n - 1))
    limit = data.draw(st.sampled_from([None, 0]))
    protocol = gossip(weights, rounds=rounds)
    search = worst_coalition(protocol, target, size=size, view=view, contribution="scalar", time_limit=limit)
    others = [k for k in range(weights.n) if k != target]
    exact = {
        members: signs(weights, view, members, target, rounds)
        for members in itertools.combinations(others, size)
    }
    found: Any = search.coalition
    assert Fraction(search.sensitivity.lower) <= exact[found] <= Fraction(search.sensitivity.upper)
    assert Fraction(search.largest.lower) <= max(exact.values()) <= Fraction(search.upper_bound)
    if limit is None:
        assert search.exact


@st.composite
def growing(draw: Any) -> tuple[int, int, Any]:
    """A number of nodes, a size, and a measure that grows with the set: the weight of all that its members cover."""
    n = draw(st.integers(1, 7))
    covers = [draw(st.frozensets(st.integers(0, 9), max_size=5)) for _ in range(n)]
    weight = [draw(st.integers(0, 8)) for _ in range(10)]
    width = draw(st.sampled_from([0.0, 0.5]))

    def measure(members: frozenset[int]) -> Interval:
        # A square makes two members worth more than both alone, as cancelled noise does.
        covered = frozenset().union(*(covers[k] for k in members))
        value = float(sum(weight[k] for k in covered) ** 2)
        return Interval(value, value + width)

    return n, draw(st.integers(1, n)), measure


@examples(60)
@given(growing(), st.integers(0, 80))
def test_the_bound_holds_wherever_the_search_stops(case: tuple[int, int, Any], stop: int) -> None:
    n, size, measure = case
    seen: list[frozenset[int]] = []

    def counted(members: frozenset[int]) -> Interval:
        if len(seen) > stop:
            raise OutOfTime
        seen.append(members)
        found: Interval = measure(members)
        return found

    search = Search(candidates=range(n), size=size, measure=counted, cap=80.0**2 + 1, deadline=math.inf)
    values = [measure(frozenset(members)) for members in itertools.combinations(range(n), size)]
    best = max(value.lower for value in values)
    try:
        search.run()
    except OutOfTime:
        assert len(seen) == stop + 1
    else:
        assert search.upper_bound == search.trace[-1].squared.upper
        assert search.trace[-1].squared.upper >= best
    assert search.upper_bound >= best
    assert search.trace[-1].squared.lower <= best
    assert search.trace[-1].squared == measure(search.trace[-1].members)
    assert len(seen) == len(set(seen)) == search.evaluated
    assert search.total == len(values)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_closed_search_finds_the_maximum_itself(size: int) -> None:
    # Only one set of three nodes is worth anything, and no part of it shows that.
    hidden = {5, 17, 23}

    def measure(members: frozenset[int]) -> Interval:
        return Interval.exactly(1.0 if hidden <= members else 0.0)

    search = Search(candidates=range(30), size=size, measure=measure, cap=1.0, deadline=math.inf)
    search.run()
    assert search.upper_bound == search.trace[-1].squared.upper == float(size >= 3)
    assert search.evaluated < 0.1 * math.comb(30, size) + 100
