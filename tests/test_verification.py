# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.reference import gossip_program

from sottovoce.certificates import (
    Certificate,
    DenseProof,
    HorizonProof,
    Mechanism,
    StatedView,
    StoredWeights,
    load,
    save,
)
from sottovoce.errors import InputError, NotCertified
from sottovoce.graphs import GossipWeights, laplacian_weights, matrix_weights, metropolis_weights
from sottovoce.protocols import gossip
from sottovoce.sensitivities import certify
from sottovoce.verification import verify as verify_in
from sottovoce.views import View

# What is told here is told of floats; tests/test_balls.py holds them against balls.
verify = partial(verify_in, arithmetic="float")
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
    """A certificate of a custom view, its numbers taken as the rationals they are, and the weights it speaks of."""
    weights = matrix_weights(W) if not isinstance(W, GossipWeights) else W
    rows = tuple(tuple((j, Fraction(float(x))) for j, x in enumerate(row) if x) for row in np.asarray(C))
    values: dict[str, Any] = {
        "weights_hash": weights.hash,
        "rule": "test",
        "weights": StoredWeights.of(weights),
        "program": gossip_program(),
        "rounds": rounds,
        "view": StatedView(name="custom", rows=rows, known_noise=tuple(sorted(known))),
        "target": target,
        "contribution": "vector",
        "participation": "full",
        "squared_lower": 0.0,
        "squared_upper": float(rounds),
        "proof": DenseProof(),
    }
    return Certificate(**(values | changes))


def proved(certificate: Any) -> Any:
    """The verification on the very weights that the certificate stores."""
    return verify(certificate, certificate.weights.gossip_weights("stored"))


def claim(certificate: Any, M: Any, *, y: Any = None, upper: Any = None, witness: Any = None) -> Any:
    """The certificate with row sums as y (if none is given), their sum as upper end and c = 1 as witness."""
    rounds = certificate.rounds
    y = np.abs(M).sum(axis=1) * (1 + 1e-9) if y is None else y
    upper = float(np.sum(y)) * (1 + 1e-12) if upper is None else upper
    witness = np.ones((rounds, 1)) if witness is None else np.asarray(witness)
    lower = max(0.0, float(np.einsum("st,sd,td->", M, witness, witness)) * (1 - 1e-9))
    return replace(
        certificate,
        proof=DenseProof(y=y, witness=witness),
        squared_upper=upper,
        squared_lower=min(lower, upper),
    )


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
    result = proved(good)
    assert result.verified, result.reason
    assert result.upper_holds
    assert result.lower_holds
    assert result.squared.upper <= good.squared_upper
    assert not any("beyond its view" in sentence for sentence in result.trusted)
    assert case["sens_sq_vector_upper"] * (1 - 1e-6) <= result.squared.upper * (1 + 1e-9)

    # Shrunk until it cannot dominate M, which the least eigenvalue says too.
    alive = np.diag(M) > 1e-12
    y = np.where(alive, good.proof.y, 0.0)
    scaled = M[np.ix_(alive, alive)] / np.sqrt(np.outer(y[alive], y[alive]))
    y *= 0.9 * float(np.linalg.eigvalsh(scaled)[-1]) if alive.any() else 1.0
    if alive.any():
        assert np.linalg.eigvalsh(np.diag(y) - M)[0] < 0
        result = proved(claim(certificate, M, y=y))
        assert not result.upper_holds
        assert "not proved positive semidefinite" in result.reason


def test_a_claim_survives_its_file(tmp_path: Any) -> None:
    certificate, M = _build(RING)
    good = claim(certificate, M)
    assert proved(load(save(good, tmp_path / "claim.json"))) == proved(good)


def test_y_that_lacks_a_millionth_is_refused() -> None:
    certificate, M = _build(RING)
    top = float(np.linalg.eigvalsh(M)[-1])
    assert proved(claim(certificate, M, y=np.full(7, top + 1e-11))).verified
    result = proved(claim(certificate, M, y=np.full(7, top - 1e-6)))
    assert not result.verified
    assert not result.upper_holds
    assert result.lower_holds
    assert 7 * (top - 1e-6) < result.squared.upper <= 7 * (top + 1e-9)


