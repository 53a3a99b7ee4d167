# SPDX-License-Identifier: Apache-2.0
"""Who learns most about a target: the worst observer, and the worst coalition of a given size.

Everything rests on one law: seeing more never lowers Δ. What a set of nodes sees together therefore bounds what any
part of it sees, and many coalitions can be ruled out by one view.
"""

from sottovoce.coalitions.results import COALITION_VIEWS, CoalitionSearch, CoalitionView, Improvement
from sottovoce.coalitions.verbs import worst_coalition, worst_observer

__all__ = [
    "COALITION_VIEWS",
    "CoalitionSearch",
    "CoalitionView",
    "Improvement",
    "worst_coalition",
    "worst_observer",
]
