# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy

from sottovoce.certificates import Certificate, HorizonModel, SparseRows, load, save
from sottovoce.errors import NotCertified
from sottovoce.graphs import GossipWeights, matrix_weights, metropolis_weights
from sottovoce.protocols import gossip
from sottovoce.sensitivities import certify
from sottovoce.verification import verify
from sottovoce.views import View

CASES = json.loads((Path(__file__).parent / "golden" / "sensitivity.json").read_text())["cases"]


def reference_form(W: Any, C: Any, known: Any, target: Any, rounds: Any) -> Any:
    """M = Gᵀ K⁺ G with H_T entry by entry and a pseudoinverse of N: for small cases only."""
    m, n = C.shape
    H = np.zeros((m * rounds, n * rounds))
    for t in range(rounds):
        for s in range(t + 1):
            H[t * m : (t + 1) * m, s * n : (s + 1) * n] = C @ np.linalg.matrix_power(W, t - s)
    unknown = [k + n * t for t in range(rounds) for k in range(n) if k not in set(known)]
    whitened = np.linalg.pinv(H[:, unknown], rcond=1e-11) @ H[:, target::n]
    return whitened.T @ whitened


def certificate_for(W: Any, C: Any, known: Any, target: Any, rounds: Any, **changes: Any) -> Any:
    weights = GossipWeights(
        matrix=scipy.sparse.csr_array(W), labels=range(len(W)), rule="test", symmetric=False
    )
    values: dict[str, Any] = {
        "labels": weights.labels,
        "weights": SparseRows.of(weights.matrix),
        "weights_hash": weights.hash,
        "rounds": rounds,
        "view": "custom",
        "observers": (),
        "own_noise": "known",
        "observation": SparseRows.of(scipy.sparse.csr_array(C)),
        "known_noise": np.asarray(sorted(known), dtype=np.int64),
        "target": target,
        "contribution": "vector",
        "participation": "full",
        "squared_lower": 0.0,
        "squared_upper": float(rounds),
        "method": "test",
    }
    return Certificate(**(values | changes))


def claim(certificate: Any, M: Any, *, y: Any = None, upper: Any = None, witness: Any = None) -> Any:
    """The certificate with row sums as y (if none is given), their sum as upper end and c = 1 as witness."""
    rounds = certificate.rounds
    y = np.abs(M).sum(axis=1) * (1 + 1e-9) if y is None else y
    upper = float(np.sum(y)) * (1 + 1e-12) if upper is None else upper
    witness = np.ones((rounds, 1)) if witness is None else np.asarray(witness)
    lower = max(0.0, float(np.einsum("st,sd,td->", M, witness, witness)) * (1 - 1e-9))
    return replace(certificate, y=y, squared_upper=upper, witness=witness, squared_lower=min(lower, upper))


def _case(name: Any, threat: Any) -> Any:
    return next(case for case in CASES if case["graph"] == name and case["threat"] == threat)


def _build(case: Any, **changes: Any) -> Any:
    W, C = np.array(case["W"]), np.array(case["observation"])
    M = reference_form(W, C, case["known_noise"], case["target"], case["T"])
    return certificate_for(W, C, case["known_noise"], case["target"], case["T"], **changes), M


RING = _case("ring5", "secure-sum")


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['graph']}-{c['threat']}-{c['target']}")
def test_every_reference_case_verifies_and_a_smaller_y_does_not(case: Any) -> None:
    certificate, M = _build(case)
    good = claim(certificate, M)
    result = verify(good)
    assert result.verified, result.reason
    assert result.upper_holds
    assert result.lower_holds
    assert result.squared.upper <= good.squared_upper
    assert not any("beyond its view" in sentence for sentence in result.trusted)
    assert case["sens_sq_vector_upper"] * (1 - 1e-6) <= result.squared.upper * (1 + 1e-9)

    # Shrunk until it cannot dominate M, which the least eigenvalue says too.
    alive = np.diag(M) > 1e-12
    y = np.where(alive, good.y, 0.0)
    scaled = M[np.ix_(alive, alive)] / np.sqrt(np.outer(y[alive], y[alive]))
    y *= 0.9 * float(np.linalg.eigvalsh(scaled)[-1]) if alive.any() else 1.0
    if alive.any():
        assert np.linalg.eigvalsh(np.diag(y) - M)[0] < 0
        result = verify(claim(certificate, M, y=y))
        assert not result.upper_holds
        assert "not proved positive semidefinite" in result.reason


