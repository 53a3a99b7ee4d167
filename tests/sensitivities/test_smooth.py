# SPDX-License-Identifier: Apache-2.0
"""The bound for smooth responses against the definition of what it bounds."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import mpmath
import numpy as np
import pytest

from sottovoce import gossip, graphs
from sottovoce.filtering import FilteredResponse, hidden_system, whitened_response
from sottovoce.sensitivities.horizon import dense_transition
from sottovoce.sensitivities.smooth import DEGREE, smooth_bound, smooth_tables
from sottovoce.views import View, observe

if TYPE_CHECKING:
    from sottovoce.filtering import HiddenSystem

ROUNDS = 66


def response_of(graph: str, view: View, rounds: int = ROUNDS) -> tuple[HiddenSystem, FilteredResponse]:
    protocol = gossip(graphs.metropolis_weights(graph), rounds=rounds)
    system = hidden_system(protocol, observe(protocol, view))
    response = whitened_response(system)
    assert isinstance(response, FilteredResponse)
    return system, response


def dense(response: FilteredResponse, position: int) -> np.ndarray:
    """F, column by column."""
    return np.column_stack([response.respond(position, unit)[:, 0] for unit in np.eye(response.rounds)])


@pytest.mark.parametrize("view", [View.secure_sum(0), View.neighbourhood(1), View.coalition_sums([0, 3])])
def test_the_tables_are_projections_of_the_response(view: View) -> None:
    _, response = response_of("grid:rows=3,cols=4", view)
    tables = smooth_tables(response, blocks=6)
    m = response.rows.shape[0]
    lengths = np.diff(tables.edges)
    basis = np.zeros((ROUNDS, len(lengths) * DEGREE))
    for i, length in enumerate(lengths):
        points = np.vander(np.linspace(-1, 1, length), DEGREE, increasing=True)
        basis[tables.edges[i] : tables.edges[i + 1], DEGREE * i : DEGREE * (i + 1)] = np.linalg.qr(points)[0]
    for position in (0, 5):
        b = response.source(position)
        F = dense(response, position)
        padded = np.zeros((ROUNDS * m, ROUNDS))
        padded[: len(F)] = F
        kept = F @ basis
        rows = np.einsum("tq,tms->qms", basis, padded.reshape(ROUNDS, m, ROUNDS) @ basis)
        coarse = rows.reshape(len(lengths), DEGREE, m, -1).reshape(-1, basis.shape[1])
        assert b @ tables.total @ b == pytest.approx((F**2).sum(), rel=1e-10)
        assert b @ tables.kept @ b == pytest.approx((kept**2).sum(), rel=1e-10)
        assert tables.coarse @ b == pytest.approx(coarse, abs=1e-10)


@pytest.mark.parametrize("graph", ["path:n=9", "erdos-renyi:n=20,p=0.3,seed=2"])
def test_no_stream_exceeds_the_bound(graph: str) -> None:
    rng = np.random.default_rng(1)
    system, response = response_of(graph, View.secure_sum(0))
    bounds = smooth_bound(smooth_tables(response), response.columns(np.arange(system.unknown.size)))
    streams = [np.ones(ROUNDS), (-1.0) ** np.arange(ROUNDS), *np.sign(rng.standard_normal((20, ROUNDS)))]
    for position, bound in enumerate(bounds):
        F = dense(response, position)
        top = np.sign(np.linalg.svd(F)[2][0])
        assert max(float(((F @ c) ** 2).sum()) for c in [*streams, top]) <= bound


def test_far_targets_are_nearly_exact() -> None:
    system, response = response_of("ring:n=40", View.secure_sum(0), rounds=400)
    far = np.flatnonzero(system.hops() >= 10)
    sources = response.columns(far)
    bounds = smooth_bound(smooth_tables(response), sources)
    constant = [float((response.respond(int(j), np.ones(400)) ** 2).sum()) for j in far]
    assert np.all(bounds <= 1.02 * np.array(constant))


def exact_tables(response: FilteredResponse, edges: np.ndarray, b: np.ndarray) -> tuple[Any, Any, Any]:
    """The squared Frobenius norms of F, FΠ and ΠFΠ for the model as stored, in the precision that is set."""
    A, C, source = (
        mpmath.matrix(np.asarray(x).tolist()) for x in (dense_transition(response), response.rows, b)
    )
    columns = []
    for s in range(response.rounds):
        state, column = source, [mpmath.zeros(len(response.rows), 1) for _ in range(s)]
        for t in range(s, response.rounds):
            shown = mpmath.matrix(response.whitener(t).tolist()) * state
            column.append(shown)
            gain = mpmath.matrix(response.gains.gain[response.gains.at(t)].tolist())
            state = A * (state - gain * (C * state))
        columns.append(column)
    rounds, m = response.rounds, len(response.rows)
    F = [mpmath.matrix([[columns[s][t][p] for s in range(rounds)] for t in range(rounds)]) for p in range(m)]
    basis = mpmath.zeros(rounds, (len(edges) - 1) * DEGREE)
    for i, (begin, end) in enumerate(itertools.pairwise(edges.tolist())):
        points = mpmath.matrix(np.vander(np.linspace(-1, 1, end - begin), DEGREE, increasing=True).tolist())
        piece, _ = mpmath.qr(points, mode="skinny")
        for t in range(end - begin):
            for q in range(DEGREE):
                basis[begin + t, i * DEGREE + q] = piece[t, q]
    sizes = [[mpmath.mnorm(part, "f") ** 2 for part in (x, x * basis, basis.T * x * basis)] for x in F]
    total, kept, inner = (sum(column) for column in zip(*sizes, strict=True))
    return total, kept, inner


@pytest.mark.parametrize("graph", ["ring:n=7", "star:n=6"])
@pytest.mark.parametrize("rounds", [12, 30])
def test_the_allowance_for_rounding_holds_against_100_bits(graph: str, rounds: int) -> None:
    _, response = response_of(graph, View.secure_sum(0), rounds=rounds)
    tables = smooth_tables(response, blocks=3)
    for position in (0, 2):
        b = response.source(position)
        with mpmath.workprec(100):
            total, kept, inner = exact_tables(response, tables.edges, b)
        slack = tables.rounding * float(b @ b)
        coarse = tables.coarse @ b
        for found, truth in ((b @ tables.total @ b, total), (b @ tables.kept @ b, kept)):
            assert abs(found - truth) <= slack / 4
        assert abs(float((coarse**2).sum()) - inner) <= slack / 4
