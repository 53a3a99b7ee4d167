# SPDX-License-Identifier: Apache-2.0
"""What rounding and the filter's defects do to forms that are put together block by block: all their allowances.

Rows X_v after round v as floats have them, of what is shown in the rest of a block and below these what R makes of the
state after it, are off from X_{v+1}Φ by no more than |X_{v+1}|Ω, entry by entry, and what that shows is read by the
state z before the round. So the response of a stream is off by at most

    Σ_v ‖|X_v| Ω_v h_v‖ ≤ Σ_v g_v·Ω_v h_v,     |z| ≤ h_v = κ √(P_v + what defects add to it),

g_v having the norms of the columns of X_v, and h coming from the covariance that the filter has followed already, as
contributions enter with noise. Inner products of responses are off in proportion to these alone, since Q keeps lengths.

Source: docs/proofs/blocks.md has the claims; Higham, *Accuracy and Stability of Numerical Algorithms*, Section 3.5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering.doubled import Doubled, add, from_left, from_right, product
from sottovoce.filtering.rounding import SKEWED, spread
from sottovoce.rounding import GAMMA, ROOM, TINY

if TYPE_CHECKING:
    from sottovoce.filtering.block_states import States
    from sottovoce.filtering.blocks import Block
    from sottovoce.filtering.innovations import Filtered

__all__ = ["BlockAccuracy", "Formed", "Measured"]

# Speed alone: blocks of so few rows are measured in doubled precision.
SHORT = 128


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
            times = 1.0 if encoder is None else min(times, ROOM * spread(np.abs(encoder)))
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
        """What sums of entries err by where a form is valued: 3T units of Σ|M_st|, or of ‖|M|‖ for energy 1."""
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
        self._read: dict[int, tuple[np.ndarray, np.ndarray, float]] = {}
        # Of contributions, and of unit disturbances.
        self._rows = np.zeros(2)
        self._inputs = self._skew = self._formed = 0.0
        self._carried: list[float] = []
        self._white = self._drifted = self._crossed = self._norm = self._leak = 0.0
        self._height = self._widest = 0

    def add(self, block: Block) -> None:
        """Count one block: what Q R of it is off by, and its rounds from the last one backwards."""
        short = len(block.stack) <= SHORT
        before = block.stack if short else None
        rows = [np.vstack(each) for each in zip(block.shown, block.tails, strict=True)] if short else []
        for k, each in reversed(list(enumerate(block.filtered))):
            shown, later = block.shown[k], block.tails[k]
            squares = np.einsum("ij,ij->j", shown, shown) + np.einsum("ij,ij->j", later, later)
            lengths = ROOM * np.sqrt(squares)
            self._whiten(each, shown, later, lengths + ROOM * self._rows[1])
            if before is None:
                read, fresh, at_once = self._reading(each)
                off = lengths @ read
                self._rows += off[:2] + fresh
                self._inputs += float(off[2]) ** 2 + at_once
            else:
                self._find(each, rows[k], rows[k - 1] if k else before)
        self._turn(block)

    def _find(self, filtered: Filtered, after: np.ndarray, before: np.ndarray) -> None:
        """Count a round of a short block: what rows are off by is found, and inputs are those of each node.

        A product with what a node puts in sums as many terms as that has entries.
        """
        missed = _missed(filtered, after, before)
        self._rows[0] += ROOM * float(np.linalg.norm(missed @ self._states.held(filtered)))
        self._rows[1] += ROOM * float(np.linalg.norm(missed)) * self._states.reach
        stage = filtered.stage
        size, count, sizes = stage.size, stage.count, stage.input_sizes
        formed = 0 if stage.given is None else size + 1
        put = stage.all_given[:size] - filtered.gain @ stage.all_given[size:]
        units = (np.count_nonzero(put, axis=0) + 2) * np.abs(put) + (1 + formed) * sizes[:size]
        units += (count + 1 + formed) * (np.abs(filtered.gain) @ sizes[size:])
        read = np.abs(after) @ units
        shown = (count + 2 + formed) * (np.abs(filtered.whitener) @ sizes[size:])
        squares = np.einsum("ij,ij->j", read, read) + np.einsum("ij,ij->j", shown, shown)
        self._inputs += (ROOM * GAMMA) ** 2 * float(squares.max(initial=0.0))

    def _reading(self, filtered: Filtered) -> tuple[np.ndarray, np.ndarray, float]:
        """What a step makes rows be off by, read by states, by unit disturbances and by what contributions put in.

        Φ̂ = fl(A − K C) errs by u|A| + (m + 1)u|K||C| + u|Φ̂|, A and C as they are exactly, a product with a column of it
        that has k entries by γ_k, and fl(X C) by (m + 1)u|X||C|. Products with inputs b̃ err by γ_r, and
        inputs themselves by u|B_x| + (m + 1)u|K||D_0| and one rounding more, or r + 1 more where they are products.

        Guarantee: upper bounds, the first for rows of size 1; the second has norms of what new rows are off by, the
        third the square of that of what is shown at once.
        Source: docs/proofs/blocks.md, "Rows".
        """
        if id(filtered) in self._read:
            return self._read[id(filtered)]
        stage = filtered.stage
        size, count = stage.size, stage.count
        gain, whitener = np.abs(filtered.gain), np.abs(filtered.whitener)
        held = self._held(filtered)
        moved = stage.dense_sizes @ held
        into, seen = stage.largest_inputs
        off = np.empty((size, 3))
        loop = np.abs(filtered.plain_loop)
        off[:, :2] = (
            loop @ ((stage.loop_terms + 1)[:, None] * held)
            + moved[:size]
            + (count + 1) * (gain @ moved[size:])
        )
        formed, shown = 0 if stage.given is None else size + 1, gain @ seen
        put = stage.all_given[:size] - filtered.gain @ stage.all_given[size:]
        off[:, 2] = (size + 2) * np.abs(put).max(axis=1, initial=0.0)
        off[:, 2] += (1 + formed) * into + (count + 1 + formed) * shown
        fresh = np.linalg.norm((count + 1) * (whitener @ moved[size:]), axis=0)
        at_once = float(np.linalg.norm((count + 2 + formed) * (whitener @ seen)))
        units = ROOM * GAMMA
        found = self._read[id(filtered)] = units * off, units * fresh, (units * at_once) ** 2
        return found

    def _held(self, filtered: Filtered) -> np.ndarray:
        """What states before a round may hold, of contributions and of unit disturbances."""
        return np.column_stack(
            [self._states.held(filtered), np.full(filtered.stage.size, self._states.reach)]
        )

    def _turn(self, block: Block) -> None:
        """Count what Q R is off from its rows by, as states before the block read it, and Q from keeping lengths."""
        base, root, stack = block.base, block.root, block.stack
        held, count, height, sizes = self._held(block.filtered[0]), len(root), len(stack), np.abs(base)
        if height <= SHORT:
            factors = from_left(Doubled(high=base), count), from_right(Doubled(high=root), count)
            off = add(product(*factors, count), Doubled(high=stack), -1).sizes() @ held
        else:
            apart = base @ root
            apart -= stack
            np.abs(apart, out=apart)
            off = apart @ held + GAMMA * (count + 2) * (sizes @ (np.abs(root) @ held))
        self._rows += ROOM * np.linalg.norm(off, axis=0)
        wide = ROOM * spread(sizes)
        turned = ROOM * _skew(base, wide)
        self._skew += turned + turned * self._skew
        # Coordinates of responses of the block are formed, and those of later ones carried on.
        self._height, self._widest = max(self._height, height), max(self._widest, count)
        self._formed = max(self._formed, GAMMA * (height + 2) * wide)
        self._carried.append(GAMMA * (block.later + 2) * ROOM * spread(sizes[block.height :]))

    def _whiten(self, filtered: Filtered, shown: np.ndarray, later: np.ndarray, lengths: np.ndarray) -> None:
        """Count what the defects of a round do: `lengths` are those of what unit disturbances after it show."""
        drift, crossed, white = _defects(filtered, lengths)
        self._white = max(self._white, white)
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
        """All of it, once all blocks are counted; `missed` is what a cut adds to noise and to contributions."""
        noise, signal = missed
        unwhite = self._white + self._drifted + 2 * math.sqrt(self._crossed)
        unwhite += 2 * math.sqrt(1 + unwhite) * noise + noise * noise
        surely = 1.0 if self._skew < SKEWED else math.inf
        return BlockAccuracy(
            unwhite=ROOM * unwhite,
            cut=ROOM * signal,
            rows=surely * ROOM * float(self._rows[0]),
            disturbed=surely * ROOM * float(self._rows[1]),
            inputs=ROOM * math.sqrt(self._inputs),
            within=ROOM * (GAMMA * (self._height + 2) + self._skew),
            across=ROOM * (GAMMA * (self._widest + 2) + self._formed + self._skew),
            carried=ROOM * np.array(self._carried[::-1]),
        )


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


def _skew(base: np.ndarray, wide: float) -> float:
    """A bound of ‖QᵀQ − I‖, `wide` being one of ‖|Q|‖: in doubled precision where that takes next to nothing."""
    height, count = base.shape
    if height <= SHORT:
        factor = from_left(Doubled(high=base.T), height)
        found = add(product(factor, factor.T, height), Doubled(high=np.eye(count)), -1).sizes()
        return float(found.sum(axis=1).max(initial=0.0))
    found = base.T @ base
    found.flat[:: count + 1] -= 1.0
    return float(np.abs(found).sum(axis=1).max(initial=0.0) + GAMMA * (height + 2) * wide**2)


def _defects(filtered: Filtered, lengths: np.ndarray) -> tuple[float, float, float]:
    """Bounds of ‖𝒪_v Δ 𝒪_vᵀ‖, ‖𝒪_v ΓXᵀ‖ and ‖X R' Xᵀ − I‖, columns of 𝒪_v being at most `lengths` long.

    Guarantee: upper bounds; of the second Σ_i g_i‖row i‖, of which what is unsure is taken by sums of sizes.
    """
    if filtered.unsure is not None:
        return *filtered.unsure.drift(lengths), filtered.unsure.white
    size, defect = filtered.stage.size, filtered.defect
    drift = float(lengths @ defect[:size, :size] @ lengths)
    crossed = float(lengths @ np.sqrt((defect[:size, size:] ** 2).sum(axis=1)))
    return drift, crossed, float(defect[size:, size:].sum(axis=1).max(initial=0.0))