def test_a_claim_survives_its_file(tmp_path: Any) -> None:
    certificate, M = _build(RING)
    good = claim(certificate, M)
    assert verify(load(save(good, tmp_path / "claim.json"))) == verify(good)


def test_y_that_lacks_a_millionth_is_refused() -> None:
    certificate, M = _build(RING)
    top = float(np.linalg.eigvalsh(M)[-1])
    assert verify(claim(certificate, M, y=np.full(7, top + 1e-11))).verified
    result = verify(claim(certificate, M, y=np.full(7, top - 1e-6)))
    assert not result.verified
    assert not result.upper_holds
    assert result.lower_holds
    assert 7 * (top - 1e-6) < result.squared.upper <= 7 * (top + 1e-9)


def test_an_upper_end_below_the_sum_of_y_is_refused() -> None:
    certificate, M = _build(RING)
    y = np.abs(M).sum(axis=1) * (1 + 1e-9)
    result = verify(claim(certificate, M, y=y, upper=float(y.sum()) * (1 - 1e-9)))
    assert not result.upper_holds
    assert "over the worst pattern, above the claimed" in result.reason


def test_room_above_the_sum_covers_a_y_on_the_edge() -> None:
    certificate, M = _build(RING)
    y = np.full(7, float(np.linalg.eigvalsh(M)[-1]))
    assert not verify(claim(certificate, M, y=y, upper=float(y.sum()))).upper_holds
    assert verify(claim(certificate, M, y=y, upper=float(y.sum()) * (1 + 1e-9))).upper_holds


def test_a_negative_y_is_refused() -> None:
    certificate, M = _build(RING)
    y = np.abs(M).sum(axis=1)
    y[2] = -1e-9
    result = verify(claim(certificate, M, y=y))
    assert result.reason == "y must not be negative; in round 3 it is -1e-09"


def test_the_number_of_rounds_needs_no_y() -> None:
    certificate, _ = _build(RING)
    assert verify(certificate).verified
    assert verify(certificate).squared.upper == 7.0
    result = verify(replace(certificate, squared_upper=6.999))
    assert result.reason == "without y, Δ² ≤ 7 rounds; claimed 6.999"
    assert verify(replace(certificate, squared_upper=2.0, participation="at-most:2")).verified


@pytest.mark.parametrize(
    ("witness", "sentence"),
    [
        (np.full((7, 1), 1 + 1e-9), "the witness must stay within norm 1; in round 1 it has"),
        (np.ones((7, 2)) / 2, "a scalar witness has one column; this one has 2"),
    ],
)
def test_a_witness_that_is_none_is_refused(witness: Any, sentence: Any) -> None:
    certificate, M = _build(RING, contribution="scalar")
    result = verify(claim(certificate, M, witness=witness))
    assert result.upper_holds
    assert not result.lower_holds
    assert sentence in result.reason


def test_a_lower_end_above_its_witness_is_refused() -> None:
    certificate, M = _build(RING)
    good = claim(certificate, M)
    result = verify(replace(good, squared_lower=good.squared_lower * (1 + 1e-8)))
    assert not result.lower_holds
    assert "the witness attains at least" in result.reason
    result = verify(replace(good, witness=None))
    assert "no witness is there to prove the claimed" in result.reason
    assert verify(replace(good, witness=None, squared_lower=0.0)).verified


def test_a_witness_outside_the_participation_is_refused() -> None:
    certificate, M = _build(RING, participation="at-most:2")
    good = claim(certificate, M, witness=[[1.0], [0], [0], [-1.0], [0], [0], [0]])
    assert verify(good).verified
    result = verify(replace(good, witness=np.ones((7, 1))))
    assert result.reason == "the witness contributes in rounds that at-most:2 does not allow"


