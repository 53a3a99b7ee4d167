# SPDX-License-Identifier: Apache-2.0
"""Records that take part by coins: what the worst pair of a scenario gives away under Poisson sampling.

A record takes part in each of T rounds by a secret coin that shows heads with probability q. Two bounds hold at once,
and the smaller counts:

    told        given the coins the run is one that is certified, with K ~ Bin(T, q) rounds:
                δ(ε) ≤ Σ_k P(K = k) δ(ε; factor·Δ_k/σ),  Δ_k² the bound for any k rounds in this view;
    amplified   whatever a view shows is made from all messages, and of these each is a subsampled Gaussian:
                δ(ε) of T of them, composed, by the privacy loss distributions of dp-accounting.

The first knows the view and not that the coins are secret, the second knows the coins and not the view. The bound for k
rounds needs two accounts, whatever k: contributions of norm 1 in k rounds have an energy of k at most, so

    Δ_k² ≤ min(k·λ, Δ_T²),   λ the most that contributions with Σ‖c_t‖² ≤ 1 show.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Unpack

import numpy as np

from sottovoce.accounting.mixtures import binomial_above, mixed_delta, mixed_epsilon
from sottovoce.accounting.values import Account, mu_ends
from sottovoce.accounting.verbs import account_all
from sottovoce.errors import InputError, NotCertified, positive, probability
from sottovoce.interval import Interval
from sottovoce.participation import Participation
from sottovoce.rounding import roundings, slightly_above
from sottovoce.scenarios import asked
from sottovoce.sensitivities import check_rounds

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from numpy.typing import NDArray

    from sottovoce.accounting.table import AccountTable
    from sottovoce.protocols import Protocol
    from sottovoce.scenarios import Relation, Scenario, Words
    from sottovoce.views import Assumption, View

    Array: TypeAlias = NDArray[np.float64]

__all__ = ["SampledAccount", "calibrate_sampled", "sampled_account", "sampled_from"]

Method = Literal["told", "amplified"]

# So many counts of rounds are told apart; between two of them the larger stands for both.
COUNTS = 256
# Rounds beyond those that more than this probability exceeds count as all of them.
BEYOND = 1e-15
# Bytes for the probabilities of a round, rounded up.
A_ROUND = 64
# What the Fourier transforms of dp-accounting may have lost of δ, for each round: they multiply numbers of the size of
# probabilities, to 2⁻⁵³ each, and sum a few million of them.
LOST = 1e-13
# Below so much noise a message hides nothing worth the time that its privacy losses take; they are counted in steps of
# this size, wider for little noise, whose losses reach as far as 1/σ², and finer for many rounds, which add up what
# steps are off by: the square of a step for each round, as dots are connected.
LEAST_NOISE, STEP, FINER_FROM = 0.1, 1e-3, 100
# The search for noise stops where it is known to one part in so many.
FINENESS = 1e-4


@dataclass(frozen=True, kw_only=True)
class SampledAccount:
    """What the worst pair of a view gives away where records take part in each of `rounds` rounds with `rate`.

    `squared_upper[i]` bounds Δ² of any `counts[i]` rounds, for every pair; the last count is that of all rounds,
    `told_assumption` is what these bounds rest on, and `told_method` is how all rounds of the worst pair are bounded.
    `own_level` is the least noise that a node itself adds to what it
    contributes in a round, in units of the noise multiplier, if messages hold its contributions in no other way, so
    that every round is a subsampled Gaussian for who sees everything; None where that is not so. `table`, if there is
    one, holds all pairs as if records took part in every round.
    """

    rounds: int
    rate: float
    relation: Relation
    view: str
    noise_multiplier: float
    default_delta: float
    counts: tuple[int, ...]
    squared_upper: tuple[float, ...]
    told_assumption: Assumption
    told_method: str
    own_level: float | None
    table: AccountTable | None = field(default=None, compare=False)

    def epsilon(self, delta: float | None = None) -> float:
        """The smaller of both bounds on ε at δ, `default_delta` if left out.

        Guarantee: an upper bound. Without dp-accounting it is that of coins that are told.
        """
        return min(self.bounds(delta).values())

    def delta(self, epsilon: float) -> float:
        """The smaller of both bounds on δ at ε; an upper bound.

        Guarantee: an upper bound; 10⁻¹³ a round is added to what dp-accounting returns, for its Fourier transforms.
        Source: as for `sampled_account`.
        """
        told = float(mixed_delta(self._mus, self._weights, epsilon))
        amplified = self._amplified
        if amplified is None:
            return told
        return min(told, float(amplified.get_delta_for_epsilon(epsilon)) + LOST * self.rounds)

    def method(self, delta: float | None = None) -> Method:
        """Which of both bounds gives ε at δ; that of coins that are told if both are the same.

        Guarantee: exact, as a name of what `epsilon` returns.
        """
        bounds = self.bounds(delta)
        return min(bounds, key=lambda name: bounds[name])

    @property
    def assumption(self) -> Assumption:
        """What ε at `default_delta` rests on: nothing, if it is that of who sees every message.

        Guarantee: weaker than `told_assumption` only at `default_delta`, so that an account, which may be asked at
        any δ, names the other.
        """
        return "none" if self.method() == "amplified" else self.told_assumption

    def bounds(self, delta: float | None = None) -> dict[Method, float]:
        """ε at δ by each bound there is; without dp-accounting, or for a δ it cannot resolve, one alone.

        Guarantee: each is an upper bound of the smallest ε: "told" proved up to the rounding of `gaussian`,
        "amplified" as far as dp-accounting's pessimistic estimates are, asked at δ less 10⁻¹³ a round, and left out
        where that is half of δ or more.
        Source: as for `sampled_account`.
        """
        chosen = self.default_delta if delta is None else delta
        probability(delta=chosen)
        found: dict[Method, float] = {"told": _told(tuple(self._mus), tuple(self._weights), chosen)}
        rest = chosen - LOST * self.rounds
        amplified = self._amplified if rest > chosen / 2 else None
        if amplified is not None:
            found["amplified"] = float(amplified.get_epsilon_for_delta(rest))
        return found

    @property
    def seldom(self) -> float:
        """The probability, at most, that a record takes part in a round of which anything is seen.

        Guarantee: an upper bound; a sum of upper bounds of probabilities, raised by more than its rounding.
        """
        return float(slightly_above(self._weights[1:][np.array(self.squared_upper) > 0].sum()))

    def account(self, *, observers: tuple[Hashable, ...] = (), target: Hashable = None) -> Account:
        """The same as an account, which rests on `told_assumption` at every δ, whichever bound is the smaller there.

        Guarantee: ε and δ are upper bounds, those of the coins; μ and what is made of it holds as if the record took
        part in every round. Lower ends are 0, as nothing is proved from below.
        """
        every = Account.of(
            Interval(0.0, self.squared_upper[-1]),
            method=self.method(),
            relation=self.relation,
            noise_multiplier=self.noise_multiplier,
            delta=self.default_delta,
            view=self.view,
            assumption=self.told_assumption,
            participation=str(Participation.poisson(self.rate)),
            observers=observers,
            target=target,
        )
        return replace(every, coins=replace(self, table=None))

    def with_noise(self, noise_multiplier: float) -> SampledAccount:
        """The same run at another noise.

        Guarantee: exact: bounds of Δ² do not depend on the noise multiplier.
        """
        positive(noise_multiplier=noise_multiplier)
        table = None if self.table is None else self.table.with_noise(noise_multiplier)
        return replace(self, noise_multiplier=float(noise_multiplier), table=table)

    @cached_property
    def _mus(self) -> Array:
        """μ of no round, and of each count."""
        squared = np.array([0.0, *self.squared_upper])
        return mu_ends(squared, squared, relation=self.relation, noise_multiplier=self.noise_multiplier)[1]

    @cached_property
    def _weights(self) -> Array:
        """P(K = 0), and the probability of each span of counts that one of them stands for."""
        return _spans(self.rounds, self.rate, self.counts)

    @property
    def _amplified(self) -> Any | None:  # noqa: ANN401
        """The privacy loss of who sees every message, composed over all rounds; None where it is not known.

        With add-remove and zero-out alike a record that is away leaves N(0, σ²), and one that is there the mixture
        (1 − q) N(0, σ²) + q N(clip, σ²), in either order. With replace-one there would be two mixtures.
        """
        if self.own_level is None or self.relation == "replace-one":
            return None
        sigma = math.nextafter(self.noise_multiplier * self.own_level, 0.0)
        return None if sigma < LEAST_NOISE else _composed(sigma, self.rate, self.rounds)


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
        progress: called with (pairs done, pairs in all), once for each of two accounts.
        words: as in `sottovoce.scenarios.Words`.

    Guarantee: every ε and δ is an upper bound for coins that are tossed apart from the data, and whose batches are
    divided by their expected size. The bound for k rounds is that of any k, so it holds for those that were drawn. For
    `amplified` coins must be secret as well.
    Source: joint convexity of the hockey-stick divergence (Balle, Barthe & Gaboardi 2018); Doroshenko, Ghazi, Kamath,
    Kumar & Manurangsi 2022 for privacy loss distributions.

    >>> from sottovoce import gossip, graphs
    >>> ring = gossip(graphs.metropolis_weights("ring:n=6"), rounds=50)
    >>> sampled = sampled_account(ring, "secure-sum", noise_multiplier=2, delta=1e-5, participation="poisson:0.1")
    >>> full = account_all(ring, "secure-sum", noise_multiplier=2, delta=1e-5)
    >>> round(sampled.epsilon(), 2), round(full.worst().epsilon().upper, 2)
    (1.65, 12.55)
    """
    scenario, effort = asked(question, view, words, coins=True)
    positive(noise_multiplier=noise_multiplier)
    probability(delta=delta)
    if scenario.participation.kind != "poisson":
        raise InputError(
            f"participation must be by coins, spelled like poisson:0.1; got {scenario.participation} (ask account)"
        )
    always = replace(scenario, participation=Participation.full())
    whole = account_all(always, noise_multiplier=1.0, delta=delta, effort=effort, progress=progress)
    once = account_all(_once(always), noise_multiplier=1.0, delta=delta, effort=effort, progress=progress)
    found = sampled_from(
        whole, once, rate=scenario.participation.rate, noise_multiplier=noise_multiplier, delta=delta
    )
    # The table says what was asked.
    return replace(found, table=replace(whole, scenario=scenario, noise_multiplier=noise_multiplier))


