# SPDX-License-Identifier: Apache-2.0
"""The bound for smooth responses against the definition of what it bounds."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from flint import arb, arb_mat, ctx
from tests.ball_matrices import balls

from sottovoce import gossip, graphs
from sottovoce.filtering import FilteredResponse, hidden_system, whitened_response
from sottovoce.sensitivities.long_horizons.model import dense_transition
from sottovoce.sensitivities.many_targets.polynomials import DEGREE, ROWS_DEGREE, polynomials
from sottovoce.sensitivities.many_targets.projection import (
    SHARES,
    ProjectionTables,
    projection_bound,
    projection_tables,
)
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
    """F: its columns are the responses to units."""
    return response.respond(position, np.eye(response.rounds))


def on_blocks(edges: np.ndarray, degree: int) -> np.ndarray:
    """The polynomials of all blocks as columns."""
    basis = np.zeros((edges[-1], (len(edges) - 1) * degree))
    for i, (begin, end) in enumerate(itertools.pairwise(edges.tolist())):
        basis[begin:end, degree * i : degree * (i + 1)] = polynomials(end - begin, degree)
    return basis


@pytest.mark.parametrize("view", [View.secure_sum(0), View.neighbourhood(1), View.coalition_sums([0, 3])])
def test_the_tables_are_projections_of_the_response(view: View) -> None:
    _, response = response_of("grid:rows=3,cols=4", view)
    tables = projection_tables(response, blocks=6)
    m = response.rows.shape[0]
    lengths = np.diff(tables.edges)
    basis, readers = on_blocks(tables.edges, DEGREE), on_blocks(tables.edges, ROWS_DEGREE)
    first = slice(0, DEGREE)
    for position in (0, 5):
        b = response.source(position)
        F = dense(response, position)
        padded = np.zeros((ROUNDS * m, ROUNDS))
        padded[: len(F)] = F
        kept = F @ basis
        rows = np.einsum("tq,tms->qms", readers, padded.reshape(ROUNDS, m, ROUNDS) @ basis)
        coarse = rows.reshape(len(lengths), ROWS_DEGREE, m, -1).reshape(-1, basis.shape[1])
        beside = (F[:, : tables.edges[1]] ** 2).sum() - (kept[:, first] ** 2).sum()
        assert b @ tables.first @ b == pytest.approx(beside, rel=1e-8)
        assert b @ tables.total @ b == pytest.approx((F**2).sum(), rel=1e-10)
        assert b @ tables.kept @ b == pytest.approx((kept**2).sum(), rel=1e-10)
        assert tables.coarse @ b == pytest.approx(coarse, abs=1e-10)


@pytest.mark.parametrize("graph", ["path:n=9", "erdos-renyi:n=20,p=0.3,seed=2"])
def test_no_stream_exceeds_the_bound(graph: str) -> None:
    rng = np.random.default_rng(1)
    system, response = response_of(graph, View.secure_sum(0))
    bounds = projection_bound(projection_tables(response), response.columns(np.arange(system.unknown.size)))
    streams = [np.ones(ROUNDS), (-1.0) ** np.arange(ROUNDS), *np.sign(rng.standard_normal((20, ROUNDS)))]
    for position, bound in enumerate(bounds):
        F = dense(response, position)
        top = np.sign(np.linalg.svd(F)[2][0])
        assert max(float(((F @ c) ** 2).sum()) for c in [*streams, top]) <= bound


def test_far_targets_are_nearly_exact() -> None:
    system, response = response_of("ring:n=40", View.secure_sum(0), rounds=400)
    far = np.flatnonzero(system.hops() >= 10)
    sources = response.columns(far)
    bounds = projection_bound(projection_tables(response), sources)
    constant = [float((response.respond(int(j), np.ones(400)) ** 2).sum()) for j in far]
    assert np.all(bounds <= 1.02 * np.array(constant))


@dataclass(frozen=True, kw_only=True)
class Exact:
    """F of one target, one matrix for each row of the view, P̂, P̌, and ω², in balls of the precision that is set."""

    response: list[arb_mat]
    basis: arb_mat
    readers: arb_mat
    weight_squared: arb

    def squared(self, left: Any = 1, right: Any = 1) -> arb:
        """The squared Frobenius norm of `left`·F·`right`."""
        return sum((squares(left * x * right) for x in self.response), arb(0))


def squares(matrix: arb_mat) -> arb:
    """The squared Frobenius norm."""
    return sum((x * x for x in matrix.entries()), arb(0))


def exact_response(response: FilteredResponse, edges: np.ndarray, b: np.ndarray) -> Exact:
    """The model as stored, without rounding: what was contributed in each round is a column of the state."""
    A, C = balls(dense_transition(response)), balls(response.rows)
    rounds, m = response.rounds, len(response.rows)
    F = [arb_mat(rounds, rounds) for _ in range(m)]
    states, weight = arb_mat(len(b), rounds), arb(0)
    for t in range(rounds):
        for i, x in enumerate(b.tolist()):
            states[i, t] = x
        weight += squares(states)
        shown = balls(response.whitener(t)) * states
        for p, s in itertools.product(range(shown.nrows()), range(t + 1)):
            F[p][t, s] = shown[p, s]
        states = A * (states - balls(response.gains.gain[response.gains.at(t)]) * (C * states))
    basis, readers = (balls(on_blocks(edges, degree)) for degree in (DEGREE, ROWS_DEGREE))
    return Exact(response=F, basis=basis, readers=readers, weight_squared=weight)


def coarse_error(exact: Exact, coarse: np.ndarray) -> arb:
    """How far a computed P̌ᵀFP̂ is off, in Frobenius norm."""
    m, total = len(exact.response), arb(0)
    for p, x in enumerate(exact.response):
        total += squares(exact.readers.transpose() * x * exact.basis - balls(coarse[p::m]))
    return total.sqrt()


CASES = [
    ("ring:n=7", View.secure_sum(0)),
    ("star:n=6", View.secure_sum(0)),
    ("path:n=8", View.neighbourhood(3)),
    ("complete:n=9", View.coalition_sums([0, 3])),
]


def shares_of_allowances(tables: ProjectionTables, exact: Exact, b: np.ndarray) -> list[float]:
    """The errors of `total`, `kept` and `coarse` for an input, as shares of what is allowed for."""
    total, kept = exact.squared(), exact.squared(right=exact.basis)
    form = tables.forms_error * exact.weight_squared + tables.sums_error * float(b @ b)
    row = tables.rows_error * exact.weight_squared.sqrt()
    return [
        float(abs(float(b @ tables.total @ b) - total) / form),
        float(abs(float(b @ tables.kept @ b) - kept) / (form + 2 * kept.sqrt() * row + row**2)),
        float(coarse_error(exact, tables.coarse @ b) / row),
    ]


def skew_of(basis: arb_mat) -> arb:
    """The largest sum of sizes in a column of P̂ᵀP̂ − I."""
    count = basis.ncols()
    off = (basis.transpose() * basis - balls(np.eye(count))).tolist()
    return max(sum((abs(row[j]) for row in off), arb(0)) for j in range(count))


def test_the_allowances_for_rounding_hold_against_100_bits_and_are_not_a_thousand_times_too_large() -> None:
    shares = []
    for (graph, view), rounds in itertools.product(CASES, (12, 30)):
        _, response = response_of(graph, view, rounds=rounds)
        tables = projection_tables(response, blocks=3)
        for position in range(4):
            b = response.source(position)
            case, found = (graph, view, rounds, position), float(b @ tables.states @ b)
            with ctx.workprec(100):
                exact = exact_response(response, tables.edges, b)
                shares.append(shares_of_allowances(tables, exact, b))
                assert exact.weight_squared <= found <= exact.weight_squared * (1 + 1e-9), case
                for basis in (exact.basis, exact.readers):
                    assert skew_of(basis) <= tables.skew, case
    assert np.max(shares) <= 1
    assert (np.max(shares, axis=0) >= 1e-3).all()


def orthonormal(basis: arb_mat, edges: np.ndarray) -> arb_mat:
    """An orthonormal basis of the same range, block by block."""
    degree = basis.ncols() // (len(edges) - 1)
    P = arb_mat(basis.nrows(), basis.ncols())
    for i, (begin, end) in enumerate(itertools.pairwise(edges.tolist())):
        taken: list[arb_mat] = []
        for column in range(degree * i, degree * (i + 1)):
            rest = arb_mat([[basis[t, column]] for t in range(begin, end)])
            for other in taken:
                rest = rest - other * (other.transpose() * rest)
            taken.append(rest / squares(rest).sqrt())
            for t in range(begin, end):
                P[t, column] = taken[-1][t - begin, 0]
    return P


def exact_bound(exact: Exact, tables: ProjectionTables) -> arb:
    """What `projection_bound` bounds Δ² by, with an orthonormal basis."""
    P = orthonormal(exact.basis, tables.edges)
    total, kept, inner = exact.squared(), exact.squared(right=P), exact.squared(P.transpose(), P)
    form = arb_mat(P.ncols(), P.ncols())
    for x in exact.response:
        seen = P.transpose() * x * P
        form = form + seen.transpose() * seen
    lengths, count = np.diff(tables.edges).tolist(), len(tables.edges) - 1
    places = [range(DEGREE * i, DEGREE * (i + 1)) for i in range(count)]

    def norm(i: int, j: int) -> arb:
        """The Frobenius norm of the form of two blocks, times the root of their lengths."""
        inside: arb = sum((form[pair] ** 2 for pair in itertools.product(places[i], places[j])), arb(0))
        return (inside * arb(lengths[i] * lengths[j])).sqrt()

    levels = [sum((norm(i, j) for j in range(count)), (kept - inner) * lengths[i]) for i in range(count)]
    rests = [(total - kept) * length for length in lengths]
    bounds: list[arb] = [
        sum(
            (
                ((1 + share) * level).max((1 + 1 / share) * rest)
                for level, rest in zip(levels, rests, strict=True)
            ),
            arb(0),
        )
        for share in map(arb, SHARES.tolist())
    ]
    return min(bounds)


@pytest.mark.parametrize(("graph", "view"), CASES)
def test_the_bound_is_what_it_says_from_above(graph: str, view: View) -> None:
    _, response = response_of(graph, view, rounds=24)
    tables = projection_tables(response, blocks=4)
    for position, bound in enumerate(projection_bound(tables, response.columns(np.arange(4)))):
        with ctx.workprec(100):
            exact = exact_bound(exact_response(response, tables.edges, response.source(position)), tables)
            assert exact <= float(bound) <= exact * (1 + 1e-9), position
