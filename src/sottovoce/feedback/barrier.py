# SPDX-License-Identifier: Apache-2.0
"""A barrier method for chains of matrix inequalities, every iterate of which is strictly feasible.

One round of the inequality of `sottovoce.feedback` compares what a difference may grow to with what it is allowed:

    F_p = D(β_p) + B₁ P_p B₁ᵀ − B₂ P_{p−1} B₂ᵀ − κ_p b bᵀ ≻ 0,     D(β) = diag(1 − β, β),

the noise being scaled to 1. A chain has one such inequality for each phase; Σ w_p/κ_p is what it costs. Nodes that
share one β form a group, in which D is constant, so that its rows can be turned into few: a step costs the same for ten
nodes and for a hundred thousand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from sottovoce.feedback.phases import Phase, Rows, Solution

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["minimise"]

# Where no direction of P is bounded by the inequality its mean eigenvalue stays below this.
LARGEST_MEAN = 1e4
SHRINK, CENTRED = 0.15, 0.5
MOST_STEPS = 400


@dataclass(frozen=True, kw_only=True, eq=False)
class _Point:
    """A strictly feasible point."""

    factors: list[np.ndarray]
    betas: list[np.ndarray]
    kappas: np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False)
class _State:
    """One phase at a feasible point: the scaled columns Û, F⁻¹ and log det F."""

    columns: np.ndarray
    inverse: np.ndarray
    log_det: float


def minimise(
    rows: Rows, phases: Sequence[Phase], *, gap: float = 1e-5, start: Solution | None = None
) -> Solution:
    """Minimise Σ w_p/κ_p over all P_p ⪰ 0, β_p and κ_p with F_p ⪰ 0, up to a relative `gap`.

    Newton steps on (1/ν) Σ w/κ − Σ (log det F + log det P + log β + log κ + …), ν ← 0.15 ν when centred.

    Guarantee: every iterate, so also the last, satisfies F_p ≻ 0 to rounding; `closed` says whether the gap was
    reached. The proof is made afterwards, with rounding counted, by `sottovoce.verification.shift`.
    Source: Boyd & Vandenberghe, Convex Optimization, Section 11.3.
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
        if decrement < CENTRED:
            if nu * problem.parameter < gap * problem.cost(point):
                closed = True
                break
            nu *= SHRINK
            continue
        moved = problem.search(point, states, direction, decrement, nu)
        if moved is None:
            break
        point, states = moved
    return problem.solution(point, steps, closed)


@dataclass(frozen=True, kw_only=True)
class _Places:
    """Where the unknowns of a phase stand; −1 for a κ that is none."""

    P: slice
    beta: slice
    kappa: int