def sampled_from(
    whole: AccountTable,
    once: AccountTable,
    *,
    rate: float,
    noise_multiplier: float,
    delta: float,
    run: Protocol | None = None,
) -> SampledAccount:
    """The sampled account of pairs whose Δ² over all rounds is in `whole`, and whose price of one round is in `once`.

    `run` is the protocol that is run, where tables are about one that shows the same.

    Guarantee: as for `sampled_account`, if k rounds of a pair show at most k times what `once` says of it.
    """
    for table in (whole, once):
        if table.bare is not None:
            raise NotCertified(f"no noise multiplier hides every node in the {table.view} view: {table.bare}")
    rounds = whole.protocol.rounds
    check_rounds(rounds, A_ROUND)
    counts = _counts(rounds, rate)
    energy = whole.contribution == "energy"
    return SampledAccount(
        rounds=rounds,
        rate=rate,
        relation=whole.relation,
        view=whole.view,
        noise_multiplier=float(noise_multiplier),
        default_delta=delta,
        counts=counts,
        squared_upper=tuple(
            float(np.minimum(np.nextafter(count * once.squared_upper, np.inf), whole.squared_upper).max())
            for count in counts
        ),
        told_assumption=once.assumption if whole.assumption == "none" else whole.assumption,
        told_method=whole.worst().method,
        own_level=None if energy else _own_level(whole.protocol if run is None else run),
    )


