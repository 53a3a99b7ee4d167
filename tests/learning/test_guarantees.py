"""Accounts of training loops: damping, varying steps, budgets, and the assumption that goes with them."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.learning.exact import moving_form
from tests.reference import exact_weights, seen_and_known, semidefinite_maximum

from sottovoce import Scenario, View, account_all, gossip, graphs
from sottovoce.errors import InputError, NotCertified, ViewError
from sottovoce.learning import Exposure, load_data, quadratic_damping, synthetic_task, task_from

PATH = graphs.metropolis_weights("path:n=4")


def exposure(
    view: Any, steps: Any, damping: Any, weights: Any = PATH, *, state_free: bool = False, **more: Any
) -> Exposure:
    steps = np.asarray(steps, dtype=np.float64)
    damping = np.asarray(damping, dtype=np.float64)
    scenario = Scenario(protocol=gossip(weights, rounds=len(steps)), view=view, **more)
    return Exposure(scenario=scenario, steps=steps, damping=damping, state_free=state_free)


def truth(
    weights: Any, view: View, target: int, steps: list[Fraction], damping: list[list[Fraction]]
) -> float:
    """Δ² of s_t = D_t W s_{t−1} + η_t(c_t + u_t), from the recurrence in rationals and a general solver."""
    W = exact_weights(weights)
    C, known = seen_and_known(view, W)
    form = moving_form(W, C, known, target, damping, steps)
    return semidefinite_maximum(form) if form.any() else 0.0


@pytest.mark.parametrize(
    "view",
    [View.secure_sum(1), View.neighbourhood(0), View.single_node(1), View.coalition_messages([0, 1])],
    ids=str,
)
@pytest.mark.parametrize("kind", ["damped", "damped unevenly", "falling steps", "falling steps, damped"])
def test_tables_hold_the_truth_of_the_trainers_loop(view: View, kind: str) -> None:
    rounds = 4
    steps = [Fraction(1, t + 1) if "falling" in kind else Fraction(1, 2) for t in range(rounds)]
    each = [Fraction(3, 4), Fraction(1, 2), Fraction(1), Fraction(1, 4)] if "unevenly" in kind else None
    if each is None:
        pull = Fraction(1, 2) if "damped" in kind else Fraction(0)
        damping = [[1 - step * pull] * 4 for step in steps]
    else:
        damping = [each] * rounds
    table = exposure(view, steps, [[float(x) for x in row] for row in damping]).averaging(
        noise_multiplier=1.0, delta=1e-5
    )
    assert table.assumption == "hidden-state"
    for place, target in enumerate(table.target_indices):
        expected = truth(PATH, view, int(target), steps, damping)
        assert table.squared_lower[place] <= expected + 1e-6
        assert table.squared_upper[place] >= expected - 1e-6
        assert table.squared_upper[place] <= expected * 1.001 + 1e-6


def test_plain_loops_are_those_of_the_accountant() -> None:
    found = exposure("secure-sum", np.full(6, 0.3), np.ones((6, 1))).averaging(
        noise_multiplier=2.0, delta=1e-6
    )
    plain = account_all(gossip(PATH, rounds=6), "secure-sum", noise_multiplier=2.0, delta=1e-6)
    assert np.array_equal(found.squared_upper, plain.squared_upper)
    assert np.array_equal(found.epsilon_upper, plain.epsilon_upper)
    assert found.assumption == "hidden-state"


def test_the_star_whose_neighbour_forgets() -> None:
    """Two leaves, the centre sees secure sums, T = 2: 1, and 13/10 once the other leaf passes nothing on."""
    star = graphs.metropolis_weights("star:n=3")
    for damping, expected in (([1.0, 1.0, 1.0], 1.0), ([1.0, 1.0, 0.0], 1.3)):
        table = exposure(View.secure_sum(0), [1.0, 1.0], [damping] * 2, star).averaging(
            noise_multiplier=1.0, delta=1e-5
        )
        assert table[1].sensitivity_squared is not None
        assert table[1].sensitivity_squared.lower == pytest.approx(expected, rel=3e-4)
        assert table[1].sensitivity_squared.upper == pytest.approx(expected, rel=3e-4)
        assert table[1].sensitivity_squared.upper >= expected


def test_the_targets_own_other_records_are_part_of_the_assumption() -> None:
    """The same star when it is the target that passes nothing on, and the other leaf everything: 13/10 again."""
    star = graphs.metropolis_weights("star:n=3")
    table = exposure(View.secure_sum(0), [1.0, 1.0], [[1.0, 0.0, 1.0]] * 2, star).averaging(
        noise_multiplier=1.0, delta=1e-5
    )
    expected = truth(
        star, View.secure_sum(0), 1, [Fraction(1)] * 2, [[Fraction(1), Fraction(0), Fraction(1)]] * 2
    )
    assert expected == pytest.approx(1.3, rel=1e-6)
    assert table[1].sensitivity_squared is not None
    assert 1.3 <= table[1].sensitivity_squared.upper < 1.3005


def test_everyone_counts_rounds_whatever_the_steps() -> None:
    found = exposure("everyone", 1 / np.arange(1.0, 10.0), np.full((9, 1), 0.5))
    account = found.table(noise_multiplier=3.0, delta=1e-5).worst()
    assert account.mu.lower <= 1.0 <= account.mu.upper
    assert account.assumption == "none"
    assert found.everyone(noise_multiplier=3.0, delta=1e-5, rounds=4).mu.upper == pytest.approx(2 / 3)
    assert exposure(View.everyone, np.ones(9), np.ones((9, 1))).unconditional


def test_rounds_of_any_scale_are_programs_of_their_own() -> None:
    mild = [Fraction(10, 10 + t) for t in range(5)]
    uneven = [[Fraction(1), Fraction(1, 2), Fraction(3, 4), Fraction(1)]] * 5
    for damping in ([[Fraction(1)] * 4] * 5, uneven):
        found = exposure(View.secure_sum(0), mild, damping).averaging(noise_multiplier=1.0, delta=1e-5)
        for place, target in enumerate(found.target_indices):
            expected = truth(PATH, View.secure_sum(0), int(target), mild, damping)
            assert found.squared_lower[place] - 1e-6 <= expected <= found.squared_upper[place] + 1e-6
            assert found.squared_upper[place] <= 1.001 * float(expected) + 1e-9
    steep = exposure(View.secure_sum(0), 1 / np.arange(1.0, 21.0) ** 2, np.ones((20, 1)))
    worst = steep.averaging(noise_multiplier=1.0, delta=1e-5)
    assert (worst.squared_upper <= 20).all()


def test_more_seen_and_longer_runs_never_cost_less() -> None:
    steps = 1 / np.sqrt(np.arange(1.0, 13.0))
    found = exposure("secure-sum", steps, (1 - 0.1 * steps)[:, None])
    epsilons = [
        float(found.table(noise_multiplier=3.0, delta=1e-5, rounds=t).epsilon_upper.max())
        for t in (1, 3, 6, 12)
    ]
    assert epsilons == sorted(epsilons)
    everyone = found.everyone(noise_multiplier=3.0, delta=1e-5).epsilon().upper
    assert epsilons[-1] <= everyone


def test_a_budget_says_how_many_rounds_fit() -> None:
    found = exposure("secure-sum", np.full(9, 0.5), np.full((9, 1), 0.99))
    rounds = found.rounds_within(2.0, noise_multiplier=4.0, delta=1e-5)
    assert 1 <= rounds < 9
    for count, fits in ((rounds, True), (rounds + 1, False)):
        table = found.table(noise_multiplier=4.0, delta=1e-5, rounds=count)
        assert (table.epsilon_upper.max() <= 2.0) == fits
    assert found.rounds_within(100.0, noise_multiplier=4.0, delta=1e-5) == 9
    with pytest.raises(NotCertified, match=r"not a single round stays within ε = 0.01"):
        found.rounds_within(0.01, noise_multiplier=4.0, delta=1e-5)


def test_contributions_that_are_fixed_in_advance_need_no_assumption() -> None:
    table = exposure("secure-sum", np.ones(3), np.full((3, 1), 0.5), state_free=True).table(
        noise_multiplier=1.0, delta=1e-5
    )
    assert table.assumption == "quadratic"


def test_quadratic_damping() -> None:
    assert quadratic_damping(synthetic_task(4, convexity=2.0, smoothness=2.0), 0.25).tolist() == [0.5] * 4
    with pytest.raises(NotCertified, match="the loop that ridge closes is not linear"):
        quadratic_damping(task_from(load_data("diabetes"), 4), 0.1)
    with pytest.raises(NotCertified, match="of another curvature in each coordinate"):
        quadratic_damping(synthetic_task(4, convexity=1.0, smoothness=2.0), 0.1)
    with pytest.raises(InputError, match=r"step times curvature must lie between 0 and 1; got 3.0"):
        quadratic_damping(synthetic_task(4), 3.0)


def test_what_is_refused() -> None:
    ones = np.ones(3)
    with pytest.raises(
        InputError, match="view must be one of everyone, neighbourhood, secure-sum, single-node"
    ):
        exposure("coalition-sums", ones, np.ones((3, 1)))
    with pytest.raises(ViewError, match=r"named views, such as View.secure_sum"):
        exposure(View(observation=np.eye(4)), ones, np.ones((3, 1)))
    with pytest.raises(InputError, match="observers must name at least one node"):
        exposure("secure-sum", ones, np.full((3, 1), 0.5), observers=[]).table(
            noise_multiplier=1.0, delta=1e-5
        )
    with pytest.raises(InputError, match="damping must lie between 0 and 1"):
        exposure("secure-sum", ones, np.full((3, 1), -0.1))


def test_a_node_that_passes_nothing_on_shows_nothing_of_others() -> None:
    table = exposure(View.single_node(0), np.ones(3), [[0, 1, 1, 1]] * 3).averaging(
        noise_multiplier=1.0, delta=1e-5
    )
    assert table.squared_upper.tolist() == [0, 0, 0]


def test_progress_reaches_all_pairs() -> None:
    heard: list[tuple[int, int]] = []
    exposure("secure-sum", np.ones(3), np.full((3, 1), 0.5)).averaging(
        noise_multiplier=1.0, delta=1e-5, progress=lambda done, total: heard.append((done, total))
    )
    assert heard[-1] == (12, 12)