class _Problem:
    """The chain with its index tables."""

    def __init__(self, rows: Rows, phases: list[Phase]) -> None:
        self.rows, self.phases = rows, phases
        q = rows.width
        self.q = q
        self.I, self.J = np.triu_indices(q)
        self.s = np.where(self.I == self.J, 0.5, math.sqrt(0.5))
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
        # Unknowns of a phase meet those of the phase before, and no others.
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
        """P = ε I for the first ε that is feasible, β in the middle and κ a quarter."""
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
        """The point of a strictly feasible solution of a chain with as many phases, with some room in κ."""
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
        F[np.diag_indices_from(F)] += np.concatenate([(1 - beta)[rows.upper_group], beta[rows.lower_group]])
        lower, failed = linalg.lapack.dpotrf(F, lower=1)
        if failed or not np.isfinite(lower).all():
            return None
        inverse, _ = linalg.lapack.dpotri(lower, lower=1)
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        return _State(columns=columns, inverse=inverse, log_det=2 * float(np.log(np.diag(lower)).sum()))

    def value(self, point: _Point, states: list[_State], nu: float) -> float:
        """The function that Newton steps descend on."""
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
                total -= 2 * float(np.log(np.abs(np.diag(L))).sum()) + math.log(room)
        return total

    def newton(self, point: _Point, states: list[_State], nu: float) -> tuple[np.ndarray, float]:
        """The Newton direction in scaled coordinates and its decrement."""
        gradient = np.zeros(self.size)
        hessian = np.zeros((self.size, self.size))
        for p in range(len(self.phases)):
            self._add_phase(p, point, states[p], nu, gradient, hessian)
        hessian[np.diag_indices(self.size)] *= 1 + 1e-13
        try:
            direction = -self._solved(hessian, gradient)
        except linalg.LinAlgError:
            direction = -linalg.lstsq(hessian, gradient)[0]
        return direction, math.sqrt(max(0.0, float(-gradient @ direction)))

    def _solved(self, hessian: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """The solution of a positive definite system; a chain without end couples neighbours only, so it is banded."""
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

        Every derivative of log det F is a trace of products of g = ÛᵀF⁻¹Û, F⁻¹ and F⁻¹Û.
        """
        q, phase = self.q, self.phases[p]
        places = self.places[p]
        reached = state.inverse @ state.columns
        g = state.columns.T @ reached
        down = 1 / point.betas[p][self.free]

        # ∂F/∂β of a group is −1 on its upper and +1 on its lower rows, held in `self.turn`.
        b = places.beta
        gradient[b] -= self.turn @ np.diag(state.inverse) + down
        hessian[b, b] += self.turn @ (state.inverse**2) @ self.turn.T + np.diag(down**2)

        parts: list[tuple[slice, slice, float]] = []
        if phase.given is None:
            parts.append((places.P, slice(0, q), 1.0))
            self._add_own(p, point, gradient, hessian)
        if phase.previous is not None and self.phases[phase.previous].given is None:
            parts.append((self.places[phase.previous].P, slice(q, 2 * q), -1.0))
        for place, block, sign in parts:
            gradient[place] -= sign * self._vector(g[block, block])
            cross = sign * self._grouped(reached[:, block])
            hessian[b, place] += cross
            hessian[place, b] += cross.T
            for other, column, other_sign in parts:
                hessian[place, other] += sign * other_sign * self._operator(g[block, column])
        if phase.weight:
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
        """The barriers log det P and log(room − tr P)."""
        place, L = self.places[p].P, point.factors[p]
        diagonal = self._vector(np.eye(self.q))
        trace = self._vector(L.T @ L) / (LARGEST_MEAN * self.q - float((L * L).sum()))
        gradient[place] += trace - diagonal
        hessian[place, place] += np.eye(self.I.size) + np.outer(trace, trace)

    def search(
        self, point: _Point, states: list[_State], direction: np.ndarray, decrement: float, nu: float
    ) -> tuple[_Point, list[_State]] | None:
        """The first of the steps 1, ½, ¼, … that stays feasible and descends."""
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
                try:
                    root = linalg.cholesky(np.eye(self.q) + self._matrix(step[places.P]), lower=True)
                except linalg.LinAlgError:
                    return None
                # A triangular factor of L (I + E) Lᵀ, so that its diagonal gives the determinant.
                factors[p] = np.tril(linalg.qr((point.factors[p] @ root).T, mode="r")[0][: self.q].T)
            beta = point.betas[p].copy()
            beta[self.free] += step[places.beta]
            betas.append(beta)
            if phase.weight:
                kappas[p] *= 1 + step[places.kappa]
        if (kappas < 0).any():
            return None
        return _Point(factors=factors, betas=betas, kappas=kappas)

    def _vector(self, E: np.ndarray) -> np.ndarray:
        """Coordinates of the symmetric part of E in the orthonormal basis of symmetric matrices."""
        return np.asarray((E[..., self.I, self.J] + E[..., self.J, self.I]) * self.s)

    def _grouped(self, reached: np.ndarray) -> np.ndarray:
        """One row a group: the coordinates of ÛᵀF⁻¹ Δ F⁻¹Û, Δ being ∂F/∂β."""
        products = reached[:, self.I] * reached[:, self.J] * (2 * self.s)
        return np.asarray(self.turn @ products)

    def _matrix(self, v: np.ndarray) -> np.ndarray:
        """The symmetric matrix with these coordinates."""
        E = np.zeros((self.q, self.q))
        E[self.I, self.J] = v * self.s
        return E + E.T

    def _operator(self, B: np.ndarray) -> np.ndarray:
        """The matrix of E ↦ B E Bᵀ in these coordinates."""
        first, second = B[self.I], B[self.J]
        direct = first[:, self.I] * second[:, self.J] + first[:, self.J] * second[:, self.I]
        return np.asarray(2 * direct * np.outer(self.s, self.s))
