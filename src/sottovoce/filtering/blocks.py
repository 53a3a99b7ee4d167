# SPDX-License-Identifier: Apache-2.0
"""Rows of a filter in blocks of rounds, from the last block backwards, in plain floats.

All that a state shows from some round on has many rows O, and these are as good as a small square matrix R with O =
V R, VᵀV = I. With N what a state before a block shows in its rounds and Z what it has become after it,

    O_i = [N_i; O_{i+1} Z_i] = diag(I, V_{i+1}) [N_i; R_{i+1} Z_i] = V_i R_i,      [N_i; R_{i+1} Z_i] = Q_i R_i.

Rows are carried back from R_{i+1}, so that neither Z nor any product of loops is formed. A contribution is known by
what it shows in its own block and by R of the state that it leaves, whatever the number of rounds after it; rounds
need neither be alike nor have settled. Where the rounds of a block are those of the block after it, what they show is,
too.

Soundness: what V R is off from O by, which is measured and bounded (`block_rounding`). Speed: where blocks begin.
Source: docs/proofs/blocks.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sottovoce.filtering.innovations import Filtered

__all__ = ["Block", "blocks_of", "edges_of"]

# Speed alone: a block has about so many rows in all, but no fewer rounds than this.
ROWS, FEWEST = 400, 6
# Speed alone: rows of R that are no larger than this share of the largest are left out; what that costs is measured.
NOTHING = 2.0**-46


@dataclass(frozen=True, kw_only=True, eq=False)
class Block:
    """Some rounds, and what states before, within and after them show.

    `shown[k]` reads the state after the k-th round of the block: what it shows in later rounds of the block; `tails[k]`
    what R of the next block makes of the state that it has become after the block, (k', r), with no rows after the last
    block. `stack` is [N; R Z], the same of the state before the block, `base` and `root` are its Q and R.
    """

    begin: int
    filtered: tuple[Filtered, ...]
    shown: tuple[np.ndarray, ...]
    tails: tuple[np.ndarray, ...]
    stack: np.ndarray
    base: np.ndarray
    root: np.ndarray

    @property
    def end(self) -> int:
        """The 0-based round after the last one of the block."""
        return self.begin + len(self.filtered)

    @property
    def later(self) -> int:
        """How many rows R of the next block has."""
        return len(self.tails[0])

    @property
    def height(self) -> int:
        """How many rows the rounds of the block show."""
        return len(self.stack) - self.later


def edges_of(run: Sequence[Filtered], period: int) -> list[int]:
    """Where blocks begin, and the number of rounds: whole periods, as many as a block has rows for. Speed alone."""
    count = max(each.stage.count for each in run)
    length = -(-max(FEWEST, ROWS // max(1, count)) // period) * period
    return [*range(0, len(run), length), len(run)]


def blocks_of(run: Sequence[Filtered], edges: Sequence[int]) -> Iterator[Block]:
    """The blocks between `edges`, from the last one backwards.

    Guarantee: exact algebra but for rounding, of which `block_rounding` says how much it is.
    """
    size = run[0].stage.size
    root, known = np.zeros((0, size)), None
    for begin, end in zip(edges[-2::-1], edges[:0:-1], strict=True):
        filtered = tuple(run[begin:end])
        if known is not None and known.filtered == filtered:
            shown, whole = known.shown, known.stack[: known.height]
        else:
            shown, whole = _shown(filtered)
        tails = [root]
        for each in reversed(filtered):
            tails.append(np.empty_like(root))
            each.plainly_carried(tails[-2], tails[-1])
        stack = np.vstack([whole, tails.pop()])
        base, root = linalg.qr(stack, mode="economic", check_finite=False)
        sizes = np.abs(root).max(axis=1, initial=0.0)
        rank = int(np.flatnonzero(sizes > NOTHING * sizes.max(initial=0.0)).max(initial=-1)) + 1
        base, root = base[:, :rank], root[:rank]
        known = Block(
            begin=begin,
            filtered=filtered,
            shown=shown,
            tails=tuple(reversed(tails)),
            stack=stack,
            base=base,
            root=root,
        )
        yield known


def _shown(filtered: Sequence[Filtered]) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """What states after each round of a block show in later ones of it, and the state before it in all."""
    rows = np.zeros((0, filtered[0].stage.size))
    found = []
    for each in reversed(filtered):
        found.append(rows)
        before = np.empty((each.stage.count + len(rows), rows.shape[1]))
        before[: each.stage.count] = each.plainly_whitened
        each.plainly_carried(rows, before[each.stage.count :])
        rows = before
    return tuple(reversed(found)), rows
