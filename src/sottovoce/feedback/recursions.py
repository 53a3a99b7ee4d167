# SPDX-License-Identifier: Apache-2.0
"""More trainings as recursions of differences, for `general.recursion_cost`: steps that fall, nodes that drop out.

Each takes a view as `training` sets it up and the position of a target among the hidden nodes, and writes what the
difference ξ of two runs does as moves, in rationals, as `sottovoce.verification.recursions` does for the programs that
certificates know:

    ξ⁺ = 𝒜 ξ + B p + b δ + N a,     |p_k| ≤ |(R ξ)_k|,     C ξ = 0.

No certificate and no account rests on these: they say what other trainings would cost. Tests hold the bounds against
linear loops that follow the same matrices, and the cases without memory against plain training.

Source: Theorem 2 of docs/training.md.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import InputError, at_least
from sottovoce.verification import Move, Parts, Recursion, product, zeros

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sottovoce.feedback.problem import TrainingView
    from sottovoce.verification import Exact, ExactRow

__all__ = ["correlated_noise", "drop_out", "falling_steps", "local_steps", "plain_steps"]


def plain_steps(case: TrainingView, target: int, *, rough: Iterable[int] = ()) -> Recursion:
    """Training as `training_sensitivity` has it; `rough` are positions of nodes with maps of any kind.

    ξ = e, the differences of the messages:

        e⁺ = c A e + p + b δ + a,     |p_k| ≤ r_k |(A e)_k|.

    Guarantee: exact; this is one step of Theorem 1 that recurs. Of a rough node nothing is
    asked, as its input counts as seen: Corollary 3 for these nodes, Theorem 1 for the others.
    Source: Theorems 1 and 2 of docs/training.md.

    >>> from sottovoce import View, graphs
    >>> from sottovoce.feedback.problem import training
    >>> star = training(graphs.metropolis_weights("star:n=3"), View.secure_sum(0), rounds=9, updates=(0, 1))
    >>> move = plain_steps(star, 0).moves[0]
    >>> [str(x) for x in move.transition.ravel()]  # c A, with c = 1/2 and A = 2/3 on the diagonal
    ['1/3', '0', '0', '1/3']
    """
    p = Parts(case, target, rough)
    return Recursion(sizes=(p.m,), seen=(p.rows,), moves=(p.update(p.A),))


def correlated_noise(case: TrainingView, target: int, *, share: float) -> Recursion:
    """Noise u_t − λ u_{t−1}: ξ = (e, a), the shift of the last round being remembered.

    A shift a of u_t moves the message of round t by a and that of round t + 1 by −λ a, so with a₋ for the shift
    before

        e⁺ = c A e − λ a₋ + p + b δ + a,     a₋⁺ = a.

    Of a₋ nothing is seen. λ is `share`.

    Guarantee: exact. The bound may exceed local DP: what noise of one round gives, the next takes back.
    Source: Theorem 2 of docs/training.md.
    """
    p, lam = Parts(case, target), Fraction(share)
    none = zeros(p.m, p.m)
    move = Move(
        before=0,
        after=0,
        transition=np.block([[product(p.c, p.A), -lam * p.one], [none, none]]),
        bends=np.vstack([p.one, none]),
        reach=np.hstack([product(p.r, p.A), none]),
        noise=np.vstack([p.one, p.one]),
        entry=np.concatenate([p.b, zeros(p.m)]),
    )
    return Recursion(sizes=(2 * p.m,), seen=(p.rows,), moves=(move,))


def local_steps(case: TrainingView, target: int, *, steps: int) -> Recursion:
    """H local steps between exchanges, noise in each, the last of them seen; the cost is that of one local step.

    State k holds the differences after local step k of a round, k = 0 … H − 1. The first step starts from what the
    exchange brought, A e; the others from a node's own model, e itself:

        e⁺ = c A e + p + b δ + a  (k = 0),     e⁺ = c e + p + b δ + a,   |p_k| ≤ r_k |e_k|  (k > 0).

    Only state H − 1 is sent, and so seen; the others may differ in any way.

    Guarantee: exact, if the record takes part in every local step. A round costs H times what is returned.
    Source: Theorem 2 of docs/training.md.
    """
    at_least(1, steps=steps)
    p = Parts(case, target)
    moves = tuple(p.update(p.A if k == 0 else p.one, before=(k - 1) % steps, after=k) for k in range(steps))
    seen = tuple(p.rows if k == steps - 1 else () for k in range(steps))
    return Recursion(sizes=(p.m,) * steps, seen=seen, moves=moves)


def drop_out(case: TrainingView, target: int, *, away: Iterable[Iterable[int]]) -> Recursion:
    """Rounds from which nodes may be missing: all are there, or those of one set of `away` (node indices) are not.

    Who is missing is fixed beforehand or tossed, and does not look at the run. A node that is missed keeps its weight,
    so what it would have had of others it has of itself. Every set has a Π of its own, and each may follow each.

    In mode i messages are mixed by A_i and seen through C_i. A difference that was unseen in mode i, C_i e = 0, is
    mixed by A_i, and what comes of it must be unseen in the mode j that follows:

        e⁺ = c A_i e + p + b δ + a,     C_i e = 0,  C_j e⁺ = 0     for all pairs (i, j).

    One Π for all modes would have to be hidden from every C_i at once, which is weaker and may hide nothing.

    Args:
        case: a view of sums by observers who know their own noise.
        target: a position among the hidden nodes.
        away: sets of node indices that may be missing together.

    Guarantee: exact for each order in which the modes can come, so the bound holds for the worst of them. It does
    not hold where who is missing depends on models or data.
    Source: Theorem 2 of docs/training.md.
    """
    view = case.view
    if view.name not in {"secure-sum", "coalition-sums"} or view.own_noise != "known":
        raise InputError(
            f"nodes that drop out are worked out for observers of sums who know their noise; got {view!r}"
        )
    p = Parts(case, target)
    modes = [_thinned(case, set(absent)) for absent in ((), *away)]
    moves = tuple(p.update(A, before=i, after=j) for i, (A, _) in enumerate(modes) for j in range(len(modes)))
    return Recursion(sizes=(p.m,) * len(modes), seen=tuple(rows for _, rows in modes), moves=moves)


def _thinned(case: TrainingView, absent: set[int]) -> tuple[Exact, tuple[ExactRow, ...]]:
    """A and the rows that are seen while some nodes are away.

    W_ij of a pair of which one is missing goes to W_ii, so every row keeps its sum. The rows of the observers are
    seen.
    """
    hidden = {int(node): k for k, node in enumerate(case.loop.unknown)}
    A, seen = zeros(len(hidden), len(hidden)), []
    for node in range(case.loop.weights.n):
        row = case.loop.weights.exact_row(node)
        there = {j: x for j, x in row.items() if j == node or not absent & {j, node}}
        there[node] = there.get(node, Fraction(0)) + sum(row.values()) - sum(there.values())
        within = {hidden[j]: x for j, x in there.items() if j in hidden and x}
        if node not in hidden:
            seen.append(within)
            continue
        for j, x in within.items():
            A[hidden[node], j] = x
    return A, tuple(row for row in seen if row)


def falling_steps(case: TrainingView, target: int, *, steps: Sequence[float]) -> Recursion:
    """A run whose step falls from round to round, its noise with it; the slopes of `case` are those of the first step.

    Divided by its step a message has noise of level 1, and the slopes of round t are η_{t−1}/η_t times those of the
    step η_t, which move to 1 as it falls. There is a Π for each round and a κ for each.

    With e the difference of the messages over their step, c_t = 1 − (1 − c) η_t/η_1, r_t = r η_t/η_1:

        e⁺ = (η_{t−1}/η_t) c_t A e + p + b δ + a,     |p_k| ≤ (η_{t−1}/η_t) (r_t)_k |(A e)_k|.

    A contribution is a gradient times the step, so over its step it has norm 1 in every round.

    Args:
        case: the view of training, with the slopes of the first step.
        target: a position among the hidden nodes.
        steps: η_1 ≥ η_2 ≥ … > 0, one for each round; only their ratios matter.

    Guarantee: exact; the cost is that of the whole run, Σ 1/κ_t.
    Source: Theorem 2 of docs/training.md.
    """
    if not steps or any(later > earlier for earlier, later in itertools.pairwise(steps)) or steps[-1] <= 0:
        raise InputError(f"steps must be positive and never rise; got {list(steps)[:20]}")
    p = Parts(case, target)
    sizes = [Fraction(step) for step in steps]
    moves = []
    for t, size in enumerate(sizes):
        # `part` is η_t/η_1, `grown` is η_{t−1}/η_t; round 1 has nothing before it, and 1 will do.
        part, grown = size / sizes[0], sizes[max(0, t - 1)] / size
        centre = p.one - (p.one - p.c) * part
        moves.append(
            Move(
                before=t,
                after=t + 1,
                transition=product(centre, p.A) * grown,
                bends=p.one,
                reach=product(p.r, p.A) * (grown * part),
                noise=p.one,
                entry=p.b,
                charge=t,
            )
        )
    # Before the first round nothing differs: all of it counts as seen.
    nothing = tuple({k: Fraction(1)} for k in range(p.m))
    rounds = len(sizes)
    return Recursion(
        sizes=(p.m,) * (rounds + 1),
        seen=(nothing, *(p.rows,) * rounds),
        moves=tuple(moves),
        counts=(1,) * rounds,
    )