def calibrate_sampled(account: SampledAccount, target_epsilon: float, target_delta: float) -> float:
    """The noise multiplier at which a sampled account is (target_epsilon, target_delta)-private, to one part in 10⁴.

    Guarantee: at the noise that is returned `epsilon(target_delta)` was at most `target_epsilon`.
    """
    positive(target_epsilon=target_epsilon)
    probability(target_delta=target_delta)
    if account.seldom <= target_delta:
        raise InputError(
            f"noise is calibrated to what is seen; with probability 1 − {account.seldom:.3g} or more nothing is, so "
            f"that delta {target_delta!r} needs no noise (ask for a smaller delta)"
        )
    # Where coins are told the search is quick; what it finds suffices, and where coins are secret less may.
    told = _searched(replace(account, own_level=None), 1.0, target_epsilon, target_delta)
    if account.with_noise(told).method(target_delta) == "told":
        return told
    return _searched(account, told, target_epsilon, target_delta)


def _searched(account: SampledAccount, start: float, epsilon: float, delta: float) -> float:
    """The least noise that suffices, by doubling or halving from `start` and then between both ends.

    ε falls with noise about as a power of it, so that the noise to try next lies where the power through both ends has
    the value that is asked for: in turn a little above and a little below that, or half-way where that is beyond them.
    """

    def found(noise: float) -> float:
        return account.with_noise(noise).epsilon(delta)

    upper, high = start, found(start)
    while high > epsilon:
        upper, high = 2 * upper, found(2 * upper)
        if upper > 1e9:
            raise NotCertified(
                f"no noise multiplier up to {upper:g} reaches epsilon {epsilon!r} at delta {delta!r} "
                "(ask for a larger epsilon or delta)"
            )
    lower, low = upper / 2, found(upper / 2)
    while low <= epsilon and lower > 1e-9:
        upper, high = lower, low
        lower, low = lower / 2, found(lower / 2)
    above = True
    while upper - lower > FINENESS * upper:
        middle = (lower + upper) / 2
        if 0 < high < low < math.inf:
            power = math.log(upper / lower) * math.log(low / epsilon) / math.log(low / high)
            near = lower * math.exp(power) * (1 + FINENESS / 3 * (1 if above else -1))
            middle = near if lower < near < upper else middle
        value, above = found(middle), not above
        if value <= epsilon:
            upper, high = middle, value
        else:
            lower, low = middle, value
    return upper


