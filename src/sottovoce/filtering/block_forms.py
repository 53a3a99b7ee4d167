# SPDX-License-Identifier: Apache-2.0
"""The quadratic forms of a view of a program, put together block by block in plain floats.

With `blocks`, a contribution of round t in block j shows f_t in the block itself and leaves a state that shows V_{j+1}
g_t after it: G_t = [f_t; g_t] are coordinates of its response, and w_t = Q_jᵀ G_t are those of its part in what states
before the block can show. A step back to block i < j has Q_i = [·; Q'_i] below the rows of its rounds, and so

    M_st = G_s·G_t in one block,      M_st = g_s·w_t,  w_t = Q'_{i+1}ᵀ ⋯ Q'_{j−1}ᵀ Q_jᵀ G_t,  for s in block i < j.

All pairs of a block with later ones are one product. Nothing is as large as rounds times rows: a target costs T
numbers for every state, and T² for M.

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

from sottovoce.filtering.block_rounding import BlockAccuracy, Formed, Measured
from sottovoce.filtering.block_states import states_of
from sottovoce.filtering.blocks import blocks_of, edges_of
from sottovoce.filtering.overall import left_out
from sottovoce.filtering.program_forms import ProgramForm
from sottovoce.filtering.rounding import fine_gamma
from sottovoce.rounding import above, gamma

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sottovoce.filtering.block_states import States
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

    @cached_property
    def _largest(self) -> tuple[int, int]:
        """How many rounds the longest block has, and how many coordinates a response in it."""
        length = max(end - begin for begin, end in pairwise(self.edges))
        return length, length * max(each.stage.count for each in self.run) + self.run[0].stage.size

    @cached_property
    def states(self) -> States:
        """What states may hold."""
        return states_of(self.run)

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
        measured = Measured(self.states)
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
        longest, height = self._largest
        batch = max(1, int(BATCH_BYTES // (8 * (rounds * (rounds + 2 * size) + longest * height))))
        for begin in range(0, len(targets), batch):
            chosen = targets[begin : begin + batch]
            entering = self._entering(chosen)
            formed = self._formed(entering, len(chosen))
            matrices = formed.matrices
            rounding, shift = self.accuracy.allowances(
                formed,
                self.states.hidden[chosen],
                self._norms(entering),
                energy=energy,
                encoder=encoder,
            )
            if encoder is not None:
                matrices, more = _encoded(matrices, encoder)
                rounding = rounding + more
            rounding = rounding + formed.valued(matrices, energy=energy)
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

    def _norms(self, entering: dict[int, tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """The largest norm of what each target puts into the state in a round.

        Guarantee: upper bounds; what is off in floats is at most (2r + m + 8)u of sizes.
        """
        found = []
        for each in {id(each): each for each in self.run}.values():
            stage, (into, seen) = each.stage, each.stage.largest_inputs
            sizes = float(np.linalg.norm(into)) + float(np.linalg.norm(each.gain)) * float(
                np.linalg.norm(seen)
            )
            units = gamma(2 * stage.size + stage.count + 8)
            found.append(np.linalg.norm(entering[id(each)][0], axis=1) + units * sizes)
        return np.asarray(above(np.max(found, axis=0)))

    def _formed(self, entering: dict[int, tuple[np.ndarray, np.ndarray]], count: int) -> Formed:
        """M̂ of the targets, (targets, T, T), from what they put in."""
        rounds = len(self.run)
        matrices, tails = np.empty((count, rounds, rounds)), np.zeros((count, rounds))
        # G_t of the rounds of a block, a row for each target; w_t of all later rounds, and of those with the block.
        length, height = self._largest
        answers = np.empty(length * count * height)
        stores = np.empty((2, rounds * count * self.run[0].stage.size))
        told = stores[0, :0].reshape(0, 0)
        for block in self._measured():
            here, later = slice(block.begin, block.end), block.later
            found = _respond(block, entering, answers)
            ordered = found.transpose(1, 0, 2)
            matrices[:, here, here] = ordered @ ordered.transpose(0, 2, 1)
            if len(told):
                left = ordered[:, :, block.height :]
                tails[:, here] = np.sqrt(np.einsum("ksi,ksi->ks", left, left))
                crossed = left @ told.reshape(len(told) // count, count, later).transpose(1, 2, 0)
                matrices[:, here, block.end :] = crossed
                matrices[:, block.end :, here] = crossed.transpose(0, 2, 1)
            if block.begin:
                stores = stores[::-1]
                rank, before, new = len(block.root), len(told), len(found) * count
                carried = stores[0, : (new + before) * rank].reshape(new + before, rank)
                np.matmul(told, block.base[block.height :], out=carried[new:])
                _turned(block, found, carried[:new].reshape(len(found), count, rank))
                told = carried
        return Formed(matrices=matrices, tails=tails, edges=self.edges)


def _respond(
    block: Block, entering: dict[int, tuple[np.ndarray, np.ndarray]], store: np.ndarray
) -> np.ndarray:
    """G_t of contributions of each round of a block, (rounds, targets, rows)."""
    height, begin = block.height, 0
    count = len(entering[id(block.filtered[0])][0])
    shape = len(block.filtered), count, height + block.later
    found = store[: math.prod(shape)].reshape(shape)
    for k, (shown, tail, each) in enumerate(zip(block.shown, block.tails, block.filtered, strict=True)):
        put, at_once = entering[id(each)]
        seen = begin + each.stage.count
        found[k, :, :begin] = 0.0
        found[k, :, begin:seen] = at_once
        np.matmul(put, shown.T, out=found[k, :, seen:height])
        np.matmul(put, tail.T, out=found[k, :, height:])
        begin = seen
    return found


def _turned(block: Block, found: np.ndarray, out: np.ndarray) -> None:
    """w_t = Qᵀ G_t of the rounds of a block: what a contribution shows begins with its round."""
    begin = 0
    for k, each in enumerate(block.filtered):
        np.matmul(found[k, :, begin:], block.base[begin:], out=out[k])
        begin += each.stage.count


def _encoded(matrices: np.ndarray, encoder: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """CᵀM̂C, and what sums of it err by for streams with |c_t| ≤ 1: γ_2T of |C|ᵀ|M̂||C|, and C as rounded.

    Guarantee: upper bounds.
    """
    sizes = np.abs(encoder).sum(axis=1)
    spread = np.einsum("s,kst,t->k", sizes, np.abs(matrices), sizes, optimize=True)
    return encoder.T @ matrices @ encoder, above(fine_gamma(2 * len(encoder) + 8)) * spread
