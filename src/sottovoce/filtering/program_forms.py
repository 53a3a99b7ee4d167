# SPDX-License-Identifier: Apache-2.0
"""The quadratic forms of a view of a program: M for every target, and how far rounding may have moved it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.errors import NotCertified
from sottovoce.filtering.backward import backward
from sottovoce.filtering.decorrelation import seen_view
from sottovoce.filtering.innovations import SETTLED, innovations
from sottovoce.filtering.reduction import reduced_stages
from sottovoce.filtering.stages import UNIT, stages_of
from sottovoce.protocols.compiled import GIVEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scipy.sparse import csr_array

    from sottovoce.filtering.decorrelation import SeenView
    from sottovoce.filtering.innovations import Step
    from sottovoce.filtering.reduction import Cut
    from sottovoce.filtering.response import Engine
    from sottovoce.protocols import Protocol
    from sottovoce.views import View

__all__ = ["ProgramForm", "ProgramResponse", "program_response"]

BATCH_BYTES = 256 * 2**20
# On a Krylov space gains are kept sooner: what that costs is counted like what is cut.
SOON_SETTLED, COARSELY_SETTLED = 1e-12, 1e-10
# Until the filter settles it keeps, for every round, a dense square matrix of the numbers that all nodes keep.
LARGEST = 300_000_000
# Rows no entry of which is larger than this are dropped.
DEAD = 2.0**-90


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

    `bare` holds the (round, node) pairs whose contributions are seen beside no unknown noise, `reached` says of every
    node whether its contributions touch a row at all, and `cut` what the state leaves out.
    """

    protocol: Protocol
    steps: list[Step]
    bare: frozenset[tuple[int, int]]
    reached: np.ndarray
    cut: Cut | None = None

    @property
    def engine(self) -> str:
        """The name of the way that was taken."""
        return "filter" if self.cut is None else "reduced"

    @cached_property
    def starts(self) -> np.ndarray:
        """Where the rows of each round begin among all rows; the last entry is their number."""
        return np.cumsum([0, *(step.stage.count for step in self.steps)])

    def _adjoints(self) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """(s, the rows O_ts of rounds t > s, rows dropped after them) from the last round but one backwards.

        Where the filter has settled rows depend on t − s alone: those of all but the largest t − s are there already.
        Rows of late rounds that have all but died out are dropped for good, and handed out once to be counted as lost.
        """
        starts, steps = self.starts, self.steps
        whole = np.zeros((starts[-1], steps[0].stage.size))
        height, lags, end = 0, 0, len(steps)
        for s in range(len(steps) - 2, -1, -1):
            later = steps[s + 1]
            m = later.stage.count
            settled = s + 2 < len(steps) and steps[s + 2].filtered is later.filtered
            # So many rounds after s show the rows of lags 0, 1, … already; what follows them moves on by a round.
            lags = min(lags, height // m) if settled and m else 0
            moved = _before(later, whole[max(0, lags - 1) * m : height])
            begin = max(1, lags) * m
            whole[begin : begin + len(moved)] = moved
            if not lags:
                whole[:m] = later.filtered.whitener @ later.stage.rows
            height, lags = height + m, lags + 1
            last = end
            while end > s + 2:
                count = steps[end - 1].stage.count
                if np.abs(whole[height - count : height]).max(initial=0.0) >= DEAD:
                    break
                height, end = height - count, end - 1
            lost = int(starts[last] - starts[end])
            yield s, whole[:height], whole[height : height + lost]

    @cached_property
    def accuracy(self) -> tuple[float, float, float]:
        """η ≥ ‖E‖, and bounds of ‖(F̂ − F̃)c‖ for streams with Σ‖c_t‖² ≤ 1, and for streams with ‖c_t‖ ≤ 1.

        The row sums of a bound of |E| give the first: with h_s the column sums of |O_·s|, row sums of 𝒪 diag(Δ) 𝒪ᵀ are
        Σ_s |O_ts| |Δ_s| h_s. A step of the adjoint recursion puts O_ts off by ρ, and F̂c by ρ times a state.
        """
        starts, steps = self.starts, self.steps
        white, given, turned, wide = (np.zeros(starts[-1]) for _ in range(4))
        lost = np.zeros((starts[-1], steps[0].held.shape[1]))
        cut_rows, cut_columns, tall = np.zeros(starts[-1]), 0.0, 0.0
        for t, step in enumerate(steps):
            rows = slice(starts[t], starts[t + 1])
            X, C = np.abs(step.filtered.whitener), step.stage.sizes[1]
            white[rows] += step.filtered.whiteness()
            made = UNIT * (step.stage.count + 2)
            lost[rows] += made * (X @ (C @ step.held))
            turned[rows] += made * step.reach * (X @ (C @ np.ones(step.stage.size)))
            for most in step.stage.most[1]:
                inner = step.stage.count + 3 + len(step.stage.direct) + step.stage.given_units
                given[rows] += UNIT * inner * (X @ most)
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
            if self.cut is not None:
                missed = np.abs(adjoint @ self.cut.factor.T)
                cut_rows[later] += missed.sum(axis=1)
                cut_columns = max(cut_columns, float(missed.sum(axis=0).max(initial=0.0)))
        # E was bounded with the computed O; the exact one differs from it by at most `turned` in norm.
        off, norm = float(np.linalg.norm(turned)), float(np.sqrt(tall * wide.max(initial=0.0)))
        crossed, drift = _largest_defects(steps)
        unwhite = float(white.max(initial=0.0)) + off * (2 * crossed + (2 * norm + off) * drift)
        followed, entered = float(np.linalg.norm(lost[:, 0])), float(np.linalg.norm(given))
        if self.cut is not None:
            # 𝒪fᵀ as computed, and what rounding did to it: that of states which f lets something into.
            leak = float(np.sqrt(cut_columns * cut_rows.max(initial=0.0))) + float(np.linalg.norm(lost[:, 1]))
            noise, signal = self._left_out(1.01 * leak, norm + off)
            unwhite += 2.1 * noise + noise * noise
            followed += signal
        each = followed * float(np.sqrt(len(steps))) + entered
        return 1.01 * unwhite, 1.01 * (followed + entered), 1.01 * each

    def _left_out(self, leak: float, norm: float) -> tuple[float, float]:
        """What the cut adds to the maps from all draws, and from one node's contributions, to ν, as norms.

        ν errs by 𝒪(fᵀQ₊ᵀ + E₁ − K E₂) + X E₂ of all states s. With ‖𝒪fᵀ‖ ≤ `leak`, ‖𝒪‖ ≤ `norm`, and the norms of E₁
        and E₂ from the cut, products of norms bound it.
        """
        cut = self.cut
        if cut is None:
            return 0.0, 0.0
        several = {id(step.filtered): step.filtered for step in self.steps}.values()
        gain = max(float(np.linalg.norm(each.gain)) for each in several)
        whitener = max(float(np.linalg.norm(each.whitener)) for each in several)
        missed = leak + norm * (cut.relation + gain * cut.start) + whitener * cut.start
        return missed * cut.drawn, missed * cut.given

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
                    products = np.abs(encoder).sum(axis=1) @ np.abs(response)
                    lost = UNIT * (rounds + 6) * float(np.linalg.norm(products))
                coded = response if encoder is None else encoder.T @ response
                sums = np.abs(coded).sum(axis=0)
                yield ProgramForm(
                    target=int(target),
                    matrix=coded @ coded.T,
                    # The products, and what sums of the entries of M add when it is valued.
                    rounding=float(UNIT * (height + 3 * rounds + 8) * (sums**2).sum()),
                    shift=shift + lost,
                    unwhite=unwhite,
                )

    def _responses(self, targets: np.ndarray) -> np.ndarray:
        """Fᵀ for each of the targets, (targets, rounds, rows)."""
        starts, rounds = self.starts, len(self.steps)
        response = np.zeros((len(targets), rounds, int(starts[-1])))
        for t, step in enumerate(self.steps):
            for a, direct in enumerate(step.stage.direct):
                if t + a < rounds:
                    shown = step.filtered.whitener @ _columns(direct, targets)
                    response[:, t + a, starts[t] : starts[t + 1]] += shown.T
        for s, adjoint, _ in self._adjoints():
            step = self.steps[s]
            later = slice(starts[s + 1], starts[s + 1] + len(adjoint))
            response[:, s, later] += (adjoint @ _columns(step.stage.entering, targets)).T
            for a, direct in enumerate(step.stage.direct):
                if s + a < rounds:
                    taken = (adjoint @ step.filtered.gain) @ _columns(direct, targets)
                    response[:, s + a, later] -= taken.T
        return response


def program_response(
    protocol: Protocol, view: View, *, engine: Engine = "auto", coarse: bool = False
) -> ProgramResponse:
    """What a view of any protocol tells, ready for every target, by the engine asked for or the cheapest one.

    `filter` runs the Kalman filter on all that is kept, `reduced` on a Krylov space that is grown until what it cuts is
    at rounding level. `auto` reduces, and filters where the Krylov space would be as large as the network. A `coarse`
    response leaves out more and settles sooner, and says so in its `accuracy`.
    """
    seen = seen_view(protocol, view, thrifty=True)
    reached = _reached(protocol, seen)
    reduced = None
    if engine != "filter":
        reduced = reduced_stages(protocol, seen, forced=engine == "reduced", coarse=coarse)
    if reduced is None and not _fits_filter(protocol):
        reduced = reduced_stages(protocol, seen, forced=True, coarse=coarse) if engine == "auto" else None
        if reduced is None:
            raise _too_large(protocol)
    stages, cut = (stages_of(seen), None) if reduced is None else reduced
    steps = innovations(
        stages,
        settled_at=SETTLED if cut is None else COARSELY_SETTLED if coarse else SOON_SETTLED,
        factor=None if cut is None else cut.factor,
    )
    return ProgramResponse(protocol=protocol, steps=steps, bare=seen.bare, reached=reached, cut=cut)


def _fits_filter(protocol: Protocol) -> bool:
    """Whether a filter over all that is kept fits into memory."""
    return protocol.rounds * (protocol.n * len(protocol.programs[0].keeps)) ** 2 <= LARGEST


def _too_large(protocol: Protocol) -> NotCertified:
    """Why a view is refused."""
    size = protocol.n * len(protocol.programs[0].keeps)
    return NotCertified(
        f"this view of the protocol {protocol.name!r} is filtered over all that the nodes keep: rounds times the "
        f"square of these numbers must be at most {LARGEST}; {protocol.rounds} rounds of {size} numbers are more "
        "(take a view of fewer rows, fewer rounds, a smaller network, or the engine auto)"
    )


def _reached(protocol: Protocol, view: SeenView) -> np.ndarray:
    """Which nodes' contributions touch a row at all, decided on the pattern of the program."""
    maps = backward(protocol, np.array(sorted(view.rounds[0].known), dtype=np.int64))
    hit = np.zeros(protocol.n, dtype=bool)
    read = np.zeros(0, dtype=bool)
    patterns: dict[int, np.ndarray] = {}
    for t in range(len(view.rounds) - 1, -1, -1):
        seen, (each, _) = view.rounds[t], maps.slot(t)
        if id(seen) not in patterns:
            patterns[id(seen)] = np.zeros(each.size, dtype=bool)
            for form in seen.rows:
                for key in form:
                    # What is contributed a rounds later is column a·n + j.
                    place = key if key < GIVEN else GIVEN + (key - GIVEN) % protocol.n
                    patterns[id(seen)][each.place(place)] = True
        now = patterns[id(seen)] | (each.touched(read[: each.kept]) if read.size else False)
        if np.array_equal(now, read) and t and view.rounds[t - 1] is seen:
            # From here on nothing new is read but in the first round, which shows what others do.
            break
        read = now
        hit |= read[each.kept + each.drawn :]
    return hit


def _before(step: Step, rows: np.ndarray) -> np.ndarray:
    """O Φ for rows O that read the state after a round."""
    moved = np.asarray(rows @ step.stage.transition)
    return np.asarray(moved - np.asarray((rows @ step.filtered.gain) @ step.stage.rows))


def _columns(matrix: np.ndarray | csr_array, chosen: np.ndarray) -> np.ndarray:
    """Some columns of a matrix, dense."""
    columns = matrix[:, chosen]
    return columns if isinstance(columns, np.ndarray) else np.asarray(columns.toarray())


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
    units = step.stage.given_units - 1
    total = UNIT * (step.stage.terms[2] + added + units) * entering
    for most in direct:
        inner = step.stage.size + step.stage.count + added + units
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
