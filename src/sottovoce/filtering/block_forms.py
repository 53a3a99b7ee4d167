# SPDX-License-Identifier: Apache-2.0
"""The quadratic forms of a view of a program, put together block by block in plain floats.

With `blocks`, a contribution of round t in block j shows f_t in the block itself and leaves the state y_t, which shows
V R_{j+1} y_t after it; let G_t = [f_t; R_{j+1} y_t]. A contribution of an earlier block i has become a state before
block j, and so

    M_st = G_s·G_t in one block,      M_st = y_s·(Z_{j−1} ⋯ Z_{i+1})ᵀ h_t for i < j,      h_t = [N_j; R_{j+1} Z_j]ᵀ G_t.

Going backwards, h_t is carried on by Z, and all pairs of a block with later ones are one product. Nothing is as large
as rounds times rows: a target costs T numbers for every state, and T² for M.

Three things stand between M̂ and M, as in `program_forms`: how white the innovations are, what f̂ is off by, and sums
that round. All are in `block_rounding`; where they are too much for a target a closer response serves it.

Source: docs/proofs/blocks.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering.block_rounding import BlockAccuracy, Measured, disturbances
from sottovoce.filtering.blocks import block_rows, blocks_of, edges_of
from sottovoce.filtering.doubled import UNIT
from sottovoce.filtering.overall import left_out
from sottovoce.filtering.program_forms import ProgramForm
from sottovoce.filtering.rounding import GAMMA, ROOM, TINY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sottovoce.filtering.blocks import Block
    from sottovoce.filtering.innovations import Filtered
    from sottovoce.filtering.program_forms import ProgramResponse
    from sottovoce.filtering.reduction import Cut
    from sottovoce.protocols import Protocol

__all__ = ["BlockResponse"]

# Speed alone: forms are made together while they and the states behind them take no more memory than this.
BATCH_BYTES = 2**28


@dataclass(frozen=True, kw_only=True, eq=False)
class BlockResponse:
    """The whitened response of a view whose contributions are seen in their own round and later, in blocks of rounds.

    `run` has a step of the filter for each round, with its defects. `bare`, `reached` and `cut` are those of
    `ProgramResponse`; `closer` makes one, for targets whose forms may be off by more than the share `loose`.
    """

    protocol: Protocol
    run: list[Filtered]
    bare: frozenset[tuple[int, int]]
    reached: np.ndarray
    closer: Callable[[], ProgramResponse]
    loose: float
    cut: Cut | None = None

    @property
    def engine(self) -> str:
        """The name of the way that was taken."""
        return "filter" if self.cut is None else "reduced"

    @cached_property
    def edges(self) -> list[int]:
        """Where blocks begin, and the number of rounds."""
        return edges_of(self.run, self.protocol.period)

    @property
    def _longest(self) -> int:
        """How many rounds the longest block has."""
        return max(end - begin for begin, end in pairwise(self.edges))

    @cached_property
    def accuracy(self) -> BlockAccuracy:
        """How far all forms may be off.

        Guarantee: that of `BlockAccuracy`.
        """
        for _ in self._measured():
            pass
        return self._known["accuracy"]

    @property
    def _known(self) -> dict[str, BlockAccuracy]:
        """Where `accuracy` is kept once it is known."""
        return self.__dict__

    def _measured(self) -> Iterator[Block]:
        """The blocks, from the last one backwards; after the last of them the `accuracy` is known."""
        if "accuracy" in self._known:
            yield from blocks_of(self.run, self.edges)
            return
        measured = Measured(*disturbances(self.run))
        for block in blocks_of(self.run, self.edges):
            measured.add(block)
            yield block
        missed = 0.0, 0.0
        if self.cut is not None:
            missed = left_out(self.run, self.cut, measured.leak, measured.norm)
        self._known["accuracy"] = measured.accuracy(missed)

    def forms(
        self, targets: np.ndarray, *, energy: bool = False, encoder: np.ndarray | None = None
    ) -> Iterator[ProgramForm]:
        """M = FᵀF, or CᵀMC with an encoder C, for each of the targets: see `ProgramResponse.forms`.

        Guarantee: that of `ProgramForm` (docs/proofs/blocks.md).
        """
        size, rounds = self.run[0].stage.size, len(self.run)
        longest = self._longest
        height = longest * max(each.stage.count for each in self.run) + size
        batch = max(1, int(BATCH_BYTES // (8 * (rounds * (rounds + size) + 2 * longest * height))))
        for begin in range(0, len(targets), batch):
            chosen = targets[begin : begin + batch]
            entering = self._entering(chosen)
            matrices = self._matrices(entering, len(chosen))
            rounding, shift = self.accuracy.allowances(
                np.diagonal(matrices, axis1=1, axis2=2),
                self._inputs(chosen, entering),
                size=size,
                energy=energy and encoder is None,
            )
            forms = [
                ProgramForm(
                    target=int(target),
                    matrix=(matrix := matrices[k]),
                    attained=matrix,
                    rounding=float(rounding[k]),
                    shift=float(shift[k]),
                    unwhite=self.accuracy.unwhite,
                )
                for k, target in enumerate(chosen)
            ]
            if encoder is not None:
                forms = [_encoded(form, encoder) for form in forms]
            loose = [form.target for form in forms if self._is_loose(form)]
            closer: Iterator[ProgramForm] = iter(())
            if loose:
                closer = self._closer.forms(np.array(loose), energy=energy, encoder=encoder)
            for form in forms:
                yield next(closer) if form.target in loose else form

    def _is_loose(self, form: ProgramForm) -> bool:
        """Whether a form may be off by too much of what it says at least. Speed alone."""
        value = max(float(np.trace(form.matrix)), float(form.matrix.sum()))
        if not value > 0:
            return True
        off = form.rounding + 2 * form.shift * math.sqrt(value) + form.shift**2 + 2 * form.unwhite * value
        return not off <= self.loose * value

    @cached_property
    def _closer(self) -> ProgramResponse:
        """The closer response, once it is asked for."""
        return self.closer()

    def _entering(self, targets: np.ndarray) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """For each kind of round what contributions of 1 put into the state, (targets, r), and show at once."""
        found, given = {}, dict[int, np.ndarray]()
        for each in {id(each): each for each in self.run}.values():
            size, stage = each.stage.size, each.stage
            if id(stage) not in given:
                given[id(stage)] = np.ascontiguousarray(stage.plain_contributions(targets).T)
            put = given[id(stage)]
            found[id(each)] = put[:, :size] - put[:, size:] @ each.gain.T, put[:, size:] @ each.whitener.T
        return found

    def _inputs(
        self, targets: np.ndarray, entering: dict[int, tuple[np.ndarray, np.ndarray]]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(β, δ, δ'): norms of what contributions put into the state, and what this and what is shown is off by.

        Guarantee: upper bounds over all rounds, one of each a target.
        Source: docs/proofs/blocks.md, "Inputs".
        """
        found, sizes = np.zeros((3, len(targets))), dict[int, tuple[np.ndarray, np.ndarray]]()
        for each in {id(each): each for each in self.run}.values():
            stage = each.stage
            if id(stage) not in sizes:
                sizes[id(stage)] = stage.contributed_sizes(targets)
            into, seen = sizes[id(stage)]
            units = ROOM * GAMMA * (stage.size + stage.count + 6)
            unknown = units * (into + ROOM * float(np.linalg.norm(each.gain)) * seen) + TINY
            at_once = units * ROOM * float(np.linalg.norm(each.whitener)) * seen + TINY
            norms = ROOM * np.linalg.norm(entering[id(each)][0], axis=1) + unknown
            np.maximum(found, [norms, unknown, at_once], out=found)
        return found[0], found[1], found[2]

    def _matrices(self, entering: dict[int, tuple[np.ndarray, np.ndarray]], count: int) -> np.ndarray:
        """M̂ of the targets, (targets, T, T), from what they put in."""
        rounds, size = len(self.run), self.run[0].stage.size
        matrices = np.empty((count, rounds, rounds))
        # h_t of all rounds after the block at hand, round by round; G_t of its own rounds, a row for each target.
        told = np.empty((rounds, count, size))
        height, longest = max(block_rows(self.run, *edges) for edges in pairwise(self.edges)), self._longest
        answers = np.empty((longest * count, height + size))
        left = np.empty((longest, count, size))
        for block in self._measured():
            here, later, length = slice(block.begin, block.end), len(block.after), len(block.rows)
            if not block.same:
                _respond(block, entering, answers.reshape(longest, count, -1), left)
            states, after = left[:length], told[block.end :]
            read = answers[: length * count, : block.height + later]
            if later:
                np.matmul(states.reshape(-1, size), block.after.T, out=read[:, block.height :])
                crossed = states.transpose(1, 0, 2) @ after.transpose(1, 2, 0)
                matrices[:, here, block.end :] = crossed
                matrices[:, block.end :, here] = crossed.transpose(0, 2, 1)
            ordered = read.reshape(length, count, -1).transpose(1, 0, 2)
            matrices[:, here, here] = ordered @ ordered.transpose(0, 2, 1)
            if block.begin:
                after[:] = (after.reshape(-1, size) @ block.moved).reshape(after.shape)
                np.matmul(read, block.stack, out=told[here].reshape(-1, size))
        return matrices


