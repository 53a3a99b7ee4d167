# SPDX-License-Identifier: Apache-2.0
"""What the states of a filter may hold, from the noise that is injected into them: no state is followed for it.

The filter's error has covariance Σ_t, Σ_{t+1} = Φ_t(Σ_t + Q_t)Φ_tᵀ with Q_t ⪰ q I injected in round t. So products
of loops are bounded together by what noise makes of the state,

    Σ_s (Φ_{t−1} ⋯ Φ_s)(Φ_{t−1} ⋯ Φ_s)ᵀ ⪯ Σ_t/q,      Σ_t ⪯ (P_t + δ I)/(1 − δ/q),     δ ≥ ‖Δ_t‖ in all rounds,

and with them whatever else enters the state. Where noise reaches some directions not at all, states are followed
(`innovations`).

Source: docs/proofs/programs.md, "States from noise".
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering.rounding import fine_gamma
from sottovoce.filtering.windows import noise_floor
from sottovoce.rounding import above, closely_above

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.filtering.innovations import Filtered

__all__ = ["reached_by_noise"]

# Speed alone: where little noise says that states may hold more than this, they are followed to show that they do not;
# more where noise takes several rounds to reach every direction.
FAR, FAR_OVER_ROUNDS = 1e3, 1e4


def reached_by_noise(
    run: Sequence[Filtered], covariances: Sequence[tuple[np.ndarray, float]]
) -> list[tuple[np.ndarray, float]] | None:
    """(`held`, `reach`) of `FilterStep` for every round; None where noise is not proved to reach every direction.

    `covariances` has the diagonal of P_t before each round, and a bound of ‖P_t‖. With S = (P_t + δI)/(q − δ), β ≥
    ‖b_j‖² of all inputs, ρ² = 1 + ‖S‖, and ε ≥ ‖ε_v‖ for what floats change the loop of a round by, contributions of
    energy 1 make at most √(β S_ii) of state i and unit disturbances √(1 + S_ii), to which floats add no more than
    √(1 + S_ii)·√T·ε times the largest state.

    Guarantee: upper bounds, for states as they are exactly and as floats follow them.
    Source: docs/proofs/programs.md, "States from noise".
    """
    stages = list({id(each.stage): each.stage for each in run}.values())
    size, floor = stages[0].size, noise_floor(run)
    drift = max(
        float(each.defect[:size, :size].sum(axis=1).max(initial=0.0))
        for each in {id(each): each for each in run}.values()
    )
    if not floor.outweighs(drift):
        return None
    inputs = closely_above(
        max(float((stage.inputs_given**2).sum(axis=0).max(initial=0.0)) for stage in stages)
    )
    factors = [float(np.linalg.norm(stage.factor)) for stage in stages if stage.factor is not None]
    let_in = max(factors, default=None)
    injected = max(np.asarray(stage.injected.high).diagonal().max(initial=0.0) for stage in stages)
    norms = max(float(np.abs(stage.injected.high).sum(axis=1).max(initial=0.0)) for stage in stages)
    norm = floor.reached(max(each[1] for each in covariances), norms, drift)
    # Of all states, with what enters in their round.
    reach, largest = math.sqrt(1 + norm), math.sqrt(inputs) * (1 + math.sqrt(norm))
    slipped = math.sqrt(len(run)) * max(_slip(each) for each in {id(each): each for each in run}.values())
    if not (reach * slipped < 0.5 and reach <= (FAR if floor.window == 1 else FAR_OVER_ROUNDS)):
        return None
    # Of a loop that floats change: reach ≤ ρ/(1 − ρ√Tε), and states as much larger.
    more = 1 / (1 - reach * slipped)
    made: dict[int, tuple[np.ndarray, float]] = {}
    found = []
    for diagonal, _ in covariances:
        if id(diagonal) not in made:
            shown = floor.reached(np.maximum(diagonal, 0.0), injected, drift)
            disturbed = np.sqrt(1 + shown)
            columns = [np.sqrt(inputs * shown) + disturbed * (slipped * more * largest)]
            if let_in is not None:
                columns.append(let_in * (1 + slipped * more * reach) * disturbed)
            made[id(diagonal)] = closely_above(np.array(columns).T), closely_above(reach) * more
        found.append(made[id(diagonal)])
    return found


def _slip(filtered: Filtered) -> float:
    """ε ≥ ‖ε_v‖, |ε_v| ≤ (r + m + 6)u(|A| + 2|K||C|): what floats may change the loop of a round by.

    Guarantee: an upper bound, by Frobenius norms.
    """
    stage = filtered.stage
    A, C = (float(np.linalg.norm(part)) for part in (stage.dense_both[: stage.size], stage.rows))
    gain = float(np.linalg.norm(filtered.gain_sizes))
    return above(fine_gamma(stage.size + stage.count + 6)) * (A + 2 * gain * C)
