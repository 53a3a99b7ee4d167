# SPDX-License-Identifier: Apache-2.0
"""Room between what an account bounds and what a certificate proves of it.

The accountant and the verifier bound the same rounding by different arguments, and the verifier's margins grow with the
rounds. A report shows what its certificates prove, which may be a little more than the account says; and noise that is
chosen for an ε leaves that much room, so that the ε is proved as well.
"""

from __future__ import annotations

import math

from sottovoce import gaussian
from sottovoce.rounding import roundings

__all__ = ["raised_epsilon", "reached", "roomy"]

# More than the error of the functions of `gaussian`, for a line that may not be too low.
_LINE = 1e-9


def roomy(squared: float, rounds: int) -> float:
    """Δ² with room for what a certificate of it may claim.

        Δ²·(1 + min(10⁻³, 10⁻⁶·max(1, rounds/50)²))

    Guarantee: above `squared` by that room, up to four roundings.

    >>> roomy(1.0, 20), roomy(2.0, 100_000)
    (1.000001, 2.002)
    """
    return squared * (1 + min(1e-3, 1e-6 * max(1.0, rounds / 50) ** 2))


def reached(squared_claimed: float, squared_shown: float, rounds: int) -> bool:
    """Whether a claim comes so close to the number of an account that a report may show the claim in its place.

    Guarantee: if true, squared_claimed ≤ roomy(squared_shown, rounds).

    >>> reached(1.0000009, 1.0, 50), reached(1.000002, 1.0, 50)
    (True, False)
    """
    return squared_claimed <= roomy(squared_shown, rounds)


def raised_epsilon(epsilon: float, delta: float, share: float) -> float:
    """The ε at δ of a Gaussian mechanism whose Δ² is `share` times as large as one that has ε; `share` is at least 1.

    Guarantee: an upper bound: μ of the first is widened by 10⁻⁹ for the error of the inverse, and ε grows with μ.
    Source: Balle & Wang 2018, Theorem 8, inverted.

    >>> raised_epsilon(0.0, 1e-5, 1.0), 1 < raised_epsilon(1.0, 1e-5, 1.0 + 1e-7) < 1 + 1e-6
    (0.0, True)
    """
    if epsilon == 0 or math.isinf(epsilon):
        return epsilon
    mu = gaussian.mu(epsilon, delta) * math.sqrt(share) * (1 + _LINE) * (1 + roundings(8))
    return max(epsilon, float(gaussian.epsilon(mu, delta)))
