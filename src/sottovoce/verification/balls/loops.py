# SPDX-License-Identifier: Apache-2.0
"""The hidden loop of a training run in rationals, and differences of its messages that an observer does not see.

The same loop as in `sottovoce.verification.loops`, whose floats are not used: A, rows, noise and slopes are taken
from the weights and the file again, as the rationals that they are. Noise levels are squared exactly here.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from flint import fmpq, fmpq_mat

from sottovoce.errors import NotCertified
from sottovoce.verification.balls.numbers import matrix, rational
from sottovoce.verification.shift import unseen_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.certificates import Floats, ShiftProof
    from sottovoce.verification.asked import TrainingQuestion

__all__ = ["ExactLoop", "basis", "exact_loop", "hidden_factor", "solved"]


@dataclass(frozen=True, kw_only=True, eq=False)
class ExactLoop:
    """A = W_UU over the hidden nodes U, the rows C that are seen, and each node's noise and slopes.

    `last` are the rows that the last charged round shows. `slopes` are pairs, None where nothing is known of the
    maps. `target` and all rows and columns are positions among the hidden nodes; `variances` are q_k in units of
    σ².
    """

    asked: TrainingQuestion
    target: int
    A: fmpq_mat
    C: fmpq_mat
    last: fmpq_mat
    variances: list[Fraction]
    slopes: list[tuple[Fraction, Fraction]] | None

    @property
    def size(self) -> int:
        """How many nodes are hidden."""
        return len(self.variances)


def exact_loop(asked: TrainingQuestion, noise: Sequence[Fraction]) -> ExactLoop:
    """The loop of a question, where the nodes' noise has the given standard deviations.

    Guarantee: exact.
    """
    loop, U = asked.loop, asked.loop.unknown.tolist()
    slopes = asked.slopes
    return ExactLoop(
        asked=asked,
        target=loop.position(asked.target),
        A=matrix([loop.weights.exact_row(k) for k in U], U),
        C=matrix(loop.rows, range(len(U))),
        last=matrix(loop.last_rows or loop.rows, range(len(U))),
        variances=[noise[k] ** 2 for k in U],
        slopes=None
        if slopes is None
        else [(Fraction(float(slopes.lower[k])), Fraction(float(slopes.upper[k]))) for k in U],
    )


def hidden_factor(loop: ExactLoop, proof: ShiftProof, factor: Floats) -> fmpq_mat:
    """X over all hidden nodes with C X = 0 (for twins A X = 0, too): what it has at pivots follows from the rest.

    Guarantee: exact, and checked by the last line, so that which entries are pivots does not matter.
    """
    unseen = unseen_of(proof, loop.asked.loop)
    places = np.searchsorted(loop.asked.loop.unknown, proof.support).tolist()
    X = fmpq_mat(loop.size, factor.shape[1])
    for k in unseen.free.tolist():
        for column, number in enumerate(factor[k].tolist()):
            X[places[k], column] = rational(number)
    must = loop.C.tolist() + (loop.A.tolist() if proof.method == "twins" else [])
    if unseen.pivots.size:
        pivots = [places[k] for k in unseen.pivots]
        on_support = fmpq_mat(
            [[row[j] if j in set(places) else fmpq(0) for j in range(loop.size)] for row in must]
        )
        rest = solved(on_support, pivots) * X
        for row, place in enumerate(pivots):
            for column in range(factor.shape[1]):
                X[place, column] = -rest[row, column]
    if any((fmpq_mat(must) * X).entries()):
        raise NotCertified("a factor could not be solved for what must not be seen")
    return X


def solved(rows: fmpq_mat, pivots: Sequence[int]) -> fmpq_mat:
    """The rows that span what `rows` span and hold an identity at the pivots.

    Guarantee: exact. Pivots at which the rows do not have full rank raise an error in the inverse, and prove
    nothing.
    """
    independent = basis(rows)
    return fmpq_mat([[row[k] for k in pivots] for row in independent.tolist()]).inv() * independent


def basis(rows: fmpq_mat) -> fmpq_mat:
    """Independent rows that span what `rows` span.

    Guarantee: exact.
    """
    echelon, rank = rows.rref()
    return fmpq_mat(rank, rows.ncols(), [x for row in echelon.tolist()[:rank] for x in row])
