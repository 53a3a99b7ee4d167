# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from sottovoce import gaussian
from sottovoce.auditing.confidence import clopper_pearson, epsilon_shown, evidence, mu_shown
from sottovoce.errors import InputError


@pytest.mark.parametrize("runs", [1, 7, 40, 5000])
@pytest.mark.parametrize("error", [0.25, 0.01, 2.5e-4])
def test_the_bounds_are_where_the_binomial_tails_are_as_small_as_the_error(runs: int, error: float) -> None:
    counts = np.unique(np.linspace(0, runs, 12).astype(int))
    lower, upper = clopper_pearson(counts, runs, error)
    for count, low, high in zip(counts, lower, upper, strict=True):
        if count > 0:
            assert stats.binom.sf(count - 1, runs, low) == pytest.approx(error, rel=1e-6)
        if count < runs:
            assert stats.binom.cdf(count, runs, high) == pytest.approx(error, rel=1e-6)
    assert lower[0] == 0
    assert upper[-1] == 1


@pytest.mark.parametrize("runs", [5, 30])
def test_the_bounds_cover_every_probability_as_often_as_they_say(runs: int) -> None:
    counts = np.arange(runs + 1)
    lower, upper = clopper_pearson(counts, runs, 0.05)
    for chance in np.linspace(0.001, 0.999, 301):
        weights = stats.binom.pmf(counts, runs, chance)
        assert weights[lower > chance].sum() <= 0.05 + 1e-12
        assert weights[upper < chance].sum() <= 0.05 + 1e-12


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_randomised_response_shows_its_own_epsilon(epsilon: float) -> None:
    truth = np.array([np.exp(epsilon) / (1 + np.exp(epsilon))])
    assert epsilon_shown(1 - truth, truth, 0.0)[0] == pytest.approx(epsilon, rel=1e-9)
    assert epsilon_shown(1 - truth, truth, 0.0)[0] <= epsilon
    assert epsilon_shown(1 - truth, truth, 0.1)[0] < epsilon


@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
def test_no_threshold_on_a_gaussian_shows_more_than_its_epsilon_and_its_mu(mu: float) -> None:
    thresholds = np.linspace(-1, 1 + mu, 2001)
    false_alarm, hit = stats.norm.sf(thresholds), stats.norm.sf(thresholds - mu)
    assert mu_shown(false_alarm, hit) == pytest.approx(np.full(2001, mu), rel=1e-6)
    assert (mu_shown(false_alarm, hit) <= mu).all()
    for delta in (1e-5, 0.01, 0.1):
        best = epsilon_shown(false_alarm, hit, delta).max()
        exact = gaussian.epsilon(mu, delta)
        assert best <= exact
        # A threshold alone is not (ε, δ)'s best event unless δ matters, but it comes close.
        assert best >= 0.3 * exact


def test_the_threshold_of_the_privacy_curve_shows_the_whole_epsilon() -> None:
    # The event behind δ(ε) is a threshold on the score: at its own threshold the whole ε is shown.
    mu, delta = 1.5, 0.05
    epsilon = float(gaussian.epsilon(mu, delta))
    threshold = np.array([epsilon / mu + mu / 2])
    shown = epsilon_shown(stats.norm.sf(threshold), stats.norm.sf(threshold - mu), delta)
    assert shown[0] == pytest.approx(epsilon, rel=1e-9)


def test_rates_that_show_nothing() -> None:
    edge = np.array([0.0, 1.0])
    assert epsilon_shown(edge, edge, 0.01).tolist() == [0, 0]
    assert mu_shown(edge, edge).tolist() == [0, 0]
    assert epsilon_shown(np.array([0.5]), np.array([0.4]), 0.0)[0] == 0


def test_both_directions_count() -> None:
    # Every run without the record stays silent a little too often: misses say more than hits.
    shown = epsilon_shown(np.array([0.5]), np.array([0.99]), 0.0)[0]
    assert shown == pytest.approx(np.log(0.5 / 0.01))


def test_evidence_covers_as_often_as_it_says() -> None:
    # At confidence 0.9 at most one audit in ten may exceed the truth; with 400 audits more than 65 would be
    # as rare as 1 in 10 000.
    mu, delta, wrong = 1.0, 0.02, 0
    epsilon = float(gaussian.epsilon(mu, delta))
    for seed in range(400):
        rng = np.random.default_rng(seed)
        found = evidence(rng.normal(0, 1, 400), rng.normal(mu, 1, 400), delta=delta, confidence=0.9)
        wrong += found.epsilon_lower > epsilon or found.mu_lower > mu
    assert stats.binom.sf(65, 400, 0.1) < 1e-4
    assert wrong <= 65


def test_more_runs_show_more() -> None:
    shown = []
    for runs in (400, 4000, 40_000):
        rng = np.random.default_rng(2)
        shown.append(evidence(rng.normal(0, 1, runs), rng.normal(1, 1, runs), delta=1e-5, confidence=0.99))
    assert shown[0].mu_lower < shown[1].mu_lower < shown[2].mu_lower < 1
    assert shown[2].mu_lower > 0.9


def test_thresholds_are_chosen_on_one_half_and_judged_on_the_other() -> None:
    rng = np.random.default_rng(4)
    without, with_record = rng.normal(0, 1, 2000), rng.normal(1, 1, 2000)
    found = evidence(without, with_record, delta=1e-5, confidence=0.99)
    later = with_record.copy()
    later[1000:] += 3
    other = evidence(without, later, delta=1e-5, confidence=0.99)
    assert other.mu_rates.threshold == found.mu_rates.threshold
    assert other.epsilon_rates.threshold == found.epsilon_rates.threshold
    assert other.mu_rates.hits == int((later[1000:] > found.mu_rates.threshold).sum())
    assert found.mu_rates.runs == 1000
    assert found.runs == 4000


def test_scores_that_are_all_alike_show_nothing() -> None:
    found = evidence(np.zeros(100), np.zeros(100), delta=1e-5, confidence=0.99)
    assert (found.epsilon_lower, found.mu_lower) == (0, 0)


@pytest.mark.parametrize(
    ("without", "with_record", "changes", "complaint"),
    [
        (np.zeros(8), np.zeros(9), {}, r"got shapes \(8,\) and \(9,\)"),
        (np.zeros(2), np.zeros(2), {}, "must be a whole number of at least 4; got 2"),
        (np.full(8, np.nan), np.zeros(8), {}, "scores must be finite numbers"),
        (
            np.zeros(8),
            np.zeros(8),
            {"confidence": 1.0},
            "confidence must lie strictly between 0 and 1; got 1.0",
        ),
        (np.zeros(8), np.zeros(8), {"delta": 0.0}, "delta must lie strictly between 0 and 1; got 0.0"),
    ],
)
def test_scores_that_make_no_audit_are_refused(
    without: np.ndarray, with_record: np.ndarray, changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint):
        evidence(without, with_record, **{"delta": 1e-5, "confidence": 0.99, **changes})
