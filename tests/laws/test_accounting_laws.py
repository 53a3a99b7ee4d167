# SPDX-License-Identifier: Apache-2.0
"""Properties of accounts: composition in exact arithmetic, order under noise, calibration, enclosure."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from flint import arb, ctx
from hypothesis import example, given
from hypothesis import strategies as st
from tests.profiles import examples

from sottovoce import graphs
from sottovoce.accounting import RELATIONS, Account, AccountTable, Relation, account, account_all
from sottovoce.interval import Interval
from sottovoce.protocols import gossip
from sottovoce.views import View

if TYPE_CHECKING:
    from sottovoce.protocols import Protocol


losses = st.one_of(st.just(0.0), st.floats(1e-6, 50.0))
noises = st.floats(1e-2, 1e4)
deltas = st.floats(-100.0, -0.5).map(lambda power: 10.0**power)
epsilons = st.floats(-3.0, 2.5).map(lambda power: 10.0**power)
relations = st.sampled_from(list(RELATIONS))
squares = st.lists(st.one_of(st.just(0.0), st.floats(1e-9, 1e4)), min_size=1, max_size=20)


@st.composite
def accounts(draw: st.DrawFn) -> Account:
    lower, upper = sorted((draw(losses), draw(losses)))
    return Account(mu=Interval(lower, upper), relation="add-remove", method="abs")


@cache
def ring() -> Protocol:
    return gossip(graphs.metropolis_weights("ring:n=5"), rounds=4)


def table_of(values: list[float], noise: float = 1.0, relation: Relation = "add-remove") -> AccountTable:
    """A table whose pairs have the given Δ², exactly."""
    squared = np.array(values)
    return replace(
        account(ring(), View.everyone, noise_multiplier=noise, delta=1e-5, relation=relation),
        observer_of=np.zeros(len(values), dtype=np.int64),
        target_indices=np.arange(len(values)) % 5,
        squared_lower=squared,
        squared_upper=squared,
        method=np.full(len(values), "exact"),
    )


def square(value: float) -> Fraction:
    return Fraction(value) ** 2


@given(accounts(), accounts())
def test_adding_accounts_adds_squares(a: Account, b: Account) -> None:
    both = (a + b).mu
    assert both == (b + a).mu
    assert square(both.lower) <= square(a.mu.lower) + square(b.mu.lower)
    assert square(both.upper) >= square(a.mu.upper) + square(b.mu.upper)
    exact = float(np.hypot(a.mu.upper, b.mu.upper))
    assert both.upper <= exact * (1 + 1e-14)


@given(accounts(), st.integers(1, 10**6))
def test_repeating_a_run_multiplies_squares(a: Account, runs: int) -> None:
    repeated = (runs * a).mu
    assert square(repeated.lower) <= runs * square(a.mu.lower)
    assert square(repeated.upper) >= runs * square(a.mu.upper)
    assert repeated.upper <= a.mu.upper * runs**0.5 * (1 + 1e-14)


@given(accounts(), st.integers(1, 12))
def test_repeating_is_adding_to_oneself(a: Account, runs: int) -> None:
    total = sum([a] * runs, start=0 * runs)
    assert isinstance(total, Account)
    assert np.isclose(total.mu.upper, (runs * a).mu.upper, rtol=1e-13)
    assert np.isclose(total.mu.lower, (runs * a).mu.lower, rtol=1e-13)


@given(accounts(), accounts(), deltas)
def test_another_run_never_lowers_epsilon(a: Account, b: Account, delta: float) -> None:
    assert (a + b).epsilon(delta).upper >= a.epsilon(delta).upper * (1 - 1e-11)


@given(squares, noises, relations)
@example([4663.0], 497.0, "add-remove")
def test_mu_encloses_the_exact_quotient(values: list[float], noise: float, relation: Relation) -> None:
    table = table_of(values, noise, relation)
    for value, lower, upper in zip(values, table.mu_lower, table.mu_upper, strict=True):
        exact = RELATIONS[relation] ** 2 * Fraction(value) / square(noise)
        assert square(float(lower)) <= exact <= square(float(upper))
        # Root and quotient are moved by a unit at each end, up to 2u of a number, and the quotient rounds by u at each;
        # u is written out here.
        assert upper - lower <= 11 * 2.0**-53 * upper


@given(squares, noises)
def test_replace_one_is_twice_add_remove(values: list[float], noise: float) -> None:
    once, twice = table_of(values, noise), table_of(values, noise, "replace-one")
    assert (twice.mu_upper == 2 * once.mu_upper).all()
    assert (twice.mu_lower == 2 * once.mu_lower).all()


@given(squares, noises, st.floats(1.001, 100.0))
def test_more_noise_never_raises_epsilon(values: list[float], noise: float, factor: float) -> None:
    quiet = table_of(values, noise)
    loud = quiet.with_noise(noise * factor)
    assert (loud.epsilon_upper <= quiet.epsilon_upper).all()
    assert (loud.epsilon_lower <= quiet.epsilon_lower).all()
    assert (quiet.epsilon_lower <= quiet.epsilon_upper).all()


@given(squares.filter(any), epsilons, deltas, relations)
@example([4.0, 4.0], 20.0, 1e-8, "add-remove")
@example([1.0], 1.0, 1e-50, "replace-one")
@example([1.0], 1e-3, 1e-50, "zero-out")
def test_calibrated_noise_meets_its_target_and_less_does_not(
    values: list[float], epsilon: float, delta: float, relation: Relation
) -> None:
    table = replace(table_of(values, 1.0, relation), delta=delta)
    noise = table.calibrated_noise(epsilon, delta)
    enough = table.with_noise(noise)
    assert (enough.epsilon_upper <= epsilon).all()
    assert enough.worst().epsilon().upper <= epsilon
    assert table.with_noise(0.999 * noise).epsilon_upper.max() > epsilon


@given(st.floats(1e-4, 40.0), deltas)
def test_epsilon_encloses_the_exact_value(mu: float, delta: float) -> None:
    found = Account(mu=Interval.exactly(mu), relation="add-remove", method="exact").epsilon(delta)

    def below(x: arb) -> arb:
        """Φ(x)."""
        return (-x / arb(2).sqrt()).erfc() / 2

    def loss(epsilon: float) -> arb:
        m, e = arb(mu), arb(epsilon)
        return below(-e / m + m / 2) - e.exp() * below(-e / m - m / 2)

    # δ falls in ε, so an ε is enough where the loss is at most δ, and too small where it is more.
    with ctx.workdps(400):
        assert loss(found.upper) <= delta
        assert found.lower == 0 or loss(found.lower) >= delta


@given(accounts(), epsilons, st.floats(0.0, 1.0), st.floats(1.01, 100.0))
def test_every_number_is_an_interval(a: Account, epsilon: float, fpr: float, alpha: float) -> None:
    worse = replace(a, mu=Interval.exactly(a.mu.upper))
    for small, large in (
        (a.delta(epsilon), worse.delta(epsilon)),
        (a.rdp(alpha), worse.rdp(alpha)),
        (a.zcdp(), worse.zcdp()),
        (a.advantage(), worse.advantage()),
        (a.true_positive_rate(fpr), worse.true_positive_rate(fpr)),
    ):
        assert 0 <= small.lower <= large.lower <= large.upper == small.upper


@examples(15)
@given(
    st.sampled_from(["neighbourhood", "secure-sum", "single-node"]),
    st.sampled_from(
        [
            ("at-most:1", "at-most:3"),
            ("separated:3", "separated:2"),
            ("fixed:2,5", "at-most:2"),
            ("epochs:3", "at-most:2"),
        ]
        + [(some, "full") for some in ("every:2", "fixed:1,2,6", "separated:2,at-most=2", "at-most:6")]
    ),
)
def test_more_participation_never_lowers_what_is_learnt(view: str, spelled: tuple[str, str]) -> None:
    protocol = gossip(graphs.metropolis_weights("path:n=4"), rounds=6)
    less, more = (
        account_all(protocol, view, noise_multiplier=2.0, delta=1e-5, participation=each) for each in spelled
    )
    # The lower end of the smaller family is attained in the larger one too.
    assert (less.mu_lower <= more.mu_upper).all()
    assert (less.squared_upper <= less.participation.largest_count(6)).all()


@examples(5)
@given(st.permutations(range(6)), st.sampled_from(["neighbourhood", "secure-sum", "single-node"]))
def test_relabelling_nodes_permutes_the_table(order: list[int], view: str) -> None:
    matrix = graphs.metropolis_weights("path:n=6").matrix.toarray()
    plain = account_all(gossip(matrix, rounds=4), view, noise_multiplier=2.0, delta=1e-5)
    moved = gossip(graphs.matrix_weights(matrix[np.ix_(order, order)], labels=order), rounds=4)
    table = account_all(moved, view, noise_multiplier=2.0, delta=1e-5)
    for observer, target in zip(plain.observer_of.tolist(), plain.target_indices.tolist(), strict=True):
        ours, theirs = plain[observer, target], table[observer, target]
        assert ours.target == theirs.target
        # Both hold the truth; how close they come to it may depend on the order of the arithmetic.
        assert max(ours.mu.lower, theirs.mu.lower) <= min(ours.mu.upper, theirs.mu.upper)
        assert np.isclose(ours.mu.upper, theirs.mu.upper, rtol=1e-3)
