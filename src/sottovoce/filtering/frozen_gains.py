# SPDX-License-Identifier: Apache-2.0
"""What bounds for many targets lose where gains are frozen after some round, and where floats stand for the filter.

What hides a contribution is the noise in what is seen, N Nᵀ, and no filter changes that. So of a map 𝒴 into what is
seen, and of the noise S = L N Nᵀ Lᵀ in what a filter L makes of it,

    ‖S^{−½}L𝒴‖ = ‖(N Nᵀ)^{−½}𝒴‖      is the same for every L that can be inverted.

One filter that is nearly white, and whose norms are known, says what it is. Where 𝒴 is the map of disturbances of
states in open loop L𝒴 is 𝒪, and 𝒪𝒪ᵀ ⪯ S/q for the 𝒪 and S of every filter if it holds for one. So whatever gains are
frozen after whatever round, S ⪰ (1 − η)I for an η in proportion to what P falls by in floats, and noise may miss
directions.

The response that bounds are made from is that of A K⁺ and fl(X C) in the place of K and X C, exactly: defects, rows and
transitions of a system to which these belong differ from those that were measured by a few units of roundoff.

Freezing changes which filter is run, not what is guaranteed of it: any gains make a valid form, with what they leave
unwhitened counted.

Source: docs/proofs/programs.md, "Frozen gains".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering.innovations import innovations
from sottovoce.filtering.rounding import product_error
from sottovoce.rounding import above, gamma_above

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.filtering.innovations import Filtered, FilterStep
    from sottovoce.filtering.program_forms import ProgramResponse

__all__ = ["Defects", "Frozen", "frozen_gains", "in_full", "with_floats"]

# Speed alone: gains are kept once a round moves P by no more than this share; what that costs is counted.
SETTLED = 1e-7


@dataclass(frozen=True, kw_only=True)
class Defects:
    """Upper bounds of ‖W_t‖, ‖Δ_t‖ and ‖Γ_t X_tᵀ‖ over all rounds, δ₀, δ₁ and δ₂."""

    white: float
    drift: float
    crossed: float

    @classmethod
    def of(cls, steps: Sequence[FilterStep]) -> Defects:
        """The largest of all rounds: row sums of symmetric ones, √(‖·‖₁‖·‖_∞) of the others.

        Guarantee: upper bounds, by the sizes that were measured in each round.
        """
        white = drift = crossed = 0.0
        for each in several(steps):
            size, found = each.stage.size, each.defect
            white = max(white, float(found[size:, size:].sum(axis=1).max(initial=0.0)))
            drift = max(drift, float(found[:size, :size].sum(axis=1).max(initial=0.0)))
            cross = found[:size, size:]
            largest = cross.sum(axis=0).max(initial=0.0) * cross.sum(axis=1).max(initial=0.0)
            crossed = max(crossed, float(np.sqrt(largest)))
        return cls(white=white, drift=drift, crossed=crossed)

    def unwhite(self, norm: float) -> float:
        """δ₀ + h²δ₁ + 2hδ₂: what they make of the covariance of ν, ‖𝒪‖ being at most h = `norm`.

        Guarantee: an upper bound of ‖S − I‖ where the defects are.
        """
        return self.white + norm * norm * self.drift + 2 * norm * self.crossed


@dataclass(frozen=True, kw_only=True)
class Frozen:
    """What gains cost that are frozen after any round, F̂ being their response with A K⁺ and fl(X C) for K and X C.

    √(cᵀMc) ≤ (‖F̂c‖ + `beside`)/√(1 − `short`) for all streams with Σ‖c_t‖² ≤ 1.
    """

    short: float
    beside: float


def frozen_gains(
    steps: Sequence[FilterStep],
    *,
    unwhite: float,
    norm: float,
    cut: tuple[float, float],
    strength: float = 0.0,
) -> Frozen:
    """The costs, from a filter whose noise is white within η_w = `unwhite` and whose 𝒪 has at most this `norm`.

    `cut` is what a Krylov space adds to the maps from all draws and from contributions to ν, as norms. With δ of
    `Defects` for A K⁺ and fl(X C), φ the largest `fall`, and 1/q = ‖𝒪‖²/(1 − η_w), or a q known of all filters,

        η = δ₀ + (φ + δ₁)/q + 2δ₂/√q,      `short` = max(η, η_w) + 2(n₁ + n₂),

    n₁ being what the cut adds and n₂ what the floats in the place of K and X C do.

    Guarantee: that of `Frozen`, for steps whose rounds are alike and whose falls were looked at; infinite elsewhere.
    Source: docs/proofs/programs.md, "Frozen gains".
    """
    measured = Defects.of(steps)
    if not (measured.white < 0.5 and unwhite < 0.5 and math.isfinite(norm)):
        return Frozen(short=math.inf, beside=math.inf)
    floats = _InFloats.of(steps, measured)
    defects = floats.defects
    white = unwhite + defects.unwhite(norm) - measured.unwhite(norm)
    if not white < 0.5:
        return Frozen(short=math.inf, beside=math.inf)
    inverse = 1 / strength if strength > 0 else norm * norm / (1 - white)
    fall = max(step.fall for step in steps)
    short = defects.white + (fall + defects.drift) * inverse + 2 * defects.crossed * math.sqrt(inverse)
    drawn, given = floats.beside(steps, norm)
    return Frozen(
        short=above(max(short, white) + 2 * (cut[0] + drawn)),
        beside=above(cut[1] + given),
    )


def in_full(response: ProgramResponse) -> ProgramResponse:
    """The response of an observer who sees in all rounds what the first shows; rounds are alike there.

    Guarantee: M is at least that of the response where what it sees in its last rounds is part of that.
    """
    first, steps = response.steps[0].stage, response.steps
    if all(step.stage is first for step in steps):
        return response
    return replace(response, steps=innovations([first] * len(steps), settled_at=SETTLED, plainly=True))


def with_floats(steps: Sequence[FilterStep]) -> Defects:
    """The defects of the filter with A K⁺ and fl(X C) for K and X C, and of the filter itself.

    Guarantee: upper bounds of both.
    """
    return _InFloats.of(steps, Defects.of(steps)).defects


@dataclass(frozen=True, kw_only=True)
class _InFloats:
    """How far A K⁺ and fl(X C) are from K and X C.

    `rows` bounds ‖C' − C‖ for the C' with X C' = fl(X C), and `defects` are those of the filter with both. `spread`
    bounds ‖P_t + Q_t‖, ‖P_{t+1} + Δ_t‖ and the covariances of errors of states, `gain` ‖A K⁺‖ and `whitener` ‖X‖.
    """

    defects: Defects
    rows: float
    spread: float
    gain: float
    whitener: float

    @classmethod
    def of(cls, steps: Sequence[FilterStep], measured: Defects) -> _InFloats:
        """From the sizes of all gains and rows.

        Guarantee: upper bounds, ε = `loop` and e = `off` being those of ‖(K − A K⁺)C‖ and ‖fl(X C) − X C‖.
        Source: docs/proofs/programs.md, "Frozen gains".
        """
        run = several(steps)
        stages = {id(each.stage): each.stage for each in run}.values()
        seen = max(float(np.linalg.norm(np.asarray(stage.rows))) for stage in stages)
        noise = max(float(np.abs(stage.injected.high).sum(axis=1).max(initial=0.0)) for stage in stages)
        drift = measured.drift * (1 + max(step.reach for step in steps) ** 2)
        p = above(max(step.variance for step in steps) + noise + drift)
        gain = above(max(float(np.linalg.norm(each.gain_sizes)) for each in run))
        loop = gamma_above(run[0].stage.size + 2) * gain * seen
        off = above(
            max(
                product_error(each.stage.count + 1, each.whitener, np.asarray(each.stage.rows))
                for each in run
            )
        )
        shown = math.sqrt(p * (1 + measured.white))
        return cls(
            defects=Defects(
                white=measured.white + 2 * off * shown + off * off * p,
                drift=measured.drift + (2 * loop + loop * loop) * p,
                crossed=measured.crossed + loop * shown + (off + loop * off) * p,
            ),
            rows=above(off) * max(map(_inverse_norm, run)),
            spread=p,
            gain=gain,
            whitener=above(max(float(np.linalg.norm(each.whitener)) for each in run)),
        )

    def beside(self, steps: Sequence[FilterStep], norm: float) -> tuple[float, float]:
        """What rows C' and transitions A + A K⁺(C' − C) add to the maps from draws and from contributions to ν.

        Errors of states meet them: of T rounds √T·√(their covariance) at most in one, and what contributions make of
        states in the other; estimates of states are known.

        Guarantee: upper bounds.
        """
        passed = (2 * norm * self.gain + self.whitener) * self.rows
        held = sum(float(((step.held[:, 0] + step.stage.largest_given) ** 2).sum()) for step in steps)
        return passed * math.sqrt(len(steps) * self.spread), passed * math.sqrt(held)


def several(steps: Sequence[FilterStep]) -> list[Filtered]:
    """The steps of the filter that differ."""
    return list({id(step.filtered): step.filtered for step in steps}.values())


def _inverse_norm(each: Filtered) -> float:
    """‖X⁻¹‖ from above: ‖Y‖/(1 − ‖I − YX‖) for a Y that is about X⁻¹; infinite where that is none.

    Guarantee: an upper bound, the rounding of Y X included: X⁻¹ = (I − E)⁻¹Y with E = I − YX, and ‖E‖ < 1/2 is asked
    for.
    """
    try:
        guess = np.linalg.inv(each.whitener)
    except np.linalg.LinAlgError:
        return math.inf
    missed = float(np.linalg.norm(guess @ each.whitener - np.eye(len(guess))))
    missed += product_error(len(guess) + 2, guess, each.whitener)
    return above(float(np.linalg.norm(guess))) / (1 - missed) if missed < 0.5 else math.inf
