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
from scipy import fft
from scipy.linalg.lapack import dpotrf

from sottovoce.sensitivities.rounding import definiteness_margin, summed

__all__ = [
    "TOGETHER",
    "DualSolution",
    "is_dominated",
    "proved_level",
    "solve_dual",
    "solve_duals",
    "streams_of",
]

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
# Speed alone: forms of so many entries in all are searched together, and what is left of several such stacks after so
# many iterations is one again.
TOGETHER, JOINED = 400_000, 16
# Speed alone: a search that takes longer than this may have been shifted too far, or have begun in a bad place.
# In single floats that takes less, and some need little more.
DOUBTFUL, DOUBTED = 50, 64
# Speed alone: eigenvalues of larger forms take longer than steps that are shifted by nothing.
DECOMPOSED = 512
# Speed alone: ends that may be so far apart are searched for in single floats, if that is asked for, at first for so
# many iterations, and with no shift that is less than this share of what the symbol says a form has at most.
ROUGH, ROUGHLY, SLIGHT = 1e-5, 400, 0.05
# What a search has of each form.
STACKED = ("forms", "shifts", "streams", "previous", "momentum")


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
    if not (y >= 0).all() or not np.isfinite(y).all():
        return False
    active = _active(form)
    inner, sums = (form, y) if active.all() else (form[np.ix_(active, active)], y[active])
    rest = np.negative(inner)
    size = len(rest)
    if size == 0:
        return True
    margin = definiteness_margin(size, float(sums.sum() + np.abs(np.diagonal(rest)).sum()))
    if not math.isfinite(margin):
        return False
    rest.flat[:: size + 1] += sums - margin
    # LAPACK reads the lower triangle of `rest`, which stands in columns as the upper one. What is no number makes all
    # pivots after it none, and LAPACK need not say so.
    factor, failed = dpotrf(rest.T, lower=0, overwrite_a=1, clean=0)
    return bool(failed == 0 and factor[-1, -1] > 0)


