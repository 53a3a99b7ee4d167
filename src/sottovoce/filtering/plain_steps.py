# SPDX-License-Identifier: Apache-2.0
"""The Kalman filter of a view of a program in plain floats, for forms that are put together block by block.

What a step falls short of is bounded before it is known (`Unsure`), so that nothing is formed but what the filter
needs; small steps, and those that are taken for good, are measured in doubled precision.

Soundness: the bounds of `Filtered`. Speed: when steps recur.
Source: docs/proofs/programs.md, "Steps in plain floats".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering.defects import Unsure, doubled_defect
from sottovoce.filtering.innovations import Filtered, inverse_root, run_over, settled_or
from sottovoce.filtering.slabs import from_either_side

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.filtering.stages import Stage

__all__ = ["filtered_plainly"]

# Speed alone: where what rows show has settled, and rounds are all alike, P may still move by so many times the share,
# in what they hardly show.
LOOSER = 2.0**12
# Speed alone: defects of so few states are found in doubled precision, which takes next to nothing.
SMALL = 48


def filtered_plainly(stages: Sequence[Stage], *, period: int, settled_at: float) -> list[Filtered]:
    """The filter over all rounds in plain floats, with what these leave open.

    Steps recur as in `innovations`, once a `period` moves what rows show by no more than a share `settled_at` of its
    variance.

    Guarantee: that of `Filtered`.
    Source: docs/proofs/programs.md, "Defects in plain floats".
    """
    return [each.filtered for each in run_over(stages, period, settled_at, step=_filtered)]


def _filtered(
    stage: Stage, P: np.ndarray, aim: np.ndarray | None, settled_at: float
) -> tuple[Filtered, np.ndarray]:
    """One step of the filter, and the next covariance: the `aim` where rows show no more of what it differs by.

        Y₁₂ = A Z Cᵀ + B Dᵀ,  R = C Z Cᵀ + D Dᵀ,  K = Y₁₂XᵀX,  P' = Φ Z Φᵀ + (B − K D)(B − K D)ᵀ,  Φ = A − K C,

    Z being P, or P + Q where noise is injected. Whatever K is, this P' is right for it, and Φ is small where A is not.

    Guarantee: plain floats; what they leave of the identities is bounded by `Unsure`.
    Source: Bucy & Joseph, *Filtering for Stochastic Processes*, for this form of the covariance.
    """
    size, both, injected, drawn = stage.size, stage.dense_both, stage.noise.injected, stage.noise.whole
    held = P if injected is None else P + np.asarray(injected.high)
    C = both[size:, : stage.read_width]
    moved = C @ held[: stage.read_width]
    seen = np.vstack([both[:size] @ moved.T, moved[:, : stage.read_width] @ C.T])
    if drawn is not None:
        seen += drawn[:, size:]
    seen[size:] = (seen[size:] + seen[size:].T) / 2
    X = inverse_root(seen[size:])
    K = (seen[:size] @ X.T) @ X
    unsure = Unsure(stage, held, seen, K, X)
    following = from_either_side(unsure.loop, stage.loop_slabs, held)
    if drawn is not None:
        taken = drawn[:size] - K @ drawn[size:]
        taken = taken[:, :size] - taken[:, size:] @ K.T
        following += (taken + taken.T) / 2
    settled = settled_or(stage, P, following, aim, settled_at * (LOOSER if aim is P else 1))
    if settled is aim and _shown_apart(stage, X, following, settled) > settled_at:
        settled = following
    variances = np.diagonal(P).copy()
    if settled is aim or size <= SMALL:
        # Steps that are taken for good are worth a closer look, and so are small ones.
        defect = doubled_defect(stage, P, K, X, settled)
        return Filtered(stage=stage, gain=K, whitener=X, defect=defect, variances=variances), settled
    nothing = np.zeros((size + stage.count, 0))
    return Filtered(
        stage=stage, gain=K, whitener=X, defect=nothing, unsure=unsure, variances=variances
    ), settled


def _shown_apart(stage: Stage, X: np.ndarray, one: np.ndarray, other: np.ndarray) -> float:
    """How far apart two covariances are in what rows show of them, in units of its variance. Speed alone."""
    wide = stage.read_width
    rows = X @ stage.dense_both[stage.size :, :wide]
    return float(np.linalg.norm(rows @ (one - other)[:wide, :wide] @ rows.T))
