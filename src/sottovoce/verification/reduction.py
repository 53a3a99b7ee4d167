# SPDX-License-Identifier: Apache-2.0
"""A small model of the hidden nodes, made here from the graph, with a proved bound of what it leaves out.

The hidden nodes s_t = A s_{t−1} + x_t + u_t, seen through C, are modelled by z_t = H z_{t−1} + Qᵀ(x_t + u_t), seen
through D, with Q from block Arnoldi on Aᵀ started from Cᵀ. Over T rounds let Z be the shift by one round,
S = (I − Z ⊗ A)⁻¹, N = C S, P the projector on the row space of N, and Θ = L⁻¹ D (I − Z ⊗ H)⁻¹ the whitened map of
the model, Θ Θᵀ = I. With the residuals R₀ = C − D Qᵀ and R = Qᵀ A − H Qᵀ,

    Θ Qᵀ = L⁻¹ N − (L⁻¹ R₀ + Θ Z R) S,   so   ‖Θ Qᵀ (I − P)‖ ≤ (‖L⁻¹‖ ‖R₀‖ + ‖Θ Z R‖) ‖S (I − P)‖ = d.

Both row spaces have the same dimension. So the projectors on them differ by at most d/√(1 − η), η ≥ ‖QᵀQ − I‖, and
for contributions c of target j

    ‖P e_j c‖ ≤ (‖Θ Qᵀ e_j c‖ + d ‖c‖) / √(1 − η).

The left side squared is what the graph's observer learns; the first term on the right, what the model's does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.errors import NotCertified
from sottovoce.verification.rounding import above, closely_above, gamma, roundings
from sottovoce.verification.spectra import frobenius, least_singular, norm_above, skewness

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sottovoce.verification.hidden import HiddenNodes

__all__ = ["Model", "distortion", "models"]

# States of a model: the filter takes r³ operations a round, and the proof of its inequality as many.
MOST_STATES = 400
# Floats of Q, nodes × states: 320 MB.
MOST_NUMBERS = 40_000_000
# The first model has so many states, and each further one twice as many as the last.
_FIRST_STATES = 32
# Powers of A_K that are summed one by one, and squarings after which they must be below ½: more would prove nothing.
_MOST_POWERS = 4000
_MOST_DOUBLINGS = 16
# Steps towards a good K, and towards leading vectors. Both are choices on which no bound rests.
_SETTLING = 300
_PERRON_STEPS = 300
# A node that nothing reaches would have no weight in a leading vector; a floor keeps the weights comparable.
_FLOORS = (1e-200, 1e-6, 1e-4, 1e-2, 0.3)


@dataclass(frozen=True, kw_only=True, eq=False)
class Model:
    """z_t = H z_{t−1} + b c_t + noise of covariance I, seen through D, and bounds of what it leaves out.

    R is at most `leak` in the rows from `closed` on, whose images are not in the model, and `residual` in the
    others; R₀ is at most `row_residual`, ‖S‖ at most `growth` and ‖QᵀQ − I‖ at most `skew`.
    """

    transition: NDArray[np.float64]
    rows: NDArray[np.float64]
    source: NDArray[np.float64]
    closed: int
    leak: float
    residual: float
    row_residual: float
    growth: float
    skew: float


def models(hidden: HiddenNodes, rounds: int) -> Iterator[Model]:
    """Models of growing size; the last one has all states, or as many as are affordable.

    Block Arnoldi: Aᵀ is applied to the columns of Q one by one, and what is new joins Q. `closed` columns have had
    their turn, so for these Aᵀ q lies in the span of Q but for rounding, and R is tiny; for the others it is what
    leaks out.

    Guarantee: the bounds of `Model` hold for the exact rationals behind `hidden`, over `rounds` rounds. No number
    of a certificate has a part in them. How Q came about does not matter: its residuals are measured afterwards.
    Source: Saad, Iterative Methods for Sparse Linear Systems, Ch. 6, for Arnoldi with reorthogonalisation.
    """
    m, n = hidden.rows.shape
    most = min(n, MOST_STATES, MOST_NUMBERS // n)
    if most < min(n, 2 * m):
        raise NotCertified(
            f"a view of {m} rows over {n} hidden nodes is too large to be reduced here (take a smaller view, or at "
            "most 2048 rounds)"
        )
    growth = _growth(hidden, rounds)
    transposed = hidden.transition.T.tocsr()
    Q = np.zeros((n, most))
    Q[:, :m] = np.linalg.qr(hidden.rows.T)[0]
    size, closed = m, 0
    limit = min(most, max(_FIRST_STATES, 4 * m))
    while True:
        while size < limit and closed < size:
            vector = transposed @ Q[:, closed]
            before = float(np.linalg.norm(vector))
            vector = _cleared(Q[:, :size], vector)
            if np.linalg.norm(vector) > 1e-13 * max(before, 1e-3):
                vector = _cleared(Q[:, :size], vector / np.linalg.norm(vector))
                Q[:, size] = vector / np.linalg.norm(vector)
                size += 1
            closed += 1
        yield _model(hidden, Q[:, :size], closed, growth)
        if closed == size or limit == most:
            return
        limit = min(most, 2 * limit)


def _cleared(Q: NDArray[np.float64], vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """The vector without its part in the columns of Q, twice over."""
    for _ in range(2):
        vector = vector - Q @ (Q.T @ vector)
    return vector


def _model(hidden: HiddenNodes, Q: NDArray[np.float64], closed: int, growth: float) -> Model:
    """The model on the columns of Q, with its residuals measured and their rounding added.

        H = QᵀA Q,   D = C Q,   R = QᵀA − H Qᵀ,   R₀ = C − D Qᵀ

    Guarantee: `doubt` and `lost` bound what rounding hides of R and R₀, entry by entry; that Q has orthonormal
    columns is not believed either, but measured.
    Source: docs/proofs/checks.md.
    """
    A, C = hidden.transition, hidden.rows
    r = Q.shape[1]
    D = C @ Q
    image = (A.T @ Q).T
    H = image @ Q
    R = image - H @ Q.T
    # R = Qᵀ A − H Qᵀ and R₀ = C − D Qᵀ, as computed; `doubt` and `lost` bound what rounding hides of them.
    # Entry (i, k) of Qᵀ A rounds by γ times Σ |Q_ji A_jk|, and A itself is known to `relative` units.
    lengths = np.diff(A.tocsc().indptr)
    doubt = (abs(A).T @ np.abs(Q)).T * roundings(2.1 * (lengths + 2 + hidden.relative))
    doubt += 2 * gamma(r + 2) * (np.abs(H) @ np.abs(Q.T))
    R0 = C - D @ Q.T
    lost = 2 * gamma(r + 2) * (np.abs(D) @ np.abs(Q.T))
    lost += roundings(2 * hidden.relative) * np.abs(C)
    return Model(
        transition=H,
        rows=D,
        source=np.array(Q[hidden.target]),
        closed=closed,
        leak=frobenius(np.abs(R[closed:]) + doubt[closed:]),
        residual=frobenius(np.abs(R[:closed]) + doubt[:closed]),
        row_residual=frobenius(np.abs(R0) + lost) + above(hidden.turned),
        growth=growth,
        skew=skewness(Q.T),
    )


def _growth(hidden: HiddenNodes, rounds: int) -> float:
    """An upper bound of ‖S (I − P)‖ over `rounds` rounds.

    For any K, S (I − P) = (I − Z ⊗ (A − K C))⁻¹ (I − P), because what C shows of the states is in the rows of N. So
    columns of nodes that are seen alone, and rows of nodes whose inflow is seen, may be cleared. With Π the
    projector on the nodes of neither kind, powers of the cleared matrix are at most ‖A‖² ‖(Π A Π)ᵏ⁻²‖, and

        ‖S (I − P)‖ ≤ 1 + ‖A‖ + ‖A‖² Σ_{k < T} ‖(Π A Π)ᵏ‖.

    Guarantee: an upper bound. 1.0001 covers the rounding of row and column sums and `relative` units of A.
    """
    size = abs(hidden.transition)
    rest = np.ones(size.shape[0], dtype=bool)
    rest[[*hidden.alone, *hidden.received]] = False
    norm = closely_above(float(np.sqrt(size.sum(axis=0).max() * size.sum(axis=1).max())))
    return 1 + norm + norm**2 * _summed(size[rest][:, rest], hidden.relative, rounds)


def _summed(size: Any, relative: int, rounds: int) -> float:  # noqa: ANN401
    """An upper bound of Σ_{k < T} ‖Aᵏ‖₂ for every |A| ≤ `size` (known to `relative` units).

    ‖Aᵏ‖₂ ≤ √n ‖Aᵏ‖_∞; and with positive x, y and E = diag(√(x/y)) the Schur test gives
    ‖E⁻¹ A E‖₂² ≤ max(|A|x / x)·max(|A|ᵀy / y) = ρ², so ‖Aᵏ‖₂ ≤ (max E / min E) ρᵏ.
    Vectors near the leading ones make ρ nearly the spectral radius.
    """
    if not size.nnz:
        return 1.0
    longest = max(int(np.diff(matrix.indptr).max(initial=1)) for matrix in (size, size.tocsc()))
    rounding = 1 + 4 * gamma(longest + 2) + roundings(2 * relative)
    found = [_geometric(float(np.sqrt(size.shape[0])), float(size.sum(axis=1).max()) * rounding, rounds)]
    back = size.T
    leading = _leading(size), _leading(back.tocsr())
    for floor in _FLOORS:
        across, down = (np.maximum(vector, floor) for vector in leading)
        rho = float(np.sqrt(((size @ across) / across).max() * ((back @ down) / down).max())) * rounding
        stretch = np.sqrt(across / down)
        found.append(_geometric(closely_above(float(stretch.max() / stretch.min())), rho, rounds))
    if not np.isfinite(min(found)):
        raise NotCertified(f"over {rounds} rounds the loop may grow beyond what is checked here")
    return min(found)


def _geometric(factor: float, rho: float, rounds: int) -> float:
    """factor·Σ_{k < T} ρᵏ, rounded up; infinite where it grows by more than a power of e.

    Guarantee: an upper bound: the sum is at most T and at most 1/(1 − ρ) below 1, and at most T·ρᵀ from 1 on; one
    part in 10⁴ is added, beside which the rounding of a few operations is nothing.
    """
    if rho < 1:
        return closely_above(factor) * min(float(rounds), 1 / (1 - rho))
    powered = rounds * float(np.log(rho))
    return closely_above(factor) * rounds * float(np.exp(powered)) if powered <= 1 else np.inf


def _leading(matrix: Any) -> NDArray[np.float64]:  # noqa: ANN401
    """A positive vector near the leading eigenvector of a non-negative matrix.

    Guarantee: none: any positive vector makes a valid bound of the norm, and this one makes a small one.
    """
    vector = np.ones(matrix.shape[0])
    for _ in range(_PERRON_STEPS):
        before = vector
        # Half a step keeps periodic parts from swinging.
        vector = (vector + matrix @ vector) / 2
        vector = np.maximum(vector / vector.max(), 1e-200)
        if (vector == before).all():
            break
    return vector


def distortion(model: Model) -> float:
    """d: how much more the graph may tell than the model, per unit of ‖c‖; infinite where this could not be bounded.

    ‖Θ Z R‖ ≤ residual + leak·‖Θ Z B‖, B the unit columns from `closed` on. For any `injection` K and A_K = H − K D,

        ‖Θ Z B‖ ≤ (1 + ‖A_K‖)/σ_min(D) · Σ_i ‖D A_Kⁱ B‖,

    because D (I − Z ⊗ H)⁻¹ is an invertible map times D (I − Z ⊗ A_K)⁻¹, whose least singular value is at least
    σ_min(D)/(1 + ‖A_K‖). With a good K the sum converges fast and is small: what was cut is hardly seen.

    Guarantee: upper bound, rounding included. Norms of computed matrices are rounded up (`frobenius`,
    `norm_above`), σ_min(D) down (`least_singular`), and 1.01 covers the dozen operations of the last line. Below
    σ_min(D) = ½ no bound is attempted.
    Source: the derivation at the head of this module.
    """
    H, D = model.transition, model.rows
    m, r = D.shape
    least = least_singular(D)
    if not least >= 0.5:
        return np.inf
    inverse = (1 + norm_above(H)) / least
    visible = 0.0
    if model.closed < r:
        injection = _injection(H, D)
        A_K = H - injection @ D
        # A product with the computed A_K is off from one with H − K D by at most so much of the other factor.
        off = 2 * gamma(r + m + 4) * frobenius(np.abs(H) + np.abs(injection) @ np.abs(D))
        visible = (1 + norm_above(A_K) + off) / least * _seen(model, A_K, off)
    return above(inverse * model.row_residual + model.residual + visible * model.leak) * model.growth


def _injection(H: NDArray[np.float64], D: NDArray[np.float64]) -> NDArray[np.float64]:
    """The gain of a filter that has run for a while: a good K, and none that anything rests on.

        K ← P Dᵀ(D P Dᵀ)⁻¹,   P ← H(P − K D P)Hᵀ + I,   until K settles

    Guarantee: none, and none is needed: every K makes a valid bound, and a good one a small bound.
    """
    P, gain = np.eye(len(H)), np.zeros_like(D.T)
    for _ in range(_SETTLING):
        before, gain = gain, np.asarray(np.linalg.solve(D @ P @ D.T, D @ P).T, dtype=np.float64)
        if np.abs(gain - before).max() < 1e-9:
            break
        # P ← H(P − K D P)Hᵀ + I
        P = H @ (P - gain @ (D @ P)) @ H.T + np.eye(len(H))
        P = (P + P.T) / 2
    return np.asarray(H @ gain)


def _seen(model: Model, A_K: NDArray[np.float64], off: float) -> float:
    """An upper bound of Σ_i ‖D A_Kⁱ B‖, infinite where the powers of A_K do not fall.

        Σ_{k < 2^{i+1}} ‖A_Kᵏ‖ ≤ (1 + ‖A_K^{2^i}‖) Σ_{k < 2^i} ‖A_Kᵏ‖,

    until a power is below ½; the rest is a geometric series with ratio below ½.

    Guarantee: an upper bound for every A_K with which a product is within `off` of one with the A_K that is given,
    relative to the other factor.
    """
    D, r = model.rows, len(A_K)
    power, error, total = A_K, off, 1.0
    for _ in range(_MOST_DOUBLINGS):
        # total ≥ Σ_{k < 2^i} ‖A_Kᵏ‖ and power ≈ A_K^(2^i), off by at most error.
        size = norm_above(power) + error
        if size < 0.5:
            break
        total *= 1 + size
        # (X + E)² = X² + XE + EX + E², and a product of r × r matrices rounds by γ_{r+2} of the Frobenius norms.
        error = 2 * size * error + error**2 + 2 * gamma(r + 2) * frobenius(power) ** 2
        power = power @ power
    else:
        return np.inf
    total *= above(1) / (1 - size)
    blocks, of_rows = np.eye(r)[:, model.closed :], frobenius(D)
    seen, sizes, left = 0.0, 0.0, frobenius(blocks)
    for _ in range(_MOST_POWERS):
        seen += frobenius(D @ blocks) + gamma(r + 2) * of_rows * left
        sizes += left
        if left < 1e-17:
            break
        blocks = A_K @ blocks
        left = frobenius(blocks)
    # The rounding of step i, and what is left in the end, is seen by no more than ‖D‖ Σ ‖A_Kᵏ‖ times its norm.
    return above(seen + of_rows * total * (off * sizes + left))
