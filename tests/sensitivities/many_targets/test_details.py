# SPDX-License-Identifier: Apache-2.0
"""What streams beside the slow ones show, and the ends that rest on it, against what they bound."""

from __future__ import annotations

import itertools
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.linalg import toeplitz
from tests.pairings import each_pair

from sottovoce import gossip, graphs, sensitivity
from sottovoce.filtering import FilteredResponse, hidden_system, whitened_response
from sottovoce.sensitivities.long_horizons.model import dense_transition
from sottovoce.sensitivities.many_targets import at_once
from sottovoce.sensitivities.many_targets.details import beside, detail_bound, detail_tables
from sottovoce.sensitivities.many_targets.polynomials import DEGREE, block_edges, polynomials
from sottovoce.sensitivities.many_targets.projection import closer_ends, projection_tables
from sottovoce.views import View, observe

CASES = [
    ("ring:n=9", View.secure_sum(0)),
    ("star:n=6", View.single_node(0, own_noise="hidden")),
    ("path:n=12", View.neighbourhood(3)),
    ("small-world:n=16,k=4,p=0.1,seed=1", View.secure_sum(2)),
    ("grid:rows=3,cols=5", View.coalition_sums([0, 3])),
]


def response_of(graph: str, view: View, rounds: int) -> FilteredResponse:
    protocol = gossip(graphs.metropolis_weights(graph), rounds=rounds)
    response = whitened_response(hidden_system(protocol, observe(protocol, view)))
    assert isinstance(response, FilteredResponse)
    return response


def beside_polynomials(edges: np.ndarray) -> np.ndarray:
    """The projection beside the polynomials of every block."""
    found = np.eye(edges[-1])
    for begin, end in itertools.pairwise(edges.tolist()):
        basis = polynomials(end - begin, DEGREE)
        found[begin:end, begin:end] -= basis @ basis.T
    return found


@pytest.mark.parametrize("rounds", [66, 130])
@pytest.mark.parametrize(("graph", "view"), CASES)
def test_no_stream_beside_the_slow_ones_shows_more(graph: str, view: View, rounds: int) -> None:
    response = response_of(graph, view, rounds)
    edges = block_edges(rounds, 6)
    tables = detail_tables(response, edges)
    assert tables is not None
    positions = np.arange(response.inputs.shape[1])
    Q = beside_polynomials(edges)[:, edges[1] :]
    for position, bound in enumerate(detail_bound(tables, response.columns(positions))):
        F = response.respond(position, np.eye(rounds))
        exact = np.linalg.norm(F @ Q, 2) ** 2
        assert exact <= bound * (1 + 1e-12)
        # Norms of blocks are those of Frobenius: off by the root of their length at most, where all frequencies show
        # alike, and by a fifth or so where slow ones show most.
        assert bound <= 2 * tables.length**0.5 * exact + 1e-12


@pytest.mark.parametrize("length", [5, 8, 13])
def test_toeplitz_matrices_are_passed_through_the_projection(length: int) -> None:
    basis, map_of = polynomials(length, DEGREE), beside(length)
    Q = np.eye(length) - basis @ basis.T
    rng = np.random.default_rng(length)
    for _ in range(5):
        diagonals = rng.standard_normal(2 * length - 1)
        R = toeplitz(diagonals[length - 1 :: -1], diagonals[length - 1 :])
        found = float(np.linalg.norm(map_of.root @ diagonals))
        assert found == pytest.approx(np.linalg.norm(Q @ R @ Q), rel=1e-10)


def exactly_beside(length: int) -> Any:
    """The projection beside the range of the polynomials as stored, in the precision that is set."""
    basis = mpmath.matrix(polynomials(length, DEGREE).tolist())
    return mpmath.eye(length) - basis * mpmath.inverse(basis.T * basis) * basis.T


def test_the_allowance_for_the_map_holds_against_256_bits_and_is_not_a_thousand_times_too_large() -> None:
    shares = []
    rng = np.random.default_rng(3)
    for length in (5, 7, 9):
        map_of = beside(length)
        with mpmath.workprec(256):
            Q = exactly_beside(length)
            for _ in range(12):
                # Next to polynomials, where all but rounding cancels, and anywhere.
                line = np.polyval(rng.standard_normal(DEGREE), np.linspace(-1, 1, 2 * length - 1))
                diagonals = line + rng.choice([0.0, 1e-14]) * rng.standard_normal(2 * length - 1)
                R = mpmath.matrix(
                    [
                        [mpmath.mpf(float(diagonals[length - 1 + b - a])) for b in range(length)]
                        for a in range(length)
                    ]
                )
                exact = mpmath.mnorm(Q * R * Q, "f")
                passed = float(np.linalg.norm(map_of.root @ diagonals))
                off = map_of.off * float(np.linalg.norm(diagonals))
                shares.append(float((exact - map_of.stretch * passed) / off))
                shares.append(float(abs(exact - passed) / off))
    assert max(shares) <= 1
    assert max(shares) >= 1e-3


