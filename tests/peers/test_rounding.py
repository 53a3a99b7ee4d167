# SPDX-License-Identifier: Apache-2.0
"""What peers allow for rounding: at least the truth, in fractions, and not far above it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sottovoce import gaussian
from sottovoce.interval import UNIT_ROUNDOFF
from sottovoce.peers import rounding
from sottovoce.peers.earlier import Earlier, EarlierRun
from sottovoce.peers.grid import RoundSight, grid_excess, schedule_excess
from sottovoce.peers.rounding import few_above, pull_above, squares_above, summed_above
from sottovoce.peers.spending import Cost, together

UNIT = Fraction(UNIT_ROUNDOFF)


def lost(found: float, truth: Fraction) -> Fraction:
    """By how many units a number that was computed is below the truth, relatively."""
    return (truth - Fraction(found)) / truth / UNIT


def test_a_few_roundings_are_covered_and_not_by_a_thousand_times() -> None:
    rng = np.random.default_rng(1)
    most = Fraction(0)
    for _ in range(3000):
        a, b, c, d = (float(x) for x in rng.uniform(0.5, 2, 4))
        # Six operations, one after the other.
        computed = ((((a * b) + c) * d + a) * b) + c
        truth = ((Fraction(a) * Fraction(b) + Fraction(c)) * Fraction(d) + Fraction(a)) * Fraction(b)
        truth += Fraction(c)
        assert Fraction(few_above(computed)) >= truth
        most = max(most, lost(computed, truth))
    # The worst that six roundings can do, and the rounding of the allowance itself.
    assert Fraction(1) * (1 - UNIT) ** 7 * (1 + 8 * UNIT) > 1
    assert most > Fraction(8, 10)


def test_squares_are_covered_whether_they_underflow_or_not() -> None:
    rng = np.random.default_rng(2)
    shares = []
    for size in (1, 2, 5, 300):
        numbers = rng.uniform(0, 3, size).tolist()
        truth = sum((Fraction(x) ** 2 for x in numbers), Fraction(0))
        assert truth <= Fraction(squares_above(numbers)) <= truth * (1 + 10 * UNIT)
        shares.append(lost(math.fsum(x * x for x in numbers), truth) / 8)
    assert max(shares) > Fraction(1, 1000)
    for tiny in (1e-170, 5e-324):
        assert tiny * tiny == 0
        assert Fraction(squares_above([tiny])) >= Fraction(tiny) ** 2
        run = EarlierRun(run="1", unit="node", relation="add-remove", sent=1, mu=tiny, nodes=("a",))
        assert Fraction(Earlier(runs=(run,)).squared(None)) >= Fraction(tiny) ** 2
        assert together(tiny, 0.0) >= tiny
    assert squares_above([]) == squares_above([0.0]) == 0.0
    assert together(0.0, 0.0) == 0.0


@pytest.mark.parametrize("rounds", [1, 3, 1000, 100_000])
def test_sums_that_round_one_way_are_covered_and_not_by_a_thousand_times(rounds: int) -> None:
    total = 1.0
    for _ in range(rounds):
        total += UNIT_ROUNDOFF
    truth = 1 + rounds * UNIT
    assert total == 1.0
    assert Fraction(summed_above(total, rounds)) >= truth
    room = Fraction(summed_above(1.0, rounds)) - 1
    assert rounds * UNIT > room / (3 if rounds >= 1000 else 50)
    assert summed_above(1.0, rounds, carried=3) >= summed_above(1.0, rounds)


def exact_excess(radii: list[float], hidden: int, dimension: int) -> Fraction:
    """The square of what `grid_excess` bounds, with √hidden to 200 bits, rounded down."""
    slack = Fraction(math.isqrt(hidden << 400), 1 << 200)
    total, last = Fraction(0), Fraction(0)
    for now in map(Fraction, radii):
        total += (now + last + 2 * slack) ** 2
        last = now
    return dimension * total


def test_the_excess_of_a_grid_is_above_the_exact_one_and_next_to_it() -> None:
    rng = np.random.default_rng(3)
    for rounds in (1, 7, 300):
        for hidden in (1, 2, 7):
            radii = rng.uniform(0, 3, rounds).tolist()
            exact = exact_excess(radii, hidden, 1000)
            found = Fraction(grid_excess(radii, hidden=hidden, dimension=1000))
            assert exact <= found**2 <= exact * (1 + Fraction(1, 10**11))


def test_a_fixed_allowance_is_less_than_what_many_rounds_may_lose() -> None:
    # 1 and then as many halves of a unit as make no difference, one by one.
    rounds = 10**6
    assert 1 + rounds * UNIT > (1 + Fraction(1, 2**40)) ** 2
    assert Fraction(summed_above(1.0, rounds)) > 1 + rounds * UNIT


def test_idle_rounds_carry_their_roundings_on() -> None:
    """ρ_t = ρ + gain·ρ_{t−1} + √h in fractions, where a hidden node draws no noise."""
    sight = RoundSight(rows=((1, 1, 0),), mixing=((1, 1, 1), (1, 1, 1), (1, 1, 1)), idle=True, denominator=7)
    rounds = 40
    found = Fraction(schedule_excess([sight] * rounds, denominator=7, dimension=10))
    # Nobody sees the third node, and the first two alike: vectors of squared length 1 and 2.
    bits = 1 << 200
    root = Fraction(math.isqrt(3 * bits * bits), bits)
    radius, slack, gain = root / 2, root, Fraction(3, 7)
    total = last = Fraction(0)
    for t in range(rounds):
        now = radius + (gain if t else 0) * last + slack
        total += (now + (gain if t else 0) * last + 2 * slack) ** 2
        last = now
    assert 10 * total <= found**2 <= 10 * total * (1 + Fraction(1, 10**11))


def test_rounds_that_went_as_agreed_are_not_lost_between_those_that_did() -> None:
    """c·q + s − c from the left would lose q among s and c: the difference is taken first."""

    class Free:
        """A network on no grid."""

        class settings:  # noqa: N801
            relation, noise_multiplier, sums = "add-remove", 1.0, "plain"

        denominator, dimension = 1, 1

        @staticmethod
        def grid_mu(_: float) -> float:
            return 0.0

    sight = RoundSight(rows=((1,),), mixing=((1,),))
    squared, count = 1.1e-7, 1000
    cost = Cost(network=Free(), observers=(1,), squared=squared, sight=sight)  # type: ignore[arg-type]
    truth = math.sqrt(Fraction(squared) * count)
    assert (count * squared + count - count) * (1 + 2**-50) < Fraction(squared) * count
    assert cost.epsilon(count, count, 1e-5) >= float(gaussian.epsilon(truth, 1e-5))


def test_a_pull_is_above_the_exact_one_and_next_to_it() -> None:
    rng = np.random.default_rng(4)
    for damping in [0.0, 1.0, 0.5, *rng.uniform(0, 1, 200).tolist(), 1 - 2.0**-45]:
        exact = 1 - Fraction(damping)
        assert exact + Fraction(1, 2**41) <= pull_above(damping) <= exact + Fraction(1, 2**38)
    assert rounding.FINEST == 2**40
