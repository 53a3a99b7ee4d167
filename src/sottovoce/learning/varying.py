# SPDX-License-Identifier: Apache-2.0
"""Δ² where step sizes vary, so that noise and contributions of a round are scaled alike but unlike other rounds.

Divided by its step, the message of round t obeys

    s̃_t = r_t A s̃_{t−1} + c_t + u_t,   r_t = α_t η_{t−1}/η_t,

which shows an observer the same. The loop is linear but no longer the same in every round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy import linalg

from sottovoce.sensitivities.bulk import METHOD_NAMES
from sottovoce.sensitivities.measure import widened
from sottovoce.sensitivities.solve import solve_form

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.filtering import HiddenSystem

    Array: TypeAlias = NDArray[np.float64]

__all__ = ["fits_dense", "scale_spread", "varying_ends"]

_EPSILON = float(np.finfo(np.float64).eps)
# How many numbers the noise map may hold: its rows are what is seen, its columns the noise of all rounds.
_LARGEST_MAP = 20_000_000
_MOST_ROWS = 2000
_TOLERANCE = 2e-4


def fits_dense(system: HiddenSystem) -> bool:
    """Whether the noise map of a view is small enough to be written down."""
    seen = system.rows.shape[0] * system.rounds
    return bool(seen <= _MOST_ROWS and seen * system.unknown.size * system.rounds <= _LARGEST_MAP)


def varying_ends(
    system: HiddenSystem, indices: NDArray[np.int64], factors: Array
) -> tuple[Array, Array, NDArray[np.str_]]:
    """Ends of Δ² for the targets at `indices`, and the methods, for A_t = factors[t]·A: straight from the definition.

        N_ts = r_t ⋯ r_{s+1} C A^{t−s},   M = Gᵀ(N Nᵀ)⁻¹G.

    `factors[0]` is not used. The whole map N is formed and its Gram matrix factorised once for all targets.

    Guarantee: the ends hold, rounding included. N Nᵀ ⪰ (1 + max r·‖A‖)⁻² as the rows C are orthonormal; forming N and
    factorising its Gram matrix act as a relative change of N by at most the distortion that is counted.
    Source: Theorem 12 of Koskela & Kulkarni with N in place of H_T; Higham, Theorem 10.3, for the factorisation.
    """
    rounds, m = system.rounds, system.rows.shape[0]
    noise, error = _noise_map(system, factors)
    covariance = noise @ noise.T
    largest = float(factors[1:].max(initial=0.0)) * _spectral_bound(system)
    least = 1 / (1 + largest)
    try:
        root = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        # Too close to singular to say more than that Δ² counts rounds.
        capped = np.full(len(indices), "cap", dtype=METHOD_NAMES)
        return np.zeros(len(indices)), np.full(len(indices), float(rounds)), capped
    distortion = (
        8 * _EPSILON * len(root) * float(np.linalg.norm(covariance)) / least**2
        + error / least
        + _reach(system, factors) * (4 * _EPSILON * largest + (1 + largest) * system.rows_error)
    )
    size = system.unknown.size
    lower, upper = np.zeros(len(indices)), np.zeros(len(indices))
    method = np.full(len(indices), "unreached", dtype=METHOD_NAMES)
    hops = system.hops()
    for place, position in enumerate(np.searchsorted(system.unknown, indices)):
        if not hops[position] < rounds:
            continue
        columns = noise[:, position::size]
        response = linalg.solve_triangular(root, columns, lower=True, check_finite=False)
        form = response.T @ response
        solution = solve_form((form + form.T) / 2, contribution="vector", tolerance=_TOLERANCE)
        rounding = 4 * _EPSILON * (len(root) + m) * rounds**2
        low, high = widened(
            np.array([solution.attained - rounding]),
            np.array([solution.bound + rounding]),
            distortion=distortion,
            missing=0.0,
            rounds=rounds,
        )
        fits = bool(high[0] <= rounds)
        lower[place], upper[place] = min(low[0], rounds), high[0] if fits else rounds
        method[place] = solution.method if fits else "cap"
    return lower, upper, method


def scale_spread(factors: Array, base: float) -> float:
    """(q_max/q_min)² for A_t = factors[t]·A against the constant base·A: how far apart the Δ² of the two can be.

    With ρ_t = Π_{u ≤ t} r_u/base the loop is that of base·A with noise and contributions of round t scaled by
    q_t = 1/ρ_t, and q_min⁻²·Q M Q ⪰ M̃ ⪰ q_max⁻²·Q M Q for the two quadratic forms.

    Guarantee: Δ²/spread ≤ Δ̃² ≤ spread·Δ², rounded up.
    """
    if not (factors[1:] > 0).all():
        return float("inf")
    logs = np.concatenate([[0.0], np.cumsum(np.log(factors[1:] / base))])
    return float(np.exp(min(2 * (logs.max() - logs.min()), 700.0)) * (1 + 1e-9))


def _noise_map(system: HiddenSystem, factors: Array) -> tuple[Array, float]:
    """N, a block for each round seen and each round of noise, and a bound of how far rounding puts it off in norm."""
    rounds, size, m = system.rounds, system.unknown.size, system.rows.shape[0]
    heights = [m] * (rounds - 1) + [system.last_rows.shape[0]]
    starts = np.concatenate([[0], np.cumsum(heights)])
    noise = np.zeros((int(starts[-1]), rounds * size))
    magnitude = 0.0
    for t in range(rounds):
        block = system.rows if t < rounds - 1 else system.last_rows
        above = np.abs(block)
        for s in range(t, -1, -1):
            noise[starts[t] : starts[t + 1], s * size : (s + 1) * size] = block
            magnitude += float((above**2).sum())
            if s:
                block = factors[s] * np.asarray((system.transition.T @ block.T).T)
                above = factors[s] * np.asarray((abs(system.transition).T @ above.T).T)
    longest = int(np.diff(system.transition.indptr).max(initial=1))
    return noise, 2 * _EPSILON * rounds * (longest + 4) * float(np.sqrt(magnitude))


def _reach(system: HiddenSystem, factors: Array) -> float:
    """A bound of ‖(I − Z A_t)⁻¹‖, by which an error in A or in the rows is multiplied: T times the largest product."""
    product = growth = 1.0
    for factor in factors[1:]:
        product = float(factor) * max(product, 1.0)
        growth = max(growth, product)
    return system.rounds * growth * (1.0 if system.symmetric else float(np.sqrt(system.unknown.size))) * 1.01


def _spectral_bound(system: HiddenSystem) -> float:
    """A bound of ‖A‖₂: at most √(‖A‖₁‖A‖_∞)."""
    size = abs(system.transition)
    columns, rows = float(size.sum(axis=0).max()), float(size.sum(axis=1).max())
    return float(np.sqrt(columns * rows) * (1 + 1e-12))
