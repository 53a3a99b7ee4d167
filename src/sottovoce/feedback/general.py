# SPDX-License-Identifier: Apache-2.0
"""What training with memory costs: the general inequality, solved by a plain barrier method and proved afterwards.

For each move m from a state with Π to one with Π⁺ (Theorem 2 of docs/training.md; names as in `Move`),

    F_m = [ Π⁺ + NNᵀ − BβBᵀ − κbbᵀ − 𝒜Π𝒜ᵀ     −𝒜ΠRᵀ ]
          [        −RΠ𝒜ᵀ                     β − RΠRᵀ ]  ⪰ 0,

and a run costs Σ counts/κ. Π = X P Xᵀ with X a basis of what a state does not show (`bases`), so CΠ = 0, and F is
linear in the unknowns x = (coordinates of every P, every β, every κ, slack):

    F_m(x) = `constants`[m] + Σ_i x_i `directions`[m]_i + x_slack I.

The sum runs over the unknowns in `places`[m] alone. The matrices P themselves are held in the same lists, as
inequalities P ≻ 0. What Newton steps descend on, for falling ν, is

    f(x) = cost(x)/ν − Σ log det F_m(x) − Σ log det P − Σ log(β, κ) − Σ log(M q − tr P).

There is nothing here of what makes `sottovoce.feedback.barrier` fast for many nodes and rounds: Hessians are dense,
and all derivatives of F are held. In exchange the moves may be anything that is linear. It is a search, and speed
is all there is to it; `sottovoce.verification.moves` builds F anew, in rationals, and proves it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from sottovoce.certificates import MovesProof
from sottovoce.errors import NotCertified
from sottovoce.feedback.systems import positive_solution
from sottovoce.verification import kernel, proved_cost

if TYPE_CHECKING:
    from sottovoce.verification import ExactRow, Recursion

__all__ = ["ProvedCost", "recursion_cost"]

SHRINK, CENTRED, MOST_STEPS = 0.15, 0.5, 300
# Π stays below this, so that directions which nobody sees do not run away.
LARGEST_MEAN = 1e4
MOST_UNKNOWNS = 3000
# Parts of κ that are given up until the check, which counts rounding, accepts.
REPAIRS = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)


@dataclass(frozen=True, kw_only=True, eq=False)
class ProvedCost:
    """What a run costs at most in Δ² (with one κ and one count: each contribution), and what proves it.

    `proof` holds a factor of Π for each state, β for each move and every κ, as `proved_cost` takes them.
    """

    squared_upper: float
    proof: MovesProof


def recursion_cost(recursion: Recursion, *, gap: float = 1e-5) -> ProvedCost:
    """The least Σ counts/κ that the general inequality allows, up to a relative `gap`, proved with rounding counted.

    Guarantee: Δ² is at most this for a run in which the record takes part as often as the counts say, whatever moves
    follow each other. With one κ and a count of 1 it is the share of each contribution.
    Source: the general inequality of docs/training.md; Boyd & Vandenberghe, Convex Optimization, Section 11.3.

    Args:
        recursion: the states, what is seen of them, and all moves that may follow each other.
        gap: how far the search may stay above the optimum, as a part of it.

    Raises NotCertified where no bound is found, or the unknowns are too many.

    >>> from sottovoce import View, graphs
    >>> from sottovoce.feedback.problem import training
    >>> from sottovoce.feedback.recursions import plain_steps
    >>> star = training(graphs.metropolis_weights("star:n=3"), View.secure_sum(0), rounds=9, updates=(0, 1))
    >>> round(recursion_cost(plain_steps(star, 0)).squared_upper, 3)
    0.9
    """
    problem = _Problem(recursion)
    x = problem.optimum(gap)
    for share in REPAIRS:
        proof = problem.proof(x, 1 - share)
        cost = proved_cost(recursion, proof)
        if np.isfinite(cost):
            return ProvedCost(squared_upper=cost, proof=proof)
    raise NotCertified("a bound was found that could not be proved: the recursion is too close to singular")


class _Problem:
    """min Σ counts/κ over F_m(x) ≻ 0 for all moves; x holds the coordinates of all P, all β, all κ, and a slack.

    `P[i]` is where the coordinates of the P of state i begin in x, `beta[m]` where the β of move m do, `kappas`
    where all κ stand and `slack` the place of the slack, the last. `diagonals[i]` are the places of what the trace of
    the P of state i sums, `positive` the unknowns that must be above 0, and `parameter` is that of the barrier: at
    the centre of ν the cost exceeds the optimum by at most ν times this.
    """

    def __init__(self, recursion: Recursion) -> None:
        self.recursion = recursion
        self.bases = [_unseen(rows, size) for rows, size in zip(recursion.seen, recursion.sizes, strict=True)]
        self.widths = [basis.shape[1] for basis in self.bases]
        counts = [q * (q + 1) // 2 for q in self.widths]
        self.P = np.concatenate([[0], np.cumsum(counts)])
        bends = [move.bends.shape[1] for move in recursion.moves]
        self.beta = self.P[-1] + np.concatenate([[0], np.cumsum(bends)])
        self.kappas = slice(int(self.beta[-1]), int(self.beta[-1]) + len(recursion.counts))
        self.slack = self.kappas.stop
        self.counts = np.array(recursion.counts, dtype=np.float64)
        if self.slack > MOST_UNKNOWNS:
            raise NotCertified(
                f"the inequality has {self.slack} unknowns; at most {MOST_UNKNOWNS} are solved for"
            )
        self._kept: tuple[np.ndarray, list[np.ndarray] | None] | None = None
        self.constants: list[np.ndarray] = []
        self.places: list[np.ndarray] = []
        self.directions: list[np.ndarray] = []
        for m in range(len(recursion.moves)):
            self._add_move(m)
        for i, q in enumerate(self.widths):
            if q:
                # P ≻ 0.
                self._add(np.zeros((q, q)), np.arange(self.P[i], self.P[i + 1]), _symmetric(q))
        self.positive = np.arange(int(self.P[-1]), self.slack)
        self.diagonals = [
            self.P[i] + np.flatnonzero(_coordinates(np.eye(q))) for i, q in enumerate(self.widths)
        ]
        sizes = [len(constant) for constant in self.constants]
        self.parameter = sum(sizes) + int(self.positive.size) + len(self.widths)

    def _add(self, constant: np.ndarray, places: np.ndarray, directions: np.ndarray) -> None:
        """One more matrix constant + Σ x[places] · directions that must stay positive definite."""
        self.constants.append(constant)
        self.places.append(places)
        self.directions.append(directions)

    def _add_move(self, m: int) -> None:
        """F of a move as a constant and its derivatives, one for each unknown that enters.

        With E a matrix of the basis of symmetric matrices and X⁺, X the bases of the states after and before,

            ∂F/∂P⁺ = [X⁺; 0] E [X⁺; 0]ᵀ,     ∂F/∂P = −[𝒜X; RX] E [𝒜X; RX]ᵀ,
            ∂F/∂β_k = diag(−B_k B_kᵀ, e_k e_kᵀ),     ∂F/∂κ = diag(−b bᵀ, 0),     ∂F/∂slack = I.

        A move that stays in its state has both of the first, which is why they are added.
        """
        move = self.recursion.moves[m]
        A, B, R, N = (
            np.asarray(part, dtype=np.float64)
            for part in (move.transition, move.bends, move.reach, move.noise)
        )
        size, count = A.shape[0], B.shape[1]
        d = size + count
        constant = np.zeros((d, d))
        constant[:size, :size] = N @ N.T
        derivatives = np.zeros((self.slack + 1, d, d))
        own = np.vstack([self.bases[move.after], np.zeros((count, self.widths[move.after]))])
        derivatives[self.P[move.after] : self.P[move.after + 1]] += own @ _symmetric(own.shape[1]) @ own.T
        moved = np.vstack([A, R]) @ self.bases[move.before]
        derivatives[self.P[move.before] : self.P[move.before + 1]] -= (
            moved @ _symmetric(moved.shape[1]) @ moved.T
        )
        for k in range(count):
            derivatives[self.beta[m] + k, :size, :size] = -np.outer(B[:, k], B[:, k])
            derivatives[self.beta[m] + k, size + k, size + k] = 1.0
        if move.entry is not None:
            b = np.asarray(move.entry, dtype=np.float64)
            derivatives[self.kappas.start + move.charge, :size, :size] = -np.outer(b, b)
        derivatives[self.slack] = np.eye(d)
        used = np.flatnonzero(np.any(derivatives != 0, axis=(1, 2)))
        self._add(constant, used, derivatives[used])

    def optimum(self, gap: float) -> np.ndarray:
        """First any point without slack, then the one that costs least.

        A large slack makes every F positive. It is driven below 0; then F without slack is positive too.

        Guarantee: F ≻ 0 at the point that is returned, to rounding. Raises NotCertified where the slack stays.
        Source: Boyd & Vandenberghe, Convex Optimization, Section 11.4, for the first of the two.
        """
        x = np.zeros(self.slack + 1)
        for i, q in enumerate(self.widths):
            x[self.P[i] : self.P[i + 1]] = 0.1 * _coordinates(np.eye(q))
        x[self.positive] = 0.1
        x[self.slack] = 1.0
        while self._factors(x) is None:
            x[self.slack] *= 2
        x = self._descended(x, gap=None)
        if x[self.slack] >= 0:
            raise NotCertified("no difference can be kept from growing: there is no finite bound here")
        x[self.slack] = 0.0
        return self._descended(x, gap=gap)

    def _cost(self, x: np.ndarray, gap: float | None) -> float:
        """What is to become small: the slack at first, without a gap; then what the run costs, Σ counts/κ."""
        if gap is None:
            return float(x[self.slack])
        return float((self.counts / x[self.kappas]).sum())

    def _descended(self, x: np.ndarray, gap: float | None) -> np.ndarray:
        """Newton steps for the least cost (with a gap), or for the least slack until it is below 0 (without)."""
        moving = slice(0, self.slack + (gap is None))
        nu = 0.1 * max(1.0, abs(self._cost(x, gap)))
        barriers = self._derivatives(x)
        for _ in range(MOST_STEPS):
            # The barriers, and what the cost adds: 1/ν for the slack, or −n/(νκ²) and 2n/(νκ³) for n/κ.
            gradient, hessian = (part.copy() for part in barriers)
            if gap is None:
                gradient[self.slack] += 1 / nu
            else:
                gradient[self.kappas] -= self.counts / x[self.kappas] ** 2 / nu
                places = np.arange(self.slack)[self.kappas]
                hessian[places, places] += 2 * self.counts / x[self.kappas] ** 3 / nu
            step = np.zeros_like(x)
            step[moving] = -_hessian_solution(hessian[moving, moving], gradient[moving])
            # λ = √(gᵀH⁻¹g): near the centre of this ν it is small, and a smaller ν is due.
            decrement = float(np.sqrt(max(0.0, -gradient @ step)))
            if decrement < CENTRED:
                if nu < 1e-12 or (gap is not None and nu * self.parameter < gap * self._cost(x, gap)):
                    break
                nu *= SHRINK
                continue
            moved = self._searched(x, step, nu, gap, decrement)
            if moved is None:
                break
            x = moved
            if gap is None and x[self.slack] < -1e-6:
                break
            barriers = self._derivatives(x)
        return x

    def _searched(
        self, x: np.ndarray, step: np.ndarray, nu: float, gap: float | None, decrement: float
    ) -> np.ndarray | None:
        """The first of the steps 1, ½, ¼, … that stays feasible and descends; None if none does.

        To descend is to gain a tenth of what the gradient promises, λ² for a full step with decrement λ.
        """
        value, length = self._value(x, nu, gap), 1.0
        while length > 1e-10:
            tried = x + length * step
            if self._value(tried, nu, gap) <= value - 0.1 * length * decrement**2 + 1e-12 * abs(value):
                return tried
            length /= 2
        return None

    def _rooms(self, x: np.ndarray) -> np.ndarray:
        """How much room the traces of all P have left."""
        return np.array(
            [
                LARGEST_MEAN * max(1, q) - float(x[diagonal].sum())
                for q, diagonal in zip(self.widths, self.diagonals, strict=True)
            ]
        )

    def _matrix(self, x: np.ndarray, i: int) -> np.ndarray:
        """P of state i, from its coordinates in x."""
        q = self.widths[i]
        return np.tensordot(x[self.P[i] : self.P[i + 1]], _symmetric(q), 1)

    def _factors(self, x: np.ndarray) -> list[np.ndarray] | None:
        """Cholesky factors of all matrices at x; None if one is not positive. Those of the last x are kept."""
        if self._kept is None or not np.array_equal(self._kept[0], x):
            self._kept = x.copy(), self._factored(x)
        return self._kept[1]

    def _factored(self, x: np.ndarray) -> list[np.ndarray] | None:
        if (x[self.positive] <= 0).any() or (self._rooms(x) <= 0).any():
            return None
        found = []
        for constant, places, directions in zip(self.constants, self.places, self.directions, strict=True):
            try:
                found.append(np.linalg.cholesky(constant + np.tensordot(x[places], directions, 1)))
            except np.linalg.LinAlgError:
                return None
        return found

    def _value(self, x: np.ndarray, nu: float, gap: float | None) -> float:
        """The function f at the top of this module; infinite where a matrix is not positive definite."""
        factors = self._factors(x)
        if factors is None:
            return np.inf
        total = self._cost(x, gap) / nu - float(np.log(x[self.positive]).sum())
        total -= float(np.log(self._rooms(x)).sum())
        return total - 2 * sum(float(np.log(np.diag(L)).sum()) for L in factors)

    def _derivatives(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient and Hessian of the barriers.

        With G = F⁻¹ and F_i = ∂F/∂x_i, −log det F has the gradient −tr(G F_i) and the Hessian tr(G F_i G F_j).
        """
        gradient, hessian = np.zeros(x.size), np.zeros((x.size, x.size))
        factors = self._factors(x)
        assert factors is not None
        for L, places, directions in zip(factors, self.places, self.directions, strict=True):
            inverse = linalg.cho_solve((L, True), np.eye(len(L)))
            # G F_i for all i at once; tr(G F_i G F_j) is the product of one, flattened, with the other transposed.
            turned = inverse @ directions
            gradient[places] -= np.trace(turned, axis1=1, axis2=2)
            flat = turned.reshape(len(places), -1)
            across = turned.transpose(0, 2, 1).reshape(len(places), -1)
            hessian[np.ix_(places, places)] += flat @ across.T
        gradient[self.positive] -= 1 / x[self.positive]
        hessian[self.positive, self.positive] += 1 / x[self.positive] ** 2
        # −log(M q − tr P): tr P is linear in the coordinates, and `trace` its gradient.
        for i, (q, room) in enumerate(zip(self.widths, self._rooms(x), strict=True)):
            place = slice(self.P[i], self.P[i + 1])
            trace = _coordinates(np.eye(q))
            gradient[place] += trace / room
            hessian[place, place] += np.outer(trace, trace) / room**2
        return gradient, hessian

    def proof(self, x: np.ndarray, share: float) -> MovesProof:
        """What a point proves, with a little less κ: factors X L of Π = X P Xᵀ, P = L Lᵀ, and all β.

        F is decreasing in κ, so a part of κ that is given up makes room for rounding in every move that is charged.

        Guarantee: none yet, `proved_cost` decides.
        """
        factors = tuple(
            basis @ np.linalg.cholesky(self._matrix(x, i)) if basis.shape[1] else np.zeros((len(basis), 0))
            for i, basis in enumerate(self.bases)
        )
        betas = tuple(x[self.beta[m] : self.beta[m + 1]] for m in range(len(self.recursion.moves)))
        return MovesProof(factors=factors, multipliers=betas, kappas=x[self.kappas] * share)