def test_y_is_restricted_to_known_patterns_and_covers_all_rounds_of_large_families() -> None:
    for name in ("fixed:2,5", "every:3", "every:3,offset=1"):
        certificate, M = _build(RING, participation=name)
        y = np.zeros(7)
        patterns = {"fixed:2,5": [[1, 4]], "every:3": [[0, 3, 6], [1, 4], [2, 5]]}.get(name, [[0, 3, 6]])
        for pattern in patterns:
            y[pattern] = np.abs(M[np.ix_(pattern, pattern)]).sum(axis=1) * (1 + 1e-9)
        upper = max(float(y[pattern].sum()) for pattern in patterns) * (1 + 1e-12)
        witness = np.zeros((7, 1))
        witness[patterns[0]] = 1.0
        assert verify(claim(certificate, M, y=y, upper=upper, witness=witness)).verified
        assert not verify(claim(certificate, M, y=y * 0.98, upper=upper * 0.98, witness=witness)).upper_holds
        family = replace(certificate, participation="at-most:3")
        assert not verify(claim(family, M, y=y, upper=upper, witness=witness)).upper_holds


def test_another_graph_is_named() -> None:
    certificate, M = _build(RING)
    good = claim(certificate, M)
    same = GossipWeights(
        matrix=scipy.sparse.csr_array(np.array(RING["W"])), labels=range(5), rule="again", symmetric=True
    )
    assert verify(good, same).verified
    other = metropolis_weights("path:n=5")
    result = verify(good, other)
    assert not result.verified
    assert not result.upper_holds
    assert result.reason.startswith("this certificate speaks of another graph")
    assert other.hash in result.reason
    assert same.hash in result.reason


def test_weights_that_are_not_the_hashed_ones_are_refused() -> None:
    certificate, M = _build(RING)
    result = verify(replace(claim(certificate, M), weights_hash="0" * 64))
    assert "not the claimed 000" in result.reason
    doubled = replace(certificate.weights, data=certificate.weights.data * 1.1)
    result = verify(replace(claim(certificate, M), weights=doubled))
    assert result.reason.startswith(
        "the weights must be at least 0 and sum to 1 in every row; row 0 sums to 1.1"
    )


def test_equal_sums_are_recognised_as_one_and_nearly_equal_ones_are_not() -> None:
    # Complete graph of six, a coalition of two: both members receive the same sum of the other four.
    W = np.full((6, 6), 1 / 6)
    certificate = certificate_for(W, W[[0, 1]], [0, 1], 2, 5, fractions=True)
    M = np.diag([0.25] * 5)
    result = verify(claim(certificate, M))
    assert result.verified, result.reason
    assert result.squared.upper == pytest.approx(1.25)
    assert any("fractions" in check.detail for check in result.checks)
    moved = W.copy()
    moved[1, 2:] += np.array([1, -1, 1, -1]) * 1e-6
    certificate = certificate_for(moved, moved[[0, 1]], [0, 1], 2, 5, fractions=True)
    assert not verify(claim(certificate, M)).upper_holds
    barely = np.where(moved == W, W, W + np.sign(moved - W) * 1e-13)
    result = verify(claim(certificate_for(barely, barely[[0, 1]], [0, 1], 2, 5), M))
    assert not result.upper_holds
    assert result.squared.upper == pytest.approx(2.5)
    M = reference_form(moved, moved[[0, 1]], [0, 1], 2, 5)
    assert M.trace() > 2
    y = np.full(5, np.linalg.eigvalsh(M)[-1] * (1 + 1e-3))
    assert verify(claim(certificate, M, y=y, witness=np.eye(5))).upper_holds


