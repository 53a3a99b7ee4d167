# SPDX-License-Identifier: Apache-2.0
"""`Audit`: a certified number, what the witness should leak, and what an attack really found."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.accounting import Account
from sottovoce.errors import InputError
from sottovoce.interval import Interval
from sottovoce.scenarios import Answer

if TYPE_CHECKING:
    from collections.abc import Hashable

    from sottovoce.auditing.confidence import Evidence
    from sottovoce.scenarios import Scenario
    from sottovoce.views import View

__all__ = ["Audit", "TrainingAudit", "claimed_ends"]


class Attacked:
    """What every audit says of what was claimed, by the evidence that it `found`."""

    account: Account
    delta: float
    claimed_epsilon: float
    claimed_mu: float
    found: Evidence

    @property
    def certified_epsilon_upper(self) -> float:
        """What ε is at most, at δ, under the assumption of `account`.

        Guarantee: an upper bound for the pair, whatever was claimed or found.
        """
        return self.account.epsilon(self.delta).upper

    @property
    def empirical_epsilon_lower(self) -> float:
        """What ε is at least, at δ, by the attack alone.

        Guarantee: a lower bound with probability at least `confidence`, for any mechanism.
        """
        return self.found.epsilon_lower

    @property
    def empirical_mu_lower(self) -> float:
        """What μ is at least if the view is a Gaussian mechanism, by the attack alone.

        Guarantee: with probability at least `confidence`, together with `empirical_epsilon_lower`, no μ below it has a
        trade-off curve that the view lies above.
        """
        return self.found.mu_lower

    @property
    def confidence(self) -> float:
        """With which probability both empirical bounds hold.

        Guarantee: at least that, as runs are independent and weights and thresholds come from other runs.
        """
        return self.found.confidence

    @property
    def refuted(self) -> bool:
        """Whether the attack did better than the claim allows.

        Guarantee: a claim that holds is refuted with probability at most 1 − `confidence`.
        """
        return self.found.refutes(self.claimed_epsilon, self.claimed_mu)


@dataclass(frozen=True, kw_only=True, eq=False)
class Audit(Attacked, Answer):
    """What an attack found about a claim.

    `scenario` is the pair that was attacked and `account` what this package certifies of it. `claimed_epsilon` is the ε
    at δ = `delta` that was audited, its upper end or someone else's number, and `claimed_mu` the μ of which the whole
    view is claimed to be a Gaussian mechanism (infinite where only an ε is claimed). `attack_mu` says how far apart the
    two worlds lie for the weights of the attack, in noises, and `found` is the evidence.
    """

    scenario: Scenario
    account: Account
    noise_multiplier: float
    delta: float
    claimed_epsilon: float
    claimed_mu: float
    attack_mu: float
    dimension: int
    found: Evidence

    @property
    def view(self) -> View:
        """What the observer sees and whose noise it knows."""
        return self.scenario.one_view

    @property
    def target(self) -> Hashable:
        """The node that the attack is about."""
        return self.scenario.one_target

    @property
    def witness_epsilon(self) -> float:
        """What the simulated pair of streams must leak according to this package: the lower end of ε, at δ.

        Guarantee: a lower bound of ε for the pair, as the account has it; no attack need reach it.
        """
        return self.account.epsilon(self.delta).lower

    @property
    def gaussian_epsilon_lower(self) -> float:
        """What ε is at least, at δ, if the view is a Gaussian mechanism: the ε of `empirical_mu_lower`.

        Guarantee: a lower bound with probability at least `confidence`, for Gaussian mechanisms alone.
        """
        mu = Interval.exactly(self.found.mu_lower)
        return Account(mu=mu, relation=self.account.relation, method="audit").epsilon(self.delta).lower

    @property
    def trials(self) -> int:
        """How many runs were simulated, over both worlds."""
        return self.found.runs


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingAudit(Attacked):
    """What an attack on training runs found about two claims.

    `account` is that of the audited pair under the assumption that it names, `unconditional` that of everyone's
    messages, which assumes nothing. `claimed_epsilon` and `claimed_mu` are those of `account`, or someone else's. In
    every second run the target holds a canary: a record whose gradient is signs[t]·clip along one direction,
    whatever the model. `fitted` says that the weights of the attack come from a third of the `trials`, and not from the
    likelihood ratio.
    """

    view: View
    target: Hashable
    account: Account
    unconditional: Account
    noise_multiplier: float
    delta: float
    claimed_epsilon: float
    claimed_mu: float
    signs: np.ndarray
    fitted: bool
    trials: int
    found: Evidence

    @property
    def unconditional_epsilon_upper(self) -> float:
        """What ε is at most, at δ, whatever gradients depend on.

        Guarantee: an upper bound for every observer, without any assumption.
        """
        return self.unconditional.epsilon(self.delta).upper

    @property
    def unconditional_refuted(self) -> bool:
        """Whether the attack did better than any run of this noise allows: then the run is not what it says.

        Guarantee: a run that is what it says is refuted with probability at most 1 − `confidence`.
        """
        return self.found.refutes(*claimed_ends(self.unconditional, self.delta))


def claimed_ends(claim: Account | float, delta: float) -> tuple[float, float]:
    """The ε and the μ that a claim goes up to; an ε alone says nothing of μ.

    Guarantee: upper ends, so that what is above them refutes the whole claim.
    """
    if isinstance(claim, Account):
        return claim.epsilon(delta).upper, claim.mu.upper
    if isinstance(claim, bool) or not isinstance(claim, int | float | np.number) or not claim >= 0:
        raise InputError(f"claim must be an Account or an ε of at least 0; got {claim!r}")
    return float(claim), math.inf