def test_an_upper_end_below_the_sum_of_y_is_refused() -> None:
    certificate, M = _build(RING)
    y = np.abs(M).sum(axis=1) * (1 + 1e-9)
    result = proved(claim(certificate, M, y=y, upper=float(y.sum()) * (1 - 1e-9)))
    assert not result.upper_holds
    assert "over the worst pattern, above the claimed" in result.reason


def test_room_above_the_sum_covers_a_y_on_the_edge() -> None:
    certificate, M = _build(RING)
    y = np.full(7, float(np.linalg.eigvalsh(M)[-1]))
    assert not proved(claim(certificate, M, y=y, upper=float(y.sum()))).upper_holds
    assert proved(claim(certificate, M, y=y, upper=float(y.sum()) * (1 + 1e-9))).upper_holds


def test_a_negative_y_is_refused() -> None:
    certificate, M = _build(RING)
    y = np.abs(M).sum(axis=1)
    y[2] = -1e-9
    result = proved(claim(certificate, M, y=y))
    assert result.reason == "y must not be negative; in round 3 it is -1e-09"


def test_the_number_of_rounds_needs_no_y() -> None:
    certificate, _ = _build(RING)
    assert proved(certificate).verified
    assert proved(certificate).squared.upper == 7.0
    result = proved(replace(certificate, squared_upper=6.999))
    assert result.reason == "without y, Δ² ≤ 7 rounds; claimed 6.999"
    assert proved(replace(certificate, squared_upper=2.0, participation="at-most:2")).verified


@pytest.mark.parametrize(
    ("witness", "sentence"),
    [
        (np.full((7, 1), 1 + 1e-9), "the witness must stay within norm 1; in round 1 it has"),
        (np.ones((7, 2)) / 2, "a scalar witness has one column; this one has 2"),
    ],
)
def test_a_witness_that_is_none_is_refused(witness: Any, sentence: Any) -> None:
    certificate, M = _build(RING, contribution="scalar")
    result = proved(claim(certificate, M, witness=witness))
    assert result.upper_holds
    assert not result.lower_holds
    assert sentence in result.reason


def test_a_lower_end_above_its_witness_is_refused() -> None:
    certificate, M = _build(RING)
    good = claim(certificate, M)
    result = proved(replace(good, squared_lower=good.squared_lower * (1 + 1e-8)))
    assert not result.lower_holds
    assert "the witness attains at least" in result.reason
    unseen = DenseProof(y=good.proof.y)
    result = proved(replace(good, proof=unseen))
    assert "no witness is there to prove the claimed" in result.reason
    assert proved(replace(good, proof=unseen, squared_lower=0.0)).verified


def test_a_witness_outside_the_participation_is_refused() -> None:
    certificate, M = _build(RING, participation="at-most:2")
    good = claim(certificate, M, witness=[[1.0], [0], [0], [-1.0], [0], [0], [0]])
    assert proved(good).verified
    result = proved(replace(good, proof=DenseProof(y=good.proof.y, witness=np.ones((7, 1)))))
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
        assert proved(claim(certificate, M, y=y, upper=upper, witness=witness)).verified
        assert not proved(claim(certificate, M, y=y * 0.98, upper=upper * 0.98, witness=witness)).upper_holds
        family = replace(certificate, participation="at-most:3")
        assert not proved(claim(family, M, y=y, upper=upper, witness=witness)).upper_holds


def test_another_graph_is_named() -> None:
    certificate, M = _build(RING)
    good = claim(certificate, M)
    same = matrix_weights(np.array(RING["W"]))
    assert verify(good, same).verdict == "verified"
    other = metropolis_weights("path:n=5")
    result = verify(good, other)
    assert result.verdict == "refused"
    assert not result.upper_holds
    assert result.reason.startswith("this certificate speaks of another graph")
    assert other.hash in result.reason
    assert same.hash in result.reason
    assert result.squared.upper == np.inf


