# SPDX-License-Identifier: Apache-2.0
"""How large what was once injected can become: bounds of ‖A^{k−1}B‖ and ‖A^{k−1}B_x‖ for all k, in open loop.

Two ways, and the smaller counts. Norms of blocks multiply, whatever the weights are. Where W is symmetric and no
coefficient differs between nodes A is a polynomial in W, so that its powers are as large as those of q × q matrices
A(λ) over the spectrum of W; a polynomial of degree d lies below its largest value on 2d Chebyshev points times √2 =
1/cos(π/4).

These bounds multiply what a Krylov space cuts (`reduction.Cut`), so that they are soundness. Open loop is enough
there: the cut is small already, and no filter is known when it is chosen.

Source: Ehlich & Zeller, Math. Z. 86 (1964); docs/mathematics.md, section 6; docs/proofs/growth.md.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering.backward import BackwardRound, backward
from sottovoce.filtering.lines import entries, size_sums
from sottovoce.filtering.rounding import chebyshev_factor, chebyshev_points, eigenvalue_ends, terms
from sottovoce.protocols import Combine
from sottovoce.rounding import barely_above, gamma, roundings

if TYPE_CHECKING:
    from sottovoce.protocols import Program, Protocol

__all__ = ["growth"]

# Speed alone: sums over all rounds that stay below this many a round need no second way.
MODEST = 20.0
# Speed alone: up to so many nodes the spectrum is computed; beyond, discs around the diagonal hold it.
SPECTRA = 1500


@lru_cache(maxsize=4)
@np.errstate(over="ignore", invalid="ignore")
def growth(protocol: Protocol, *, part: bool = False) -> tuple[float, float]:
    """Bounds of the norms of the maps from all draws, and from one node's contributions, to all states s_1 … s_T.

    With `part` they hold where any kept numbers are taken for 0, too: blocks of A with rows and columns of zeros have
    no larger norms, but are no polynomials in W.

    Guarantee: upper bounds of Σ_k ‖A_s^k G‖ over k < T, G injecting the draws or the contributions of a round.
    Source: Ehlich & Zeller, Math. Z. 86 (1964), for the points; docs/proofs/growth.md.

    >>> from sottovoce import gossip, graphs
    >>> [round(x, 6) for x in growth(gossip(graphs.metropolis_weights("ring:n=9"), rounds=5))]
    [5.0, 5.0]
    """
    rounds = backward(protocol, np.zeros(0, dtype=np.int64)).rounds
    sizes = _by_norms(rounds, protocol.rounds)
    (first, *others) = rounds
    if sizes.sum() > MODEST * protocol.rounds and not (part or others) and _is_polynomial(first):
        sizes = np.minimum(sizes, _by_spectrum(first, protocol.rounds))
    drawn, given = 1.0 + sizes.sum(axis=0)
    count = protocol.rounds * max(_roundings(each.program) for each in rounds)
    return barely_above(float(drawn), count), barely_above(float(given), count)


def _by_norms(rounds: tuple[BackwardRound, ...], count: int) -> np.ndarray:
    """Bounds of ‖A^{k−1}B‖ and ‖A^{k−1}B_x‖ for k = 1 … T − 1, (T − 1, 2), from the norms of blocks.

    A q × q matrix of norms is multiplied in the place of A, from every round of a schedule on as the first, and the
    largest counts. Where W is not symmetric ‖·‖₁ and ‖·‖_∞ are taken, and the smaller of both.

    Guarantee: upper bounds but for the rounding of sums and products of numbers that are not negative, which `growth`
    counts.
    """
    q, n = len(rounds[0].program.keeps), rounds[0].weights.n
    found = []
    symmetric = all(each.weights.symmetric for each in rounds)
    for order in (2.0,) if symmetric else (1.0, np.inf):
        maps = [each.norms(_mixing(each, order), order) for each in rounds]
        # ‖X‖₂ is at most √rows·‖X‖₁ and √columns·‖X‖_∞.
        columns = max(n, *(each.drawn for each in rounds))
        scale = {1.0: np.sqrt(q * n), 2.0: 1.0, np.inf: np.sqrt(columns)}[order]
        sizes = np.zeros((max(0, count - 1), 2))
        for phase in range(len(rounds)):
            first = maps[phase]
            drawn, given = first[:, q:-1], first[:, -1:]
            for k in range(count - 1):
                sizes[k] = np.maximum(sizes[k], [_small_norm(drawn, order), _small_norm(given, order)])
                loop = maps[(phase + k + 1) % len(maps)][:, :q]
                # S_{k+1} = A_{t+k+1} S_k, in sizes
                drawn, given = loop @ drawn, loop @ given
        found.append(scale * np.where(np.isfinite(sizes), sizes, np.inf))
    return np.asarray(np.min(found, axis=0))


def _roundings(program: Program) -> int:
    """How many roundings a round of `_by_norms` puts on a path: its instructions, a product of q terms and a sum.

    Guarantee: an upper bound, coefficients as floats and norms of draws included.
    """
    terms = (len(step.terms) if isinstance(step, Combine) else 0 for step in program.instructions)
    return sum(2 + count for count in terms) + len(program.keeps) + 16


def _by_spectrum(only: BackwardRound, count: int) -> np.ndarray:
    """The same bounds from the powers of A(λ) on Chebyshev points of an interval that holds the spectrum of W.

    What rounding does to a power is carried on by powers, too: p_k ≤ p̂_k + γ Σ_j p_{k−1−j} p̂_j, p̂_k as computed.

    Guarantee: upper bounds if the spectrum of W is in the interval.
    Source: docs/proofs/growth.md.
    """
    low, high = _spectral_interval(only)
    degree = max(1, len(only.program.exchanges) * count)
    q = len(only.program.keeps)
    whole = only.symbols(chebyshev_points(degree, low, high), 2)
    loop = whole[:, :, :q]
    block = np.concatenate([np.broadcast_to(np.eye(q), loop.shape), whole[:, :, q:]], axis=2)
    widths = [(0, q), (q, block.shape[2] - 1), (block.shape[2] - 1, block.shape[2])]
    found = np.empty((count, 3))
    for k in range(count):
        found[k] = [np.sqrt((block[:, :, a:b] ** 2).sum(axis=(1, 2)).max()) for a, b in widths]
        # A(λ)^{k+1} = A(λ)·A(λ)^k at every point λ
        block = loop @ block
    found = np.where(np.isfinite(found), found, np.inf)
    largest = np.linalg.norm(only.norms(max(1.0, high, -low), 2))
    unit = roundings(32 * (len(only.program.instructions) + q + 4)) * largest
    for k in range(1, count):
        # p_k = p̂_k + γ Σ_j p_{k−1−j} p̂_j
        found[k] += unit * (found[:k, 0][::-1] @ found[:k])
    sizes = chebyshev_factor(degree, low, high) * found[:, 1:]
    return np.asarray(np.where(np.isfinite(sizes), sizes, np.inf)[: max(0, count - 1)])


def _is_polynomial(only: BackwardRound) -> bool:
    """Whether A is a polynomial in a symmetric W: no coefficient of a register differs between nodes.

    Then A is symmetric in each register's block, and its growth is that of scalar recursions at the eigenvalues of W.

    Guarantee: True is a proof for exact weights.
    """
    return only.weights.symmetric and all(
        not isinstance(value, tuple) or len(set(value)) == 1
        for step in only.program.instructions
        if isinstance(step, Combine)
        for value in step.terms.values()
    )


def _mixing(each: BackwardRound, order: float) -> float:
    """‖W‖ in a norm, from above; a symmetric W has no larger eigenvalue than its rows have sums.

    Guarantee: an upper bound: a sum of k weights errs by γ_k of itself.
    """
    matrix, axis = each.weights.matrix, 0 if order == 1 else 1
    return float(size_sums(matrix, axis).max()) * (1 + gamma(int(entries(matrix, axis).max()) + 4))


def _spectral_interval(only: BackwardRound) -> tuple[float, float]:
    """An interval that holds the spectrum of a symmetric W.

    Guarantee: Gershgorin's discs prove it for large networks, Cholesky factors for small ones (`eigenvalue_ends`). A
    float is within a unit of the rational it stands for, which moves the spectrum by a unit of the largest row sum.
    """
    matrix = only.weights.matrix
    if only.weights.n <= SPECTRA:
        dense = matrix.toarray()
        (low, high), room = eigenvalue_ends(dense), roundings(4) * float(np.abs(dense).sum(axis=1).max())
        return low - room, high + room
    diagonal, sums = matrix.diagonal(), size_sums(matrix, 1)
    rest = sums - np.abs(diagonal)
    # Sums of so many numbers, and weights that are floats of rationals.
    room = gamma(terms(matrix) + 8) * float(sums.max())
    return float((diagonal - rest).min()) - room, float((diagonal + rest).max()) + room


def _small_norm(matrix: np.ndarray, order: float) -> float:
    """A norm of a small matrix of non-negative entries.

    For order 2 it is the Frobenius norm, which is no smaller than the spectral one.

    Guarantee: an upper bound but for the rounding of the sum, which callers add; infinite where an entry is.
    """
    if matrix.size == 0 or not np.isfinite(matrix).all():
        return 0.0 if matrix.size == 0 else np.inf
    return float(np.linalg.norm(matrix) if order == 2 else np.linalg.norm(matrix, order))
