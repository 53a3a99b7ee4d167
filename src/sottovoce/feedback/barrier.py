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
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from sottovoce.feedback.phases import Phase, Rows, Solution

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["minimise"]

# Where no direction of P is bounded by the inequality its mean eigenvalue stays below this.
LARGEST_MEAN = 1e4
# ν is multiplied by the first number as soon as the Newton decrement is below the second.
SHRINK, CENTRED = 0.15, 0.5
MOST_STEPS = 400


@dataclass(frozen=True, kw_only=True, eq=False)
class _Point:
    """A strictly feasible point, by phases.

    `factors` are lower triangular L (q × q) with P = L Lᵀ, `betas` hold one β for each group of nodes (0 for groups
    without lower rows), `kappas` one κ (0 for phases without weight).
    """

    factors: list[np.ndarray]
    betas: list[np.ndarray]
    kappas: np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False)
class _State:
    """One phase at a feasible point: the scaled columns Û, F⁻¹ and log det F.

    `columns` is (rows of F) × (2q + 1), `inverse` symmetric with as many rows as F.
    """

    columns: np.ndarray
    inverse: np.ndarray
    log_det: float


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
            continue
        moved = problem.search(point, states, direction, decrement, nu)
        if moved is None:
            # No step descends any more: rounding has the last word, and the point stays feasible.
            break
        point, states = moved
    return problem.solution(point, steps, closed)


@dataclass(frozen=True, kw_only=True)
class _Places:
    """Where the unknowns of a phase stand; −1 for a κ that is none.

    `P` holds the q(q + 1)/2 coordinates of E (none where P is given), `beta` those of the free groups.
    """

    P: slice
    beta: slice
    kappa: int


