# SPDX-License-Identifier: Apache-2.0
"""Training in all verbs: they agree with the bound of one pair, move the right way, and refuse what makes no ball."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sottovoce import (
    View,
    account,
    account_all,
    calibrate,
    certify,
    gossip,
    graphs,
    rate,
    sensitivity,
    worst_coalition,
    worst_observer,
)
from sottovoce.accounting import Interrupted, local_account
from sottovoce.certificates import Mechanism
from sottovoce.errors import InputError
from sottovoce.feedback import pairs, training_sensitivity
from sottovoce.feedback.pairs import first_bounds
from sottovoce.feedback.problem import training, training_of
from sottovoce.participation import Participation
from sottovoce.sweeps import read_sweep, summarise, sweep

if TYPE_CHECKING:
    from pathlib import Path

PATH = graphs.metropolis_weights("path:n=3")
SLOPES = (np.array([0.5, 0.8, 0.9]), 1.0)
LEVELS = (1, 2, 1)


def trained(weights: Any = PATH, *, rounds: int = 2, updates: Any = (0.5, 1), **options: Any) -> Any:
    return gossip(weights, rounds=rounds, updates=updates, **options)


def test_few_pairs_are_those_of_the_bound_of_one() -> None:
    """One view after the other, with slopes and noise of each node's own: the same ends as pair by pair."""
    protocol = trained(updates=SLOPES, noise_levels=LEVELS)
    table = account_all(protocol, "secure-sum", noise_multiplier=1, delta=1e-5)
    assert len(table) == 6
    for observer in range(3):
        for target in set(range(3)) - {observer}:
            alone = training_sensitivity(
                PATH,
                View.secure_sum(observer),
                target,
                rounds=2,
                updates=SLOPES,
                noise_levels=np.array(LEVELS) ** 2,
            )
            pair = table[observer, target]
            assert pair.sensitivity_squared == alone.squared
            assert (pair.method, pair.assumption) == (alone.method, alone.assumption)


def test_many_pairs_are_bounded_and_the_worst_is_close() -> None:
    weights = graphs.metropolis_weights("ring:n=6")
    protocol = trained(weights, rounds=800)
    seen: list[tuple[int, int]] = []
    table = account_all(
        protocol, "secure-sum", noise_multiplier=1, delta=1e-5, progress=lambda *now: seen.append(now)
    )
    assert len(table) == 30
    assert seen[-1] == (30, 30)
    assert seen == sorted(seen)
    worst = table.worst()
    assert worst.sensitivity_squared is not None
    alone = training_sensitivity(
        weights, View.secure_sum(worst.observers[0]), worst.target, rounds=800, updates=(0.5, 1)
    )
    assert alone.squared.upper <= worst.sensitivity_squared.upper <= alone.squared.upper * 1.011
    assert (table.squared_lower <= table.squared_upper).all()
    assert (table.squared_lower > 0).all()
    assert {"memory-one", "shift"} <= set(table.method)
    # Neighbours are alike in a ring, and so are those two steps away.
    for distance in (1, 2, 3):
        alike = [table[i, (i + distance) % 6].mu.upper for i in range(6)]
        assert max(alike) <= min(alike) * 1.02
    noise = calibrate(protocol, "secure-sum", target_epsilon=1.0, target_delta=1e-5)
    assert table.with_noise(noise).epsilon_upper.max() == pytest.approx(1.0, rel=1e-3)


def test_first_bounds_hold_for_every_pair_that_is_solved() -> None:
    """Bounds of all targets at once, with slopes and noise of each node's own, lie above what the inequality proves."""
    rng = np.random.default_rng(3)
    weights = graphs.metropolis_weights("ring:n=7")
    lower = rng.uniform(-1, 0.5, 7)
    case = training(
        weights,
        View.secure_sum(0),
        rounds=800,
        updates=(lower, lower + rng.uniform(0, 1, 7)),
        noise_levels=rng.uniform(0.5, 2, 7),
    )
    assert case.slopes is not None
    found, method = first_bounds(case, np.arange(6))
    assert set(method) <= {"memory-one", "cap"}
    for place in range(6):
        label = int(case.loop.unknown[place])
        alone = training_sensitivity(
            weights,
            View.secure_sum(0),
            label,
            rounds=800,
            updates=(case.slopes.lower, case.slopes.upper),
            noise_levels=case.levels,
            effort="quick",
        )
        assert alone.squared.lower <= alone.squared.upper <= found[place] * (1 + 1e-9)


