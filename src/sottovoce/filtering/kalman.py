# SPDX-License-Identifier: Apache-2.0
"""The innovations form: Cholesky of the view's covariance is a Kalman filter, one small step a round.

    R_t = C P_t Cᵀ = L_t L_tᵀ;  K_t = P_t Cᵀ R_t⁻¹;  Φ_t = I − K_t C;  P_{t+1} = A Φ_t P_t Aᵀ + I,  P_1 = I.

The rows C are orthonormal and P_t ⪰ I, so R_t ⪰ I: no step is ever close to singular.

P_t is the covariance of what the observer does not know of s_t before it sees round t, in units of σ². In the code
A is `transition`, C `rows`, P `covariance`, K `gain` and L⁻¹C `whitener`. When gains are frozen is speed; `missing`
and `distortion` say what that and rounding cost.

Source: docs/mathematics.md, section 5; docs/proofs/filter.md, "Gains".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg.lapack import dtrtrs

from sottovoce.filtering.rounding import eigenvalue_ends, spread, terms, top_eigenvalue
from sottovoce.rounding import gamma, gamma_above, twice_above

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = [
    "FilterSizes",
    "Gains",
    "Settling",
    "as_products_are_fast",
    "filter_gains",
    "gain_distortion",
    "square",
    "whitener_error",
]

# Speed alone: a sparse product takes as long for one entry as a dense one for about so many.
DENSE = 32
# Speed alone: products that tell how large a matrix is at least.
POWERS = 4


@dataclass(frozen=True, kw_only=True)
class Settling:
    """When gains are kept for ever: once a round moves P by at most `within`, before round `earliest` by `before`.

    Speed alone: what is left out is counted in `Gains.missing`.
    """

    within: float
    earliest: float = 0
    before: float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Gains:
    """K_t and L_t⁻¹C for rounds 1, 2, … before the last; the final one stored holds for all rounds after it (`at`).

    `last_whitener` is L_T⁻¹C for round T, whose rows may be fewer. The filter is the optimal one for a noise
    covariance between (1 − `missing`)·I and I in every round, up to a two-sided `distortion` from rounding.

    `gain` is (k, r, m) and `whitener` (k, m, r) for k rounds that are stored, r states and m rows;
    `covariance_norm` ≥ ‖P_t‖₂ for all t; `frozen` says that the last gains stored are kept for ever.
    """

    gain: np.ndarray
    whitener: np.ndarray
    last_whitener: np.ndarray
    covariance_norm: float
    frozen: bool
    missing: float
    distortion: float

    def at(self, round_index: int) -> int:
        """Where the gains of the round with this 0-based index stand."""
        return min(round_index, len(self.gain) - 1)

    def settled_from(self, rounds: int) -> int:
        """The 0-based round from which on the gains no longer change (the last round, if they never settle)."""
        return len(self.gain) - 1 if self.frozen else rounds - 1


def filter_gains(
    transition: np.ndarray | csr_array,
    rows: np.ndarray,
    last_rows: np.ndarray,
    rounds: int,
    settling: Settling,
) -> Gains:
    """Run the filter over `rounds` rounds and keep its gains; freeze them when P has settled.

    Guarantee: up to rounding, the form M̂ of these gains obeys (1 − missing)·M̂ ⪯ M ⪯ M̂. Why: any gains give an
    invertible linear map of the observations; with P frozen they are optimal for noise I + E, E = P_t − P_{t+1},
    and −missing·I ⪯ E ⪯ 0 because P_t increases: freezing takes noise away, never adds it. What rounding changes is
    in `distortion` (see `gain_distortion`).
    Source: docs/proofs/filter.md, "What a distortion is" and "Gains".
    """
    size, m = transition.shape[0], rows.shape[0]
    # Speed alone: a product with a zero adds none to an error.
    moving = as_products_are_fast(transition)
    covariance = np.eye(size)
    gains, whiteners = [], []
    frozen, missing, added = False, 0.0, 0.0
    for t in range(rounds - 1):
        gain, whitener, filtered = _updated(covariance, rows)
        gains.append(gain)
        whiteners.append(whitener)
        # P_{t+1} = A (Φ_t P_t) Aᵀ + I.
        half = moving @ filtered
        following = moving @ half.T
        following = (following + following.T) / 2
        following.flat[:: size + 1] += 1.0
        moved = following - covariance
        # Speed alone: eigenvalues are worth their time once nothing says that one is larger.
        most = settling.within if t >= settling.earliest else settling.before
        if np.linalg.norm(moved) <= 8 * most and _reached(moved) <= most:
            low, high = eigenvalue_ends(moved)
            missing = max(-low, high)
            if missing <= most:
                # Where rounding lets P fall, noise is added.
                frozen, added = True, max(-low, 0.0)
                break
        covariance = following
    gain = np.array(gains).reshape(len(gains), size, m)
    # P_t grows with t, because P_2 ⪰ I = P_1 and the recursion is monotone: the last one has the largest norm.
    largest = top_eigenvalue(covariance)
    sizes = FilterSizes(
        transition=transition,
        covariance=covariance,
        norm=largest,
        gain=float(np.linalg.norm(gain, axis=(1, 2)).max(initial=0)),
    )
    return Gains(
        gain=gain,
        whitener=np.array(whiteners).reshape(len(gains), m, size),
        last_whitener=_updated(covariance, last_rows)[1],
        covariance_norm=largest,
        frozen=frozen,
        missing=missing if frozen else 0.0,
        distortion=added
        + max(
            _over_rounds(sizes, each, rounds)
            for each in ((rows,) if last_rows is rows else (rows, last_rows))
        ),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class FilterSizes:
    """A, the last P and its spectral norm, and the largest ‖K_t‖_F."""

    transition: np.ndarray | csr_array
    covariance: np.ndarray
    norm: float
    gain: float


def as_products_are_fast(transition: np.ndarray | csr_array) -> np.ndarray | csr_array:
    """A matrix as it is, or dense where that multiplies faster. Speed alone."""
    if isinstance(transition, np.ndarray) or transition.shape[0] ** 2 > DENSE * max(transition.nnz, DENSE):
        return transition
    return np.asarray(transition.toarray())


def gain_distortion(sizes: FilterSizes, rows: np.ndarray) -> float:
    """How far rounding in a filter with these rows changes the noise that it is optimal for, from above.

    P_t is the matrix as computed, K, L and S = L⁻¹CP_t are what it leads to in exact arithmetic; norms are
    Frobenius norms, p is the last ‖P‖₂, and μ = m + 3.

    * L̂L̂ᵀ = CP_tCᵀ + ΔR and L̂Ŝ = CP_t + ΔS, ‖ΔR‖ ≤ h = 2γ_c q + γ_μ tr(CPCᵀ) and ‖ΔS‖ ≤ s = γ_c σ + γ_μ‖L‖‖S‖,
      with c entries in the longest row of C, q ≥ ‖|C||P_t||Cᵀ|‖ and σ ≥ ‖|C||P_t|‖: a symmetric positive P_t has
      entries of at most d_i d_j, d² the diagonal of P. ŜᵀŜ is then off by at most 2κs + κ²h, κ = ‖K‖₂ ≤ √p, because
      R ⪰ I.
    * So P_{t+1} = AΦP_tAᵀ + I + E with ‖E‖ ≤ e = α²(2κs + κ²h + γ_μ‖S‖² + (2γ_k + 2γ_1)‖P‖) + γ_1‖P‖, k entries in
      the longest row of A and α ≥ ‖|A|‖: the exact recursion for noise I + E. It is monotone and homogeneous in the
      noise, so that every P_t is below (1 + e)/(1 − e) times the last.
    * A gain off by δK adds AδK·Cz_t to the state, noise of AδKL times what is shown: with the map from noise to
      what is shown within (1 − e)^{−½} in norm, that changes it by a factor within 1 ± g, g = α(s + κh +
      γ_μ‖L‖‖K‖).
    * The whitener is (I + H)L⁻¹C + Y but for a rotation, ‖H‖ ≤ h/2 and Y that of `whitener_error`. Of Y, YCᵀC =
      (YCᵀL)L⁻¹C is one more H.

    Guarantee: the result is e/2 + g + h/2 + ‖Y‖‖L‖, with room for products of these; infinite beyond a hundredth,
    where they would count. What is left of Y, Y(I − CᵀC), is not in it.
    Source: Higham, *Accuracy and Stability*, Theorems 8.5 and 10.3 and Section 3.5, with two roundings more for
    reciprocals of diagonals.
    """
    if rows.shape[0] == 0:
        return 0.0
    if not (sizes.covariance.diagonal() > 0).all():
        return np.inf
    P, absolute, K = sizes.covariance, np.abs(rows), min(sizes.gain, sizes.norm**0.5)
    alpha, longest = spread(sizes.transition), terms(sizes.transition)
    diagonal = np.sqrt(P.diagonal())
    trace, frobenius = float(diagonal @ diagonal), float(np.linalg.norm(P))
    solved, summed = gamma(len(rows) + 3), gamma(terms(rows))
    reach = float(np.linalg.norm(absolute @ diagonal))
    root = float(np.sqrt(((rows @ P) * rows).sum()))
    shown = min(trace, len(rows) * sizes.norm)
    h = 2 * summed * reach**2 + solved * root**2
    s = summed * min(reach * trace**0.5, spread(absolute) * frobenius) + solved * root * shown**0.5
    off = 2 * K * s + K**2 * h + solved * shown + gamma(2 * (longest + 1)) * frobenius
    e = alpha**2 * off + gamma(1) * frobenius
    g = alpha * (s + K * h + solved * root * sizes.gain)
    found = twice_above(e / 2 + g + h / 2 + whitener_error(P, rows) * root)
    return found if found <= 0.01 else np.inf


def whitener_error(covariance: np.ndarray, rows: np.ndarray) -> float:
    """‖Y‖ ≤ γ_μ m‖L‖: how far a whitener is from rows that L̂⁻¹C spans.

    A triangular solve errs by |Y| ≤ γ_μ|L̂⁻¹||L̂||L̂⁻¹C|, μ = m + 3, and ‖L̂⁻¹‖_F ≤ √m because R ⪰ I.

    Guarantee: upper bound.
    Source: Higham, *Accuracy and Stability*, Theorem 8.5; docs/proofs/filter.md, "Gains".
    """
    root = float(np.sqrt(((rows @ covariance) * rows).sum()))
    return gamma_above(len(rows) + 3) * len(rows) * root


def _over_rounds(sizes: FilterSizes, rows: np.ndarray, rounds: int) -> float:
    """The distortion of a filter that is run: what Y has beside C meets states of norm at most √p·‖c‖ in T rounds.

    There is nothing beside C where it has m columns that are not 0, as in a Krylov space.

    Guarantee: upper bound, infinite where `gain_distortion` is.
    """
    found = gain_distortion(sizes, rows)
    if int(rows.any(axis=0).sum()) > len(rows):
        found += whitener_error(sizes.covariance, rows) * (sizes.norm * rounds) ** 0.5
    return found


def square(rows: np.ndarray) -> np.ndarray:
    """XᵀX of a few rows X.

    Speed alone: of one row every entry is one product, the same number as from a product of matrices.
    """
    return np.asarray(rows.T * rows if len(rows) == 1 else rows.T @ rows)


def _reached(matrix: np.ndarray) -> float:
    """‖X^k v‖/‖X^{k−1}v‖ for some v and k, nearly ‖X‖₂ and not above it but for rounding; 0 where it underflows.

    Guarantee: none: a guess, which says whether eigenvalues are worth their time.
    """
    state = matrix[:, int(np.argmax(np.abs(matrix.diagonal())))]
    for _ in range(POWERS):
        state = matrix @ (state / max(float(np.linalg.norm(state)), 1e-300))
    return float(np.linalg.norm(state))


def _updated(covariance: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gain, whitened rows and the covariance after seeing `rows` of the state.

        L Lᵀ = C P Cᵀ,   D = L⁻¹C,   K = P Cᵀ(L Lᵀ)⁻¹,   P − K C P = P − SᵀS,   S = L⁻¹C P

    Shapes: `rows` m × r; gain r × m, whitened rows m × r, covariance r × r.

    Guarantee: plain floats: `gain_distortion` measures what the gains are off by, whatever they are.
    """
    if rows.shape[0] == 0:
        return rows.T, rows, covariance
    seen = rows @ covariance
    root = np.linalg.cholesky(seen @ rows.T)
    # S = L⁻¹ C P, so that K = Sᵀ L⁻¹ and Φ P = P − SᵀS.
    whitened = dtrtrs(root, seen, lower=True)[0]
    whitener = dtrtrs(root, rows, lower=True)[0]
    gain = dtrtrs(root, whitened, lower=True, trans=1)[0].T
    return gain, whitener, covariance - square(whitened)