def test_without_a_graph_a_claim_is_consistent_at_best() -> None:
    certificate, M = _build(RING)
    result = verify(claim(certificate, M))
    assert (result.verdict, result.verified, result.upper_holds) == ("consistent", False, True)
    assert any("name the graph to check it" in sentence for sentence in result.trusted)
    with pytest.raises(NotCertified, match="the file holds the hash of the weights alone"):
        verify(replace(claim(certificate, M), weights=None))
    assert verify(replace(claim(certificate, M), weights=None), matrix_weights(np.array(RING["W"]))).verified


def test_weights_that_are_not_the_hashed_ones_are_refused() -> None:
    certificate, M = _build(RING)
    result = verify(replace(claim(certificate, M), weights_hash="0" * 64))
    assert "it names 000" in result.reason
    stored = certificate.weights
    with pytest.raises(InputError, match=r"row 0 sums to 1\.\d+"):
        verify(replace(claim(certificate, M), weights=replace(stored, diagonal=stored.diagonal * 1.1)))


def test_equal_sums_are_recognised_as_one_and_nearly_equal_ones_are_not() -> None:
    # Complete graph of six, a coalition of two: both members receive the same sum of the other four.
    sums = View.coalition_sums([0, 1])
    certificate = certify(gossip(metropolis_weights("complete:n=6"), rounds=5), sums, 2)
    result = proved(certificate)
    assert result.verified, result.reason
    assert result.squared.upper == pytest.approx(1.25)
    assert "1 of 2 rows are independent" in " ".join(check.detail for check in result.checks)
    W = np.full((6, 6), 1 / 6)
    for size in (1e-6, 1e-13):
        moved = W.copy()
        moved[1, 2:] += np.array([1, -1, 1, -1]) * size
        true = certify(gossip(matrix_weights(moved), rounds=5), sums, 2)
        assert true.squared_lower > 2
        assert proved(true).verified
        forged = replace(true, squared_lower=0.0, squared_upper=1.26, proof=DenseProof(y=np.full(5, 0.252)))
        result = proved(forged)
        assert not result.upper_holds
        assert result.squared.upper > 2


def test_a_node_whose_inflow_is_not_seen_is_given_it_for_the_upper_end_alone() -> None:
    # On a path the sum at one end says nothing, in the same round, of what the known other end receives.
    W = metropolis_weights("path:n=5").matrix.toarray()
    certificate = certificate_for(W, W[[0]], [0, 4], 2, 6)
    given = reference_form(W, W[[0, 4]], [0, 4], 2, 6)
    less = reference_form(W, W[[0]], [0], 2, 6)
    good = claim(certificate, given)
    good = replace(good, squared_lower=float(less.sum()) * (1 - 1e-9))
    result = proved(good)
    assert result.verified, result.reason
    assert "nothing about 4: the observer was given what flows into it, beyond its view" in result.trusted
    assert not proved(replace(good, squared_lower=float(given.sum()) * (1 - 1e-9))).lower_holds
    seen = reference_form(W, W[[0]], [0, 4], 2, 6)
    assert np.linalg.eigvalsh(given - seen)[0] > -1e-9
    assert np.linalg.eigvalsh(seen - less)[0] > -1e-9


def test_a_claim_that_is_too_large_is_not_guessed() -> None:
    certificate, _ = _build(RING)
    witness = np.ones((8001, 1))
    with pytest.raises(
        NotCertified, match=r"too large to be rebuilt densely: 1 rows x 8001 rounds x 5 nodes"
    ):
        proved(replace(certificate, rounds=8001, proof=DenseProof(witness=witness)))


def test_the_number_of_rounds_bounds_a_claim_of_any_size() -> None:
    certificate, _ = _build(RING)
    assert proved(replace(certificate, rounds=8001, squared_upper=8001.0)).verified
    assert not proved(replace(certificate, rounds=8001, squared_upper=8000.0)).upper_holds


def test_floats_that_are_meant_as_they_are_are_not_taken_for_fractions() -> None:
    # One unit in the last place, and the two sums tell twice as much.
    W = np.full((6, 6), 1 / 6)
    W[0, 2:4] = np.nextafter(W[0, 2:4], [1.0, 0.0])
    view = View.coalition_sums([0, 1])
    as_stored = certify(gossip(matrix_weights(W), rounds=5), view, 2)
    assert as_stored.squared_lower > 3.7
    assert proved(as_stored).verified
    ruled = metropolis_weights("complete:n=6")
    certificate = certify(gossip(ruled, rounds=5), view, 2)
    assert certificate.squared_upper == pytest.approx(1.25)
    assert not proved(
        replace(as_stored, proof=certificate.proof, squared_upper=1.26, squared_lower=0.0)
    ).verified
    found = verify(certificate, matrix_weights(ruled.matrix))
    assert found.reason.startswith("this certificate speaks of another graph")


