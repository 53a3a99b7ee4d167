# SPDX-License-Identifier: Apache-2.0
"""The filter after infinitely many rounds, and bounds of how far its response is from the true one.

In steady state P = B P Bᵀ + I with the closed loop B = A(I − KC), so for every z on the unit circle and
S = (I − zB)⁻¹

    (D S)(D S)* = I        (innovations, whitened by D = L⁻¹C, are white: D S never lengthens a vector),
    (S − P)(S − P)* = P² − P        (multiply P = BPBᵀ + I by S and S*: SP + PS* = SS* + P), so ‖S‖ < 2‖P‖.

These two facts carry all the error bounds of this package: a change of A by E in the closed loop changes the
whitened response by at most ‖DS‖·‖E‖·‖S‖ ≤ ‖E‖·‖S‖, also where A itself has the eigenvalue 1.

In the code A is `transition`, C `rows`, K `gain`, P `covariance`, B and D are `closed.loop` and `closed.whitener`,
and L is `root`. P comes from a doubling of which nothing is assumed. Soundness rests on three things that are
measured for the P at hand: how far one plain step moves it (η), that P ⪰ 0.999 I, and what rounding does to that
step (`gain_distortion`). Which P is tried, and on how large a Krylov space, is speed.

Source: docs/mathematics.md, section 8; docs/proofs/filter.md (steady state) and docs/proofs/cut.md (what is cut).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg, sparse

from sottovoce.errors import NotCertified
from sottovoce.filtering import (
    ClosedLoop,
    FilterSizes,
    doublings,
    eigenvalue_ends,
    gain_distortion,
    spread,
    terms,
    whitener_error,
)
from sottovoce.rates.reduction import SpectralRange, reductions, spectral_range
from sottovoce.rates.rounding import EXACT_NORM, LEAST_COVARIANCE, inverse_norm
from sottovoce.rounding import above, gamma_above, roundings

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from sottovoce.filtering import HiddenSystem

__all__ = ["SteadyState", "steady_state"]

# Speed alone: networks up to this size are not worth reducing; above the second, the full filter takes hours.
SMALL, LARGE = 160, 3000
# Speed alone: what the cut may cost as it is computed, as a distortion of the noise, before a basis has to grow.
REDUCTION_GOAL = 1e-12
# Speed alone: 2^60 rounds; a filter that has not settled by then is refused by what a plain step measures.
DOUBLINGS = 60


@dataclass(frozen=True, kw_only=True, eq=False)
class SteadyState:
    """The stationary filter of a hidden system, optimal for noise within `distortion` of the identity.

    `transition` A, `rows` C and `inputs` (column j: the unknown node at position j) are those of the system
    that was solved, all unknown nodes or a Krylov space of them (`method`); `gain` K, `covariance` P,
    `closed`, B = A(I − KC) and D = L⁻¹C, belong to the filter. Response and true response
    differ at frequency ω by what `distortion_within` says.

    With r states, m rows and n unknown nodes `inputs` is (r, n), `gain` (r, m) and `covariance` (r, r).

    * `distortion`: how far the covariance of the noise that the filter whitens is from I, as a share.
    * `injection`: A K L, by which a whitened innovation moves the state.
    * `spectrum`: where the eigenvalues of a symmetric A lie; None for others.
    * `coupling` ≥ sup ‖D S J‖ and `coupled`, the spectrum that the cut part meets: what a Krylov space leaves out.
    * `loop_error` ≥ ‖E‖ of the true B = `closed.loop` + E, and `loop_bound` ≥ ‖S‖ at every frequency.
    """

    transition: np.ndarray | csr_array
    rows: np.ndarray
    inputs: np.ndarray | csr_array
    gain: np.ndarray
    covariance: np.ndarray
    closed: ClosedLoop
    distortion: float
    method: str
    injection: np.ndarray
    spectrum: SpectralRange | None
    coupling: float
    coupled: SpectralRange | None
    loop_error: float
    loop_bound: float

    @property
    def size(self) -> int:
        """The dimension of the state."""
        return self.closed.size

    def resolvent_bound(self, frequency: float) -> float:
        """An upper bound of ‖(I − e^{−iω}B)⁻¹‖₂.

        For symmetric A: x = (I − zB)⁻¹b solves x = (I − zA)⁻¹(b − zAKL·DSb), and ‖DS‖ ≤ 1.

        Guarantee: upper bound, for B as stored. Up to `EXACT_NORM` states, and without a `spectrum`, it is that of
        `inverse_norm`.
        Source: docs/proofs/filter.md, steady state, for `loop_bound`.
        """
        if self.size > EXACT_NORM and self.spectrum is not None:
            push = above(float(np.linalg.norm(self.injection))) * (1 + self.distortion)
            return min(self.loop_bound, self.spectrum.resolvent(frequency) * (1 + push))
        return min(self.loop_bound, inverse_norm(self.closed.shifted(frequency)))

    def distortion_within(self, begin: float, end: float, resolvent: float) -> float:
        """A bound d with (√φ̂ − d)/(1 + d) ≤ √φ ≤ (√φ̂ + d)/(1 − d) for begin ≤ ω ≤ end.

        There, ‖(I − zB)⁻¹‖ must be at most `resolvent`; e^{iω} is closest to a real interval at an end.

        Guarantee: upper bound for 0 ≤ begin ≤ end ≤ π, rounding and reduction included; infinite where nothing is
        proved.
        Source: docs/proofs/cut.md; docs/proofs/filter.md, "What a distortion is".
        """
        # (I − z(B + E))⁻¹ = S(I − zES)⁻¹, so that the response turns by ‖E‖‖S‖/(1 − ‖E‖‖S‖).
        loop = self.loop_error * resolvent
        if loop >= 0.5:
            return math.inf
        outside = 0.0
        if self.coupled is not None:
            outside = self.coupling * max(self.coupled.resolvent(begin), self.coupled.resolvent(end))
        return self.distortion + loop / (1 - loop) + outside


def steady_state(system: HiddenSystem) -> SteadyState:
    """The stationary filter of a hidden system: P = A(P − PCᵀ(CPCᵀ)⁻¹CP)Aᵀ + I.

    Small networks are solved as they are. Larger ones with symmetric weights are reduced to a Krylov space as
    soon as what it cuts costs less than rounding does.

    Guarantee: exact for noise whose covariance is within `distortion` of the identity, whatever rounding and
    the solver did: that is measured by one plain step of the recursion, not assumed.
    Source: the doubling algorithm of Chu, Fan, Lin & Wang (2004), for the filter written with independent
    noises: ξ_t = A s_{t−1}, seen as Cξ_t + Cu_t, moves with AΠ, Π = I − CᵀC, and process noise AΠu_t.

    >>> from sottovoce.filtering import hidden_system
    >>> from sottovoce.graphs import metropolis_weights
    >>> from sottovoce.protocols import gossip
    >>> from sottovoce.views import View, observe
    >>> pair = gossip(metropolis_weights("path:n=2"), rounds=1)
    >>> system = hidden_system(pair, observe(pair, View.single_node(0, own_noise="hidden")))
    >>> steady_state(system).covariance.round(6).tolist()
    [[1.309017, 0.309017], [0.309017, 1.309017]]
    """
    n = system.unknown.size
    whole = spectral_range(system) if system.symmetric else None
    if n > SMALL:
        state = _reduced(system, whole)
        if state is not None:
            return state
    if n > LARGE:
        raise NotCertified(
            f"no certified rate for a view with {n} unknown nodes: above {LARGE} it needs symmetric weights (and one "
            "damping for all), "
            "an observer that knows its own noise, and a graph that a small Krylov space describes (bound Δ² "
            "over T rounds with sensitivity(gossip(weights, rounds=T), view) instead)"
        )
    given = system.rows_error, 1.0 if system.symmetric else math.sqrt(n)
    inputs = sparse.csr_array(sparse.eye_array(n, format="csr"))
    return _measured_filter(system.transition, system.rows, inputs, given, whole)


def _reduced(system: HiddenSystem, whole: SpectralRange | None) -> SteadyState | None:
    """The filter on a Krylov space whose cut is at rounding level, or None where no small one is.

    Guarantee: `coupling` and `coupled` bound what the space leaves out, whatever its size.
    """
    for reduction in reductions(system, whole):
        space = reduction.space
        given = reduction.rounding + reduction.off, 1.0
        state = _measured_filter(space.transition, space.rows, space.inputs, given, whole)
        cut, proved = state.closed.coupling(reduction.residual, state.loop_bound)
        # Speed alone: a cut that is smaller than what rounding does anyway is good enough.
        if cut <= max(REDUCTION_GOAL / reduction.outside.largest(), reduction.rounding):
            # What the relations of the space are off by meets the rest as what is cut does: ‖E(I − KC)‖.
            stretched = above(reduction.rounding) * (1 + float(np.linalg.norm(state.gain)))
            return replace(
                state,
                method=f"Krylov space of dimension {state.size}",
                distortion=state.distortion + space.defect.skew,
                coupling=proved + stretched,
                coupled=reduction.outside,
            )
    return None


def _measured_filter(
    transition: np.ndarray | csr_array,
    rows: np.ndarray,
    inputs: np.ndarray | csr_array,
    given: tuple[float, float],
    spectrum: SpectralRange | None,
) -> SteadyState:
    """Solve, take one plain step to see how far from steady the solution is, and add up the errors.

    `given` is (how far rows and relations are off, a bound of ‖|A|‖ that one unit of the weights counts with).

    Guarantee: `distortion`, `loop_error` and `loop_bound` hold for the exact system behind these floats.
    Source: docs/proofs/filter.md, steady state; ‖S‖ ≤ 2‖P‖/(1 − η), and 1/(1 − η) ≤ 1 + 2η for η ≤ ½.
    """
    m = rows.shape[0]
    dense = transition if isinstance(transition, np.ndarray) else transition.toarray()
    try:
        moved, (gain, whitener, root, covariance) = _settled(transition, rows, _doubled(dense, rows))
    except np.linalg.LinAlgError:
        # Rounding alone can take a covariance this large out of the positive definite matrices.
        raise _not_steady(math.inf) from None
    if not moved < 0.01:
        raise _not_steady(moved)
    least, norm = eigenvalue_ends(covariance)
    if not least >= LEAST_COVARIANCE:
        raise _not_steady(math.inf)
    carried, gained = np.asarray(transition @ gain), float(np.linalg.norm(gain))
    sizes = FilterSizes(transition=transition, covariance=covariance, norm=norm, gain=gained)
    distortion = moved + gain_distortion(sizes, rows)
    if not distortion < 0.01:
        raise _not_steady(distortion)
    turned, spread_of_weights = given
    # Rounding in the weights and in the orthonormal rows; in B = A − (AK)C, by γ_1|A| + γ_{k+m+1}|A||K||C|, and in
    # I − zB, by a few roundings of an entry; and what the whitener has beside the rows, which is read like a
    # loop's.
    size_of_loop = spread(transition) * (1 + gained * spread(rows))
    loop_error = roundings(2) * spread_of_weights + turned * (1 + float(np.linalg.norm(carried)))
    loop_error += gamma_above(terms(transition) + m + 8) * (1 + size_of_loop)
    loop_error += whitener_error(covariance, rows)
    return SteadyState(
        transition=transition,
        rows=rows,
        inputs=inputs,
        gain=gain,
        covariance=covariance,
        closed=ClosedLoop(loop=dense - carried @ rows, whitener=whitener),
        distortion=distortion,
        method="all unknown nodes",
        injection=carried @ root,
        spectrum=spectrum,
        coupling=0.0,
        coupled=None,
        loop_error=loop_error,
        loop_bound=2 * norm * (1 + 2 * distortion),
    )


def _settled(
    transition: np.ndarray | csr_array, rows: np.ndarray, covariance: np.ndarray
) -> tuple[float, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """How far a plain step moves P at the steadiest of a few, and gain, whitener, root and P there.

    Any of them would do for the proof, which needs η alone; the steadiest has the smallest.
    """
    moved = math.inf
    for _ in range(4):
        gain, whitener, root, following = _plain_step(transition, rows, covariance)
        step = float(np.linalg.norm(following - covariance))
        if not step < moved:
            break
        moved, kept = step, (gain, whitener, root, covariance)
        covariance = following
    if not np.isfinite(moved):
        raise _not_steady(moved)
    return moved, kept


def _doubled(transition: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """P = I + X, X = A₀ᵀX(I + G₀X)⁻¹A₀ + H₀, A₀ = (AΠ)ᵀ, G₀ = CᵀC, H₀ = AΠAᵀ.

    Guarantee: none; `_measured_filter` measures what comes out. Π = I − CᵀC is a projection, so that H₀ = (AΠ)(AΠ)ᵀ.
    """
    aside = transition - (transition @ rows.T) @ rows
    for found, added in doublings(aside.T, rows.T @ rows, aside @ aside.T, most=DOUBLINGS):
        if not np.linalg.norm(found) < 1e13:
            raise _not_steady(math.inf)
        if np.linalg.norm(added) <= roundings(2) * np.linalg.norm(found):
            break
    return np.asarray(found + np.eye(len(transition)))


def _plain_step(
    transition: np.ndarray | csr_array, rows: np.ndarray, covariance: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Gain K, whitener L⁻¹C, root L, and the covariance one round later.

    L Lᵀ = C P Cᵀ,   S = L⁻¹ C P,   K = Sᵀ L⁻¹,   P' = A (P − SᵀS) Aᵀ + I.
    """
    seen = rows @ covariance
    root = np.linalg.cholesky(seen @ rows.T)
    whitened = linalg.solve_triangular(root, seen, lower=True, check_finite=False)
    whitener = linalg.solve_triangular(root, rows, lower=True, check_finite=False)
    gain = linalg.solve_triangular(root, whitened, lower=True, trans="T", check_finite=False).T
    half = transition @ (covariance - whitened.T @ whitened)
    following = transition @ half.T
    following = (following + following.T) / 2
    following.flat[:: len(covariance) + 1] += 1.0
    return gain, whitener, root, following


def _not_steady(distortion: float) -> NotCertified:
    """The error for a filter that does not settle."""
    return NotCertified(
        f"the filter of this view does not settle (distortion {distortion:.3g}; at most 0.01 is accepted): a "
        "direction of the messages that never fades is not seen (observe a row that does not sum to 0)"
    )
