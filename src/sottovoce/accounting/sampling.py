# SPDX-License-Identifier: Apache-2.0
"""Records that take part by coins: what the worst pair of a scenario gives away under Poisson sampling.

A record takes part in each of T rounds by a secret coin that shows heads with probability q. Two bounds hold at once, and
the smaller counts:

    told        given the coins the run is one that is certified, with K ~ Bin(T, q) rounds:
                δ(ε) ≤ Σ_k P(K = k) δ(ε; factor·Δ_k/σ),  Δ_k² the bound for any k rounds in this view;
    amplified   whatever a view shows is made from all messages, and of these each is a subsampled Gaussian:
                δ(ε) of T of them, composed, by the privacy loss distributions of dp-accounting.

The first knows the view and not that the coins are secret, the second knows the coins and not the view.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Unpack

import numpy as np

from sottovoce.accounting.values import mu_ends
from sottovoce.accounting.verbs import account_all
from sottovoce.errors import InputError, NotCertified, positive, probability
from sottovoce.gaussian.mixtures import binomial_above, mixed_delta, mixed_epsilon
from sottovoce.participation import Participation
from sottovoce.scenarios import RELATIONS, asked

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sottovoce.protocols import Protocol
    from sottovoce.scenarios import Scenario, Words
    from sottovoce.views import Assumption, View

    Array: TypeAlias = NDArray[np.float64]

__all__ = ["SampledAccount", "calibrate_sampled", "sampled_account"]

Method = Literal["told", "amplified"]

# Rounds are counted up to these probabilities of more; between two counts the larger stands for both.
TAILS = (0.5, 0.2, 0.05, 1e-2, 1e-3, 1e-4, 1e-5, 1e-7, 1e-9, 1e-12)
FEW = 3
# The search for noise stops where it is known to one part in so many.
FINENESS = 1e-4


@dataclass(frozen=True, kw_only=True, eq=False)
class SampledAccount:
    """What the worst pair of `scenario` gives away where records take part by coins.

    `squared_upper[i]` bounds Δ² of any `counts[i]` rounds, for every pair; the last count is that of all rounds.
    `assumption` is what these bounds rest on. `plain` says that each node adds noise to its own contribution in every
    round and sends the sum, so that every round is a subsampled Gaussian for who sees everything.
    """

    scenario: Scenario
    noise_multiplier: float
    default_delta: float
    counts: tuple[int, ...]
    squared_upper: tuple[float, ...]
    assumption: Assumption
    plain: bool

    @property
    def rate(self) -> float:
        """The probability q of taking part in a round."""
        return self.scenario.participation.rate

    def epsilon(self, delta: float | None = None) -> float:
        """The smaller of both bounds on ε at δ, `default_delta` if left out.

        Guarantee: an upper bound. Without dp-accounting it is that of coins that are told.
        """
        return min(self._bounds(self._chosen(delta)).values())

    def delta(self, epsilon: float) -> float:
        """The smaller of both bounds on δ at ε; an upper bound."""
        told = float(mixed_delta(self._mus, self._weights, epsilon))
        amplified = _amplified(self)
        return told if amplified is None else min(told, float(amplified.get_delta_for_epsilon(epsilon)))

    def method(self, delta: float | None = None) -> Method:
        """Which of both bounds gives ε at δ."""
        bounds = self._bounds(self._chosen(delta))
        return min(bounds, key=lambda name: bounds[name])

    def with_noise(self, noise_multiplier: float) -> SampledAccount:
        """The same run at another noise."""
        positive(noise_multiplier=noise_multiplier)
        return replace(self, noise_multiplier=noise_multiplier)

    def _chosen(self, delta: float | None) -> float:
        chosen = self.default_delta if delta is None else delta
        probability(delta=chosen)
        return chosen

    def _bounds(self, delta: float) -> dict[Method, float]:
        """ε at δ by each bound there is."""
        found: dict[Method, float] = {"told": float(mixed_epsilon(self._mus, self._weights, delta))}
        amplified = _amplified(self)
        if amplified is not None:
            found["amplified"] = float(amplified.get_epsilon_for_delta(delta))
        return found

    @cached_property
    def _mus(self) -> Array:
        """μ of no round, and of each count."""
        squared = np.array([0.0, *self.squared_upper])
        return mu_ends(
            squared, squared, relation=self.scenario.relation, noise_multiplier=self.noise_multiplier
        )[1]

    @cached_property
    def _weights(self) -> Array:
        """P(K = 0), and the probability of each span of counts that one of them stands for."""
        tosses = binomial_above(self.scenario.protocol.rounds, self.rate)
        starts = np.array([0, 1, *(count + 1 for count in self.counts[:-1])])
        # Sums of positive numbers, rounded up.
        sums = np.add.reduceat(tosses, starts) * (1 + tosses.size * 2.0**-52)
        return np.asarray(np.minimum(sums, 1.0))


def sampled_account(
    question: Scenario | Protocol,
    view: View | str | None = None,
    *,
    noise_multiplier: float,
    delta: float,
    progress: Callable[[int, int], None] | None = None,
    **words: Unpack[Words],
) -> SampledAccount:
    """What the worst pair of a scenario with `participation="poisson:q"` gives away, over all rounds.

    Args:
        question: a `Scenario`; or a protocol with its view.
        view: one View, or a name that stands for every observer in turn, as in `account_all`.
        noise_multiplier: σ/clip, the noise that each node adds in each round in units of the clipping norm.
        delta: the δ at which ε is reported.
        progress: called with (counts done, counts in all).
        words: as in `sottovoce.scenarios.Words`.

    Guarantee: every ε and δ is an upper bound for coins that are tossed apart from the data, and whose batches are
    divided by their expected size. The bound for k rounds is that of any k, so it holds for those that were drawn.
    Source: joint convexity of the hockey-stick divergence (Balle, Barthe & Gaboardi 2018); Doroshenko, Ghazi, Kamath,
    Kumar & Manurangsi 2022 for privacy loss distributions.

    >>> from sottovoce import gossip, graphs
    >>> ring = gossip(graphs.metropolis_weights("ring:n=6"), rounds=50)
    >>> sampled = sampled_account(ring, "secure-sum", noise_multiplier=2, delta=1e-5, participation="poisson:0.1")
    >>> full = account_all(ring, "secure-sum", noise_multiplier=2, delta=1e-5)
    >>> round(sampled.epsilon(), 2), round(full.worst().epsilon().upper, 2)
    (3.06, 17.27)
    """
    scenario, effort = asked(question, view, words)
    positive(noise_multiplier=noise_multiplier)
    probability(delta=delta)
    if scenario.participation.kind != "poisson":
        raise InputError(
            f"participation must be by coins, spelled like poisson:0.1; got {scenario.participation} (ask account)"
        )
    rounds = scenario.protocol.rounds
    counts = _counts(rounds, scenario.participation.rate)
    squared: list[float] = []
    assumption: Assumption = "none"
    for done, count in enumerate(counts):
        family = Participation.full() if count == rounds else Participation.at_most(count)
        table = account_all(
            replace(scenario, participation=family), noise_multiplier=1.0, delta=delta, effort=effort
        )
        if table.bare is not None:
            raise NotCertified(f"no noise multiplier hides every node in the {table.view} view: {table.bare}")
        squared.append(float(table.squared_upper.max()))
        assumption = table.assumption
        if progress is not None:
            progress(done + 1, len(counts))
    # What more rounds prove holds for fewer.
    bounds = np.minimum.accumulate(np.array(squared)[::-1])[::-1]
    return SampledAccount(
        scenario=scenario,
        noise_multiplier=noise_multiplier,
        default_delta=delta,
        counts=counts,
        squared_upper=tuple(bounds.tolist()),
        assumption=assumption,
        plain=_is_plain(scenario.protocol),
    )


def calibrate_sampled(account: SampledAccount, target_epsilon: float, target_delta: float) -> float:
    """The noise multiplier at which a sampled account is (target_epsilon, target_delta)-private, to one part in 10⁴.

    Guarantee: at the noise that is returned `epsilon(target_delta)` was at most `target_epsilon`.
    """
    positive(target_epsilon=target_epsilon)
    probability(target_delta=target_delta)

    def suffices(noise: float) -> bool:
        return account.with_noise(noise).epsilon(target_delta) <= target_epsilon

    upper = 1.0
    while not suffices(upper):
        upper *= 2
        if upper > 1e9:
            raise NotCertified(
                f"no noise multiplier up to {upper:g} reaches epsilon {target_epsilon!r} at delta {target_delta!r} "
                "(ask for a larger epsilon or delta)"
            )
    lower = upper / 2
    while lower > 1e-9 and suffices(lower):
        lower, upper = lower / 2, lower
    while upper - lower > FINENESS * upper:
        middle = (lower + upper) / 2
        lower, upper = (lower, middle) if suffices(middle) else (middle, upper)
    return upper


def _counts(rounds: int, rate: float) -> tuple[int, ...]:
    """The counts of rounds that are bounded: few, where most of the probability lies, and all."""
    below = np.cumsum(binomial_above(rounds, rate))
    tails = [int(np.searchsorted(below, 1 - tail)) for tail in TAILS]
    return tuple(sorted({count for count in (*range(1, FEW + 1), *tails, rounds) if 1 <= count <= rounds}))


def _is_plain(protocol: Protocol) -> bool:
    """Whether every message is a contribution with noise of level 1 of its own, beside what is known or hidden."""
    return bool(protocol.plain or protocol.updates is not None) and all(
        float(level) >= 1
        for program in protocol.programs
        for draw in program.draws
        for level in np.atleast_1d(np.asarray(draw.level, dtype=object))
    )


def _amplified(account: SampledAccount) -> Any | None:  # noqa: ANN401
    """The privacy loss of who sees every message, composed over all rounds; None where it is not known."""
    relation = account.scenario.relation
    if not account.plain or relation == "replace-one" or account.scenario.contribution == "energy":
        return None
    sigma = account.noise_multiplier / RELATIONS[relation]
    return _composed(sigma, account.rate, account.scenario.protocol.rounds)


@lru_cache(maxsize=64)
def _composed(sigma: float, rate: float, rounds: int) -> Any | None:  # noqa: ANN401
    """T subsampled Gaussians by dp-accounting, pessimistic; None without the package."""
    try:
        from dp_accounting.pld import privacy_loss_distribution
    except ImportError:
        return None
    once = privacy_loss_distribution.from_gaussian_mechanism(
        standard_deviation=sigma, sensitivity=1.0, sampling_prob=rate, pessimistic_estimate=True
    )
    return once.self_compose(rounds)