NAMED = [
    (View.secure_sum(0), View.neighbourhood(0)),
    (View.single_node(0), View.single_node(1)),
    (View.coalition_sums([0, 2]), View.coalition_messages([0, 2])),
    (View.secure_sum(0), View.secure_sum(0, own_noise="hidden")),
    (View.everyone, View.secure_sum(0)),
]


@pytest.mark.parametrize(("meant", "said"), NAMED)
def test_a_claim_about_one_view_does_not_pass_for_another(meant: View, said: View) -> None:
    protocol = gossip(metropolis_weights("karate"), rounds=6)
    certificate, other = certify(protocol, meant, 7), certify(protocol, said, 7)
    assert proved(certificate).verified
    tight = [replace(one, squared_lower=0.0) for one in (certificate, other)]
    low, high = sorted(tight, key=lambda one: one.squared_upper)
    found = proved(replace(low, view=high.view))
    assert found.upper_holds == (high.squared_upper <= low.squared_upper * (1 + 1e-9))


def test_a_view_of_no_known_name_or_of_a_stranger_is_refused() -> None:
    certificate = certify(gossip(metropolis_weights("ring:n=5"), rounds=3), View.secure_sum(0), 1)
    with pytest.raises(InputError, match="view must be one of custom, everyone"):
        replace(certificate.view, name="peeking")
    for stranger in (9, "0", True, 0.0, None):
        with pytest.raises(InputError, match=r"the observer .* is not a node of the graph"):
            proved(replace(certificate, view=replace(certificate.view, observers=(stranger,))))
        with pytest.raises(InputError, match=r"the target .* is not a node of the graph"):
            proved(replace(certificate, target=stranger))
    with pytest.raises(InputError, match="the target 0 has noise that the observer knows"):
        proved(replace(certificate, target=0))


def test_a_target_out_of_reach_has_a_form_of_zero() -> None:
    weights = metropolis_weights("path:n=9")
    W = weights.matrix.toarray()
    certificate = certificate_for(W, W[[0]], [0], 8, 4)
    zero = DenseProof(y=np.zeros(4), witness=np.ones((4, 1)))
    result = proved(replace(certificate, proof=zero, squared_upper=0.0))
    assert result.verified, result.reason
    assert (result.squared.lower, result.squared.upper) == (0.0, 0.0)


def test_a_target_far_away_is_checked_in_proportion() -> None:
    W = metropolis_weights("path:n=9").matrix.toarray()
    certificate = certificate_for(W, W[[0]], [0], 8, 12)
    M = reference_form(W, W[[0]], [0], 8, 12)
    assert M.trace() < 1e-4
    good = claim(certificate, M)
    y = np.where(np.diag(M) > 0, good.proof.y, 0) * (1 + 1e-6)
    good = replace(good, proof=DenseProof(y=y), squared_lower=0.0, squared_upper=good.squared_upper * 1.00001)
    assert proved(good).verified
    assert not proved(
        replace(good, proof=DenseProof(y=y * 0.99), squared_upper=float(y.sum()) * 0.991)
    ).upper_holds


def test_margins_stay_small_at_a_thousand_rounds() -> None:
    W = metropolis_weights("ring:n=20").matrix.toarray()
    certificate = certificate_for(W, W[[0]], [0], 1, 1000, squared_upper=1000.0)
    result = proved(replace(certificate, proof=DenseProof(y=np.full(1000, 0.9)), squared_upper=900.001))
    assert result.upper_holds
    margin = next(check.detail for check in result.checks if check.name == "upper end").split("margin ")[1]
    assert float(margin.rstrip(")")) < 1e-5


