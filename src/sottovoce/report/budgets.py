# SPDX-License-Identifier: Apache-2.0
"""How much noise another budget would take, in a sentence for the first page."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sottovoce.accounting import noise_enough
from sottovoce.interval import as_given, rounded_up
from sottovoce.report.first_pages import about_pairs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.accounting import Account
    from sottovoce.documents import PagePart

__all__ = ["noise_sentence"]


def noise_sentence(parts: Sequence[PagePart], accounts: Sequence[Account], epsilon: float) -> str:
    """The noise multiplier that keeps each view within ε; nothing of a view whose worst pair is not at hand.

    Guarantee: every multiplier is rounded up, and suffices for every pair of its view that was computed.
    """
    said = []
    for part, account in zip(parts, accounts, strict=True):
        squared = account.sensitivity_squared
        # Pairs may be left out of a page: then the worst of those shown is not what noise has to be enough for.
        whole = part.epsilon_upper is not None and account.epsilon().upper >= part.epsilon_upper
        if squared is not None and 0 < squared.upper < math.inf and whole:
            noise = noise_enough(squared.upper, epsilon, part.delta, factor=part.factor)
            pairs = about_pairs(part.view, part.pairs_computed, part.pairs_possible)
            said.append(f"{rounded_up(noise, 5)} in the view {part.view}{pairs}")
    return f"For ε ≤ {as_given(epsilon)} it takes a noise multiplier of {'; '.join(said)}." if said else ""
