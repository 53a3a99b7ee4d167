# SPDX-License-Identifier: Apache-2.0
"""Block Arnoldi and Lanczos with residuals that bound what was cut, and what rounding did measured afterwards.

Knows neither graphs nor privacy: it compresses the powers X^ℓ V of a sparse matrix X on a thin block V.

With Q an orthonormal basis of span{V, XV, …, X^k V}, H = QᵀXQ (`projected`) and V = Q s (`start`),

    X Q = Q H + Q₊ f,     so     X^ℓ V = Q H^ℓ s  for ℓ ≤ k,

and beyond that the two differ by what f lets out of the space, ‖f H^ℓ s‖ a step. `power_error` adds that up;
nothing is assumed of how fast it falls. X symmetric makes H block tridiagonal (Lanczos), and Euclidean norms are
used; else H is block Hessenberg (Arnoldi), and norms are ℓ¹, in which a stochastic matrix does not stretch.

How the basis is made is speed: pauses, blocks, deflation and the order of sums may do what they like to it.
Soundness is `measured_defect`, which takes the vectors as they are stored and bounds how far each of the relations
above is off, and `proved_power_error`. What a caller makes of the two is in docs/mathematics.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy import linalg, sparse

from sottovoce.errors import at_least
from sottovoce.rounding import closely_above, gamma, roundings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scipy.sparse import csr_array

__all__ = [
    "Defect",
    "KrylovBasis",
    "gram_in_blocks",
    "krylov_bases",
    "measured_defect",
    "power_error",
    "proved_power_error",
]

# Speed alone, down to the next empty line: whatever a basis is, `measured_defect` says how far off it is.
POWERS_AT_ONCE = 64
# A block that shrinks by more than this when it is orthogonalised has lost digits, and is orthogonalised again.
CANCELLED = 0.05
# Long vectors of a symmetric matrix are kept orthogonal to the last two blocks by the recurrence, and to all others by
# looking at two blocks running and then at none of the next few: none at first, twice as many after every look that
# found nothing but rounding, up to so many, and none again after one that found more.
LONG, LONGEST_PAUSE, REPAIRED = 20_000, 6, 2
# Rounding in a coefficient, in units.
FOUND = 32
# A store has room for so many vectors at first, which takes no memory until they are there, and then for twice as many.
FIRST_STORE = 128
# Speed alone: so many powers are followed one by one at first, and twice as many, up to a most, while changes in later
# ones would add this share.
SETTLING, FOLLOWED, NEGLIGIBLE = 2048, 50_000, 1e-3
# Speed alone: sparse products pay below this share of entries, and not in small matrices.
SPARSE, SMALL = 0.25, 100
# Columns that are taken at once where a basis is measured, and the fewest terms of a dot product.
COLUMNS_AT_ONCE, FEWEST_TERMS = 32, 64
# Allowance: what underflow takes from an entry in all of up to 2^40 products.
UNDERFLOW = 2.0**-1000


class Operator(Protocol):
    """A linear map that is known by its products: `units` of roundoff are what one errs by, for a column of norm 1."""

    @property
    def units(self) -> float:
        """How many units of roundoff a product errs by at most, in norm.

        Guarantee: an upper bound, on trust: `measured_defect` rests on it.
        """

    def __matmul__(self, block: np.ndarray) -> np.ndarray:
        """The products with columns."""


@dataclass(frozen=True, kw_only=True, eq=False)
class KrylovBasis:
    """X Q = Q H + (what is left over), with Q orthonormal and the starting block V = Q `start`.

    What is left over is Q₊ `factor`, Q₊ the vectors that would come next (`following`). `residual` is a small factor
    with ‖Q₊ factor v‖ ≤ ‖residual v‖, Euclidean or (for X that are not symmetric) in ℓ¹. All of this holds up to
    rounding, which `measured_defect` finds.

    For X of n rows and V of v columns: `vectors` is n × r, `projected` H r × r, `start` r × v, `following` n × p
    with p ≤ v, `factor` and `residual` p × r, 0 but for the columns of the newest block. `euclidean` says which
    norm.
    """

    vectors: np.ndarray
    projected: np.ndarray
    start: np.ndarray
    following: np.ndarray
    factor: np.ndarray
    residual: np.ndarray
    euclidean: bool

    @property
    def size(self) -> int:
        """The dimension r of the space."""
        return int(self.vectors.shape[1])


def krylov_bases(
    matrix: csr_array | Operator,
    block: np.ndarray,
    *,
    largest: int,
    symmetric: bool = False,
    parts: Sequence[slice] = (slice(None),),
    least: float = 0.0,
) -> Iterator[KrylovBasis]:
    """Growing orthonormal bases of span{V, XV, X²V, …}, until the space closes or has `largest` dimensions.

    A caller takes bases until one is good enough; nothing is computed twice. A basis is valid until the next one
    is asked for. Norms are Euclidean if `symmetric` and ℓ¹ otherwise. Columns that vanish after orthogonalisation
    (breakdown) are deflated and counted as residual.

    Args:
        matrix: X, square, or a linear map known by its products.
        block: V, one column for each vector to start from.
        largest: how many dimensions are enough; the last basis may have less than a block more.
        symmetric: whether X is.
        parts: rows such that X takes a vector in one part into one part, and columns of V lie in one: so do all vectors
            of a basis then, exactly.
        least: vectors that are left of X Q no longer than this are deflated, too: they may be nothing but rounding.

    Guarantee: none of its own; `measured_defect` says how far a basis is from its relations.
    Source: Golub & Van Loan, *Matrix Computations*, 4th ed., Section 10.1 and 10.5.

    >>> ring = sparse.csr_array(np.array([[0.5, 0.25, 0, 0.25], [0.25, 0.5, 0.25, 0], [0, 0.25, 0.5, 0.25],
    ...                                   [0.25, 0, 0.25, 0.5]]))
    >>> bases = list(krylov_bases(ring, np.eye(4)[:, :1], largest=4, symmetric=True))
    >>> [basis.size for basis in bases]  # a node, its two neighbours, the one across: then the space is closed
    [1, 2, 3]
    >>> [round(power_error(basis, 3), 3) for basis in bases]
    [0.884, 0.125, 0.0]
    """
    at_least(1, largest=largest)
    most = min(block.shape[0], largest + block.shape[1])
    store = np.empty((block.shape[0], min(most, FIRST_STORE + block.shape[1])), order="F")
    newest, start = _independent(block, parts, 0.0)
    before, done, count = 0, 0, newest.shape[1]
    looks = _Looks(pausing=symmetric and block.shape[0] >= LONG)
    store[:, :count] = newest
    projected = np.zeros((count, 0))
    while True:
        # X Q_k = Q h + Q₊ f for the newest block Q_k; what is left over, Q₊, is the next block.
        basis = store[:, :count]
        image = matrix @ store[:, done:count]
        nearby = before if symmetric else 0
        looked_back = looks.due()
        oldest = 0 if looked_back else nearby
        found = _orthogonalise(image, basis[:, oldest:], nearby=nearby - oldest)
        coefficients = _at(found, (count, found.shape[1]), row=oldest)
        following, factor = _independent(image, parts, least)
        # A vector that shrank to a part s carries its rounding 1/s times enlarged: it is orthogonalised once more.
        smallest = float(np.linalg.norm(factor, axis=1).min(initial=1.0))
        if smallest < CANCELLED:
            coefficients += _orthogonalise(following, basis, nearby=0) @ factor
        if looked_back:
            looks.found(float(np.linalg.norm(coefficients[:nearby])) / max(smallest, CANCELLED), count)
        projected = np.hstack([projected, coefficients])
        residual = _at(factor, (len(factor), count), column=done)
        yield KrylovBasis(
            vectors=basis,
            projected=(projected + projected.T) / 2 if symmetric else projected.copy(),
            start=_at(start, (count, start.shape[1])),
            following=following,
            factor=residual,
            # In ℓ¹ the residual block Q₊ f has norm at most Σ_p ‖q_p‖₁ |f_p|.
            residual=residual if symmetric else residual * np.abs(following).sum(axis=0)[:, None],
            euclidean=symmetric,
        )
        if following.shape[1] == 0 or count >= largest or most < count + following.shape[1]:
            return
        if store.shape[1] < count + following.shape[1]:
            wider = np.empty((store.shape[0], min(most, 2 * store.shape[1])), order="F")
            wider[:, :count] = basis
            store = wider
        projected = np.vstack([projected, residual])
        before, done, count = done, count, count + following.shape[1]
        store[:, done:count] = following


def power_error(basis: KrylovBasis, powers: int, *, enough: float = np.inf) -> float:
    """An upper bound of Σ_ℓ ‖X^ℓ V − Q H^ℓ QᵀV‖ over ℓ < powers, exact arithmetic, for a matrix of norm at most 1.

    With e_ℓ the error of power ℓ, e_{ℓ+1} = X e_ℓ + (XQ − QH) H^ℓ QᵀV; so ‖e_ℓ‖ is at most the sum of the residuals
    before it, and the residual of step k is counted once for each of the powers − 1 − k later errors. The sum is given
    up (and what it has come to returned) once it exceeds `enough`.

    Guarantee: an upper bound but for rounding, if ‖X‖ ≤ 1 in the norm the basis was built for, of what the cut alone
    costs; what `measured_defect` says of the relation acts as a change of X and is left to the caller.
    `proved_power_error` is slower and counts rounding.
    Source: Saad, *Iterative Methods for Sparse Linear Systems*, 2nd ed., Section 6.3, applied to powers.
    """
    if basis.residual.shape[0] == 0:
        return 0.0
    # Powers in blocks: the rows E, EH, …, EH^{b−1} read H^k s, which moves on by one product with H^b. The first block
    # is read while its rows are made, since a basis that is too small shows it there.
    rows, total = [basis.residual], 0.0
    for k in range(min(POWERS_AT_ONCE, max(1, powers - 1))):
        if k:
            rows.append(rows[-1] @ basis.projected)
        step = rows[-1] @ basis.start
        total += (powers - 1 - k) * float(np.linalg.norm(step) if basis.euclidean else np.abs(step).sum())
        if total > enough:
            return total
    if len(rows) >= powers - 1:
        return total
    readers, stride = np.vstack(rows), np.linalg.matrix_power(basis.projected, len(rows))
    state = stride @ basis.start
    for k in range(len(rows), powers - 1, len(rows)):
        steps = (readers @ state).reshape(len(rows), -1)
        sizes = np.sqrt((steps**2).sum(axis=1)) if basis.euclidean else np.abs(steps).sum(axis=1)
        left = powers - 1 - np.arange(k, min(k + len(rows), powers - 1))
        total += float(left @ sizes[: len(left)])
        if total > enough:
            break
        state = stride @ state
    return total


def proved_power_error(basis: KrylovBasis, powers: int, stretch: float) -> float:
    """`power_error` with what rounding may hide of it; `stretch` bounds Σ ‖H^k‖ over k < powers.

    With v_{k+1} = H v_k + δ_k and f_{i+1} = f_i H + ε_i as floats have them, f_0 = f, the residual f H^k V is f v_k −
    Σ_j f H^{k−1−j} δ_j, and |δ_k| ≤ γ|H||v_k| entry by entry. So to first order rounding adds Σ_i |f_i| · Σ_k γ|H||v_k|
    at most, for each later error, which is small wherever few of the powers reach from one end of the space to the
    other; to second order the norms of all δ and ε times `stretch`. Powers are followed until states and rows hardly
    change; from then on they count as they are, and what changes in them is read as rounding is.

    Guarantee: upper bound as in `power_error`, rounding included.
    Source: docs/proofs/cut.md; Higham, *Accuracy and Stability of Numerical Algorithms*, Sections 3.1 and 3.5.
    """
    if basis.residual.shape[0] == 0:
        return 0.0
    passage, last = _Passage(basis, powers - 1), min(powers - 1, FOLLOWED)
    while True:
        passage.follow(min(max(2 * passage.done, SETTLING), last))
        found, unsure = passage.counted(stretch)
        if passage.done == last or unsure <= NEGLIGIBLE * found:
            # Sums of up to 2^40 terms, and products of what is counted here, are below this per mille.
            return closely_above(found + unsure)


class _Passage:
    """States v_k = H^k V from one end of the space and rows f_k = f H^k from the other, as floats have them."""

    def __init__(self, basis: KrylovBasis, steps: int) -> None:
        """Begin with V and f; the residuals of `steps` powers are to be counted, that of power k steps − k times."""
        self._basis, self._steps, self.done = basis, steps, 0
        pattern, (self._forth, self._back) = basis.projected != 0, (basis.projected, basis.projected.T)
        terms = int(max(pattern.sum(axis=axis).max(initial=0) for axis in (0, 1)))
        if terms < SPARSE * (basis.size - SMALL):
            self._forth, self._back = sparse.csr_array(self._forth), sparse.csr_array(self._back)
        self._unit = gamma(terms + 1)
        self._state, self._rows = basis.start, basis.residual.T
        self._total, self._held, self._reached = 0.0, np.zeros_like(self._state), np.zeros_like(self._rows)

    def follow(self, until: int) -> None:
        """Go on to the power `until`, and add up what the residuals are and the sizes of all states and rows."""
        residual, euclidean = self._basis.residual, self._basis.euclidean
        for k in range(self.done, until):
            shown = residual @ self._state
            size = float(np.linalg.norm(shown) if euclidean else np.abs(shown).sum())
            self._total += (self._steps - k) * size
            self._held += np.abs(self._state)
            self._reached += np.abs(self._rows)
            self._state, self._rows = self._forth @ self._state, self._back @ self._rows
        self.done = until

    def counted(self, stretch: float) -> tuple[float, float]:
        """What all powers come to, and what is added for what changes after those followed.

        Guarantee: their sum, up to a per mille, is an upper bound.
        Source: docs/proofs/cut.md, "Over T rounds".
        """
        sizes, left = abs(self._forth), self._steps - self.done
        residual, count = np.abs(self._basis.residual), self._basis.size
        # Σ_k γ|H||v_k|, what rounding made of the states in all; each part of it is read by every f_i at most once.
        made = self._unit * (sizes @ self._held) + UNDERFLOW
        lost = float((sizes.T @ self._reached).sum()) + UNDERFLOW / self._unit
        first = float((self._reached.T @ made).sum())
        second = float(made.sum()) * self._unit * lost * stretch
        shown = gamma(count + 2) * float((residual @ self._held).sum())
        near = self._total + (self._steps + 1) * (first + shown + second)
        if left == 0:
            return near, 0.0
        row, fading, row_changed = self._settled(self._back, self._rows)
        state, lasting, changed = self._settled(self._forth, self._state)
        # All rows that are still to come, entry by entry, and what that leaves out, as a norm.
        rows = _fading(left, fading)[0] * row
        missed = self._steps * float(row_changed.sum()) * stretch
        readers, unread = self._reached + rows, self._unit * lost * stretch + missed
        seen = _fading(left, lasting)[1] * float((residual @ state).sum())
        unsure = left * (left + 1) / 2 * float((readers.T @ changed).sum() + unread * changed.sum())
        read = float((rows.T @ made).sum() + missed * made.sum())
        return near + seen, unsure + (self._steps + 1) * read

    def _settled(
        self, matrix: csr_array | np.ndarray, vectors: np.ndarray
    ) -> tuple[np.ndarray, float, np.ndarray]:
        """The larger of |x| and |Mx|, a σ between 0 and 1, and |M²x − σx|, entry by entry, for the columns x.

        Guarantee: upper bounds, up to a per mille: Mx errs by `unit`·|M||x| a product.
        """
        sizes, once = abs(matrix), matrix @ vectors
        twice, whole = matrix @ once, float(np.vdot(vectors, vectors))
        share = min(1.0, max(0.0, float(np.vdot(vectors, twice)) / whole)) if whole > 0 else 0.0
        off = self._unit * (sizes @ np.abs(vectors)) + UNDERFLOW
        change = np.abs(twice - share * vectors) + roundings(2) * (np.abs(twice) + np.abs(vectors))
        change += self._unit * (sizes @ np.abs(once)) + sizes @ off + UNDERFLOW
        return np.maximum(np.abs(vectors), np.abs(once) + off), share, change


def _fading(count: int, share: float) -> tuple[float, float]:
    """Σ σ^⌊l/2⌋ and Σ (count − l)·σ^⌊l/2⌋ over l < count, for a `share` σ between 0 and 1.

    Guarantee: upper bounds, up to a per mille.

    >>> _fading(4, 0.5)
    (3.0, 8.5)
    """
    if count <= FOLLOWED:
        sizes = share ** (np.arange(count) // 2)
        return float(sizes.sum()), float(np.arange(count, 0, -1) @ sizes)
    most = 2 / (1 - share) if share < 1 else np.inf
    return min(count, most), count * min((count + 1) / 2, most)


def _orthogonalise(block: np.ndarray, basis: np.ndarray, *, nearby: int) -> np.ndarray:
    """Take the part in span(basis) out of `block`, twice, in place; return its coefficients.

    The first time only the vectors from `nearby` on are looked at, the others having next to no part in it.
    """
    near = basis[:, nearby:]
    first = near.T @ block
    block -= near @ first
    coefficients = basis.T @ block
    block -= basis @ coefficients
    coefficients[nearby:] += first
    return np.asarray(coefficients)


def _independent(block: np.ndarray, parts: Sequence[slice], least: float) -> tuple[np.ndarray, np.ndarray]:
    """Orthonormal columns Q, each in one of the parts, and R with block = Q R, but for what rounding may have made.

    Singular values, not Gram–Schmidt: which columns of a block depend on the others is then no matter of their order.
    """
    vectors, factors = list[np.ndarray](), list[np.ndarray]()
    for part in parts:
        left, sizes, right = np.linalg.svd(block[part], full_matrices=False)
        kept = sizes > max(least, roundings(64 * max(1, block.shape[1])))
        vectors.append(left[:, kept])
        factors.append(sizes[kept, None] * right[kept])
    if len(parts) == 1:
        return vectors[0], factors[0]
    return linalg.block_diag(*vectors), np.vstack(factors)


@dataclass(frozen=True, kw_only=True, eq=False)
class Defect:
    """How far a basis as stored is from its three relations, as norms.

    ‖X Q − Q H − Q₊ f‖ ≤ `relation`, ‖V − Q start‖ ≤ `start` and ‖QᵀQ − I‖ ≤ `skew`.
    """

    relation: float
    start: float
    skew: float


def measured_defect(matrix: csr_array | Operator, block: np.ndarray, basis: KrylovBasis) -> Defect:
    """What rounding and deflation have put the relations of a basis off by, measured.

    Guarantee: upper bounds in the Euclidean norm, for Q, H, Q₊ and f as stored; the rounding of the measurement is
    added. A sum of k products errs by at most γ_k = ku/(1 − ku) times the sum of their sizes, in any order. With ‖q_i‖
    at most ν that is, for column j of X Q, ν·‖diag(k)|X|‖ units (k_i being the terms of row i), for column j of Q H
    (k_j + 1)·ν·Σ_i |h_ij| units, and for entry (i, j) of QᵀQ, added up in blocks of b of its n terms,
    (b + n/b)·(|Q|ᵀ|Q|)_ij, of which the Frobenius norm is at most ‖Q‖²_F.
    Source: Higham, *Accuracy and Stability of Numerical Algorithms*, Sections 3.1 and 3.5.
    """
    vectors, count = basis.vectors, basis.size
    skew = _skew(vectors)
    longest = float(np.sqrt(1 + skew))
    combined = np.vstack([basis.projected, basis.factor])
    squares = 0.0
    # X Q − Q H − Q₊ f, some columns at a time; H is banded or triangular, so most rows of its columns are 0.
    for begin in range(0, count, COLUMNS_AT_ONCE):
        part = slice(begin, begin + COLUMNS_AT_ONCE)
        rest = matrix @ vectors[:, part]
        weights = basis.projected[:, part]
        used = np.flatnonzero(weights.any(axis=1))
        if used.size:
            near = slice(used[0], used[-1] + 1)
            rest -= vectors[:, near] @ weights[near]
        if combined[count:, part].any():
            rest -= basis.following @ combined[count:, part]
        squares += float(np.vdot(rest, rest))
    terms = np.count_nonzero(combined, axis=0)
    sums = (terms + 4) * np.abs(combined).sum(axis=0)
    units = (_product_units(matrix) + 4) * np.sqrt(count) + float(np.linalg.norm(sums))
    skewed = _skew(basis.following) * float(np.linalg.norm(basis.factor))
    first = block - vectors @ basis.start
    spread = (np.count_nonzero(basis.start, axis=0) + 4) * np.abs(basis.start).sum(axis=0)
    # What products of roundings and the sums behind the norms add is far below this per mille.
    return Defect(
        relation=closely_above(float(squares**0.5 + roundings(units) * longest + skewed)),
        start=closely_above(
            float(np.linalg.norm(first) + roundings(float(np.linalg.norm(spread))) * longest)
        ),
        skew=skew,
    )


def _skew(vectors: np.ndarray) -> float:
    """An upper bound of ‖QᵀQ − I‖, as `measured_defect` derives it; the units are of ‖Q‖²_F = tr(QᵀQ)."""
    gram, units = gram_in_blocks(vectors)
    rounding = roundings(units) * float(np.trace(gram))
    gram.flat[:: len(gram) + 1] -= 1.0
    return closely_above(float(np.linalg.norm(gram) + rounding))


def gram_in_blocks(vectors: np.ndarray) -> tuple[np.ndarray, int]:
    """QᵀQ, added up in blocks of rows, and how many units of (|Q|ᵀ|Q|)_ij its entries err by at most.

    Blocks of about √n rows have √n terms each, and there are √n of them to add: 2√n units where one long sum has n.

    Guarantee: the count is an upper bound, in whatever order a block is added up.
    Source: Higham, *Accuracy and Stability of Numerical Algorithms*, Section 3.1.

    >>> gram, units = gram_in_blocks(np.eye(3))
    >>> gram.tolist(), units
    ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], 7)
    """
    length, count = vectors.shape
    gram, terms = np.zeros((count, count)), max(FEWEST_TERMS, math.isqrt(length))
    for begin in range(0, length, terms):
        some = vectors[begin : begin + terms]
        gram += some.T @ some
    return gram, min(length, terms) + length // terms + 4


class _Looks:
    """When to look at all vectors so far: always, or with pauses that grow while looks find rounding alone."""

    def __init__(self, *, pausing: bool) -> None:
        """Begin with a look, and without pauses."""
        self._pausing, self._pause, self._left, self._running = pausing, 0, 0, 0
        self._worst = 0.0

    def due(self) -> bool:
        """Whether to look at this step."""
        if self._left:
            self._left -= 1
            return False
        return True

    def found(self, size: float, count: int) -> None:
        """Take in how large a part in the older vectors a look has found, and decide on the next pause."""
        self._running, self._worst = self._running + 1, max(self._worst, size)
        if not self._pausing or self._running < REPAIRED:
            return
        calm = self._worst <= roundings(FOUND) * count**0.5
        self._pause = min(LONGEST_PAUSE, max(1, 2 * self._pause)) if calm else 0
        self._left, self._running, self._worst = self._pause, 0, 0.0


def _product_units(matrix: csr_array | Operator) -> float:
    """How many units of roundoff a product X q errs by at most, in norm, for ‖q‖ = 1.

    Row i with k_i terms errs by k_i units of (|X||q|)_i, so that ‖diag(k)|X|‖₂ ≤ √(‖·‖₁‖·‖_∞) of them suffice, and
    so does the largest k_i times √(‖X‖₁‖X‖_∞).
    """
    if not isinstance(matrix, sparse.csr_array):
        return matrix.units
    terms = np.diff(matrix.indptr)
    if matrix.nnz == 0:
        return 0.0
    sizes, starts = np.abs(matrix.data), matrix.indptr[np.flatnonzero(terms)]
    plain, counted = (
        float(np.sqrt(np.add.reduceat(held, starts).max() * np.bincount(matrix.indices, weights=held).max()))
        for held in (sizes, sizes * np.repeat(terms, terms))
    )
    return min(float(terms.max()) * plain, counted)


def _at(block: np.ndarray, shape: tuple[int, int], row: int = 0, column: int = 0) -> np.ndarray:
    """A block in a matrix of zeros."""
    found = np.zeros(shape)
    found[row : row + block.shape[0], column : column + block.shape[1]] = block
    return found
