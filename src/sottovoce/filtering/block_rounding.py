# SPDX-License-Identifier: Apache-2.0
"""What rounding and the filter's defects do to forms that are put together block by block: all their allowances.

With O_v and S_v the rows after round v as floats have them, of what is shown in the rest of its block and of the state
after it, κ_v what a step errs by in proportion to rows, and ζ the longest state that contributions make, everything
is in proportion to

    ζ Σ_v κ_v‖|O_v|‖,   ζ Σ_v κ_v‖|S_v|‖,   and what V R is off from the rows of all later rounds by.

Source: docs/proofs/blocks.md has the claims; Higham, *Accuracy and Stability of Numerical Algorithms*, Section 3.5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering.doubled import UNIT
from sottovoce.filtering.rounding import GAMMA, ROOM, TINY, norm_above, spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.filtering.blocks import Block
    from sottovoce.filtering.innovations import Filtered

__all__ = ["BlockAccuracy", "Measured", "disturbances"]

# Needed by a proof (docs/proofs/blocks.md): beyond this V is not known to be as good as orthonormal, nor are products
# of what steps err by as small as `ROOM` has them.
SKEWED = 1e-3
# Speed alone: what states may hold is followed until a round adds no more than this share; the rest is proved.
GROWN = 0.01
# Speed alone: ε, the share of unit disturbances that are followed beside contributions.
SHARE = 1 / 32


def disturbances(run: Sequence[Filtered]) -> tuple[float, float]:
    """(ζ, ω): the longest state that contributions of a node of energy 1 make, and unit disturbances of all rounds.

    U_{t+1} = Φ_t U_t Φ_tᵀ + Σ_j b̃_j b̃_jᵀ + ε² I is followed with as much of I on top as rounding may have taken off:
    ζ² = ‖U‖ and ω = ζ/ε. Where a step is that of the round before and what follows is below U + ν I, S = U/(1 − ν/ε²)
    stays above for good.

    Guarantee: upper bounds, for the exact loops of the floats K.
    Source: docs/proofs/blocks.md, "States"; docs/proofs/programs.md, "Rounds that recur".
    """
    size = run[0].stage.size
    U, largest = np.zeros((size, size)), SHARE**2
    known: dict[int, tuple[np.ndarray, float, float]] = {}
    before, stays = None, False
    for each in run:
        if stays and each is before:
            continue
        if id(each) not in known:
            known[id(each)] = _entering(each)
        added, units, share = known[id(each)]
        room = ROOM * (share * (float(np.linalg.norm(U)) + TINY) + units)
        loop = each.plain_loop
        following = (loop @ U) @ loop.T
        following += added
        following.flat[:: size + 1] += SHARE**2 + room
        if stays := each is before:
            moved = ROOM * float(np.abs(following - U).sum(axis=1).max(initial=0.0)) / SHARE**2
            if stays := moved <= GROWN:
                following = U * ((1 + 4 * UNIT) / (1 - moved))
        U, before = following, each
        largest = max(largest, float(np.abs(U).sum(axis=1).max(initial=0.0)))
        if not math.isfinite(largest):
            return math.inf, math.inf
    longest = ROOM * math.sqrt(largest)
    return longest, longest / SHARE


def _entering(filtered: Filtered) -> tuple[np.ndarray, float, float]:
    """Σ_j b̃_j b̃_jᵀ over all nodes, what it may be off by in norm, and the share of ‖U‖_F that a step may be off by."""
    stage = filtered.stage
    size, (gram, into, seen) = stage.size, stage.all_contributions
    taken = gram[:size] - filtered.gain @ gram[size:]
    added = taken[:, :size] - taken[:, size:] @ filtered.gain.T
    sizes = into + ROOM * float(np.linalg.norm(filtered.gain)) * seen
    units = GAMMA * (stage.inputs + 2 * (size + stage.count) + 12) * sizes**2
    step, _, wide = filtered.slips
    return added, ROOM * units, 2 * (step + GAMMA * (size + 4) * wide) * wide


@dataclass(frozen=True, kw_only=True)
class BlockAccuracy:
    """How far forms that are put together of blocks may be off.

    η = `unwhite` and `cut` are those of `Accuracy`. Contributions of energy 1 make states of at most ζ = `built`, unit
    disturbances of all rounds such of ω = `reach`. Responses as stored differ from exact ones by at most ζ·(`rows` +
    `tails`) + (γ_r β + δ)·`wide` for streams of energy 1, inputs having norm β and being known up to δ. V R of a block
    differs from the rows of all rounds from it on by at most `beside` of the states that these read, V from orthonormal
    ones by `skew`, and no such rows are longer than `shows`. States after blocks are off by at most `moved` of states
    before and within, and by `left` of what is read off inputs. No sum has more terms than `height`.

    Guarantee: upper bounds, for the exact matrices of the protocol.
    Source: docs/proofs/blocks.md.
    """

    unwhite: float
    cut: float
    built: float
    reach: float
    rows: float
    wide: float
    tails: float
    beside: float
    skew: float
    shows: float
    left: float
    moved: float
    height: int

    def allowances(
        self,
        diagonals: np.ndarray,
        inputs: tuple[np.ndarray, np.ndarray, np.ndarray],
        *,
        size: int,
        energy: bool,
    ) -> tuple[np.ndarray, np.ndarray]:
        """(`rounding`, `shift`) of `ProgramForm`, one of each a target.

        `diagonals` are those of M̂, (targets, T), and `inputs` have β, δ and what is shown at once is off by.

        Guarantee: upper bounds.
        Source: docs/proofs/blocks.md, "What is followed" and "What is added up".
        """
        if not self.reach**2 * self.moved < SKEWED:
            nothing = np.full(len(diagonals), math.inf)
            return nothing, nothing
        inputs_norm, unknown, at_once = inputs
        rounds = diagonals.shape[1]
        built = self.built
        read = GAMMA * size * inputs_norm + unknown
        followed = ROOM * (built * (self.rows + self.tails) + read * self.wide + at_once)
        # What tails are off by as products with later responses see them.
        summed = GAMMA * (self.height + 2 * size + 4) * math.sqrt(size)
        late = built * (self.beside + self.shows * (2 * self.moved + 2 * summed))
        late = ROOM * (late + self.shows * read * self.left + followed)
        squares = np.maximum(diagonals, 0.0)
        most = np.sqrt(squares.sum(axis=1)) if energy else np.sqrt(squares).sum(axis=1)
        times = 1.0 if energy else math.sqrt(rounds)
        units = GAMMA * (self.height + size + 3 * rounds + 12) * (math.sqrt(size) + 4) + 1.01 * self.skew
        rounding = 2 * times * late * most + (times * late) ** 2 + units * most**2
        shift = times * (followed + self.cut)
        return np.asarray(ROOM * rounding + TINY), np.asarray(ROOM * shift)


class Measured:
    """Adds up what blocks say, from the last one backwards; `accuracy` has the sums."""

    def __init__(self, built: float, reach: float) -> None:
        """Begin after the last round, where nothing is shown."""
        self._built, self._reach = built, reach
        self._rows = self._squares = self._tails = self._beside = self._skew = 0.0
        self._shows = self._after = self._left = self._moved = 0.0
        self._white = self._drifted = self._crossed = self._norm = self._leak = 0.0
        self._height = 0
        self._steps = self._shown = self._within = np.zeros(0)
        self._fresh = 0.0

    def add(self, block: Block) -> None:
        """Count one block."""
        size = block.whole.shape[1]
        if not block.same:
            self._look(block)
        steps, shown, within, fresh = self._steps, self._shown, self._within, self._fresh
        # In proportion to the states that are read: rows of the block, and states after it.
        put_off, left_off = float(steps @ shown) + fresh, float(steps @ within)
        moved = GAMMA * size * float(np.linalg.norm(block.moved))
        error = put_off + self._after * (left_off + GAMMA * size**1.5 * float(within.max())) + self._beside
        self._whiten(block, ROOM * self._reach * error)
        both = shown + self._after * within
        self._rows += float(steps @ both) + fresh
        self._squares += float(both @ both)
        self._tails += self._beside + GAMMA * size * self._after * math.sqrt(size * len(block.rows))
        self._left += float(within @ within)
        self._moved += left_off + moved
        self._turn(block, put_off + self._after * (left_off + math.sqrt(size) * moved))
        self._height = max(self._height, len(block.stack))

    def _look(self, block: Block) -> None:
        """What steps of a block err by, and norms of |O_v| and |S_v|."""
        size, count = block.whole.shape[1], len(block.rows)
        self._steps, self._shown, self._within = np.zeros(count), np.zeros(count), np.zeros(count)
        self._fresh = 0.0
        for k, (rows, each) in enumerate(zip(block.rows, block.filtered, strict=True)):
            self._steps[k], at_once, _ = each.slips
            self._fresh += at_once
            sizes = np.abs(rows)
            shown, within = sizes[: len(rows) - size], sizes[len(rows) - size :]
            self._shown[k] = ROOM * spread(shown)
            self._within[k] = ROOM * spread(within)

    def _turn(self, block: Block, off: float) -> None:
        """Count what V R of a block is off from the rows of all later rounds by, and V from orthonormal."""
        base, root, stack = block.base, block.root, block.stack
        count, length = root.shape[0], float(np.linalg.norm(stack))
        beside = float(np.linalg.norm(base @ root - stack)) + GAMMA * (count + 2) * 1.01 * length * count**0.5
        skew = float(np.linalg.norm(base.T @ base - np.eye(count)))
        skew = ROOM * (skew + GAMMA * (len(stack) + 2) * 1.01 * count)
        self._skew = skew + self._skew + skew * self._skew
        self._beside += ROOM * (off + beside)
        self._after = ROOM * float(norm_above(root[None])[0]) + self._beside * self._reach
        self._shows = max(self._shows, self._after)

    def _whiten(self, block: Block, error: float) -> None:
        """Count what the defects of a block do: g has the norms of what unit disturbances after a round show."""
        size = block.whole.shape[1]
        for rows, each in zip(block.rows, block.filtered, strict=True):
            shown, later = rows[: len(rows) - size], block.after @ rows[len(rows) - size :]
            squares = np.einsum("ij,ij->j", shown, shown) + np.einsum("ij,ij->j", later, later)
            lengths = ROOM * np.sqrt(squares) + error
            drift, crossed, white = _defects(each, lengths)
            self._white = max(self._white, white)
            self._drifted += drift
            self._crossed += crossed**2
            self._norm += float(lengths @ lengths)
            factor = each.stage.factor
            if factor is not None:
                let_in = float(np.hypot(np.linalg.norm(shown @ factor.T), np.linalg.norm(later @ factor.T)))
                room = error + GAMMA * (size + 2) * math.sqrt(float(squares.sum()))
                self._leak += (let_in + room * float(np.linalg.norm(factor))) ** 2

    @property
    def leak(self) -> float:
        """A bound of ‖𝒪fᵀ‖."""
        return ROOM * math.sqrt(self._leak)

    @property
    def norm(self) -> float:
        """A bound of ‖𝒪‖."""
        return ROOM * math.sqrt(self._norm)

    def accuracy(self, missed: tuple[float, float]) -> BlockAccuracy:
        """All of it, once all blocks are counted; `missed` is what a cut adds to noise and to contributions."""
        noise, signal = missed
        unwhite = self._white + self._drifted + 2 * math.sqrt(self._crossed)
        unwhite += 2 * math.sqrt(1 + unwhite) * noise + noise * noise
        return BlockAccuracy(
            unwhite=ROOM * unwhite,
            cut=ROOM * signal,
            built=self._built,
            reach=self._reach,
            rows=self._rows,
            wide=math.sqrt(self._squares),
            tails=self._tails,
            beside=self._beside,
            skew=self._skew if self._skew < SKEWED else math.inf,
            shows=self._shows,
            left=math.sqrt(self._left),
            moved=self._moved,
            height=self._height,
        )


def _defects(filtered: Filtered, lengths: np.ndarray) -> tuple[float, float, float]:
    """Bounds of ‖𝒪_v Δ 𝒪_vᵀ‖, ‖𝒪_v ΓXᵀ‖ and ‖X R' Xᵀ − I‖, columns of 𝒪_v being at most `lengths` long.

    Guarantee: upper bounds; of the second Σ_i g_i‖row i‖, of which what is unsure is taken by sums of sizes.
    """
    size, defect = filtered.stage.size, filtered.defect
    drift = float(lengths @ defect[:size, :size] @ lengths)
    crossed = float(lengths @ np.sqrt((defect[:size, size:] ** 2).sum(axis=1)))
    white = float(defect[size:, size:].sum(axis=1).max(initial=0.0))
    if filtered.unsure is not None:
        more, across = filtered.unsure.drift(lengths)
        drift, crossed, white = drift + more, crossed + across, white + filtered.unsure.white
    return drift, crossed, white
