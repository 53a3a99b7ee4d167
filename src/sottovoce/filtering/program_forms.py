# SPDX-License-Identifier: Apache-2.0
"""The quadratic forms of a view of a program: M for every target, and how far rounding may have moved it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering.decorrelation import seen_view
from sottovoce.filtering.innovations import innovations
from sottovoce.filtering.stages import EPSILON, stages_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sottovoce.filtering.innovations import Step
    from sottovoce.protocols import Protocol
    from sottovoce.views import View

__all__ = ["ProgramForm", "ProgramResponse", "program_response"]

BATCH_BYTES = 256 * 2**20


@dataclass(frozen=True, kw_only=True, eq=False)
class ProgramForm:
    """M̂ of one target, and how far it may be from M.

    For streams with ‖c_t‖ ≤ 1, with Δ̂² = cᵀM̂c ± `rounding` and η = `unwhite`,

        (Δ̂ − `shift`)² / (1 + η) ≤ cᵀMc ≤ (Δ̂ + `shift`)² / (1 − η).
    """

    target: int
    matrix: np.ndarray
    rounding: float
    shift: float
    unwhite: float


@dataclass(frozen=True, kw_only=True, eq=False)
class ProgramResponse:
    """The whitened response of a view: F_ts = X_t (C Φ_{t−1} ⋯ Φ_{s+1} b_s + what is direct), round by round.

    `bare` holds the (round, node) pairs whose contributions are seen beside no unknown noise.
    """

    protocol: Protocol
    steps: list[Step]
    bare: frozenset[tuple[int, int]]

    @cached_property
    def starts(self) -> np.ndarray:
        """Where the rows of each round begin among all rows; the last entry is their number."""
        return np.cumsum([0, *(step.stage.count for step in self.steps)])

    def reached(self) -> np.ndarray:
        """Which nodes' contributions touch a row at all, decided on the pattern of the exact matrices."""
        first = self.steps[0].stage
        held = np.zeros((first.size, self.protocol.n), dtype=bool)
        hit = np.zeros(self.protocol.n, dtype=bool)
        for step in self.steps:
            absA, absC = step.stage.sizes[:2]
            hit |= np.asarray((absC != 0) @ held).any(axis=0)
            for each in step.stage.direct:
                hit |= np.asarray(abs(each).sum(axis=0)).ravel() > 0
            held = np.asarray((absA != 0) @ held) | (step.stage.entering.toarray() != 0)
        return hit

    @cached_property
    def _adjoint_sizes(self) -> np.ndarray:
        """‖O_ts‖ for rounds t > s, by Frobenius norms."""
        sizes = np.zeros((len(self.steps), len(self.steps)))
        for s, adjoint in self._adjoints():
            squares = (adjoint**2).sum(axis=1)
            for t in range(s + 1, len(self.steps)):
                sizes[t, s] = np.sqrt(
                    squares[
                        self.starts[t] - self.starts[s + 1] : self.starts[t + 1] - self.starts[s + 1]
                    ].sum()
                )
        return sizes

    def _adjoints(self) -> Iterator[tuple[int, np.ndarray]]:
        """(s, the rows O_ts of all rounds t > s) from the last round but one backwards."""
        starts, size = self.starts, self.steps[0].stage.size
        whole = np.zeros((starts[-1], size))
        for s in range(len(self.steps) - 2, -1, -1):
            later = self.steps[s + 1]
            behind = whole[starts[s + 2] :]
            if len(behind):
                moved = np.asarray(behind @ later.stage.transition)
                behind[:] = moved - np.asarray((behind @ later.gain) @ later.stage.rows)
            whole[starts[s + 1] : starts[s + 2]] = later.whitener @ later.stage.rows
            yield s, whole[starts[s + 1] :]

    @cached_property
    def accuracy(self) -> tuple[float, float, float]:
        """η ≥ ‖E‖, and bounds of ‖(F̂ − F̃)c‖ for streams of norm 1 in all, and for streams of norm 1 in each round.

        A step of the adjoint recursion errs by g‖O_ts‖, which meets a state of norm at most reach·entry·‖c‖.
        """
        sizes, steps = self._adjoint_sizes, self.steps
        in_step = np.array([_products(step) * EPSILON for step in steps])
        stretch = np.array([step.stretch for step in steps])
        reach = np.array([step.reach for step in steps])
        # Row r of `lost` bounds what step r of the recursion, from O_tr to O_t,r−1, does to the rows of round t.
        lost = sizes * in_step * stretch
        followed = lost @ reach
        # What the recursion lost also leaves the computed norms of O a little off.
        slack = float(np.linalg.norm(followed))
        crossed = _norm(sizes * np.array([step.crossed for step in steps])) + slack * _most(steps, "crossed")
        drift = (
            _norm(sizes * np.sqrt([step.drift for step in steps])) + slack * np.sqrt(_most(steps, "drift"))
        ) ** 2
        unwhite = 1.01 * (_most(steps, "unwhite") + 2 * crossed + drift)
        entry = np.array([_entry(step) for step in steps])
        beside = np.array([in_step[t] * _beside(step) for t, step in enumerate(steps)])
        injected = sizes @ (in_step * entry)
        at_once = float(np.linalg.norm(followed) * entry.max() + np.linalg.norm(injected + beside))
        each = float(
            np.linalg.norm(followed) * entry.max() * np.sqrt(len(steps)) + np.linalg.norm(injected + beside)
        )
        return unwhite, 1.01 * at_once, 1.01 * each

    def forms(
        self, targets: np.ndarray, *, energy: bool = False, encoder: np.ndarray | None = None
    ) -> Iterator[ProgramForm]:
        """M = FᵀF, or CᵀMC with an encoder C, for each of the targets (node indices).

        With `energy` the shift is that of streams with Σ‖c_t‖² ≤ 1.
        """
        rounds, height = len(self.steps), int(self.starts[-1])
        unwhite, at_once, each = self.accuracy
        shift = at_once if energy else each
        if encoder is not None:
            longest = np.abs(encoder).sum(axis=1).max() * (1 + EPSILON * rounds)
            shift = at_once * longest * (1 if energy else np.sqrt(rounds))
        batch = max(1, int(BATCH_BYTES // (8 * rounds * max(1, height))))
        for begin in range(0, len(targets), batch):
            chosen = targets[begin : begin + batch]
            for target, response in zip(chosen, self._responses(chosen), strict=True):
                lost = 0.0
                if encoder is not None:
                    products = np.abs(response) @ np.abs(encoder).sum(axis=1)
                    lost = EPSILON * (rounds + 4) * float(np.linalg.norm(products))
                coded = response if encoder is None else response @ encoder
                sums = np.abs(coded).sum(axis=1)
                yield ProgramForm(
                    target=int(target),
                    matrix=coded.T @ coded,
                    rounding=float(EPSILON * (height + 4) * (sums**2).sum()),
                    shift=shift + lost,
                    unwhite=unwhite,
                )

    def _responses(self, targets: np.ndarray) -> np.ndarray:
        """F for each of the targets, (targets, rows, rounds)."""
        starts, rounds = self.starts, len(self.steps)
        response = np.zeros((len(targets), int(starts[-1]), rounds))
        for t, step in enumerate(self.steps):
            for a, direct in enumerate(step.stage.direct):
                if t + a < rounds and direct.nnz:
                    shown = step.whitener @ direct[:, targets].toarray()
                    response[:, starts[t] : starts[t + 1], t + a] += shown.T
        for s, adjoint in self._adjoints():
            step = self.steps[s]
            response[:, starts[s + 1] :, s] += (adjoint @ step.stage.entering[:, targets].toarray()).T
            for a, direct in enumerate(step.stage.direct):
                if s + a < rounds and direct.nnz:
                    taken = (adjoint @ step.gain) @ direct[:, targets].toarray()
                    response[:, starts[s + 1] :, s + a] -= taken.T
        return response


def program_response(protocol: Protocol, view: View) -> ProgramResponse:
    """What a view of any protocol tells, ready for every target."""
    seen = seen_view(protocol, view)
    return ProgramResponse(protocol=protocol, steps=innovations(stages_of(seen)), bare=seen.bare)


def _products(step: Step) -> int:
    """How many roundings an entry of a product with Φ or with an input can suffer, counted generously."""
    in_A, _, _ = step.stage.terms
    return int(max(in_A, step.stage.size) + 2 * step.stage.count + step.stage.size + 8)


def _entry(step: Step) -> float:
    """A bound of ‖b_s‖: what a unit contribution puts into the state, the filter's answer included."""
    entering, beside = step.stage.entry
    return entering + 2 * step.gain_size * beside


def _beside(step: Step) -> float:
    """A bound of ‖|X| |D_a|‖ over the columns."""
    return float(np.linalg.norm(step.whitener)) * step.stage.entry[1]


def _most(steps: list[Step], name: str) -> float:
    """The largest of a bound over the rounds."""
    return float(max(getattr(step, name) for step in steps))


def _norm(sizes: np.ndarray) -> float:
    """A bound of the norm of a block matrix whose blocks have norms at most `sizes`."""
    return float(np.sqrt(sizes.sum(axis=0).max(initial=0.0) * sizes.sum(axis=1).max(initial=0.0)))
