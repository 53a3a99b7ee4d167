# SPDX-License-Identifier: Apache-2.0
"""The checker of proofs for training: it accepts exactly what the inequality says, and refuses what was changed."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sottovoce import View, graphs
from sottovoce.certificates import StoredWeights
from sottovoce.errors import InputError
from sottovoce.feedback import Training, training, training_sensitivity
from sottovoce.feedback.chains import setting
from sottovoce.shifts import ShiftProof, ShiftStep
from sottovoce.verification.loops import kernel
from sottovoce.verification.shift import check_shift


def proof_of(rounds: int = 6, **options: Any) -> ShiftProof:
    weights = graphs.metropolis_weights("ring:n=7")
    return training_sensitivity(
        weights, View.secure_sum(0), 1, rounds=rounds, **({"updates": (0.5, 1)} | options)
    ).proof


RING = graphs.metropolis_weights("ring:n=7")
PROOF = proof_of()
LONG = proof_of(60)


def dense_inequality(case: Training, target: int, X: Any, Y: Any, beta: Any, kappa: float) -> Any:
    """F of the theorem, entry by entry: X the factor of this round, Y that of the round before."""
    U = case.loop.unknown
    A = case.loop.transition.toarray()
    assert case.slopes is not None
    c, r = np.diag(case.slopes.centre[U]), np.diag(case.slopes.radius[U])
    b = np.eye(U.size)[:, [target]]
    moved = A @ Y @ Y.T @ A.T
    return np.block(
        [
            [np.diag(case.levels[U] - beta) + X @ X.T - kappa * b @ b.T - c @ moved @ c, -c @ moved @ r],
            [-r @ moved @ c, np.diag(beta) - r @ moved @ r],
        ]
    )


def test_the_number_is_that_of_the_check() -> None:
    for proof in (PROOF, LONG):
        found = check_shift(proof)
        assert found.holds
        assert found.squared_upper == check_shift(proof).squared_upper
    assert len(PROOF.end) == 6
    assert (len(LONG.start) > 0, len(LONG.bulk), len(LONG.end) > 0) == (True, 1, True)


def test_plain_form_comes_back_to_the_bit() -> None:
    for proof in (PROOF, LONG, proof_of(updates="any"), proof_of(rounds=9, participation="every:3")):
        again = ShiftProof.from_dict(json.loads(json.dumps(proof.to_dict(), allow_nan=False)))
        assert again.to_dict() == proof.to_dict()
        assert check_shift(again) == check_shift(proof)


@pytest.mark.parametrize("seed", range(6))
def test_a_step_holds_if_and_only_if_the_matrix_is_positive(seed: int) -> None:
    """Random points on both sides of the boundary, β beyond the noise level among them."""
    rng = np.random.default_rng(seed)
    case = training(
        graphs.metropolis_weights("random-regular:n=8,d=3,seed=2"),
        View.secure_sum(0),
        rounds=2,
        updates=(rng.uniform(-1, 0.5, 8), rng.uniform(0.5, 1.2, 8)),
        noise_levels=rng.uniform(0.5, 2, 8),
    )
    U, place = case.loop.unknown, setting(case, 2)
    agreed = {True: 0, False: 0}
    for _ in range(60):
        X, Y = (rng.uniform(0, 0.9) * place.basis @ rng.normal(size=(6, 6)) for _ in range(2))
        beta = rng.uniform(0.05, 1.1, U.size) * case.levels[U] + (rng.random(U.size) < 0.1) * rng.uniform(
            0, 2
        )
        kappa = float(rng.uniform(0.05, 1))
        least = float(np.linalg.eigvalsh(dense_inequality(case, 2, X, Y, beta, kappa))[0])
        everywhere = np.zeros(8)
        everywhere[U] = beta
        # The first step only has to lead to Y: it costs what it costs.
        generous = (
            np.where(case.slopes.radius > 0, case.levels / 2, 0.0) if case.slopes is not None else everywhere
        )
        first = ShiftStep(factor=Y, multipliers=generous, kappa=1e-3)
        proof = case.proof(
            int(U[2]),
            "shift",
            support=U,
            end=(first, ShiftStep(factor=X, multipliers=everywhere, kappa=kappa)),
        )
        holds = check_shift(proof, case.loop).holds
        if abs(least) > 1e-7:
            assert holds == (least > 0)
            agreed[holds] += 1
    assert min(agreed.values()) >= 3


@pytest.mark.parametrize("seed", range(6))
def test_a_last_step_holds_if_and_only_if_what_is_shown_is_paid_for(seed: int) -> None:
    """Π infinite on what is not seen: F restricted to x in the span of the rows. Far from the observer Y may be 0."""
    rng = np.random.default_rng(seed)
    weights = graphs.metropolis_weights("ring:n=9")
    ends = rng.uniform(-1, 0.5, 9), rng.uniform(0.5, 1.2, 9)
    case = training(weights, View.secure_sum(0), rounds=2, updates=ends, noise_levels=rng.uniform(0.5, 2, 9))
    U, R, target = case.loop.unknown, case.rows.toarray(), 0
    agreed = {True: 0, False: 0}
    for turn in range(60):
        far = np.arange(8) if turn % 2 else np.arange(3, 5)
        Y = np.zeros((8, 3))
        Y[far] = rng.uniform(0, 0.9) * rng.normal(size=(far.size, 3))
        Y -= R.T @ R @ Y
        beta = rng.uniform(0.05, 1.1, 8) * case.levels[U]
        kappa = float(rng.uniform(0.05, 3))
        F = dense_inequality(case, target, np.zeros((8, 1)), Y, beta, kappa)
        turned = np.block([[R, np.zeros_like(R)], [np.zeros((8, 8)), np.eye(8)]])
        least = float(np.linalg.eigvalsh(turned @ F @ turned.T)[0])
        everywhere = np.zeros(9)
        everywhere[U] = beta
        first = ShiftStep(factor=Y, multipliers=case.levels / 2, kappa=1e-3)
        last = ShiftStep(factor=np.zeros((0, 0)), multipliers=everywhere, kappa=kappa, last=True)
        holds = check_shift(
            case.proof(int(U[target]), "shift", support=U, end=(first, last)), case.loop
        ).holds
        if abs(least) > 1e-7:
            assert holds == (least > 0)
            agreed[holds] += 1
    assert min(agreed.values()) >= 3


def changed_step(proof: ShiftProof, **changes: Any) -> ShiftProof:
    """The proof with the second of its last steps changed."""
    steps = list(proof.end)
    steps[1] = replace(steps[1], **changes)
    return replace(proof, end=tuple(steps))


def test_changed_proofs_are_refused() -> None:
    step = PROOF.end[1]
    beta = np.array(step.multipliers)
    beta[1] *= 1.3
    assert PROOF.lower is not None
    for wrong in (
        changed_step(PROOF, kappa=step.kappa * 1.001),
        changed_step(PROOF, factor=step.factor * 1.05),
        changed_step(PROOF, factor=step.factor * 0.95),
        changed_step(PROOF, factor=step.factor[:, :1]),
        changed_step(PROOF, multipliers=beta),
        changed_step(PROOF, multipliers=np.zeros(7)),
        replace(PROOF, lower=PROOF.lower - 0.01),
        replace(PROOF, upper=np.full(7, 1.01)),
        replace(PROOF, target=2),
        replace(PROOF, levels=np.array([1, 1, 0.9, 1, 1, 1, 1.0])),
        replace(PROOF, end=PROOF.end[::-1][1:] + PROOF.end[-1:]),
        replace(PROOF, rounds=7),
        replace(PROOF, rounds=5),
        replace(PROOF, observation=tuple(tuple(sorted(RING.exact_row(i).items())) for i in (0, 2))),
        replace(PROOF, weights=StoredWeights.of(graphs.metropolis_weights("path:n=7"))),
        replace(LONG, bulk=(replace(LONG.bulk[0], kappa=LONG.bulk[0].kappa * 1.001),)),
        replace(LONG, start=LONG.start[::-1]),
    ):
        found = check_shift(wrong)
        assert not found.holds
        assert found.squared_upper == np.inf
        assert found.failure


def test_weights_that_are_none_are_refused_not_believed() -> None:
    twice = [2 * float(Fraction(value)) for value in PROOF.weights.values]
    found = check_shift(replace(PROOF, weights=replace(PROOF.weights, values=twice)))
    assert not found.holds
    assert "weights" in found.failure


def test_what_the_factor_has_at_the_pivots_does_not_matter() -> None:
    """C e = 0 is a definition, not a claim: whatever stands there is replaced by what the other rows determine."""
    step = PROOF.end[1]
    loop = check_loop(PROOF)
    pivots = kernel(loop.rows, np.searchsorted(loop.unknown, PROOF.support)).pivots
    scribbled = np.array(step.factor)
    scribbled[pivots] += 17.0
    assert check_shift(changed_step(PROOF, factor=scribbled)) == check_shift(PROOF)


def check_loop(proof: ShiftProof) -> Any:
    return training(
        graphs.metropolis_weights("ring:n=7"), View.secure_sum(0), rounds=proof.rounds, updates="any"
    ).loop


def test_a_memory_that_is_seen_is_not_believed() -> None:
    found = proof_of(updates=(-0.3, 0.3), rounds=40, effort="quick")
    vector = training_sensitivity(
        graphs.metropolis_weights("complete:n=4"), View.secure_sum(0), 1, rounds=3, updates="any"
    ).proof
    assert vector.method == "twins"
    seen = replace(
        vector, support=vector.support[:1], bulk=(replace(vector.bulk[0], factor=np.array([[1.0]])),)
    )
    assert check_shift(seen).squared_upper == pytest.approx(3, rel=1e-9)
    assert check_shift(found).holds


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"method": "hope"}, "method must be one of"),
        ({"target": 0}, "target must be a node whose noise is not known"),
        ({"levels": np.zeros(7)}, "levels must be above 0"),
        ({"lower": None}, "both be given, or neither"),
        ({"upper": np.full(7, 0.1)}, "lower slope must not exceed"),
        ({"support": np.array([3, 2])}, "ascending node indices"),
        ({"known_noise": np.array([0, 3])}, "support must hold hidden nodes only"),
        ({"support": np.array([3])}, "a row for each of the 1 nodes"),
        ({"participation": "sometimes"}, "participation must be spelled"),
        ({"rounds": 0}, "rounds must be"),
    ],
)
def test_a_proof_that_contradicts_itself_is_refused(change: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        replace(PROOF, **change)


def test_documents_with_other_fields_are_refused() -> None:
    document = PROOF.to_dict()
    for wrong in ({**document, "more": 1}, {k: v for k, v in document.items() if k != "levels"}):
        with pytest.raises(InputError, match="exactly the fields"):
            ShiftProof.from_dict(wrong)
    with pytest.raises(InputError, match="kappa must be a finite number"):
        ShiftProof.from_dict({**document, "end": [{**document["end"][0], "kappa": -1.0}]})
    with pytest.raises(InputError, match="finite numbers in 1 dimension"):
        ShiftProof.from_dict({**document, "levels": ["a"] * 7})
