# SPDX-License-Identifier: Apache-2.0
"""What the verifier accepts is what the definition says, on random graphs and views."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import gossip_program

from sottovoce.certificates import Certificate, DenseProof, StatedView
from sottovoce.graphs import matrix_weights
from sottovoce.verification import verify


@st.composite
def scenes(draw: Any) -> Any:
    """A symmetric gossip matrix on 3 to 6 nodes, a view of it, a target and a number of rounds."""
    n = draw(st.integers(3, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    edges = np.triu(rng.random((n, n)) < 0.7, 1)
    edges[np.arange(n - 1), np.arange(1, n)] = True
    sizes = rng.uniform(0.05, 1, (n, n)) if draw(st.booleans()) else np.ones((n, n))
    weights = np.where(edges, sizes, 0) / n
    W = weights + weights.T
    W[np.diag_indices(n)] = 1 - W.sum(axis=1)
    order = rng.permutation(n)
    size = draw(st.integers(1, 2)) if n > 3 else 1
    members, target = sorted(order[:size].tolist()), int(order[size])
    view = draw(st.sampled_from(["sums", "sums hidden", "messages", "own rows", "own rows hidden"]))
    known = [] if view.endswith("hidden") else members
    if view.startswith("sums"):
        C = W[members]
    elif view == "messages":
        C = np.eye(n)[[k for k in range(n) if k not in members and W[members, k].any()]]
    else:
        C = np.eye(n)[members]
    return W, C, known, target, draw(st.integers(2, 6))


def _form(W: Any, C: Any, known: Any, target: Any, rounds: Any) -> Any:
    """M from the definition, by a pseudoinverse."""
    m, n = C.shape
    H = np.zeros((m * rounds, n * rounds))
    for t in range(rounds):
        for s in range(t + 1):
            H[t * m : (t + 1) * m, s * n : (s + 1) * n] = C @ np.linalg.matrix_power(W, t - s)
    unknown = [k + n * t for t in range(rounds) for k in range(n) if k not in known]
    F = np.linalg.pinv(H[:, unknown], rcond=1e-10) @ H[:, target::n]
    return F.T @ F


def _result(scene: Any, y: Any, witness: Any = None, lower: Any = 0.0, upper: Any = None) -> Any:
    W, C, known, target, rounds = scene
    weights = matrix_weights(W)
    rows = tuple(tuple((j, Fraction(float(x))) for j, x in enumerate(row) if x) for row in C)
    certificate = Certificate(
        weights_hash=weights.hash,
        rule="law",
        weights=None,
        program=gossip_program(),
        rounds=rounds,
        view=StatedView(name="custom", rows=rows, known_noise=tuple(known)),
        target=target,
        contribution="vector",
        participation="full",
        squared_lower=lower,
        squared_upper=max(lower, float(np.sum(y)) * (1 + 1e-14) if upper is None else upper),
        proof=DenseProof(y=y, witness=witness),
    )
    found, in_balls = (
        verify(certificate, weights, arithmetic=arithmetic) for arithmetic in ("float", "balls")
    )
    # Floats never accept what balls refute.
    assert in_balls.upper_holds >= found.upper_holds
    assert in_balls.lower_holds >= found.lower_holds
    return found


@given(scenes(), st.floats(-0.2, 0.5), st.integers(0, 2**32 - 1))
def test_y_is_accepted_exactly_where_the_least_eigenvalue_allows_it(scene: Any, room: Any, seed: Any) -> None:
    M = _form(*scene)
    if M.trace() < 1e-6:
        return
    y = np.random.default_rng(seed).uniform(0.5, 2, len(M)) * float(np.linalg.eigvalsh(M)[-1])
    y += room - float(np.linalg.eigvalsh(np.diag(y) - M)[0])
    if (y < 0).any() or abs(room) < 1e-7 or y.sum() >= len(M):
        return
    assert _result(scene, y).upper_holds == (room > 0)


@given(scenes(), st.integers(0, 2**32 - 1))
def test_the_proved_interval_holds_the_value_of_every_stream(scene: Any, seed: Any) -> None:
    M = _form(*scene)
    rng = np.random.default_rng(seed)
    c = rng.normal(size=(len(M), 3))
    c /= np.linalg.norm(c, axis=1, keepdims=True) * (1 + 1e-15)
    value = float(np.einsum("st,sd,td->", M, c, c))
    result = _result(scene, rng.uniform(0, 1, len(M)), witness=c, upper=float(len(M)))
    assert result.verified, result.reason
    assert result.squared.lower <= value + 1e-8
    assert result.squared.lower >= value - 1e-8
    assert result.squared.upper >= value - 1e-8


@given(scenes(), st.integers(0, 2**32 - 1))
def test_relabelling_the_nodes_changes_nothing(scene: Any, seed: Any) -> None:
    W, C, known, target, rounds = scene
    y = np.full(rounds, 0.3)
    order = np.random.default_rng(seed).permutation(len(W))
    place = np.argsort(order)
    moved = (
        W[np.ix_(order, order)],
        C[:, order],
        sorted(int(place[k]) for k in known),
        int(place[target]),
        rounds,
    )
    one, other = _result(scene, y, upper=float(rounds)), _result(moved, y, upper=float(rounds))
    assert abs(one.squared.upper - other.squared.upper) < 1e-8


@given(scenes())
def test_what_bounds_an_observer_bounds_one_who_sees_less(scene: Any) -> None:
    W, C, known, target, rounds = scene
    rows = np.vstack([C, np.eye(len(W))[[target]]])
    more = W, rows, known, target, rounds
    y = np.abs(_form(*more)).sum(axis=1) * (1 + 1e-6) + 1e-9
    assert _result(more, y).upper_holds
    assert _result(scene, y).upper_holds
