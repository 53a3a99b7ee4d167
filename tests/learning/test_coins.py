"""Records that take part by coins: what is tossed, what is accounted for, and what a run says of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.test_sampling import COARSE, FINE, hockey_stick, sampled_density

from sottovoce import Participation, View, account_all, gaussian, gossip, graphs, train
from sottovoce.accounting import sampled_account
from sottovoce.errors import InputError
from sottovoce.learning import Run, coins, load_data, plan, synthetic_task, task_from
from sottovoce.learning.coins import most_heads
from sottovoce.learning.descent import Descent, _tossed
from sottovoce.learning.noise import NodeNoise, drawn_by, fresh_keys
from sottovoce.protocols import momentum

WEIGHTS = graphs.metropolis_weights("ring:n=6")
TASK = task_from(load_data("breast-cancer"), nodes=6, l2=0.01)


def ring(rounds: int) -> Any:
    return gossip(WEIGHTS, rounds=rounds)


def upper(run: Any) -> float:
    return float(run.account.epsilon().upper)


@pytest.mark.parametrize("seeded", [True, False])
def test_each_place_has_a_coin_of_its_own_and_batches_have_a_cap(seeded: bool) -> None:
    chosen = plan(TASK, ring(60), noise_multiplier=1.0, batch_fraction=0.2)
    descent = chosen.descent(drawn_by(fresh_keys(6, 1), TASK.dimension, seeded=seeded))
    heads = np.array([_tossed(descent, t) for t in range(60)])
    nominal = TASK.shards.nominal
    assert heads.sum(axis=2).max() <= most_heads(nominal, 0.2) < nominal / 2
    assert stats.binomtest(int(heads.sum()), heads.size, 0.2).pvalue > 1e-4
    assert np.array_equal(_tossed(descent, 7), heads[7])
    # Who else is there changes nobody's coin.
    fewer = TASK.shards.present.copy()
    fewer[:, 0] = False
    other = replace(descent, task=replace(TASK, shards=replace(TASK.shards, present=fewer)))
    assert (_tossed(other, 3) == heads[3]).all()


def test_tosses_beyond_the_cap_are_tossed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coins, "RARE", 0.3)
    places, rate = 5, 0.4
    most = most_heads(places, rate)
    assert most == 3
    records = load_data("breast-cancer").taken(np.arange(20))
    small = task_from(records, nodes=4, nominal=places, test_share=0)
    descent = Descent(
        task=small,
        protocol=gossip(graphs.metropolis_weights("ring:n=4"), rounds=1500),
        steps=np.ones(1500),
        noise=NodeNoise(fresh_keys(4, 3), small.dimension),
        noise_std=1.0,
        batch_fraction=rate,
    )
    heads = np.array([_tossed(descent, t) for t in range(1500)]).reshape(-1, places)
    count = heads.sum(axis=1)
    law = stats.binom(places, rate).pmf(np.arange(most + 1))
    found = np.bincount(count, minlength=most + 1)
    assert found.size == most + 1
    assert stats.chisquare(found, law / law.sum() * len(heads)).pvalue > 1e-4
    # Given the others, a record takes part with probability q while there is room, and not at all where there is none.
    others = heads[:, 1:].sum(axis=1)
    assert not heads[others == most, 0].any()
    assert stats.binomtest(int(heads[others < most, 0].sum()), int((others < most).sum()), rate).pvalue > 1e-4


@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("away", [False, True])
def test_what_a_plan_says_of_everyone_holds_by_quadrature(rounds: int, away: bool) -> None:
    rate, noise, epsilon = 0.3, 0.8, 0.5
    chosen = plan(TASK, ring(rounds), noise_multiplier=noise, batch_fraction=rate)
    axis = FINE if rounds == 1 else COARSE
    there, gone = sampled_density(axis, 1 / noise, rate), stats.norm.pdf(axis)
    if rounds == 2:
        there, gone = np.multiply.outer(there, there), np.multiply.outer(gone, gone)
    truth = hockey_stick(gone, there, epsilon) if away else hockey_stick(there, gone, epsilon)
    said = chosen.account.delta(epsilon)
    assert said.lower <= truth <= said.upper * (1 + 1e-5)
    if not away:
        assert said.upper == pytest.approx(truth, rel=2e-3)


def test_what_a_plan_says_of_everyone_is_what_dp_accounting_says() -> None:
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
    from dp_accounting.pld import PLDAccountant

    chosen = plan(
        TASK, ring(40), view="secure-sum", noise_multiplier=2.0, batch_fraction=0.1, step="1/sqrt(t)"
    )
    known = PLDAccountant()
    known.compose(SelfComposedDpEvent(PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0)), 40))
    assert known.get_epsilon(1e-5) <= upper(chosen) <= known.get_epsilon(1e-5) * (1 + 1e-4)
    assert (chosen.account.method, chosen.account.assumption) == ("amplified", "none")
    assert chosen.account.view == "secure-sum"
    assert chosen.unconditional.epsilon() == chosen.account.epsilon()


def test_where_a_view_hides_more_than_coins_the_mean_over_them_is_what_counts() -> None:
    rounds, rate, noise = 30, 0.5, 3.0
    complete = gossip(graphs.metropolis_weights("complete:n=6"), rounds=rounds)
    chosen = plan(TASK, complete, view="secure-sum", noise_multiplier=noise, batch_fraction=rate)
    assert (chosen.account.method, chosen.account.assumption) == ("told", "none")
    # Five hidden twins: Δ² of k rounds is k/5.
    k = np.arange(rounds + 1)
    for epsilon in (0.3, 1.0):
        each = np.array([gaussian.delta(mu, epsilon) for mu in np.sqrt(k / 5) / noise])
        known = float(stats.binom(rounds, rate).pmf(k) @ each)
        assert known <= chosen.account.delta(epsilon).upper <= known * (1 + 1e-4)
    assert upper(chosen) < chosen.unconditional.epsilon().upper


def test_smooth_rounds_are_bounded_by_their_price_and_their_count() -> None:
    chosen = plan(
        TASK, ring(12), view="secure-sum", noise_multiplier=4.0, batch_fraction=0.25, relation="replace-one"
    )
    found = chosen.account.coins
    assert found is not None
    assert (chosen.account.method, chosen.account.assumption) == ("told", "smooth")
    hull = chosen.exposure.reaction.hull(0, 12)
    assert hull is not None
    for k in (1, 3, 12):
        known = account_all(
            gossip(WEIGHTS, rounds=12, updates=hull),
            "secure-sum",
            noise_multiplier=4.0,
            delta=1e-5,
            participation=Participation.at_most(k),
            effort="bulk",
        )
        bound = found.squared_upper[found.counts.index(k)]
        assert known.squared_lower.max() <= bound <= k
    # The ball is that of the largest batch, divided by the expected one.
    nominal = TASK.shards.nominal
    assert chosen.settings["smoothness"] == pytest.approx(
        most_heads(nominal, 0.25) / (0.25 * nominal) * float(TASK.loss.smoothness or 0)
    )


def test_quadratic_losses_and_programs_have_coins_too() -> None:
    words: dict[str, Any] = {"noise_multiplier": 2.0, "batch_fraction": 0.25}
    told = plan(synthetic_task(6), ring(10), view="secure-sum", relation="replace-one", **words)
    assert (told.account.method, told.account.assumption) == ("told", "quadratic")
    heavy = momentum(WEIGHTS, rounds=8, beta="1/2")
    chosen = plan(TASK, heavy, **words)
    known = sampled_account(heavy, "everyone", noise_multiplier=2.0, delta=1e-5, participation="poisson:0.25")
    assert chosen.account.method == "told"
    assert upper(chosen) == pytest.approx(known.epsilon())
    # Of what momentum hides from a view, k rounds cost k prices.
    hidden = plan(TASK, heavy, view=View.secure_sum(0), relation="replace-one", **words)
    assert hidden.account.coins is not None
    assert hidden.account.assumption == "smooth"
    prices = np.array(hidden.account.coins.squared_upper) / hidden.account.coins.counts
    assert prices.max() == pytest.approx(prices.min())
    assert prices.max() < 1
    epochs = plan(TASK, heavy, noise_multiplier=2.0, batches=4)
    dealt = account_all(heavy, "everyone", noise_multiplier=2.0, delta=1e-5, participation="epochs:4")
    assert upper(epochs) == dealt.epsilon_upper.max()
    assert upper(epochs) < upper(plan(TASK, heavy, noise_multiplier=2.0))


def test_whole_nodes_take_part_in_every_round() -> None:
    whole, part = (
        plan(TASK, ring(10), noise_multiplier=4.0, unit="node", batch_fraction=q) for q in (1.0, 0.25)
    )
    assert part.account.coins is None
    assert upper(whole) == upper(part)


def test_noise_is_calibrated_to_coins_and_grows_with_what_is_asked() -> None:
    noises = [
        plan(TASK, ring(4), target_epsilon=epsilon, batch_fraction=rate)
        for epsilon, rate in ((2.0, 0.25), (1.0, 0.25), (1.0, 0.5), (1.0, 1.0))
    ]
    sizes = [one.noise_multiplier for one in noises]
    assert sizes == sorted(sizes)
    assert sizes[1] < plan(TASK, ring(4), target_epsilon=1.0, batches=4).noise_multiplier < sizes[3]
    for one, target in zip(noises, (2.0, 1.0, 1.0, 1.0), strict=True):
        assert 0.999 * target < upper(one) <= target
        assert one.spent(4)[0] == target
    with pytest.raises(InputError, match=r"nothing is, so that delta 0\.1 needs no noise"):
        plan(TASK, ring(2), target_epsilon=1.0, target_delta=0.1, batch_fraction=0.01)


def test_a_budget_is_that_of_the_coins() -> None:
    chosen = plan(TASK, ring(40), noise_multiplier=4.0, batch_fraction=0.25, max_epsilon=1.0)
    assert chosen.cut
    assert upper(chosen) <= 1
    more = plan(TASK, ring(chosen.protocol.rounds + 1), noise_multiplier=4.0, batch_fraction=0.25)
    assert upper(more) > 1


@pytest.mark.parametrize(
    ("data", "nodes", "words", "accuracy"),
    [
        ("breast-cancer", 6, {"rounds": 40, "noise_multiplier": 4.0}, 0.9),
        ("digits", 10, {"rounds": 60, "noise_multiplier": 2.0, "step": 4.0}, 0.85),
    ],
)
def test_batches_reach_the_accuracy_at_a_smaller_epsilon(
    data: str, nodes: int, words: dict[str, Any], accuracy: float
) -> None:
    task = task_from(load_data(data), nodes=nodes)
    given = dict(words)
    graph = gossip(graphs.metropolis_weights(f"ring:n={nodes}"), rounds=given.pop("rounds"))
    whole, dealt, tossed = (
        train(task, graph, seed=1, **given, **batches)
        for batches in ({}, {"batches": 4}, {"batch_fraction": 0.25})
    )
    for run in (whole, dealt, tossed):
        assert run.accuracy is not None
        assert run.accuracy > accuracy
    assert tossed.epsilon.upper < 0.6 * dealt.epsilon.upper < 0.3 * whole.epsilon.upper
    spent = tossed.history.epsilon
    assert (np.diff(spent) >= 0).all()
    assert spent[-1] == tossed.epsilon.upper


def test_sums_of_runs_are_those_of_records_that_always_take_part() -> None:
    run = plan(TASK, ring(10), noise_multiplier=4.0, batch_fraction=0.25)
    always = plan(TASK, ring(10), noise_multiplier=4.0).account
    assert run.account.always.mu.upper == always.mu.upper
    assert run.account.always.coins is None
    for both in (run.account + run.account, 2 * run.account, run.account + always):
        assert both.coins is None
        assert both.mu.upper == pytest.approx((2 * always).mu.upper)
        assert both.assumption == "none"


def test_a_run_by_coins_goes_on_bit_for_bit() -> None:
    kept: list[Run] = []
    words: dict[str, Any] = {"noise_multiplier": 4.0, "batch_fraction": 0.25}
    run = train(TASK, ring(10), checkpoint=kept.append, checkpoint_every=3, **words)
    middle = next(one for one in kept if one.state.round == 6)
    assert np.array_equal(train(TASK, ring(10), resume=middle, **words).state.models, run.state.models)