def _hessian_solution(hessian: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """The solution of a positive definite system, or the nearest to one where rounding has made it singular.

    The diagonal is raised by a part of 10⁻¹², which makes another direction of descent, not another optimum.
    """
    hessian[np.diag_indices_from(hessian)] *= 1 + 1e-12
    try:
        return positive_solution(hessian, gradient, lower=True)
    except linalg.LinAlgError:
        return np.asarray(linalg.lstsq(hessian, gradient)[0])


def _unseen(rows: tuple[ExactRow, ...], size: int) -> np.ndarray:
    """An orthonormal basis of what rows do not show, to rounding.

    With the reduced echelon form [I, S] of the rows over (pivots, free), [−S; I] has the kernel as its columns. The
    check solves for the pivots again, in rationals.
    """
    unseen = kernel(rows, np.arange(size))
    basis = np.zeros((size, unseen.free.size))
    basis[unseen.free, np.arange(unseen.free.size)] = 1.0
    basis[unseen.pivots] = -unseen.solved.toarray()
    return np.linalg.qr(basis)[0] if basis.shape[1] else basis


@cache
def _symmetric(q: int) -> np.ndarray:
    """An orthonormal basis of the symmetric matrices of size q, (q(q + 1)/2, q, q), for the product tr(E E′).

    >>> _symmetric(2).shape
    (3, 2, 2)
    """
    first, second = np.triu_indices(q)
    basis = np.zeros((first.size, q, q))
    scale = np.where(first == second, 1.0, np.sqrt(0.5))
    basis[np.arange(first.size), first, second] = scale
    basis[np.arange(first.size), second, first] = scale
    basis.setflags(write=False)
    return basis


def _coordinates(matrix: np.ndarray) -> np.ndarray:
    """The coordinates of a symmetric matrix in that basis.

    >>> matrix = np.array([[1.0, 2.0], [2.0, 5.0]])
    >>> bool(np.allclose(np.tensordot(_coordinates(matrix), _symmetric(2), 1), matrix))
    True
    """
    first, second = np.triu_indices(len(matrix))
    return np.asarray(matrix[first, second] * np.where(first == second, 1.0, np.sqrt(2.0)))
