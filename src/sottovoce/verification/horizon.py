# SPDX-License-Identifier: Apache-2.0
"""A bound for any number of rounds: a recursion through the start, one inequality for all that follows.

Of the model z_t = A z_{t−1} + b c_t + noise, seen through C (`reduction.Model`: its H is A here, its D is C), M =
FᵀF where F whitens what is seen. A Kalman filter is that whitening, done round by round:

    R_t = C P_t Cᵀ,  Φ_t = I − P_t Cᵀ R_t⁻¹ C,  (F c)_t = R_t^{-½} C z_t,  z_{t+1} = A Φ_t z_t + b c_{t+1}.

diag(y) ⪰ M says that Σ y_t ‖c_t‖² − ‖F c‖² is never negative. Going backwards, V_t is what the state after round t
can still contribute at most, and s_t what is left of y_t. All s_t > 0 is the proof; nothing T × T appears. T
thousand or a million makes no difference, because after the start the filter has settled and one inequality serves
all rounds.

Names: `information` is CᵀR⁻¹C, `keep` is Φ, `mapped` and `before` are V_{t−1}. Rounding is counted in norms: of a
product of two matrices with inner dimension k by γ_k times the product of Frobenius norms (Higham, Section 3.5),
with g = 2γ_{r+m+4} standing for all products of a round, which have inner dimensions r and m.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from sottovoce.errors import NotCertified
from sottovoce.verification.rounding import MOST_DEFECT, above, gamma, inverted, roundings
from sottovoce.verification.spectra import frobenius, is_above, largest_eigenvalue

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sottovoce.certificates import HorizonProof
    from sottovoce.verification.reduction import Model

__all__ = ["Filtered", "affordable", "dominates", "filtered"]

# Products of matrices that one check may take: rounds of the start times states to the third power.
MOST_WORK = 2e10
# Room in the inequality of later rounds, relative to the rate, for rounding; the least that suffices is taken. It
# shapes the candidate V and is no tolerance: V ⪰ f(V) is proved for the V that is used.
_ROOMS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Gain:
    """One round of the filter: CᵀR⁻¹C and Φ = I − PCᵀR⁻¹C, with bounds of the norm of the rounding in each.

    `error` bounds ‖information − CᵀR⁻¹C‖ and `keep_error` bounds ‖keep − Φ‖, R and Φ being exact for the stored P.
    """

    information: NDArray[np.float64]
    keep: NDArray[np.float64]
    error: float
    keep_error: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Filtered:
    """The gains of rounds 1..τ+1 of a model, exact for noise at most 1 + `excess` times as large.

    The gain of round τ + 1 is used in all rounds after it, as if the filter stood still from there on.
    """

    model: Model
    gains: list[_Gain]
    excess: float


def affordable(states: int, start: int) -> bool:
    """Whether a filter of so many states is run through so many rounds here.

    Guarantee: none about Δ²; it keeps a check from running for hours.
    """
    return (start + 1) * states**3 <= MOST_WORK


def filtered(model: Model, start: int) -> Filtered:
    """The filter of a model through `start` + 1 rounds, the last gain to be kept for ever.

        R_t = C P_t Cᵀ,  Φ_t = I − P_t Cᵀ R_t⁻¹ C,  P_{t+1} = A Φ_t P_t Aᵀ + I,  P_1 = I

    Guarantee: gains that are frozen, or rounded, are the exact filter of noise I + E_t with E_t the difference of
    the two sides of the recursion, as stored. Noise at most (1 + e) times as large hides at most so much more: M ⪯
    (1 + e) M', e = max λ_max(E_t).

    In the rounds of the start E_t is rounding alone, at most `rounding`. When the gain is frozen, P is kept
    although the recursion would go on to `following`; E = P − following, whose largest eigenvalue is at most `drift`.
    I + E need not be positive: all that is used is R_t ≻ 0, which P ⪰ (1 − `rounding`)I gives by induction.
    Source: Anderson and Moore, Optimal Filtering (1979), Ch. 4; monotony of M in the noise is data processing.
    """
    A, C = model.transition, model.rows
    m, r = C.shape
    if not affordable(r, start):
        raise NotCertified(f"a start of {start} rounds with {r} states takes more work than is done here")
    g = 2 * gamma(r + m + 4)
    size_A, size_C, stretch, width = frobenius(A), frobenius(C), _spectral(A), _spectral(C)
    P, excess, gains = np.eye(r), 0.0, []
    for t in range(start + 1):
        size_P = frobenius(P)
        H, spread = P @ C.T, np.abs(P) @ np.abs(C.T)
        R = C @ H
        H_error, R_error = g * frobenius(spread), g * frobenius(np.abs(C) @ spread)
        inverse = _guessed_inverse((R + R.T) / 2)
        size_X = frobenius(inverse)
        # ‖R⁻¹ − X‖ ≤ ‖X‖ρ/(1 − ρ) with ρ ≥ ‖I − X R‖ for the exact R.
        rho = frobenius(np.eye(m) - inverse @ R) + size_X * (g * frobenius(R) + 2 * R_error)
        if not rho <= MOST_DEFECT:
            raise NotCertified("the innovations of the model cannot be told from rounding: not checked here")
        inverse_error = inverted(size_X) * rho
        through = H @ inverse
        size_H = frobenius(H)
        through_error = (size_H + H_error) * (inverse_error + g * size_X) + inverted(H_error) * size_X
        keep = np.eye(r) - through @ C
        keep_error = through_error * width + g * (1 + frobenius(through) * size_C)
        gains.append(
            _Gain(
                information=C.T @ inverse @ C,
                keep=keep,
                error=width**2 * inverse_error + 2 * g * size_C**2 * size_X,
                keep_error=keep_error,
            )
        )
        kept = keep @ P
        following = A @ kept @ A.T + np.eye(r)
        following = (following + following.T) / 2
        rounding = stretch**2 * size_P * (
            keep_error + g * frobenius(keep)
        ) + 4 * g * stretch * size_A * frobenius(kept)
        rounding += 2 * g * frobenius(following)
        # P stays definite while rounding takes less than half of the I that each round adds.
        if not rounding <= 0.5:
            raise NotCertified("rounding may hide too much of the filter of the model: not checked here")
        drift = 0.0
        if t == start:
            apart = P - following
            drift = max(0.0, largest_eigenvalue(apart) + roundings(1) * frobenius(apart))
        excess = max(excess, drift + rounding)
        P = following
    return Filtered(model=model, gains=gains, excess=above(excess))


def dominates(found: Filtered, proof: HorizonProof) -> str:
    """Why y = (start, rate, rate, …) is not proved to dominate the model's form; empty if it is.

        N_t = Cᵀ R_t⁻¹ C + Φ_tᵀ V_t Φ_t,  s_t = y_t − bᵀ N_t b > 0,
        V_{t−1} = Aᵀ N_t A + (Aᵀ N_t b)(Aᵀ N_t b)ᵀ / s_t,   from V_τ = V down to t = 1.

    After round τ the gains stay those of round τ + 1. There one inequality, V ⪰ (right-hand side at V) with
    s > 0, holds every V_t below V by induction from V_T = 0, because the right-hand side is monotone in V. V itself
    is found here.

    Guarantee: if the answer is empty, ‖Fc‖² ≤ Σ y_t ‖c_t‖² for the model with the gains of `found`, for every T > τ
    and every dimension of contributions. Rounding moves N_t and V_t up and s_t down.
    Source: the finite-horizon bounded-real lemma; Green and Limebeer, Linear Robust Control (1995), Ch. 3.
    """
    model = found.model
    bound, failure = None, "no V was found"
    for room in _ROOMS:
        V = _candidate(model, found.gains[-1], proof.rate, room * proof.rate)
        if V is None:
            break
        mapped, s = _step(model, found.gains[-1], V, proof.rate)
        if not s > 0:
            failure = f"s = {s:.3g} in later rounds"
        elif is_above(V - mapped, roundings(4) * (frobenius(V) + frobenius(mapped))) and is_above(V):
            bound = V
            break
        else:
            failure = f"V does not cover later rounds with room {room:g}"
    if bound is None:
        return f"the rate {proof.rate:.12g} is too small: {failure}"
    V = bound
    for t in range(proof.start.size, 0, -1):
        V, s = _step(model, found.gains[t - 1], V, float(proof.start[t - 1]))
        if not s > 0:
            return f"y is too small in round {t}: s = {s:.3g}"
    return ""


def _guessed_inverse(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The inverse as computed, or zeros where there is none.

    Guarantee: none: ‖I − XR‖ is measured of whatever is returned.
    """
    try:
        return np.asarray(linalg.inv(matrix, check_finite=False))
    except linalg.LinAlgError:
        return np.zeros_like(matrix)


