# SPDX-License-Identifier: Apache-2.0
"""The form M = Gᵀ K⁻¹ G straight from its definition, dense, with a bound of its rounding error.

Over T rounds the observer sees N u + G c, where u is the noise of all hidden nodes and c what the target
contributes:

    N = C S,  S = (I − Z ⊗ A)⁻¹ (Z shifts by one round),   K = N Nᵀ,   G = N E_j,   M = Gᵀ K⁻¹ G = E_jᵀ P E_j,

P being the projector on the row space of N. So 0 ⪯ M ⪯ I. `SeenBlocks` holds what all targets of an observer share, the
blocks C Aᵏ and K; `dense_form` adds G and M of one target, with a bound of all rounding; `dominating` proves
diag(y) ⪰ M; `ComputedForm.attains` evaluates a witness from below by another formula, which does not use M at all.

Errors are measured after scaling by D = diag(scale), scale_t ≈ √M_tt. Early contributions can weigh 10¹⁰ times what
late ones do, and a bound that is absolute would drown the small ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import linalg

from sottovoce.errors import NotCertified
from sottovoce.verification.rounding import (
    LEAST_PRICE,
    LEAST_SCALE,
    MOST_DEFECT,
    UNDERFLOWN_SCALED,
    above,
    closely_above,
    definite_room,
    gamma,
    narrowly_above,
    slightly_raised,
)
from sottovoce.verification.spectra import factors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sottovoce.verification.hidden import HiddenNodes

__all__ = ["ComputedForm", "SeenBlocks", "dense_form", "dominating", "seen_blocks", "still"]

# Any scale is valid; this part of what stands at a round before signs cancel keeps it above the rounding there.
_SIGNED = 1e-3
# And this many times what turned rows may show, where that is more than what is computed, keeps it small beside 1.
_STRAYED = 1e12


@dataclass(frozen=True, kw_only=True, eq=False)
class ComputedForm:
    """M as computed, and how far it may be from the truth.

    On the rounds `alive` (elsewhere M is exactly 0) the truth is above it by at most `margin` in the norm of D⁻¹ ·
    D⁻¹ with D = diag(scale), scale_t ≈ √M_tt. M ⪯ `most`·I for certain. `attains` gives a number that Σ M_st ⟨c_s,
    c_t⟩ is not below, for rows c_t.

    Guarantee: M_true ⪯ matrix + margin·diag(scale²) on the rounds `alive`, and M_true is 0 on all others.
    """

    matrix: NDArray[np.float64]
    alive: NDArray[np.bool_]
    scale: NDArray[np.float64]
    margin: float
    most: float
    attains: Callable[[NDArray[np.float64]], float]


@dataclass(frozen=True, kw_only=True, eq=False)
class SeenBlocks:
    """What is seen of every hidden node in every round, whoever the target is: the blocks C Aᵏ, |C| |A|ᵏ and K.

    `responses[k]` is C Aᵏ, `sizes[k]` is |C| |A|ᵏ (what rounding is relative to), and `reached[k]` is where C Aᵏ
    can be other than 0 by the pattern of A alone. `kept` rows of K are seen: all rows of T − 1 rounds and `last` of
    the last. `first_power` bounds ‖A‖₂ and `powers` bounds Σ_{k < T} ‖Aᵏ‖₂ ≥ ‖S‖.
    """

    rounds: int
    kept: int
    responses: list[NDArray[np.float64]]
    sizes: list[NDArray[np.float64]]
    reached: list[NDArray[np.bool_]]
    powers: float
    first_power: float

    @cached_property
    def gram(self) -> NDArray[np.float64]:
        """K = N Nᵀ over the rows and rounds that are seen.

        Guarantee: entry by entry within γ_{`_gram_steps`}|N||N|ᵀ of N Nᵀ for the N that `responses` hold, and symmetric
        to the bit; what these are off by themselves is counted in `dense_form`.
        """
        return _gram(np.stack(self.responses), self.rounds)[: self.kept, : self.kept]

    @cached_property
    def factor(self) -> NDArray[np.float64]:
        """L with K = L Lᵀ.

        Guarantee: L as computed; what it is off by is part of the checks that use it. A K without a factor is
        refused, as nothing could be proved with it.
        """
        try:
            lower: NDArray[np.float64] = linalg.cholesky(self.gram, lower=True)
        except linalg.LinAlgError:
            raise NotCertified(
                "what the observer sees cannot be told apart from rounding: the Gram matrix of its rows is not "
                "positive definite in floating point"
            ) from None
        return lower

    @cached_property
    def size_of_gram(self) -> float:
        """An upper bound of ‖|N||N|ᵀ‖, which rounding in K is relative to: K itself where nothing is negative.

        Guarantee: an upper bound, rounding included.
        """
        same = self.sizes[-1] is self.responses[-1]
        P = self.gram if same else _gram(np.stack(self.sizes), self.rounds)
        return _nonnegative_norm(lambda v: np.asarray(P @ v), len(P))

    @cached_property
    def size_of_factor(self) -> float:
        """An upper bound of ‖|L||L|ᵀ‖, which rounding in the factorisation is relative to.

        Guarantee: an upper bound, rounding included.
        """
        size = np.abs(self.factor)
        return _nonnegative_norm(lambda v: np.asarray(size @ (v @ size)), len(size))


def _nonnegative_norm(applied: Callable[[NDArray[np.float64]], NDArray[np.float64]], dimension: int) -> float:
    """An upper bound of ‖P‖₂ for a symmetric P with entries ≥ 0, of which only products Pv are at hand.

        ‖P‖₂ = ρ(P) ≤ max_i (Pv)_i/v_i   for every v > 0;   v = P1 here, and rows of zeros do not count.

    Guarantee: upper bound, but for the rounding of the products, γ of their length, which callers' 1.01 covers.
    Source: Collatz and Wielandt; Horn and Johnson, Matrix Analysis, Cor. 8.1.31.
    """
    first = applied(np.ones(dimension))
    alive = first > 0
    return float((applied(first)[alive] / first[alive]).max(initial=0.0))


def seen_blocks(hidden: HiddenNodes, rounds: int) -> SeenBlocks:
    """The part of `dense_form` that all targets of an observer share.

    Guarantee: entry by entry |responses[k] − C Aᵏ| ≤ γ·sizes[k], γ that of k·(longest + relative + 1) + relative
    operations: each product with Aᵀ sums at most `longest` terms, the entries of a column of A.
    """
    A, rows = hidden.transition, hidden.rows
    first, powers = _power_norms(A, rounds)
    responses, sizes, reached = [rows], [np.abs(rows)], [hidden.touched]
    signed = bool((rows < 0).any() or (A.data < 0).any())
    back, back_sizes, pattern = A.T, abs(A).T, (A != 0).T.astype(np.float32)
    # C Aᵏ⁺¹ = (Aᵀ (C Aᵏ)ᵀ)ᵀ; the pattern is counted in ones, of which float32 holds any number of interest as > 0.
    for _ in range(rounds - 1 if rows.shape[0] else 0):
        responses.append((back @ responses[-1].T).T)
        sizes.append((back_sizes @ sizes[-1].T).T if signed else responses[-1])
        reached.append((pattern @ reached[-1].T.astype(np.float32)).T > 0)
    return SeenBlocks(
        rounds=rounds,
        kept=rows.shape[0] * (rounds - 1) + hidden.last,
        responses=responses,
        sizes=sizes,
        reached=reached,
        powers=powers,
        first_power=first,
    )


def dense_form(hidden: HiddenNodes, rounds: int, blocks: SeenBlocks | None = None) -> ComputedForm:
    """M for one target from block-Toeplitz matrices with blocks C Aᵏ, and a bound of its error.

        K(t, s) = Σ_i C A^{t−i} (C A^{s−i})ᵀ = L Lᵀ,   G(t, s) = C A^{t−s} e_j,   F = L⁻¹ G,   M = Fᵀ F.

    `blocks` is what `seen_blocks` found for the same observer and rounds, if it is at hand.

    Guarantee: M_true ⪯ M + margin·D² with nothing left out, D = diag(scale). With L Lᵀ ⪯ (1 + θ)K_true, θ ≤ 1/100,

        D⁻¹ M_true D⁻¹ ⪯ (1 + θ) Hᵀ H,   H = L⁻¹ G_true D⁻¹ = F D⁻¹ + X,   Hᵀ H ⪯ D⁻¹ Fᵀ F D⁻¹ + 2φx + x²,

    φ ≥ ‖F D⁻¹‖ (`phi`) and x ≥ ‖X‖ (`beside`). The terms, with K_true ⪰ 1/κ² and w² rounds alive:

    * θ = 2ν + ν² + κ²e. ν = κ‖δN‖_F (`off`): entry by entry block k of the computed N is off by γ of k·(longest +
      relative + 1) + relative operations, and K_true^{−1/2}N has norm 1, so that the error is not
      multiplied by ‖N‖. Rows that rounding turned move N by `turned`·powers.
    * e (`error_K`) is what is lost after N: γ|N||N|ᵀ for the products (`_gram`) and γ_{kept+1}|L||L|ᵀ for the factor,
      both symmetric with entries ≥ 0, whose norm `_nonnegative_norm` bounds.
    * x = κ(‖δG D⁻¹‖_F + γ_{kept+1}·‖|L||F|D⁻¹‖_F) and a per cent for ‖L⁻¹‖ ≤ κ/√(1 − θ): δG is the column of δN, and
      each column f of F solves (L + δL)f = g with |δL| ≤ γ_{kept+1}|L|, also where pivots were inverted first.
    * γ_{kept+2}·w²: the product FᵀF, whose columns have norm at most 1 after scaling.

    σ_min(N) ≥ σ_min(C)/‖I − Z ⊗ A‖ gives κ; leaving out rows of the last round can only raise σ_min.
    Source: docs/proofs/checks.md, "The form"; Higham, Accuracy and Stability, Thms 8.5, 10.3 and Eq. 3.13.
    """
    (r, u), target = hidden.rows.shape, hidden.target
    seen = blocks or seen_blocks(hidden, rounds)
    first, powers, kept, sizes = seen.first_power, seen.powers, seen.kept, seen.sizes
    if not r:
        return still(rounds)
    G = _toeplitz([response[:, target] for response in seen.responses])[:kept]
    absolute = _toeplitz([size[:, target] for size in sizes])[:kept]
    # Decided on the pattern: a signal too weak for a float is a signal.
    alive = np.asarray(_toeplitz([each[:, target] for each in seen.reached])[:kept].any(axis=0))
    if not alive.any():
        return still(rounds)
    L = seen.factor
    F = linalg.solve_triangular(L, G, lower=True)
    M = F.T @ F
    # Where signs cancel M_tt can be 0 although its parts are not; the scale stays above their rounding. Any scale is
    # valid, since margin and scale are used together; the least one keeps its square within the range of floats.
    own = np.maximum(np.sqrt(np.diag(M)), _SIGNED * np.linalg.norm(absolute, axis=0))
    # What rows that rounding turned may show of a contribution; where that is more than is computed, it is the scale.
    strayed = np.zeros((rounds, rounds))
    if hidden.turned:
        strayed = above(hidden.turned) * _toeplitz(_arriving(hidden, rounds))
    hiding = np.linalg.norm(strayed, axis=0)
    scale = np.where(alive, np.maximum(np.where(own > hiding, own, _STRAYED * hiding), LEAST_SCALE), 1.0)
    scaled = np.abs(M / np.outer(scale, scale))
    wide = float(np.sqrt(np.count_nonzero(alive)))
    product = gamma(kept + 2) * wide**2
    # φ² = ‖D⁻¹MD⁻¹‖₂ ≤ its largest absolute row sum.
    phi = float(np.sqrt(above(scaled.sum(axis=1).max() + product)))
    kappa = closely_above(1 + first) / hidden.smallest
    losses = _response_losses(hidden, rounds)
    # ‖δN‖_F: block k stands T − k times in the Toeplitz matrix.
    off = float(
        np.sqrt(
            sum(
                (rounds - k) * np.square(loss * size).sum()
                for k, (loss, size) in enumerate(zip(losses, sizes, strict=True))
            )
        )
    )
    error_G = float(
        np.linalg.norm(
            _toeplitz([loss * size[:, target] for loss, size in zip(losses, sizes, strict=True)])[:kept]
            / scale
        )
    )
    if hidden.turned:
        # The rows are off by at most `turned`, on the columns that they touch, and N = C (I − Z ⊗ A)⁻¹ by so much more.
        off += above(hidden.turned) * powers
        error_G += float(np.linalg.norm(strayed / scale))
    error_K = gamma(_gram_steps(u, rounds)) * seen.size_of_gram + gamma(kept + 1) * seen.size_of_factor
    moved = above(kappa) * off
    theta = 2 * moved + moved**2 + above(kappa**2) * error_K
    if not theta <= MOST_DEFECT:
        raise NotCertified(
            "rounding may hide too much: the observer's rows are so close to dependent that this claim "
            f"cannot be checked in double precision (error {theta:.1e})"
        )
    solved = gamma(kept + 1) * float(np.linalg.norm(np.abs(L) @ np.abs(F) / scale))
    beside = above(kappa) * (error_G + solved + UNDERFLOWN_SCALED * powers)
    margin = above(theta * phi**2 + (1 + theta) * (2 * phi * beside + beside**2 + product))
    return ComputedForm(
        matrix=M,
        alive=alive,
        scale=scale,
        margin=margin,
        most=1.0,
        attains=lambda contributions: _attained(hidden, seen, G, contributions),
    )


def _response_losses(hidden: HiddenNodes, rounds: int) -> list[float]:
    """What part of |C| |A|ᵏ the computed C Aᵏ may be off by, for each k: γ of the operations that `seen_blocks` counts.

    Guarantee: upper bounds for the responses of `seen_blocks`, entry by entry, and 1 per cent for computed sizes.
    """
    longest = _longest_column(hidden)
    return [above(gamma(k * (longest + hidden.relative + 1) + hidden.relative)) for k in range(rounds)]


def _longest_column(hidden: HiddenNodes) -> int:
    """How many entries a column of A has at most: so many products a product with Aᵀ sums."""
    return int(np.bincount(hidden.transition.indices).max(initial=1))


def dominating(
    form: ComputedForm, y: NDArray[np.float64], rounds: NDArray[np.int64]
) -> tuple[NDArray[np.float64], float]:
    """A vector that dominates M on `rounds` for certain: y itself, or y raised by as much as the proof lacks.

    The second value is the least eigenvalue of I − Y^{−1/2} M Y^{−1/2}, Y = diag(y), as computed, for the record.

    y is first raised to M_tt, which no dominating y can be below, plus twice the margin. Then up to four times:
    try, and raise all of y by what the least eigenvalue lacks. The eigenvalue only says by how much to raise; what
    counts is the factorisation. Last comes `most`: M ⪯ most·I needs no proof here.

    Guarantee: diag(result) ⪰ M on these rounds. In units of √y the error of M is at most margin·scale²/y on the
    diagonal. Cholesky succeeds on the computed matrix less that and (dimension + 8)·2u·trace, which proves that the
    exact one is positive semidefinite: (dimension + 1)u·trace for the factorisation, and four roundings an entry
    (two quotients, a mean, a difference) of a matrix whose Frobenius norm is at most its trace.
    Source: Rump, Verification of positive definiteness (2006), Cor. 2.4; Higham, Thm 10.7.
    """
    raised = y.copy()
    here = rounds[form.alive[rounds]]
    if not here.size:
        return raised, 0.0
    least_needed = (
        slightly_raised(np.maximum(np.diag(form.matrix)[here], 0.0)) + 2 * form.margin * form.scale[here] ** 2
    )
    raised[here] = np.maximum(raised[here], np.maximum(least_needed, LEAST_PRICE))
    least = None
    for _ in range(4):
        root = np.sqrt(raised[here])
        M = form.matrix[np.ix_(here, here)] / root[:, None] / root
        B = np.diag(1 - form.margin * np.square(form.scale[here] / root)) - (M + M.T) / 2
        lowest = float(np.linalg.eigvalsh(B)[0])
        least = lowest if least is None else least
        shift = definite_room(here.size, here.size + float(np.abs(np.diag(M)).sum()))
        if factors(B - shift * np.eye(here.size)):
            return raised, least
        raised[here] = np.nextafter(raised[here] * (1 + 3 * shift + max(0.0, -lowest)), np.inf)
    # Never reached in practice.
    raised[here] = np.maximum(raised[here], form.most)
    return raised, least if least is not None else 0.0


def _attained(
    hidden: HiddenNodes, seen: SeenBlocks, gain: NDArray[np.float64], contributions: NDArray[np.float64]
) -> float:
    """A number that Σ M_st ⟨c_s, c_t⟩ is not below, for rows c_t of `contributions`.

        Σ M_st ⟨c_s, c_t⟩ = ‖P E c‖² ≥ 2⟨E c, NᵀZ⟩ − ‖NᵀZ‖²   for every Z,

    evaluated at Z ≈ K⁻¹ G c with NᵀZ from the recursion Y_s = Aᵀ Y_{s+1} + Cᵀ Z_s.

    With Y = NᵀZ the value is f(Y) = 2⟨E c, Y⟩ − ‖Y‖², whose maximum over the row space of N is the form itself. If
    the true Y is off the computed one by δ, f(Y) ≥ f(Ŷ) − 2‖E c − Ŷ‖‖δ‖ − ‖δ‖². ‖E c − Ŷ‖ is `residual`, ‖δ‖ is
    `away`.

    Guarantee: lower bound. The recursion's rounding δ enters as ‖Σ_k (Zᵏ ⊗ Aᵏ)ᵀ δ‖ ≤ powers·‖δ‖. Of each step it is
    γ_{longest+r+2+2·relative} of |A|ᵀ|Y| + |C|ᵀ|Z|, `local` in norm over all rounds; sums over u·d numbers and T
    rounds add `summed`. Z itself may be anything.
    Source: least squares by duality; Higham, Eq. 3.12, for matrix-vector products.
    """
    rounds = contributions.shape[0]
    rows, back = hidden.rows, hidden.transition.T
    r, u = rows.shape
    d = contributions.shape[1]
    Z = np.zeros((rounds * r, d))
    Z[: gain.shape[0]] = linalg.cho_solve((seen.factor, True), gain @ contributions)
    Y = np.zeros((u, d))
    inner, squares = [], []
    for s in range(rounds - 1, -1, -1):
        # Y_s = Aᵀ Y_{s+1} + Cᵀ Z_s
        Y = back @ Y + rows.T @ Z[s * r : (s + 1) * r]
        inner.append(float(contributions[s] @ Y[hidden.target]))
        squares.append(float(np.square(Y).sum()))
    total, norm_squared = float(np.sum(inner)), float(np.sum(squares))
    c, y = float(np.linalg.norm(contributions)), float(np.sqrt(norm_squared))
    local = gamma(_longest_column(hidden) + r + 2 + 2 * hidden.relative) * (
        seen.first_power * y + float(np.linalg.norm(rows)) * float(np.linalg.norm(Z))
    )
    # Rows that are turned by δC are other rows' combinations, off by δCᵀ Z.
    away = seen.powers * (local + above(hidden.turned) * float(np.linalg.norm(Z)))
    summed = gamma(u * d + rounds + 4)
    residual = float(np.sqrt(max(c * c - 2 * total + norm_squared, 0.0) + summed * (c + y) ** 2)) + away
    error = 2 * residual * away + away**2 + summed * (2 * c * y + norm_squared)
    return 2 * total - norm_squared - above(error)


def _arriving(hidden: HiddenNodes, rounds: int) -> list[NDArray[np.float64]]:
    """How much of one contribution of the target is on the observed columns after k rounds, in norm, for each k.

    Rows that are off by δC, which is 0 outside the columns that they touch, are off by ‖δC‖·(this) in G.
    """
    size, seen = abs(hidden.transition), hidden.touched.any(axis=0)
    signal = np.zeros(hidden.unknown.size)
    signal[hidden.target] = 1.0
    norms = []
    for _ in range(rounds):
        norms.append(np.array([above(float(np.linalg.norm(signal[seen])))]))
        signal = size @ signal
    return norms


def still(rounds: int) -> ComputedForm:
    """The form of a target whose signal does not reach the observer within the horizon: exactly 0.

    Guarantee: exact where the pattern of A, or exact arithmetic, says that nothing arrives; the caller decides
    that.
    """
    return ComputedForm(
        matrix=np.zeros((rounds, rounds)),
        alive=np.zeros(rounds, dtype=bool),
        scale=np.ones(rounds),
        margin=0.0,
        most=0.0,
        attains=lambda _: 0.0,
    )


def _power_norms(A: Any, rounds: int) -> tuple[float, float]:  # noqa: ANN401
    """Upper bounds of ‖A‖₂ and of Σ_{k < T} ‖Aᵏ‖₂, by √(‖ |A|ᵏ ‖₁ ‖ |A|ᵏ ‖_∞).

    Guarantee: upper bounds for the exact A. Column and row sums of |A|ᵏ come from k products of positive terms, off
    by less than 10⁻⁷ of themselves for T·(terms + 17) below 10⁸, which MOST_ROUNDS ensures for degrees up to 20
    000.
    """
    size = abs(A)
    back = size.T
    down = np.ones(size.shape[0])
    across = np.ones(size.shape[0])
    norms = []
    for _ in range(rounds):
        norms.append(float(np.sqrt(down.max(initial=0.0) * across.max(initial=0.0))))
        down, across = back @ down, size @ across
    first = float(np.sqrt(down.max(initial=0.0) * across.max(initial=0.0))) if rounds == 1 else norms[1]
    return narrowly_above(first), narrowly_above(float(np.sum(norms)))


def _gram(responses: NDArray[np.float64], rounds: int) -> NDArray[np.float64]:
    """K from the recurrence K(t, s) = K(t−1, s−1) + V_t V_sᵀ over rounds.

    Guarantee: |K − N Nᵀ| ≤ γ_{`_gram_steps`} |N||N|ᵀ: products are summed over as many hidden nodes as there are parts,
    then over the parts and the rounds; a mean and its symmetric twin take two more.
    Source: Higham, Sec. 4.2, blocked summation.
    """
    r, u = responses.shape[1:]
    flat, wide = responses.reshape(rounds * r, u), _part(u)
    K = flat[:, :wide] @ flat[:, :wide].T
    for start in range(wide, u, wide):
        K += flat[:, start : start + wide] @ flat[:, start : start + wide].T
    # K(t, s) += K(t−1, s−1), block row by block row; K + Kᵀ halved removes what BLAS left unsymmetric.
    for t in range(1, rounds):
        here, before = slice(t * r, (t + 1) * r), slice((t - 1) * r, t * r)
        K[here, r:] += K[before, :-r]
    return (K + K.T) / 2


def _part(nodes: int) -> int:
    """Over how many hidden nodes `_gram` sums at once: about as many as there are parts, so that both are few."""
    return max(1, math.isqrt(nodes))


def _gram_steps(nodes: int, rounds: int) -> int:
    """How many roundings a term of K meets in `_gram`."""
    return _part(nodes) + -(-nodes // _part(nodes)) + rounds + 4


def _toeplitz(blocks: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """The block lower-triangular Toeplitz matrix whose first column holds `blocks`.

    Block (t, s) is blocks[t − s] for t ≥ s and 0 above; shape (T·r, T).
    """
    rounds, r = len(blocks), blocks[0].size
    stacked = np.concatenate(blocks)
    result = np.zeros((rounds * r, rounds))
    for s in range(rounds):
        result[s * r :, s] = stacked[: (rounds - s) * r]
    return result