def test_a_node_whose_inflow_is_not_seen_is_given_it_for_the_upper_end_alone() -> None:
    # On a path the sum at one end says nothing, in the same round, of what the known other end receives.
    W = metropolis_weights("path:n=5").matrix.toarray()
    certificate = certificate_for(W, W[[0]], [0, 4], 2, 6)
    given = reference_form(W, W[[0, 4]], [0, 4], 2, 6)
    less = reference_form(W, W[[0]], [0], 2, 6)
    good = claim(certificate, given)
    good = replace(good, squared_lower=float(less.sum()) * (1 - 1e-9))
    result = verify(good)
    assert result.verified, result.reason
    assert "nothing about 4: the observer was given what flows into it, beyond its view" in result.trusted
    assert not verify(replace(good, squared_lower=float(given.sum()) * (1 - 1e-9))).lower_holds
    seen = reference_form(W, W[[0]], [0, 4], 2, 6)
    assert np.linalg.eigvalsh(given - seen)[0] > -1e-9
    assert np.linalg.eigvalsh(seen - less)[0] > -1e-9


def test_a_claim_that_is_too_large_is_not_guessed() -> None:
    certificate, _ = _build(RING)
    witness = np.ones((8001, 1))
    with pytest.raises(
        NotCertified, match=r"too large to be rebuilt densely: 1 rows x 8001 rounds x 5 nodes"
    ):
        verify(replace(certificate, rounds=8001, witness=witness))


def test_the_number_of_rounds_bounds_a_claim_of_any_size() -> None:
    certificate, _ = _build(RING)
    assert verify(replace(certificate, rounds=8001, squared_upper=8001.0)).verified
    assert not verify(replace(certificate, rounds=8001, squared_upper=8000.0)).upper_holds


def test_floats_that_are_meant_as_they_are_are_not_taken_for_fractions() -> None:
    # One unit in the last place, and the two sums tell twice as much.
    W = np.full((6, 6), 1 / 6)
    W[0, 2:4] = np.nextafter(W[0, 2:4], [1.0, 0.0])
    view = View.coalition_sums([0, 1])
    as_stored = certify(gossip(matrix_weights(W), rounds=5), view, 2)
    assert not as_stored.fractions
    assert as_stored.squared_lower > 3.7
    assert verify(as_stored).verified
    assert not verify(replace(as_stored, squared_upper=1.25, squared_lower=1.25, y=np.full(5, 0.25))).verified
    ruled = metropolis_weights("complete:n=6")
    certificate = certify(gossip(ruled, rounds=5), view, 2)
    assert certificate.squared_upper == pytest.approx(1.25)
    found = verify(certificate, matrix_weights(ruled.matrix))
    assert found.reason == (
        "the certificate means weights that are fractions, those of the graph at hand are floats"
    )


NAMED = [
    (View.secure_sum(0), View.neighbourhood(0)),
    (View.single_node(0), View.single_node(1)),
    (View.coalition_sums([0, 2]), View.coalition_messages([0, 2])),
    (View.secure_sum(0), View.secure_sum(0, own_noise="hidden")),
    (View.everyone, View.secure_sum(0)),
]


@pytest.mark.parametrize(("meant", "said"), NAMED)
def test_rows_that_are_not_those_of_the_named_view_are_refused(meant: View, said: View) -> None:
    certificate = certify(gossip(metropolis_weights("karate"), rounds=6), meant, 7)
    assert verify(certificate).verified
    relabelled = replace(certificate, view=said.name, observers=said.observers, own_noise=said.own_noise)
    found = verify(relabelled)
    assert not found.verified
    assert found.reason in {
        f"the known noise is not that of the {said.name} view",
        f"the observed rows are not those of the {said.name} view",
    }


def test_a_view_of_no_known_name_or_of_a_stranger_is_refused() -> None:
    certificate = certify(gossip(metropolis_weights("ring:n=5"), rounds=3), View.secure_sum(0), 1)
    assert verify(replace(certificate, view="peeking")).reason == "no view is called 'peeking'"
    assert verify(replace(certificate, observers=(9,))).reason == "the observer 9 is not a node of the graph"


def test_a_model_of_another_graph_is_refused() -> None:
    long = [
        certify(gossip(metropolis_weights(graph), rounds=3000), View.secure_sum(0), 1)
        for graph in ("ring:n=12", "ring:n=13")
    ]
    assert all(verify(certificate).verified for certificate in long)
    found = verify(replace(long[0], horizon=long[1].horizon))
    assert not found.verified
    assert found.reason.startswith("the stored model and the graph differ by at most ")


