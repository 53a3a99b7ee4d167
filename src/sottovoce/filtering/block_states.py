# SPDX-License-Identifier: Apache-2.0
"""What states may hold, entry by entry, of contributions and of disturbances: for the allowances of forms in blocks.

Where contributions enter with noise, v_j v_jᵀ ⪯ κ_j²(N + τI), N being the covariance of what is drawn and v_j what
node j puts in, their states are no larger than κ_j times those that noise makes, whose covariance is the P that the
filter has followed, but for its defects. Elsewhere all contributions are followed beside unit disturbances.

Soundness: upper bounds, rounding included. Speed: how long disturbances are followed in full.
Source: docs/proofs/blocks.md, "States".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering.rounding import is_above
from sottovoce.filtering.slabs import from_either_side
from sottovoce.rounding import TINY, above, barely_above, gamma, gamma_above, twice_above

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sottovoce.filtering.innovations import Filtered

__all__ = ["States", "states_of"]

# Speed alone: noise hides contributions if κ² of most nodes is at most this.
HIDDEN = 1e4
# Speed alone: ε, the share of unit disturbances that are followed beside contributions.
SHARE = 2.0**-10
# Speed alone: what is followed is kept once a round adds no more than this share, while gains move it by no more than
# as much again; contributions are followed more closely than disturbances alone.
GROWN, CLOSELY = 0.04, 0.004
# Speed alone: gains that moved by no more than this share since the round before are worth such a proof.
NEAR = 1e-3


@dataclass(frozen=True, kw_only=True, eq=False)
class States:
    """What states before each round may hold.

    Contributions of node j with Σ‖c_t‖² ≤ 1 make states whose entries are at most κ_j·`held`, κ = `hidden`; unit
    disturbances of all rounds together, and of the state before the first, such of norm at most `reach`.

    Guarantee: upper bounds, for the exact loops of the floats K.
    Source: docs/proofs/blocks.md, "States".
    """

    hidden: np.ndarray
    reach: float
    squares: dict[int, np.ndarray]

    def held(self, filtered: Filtered) -> np.ndarray:
        """Bounds of the entries of states before a round of this kind.

        Guarantee: upper bounds for contributions of energy 1, up to the factor `hidden` of their node.
        """
        return np.asarray(above(np.sqrt(self.squares[id(filtered)])))


def states_of(run: Sequence[Filtered]) -> States:
    """What states of a filter may hold, from the noise where that hides contributions, else followed round by round.

    Guarantee: that of `States`.
    """
    kinds = {id(each): each for each in run}
    stages = {id(each.stage): each.stage for each in run}.values()
    hidden = np.max([stage.hidden[0] for stage in stages], axis=0)
    if not np.median(hidden) <= HIDDEN:
        grown, most = _grown(run, SHARE, contributed=True)
        return States(hidden=np.ones(len(hidden)), reach=math.sqrt(most) / SHARE, squares=grown)
    _, most = _grown(run, 1.0, contributed=False)
    unsure = float(np.max([stage.hidden[1] for stage in stages]))
    # Σ_t = P_t + Θ_t, and what v_j lacks of being noise: both are disturbances.
    added = float(
        np.max(
            [each.drift_norm + unsure * (1 + _size(each.gain) * _size(each.gain)) for each in kinds.values()]
        )
    )
    squares = {key: _variances(each) + above(added) * most for key, each in kinds.items()}
    return States(hidden=above(np.sqrt(hidden)), reach=math.sqrt(most), squares=squares)


def _variances(filtered: Filtered) -> np.ndarray:
    """The diagonal of P before a round; infinite where it was not kept."""
    if filtered.variances is None:
        return np.full(filtered.stage.size, np.inf)
    return np.asarray(np.maximum(filtered.variances, 0.0))


def _grown(
    run: Sequence[Filtered], share: float, *, contributed: bool
) -> tuple[dict[int, np.ndarray], float]:
    """Diagonals of U_t for each kind of round, the largest of its rounds, and a bound of all ‖U_t‖.

    U_{t+1} ⪰ Φ_t U_t Φ_tᵀ + J_t, J_t = ε² I + Σ_j b̃_j b̃_jᵀ or ε² I alone, and U_1 = ε² I; as much of I is added as
    rounding may have taken off. Let Φ U Φᵀ + J ⪯ (1 + ν)U have been proved for one round, U = L Lᵀ ⪰ ε² I. A later
    round with gains K + δ has L⁻¹[Φ L, J^½] off by at most s = ‖δ‖(‖C L‖ + ‖D_0‖)/ε, so that U grows to no more than
    (√(1 + ν) + s)² U, and so on.

    Guarantee: upper bounds.
    Source: docs/proofs/blocks.md, "States".
    """
    size, limit = run[0].stage.size, CLOSELY if contributed else GROWN
    U, factor = share**2 * np.eye(size), 1.0
    diagonal, norm, largest = np.diagonal(U).copy(), share**2, share**2
    found: dict[int, np.ndarray] = {}
    known: dict[int, tuple[Filtered, float]] = {}
    last: dict[int, np.ndarray] = {}
    for each in run:
        now, stage = factor * diagonal, each.stage
        found[id(each)] = np.maximum(found.get(id(each), now), now)
        largest = float(np.maximum(largest, factor * norm))
        if not math.isfinite(largest):
            break
        if id(stage) in known:
            one, read = known[id(stage)]
            apart = above(float(np.linalg.norm(each.gain - one.gain))) * read / share
            if apart <= limit:
                factor *= barely_above((math.sqrt(1 + limit) + apart) ** 2)
                continue
        following, off = _followed(each, U, share, contributed=contributed)
        near = id(stage) in last and _is_near(each.gain, last[id(stage)])
        last[id(stage)] = each.gain
        if near and is_above((1 + limit) * U - following, off + gamma(8) * (_size(following) + _size(U))):
            known[id(stage)] = each, _reading(each, U, contributed=contributed)
            factor *= barely_above(1 + limit)
            continue
        following.flat[:: size + 1] += off
        U, factor = barely_above(factor) * following, 1.0
        known.clear()
        diagonal, norm = np.diagonal(U).copy(), above(float(np.abs(U).sum(axis=1).max(initial=0.0)))
    largest = above(float(np.maximum(largest, factor * norm)))
    if not math.isfinite(largest):
        found, largest = {id(each): np.full(size, np.inf) for each in run}, math.inf
    return found, largest


def _size(matrix: np.ndarray) -> float:
    """‖X‖_F."""
    return float(np.linalg.norm(matrix))


def _is_near(gain: np.ndarray, last: np.ndarray) -> bool:
    """Whether gains have nearly settled. Speed alone."""
    return float(np.linalg.norm(gain - last)) <= NEAR * float(np.linalg.norm(gain))


def _reading(filtered: Filtered, U: np.ndarray, *, contributed: bool) -> float:
    """A bound of ‖C L‖ with U = L Lᵀ, and of ‖D_0‖ beside it."""
    stage = filtered.stage
    C = stage.dense_both[stage.size :]
    norms = float(np.linalg.norm(C)) ** 2 * float(np.linalg.norm(U))
    read = float(np.abs((C @ U) @ C.T).sum(axis=1).max(initial=0.0)) + gamma(2 * stage.size + 4) * norms
    return above(math.sqrt(read) + (stage.all_contributions[2] if contributed else 0.0))


def _followed(
    filtered: Filtered, U: np.ndarray, share: float, *, contributed: bool
) -> tuple[np.ndarray, float]:
    """Φ U Φᵀ + J in floats, and what it may be off by in norm."""
    stage, loop = filtered.stage, filtered.plain_loop
    size, count, both = stage.size, stage.count, stage.dense_both
    gain = above(float(np.linalg.norm(filtered.gain)))
    wide = above(float(np.linalg.norm(loop)))
    formed = float(np.linalg.norm(both[:size])) + gain * float(np.linalg.norm(both[size:]))
    step = 2 * wide * (gamma(count + 4) * formed + gamma(size + 2) * wide)
    off = twice_above(step) * (float(np.linalg.norm(U)) + TINY)
    following = from_either_side(loop, stage.loop_slabs, U)
    if contributed:
        gram, into, seen = stage.all_contributions
        taken = gram[:size] - filtered.gain @ gram[size:]
        more = taken[:, :size] - taken[:, size:] @ filtered.gain.T
        # Slabs take their factor for symmetric.
        following += (more + more.T) / 2
        reach = into + gain * seen
        off += gamma_above(stage.inputs + 2 * (size + count) + 12) * reach * reach
    following.flat[:: size + 1] += share**2
    return following, off + gamma(4) * float(np.linalg.norm(following))