def exact_details(response: FilteredResponse, edges: np.ndarray, b: np.ndarray) -> Any:
    """What `detail_bound` bounds by, for the model as stored, without rounding."""
    A, C, state = (
        mpmath.matrix(np.asarray(x).tolist()) for x in (dense_transition(response), response.rows, b)
    )
    k = response.gains.at(int(edges[1]))
    K, D = (mpmath.matrix(x[k].tolist()) for x in (response.gains.gain, response.gains.whitener))
    count, length = int(edges[-1] - edges[1]), int(edges[2] - edges[1])
    lags = []
    for lag in range(count + length):
        fading = max(lag + 1 - count, 0) * mpmath.pi / (length + 1)
        lags.append((1 + mpmath.cos(fading)) / 2 * (D * state))
        state = A * (state - K * (C * state))
    r = [
        mpmath.fsum(
            sum(x * y for x, y in zip(lags[t], lags[t + d], strict=True)) for t in range(len(lags) - d)
        )
        for d in range(count)
    ]
    Q, norms, blocks = exactly_beside(length), [], range(count // length)
    for j in blocks:
        R = mpmath.matrix([[r[abs(j * length + t - s)] for t in range(length)] for s in range(length)])
        norms.append(mpmath.mnorm(Q * R * Q, "f"))
    return max(mpmath.fsum(norms[abs(i - j)] for j in blocks) for i in blocks)


@pytest.mark.parametrize(("graph", "view"), [CASES[0], CASES[1], CASES[4]])
def test_the_bound_is_what_it_says_from_above(graph: str, view: View) -> None:
    response = response_of(graph, view, 34)
    edges = block_edges(34, 5)
    tables = detail_tables(response, edges)
    assert tables is not None
    for position, bound in enumerate(detail_bound(tables, response.columns(np.arange(3)))):
        with mpmath.workprec(256):
            exact = exact_details(response, edges, response.source(position))
        assert exact <= bound <= exact * (1 + 1e-9) + 1e-13


@pytest.mark.parametrize(("case", "rounds", "streams"), each_pair(CASES, [66, 130], [1, 3]))
def test_the_ends_enclose_what_streams_attain(case: tuple[str, View], rounds: int, streams: int) -> None:
    response = response_of(*case, rounds)
    tables = projection_tables(response, blocks=8)
    details = detail_tables(response, tables.edges)
    assert details is not None
    positions = np.arange(response.inputs.shape[1])
    found = closer_ends(tables, details, response.columns(positions), streams=streams)
    assert (found.attained <= found.bound).all()
    rng = np.random.default_rng(4)
    for position in positions:
        F = response.respond(int(position), np.eye(rounds))
        M, V = F.T @ F, rng.standard_normal((rounds, 6))
        for _ in range(60):
            V = M @ (V / (np.linalg.norm(V, axis=1, keepdims=True) + 1e-300))
        V /= np.linalg.norm(V, axis=1, keepdims=True) + 1e-300
        assert float((V * (M @ V)).sum()) <= found.bound[position] * (1 + 1e-9)
        c = np.repeat(found.vectors[position], np.diff(tables.edges), axis=0)
        value = float(((F @ c) ** 2).sum())
        assert np.abs(np.linalg.norm(c, axis=1) - 1).max() <= 1e-12
        # What slow rows leave out of what a slow stream shows is little.
        assert found.attained[position] <= value * (1 + 1e-12)
        assert found.attained[position] >= 0.9 * value - 1e-9


def test_far_targets_are_nearly_exact() -> None:
    protocol = gossip(graphs.metropolis_weights("ring:n=40"), rounds=400)
    far = np.flatnonzero(hidden_system(protocol, observe(protocol, View.secure_sum(0))).hops() >= 10)
    response = response_of("ring:n=40", View.secure_sum(0), 400)
    tables = projection_tables(response, blocks=26)
    details = detail_tables(response, tables.edges)
    assert details is not None
    found = closer_ends(tables, details, response.columns(far), streams=3)
    assert np.all(found.bound <= 1.02 * found.attained)


def test_a_stream_that_changes_from_block_to_block_is_returned_and_attains_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Without the bounds for turning streams and without solving, what the constant stream misses is left to these.
    monkeypatch.setattr(at_once, "PASSES", ())
    assessed = "sottovoce.sensitivities.assessment"
    monkeypatch.setattr(f"{assessed}._worth_solving_still", lambda reached, *_: reached[:0])
    monkeypatch.setattr(f"{assessed}._insertion", lambda *_: None)
    graph, rounds, view = "preferential:n=60,core=3,links=1,seed=3", 300, View.secure_sum(0)
    protocol = gossip(graphs.metropolis_weights(graph), rounds=rounds)
    found = sensitivity(protocol, view, effort="bulk")
    response = response_of(graph, view, rounds)
    constant = [float((response.respond(k, np.ones(rounds)) ** 2).sum()) for k in range(len(found.indices))]
    places = np.flatnonzero(found.squared_lower > 1.005 * np.array(constant))
    assert places.size > 0
    for place in places:
        stream = found.witness_of(int(place))
        assert stream.shape == (rounds, at_once.STREAMS)
        shown = response.respond(int(place), stream)
        assert float((shown**2).sum()) >= found.squared_lower[place] * (1 - 1e-9)
