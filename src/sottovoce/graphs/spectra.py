# SPDX-License-Identifier: Apache-2.0
"""The spectrum of gossip weights: how fast gossip mixes, and what it converges to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from sottovoce.graphs.model import GossipWeights, row_indices

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["Spectrum", "spectrum"]

_DENSE_NODES = 600
_ARNOLDI_TOLERANCE = 1e-6
_GAP_SHARE = 1e-4
_RESIDUAL_FLOOR = 1e-11
_LANCZOS_STEPS = 1500
_WORK = 2_000_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Spectrum:
    """Eigenvalues of W apart from the simple eigenvalue 1, and the stationary distribution π.

    `second` and `smallest` are the largest and smallest real part, `rho` the largest modulus, `gap` is
    1 − rho. `converged` is False where an iteration ended early and the numbers are its best estimates.
    """

    second: float
    smallest: float
    rho: float
    gap: float
    stationary: NDArray[np.float64]
    converged: bool


def spectrum(weights: GossipWeights) -> Spectrum:
    """The second and the smallest eigenvalue of W, its gap, and its stationary distribution.

        ρ = max{|λ| : λ an eigenvalue of W other than 1},   γ = 1 − ρ,   πᵀ W = πᵀ,   Σ π = 1.

    Up to 600 nodes all eigenvalues are found densely. Above, a Lanczos iteration (or Arnoldi, for weights
    that no rescaling makes symmetric) stops at a residual below a ten-thousandth of the gap (1e-6 for
    Arnoldi) and says in `converged` whether it did.

    Guarantee: none beyond floating point when dense; an estimate above 600 nodes, on which no privacy
    guarantee may rest (an early end overstates the gap). π is exactly uniform when the columns sum to 1.

    Source: Boyd, Ghosh, Prabhakar and Shah, Randomized gossip algorithms (2006); Paige, The computation of
    eigenvalues and eigenvectors of very large sparse matrices (1971).

    >>> from sottovoce.graphs import metropolis_weights
    >>> round(spectrum(metropolis_weights("ring:n=6")).second, 12)
    0.666666666667
    """
    pi, settled, reversible = _stationary(weights)
    if weights.n <= _DENSE_NODES:
        second, smallest, rho, converged = (*_dense(weights), True)
    elif reversible:
        second, smallest, converged = _lanczos_ends(_symmetrised(weights, pi), np.sqrt(pi))
        rho = max(abs(second), abs(smallest))
    else:
        second, smallest, rho, converged = _arnoldi(weights)
    return Spectrum(
        second=second,
        smallest=smallest,
        rho=rho,
        gap=1.0 - rho,
        stationary=pi,
        converged=converged and settled,
    )


def _dense(weights: GossipWeights) -> tuple[float, float, float]:
    matrix = weights.matrix.toarray()
    values = np.linalg.eigvalsh(matrix) if weights.symmetric else np.linalg.eigvals(matrix)
    others = np.delete(values, np.argmin(np.abs(values - 1)))
    return float(others.real.max()), float(others.real.min()), float(np.abs(others).max())


def _stationary(weights: GossipWeights) -> tuple[NDArray[np.float64], bool, bool]:
    """π, whether it is found to rounding, and whether W is reversible with respect to it."""
    n, matrix = weights.n, weights.matrix
    uniform = np.full(n, 1.0 / n)
    if weights.symmetric:
        return uniform, True, True
    columns = np.bincount(matrix.indices, weights=matrix.data, minlength=n)
    if np.abs(columns - 1).max() <= 1e-12:
        return uniform, True, False
    balanced = _balanced(matrix)
    if balanced is not None:
        return balanced, True, True
    if n <= _DENSE_NODES:
        equations = matrix.toarray().T - np.eye(n)
        equations[-1] = 1.0
        solution = np.abs(np.linalg.solve(equations, np.eye(n)[-1]))
        return solution / solution.sum(), True, False
    return *_power(matrix), False


def _balanced(matrix: Any) -> NDArray[np.float64] | None:  # noqa: ANN401
    """π by detailed balance π_i W[i, j] = π_j W[j, i] along a spanning tree, or None if an edge breaks it."""
    order, parent = scipy.sparse.csgraph.breadth_first_order(matrix, 0, directed=True)
    children = order[1:]
    forth, back = matrix[parent[children], children], matrix[children, parent[children]]
    if not np.all(back):
        return None
    steps = np.log(np.asarray(forth).ravel()) - np.log(np.asarray(back).ravel())
    logs = [0.0] * matrix.shape[0]
    for child, above, step in zip(children.tolist(), parent[children].tolist(), steps.tolist(), strict=True):
        logs[child] = logs[above] + step
    pi = np.exp(np.array(logs) - max(logs))
    pi /= pi.sum()
    flow = matrix.copy()
    flow.data *= pi[row_indices(matrix)]
    excess = np.abs((flow - flow.T.tocsr()).data).max(initial=0.0)
    return pi if excess <= 1e-10 * flow.data.max() else None


def _power(matrix: Any) -> tuple[NDArray[np.float64], bool]:  # noqa: ANN401
    """π by repeated πᵀ ↦ πᵀ W, and whether it came to rest."""
    transposed = matrix.T.tocsr()
    pi = np.full(matrix.shape[0], 1.0 / matrix.shape[0])
    for _ in range(int(np.clip(_WORK // matrix.nnz, 200, 20_000))):
        moved = transposed @ pi
        moved /= moved.sum()
        change = float(np.abs(moved - pi).sum())
        pi = moved
        if change <= 1e-13:
            return pi, True
    return pi, False


def _symmetrised(weights: GossipWeights, pi: NDArray[np.float64]) -> Any:  # noqa: ANN401
    """D^½ W D^−½ with D = diag(π): symmetric, with the eigenvalues of W."""
    if weights.symmetric:
        return weights.matrix
    scaled = weights.matrix.copy()
    root = np.sqrt(pi)
    scaled.data *= root[row_indices(scaled)] / root[scaled.indices]
    return scaled


def _lanczos_ends(matrix: Any, top: NDArray[np.float64]) -> tuple[float, float, bool]:  # noqa: ANN401
    """Largest and smallest eigenvalue of a symmetric matrix across its eigenvector `top`.

    Three-term Lanczos without reorthogonalisation: copies that rounding breeds repeat the ends of the
    spectrum and do not move them, so no basis is stored.
    """
    top = top / np.linalg.norm(top)
    start = np.random.default_rng(0).standard_normal(matrix.shape[0])
    start -= (top @ start) * top
    current, previous = start / np.linalg.norm(start), np.zeros_like(start)
    diagonal: list[float] = []
    beside: list[float] = []
    beta, due = 0.0, 10
    while True:
        z = matrix @ current
        z -= beta * previous
        diagonal.append(float(current @ z))
        z -= diagonal[-1] * current
        # Rounding lets the eigenvalue 1 back in unless every new vector is cleared of it.
        z -= (top @ z) * top
        beta = float(np.linalg.norm(z))
        steps = len(diagonal)
        if beta < 1e-13 or steps >= min(due, _LANCZOS_STEPS):
            low, high, residual = _ritz_ends(diagonal, beside, beta)
            wanted = max(_RESIDUAL_FLOOR, _GAP_SHARE * (1 - max(high, -low)))
            converged = beta < 1e-13 or residual <= wanted
            if converged or steps >= _LANCZOS_STEPS:
                return high, low, converged
            due = steps + max(10, steps // 10)
        beside.append(beta)
        z /= beta
        previous, current = current, z


def _ritz_ends(diagonal: list[float], beside: list[float], beta: float) -> tuple[float, float, float]:
    """Both ends of the tridiagonal matrix's spectrum, and the larger of their two residuals."""
    last = len(diagonal) - 1
    ends = []
    for k in (0, last):
        value, vector = scipy.linalg.eigh_tridiagonal(
            diagonal, beside, select="i", select_range=(k, k), lapack_driver="stebz"
        )
        ends.append((float(value[0]), beta * abs(float(vector[-1, 0]))))
    return ends[0][0], ends[1][0], max(residual for _, residual in ends)


