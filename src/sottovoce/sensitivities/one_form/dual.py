# SPDX-License-Identifier: Apache-2.0
"""The dual bound: the smallest Σ y_t with diag(y) ⪰ M, which for vectors is Δ² itself.

Primal and dual are the semidefinite programs max ⟨M, X⟩, X ⪰ 0, X_tt = 1 and min Σ y_t, diag(y) ⪰ M. At the optimum
the Gram vectors C of X are a fixed point of "multiply by M, scale rows to norm 1", and y_t = ‖(MC)_t‖.

In the code C is `streams` (T × d), MC is `product`, and Σ_t ⟨c_t, (MC)_t⟩ is `attained`. Since ‖c_t‖ = 1,
`attained` ≤ Σ ‖(MC)_t‖, with equality exactly at a fixed point. So the two ends tell how far the search has come.

Soundness rests on `is_dominated` alone: it proves diag(y) ⪰ M of whatever y it is given, and `attained` belongs
to vectors that exist. Everything else is search, and a poor search gives wider ends, never wrong ones.
Source: docs/mathematics.md, section 3; docs/proofs/spectra.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import fft, linalg

from sottovoce.sensitivities.rounding import definiteness_margin, summed

__all__ = ["DualSolution", "is_dominated", "proved_level", "solve_dual", "solve_duals", "streams_of"]

# Speed alone: by how much, relatively, an eigenvalue is lifted until it is proved to dominate. The first that is
# proved is taken, so that a finer list gives a closer bound and a coarser one a looser.
LEVELS = (1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2)
# Speed alone: how many vectors are looked for, for how long, and how often what they prove is tried. Some
# optimal X has a rank of at most √(2T); fewer dimensions may leave the ends further apart, never wrong.
DIMENSION = 10
ITERATIONS = 1000
# Speed alone: rows that are longer than this are scaled by the root of a plain sum of squares.
SMALL = 1e-100
# Speed alone: a form whose middle is as even as this is taken as one whose symbol tells its least eigenvalue.
TOEPLITZ = 1e-3
CHECK_EVERY, CHECKS = 20, (8, 12, 16, 28, 50)
# Speed alone: a search that takes longer than this may have been shifted too far.
DOUBTFUL = 50
# Speed alone: eigenvalues of larger forms take longer than steps that are shifted by nothing.
DECOMPOSED = 512


@dataclass(frozen=True, kw_only=True, eq=False)
class DualSolution:
    """Vectors C (T × d, rows of norm 1), the value they attain, and y with diag(y) ⪰ M (None if none was proved).

    `attained` is as computed: whoever reports it takes off `value_error`. `y` has an entry a round.
    """

    streams: np.ndarray
    attained: float
    y: np.ndarray | None

    @property
    def bound(self) -> float:
        """Σ y_t, the proved upper bound of Δ² (infinite if there is none).

        Guarantee: an upper bound for the form as stored, in every dimension; the sum is rounded correctly, then up.
        Source: weak duality, docs/mathematics.md, section 3.
        """
        return math.inf if self.y is None else math.nextafter(math.fsum(self.y), math.inf)


def is_dominated(form: np.ndarray, y: np.ndarray) -> bool:
    """Whether diag(y) ⪰ M, proved for the matrix as stored.

    Guarantee: True is a proof. Cholesky of diag(y) − M − margin·I succeeds only if the exact matrix is positive
    semidefinite, with the margin of `definiteness_margin`; y_t = 0 is accepted where row t of M is 0.
    False says nothing: M may be dominated by less than the margin, or not at all.
    Source: docs/proofs/spectra.md; Rump, Verification of positive definiteness, BIT 46 (2006); Higham,
    *Accuracy and Stability*, Theorem 10.7.

    >>> form = np.array([[2.0, -1.0], [-1.0, 2.0]])
    >>> is_dominated(form, np.array([3.1, 3.1])), is_dominated(form, np.array([2.9, 2.9]))
    (True, False)
    """
    active = np.any(form != 0, axis=1)
    if (y < 0).any() or not np.isfinite(y).all():
        return False
    rest = np.negative(form if active.all() else form[np.ix_(active, active)])
    size = len(rest)
    if size == 0:
        return True
    margin = definiteness_margin(size, float(y[active].sum() + np.abs(np.diagonal(rest)).sum()))
    rest.flat[:: size + 1] += y[active] - margin
    try:
        linalg.cholesky(rest, lower=True, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        return False
    return True


def proved_level(form: np.ndarray) -> float:
    """A bound of λ_max(M) for the form as stored.

    Guarantee: an upper bound: level·I ⪰ M, proved by `is_dominated`, or by row sums (Gershgorin) where that
    fails. LAPACK's eigenvalue is only the guess that the proof starts from.
    Source: docs/proofs/spectra.md.

    >>> round(proved_level(np.array([[2.0, -1.0], [-1.0, 2.0]])), 9)
    3.0
    """
    guess = float(np.linalg.eigvalsh(form)[-1])
    for lift in LEVELS:
        level = guess * (1 + lift) + 1e-300
        if is_dominated(form, np.full(len(form), level)):
            return level
    return float(np.abs(form).sum(axis=1).max(initial=0.0)) * summed(len(form))


def solve_dual(form: np.ndarray, *, tolerance: float, start: np.ndarray | None = None) -> DualSolution:
    """Primal vectors and a proved dual y whose values differ by at most a relative `tolerance`, if they are found.

    `start`, (T, d), are vectors to begin with, such as the best ones of a form that is much the same.

    The fixed point is iterated with Nesterov steps and restarts, on M less a multiple of the identity that keeps it
    positive semidefinite (this moves no optimum); then y is lifted as far as the tolerance allows and proved.

    Guarantee: `attained` is the value of actual vectors, `y` is proved by `is_dominated`; both speak of the form as
    stored. If the iteration does not get there, the lift grows until a proof succeeds.
    Source: generalised power method, Journée et al., JMLR 11 (2010); low-rank SDPs, Burer & Monteiro (2003).
    """
    return solve_duals(form[None], tolerance=tolerance, starts=None if start is None else start[None])[0]


def solve_duals(
    forms: np.ndarray, *, tolerance: float, starts: np.ndarray | None = None
) -> list[DualSolution]:
    """The same for a stack of forms, (k, T, T), which are iterated together until each has its proof.

    Guarantee: that of `solve_dual`, form by form.
    """
    found: list[DualSolution | None] = [None] * len(forms)
    left, search = np.arange(len(forms)), _Search.of(forms, starts)
    for iteration in range(1, ITERATIONS + 1):
        search.step()
        if iteration == DOUBTFUL:
            search.shift_surely()
        if iteration in CHECKS or iteration % CHECK_EVERY == 0:
            for place, form, vectors in zip(left, search.forms, search.streams, strict=True):
                solution = _lifted(form, vectors, tolerance)
                found[place] = solution if solution.y is not None else None
            still = np.array([found[place] is None for place in left])
            if not still.any():
                break
            if not still.all():
                left = left[still]
                search.keep(still)
    return [
        _loosened(forms[place], search.streams[left == place][0], tolerance) if solution is None else solution
        for place, solution in enumerate(found)
    ]


def streams_of(forms: np.ndarray, iterations: int) -> np.ndarray:
    """Vectors after so many iterations of the same search, without a proof of how good they are: (k, T, d).

    Guarantee: none but rows of norm 1.
    """
    search = _Search.of(forms, None)
    for _ in range(iterations):
        search.step()
    return search.streams


@dataclass(kw_only=True, eq=False)
class _Search:
    """Where the fixed points of a stack of forms stand: C of this step and the one before, (k, T, d), and momenta."""

    forms: np.ndarray
    shifts: np.ndarray
    streams: np.ndarray
    previous: np.ndarray
    momentum: np.ndarray

    @classmethod
    def of(cls, forms: np.ndarray, starts: np.ndarray | None) -> _Search:
        symbols = np.array([_symbol(form) for form in forms])
        shifts = np.array([_safe_shift(*each) for each in zip(forms, symbols, strict=True)])[:, None, None]
        if starts is None:
            starts = np.array([_rotating_start(symbol, forms.shape[1]) for symbol in symbols])
        momentum = np.ones((len(forms), 1, 1))
        return cls(forms=forms, shifts=shifts, streams=starts, previous=starts, momentum=momentum)

    def step(self) -> None:
        # C⁺ = C_k + (j − 1)/(j + 2)·(C_k − C_{k−1});  C_{k+1} = rows of (M − shift·I)C⁺ at norm 1;  j restarts at
        # 1 when a step turns back on the one before.
        moved = self.streams - self.previous
        ahead = self.streams + (self.momentum - 1) / (self.momentum + 2) * moved
        following = _unit_rows(self.forms @ ahead - self.shifts * ahead, self.streams)
        backwards = np.einsum("ktd,ktd->k", following - self.streams, moved)[:, None, None] < 0
        self.momentum = np.where(backwards, 1.0, self.momentum + 1)
        self.previous, self.streams = self.streams, following

    def shift_surely(self) -> None:
        """Shift each form by less than its least eigenvalue, or not at all, whatever its symbol said."""
        found = self.forms.shape[1] <= DECOMPOSED
        least = np.linalg.eigvalsh(self.forms)[:, 0] if found else np.zeros(len(self.forms))
        self.shifts = np.maximum(0.0, 0.95 * least)[:, None, None]
        self.momentum = np.ones_like(self.momentum)
        self.previous = self.streams

    def keep(self, chosen: np.ndarray) -> None:
        self.forms, self.shifts, self.momentum = (
            each[chosen] for each in (self.forms, self.shifts, self.momentum)
        )
        self.streams, self.previous = self.streams[chosen], self.previous[chosen]


def _loosened(form: np.ndarray, streams: np.ndarray, tolerance: float) -> DualSolution:
    """The solution with the least lift, above the tolerance, that is proved; without y if none is."""
    for loosened in 2.0 ** np.arange(1, 12):
        solution = _lifted(form, streams, loosened * tolerance)
        if solution.y is not None:
            break
    return solution


def _lifted(form: np.ndarray, streams: np.ndarray, tolerance: float) -> DualSolution:
    """Y = ‖(MC)_t‖ lifted evenly until Σ y_t is the attained value times 1 + tolerance, if that is proved feasible.

    Rounds whose row of M is 0 need no y: the target is not heard of there, and y_t = 0
    is accepted by `is_dominated`.
    """
    product = form @ streams
    attained = float(np.sum(product * streams))
    y = np.linalg.norm(product, axis=1)
    room = attained * (1 + tolerance) - float(y.sum())
    if room <= 0:
        return DualSolution(streams=streams, attained=attained, y=None)
    active = np.any(form != 0, axis=1)
    y = np.where(active, y + room / max(1, int(active.sum())), 0.0)
    return DualSolution(streams=streams, attained=attained, y=y if is_dominated(form, y) else None)


def _symbol(form: np.ndarray) -> np.ndarray:
    """The spectrum of the middle row of M, at frequencies 0..π: it tells where a nearly Toeplitz M is large."""
    middle = len(form) // 2
    row = form[middle, middle:]
    return np.asarray(2 * fft.rfft(row, 4 * len(form)).real - row[0])


def _safe_shift(form: np.ndarray, symbol: np.ndarray) -> float:
    """Most of the smallest eigenvalue of M, guessed from its symbol where that is cheaper.

    Speed alone: M − λI has the same best C, and the power method moves faster on it. A shift that is too large
    costs the iteration its steady growth, and perhaps the proof, but cannot make one wrong.
    """
    diagonal = np.diagonal(form)
    if diagonal.min() <= 0:
        return 0.0
    quarter = len(form) // 4
    middle = diagonal[quarter : len(form) - quarter]
    if len(form) <= 128 and not (quarter and np.ptp(middle) <= TOEPLITZ * middle[0]):
        return float(max(0.0, 0.95 * np.linalg.eigvalsh(form)[0]))
    return float(max(0.0, 0.9 * symbol.min()))


def _rotating_start(symbol: np.ndarray, rounds: int) -> np.ndarray:
    """Rows of norm 1 that turn at the frequency where the symbol is largest, and a little at others elsewhere.

    Of a Toeplitz form the optimum turns at one frequency but for its ends; the other planes let the ends differ.
    """
    time = np.arange(rounds)[:, None]
    best = np.pi * int(np.argmax(symbol)) / (len(symbol) - 1)
    planes = DIMENSION // 2 - 1
    others = np.pi * (np.arange(planes) + 0.5) / planes
    angles = np.hstack([time * best, (time + 0.5) * others + np.arange(planes)])
    share = np.array([1.0, *[0.3 / np.sqrt(planes)] * planes])
    return _unit_rows(np.hstack([share * np.cos(angles), share * np.sin(angles)]), np.zeros(2 * planes + 2))


def _unit_rows(rows: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Rows scaled to norm 1; rows of 0 are replaced by those of `otherwise`."""
    norms = np.sqrt(np.einsum("...td,...td->...t", rows, rows))[..., None]
    if (norms > SMALL).all():
        return np.asarray(rows / norms)
    norms = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.where(norms > 0, rows / np.where(norms > 0, norms, 1.0), otherwise)
