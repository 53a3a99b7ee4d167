# SPDX-License-Identifier: Apache-2.0
"""The whitened response over all frequencies, as Taylor polynomials on pieces that cover [0, π].

Around ω₀, with z₀ = e^{−iω₀}, S = (I − z₀B)⁻¹ and w = e^{−iθ} − 1,

    G(ω₀ + θ) = D(I − z₀(1 + w)B)⁻¹ = Σ_k (z₀w)^k D S (BS)^k,   ‖D S‖ ≤ 1,   ‖BS‖ = ‖S − I‖ ≤ γ.

For complex |θ| ≤ ρ with (e^ρ − 1)γ = ½ this is at most 2, so by Cauchy's estimate the coefficient of θ^k is
at most 2ρ^{−k}, and on |θ| ≤ ρ/3 the polynomial of degree p − 1 misses at most 3·3^{−p}. Pieces are short
only where the resolvent is large, so slow networks need a few hundred, not a grid as fine as their slowest
mode.

That ‖D S‖ ≤ 1 holds up to the distortion of the filter, which multiplies the remainder. Where pieces begin and end
is speed, as long as they leave no gap; each carries its own proved `slack`.

Source: docs/proofs/frequencies.md (Taylor pieces); docs/mathematics.md, section 8.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import lapack

from sottovoce.rates.rounding import FLOATED, OVERLAP, solve_residual
from sottovoce.rounding import above, gamma

if TYPE_CHECKING:
    from sottovoce.rates.steady_filter import SteadyState

__all__ = ["TERMS", "Piece", "rows_at", "taylor_cover"]

# Speed alone: more terms cost time and fewer leave more out, which is counted; likewise how far pieces shrink.
TERMS = 24
SHRINK = 3.0
# Speed alone: solves of up to so many numbers are measured at once; more would cost memory.
MEASURED = 2**14


@dataclass(frozen=True, kw_only=True, eq=False)
class Piece:
    """G(ω) = Σ_k rows[k] τ^k for ω = centre + halfwidth·τ, |τ| ≤ 1, as rows (terms, m, state).

    For every target √φ(ω) lies between (√φ̂ − slack)/(1 + distortion) and (√φ̂ + slack)/(1 − distortion), φ̂
    being what the polynomial gives; `slack` counts the terms left out and the distortion.

    `centre` and `halfwidth` are in radians a round. Distortion is that of `SteadyState.distortion_within`.
    """

    centre: float
    halfwidth: float
    rows: np.ndarray
    slack: float
    distortion: float

    def raised(self, bound: np.ndarray) -> np.ndarray:
        """An upper bound of φ, from one of φ̂: ((√φ̂ + slack)/(1 − distortion))².

        Guarantee: upper bound; infinite where the distortion leaves nothing proved.
        """
        if self.distortion >= 0.5:
            return np.full_like(bound, np.inf)
        return np.asarray(((np.sqrt(bound) + self.slack) / (1 - self.distortion)) ** 2 * (1 + FLOATED))

    def lowered(self, value: np.ndarray) -> np.ndarray:
        """A lower bound of φ, from φ̂ at the same frequency, or at one that rounding has moved by a few units.

        |dG/dω| ≤ 2/ρ on a piece, ρ being three times its half width.

        Guarantee: a lower bound wherever φ̂ is what the piece says.
        """
        slack = self.slack + FLOATED / self.halfwidth
        return np.asarray(
            (np.maximum(np.sqrt(value) - slack, 0) / (1 + self.distortion)) ** 2 * (1 - FLOATED)
        )


def taylor_cover(state: SteadyState) -> list[Piece]:
    """Pieces that cover [0, π] without a gap.

    Guarantee: on each the polynomial is within `slack` of the response of the stationary filter.
    Source: Cauchy's estimate; the contraction is that of a whitened innovation.
    """
    found: list[Piece] = []
    smallest = _halfwidth(state.loop_bound)
    edge, guess = 0.0, math.pi
    while edge < math.pi:
        # A guess, cut short so that the last piece ends a hair beyond π.
        half = min(max(guess, smallest), (math.pi - edge) / 2 * (1 + 1e-12))
        while True:
            bound = state.resolvent_bound(edge + half)
            allowed = _halfwidth(bound)
            if half <= allowed or half <= smallest:
                break
            half = max(min(0.95 * allowed, 0.7 * half), smallest)
        found.append(_piece(state, edge + half, half, bound))
        # Pieces overlap by more than their edges are rounded by.
        edge, guess = edge + 2 * half * (1 - OVERLAP), 1.5 * half
    return found


def rows_at(found: list[Piece], frequencies: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """G at each frequency, (frequencies, m, state), and the numbers of the pieces that hold them.

    Guarantee: within `slack` of the response, like all values of a piece; what rounding of the place τ does is
    counted in `Piece.lowered`.
    """
    ends = np.array([piece.centre + piece.halfwidth for piece in found])
    which = np.minimum(np.searchsorted(ends, frequencies), len(found) - 1)
    values = np.empty((len(frequencies), *found[0].rows.shape[1:]), dtype=np.complex128)
    for k, (number, frequency) in enumerate(zip(which, frequencies, strict=True)):
        piece = found[number]
        place = (frequency - piece.centre) / piece.halfwidth
        values[k] = np.tensordot(place ** np.arange(TERMS), piece.rows, axes=1)
    return values, which


def _halfwidth(resolvent: float) -> float:
    """ρ/3 with (e^ρ − 1)γ = ½, γ = 1 + ‖S‖."""
    return math.log1p(0.5 / (1 + resolvent)) / SHRINK


def _piece(state: SteadyState, centre: float, half: float, bound: float) -> Piece:
    """The Taylor polynomial around one frequency; row · BS = z₀⁻¹(row · S − row) takes one solve a term.

    Term k as computed is off by e_k = e_{k−1}(S − I) − ρ_k S + (its own rounding), ρ_k the residual of its solve.
    It counts |w|^k, |w| ≤ e^h − 1, and ‖S − I‖|w| ≤ ⅙: all together are off by at most 1.2·Σ |w|^k(‖S‖‖ρ_k‖ +
    γ‖T_k‖).
    """
    shifted = state.closed.shifted(centre)
    factors = lapack.zgetrf(shifted.T)[:2]
    # What each solve is given is the term before it; the first is given Dᵀ.
    terms = np.empty((TERMS + 1, state.size, state.rows.shape[0]), dtype=np.complex128)
    terms[0] = state.closed.whitener.T
    rights, powers, found = terms[:-1], terms[1:], np.empty_like(terms[1:])
    for k in range(TERMS):
        found[k] = _refined_solution(factors, shifted.T, rights[k])
        # (z₀)^k D S (BS)^k from the term before it.
        powers[k] = found[k] - rights[k] if k else found[k]
    together = max(1, MEASURED // max(1, found[0].size))
    blocks = [slice(begin, begin + together) for begin in range(0, TERMS, together)]
    residuals = np.concatenate([solve_residual(shifted.T, rights[part], found[part]) for part in blocks])
    rounded = gamma(4 * (TERMS + 2)) * np.linalg.norm(powers, axis=(1, 2))
    solved = float(1.2 * math.expm1(half) ** np.arange(TERMS) @ (bound * residuals + rounded))
    scaled = _COMPOSITION * half ** np.arange(TERMS)
    rows = np.tensordot(scaled, powers, axes=([0], [0])).transpose(0, 2, 1)
    # Over the piece the resolvent grows by at most 1/(1 − ⅙): |w|γ ≤ (e^{ρ/3} − 1)γ ≤ ⅙.
    distortion = state.distortion_within(centre - half, centre + half, bound / (1 - 0.5 / SHRINK))
    missed = 2 * SHRINK**-TERMS / (1 - 1 / SHRINK) * (1 + distortion)
    # A product with an input of norm 1 sums as many terms as there are states; with a unit vector it is exact.
    if isinstance(state.inputs, np.ndarray):
        solved += gamma(2 * (state.size + 2)) * float(np.linalg.norm(rows, axis=(1, 2)).sum())
    return Piece(
        centre=centre,
        halfwidth=half,
        rows=np.ascontiguousarray(rows),
        slack=missed + distortion + above(solved),
        distortion=distortion,
    )


def _refined_solution(
    factors: tuple[np.ndarray, np.ndarray], matrix: np.ndarray, right: np.ndarray
) -> np.ndarray:
    """Solve, and refine once."""
    first = lapack.zgetrs(*factors, right)[0]
    return np.asarray(first + lapack.zgetrs(*factors, right - matrix @ first)[0])


def _composition() -> np.ndarray:
    """Entry [k, l]: the coefficient of θ^l in (e^{−iθ} − 1)^k."""
    series = np.array([0.0] + [(-1j) ** k / math.factorial(k) for k in range(1, TERMS)])
    table = np.zeros((TERMS, TERMS), dtype=np.complex128)
    table[0, 0] = 1
    for k in range(1, TERMS):
        table[k] = np.convolve(table[k - 1], series)[:TERMS]
    return table


_COMPOSITION = _composition()
