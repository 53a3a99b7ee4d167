# SPDX-License-Identifier: Apache-2.0
"""`Audit`: a certified number, what the witness should leak, and what an attack really found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sottovoce.accounting import Account
from sottovoce.interval import Interval

if TYPE_CHECKING:
    from collections.abc import Hashable

    from sottovoce.auditing.confidence import Evidence
    from sottovoce.protocols import Protocol
    from sottovoce.views import View

__all__ = ["Audit"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Audit:
    """What an attack found about a claim.

    `account` is what this package certifies. `claimed_epsilon` is the ε at δ = `delta` that was audited, its upper end
    or someone else's number, and `claimed_mu` the μ of which the whole view is claimed to be a Gaussian mechanism
    (infinite where only an ε is claimed). `attack_mu` says how far apart the two worlds lie for the weights of the
    attack, in noises, and `found` is the evidence.
    """

    protocol: Protocol
    view: View
    target: Hashable
    account: Account
    noise_multiplier: float
    delta: float
    claimed_epsilon: float
    claimed_mu: float
    attack_mu: float
    dimension: int
    found: Evidence

    @property
    def certified_epsilon_upper(self) -> float:
        """What this package certifies that ε is at most, at δ."""
        return self.account.epsilon(self.delta).upper

    @property
    def witness_epsilon(self) -> float:
        """What the simulated pair of streams must leak according to this package: the lower end of ε, at δ."""
        return self.account.epsilon(self.delta).lower

    @property
    def empirical_epsilon_lower(self) -> float:
        """What ε is at least, at δ, by the attack alone."""
        return self.found.epsilon_lower

    @property
    def empirical_mu_lower(self) -> float:
        """What μ is at least if the view is a Gaussian mechanism, by the attack alone."""
        return self.found.mu_lower

    @property
    def gaussian_epsilon_lower(self) -> float:
        """What ε is at least, at δ, if the view is a Gaussian mechanism: the ε of `empirical_mu_lower`."""
        mu = Interval.exactly(self.found.mu_lower)
        return Account(mu=mu, relation=self.account.relation, method="audit").epsilon(self.delta).lower

    @property
    def confidence(self) -> float:
        """With which probability both empirical bounds hold."""
        return self.found.confidence

    @property
    def trials(self) -> int:
        """How many runs were simulated, over both worlds."""
        return self.found.runs

    @property
    def refuted(self) -> bool:
        """Whether the attack did better than the claim allows."""
        return self.found.epsilon_lower > self.claimed_epsilon or self.found.mu_lower > self.claimed_mu
