# SPDX-License-Identifier: Apache-2.0
"""The rounds of a view of a program as float matrices, each entry rounded once from its exact value.

    z_{t+1} = A z_t + B u_t + B_x x_t,      y_t = C z_t + D u_t + Σ_a D_a x_{t+a},

z_t being what was kept before round t, u_t the draws the observer does not know, x_t the contributions. D has full
rank: it is [I | ·] up to the order of its columns, or has rows that are clearly independent as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from sottovoce.errors import NotCertified
from sottovoce.protocols.compiled import GIVEN, STATE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scipy.sparse import csr_array

    from sottovoce.filtering.decorrelation import SeenRound, SeenView
    from sottovoce.protocols.compiled import Form

__all__ = ["UNIT", "Noise", "Stage", "float_row", "stages_of"]

# The unit roundoff, with room for products of roundings.
UNIT = float(np.finfo(np.float64).eps) / 2 * (1 + 1e-6)
# Smaller entries, and those larger than its inverse, are refused: nothing may underflow unseen.
SMALLEST = 1e-100
# Sparse products pay from this size and below this share of entries.
SMALL, SPARSE = 64, 0.2


@dataclass(frozen=True, kw_only=True, eq=False)
class Noise:
    """B Bᵀ, B Dᵀ and D Dᵀ of a round in floats, and entries by which each may err at most.

    Where B = A G and D = C G, as on a Krylov space, `injected` is G Gᵀ.
    """

    process: np.ndarray
    shared: np.ndarray
    seen: np.ndarray
    process_error: np.ndarray
    shared_error: np.ndarray
    seen_error: np.ndarray
    injected: np.ndarray | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Stage:
    """One round in floats. `entering` is B_x and `direct[a]` is D_a, with a column for each node.

    `most` holds the largest size of an entry in each row of B_x, and of the D_a; an entry of theirs errs by at most
    `given_units` units of that. Where B_x = A G and D_0 = C G, as on a Krylov space, `given` is G.
    """

    transition: np.ndarray | csr_array
    rows: np.ndarray | csr_array
    noise: Noise
    entering: np.ndarray | csr_array
    direct: tuple[np.ndarray | csr_array, ...]
    most: tuple[np.ndarray, tuple[np.ndarray, ...]]
    given_units: int = 1
    given: np.ndarray | None = None

    @property
    def size(self) -> int:
        """The dimension of the state."""
        return int(self.transition.shape[0])

    @property
    def count(self) -> int:
        """How many rows are seen."""
        return int(self.rows.shape[0])

    @cached_property
    def sizes(self) -> tuple[np.ndarray | csr_array, np.ndarray | csr_array]:
        """A and C with absolute values for entries."""
        return abs(self.transition), abs(self.rows)

    @cached_property
    def terms(self) -> tuple[int, int, int]:
        """How many products an entry sums at most in a product with A, with C, and with B_x."""
        given = self.size if isinstance(self.entering, np.ndarray) else _longest(self.entering)
        return _longest(self.transition), _longest(self.rows), given

    @cached_property
    def contributed(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """For each a, Σ_j v_j v_jᵀ over the nodes, v_j being B_x e_j (0 if a > 0) above D_a e_j; the same of sizes."""
        grams = []
        for a, direct in enumerate(self.direct):
            given = self.entering if a == 0 else 0 * self.entering
            if isinstance(given, np.ndarray):
                stacked = np.vstack([given, direct])
            else:
                stacked = sparse.csr_array(sparse.vstack([given, direct]))
            sizes = abs(stacked)
            grams.append((_dense(stacked @ stacked.T), _dense(sizes @ sizes.T)))
        return tuple(grams)


def stages_of(view: SeenView) -> list[Stage]:
    """The rounds in floats; those that are alike are one and the same value.

    Guarantee: every entry of A, B, C, D, B_x and D_a errs by at most half a unit in its last place.
    """
    made: dict[int, Stage] = {}
    for seen in view.rounds:
        if id(seen) not in made:
            made[id(seen)] = _stage(seen)
    return [made[id(seen)] for seen in view.rounds]


def _stage(seen: SeenRound) -> Stage:
    """One round in floats."""
    compiled = seen.compiled
    n, size = compiled.n, compiled.size
    draws = [k for k, owners in enumerate(compiled.owners) if seen.known.isdisjoint(owners)]
    column = {k: place for place, k in enumerate(draws)}
    state, denominator = compiled.state.forms, compiled.state.denominator
    kept = [(form, denominator) for form in state]
    rows = [(form, form[pivot]) for form, pivot in zip(seen.rows, seen.pivots, strict=True)]
    reach = 1 + max(((key - GIVEN) // n for form in seen.rows for key in form if key >= GIVEN), default=0)
    entering = _matrix((_given(f, d, n, 0) for f, d in kept), (size, n))
    direct = tuple(_matrix((_given(f, d, n, a) for f, d in rows), (len(rows), n)) for a in range(reach))
    return Stage(
        transition=_compact(_matrix((_kept(f, d) for f, d in kept), (size, size))),
        rows=_compact(_matrix((_kept(f, d) for f, d in rows), (len(rows), size))),
        noise=_noise(
            _matrix((_drawn(f, d, column) for f, d in kept), (size, len(draws))),
            _matrix((_drawn(f, d, column) for f, d in rows), (len(rows), len(draws))),
        ),
        entering=entering,
        direct=direct,
        most=(_row_maxima(entering), tuple(map(_row_maxima, direct))),
    )


def _noise(drawn: csr_array, fresh: csr_array) -> Noise:
    """The covariances of B u and D u; entries of B and D are rounded once, and so is every sum of their products."""
    units = UNIT * (max(_longest(drawn), _longest(fresh)) + 4)
    sizes = abs(drawn), abs(fresh)
    return Noise(
        process=(drawn @ drawn.T).toarray(),
        shared=(drawn @ fresh.T).toarray(),
        seen=(fresh @ fresh.T).toarray(),
        process_error=units * (sizes[0] @ sizes[0].T).toarray(),
        shared_error=units * (sizes[0] @ sizes[1].T).toarray(),
        seen_error=units * (sizes[1] @ sizes[1].T).toarray(),
    )


def _kept(form: Form, scale: int) -> dict[int, float]:
    return {key - STATE: _float(x, scale) for key, x in form.items() if STATE <= key < GIVEN}


def _drawn(form: Form, scale: int, column: dict[int, int]) -> dict[int, float]:
    return {column[key]: _float(x, scale) for key, x in form.items() if key < STATE and key in column}


def _given(form: Form, scale: int, n: int, later: int) -> dict[int, float]:
    return {
        (key - GIVEN) % n: _float(x, scale)
        for key, x in form.items()
        if key >= GIVEN and (key - GIVEN) // n == later
    }


def float_row(form: Form, scale: int) -> dict[int, float]:
    """A form over a scale, each number rounded once."""
    return {key: _float(x, scale) for key, x in form.items()}


def _float(numerator: int, denominator: int) -> float:
    """A quotient of whole numbers, rounded once; one whose square could leave the range of floats is refused."""
    try:
        value = numerator / denominator
    except OverflowError:
        value = float("inf")
    if numerator and not SMALLEST < abs(value) < 1 / SMALLEST:
        raise NotCertified(
            f"this program makes numbers that floats do not hold, beyond {SMALLEST} or {1 / SMALLEST} (take fewer "
            "rounds, or levels and coefficients of less different sizes)"
        )
    return value


def _matrix(rows: Iterable[dict[int, float]], shape: tuple[int, int]) -> csr_array:
    """Rows of columns and values as a sparse matrix."""
    ends, columns, values = [0], list[int](), list[float]()
    for row in rows:
        columns += row
        values += row.values()
        ends.append(len(columns))
    given = (np.array(values, dtype=np.float64), np.array(columns, dtype=np.int64), np.array(ends))
    matrix = sparse.csr_array(given, shape=shape)
    matrix.sort_indices()
    return matrix


def _compact(matrix: csr_array) -> np.ndarray | csr_array:
    """A matrix in the form in which its products are quick."""
    height, width = matrix.shape
    if width > SMALL and matrix.nnz < SPARSE * height * width:
        return matrix
    return np.asarray(matrix.toarray())


def _dense(matrix: np.ndarray | csr_array) -> np.ndarray:
    """A matrix with all its zeros."""
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.toarray())


def _longest(matrix: np.ndarray | csr_array) -> int:
    """The largest number of entries other than 0 of a row or a column: adding a 0 rounds nothing."""
    pattern = matrix != 0
    return int(max(pattern.sum(axis=0).max(initial=0), pattern.sum(axis=1).max(initial=0)))


def _row_maxima(matrix: csr_array) -> np.ndarray:
    """The largest size of an entry of each row."""
    return np.asarray(np.abs(matrix.toarray()).max(axis=1, initial=0.0))
