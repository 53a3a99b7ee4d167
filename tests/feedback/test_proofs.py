# SPDX-License-Identifier: Apache-2.0
"""The checker of proofs for training: it accepts exactly what the inequality says, and refuses what was changed."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sottovoce import View, graphs
from sottovoce.certificates import ShiftProof, ShiftStep
from sottovoce.errors import InputError
from sottovoce.feedback import TrainingView, training, training_sensitivity
from sottovoce.feedback.chains import setting
from sottovoce.protocols.updates import Slopes
from sottovoce.verification.loops import hidden_loop, kernel
from sottovoce.verification.shift import check_shift

if TYPE_CHECKING:
    from sottovoce.verification.asked import TrainingQuestion

RING = graphs.metropolis_weights("ring:n=7")


@functools.cache
def proof_of(rounds: int = 6, effort: Any = "auto", **options: Any) -> tuple[ShiftProof, TrainingQuestion]:
    """A proof about node 1 of a ring of 7, and what it answers."""
    options = {"updates": (0.5, 1)} | options
    found = training_sensitivity(RING, View.secure_sum(0), 1, rounds=rounds, effort=effort, **options)
    return found.proof, training(RING, View.secure_sum(0), rounds=rounds, **options).about(1)


def dense_inequality(case: TrainingView, target: int, X: Any, Y: Any, beta: Any, kappa: float) -> Any:
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


def test_short_runs_have_a_step_a_round_and_long_ones_a_start_and_an_end() -> None:
    proof, asked = proof_of()
    long, long_asked = proof_of(60)
    assert check_shift(proof, asked).holds
    assert check_shift(long, long_asked).holds
    assert len(proof.end) == 6
    assert (len(long.start) > 0, len(long.recurring), len(long.end) > 0) == (True, 1, True)


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
        steps = (first, ShiftStep(factor=X, multipliers=everywhere, kappa=kappa))
        holds = check_shift(ShiftProof(method="shift", support=U, end=steps), case.about(int(U[2]))).holds
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
        proof = ShiftProof(method="shift", support=U, end=(first, last))
        holds = check_shift(proof, case.about(int(U[target]))).holds
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
    proof, asked = proof_of()
    long, long_asked = proof_of(60)
    step = proof.end[1]
    beta = np.array(step.multipliers)
    beta[1] *= 1.3
    for wrong in (
        changed_step(proof, kappa=step.kappa * 1.001),
        changed_step(proof, factor=step.factor * 1.05),
        changed_step(proof, factor=step.factor * 0.95),
        changed_step(proof, factor=step.factor[:, :1]),
        changed_step(proof, multipliers=beta),
        changed_step(proof, multipliers=np.zeros(7)),
        changed_step(proof, kappa=1e-200),
        changed_step(proof, factor=step.factor * 1e120),
        replace(proof, end=proof.end[::-1][1:] + proof.end[-1:]),
    ):
        refused(wrong, asked)
    refused(
        replace(long, recurring=(replace(long.recurring[0], kappa=long.recurring[0].kappa * 1.001),)),
        long_asked,
    )
    refused(replace(long, start=long.start[::-1]), long_asked)


def test_a_proof_of_something_else_is_refused() -> None:
    proof, asked = proof_of()
    assert asked.slopes is not None
    lower, upper = asked.slopes.lower, asked.slopes.upper
    path, known = graphs.metropolis_weights("path:n=7"), np.array([0])
    for change in (
        {"slopes": Slopes(lower=lower - 0.01, upper=upper)},
        {"slopes": Slopes(lower=lower, upper=np.full(7, 1.01))},
        {"slopes": None},
        {"target": 2},
        {"levels": np.array([1, 1, 0.9, 1, 1, 1, 1.0])},
        {"rounds": 7},
        {"rounds": 5},
        {"loop": hidden_loop(RING, observation=[RING.exact_row(i) for i in (0, 2)], known=known)},
        {"loop": hidden_loop(path, observation=[path.exact_row(0)], known=known)},
    ):
        refused(proof, replace(asked, **change))


def refused(proof: ShiftProof, asked: TrainingQuestion) -> None:
    found = check_shift(proof, asked)
    assert not found.holds
    assert found.squared_upper == np.inf
    assert found.failure


def test_rounds_without_end_are_summed_without_being_counted_one_by_one() -> None:
    """The steps of a long proof that recur, T = 10¹⁵: T/κ, and what start and end cost."""
    long, long_asked = proof_of(60)
    many = replace(long_asked, rounds=10**15)
    found = check_shift(long, many)
    rate = 1 / long.recurring[0].kappa
    assert found.squared_upper == pytest.approx(1e15 * rate, rel=1e-12)
    few = check_shift(long, replace(long_asked, rounds=200)).squared_upper
    assert few - check_shift(long, long_asked).squared_upper == pytest.approx(140 * rate, rel=1e-9)


def test_what_the_factor_has_at_the_pivots_does_not_matter() -> None:
    """C e = 0 is a definition, not a claim: whatever stands there is replaced by what the other rows determine."""
    proof, asked = proof_of()
    step = proof.end[1]
    loop = asked.loop
    pivots = kernel(loop.rows, np.searchsorted(loop.unknown, proof.support)).pivots
    scribbled = np.array(step.factor)
    scribbled[pivots] += 17.0
    assert check_shift(changed_step(proof, factor=scribbled), asked) == check_shift(proof, asked)


def test_a_memory_that_is_seen_is_not_believed() -> None:
    complete = graphs.metropolis_weights("complete:n=4")
    proof = training_sensitivity(complete, View.secure_sum(0), 1, rounds=3, updates="any").proof
    assert proof.method == "twins"
    seen = replace(
        proof, support=proof.support[:1], recurring=(replace(proof.recurring[0], factor=np.array([[1.0]])),)
    )
    asked = training(complete, View.secure_sum(0), rounds=3, updates="any").about(1)
    assert check_shift(seen, asked).squared_upper == pytest.approx(3, rel=1e-9)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"method": "hope"}, "method must be one of"),
        ({"support": np.array([3, 2])}, "ascending node indices"),
        ({"support": np.array([3])}, "a row for each of the 1 nodes"),
    ],
)
def test_a_proof_that_contradicts_itself_is_refused(change: Any, sentence: str) -> None:
    proof, _ = proof_of()
    with pytest.raises(InputError, match=sentence):
        replace(proof, **change)


def test_only_the_last_round_may_lead_nowhere() -> None:
    proof, _ = proof_of()
    with pytest.raises(InputError, match="only the step of the last round"):
        replace(proof, end=proof.end[::-1])