def test_what_cannot_arrive_in_time_costs_nothing() -> None:
    weights = graphs.metropolis_weights("path:n=16")
    found = sensitivity(trained(weights, rounds=3), View.secure_sum(0))
    assert (found.squared_upper[3:] == 0).all()
    assert set(found.method[3:]) == {"unreached"}
    assert (found.squared_upper[:3] > 0).all()


def test_larger_balls_never_give_less_in_any_verb() -> None:
    balls = [(0.9, 1), (0.5, 1), (-1, 1), "any"]
    star = graphs.metropolis_weights("star:n=3")
    runs = [trained(star, updates=ball) for ball in balls]
    accounts = [
        account(each, View.secure_sum(0), targets=[1], noise_multiplier=1, delta=1e-5).worst()
        for each in runs
    ]
    rates = [float(rate(each, View.secure_sum(0), [1]).upper[0]) for each in runs]
    pooled = [worst_coalition(each, 1, size=2).upper_bound for each in runs]
    for values in ([each.mu.upper for each in accounts], rates, pooled):
        assert all(a <= b * (1 + 1e-4) for a, b in itertools.pairwise(values))
    assert [each.assumption for each in accounts] == ["smooth", "smooth", "smooth", "none"]
    local = local_account(runs[0], noise_multiplier=1, delta=1e-5)
    assert accounts[-1].mu.upper <= local.mu.upper * (1 + 1e-9)
    assert local.assumption == "none"


@pytest.mark.parametrize("n", [4, 20])
def test_complete_graphs_give_one_over_the_others_whatever_the_maps(n: int) -> None:
    protocol = trained(graphs.metropolis_weights(f"complete:n={n}"), rounds=10, updates="any")
    found = sensitivity(protocol, View.secure_sum(0))
    assert found.squared_upper == pytest.approx(np.full(n - 1, 10 / (n - 1)), rel=1e-9)
    assert set(found.method) == {"twins"}
    assert rate(protocol, View.secure_sum(0), [1]).upper[0] == pytest.approx(1 / (n - 1), rel=1e-9)


def test_slopes_of_one_stay_averaging() -> None:
    plain, same = gossip(PATH, rounds=2), trained(updates=(1, 1))
    assert same.hash == plain.hash
    tables = [account_all(each, "secure-sum", noise_multiplier=1, delta=1e-5) for each in (plain, same)]
    assert np.array_equal(tables[0].squared_upper, tables[1].squared_upper)
    assert tables[1].assumption == "oblivious"


def test_the_rate_is_what_long_training_costs() -> None:
    star = trained(graphs.metropolis_weights("star:n=3"), updates=(0, 1))
    found = rate(star, View.secure_sum(0))
    assert found.upper == pytest.approx([0.9, 0.9], rel=1e-4)
    assert found.lower == pytest.approx([0.9, 0.9], rel=1e-6)
    assert (found.lower <= found.upper).all()
    long = sensitivity(
        trained(graphs.metropolis_weights("star:n=3"), rounds=3000, updates=(0, 1)), View.secure_sum(0)
    )
    assert long.squared_upper[0] <= 3000 * found.upper[0] * (1 + 1e-3)
    many = rate(trained(graphs.metropolis_weights("ring:n=30"), updates=(0.9, 1)), View.secure_sum(0))
    assert many.upper.max() == pytest.approx(0.5242, rel=0.02)
    assert (many.lower <= many.upper).all()
    assert many.lower.max() > 0.4


