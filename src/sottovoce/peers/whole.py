# SPDX-License-Identifier: Apache-2.0
"""Programs on whole numbers: which of them masked sums carry, and how large their messages get.

Every term of a combination is put on the grid before terms are added, so that all registers stay whole. If what a node
contributes enters with a draw of its own beside it, all that happens is a function of the whole numbers round(c) + u:
proved in docs/proofs/grid.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sottovoce.errors import InputError
from sottovoce.protocols import CONTRIBUTION, Combine, exact

if TYPE_CHECKING:
    from fractions import Fraction

    from sottovoce.protocols import PerNode, Program, Protocol

__all__ = ["check_ported", "ported", "program_reach"]


def ported(protocol: Protocol) -> bool:
    """Whether what a node contributes enters a run as contribution + draw and in no other way, in whole multiples.

    **Guarantee**: then two neighbouring data sets are told apart by what a node contributes in a round at most as well
    as by contribution + draw themselves: a round in which the node sends costs Δ² ≤ 1, whatever others do, and on a
    grid no more than what rounding the contribution adds. **Source**: docs/proofs/grid.md.

    >>> from sottovoce.graphs import metropolis_weights
    >>> from sottovoce.protocols import momentum
    >>> ring = metropolis_weights("ring:n=5")
    >>> ported(momentum(ring, rounds=9, beta=0.9)), ported(momentum(ring, rounds=9, beta=0.9, noise="message"))
    (True, False)
    """
    return not protocol.encoded and all(_ported(program) for program in protocol.programs)


def _ported(program: Program) -> bool:
    beside = [draw for draw in program.draws if draw.each == "node" and _numbers(draw.level) == {1}]
    combined = [step.terms for step in program.instructions if isinstance(step, Combine)]
    if any(value.denominator > 1 for terms in combined for value in _numbers(terms.get(CONTRIBUTION, 0))):
        return False
    return any(
        all(terms.get(CONTRIBUTION, 0) == terms.get(draw.name, 0) for terms in combined) for draw in beside
    )


def check_ported(protocol: Protocol) -> None:
    """Refuse programs of which nothing is proved on whole numbers."""
    if ported(protocol):
        for weights in protocol.schedule:
            for i in range(weights.n):
                total = sum(weights.exact_row(i).values())
                if total != 1:
                    raise InputError(
                        f"masked sums need weights of which each receiver's sum to 1; those of {weights.labels[i]} in "
                        f'{protocol.name!r} sum to {total} (take other weights, or sums = "plain")'
                    )
        return
    raise InputError(
        f"masked sums carry programs in which noise of level 1 enters beside each contribution, with the same whole "
        f'coefficient; that is not so in {protocol.name!r} (add the noise to the gradient, as noise="gradient" does, '
        'without levels or an encoder, or take sums = "plain")'
    )


def program_reach(program: Program, *, rounds: int, fresh: int, pull: Fraction) -> int:
    """A bound of all that nodes hold and send, in units, whatever weights that sum to 1 mix them.

    `fresh` bounds a contribution and its noise but for `pull` times the model, which a penalty adds to it.

    **Guarantee**: holds for weights that are not negative with rows of sum at most 1, also where messages are missing;
    every rounding counts as a unit.

    >>> from fractions import Fraction
    >>> from sottovoce.graphs import metropolis_weights
    >>> from sottovoce.protocols import repeated
    >>> program = repeated(metropolis_weights("ring:n=5"), rounds=9, steps=2).program
    >>> program_reach(program, rounds=9, fresh=100, pull=Fraction(0))
    918
    """
    held = dict.fromkeys(program.keeps, 0)
    sources = {draw.name for draw in program.draws}
    most = 0
    for _ in range(rounds):
        added = fresh + math.ceil(pull * held.get(program.model, 0))
        registers = dict(held)
        for step in program.instructions:
            if isinstance(step, Combine):
                # The draw is counted with the contribution that it stands beside.
                terms = {name: _most(value) for name, value in step.terms.items() if name not in sources}
                registers[step.into] = sum(
                    math.ceil(value * (added if name == CONTRIBUTION else registers[name]))
                    + (value.denominator > 1)
                    for name, value in terms.items()
                )
            else:
                registers[step.into] = registers[step.message] + 1
            most = max(most, registers[step.into])
        held = {name: registers[name] for name in held}
    return most


def _numbers(value: PerNode) -> set[Fraction]:
    """The numbers of a coefficient, one for all nodes or one a node."""
    return {exact(each) for each in (value if isinstance(value, tuple) else (value,))}


def _most(value: PerNode) -> Fraction:
    return max(abs(each) for each in _numbers(value))
