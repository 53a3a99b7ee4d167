# SPDX-License-Identifier: Apache-2.0
"""`Account`: what is learnt about one target, as intervals, with the rules by which runs compose.

One number, μ, says all that a Gaussian mechanism gives away, and every other measure is a function of it that grows
with it. So an account keeps an interval of μ, and each measure maps its two ends: the lower one by a function that is
rounded down, the upper one by a function that is rounded up. What is shown as a guarantee is the upper end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, TypedDict, Unpack

import numpy as np

from sottovoce import gaussian
from sottovoce.errors import InputError, at_least, needs, one_of, positive, probability
from sottovoce.interval import Interval, as_given, both_ends, rounded_up
from sottovoce.markup import shown
from sottovoce.rounding import roundings
from sottovoce.scenarios import CONTRIBUTIONS, RELATIONS, Relation
from sottovoce.views import ASSUMPTIONS, Assumption

if TYPE_CHECKING:
    from collections.abc import Hashable
    from types import ModuleType

    from dp_accounting import DpEvent, NeighboringRelation
    from numpy.typing import NDArray

    from sottovoce.accounting.sampling import SampledAccount
    from sottovoce.protocols import Contribution

    Array: TypeAlias = NDArray[np.float64]

__all__ = ["ASSUMPTIONS", "RELATIONS", "Account", "Assumption", "Relation", "best_guess"]

# Below this a product of floats may have lost digits.
_TINY = 1e-290


class Facts(TypedDict, total=False):
    """What an account may also say of itself; fields of `Account`."""

    contribution: Contribution
    assumption: Assumption
    view: str
    observers: tuple[Hashable, ...]
    target: Hashable
    participation: str


@dataclass(frozen=True, kw_only=True)
class Account:
    """What `observers` learn about `target`: a Gaussian mechanism whose μ lies in the interval `mu`.

    `a + b` is the account of two independent runs on the same record, `n * a` that of n such runs: μ² adds
    up. What a person is shown comes from the upper end of an interval; the lower end is what some pair of
    neighbouring streams does leak. `ASSUMPTIONS[assumption]` explains the assumption, and `participation`
    spells in which rounds of a run the target contributes. With `coins` it does so by chance: then ε, δ and `method`
    are theirs, and μ and all else is as if it contributed in every round, which is an upper end too. Sums are of that.

    Source: Dong, Roth & Su 2022, Corollary 3.3 (composition of Gaussian DP).

    >>> day = Account(mu=Interval.exactly(0.5), relation="add-remove", method="exact", default_delta=1e-5)
    >>> week = 7 * day
    >>> round(week.mu.upper, 6), round(week.epsilon().upper, 3)
    (1.322876, 6.072)
    """

    mu: Interval
    relation: Relation
    method: str
    contribution: Contribution = "vector"
    assumption: Assumption = "oblivious"
    view: str = "custom"
    observers: tuple[Hashable, ...] = ()
    target: Hashable = None
    sensitivity_squared: Interval | None = None
    noise_multiplier: float | None = None
    default_delta: float | None = None
    participation: str = "full"
    coins: SampledAccount | None = None

    # NumPy numbers leave n * a to this class.
    __array_ufunc__ = None

    def __post_init__(self) -> None:
        """Refuse a negative μ, or a word that is not in the vocabulary."""
        if not self.mu.lower >= 0:
            raise InputError(f"mu must be an interval of numbers of at least 0; got {self.mu!r}")
        one_of(RELATIONS, relation=self.relation)
        one_of(CONTRIBUTIONS, contribution=self.contribution)
        one_of(ASSUMPTIONS, assumption=self.assumption)
        if self.default_delta is not None:
            probability(default_delta=self.default_delta)

    @classmethod
    def of(
        cls,
        squared: Interval,
        *,
        method: str,
        relation: Relation,
        noise_multiplier: float,
        delta: float,
        **facts: Unpack[Facts],
    ) -> Account:
        """The account of a Δ² that lies in `squared` and is bounded by `method`, at one noise and one δ.

            μ = factor·Δ/noise_multiplier,   factor 1 (add-remove, zero-out) or 2 (replace-one).

        Guarantee: the ends of μ are rounded outward, so that they hold if those of Δ² do.

        >>> settings = dict(relation="replace-one", noise_multiplier=4.0, delta=1e-5)
        >>> round(Account.of(Interval.exactly(4.0), method="exact", **settings).mu.upper, 12)
        1.0
        """
        positive(noise_multiplier=noise_multiplier)
        probability(delta=delta)
        one_of(RELATIONS, relation=relation)
        lower, upper = mu_ends(
            np.array(squared.lower),
            np.array(squared.upper),
            relation=relation,
            noise_multiplier=noise_multiplier,
        )
        return cls(
            mu=Interval(float(lower), float(upper)),
            relation=relation,
            method=method,
            sensitivity_squared=squared,
            noise_multiplier=noise_multiplier,
            default_delta=delta,
            **facts,
        )

    def epsilon(self, delta: float | None = None) -> Interval:
        """The smallest ε for which the view is (ε, δ)-private; δ is `default_delta` if left out.

        With `coins` the lower end is 0, as their bounds are one-sided.

        Guarantee: holds the smallest ε of the true μ; the upper end is a valid ε.
        Source: Balle & Wang 2018, Theorem 8, inverted.
        """
        chosen = self.default_delta if delta is None else delta
        if chosen is None:
            raise InputError(
                "delta must be given, as this account has no default_delta (as in epsilon(1e-5))"
            )
        probability(delta=chosen)
        if self.coins is not None:
            return Interval(0.0, self.coins.epsilon(chosen))
        return Interval(
            gaussian.epsilon_lower(self.mu.lower, float(chosen)),
            gaussian.epsilon(self.mu.upper, float(chosen)),
        )

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        delta = self.default_delta
        rows: list[tuple[str, str]] = [
            ("observer", ", ".join(map(str, self.observers)) or "everyone"),
            ("target", str(self.target)),
        ]
        if self.sensitivity_squared is not None:
            rows.append(("Δ²", both_ends(self.sensitivity_squared)))
        rows.append(("μ", both_ends(self.mu)))
        if delta is not None:
            rows.append((f"ε at δ = {as_given(delta)}", both_ends(self.epsilon())))
        rows += [("relation", self.relation), ("method", self.method)]
        caption = (
            "An account"
            if delta is None
            else f"ε ≤ {rounded_up(self.epsilon().upper)} at δ = {as_given(delta)}"
        )
        note = f"Assumption {self.assumption}: {ASSUMPTIONS[self.assumption]}."
        return shown(f"{caption}, view {self.view}", ("", ""), rows, [note])

    def delta(self, epsilon: float) -> Interval:
        """The smallest δ for which the view is (ε, δ)-private.

        With `coins` the lower end is 0, as their bounds are one-sided.

        Guarantee: holds the smallest δ of the true μ; the upper end is a valid δ.
        Source: Balle & Wang 2018, Theorem 8; docs/proofs/profile.md, "Lower ends".
        """
        _one_number(epsilon=epsilon)
        if self.coins is not None:
            return Interval(0.0, self.coins.delta(epsilon))
        return Interval(
            gaussian.delta_lower(self.mu.lower, epsilon),
            gaussian.delta(self.mu.upper, epsilon),
        )

    def rdp(self, alpha: float) -> Interval:
        """The Rényi divergence αμ²/2 of order α > 1 (Mironov 2017, Corollary 3).

        Guarantee: holds the divergence of the true μ. The product is rounded twice on its way up, so that 16 units of
        roundoff below it is a lower bound; a lower end below 1e-290 is 0.
        Source: Mironov 2017, Corollary 3.
        """
        _one_number(alpha=alpha)
        return Interval(_below(gaussian.rdp(self.mu.lower, alpha)), gaussian.rdp(self.mu.upper, alpha))

    def zcdp(self) -> Interval:
        """The parameter ρ = μ²/2 of zero-concentrated DP (Bun & Steinke 2016, Proposition 1.6).

        Guarantee: holds ρ of the true μ, as `rdp` does, of which it is the case α = 1.
        Source: Bun & Steinke 2016, Proposition 1.6.
        """
        return Interval(_below(gaussian.zcdp(self.mu.lower)), gaussian.zcdp(self.mu.upper))

    def advantage(self) -> Interval:
        """True-positive minus false-positive rate of the best membership attack: 2Φ(μ/2) − 1.

        It is the smallest δ at ε = 0.

        Guarantee: holds the advantage of the true μ; no attack on this view has more than the upper end, whatever it
        knows beside it.
        Source: Dong, Roth & Su 2022, the profile at ε = 0; docs/proofs/profile.md.
        """
        return Interval(gaussian.delta_lower(self.mu.lower, 0.0), gaussian.advantage(self.mu.upper))

    def best_guess(self) -> float:
        """How often the best guess whether a record is there is right, in per cent and at most.

        Guarantee: an upper bound, that of `best_guess` for this μ; with `coins` that of their δ at ε = 0 counts too.
        """
        if self.coins is None:
            return best_guess(self.mu.upper)
        return best_guess(self.mu.upper, epsilon=0.0, delta=self.coins.delta(0.0))

    def true_positive_rate(self, fpr: float) -> Interval:
        """True-positive rate of the best attack whose false-positive rate is `fpr`: Φ(Φ⁻¹(fpr) + μ).

        Guarantee: holds the rate of the true μ; the lower end is never below `fpr`, which guessing reaches.
        Source: Dong, Roth & Su 2022, Section 2.2; docs/proofs/profile.md.
        """
        _one_number(fpr=fpr)
        return Interval(
            gaussian.true_positive_rate_lower(self.mu.lower, float(fpr)),
            gaussian.true_positive_rate(self.mu.upper, float(fpr)),
        )

    def to_dp_event(self) -> DpEvent:
        """The upper end as an event of dp-accounting: GaussianDpEvent(noise_multiplier=1/μ).

        The 2 of replace-one is inside μ already, so the accountant must not apply its own; `dp_relation`
        names the neighbouring relation to give it. Needs the extra `events`.

        Guarantee: the event leaks at least as much as `mu.upper` says (a NoOpDpEvent at 0).

        >>> Account(mu=Interval(0.4, 0.5), relation="zero-out", method="abs").to_dp_event()
        GaussianDpEvent(noise_multiplier=1.9999999999999998)
        """
        dp_accounting = _dp_accounting()
        if self.mu.upper == 0:
            return dp_accounting.NoOpDpEvent()
        if math.isinf(self.mu.upper):
            return dp_accounting.NonPrivateDpEvent()
        return dp_accounting.GaussianDpEvent(noise_multiplier=math.nextafter(1 / self.mu.upper, 0))

    def dp_relation(self) -> NeighboringRelation:
        """The neighbouring relation under which dp-accounting reads the event as it is meant.

        REPLACE_SPECIAL for zero-out, else ADD_OR_REMOVE_ONE. Never REPLACE_ONE: under it that library's PLD
        accountant doubles the sensitivity of a Gaussian event and its RDP accountant does not.

        >>> from dp_accounting.rdp import RdpAccountant
        >>> a = Account(mu=Interval(0.4, 0.5), relation="replace-one", method="abs")
        >>> accountant = RdpAccountant(neighboring_relation=a.dp_relation()).compose(a.to_dp_event())
        >>> bool(accountant.get_epsilon(1e-5) > a.epsilon(1e-5).upper)
        True
        """
        relations = _dp_accounting().NeighboringRelation
        return relations.REPLACE_SPECIAL if self.relation == "zero-out" else relations.ADD_OR_REMOVE_ONE

    @property
    def always(self) -> Account:
        """The same as if the target contributed in every round; the account itself, where no coins are tossed.

        Guarantee: an upper bound of what the account with coins says: a run in which a record takes part in some
        rounds shows no more than one in which it takes part in all.
        """
        if self.coins is None:
            return self
        return replace(self, coins=None, method=self.coins.told_method, participation="full")

    def __add__(self, other: object) -> Account:
        """Both runs together, if independent and about the same target under the same relation.

            μ = √(μ₁² + μ₂²)

        Observers, views and methods are joined, the weaker assumption counts, and what the two do not have in common
        is left out.

        Guarantee: both ends hold if those of the two do and noise is independent, also if the second run was chosen
        after the first was seen: `hypot` is off by one unit and two are added.
        Source: Dong, Roth & Su 2022, Corollary 3.3.
        """
        if not isinstance(other, Account):
            return NotImplemented
        if self.coins is not None or other.coins is not None:
            return self.always + other.always
        self._refuse_unlike(other)
        alike = self.noise_multiplier == other.noise_multiplier
        squares = (self.sensitivity_squared, other.sensitivity_squared)
        return replace(
            self,
            mu=Interval(
                _down(math.hypot(self.mu.lower, other.mu.lower)),
                _up(math.hypot(self.mu.upper, other.mu.upper)),
            ),
            method=_joined(self.method, other.method),
            assumption=max(self.assumption, other.assumption, key=list(ASSUMPTIONS).index),
            view=_joined(self.view, other.view),
            observers=tuple(dict.fromkeys((*self.observers, *other.observers))),
            sensitivity_squared=squares[0] + squares[1] if alike and squares[0] and squares[1] else None,
            noise_multiplier=self.noise_multiplier if alike else None,
            default_delta=self.default_delta if self.default_delta == other.default_delta else None,
            participation=_joined(self.participation, other.participation, " + "),
        )

    def __radd__(self, other: object) -> Account:
        """0 + a is a, so that `sum(accounts)` reads as it should."""
        return self if other == 0 else NotImplemented

    def __mul__(self, runs: int) -> Account:
        """The account of `runs` independent runs on the same record: μ²·runs.

        Guarantee: both ends hold if noise is drawn anew in every run; root and product are each moved two units
        outward.
        Source: Dong, Roth & Su 2022, Corollary 3.3.
        """
        at_least(1, runs=runs)
        if self.coins is not None:
            return self.always * runs
        root = math.sqrt(runs)
        squared = self.sensitivity_squared
        return replace(
            self,
            mu=Interval(_down(self.mu.lower * _down(root)), _up(self.mu.upper * _up(root))),
            sensitivity_squared=None if squared is None else squared.scaled(float(runs)),
        )

    __rmul__ = __mul__

    def _refuse_unlike(self, other: Account) -> None:
        """Refuse to add what is not about the same target, relation and kind of contribution."""
        remedies = {
            "target": "a composition is about one node; look at each target alone",
            "relation": "make both accounts under the same relation",
            "contribution": "make both with contribution='vector', which covers numbers too",
        }
        for name, remedy in remedies.items():
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                raise InputError(
                    f"accounts must have the same {name} to be added; got {mine!r} and {theirs!r} ({remedy})"
                )


def best_guess(mu: float | None = None, *, epsilon: float | None = None, delta: float = 1.0) -> float:
    """How often the best guess whether a record is there is right, in per cent and at most.

        50·(1 + 2Φ(μ/2) − 1)  of a Gaussian mechanism,     100·(e^ε + δ)/(e^ε + 1)  of any that is (ε, δ)-private

    The smaller of both counts; the second is left out where no ε is given, and the first where no μ is. What is learnt
    may be too little to move a float away from 50, and is something all the same.

    Guarantee: an upper bound, for a record that is there as often as not and upper ends of μ, ε and δ: of the sums,
    products and quotients each is rounded, and more than that is added. No guess is right more often than always.
    Source: Dong, Roth & Su 2022, the profile at ε = 0; Kairouz, Oh & Viswanath 2015, Theorem 2.1, for (ε, δ).

    >>> round(best_guess(0.5), 2), round(best_guess(epsilon=1.0, delta=1e-5), 2), best_guess(0.0)
    (59.87, 73.11, 50.0)
    """
    found = 100.0
    if mu is not None:
        advantage = gaussian.advantage(mu)
        found = _up(50 * (1 + advantage)) if advantage else 50.0
    if epsilon is not None:
        # As 1 − (1 − δ)/(e^ε + 1): e^ε may be infinite.
        away = (1 - delta) / (math.exp(min(epsilon, 700.0)) * (1 + roundings(4)) + 1)
        found = min(found, 100 * (1 - away) * (1 + roundings(8)))
    return min(100.0, found)


def mu_ends(
    squared_lower: Array, squared_upper: Array, *, relation: Relation, noise_multiplier: float
) -> tuple[Array, Array]:
    """Lower and upper ends of μ = factor·√Δ²/noise_multiplier, rounded outward; an exact 0 stays.

    Every μ of an account or a table is made here, from ends of Δ² in units of clip², as many as the arrays hold.

    Guarantee: lower and upper bounds of μ if the given ends are such of Δ². A root is within half a unit of the true
    one, and is moved one unit outward before it is divided; the factor is 1 or 2 and rounds nothing; the quotient is
    moved once more. A positive Δ² has a positive upper end though it may underflow, and an infinite one an infinite
    lower end.
    Source: Dong, Roth & Su 2022, Section 2.2: a Gaussian mechanism of sensitivity Δ and noise σ is Δ/σ-GDP.
    """
    factor = RELATIONS[relation]
    # The root and the quotient are each within half a unit; doubling is exact. A quotient may overflow to ∞.
    with np.errstate(over="ignore", under="ignore"):
        lower = factor * np.nextafter(np.sqrt(squared_lower), 0) / noise_multiplier
        upper = factor * np.nextafter(np.sqrt(squared_upper), np.inf) / noise_multiplier
    lower = np.where(np.isinf(squared_lower), np.inf, np.nextafter(lower, 0))
    return lower, np.where(squared_upper == 0, 0.0, np.nextafter(upper, np.inf))


def noise_enough(squared_upper: float, target_epsilon: float, target_delta: float, *, factor: float) -> float:
    """A noise multiplier that keeps a pair with this Δ² at most (ε, δ)-private: factor·Δ/μ(ε, δ).

    Guarantee: upper bound of the smallest one; root, product and quotient round by a unit each.
    Source: Balle & Wang 2018, Algorithm 1 (the analytic Gaussian mechanism).
    """
    exact = factor * math.sqrt(squared_upper) / gaussian.mu(target_epsilon, target_delta)
    return exact * (1 + roundings(8))


def _below(above: float) -> float:
    """A lower bound of the product αμ²/2 that `gaussian` rounded up to `above`, by at most 13 units of roundoff."""
    if math.isinf(above):
        return 0.0
    return above * (1 - roundings(16)) if above > _TINY else 0.0


def _down(value: float) -> float:
    """Two units in the last place towards 0."""
    return math.nextafter(math.nextafter(value, 0), 0)


def _up(value: float) -> float:
    """Two units in the last place up; an exact 0 stays."""
    return math.nextafter(math.nextafter(value, math.inf), math.inf) if value else 0.0


def _joined(first: str, second: str, sign: str = "+") -> str:
    """The distinct names of two lists that are joined by `sign`."""
    return sign.join(dict.fromkeys((*first.split(sign), *second.split(sign))))


def _one_number(**values: object) -> None:
    """Refuse arrays, which belong to `sottovoce.gaussian`."""
    for name, value in values.items():
        if np.ndim(value):  # type: ignore[arg-type]
            raise InputError(
                f"{name} must be a single number; got {value!r} "
                "(the functions of sottovoce.gaussian take arrays)"
            )


def _dp_accounting() -> ModuleType:
    """The dp-accounting package, imported only when an event is asked for."""
    try:
        import dp_accounting
    except ImportError:
        raise needs("an event", "dp-accounting", "events") from None
    module: ModuleType = dp_accounting
    return module
