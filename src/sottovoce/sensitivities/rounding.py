# SPDX-License-Identifier: Apache-2.0
"""What the proofs of this room allow for rounding: allowances that several modules share, none of them for speed.

u = 2⁻⁵³ is the unit roundoff, γ_k = ku/(1 − ku) ≤ `GAMMA`·k what a sum of k terms may be off by, relative
to the sum of their sizes. Allowances are themselves computed in floats: `ROOM` covers that. Norms are
Frobenius norms unless said otherwise; they bound spectral ones. What a single bound of `many_targets` errs by is put
together beside it, in the units of `sottovoce.rounding`.

A step that errs by R, read by the states z_v and z_{v+1} before and after it, moves a form by at most
‖R‖(‖z_v‖² + ‖z_{v+1}‖²)/2: all that rounding does to a form that is carried back through the rounds is a small
multiple of the form W of Σ ‖z_v‖².
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from sottovoce.filtering import built_up, fine_gamma, power_sum, spread
from sottovoce.interval import UNIT_ROUNDOFF
from sottovoce.rounding import GAMMA, ROOM, TINY

if TYPE_CHECKING:
    from sottovoce.filtering import ClosedLoop, FilteredResponse, Step
    from sottovoce.sensitivities.long_horizons.inserted_rounds import Insertion
    from sottovoce.sensitivities.long_horizons.model import TargetModel

Sizes = TypeVar("Sizes", float, np.ndarray)

# Needed by all forms: squares of larger numbers, and sums of them, may overflow; of a form with such entries nothing is
# claimed.
LARGEST_ENTRY = 1e150
# Needed by bounds that are sums of prices: more than the order of a sum of 440 numbers can do.
AGAIN = 1e-13
# Needed by forms of lags, for any η > 0: a product that is off by e and squared is at most (1 + η) of the square, and
# e²(1 + 1/η) more. This η makes both small.
SQUARED_SHARE = 1e-10

__all__ = [
    "LARGEST_ENTRY",
    "SQUARED_SHARE",
    "congruence",
    "definiteness_margin",
    "followed_error",
    "form_error",
    "inserted_error",
    "length_above",
    "matrix_power",
    "norm",
    "power_norms",
    "root_less",
    "settled_residual",
    "signed_share",
    "slack_error",
    "squared",
    "summed",
    "summed_again",
    "tap_errors",
    "value_error",
    "weight_error",
    "weights_before",
    "whitened_above",
    "whitened_below",
    "widened",
]


def squared(matrix: np.ndarray) -> float:
    """‖X‖_F² as computed, within γ_k of k entries: `ROOM` covers that wherever norms make an allowance.

    Guarantee: at least (1 − γ_k) of the true square, also where squares of entries
    underflow: `TINY`² stands for them.
    """
    flat = matrix.reshape(-1)
    return float(flat @ flat) + TINY**2


def norm(matrix: np.ndarray) -> float:
    """‖X‖_F as computed: see `squared`.

    Guarantee: an upper bound of ‖X‖_F up to a factor within `ROOM`.
    """
    return math.sqrt(squared(matrix)) + TINY


def summed(count: int) -> float:
    """1 + γ_k: what a sum of k numbers that are not negative, as computed in whatever order, is raised by.

    Guarantee: an upper bound of the true sum; a product of k of them, or as many
    operations on them, is covered too.
    Source: Higham, *Accuracy and Stability*, Section 4.2.
    """
    return 1 + ROOM * GAMMA * count


def summed_again(bound: float) -> float:
    """A bound Σ y_t with room for whoever adds the same y up in another order.

    Guarantee: at least `bound`, which is one already; above every sum of the y of up to 440 rounds in floats too.
    Source: docs/proofs/sums.md.

    >>> summed_again(1.0) > 1 + 2 * UNIT_ROUNDOFF
    True
    """
    return bound * (1 + AGAIN)


def value_error(form: np.ndarray, sizes: float, dimension: int = 1) -> float:
    """How far Σ M_st⟨c_s, c_t⟩ is off as computed, for rows of C in so many dimensions: γ_{T(d+1)+2d+16}·Σ|M_st|.

    Guarantee: an upper bound for streams whose rows have a norm of at most 1 + γ_{d+4}; that they may be longer
    than 1 is counted too. `sizes` is Σ|M_st| as computed.
    Source: docs/proofs/sums.md.
    """
    return ROOM * GAMMA * (len(form) * (dimension + 1) + 2 * dimension + 16) * sizes


def definiteness_margin(size: int, diagonal: Sizes) -> Sizes:
    """What is taken off the diagonal of X − Y, n × n, before a triangular factorisation that is to prove X ⪰ Y.

        4(n + 3)u·Σ(|X_tt| + |Y_tt|)

    Guarantee: if the factorisation of fl(fl(X − Y) − margin·I), with roots or without, runs to its end with pivots
    above 0, X − Y is positive semidefinite, for X and Y as stored; `diagonal` is the sum, of one matrix or of each of
    many.
    Source: docs/proofs/spectra.md; Rump, BIT 46 (2006); Higham, *Accuracy and Stability*, Theorem 10.7.
    """
    return 4 * (size + 3) * UNIT_ROUNDOFF * diagonal


def weight_error(
    value: np.ndarray, turned: np.ndarray, weight: np.ndarray, whitener: np.ndarray, turn: float
) -> float:
    """How far N = DᵀD + ΦᵀVΦ as computed, by way of T = VΦ, is from its true value in norm; ν = `turn` ≥ ‖|K||C|‖.

        γ_{r+m+2}(1 + ν)((1 + ν)‖V‖ + ‖T‖) + γ_m‖D‖² + γ_4‖N‖ + γ_1(1 + ν)‖T‖

    Guarantee: an upper bound, the addition of the error to the diagonal included.
    Source: docs/proofs/bounded-real.md.
    """
    m, size = whitener.shape
    pulled = norm(turned)
    once = (size + m + 2) * (1 + turn) * ((1 + turn) * norm(value) + pulled)
    return float(ROOM * GAMMA * (once + m * squared(whitener) + 4 * norm(weight) + (1 + turn) * pulled))


def slack_error(weight: np.ndarray, source: float, y: float) -> float:
    """How far s = y − bᵀNb as computed may be above its true value, ‖b‖² = `source`: γ_{2r+2}‖b‖²‖N‖ + γ_4 y.

    Guarantee: an upper bound wherever what is computed is positive, this subtraction included.
    Source: docs/proofs/bounded-real.md.
    """
    return ROOM * GAMMA * ((2 * len(weight) + 2) * source * norm(weight) + 4 * y)


def form_error(
    weight: np.ndarray,
    pulled: np.ndarray,
    seen: np.ndarray,
    before: np.ndarray,
    model: tuple[float, float, float],
) -> float:
    """How far AᵀNA + qqᵀ/s as computed, with P = AᵀN and q = Pb, is from its true value; `model` is (α, ‖b‖, s).

        αe + γ_r α‖P‖ + (2‖q‖d + d²)/s + γ_2‖q‖²/s + γ_4‖·‖,   e = γ_r α‖N‖,   d = (e + γ_r‖P‖)‖b‖

    Guarantee: an upper bound for α ≥ ‖|A|‖, the addition of the error to the diagonal included.
    Source: docs/proofs/bounded-real.md.
    """
    alpha, source, gap = model
    unit, reach = GAMMA * len(weight), norm(seen)
    first = unit * alpha * norm(weight)
    off = (first + unit * norm(pulled)) * source
    products = alpha * (first + unit * norm(pulled)) + (2 * reach + off) * off / gap
    return ROOM * (products + GAMMA * (2 * reach * reach / gap + 4 * norm(before)))


def followed_error(model: TargetModel, rounds: int, sizes: float) -> float:
    """How far what a stream shows is off, in norm, when its states z_t are followed in floats; `sizes` = Σ ‖z_t‖.

        σ(γ_{r+2}‖b‖·rounds + γ_{2r+m+4} α(1 + ν) Σ ‖z_t‖) + γ_{r+1}‖D‖ Σ ‖z_t‖,   ν ≥ ‖|K||C|‖,   α ≥ ‖|A|‖

    Guarantee: an upper bound of the sum of all that rounding puts into the states, as far as it shows, and of what
    it does to what is shown; σ = `model.shows` is the most that a state of norm 1 can show.
    Source: docs/proofs/streams.md.
    """
    m, size = model.rows.shape
    turn = 1 + model.turn
    inside = (size + 2) * norm(model.source) * rounds
    inside += (2 * size + m + 4) * model.stretch * turn * sizes
    return float(ROOM * GAMMA * (model.shows * inside + (size + 1) * model.showing * sizes))


def settled_residual(
    closed: ClosedLoop, steady: np.ndarray, back: np.ndarray | complex, sources: np.ndarray
) -> np.ndarray:
    """‖s − e^{−iω}Bs − b‖ for each column s of `steady`, from above: by so much a round s is no settled state.

    Guarantee: an upper bound for every loop within `off` of the one stored; e^{−iω} is `back` as stored.
    Source: docs/proofs/streams.md.
    """
    rest = steady - (closed.loop @ steady) * back - sources
    stretch = (2 * closed.size + 6) * (1 + spread(np.abs(closed.loop)))
    sizes = (GAMMA * stretch + closed.off) * np.linalg.norm(steady, axis=0)
    return np.asarray(
        ROOM * (np.linalg.norm(rest, axis=0) + sizes + 2 * GAMMA * np.linalg.norm(sources, axis=0))
    )


def signed_share(frequency: np.ndarray) -> np.ndarray:
    """The share of what vectors attain that turn by ω each round which the signs of one of their components attain.

        8/π² for the signs of cos(ωt + θ), for some θ; 1 where ω is 0 or π and the vectors are signs.

    Guarantee: a lower bound for every form M ⪰ 0.
    Source: docs/proofs/streams.md, Claim 4; Nesterov, Optim. Methods Softw. 9 (1998), has 2/π for all vectors.
    """
    signs = (frequency == 0) | (frequency == math.pi)
    return np.asarray(np.where(signs, 1.0, 8 / math.pi**2 * (1 - 8 * GAMMA)))


def length_above(states: np.ndarray, gram: np.ndarray) -> np.ndarray:
    """√(z*Gz) for each column z, from above.

    Guarantee: an upper bound for G as stored; the form errs by at most γ_{4r}‖G‖‖z‖².
    Source: docs/proofs/streams.md.
    """
    forms = np.einsum("rj,rj->j", states.conj(), gram @ states).real
    room = 4 * GAMMA * (len(gram) + 1) * norm(gram) * (np.abs(states) ** 2).sum(axis=0)
    return np.asarray((1 + 8 * GAMMA) * np.sqrt(np.maximum(forms, 0) + ROOM * room))


def power_norms(closed: ClosedLoop, count: int) -> np.ndarray:
    """Upper bounds of ‖B^k‖ for k < count: the product of those of the powers of two that k is the sum of.

    Guarantee: ‖B^k‖ ≤ Π ‖B^(2^i)‖ over the binary digits of k, each factor raised by its own error, for every loop
    within `off` of the one stored. Products of log₂ k factors round by less than `ROOM`, which its users apply.
    Source: docs/proofs/spectra.md, Lags and powers of a loop, and Norms for the powers of two.
    """
    norms = np.ones(1)
    # The norms for k < 2^i give those for 2^i ≤ k < 2^(i+1): ‖B^(2^i + j)‖ ≤ ‖B^(2^i)‖‖B^j‖
    for block in closed.blocks(count):
        norms = np.concatenate([norms, block.stretch * norms])
    return norms[:count]


@np.errstate(over="ignore", invalid="ignore")
def tap_errors(closed: ClosedLoop, taps: np.ndarray) -> np.ndarray:
    """How far the rows DB^ℓ as computed one from the other, `taps`, are from the true ones, for each ℓ.

        e_ℓ = Σ_j≤ℓ (γ_r‖|B|‖ + `off`)‖X_{j−1}‖·‖B^{ℓ−j}‖

    Guarantee: upper bounds in the Frobenius norm, for every loop within `off` of the one stored.
    Source: docs/proofs/spectra.md.
    """
    norms = np.sqrt((taps**2).sum(axis=(1, 2))) + TINY
    made = (GAMMA * closed.size * spread(np.abs(closed.loop)) + closed.off) * norms
    made = np.concatenate([[0.0], made[:-1]])
    return np.asarray(ROOM * np.convolve(made, power_norms(closed, len(taps)))[: len(taps)])


@np.errstate(over="ignore", invalid="ignore")
def matrix_power(closed: ClosedLoop, exponent: int) -> tuple[np.ndarray, float]:
    """B^k by repeated squaring, and how far it is off in norm, for every loop within `off` of the one stored.

    Guarantee: with X̂ and Ŷ off by x and y, X̂Ŷ is off by at most x(‖Y‖ + y) + ‖X‖y + γ_r‖X‖‖Y‖.
    Source: docs/proofs/spectra.md, Lags and powers of a loop.
    """

    def product(X: tuple[np.ndarray, float], Y: tuple[np.ndarray, float]) -> tuple[np.ndarray, float]:
        sizes = norm(X[0]), norm(Y[0])
        off = X[1] * (sizes[1] + Y[1]) + sizes[0] * Y[1] + GAMMA * closed.size * sizes[0] * sizes[1]
        return X[0] @ Y[0], ROOM * off

    power, found = (closed.loop, closed.off), (np.eye(closed.size), 0.0)
    while exponent:
        if exponent & 1:
            found = product(found, power)
        exponent >>= 1
        power = product(power, power) if exponent else power
    return found


def inserted_error(
    response: FilteredResponse,
    sources: np.ndarray,
    plan: Insertion,
    *,
    counted: int,
    shown: np.ndarray,
) -> np.ndarray:
    """Σ|M_st − M̃_st| from above, for each column b of `sources`: what inserting rounds into a short form is off by.

        2σ²(Sβ_e + ζ‖B^e‖‖B^w‖)² + 4σ²(Sβ_e)² + 4σ²n Sβ_e‖B^e‖β_w + 2σμ(n Sβ_w + ζS‖B^w‖),   μ² = `shown` + 4σ²β_e²

    β_k ≥ ‖B^k b‖, S ≥ Σ‖B^k‖, σ = `response.shows` is the most that a state of norm 1 can show, and ζ ≥ Σ_{s<c} of the
    norms to which unit contributions of the first c rounds have been built up in round c, each at most `built_up`
    times ‖b‖.

    Guarantee: upper bounds, over all pairs of n = `counted` rounds or fewer, for M of the response as stored and M̃ put
    together from exact M⁰, but for entries of the two blocks of M⁰ that are farther than w off the diagonal. `shown`
    is at least M⁰_tt for t ≥ c.
    Source: docs/proofs/insertion.md.
    """
    c, w, e = plan.start, plan.width, plan.rest
    closed, shows = response.closed_loop(c), response.shows
    lengths = np.linalg.norm(sources, axis=0)
    total = power_sum(closed.loop, closed.off)

    def after(count: int) -> tuple[float, np.ndarray]:
        power, off = matrix_power(closed, count)
        size = norm(power)
        off += GAMMA * (closed.size + 2) * size
        return size + off, np.linalg.norm(power @ sources, axis=0) + off * lengths + TINY

    (rest, near), (width, far) = after(e), after(w)
    early = built_up(response.gains, min(c, counted)) * lengths
    faded = total * near
    head = 2 * (faded + early * rest * width) ** 2
    middle = 4 * faded**2 + 4 * min(plan.inserted, counted) * faded * rest * far
    most = np.sqrt(np.maximum(shown, 0.0) + (2 * shows * near) ** 2) + TINY
    beyond = 2 * most * total * (counted * far + early * width)
    return np.asarray(ROOM**2 * shows * (shows * (head + middle) + beyond))


def root_less(squared: np.ndarray, shift: float | np.ndarray) -> np.ndarray:
    """(√squared − shift)₊, rounded down before the difference can cancel.

    Guarantee: a lower bound, if `shift` is within two units of what is meant or above it. The root is within a
    unit, and so is each product here; four are taken off the root and added to the shift, and the difference rounds
    by a unit of itself, which whoever squares it counts.
    Source: docs/proofs/widening.md.

    >>> float(root_less(np.array(4.0), 1.0)) <= 1 <= float(root_less(np.array(4.0), 1.0)) * (1 + 1e-14)
    True
    """
    root = np.sqrt(np.maximum(squared, 0)) * (1 - 4 * GAMMA)
    return np.asarray(np.maximum(root - shift * (1 + 4 * GAMMA), 0))


def widened(
    attained: np.ndarray, bound: np.ndarray, *, distortion: float, missing: float, rounds: float
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of Δ² that hold for the true form, from ends that hold for the model as stored.

        (1 − missing)((√attained − d√rounds)/(1 + d))²  ≤  Δ²  ≤  ((√bound + d√rounds)/(1 − d))²

    Guarantee: if attained ≤ ‖F̂c‖² of a stream c and ‖F̂c‖² ≤ bound of all streams, of norms at most √rounds, and
    the true noise map is within a factor I + D, ‖D‖ ≤ d = `distortion`, and the share `missing` of that of F̂,
    then the results bound Δ² on both sides, what these operations round included. From d = ½ on nothing is known.
    Source: docs/proofs/widening.md.
    """
    if distortion >= 0.5:
        return np.zeros_like(attained), np.full_like(bound, np.inf)
    # What overflowed says nothing: 0 below, infinite above.
    attained = np.where(np.isfinite(attained), attained, 0.0)
    bound = np.where(np.isfinite(bound), bound, np.inf)
    shift = distortion * np.sqrt(rounds)
    low = root_less(attained, shift) / (1 + distortion)
    high = (np.sqrt(bound) + shift) / (1 - distortion)
    return (1 - missing) * low**2 * (1 - 16 * GAMMA), high**2 * (1 + 16 * GAMMA)


