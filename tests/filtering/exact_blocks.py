# SPDX-License-Identifier: Apache-2.0
"""A filter over all that is kept, and its blocks, in balls of 256 bits: the errors that allowances are for.

K and X are the floats of the filter, A, C and what is drawn the numbers of the protocol in two parts, which is far more
than floats tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from flint import arb_mat, ctx
from tests.ball_matrices import balls, floats

from sottovoce.filtering.block_forms import _respond
from sottovoce.filtering.blocks import blocks_of

if TYPE_CHECKING:
    from sottovoce.filtering import BlockResponse
    from sottovoce.filtering.doubled import Doubled
    from sottovoce.filtering.innovations import Filtered

BITS = 256


def two_parts(matrix: Doubled) -> arb_mat:
    """High and low together."""
    return balls(matrix.high) if matrix.low is None else balls(matrix.high) + balls(matrix.low)


def part(matrix: arb_mat, rows: slice, columns: slice = slice(None)) -> arb_mat:
    """Some rows and columns."""
    found = [row[columns] for row in matrix.tolist()[rows]]
    return arb_mat(len(found), len(found[0]) if found else 0, [x for row in found for x in row])


def above(*parts: arb_mat) -> arb_mat:
    """One above the other."""
    return arb_mat([row for each in parts for row in each.tolist()])


@dataclass(frozen=True, kw_only=True)
class ExactRound:
    """Φ, X C, X R' Xᵀ, ΓXᵀ, b̃ of all nodes and what they show at once, with K and X as they are."""

    loop: arb_mat
    shown: arb_mat
    white: arb_mat
    crossed: arb_mat
    into: arb_mat
    at_once: arb_mat


def exact_rounds(run: list[Filtered]) -> list[ExactRound]:
    """The rounds of a filter over all that is kept, its covariance followed as it is and not as floats have it."""
    with ctx.workprec(BITS):
        size = run[0].stage.size
        found, P = [], arb_mat(size, size)
        for each in run:
            stage = each.stage
            A, C, K, X = (
                balls(matrix) for matrix in (stage.transition, stage.rows, each.gain, each.whitener)
            )
            if stage.lows is not None:
                A, C = A + balls(stage.lows[0]), C + balls(stage.lows[1])
            assert stage.noise.drawn is not None
            drawn, given = two_parts(stage.noise.drawn), two_parts(stage.entering[0])
            kept, seen = slice(size), slice(size, None)
            R = C * P * C.transpose() + part(drawn, seen, seen)
            crossed = A * P * C.transpose() + part(drawn, kept, seen)
            gamma = crossed - K * R
            found.append(
                ExactRound(
                    loop=A - K * C,
                    shown=X * C,
                    white=X * R * X.transpose(),
                    crossed=gamma * X.transpose(),
                    into=part(given, kept) - K * part(given, seen),
                    at_once=X * part(given, seen),
                )
            )
            P = (
                A * P * A.transpose()
                + part(drawn, kept, kept)
                - K * crossed.transpose()
                - gamma * K.transpose()
            )
        return found


def unwhite(rounds: list[ExactRound]) -> float:
    """‖E‖, I + E being the covariance of the innovations."""
    edges = np.cumsum([0, *(each.white.nrows() for each in rounds)])
    found = np.zeros((edges[-1], edges[-1]))
    with ctx.workprec(BITS):
        for s, each in enumerate(rounds):
            here = slice(edges[s], edges[s + 1])
            found[here, here] = floats(each.white - balls(np.eye(each.white.nrows())))
            state = each.crossed
            for t in range(s + 1, len(rounds)):
                there = slice(edges[t], edges[t + 1])
                found[there, here] = floats(rounds[t].shown * state)
                found[here, there] = found[there, here].T
                state = rounds[t].loop * state
    return float(np.linalg.norm(found, 2))


def exact_responses(rounds: list[ExactRound], nodes: np.ndarray) -> list[arb_mat]:
    """F̃ of some nodes: what the innovations show of contributions of each round, a column a round."""
    with ctx.workprec(BITS):
        columns = []
        for s, each in enumerate(rounds):
            before = sum(other.white.nrows() for other in rounds[:s])
            shown, state = [arb_mat(before, each.into.ncols()), each.at_once], each.into
            for other in rounds[s + 1 :]:
                shown.append(other.shown * state)
                state = other.loop * state
            columns.append(above(*(rows for rows in shown if rows.nrows())).tolist())
        return [
            arb_mat([[column[i][node] for column in columns] for i in range(len(columns[0]))])
            for node in nodes.tolist()
        ]


def stored_responses(response: BlockResponse, nodes: np.ndarray) -> list[arb_mat]:
    """F̂ of some nodes: diag(I, V)Ĝ of each round as floats have G and Q, V being the product of all later Q."""
    with ctx.workprec(BITS):
        rows = np.cumsum([0, *(each.stage.count for each in response.run)])
        entering, (length, height) = response._entering(nodes), response._largest
        found = [arb_mat(int(rows[-1]), len(response.run)) for _ in nodes]
        V = arb_mat(0, 0)
        for block in blocks_of(response.run, response.edges):
            answers = _respond(block, entering, np.empty(length * len(nodes) * height))
            begin, end = int(rows[block.begin]), int(rows[block.end])
            for k, answer in enumerate(answers):
                for one, shown in zip(found, answer, strict=True):
                    later = (V * balls(shown[block.height :, None])).entries() if block.later else []
                    for i, x in enumerate([*balls(shown[: block.height, None]).entries(), *later]):
                        one[begin + i, block.begin + k] = x
            assert end - begin == block.height
            own = balls(block.base[: block.height])
            V = above(own, V * balls(block.base[block.height :])) if block.later else own
        return found
