# SPDX-License-Identifier: Apache-2.0
"""A basis for the rows of a program from one Krylov space of W, the same for all generators of its rows.

With W V = V T + V₊ g and the generators b_j of `generators`, the columns b_j ⊗ V obey

    A_sᵀ(b_j ⊗ V) = Σ_k b_k ⊗ (V a_jk(T)) + (some b_k ⊗ V₊).

A Krylov space of A_sᵀ itself has as many dimensions as powers are followed where its eigenvalues lie on circles, as
those of exact diffusion do; this one has as many as W needs, times the number of generators.

Noise may miss some of it for ever. Let the columns of κ hold no draw and no contribution, and

    A_sᵀκ = κ + V h,      so that      κᵀs_{t+1} = κᵀs_t + hᵀy_t :

the observer adds up what it sees, and knows them. In exact diffusion differences between two neighbours' messages,
summed up over all rounds, are such numbers. A filter in floats follows them into rounding that never fades, so that
they are left out: Q is what is orthogonal to them in the span of all b_j ⊗ V. κ is found in floats. How far it is
from these relations is measured, and counted as what is unknown of it.

Soundness: `Lifted.measured`. How V, T, κ and the coefficients of the rows come about is speed.

Source: docs/proofs/programs.md, "Lifted bases".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from sottovoce.filtering.generators import generators
from sottovoce.filtering.response import BASIS_BYTES
from sottovoce.filtering.rounding import spectral_norm
from sottovoce.krylov import KrylovBasis, krylov_bases, measured_defect, power_error
from sottovoce.rounding import above, gamma_above, roundings

if TYPE_CHECKING:
    from sottovoce.filtering.backward import Backward, BackwardRound
    from sottovoce.filtering.generators import Generators, Polynomial
    from sottovoce.krylov import Defect

__all__ = ["Lifted", "followed_beyond", "lifted_basis"]

# Speed alone: spaces of more dimensions are not worth their filter.
MOST_STATES = 1500
# Speed alone: rows that are farther than this from combinations of generators are none.
OFF = 1e-9
# Speed alone: numbers are left out that are known up to so much; a space in which others are nearly known is too small.
KNOWN, DOUBTFUL = 3e-13, 1e-6
# Speed alone: rows are followed until they read no more than this share.
FADED = 0.01


@dataclass(frozen=True, kw_only=True, eq=False)
class Lifted:
    """Q and its relations, and the numbers that are left out of them because the observer knows them.

    A_sᵀQ = QH + Q₊f + κ`entering` and V = Q start + κ`shown`, V being the rows that are seen; A_sᵀκ = κ + V`added`.
    All of it up to rounding, which `measured` finds. With s rows `known`, κ, is (s, k).
    """

    basis: KrylovBasis
    known: np.ndarray
    entering: np.ndarray
    shown: np.ndarray
    added: np.ndarray

    def measured(self, maps: Backward, block: np.ndarray, rounds: int) -> Defect:
        """How far the relations are off with κ taken for known, for all states of so many rounds together.

        With e = A_sᵀκ − κ − V h and κ₊ the part of κ that reads draws and contributions, what is unknown of κᵀs_t
        sums up eᵀs over the rounds before and κ₊ᵀ(draws and contributions) over those and its own: in norm at most
        T(‖e‖ + ‖κ₊‖) times that of all states.

        Guarantee: upper bounds, as those of `measured_defect`, for rows within a unit of V entry by entry.
        Source: docs/proofs/programs.md, "Lifted bases".
        """
        kept, known, h = maps.rounds[0].kept, self.known, self.added
        turned, factor = np.linalg.qr(known)
        basis = replace(
            self.basis,
            following=np.hstack([self.basis.following, turned]),
            factor=np.vstack([self.basis.factor, factor @ self.entering]),
        )
        found = measured_defect(maps, block - known @ self.shown, basis)
        count, (wide, rows) = known.shape[1], (float(np.linalg.norm(x)) for x in (known, block))
        # Products of a few terms, κ = UR among them, in proportion to the sizes of their factors.
        unit = gamma_above(count + block.shape[1] + 4)
        split = float(np.linalg.norm(known - turned @ factor)) + unit * (wide + float(np.linalg.norm(factor)))
        # In long floats, which err by units of their own; weights and rows are floats of what they stand for.
        exactly, answers = known.astype(np.longdouble), h.astype(np.longdouble)
        missed = (maps @ exactly) - exactly - block.astype(np.longdouble) @ answers
        fine, added = float(np.spacing(np.longdouble(1))), float(np.linalg.norm(h))
        unknown = float(np.linalg.norm(missed.astype(np.float64))) + float(np.linalg.norm(known[kept:]))
        unknown += (fine * (maps.units + 4) + roundings(2 * maps.rounds[0].stored_units)) * wide
        unknown += (fine * (block.shape[1] + 4) + roundings(2)) * rows * added
        off = above(rounds * unknown + split)
        start = off * float(np.linalg.norm(self.shown)) + unit * (
            rows + wide * float(np.linalg.norm(self.shown))
        )
        return replace(
            found,
            relation=found.relation + off * float(np.linalg.norm(self.entering)),
            start=found.start + start,
        )


def lifted_basis(maps: Backward, block: np.ndarray, rounds: int, enough: float) -> Lifted | None:
    """A basis whose truncation costs no more than `enough` over so many rounds, or the largest affordable one.

    None where noise misses nothing, rounds differ, coefficients differ between nodes, W is not symmetric, or rows are
    no combinations of generators: then a Krylov space of the program itself serves.

    Guarantee: none; `Lifted.measured` says how far its relations are off.
    Source: docs/proofs/programs.md, "Lifted bases".
    """
    each = maps.rounds[0]
    if len(maps.rounds) > 1 or maps.left_out is not None or not each.weights.symmetric:
        return None
    found = generators(each.program)
    if found is None or not found.misses:
        return None
    lift, degree = _Lift(each=each, generators=found), max(1, found.degree)
    largest = max(1, min(MOST_STATES, BASIS_BYTES // (8 * len(block))) // len(found.rows))
    parts = [block[r * each.weights.n : (r + 1) * each.weights.n] for r in range(found.kept)]
    # W keeps the vector of ones: a space that begins with it has it as it is.
    ones = np.full((each.weights.n, 1), 1 + float(np.linalg.norm(block)))
    first = np.hstack([ones, *(part - part.mean(axis=0) for part in parts)])
    check_at, sizes, coefficients = 1.0, list[int](), None
    for grown in krylov_bases(each.weights.matrix, first, largest=largest, symmetric=True):
        sizes.append(grown.size)
        if coefficients is None:
            coefficients = lift.coefficients(grown.vectors, block)
            if coefficients is None:
                return None
        closed = grown.residual.shape[0] == 0
        last = closed or grown.size >= largest
        if len(sizes) < degree or (grown.size < check_at and not last):
            continue
        check_at = 1.1 * grown.size
        small = lift.small(grown, sizes[-degree], coefficients)
        if not last and not power_error(small, rounds, enough=enough) <= enough:
            continue
        known = _known(small, lift.fresh(grown, sizes[-degree]))
        if last or known is not None:
            known = known or (np.zeros((len(small.projected), 0)), np.zeros((block.shape[1], 0)))
            return lift.whole(grown, sizes[-degree], small, known)
    return None


def followed_beyond(
    maps: Backward, following: np.ndarray, drawn: float, given: float, rounds: int
) -> tuple[float, float]:
    """Bounds of the norms of the maps from all draws, and from the contributions of one node, to all Q₊ᵀs_t.

    What is drawn or contributed k rounds before is read by (A_sᵀ)^k Q₊, so that Σ_k of the norms of its rows for draws,
    and of the largest row for contributions, bound them. `drawn` and `given` are those of all s_t (`growth`): they
    bound what rounding in a step becomes, and all that is read once it has faded.

    Guarantee: upper bounds.
    Source: docs/proofs/programs.md, "Lifted bases".
    """
    each = maps.rounds[0]
    first, last = each.kept, each.kept + each.drawn
    rows, left, sums = following, 0.0, [0.0, 0.0]
    for _ in range(rounds):
        sums[0] += spectral_norm(rows[first:last])
        sums[1] += math.sqrt(float((rows[last:] ** 2).sum(axis=1).max(initial=0.0)))
        # X_{t+1} = A_sᵀ X_t
        rows = maps @ rows
        size = float(np.linalg.norm(rows))
        left += roundings(maps.units) * size
        if size * max(drawn, given) <= FADED * min(sums):
            left += size
            break
    return min(drawn, above(sums[0] + left * drawn)), min(given, above(sums[1] + left * given))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Lift:
    """Columns of V to columns that read s, and T to H: states stand vector by vector."""

    each: BackwardRound
    generators: Generators

    def columns(self, vectors: np.ndarray) -> np.ndarray:
        """b_j ⊗ v for each column v and each j, those of one v together.

        A generator is a row of polynomials p_k(W); the powers of W on the vectors are computed once and combined for
        each.
        """
        n, kept = self.each.weights.n, self.generators.kept
        most = max(len(p) for row in self.generators.rows for p in row)
        powers = [vectors]
        while len(powers) < most:
            powers.append(np.asarray(self.each.weights.matrix @ powers[-1]))
        hidden = np.ones((n, 1))
        hidden[self.each.known] = 0.0
        columns = []
        for row in self.generators.rows:
            parts = [_combined(p, powers) for p in row]
            drawn = [
                np.asarray(draw.T @ part)
                for draw, part in zip(self.each.draws.values(), parts[kept:-1], strict=True)
            ]
            columns.append(np.vstack([*parts[:kept], *drawn, hidden * parts[-1]]))
        return np.stack(columns, axis=2).reshape(len(columns[0]), -1)

    def coefficients(self, vectors: np.ndarray, block: np.ndarray) -> np.ndarray | None:
        """The rows in terms of the first vectors; None where they are no such combinations.

        Guarantee: none: least squares in floats; what is left is measured again on the whole basis.
        """
        columns = self.columns(vectors)
        found = np.linalg.lstsq(columns, block, rcond=None)[0]
        off = float(np.linalg.norm(block - columns @ found))
        return np.asarray(found) if off <= OFF * float(np.linalg.norm(block)) else None

    def _powers(self, grown: KrylovBasis, size: int, most: int) -> list[np.ndarray]:
        """W^k on the first `size` vectors of V, in terms of all of V and what follows.

            W^{k+1}V = [V, following]·[H; factor]·(coefficients of W^k V in V)

        as long as W^k of the first vectors stays within V, which `size` is chosen for.
        """
        powers = [np.eye(grown.size + grown.following.shape[1], size)]
        extended = np.vstack([grown.projected, grown.factor])
        while len(powers) < most:
            # W^{k+1}V = [V, following]·[H; factor]·c_k,  W^k V = V c_k
            powers.append(extended @ powers[-1][: grown.size])
        return powers

    def small(self, grown: KrylovBasis, size: int, coefficients: np.ndarray) -> KrylovBasis:
        """H, f and the coefficients of the rows in a space of the first `size` vectors of V, without vectors.

            H of the lifted space = Σ p_jk(H of W),   p the moved generators

        since W V = V H + following, a polynomial of W on V is one of H, up to its degree; `factor` is what goes
        beyond the space.
        """
        count = len(self.generators.rows)
        powers = self._powers(grown, size, 1 + max(1, self.generators.degree))
        whole = np.empty((len(powers[0]), count, size, count))
        for j, row in enumerate(self.generators.moved):
            for k, p in enumerate(row):
                whole[:, k, :, j] = _combined(p, powers)
        states = size * count
        factor = whole[size:].reshape(-1, states)
        nothing = np.zeros((0, len(factor)))
        return KrylovBasis(
            vectors=nothing,
            projected=whole[:size].reshape(states, states),
            start=np.pad(coefficients, ((0, states - len(coefficients)), (0, 0))),
            following=nothing,
            factor=factor,
            residual=factor,
            euclidean=True,
        )

    def fresh(self, grown: KrylovBasis, size: int) -> np.ndarray:
        """What each column of a space reads of draws and contributions, in terms of V and what follows.

        As far as powers of W lead no farther than what follows. Speed alone.
        """
        rows, kept = self.generators.rows, self.generators.kept
        most = max(len(p) for row in rows for p in row[kept:])
        powers = self._powers(grown, size, min(most, 2))
        fresh = [
            np.stack([_combined(row[c], powers) for row in rows], axis=2) for c in range(kept, len(rows[0]))
        ]
        return np.vstack([each.reshape(len(each), -1) for each in fresh])

    def whole(
        self, grown: KrylovBasis, size: int, small: KrylovBasis, known: tuple[np.ndarray, np.ndarray]
    ) -> Lifted:
        """The basis with its vectors, without what is `known`, K and h.

        With Z an orthonormal basis of what K does not span: V ← V Z, H ← ZᵀH Z, start ← Zᵀ start, and what leaves the
        space is brought to orthonormal columns by one QR factorisation.

        Guarantee: none of its own: how far the columns are from orthonormal, and A V from V H + following, is
        measured.
        """
        H, start = small.projected, small.start
        K, h = known
        stay = linalg.qr(K)[0][:, K.shape[1] :] if K.size else np.eye(len(H))
        vectors = self.columns(grown.vectors[:, :size])
        following, factor = np.linalg.qr(self.columns(np.hstack([grown.vectors[:, size:], grown.following])))
        factor = factor @ small.factor @ stay
        moved = H @ stay
        return Lifted(
            basis=KrylovBasis(
                vectors=vectors @ stay,
                projected=stay.T @ moved,
                start=stay.T @ start,
                following=following,
                factor=factor,
                residual=factor,
                euclidean=True,
            ),
            known=vectors @ K,
            entering=K.T @ moved,
            shown=K.T @ start,
            added=h,
        )


def _combined(polynomial: Polynomial, powers: list[np.ndarray]) -> np.ndarray:
    """Σ_k p_k times the k-th of the powers.

    Guarantee: plain floats, each coefficient rounded once; what the basis is off by is measured.
    """
    total = np.zeros_like(powers[0])
    for coefficient, power in zip(polynomial, powers, strict=False):
        total += float(coefficient) * power
    return total


def _known(small: KrylovBasis, fresh: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """K and h with H K = K + (start) h, f K = 0 and `fresh` K = 0, as far as singular values tell; None if unclear.

    Columns of K are orthonormal. Speed alone.
    """
    H, start = small.projected, small.start
    relations = np.vstack(
        [
            np.hstack([H - np.eye(len(H)), -start]),
            np.pad(np.vstack([small.factor, fresh]), ((0, 0), (0, start.shape[1]))),
        ]
    )
    _, sizes, turned = np.linalg.svd(linalg.qr(relations, mode="r")[0][: relations.shape[1]])
    sizes = np.pad(sizes, (0, len(turned) - len(sizes))) / sizes[0]
    if ((sizes > KNOWN) & (sizes < DOUBTFUL)).any():
        return None
    found = turned[sizes <= KNOWN].T
    # Rows that depend on each other have an h for which K is 0.
    left, lengths, right = np.linalg.svd(found[: len(H)], full_matrices=False)
    clear = lengths > 0.1
    return left[:, clear], found[len(H) :] @ (right[clear].T / lengths[clear])
