# SPDX-License-Identifier: Apache-2.0
"""M of any program from its definition: the whole of N and G in whole numbers, rounded once, and X with N X = G.

The view shows G c + N u, u being the draws that the observer does not know. Every X with N X = G proves M ⪯ XᵀX,
for noise X c then looks like the contributions c; the X of least norm attains it. An X in floats that misses G by E
is mended by N⁺E, and ‖N⁺E c‖ ≤ ‖E c‖/σ with σ the least singular value of N. So neither the way to X nor its
accuracy has to be trusted: E is measured, and σ is proved by a Cholesky factorisation.

From file to N and G: `fresh` has found independent rows of every round. Each is pulled back through all earlier
rounds (`backwards.pulled`), in whole numbers over one denominator; what it says of each draw is its row of N, and
of each contribution its row of G. With an encoder the draws are C⁻¹ξ with fresh ξ, so the parts of a row on draws
are convolved with the first column of C⁻¹, still in whole numbers. Then every entry is divided by the row's unit
and rounded, once.

A row may be multiplied by any factor without changing M, as long as it is the same in N and in G. That is why units
and norms need not be exact, and why both matrices must be divided by the same ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import linalg

from sottovoce.errors import NotCertified
from sottovoce.verification.backwards import Sheet, pulled
from sottovoce.verification.forms import ComputedForm, still
from sottovoce.verification.rounding import (
    LARGEST,
    LEAST_SCALE,
    ROUNDED,
    UNDERFLOWN,
    UNSEEN,
    above,
    definite_room,
    gamma,
    roundings,
    underflown,
)
from sottovoce.verification.spectra import factors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from sottovoce.verification.backwards import Budget, Round, Whole
    from sottovoce.verification.fresh import FreshRows

    Floats = NDArray[np.float64]

__all__ = ["ExactPart", "SeenNoise", "exact_chain", "inverse_column", "program_form", "seen_noise"]


@dataclass(frozen=True, kw_only=True, eq=False)
class SeenNoise:
    """N and G of a view, rows at norm 1 in N: each entry is off by at most four units of 2⁻⁵³ of itself.

    `alive` are the rounds of which anything is seen, decided exactly. `noise` is N, a row for each row of the view
    and a column for each fresh ξ; `gain` is G, a column for each round.
    """

    noise: Floats
    gain: Floats
    alive: NDArray[np.bool_]


def seen_noise(
    rounds: Sequence[Round], rows: Sequence[FreshRows], code: Sequence[Fraction], budget: Budget
) -> SeenNoise:
    """Follow the rows of every round back to every draw and every contribution before it.

    `code` is the first column of the encoder C: the draws of all rounds are C⁻¹ξ, and ξ is fresh. Rounds that are
    alike, by their rows and their place in the schedule, share one chain, cut to the rounds that there are.

    Guarantee: entries within 4u of rationals that say what the view says, but for one positive factor a row: a
    quotient of whole numbers is rounded correctly (u), its division by the norm of the row once more (u), and the
    rest is room. Below 10⁻³⁰⁸ an entry is off by so little absolutely; `program_form` adds 10⁻¹⁵⁵ for it.
    """
    count = len(rows)
    starts = np.cumsum([0, *(rounds[t % len(rounds)].draws for t in range(count))])
    places = np.cumsum([0, *(len(each.drawn) for each in rows)])
    noise, gain = np.zeros((places[-1], starts[-1])), np.zeros((places[-1], count))
    alive = np.zeros(count, dtype=bool)
    inverse = inverse_column(code, count, budget)
    chains: dict[tuple[int, int], list[tuple[Floats, Floats, NDArray[np.bool_]]]] = {}
    for t in range(count - 1, -1, -1):
        key = id(rows[t]), t % len(rounds)
        if not len(rows[t].drawn):
            continue
        if key not in chains:
            chains[key] = _chain(rounds, rows[t], t, inverse, budget)
        here = slice(places[t], places[t + 1])
        for back, (drawn, given, seen) in enumerate(chains[key][: t + 1]):
            noise[here, starts[t - back] : starts[t - back + 1]] = drawn
            gain[here, t - back] = given
            alive[t - back] |= bool(seen.any())
        # Column a of `given` is what is contributed a rounds later, beside noise of this round: a row that came back.
        later = rows[t].given
        if later.shape[1] > 1:
            shown = _quotients(later * inverse[1], _units(rows[t], inverse), 1)
            gain[here, t + 1 : t + later.shape[1]] = shown[:, 1:]
            alive[t + 1 : t + later.shape[1]] |= (later[:, 1:] != 0).any(axis=0)
    norms = np.sqrt(np.square(noise).sum(axis=1))
    return SeenNoise(noise=noise / norms[:, None], gain=gain / norms[:, None], alive=alive)


def program_form(seen: SeenNoise) -> ComputedForm:
    """M of a view, with how far the true one may be above it.

        K = N Nᵀ,   X ≈ Nᵀ K⁻¹ G,   E = N X − G,   M ⪯ (X − N⁺E)ᵀ(X − N⁺E).

    With everything scaled by D = diag(scale), φ = ‖X D⁻¹‖ (`phi`) and ε = ‖N⁺E D⁻¹‖ ≤ ‖E D⁻¹‖/σ (`epsilon`), the
    mended X has ‖(X − N⁺E)D⁻¹‖² ≤ (φ + ε)², of which φ² is `matrix`; 2φε + ε² and the rounding of XᵀX are `margin`.

    * E is computed, and what its computation and the entries of N and G may hide is `unseen`: γ_{columns+10} of
      ‖N‖_F ‖x‖ + ‖g‖ for each column, ‖N‖_F = √rows because rows have norm 1.
    * σ is proved from K = N Nᵀ, which is off by γ_{columns+12} of |N||N|ᵀ, in norm at most of its trace, `rows`.
    * XᵀX sums `columns` products: γ_{columns+4} of entries that are at most 1 after scaling.

    Two steps of iterative refinement make E small; without them the result would be as true and wider.

    Guarantee: M ⪯ matrix + margin·diag(scale²), and M is 0 where not `alive`. `attains` is a lower bound.
    Source: weak duality of least squares; Rump, Verification of positive definiteness (2006), for σ.
    """
    N, G, alive = seen.noise, seen.gain, seen.alive
    rows, columns = N.shape
    if not alive.any():
        return still(alive.size)
    K = N @ N.T
    sigma = _least_singular(K, above(rows) * gamma(columns + 2 * ROUNDED + 4))
    L = linalg.cholesky(K, lower=True)
    X = np.asarray(N.T @ linalg.cho_solve((L, True), G))
    for _ in range(2):
        X = X - N.T @ linalg.cho_solve((L, True), N @ X - G)
    sizes = np.sqrt(np.square(X).sum(axis=0))
    scale = np.where(alive, np.maximum(sizes, LEAST_SCALE), 1.0)
    # What the residual misses by rounding, and by squares below the range of floats.
    unseen = gamma(columns + ROUNDED + 6) * (np.sqrt(rows) * sizes + np.linalg.norm(G, axis=0))
    missed = above(np.linalg.norm(N @ X - G, axis=0) + unseen + UNSEEN)
    epsilon = above(float(np.linalg.norm((missed / scale)[alive]))) / sigma
    M = X.T @ X
    phi = math.sqrt(above(float(np.abs(M / np.outer(scale, scale)).sum(axis=1).max())))
    rounding = gamma(columns + 4) * np.count_nonzero(alive)
    return ComputedForm(
        matrix=M,
        alive=alive,
        scale=scale,
        margin=above(2 * phi * epsilon + epsilon**2 + rounding),
        most=math.inf,
        attains=lambda contributions: _attained(seen, L, contributions),
    )


def _attained(seen: SeenNoise, factor: Floats, contributions: Floats) -> float:
    """2⟨G c, Z⟩ − ‖NᵀZ‖² at Z ≈ K⁻¹ G c, less all rounding: what Σ M_st ⟨c_s, c_t⟩ is not below, whatever Z is.

    Guarantee: a lower bound. `lost` is γ of ⟨|G||c|, |Z|⟩ for the product, the sum and the entries of G; `off`
    bounds ‖NᵀZ‖ against its computed value, by entries of N and sums of `rows` terms; norms round by γ of their
    length. `unseen` is what underflows in ⟨G c, Z⟩ and in squares, and 10⁻³⁰⁰ for each of Z what does in NᵀZ.
    Source: ‖K^{-½}G c‖² = max over Z of 2⟨G c, Z⟩ − ‖NᵀZ‖².
    """
    N, G = seen.noise, seen.gain
    shown = G @ contributions
    Z = linalg.cho_solve((factor, True), shown)
    back = float(np.linalg.norm(N.T @ Z))
    sizes = float(np.sum((np.abs(G) @ np.abs(contributions)) * np.abs(Z)))
    lost = gamma(sum(G.shape) + ROUNDED + Z.size + 8) * sizes
    off = gamma(N.shape[0] + ROUNDED + 4) * float(np.linalg.norm(np.abs(N).T @ np.abs(Z)))
    unseen = underflown(float(np.abs(Z).sum()))
    largest = (back * (1 + gamma(N.shape[1] * Z.shape[1] + 8)) + above(off) + UNDERFLOWN * Z.size) ** 2
    return float(2 * (float(np.sum(shown * Z)) - above(lost) - unseen) - largest * (1 + roundings(8)))


def _least_singular(K: Floats, error: float) -> float:
    """A number that the least singular value of N is not below, N Nᵀ being within `error` of K in norm.

    Half of the least eigenvalue as computed is tried as σ²: half is cheap, since σ only multiplies the tiny E.

    Guarantee: proved by a factorisation of K − (σ² + room)I, whose own failure `room` covers with 4(rows +
    8)u·trace, four times what Rump asks. The root is rounded down by 4u.
    Source: Rump, Verification of positive definiteness (2006).
    """
    rows = len(K)
    lowest = float(linalg.eigh(K, eigvals_only=True, subset_by_index=[0, 0])[0])
    square = lowest / 2
    room = error + 2 * definite_room(rows, rows + float(np.trace(K)))
    if square <= 2 * room or not factors(K - (square + room) * np.eye(rows)):
        raise NotCertified(
            "rounding may hide too much: what the observer sees is so close to dependent that this claim cannot be "
            f"checked in double precision (least eigenvalue {lowest:.1e}, rounding {room:.1e}; take fewer rounds or "
            "a smaller view)"
        )
    return math.sqrt(square) * (1 - roundings(4))


class ExactPart(NamedTuple):
    """What rows say of the fresh draws and the contribution of one round, in whole numbers over denominators.

    Rows of both have one common factor left out: that of C⁻¹ (`_units`).
    """

    drawn: Whole
    drawn_below: int
    given: Whole
    given_below: int


def exact_chain(
    rounds: Sequence[Round], rows: FreshRows, t: int, inverse: tuple[Whole, int], budget: Budget
) -> list[ExactPart]:
    """What the rows of round t say of the fresh draws and the contributions of rounds t, t − 1, …, 1.

        row of round t  →  pulled through round t − 1  →  … ; denominators multiply from round to round.

    Guarantee: exact.
    """
    given = rows.given[:, 0] if rows.given.shape[1] else rows.drawn[:, 0] * 0
    sheets = [Sheet(rows.drawn, rows.kept, given, 1)]
    for s in range(t - 1, -1, -1):
        kept, below = sheets[-1].kept, sheets[-1].below
        step_in = rounds[s % len(rounds)]
        held = {
            name: kept[:, r * step_in.n : (r + 1) * step_in.n] for r, name in enumerate(step_in.program.keeps)
        }
        sheet = pulled(step_in, held, len(step_in.steps), budget)
        sheets.append(sheet._replace(below=sheet.below * below))
    return [
        ExactPart(drawn, below, sheet.given * inverse[1], sheet.below)
        for sheet, (drawn, below) in zip(sheets, _encoded(sheets, inverse, budget), strict=True)
    ]


def _chain(
    rounds: Sequence[Round], rows: FreshRows, t: int, inverse: tuple[Whole, int], budget: Budget
) -> list[tuple[Floats, Floats, NDArray[np.bool_]]]:
    """The same in floats, each row divided by its largest entry on the ξ of round t.

    The last part says which contributions are seen, on whole numbers, so that a contribution too weak for a float is
    still known to be there.

    Guarantee: entries of N and G but for a factor a row, each rounded once.
    """
    units = _units(rows, inverse)
    return [
        (
            _quotients(part.drawn, units, part.drawn_below),
            _quotients(part.given[:, None], units, part.given_below)[:, 0],
            part.given != 0,
        )
        for part in exact_chain(rounds, rows, t, inverse, budget)
    ]


def _units(rows: FreshRows, inverse: tuple[Whole, int]) -> Whole:
    """The largest entry of each row on the fresh ξ of its own round, times the denominator of C⁻¹.

    The part of a row on the ξ of its own round is drawn·(C⁻¹)₀, and (C⁻¹)₀ = numbers[0]/denominator. Everything
    that is divided by these units has to be multiplied by that denominator, contributions too.
    """
    numbers, _ = inverse
    return np.asarray(np.abs(rows.drawn).max(axis=1) * abs(numbers[0]))


def _encoded(sheets: Sequence[Sheet], inverse: tuple[Whole, int], budget: Budget) -> list[tuple[Whole, int]]:
    """The parts of a chain on fresh ξ where the draws are C⁻¹ξ: a convolution over the rounds.

    Of round t − k a row says Σ_{a ≤ k} (C⁻¹)_{k−a} · (its part on the draws of round t − a): a draw of a later
    round holds the ξ of all earlier ones.

    The denominator of C⁻¹ is left out.

    Guarantee: exact.
    """
    numbers, _ = inverse
    if not (numbers[1:] != 0).any():
        return [(sheet.drawn * numbers[0], sheet.below) for sheet in sheets]
    # Each denominator divides the next one.
    common = sheets[-1].below
    blocks = []
    for sheet in sheets:
        budget.spend(1 + sheet.drawn.size, common, sheet.below)
        blocks.append(sheet.drawn * (common // sheet.below))
    result = []
    for back in range(len(blocks)):
        total = blocks[back] * numbers[0]
        for k in range(1, back + 1):
            if numbers[k]:
                budget.spend(total.size, common, numbers[k])
                total = total + blocks[back - k] * numbers[k]
        result.append((total, common))
    return result


def inverse_column(code: Sequence[Fraction], count: int, budget: Budget) -> tuple[Whole, int]:
    """The first column of C⁻¹ as whole numbers over one denominator.

        d_0 = 1/c_0,   d_k = −(1/c_0) Σ_{a ≥ 1} c_a d_{k−a}.

    Guarantee: exact.
    """
    column = [1 / code[0]]
    for k in range(1, count):
        budget.spend(50 * min(k, len(code)), column[-1].denominator, column[-1].denominator)
        column.append(-sum(code[a] * column[k - a] for a in range(1, min(k, len(code) - 1) + 1)) / code[0])
    scale = math.lcm(*(x.denominator for x in column))
    numbers = np.empty(count, dtype=object)
    numbers[:] = [int(x * scale) for x in column]
    return numbers, scale


def _quotients(table: Whole, units: Whole, below: int) -> Floats:
    """Each row over its unit and a denominator, rounded once.

    Python divides whole numbers of any length to the nearest float. Beyond 10¹⁰⁰ squares and products could leave
    the range of floats, so such rows are refused rather than bounded.
    """
    result = np.zeros(table.shape)
    try:
        for k, unit in enumerate(units):
            divisor = unit * below
            for j in np.flatnonzero(table[k] != 0):
                result[k, j] = table[k, j] / divisor
    except OverflowError:
        result[:] = math.inf
    if np.abs(result).max(initial=0.0) > LARGEST:
        raise NotCertified(
            "the noise of early rounds grows beyond 1e100 times that of late ones, so that nothing can be checked in "
            "double precision (take fewer rounds)"
        )
    return result
