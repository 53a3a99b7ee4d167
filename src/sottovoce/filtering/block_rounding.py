# SPDX-License-Identifier: Apache-2.0
"""What rounding and the filter's defects do to forms that are put together block by block: all their allowances.

Rows X_v after round v as floats have them, of what is shown in the rest of a block and below these what R makes of the
state after it, are off from X_{v+1}Φ by no more than |X_{v+1}|Ω, entry by entry, and what that shows is read by the
state z before the round. So the response of a stream is off by at most

    Σ_v ‖|X_v| Ω_v h_v‖,     |z| ≤ h_v = κ √(P_v + what defects add to it),

h coming from the covariance that the filter has followed already, as contributions enter with noise. Inner products of
responses are off in proportion to these alone, since Q keeps lengths.

Source: docs/proofs/blocks.md has the claims; Higham, *Accuracy and Stability of Numerical Algorithms*, Section 3.5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering.doubled import Doubled, add, from_left, from_right, gram, product
from sottovoce.filtering.rounding import SKEWED, spread
from sottovoce.rounding import GAMMA, ROOM, TINY, above, gamma

if TYPE_CHECKING:
    from sottovoce.filtering.block_states import States
    from sottovoce.filtering.blocks import Block
    from sottovoce.filtering.innovations import Filtered
    from sottovoce.filtering.stages import Stage

__all__ = ["BlockAccuracy", "Formed", "Measured"]

# Speed alone: blocks of so few rows are measured in doubled precision.
SHORT = 128
# Speed alone: how skewed so few columns are is followed with signs, else by norms.
FEW = 128


@dataclass(frozen=True, kw_only=True)
class BlockAccuracy:
    """How far forms that are put together of blocks may be off.

    η = `unwhite` and `cut` are those of `Accuracy`. For streams of energy 1 responses as stored differ from exact ones
    by at most κ·`rows` + `inputs`, κ being what hides a target in the noise (`States`), or β·`disturbed` + `inputs` for
    inputs of norm β. Inner products of responses as
    stored err by `within` of the product of their norms in one block, and between two by `across` of it and by
    `carried` of each block that lies between; of the earlier response what it shows after its block counts alone.

    Guarantee: upper bounds, for the exact matrices of the protocol.
    Source: docs/proofs/blocks.md.
    """

    unwhite: float
    cut: float
    rows: float
    disturbed: float
    inputs: float
    within: float
    across: float
    carried: np.ndarray

    def allowances(
        self,
        formed: Formed,
        hidden: np.ndarray,
        norms: np.ndarray,
        *,
        energy: bool,
        encoder: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """(`rounding`, `shift`) of `ProgramForm`, one of each a target, of M̂ or of CᵀM̂C with an encoder C.

        `hidden` has κ of each target, and `norms` the largest norm of what it puts into the state in a round.

        Guarantee: upper bounds; what forming CᵀM̂C and valuing it rounds is not in them.
        Source: docs/proofs/blocks.md, "Rows" and "What is added up".
        """
        rounds = formed.lengths.shape[1]
        # What streams hold in each round, in norm: of energy 1 they are off by no more than one of norm 1 everywhere.
        sizes = np.ones(rounds) if encoder is None else _reached(encoder, energy=energy)
        lengths, tails, edges = formed.lengths * sizes, formed.tails * sizes, formed.edges[:-1]
        times = float(np.linalg.norm(sizes))
        if energy:
            times = 1.0 if encoder is None else min(times, ROOM * spread(encoder))
        if energy and encoder is None:
            inside = np.add.reduceat(lengths**2, edges, axis=1).max(axis=1)
            outside = np.sqrt((lengths**2).sum(axis=1) * (tails**2).sum(axis=1))
            outside *= self.across + float(self.carried.sum())
        else:
            own = np.add.reduceat(lengths, edges, axis=1)
            inside = (own**2).sum(axis=1)
            outside = (np.add.reduceat(tails, edges, axis=1) * (own @ self._between)).sum(axis=1)
        rounding = ROOM * (self.within * inside + 2 * outside) + TINY
        followed = np.fmin(hidden * self.rows, norms * self.disturbed)
        shift = ROOM * times * (followed + self.inputs + self.cut) + TINY
        return np.asarray(rounding), np.asarray(shift)

    @cached_property
    def _between(self) -> np.ndarray:
        """What inner products of block i with a later block j err by, at [j, i]: Σ of `carried` from i + 1 to j − 1."""
        count = len(self.carried)
        reached = np.append(0.0, np.cumsum(self.carried))
        found = self.across + reached[:count, None] - reached[None, 1:]
        return np.asarray(np.tril(found, -1))


@dataclass(frozen=True, kw_only=True, eq=False)
class Formed:
    """Forms M̂ of some targets, (targets, T, T), and norms of what contributions show, and show after their block.

    `edges` are those of the blocks.
    """

    matrices: np.ndarray
    tails: np.ndarray
    edges: list[int]

    @cached_property
    def lengths(self) -> np.ndarray:
        """Norms of responses, (targets, T)."""
        return np.asarray(np.sqrt(np.maximum(np.diagonal(self.matrices, axis1=1, axis2=2), 0.0)))

    def valued(self, matrices: np.ndarray, *, energy: bool) -> np.ndarray:
        """What sums of entries err by where a form is valued: 3T units of Σ|M_st|, or of ‖|M|‖ for energy 1.

        Guarantee: upper bounds for numbers c with |c_t| ≤ 1, or Σ|c_t|² ≤ 1 for `energy`, one a target, of forms that
        are summed row by row. What an inner product of more numbers takes is left to whoever forms it.
        Source: docs/proofs/blocks.md, "What is added up".
        """
        sums = np.abs(matrices).sum(axis=2)
        most = sums.max(axis=1, initial=0.0) if energy else sums.sum(axis=1)
        return np.asarray(ROOM * 3 * GAMMA * matrices.shape[1] * most)


def _reached(encoder: np.ndarray, *, energy: bool) -> np.ndarray:
    """Bounds of |(C c)_t| for streams with |c_t| ≤ 1, or Σ|c_t|² ≤ 1: sums of sizes of a row of C, or its norm."""
    return np.asarray(ROOM * (np.linalg.norm(encoder, axis=1) if energy else np.abs(encoder).sum(axis=1)))


class Measured:
    """Adds up what blocks say, from the last one backwards; `accuracy` has the sums."""

    def __init__(self, states: States) -> None:
        """Begin after the last round, where nothing is shown."""
        self._states = states
        self._read: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._store = np.empty(0)
        self._counted: dict[int, _Counts] = {}
        self._put: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        # Of contributions, and of unit disturbances.
        self._rows = np.zeros(2)
        self._inputs = self._formed = 0.0
        self._skew = _Skew()
        self._carried: list[float] = []
        self._white = self._drifted = self._crossed = self._norm = self._leak = 0.0
        self._height = self._widest = 0

    def add(self, block: Block) -> None:
        """Count one block: what Q R of it is off by, and its rounds from the last one backwards.

        Guarantee: sums stay upper bounds of what is claimed of all blocks so far, if these come from the last one
        backwards, each once.
        Source: docs/proofs/blocks.md.
        """
        short = len(block.stack) <= SHORT
        before = block.stack if short else None
        rows = [np.vstack(each) for each in zip(block.shown, block.tails, strict=True)] if short else []
        for k, each in reversed(list(enumerate(block.filtered))):
            shown, later = block.shown[k], block.tails[k]
            squares = np.einsum("ij,ij->j", shown, shown) + np.einsum("ij,ij->j", later, later)
            lengths = ROOM * np.sqrt(squares)
            self._whiten(each, shown, later, lengths + ROOM * self._rows[1])
            if before is None:
                self._rows += self._reading(each, shown, later, lengths)
                self._enter(each, lengths)
            else:
                after = rows[k]
                self._find(each, after, rows[k - 1] if k else before)
                self._enter(each, np.abs(after))
        self._turn(block)

    def _find(self, filtered: Filtered, after: np.ndarray, before: np.ndarray) -> None:
        """Count a round of a short block: what rows are off by is found."""
        missed = _missed(filtered, after, before)
        self._rows[0] += ROOM * float(np.linalg.norm(missed @ self._states.held(filtered)))
        self._rows[1] += ROOM * float(np.linalg.norm(missed)) * self._states.reach

    def _enter(self, filtered: Filtered, sizes: np.ndarray) -> None:
        """Count products with what contributions put in: `sizes` are those of rows, or the lengths of their columns.

        Guarantee: `_inputs` grows by the largest square of a node, upper bounds.
        Source: docs/proofs/blocks.md, "Rows".
        """
        if id(filtered) not in self._put:
            self._put[id(filtered)] = _putting(filtered, self._counts(filtered.stage))
        put, at_once = self._put[id(filtered)]
        read = sizes @ put
        squares = np.square(read) if read.ndim == 1 else np.einsum("ij,ij->j", read, read)
        self._inputs += (ROOM * GAMMA) ** 2 * float((squares + at_once).max(initial=0.0))

    def _reading(
        self, filtered: Filtered, shown: np.ndarray, later: np.ndarray, lengths: np.ndarray
    ) -> np.ndarray:
        """What a step makes rows be off by, read by states and, with the `lengths` of columns, by unit disturbances.

        Φ̂ = fl(A − K C) errs by u|A| + (c + 1)u|K||C| + u|Φ̂|, A and C as they are exactly and c being the entries of a
        column of C; a product with a column of Φ̂ that has k entries by γ_k, and fl(X C) by (c + 1)u|X||C|. Disturbances
        z of norm ω read ‖|X̂|Ω|z|‖ ≤ g·Ω|z| ≤ ω‖Ωᵀg‖, g being the lengths.

        Guarantee: upper bounds.
        Source: docs/proofs/blocks.md, "Rows".
        """
        stage, size, sizes = filtered.stage, filtered.stage.size, filtered.stage.dense_sizes
        if id(filtered) not in self._read:
            held = self._states.held(filtered)
            counted = sizes[size:] @ (stage.column_units * held)
            off = filtered.plain_loop_sizes @ ((stage.loop_terms + 1) * held)
            off += sizes[:size] @ held + np.abs(filtered.gain) @ counted
            white = np.abs(filtered.whitener)
            disturbed = (
                float(np.linalg.norm(stage.column_units * (white @ sizes[size:]))) * self._states.reach
            )
            fresh = np.array([float(np.linalg.norm(white @ counted)), disturbed])
            self._read[id(filtered)] = ROOM * GAMMA * off, ROOM * GAMMA * fresh
        states, fresh = self._read[id(filtered)]
        # Rows are read entry by entry where states are, else by columns.
        read = [self._sizes(rows) @ states for rows in (shown, later)]
        of_states = ROOM * math.sqrt(sum(float(each @ each) for each in read)) + TINY
        # |Φ̂| is at most |A| + |K||C|, but for a rounding.
        turned = (stage.loop_terms + 3) * (lengths @ sizes[:size])
        turned += (stage.loop_terms + stage.column_units + 3) * (
            (lengths @ np.abs(filtered.gain)) @ sizes[size:]
        )
        disturbed = ROOM * GAMMA * self._states.reach * float(np.linalg.norm(turned)) + TINY
        return np.asarray(np.add(fresh, (of_states, disturbed)))

    def _counts(self, stage: Stage) -> _Counts:
        """What is counted of a stage, once."""
        if id(stage) not in self._counted:
            self._counted[id(stage)] = _counts_of(stage)
        return self._counted[id(stage)]

    def _sizes(self, rows: np.ndarray) -> np.ndarray:
        """|X| of some rows, in memory that is used again for the next ones."""
        if self._store.size < rows.size:
            self._store = np.empty(rows.size)
        return np.asarray(np.abs(rows, out=self._store[: rows.size].reshape(rows.shape)))

    def _held(self, filtered: Filtered) -> np.ndarray:
        """What states before a round may hold, of contributions and of unit disturbances."""
        return np.column_stack(
            [self._states.held(filtered), np.full(filtered.stage.size, self._states.reach)]
        )

    def _turn(self, block: Block) -> None:
        """Count what Q R is off from its rows by, as states before the block read it, and Q from keeping lengths."""
        base, root, stack = block.base, block.root, block.stack
        held, count, height, sizes = self._held(block.filtered[0]), len(root), len(stack), self._sizes(base)
        if height <= SHORT:
            factors = from_left(Doubled(high=base), count), from_right(Doubled(high=root), count)
            off = add(product(*factors, count), Doubled(high=stack), -1).sizes() @ held
        else:
            apart = base @ root
            apart -= stack
            np.abs(apart, out=apart)
            # R is upper triangular: a column of it has as many entries as stand before it, and its own.
            terms = np.minimum(np.arange(1, root.shape[1] + 1), count) + 2
            off = apart @ held + GAMMA * (sizes @ (np.abs(root) @ (terms[:, None] * held)))
        self._rows += ROOM * np.linalg.norm(off, axis=0)
        wide = ROOM * spread(sizes)
        self._skew.turn(base, block.height, wide)
        # Coordinates of responses of the block are formed, and those of later ones carried on.
        self._height, self._widest = max(self._height, height), max(self._widest, count)
        self._formed = float(np.maximum(self._formed, GAMMA * (height + 2) * wide))
        self._carried.append(GAMMA * (block.later + 2) * ROOM * spread(sizes[block.height :]))

    def _whiten(self, filtered: Filtered, shown: np.ndarray, later: np.ndarray, lengths: np.ndarray) -> None:
        """Count what the defects of a round do: `lengths` are those of what unit disturbances after it show."""
        drift, crossed, white = _defects(filtered, lengths)
        # No number makes all of it none.
        self._white = float(np.maximum(self._white, white))
        self._drifted += drift
        self._crossed += crossed**2
        self._norm += float(lengths @ lengths)
        factor = filtered.stage.factor
        if factor is not None and len(factor):
            let_in = float(np.hypot(np.linalg.norm(shown @ factor.T), np.linalg.norm(later @ factor.T)))
            room = self._rows[1] + GAMMA * (len(lengths) + 2) * float(np.linalg.norm(lengths))
            self._leak += (let_in + ROOM * room * float(np.linalg.norm(factor))) ** 2

    @property
    def leak(self) -> float:
        """A bound of ‖𝒪fᵀ‖.

        Guarantee: an upper bound, rounding included.
        """
        return ROOM * math.sqrt(self._leak)

    @property
    def norm(self) -> float:
        """A bound of ‖𝒪‖.

        Guarantee: an upper bound, rounding included.
        """
        return ROOM * math.sqrt(self._norm)

    def accuracy(self, missed: tuple[float, float]) -> BlockAccuracy:
        """All of it, once all blocks are counted; `missed` is what a cut adds to noise and to contributions.

        Guarantee: that of `BlockAccuracy`, if all blocks were counted and `missed` has two upper bounds; infinite where
        V is not known to be as good as orthonormal.
        Source: docs/proofs/blocks.md, "How white the innovations are" and "What is added up".
        """
        noise, signal = missed
        unwhite = self._white + self._drifted + 2 * math.sqrt(self._crossed)
        unwhite += 2 * math.sqrt(1 + unwhite) * noise + noise * noise
        surely = 1.0 if self._skew.most < SKEWED else math.inf
        return BlockAccuracy(
            unwhite=ROOM * unwhite,
            cut=ROOM * signal,
            rows=surely * ROOM * float(self._rows[0]),
            disturbed=surely * ROOM * float(self._rows[1]),
            inputs=ROOM * math.sqrt(self._inputs),
            within=ROOM * (GAMMA * (self._height + 2) + self._skew.most),
            across=ROOM * (GAMMA * (self._widest + 2) + self._formed + self._skew.most),
            carried=ROOM * np.array(self._carried[::-1]),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Counts:
    """How many entries columns of inputs have.

    Products with what a node puts in err by `alone` as long as it shows nothing at once, in units of u: (k + 3)|B_x|, k
    being its entries, or r + 1 more where it is a product. `nodes` are those that do show something, and `seen` is how
    many entries.
    """

    alone: np.ndarray
    nodes: np.ndarray
    seen: np.ndarray


def _counts_of(stage: Stage) -> _Counts:
    """The counts of a stage.

    Guarantee: exact for the matrices as stored, and what is put in from above.
    Source: docs/proofs/blocks.md, "Rows".
    """
    into, shown = stage.input_sizes[: stage.size], stage.input_sizes[stage.size :]
    seen = np.count_nonzero(shown, axis=0)
    units = np.count_nonzero(into, axis=0) + (3 if stage.given is None else stage.size + 4)
    nodes = np.flatnonzero(seen)
    return _Counts(alone=into * units, nodes=nodes, seen=seen[nodes])


def _putting(filtered: Filtered, counts: _Counts) -> tuple[np.ndarray, np.ndarray]:
    """What products with b̂, a column for each node, and b̂ itself err by, and squares of that of what is shown at once.

    A product with b̂ = fl(B_x − K D_0) sums as many terms as that has entries. The inputs themselves err by u|B_x| +
    (d + 1)u|K||D_0| and one rounding more, d being the entries of a column of D_0, or r + 1 more where they are
    products; so does what is shown. Nodes that are not seen at once put in B_x.

    Guarantee: upper bounds, in units of u.
    Source: docs/proofs/blocks.md, "Rows".
    """
    stage, size = filtered.stage, filtered.stage.size
    seen, nodes = counts.seen, counts.nodes
    formed = 0 if stage.given is None else size + 1
    into, shown = stage.input_sizes[:size, nodes], stage.input_sizes[size:, nodes]
    put = np.abs(stage.all_given[:size, nodes] - filtered.gain @ stage.all_given[size:, nodes])
    put *= size + 2
    put += (1 + formed) * into + np.abs(filtered.gain) @ ((seen + 1 + formed) * shown)
    units, squares = counts.alone.copy(), np.zeros(stage.inputs)
    units[:, nodes] = put
    shown = np.abs(filtered.whitener) @ ((seen + 2 + formed) * shown)
    squares[nodes] = np.einsum("ij,ij->j", shown, shown)
    return units, squares


def _missed(filtered: Filtered, after: np.ndarray, before: np.ndarray) -> np.ndarray:
    """A bound of |X̂_{v−1} − [X C; X̂_vΦ]|, entry by entry: rows before a round are those after it, and what it shows.

    Guarantee: upper bounds, found in doubled precision, with A and C as they are exactly.
    Source: docs/proofs/blocks.md, "Rows".
    """
    stage, (kept, read), count = filtered.stage, filtered.stage.readers, filtered.stage.count
    widest = stage.widest
    factor = from_left(Doubled(high=after), widest)
    taken = product(factor, from_right(Doubled(high=filtered.gain), widest), widest)
    # X̂A − (X̂K)C below X C.
    carried = add(product(factor, kept, widest), product(from_left(taken, widest), read, widest), -1)
    shown = product(from_left(Doubled(high=filtered.whitener), widest), read, widest)
    off = [
        add(found, Doubled(high=part), -1).sizes()
        for found, part in ((shown, before[:count]), (carried, before[count:]))
    ]
    return np.vstack(off)


class _Skew:
    """How far V, the product of all Q from a block on, is from keeping lengths.

    With VᵀV = I + S and Q' the rows of Q below those of its rounds, V_i = diag(I, V_{i+1})Q_i has

        S_i = (Q_iᵀQ_i − I) + Q'_iᵀ S_{i+1} Q'_i,      ‖S_i‖ ≤ e_i + (1 + e_i)‖S_{i+1}‖,   e_i = ‖Q_iᵀQ_i − I‖.

    Guarantee: `most` is at least ‖S_i‖ for every block so far.
    Source: docs/proofs/blocks.md, "What is added up".
    """

    def __init__(self) -> None:
        """Begin after the last round, where there is nothing to be skewed."""
        self.most = self._norm = self._unsure = 0.0
        self._found: np.ndarray | None = np.zeros((0, 0))

    def turn(self, base: np.ndarray, height: int, wide: float) -> None:
        """Take Q of a block, `height` rows of which are those of its rounds; `wide` bounds ‖|Q|‖.

        Guarantee: that of the class, for one block more.
        """
        own, missed = _off_identity(base)
        alone = _row_sum(own) + missed
        known, lower = self._found, base[height:]
        if known is not None and base.shape[1] <= FEW:
            # Both products round at most 2k + 4 times; what they make is of second order anyway.
            self._unsure = above(
                missed + (1 + alone) * self._unsure + gamma(2 * len(lower) + 4) * wide**2 * _row_sum(known)
            )
            own += lower.T @ known @ lower
            self._found, self._norm = own, _row_sum(own) + self._unsure
        else:
            self._found, self._norm = None, above(alone + (1 + alone) * self._norm)
        self.most = float(np.maximum(self.most, above(self._norm)))


def _row_sum(matrix: np.ndarray) -> float:
    """The largest row sum of sizes, which bounds the norm of a symmetric matrix, in floats."""
    return float(np.abs(matrix).sum(axis=1).max(initial=0.0))


def _off_identity(base: np.ndarray) -> tuple[np.ndarray, float]:
    """QᵀQ − I from doubled precision, and what floats of it miss in norm.

    Guarantee: the second is an upper bound: the largest row sum of what the first may be off by, entry by entry.
    """
    found = add(gram(base), Doubled(high=np.eye(base.shape[1])), -1).nearest()
    missed = 0.0 if found.error is None else _row_sum(found.error)
    return np.asarray(found.high), above(missed) + TINY


def _defects(filtered: Filtered, lengths: np.ndarray) -> tuple[float, float, float]:
    """Bounds of ‖𝒪_v Δ 𝒪_vᵀ‖, ‖𝒪_v ΓXᵀ‖ and ‖X R' Xᵀ − I‖, columns of 𝒪_v being at most `lengths` long.

    Guarantee: upper bounds; of the second ‖Σ_i g_i|row i|‖.
    """
    if filtered.unsure is not None:
        return *filtered.unsure.drift(lengths), filtered.unsure.white
    size, defect = filtered.stage.size, filtered.defect
    drift = float(lengths @ defect[:size, :size] @ lengths)
    crossed = float(np.linalg.norm(lengths @ defect[:size, size:]))
    return drift, crossed, float(defect[size:, size:].sum(axis=1).max(initial=0.0))