def _respond(
    block: Block,
    entering: dict[int, tuple[np.ndarray, np.ndarray]],
    shown: np.ndarray,
    left: np.ndarray,
) -> None:
    """Fill in what contributions of each round of a block show in it, and the states that they leave: by rounds."""
    height, begin = block.height, 0
    for k, (rows, each) in enumerate(zip(block.rows, block.filtered, strict=True)):
        put, at_once = entering[id(each)]
        seen = begin + each.stage.count
        shown[k, :, :begin] = 0.0
        shown[k, :, begin:seen] = at_once
        np.matmul(put, rows[: height - seen].T, out=shown[k, :, seen:height])
        np.matmul(put, rows[height - seen :].T, out=left[k])
        begin = seen


def _encoded(form: ProgramForm, encoder: np.ndarray) -> ProgramForm:
    """The form of C c: CᵀM̂C, whose sums err by γ_2T of |C|ᵀ|M̂||C|, |M̂_st| ≤ √(M̂_ss M̂_tt) up to `rounding`.

    ‖(C c)_t‖ is at most the row sum of |C|, for streams of energy 1 too.

    Guarantee: that of `ProgramForm`, from the form of streams with ‖c_t‖ ≤ 1.
    """
    rounds = len(encoder)
    sums = np.abs(encoder).sum(axis=1) * (1 + UNIT * rounds)
    longest = float(sums.max())
    sizes = float(sums @ np.abs(form.matrix) @ sums)
    matrix = encoder.T @ form.matrix @ encoder
    return ProgramForm(
        target=form.target,
        matrix=matrix,
        attained=matrix,
        rounding=ROOM * (longest**2 * form.rounding + UNIT * (6 * rounds + 12) * sizes),
        shift=ROOM * longest * form.shift,
        unwhite=form.unwhite,
    )
