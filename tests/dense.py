# SPDX-License-Identifier: Apache-2.0
"""The direct method, as the definition says: K by its Gram recursion, one Cholesky factorisation, F = L⁻¹G.

Tests compare what the package computes with it; it is as far from a filter as another way to the same numbers can be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from sottovoce.filtering import HiddenSystem, QuadraticForms
from sottovoce.interval import UNIT_ROUNDOFF

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, kw_only=True, eq=False)
class DenseResponse:
    """The powers C A^t, the Cholesky factor of K, and how far rounding may have moved the geometry of the noise."""

    powers: np.ndarray
    last_powers: np.ndarray
    root: np.ndarray
    rounds: int
    distortion: float
    engine: str = "dense"

    def respond(self, position: int, stream: np.ndarray) -> np.ndarray:
        """F c, by multiplying with the dense F."""
        return np.asarray(self._response(position) @ stream.reshape(self.rounds, -1))

    def forms(self, positions: np.ndarray) -> Iterator[QuadraticForms]:
        """M = FᵀF for each of the targets."""
        for position in positions:
            response = self._response(int(position))
            yield QuadraticForms(
                positions=np.array([position]),
                matrices=(response.T @ response)[None],
                rounding=np.array([8 * UNIT_ROUNDOFF * len(response) * self.rounds**2]),
                distortion=self.distortion,
                missing=0.0,
            )

    def _response(self, position: int) -> np.ndarray:
        """F for one target: L⁻¹ times its columns of H_T, a lower-triangular block Toeplitz matrix."""
        columns = np.zeros((self.rounds - 1, self.powers.shape[1], self.rounds))
        for s in range(self.rounds - 1):
            columns[s:, :, s] = self.powers[: self.rounds - 1 - s, :, position]
        stacked = np.vstack([columns.reshape(-1, self.rounds), self.last_powers[::-1, :, position].T])
        return np.asarray(linalg.solve_triangular(self.root, stacked, lower=True, check_finite=False))


def dense_response(system: HiddenSystem) -> DenseResponse:
    """K(t, s) − K(t−1, s−1) = V_t V_sᵀ with V_t = C A^{t−1}, and its Cholesky factor."""
    m, rounds = system.rows.shape[0], system.rounds
    powers = np.empty((rounds, m, system.unknown.size))
    powers[0] = system.rows
    for t in range(1, rounds):
        powers[t] = (system.transition.T @ powers[t - 1].T).T
    last_powers = np.einsum("fm,tmj->tfj", system.last_rows @ system.rows.T, powers)
    covariance = np.zeros((rounds * m, rounds * m))
    flat = powers.reshape(rounds * m, -1)
    covariance[:] = flat @ flat.T
    for t in range(1, rounds):
        covariance[t * m : (t + 1) * m, m:] += covariance[(t - 1) * m : t * m, :-m]
    # Round T is seen through its own rows: last = (last·rowsᵀ) rows, because its span lies within theirs.
    change = linalg.block_diag(np.eye((rounds - 1) * m), system.last_rows @ system.rows.T)
    covariance = change @ covariance @ change.T
    root = np.linalg.cholesky(covariance)
    size = float(np.linalg.norm(covariance))
    if (system.transition.data < 0).any():
        size = max(size, _absolute_trace(system))
    condition = size * (1 + system.power_norm) ** 2
    return DenseResponse(
        powers=powers,
        last_powers=last_powers,
        root=root,
        rounds=rounds,
        distortion=16 * UNIT_ROUNDOFF * len(root) * condition + _given_error(system),
    )


def _absolute_trace(system: HiddenSystem) -> float:
    """Σ_t ‖ |C| |A|ᵗ ‖² over all sums that make up K: what its entries are rounded in proportion to, if signs mix."""
    sizes, total = np.abs(system.rows), 0.0
    for t in range(system.rounds):
        total += (system.rounds - t) * float((sizes**2).sum())
        sizes = (abs(system.transition).T @ sizes.T).T
    return total


def _given_error(system: HiddenSystem) -> float:
    """The distortion from rounding in the weights themselves and in the orthonormal rows, σ_min(N) ≥ 1/(1 + ‖A‖)."""
    reach = system.rounds * system.power_norm
    return reach * (2 * UNIT_ROUNDOFF * system.power_norm + (1 + system.power_norm) * system.rows_error)