@np.errstate(all="ignore")
def _candidate(model: Model, gain: _Gain, rate: float, room: float) -> NDArray[np.float64] | None:
    """A V that should satisfy the inequality of later rounds; None where there is none. What it is worth is checked.

    What overflows on the way ends in None, or in a V that proves nothing.

    It solves the inequality as an equation with `room` more information than there is, so that the true one holds
    with room to spare.
    """
    A, b = model.transition, model.source
    r = b.size
    Q = (gain.information + gain.information.T) / 2 + room * np.eye(r)
    N = _fixed_point(A @ gain.keep, b, Q, rate)
    s = -1.0 if N is None else rate - float(b @ N @ b)
    if N is None or s <= 0:
        return None
    g = A.T @ N @ b
    V = A.T @ N @ A + np.outer(g, g) / s
    return np.asarray((V + V.T) / 2 + room / (2 * (1 + np.linalg.norm(gain.keep, 2)) ** 2) * np.eye(r))


def _fixed_point(
    B: NDArray[np.float64], b: NDArray[np.float64], Q: NDArray[np.float64], rate: float
) -> NDArray[np.float64] | None:
    """N = Q + Bᵀ N B + Bᵀ N b bᵀ N B / (rate − bᵀ N b), the smallest, by doubling; None where it runs away.

    Source: Anderson, Second-order convergent algorithms for the steady-state Riccati equation (1978).
    """
    r = b.size
    step, gain, N = B, -np.outer(b, b) / rate, Q
    for _ in range(60):
        try:
            moved, spread = np.split(
                np.linalg.solve(np.eye(r) + gain @ N, np.hstack([step, gain])), 2, axis=1
            )
        except np.linalg.LinAlgError:
            return None
        more = step.T @ N @ moved
        gain = gain + step @ spread @ step.T
        step = step @ moved
        N = N + (more + more.T) / 2
        size = float(np.linalg.norm(more))
        if not np.isfinite(size) or size > 1e12 or float(np.trace(more)) < -float(np.trace(Q)):
            return None
        if size <= 1e-14 * float(np.linalg.norm(N)):
            return np.asarray(N)
    return None


