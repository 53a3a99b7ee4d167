# SPDX-License-Identifier: Apache-2.0
"""Trainings that remember more than a model, or change, as recursions of differences for `moves.proved_cost`.

Each takes a view as `training` sets it up and the position of a target among the hidden nodes. It says what the
difference ξ of two runs holds, and writes

    ξ⁺ = 𝒜 ξ + B p + b δ + N a,     |p_k| ≤ |(R ξ)_k|,     C ξ = 0

as a `Move`: `transition` 𝒜, `bends` B, `reach` R, `entry` b, `noise` N. p is what the maps of the nodes make of a
difference beyond their centre, δ what the record adds, a how the noise is shifted. Throughout e is the difference
of the messages and A e that of what is received, so that a map in the ball (c, r) makes c A e + p of it with |p_k|
≤ r_k |(A e)_k|.

Matrices are rationals: weights and slopes are taken as the numbers that they are, so nothing is rounded before
`sottovoce.verification.moves` builds F. What soundness asks of this module is that the matrices describe the
training that is meant: each docstring has the recursion to compare them with. Tests hold the bounds against linear
loops that follow the same matrices, and the cases without memory against plain training. Theorem 2 of
docs/training.md makes a bound of a recursion.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any
from typing import Protocol as Structure

import numpy as np

from sottovoce.errors import InputError, at_least
from sottovoce.protocols import Combine, Exchange, exact, momentum, repeated
from sottovoce.verification.moves import Move, Recursion, exact_array, product

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sottovoce.certificates import Floats
    from sottovoce.protocols import Protocol, Slopes
    from sottovoce.verification.loops import ExactRow, HiddenLoop
    from sottovoce.verification.moves import Exact
    from sottovoce.views import View

    Maker = Callable[["Case", int], Recursion]

__all__ = [
    "MOST_EXCHANGES",
    "correlated_noise",
    "drop_out",
    "falling_steps",
    "heavy_ball",
    "local_steps",
    "plain_steps",
    "several_exchanges",
    "worked_out",
]


# Speed alone: exchanges of a round times nodes, beyond which powers of A in rationals take minutes.
MOST_EXCHANGES = 512


class Case(Structure):
    """What is asked of a view of training: the hidden loop, the levels of noise and the slopes of all nodes."""

    @property
    def loop(self) -> HiddenLoop:
        """Hidden nodes, how messages move between them, and what is seen."""

    @property
    def levels(self) -> Floats:
        """The variance of every node's noise."""

    @property
    def slopes(self) -> Slopes | None:
        """The ball of every node's map; None where nothing is known."""


class Viewed(Case, Structure):
    """The same, and the view itself."""

    @property
    def view(self) -> View:
        """Who sees what."""


def worked_out(protocol: Protocol) -> Maker | None:
    """The recursion of the differences of a program, recognised by what it does; None where none is worked out.

    Instructions, draws and registers are compared with those of `momentum` and `repeated`, so a program of another
    name that does the same counts, and one that does anything else does not.
    """
    if len(protocol.programs) > 1 or len(protocol.schedule) > 1 or protocol.encoded:
        return None
    program, weights = protocol.programs[0], protocol.schedule[0]
    first, count = program.instructions[0], sum(isinstance(step, Exchange) for step in program.instructions)
    beta = first.terms.get("v") if isinstance(first, Combine) else None
    if beta is not None and not isinstance(beta, tuple):
        heavy = momentum(weights, rounds=1, beta=beta).programs[0]
        return partial(heavy_ball, momentum=exact(beta)) if program == heavy else None
    if (
        0 < count * protocol.n <= MOST_EXCHANGES
        and program == repeated(weights, rounds=1, steps=count).programs[0]
    ):
        return partial(several_exchanges, steps=count, fresh=False)
    return None


