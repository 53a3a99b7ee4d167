# SPDX-License-Identifier: Apache-2.0
"""A program as it happens: numbers in registers, noise drawn, messages sent, sums received.

This shares nothing with the compiled rows but the values it reads, so that one can be held against the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from sottovoce.protocols.compiled import edges_of
from sottovoce.protocols.program import CONTRIBUTION, Exchange
from sottovoce.protocols.rationals import exact

if TYPE_CHECKING:
    from collections.abc import Callable

    from sottovoce.graphs import GossipWeights
    from sottovoce.protocols.program import Draw, Program
    from sottovoce.protocols.protocol import Protocol
    from sottovoce.protocols.rationals import PerNode

__all__ = ["Registers", "added_by", "draw_counts", "initial_registers", "run_round", "run_to_exchange"]

Registers: TypeAlias = dict[str, np.ndarray]
"""What all nodes hold under each name: one row a node, one column a run or coordinate."""


def initial_registers(protocol: Protocol, columns: int) -> Registers:
    """What is kept before the first round: zeros."""
    return {name: np.zeros((protocol.n, columns)) for name in protocol.programs[0].keeps}


def draw_counts(weights: GossipWeights, program: Program) -> dict[str, int]:
    """How many numbers each draw of a round consists of: one a node, or one an edge in ascending order of its ends."""
    edges = len(edges_of(weights)) if any(draw.each == "edge" for draw in program.draws) else 0
    return {draw.name: weights.n if draw.each == "node" else edges for draw in program.draws}


def run_round(
    weights: GossipWeights,
    program: Program,
    held: Registers,
    contribution: np.ndarray,
    noise: dict[str, np.ndarray],
) -> tuple[Registers, list[np.ndarray]]:
    """What is kept after a round, and the messages of each exchange.

    `noise` holds numbers of deviation 1 for each draw, as many rows as `draw_counts` says; levels are applied here.

    >>> from sottovoce import graphs
    >>> from sottovoce.protocols import gossip
    >>> path = gossip(graphs.metropolis_weights("path:n=2"), rounds=1)
    >>> nothing, one = np.zeros((2, 1)), np.array([[1.0], [0.0]])
    >>> kept, (sent,) = run_round(path.weights, path.program, {"model": nothing}, one, {"u": nothing})
    >>> sent.ravel().tolist(), kept["model"].ravel().tolist()
    ([1.0, 0.0], [0.5, 0.5])
    """
    registers = dict(held)
    sources = {draw.name: added_by(weights, draw, noise[draw.name]) for draw in program.draws}
    sources[CONTRIBUTION] = contribution
    messages, place = [], run_to_exchange(program, registers, sources, 0)
    while place < len(program.instructions):
        step = program.instructions[place]
        assert isinstance(step, Exchange)
        messages.append(registers[step.message])
        registers[step.into] = np.asarray(weights.matrix @ registers[step.message])
        place = run_to_exchange(program, registers, sources, place + 1)
    return {name: registers[name] for name in held}, messages


def run_to_exchange(
    program: Program,
    registers: Registers,
    sources: Registers,
    place: int,
    node: int | None = None,
    *,
    rounded: Callable[[np.ndarray], np.ndarray] | None = None,
) -> int:
    """Combine what nodes hold, from the instruction at `place` up to the next exchange, whose place is returned.

    `registers` is changed; `sources` holds the contribution and what draws add. Rows are those of all nodes, or the one
    row of `node`, to which its own coefficients are applied. After the last instruction there is no exchange left.
    `rounded` is applied to each term that is no whole multiple, so that values on a grid stay on it.
    """
    for step in program.instructions[place:]:
        if isinstance(step, Exchange):
            break
        total = np.zeros_like(sources[CONTRIBUTION])
        for name, value in step.terms.items():
            given = value[node] if node is not None and isinstance(value, tuple) else value
            term = _factor(given) * (registers[name] if name in registers else sources[name])
            total = total + (term if rounded is None or _whole(given) else rounded(term))
        registers[step.into] = total
        place += 1
    return place


def added_by(weights: GossipWeights, draw: Draw, numbers: np.ndarray) -> np.ndarray:
    """What a draw adds at each node."""
    scaled = np.asarray(_factor(draw.level) * numbers)
    if draw.each == "node":
        return scaled
    total = np.zeros((weights.n, numbers.shape[1]))
    for k, (i, j) in enumerate(edges_of(weights)):
        total[i] += scaled[k]
        total[j] -= scaled[k]
    return total


def _whole(value: PerNode) -> bool:
    """Whether a coefficient is a whole number."""
    return all(exact(each).denominator == 1 for each in (value if isinstance(value, tuple) else (value,)))


def _factor(value: PerNode) -> float | np.ndarray:
    """A coefficient of all nodes as a number, or one a node as a column."""
    if isinstance(value, tuple):
        return np.array([[float(exact(each))] for each in value])
    return float(exact(value))
