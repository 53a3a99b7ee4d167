# SPDX-License-Identifier: Apache-2.0
"""Δ² over a horizon of any length, proved without a T × T matrix, by the bounded-real recursion.

diag(y) ≻ M = FᵀF holds exactly when, backwards from V_T = 0,

    N_t = CᵀR_t⁻¹C + Φ_tᵀ V_t Φ_t;  s_t = y_t − bᵀ N_t b > 0;  V_{t−1} = Aᵀ N_t A + (Aᵀ N_t b)(Aᵀ N_t b)ᵀ / s_t

for all t. Once the filter is steady a constant y = ρ above sup φ has a fixed point V, and V ⪰ f(V), one small
matrix inequality, proves every settled round at once: the cost does not depend on T.

xᵀV_t x is the most that rounds after t can still show beyond Σ y_u c_u², from the state x after round t: a
game against the best stream, solved backwards. A = `transition`, C = `rows`, b = `source`, K_t = `gains`,
D_t = `whiteners`, with DᵀD = CᵀR⁻¹C and Φ = I − KC; V is `value`, N is `weight`, s is `gap`, AᵀN is
`pulled` and AᵀNb is `seen`.

Soundness: `backward_step` and `_is_above`. Speed: how V and y are guessed (`_settled_candidate`, `_doubled`).
Source: docs/mathematics.md, section 7; docs/proofs/bounded-real.md; docs/proofs/spectra.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from sottovoce.filtering import doublings
from sottovoce.sensitivities.rounding import definiteness_margin, form_error, norm, slack_error, weight_error

if TYPE_CHECKING:
    from sottovoce.filtering import ClosedLoop
    from sottovoce.sensitivities.long_horizons.model import TargetModel

__all__ = ["is_proved", "settled_value", "walks_back"]

# Speed alone: how far V stands above its fixed point, relative to the rate; the least that is proved is taken.
ROOMS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4)


def backward_step(model: TargetModel, value: np.ndarray, k: int, y: float) -> tuple[np.ndarray, float]:
    """One backward step under y with the gains of round k: a matrix above f(V), and a slack below s.

    Guarantee: for the model as stored and V as stored, symmetric. xᵀf(V)x = max_c (Ax + bc)ᵀN(Ax + bc) − yc² grows
    with N, so that N and then f(V) are raised by multiples of I that cover what rounding did to them. A slack that
    is not positive says nothing, nor does the matrix beside it.
    Source: docs/proofs/bounded-real.md.
    """
    gain, whitener, source = model.gains[k], model.whiteners[k], model.source
    # N = DᵀD + ΦᵀVΦ, Φ = I − KC
    turned = value - (value @ gain) @ model.rows
    weight = turned - model.rows.T @ (gain.T @ turned)
    weight = (weight + weight.T) / 2 + whitener.T @ whitener
    turn = norm(gain) * model.reading
    weight.flat[:: len(weight) + 1] += weight_error(value, turned, weight, whitener, turn)
    # s = y − bᵀNb, f(V) = AᵀNA + (AᵀNb)(AᵀNb)ᵀ/s
    length = norm(source)
    gap = y - float(source @ (weight @ source)) - slack_error(weight, length**2, y)
    if not gap > 0:
        return value, gap
    pulled = model.transition.T @ weight
    seen = pulled @ source
    before = pulled @ model.transition + np.outer(seen, seen) / gap
    before = (before + before.T) / 2
    before.flat[:: len(before) + 1] += form_error(weight, pulled, seen, before, (model.stretch, length, gap))
    return before, gap


def settled_value(model: TargetModel, rate: float) -> np.ndarray | None:
    """V with V ⪰ f(V) and V ⪰ 0 under the steady gains and y = rate, proved; None if none is found.

    Guarantee: then V bounds the recursion from V_T = 0 in every settled round: f(V_t) ⪯
    f(V) ⪯ V as long as V_t ⪯ V.
    Source: docs/proofs/bounded-real.md.
    """
    for room in ROOMS:
        value = _settled_candidate(model, rate, room * rate)
        if value is None:
            return None
        mapped, gap = backward_step(model, value, -1, rate)
        if gap > 0 and _is_above(value, np.zeros_like(value)) and _is_above(value, mapped):
            return value
    return None


def _is_above(upper: np.ndarray, lower: np.ndarray) -> bool:
    """Whether X ⪰ Y for symmetric matrices as stored; True is a proof (see `definiteness_margin`).

    Guarantee: True is a proof for the matrices as stored; the margin covers the subtraction and the factorisation.
    Source: docs/proofs/spectra.md, "One matrix above another".
    """
    rest = upper - lower
    diagonal = float(np.abs(upper.diagonal()).sum() + np.abs(lower.diagonal()).sum())
    rest.flat[:: len(rest) + 1] -= definiteness_margin(len(rest), diagonal)
    try:
        linalg.cholesky(rest, lower=True, overwrite_a=True)
    except linalg.LinAlgError:
        return False
    return True


def _settled_candidate(model: TargetModel, rate: float, room: float) -> np.ndarray | None:
    """V that satisfies the inequality of settled rounds strictly, in exact arithmetic; None where ρ is below sup φ.

    N = L⁻¹C'L⁻¹C + θI + B'NB + B'Nb b'NB/(ρ − b'Nb), B = AΦ, is solved by doubling, and V = A'NA + A'Nb b'NA/s +
    θ'I: then N(V) ⪯ N as long as θ'‖Φ‖² ≤ θ, so f(V) ⪯ V − θ'I.

    A guess in floats: `settled_value` proves it or drops it.
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
    """The limit of the recursion N ← Q + B'NB + B'Nb b'NB/(ρ − b'Nb) from 0, by doubling; None if it blows up.

        N ← Q + B'NB + B'Nb b'NB/(ρ − b'Nb),   step k of the doubling being step 2ᵏ of this

    `room` is added to Q, so that the limit is a little above the true one and one step of the recursion stays below
    it.

    Guarantee: none: whether what is found is a fixed point from above is checked by `_is_above`.
    """
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
    """Whether the recursion, from V = `value`, accepts the first rounds under y, each with its own gains.

    Guarantee: True proves s_t > 0 for these rounds if `value` bounds V_t of the round after them, for the model
    as stored. False says nothing, since V is raised in each step.
    Source: docs/proofs/bounded-real.md.
    """
    # V_{t−1} = f(V_t) under y_t, raised
    for k in range(len(y) - 1, -1, -1):
        value, gap = backward_step(model, value, min(k, len(model.gains) - 1), y[k])
        if not gap > 0:
            return False
    return True


def is_proved(model: TargetModel, y: np.ndarray) -> bool:
    """Whether diag(y) ⪰ M for the model over len(y) rounds, by the recursion from V = 0; True is a proof.

    Guarantee: for the model as stored, rounding included; the last round is taken to show all rows.
    Source: docs/proofs/bounded-real.md.
    """
    return walks_back(model, np.zeros_like(model.transition), y)