def test_a_target_out_of_reach_has_a_form_of_zero() -> None:
    weights = metropolis_weights("path:n=9")
    W = weights.matrix.toarray()
    certificate = certificate_for(W, W[[0]], [0], 8, 4)
    result = verify(replace(certificate, y=np.zeros(4), squared_upper=0.0, witness=np.ones((4, 1))))
    assert result.verified, result.reason
    assert (result.squared.lower, result.squared.upper) == (0.0, 0.0)


def test_a_target_far_away_is_checked_in_proportion() -> None:
    W = metropolis_weights("path:n=9").matrix.toarray()
    certificate = certificate_for(W, W[[0]], [0], 8, 12)
    M = reference_form(W, W[[0]], [0], 8, 12)
    assert M.trace() < 1e-4
    good = claim(certificate, M)
    good = replace(
        good, y=np.where(np.diag(M) > 0, good.y, 0) * (1 + 1e-6), squared_upper=good.squared_upper * 1.00001
    )
    assert verify(good).verified
    assert not verify(replace(good, y=good.y * 0.99)).upper_holds


def test_margins_stay_small_at_a_thousand_rounds() -> None:
    W = metropolis_weights("ring:n=20").matrix.toarray()
    certificate = certificate_for(W, W[[0]], [0], 1, 1000, squared_upper=1000.0)
    result = verify(replace(certificate, y=np.full(1000, 0.9), squared_upper=900.001))
    assert result.upper_holds
    margin = next(check.detail for check in result.checks if check.name == "upper end").split("margin ")[1]
    assert float(margin.rstrip(")")) < 1e-5


def _ring_model(rate_factor: Any = 1.0) -> Any:
    """A ring of six, the secure sum at node 0, target 1: filter, rate and V by plain dense arithmetic."""
    W = metropolis_weights("ring:n=6").matrix.toarray()
    A, C = W[1:, 1:], W[[0], 1:] / np.linalg.norm(W[0, 1:])
    b = np.eye(5)[0]
    phi = 0.0
    for omega in np.linspace(0, np.pi, 4001):
        transfer = C @ np.linalg.inv(np.eye(5) - np.exp(-1j * omega) * A)
        phi = max(phi, abs(transfer[0, 0]) ** 2 / float(np.linalg.norm(transfer) ** 2))
    rate = phi * (1 + 1e-3) * rate_factor
    P, start_gains = np.eye(5), []
    for _ in range(61):
        R = C @ P @ C.T
        keep = np.eye(5) - P @ C.T @ np.linalg.inv(R) @ C
        start_gains.append((C.T @ np.linalg.inv(R) @ C, keep))
        P = A @ keep @ P @ A.T + np.eye(5)
    information, keep = start_gains[-1]
    V = np.zeros((5, 5))
    for _ in range(2000):
        N = information + keep.T @ V @ keep
        s = rate - b @ N @ b
        if s <= 0:
            break
        g = A.T @ N @ b
        V = A.T @ N @ A + np.outer(g, g) / s + 1e-7 * np.eye(5)
    V = (V + V.T) / 2
    start = np.full(60, rate)
    start[:6] = min(1.0, 2 * rate)
    return HorizonModel(
        transition=A,
        rows=C,
        source=b,
        start=start,
        rate=rate,
        bound=V,
        distortion=0.0,
        residual="all five states",
    ), phi


def _horizon_certificate(model: Any, rounds: Any = 100_000, slack: Any = 1e-9, **changes: Any) -> Any:
    W = metropolis_weights("ring:n=6").matrix.toarray()
    upper = (float(model.start.sum()) + (rounds - model.start.size) * model.rate) * (1 + slack)
    changes = {"squared_upper": min(upper, rounds), "horizon": model, "kind": "horizon"} | changes
    return certificate_for(W, W[[0]], [0], 1, rounds, **changes)


def test_a_long_horizon_verifies_and_stays_near_the_rate(tmp_path: Any) -> None:
    model, phi = _ring_model()
    certificate = _horizon_certificate(model)
    result = verify(load(save(certificate, tmp_path / "claim.json")))
    assert result.verified, result.reason
    assert result.squared.upper / 100_000 == pytest.approx(phi, rel=2e-3)
    assert any("state-space model is the graph's" in sentence for sentence in result.trusted)


