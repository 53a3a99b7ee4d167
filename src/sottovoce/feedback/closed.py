# SPDX-License-Identifier: Apache-2.0
"""Bounds that need no matrix inequality: one round of memory for smooth maps, twins for maps of any kind, the cap.

All three shift the noise so that the difference e_t of two runs after round t is x δ_tᵀ with a vector x that the
observers do not see, C x = 0. The next round sees A x δ_tᵀ on its input, changes it by at most ℓ = |c| + r, and the
shift pays for b − x and for what the maps made of A x:

    cap          x = 0            pays for b                          holds for any maps
    twins        A x = 0          pays for b − x                      holds for any maps: nobody's input moves
    memory-one   any x            pays for |b − x| + ℓ |A x|          holds for maps in the ball

C x = 0 is asked of all three. Proofs: Theorem 1 and Corollaries 2 and 3 of docs/training.md. How x is found is
speed, as every x makes a bound; soundness is `_checked`, where x meets `sottovoce.verification.shift`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from sottovoce.certificates import ShiftProof, ShiftStep
from sottovoce.feedback.chains import Proved
from sottovoce.feedback.subspaces import unseen_basis
from sottovoce.feedback.systems import positive_solution
from sottovoce.verification import check_shift, kernel

if TYPE_CHECKING:
    from sottovoce.certificates import Method
    from sottovoce.feedback.problem import TrainingView

__all__ = ["cap", "memory_one", "twins"]

# Turns of weights and least squares; the best x of all turns is kept.
SWEEPS = 60
# Above so many hidden nodes only nodes with equal columns are looked for, not all that no input shows.
MOST_ELIMINATED = 60


def cap(case: TrainingView, target: int) -> Proved:
    """Σδ²/q_j: what the target's own noise gives, whatever the others do.

    Guarantee: an upper bound for maps of any kind; it is local DP, and exact where the message is seen for itself.
    Source: Theorem 1 of docs/training.md with Π = 0, β = 0, κ = q_j.

    >>> from sottovoce import View, graphs
    >>> from sottovoce.feedback.problem import training
    >>> ring = graphs.metropolis_weights("ring:n=6")
    >>> case = training(ring, View.secure_sum(0), rounds=10, updates=(0.9, 1), noise_levels=2)
    >>> round(cap(case, 0).squared_upper, 6)
    5.0
    """
    return _checked(case, target, "cap", np.zeros(0))


def memory_one(case: TrainingView, target: int, basis: np.ndarray | None = None) -> Proved:
    """The best bound by differences that live for one round.

        Δ² ≤ Σδ_t² · Σ_k (|b_k − x_k| + ℓ_k |(A x)_k|)²/q_k     for any x with C x = 0.

    With (s + t)² = min over 0 < θ < 1 of s²/θ + t²/(1 − θ), attained at θ = s/(s + t), the best x solves weighted least
    squares for fixed θ; θ and x are improved in turns. Where s and t are both near 0 the weights are kept finite by a
    term that shrinks from turn to turn.

    Guarantee: an upper bound for every x; the one that is found is checked with rounding counted.
    Source: Corollary 2 of docs/training.md.
    """
    assert case.slopes is not None
    U = case.loop.unknown
    X = unseen_basis(case, target) if basis is None else basis
    reach = case.slopes.reach[U]
    moved = reach[:, None] * np.asarray(case.loop.transition @ X)
    used = np.any(X != 0, axis=1) | np.any(moved != 0, axis=1)
    own, after = X[used], moved[used]
    b = np.zeros(U.size)
    b[target] = 1.0
    b, noise = b[used], case.levels[U][used]
    diagonal = np.diag_indices(X.shape[1])
    y, best, value = own.T @ b, np.zeros(X.shape[1]), float((b**2 / noise).sum())
    for sweep in range(SWEEPS):
        # Σ_k (s_k + t_k)²/q_k with s = |b − x|, t = ℓ|A x|, x = X y.
        s, t = np.abs(b - own @ y), np.abs(after @ y)
        both = s + t
        reached = float((both**2 / noise).sum())
        if reached < value:
            best, value = y, reached
        # θ = s/(s + t) for this x, then the x that is best for this θ: normal equations with weights 1/θ, 1/(1 −
        # θ).
        tiny = 10.0 ** (-2 - sweep / 6)
        share = (s + tiny) / (both + 2 * tiny)
        left, right = own.T * (1 / (share * noise)), after.T * (1 / ((1 - share) * noise))
        normal = left @ own + right @ after
        normal[diagonal] += 1e-14 * max(1.0, float(normal.trace()))
        y = positive_solution(normal, left @ b)
    return _checked(case, target, "memory-one", X @ best)


def twins(case: TrainingView, target: int) -> Proved | None:
    """The bound for maps of which nothing is known: differences that nobody's input shows; None if there are none.

        Δ² ≤ Σδ_t² · min ‖b − x‖²_{1/q}   over x with C x = 0 and A x = 0.

    Nodes with equal columns of W ("twins": same closed neighbourhood, same weights) give 1/s for s hidden twins: x
    takes 1/s from the target and hands it to the others. Small views are searched for every such x, by elimination in
    rationals; in large ones only equal columns are looked for.

    Guarantee: an upper bound for arbitrary measurable maps; A x = 0 holds exactly, in rationals.
    Source: Corollary 3 of docs/training.md.
    """
    loop = case.loop
    m = loop.unknown.size
    if m <= MOST_ELIMINATED:
        support, basis = np.arange(m), _unshown(case)
    else:
        # Equal columns: anything that sums to 0 over them.
        support = _alike(case, target)
        basis = np.vstack([np.eye(support.size - 1), -np.ones((1, support.size - 1))])
    if not basis.shape[1]:
        return None
    weight = 1 / np.sqrt(case.levels[loop.unknown[support]])
    b = 1.0 * (support == target)
    coefficients = linalg.lstsq(weight[:, None] * basis, weight * b)[0]
    x = np.zeros(m)
    x[support] = basis @ coefficients
    return _checked(case, target, "twins", x) if np.any(x != 0) else None


@lru_cache(maxsize=8)
def _unshown(case: TrainingView) -> np.ndarray:
    """A basis of what neither the observer nor anybody's input shows, exact to rounding.

    The kernel of C and A together, in rationals; the rank is looked at in floats first, since most graphs have none.
    """
    loop, everywhere = case.loop, np.arange(case.loop.unknown.size)
    both = np.vstack([loop.transition.toarray(), case.rows.toarray()])
    if np.linalg.matrix_rank(both, tol=1e-9) == everywhere.size:
        return np.zeros((everywhere.size, 0))
    unseen = kernel([*loop.rows, *loop.inflow(loop.unknown.tolist())], everywhere)
    basis = np.zeros((everywhere.size, unseen.free.size))
    basis[unseen.free, np.arange(unseen.free.size)] = 1.0
    basis[unseen.pivots] = -unseen.solved.toarray()
    return basis


def _alike(case: TrainingView, target: int) -> np.ndarray:
    """The positions whose columns of A and C equal those of the target to 12 digits; the check decides in rationals."""
    A, C = case.loop.transition.tocsc(), case.rows.tocsc()

    def column(matrix, k: int) -> bytes:  # type: ignore[no-untyped-def]  # noqa: ANN001
        span = slice(matrix.indptr[k], matrix.indptr[k + 1])
        return matrix.indices[span].tobytes() + np.round(matrix.data[span], 12).tobytes()  # type: ignore[no-any-return]

    A.sort_indices()
    C.sort_indices()
    # Who hears the target hears its twins.
    hearers = A.indices[A.indptr[target] : A.indptr[target + 1]]
    if not hearers.size:
        return np.array([target])
    same = np.unique(case.loop.transition[[int(hearers[0])]].indices)
    key = column(A, target), column(C, target)
    return np.array([k for k in same.tolist() if (column(A, k), column(C, k)) == key], dtype=np.int64)


def _checked(case: TrainingView, target: int, method: Method, x: np.ndarray) -> Proved:
    """The proof by one vector (or none), and what the check makes of it.

    The vector is data of the proof: a bad one makes a bad bound, never a wrong one.
    """
    U = case.loop.unknown
    support = np.flatnonzero(x)
    step = ShiftStep(factor=x[support][:, None], multipliers=np.zeros(case.protocol.n), kappa=0.0)
    proof = ShiftProof(method=method, support=U[support], recurring=() if method == "cap" else (step,))
    check = check_shift(proof, case.about(int(U[target])))
    assert check.holds, check.failure
    return Proved(proof=proof, squared_upper=check.squared_upper)