def test_the_worst_observer_and_coalition_are_those_of_all_views() -> None:
    protocol = trained()
    found = worst_observer(protocol, 1)
    alone = [sensitivity(protocol, View.secure_sum(i), [1]).squared_upper[0] for i in (0, 2)]
    assert found.sensitivity.upper == max(alone)
    assert found.exact
    pooled = worst_coalition(protocol, 1, size=2)
    assert pooled.upper_bound >= found.sensitivity.upper * (1 - 1e-4)
    assert pooled.account(noise_multiplier=1, delta=1e-5).assumption in {"smooth", "none"}
    assert pooled.guarantee(noise_multiplier=1, delta=1e-5).assumption == "smooth"


def test_a_sweep_holds_the_numbers_of_an_account_and_knows_its_ball(tmp_path: Path) -> None:
    protocol = trained(updates=SLOPES, noise_levels=LEVELS)
    done = sweep(protocol, "secure-sum", tmp_path / "s", tile=1)
    assert done.manifest.assumption == "smooth"
    assert done.manifest.updates is not None
    assert (done.manifest.updates.lower, done.manifest.updates.upper) == (0.5, 1.0)
    table = account_all(protocol, "secure-sum", noise_multiplier=1, delta=1e-5)
    arrow = read_sweep(tmp_path / "s").to_arrow()
    assert np.array_equal(arrow["squared_upper"].to_numpy(), table.squared_upper)
    assert np.array_equal(arrow["squared_lower"].to_numpy(), table.squared_lower)
    (tmp_path / "s" / "part-00001.parquet").unlink()
    again = sweep(protocol, "secure-sum", tmp_path / "s", resume=True)
    assert (again.computed, again.kept) == ((1,), (0, 2))
    for other in (
        trained(updates=(0.4, 1), noise_levels=LEVELS),
        trained(updates="any", noise_levels=LEVELS),
        trained(updates=SLOPES),
        gossip(PATH, rounds=2, noise_levels=LEVELS),
    ):
        with pytest.raises(InputError, match="a sweep is continued with"):
            sweep(other, "secure-sum", tmp_path / "s", resume=True)
    found = summarise(tmp_path / "s", noise_multiplier=1, delta=1e-5)
    assert found.worst.assumption == table.worst().assumption
    assert found.local is not None
    assert found.local.mu.upper == pytest.approx(
        local_account(protocol, noise_multiplier=1, delta=1e-5).mu.upper, rel=1e-12
    )


def test_an_interrupt_keeps_what_is_proved() -> None:
    def stop(*_: int) -> None:
        raise KeyboardInterrupt

    protocol = trained(graphs.metropolis_weights("ring:n=5"), rounds=800)
    with pytest.raises(Interrupted) as caught:
        account_all(protocol, "secure-sum", noise_multiplier=1, delta=1e-5, progress=stop)
    table = caught.value.table
    assert len(table) == caught.value.pairs == 20
    assert np.isfinite(table.squared_upper).all()
    whole = account_all(protocol, "secure-sum", noise_multiplier=1, delta=1e-5)
    assert (table.squared_upper >= whole.squared_upper * (1 - 1e-9)).all()


def test_effort_decides_how_many_are_solved() -> None:
    protocol = trained(graphs.metropolis_weights("ring:n=5"), rounds=3)
    fine, bulk = (sensitivity(protocol, View.secure_sum(0), effort=effort) for effort in ("fine", "bulk"))
    assert set(fine.method) == {"shift"}
    assert "memory-one" in set(bulk.method)
    assert (fine.squared_upper <= bulk.squared_upper * (1 + 1e-6)).all()
    assert bulk[1].witness.shape == (3, 2)
    assert np.linalg.norm(bulk[1].witness, axis=1).max() <= 1 + 1e-9


def test_too_much_at_once_is_refused_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "MOST_NUMBERS", 200)
    # A path has twenty nodes in ten pairs that are alike; of a ring one observer is looked at.
    path, ring = (trained(graphs.metropolis_weights(f"{kind}:n=20")) for kind in ("path", "ring"))
    with pytest.raises(InputError, match="at most 2 observers of a network of this size at once; got 10"):
        account_all(path, "secure-sum", noise_multiplier=1, delta=1e-5)
    assert len(sensitivity(path, View.secure_sum(0), effort="bulk")) == 19
    assert len(account_all(ring, "secure-sum", noise_multiplier=1, delta=1e-5, effort="bulk")) == 380


