# SPDX-License-Identifier: Apache-2.0
"""`Accountant`: what the rounds of a run so far have given away."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sottovoce.accounting import Account
    from sottovoce.learning.plans import Plan

__all__ = ["Accountant"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Accountant:
    """What the first `rounds` rounds of a plan have given away.

    Guarantee: ε is an upper bound for a number of rounds that was fixed in advance. Whoever stops because of what a run
    shows has the account of all rounds that were planned, as `Training.plan` has it: messages that were not sent tell
    nobody more. A stop that looks at the data themselves, their loss for example, tells of them, and no account covers
    it.
    """

    plan: Plan
    rounds: int

    def epsilon(self, delta: float | None = None) -> float:
        """ε of the worst pair in the view that was chosen, at δ; under the assumption that `account` names.

        Guarantee: an upper bound for every pair, the smaller of two that hold.
        """
        if self.rounds == 0:
            return 0.0
        return min(self.account.epsilon(delta).upper, self.unconditional.epsilon(delta).upper)

    def unconditional_epsilon(self, delta: float | None = None) -> float:
        """ε of local DP at δ, which holds whoever sees whatever.

        Guarantee: an upper bound without any assumption about the loss or the observers.
        """
        return 0.0 if self.rounds == 0 else self.unconditional.epsilon(delta).upper

    @cached_property
    def account(self) -> Account:
        """The account of the worst pair over the rounds so far.

        Guarantee: as for `sottovoce.learning.Exposure.certified`; after the last round it is the plan's own.
        """
        if self.rounds == self.plan.protocol.rounds:
            return self.plan.account
        return self.plan.exposure.certified(**self._asked).account

    @cached_property
    def unconditional(self) -> Account:
        """Local DP over the rounds so far.

        Guarantee: as for `sottovoce.learning.Exposure.everyone`.
        """
        return self.plan.exposure.everyone(**self._asked)

    @property
    def _asked(self) -> dict[str, Any]:
        return {
            "noise_multiplier": self.plan.noise_multiplier,
            "delta": self.plan.recipe.target_delta,
            "rounds": self.rounds,
        }
