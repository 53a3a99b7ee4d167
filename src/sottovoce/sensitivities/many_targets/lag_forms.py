# SPDX-License-Identifier: Apache-2.0
"""What a settled filter shows of an input ever later: lags one by one, and in blocks as quadratic forms of the input.

Once the gains are steady the response to an input b is f_ℓ = D B^ℓ b. Blocks of lags are summed by doubling,

    G_{k+1} = G_k + P_kᵀ G_k P_k,   P_{k+1} = P_k²,   G_0 = DᵀD,   P_0 = B,

and what rounding does to G_k and P_k is bounded alongside, by its norm, from one doubling to the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering.rounding import TINY, UNIT_ROUNDOFF, product_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sottovoce.filtering import FilteredResponse

__all__ = [
    "LagForms",
    "closed_loop",
    "gramian",
    "lag_forms",
    "loop_error",
    "raw_gramian",
    "tail_gramian",
    "taps",
]

# A product that is off by e and squared is at most (1 + η) of the square, and e²(1 + 1/η) more, for this η: what the
# bounds of this room add for rounding in the end.
SHARE = 1e-10


@dataclass(frozen=True, kw_only=True, eq=False)
class LagForms:
    """Quadratic forms of an input b, each the energy Σ ‖f_ℓ‖² of a block of `lengths[k]` lags ℓ.

    Form k is at most the squared norm of `roots[begins[k]:begins[k + 1]]`·b and `rests[k]`·‖b‖² more.
    """

    roots: np.ndarray
    begins: np.ndarray
    rests: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, matrices: Sequence[np.ndarray], lengths: np.ndarray, margins: np.ndarray) -> LagForms:
        """The forms bᵀ`matrices[k]`b, each known up to its margin, as squares.

        Guarantee: `rests` bounds the norm of what the squares leave over. That is measured, and of the measurement
        each entry errs by at most γ_{r+2} times the sum of the sizes behind it; so does the product with an input.
        """
        roots, rests = [], []
        for matrix, margin in zip(matrices, margins, strict=True):
            if not np.isfinite(matrix).all():
                # A loop that grows shows no end of energy.
                roots.append(np.zeros((1, len(matrix))))
                rests.append(np.inf)
                continue
            symmetric = (matrix + matrix.T) / 2
            values, vectors = np.linalg.eigh(symmetric)
            kept = values >= np.clip(UNIT_ROUNDOFF * len(matrix) * values[-1], 0, values[-1])
            root = np.sqrt(np.maximum(values[kept], 0))[:, None] * vectors[:, kept].T
            unit, size = (len(matrix) + 4) * UNIT_ROUNDOFF, float((root**2).sum())
            rest = float(np.linalg.norm(symmetric - root.T @ root)) + unit * size
            rest += UNIT_ROUNDOFF * float(np.linalg.norm(matrix)) + 2 / SHARE * unit**2 * size
            roots.append(root)
            rests.append(1.001 * rest + margin + TINY)
        return cls(
            roots=np.vstack(roots) if roots else np.zeros((0, 0)),
            begins=np.cumsum([0, *map(len, roots)])[:-1],
            rests=np.array(rests),
            lengths=lengths,
        )

    def energies(self, sources: np.ndarray) -> np.ndarray:
        """Upper bounds of the forms, one row each, for each column of `sources`."""
        if self.lengths.size == 0:
            return np.zeros((0, sources.shape[1]))
        shown = np.add.reduceat((self.roots @ sources) ** 2, self.begins, axis=0)
        return np.asarray(shown + np.outer(self.rests, (sources**2).sum(axis=0)))

    def norm_sum(self, sources: np.ndarray) -> np.ndarray:
        """An upper bound of Σ ‖f_ℓ‖ over all the lags, for each column of `sources`."""
        return np.asarray(np.sqrt(self.lengths) @ np.sqrt(self.energies(sources)))


def closed_loop(response: FilteredResponse, round_index: int) -> tuple[np.ndarray, np.ndarray]:
    """B = AΦ and D = L⁻¹C with the gains of a 0-based round, as dense matrices."""
    k = response.gains.at(round_index)
    return response.after(np.eye(response.transition.shape[0]), k), response.gains.whitener[k]


def loop_error(response: FilteredResponse, round_index: int) -> float:
    """A bound of ‖fl(AΦ) − AΦ‖ for the B of `closed_loop`.

    I − KC errs by at most γ_{m+1}(I + |K||C|) entry by entry, and a product with A by γ_k|A||Φ| more, k being the
    entries of its longest row.
    """
    gain, rows = np.abs(response.gains.gain[response.gains.at(round_index)]), np.abs(response.rows)
    spread = np.eye(response.size) + gain @ rows
    transition = response.transition
    terms = (
        response.size
        if isinstance(transition, np.ndarray)
        else int(np.diff(transition.indptr).max(initial=1))
    )
    size = float(np.linalg.norm(abs(transition) @ spread))
    return 1.001 * UNIT_ROUNDOFF * (terms + len(rows) + 4) * size


def taps(loop: np.ndarray, whitener: np.ndarray, count: int) -> np.ndarray:
    """D B^ℓ for ℓ < count, as (count, m, r)."""
    rows = np.empty((count, *whitener.shape))
    for lag in range(count):
        rows[lag] = rows[lag - 1] @ loop if lag else whitener
    return rows


@np.errstate(over="ignore", invalid="ignore")
def lag_forms(
    loop: np.ndarray, whitener: np.ndarray, first: int, rounds: int, *, off: float = 0.0
) -> LagForms:
    """The lags from `first`, a power of two, up to `rounds` at least, in blocks that double.

    Guarantee: upper bounds of the energies for every loop within `off` of the one stored, rounding included (see
    `_doublings`).
    """
    blocks = [block for block in _doublings(loop, whitener, rounds, off) if block.length >= first]
    return LagForms.of(
        [block.added for block in blocks],
        np.array([block.length for block in blocks]),
        np.array([block.added_error for block in blocks]),
    )


@np.errstate(over="ignore", invalid="ignore")
def gramian(loop: np.ndarray, whitener: np.ndarray, rounds: int, *, off: float = 0.0) -> np.ndarray:
    """Σ (DB^ℓ)ᵀDB^ℓ over at least `rounds` lags, from above: zᵀGz is what a state z still shows at most.

    Guarantee: an upper bound as a positive semidefinite matrix, for every loop within `off` of the one stored; the
    bound of its error (see `_doublings`) is added to the diagonal.
    """
    gram, error = whitener.T @ whitener, product_error(len(whitener), whitener, whitener)
    for block in _doublings(loop, whitener, rounds, off):
        gram, error = block.gram, block.gram_error
    symmetric = (gram + gram.T) / 2
    return np.asarray(symmetric + 1.001 * (error + UNIT_ROUNDOFF * np.linalg.norm(gram)) * np.eye(len(loop)))


@np.errstate(over="ignore", invalid="ignore")
def tail_gramian(
    loop: np.ndarray, whitener: np.ndarray, first: int, rounds: int, *, off: float = 0.0
) -> np.ndarray:
    """The same sum over the lags from `first`, a power of two, up to `rounds` at least; 0 if there are none.

    Guarantee: that of `gramian`.
    """
    tail, error = np.zeros_like(loop), 0.0
    for block in _doublings(loop, whitener, rounds, off):
        if block.length >= first:
            tail = tail + (block.added + block.added.T) / 2
            error += block.added_error + 2 * UNIT_ROUNDOFF * float(np.linalg.norm(tail))
    return np.asarray(tail + 1.001 * error * np.eye(len(loop)))


def raw_gramian(loop: np.ndarray, whitener: np.ndarray, rounds: int) -> np.ndarray:
    """The same sum as it comes out, for those who need no proof of it."""
    gram = whitener.T @ whitener
    for block in _doublings(loop, whitener, rounds, 0.0):
        gram = block.gram
    return np.asarray(gram)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Doubling:
    """The `added` form of the lags `length` to 2·`length` − 1, the `gram` of all up to there, and their errors."""

    length: int
    added: np.ndarray
    added_error: float
    gram: np.ndarray
    gram_error: float


def _doublings(loop: np.ndarray, whitener: np.ndarray, rounds: int, off: float) -> Iterator[_Doubling]:
    """The sums G_k of 2^k lags, until there are `rounds`, with bounds of the norms of their errors.

    With ‖Ĝ − G‖ ≤ g, ‖P̂ − P‖ ≤ p and s = ‖P̂‖,

        ‖P̂ᵀĜP̂ − PᵀGP‖ ≤ s²g + p(2s + p)(‖Ĝ‖ + g),   ‖P̂² − P²‖ ≤ p(2s + p),

    and a product of r terms errs by at most γ_r‖X‖_F‖Y‖_F (Higham, *Accuracy and Stability*, Section 3.5). Where the
    loop fades, s does and with it every error; no power of the loop's own norm enters.
    """
    size = len(loop)
    gram, gram_error = whitener.T @ whitener, product_error(len(whitener), whitener, whitener)
    power, power_error, length = loop, off, 1
    while length < rounds:
        half = gram @ power
        added = power.T @ half
        stretch = _spectral_norm(power)
        carried = power_error * (2 * stretch + power_error)
        added_error = (
            stretch**2 * gram_error
            + carried * (float(np.linalg.norm(gram)) + TINY + gram_error)
            + product_error(size, power, half)
            + stretch * product_error(size, gram, power)
        )
        gram = gram + added
        gram_error = gram_error + added_error + UNIT_ROUNDOFF * float(np.linalg.norm(gram))
        yield _Doubling(
            length=length,
            added=added,
            added_error=_finite(added_error),
            gram=gram,
            gram_error=_finite(gram_error),
        )
        power_error = carried + product_error(size, power, power)
        power, length = power @ power, 2 * length


def _spectral_norm(matrix: np.ndarray) -> float:
    """‖P‖₂ from above: √λ_max(PᵀP), with room for rounding in both steps."""
    if not np.isfinite(matrix).all():
        return np.inf
    gram = matrix.T @ matrix
    room = 8 * len(matrix) * UNIT_ROUNDOFF * float(np.linalg.norm(matrix)) ** 2
    return float(np.sqrt(np.linalg.eigvalsh(gram)[-1] + room)) + TINY if np.isfinite(gram).all() else np.inf


def _finite(error: float) -> float:
    """An error bound; infinite where it is no number."""
    return error if np.isfinite(error) else np.inf
