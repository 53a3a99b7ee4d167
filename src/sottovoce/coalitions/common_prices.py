# SPDX-License-Identifier: Apache-2.0
"""One bound for many coalitions that see sums: prices y of the rounds, proved to hold piece by piece.

Let H_a hold how the sums that node a receives answer all noise, and let Y = diag(y). A coalition A with the noise of A
known has Δ²(A) ≤ Σ y_t if

    Q_A = Σ_{c ∉ A} H_A^(c) D_c H_A^(c)ᵀ ⪰ 0,   D_c = I, for the target D = I − Y⁻¹.

Every node may be given one more row, the mean of all sums, and its own are taken less their regression on that: what
all observers hear alike is out of the way, and sums of different nodes are nearly independent. In networks that mix
slowly they are so by themselves, and the mean gives more away than it takes. Every term of Q_A belongs to at most
three members, so that Q_A is a sum of pieces, one for each set of m ≥ 3 members; where all pieces are ⪰ 0, so is Q_A.
Pieces are tried by norms of their blocks first, by a Cholesky factorisation where these do not do, and the next larger
ones only around those that fail. So millions of coalitions are settled by a few hundred thousand small matrices, and
those that are left are few enough to be looked at one by one.

Source: docs/proofs/coalitions.md.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.coalitions.echoes import Echoes
from sottovoce.coalitions.rounding import comparison_room, piece_error, product_room
from sottovoce.filtering import norm_above
from sottovoce.sensitivities import definiteness_margin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sottovoce.coalitions.heard_rows import Responses

__all__ = ["CommonPrices"]

# Speed and memory alone: how many pieces of one size are tried, how many at a time by norms, and how many entries of
# those that are factored together.
MOST_PIECES = 1_000_000
AT_ONCE = 50_000
FACTORED_AT_ONCE = 500_000


def _go_on() -> None:
    """What is called now and then where nobody waits."""


class CommonPrices:
    """The pieces of all coalitions of one size at given prices y > 0, and which of them are proved to be ⪰ 0.

    A piece of the members a, b, … is a symmetric matrix of T rows for each, and for the mean if it is told. What
    belongs to s members is in C(k − s, m − s) pieces of m of k members, and each has that share of it, so that all
    pieces of a coalition add up to Q_A. A piece that is proved proves a part of all coalitions that hold its members.

    Guarantee: a coalition all of whose pieces of one size are proved has Δ² ≤ Σ y_t.
    Source: docs/proofs/coalitions.md, Claims 1, 2 and 4.
    """

    def __init__(self, found: Responses, y: np.ndarray, size: int, tick: Callable[[], None] = _go_on) -> None:
        """Blocks that one or two members have a part in, with what known noise takes off them, and their norms."""
        self.size, self.rounds, self.told = size, found.rounds, int(found.told)
        self.echoes = Echoes(found.weights)
        p = self.count = found.count
        X, T = found.rows, found.rounds
        signal = X[:, :, p]
        flat = (signal / y).reshape(-1, T) @ signal.reshape(-1, T).T
        blocks = found.gram - flat.reshape(found.gram.shape)
        # X_a^(c) of every row and member: what the noise of c does to what a hears.
        self.heard = np.ascontiguousarray(X[:, :, :p].transpose(0, 2, 1, 3))
        for c in range(p):
            tick()
            # Terms of E_ab that its own two members know: the noise of c = a, and of c = b.
            known = np.einsum("st,btu->bsu", self.heard[c, c], self.heard[:, c].transpose(0, 2, 1))
            blocks[c] -= known.transpose(1, 0, 2)
            others = np.arange(len(X)) != c
            blocks[others, :, c] -= known[others].transpose(0, 2, 1)
        self.blocks = blocks
        self.kappa = piece_error(X, p, found.off, y, size)
        self._compare(tick)

    def _compare(self, tick: Callable[[], None]) -> None:
        """Norms of all blocks once those on the diagonal, less κ, are the identity, nearly.

        With L_a L_aᵀ the diagonal block of a less κ, and S_a = L_a⁻¹ as computed, `least[a]` bounds S_a E_aa S_aᵀ
        from below as a multiple of the identity, `pairs[a, b]` bounds ‖S_a E_ab S_bᵀ‖ and `known[a, c]` bounds ‖S_a
        X_a^(c)‖, what the noise of c contributes.

        Guarantee: each a bound on its side, the rounding of its products included.
        """
        p, T, count = self.count, self.rounds, len(self.heard)
        scaled = np.empty((count, T, T))
        self.least = np.zeros(count)
        for a in range(count):
            tick()
            own = self.blocks[a, :, a] - self.kappa * np.eye(T)
            try:
                scaled[a] = np.tril(np.linalg.inv(np.linalg.cholesky((own + own.T) / 2)))
            except np.linalg.LinAlgError:
                # Not even alone: no piece with this row is proved by norms.
                scaled[a] = np.eye(T)
                self.least[a] = -np.inf
                continue
            white = scaled[a] @ own @ scaled[a].T - np.eye(T)
            rounding = 2 * float(product_room(scaled[a], own, scaled[a]))
            self.least[a] = 1 - float(np.linalg.norm(white)) - rounding
        self.pairs, self.known = np.zeros((count, count)), np.zeros((count, p))
        for a in range(count):
            tick()
            heard, blocks = self.heard[a], self.blocks[a].transpose(1, 0, 2)
            self.known[a] = norm_above(scaled[a] @ heard) + product_room(scaled[a], heard)
            cross = scaled[a] @ blocks @ scaled.transpose(0, 2, 1)
            self.pairs[a] = norm_above(cross) + product_room(scaled[a], blocks, scaled)

    def beyond(
        self, tick: Callable[[], None], among: Sequence[tuple[int, ...]] | None = None
    ) -> list[tuple[int, ...]] | None:
        """The coalitions that are not proved to have Δ² ≤ Σ y_t, by places of candidates; None if these are too many.

        `tick` is called every now and then, and may raise. With `among` no others than these are looked at, each whole.

        Guarantee: every other coalition of this size, or of those, has M ⪯ diag(y).
        """
        size = min(3, self.size) if among is None else self.size
        if among is None and math.comb(self.count, size) > MOST_PIECES:
            return None
        some = itertools.combinations(range(self.count), size) if among is None else among
        tried = np.array(list(some), dtype=np.int64).reshape(-1, size)
        while True:
            failed = self._failed(tried, tick)
            if size == self.size or not len(failed):
                return [tuple(int(a) for a in members) for members in failed]
            if len(failed) * (self.count - size) > MOST_PIECES:
                return None
            tried, size = _larger(failed, self.count), size + 1

    def _failed(self, tried: np.ndarray, tick: Callable[[], None]) -> np.ndarray:
        """Those of the pieces that are not proved, by norms or by a factorisation.

        Guarantee: every piece that is not returned is ⪰ 0, κ and rounding included.
        """
        doubtful = []
        for some in _batches(tried, AT_ONCE):
            tick()
            doubtful.append(some[~self._proved_by_norms(some)])
        failed = []
        entries = ((tried.shape[1] + self.told) * self.rounds) ** 2
        for some in _batches(np.concatenate(doubtful), max(1, FACTORED_AT_ONCE // entries)):
            tick()
            failed.append(some[~self._proved_by_factors(some)])
        left = np.concatenate(failed) if failed else tried[:0]
        return left if self.told or tried.shape[1] < self.size else self._failed_without_echoes(left, tick)

    def _failed_without_echoes(self, whole: np.ndarray, tick: Callable[[], None]) -> np.ndarray:
        """Those of the coalitions that are not proved either without what members are told twice.

        Guarantee: every coalition that is not returned has Q_A ⪰ 0: leaving out rows that others imply does not
        change M.
        Source: docs/proofs/coalitions.md, Claim 3.
        """
        orders: dict[int, list[tuple[int, ...]]] = {}
        failed = []
        for members in whole.tolist():
            told, echoes = self.echoes.last(members)
            if echoes:
                orders.setdefault(len(told), []).append((*told, *echoes))
            else:
                failed.append(members)
        for count, found in orders.items():
            # Networks are strongly connected: somebody hears of a node outside, and `count` is not 0.
            entries = ((count + self.told) * self.rounds) ** 2
            for some in _batches(np.array(found), max(1, FACTORED_AT_ONCE // entries)):
                tick()
                failed.extend(some[~self._proved_by_factors(some, count)].tolist())
        return np.sort(np.array(failed, dtype=np.int64).reshape(-1, self.size), axis=1)

    def _shares(self, size: int) -> tuple[float, ...]:
        """In a piece of m members of k, the share of a term that belongs to s of them: 1/C(k − s, m − s).

        Guarantee: one rounding each; `comparison_room` and κ count it.
        """
        return tuple(
            1 / math.comb(self.size - s, size - s) if s <= size else 0.0 for s in range(min(4, self.size + 1))
        ) + (0.0,) * (3 - self.size)

    def _with_mean(self, some: np.ndarray) -> np.ndarray:
        """The rows of some pieces: those of their members, and that of the mean if it is told."""
        return np.hstack([some, np.full((len(some), self.told), self.count)])

    def _proved_by_norms(self, some: np.ndarray) -> np.ndarray:
        """Whether the matrix of norms of each piece, negative off the diagonal, is ⪰ 0: then so is the piece.

        A block matrix with diagonal blocks ⪰ d_a·I and blocks of norm at most n_ab beside them is ⪰ 0 if the matrix
        with d_a on its diagonal and −n_ab beside it is: vᵀQv ≥ Σ d_a‖v_a‖² − Σ n_ab‖v_a‖‖v_b‖.

        Guarantee: True only if the piece is ⪰ 0; shape (pieces,).
        """
        m = some.shape[1]
        none, one, two, three = self._shares(m)
        rows = self._with_mean(some)
        known = self.known[rows[:, :, None], some[:, None, :]]
        # A member's own noise is in its blocks already.
        known[:, np.arange(m), np.arange(m)] = 0
        # Σ_c ‖X_a^(c)‖‖X_b^(c)‖ over members c other than a and b.
        both = known @ known.transpose(0, 2, 1)
        # Shares by how many members a term belongs to: rows of the mean, from place m on, belong to nobody.
        shares = np.full((m + self.told, m + self.told), three)
        shares[m:, :] = shares[:, m:] = two
        np.fill_diagonal(shares, [*[two] * m, *[one] * self.told])
        pairs = np.full_like(shares, two)
        pairs[m:, :] = pairs[:, m:] = one
        room, ends = comparison_room(m), np.arange(m + self.told)
        matrix = -(1 + room) * (pairs * self.pairs[rows[:, :, None], rows[:, None, :]] + shares * both)
        taken = (1 + room) * (shares * both)[:, ends, ends]
        alone = np.array([*[one] * m, *[none] * self.told])
        matrix[:, ends, ends] = (1 - room) * alone * self.least[rows] - taken
        return _have_pivots(matrix)

    def _proved_by_factors(self, some: np.ndarray, heard: int | None = None) -> np.ndarray:
        """Whether a Cholesky factorisation of each piece, less its share of κ and of its own rounding, succeeds.

        Guarantee: True only if the piece is ⪰ 0: a factorisation that succeeds shows its matrix to be above minus its
        own rounding, which was taken off before.
        Source: `definiteness_margin`, docs/proofs/spectra.md.
        """
        whole = self._written_out(some, heard)
        # LAPACK takes a pivot that is no number for one above 0.
        numbers = np.isfinite(whole).all(axis=(1, 2))
        try:
            np.linalg.cholesky(whole)
        except np.linalg.LinAlgError:
            numbers &= np.array([_is_definite(each) for each in whole])
        return np.asarray(numbers)

    def _written_out(self, some: np.ndarray, heard: int | None = None) -> np.ndarray:
        """Each piece as a matrix of T rows for each of its own, less what its proof must leave.

        The first `heard` members have rows, all if None; noise of all of them is known.
        """
        count, m = some.shape
        first = m if heard is None else heard
        T, seen = self.rounds, first + self.told
        none, one, two, three = self._shares(m)
        rows = self._with_mean(some[:, :first])
        shares = (none, one, two, three)
        whole = np.empty((count, seen, T, seen, T))
        for i, j in itertools.combinations_with_replacement(range(seen), 2):
            a, b = rows[:, i], rows[:, j]
            belongs = {i, j} - {first}
            block = shares[len(belongs)] * self.blocks[a, :, b]
            for c in range(m):
                if c not in belongs:
                    known = self.heard[a, some[:, c]] @ self.heard[b, some[:, c]].transpose(0, 2, 1)
                    block -= shares[len(belongs) + 1] * known
            mirrored = block.transpose(0, 2, 1)
            if i == j:
                block = (block + mirrored) / 2
            whole[:, i, :, j], whole[:, j, :, i] = block, mirrored if i < j else block
        whole = whole.reshape(count, seen * T, seen * T)
        places = np.arange(seen * T)
        diagonal = whole[:, places, places]
        room = definiteness_margin(seen * T, np.abs(diagonal).sum(axis=1) + self.kappa * seen * T)
        alone = np.repeat([*[one] * first, *[none] * self.told], T)
        whole[:, places, places] = diagonal - self.kappa * alone - room[:, None]
        return whole


def _have_pivots(matrix: np.ndarray) -> np.ndarray:
    """Whether symmetric elimination of each matrix, less what its proof must leave, has pivots above 0 alone.

        A ← A − a_i a_iᵀ/p_i,   a_i column i below its pivot p_i

    for many small matrices at once, entry by entry, as LAPACK would take them one by one.

    Guarantee: True only if the matrix is ⪰ 0; what is not finite is not.
    Source: `definiteness_margin`: its bound holds for any order of the same operations.
    """
    size = matrix.shape[-1]
    places = np.arange(size)
    diagonal = matrix[:, places, places]
    rest = np.where(np.isfinite(matrix), matrix, -1.0)
    rest[:, places, places] -= definiteness_margin(size, np.abs(diagonal).sum(axis=1))[:, None]
    proved = np.isfinite(matrix).all(axis=(1, 2))
    for i in range(size):
        pivot = rest[:, i, i]
        proved &= pivot > 0
        pivot = np.where(pivot > 0, pivot, 1.0)
        column = rest[:, i + 1 :, i]
        # A ← A − a_i a_iᵀ/p_i
        rest[:, i + 1 :, i + 1 :] -= column[:, :, None] * column[:, None, :] / pivot[:, None, None]
    return np.asarray(proved)


def _is_definite(matrix: np.ndarray) -> bool:
    """Whether a Cholesky factorisation succeeds."""
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def _larger(pieces: np.ndarray, count: int) -> np.ndarray:
    """All sets of one member more that hold one of these, in order.

    A coalition fails only if a piece of it fails, so that larger pieces are looked for around these alone.
    """
    repeated = np.repeat(pieces, count, axis=0)
    joining = np.tile(np.arange(count), len(pieces))[:, None]
    new = ~(repeated == joining).any(axis=1)
    return np.unique(np.sort(np.hstack([repeated, joining])[new], axis=1), axis=0)


def _batches(rows: np.ndarray, length: int) -> Iterator[np.ndarray]:
    """The rows, so many at a time."""
    return (rows[start : start + length] for start in range(0, len(rows), length))
