# SPDX-License-Identifier: Apache-2.0
"""Δ² over a horizon of any length, proved without a T × T matrix, by the bounded-real recursion.

diag(y) ≻ M = FᵀF holds exactly when, backwards from V_T = 0,

    N_t = CᵀR_t⁻¹C + Φ_tᵀ V_t Φ_t;  s_t = y_t − bᵀ N_t b > 0;  V_{t−1} = Aᵀ N_t A + (Aᵀ N_t b)(Aᵀ N_t b)ᵀ / s_t

for all t. Once the filter is steady a constant y = ρ above sup φ has a fixed point V, and V ⪰ f(V), one small matrix
inequality, proves every settled round at once: the cost does not depend on T.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from sottovoce.filtering.riccati import doublings
from sottovoce.interval import UNIT_ROUNDOFF

if TYPE_CHECKING:
    from sottovoce.filtering import ClosedLoop
    from sottovoce.sensitivities.long_horizons.model import TargetModel

__all__ = ["is_proved", "settled_value", "walks_back"]

# Room for rounding in the inequality of the settled rounds, relative to their rate; the least that suffices is taken.
ROOMS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4)


def _weight(model: TargetModel, value: np.ndarray, k: int) -> np.ndarray:
    """N = CᵀR⁻¹C + ΦᵀVΦ with the gains of round k."""
    turned = value - (value @ model.gains[k]) @ model.rows
    turned -= model.rows.T @ (model.gains[k].T @ turned)
    return np.asarray((turned + turned.T) / 2 + model.whiteners[k].T @ model.whiteners[k])


def backward_step(model: TargetModel, value: np.ndarray, k: int, y: float) -> tuple[np.ndarray, float, float]:
    """One backward step under y: f(V), the slack s (rounding taken off) and a bound of the rounding error of f(V)."""
    weight = _weight(model, value, k)
    pulled = model.transition.T @ weight
    seen = pulled @ model.source
    unit = 16 * UNIT_ROUNDOFF * (len(value) + len(model.rows) + 8) * model.stretch
    weight_error = (
        unit * (1 + float(np.linalg.norm(model.gains[k]))) ** 2 * (1 + float(np.linalg.norm(value)))
    )
    gap = y - float(model.source @ weight @ model.source) - weight_error
    if gap <= 0:
        return value, gap, 0.0
    before = pulled @ model.transition + np.outer(seen, seen) / gap
    reach = float(seen @ seen) / gap
    error = 4 * weight_error * (1 + reach / gap + 2 * reach) + unit * (1 + reach)
    return (before + before.T) / 2, gap, error


def settled_value(model: TargetModel, rate: float) -> np.ndarray | None:
    """V with V ⪰ f(V) under the steady gains and y = rate, proved; None if none is found."""
    for room in ROOMS:
        value = _settled_candidate(model, rate, room * rate)
        if value is None:
            return None
        mapped, gap, error = backward_step(model, value, -1, rate)
        if gap <= 0:
            continue
        margin = error + 16 * UNIT_ROUNDOFF * len(value) * float(np.trace(value) + np.trace(mapped))
        try:
            linalg.cholesky(value - mapped - margin * np.eye(len(value)), lower=True)
        except linalg.LinAlgError:
            continue
        return value
    return None


def _settled_candidate(model: TargetModel, rate: float, room: float) -> np.ndarray | None:
    """V that satisfies the inequality of the settled rounds strictly, in exact arithmetic; None where ρ is below sup φ.

    N = L⁻¹C'L⁻¹C + θI + B'NB + B'Nb b'NB/(ρ − b'Nb), B = AΦ, is solved by doubling, and V = A'NA + A'Nb b'NA/s + θ'I:
    then N(V) ⪯ N as long as θ'‖Φ‖² ≤ θ, so f(V) ⪯ V − θ'I.
    """
    weight = _doubled(model.closed, model.source, rate, room)
    if weight is None:
        return None
    gap = rate - float(model.source @ weight @ model.source)
    if gap <= 0:
        return None
    pulled = model.transition.T @ weight
    seen = pulled @ model.source
    value = pulled @ model.transition + np.outer(seen, seen) / gap
    turning = 1 + float(np.linalg.norm(model.gains[-1], 2))
    return np.asarray((value + value.T) / 2 + room / (2 * turning**2) * np.eye(len(value)))


def _doubled(closed: ClosedLoop, source: np.ndarray, rate: float, room: float) -> np.ndarray | None:
    """The limit of the recursion N ← Q + B'NB + B'Nb b'NB/(ρ − b'Nb) from 0, by doubling; None if it blows up."""
    weight = closed.whitener.T @ closed.whitener + room * np.eye(closed.size)
    try:
        for found, added in doublings(closed.loop, -np.outer(source, source) / rate, weight, most=60):
            if not np.isfinite(found).all() or np.trace(found) > 1e12 or np.trace(added) < -room:
                return None
            if np.linalg.norm(added) <= 1e-14 * np.linalg.norm(found):
                return found
    except np.linalg.LinAlgError:
        pass
    return None


def walks_back(model: TargetModel, value: np.ndarray, y: np.ndarray) -> bool:
    """Whether the recursion, from V = `value`, accepts the first rounds under y, each with its own gains."""
    identity = np.eye(len(value))
    for k in range(len(y) - 1, -1, -1):
        value, gap, error = backward_step(model, value, min(k, len(model.gains) - 1), y[k])
        if not gap > 0:
            return False
        value = value + error * identity
    return True


def is_proved(model: TargetModel, y: np.ndarray) -> bool:
    """Whether diag(y) ⪰ M for the model over len(y) rounds, by the recursion from V = 0; True is a proof."""
    return walks_back(model, np.zeros_like(model.transition), y)
