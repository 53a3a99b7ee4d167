# SPDX-License-Identifier: Apache-2.0
"""`copied`: many runs of a plan at once, as one run of as many networks that do not hear each other.

A round costs a few calls of numpy whatever its size, and small networks cost little else: thirty of them beside each
other take hardly longer than one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from sottovoce.graphs import GossipWeights
from sottovoce.protocols import Combine

if TYPE_CHECKING:
    from sottovoce.learning import Plan
    from sottovoce.protocols import Exchange, PerNode, Program

__all__ = ["copied", "most_copies"]

# Features that are held at once; more would leave the cache, and save nothing.
MOST_FEATURES = 2**19


def most_copies(plan: Plan) -> int:
    """How many networks are worth running at once; one where the public part of the loss differs from node to node."""
    if np.atleast_2d(plan.task.linear).shape[0] > 1:
        return 1
    return max(1, MOST_FEATURES // plan.task.shards.features.size)


def copied(plan: Plan, copies: int) -> Plan:
    """The plan of so many networks beside each other; node i of copy k is node i + k·n of them all.

    Guarantee: a node does in each round what the node of the plan does that it is a copy of, up to rounding, with a key
    of its own.
    """
    shards, protocol = plan.task.shards, plan.protocol
    weights = [
        GossipWeights(
            matrix=sparse.block_diag([each.matrix] * copies, format="csr"),
            labels=range(copies * each.n),
            rule=each.rule,
            symmetric=each.symmetric,
        )
        for each in protocol.schedule
    ]
    programs = tuple(_copied_program(each, copies) for each in protocol.programs)
    node = np.tile(np.arange(protocol.n), copies)
    together = replace(
        shards, features=shards.features[node], labels=shards.labels[node], present=shards.present[node]
    )
    return replace(
        plan,
        task=replace(plan.task, shards=together),
        protocol=replace(protocol, weights=tuple(weights), program=programs),
    )


def _copied_program(program: Program, copies: int) -> Program:
    """The program with every number that differs from node to node given for all copies."""

    def spread(value: PerNode) -> PerNode:
        return value * copies if isinstance(value, tuple) else value

    def copy_of(step: Combine | Exchange) -> Combine | Exchange:
        if not isinstance(step, Combine):
            return step
        return replace(step, terms={name: spread(value) for name, value in step.terms.items()})

    return replace(
        program,
        draws=tuple(replace(draw, level=spread(draw.level)) for draw in program.draws),
        instructions=tuple(map(copy_of, program.instructions)),
    )
