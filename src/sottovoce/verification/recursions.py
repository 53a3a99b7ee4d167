# SPDX-License-Identifier: Apache-2.0
"""Training with momentum or several exchanges a round as recursions of differences for `moves.proved_cost`.

Each takes a view as `training` sets it up and the position of a target among the hidden nodes. It says what the
difference ξ of two runs holds, and writes

    ξ⁺ = 𝒜 ξ + B p + b δ + N a,     |p_k| ≤ |(R ξ)_k|,     C ξ = 0

as a `Move`: `transition` 𝒜, `bends` B, `reach` R, `entry` b, `noise` N. p is what the maps of the nodes make of a
difference beyond their centre, δ what the record adds, a how the noise is shifted. Throughout e is the difference
of the messages and A e that of what is received, so that a map in the ball (c, r) makes c A e + p of it with |p_k|
≤ r_k |(A e)_k|.

Matrices are rationals: weights and slopes are taken as the numbers that they are, so nothing is rounded before
`sottovoce.verification.moves` builds F. What soundness asks of this module is that the matrices describe the
training that is meant: each docstring has the recursion to compare them with. `worked_out` says which programs have
one; `sottovoce.feedback.recursions` has more, which no certificate rests on. Tests hold the bounds against linear loops
that follow the same matrices. Theorem 2 of docs/training.md makes a bound of a recursion.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any
from typing import Protocol as Structure

import numpy as np

from sottovoce.errors import InputError, at_least
from sottovoce.protocols import Combine, Exchange, exact, momentum, repeated
from sottovoce.verification.moves import Move, Recursion, exact_array, product

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sottovoce.certificates import Floats
    from sottovoce.protocols import Protocol, Slopes
    from sottovoce.verification.loops import ExactRow, HiddenLoop
    from sottovoce.verification.moves import Exact

    Maker = Callable[["Case", int], Recursion]

__all__ = [
    "MOST_EXCHANGES",
    "Case",
    "Parts",
    "heavy_ball",
    "several_exchanges",
    "worked_out",
    "zeros",
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


def worked_out(protocol: Protocol) -> Maker | None:
    """The recursion of the differences of a program, recognised by what it does; None where none is worked out.

    Instructions, draws and registers are compared with those of `momentum` and `repeated`, so a program of another
    name that does the same counts, and one that does anything else does not.

    Guarantee: exact: a recursion is one of the program that was given, whose draws are fresh and of level 1, on the one
    matrix of its schedule. None says that nothing is proved, whatever the program is.
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


class Parts:
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
        """An update of what `mixing` Z makes of messages: e⁺ = c Z e + p + b δ + a with |p_k| ≤ r_k |(Z e)_k|.

        c, r, b are the centres, radii and entries of the maps of all nodes; Z is what their messages were mixed with.

        Guarantee: exact, in rationals.
        """
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
    p, gamma = Parts(case, target), Fraction(momentum)
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
    p = Parts(case, target)
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


def _dense(row: ExactRow, size: int) -> Exact:
    """A row with its zeros."""
    full = zeros(size)
    for j, x in row.items():
        full[j] = x
    return full


def _row(values: Any) -> ExactRow:  # noqa: ANN401
    """A row without its zeros."""
    return {j: x for j, x in enumerate(values.tolist()) if x}
