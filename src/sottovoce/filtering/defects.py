# SPDX-License-Identifier: Apache-2.0
"""What one step of a filter falls short of, entry by entry: in doubled precision, or in plain floats with room.

With G = [I, −K; 0, X] and Y = [A; C] P [A; C]ᵀ + [B; D][B; D]ᵀ the defect of a step is G Y Gᵀ − diag(P_{t+1}, I), whose
blocks are Δ, ΓXᵀ and X R' Xᵀ − I: Γ = (A P Cᵀ + B Dᵀ) − K R', and Δ = A P Aᵀ + B Bᵀ − (Γ + K R')Kᵀ − KΓᵀ − P_{t+1}.

Source: docs/proofs/programs.md, "How white the innovations are" and "Defects in plain floats".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering.doubled import TINY, UNIT, Doubled, add, from_left, from_right, product

if TYPE_CHECKING:
    from sottovoce.filtering.stages import Stage

__all__ = ["doubled_defect", "plain_defect"]


def doubled_defect(
    stage: Stage, P: np.ndarray, K: np.ndarray, X: np.ndarray, following: np.ndarray
) -> np.ndarray:
    """A bound of |G Y Gᵀ − diag(P_{t+1}, I)|, found in doubled precision; what that may miss is added.

    Guarantee: upper bound entry by entry, with A, C and the covariances of the noise as they are exactly.
    Source: docs/proofs/programs.md, "How white the innovations are".
    """
    size, count, both = stage.size, stage.count, stage.both
    held, noise = Doubled(high=P), stage.noise
    if noise.injected is not None:
        held = add(held, noise.injected)
    moved = product(both, from_right(held, size), size)
    seen = product(from_left(moved, size), both.T, size)
    if noise.drawn is not None:
        seen = add(seen, noise.drawn)
    answer = from_left(Doubled(high=np.vstack([-K, X])), count)
    for _ in range(2):
        # G Y, then G (G Y)ᵀ: rows of states stay, and get what the answer makes of rows that are seen.
        shown = product(answer, from_right(seen[size:, :], count), count)
        seen = add(seen[:size, :].over(count), shown).T
    aim = np.zeros((size + count, size + count))
    aim[:size, :size] = following
    aim[size:, size:] = np.eye(count)
    return 1.001 * add(seen, Doubled(high=aim), -1).sizes()


def plain_defect(
    stage: Stage, held: np.ndarray, seen: np.ndarray, K: np.ndarray, X: np.ndarray, following: np.ndarray
) -> np.ndarray:
    """The same on a Krylov space in plain floats, from `held` = fl(P + Q) and `seen` = fl(fl([A; C] held) [A; C]ᵀ).

    With b the norms of the rows of [A; C], h ≥ ‖|held|‖ and g = |G|b what floats make of G Y Gᵀ errs by at most

        ((2r + 2m + 9)u·h + e) g gᵀ,      e ≥ what Q is off by, in norm,

    entry by entry: |x|ᵀ|held||y| ≤ h‖x‖‖y‖ for all rows x and y of [A; C].

    Guarantee: upper bound entry by entry, for the stage as stored and Q as it is exactly.
    Source: docs/proofs/programs.md, "Defects in plain floats".
    """
    size, count, injected = stage.size, stage.count, stage.injected
    crossed = seen[:size, size:]
    gamma = crossed - K @ seen[size:, size:]
    found = np.empty((size + count, size + count))
    found[:size, :size] = seen[:size, :size] - crossed @ K.T - K @ gamma.T - following
    found[:size, size:] = gamma @ X.T
    found[size:, :size] = found[:size, size:].T
    found[size:, size:] = X @ seen[size:, size:] @ X.T - np.eye(count)
    found = np.abs(found)
    lengths = stage.row_lengths
    wide = lengths[:size] + np.abs(K) @ lengths[size:]
    wide = np.concatenate([wide, np.abs(X) @ lengths[size:]])
    largest = min(float(np.linalg.norm(held)), float(np.abs(held).sum(axis=1).max(initial=0.0)))
    missed = 0.0 if injected.error is None else float(np.linalg.norm(injected.error))
    share = 1.01 * (UNIT * (2 * size + 2 * count + 9) * largest + missed)
    least = TINY * (1 + float(np.abs(K).sum() + np.abs(X).sum())) ** 2
    found += np.outer(share * wide, wide) + (2 * UNIT * found + least)
    return found
