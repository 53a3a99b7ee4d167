# SPDX-License-Identifier: Apache-2.0
"""Records that take part in a round by coins: how many a batch may hold, and what a run of such batches gives away.

Every node tosses a coin for each of its places, as many as the public shard size N, with probability q of heads. Tosses
with more than `most_heads(N, q)` heads are tossed again. Given all other coins, a record then takes part with
probability q, or not at all; so coins are those of Poisson sampling with rate q or less, and batches have a public cap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.accounting import binomial_above, calibrate_sampled

if TYPE_CHECKING:
    from sottovoce.accounting import Account, AccountTable, SampledAccount

__all__ = ["Certified", "most_heads"]

# Tosses that are rarer than this are tossed again.
RARE = 1e-3


def most_heads(places: int, rate: float) -> int:
    """The most records of a batch: as many heads as more of which come less often than once in a thousand tosses.

    Guarantee: any number is sound. It is public, and part of what a run is: it follows from shard size and rate.

    >>> most_heads(144, 0.1), most_heads(1000, 0.1), most_heads(3, 1.0)
    (27, 130, 3)
    """
    if rate == 1:
        return places
    beyond = np.cumsum(binomial_above(places, rate)[::-1])[::-1]
    # beyond[k] is the probability of k heads or more.
    return max(1, int(np.argmax(np.append(beyond[1:], 0.0) <= RARE)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Certified:
    """What is certified of a run: its pairs, as if records took part whenever they may, and what coins make of it.

    `sampled` bounds all pairs where records take part by coins, `everyone` is the same for who sees every message.
    """

    table: AccountTable
    sampled: SampledAccount | None = None
    everyone: SampledAccount | None = None

    @property
    def account(self) -> Account:
        """The worst pair. One that is bounded by what everyone sees says that for all pairs, without any assumption.

        Guarantee: its upper end holds for every pair of the view, under the assumption that it names.
        """
        worst = self.table.worst()
        if self.sampled is None or self.everyone is None:
            return replace(worst, assumption="none") if worst.method == "cap" else worst
        amplified = self.sampled.method() == "amplified"
        found = replace(self.everyone, view=self.sampled.view) if amplified else self.sampled
        return found.account(observers=worst.observers, target=worst.target)

    @property
    def epsilon(self) -> float:
        """What ε is at most.

        Guarantee: an upper bound for every pair of the view, at the δ of the account and under its assumption.
        """
        return self.account.epsilon().upper

    def with_noise(self, noise_multiplier: float) -> Certified:
        """The same at another noise.

        Guarantee: as for the tables: Δ² does not depend on the noise, and what is proved of coins is proved anew.
        """
        return Certified(
            table=self.table.with_noise(noise_multiplier),
            sampled=None if self.sampled is None else self.sampled.with_noise(noise_multiplier),
            everyone=None if self.everyone is None else self.everyone.with_noise(noise_multiplier),
        )

    def calibrated_noise(self, target_epsilon: float, target_delta: float) -> float:
        """The least noise multiplier that reaches a target; where coins are tossed, to one part in 10⁴.

        Guarantee: rounded up; with it `epsilon` is at most the target.
        """
        if self.sampled is None:
            return self.table.calibrated_noise(target_epsilon, target_delta)
        return calibrate_sampled(self.sampled, target_epsilon, target_delta)