def _arnoldi(weights: GossipWeights) -> tuple[float, float, float, bool]:
    """Largest and smallest real part and largest modulus, for weights without symmetry."""
    # The eigenvalue 1 is moved to where it is not among those sought.
    (high, first), (low, second), (far, third) = (
        _eigenvalues(_moved(weights.matrix, place), weights.n, which)
        for which, place in (("LR", -1.0), ("SR", 1.0), ("LM", 0.0))
    )
    return (
        float(high.real.max()),
        float(low.real.min()),
        min(1.0, float(np.abs(far).max())),
        first and second and third,
    )


def _moved(matrix: Any, place: float) -> Callable[[NDArray[Any]], NDArray[Any]]:  # noqa: ANN401
    """X ↦ Wx − mean(Wx) + place · mean(x): the spectrum of W with the eigenvalue of constants at `place`."""

    def product(x: NDArray[Any]) -> NDArray[Any]:
        y = matrix @ x
        return np.asarray(y + (place * x.mean() - y.mean()))

    return product


def _eigenvalues(
    product: Callable[[NDArray[Any]], NDArray[Any]], n: int, which: str
) -> tuple[NDArray[Any], bool]:
    """A few eigenvalues at one end, with a looser tolerance if none are found, and then by norms."""
    import scipy.sparse.linalg

    operator = scipy.sparse.linalg.LinearOperator((n, n), matvec=product, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(n)
    for tolerance in (_ARNOLDI_TOLERANCE, 1e-3):
        try:
            values = scipy.sparse.linalg.eigs(
                operator,
                k=4,
                which=which,
                v0=start,
                tol=tolerance,
                maxiter=60,
                ncv=40,
                return_eigenvectors=False,
            )
        except scipy.sparse.linalg.ArpackError as error:
            partial = getattr(error, "eigenvalues", None)
            if partial is not None and len(partial):
                return np.asarray(partial), False
        else:
            return np.asarray(values), tolerance == _ARNOLDI_TOLERANCE
    x, ratio = start / np.linalg.norm(start), 0.0
    for _ in range(100):
        x = product(x)
        ratio = float(np.linalg.norm(x))
        if ratio < 1e-13:
            return np.zeros(1), True
        x /= ratio
    return np.array([-ratio if which == "SR" else ratio]), False
