# SPDX-License-Identifier: Apache-2.0
"""What one step of a filter falls short of, entry by entry: in doubled precision, or in plain floats with room.

With G = [I, −K; 0, X] and Y = [A; C] P [A; C]ᵀ + [B; D][B; D]ᵀ the defect of a step is G Y Gᵀ − diag(P_{t+1}, I), whose
blocks are Δ, ΓXᵀ and X R' Xᵀ − I: Γ = (A P Cᵀ + B Dᵀ) − K R', and Δ = A P Aᵀ + B Bᵀ − (Γ + K R')Kᵀ − KΓᵀ − P_{t+1}.

Source: docs/proofs/programs.md, "How white the innovations are" and "Defects in plain floats".
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sottovoce.filtering.doubled import TINY, UNIT, Doubled, add, from_left, from_right, product

if TYPE_CHECKING:
    from sottovoce.filtering.stages import Stage

__all__ = ["Unsure", "computed_defect", "doubled_defect", "plain_defect"]


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
    """The same on a Krylov space in plain floats: see `computed_defect` for what is given.

    With b the norms of the rows of [A; C], h ≥ ‖|held|‖ and g = |G|b what floats make of G Y Gᵀ errs by at most

        ((2r + 2m + 13)u·h + e) g gᵀ,      e ≥ what Q is off by, in norm,

    entry by entry: |x|ᵀ|held||y| ≤ h‖x‖‖y‖ for all rows x and y of [A; C].

    Guarantee: upper bound entry by entry, for the stage as stored and Q as it is exactly.
    Source: docs/proofs/programs.md, "Defects in plain floats".
    """
    found = computed_defect(stage, seen, K, X, following)
    wide = _answered(K, X, stage.row_lengths)
    largest = min(float(np.linalg.norm(held)), float(np.abs(held).sum(axis=1).max(initial=0.0)))
    injected = stage.injected
    missed = 0.0 if injected.error is None else float(np.linalg.norm(injected.error))
    share = 1.01 * (UNIT * (2 * stage.size + 2 * stage.count + 13) * largest + missed)
    found += np.outer(share * wide, wide)
    return found


def computed_defect(
    stage: Stage, seen: np.ndarray, K: np.ndarray, X: np.ndarray, following: np.ndarray
) -> np.ndarray:
    """The sizes of the defect as floats have it, from `seen` = fl(fl([A; C] held) [A; C]ᵀ).

    `held` is P, or fl(P + Q) where noise is injected; where it is drawn, its covariance was added to `seen`.

    Guarantee: the true defect is within `Unsure` of it.
    """
    size, count = stage.size, stage.count
    crossed = seen[:size, size:]
    gamma = crossed - K @ seen[size:, size:]
    found = np.empty((size + count, size + count))
    found[:size, :size] = seen[:size, :size] - crossed @ K.T - K @ gamma.T - following
    found[:size, size:] = gamma @ X.T
    found[size:, :size] = found[:size, size:].T
    found[size:, size:] = X @ seen[size:, size:] @ X.T - np.eye(count)
    np.abs(found, out=found)
    found *= 1 + 2 * UNIT
    found += TINY * (1 + float(np.abs(K).sum() + np.abs(X).sum())) ** 2
    return found


class Unsure:
    """What plain floats leave open of the defect of a step, read by sizes: xᵀ|error|y for x and y as they come.

    With n² the variances of what is drawn into each row, Y is off by at most (2k + 4)u|B||held||B|ᵀ + 2u n nᵀ, B = [A;
    C] with at most k entries in a row, G Y Gᵀ is formed with 2m + 5 roundings more, and the noise as stored is off by
    e v vᵀ.

    Guarantee: upper bounds of what rounding did, for A, C and the covariances of the noise as they are exactly.
    Source: docs/proofs/programs.md, "Defects in plain floats".
    """

    def __init__(self, stage: Stage, held: np.ndarray, K: np.ndarray, X: np.ndarray) -> None:
        """Take the sizes of a step: `held` has those of P, or of P + Q where noise is injected."""
        self._stage, self._held = stage, held
        self._gain, self._whitener = np.abs(K), np.abs(X)
        noise = stage.noise
        drawn = np.zeros(stage.size + stage.count)
        if noise.whole is not None:
            drawn = np.sqrt(np.maximum(np.diagonal(noise.whole), 0.0))
        self._drawn = drawn
        self._units = 1.01 * UNIT * (2 * max(stage.terms) + 2 * stage.count + 13)
        self._missed, self._entering = _unknown(stage)
        self._shown = self._read(np.zeros(stage.size), np.ones(stage.count))

    def drift(self, sizes: np.ndarray) -> tuple[float, float]:
        """xᵀ|error of Δ|x, and Σ_ij x_i|error of ΓXᵀ|_ij, for `sizes` x of states."""
        one, other = self._read(sizes, np.zeros(self._stage.count)), self._shown
        return self._product(one, one), self._product(one, other)

    @cached_property
    def white(self) -> float:
        """The largest row sum of |error of X R' Xᵀ − I|, or more: the sum of all of it."""
        return self._product(self._shown, self._shown)

    def _read(self, states: np.ndarray, shown: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float]:
        """|B|ᵀ|G|ᵀx, |held| times that, and what x reads of the noise that is drawn and of what it is off by."""
        rows = np.concatenate([states, self._gain.T @ states + self._whitener.T @ shown])
        read = rows @ self._stage.dense_sizes
        return read, self._held @ read, float(rows @ self._drawn), float(rows @ self._entering)

    def _product(
        self,
        one: tuple[np.ndarray, np.ndarray, float, float],
        other: tuple[np.ndarray, np.ndarray, float, float],
    ) -> float:
        """What the errors make of two that were read."""
        rounded = float(one[0] @ other[1]) + one[2] * other[2]
        return 1.01 * (self._units * rounded + self._missed * one[3] * other[3])


def _answered(K: np.ndarray, X: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """|G| times sizes, G = [I, −K; 0, X]."""
    size = len(K)
    return np.concatenate([sizes[:size] + np.abs(K) @ sizes[size:], np.abs(X) @ sizes[size:]])


def _unknown(stage: Stage) -> tuple[float, np.ndarray]:
    """(e, v): the covariances of the noise as stored are off by at most e v vᵀ in Y, entry by entry."""
    noise = stage.noise.injected or stage.noise.drawn
    if noise is None or noise.error is None:
        return 0.0, stage.row_lengths
    if stage.noise.injected is not None:
        return float(np.linalg.norm(noise.error)), stage.row_lengths
    return float(noise.error.max(initial=0.0)), np.ones(stage.size + stage.count)
