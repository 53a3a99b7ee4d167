# SPDX-License-Identifier: Apache-2.0
"""The utility study against exact expectations, in a small size."""

import math

import numpy as np
import pytest
from tests.reference import exact_value
from tests.studies.small import quick

from sottovoce import View, gaussian, gossip, graphs, sensitivity
from sottovoce.errors import InputError
from sottovoce.learning import load_data, synthetic_task, task_from
from sottovoce.studies import utility
from sottovoce.studies.results import near
from sottovoce.studies.utility import METHODS, RULES, Config, Result, constant_sensitivity, run, terms

QUICK = Config.quick()


@pytest.fixture(scope="module")
def result() -> Result:
    found: Result = quick("utility")
    return found


def expected(row: utility.Row) -> float:
    """E of the excess risk, exactly: the mean model obeys θ̄ ← θ̄ − η(h(θ̄ − θ*) + ξ̄) in each coordinate by itself."""
    task = synthetic_task(
        row.nodes, dimension=4, records=10, convexity=1.0, smoothness=4.0, heterogeneity=0.5, seed=1
    )
    assert task.optimum is not None
    h, away = task.linear[0], -task.optimum.model
    tuned = min(0.25, max(math.log(row.rounds), 1.0) / row.rounds)
    size = 0.25 if row.rule == RULES[0] else tuned
    clip = np.linalg.norm(h * task.shards.pooled[0], axis=1).max() * 1.001
    variance = (row.noise_multiplier * clip / 10) ** 2 / row.nodes
    shrink = 1 - size * h
    # θ̄_t = shrinkᵗ·away − η Σ_{s<t} shrink^{t−1−s} ξ̄_s, for t = 0..T−1, and linear combinations of them.
    T = row.rounds
    decay = np.array([shrink**t for t in range(T)])
    answer = np.zeros((T, T, len(h)))
    for t in range(1, T):
        answer[t, :t] = -size * decay[t - 1 :: -1]
    if row.rule == RULES[0]:
        squares = (decay * away) ** 2 + variance * (answer**2).sum(axis=1)
        return float((h * squares).sum(axis=1).mean() / 2)
    weights = np.arange(1.0, T + 1) / (T * (T + 1) / 2)
    mean = weights @ (decay * away)
    noise = variance * (np.einsum("t,tsd->sd", weights, answer) ** 2).sum(axis=0)
    return float((h * (mean**2 + noise)).sum() / 2)


def test_measured_risks_are_those_expected(result: Result) -> None:
    for row in result.rows:
        truth = expected(row)
        assert abs(row.excess_risk - truth) <= 5 * row.standard_error + 1e-9, row


def test_every_combination_is_there(result: Result) -> None:
    combinations = {(row.graph, row.rounds, row.rule, row.method) for row in result.rows}
    assert len(result.rows) == len(combinations) == 2 * 2 * len(RULES) * len(METHODS)
    assert result.table.columns[-1] == "theorem_17_start"
    assert {len(row) for row in result.table.rows} == {len(result.table.columns)}
    assert result.table.rows[3][result.table.columns.index("excess_risk")] == result.rows[3].excess_risk
    with pytest.raises(InputError, match="no row for ring:n=9"):
        result.excess("ring:n=9", 10, RULES[0], "central")


def test_noise_is_calibrated_to_one_guarantee(result: Result) -> None:
    for row in result.rows:
        if row.method != "no noise":
            mu = math.sqrt(row.sensitivity_squared) / row.noise_multiplier
            assert gaussian.epsilon(mu, 1e-5) == pytest.approx(1.0, rel=1e-6)
    for row in result.rows:
        if row.method == "network":
            protocol = gossip(graphs.metropolis_weights(row.graph), rounds=row.rounds)
            truth = sensitivity(protocol, View.secure_sum(0))
            assert row.sensitivity_squared == truth.squared_upper.max()
        if row.method == "everyone":
            assert row.sensitivity_squared == row.rounds


