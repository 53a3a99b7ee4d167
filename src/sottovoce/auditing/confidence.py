# SPDX-License-Identifier: Apache-2.0
"""From the scores of an attack to what it proves: Clopper–Pearson rates, and with them lower bounds of ε and of μ.

The threshold is chosen on one half of the runs and judged on the other, so that choosing it costs no confidence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from sottovoce.errors import InputError, at_least, probability

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ErrorRates", "Evidence", "clopper_pearson", "epsilon_shown", "evidence", "mu_shown"]

# Each of the two thresholds is judged by two rates, and each rate is bounded on one side.
BOUNDS = 4
CANDIDATES = 400
# Thresholds are chosen as if more confidence were asked for, which keeps away from lucky ones with few counts.
CAUTION = 1e-3
ROUNDING = 1e-11


@dataclass(frozen=True, kw_only=True)
class ErrorRates:
    """How an attack did at one threshold: counts among `runs` of either world, and the bounds that they prove."""

    threshold: float
    runs: int
    false_alarms: int
    hits: int
    false_alarm_upper: float
    hit_lower: float


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What an attack proves with probability `confidence`, both bounds at once.

    `epsilon_lower` holds for any mechanism at the δ of the audit: it is no more than its ε. `mu_lower` is the least μ
    that would not contradict the rates: a view that is μ-GDP has no smaller one.
    """

    epsilon_lower: float
    mu_lower: float
    delta: float
    confidence: float
    runs: int
    epsilon_rates: ErrorRates
    mu_rates: ErrorRates

    def refutes(self, epsilon: float, mu: float) -> bool:
        """Whether a view that is said to have at most this ε, at δ, and this μ has been shown to have more."""
        return self.epsilon_lower > epsilon or self.mu_lower > mu