def test_the_bound_of_a_long_horizon_holds_for_the_dense_form() -> None:
    model, _ = _ring_model()
    W = metropolis_weights("ring:n=6").matrix.toarray()
    M = reference_form(W, W[[0]], [0], 1, 120)
    y = np.concatenate([model.start, np.full(60, model.rate)])
    assert np.linalg.eigvalsh(np.diag(y) - M)[0] > 0
    assert verify(_horizon_certificate(model, rounds=120)).verified
    dense = certificate_for(W, W[[0]], [0], 1, 120)
    assert verify(claim(dense, M, y=y)).upper_holds


def test_a_rate_two_percent_too_small_is_refused() -> None:
    model, _ = _ring_model()
    result = verify(_horizon_certificate(replace(model, rate=model.rate * 0.98)))
    assert not result.upper_holds
    assert "V does not cover the bulk" in result.reason or "is too small" in result.reason
    assert result.squared.upper == 100_000
    smaller, _ = _ring_model(rate_factor=0.98)
    assert not verify(_horizon_certificate(smaller)).upper_holds


def test_a_start_or_a_bound_too_small_is_refused() -> None:
    model, _ = _ring_model()
    start = model.start.copy()
    start[3] = model.rate / 2
    result = verify(_horizon_certificate(replace(model, start=start)))
    assert "y is too small in round" in result.reason
    result = verify(_horizon_certificate(replace(model, bound=-model.bound)))
    assert result.reason == "the stored bound V is not positive definite"
    result = verify(_horizon_certificate(replace(model, bound=model.bound / 2)))
    assert "V does not cover the bulk" in result.reason
    result = verify(_horizon_certificate(replace(model, rate=1e-3)))
    assert result.reason.startswith("the rate 0.001 is too small: s = -")
    twice = replace(model, rows=np.vstack([model.rows, model.rows]))
    details = [check.detail for check in verify(_horizon_certificate(twice)).checks]
    assert any("the rows of the model are dependent" in detail for detail in details)


def test_distortion_participation_and_lower_end_of_a_long_horizon() -> None:
    model, _ = _ring_model()
    bent = replace(model, distortion=1e-3)
    assert not verify(_horizon_certificate(bent)).upper_holds
    assert verify(_horizon_certificate(bent, slack=1e-2)).verified
    result = verify(_horizon_certificate(model, squared_lower=1.0))
    assert result.reason == "no witness is there to prove the claimed 1.0"
    some = _horizon_certificate(model, rounds=1000, participation="at-most:10")
    assert verify(replace(some, squared_upper=6 * 2 * model.rate + 4.01 * model.rate)).verified
    with pytest.raises(NotCertified, match="over 10000000 rounds is not checked here"):
        verify(_horizon_certificate(model, rounds=10**7, participation="at-most:10"))
    with pytest.raises(
        NotCertified, match="start profile of 60 rounds must be shorter than the horizon of 60"
    ):
        verify(_horizon_certificate(model, rounds=60))


def test_without_weights_the_hash_alone_is_compared() -> None:
    model, _ = _ring_model()
    certificate = replace(_horizon_certificate(model), weights=None)
    assert verify(certificate).verified
    assert not verify(certificate, matrix_weights(np.full((6, 6), 1 / 6))).verified


def test_a_view_on_which_float_filters_fall_short_is_checked_in_full() -> None:
    W = np.array([[0.35, 0.6, 0.05, 0], [0.6, 0, 0.4, 0], [0.05, 0.4, 0.35, 0.2], [0, 0, 0.2, 0.8]])
    certificate = certificate_for(W, W[[0]], [0, 1], 2, 60)
    signs = (-1.0) ** np.arange(60)
    result = verify(replace(certificate, witness=signs, squared_lower=59.25))
    assert result.verified, result.reason
    assert result.squared.lower == pytest.approx(59.25, abs=0.01)
    assert not verify(replace(certificate, y=np.full(60, 0.97), squared_upper=58.5)).upper_holds
