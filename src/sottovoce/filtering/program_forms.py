# SPDX-License-Identifier: Apache-2.0
"""The quadratic forms of a view of a program: M for every target, and how far rounding may have moved it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering.decorrelation import seen_view
from sottovoce.filtering.innovations import innovations
from sottovoce.filtering.stages import UNIT, stages_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sottovoce.filtering.innovations import Step
    from sottovoce.protocols import Protocol
    from sottovoce.views import View

__all__ = ["ProgramForm", "ProgramResponse", "program_response"]

BATCH_BYTES = 256 * 2**20
# Rows no entry of which is larger than this are dropped.
DEAD = 2.0**-120


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

    def _adjoints(self) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """(s, the rows O_ts of rounds t > s, rows dropped after them) from the last round but one backwards.

        Rows of late rounds that have all but died out are dropped for good, and handed out once to be counted as lost.
        """
        starts, size = self.starts, self.steps[0].stage.size
        whole = np.zeros((starts[-1], size))
        end = len(self.steps)
        for s in range(len(self.steps) - 2, -1, -1):
            later = self.steps[s + 1]
            behind = whole[starts[s + 2] : starts[end]]
            if len(behind):
                moved = np.asarray(behind @ later.stage.transition)
                behind[:] = moved - np.asarray((behind @ later.filtered.gain) @ later.stage.rows)
            whole[starts[s + 1] : starts[s + 2]] = later.filtered.whitener @ later.stage.rows
            last = end
            while end > s + 2 and np.abs(whole[starts[end - 1] : starts[end]]).max(initial=0.0) < DEAD:
                end -= 1
            yield s, whole[starts[s + 1] : starts[end]], whole[starts[end] : starts[last]]

    @cached_property
    def accuracy(self) -> tuple[float, float, float]:
        """η ≥ ‖E‖, and bounds of ‖(F̂ − F̃)c‖ for streams with Σ‖c_t‖² ≤ 1, and for streams with ‖c_t‖ ≤ 1.

        The row sums of a bound of |E| give the first: with h_s the column sums of |O_·s|, row sums of 𝒪 diag(Δ) 𝒪ᵀ are
        Σ_s |O_ts| |Δ_s| h_s. A step of the adjoint recursion puts O_ts off by ρ, and F̂c by ρ times a state.
        """
        starts, steps = self.starts, self.steps
        white, lost, given, turned, wide = (np.zeros(starts[-1]) for _ in range(5))
        tall = 0.0
        for t, step in enumerate(steps):
            rows = slice(starts[t], starts[t + 1])
            X, C = np.abs(step.filtered.whitener), step.stage.sizes[1]
            white[rows] += step.filtered.whiteness()
            made = UNIT * (step.stage.count + 2)
            lost[rows] += made * (X @ (C @ step.held))
            turned[rows] += made * step.reach * (X @ (C @ np.ones(step.stage.size)))
            for most in step.stage.most[1]:
                given[rows] += UNIT * (step.stage.count + 4 + len(step.stage.direct)) * (X @ most)
        for s, adjoint, dropped in self._adjoints():
            step, sizes = steps[s], np.abs(adjoint)
            end = starts[s + 1] + len(adjoint)
            sums, later = sizes.sum(axis=0), slice(starts[s + 1], end)
            gone, dead = slice(end, end + len(dropped)), np.abs(dropped)
            lost[gone] += dead @ steps[s + 1].held
            turned[gone] += steps[s + 1].reach * dead.sum(axis=1)
            X = np.abs(step.filtered.whitener)
            white[later] += sizes @ (step.filtered.drift(sums) + step.filtered.crossed(X.sum(axis=0)))
            white[starts[s] : starts[s + 1]] += X @ step.filtered.crossed_back(sums)
            lost[later] += sizes @ _slipped(step, step.held)
            turned[later] += step.reach * (sizes @ _slipped(step, np.ones(step.stage.size)))
            given[later] += sizes @ _entered(step)
            wide[later] += sizes.sum(axis=1)
            tall = max(tall, float(sums.max(initial=0.0)))
        # E was bounded with the computed O; the exact one differs from it by at most `turned` in norm.
        off, norm = float(np.linalg.norm(turned)), float(np.sqrt(tall * wide.max(initial=0.0)))
        crossed, drift = _largest_defects(steps)
        unwhite = float(white.max(initial=0.0)) + off * (2 * crossed + (2 * norm + off) * drift)
        followed, entered = float(np.linalg.norm(lost)), float(np.linalg.norm(given))
        each = followed * float(np.sqrt(len(steps))) + entered
        return 1.01 * unwhite, 1.01 * (followed + entered), 1.01 * each

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
            longest = np.abs(encoder).sum(axis=1).max() * (1 + UNIT * rounds)
            shift = at_once * longest * (1 if energy else np.sqrt(rounds))
        batch = max(1, int(BATCH_BYTES // (8 * rounds * max(1, height))))
        for begin in range(0, len(targets), batch):
            chosen = targets[begin : begin + batch]
            for target, response in zip(chosen, self._responses(chosen), strict=True):
                lost = 0.0
                if encoder is not None:
                    products = np.abs(response) @ np.abs(encoder).sum(axis=1)
                    lost = UNIT * (rounds + 6) * float(np.linalg.norm(products))
                coded = response if encoder is None else response @ encoder
                sums = np.abs(coded).sum(axis=1)
                yield ProgramForm(
                    target=int(target),
                    matrix=coded.T @ coded,
                    # The products, and what sums of the entries of M add when it is valued.
                    rounding=float(UNIT * (height + 3 * rounds + 8) * (sums**2).sum()),
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
                    shown = step.filtered.whitener @ direct[:, targets].toarray()
                    response[:, starts[t] : starts[t + 1], t + a] += shown.T
        for s, adjoint, _ in self._adjoints():
            step = self.steps[s]
            later = slice(starts[s + 1], starts[s + 1] + len(adjoint))
            response[:, later, s] += (adjoint @ step.stage.entering[:, targets].toarray()).T
            for a, direct in enumerate(step.stage.direct):
                if s + a < rounds and direct.nnz:
                    taken = (adjoint @ step.filtered.gain) @ direct[:, targets].toarray()
                    response[:, later, s + a] -= taken.T
        return response


def program_response(protocol: Protocol, view: View) -> ProgramResponse:
    """What a view of any protocol tells, ready for every target."""
    seen = seen_view(protocol, view)
    return ProgramResponse(protocol=protocol, steps=innovations(stages_of(seen)), bare=seen.bare)


def _slipped(step: Step, state: np.ndarray) -> np.ndarray:
    """A bound of |ρ| times a state of at least 0, over |O|: what rounding does in one step from O to O Φ."""
    A, C = step.stage.sizes[:2]
    in_A, in_C, _ = step.stage.terms
    kept = UNIT * (in_A + 3) * (A @ state)
    return np.asarray(kept + UNIT * (step.stage.size + in_C + 4) * (np.abs(step.filtered.gain) @ (C @ state)))


def _entered(step: Step) -> np.ndarray:
    """A bound of what rounding does to O b, over |O|, for the worst target."""
    entering, direct = step.stage.most
    added = 4 + len(direct)
    total = UNIT * (step.stage.terms[0] + added) * entering
    for most in direct:
        inner = step.stage.size + step.stage.count + added
        total = total + UNIT * inner * (np.abs(step.filtered.gain) @ most)
    return np.asarray(total)


def _largest_defects(steps: list[Step]) -> tuple[float, float]:
    """Bounds of ‖Γ_t X_tᵀ‖ and ‖Δ_t‖ over all rounds."""
    crossed = drift = 0.0
    for filtered in {id(step.filtered): step.filtered for step in steps}.values():
        X = np.abs(filtered.whitener)
        ones = np.ones(filtered.stage.size)
        rows = filtered.crossed(X.sum(axis=0)).max(initial=0.0)
        columns = (X @ filtered.crossed_back(ones)).max(initial=0.0)
        crossed = max(crossed, float(np.sqrt(rows * columns)))
        drift = max(drift, float(filtered.drift(ones).max(initial=0.0)))
    return crossed, drift