def _step(model: Model, gain: _Gain, V: NDArray[np.float64], y: float) -> tuple[NDArray[np.float64], float]:
    """An upper bound of V_{t−1} and a lower bound of s_t; the bound is 0 where s_t is not positive.

        N = CᵀR⁻¹C + ΦᵀVΦ,   s = y − bᵀN b,   w = AᵀN b,   V_{t−1} = AᵀN A + w wᵀ/s.

    Everything is monotone in V and N, so bounds are added as multiples of I: to N for the errors of the gain and of
    two products, to V_{t−1} for those of three products and of w, which is off by `w_error`. s is lowered by 4g of
    its parts.

    Guarantee: V_{t−1} exact for the exact gains and any V' ⪯ V is below the result, and its s not below s.
    """
    A, b = model.transition, model.source
    m, r = model.rows.shape
    g = 2 * gamma(r + m + 4)
    size_V, size_keep, size_A, size_b = frobenius(V), frobenius(gain.keep), frobenius(A), frobenius(b)
    error = gain.error + size_V * (
        2 * g * size_keep**2 + 2 * gain.keep_error * size_keep + gain.keep_error**2
    )
    N = gain.information + gain.keep.T @ V @ gain.keep
    N = (N + N.T) / 2 + (above(error) + g * (frobenius(gain.information) + size_V * size_keep**2)) * np.eye(r)
    size_N = frobenius(N)
    s = y - float(b @ N @ b)
    s -= 4 * g * (size_N * size_b**2 + abs(y))
    if not s > 0:
        return np.zeros_like(V), s
    w = A.T @ (N @ b)
    w_error = 2 * g * size_A * size_N * size_b
    size_w = frobenius(w)
    before = A.T @ N @ A + np.outer(w, w) / s
    allowance = 3 * g * size_A**2 * size_N + (2 * size_w * w_error + w_error**2 + g * size_w**2) / s
    return (before + before.T) / 2 + above(allowance) * np.eye(r), s


def _spectral(matrix: NDArray[np.float64]) -> float:
    """An upper bound of the spectral norm."""
    return above(float(np.sqrt(np.linalg.norm(matrix, 1) * np.linalg.norm(matrix, np.inf))))
