# SPDX-License-Identifier: Apache-2.0
"""How far a filter on a Krylov space is off altogether, from norms of maps and rows that are followed in plain floats.

Bounds for many targets ask for three numbers, and following all rows O_ts of a large state in doubled precision takes
longer than everything else. Where noise of covariance Q ⪰ q I is injected into the state of every round, the
innovations say how large 𝒪, the map from disturbances of states to ν, can be: the covariance of ν is

    I + E = 𝒪 diag(Q) 𝒪ᵀ + (what round 1 adds) ⪰ q 𝒪𝒪ᵀ,    so that    ‖𝒪‖² ≤ (1 + ‖E‖)/q.

With δ₀, δ₁ and δ₂ the largest of ‖X R' Xᵀ − I‖, ‖Δ‖ and ‖ΓXᵀ‖ over all rounds (see `innovations`), η = ‖E‖ is at most
δ₀ + ‖𝒪‖²δ₁ + 2‖𝒪‖δ₂, hence (δ₀ + κ)/(1 − κ) with κ = δ₁/q + 2δ₂/√q < 1. What the Krylov space leaves out is small in
open loop already, and the filter, y ↦ ν, enlarges it by at most (1 + ‖A‖)·√((1 + η)/(q λ_min(C Cᵀ))), as y has at
least that much noise. Where this is too much rows are asked, in plain floats.

Source: docs/proofs/programs.md, "Norms from noise".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from sottovoce.filtering.frozen_gains import Frozen, frozen_gains, with_floats
from sottovoce.filtering.rounding import eigenvalue_ends, fine_gamma, spectral_norm
from sottovoce.filtering.windows import answer_norm, noise_floor
from sottovoce.rounding import above, closely_above

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sottovoce.filtering.innovations import Filtered, FilterStep
    from sottovoce.filtering.reduction import Cut
    from sottovoce.filtering.stages import Stage

__all__ = ["DEAD", "InFloats", "Overall", "Rows", "left_out", "overall"]

# Speed alone: what a cut may add to the noise, in norm, before rows are followed to show that it adds less.
ENOUGH = 1e-6
# Speed alone: the same where noise takes several rounds to reach every direction: rows of such states are dear.
LOUD = 1e-3
# Speed alone: rows no entry of which is larger than this are dropped, and counted as lost.
DEAD = 2.0**-90
# (s, rows O_ts of t > s, rows dropped after them, how many are those of a period later), from the last s backwards.
Rows: TypeAlias = "Iterable[tuple[int, np.ndarray, np.ndarray, int]]"


@dataclass(frozen=True, kw_only=True)
class Overall:
    """How far bounds for many targets are off, for streams with Σ‖c_t‖² ≤ 1.

    η = `unwhite` ≥ ‖E‖, `cut` is what a Krylov space leaves out of F̃c, and `plainly` bounds ‖(F̂ − F̃)c‖ where rows or
    states are followed in plain floats. `wide` is the norm of the row sums of all |O_ts|, as floats have them. `frozen`
    says what gains cost that are frozen after a round.

    Guarantee: upper bounds, for the exact matrices of the protocol.
    Source: docs/proofs/programs.md.
    """

    unwhite: float
    cut: float
    plainly: float
    wide: float
    frozen: Frozen


def overall(steps: Sequence[FilterStep], cut: Cut, rows: Rows) -> Overall | None:
    """The three bounds by norms; None where injected noise leaves a direction without any, or too little.

    `rows` are those of `ProgramResponse`, followed in plain floats.

    Guarantee: that of `Overall`.
    Source: docs/proofs/programs.md, "Norms from noise".
    """
    stages = {id(step.stage): step.stage for step in steps}.values()
    run = [step.filtered for step in steps]
    floor = noise_floor(run)
    if not floor.least > 0:
        return None
    least = floor.strength
    defects = with_floats(steps)
    share = closely_above(defects.drift / least + 2 * defects.crossed / math.sqrt(least))
    if not share < 0.5:
        return None
    unwhite = closely_above(defects.white + share) / (1 - share)
    norm = closely_above(math.sqrt((1 + unwhite) / least))
    plainly = InFloats(steps)
    whitening = (
        _whitening_norm(stages, least, unwhite) if floor.window == 1 else answer_norm(run, floor, unwhite)
    )
    leak = cut.echo * whitening
    if not leak * cut.beyond[0] <= (ENOUGH if floor.window == 1 else LOUD):
        leak = _leak(steps, rows, plainly.rows_norm(norm))
    noise_missed, signal = left_out([step.filtered for step in steps], cut, leak, norm, whitening)
    missed = noise_missed, signal
    frozen = frozen_gains(
        steps, unwhite=unwhite, norm=norm, cut=missed, strength=least if floor.window == 1 else 0.0
    )
    unwhite += 2 * math.sqrt(1 + unwhite) * noise_missed + noise_missed**2
    size, rounds = steps[0].stage.size, len(steps)
    # Σ_s ‖o_ts‖₁ ≤ √(rT)·(Σ_s ‖o_ts‖²)^½, and the squares of all rows sum to their number times ‖Ô‖² at most.
    entries = size * rounds * sum(step.stage.count for step in steps)
    return Overall(
        unwhite=above(unwhite),
        cut=above(signal),
        plainly=plainly.by_norm(norm),
        wide=above(math.sqrt(entries)) * plainly.rows_norm(norm),
        frozen=frozen,
    )


def _whitening_norm(stages: Iterable[Stage], least: float, unwhite: float) -> float:
    """A bound of the norm of the filter as a map L from all that is seen to ν.

    With w = (I − 𝒮)⁻¹q, 𝒮 the shift by A and q the noise, ⪰ `least`·I, that is injected, y = C w has a covariance of at
    least `least`·λ_min(C Cᵀ)/(1 + ‖A‖)², and L makes I + E of it.

    Guarantee: upper bound; infinite where rows are not proved independent.
    Source: docs/proofs/programs.md, "Norms from noise".
    """
    longest, fewest = 0.0, math.inf
    for stage in stages:
        rows = np.asarray(stage.rows)
        longest = max(longest, spectral_norm(np.asarray(stage.transition)))
        gram = rows @ rows.T
        room = fine_gamma(stage.size + 2) * float((rows**2).sum())
        fewest = min(fewest, eigenvalue_ends((gram + gram.T) / 2)[0] - closely_above(room))
    if not fewest > 0:
        return math.inf
    return closely_above(1 + longest) * math.sqrt((1 + unwhite) / (least * fewest))


def _leak(steps: Sequence[FilterStep], rows: Rows, norm: float) -> float:
    """A bound of ‖𝒪fᵀ‖ from rows Ô in plain floats, ‖Ô‖ ≤ `norm`: √(largest column sum · largest row sum) of |Ôfᵀ|.

    A step puts a row o off by at most (r + m + 6)u|o|(|A| + 2|K||C|): that meets what f has let into the state. Rows
    that were dropped are lost with it.

    Guarantee: upper bound.
    """
    starts = np.cumsum([0, *(step.stage.count for step in steps)])
    across, lost, widest, added = np.zeros(starts[-1]), np.zeros(starts[-1]), 0.0, 0.0
    known: dict[int, float] = {}
    for step in steps:
        if id(step) not in known:
            known[id(step)] = float(np.linalg.norm(step.filtered.plain_slip(step.held[:, 1])))
        added += known[id(step)] ** 2
    for s, adjoint, dropped, _ in rows:
        if s < 0:
            # Nothing was let in before the first round.
            break
        factor = steps[s].stage.factor
        end = starts[s + 1] + len(adjoint)
        lost[end : end + len(dropped)] += np.abs(dropped) @ steps[s + 1].held[:, 1]
        if factor is not None:
            # The product rounds, too.
            missed = np.abs(adjoint @ factor.T)
            missed += fine_gamma(steps[s].stage.size + 2) * (np.abs(adjoint) @ np.abs(factor).T)
            across[starts[s + 1] : end] += missed.sum(axis=1)
            widest = max(widest, float(missed.sum(axis=0).max(initial=0.0)))
    seen = math.sqrt(widest * float(across.max(initial=0.0)))
    return above(seen + float(np.linalg.norm(lost)) + norm * math.sqrt(added))


def left_out(
    run: Iterable[Filtered], cut: Cut, leak: float, norm: float, whitening: float = math.inf
) -> tuple[float, float]:
    """What the cut adds to the maps from all draws, and from one node's contributions, to ν, as norms.

    ν errs by 𝒪(fᵀQ₊ᵀ + E₁ − K E₂) + X E₂ of all states s. With ‖𝒪fᵀ‖ ≤ `leak`, ‖𝒪‖ ≤ `norm`, and the norms of
    E₁, E₂ and of the maps to all Q₊ᵀs from the cut, products of norms bound it. What E₂ adds to all that is seen goes
    through the filter, X − 𝒪K, the norm of which may be known, `whitening`.

    Guarantee: upper bounds.
    """
    several = {id(each): each for each in run}.values()
    gain = max(float(np.linalg.norm(each.gain)) for each in several)
    whitener = max(float(np.linalg.norm(each.whitener)) for each in several)
    missed = norm * cut.relation + min(norm * gain + whitener, whitening) * cut.start
    drawn, given = cut.beyond
    return leak * drawn + missed * cut.drawn, leak * given + missed * cut.given


class InFloats:
    """What following rows or states in plain floats may cost, added up over the rows O_ts: see `total`.

    That is Σ_v O_tv r_v, r_v being what floats add to the state in round v: in proportion to what contributions
    make of it, with those of the round itself, exactly or in floats (see `FilterStep`). The O of whoever
    follows differs from that computed here by `turned`, and by as much more as r_v for states of size 1 makes
    of it.
    """

    def __init__(self, steps: Sequence[FilterStep]) -> None:
        """What every round shows and adds, before any row is looked at.

        Rounds that share a filter and a bound of their states share what is computed here.
        """
        starts = np.cumsum([0, *(step.stage.count for step in steps)])
        self._steps, self._starts = steps, starts
        self._lost, self._turned, added = np.zeros(starts[-1]), np.zeros(starts[-1]), 0.0
        # r_v of each round, and for states of size 1; rounds that recur with what they hold are looked at once.
        known: dict[tuple[int, int], tuple[np.ndarray, ...]] = {}
        self._slips: list[tuple[np.ndarray, ...]] = []
        for t, step in enumerate(steps):
            key = (id(step.filtered), id(step.held))
            if key not in known:
                state, filtered = step.held[:, 0] + step.stage.largest_given, step.filtered
                ones = np.ones(step.stage.size)
                known[key] = (
                    filtered.plain_slip(state),
                    filtered.plain_slip(ones),
                    filtered.plainly_shown(state),
                    filtered.plain_slip(step.held[:, -1]),
                    filtered.plainly_shown(ones),
                )
            self._slips.append(known[key])
            slip, _, shown, _, unsure = known[key]
            self._lost[starts[t] : starts[t + 1]] += shown
            self._turned[starts[t] : starts[t + 1]] += step.reach * unsure
            added += float((slip**2).sum())
        self._added = float(np.sqrt(added))

    def add(self, s: int, sizes: np.ndarray, dead: np.ndarray) -> None:
        """Count round s, the sizes of the rows O_ts being given, and those of rows that were dropped after them.

        `sizes` are |O_ts|, (rows of later rounds, states). What floats lose in the step of round s is read by them:
        once for what states may hold, once for unit disturbances.

        Guarantee: an upper bound of what this round adds to the error of each later row.
        """
        begin, end = self._starts[s + 1], self._starts[s + 1] + len(sizes)
        slip, of_ones, *_ = self._slips[s]
        self._lost[begin:end] += sizes @ slip
        self._turned[begin:end] += self._steps[s].reach * (sizes @ of_ones)
        if len(dead):
            later = self._steps[s + 1]
            state = later.held[:, 0] + later.stage.largest_given + later.reach * self._added
            self._lost[end : end + len(dead)] += dead @ state

    def let_in(self, s: int) -> np.ndarray:
        """What floats add to the state in round s, in proportion to what a `factor` has let into it.

        Guarantee: upper bounds, entry by entry.
        """
        return self._slips[s][3]

    @property
    def turned(self) -> float:
        """A bound of how far rows in floats are from exact ones, in norm, as far as rounds were counted.

        Guarantee: an upper bound for the rounds counted.
        """
        return float(np.linalg.norm(self._turned))

    def rows_norm(self, norm: float) -> float:
        """A bound of the norm of all rows in floats, ‖𝒪‖ being at most `norm`.

        These are Ô = 𝒪 + (Ô diag(ε) + diag(ε'))R, R being what disturbances make of states, ε_v what floats change Φ_v
        by, ‖ε_v‖ ≤ √r·(largest row sum), and ε'_v what they do to X C: ‖Ô‖ ≤ (‖𝒪‖ + e')/(1 − e), e² = Σ_v ‖ε_v‖²‖R_v‖².

        Guarantee: upper bound; infinite where e is not clearly below 1.
        Source: docs/proofs/programs.md, "Norms from noise".
        """
        pairs = zip(self._steps, self._slips, strict=True)
        moved = shown = 0.0
        for step, (_, ones, _, _, unsure) in pairs:
            moved += len(ones) * (step.reach * ones.max(initial=0.0)) ** 2
            shown += step.reach**2 * float((unsure**2).sum())
        off = above(math.sqrt(moved))
        return above(norm + math.sqrt(shown)) / (1 - off) if off < 0.5 else math.inf

    def by_norm(self, norm: float) -> float:
        """A bound of ‖(F̂ − F̃)c‖ for Σ‖c_t‖² ≤ 1 from ‖𝒪‖ ≤ `norm` alone, before any round is counted.

        A row may be dropped in any round, and loses at most `DEAD` times the sizes of the state that it read.

        Guarantee: upper bound.
        Source: docs/proofs/programs.md, "Norms from noise".
        """
        held = max(
            float((step.held[:, 0] + step.stage.largest_given + step.reach * self._added).sum())
            for step in {id(step): step for step in self._steps}.values()
        )
        dropped = DEAD * math.sqrt(self._starts[-1]) * held
        return above(float(np.linalg.norm(self._lost)) + self.rows_norm(norm) * self._added + dropped)

    def total(self, turned: float) -> float:
        """A bound of ‖(F̂ − F̃)c‖ for Σ‖c_t‖² ≤ 1, O being off by `turned`.

        Guarantee: upper bound.
        Source: docs/proofs/programs.md, "States that are followed in plain floats".
        """
        off = turned + self.turned
        return above(float(np.linalg.norm(self._lost)) + off * self._added)