def _rate() -> float:
    """sup φ of a ring of six, secure sum at 0, target 1, on a fine grid."""
    W = metropolis_weights("ring:n=6").matrix.toarray()
    A, C = W[1:, 1:], W[[0], 1:]
    transfers = [
        C @ np.linalg.inv(np.eye(5) - np.exp(-1j * omega) * A) for omega in np.linspace(0, np.pi, 4001)
    ]
    return max(float(abs(row[0, 0]) ** 2 / np.linalg.norm(row) ** 2) for row in transfers)


RATE = _rate() * (1 + 1e-3)


def _horizon_certificate(
    rate: float = RATE, rounds: int = 100_000, slack: float = 1e-6, **changes: Any
) -> Any:
    start = np.full(60, rate)
    start[:6] = 2 * rate
    W = metropolis_weights("ring:n=6")
    upper = (float(start.sum()) + (rounds - start.size) * rate) * (1 + slack)
    values = {"squared_upper": min(upper, rounds), "proof": HorizonProof(start=start, rate=rate)} | changes
    return certificate_for(W, W.matrix.toarray()[[0]], [0], 1, rounds, **values)


def test_a_long_horizon_verifies_and_stays_near_the_rate(tmp_path: Any) -> None:
    certificate = _horizon_certificate()
    result = proved(load(save(certificate, tmp_path / "claim.json")))
    assert result.verified, result.reason
    assert result.squared.upper / 100_000 == pytest.approx(_rate(), rel=2e-3)
    assert [check.name for check in result.checks][-4:] == [
        "model",
        "bounded-real inequalities",
        "upper end",
        "lower end",
    ]


def test_the_bound_of_a_long_horizon_holds_for_the_dense_form() -> None:
    W = metropolis_weights("ring:n=6").matrix.toarray()
    M = reference_form(W, W[[0]], [0], 1, 120)
    certificate = _horizon_certificate(rounds=120)
    assert isinstance(certificate.proof, HorizonProof)
    y = np.concatenate([certificate.proof.start, np.full(60, RATE)])
    assert np.linalg.eigvalsh(np.diag(y) - M)[0] > 0
    assert proved(certificate).verified
    dense = certificate_for(metropolis_weights("ring:n=6"), W[[0]], [0], 1, 120)
    assert proved(claim(dense, M, y=y)).upper_holds


def test_a_rate_a_little_too_small_is_refused() -> None:
    for factor in (0.999, 0.98, 0.1, 1e-3):
        result = proved(_horizon_certificate(_rate() * factor))
        assert not result.upper_holds
        assert "is too small" in result.reason
        assert result.squared.upper == 100_000


def test_a_start_too_small_is_refused() -> None:
    certificate = _horizon_certificate()
    assert isinstance(certificate.proof, HorizonProof)
    start = certificate.proof.start.copy()
    start[3] = RATE / 2
    result = proved(replace(certificate, proof=HorizonProof(start=start, rate=RATE)))
    assert "y is too small in round" in result.reason
    result = proved(replace(certificate, proof=HorizonProof(start=np.full(60, RATE), rate=RATE)))
    assert "y is too small in round" in result.reason