@pytest.mark.parametrize(
    ("updates", "sentence"),
    [
        ((np.nan, 1), "slopes must be finite with lower ≤ upper"),
        ((1, 0.5), "slopes must be finite with lower ≤ upper"),
        ((-np.inf, 1), "slopes must be finite"),
        (([0.5, 1], 1), "one a node of 3 nodes"),
        ((0.5,), "must be a pair"),
        ((0.5, 1, 2), "must be a pair"),
        ("some", "or 'any'; got 'some'"),
        (0.5, "must be a pair"),
        (("a", "b"), "must be a pair"),
    ],
)
def test_what_is_no_ball_is_refused(updates: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        trained(updates=updates)


def test_a_case_is_that_of_the_protocol() -> None:
    case = training_of(trained(noise_levels=LEVELS), View.secure_sum(0), Participation.full())
    assert case.levels.tolist() == [1.0, 4.0, 1.0]
    assert case.hops.tolist() == [0.0, 1.0]


def test_zeroing_a_node_out_needs_the_identity_in_its_ball(tmp_path: Path) -> None:
    """A node without data sends on what it received. On the star that attains 1.249 where [0.2, 0.5] allows 1.099."""
    star = gossip(graphs.metropolis_weights("star:n=3"), rounds=2, updates=(0.2, 0.5))
    settings: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-5, "relation": "zero-out"}
    sweep(star, "secure-sum", tmp_path / "pairs")
    for ask in (
        lambda: account(star, View.secure_sum(0), **settings),
        lambda: account_all(star, "secure-sum", **settings),
        lambda: calibrate(star, "secure-sum", target_epsilon=1, target_delta=1e-5, relation="zero-out"),
        lambda: certify(star, View.secure_sum(0), 1, mechanism=Mechanism(**settings)),
        lambda: summarise(tmp_path / "pairs", **settings),
    ):
        with pytest.raises(InputError, match=r"slopes in \[0.2, 0.5\] do not hold 1"):
            ask()
    assert (
        account(gossip(star.weights, rounds=2, updates=(0.2, 1)), View.secure_sum(0), **settings).relation
        == "zero-out"
    )


def test_a_target_that_contributes_in_an_unseen_round_alone_shows_nothing() -> None:
    path = gossip(graphs.metropolis_weights("path:n=4"), rounds=3, updates=(0.2, 0.6))
    found = sensitivity(path, View.single_node(1), participation="fixed:3")
    assert not found.squared_upper.any()


def test_everyone_is_exact_for_every_target() -> None:
    """Each contribution stands beside its own noise alone, whatever the maps are."""
    levels = (0.5, 1, "1/3", 2)
    for updates in ((0, 0.5), "any"):
        run = gossip(graphs.metropolis_weights("path:n=4"), rounds=5, updates=updates, noise_levels=levels)
        found = sensitivity(run, View.everyone, participation="at-most:3")
        assert found.squared_lower == pytest.approx([12, 3, 27, 0.75], rel=1e-15)
        assert found.squared_upper == pytest.approx([12, 3, 27, 0.75], rel=1e-15)
        assert (found.squared_lower <= found.squared_upper).all()
    many = gossip(graphs.metropolis_weights("ring:n=20"), rounds=5, updates=(0, 0.5))
    table = account_all(many, "everyone", noise_multiplier=2, delta=1e-5)
    assert (table.squared_lower == 5).all()
    assert (table.squared_upper == 5).all()
    assert table.assumption == "none"


def test_everyone_refuses_training_without_noise() -> None:
    run = gossip(graphs.metropolis_weights("ring:n=6"), rounds=3, updates=(0.9, 1), noise_levels=0)
    with pytest.raises(InputError, match=r"noise_levels must be finite and above 0; node 0 has 0"):
        sensitivity(run, View.everyone)
