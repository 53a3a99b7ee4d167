# SPDX-License-Identifier: Apache-2.0
"""Lower ends are attained: the search finds what going through all linear loops finds, and stays below the proof."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import acb, acb_mat, arb, ctx

from sottovoce import View, gossip, graphs, sensitivity
from sottovoce.feedback import best_attack, training, training_sensitivity
from sottovoce.feedback.attacks import ANGLES, Attack, lasting_rates, plain_attacks, statistic_value
from sottovoce.verification import rates_by_each
from sottovoce.verification.balls.attacks import attained_in_balls
from sottovoce.verification.balls.loops import exact_loop


def exact_power(case: Any, target: int, slopes: Any, stream: Any) -> float:
    """Δ² of one linear loop for one stream."""
    return float(stream @ exact_form(case, target, slopes) @ stream)


def exact_form(case: Any, target: int, slopes: Any) -> np.ndarray:
    """M of one linear loop, from the stacked observations."""
    A, C = case.loop.transition.toarray(), case.rows.toarray()
    levels = case.levels[case.loop.unknown]
    T, m = slopes.shape
    H = np.zeros((T, len(C), T, m))
    for s in range(T):
        moved = np.eye(m)
        for t in range(s, T):
            if t > s:
                moved = np.diag(slopes[t]) @ A @ moved
            H[t, :, s] = C @ moved
    flat = H.reshape(T * len(C), T * m)
    signal = H[..., target].reshape(T * len(C), T)
    return np.asarray(signal.T @ np.linalg.pinv((flat * np.tile(levels, T)) @ flat.T, rcond=1e-12) @ signal)


def worst_of_all(case: Any, target: int, ends: tuple[float, float], rounds: int) -> float:
    """The largest Δ² over all slopes at the ends and all signs."""
    m = case.loop.unknown.size
    signs = np.array([[1.0, *rest] for rest in itertools.product([1.0, -1.0], repeat=rounds - 1)])
    worst = 0.0
    for choice in itertools.product(ends, repeat=m * (rounds - 1)):
        slopes = np.vstack([np.ones(m), np.reshape(choice, (rounds - 1, m))])
        worst = max(worst, float(((signs @ exact_form(case, target, slopes)) * signs).sum(axis=1).max()))
    return worst


@pytest.mark.parametrize("ends", [(0.0, 1.0), (0.5, 1.0), (-1.0, 1.0)])
@pytest.mark.parametrize(("graph", "rounds"), [("star:n=4", 3), ("path:n=4", 3), ("ring:n=5", 3)])
def test_no_loop_exceeds_the_proof_and_the_search_finds_the_worst(
    graph: str, rounds: int, ends: tuple[float, float]
) -> None:
    weights = graphs.metropolis_weights(graph)
    found = training_sensitivity(weights, View.secure_sum(0), 1, rounds=rounds, updates=ends, effort="fine")
    case = training(weights, View.secure_sum(0), rounds=rounds, updates=ends)
    worst = worst_of_all(case, 0, ends, rounds)
    assert worst <= found.squared.upper * (1 + 1e-12)
    assert found.squared.lower >= worst * (1 - 0.01)


def test_the_statistic_is_that_of_the_stacked_observations() -> None:
    rng = np.random.default_rng(4)
    case = training(
        graphs.metropolis_weights("random-regular:n=8,d=3,seed=1"),
        View.coalition_sums([0, 5]),
        rounds=5,
        updates=(-1, 1),
        noise_levels=rng.uniform(0.5, 2, 8),
    )
    slopes, stream = rng.uniform(-1, 1, (5, 6)), rng.choice([-1.0, 1.0], 5)
    best = exact_power(case, 2, slopes, stream)
    for _ in range(20):
        assert statistic_value(case, 2, slopes, rng.normal(size=(5, 2)), stream) <= best * (1 + 1e-9)


@pytest.mark.parametrize("rounds", [3, 20, 500])
def test_attacks_attain_what_they_say(rounds: int) -> None:
    """The slopes and the stream of an attack, put through the exact loop of averaging with damping."""
    weights = graphs.metropolis_weights("star:n=4")
    case = training(weights, View.secure_sum(0), rounds=rounds, updates=(0.5, 1))
    attack = best_attack(case, 0)
    if len(attack.slopes) == 1:
        damping = np.concatenate([[1.0], attack.slopes[0]])
        exact = sensitivity(gossip(weights, rounds=rounds, damping=damping), View.secure_sum(0), targets=[1])
        assert attack.squared <= exact.squared_upper[0]
        assert attack.squared >= 0.95 * exact.squared_lower[0]
    else:
        slopes = attack.slopes
        assert ((slopes == 0.5) | (slopes == 1)).all()
        assert np.abs(attack.contributions).max() <= 1 + 1e-12
        real = exact_power(case, 0, slopes, attack.contributions.real)
        turned = exact_power(case, 0, slopes, attack.contributions.imag)
        assert attack.squared <= (real + turned) * (1 + 1e-9)
        assert attack.squared >= (real + turned) * (1 - 1e-6)


@pytest.mark.parametrize(
    ("graph", "observer", "target", "updates", "ratio"),
    [
        ("star:n=5", 0, 1, (0, 1), 0.9999),
        ("ring:n=6", 0, 1, (0.9, 1), 0.90),
        ("ring:n=6", 0, 1, (0, 1), 0.95),
        ("ring:n=8", 0, 2, (0.5, 1), 0.998),
        ("path:n=4", 1, 0, (0.5, 1), 0.99),
    ],
)
def test_ends_are_close(graph: str, observer: int, target: int, updates: Any, ratio: float) -> None:
    weights = graphs.metropolis_weights(graph)
    found = training_sensitivity(
        weights, View.secure_sum(observer), target, rounds=12, updates=updates, effort="fine"
    )
    assert ratio <= found.squared.lower / found.squared.upper <= 1


@pytest.mark.parametrize(
    "participation", ["every:3", "every:4,offset=2", "fixed:2,5", "at-most:3", "separated:4", "epochs:3"]
)
def test_participation_bounds_both_ends(participation: str) -> None:
    weights = graphs.metropolis_weights("ring:n=6")
    whole = training_sensitivity(weights, View.secure_sum(0), 1, rounds=12, updates=(0, 1))
    found = training_sensitivity(
        weights, View.secure_sum(0), 1, rounds=12, updates=(0, 1), participation=participation
    )
    assert 0 < found.squared.lower <= found.squared.upper <= whole.squared.upper * (1 + 1e-3)
    assert found.squared.upper <= found.squared.lower * 1.6


def test_cyclic_batches_restore_the_share_of_the_degree() -> None:
    weights = graphs.metropolis_weights("ring:n=8")
    rates = [
        training_sensitivity(
            weights,
            View.secure_sum(0),
            1,
            rounds=1000 * k,
            updates=(0, 1),
            participation=f"every:{k}",
            effort="quick",
        ).squared.upper
        / 1000
        for k in (1, 2, 5, 10)
    ]
    assert rates == pytest.approx([0.681, 0.572, 0.520, 0.519], abs=2e-3)


NETWORKS = ("star:n=4", "ring:n=6", "random-regular:n=10,d=3,seed=2")


@pytest.mark.parametrize("graph", NETWORKS)
@pytest.mark.parametrize("rounds", [1, 7, 30])
def test_lower_ends_are_proved_and_close_to_balls(graph: str, rounds: int) -> None:
    """In floats, rounding counted, against 256 bits and more; the best attack and the plain ones of every target."""
    case = training(graphs.metropolis_weights(graph), View.secure_sum(0), rounds=rounds, updates=(0.25, 1))
    noise = [Fraction(1)] * case.weights.n
    attack = best_attack(case, 1)
    loop = exact_loop(case.about(int(case.loop.unknown[1])), noise)
    truth = attained_in_balls(attack.stored(case), loop)
    assert truth * (1 - 1e-11) <= attack.squared <= truth
    values, _ = plain_attacks(case)
    for place in range(case.loop.unknown.size):
        loop = exact_loop(case.about(int(case.loop.unknown[place])), noise)
        found = [
            attained_in_balls(made.stored(case), loop)
            for slope in (0.25, 1.0)
            for angle in ANGLES[::4]
            for made in [lasting(case, slope, float(angle))]
        ]
        assert max(found) * (1 - 1e-11) <= values[place] <= max(found)


def lasting(case: Any, slope: float, angle: float) -> Attack:
    """Plain sums, one slope for all and a stream that turns."""
    return Attack(
        squared=0.0,
        slopes=np.full((1, case.loop.unknown.size), slope),
        statistic=np.ones((1, case.rows.shape[0])),
        contributions=np.ones(1, dtype=complex),
        angle=angle,
    )


@pytest.mark.parametrize("graph", NETWORKS)
def test_rates_from_below_stay_below_the_solved_loop(graph: str, monkeypatch: Any) -> None:
    """λ = Cᵀw + e^{iθ}AᵀDλ solved in 256 bits."""
    case = training(graphs.metropolis_weights(graph), View.secure_sum(0), rounds=500, updates=(0.25, 1))
    loop = exact_loop(case.anyone, [Fraction(1)] * case.weights.n)
    monkeypatch.setattr(ctx, "prec", 256)
    m, best = case.loop.unknown.size, np.zeros(case.loop.unknown.size)
    for slope in (0.25, 1.0):
        for angle in ANGLES[::4]:
            attack = lasting(case, slope, float(angle)).stored(case)
            turn = (acb(0, 1) * arb(float(angle))).exp() * slope
            A = [[acb(arb(loop.A[i, k])) for i in range(m)] for k in range(m)]
            step = acb_mat([[acb(i == k) - turn * A[i][k] for k in range(m)] for i in range(m)])
            # One row is seen, and weighs what the statistic says at its pivot.
            row = [loop.C[0, k] / loop.C[0, int(case.anyone.seen.pivots[0])] for k in range(m)]
            shown = acb_mat([[acb(arb(x)) * float(attack.statistic[0, 0, 0])] for x in row])
            state = [step.solve(shown)[k, 0] for k in range(m)]
            variance = sum((abs(x) ** 2 for x in state), arb(0))
            truth = [x.real**2 / variance for x in state]
            found = rates_by_each(attack, case.anyone)
            assert all(arb(f) <= t for f, t in zip(found, truth, strict=True))
            assert all(f >= float(t.mid()) * (1 - 1e-9) - 1e-22 for f, t in zip(found, truth, strict=True))
            best = np.maximum(best, found)
    assert lasting_rates(case)[0] == pytest.approx(best, rel=1e-12)


def test_a_loop_that_does_not_fade_has_no_rate() -> None:
    case = training(graphs.metropolis_weights("star:n=4"), View.secure_sum(0), rounds=9, updates="any")
    assert rates_by_each(lasting(case, 4.0, 0.0).stored(case), case.anyone).tolist() == [0.0] * 3