class _Parts:
    """A = W_UU, the rows that are seen, c and r, all in rationals; `rough` nodes have maps of any kind.

    `m` hidden nodes; `A`, `c`, `r` and the identity `one` are m × m, c and r diagonal; `b` is the unit vector of
    the target; `rows` map positions of hidden nodes to weights. Noise of other levels than 1, and views whose last
    round shows nothing or rows that others do not, are refused: the recursions below are not written for them.
    """

    def __init__(self, case: Case, target: int, rough: Iterable[int] = ()) -> None:
        loop = case.loop
        self.m = loop.unknown.size
        if any(level != 1 for level in case.levels[loop.unknown].tolist()):
            raise InputError("recursions are worked out for noise of level 1 (leave noise_levels out)")
        if loop.last_rows != loop.rows[: len(loop.last_rows)] or not loop.last_rows:
            raise InputError(
                "recursions need a view that shows each round as it is (take secure sums or messages)"
            )
        inflow = loop.inflow(loop.unknown.tolist())
        self.A = zeros(self.m, self.m)
        for i, row in enumerate(inflow):
            for j, x in row.items():
                self.A[i, j] = x
        bumpy = sorted(set(rough))
        # What a rough node receives must not differ: its inflow counts as seen, and its map never matters.
        self.rows: tuple[ExactRow, ...] = (*loop.rows, *(inflow[k] for k in bumpy))
        if case.slopes is None:
            raise InputError(
                "recursions need slopes; nothing is known of these maps (name rough nodes instead)"
            )
        lower, upper = (exact_array(end[loop.unknown]) for end in (case.slopes.lower, case.slopes.upper))
        self.c, self.r = zeros(self.m, self.m), zeros(self.m, self.m)
        for k in set(range(self.m)) - set(bumpy):
            self.c[k, k], self.r[k, k] = (lower[k] + upper[k]) / 2, (upper[k] - lower[k]) / 2
        self.one = eye(self.m)
        self.b = self.one[target]

    def update(self, mixing: Exact, *, before: int = 0, after: int = 0) -> Move:
        """An update of what `mixing` Z makes of messages: e⁺ = c Z e + p + b δ + a with |p_k| ≤ r_k |(Z e)_k|."""
        return Move(
            before=before,
            after=after,
            transition=product(self.c, mixing),
            bends=self.one,
            reach=product(self.r, mixing),
            noise=self.one,
            entry=self.b,
        )


def zeros(*shape: int) -> Exact:
    """Rationals that are 0."""
    return np.full(shape, Fraction(0), dtype=object)


def eye(n: int) -> Exact:
    """The identity in rationals."""
    return exact_array(np.eye(n, dtype=int))


def plain_steps(case: Case, target: int, *, rough: Iterable[int] = ()) -> Recursion:
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
    p = _Parts(case, target, rough)
    return Recursion(sizes=(p.m,), seen=(p.rows,), moves=(p.update(p.A),))


def heavy_ball(case: Case, target: int, *, momentum: float | Fraction) -> Recursion:
    """Momentum with the noise inside: w⁺ = γ w − η∇f(z) + u, s = z + w⁺.

    ξ = (e, w), and of w nothing is seen. A step −η∇f has the slopes of the update less 1, centre c − 1 and the same
    radius, and what it makes of a difference enters the memory and through it the message, z + w⁺:

        w⁺ = γ w + (c − 1) A e + p + b δ + a,     e⁺ = A e + w⁺ = γ w + c A e + p + b δ + a.

    So p, δ and a reach both halves of ξ alike.

    Args:
        case: the view of training, with slopes.
        target: a position among the hidden nodes.
        momentum: γ, taken as the number that it is.

    Guarantee: exact, for noise that is drawn inside the memory. Momentum that is added after the noise is another
    recursion, and not covered.
    Source: Theorem 2 of docs/training.md.
    """
    p, gamma = _Parts(case, target), Fraction(momentum)
    both = np.vstack([p.one, p.one])
    move = Move(
        before=0,
        after=0,
        transition=np.block([[product(p.c, p.A), gamma * p.one], [product(p.c - p.one, p.A), gamma * p.one]]),
        bends=both,
        reach=np.hstack([product(p.r, p.A), zeros(p.m, p.m)]),
        noise=both,
        entry=np.concatenate([p.b, p.b]),
    )
    return Recursion(sizes=(2 * p.m,), seen=(p.rows,), moves=(move,))


