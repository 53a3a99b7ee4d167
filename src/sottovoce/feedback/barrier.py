# SPDX-License-Identifier: Apache-2.0
"""A barrier method for chains of matrix inequalities, every iterate of which is strictly feasible.

One round of the inequality of `sottovoce.feedback` compares what a difference may grow to with what it is allowed:

    F_p = D(β_p) + B₁ P_p B₁ᵀ − B₂ P_{p−1} B₂ᵀ − κ_p b bᵀ ≻ 0,     D(β) = diag(1 − β, β),

the noise being scaled to 1. A chain has one such inequality for each phase; Σ w_p/κ_p is what it costs. Nodes that
share one β form a group, in which D is constant, so that its rows can be turned into few: a step costs the same for ten
nodes and for a hundred thousand.

What is minimised for a falling sequence of ν is

    f(P, β, κ) = (1/ν) Σ w_p/κ_p − Σ_p (log det F_p + log det P_p + Σ log β_p + log κ_p + log(M q − tr P_p)),

with M = `LARGEST_MEAN` and q = `rows.width`. F is linear in (P, β, κ), so f is convex, and it is infinite where
some F or P is singular: Newton steps that descend never leave the feasible set. Where f is least, Σ w/κ exceeds the
optimum by at most ν times the number of logarithms, counted with the dimension of their matrices
(`_Problem.parameter`).

Coordinates are scaled by the point they start from: P = L Lᵀ moves to L (I + E) Lᵀ, κ to κ (1 + k), β to β + e.
Then log det P has the gradient I and the Hessian identity whatever P is, and with Û = [B₁ L, B₂ L′, √κ b] (L′ of
the phase before), G = F⁻¹ and g = Ûᵀ G Û every derivative of log det F is made of blocks of g:

    d(−log det F)[E] = −s_a tr(g_aa E),     d²(−log det F)[E, E′] = s_a s_b tr(E g_ab E′ g_ba),

where s = 1 for a phase's own P and −1 for that of the phase before.

All of this is speed. A solution that is off, or a gap that was not reached, makes a wider bound: what stands in the
end is what `sottovoce.verification.shift` proves of it (docs/training.md, "How it is solved and proved").
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from sottovoce.feedback.phases import Phase, Rows, Solution
from sottovoce.feedback.systems import positive_solution

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["minimise"]

# Where no direction of P is bounded by the inequality its mean eigenvalue stays below this.
LARGEST_MEAN = 1e4
# ν is multiplied by the first number as soon as the Newton decrement is below the second.
SHRINK, CENTRED = 0.15, 0.5
MOST_STEPS = 400
# Numbers of small matrices that are worked out in one piece; more would leave the cache.
STACKED = 12_000


@dataclass(frozen=True, kw_only=True, eq=False)
class _Point:
    """A strictly feasible point, by phases.

    `factors` [p, q, q] are lower triangular L with P = L Lᵀ (where they are not given), `betas` [p, groups] hold one
    β for each group of nodes (0 for groups without lower rows), `kappas` [p] one κ (0 for phases without weight).
    """

    factors: np.ndarray
    betas: np.ndarray
    kappas: np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False)
class _States:
    """All phases at a feasible point: the scaled columns Û, F⁻¹ and log det F.

    `columns` is [p, rows of F, 2q + 1], `inverse` [p, rows of F, rows of F] and symmetric, `log_dets` [p].
    """

    columns: np.ndarray
    inverse: np.ndarray
    log_dets: np.ndarray


def minimise(
    rows: Rows, phases: Sequence[Phase], *, gap: float = 1e-5, start: Solution | None = None
) -> Solution:
    """Minimise Σ w_p/κ_p over all P_p ⪰ 0, β_p and κ_p with F_p ⪰ 0, up to a relative `gap`.

    Newton steps on (1/ν) Σ w/κ − Σ (log det F + log det P + log β + log κ + …), ν ← 0.15 ν when centred.

    Args:
        rows: [B₁ B₂ b] of all phases, noise scaled to 1.
        phases: the inequalities, in an order in which most follow the one before: the Newton system is then banded.
        gap: how far Σ w/κ may be above the optimum, as a part of it.
        start: a strictly feasible solution of a chain with as many phases.

    Guarantee: every iterate, so also the last, satisfies F_p ≻ 0 to rounding; `closed` says whether the gap was
    reached. The proof is made afterwards, with rounding counted, by `sottovoce.verification.shift`.
    Source: Boyd & Vandenberghe, Convex Optimization, Section 11.3.

    One node that nobody else hides, B₁ = 0 and B₂ = 0: all that is left is κ ≤ 1, local DP.

    >>> rows = Rows.grouped(np.array([[0.0, 0.0, 1.0]]), np.zeros((1, 3)), [np.array([0])])
    >>> found = minimise(rows, [Phase(previous=0, weight=1.0)])
    >>> found.closed, round(float(found.kappas[0]), 4)
    (True, 1.0)
    """
    problem = _Problem(rows, list(phases))
    point = problem.first_point() if start is None else problem.point_of(start)
    nu = 0.05 * problem.cost(point)
    states = problem.states(point)
    assert states is not None
    value = problem.value(point, states, nu)
    steps, closed = 0, False
    while steps < MOST_STEPS:
        steps += 1
        direction, decrement = problem.newton(point, states, nu)
        # Near the centre of this ν: what is left to gain is below ν times the parameter, or a smaller ν is due.
        if decrement < CENTRED:
            if nu * problem.parameter < gap * problem.cost(point):
                closed = True
                break
            nu *= SHRINK
            value = problem.value(point, states, nu)
            continue
        moved = problem.search(point, value, direction, decrement, nu)
        if moved is None:
            # No step descends any more: rounding has the last word, and the point stays feasible.
            break
        point, states, value = moved
    return problem.solution(point, steps, closed)


class _Problem:
    """The chain with its index tables; all phases are worked out side by side.

    `I`, `J` are the places (i ≤ j) of a symmetric matrix and `s` the scale that makes them an orthonormal basis of
    the symmetric matrices. In a flat matrix `above` and `below` are the places (i, j) and (j, i) of each, `pairs` those
    of (i, k), (j, l), (i, l) and (j, k) of two of them, and `places` has for each entry where it is in `I`, `J`.
    `signs` says with which sign a column of Û enters F; `turn` has ∂F/∂β of a group as a
    row, which is all there is of it, since that derivative is diagonal. `parameter` is that of the barrier, the
    number of logarithms with the dimension of their matrices.

    Every phase has the unknowns (E, β of the free groups, κ), `width` of them, in the slices `P` and `beta` and last.
    Those that a phase lacks, E where P is given and κ where it has no weight, are numbers of the system that stay 0.
    """

    def __init__(self, rows: Rows, phases: list[Phase]) -> None:
        self.rows, self.phases = rows, phases
        q = rows.width
        self.q = q
        self.I, self.J = np.triu_indices(q)
        self.above, self.below = self.I * q + self.J, self.J * q + self.I
        self.places = np.zeros(q * q, dtype=int)
        self.places[self.above] = self.places[self.below] = np.arange(self.I.size)
        self.s = np.where(self.I == self.J, 0.5, math.sqrt(0.5))
        self.identity = self._vector(np.eye(q))
        self.scales = 2 * np.outer(self.s, self.s)
        self.pairs = [
            a[:, None] * q + b
            for a, b in ((self.I, self.I), (self.J, self.J), (self.I, self.J), (self.J, self.I))
        ]
        self.signs = np.concatenate([np.ones(q), -np.ones(q + 1)])
        self.free = rows.free
        self.P, self.beta = slice(0, self.I.size), slice(self.I.size, self.I.size + self.free.size)
        self.width = self.I.size + self.free.size + 1
        self.chosen = np.array([phase.given is None for phase in phases])
        self.weights = np.array([phase.weight for phase in phases])
        self.charged = self.weights > 0
        # Where a phase follows none, what stood before it is 0.
        self.follows = np.flatnonzero([phase.previous is not None for phase in phases])
        self.behind = np.array([phase.previous for phase in phases if phase.previous is not None], dtype=int)
        # No two phases follow one, so that what is added to its block is added once.
        assert np.unique(self.behind).size == self.behind.size
        self.is_chain = bool((self.behind == self.follows - 1).all())
        self.columns = np.vstack([rows.upper, rows.lower])
        self.turn = np.zeros((self.free.size, len(self.columns)))
        for place, g in enumerate(self.free):
            self.turn[place] = np.concatenate([-1.0 * (rows.upper_group == g), 1.0 * (rows.lower_group == g)])
        self.parameter = (
            len(phases) * (len(self.columns) + self.free.size)
            + int(self.chosen.sum()) * (q + 1)
            + int(self.charged.sum())
        )

    def first_point(self) -> _Point:
        """P = ε² I for the first ε that is feasible, β in the middle and κ a quarter of the target's noise.

        With P = 0 every F is at least ¼, so a small ε will do.
        """
        kappas = np.where(self.charged, 0.25 / float((self.rows.upper[:, -1] ** 2).sum()), 0.0)
        # β = ½ where it is to be chosen leaves ½ to the upper and to the lower rows alike.
        betas = np.zeros((len(self.phases), self.rows.groups))
        betas[:, self.free] = 0.5
        size = 0.1
        while True:
            factors = self._with_given([np.eye(self.q) * size] * len(self.phases))
            point = _Point(factors=factors, betas=betas, kappas=kappas)
            if self.states(point) is not None:
                return point
            size /= 2
            if size < 1e-9:
                raise ArithmeticError("no strictly feasible point was found to start from")

    def point_of(self, start: Solution) -> _Point:
        """The point of a strictly feasible solution of a chain with as many phases, with some room in κ.

        A solution of another chain stands at the edge of its own inequality. Less κ makes F larger everywhere.
        """
        factors = self._with_given(start.factors)
        point = _Point(factors=factors, betas=np.array(start.multipliers), kappas=0.8 * start.kappas)
        if self.states(point) is None:
            raise ArithmeticError("the chain was started from a point that is not strictly feasible")
        return point

    def _with_given(self, factors: Sequence[np.ndarray]) -> np.ndarray:
        """One factor a phase: the one that is given, or else the one of these in its place."""
        chosen = [L if p.given is None else p.given for L, p in zip(factors, self.phases, strict=True)]
        return np.array(chosen, dtype=np.float64).reshape(len(self.phases), self.q, self.q)

    def solution(self, point: _Point, steps: int, closed: bool) -> Solution:
        """The point as what is handed out."""
        return Solution(
            factors=tuple(point.factors),
            multipliers=tuple(point.betas),
            kappas=point.kappas,
            steps=steps,
            closed=closed,
        )

    def cost(self, point: _Point) -> float:
        """Σ w/κ."""
        return float((self.weights[self.charged] / point.kappas[self.charged]).sum())

    def states(self, point: _Point) -> _States | None:
        """Û, F⁻¹ and log det F of every phase; None if one of them is not strictly feasible.

        Cholesky decides: F = D(β) + Û diag(signs) Ûᵀ.
        """
        rows, q = self.rows, self.q
        if not ((point.betas[:, self.free] > 0).all() and (point.kappas >= 0).all()):
            return None
        columns = np.zeros((len(self.phases), len(self.columns), 2 * q + 1))
        columns[:, :, :q] = self.columns[:, :q] @ point.factors
        columns[self.follows, :, q : 2 * q] = self.columns[:, q : 2 * q] @ point.factors[self.behind]
        columns[:, :, -1] = self.columns[:, -1] * np.sqrt(point.kappas)[:, None]
        F = columns * self.signs @ columns.swapaxes(1, 2)
        diagonal = np.hstack([(1 - point.betas)[:, rows.upper_group], point.betas[:, rows.lower_group]])
        _diagonals(F)[:] += diagonal
        lower, inverse = np.empty_like(F), np.empty_like(F)
        for p, each in enumerate(F):
            factor, failed = lapack.dpotrf(each, lower=1)
            if failed:
                return None
            # Above its diagonal the inverse of LAPACK is 0, as its Cholesky factor is.
            lower[p], inverse[p] = factor, lapack.dpotri(factor, lower=1)[0]
        if not np.isfinite(lower).all():
            return None
        halves = _diagonals(inverse).copy()
        inverse += inverse.swapaxes(1, 2)
        _diagonals(inverse)[:] = halves
        return _States(columns=columns, inverse=inverse, log_dets=2 * np.log(_diagonals(lower)).sum(axis=1))

    def value(self, point: _Point, states: _States, nu: float) -> float:
        """The function f at the top of this module, on which Newton steps descend.

        Infinite where the trace of some P is too large. L is triangular, so log det P = 2 Σ log L_ii.
        """
        L = point.factors[self.chosen]
        room = LARGEST_MEAN * self.q - (L * L).sum(axis=(1, 2))
        if (room <= 0).any():
            return math.inf
        total = self.cost(point) / nu - float(states.log_dets.sum())
        total -= float(np.log(point.betas[:, self.free]).sum())
        total -= float(np.log(point.kappas[self.charged]).sum())
        return total - 2 * float(np.log(np.abs(_diagonals(L))).sum()) - float(np.log(room).sum())

    def newton(self, point: _Point, states: _States, nu: float) -> tuple[np.ndarray, float]:
        """The Newton direction −H⁻¹g in scaled coordinates, [p, width], and its decrement √(gᵀH⁻¹g).

        Half the square of the decrement is what a quadratic model of f promises of the step.
        """
        gradient, own, across, before = self._derivatives(point, states, nu)
        H, slope = self._assembled(own, across, before), gradient.ravel()
        # Where a direction is flat to rounding, Cholesky still runs to its end.
        np.fill_diagonal(H, H.diagonal() * (1 + 1e-13))
        try:
            direction = -self._hessian_solution(H, slope)
        except linalg.LinAlgError:
            direction = -linalg.lstsq(H, slope)[0]
        return direction.reshape(gradient.shape), math.sqrt(max(0.0, float(-slope @ direction)))

    def _assembled(self, own: np.ndarray, across: np.ndarray, before: np.ndarray) -> np.ndarray:
        """The Hessian from its blocks."""
        count, P = len(own), self.P
        hessian = np.zeros((count, self.width, count, self.width))
        for p, block in enumerate(own):
            hessian[p, :, p] = block
        for k, (p, b) in enumerate(zip(self.follows.tolist(), self.behind.tolist(), strict=True)):
            hessian[b, P, b, P] += before[k]
            hessian[p, :, b, P] += across[k]
            hessian[b, P, p, :] += across[k].T
        return hessian.reshape(count * self.width, count * self.width)

    def _hessian_solution(self, hessian: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """The solution of a positive definite system, banded where that saves work.

        Phases that follow each other couple neighbours only: a chain of T phases costs T times what two do. One
        phase, or a ring of them, is dense.
        """
        size, band = gradient.size, 2 * self.width - 1
        if not self.is_chain or 2 * band > size:
            return positive_solution(hessian, gradient, lower=True)
        bands = hessian.take(self.bands)
        return np.asarray(linalg.solveh_banded(bands, gradient, lower=True, check_finite=False))

    @cached_property
    def bands(self) -> np.ndarray:
        """Where entry (j + k, j) of the Hessian stands in it, for each k and j; beyond the last row nobody reads."""
        size = len(self.phases) * self.width
        k, j = np.ogrid[: 2 * self.width, :size]
        return np.asarray(np.minimum(j + k, size - 1) * size + j)

    def _derivatives(
        self, point: _Point, states: _States, nu: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Gradient [p, width] and blocks of the Hessian: of each phase with itself, with the P before it, of that P.

        Every derivative of log det F is a trace of products of g = ÛᵀF⁻¹Û, F⁻¹ and F⁻¹Û. With G = F⁻¹ and F′, F″
        the derivatives of F in two unknowns, −log det F has the gradient −tr(G F′) and the Hessian tr(G F′ G F″).
        """
        q, P, beta = self.q, self.P, self.beta
        reached = states.inverse @ states.columns
        g = states.columns.swapaxes(1, 2) @ reached
        down = 1 / point.betas[:, self.free]
        gradient = np.zeros((len(self.phases), self.width))
        own = np.zeros((len(self.phases), self.width, self.width))

        # ∂F/∂β of a group is −1 on its upper and +1 on its lower rows, held in `self.turn`: tr(G Δ) is a sum over
        # the diagonal of G, and tr(G Δ G Δ′) one over squares of its entries. −log β adds −1/β and 1/β².
        gradient[:, beta] = -(_diagonals(states.inverse) @ self.turn.T) - down
        own[:, beta, beta] = self.turn @ states.inverse**2 @ self.turn.T
        _diagonals(own)[:, beta] += down**2

        # ∂F[E] = ± Û_a E Û_aᵀ: its trace with G is ± tr(g_aa E), with G Δ G it is ± tr(E (GÛ_a)ᵀ Δ GÛ_a), and with
        # G ∂F[E′] G it is ±± tr(E g_ab E′ g_ba).
        mine = g[:, :q, :q]
        gradient[:, P] = -self._vector(mine)
        own[:, P, P] = self._operator(mine)
        own[:, beta, P] = self._grouped(reached[:, :, :q])
        # κ ← κ (1 + k): ∂F = −κ b bᵀ, which is the last column of Û with a minus; −log κ adds −1 and 1, and
        # w/(νκ) adds −w/(νκ) and 2w/(νκ).
        last = g[:, -1, -1]
        price = np.divide(self.weights, nu * point.kappas, out=np.zeros(len(last)), where=self.charged)
        gradient[:, -1] = last - 1 - price
        own[:, -1, -1] = last**2 + 1 + 2 * price
        own[:, beta, -1] = -(reached[:, :, -1] ** 2 @ self.turn.T)
        own[:, P, -1] = -self._squared(g[:, :q, -1])
        own[:, P, beta] = own[:, beta, P].swapaxes(1, 2)
        own[:, -1, : self.width - 1] = own[:, : self.width - 1, -1]
        self._add_own(point, gradient, own)

        # The phase before enters with a minus, and so does κ: their signs cancel.
        some = self.follows
        there = g[some, q : 2 * q, q : 2 * q]
        np.add.at(gradient[:, P], self.behind, self._vector(there))
        before = self._operator(there)
        across = np.zeros((len(some), self.width, self.I.size))
        across[:, P] = -self._operator(g[some, :q, q : 2 * q])
        across[:, beta] = -self._grouped(reached[some, :, q : 2 * q])
        across[:, -1] = self._squared(g[some, q : 2 * q, -1])

        # What a phase lacks stays where it is: 1 on the diagonal and 0 beside it.
        if not self.chosen.all():
            self._without(self.chosen, P, gradient, own, across)
            fixed = ~self.chosen[self.behind]
            before[fixed], across[fixed] = 0.0, 0.0
        if not self.charged.all():
            self._without(self.charged, slice(self.width - 1, self.width), gradient, own, across)
        return gradient, own, across, before

    def _without(
        self, there: np.ndarray, place: slice, gradient: np.ndarray, own: np.ndarray, across: np.ndarray
    ) -> None:
        """Take unknowns out of the phases that do not have them."""
        lacking = np.flatnonzero(~there)
        gradient[lacking, place] = 0.0
        own[lacking, place, :] = 0.0
        own[lacking, :, place] = 0.0
        for p in lacking:
            _diagonals(own[p : p + 1])[:, place] = 1.0
        across[~there[self.follows], place] = 0.0

    def _add_own(self, point: _Point, gradient: np.ndarray, own: np.ndarray) -> None:
        """The barriers −log det P and −log(room − tr P).

        In scaled coordinates the first has the gradient −I and the Hessian E ↦ E. For the second tr P moves by
        tr(LᵀL E), and v = LᵀL/(room − tr P) is its gradient and v vᵀ its Hessian.
        """
        L = point.factors
        room = LARGEST_MEAN * self.q - (L * L).sum(axis=(1, 2))
        trace = self._vector(L.swapaxes(1, 2) @ L) / room[:, None]
        gradient[:, self.P] += trace - self.identity
        own[:, self.P, self.P] += _outer(trace)
        _diagonals(own)[:, self.P] += 1

    def search(
        self, point: _Point, value: float, direction: np.ndarray, decrement: float, nu: float
    ) -> tuple[_Point, _States, float] | None:
        """The first of the steps 1, ½, ¼, … that stays feasible and descends from `value`; None if none does.

        To descend is to gain a tenth of what the gradient promises, which is λ² for a full step with decrement λ.
        The last term allows for the rounding of f itself.
        """
        length = 1.0
        while length > 1e-10:
            moved = self._moved(point, length * direction)
            found = None if moved is None else self.states(moved)
            if moved is not None and found is not None:
                reached = self.value(moved, found, nu)
                if reached <= value - 0.1 * length * decrement**2 + 1e-12 * abs(value):
                    return moved, found, reached
            length /= 2
        return None

    def _moved(self, point: _Point, step: np.ndarray) -> _Point | None:
        """The point after a step; None if some P would not be positive."""
        kappas = point.kappas * (1 + step[:, -1])
        if (kappas < 0).any():
            return None
        # E = Y + Yᵀ, where Y is 0 below its diagonal and has the coordinates times s elsewhere.
        moved = (step[:, self.P] * self.s).take(self.places, axis=1).reshape(point.factors.shape)
        halves = _diagonals(moved)
        halves[:] = 1 + halves + halves
        try:
            roots = np.linalg.cholesky(moved)
        except np.linalg.LinAlgError:
            return None
        betas = point.betas.copy()
        betas[:, self.free] += step[:, self.beta]
        # L (I + E) Lᵀ has the factor L R, R that of I + E: triangular, so that its diagonal gives the determinant.
        return _Point(factors=point.factors @ roots, betas=betas, kappas=kappas)

    def _vector(self, E: np.ndarray) -> np.ndarray:
        """Coordinates of the symmetric part of E in the orthonormal basis of symmetric matrices.

        E_ii on the diagonal and (E_ij + E_ji)/√2 beside it, so that ⟨vector(E), vector(E′)⟩ = tr(E E′).
        """
        flat = E.reshape(*E.shape[:-2], self.q**2)
        found = flat.take(self.above, axis=-1)
        found += flat.take(self.below, axis=-1)
        found *= self.s
        return np.asarray(found)

    def _squared(self, v: np.ndarray) -> np.ndarray:
        """The coordinates of v vᵀ for each row v."""
        found = v.take(self.I, axis=-1)
        found *= v.take(self.J, axis=-1)
        found *= 2 * self.s
        return np.asarray(found)

    def _grouped(self, reached: np.ndarray) -> np.ndarray:
        """One row a group: the coordinates of ÛᵀF⁻¹ Δ F⁻¹Û, Δ being ∂F/∂β.

        Δ is diagonal, so this is a sum of r rᵀ over the rows r of F⁻¹Û, with the signs of `turn`.
        """
        return np.asarray(self.turn @ self._squared(reached))

    def _operator(self, B: np.ndarray) -> np.ndarray:
        """The matrices of E ↦ B E Bᵀ in these coordinates.

        The entry at ((i, j), (k, l)) is B_ik B_jl + B_il B_jk, up to the scales of both places.
        """
        if len(B) > 1 and len(B) * self.scales.size > STACKED:
            return np.concatenate([self._operator(B[k : k + 1]) for k in range(len(B))])
        flat, (ik, jl, il, jk) = B.reshape(len(B), B.shape[1] * B.shape[2]), self.pairs
        direct = flat.take(ik, axis=1) * flat.take(jl, axis=1)
        direct += flat.take(il, axis=1) * flat.take(jk, axis=1)
        direct *= self.scales
        return np.asarray(direct)


def _diagonals(A: np.ndarray) -> np.ndarray:
    """The diagonals of a stack of square matrices that lie in one piece, to be written to."""
    return A.reshape(len(A), A.shape[-1] ** 2)[:, :: A.shape[-1] + 1]


def _outer(v: np.ndarray) -> np.ndarray:
    """The matrix v vᵀ of each row v."""
    return np.asarray(v[:, :, None] * v[:, None, :])
