# SPDX-License-Identifier: Apache-2.0
"""Rows of a filter in blocks of rounds, from the last block backwards, in plain floats.

A block is known by what a state before it shows in its rounds, N, and what it has become after it, Z. All that a
state shows from that block on has the rows O, and these are as good as a small square matrix R with O = V R, VᵀV = I:

    O_i = [N_i; O_{i+1} Z_i] = diag(I, V_{i+1}) [N_i; R_{i+1} Z_i] = V_i R_i,      [N_i; R_{i+1} Z_i] = Q_i R_i.

So a contribution is known by what it shows in its own block and the state that it leaves, whatever the number of
rounds after it; rounds need neither be alike nor have settled. Where the rounds of a block are those of the block
after it, its rows are, too.

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

__all__ = ["Block", "block_rows", "blocks_of", "edges_of"]

# Speed alone: a block has about so many rows in all, but no fewer rounds than this.
ROWS, FEWEST = 320, 6


@dataclass(frozen=True, kw_only=True, eq=False)
class Block:
    """Some rounds, and what states before, within and after them show.

    `rows[k]` reads the state after the k-th round of the block: what it shows in later rounds of the block, and below
    these the state after the block, r rows. `whole` does the same for the state before the block: N above Z. `after`
    is R of the next block, (k', r), with no rows after the last one; `stack` is [N; R Z] with that R, `base` and `root`
    are Q and R of this one.
    `same` says that `rows` and `whole` are those of the block after.
    """

    begin: int
    filtered: tuple[Filtered, ...]
    rows: tuple[np.ndarray, ...]
    whole: np.ndarray
    after: np.ndarray
    stack: np.ndarray
    base: np.ndarray
    root: np.ndarray
    same: bool

    @property
    def end(self) -> int:
        """The 0-based round after the last one of the block."""
        return self.begin + len(self.filtered)

    @property
    def height(self) -> int:
        """How many rows the rounds of the block show."""
        return len(self.whole) - int(self.whole.shape[1])

    @property
    def moved(self) -> np.ndarray:
        """Z: what a state before the block has become after it."""
        return self.whole[self.height :]


def edges_of(run: Sequence[Filtered], period: int) -> list[int]:
    """Where blocks begin, and the number of rounds: whole periods, as many as a block has rows for. Speed alone."""
    count = max(each.stage.count for each in run)
    length = -(-max(FEWEST, ROWS // max(1, count)) // period) * period
    return [*range(0, len(run), length), len(run)]


def block_rows(run: Sequence[Filtered], begin: int, end: int) -> int:
    """How many rows some rounds show."""
    return sum(each.stage.count for each in run[begin:end])


def blocks_of(run: Sequence[Filtered], edges: Sequence[int]) -> Iterator[Block]:
    """The blocks between `edges`, from the last one backwards.

    Guarantee: exact algebra but for rounding, of which `block_rounding` says how much it is.
    """
    size = run[0].stage.size
    root, known = np.zeros((0, size)), None
    for begin, end in zip(edges[-2::-1], edges[:0:-1], strict=True):
        filtered = tuple(run[begin:end])
        same = known is not None and all(
            one is other for one, other in zip(filtered, known.filtered, strict=False)
        )
        if known is not None and same and len(filtered) == len(known.filtered):
            rows, whole = known.rows, known.whole
        else:
            same, (rows, whole) = False, _carried(filtered)
        height, after = len(whole) - size, root
        stack = np.vstack([whole[:height], after @ whole[height:]])
        base, root = linalg.qr(stack, mode="economic", check_finite=False)
        known = Block(
            begin=begin,
            filtered=filtered,
            rows=rows,
            whole=whole,
            after=after,
            stack=stack,
            base=base,
            root=root,
            same=same,
        )
        yield known


def _carried(filtered: Sequence[Filtered]) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Rows after each round of a block, and those before all of it, carried back from the state after it."""
    rows = np.eye(filtered[0].stage.size)
    found = []
    for each in reversed(filtered):
        found.append(rows)
        rows = np.vstack([each.plainly_whitened, rows @ each.plain_loop])
    return tuple(reversed(found)), rows