def test_what_survives_of_the_claim(result: Result) -> None:
    verdicts = [finding.verdict for finding in result.findings]
    assert verdicts[:2] == ["does not hold", "holds"]
    claims = {
        finding.claim.partition(", up to a factor of 2 ")[2]: finding for finding in result.findings[2:]
    }
    assert {claim: finding.verdict for claim, finding in claims.items()} == {
        "(constant step 1/L, time-averaged; noise for constant contributions, no guarantee)": "does not hold",
        "(constant step 1/L, time-averaged; noise certified for secure sums)": "does not hold",
        "(constant step 1/L, time-averaged; noise for everyone's view)": "does not hold",
        "(tuned step, weighted average; noise for constant contributions, no guarantee)": "holds",
        "(tuned step, weighted average; noise certified for secure sums)": "holds in part",
        "(tuned step, weighted average; noise for everyone's view)": "does not hold",
    }
    last = max(QUICK.rounds)
    # On a complete graph the worst case is the constant one; on a ring honesty costs what Δ² says.
    assert result.over_central("complete:n=8", last, RULES[1], "network") == pytest.approx(8 / 7, rel=0.05)
    honest = result.over_central("ring:n=8", last, RULES[1], "network")
    printed = result.over_central("ring:n=8", last, RULES[1], "constant contribution")
    assert honest > 2 * printed
    # A trusted server with the constant step does not have that leading term either.
    constant, tuned = (result.noise_part("ring:n=8", last, rule, "central") for rule in RULES)
    assert constant > 10 * tuned
    told = claims["(constant step 1/L, time-averaged; noise certified for secure sums)"].measured
    same = result.over_central("ring:n=8", last, RULES[0], "network")
    ratio = result.noise_part("ring:n=8", last, RULES[0], "network") / tuned
    assert f"{near(ratio, 2)} (ring:n=8, {near(same, 2)} times central with that step)" in told


def test_a_constant_contribution_attains_what_is_said() -> None:
    weights = graphs.metropolis_weights("path:n=4")
    protocol = gossip(weights, rounds=6)
    truth = max(
        float(exact_value(weights, View.secure_sum(i), j, np.ones(6)))
        for i in range(4)
        for j in range(4)
        if i != j
    )
    assert constant_sensitivity(protocol) == pytest.approx(truth, rel=1e-9)
    assert constant_sensitivity(protocol, [0]) <= truth * (1 + 1e-9)


def test_terms_are_those_of_the_theorem() -> None:
    config = Config(target_epsilon=2.0, target_delta=1e-6, dimension=3)
    task = synthetic_task(5, dimension=3, convexity=0.5, smoothness=2.0, heterogeneity=0.25)
    found = terms(config, task, gap=0.1, rounds=100, unit=0.2)
    noise = 3 * math.log(1e6) / 4 * 0.2**2
    assert found.privacy == pytest.approx(noise / (25 * 0.5))
    assert found.root == pytest.approx(noise / (5 * 0.5) / (0.01 * 10))
    assert found.mixing == pytest.approx(noise / (5 * 0.5) / (1e-4 * 100))
    assert found.heterogeneity == pytest.approx(2 * 0.25**2 / (0.25 * 0.01 * 1e4))
    assert found.start == pytest.approx(2 / 0.1 * math.exp(-0.1 * 0.25 * 100))


def test_logistic_regression_says_the_same() -> None:
    heard: list[tuple[int, int]] = []
    config = Config(data="breast-cancer", graphs=("ring:n=6",), rounds=(5, 25), runs=4)
    found = run(config, progress=lambda done, total: heard.append((done, total)))
    assert heard == [(1, 2), (2, 2)]
    assert found.over_central("ring:n=6", 25, RULES[1], "network") > 1.2
    task = task_from(load_data("breast-cancer"), 6, l2=0.1, test_share=0.0)
    models = np.random.default_rng(0).standard_normal((6, task.dimension)) * 5
    weights = task.shards.present.astype(float)
    # The clip of √2 is never reached.
    assert task.loss.clipped_sums(models, task.shards, weights, math.sqrt(2) * 1.001)[1] == 0


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="runs must be a whole number of at least 2"):
        run(Config(runs=1))
    with pytest.raises(InputError, match="rounds must be a whole number of at least 2; got 1"):
        run(Config(rounds=(1, 5)))
    with pytest.raises(InputError, match=r"the study needs a strongly convex loss \(take l2 above 0\)"):
        run(Config(data="breast-cancer", graphs=("ring:n=4",), rounds=(2,), runs=2, l2=0.0))