class _Problem:
    """The chain with its index tables.

    `I`, `J` are the places (i ≤ j) of a symmetric matrix and `s` the scale that makes them an orthonormal basis of
    the symmetric matrices; `signs` says with which sign a column of Û enters F; `turn` has ∂F/∂β of a group as a
    row, which is all there is of it, since that derivative is diagonal. `parameter` is that of the barrier, the
    number of logarithms with the dimension of their matrices.
    """

    def __init__(self, rows: Rows, phases: list[Phase]) -> None:
        self.rows, self.phases = rows, phases
        q = rows.width
        self.q = q
        self.I, self.J = np.triu_indices(q)
        self.s = np.where(self.I == self.J, 0.5, math.sqrt(0.5))
        self.scales = np.outer(self.s, self.s)
        self.unit, self.diagonal = np.eye(q), self._vector(np.eye(q))
        self.signs = np.concatenate([np.ones(q), -np.ones(q + 1)])
        self.free = rows.free
        size = 0
        self.places: list[_Places] = []
        for phase in phases:
            own = self.I.size if phase.given is None else 0
            betas = size + own
            kappa = betas + self.free.size if phase.weight else -1
            self.places.append(
                _Places(P=slice(size, betas), beta=slice(betas, betas + self.free.size), kappa=kappa)
            )
            size += own + self.free.size + (1 if phase.weight else 0)
        self.size = size
        # Unknowns of a phase meet those of the phase before, and no others: ordered by phases the Hessian has
        # a band of two phases. A chain that closes into a ring meets its end at its start, and has none.
        behind = [p if phase.previous is None else phase.previous for p, phase in enumerate(phases)]
        first = [min(self.places[p].P.start, self.places[k].P.start) for p, k in enumerate(behind)]
        last = [max(self._stop(p), self._stop(k)) for p, k in enumerate(behind)]
        self.band = max(b - a - 1 for a, b in zip(first, last, strict=True))
        self.columns = np.vstack([rows.upper, rows.lower])
        self.turn = np.zeros((self.free.size, len(self.columns)))
        for place, g in enumerate(self.free):
            self.turn[place] = np.concatenate([-1.0 * (rows.upper_group == g), 1.0 * (rows.lower_group == g)])
        self.parameter = sum(
            len(self.columns)
            + self.free.size
            + (q + 1 if phase.given is None else 0)
            + (1 if phase.weight else 0)
            for phase in phases
        )

    def _stop(self, p: int) -> int:
        """Where the unknowns of a phase end."""
        return max(int(self.places[p].beta.stop), self.places[p].kappa + 1)

    def first_point(self) -> _Point:
        """P = ε² I for the first ε that is feasible, β in the middle and κ a quarter of the target's noise.

        With P = 0 every F is at least ¼, so a small ε will do.
        """
        kappas = np.array(
            [
                0.25 * float((self.rows.upper[:, -1] ** 2).sum()) ** -1 if p.weight else 0.0
                for p in self.phases
            ]
        )
        betas = [self._middle() for _ in self.phases]
        size = 0.1
        while True:
            factors = [np.eye(self.q) * size if p.given is None else p.given for p in self.phases]
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
        factors = [L if p.given is None else p.given for L, p in zip(start.factors, self.phases, strict=True)]
        point = _Point(factors=factors, betas=list(start.multipliers), kappas=0.8 * start.kappas)
        if self.states(point) is None:
            raise ArithmeticError("the chain was started from a point that is not strictly feasible")
        return point

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
        return sum(p.weight / float(k) for p, k in zip(self.phases, point.kappas, strict=True) if p.weight)

    def _middle(self) -> np.ndarray:
        """β = ½ where it is to be chosen, which leaves ½ to the upper and to the lower rows alike."""
        beta = np.zeros(self.rows.groups)
        beta[self.free] = 0.5
        return beta

    def states(self, point: _Point) -> list[_State] | None:
        """What is known of every phase at a point; None if one of them is not strictly feasible."""
        found = []
        for p, phase in enumerate(self.phases):
            before = np.zeros((self.q, self.q)) if phase.previous is None else point.factors[phase.previous]
            state = self._state(point.factors[p], before, point.betas[p], float(point.kappas[p]))
            if state is None:
                return None
            found.append(state)
        return found

    def _state(self, own: np.ndarray, before: np.ndarray, beta: np.ndarray, kappa: float) -> _State | None:
        """Û, F⁻¹ and log det F of one phase, or None where F is not positive definite.

        `own` and `before` are the factors L and L′. Cholesky decides: F = D(β) + Û diag(signs) Ûᵀ.
        """
        rows, q = self.rows, self.q
        if not (np.all(beta[self.free] > 0) and kappa >= 0):
            return None
        columns = np.hstack(
            [
                self.columns[:, :q] @ own,
                self.columns[:, q : 2 * q] @ before,
                self.columns[:, 2 * q :] * math.sqrt(kappa),
            ]
        )
        F = columns * self.signs @ columns.T
        _diagonal(F)[:] += np.concatenate([(1 - beta)[rows.upper_group], beta[rows.lower_group]])
        lower, failed = lapack.dpotrf(F, lower=1)
        if failed or not np.isfinite(lower).all():
            return None
        # Above its diagonal the inverse of LAPACK is 0, as its Cholesky factor is.
        half, _ = lapack.dpotri(lower, lower=1)
        inverse = half + half.T
        _diagonal(inverse)[:] = half.diagonal()
        return _State(columns=columns, inverse=inverse, log_det=2 * float(np.log(lower.diagonal()).sum()))

    def value(self, point: _Point, states: list[_State], nu: float) -> float:
        """The function f at the top of this module, on which Newton steps descend.

        Infinite where the trace of some P is too large. L is triangular, so log det P = 2 Σ log L_ii.
        """
        total = self.cost(point) / nu
        for p, phase in enumerate(self.phases):
            total -= states[p].log_det
            total -= float(np.log(point.betas[p][self.free]).sum())
            if phase.weight:
                total -= math.log(point.kappas[p])
            if phase.given is None:
                L = point.factors[p]
                room = LARGEST_MEAN * self.q - float((L * L).sum())
                if room <= 0:
                    return math.inf
                total -= 2 * float(np.log(np.abs(L.diagonal())).sum()) + math.log(room)
        return total

    def newton(self, point: _Point, states: list[_State], nu: float) -> tuple[np.ndarray, float]:
        """The Newton direction −H⁻¹g in scaled coordinates and its decrement √(gᵀH⁻¹g).

        Half the square of the decrement is what a quadratic model of f promises of the step.
        """
        gradient = np.zeros(self.size)
        hessian = np.zeros((self.size, self.size))
        for p in range(len(self.phases)):
            self._add_phase(p, point, states[p], nu, gradient, hessian)
        # Where a direction is flat to rounding, Cholesky still runs to its end.
        _diagonal(hessian)[:] *= 1 + 1e-13
        try:
            direction = -self._solved(hessian, gradient)
        except linalg.LinAlgError:
            direction = -linalg.lstsq(hessian, gradient)[0]
        return direction, math.sqrt(max(0.0, float(-gradient @ direction)))

    def _solved(self, hessian: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """The solution of a positive definite system, banded where that saves work.

        Phases that follow each other couple neighbours only: a chain of T phases costs T times what two do. One
        phase, or a ring of them, is dense.
        """
        if 4 * self.band > self.size:
            return np.asarray(linalg.cho_solve(linalg.cho_factor(hessian, lower=True), gradient))
        bands = np.zeros((self.band + 1, self.size))
        for k in range(self.band + 1):
            bands[k, : self.size - k] = np.diagonal(hessian, -k)
        return np.asarray(linalg.solveh_banded(bands, gradient, lower=True))

    def _add_phase(
        self, p: int, point: _Point, state: _State, nu: float, gradient: np.ndarray, hessian: np.ndarray
    ) -> None:
        """Add what one phase contributes to gradient and Hessian.

        Every derivative of log det F is a trace of products of g = ÛᵀF⁻¹Û, F⁻¹ and F⁻¹Û. With G = F⁻¹ and F′, F″
        the derivatives of F in two unknowns, −log det F has the gradient −tr(G F′) and the Hessian tr(G F′ G F″).
        """
        q, phase = self.q, self.phases[p]
        places = self.places[p]
        reached = state.inverse @ state.columns
        g = state.columns.T @ reached
        down = 1 / point.betas[p][self.free]

        # ∂F/∂β of a group is −1 on its upper and +1 on its lower rows, held in `self.turn`: tr(G Δ) is a sum over
        # the diagonal of G, and tr(G Δ G Δ′) one over squares of its entries. −log β adds −1/β and 1/β².
        b = places.beta
        gradient[b] -= self.turn @ state.inverse.diagonal() + down
        hessian[b, b] += self.turn @ (state.inverse**2) @ self.turn.T + np.diag(down**2)

        parts: list[tuple[slice, slice, float]] = []
        if phase.given is None:
            parts.append((places.P, slice(0, q), 1.0))
            self._add_own(p, point, gradient, hessian)
        if phase.previous is not None and self.phases[phase.previous].given is None:
            parts.append((self.places[phase.previous].P, slice(q, 2 * q), -1.0))
        # ∂F[E] = ± Û_a E Û_aᵀ: its trace with G is ± tr(g_aa E), with G Δ G it is ± tr(E (GÛ_a)ᵀ Δ GÛ_a), and with
        # G ∂F[E′] G it is ±± tr(E g_ab E′ g_ba).
        for place, block, sign in parts:
            gradient[place] -= sign * self._vector(g[block, block])
            cross = sign * self._grouped(reached[:, block])
            hessian[b, place] += cross
            hessian[place, b] += cross.T
            for other, column, other_sign in parts:
                hessian[place, other] += sign * other_sign * self._operator(g[block, column])
        if phase.weight:
            # κ ← κ (1 + k): ∂F = −κ b bᵀ, which is the last column of Û with a minus; −log κ adds −1 and 1, and
            # w/(νκ) adds −w/(νκ) and 2w/(νκ).
            k, kappa = places.kappa, float(point.kappas[p])
            gradient[k] += g[-1, -1] - 1 - phase.weight / (nu * kappa)
            hessian[k, k] += g[-1, -1] ** 2 + 1 + 2 * phase.weight / (nu * kappa)
            through = self.turn @ reached[:, -1] ** 2
            hessian[b, k] -= through
            hessian[k, b] -= through
            for place, block, sign in parts:
                cross = -sign * self._vector(np.outer(g[block, -1], g[block, -1]))
                hessian[place, k] += cross
                hessian[k, place] += cross

    def _add_own(self, p: int, point: _Point, gradient: np.ndarray, hessian: np.ndarray) -> None:
        """The barriers −log det P and −log(room − tr P).

        In scaled coordinates the first has the gradient −I and the Hessian E ↦ E. For the second tr P moves by
        tr(LᵀL E), and v = LᵀL/(room − tr P) is its gradient and v vᵀ its Hessian.
        """
        place, L = self.places[p].P, point.factors[p]
        trace = self._vector(L.T @ L) / (LARGEST_MEAN * self.q - float((L * L).sum()))
        gradient[place] += trace - self.diagonal
        own = np.outer(trace, trace)
        _diagonal(own)[:] += 1
        hessian[place, place] += own

    def search(
        self, point: _Point, states: list[_State], direction: np.ndarray, decrement: float, nu: float
    ) -> tuple[_Point, list[_State]] | None:
        """The first of the steps 1, ½, ¼, … that stays feasible and descends; None if none does.

        To descend is to gain a tenth of what the gradient promises, which is λ² for a full step with decrement λ.
        The last term allows for the rounding of f itself.
        """
        value = self.value(point, states, nu)
        length = 1.0
        while length > 1e-10:
            moved = self._moved(point, length * direction)
            found = None if moved is None else self.states(moved)
            if moved is not None and found is not None:
                reached = self.value(moved, found, nu)
                if reached <= value - 0.1 * length * decrement**2 + 1e-12 * abs(value):
                    return moved, found
            length /= 2
        return None

    def _moved(self, point: _Point, step: np.ndarray) -> _Point | None:
        """The point after a step; None if some P would not be positive."""
        factors, betas, kappas = list(point.factors), [], point.kappas.copy()
        for p, phase in enumerate(self.phases):
            places = self.places[p]
            if phase.given is None:
                root, failed = lapack.dpotrf(self.unit + self._matrix(step[places.P]), lower=1)
                if failed:
                    return None
                # A triangular factor of L (I + E) Lᵀ, so that its diagonal gives the determinant.
                factors[p] = np.tril(lapack.dgeqrf((point.factors[p] @ root).T)[0].T)
            beta = point.betas[p].copy()
            beta[self.free] += step[places.beta]
            betas.append(beta)
            if phase.weight:
                kappas[p] *= 1 + step[places.kappa]
        if (kappas < 0).any():
            return None
        return _Point(factors=factors, betas=betas, kappas=kappas)

    def _vector(self, E: np.ndarray) -> np.ndarray:
        """Coordinates of the symmetric part of E in the orthonormal basis of symmetric matrices.

        E_ii on the diagonal and (E_ij + E_ji)/√2 beside it, so that ⟨vector(E), vector(E′)⟩ = tr(E E′).
        """
        return np.asarray((E[..., self.I, self.J] + E[..., self.J, self.I]) * self.s)

    def _grouped(self, reached: np.ndarray) -> np.ndarray:
        """One row a group: the coordinates of ÛᵀF⁻¹ Δ F⁻¹Û, Δ being ∂F/∂β.

        Δ is diagonal, so this is a sum of r rᵀ over the rows r of F⁻¹Û, with the signs of `turn`.
        """
        products = reached[:, self.I] * reached[:, self.J] * (2 * self.s)
        return np.asarray(self.turn @ products)

    def _matrix(self, v: np.ndarray) -> np.ndarray:
        """The symmetric matrix with these coordinates."""
        E = np.zeros((self.q, self.q))
        E[self.I, self.J] = v * self.s
        return E + E.T

    def _operator(self, B: np.ndarray) -> np.ndarray:
        """The matrix of E ↦ B E Bᵀ in these coordinates.

        The entry at ((i, j), (k, l)) is B_ik B_jl + B_il B_jk, up to the scales of both places.
        """
        first, second = B[self.I], B[self.J]
        direct = first[:, self.I] * second[:, self.J] + first[:, self.J] * second[:, self.I]
        return np.asarray(2 * direct * self.scales)


def _diagonal(A: np.ndarray) -> np.ndarray:
    """The diagonal of a square matrix, to be written to."""
    return A.reshape(-1)[:: len(A) + 1] if A.flags.c_contiguous else A.T.reshape(-1)[:: len(A) + 1]
