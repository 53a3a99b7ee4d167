# SPDX-License-Identifier: Apache-2.0
"""The lower end of a claim about training in balls: the attack of `sottovoce.verification.attacks`, as it runs."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from flint import arb, arb_mat

from sottovoce.verification.balls.loops import solved
from sottovoce.verification.balls.numbers import proved_below, rational

if TYPE_CHECKING:
    from sottovoce.certificates import LoopAttack
    from sottovoce.verification.balls.loops import ExactLoop

__all__ = ["attained_in_balls"]


def attained_in_balls(attack: LoopAttack, loop: ExactLoop) -> float:
    """What an attack without `attack_failure` attains, rounded down.

        λ_t = Cᵀ w_t + Aᵀ D_{t+1} λ_{t+1},     (Re Σ conj(δ_t) (λ_t)_j)² / Σ λ_t* Q λ_t

    Complex numbers are points of the plane. Where the attack turns, D, w and δ are those of one round, and λ is
    turned by the angle from round to round. Contributions longer than 1 are divided by their length.

    Guarantee: a lower bound of Δ², the lower end of a ball rounded down. No round is summed up as settled: all are
    run.
    Source: Neyman–Pearson for a shift of a Gaussian statistic, as in `sottovoce.verification.attacks`.
    """
    turning = attack.angle is not None
    rounds = loop.asked.charged if turning else len(attack.slopes)
    rows = solved(loop.C, loop.asked.seen.pivots.tolist())
    longest = max(Fraction(x) ** 2 + Fraction(y) ** 2 for x, y in attack.contributions.tolist())

    def value() -> arb:
        back, shown = arb_mat(loop.A).transpose(), arb_mat(rows).transpose()
        angle = arb(attack.angle or 0.0)
        turn = arb_mat([[angle.cos(), angle.sin()], [-angle.sin(), angle.cos()]])
        levels = [arb(rational(q)) for q in loop.variances]
        carried = arb_mat(loop.size, 2)
        signal = variance = best = arb(0)
        for t in reversed(range(rounds)):
            slopes, statistic, contribution = (
                part[0 if turning else t].tolist()
                for part in (attack.slopes, attack.statistic, attack.contributions)
            )
            # λ_t = Cᵀ w_t + Aᵀ D_{t+1} λ_{t+1}; `carried` is the second part, made at the end of the loop.
            state = shown * arb_mat(statistic) + carried
            points = state.tolist()
            signal += sum(x * y for x, y in zip(points[loop.target], contribution, strict=True))
            variance += sum(q * (x * x + y * y) for q, (x, y) in zip(levels, points, strict=True))
            # Where every round is alike, some of them alone are an attack, too.
            if (turning or t == 0) and (reached := signal * signal / variance).lower() > best.lower():
                best = reached
            bent = [[d * x, d * y] for d, (x, y) in zip(slopes, points, strict=True)]
            carried = back * arb_mat(bent) * turn
        return best / arb(rational(max(Fraction(1), longest)))

    return max(0.0, proved_below(value))
