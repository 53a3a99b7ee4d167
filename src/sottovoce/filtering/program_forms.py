# SPDX-License-Identifier: Apache-2.0
"""The quadratic forms of a view of a program: M for every target, and how far rounding may have moved it.

With K_t, X_t the floats of the filter, Φ_t = A − K_t C and O_ts = X_t C Φ_{t−1} ⋯ Φ_{s+1}, a contribution of round
s shows in round t > s

    F_ts = O_ts (B_x − K_s D_0) + (what it shows in other rounds by D_a),   F_ss = X_s D_0,   M̃ = FᵀF.

Rows O_ts are carried backwards in s, and serve every target:  O_{t,s−1} = O_ts Φ_s. Three things stand between M̂,
as computed, and M:

* the noise in ν = X(y − C ẑ) is white within η = `unwhite`: (1 + η)⁻¹M̃ ⪯ M ⪯ (1 − η)⁻¹M̃;
* F̂ is off from F̃, that of K and X exactly, and lacks what a Krylov space cuts: ‖(F̂ − F̃)c‖ ≤ `shift`;
* products and sums in M̂ = F̂ᵀF̂ are rounded: `rounding`.

Soundness is in these three (docs/proofs/programs.md). Engine, settling and dropped rows are speed.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering.doubled import (
    Doubled,
    add,
    from_left,
    from_right,
    multiply,
    product,
    remainder,
)
from sottovoce.filtering.frozen_gains import Defects, frozen_gains
from sottovoce.filtering.overall import (
    DEAD,
    InFloats,
    Overall,
    left_out,
    overall,
)
from sottovoce.filtering.rounding import fine_gamma
from sottovoce.rounding import above

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sottovoce.filtering.doubled import Parts
    from sottovoce.filtering.innovations import Filtered, FilterStep
    from sottovoce.filtering.reduction import Cut
    from sottovoce.protocols import Protocol

__all__ = ["Accuracy", "ProgramForm", "ProgramResponse"]

# Speed alone: responses are made together while they take no more memory than this.
BATCH_BYTES = 2**30
# Speed alone: above so many products a pass over all rows O_ts is too dear for bounds of many targets.
DEAR = 10**11


@dataclass(frozen=True, kw_only=True, eq=False)
class ProgramForm:
    """M̂ of one target, and how far it may be from M.

    For streams with ‖c_t‖ ≤ 1, with Δ̂² = cᵀM̂c ± `rounding` and η = `unwhite`,

        (Δ̂ − `shift`)² / (1 + η) ≤ cᵀMc ≤ (Δ̂ + `shift`)² / (1 − η).

    `target` is a node index and `matrix` M̂, (T, T). Where `energy` was asked for, `rounding` and `shift` are for
    streams with Σ‖c_t‖² ≤ 1 instead. Where more is given in the last rounds than is seen there, M is at most what is
    said of it, and at least what the same says of `attained`, the form of all rounds before these.
    """

    target: int
    matrix: np.ndarray
    attained: np.ndarray
    rounding: float
    shift: float
    unwhite: float


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """How far the filter is from white, and its response F̂ from F̃, that of its gains in exact arithmetic.

    η = `unwhite` ≥ ‖E‖. For streams with Σ‖c_t‖² ≤ 1, `followed` bounds ‖(F̂ − F̃)c‖ as far as the rows O_ts are at
    fault, which are in doubled precision or, on a Krylov space, in plain floats, and differ from the exact ones by
    `turned` in norm; `cut` is what a Krylov space leaves out of F̃c, and `let_in` what it does to the noise in ν. `norm`
    bounds that of all O_ts, and `wide` is the norm of the row sums of all |O_ts|.
    On a Krylov space, where `Stage.given` says what contributions put into the state, `plainly` bounds ‖(F̂ − F̃)c‖
    where rows or states are followed in plain floats; elsewhere it is infinite.

    Guarantee: upper bounds, for the exact matrices of the protocol.
    Source: docs/proofs/programs.md, "How white the innovations are", "The response of a filter" and "States that are
    followed in plain floats".
    """

    unwhite: float
    cut: float
    followed: float
    turned: float
    wide: float
    plainly: float
    norm: float
    let_in: float


@dataclass(frozen=True, kw_only=True, eq=False)
class ProgramResponse:
    """The whitened response of a view: F_ts = X_t (C Φ_{t−1} ⋯ Φ_{s+1} b_s + what is direct), round by round.

    `bare` holds the (round, node) pairs whose contributions are seen beside no unknown noise, `reached` says of
    every node whether its contributions touch a row at all, and `cut` what the state leaves out.
    `steps` has one `FilterStep` a round; `cut` is None where the state is all that the nodes keep, or all of it that
    the observer cannot know. Contributions of some nodes may enter what such a state leaves out: `other` has these
    nodes, and the response to them.
    """

    protocol: Protocol
    steps: list[FilterStep]
    bare: frozenset[tuple[int, int]]
    reached: np.ndarray
    cut: Cut | None = None
    other: tuple[frozenset[int], ProgramResponse] | None = None

    @property
    def engine(self) -> str:
        """The name of the way that was taken."""
        return "filter" if self.cut is None else "reduced"

    @cached_property
    def reach(self) -> float:
        """What unit disturbances of all rounds together make of a state, at most.

        Guarantee: an upper bound, in the largest of all rounds.
        """
        return max(step.reach for step in self.steps)

    @cached_property
    def starts(self) -> np.ndarray:
        """Where the rows of each round begin among all rows; the last entry is their number."""
        return np.cumsum([0, *(step.stage.count for step in self.steps)])

    @cached_property
    def period(self) -> int:
        """After how many rounds steps of the filter recur once it has settled."""
        period = self.protocol.period
        recurring = zip(self.steps, self.steps[period:], strict=False)
        return period if any(step.filtered is later.filtered for step, later in recurring) else 1

    def _adjoints(self) -> Iterator[tuple[int, np.ndarray, np.ndarray, int]]:
        """(s, the rows O_ts of rounds t > s, rows dropped after them, how many of them are those of s + p).

        From the last round but one backwards. Where the filter has settled rows are those of a period p later: all but
        those of the largest t − s are there already. Rows of late rounds that have all but died out are dropped for
        good, and handed out once to be counted as lost. On a Krylov space steps are plain products with Φ, and the
        last s is −1: what is put into the state before round 0 is read by these rows.
        """
        starts, steps, period = self.starts, self.steps, self.period
        wholes = [np.zeros((starts[-1], steps[0].stage.size)) for _ in range(period)]
        # Where rows of rounds s + 1, …, s + p end, and in how many rounds after s steps are those of a period later.
        ends, alike, end = deque([len(steps)] * period, maxlen=period), 0, len(steps)
        for s in range(len(steps) - 2, -2 if self.in_floats else -1, -1):
            whole, further, later = wholes[s % period], wholes[(s + 1) % period], steps[s + 1]
            recurs = s + 1 + period < len(steps) and steps[s + 1 + period].filtered is later.filtered
            alike = alike + 1 if recurs else 0
            lags = min(alike, ends[0] - (s + 1 + period)) if recurs else 0
            same, height = (int(starts[last] - starts[s + 1]) for last in (s + 1 + lags, end))
            # Rows of s are those of s + 1, moved back by a round, and X C before them.
            m = later.stage.count
            begin = max(same, m)
            moved = further[begin - m : height - m]
            filtered = later.filtered
            whole[begin:height] = filtered.plainly_before(moved) if self.in_floats else filtered.before(moved)
            if not lags:
                whole[:m] = filtered.plainly_whitened if self.in_floats else filtered.whitened
            last = end
            while end > s + 2 > 1:
                count = steps[end - 1].stage.count
                if np.abs(whole[height - count : height]).max(initial=0.0) >= DEAD:
                    break
                height, end = height - count, end - 1
            ends.append(end)
            lost = int(starts[last] - starts[end])
            yield s, whole[:height], whole[height : height + lost], same

    @property
    def in_floats(self) -> bool:
        """Whether rows are followed in plain floats: a Krylov space leaves out more than they round off."""
        return self.cut is not None

    @property
    def is_dear(self) -> bool:
        """Whether following all rows O_ts takes minutes. Speed alone."""
        return len(self.steps) * int(self.starts[-1]) * self.steps[0].stage.size ** 2 > DEAR

    @cached_property
    def overall(self) -> Overall:
        """How far bounds for many targets may be off, without a look at single rows where these are dear.

        Guarantee: that of `Overall`.
        """
        if self.is_dear and self.cut is not None:
            found = overall(self.steps, self.cut, self._adjoints())
            if found is not None:
                return found
        accuracy = self.accuracy
        return Overall(
            unwhite=accuracy.unwhite,
            cut=accuracy.cut,
            plainly=accuracy.plainly,
            wide=accuracy.wide,
            frozen=frozen_gains(
                self.steps,
                unwhite=accuracy.unwhite,
                norm=accuracy.norm,
                cut=(accuracy.let_in, accuracy.cut),
            ),
        )

    @cached_property
    def accuracy(self) -> Accuracy:
        """How far the filter is from white, and its computed response from the exact one.

        Guarantee: that of `Accuracy`.
        """
        for _ in self._measured():
            pass
        return self._known["accuracy"]

    @property
    def _known(self) -> dict[str, Accuracy]:
        """Where `accuracy` is kept once it is known."""
        return self.__dict__

    def _measured(self) -> Iterator[tuple[int, np.ndarray, np.ndarray, int]]:
        """What `_adjoints` hands out; after the last of it the `accuracy` is known.

        The row sums of a bound of |E| give the first: with h_s the column sums of |O_·s|, row sums of 𝒪 diag(Δ) 𝒪ᵀ
        are Σ_s |O_ts| |Δ_s| h_s. A step of the adjoint recursion puts O_ts off by ρ, and F̂c by ρ times a state:
        2u|O_ts| and what `Filtered.slip` says, in proportion to the row it came from. In plain floats ρ is |O_ts| times
        what `Filtered.plain_slip` says of the state.

        `white` has row sums of |E|, `lost` what rows of F̂c are off by (second column: what f lets in), `turned`
        what rows of O are off by times all states that unit disturbances reach.
        """
        starts, steps = self.starts, self.steps
        white, turned, wide = (np.zeros(starts[-1]) for _ in range(3))
        lost = np.zeros((starts[-1], steps[0].held.shape[1]))
        cut_rows, cut_columns, tall, before = np.zeros(starts[-1]), 0.0, 0.0, np.zeros(0)
        for t, step in enumerate(steps):
            size = step.stage.size
            white[starts[t] : starts[t + 1]] += step.filtered.defect[size:, size:].sum(axis=1)
        plainly = None if self.cut is None else InFloats(steps)
        for s, adjoint, dropped, same in self._adjoints():
            yield s, adjoint, dropped, same
            step, later, sizes = steps[s], steps[s + 1], np.abs(adjoint)
            size, end = step.stage.size, starts[s + 1] + len(adjoint)
            across, here = sizes.sum(axis=1), slice(starts[s + 1], end)
            wide[here] += across
            if s < 0:
                break
            sums = sizes.sum(axis=0)
            gone, dead = slice(end, end + len(dropped)), np.abs(dropped)
            lost[gone] += dead @ later.held
            turned[gone] += later.reach * dead.sum(axis=1)
            if plainly is None:
                # Rows are those of the round after times Φ, and those of one round are new: X C.
                sources = np.concatenate([np.abs(later.filtered.whitener).sum(axis=1), before])
                made = slice(starts[s + 1], starts[s + 1] + len(sources))
                lost[here] += fine_gamma(2) * (sizes @ later.held)
                lost[made] += np.outer(sources, later.filtered.slip(later.held))
                turned[here] += fine_gamma(2) * later.reach * across
                turned[made] += later.reach * sources * later.filtered.slip(np.ones((size, 1)))
            else:
                lost[here, 1] += sizes @ plainly.let_in(s)
                plainly.add(s, sizes, dead)
            drift, crossed = step.filtered.defect[:size, :size], step.filtered.defect[:size, size:]
            white[here] += sizes @ (drift @ sums + crossed.sum(axis=1))
            white[starts[s] : starts[s + 1]] += crossed.T @ sums
            tall, before = max(tall, float(sums.max(initial=0.0))), across
            if step.stage.factor is not None:
                missed = np.abs(adjoint @ step.stage.factor.T)
                cut_rows[here] += missed.sum(axis=1)
                cut_columns = max(cut_columns, float(missed.sum(axis=0).max(initial=0.0)))
        # E was bounded with the computed O; the exact one differs from it by at most `turned` in norm:
        # ω(2‖ΓXᵀ‖ + (2‖𝒪̂‖ + ω)‖Δ‖) more, ω = `off`, ‖𝒪̂‖² ≤ (largest column sum)·(largest row sum) = `norm`².
        dropped_off = float(np.linalg.norm(turned))
        off = dropped_off if plainly is None else dropped_off + plainly.turned
        norm = float(np.sqrt(tall * wide.max(initial=0.0)))
        largest = Defects.of(steps)
        unwhite = float(white.max(initial=0.0))
        unwhite += off * (2 * largest.crossed + (2 * norm + off) * largest.drift)
        followed, signal, noise = float(np.linalg.norm(lost[:, 0])), 0.0, 0.0
        in_floats = math.inf if plainly is None else plainly.total(above(dropped_off))
        if self.cut is not None:
            # 𝒪fᵀ as computed, and what rounding did to it: that of states which f lets something into.
            leak = float(np.sqrt(cut_columns * cut_rows.max(initial=0.0))) + float(np.linalg.norm(lost[:, 1]))
            # Noise of covariance I + E, ‖E‖ ≤ η, that is off by n in norm has one off by 2√(1 + η)n + n² more.
            noise, signal = left_out([step.filtered for step in steps], self.cut, above(leak), norm + off)
            unwhite += 2 * math.sqrt(1 + unwhite) * noise + noise * noise
        self._known["accuracy"] = Accuracy(
            unwhite=above(unwhite),
            cut=above(signal),
            followed=above(followed) if plainly is None else in_floats,
            turned=above(off),
            wide=above(float(np.linalg.norm(wide))),
            plainly=in_floats,
            norm=above(norm + off),
            let_in=above(noise),
        )

    def forms(
        self, targets: np.ndarray, *, energy: bool = False, encoder: np.ndarray | None = None
    ) -> Iterator[ProgramForm]:
        """M = FᵀF, or CᵀMC with an encoder C, for each of the targets (node indices).

        With `energy` allowances are those of streams with Σ‖c_t‖² ≤ 1. `encoder` is C as a (T, T) matrix.

        Guarantee: that of `ProgramForm` (docs/proofs/programs.md).
        """
        if self.other is not None:
            apart, response = self.other
            for target in targets:
                served = response if int(target) in apart else self._alone
                yield from served.forms(np.array([target]), energy=energy, encoder=encoder)
            return
        rounds, height = len(self.steps), int(self.starts[-1])
        batch = max(1, int(BATCH_BYTES // (8 * rounds * max(1, height))))
        responses = self._plain_responses if self.in_floats else self._responses
        for begin in range(0, len(targets), batch):
            chosen = targets[begin : begin + batch]
            for target, found in zip(chosen, responses(chosen), strict=True):
                yield self._form(int(target), found, energy=energy, encoder=encoder)

    @cached_property
    def _alone(self) -> ProgramResponse:
        """The same response, for the nodes that it serves itself."""
        return replace(self, other=None)

    def _form(self, target: int, found: _Found, *, energy: bool, encoder: np.ndarray | None) -> ProgramForm:
        """The form of one target: M̂ = F̂ᵀF̂, or CᵀF̂ᵀF̂C; ‖(C c)_t‖ is at most the row sum of |C|.

        Guarantee: |cᵀMc − cᵀM̂c| is at most the error that the form carries, for every allowed stream.
        """
        rounds, height = len(self.steps), int(self.starts[-1])
        response = found.response
        if self.is_dear and self.in_floats:
            unwhite, followed = self.overall.unwhite, self.overall.plainly + self.overall.cut
        else:
            unwhite, followed = self.accuracy.unwhite, self.accuracy.followed + self.accuracy.cut
        # For streams with Σ‖c_t‖² ≤ 1, and for those with ‖c_t‖ ≤ 1.
        at_once = followed + found.units * float(np.linalg.norm(found.sizes)) + found.rest
        each = found.units * float(np.linalg.norm(found.sizes.sum(axis=0))) + found.rest
        shift = at_once if energy else followed * float(np.sqrt(rounds)) + each
        if encoder is not None:
            sums = np.abs(encoder).sum(axis=1)
            longest = float(sums.max()) * (1 + fine_gamma(rounds))
            shift = at_once * longest * (1 if energy else float(np.sqrt(rounds)))
            # ‖|F̂||C||c|‖, which what rounding does to F̂C is in proportion to.
            spread = longest * np.linalg.norm(response) if energy else np.linalg.norm(sums @ np.abs(response))
            shift += fine_gamma(rounds + 6) * float(spread)
            response = encoder.T @ response
        # ‖|F̂C||c|‖² at most.
        sizes = (response**2).sum() if energy else (np.abs(response).sum(axis=0) ** 2).sum()
        matrix = attained = response @ response.T
        if self.cut is not None and self.cut.tail:
            surely = response[:, : int(self.starts[rounds - self.cut.tail])]
            attained = surely @ surely.T
        return ProgramForm(
            target=target,
            matrix=matrix,
            attained=attained,
            # The products, and what sums of the entries of M add when it is valued.
            rounding=float(fine_gamma(height + 3 * rounds + 8) * sizes),
            shift=float(above(shift)),
            unwhite=unwhite,
        )

    def _rows(self) -> Iterator[tuple[int, np.ndarray, np.ndarray, int]]:
        """What `_adjoints` hands out, measured at the first pass over it unless norms say enough."""
        by_norms = self.is_dear and self.in_floats
        return self._adjoints() if by_norms or "accuracy" in self._known else self._measured()

    def _plain_responses(self, targets: np.ndarray) -> Iterator[_Found]:
        """Fᵀ for each of the targets on a Krylov space, (rounds, rows), by rows in plain floats.

        There a contribution joins the state before a round reads it: F_{t,s+1} = O_ts b for all t > s. A product with b
        errs by γ_r of |O_ts||b|, which is at most ‖o‖₁ times the largest entry of b.
        """
        starts, rounds, size = self.starts, len(self.steps), self.steps[0].stage.size
        response = np.zeros((len(targets), rounds, int(starts[-1])))
        stages = {id(step.stage): step.stage for step in self.steps}
        inputs = {key: np.ascontiguousarray(stage.inputs_given[:, targets]) for key, stage in stages.items()}
        kept: list[np.ndarray] = [np.zeros((0, len(targets)))] * self.period
        for s, adjoint, _, same in self._rows():
            fresh = adjoint[same:] @ inputs[id(self.steps[s + 1].stage)]
            known = kept[s % self.period] = np.concatenate([kept[s % self.period][:same], fresh])
            response[:, s + 1, starts[s + 1] : starts[s + 1] + len(adjoint)] = known.T
        largest = max(float(np.abs(each).max(initial=0.0)) for each in inputs.values())
        wide = self.overall.wide if self.is_dear else self.accuracy.wide
        rest = fine_gamma(size + 2) * largest * wide
        for each in response:
            yield _Found(response=each, sizes=np.abs(each), units=0.0, rest=rest)

    def _responses(self, targets: np.ndarray) -> Iterator[_Found]:
        """Fᵀ for each of the targets, (rounds, rows).

        With c_a the columns of `Stage.contributions` a contribution enters by O(I, −K)c_a and shows X(0, I)c_a at
        once. These are found in doubled precision and rounded once, or added up where they are several.
        Where the filter has settled `kept` holds the products of each lag, and only new ones are formed.
        """
        starts, rounds, size = self.starts, len(self.steps), self.steps[0].stage.size
        response = np.zeros((len(targets), rounds, int(starts[-1])))
        several = max(len(step.stage.contributed) for step in self.steps)
        sizes = response if several == 1 else np.zeros_like(response)
        stages = {id(step.stage): step.stage for step in self.steps}
        given = {key: stage.contributions(targets) for key, stage in stages.items()}
        filters = {id(step.filtered): step.filtered for step in self.steps}
        put = {key: _put(filtered, given[id(filtered.stage)]) for key, filtered in filters.items()}

        def show(t: int, rows: slice, shown: np.ndarray) -> None:
            if t < rounds:
                response[:, t, rows] += shown.T
                if several > 1:
                    sizes[:, t, rows] += np.abs(shown.T)

        for t, step in enumerate(self.steps):
            for a, shown in enumerate(put[id(step.filtered)].shown):
                show(t + a, slice(starts[t], starts[t + 1]), shown)
        kept: list[list[np.ndarray]] = [[] for _ in range(self.period)]
        for s, adjoint, _, same in self._rows():
            filtered = self.steps[s].filtered
            inputs, known = put[id(filtered)].inputs, kept[s % self.period]
            if not same or self.steps[s + self.period].filtered is not filtered:
                same, known[:] = 0, [np.zeros((0, len(targets)))] * len(inputs)
            factor = from_left(Doubled(high=adjoint[same:]), size)
            for a, each in enumerate(inputs):
                fresh = np.asarray(multiply(factor, each).rounded())
                known[a] = np.concatenate([known[a][:same], fresh])
                show(s + a, slice(starts[s + 1], starts[s + 1] + len(adjoint)), known[a])
        rest = max(each.missed for each in put.values()) * (self.accuracy.wide + float(np.sqrt(starts[-1])))
        for k in range(len(targets)):
            yield _Found(
                response=response[k],
                sizes=np.abs(sizes[k]),
                units=fine_gamma(several + 2),
                rest=several * rest,
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Found:
    """Fᵀ of one target, within `units` of `sizes`, and in norm, for streams with ‖c_t‖ ≤ 1, `rest` more."""

    response: np.ndarray
    sizes: np.ndarray
    units: float
    rest: float


@dataclass(frozen=True, kw_only=True, eq=False)
class _Put:
    """What contributions leave in the state, as right factors, and what they show at once.

    Beyond its rounding a number of the latter errs by at most `missed`, and so does a product of the former with a
    row of norm ‖o‖₁ = 1.
    """

    inputs: list[Parts]
    shown: list[np.ndarray]
    missed: float


def _put(filtered: Filtered, given: tuple[Doubled, ...]) -> _Put:
    """What a round makes of contributions: B_x − K D_0 (and −K D_a) in the state, X D_a at once.

    Guarantee: products in doubled precision; the last number bounds what is missed of them.
    """
    size, count = filtered.stage.size, filtered.stage.count
    answer, whitener = filtered.factors
    inputs, shown, missed = [], [], 0.0
    for each in given:
        seen = from_right(each[size:, :], count)
        at_once = product(whitener, seen, count)
        left = from_right(add(each[:size, :], product(answer, seen, count), -1), size)
        inputs.append(left)
        shown.append(np.asarray(at_once.rounded()))
        for error, beyond in (
            (left.error, remainder(size) * left.columns[0].max(initial=0.0)),
            (at_once.error, 0),
        ):
            most = 0.0 if error is None else error.max(initial=0.0)
            missed = max(missed, float(most + beyond))
    return _Put(inputs=inputs, shown=shown, missed=missed)