def _active(form: np.ndarray) -> np.ndarray:
    """Which rows of M are not 0. Speed alone: where no number on the diagonal is 0 nothing else is looked at."""
    shown = np.diagonal(form) != 0
    return np.asarray(shown if shown.all() else np.any(form != 0, axis=1))


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
    forms: np.ndarray, *, tolerance: float, starts: np.ndarray | None = None, roughly: bool = False
) -> list[DualSolution]:
    """The same for a stack of forms, (k, T, T), which are iterated together until each has its proof.

    Vectors may be looked for `roughly`, in single floats: what they attain and prove is found in double ones, and those
    that do not get there are looked for again.

    Guarantee: that of `solve_dual`, form by form.
    """
    roughly = roughly and tolerance >= ROUGH
    found: list[DualSolution | None] = [None] * len(forms)
    few = max(1, TOGETHER // forms.shape[1] ** 2)
    left = np.arange(len(forms))
    begun = [
        _searched(
            _Search.of(forms[some], None if starts is None else starts[some], roughly=roughly),
            left[some],
            found,
            tolerance,
            range(1, JOINED + 1),
        )
        for some in (slice(begin, begin + few) for begin in range(0, len(forms), few))
    ]
    slow = _Search.joined([search for _, search in begun])
    left = np.concatenate([places for places, _ in begun])
    last = ROUGHLY if roughly else ITERATIONS
    for some in (slice(begin, begin + few) for begin in range(0, len(left), few)):
        places, search = _searched(slow.some(some), left[some], found, tolerance, range(JOINED + 1, last + 1))
        if roughly and len(places):
            again = solve_duals(forms[places], tolerance=tolerance)
        else:
            each = zip(places, search.streams, strict=True)
            again = [_loosened(forms[place], streams[None], tolerance) for place, streams in each]
        for place, solution in zip(places, again, strict=True):
            found[place] = solution
    return [solution for solution in found if solution is not None]


def _searched(
    search: _Search, left: np.ndarray, found: list[DualSolution | None], tolerance: float, iterations: range
) -> tuple[np.ndarray, _Search]:
    """Some iterations for forms with their places; those that get their proof are put into `found`.

    What is left, and where it stands, is given back.
    """
    for iteration in iterations:
        if not len(left):
            break
        search.step()
        if iteration == (DOUBTFUL if search.rough is search.forms else DOUBTED):
            search.stir()
        if iteration in CHECKS or iteration % CHECK_EVERY == 0:
            for place, solution in zip(left, search.lifted(tolerance), strict=True):
                found[place] = solution if solution.y is not None else None
            still = np.array([found[place] is None for place in left])
            if not still.all():
                left = left[still]
                search = search.some(still)
    return left, search


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
    rough: np.ndarray

    @classmethod
    def of(cls, forms: np.ndarray, starts: np.ndarray | None, *, roughly: bool = False) -> _Search:
        symbols, rough, shift = _symbols(forms), forms, _safe_shift
        if starts is None:
            starts = _rotating_starts(symbols, forms.shape[1])
        if roughly:
            sizes = np.abs(forms).max(axis=(1, 2), initial=1e-300)[:, None, None]
            rough, symbols = (forms / sizes).astype(np.float32), symbols / sizes[:, :, 0]
            starts, shift = starts.astype(np.float32), _worthwhile_shift
        shifts = np.array([shift(*each) for each in zip(rough, symbols, strict=True)], dtype=rough.dtype)
        return cls(
            forms=forms,
            shifts=shifts[:, None, None],
            streams=starts,
            previous=starts,
            momentum=np.ones((len(forms), 1, 1), dtype=rough.dtype),
            rough=rough,
        )

    def step(self) -> None:
        # C⁺ = C_k + (j − 1)/(j + 2)·(C_k − C_{k−1});  C_{k+1} = rows of (M − shift·I)C⁺ at norm 1;  j restarts at
        # 1 when a step turns back on the one before.
        moved = self.streams - self.previous
        ahead = self.streams + (self.momentum - 1) / (self.momentum + 2) * moved
        following = _unit_rows(self.rough @ ahead - self.shifts * ahead, self.streams)
        backwards = np.einsum("ktd,ktd->k", following - self.streams, moved)[:, None, None] < 0
        self.momentum = np.where(backwards, 1.0, self.momentum + 1)
        self.previous, self.streams = self.streams, following

    def lifted(self, tolerance: float) -> list[DualSolution]:
        """What the vectors prove, of the forms as they are: rows of single floats are scaled to norm 1 again."""
        streams = self.streams
        if streams.dtype != self.forms.dtype:
            streams = streams.astype(self.forms.dtype)
            streams = _unit_rows(streams, np.eye(1, streams.shape[-1]))
        return _lifted(self.forms, streams, tolerance)

    def stir(self) -> None:
        """Shift each form by less than its least eigenvalue, or not at all, and mix in vectors of all frequencies.

        What a form whose rounds differ has best turns at no single frequency, and a search that began at one gets
        there slowly.
        """
        if self.rough is self.forms:
            found = self.forms.shape[1] <= DECOMPOSED
            least = np.linalg.eigvalsh(self.forms)[:, 0] if found else np.zeros(len(self.forms))
            self.shifts = np.maximum(0.0, 0.95 * least)[:, None, None]
        self.momentum = np.ones_like(self.momentum)
        _, rounds, dimension = self.streams.shape
        turns = 0.629 * np.arange(1, rounds + 1)[:, None] ** 2 * np.arange(1, dimension + 1)
        mixed = np.cos(turns + np.arange(dimension)).astype(self.streams.dtype)
        self.streams = _unit_rows(self.streams + mixed, self.streams)
        self.previous = self.streams

    def some(self, chosen: np.ndarray | slice) -> _Search:
        """The searches for some of the forms."""
        made = {name: getattr(self, name)[chosen] for name in STACKED}
        return _Search(**made, rough=made["forms"] if self.rough is self.forms else self.rough[chosen])

    @classmethod
    def joined(cls, parts: list[_Search]) -> _Search:
        """The searches of several stacks as one."""
        if len(parts) == 1:
            return parts[0]
        made = {name: np.concatenate([getattr(each, name) for each in parts]) for name in STACKED}
        same = parts[0].rough is parts[0].forms
        rough = made["forms"] if same else np.concatenate([each.rough for each in parts])
        return cls(**made, rough=rough)


def _loosened(form: np.ndarray, streams: np.ndarray, tolerance: float) -> DualSolution:
    """The solution with the least lift, above the tolerance, that is proved; without y if none is.

    Lifts grow by factors of 2, from twice the tolerance to two thousand times it.

    Guarantee: a y that is returned is proved; without one there is no bound from here.
    """
    for loosened in 2.0 ** np.arange(1, 12):
        (solution,) = _lifted(form[None], streams, loosened * tolerance)
        if solution.y is not None:
            break
    return solution


def _lifted(forms: np.ndarray, streams: np.ndarray, tolerance: float) -> list[DualSolution]:
    """Y = ‖(MC)_t‖ lifted evenly until Σ y_t is the attained value times 1 + tolerance, if that is proved feasible.

    Rounds whose row of M is 0 need no y: the target is not heard of there, and y_t = 0
    is accepted by `is_dominated`.
    """
    products = forms @ streams
    attained = np.einsum("ktd,ktd->k", products, streams)
    lengths = np.sqrt(np.einsum("ktd,ktd->kt", products, products))
    found = []
    for form, vectors, value, sizes in zip(forms, streams, attained.tolist(), lengths, strict=True):
        room, y = value * (1 + tolerance) - float(sizes.sum()), None
        if room > 0:
            active = _active(form)
            y = np.where(active, sizes + room / max(1, int(active.sum())), 0.0)
            y = y if is_dominated(form, y) else None
        found.append(DualSolution(streams=vectors, attained=value, y=y))
    return found


def _symbols(forms: np.ndarray) -> np.ndarray:
    """The spectra of the middle rows of M, at frequencies 0..π: they tell where a nearly Toeplitz M is large."""
    rounds = forms.shape[1]
    rows = forms[:, rounds // 2, rounds // 2 :]
    return np.asarray(2 * fft.rfft(rows, 4 * rounds).real - rows[:, :1])


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


def _worthwhile_shift(form: np.ndarray, symbol: np.ndarray) -> float:
    """The same, and 0 where no eigenvalue can be large enough for a shift to help: none is less than the diagonal."""
    least = min(float(np.diagonal(form).min()), float(symbol.min()))
    return 0.0 if least <= SLIGHT * float(symbol.max()) else _safe_shift(form, symbol)


def _rotating_starts(symbols: np.ndarray, rounds: int) -> np.ndarray:
    """Rows of norm 1 that turn at the frequency where the symbol is largest, and a little at others elsewhere.

    Of a Toeplitz form the optimum turns at one frequency but for its ends; the other planes let the ends differ.
    """
    time, planes = np.arange(rounds)[:, None], DIMENSION // 2 - 1
    best = np.pi * np.argmax(symbols, axis=1) / (symbols.shape[1] - 1)
    others = (time + 0.5) * (np.pi * (np.arange(planes) + 0.5) / planes) + np.arange(planes)
    starts = np.empty((len(symbols), rounds, 2 * planes + 2))
    for turned, column in ((np.cos, 0), (np.sin, planes + 1)):
        starts[:, :, column] = turned(best[:, None] * time[:, 0])
        starts[:, :, column + 1 : column + 1 + planes] = 0.3 / np.sqrt(planes) * turned(others)
    return _unit_rows(starts, np.zeros(2 * planes + 2))


def _unit_rows(rows: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Rows scaled to norm 1; rows of 0 are replaced by those of `otherwise`.

    Guarantee: rows of norm 1 but for rounding, whatever their size: where squares may underflow, norms are taken with
    scaling. Of single floats, which only search, rows below 10⁻²² may stay shorter.
    """
    norms = np.sqrt(np.einsum("...td,...td->...t", rows, rows))[..., None]
    if (norms > SMALL).all():
        return np.asarray(rows / norms)
    norms = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.where(norms > 0, rows / np.where(norms > 0, norms, 1.0), otherwise)
