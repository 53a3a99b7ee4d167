# SPDX-License-Identifier: Apache-2.0
"""Gossip weights of a network: by a rule from edges, or as public integers over a common denominator."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np

from sottovoce.errors import InputError
from sottovoce.forms import Form
from sottovoce.graphs import GossipWeights, as_graph, matrix_weights, weights_by_rule

if TYPE_CHECKING:
    from sottovoce.peers.network import Settings

__all__ = ["Weighting", "weights_of", "whole_weights"]

LARGEST_DENOMINATOR = 2**20
"""Weights are integers over this at most, so that sums of integers on a grid keep their room in 64 bits."""


class Weighting(Form, frozen=True, kw_only=True):
    """Gossip weights as public integers: `rows` says, for each receiver, how much of each sender it takes."""

    denominator: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_DENOMINATOR)]
    rows: dict[str, dict[str, Annotated[int, msgspec.Meta(ge=0, le=LARGEST_DENOMINATOR)]]]


def weights_of(settings: Settings) -> GossipWeights:
    """The gossip weights: by rule from edges, or given as integers."""
    names = [node.name for node in settings.nodes]
    place = {name: k for k, name in enumerate(names)}
    if isinstance(settings.weights, tuple):
        raise InputError(
            "weights must be the same in all rounds, as sums, thresholds and transcripts are of one set of senders; "
            f"got a schedule of {len(settings.weights)} (give one; who drops out is left out by itself)"
        )
    if isinstance(settings.weights, Weighting):
        if settings.edges:
            raise InputError(
                "edges must be left out where weights are given, as rows say who is linked (leave one out)"
            )
        return _by_rows(settings.weights, names, place)
    adjacency = np.zeros((len(names), len(names)))
    for one, other in settings.edges:
        for name in (one, other):
            if name not in place:
                raise InputError(
                    f"edges must join nodes of the network; got {name!r} (known: {', '.join(names)})"
                )
        if one == other:
            raise InputError(f"edges must join two nodes; got {one!r} twice (leave it out)")
        adjacency[place[one], place[other]] = adjacency[place[other], place[one]] = 1
    graph = replace(as_graph(adjacency), labels=tuple(names))
    return weights_by_rule(graph, settings.weights)


def _by_rows(weights: Weighting, names: list[str], place: dict[str, int]) -> GossipWeights:
    """Weights that the file gives as integers over a denominator."""
    matrix = np.zeros((len(names), len(names)), dtype=np.int64)
    for receiver, row in weights.rows.items():
        for name in (receiver, *row):
            if name not in place:
                raise InputError(
                    f"weights must be of nodes of the network; got {name!r} (known: {', '.join(names)})"
                )
        for sender, value in row.items():
            matrix[place[receiver], place[sender]] = value
    for name, total in zip(names, matrix.sum(axis=1).tolist(), strict=True):
        if total != weights.denominator:
            raise InputError(
                f"the weights of a receiver must sum to the denominator {weights.denominator}; those of {name} sum to "
                f"{total} (mend its row)"
            )
    return matrix_weights(matrix, names, normalise=True)


def whole_weights(weights: GossipWeights) -> tuple[int, tuple[dict[int, int], ...]]:
    """Rows of weights as integers over their common denominator."""
    rows = [weights.exact_row(i) for i in range(weights.n)]
    denominator = math.lcm(*(value.denominator for row in rows for value in row.values()))
    if denominator > LARGEST_DENOMINATOR:
        raise InputError(
            f"weights must be integers over a common denominator of at most {LARGEST_DENOMINATOR}; these need "
            f"{denominator} (give weights as integers, or take uniform ones)"
        )
    return denominator, tuple({j: int(value * denominator) for j, value in row.items()} for row in rows)