def _once(scenario: Scenario) -> Scenario:
    """The question whose Δ², times k, bounds that of any k rounds.

    In training every bound is a sum of prices of the rounds that take part, so k times the largest price holds for k of
    them; so it does where each round stands for itself. Elsewhere it takes contributions of energy 1.
    """
    protocol = scenario.protocol
    if protocol.updates is not None or (protocol.plain and scenario.view_name == "everyone"):
        return replace(scenario, participation=Participation.at_most(1))
    return replace(scenario, contribution="energy")


def _counts(rounds: int, rate: float) -> tuple[int, ...]:
    """The counts of rounds that are bounded: those that are likely, at most `COUNTS` of them, and all.

    Counts between two of them are charged as the larger one, and those beyond the last likely one as all rounds, so
    that nothing is left out: fewer counts make ε larger, never smaller.
    """
    below = np.cumsum(binomial_above(rounds, rate))
    most = min(rounds, int(np.searchsorted(below, 1 - BEYOND)) + 1)
    least = max(1, int(np.searchsorted(below, BEYOND)))
    return tuple(sorted({*np.linspace(least, most, COUNTS).astype(int).tolist(), rounds}))


@lru_cache(maxsize=16)
def _spans(rounds: int, rate: float, counts: tuple[int, ...]) -> Array:
    """P(K = 0), and P(previous count < K ≤ count) for each count.

    Guarantee: upper bounds of these probabilities; each sum of positive numbers is raised by more than its rounding.
    """
    tosses = binomial_above(rounds, rate)
    starts = np.array([0, 1, *(count + 1 for count in counts[:-1])])
    # Sums of positive numbers, rounded up.
    return np.minimum(np.add.reduceat(tosses, starts) * (1 + roundings(2 * tosses.size)), 1.0)


def _own_level(protocol: Protocol) -> float | None:
    """The least level of the draw that a node adds to its own contribution; None for other programs than gossip.

    In s_t = g(W s_{t−1}) + x_t + u_t all that a node carries on is made of messages, so who sees these sees each
    contribution once, beside that round's draw. Whoever knows other nodes' draws knows nothing of this one.

    Guarantee: a lower bound, rounded down; less noise makes ε larger.
    """
    if not protocol.plain and (protocol.updates is None or not protocol.gossips):
        return None
    (draw,) = protocol.programs[0].draws
    levels = [float(level) for level in np.atleast_1d(np.asarray(draw.level, dtype=object))]
    return math.nextafter(min(levels), 0.0) if min(levels) > 0 else None


@lru_cache(maxsize=64)
def _told(mus: tuple[float, ...], weights: tuple[float, ...], delta: float) -> float:
    """ε of coins that are told; a run asks for the same one for each line that it writes."""
    return float(mixed_epsilon(np.array(mus), np.array(weights), delta))


@lru_cache(maxsize=64)
def _composed(sigma: float, rate: float, rounds: int) -> Any | None:  # noqa: ANN401
    """T subsampled Gaussians by dp-accounting, pessimistic; None without the package."""
    try:
        from dp_accounting.pld import privacy_loss_distribution
    except ImportError:
        return None
    once = privacy_loss_distribution.from_gaussian_mechanism(
        standard_deviation=sigma,
        sensitivity=1.0,
        sampling_prob=rate,
        pessimistic_estimate=True,
        value_discretization_interval=STEP * max(1.0, sigma**-2) * min(1.0, math.sqrt(FINER_FROM / rounds)),
    )
    return once.self_compose(rounds)