def test_participation_and_lower_end_of_a_long_horizon() -> None:
    result = proved(_horizon_certificate(squared_lower=1.0))
    assert result.reason == "no witness is there to prove the claimed 1.0"
    for participation, rounds, count, extra in [
        ("at-most:10", 1000, 10, 6),
        ("at-most:10", 10**9, 10, 6),
        ("every:3", 10**9 + 2, (10**9 + 4) // 3, 2),
        ("every:1000000000000", 10**12, 1, 1),
        ("fixed:1,100,70000", 100_000, 3, 1),
        ("separated:2,at-most=499999", 10**6, 499_999, 3),
    ]:
        some = _horizon_certificate(rounds=rounds, participation=participation)
        most = (count + extra) * RATE * (1 + 1e-6)
        assert proved(replace(some, squared_upper=most)).verified, participation
        assert not proved(replace(some, squared_upper=most * (1 - 1e-4))).upper_holds


# What a forger did to earlier forms of a certificate, and what became of it.


def test_a_model_cannot_be_brought_along() -> None:
    """Neither a small model nor a distortion is a field; what is left out is measured on the graph."""
    star = metropolis_weights("star:n=40")
    long = certify(gossip(star, rounds=3000), View.secure_sum(1), 2)
    true = verify(long, star)
    assert true.verified
    assert true.squared.upper == pytest.approx(76.93, abs=0.01)
    forged = replace(long, squared_upper=0.131, proof=HorizonProof(start=np.full(3, 1e-5), rate=4e-5))
    found = verify(forged, star)
    assert not found.upper_holds
    assert found.squared.upper == 3000


def test_a_far_target_cannot_be_erased() -> None:
    """A directed ring of 140, the target 130 hops away: no number of responses that are compared would see it."""
    n = 140
    W = np.zeros((n, n))
    W[np.arange(n), np.arange(n)] = W[np.arange(n), np.arange(n) - 1] = 0.5
    ring = matrix_weights(W)
    forged = certificate_for(
        ring,
        W[[0]],
        [0],
        n - 130,
        3000,
        # A model of few states, which the target never reaches, would be dominated by so much.
        proof=HorizonProof(start=np.full(4, 1e-5), rate=1e-5),
        squared_upper=0.033,
    )
    assert not verify(forged, ring).upper_holds


def test_a_step_that_is_nearly_a_third_is_not_taken_for_one() -> None:
    third, nearly = Fraction(1, 3), 0.3333333333333333
    view = View.coalition_sums([0, 1], own_noise="hidden")
    claims = [
        certify(gossip(laplacian_weights("complete:n=3", step), rounds=5), view, 0)
        for step in (third, nearly)
    ]
    for certificate in claims:
        assert proved(certificate).verified
    exact_third, float_third = claims
    assert float_third.squared_lower > exact_third.squared_upper
    forged = replace(exact_third, weights=float_third.weights, weights_hash=float_third.weights_hash)
    found = proved(forged)
    assert not found.upper_holds
    assert found.squared.upper >= float_third.squared_lower


def test_rows_of_a_custom_view_are_the_numbers_they_are() -> None:
    """Floats that round rows of W are other rows than those of W, and tell more."""
    weights = metropolis_weights("complete:n=3")
    W = weights.matrix.toarray()
    view = View(observation=np.vstack([W[[0]], [[0.5, 0.25, 0.25]]]), known_noise=[0])
    honest = certify(gossip(weights, rounds=4), view, 1)
    assert verify(honest, weights).verified
    sums = certify(gossip(weights, rounds=4), View.secure_sum(0), 1)
    forged = replace(honest, proof=sums.proof, squared_lower=0.0, squared_upper=sums.squared_upper)
    assert verify(forged, weights).upper_holds == (honest.squared_upper <= sums.squared_upper)
    rows = (tuple(sums_row.items()) for sums_row in map(weights.exact_row, (0, 1)))
    thirds = replace(honest, view=StatedView(name="custom", rows=tuple(rows), known_noise=(0,)))
    assert verify(replace(thirds, proof=sums.proof, squared_lower=0.0), weights).upper_holds


def test_the_program_of_the_file_is_the_one_that_is_checked() -> None:
    weights = metropolis_weights("star:n=3")
    open_loop = certify(gossip(weights, rounds=4), View.secure_sum(0), 1)
    closed = gossip_program([1.0, 1.0, 0.0])
    found = verify(replace(open_loop, program=closed), weights)
    assert found.verdict == "refused"
    assert any("quadratic losses" in sentence for sentence in found.trusted)
    with pytest.raises(InputError, match="the model needs one factor for each of the 3 nodes; got 2"):
        verify(replace(open_loop, program=gossip_program([1.0, 0.5])), weights)


def test_a_node_that_forgets_everything_is_checked() -> None:
    weights = metropolis_weights("star:n=4")
    for damping in ([0.0, 1, 1, 1], [1, 0.0, 1, 1], [0, 0, 0, 0], [-1, 0.5, -0.25, 0]):
        for rounds in (5, 3000):
            certificate = certify(gossip(weights, rounds=rounds, damping=damping), View.secure_sum(0), 2)
            assert verify(certificate, weights).verified


def test_epsilon_follows_from_what_is_proved() -> None:
    weights = metropolis_weights("florentine")
    protocol = gossip(weights, rounds=20)
    found: dict[str, Any] = {}
    for relation in ("add-remove", "zero-out", "replace-one"):
        mechanism = Mechanism(noise_multiplier=4.0, delta=1e-5, relation=relation)
        certificate = certify(protocol, View.secure_sum("Medici"), "Acciaiuoli", mechanism=mechanism)
        found[relation] = verify(certificate, weights).epsilon
    assert found["add-remove"] == found["zero-out"] == pytest.approx(2.3014, abs=1e-3)
    assert found["replace-one"] > 2 * found["add-remove"]
    assert verify(replace(certificate, mechanism=None), weights).epsilon is None
    endless = Mechanism(noise_multiplier=1e-300, delta=1e-5)
    assert verify(replace(certificate, mechanism=endless), weights).epsilon is None
    halved = replace(certificate, squared_lower=0.0, squared_upper=certificate.squared_upper / 2)
    again = verify(halved, weights)
    assert not again.verified
    assert again.epsilon == found["replace-one"]


@pytest.mark.parametrize(
    "participation", ["every:" + "9" * 40, "at-most:" + "9" * 5000, "fixed:" + "1," * 60_000 + "2"]
)
def test_spellings_beyond_reason_are_refused_before_work(participation: str) -> None:
    with pytest.raises(InputError, match="participation must be spelled with numbers of at most 16 digits"):
        proved(_horizon_certificate(participation=participation))


def test_a_certificate_by_coins_is_refused() -> None:
    certificate, _ = _build(RING)
    with pytest.raises(
        InputError, match=r"must say which rounds count; got 'poisson:0.1'.*\(certify participation full"
    ):
        proved(replace(certificate, participation="poisson:0.1"))


def test_numbers_at_the_end_of_the_range_of_floats_prove_the_cap_and_no_more() -> None:
    certificate, _ = _build(RING)
    for size in (1e9, 1e200, 1.7e308):
        result = proved(replace(certificate, proof=DenseProof(y=np.full(7, size)), squared_upper=7.0))
        assert result.verified, result.reason
        assert result.squared.upper == 7.0
        result = proved(
            _horizon_certificate(proof=HorizonProof(start=np.full(9, size), rate=size), squared_upper=1e5)
        )
        assert result.verified, result.reason
        assert result.squared.upper == 1e5
    for size in (5e-324, 1e-300, 1e-160):
        result = proved(_horizon_certificate(proof=HorizonProof(start=np.full(9, size), rate=size)))
        assert not result.upper_holds
        assert "the rate" in result.reason


def test_claims_beyond_reason_are_refused_before_work() -> None:
    long = _horizon_certificate(rounds=10**6)
    with pytest.raises(NotCertified, match="a start of 200000 rounds is longer than is checked here"):
        proved(replace(long, proof=HorizonProof(start=np.full(200_000, RATE), rate=RATE)))
    with pytest.raises(InputError, match="rounds must be a whole number from 1 to 9007199254740992"):
        replace(long, rounds=10**400)
    dense = metropolis_weights("erdos-renyi:n=160,p=0.5,seed=1")
    view = StatedView(name="coalition-sums", observers=tuple(range(80)))
    certificate = certificate_for(dense, np.zeros((1, 160)), [], 100, 20, view=view)
    result = verify(replace(certificate, proof=DenseProof(y=np.ones(20))), dense)
    assert result.upper_holds


def test_a_view_on_which_float_filters_fall_short_is_checked_in_full() -> None:
    W = np.array([[0.35, 0.6, 0.05, 0], [0.6, 0, 0.4, 0], [0.05, 0.4, 0.35, 0.2], [0, 0, 0.2, 0.8]])
    certificate = certificate_for(W, W[[0]], [0, 1], 2, 60)
    signs = np.array((-1.0) ** np.arange(60), dtype=np.float64)
    result = proved(replace(certificate, proof=DenseProof(witness=signs), squared_lower=59.25))
    assert result.verified, result.reason
    assert result.squared.lower == pytest.approx(59.25, abs=0.01)
    assert not proved(
        replace(certificate, proof=DenseProof(y=np.full(60, 0.97)), squared_upper=58.5)
    ).upper_holds