def whitened_above(squared: np.ndarray, shift: float | np.ndarray, unwhite: float) -> np.ndarray:
    """What ‖Fc‖² may truly be at most, for streams whose response is off by at most `shift` of a program's filter.

        (√squared + shift)²/(1 − η),   η = `unwhite`

    Guarantee: an upper bound, its eight operations included; infinite from η = ½ on, and where anything overflowed.
    Source: docs/proofs/programs.md.

    >>> 4 <= float(whitened_above(np.array(1.0), 1.0, 0.0)) < 4 + 1e-13
    True
    """
    if not (unwhite < 0.5 and np.isfinite(shift).all()):
        return np.full_like(squared, np.inf)
    bounded = np.where(np.isfinite(squared), squared, np.inf)
    return np.asarray((np.sqrt(bounded) + shift) ** 2 / (1 - unwhite) * (1 + fine_gamma(16)))


def whitened_below(squared: np.ndarray, shift: float | np.ndarray, unwhite: float) -> np.ndarray:
    """What ‖Fc‖² truly is at least, for a stream whose response is off by at most `shift` of a program's filter.

        (√squared − shift)₊²/(1 + η),   η = `unwhite`

    Guarantee: a lower bound, its eight operations included; 0 where anything overflowed.
    Source: docs/proofs/programs.md.

    >>> 1 - 1e-13 < float(whitened_below(np.array(4.0), 1.0, 0.0)) <= 1
    True
    """
    if not np.isfinite(unwhite):
        return np.zeros_like(squared)
    sure = np.isfinite(squared) & np.isfinite(shift)
    attained = np.where(sure, np.maximum(squared, 0), 0.0)
    low = root_less(attained, np.where(sure, shift, 0.0)) ** 2
    return np.asarray(low / (1 + unwhite) * (1 - fine_gamma(16)))


def congruence(response: FilteredResponse, form: np.ndarray, t: int) -> tuple[np.ndarray, float]:
    """(AΦ_t)ᵀ X (AΦ_t) for the form of X; one half errs by κ‖X‖, the other by κ times the norm that is returned.

    Guarantee: none by itself; κ is `Step.error`, and whoever carries a form back adds up what the steps erred by.
    """
    half = response.before(form, t)
    return response.before(half.T, t), float(np.linalg.norm(half))


def weights_before(response: FilteredResponse, step: Step, weights: np.ndarray, t: int) -> np.ndarray:
    """W_t = I + (AΦ_t)ᵀ W_{t+1} (AΦ_t), rounded up: zᵀW_t z is what a state z of round t and those after it weigh.

    Guarantee: an upper bound if `weights` is one; what the step errs by, and the sum with
    I, is added to the diagonal.
    Source: docs/proofs/peak.md, Columns of F.
    """
    before, half = congruence(response, weights, t)
    raised = ROOM * step.error * (half + step.stretch * float(np.linalg.norm(weights)))
    raised += 2 * GAMMA * (float(np.linalg.norm(before)) + 2)
    before.flat[:: len(before) + 1] += 1 + raised
    return before