def correlated_noise(case: Case, target: int, *, share: float) -> Recursion:
    """Noise u_t − λ u_{t−1}: ξ = (e, a), the shift of the last round being remembered.

    A shift a of u_t moves the message of round t by a and that of round t + 1 by −λ a, so with a₋ for the shift
    before

        e⁺ = c A e − λ a₋ + p + b δ + a,     a₋⁺ = a.

    Of a₋ nothing is seen. λ is `share`.

    Guarantee: exact. The bound may exceed local DP: what noise of one round gives, the next takes back.
    Source: Theorem 2 of docs/training.md.
    """
    p, lam = _Parts(case, target), Fraction(share)
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


def several_exchanges(case: Case, target: int, *, steps: int, fresh: bool) -> Recursion:
    """K exchanges a round: with `fresh` noise in each, or with that of the first alone, carried on.

    With fresh noise there are K states, one after each exchange. The first move of a round updates, the others only
    mix: e⁺ = A e + a, without a map, without the record. Each is seen through the same rows.

    With the noise of the first alone, s is mixed K times before it is updated. The observers see C s, C A s, …, C
    A^{K−1} s, all linear in one difference e, and

        e⁺ = c A^K e + p + b δ + a,     |p_k| ≤ r_k |(A^K e)_k|.

    Args:
        case: the view of training, with slopes.
        target: a position among the hidden nodes.
        steps: K.
        fresh: whether each exchange has noise of its own.

    Guarantee: exact; a contribution is charged once a round, so the cost is that of a round.
    Source: Theorem 2 of docs/training.md.
    """
    at_least(1, steps=steps)
    p = _Parts(case, target)
    if fresh:
        none = zeros(p.m, 0)
        later = tuple(
            Move(before=k - 1, after=k, transition=p.A, bends=none, reach=none.T, noise=p.one)
            for k in range(1, steps)
        )
        return Recursion(
            sizes=(p.m,) * steps, seen=(p.rows,) * steps, moves=(p.update(p.A, before=steps - 1), *later)
        )
    # After k rounds of the loop `rows` are C, C A, …, C A^k and `power` is A^{k+1}.
    rows, power = list(p.rows), p.A
    for _ in range(steps - 1):
        rows += [_row(_dense(row, p.m) @ power) for row in p.rows]
        power = product(p.A, power)
    return Recursion(sizes=(p.m,), seen=(tuple(rows),), moves=(p.update(power),))


def local_steps(case: Case, target: int, *, steps: int) -> Recursion:
    """H local steps between exchanges, noise in each, the last of them seen; the cost is that of one local step.

    State k holds the differences after local step k of a round, k = 0 … H − 1. The first step starts from what the
    exchange brought, A e; the others from a node's own model, e itself:

        e⁺ = c A e + p + b δ + a  (k = 0),     e⁺ = c e + p + b δ + a,   |p_k| ≤ r_k |e_k|  (k > 0).

    Only state H − 1 is sent, and so seen; the others may differ in any way.

    Guarantee: exact, if the record takes part in every local step. A round costs H times what is returned.
    Source: Theorem 2 of docs/training.md.
    """
    at_least(1, steps=steps)
    p = _Parts(case, target)
    moves = tuple(p.update(p.A if k == 0 else p.one, before=(k - 1) % steps, after=k) for k in range(steps))
    seen = tuple(p.rows if k == steps - 1 else () for k in range(steps))
    return Recursion(sizes=(p.m,) * steps, seen=seen, moves=moves)


def drop_out(case: Viewed, target: int, *, away: Iterable[Iterable[int]]) -> Recursion:
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
    p = _Parts(case, target)
    modes = [_thinned(case, set(absent)) for absent in ((), *away)]
    moves = tuple(p.update(A, before=i, after=j) for i, (A, _) in enumerate(modes) for j in range(len(modes)))
    return Recursion(sizes=(p.m,) * len(modes), seen=tuple(rows for _, rows in modes), moves=moves)


def _thinned(case: Case, absent: set[int]) -> tuple[Exact, tuple[ExactRow, ...]]:
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


def falling_steps(case: Case, target: int, *, steps: Sequence[float]) -> Recursion:
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
    p = _Parts(case, target)
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


def _dense(row: ExactRow, size: int) -> Exact:
    """A row with its zeros."""
    full = zeros(size)
    for j, x in row.items():
        full[j] = x
    return full


def _row(values: Any) -> ExactRow:  # noqa: ANN401
    """A row without its zeros."""
    return {j: x for j, x in enumerate(values.tolist()) if x}