def clopper_pearson(
    successes: NDArray[np.int64], runs: int, error: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bounds of a probability from how often it came true: below, and above, each wrong with probability ≤ `error`.

        lower: P(X ≥ k | p) = error,   upper: P(X ≤ k | p) = error,   X binomial.

    Guarantee: each bound holds with probability at least 1 − `error`, whatever the probability is; rounding goes
    outward.
    Source: Clopper & Pearson 1934.

    >>> lower, upper = clopper_pearson(np.array([0, 5, 10]), 10, 0.025)
    >>> lower.round(4).tolist(), upper.round(4).tolist()
    ([0.0, 0.1871, 0.6915], [0.3085, 0.8129, 1.0])
    """
    return _least(successes, runs, error), _most(successes, runs, error)


def _least(successes: NDArray[np.int64], runs: int, error: float) -> NDArray[np.float64]:
    """The lower bound of `clopper_pearson`."""
    k = np.asarray(successes, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        lower = np.where(k > 0, special.betaincinv(np.maximum(k, 1), runs - k + 1, error), 0.0)
    return np.asarray(lower * (1 - ROUNDING))


def _most(successes: NDArray[np.int64], runs: int, error: float) -> NDArray[np.float64]:
    """The upper bound of `clopper_pearson`."""
    k = np.asarray(successes, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        upper = np.where(k < runs, special.betaincinv(k + 1, np.maximum(runs - k, 1), 1 - error), 1.0)
    return np.asarray(np.minimum(upper * (1 + ROUNDING), 1.0))


def epsilon_shown(
    false_alarm: NDArray[np.float64], hit: NDArray[np.float64], delta: float
) -> NDArray[np.float64]:
    """The ε below which no (ε, δ)-private view allows these rates, in either direction; at least 0.

        hit ≤ e^ε·false_alarm + δ   and   1 − false_alarm ≤ e^ε·(1 − hit) + δ.

    Guarantee: a lower bound of ε if the rate of false alarms is at most `false_alarm` and that of hits at least `hit`.
    Source: Kairouz, Oh & Viswanath 2015, Theorem 2.1.

    >>> float(epsilon_shown(np.array([0.01]), np.array([0.2]), 0.0)[0].round(6))
    2.995732
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        forwards = np.log(np.maximum(hit - delta, 0) / false_alarm)
        backwards = np.log(np.maximum(1 - false_alarm - delta, 0) / (1 - hit))
    # 0/0 shows nothing.
    found = np.fmax(np.fmax(forwards, backwards), 0.0)
    return np.asarray(np.maximum(found * (1 - ROUNDING) - ROUNDING, 0.0))


def mu_shown(false_alarm: NDArray[np.float64], hit: NDArray[np.float64]) -> NDArray[np.float64]:
    """The μ below which no μ-GDP view allows these rates: Φ⁻¹(hit) − Φ⁻¹(false_alarm), at least 0.

    Guarantee: a lower bound of μ if the rate of false alarms is at most `false_alarm` and that of hits at least `hit`.
    Source: Dong, Roth & Su 2022, Definition 2.6; auditing with it, Nasr et al. 2023.

    >>> float(mu_shown(np.array([0.1586552539]), np.array([0.8413447461]))[0].round(6))
    2.0
    """
    with np.errstate(invalid="ignore"):
        found = special.ndtri(hit) - special.ndtri(false_alarm)
    # ∞ − ∞ shows nothing.
    return np.asarray(np.fmax(found * (1 - ROUNDING) - ROUNDING, 0.0))


def evidence(
    without: NDArray[np.float64], with_record: NDArray[np.float64], *, delta: float, confidence: float
) -> Evidence:
    """What the scores of runs without and with the record prove about ε and μ.

    The first half of each array chooses two thresholds, one for ε and one for μ; the second half judges them.

    Guarantee: with probability at least `confidence` over the judged runs, both lower bounds hold at once, if runs are
    independent of each other and the scores do not depend on the judged half. Four one-sided Clopper–Pearson bounds
    share the error equally (Bonferroni).
    Source: Clopper & Pearson 1934; Kairouz, Oh & Viswanath 2015; Dong, Roth & Su 2022.

    >>> rng = np.random.default_rng(1)
    >>> found = evidence(rng.normal(0, 1, 4000), rng.normal(2, 1, 4000), delta=1e-5, confidence=0.99)
    >>> 1.8 < found.mu_lower < 2
    True
    """
    probability(delta=delta, confidence=confidence)
    if without.shape != with_record.shape or without.ndim != 1:
        raise InputError(
            f"an audit needs as many scores without the record as with it; got shapes {without.shape} and "
            f"{with_record.shape}"
        )
    at_least(4, **{"the number of scores of each world": len(without)})
    for scores in (without, with_record):
        if not np.isfinite(scores).all():
            raise InputError("scores must be finite numbers; got NaN or infinity (mend the attack)")
    half = len(without) // 2
    error = (1 - confidence) / BOUNDS
    chosen = _chosen_thresholds(without[:half], with_record[:half], error, delta)
    epsilon_rates, mu_rates = (
        _rates(without[half:], with_record[half:], np.array([threshold]), error) for threshold in chosen
    )
    return Evidence(
        epsilon_lower=float(epsilon_shown(epsilon_rates[0], epsilon_rates[1], delta)[0]),
        mu_lower=float(mu_shown(mu_rates[0], mu_rates[1])[0]),
        delta=delta,
        confidence=confidence,
        runs=2 * len(without),
        epsilon_rates=_counted(without[half:], with_record[half:], chosen[0], epsilon_rates),
        mu_rates=_counted(without[half:], with_record[half:], chosen[1], mu_rates),
    )


def _chosen_thresholds(
    without: NDArray[np.float64], with_record: NDArray[np.float64], error: float, delta: float
) -> list[float]:
    """The thresholds that would prove most about ε and about μ if these runs were the judged ones."""
    scores = np.concatenate([without, with_record])
    # Extreme scores count most for ε, so half of the candidates come from the ends.
    shares = np.concatenate([np.linspace(0, 1, CANDIDATES), np.geomspace(1 / len(scores), 0.5, CANDIDATES)])
    candidates = np.unique(np.quantile(scores, np.concatenate([shares, 1 - shares[CANDIDATES:]])))
    rates = _rates(without, with_record, candidates, CAUTION * error)
    return [
        float(candidates[int(np.argmax(worth))]) for worth in (epsilon_shown(*rates, delta), mu_shown(*rates))
    ]


def _rates(
    without: NDArray[np.float64],
    with_record: NDArray[np.float64],
    thresholds: NDArray[np.float64],
    error: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """At each threshold, an upper bound of the rate of false alarms and a lower bound of that of hits."""
    false_alarms, hits = _counts(without, thresholds), _counts(with_record, thresholds)
    return _most(false_alarms, len(without), error), _least(hits, len(with_record), error)


def _counts(scores: NDArray[np.float64], thresholds: NDArray[np.float64]) -> NDArray[np.int64]:
    """How many scores lie above each threshold."""
    return np.asarray(len(scores) - np.searchsorted(np.sort(scores), thresholds, side="right"))


def _counted(
    without: NDArray[np.float64],
    with_record: NDArray[np.float64],
    threshold: float,
    bounds: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> ErrorRates:
    """Counts and bounds of one threshold."""
    at = np.array([threshold])
    return ErrorRates(
        threshold=threshold,
        runs=len(without),
        false_alarms=int(_counts(without, at)[0]),
        hits=int(_counts(with_record, at)[0]),
        false_alarm_upper=float(bounds[0][0]),
        hit_lower=math.nextafter(float(bounds[1][0]), 0) if bounds[1][0] else 0.0,
    )
